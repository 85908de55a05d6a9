// Calls that must fail: what each returned, and whether it left its outputs
// alone. Collected without assertions, so that a whole batch can run with
// stdout and stderr captured.
#ifndef FFNORM_TESTS_OUTCOME_H_
#define FFNORM_TESTS_OUTCOME_H_

#include <stddef.h>
#include <string.h>

#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "tests/buffers.h"
#include "tests/test_util.h"

#if defined(__unix__) || defined(__APPLE__)
#define FFNORM_TESTS_HAVE_DUP 1
#include <unistd.h>
#else
#define FFNORM_TESTS_HAVE_DUP 0
#endif

namespace ffnorm {
namespace test {

struct Outcome {
  std::string what;
  ffnorm_status want;
  ffnorm_status got;
  bool untouched;
};

using Outcomes = std::vector<Outcome>;

inline void CheckOutcomes(const Outcomes& outcomes) {
  REQUIRE(!outcomes.empty());
  for (const Outcome& outcome : outcomes) {
    CAPTURE(outcome.what);
    CHECK(outcome.got == outcome.want);
    CHECK(outcome.untouched);
  }
}

// A copy of memory, to tell later whether it has changed.
class Snapshot {
 public:
  Snapshot(const void* memory, size_t bytes)
      : memory_(static_cast<const unsigned char*>(memory)),
        copy_(Copy(bytes)) {}

  bool Unchanged() const { return Copy(copy_.size()) == copy_; }

 private:
  std::vector<unsigned char> Copy(size_t bytes) const {
    std::vector<unsigned char> copy(memory_, memory_ + bytes);
    FFNORM_TESTS_INITIALIZED(copy.data(), bytes);
    return copy;
  }

  const unsigned char* memory_;
  std::vector<unsigned char> copy_;
};

// An enumerator that the header does not have, as C programs can pass it.
template <typename Enum>
Enum Enumerator(int value) {
  static_assert(sizeof(Enum) == sizeof(int), "an enum of C");
  Enum result;
  memcpy(&result, &value, sizeof(result));
  return result;
}

#if FFNORM_TESTS_HAVE_DUP
// How many bytes `fn` writes to stdout and stderr together.
template <class Function>
long BytesPrinted(const Function& fn) {
  std::FILE* file = std::tmpfile();
  REQUIRE(file != nullptr);
  std::fflush(stdout);
  std::fflush(stderr);
  const int saved_out = dup(1);
  const int saved_err = dup(2);
  dup2(fileno(file), 1);
  dup2(fileno(file), 2);
  fn();
  std::fflush(stdout);
  std::fflush(stderr);
  dup2(saved_out, 1);
  dup2(saved_err, 2);
  close(saved_out);
  close(saved_err);
  std::fseek(file, 0, SEEK_END);
  const long bytes = std::ftell(file);
  std::fclose(file);
  return bytes;
}
#endif

}  // namespace test
}  // namespace ffnorm

#endif  // FFNORM_TESTS_OUTCOME_H_
