// What every test needs: the loop over targets, comparison of bits, and the
// sizes at which vector code tends to go wrong.
#ifndef FFNORM_TESTS_TEST_UTIL_H_
#define FFNORM_TESTS_TEST_UTIL_H_

#include <doctest/doctest.h>
#include <stddef.h>
#include <stdint.h>

#include <string>
#include <vector>

#include "ffnorm/ffnorm.h"
#include "tests/bits.h"

// Failed comparisons of a status print its text instead of a number.
namespace doctest {
template <>
struct StringMaker<ffnorm_status> {
  static String convert(ffnorm_status status) {
    return ffnorm_status_string(status);
  }
};
}  // namespace doctest

namespace ffnorm {
namespace test {

// The targets that this run covers: all that build and CPU have, or the one
// that `--target=NAME` or the environment variable FFNORM_TEST_TARGET names.
// Defined in main.cc.
const std::vector<const ffnorm_target*>& TargetsUnderTest();

// How many times ForEachTarget has called its function. Defined in main.cc.
size_t& TargetRuns();

inline std::string TargetName(const ffnorm_target* target) {
  const char* name = ffnorm_target_name(target);
  return name == nullptr ? std::string("(none)") : std::string(name);
}

// Calls fn(target) for each target under test; fails if there are none.
template <class Function>
void ForEachTarget(const Function& fn) {
  const std::vector<const ffnorm_target*>& targets = TargetsUnderTest();
  REQUIRE(!targets.empty());
  for (const ffnorm_target* target : targets) {
    const std::string name = TargetName(target);
    INFO("target ", name);
    ++TargetRuns();
    fn(target);
  }
}

// Opens the packed block for this target and asserts that it is this target
// that will run.
inline ffnorm_block OpenedOn(const void* memory, size_t bytes,
                             const ffnorm_target* target) {
  ffnorm_block block = {};
  REQUIRE(ffnorm_open(memory, bytes, target, &block) == FFNORM_OK);
  REQUIRE(block.target == target);
  return block;
}

// Compares two (rows, cols) matrices as SameBits does. However large they are,
// this is one assertion, and its message names the first mismatch.
inline void CheckSameBits(size_t rows, size_t cols, const float* got,
                          size_t got_stride, const float* want,
                          size_t want_stride) {
  size_t mismatches = 0;
  std::string first;
  for (size_t r = 0; r < rows; ++r) {
    const float* g = got + r * got_stride;
    const float* w = want + r * want_stride;
    for (size_t c = 0; c < cols; ++c) {
      if (SameBits(g[c], w[c])) continue;
      if (mismatches++ == 0) {
        first = "row " + std::to_string(r) + " column " + std::to_string(c) +
                ": got " + Describe(g[c]) + ", want " + Describe(w[c]);
      }
    }
  }
  INFO("first mismatch of ", mismatches, " in (", rows, ", ", cols,
       "): ", first);
  CHECK(mismatches == 0);
}

inline void CheckSameBits(const std::vector<float>& got,
                          const std::vector<float>& want) {
  REQUIRE(got.size() == want.size());
  CheckSameBits(1, got.size(), got.data(), got.size(), want.data(),
                want.size());
}

// ---- Sizes

// Around the vector widths of all targets.
inline std::vector<size_t> TinySizes() {
  return {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33};
}

// TinySizes, and around panels, lanes and K blocks.
inline std::vector<size_t> Sizes() {
  std::vector<size_t> sizes = TinySizes();
  for (size_t s : {63, 64, 65, 127, 128, 129, 255, 256, 257, 511, 512, 513}) {
    sizes.push_back(s);
  }
  return sizes;
}

}  // namespace test
}  // namespace ffnorm

#endif  // FFNORM_TESTS_TEST_UTIL_H_
