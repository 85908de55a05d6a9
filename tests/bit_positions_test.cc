// Positions of the bits of a mask, which lists of active units are made of.
#include <doctest/doctest.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <vector>

#include "kernels/bits.h"
#include "tests/random_data.h"

namespace ffnorm {
namespace test {
namespace {

void CheckPositions(uint64_t word, size_t first) {
  std::vector<uint8_t> want;
  for (size_t bit = 0; bit < 64; ++bit) {
    if ((word >> bit & 1) != 0) {
      want.push_back(static_cast<uint8_t>(first + bit));
    }
  }
  constexpr uint8_t kUntouched = 0xee;
  uint8_t got[72];
  memset(got, kUntouched, sizeof(got));
  const size_t count = BitPositions(word, first, got);
  REQUIRE(count == want.size());
  CHECK(CountBits(word) == want.size());
  CHECK(std::vector<uint8_t>(got, got + count) == want);
  for (size_t i = 64; i < sizeof(got); ++i) CHECK(got[i] == kUntouched);
}

}  // namespace

TEST_SUITE("bit_positions") {
  TEST_CASE("none, all, each alone, all but one") {
    for (const size_t first : {0, 64, 192}) {
      CAPTURE(first);
      CheckPositions(0, first);
      CheckPositions(~uint64_t{0}, first);
      for (size_t bit = 0; bit < 64; ++bit) {
        CheckPositions(uint64_t{1} << bit, first);
        CheckPositions(~(uint64_t{1} << bit), first);
      }
    }
  }

  TEST_CASE("every byte, at every place") {
    for (uint64_t byte = 0; byte < 256; ++byte) {
      for (size_t place = 0; place < 64; place += 8) {
        CheckPositions(byte << place, 64);
      }
    }
  }

  TEST_CASE("random words") {
    Random random(3);
    for (size_t i = 0; i < 1000; ++i) {
      const uint64_t high = random.Below(uint64_t{1} << 32);
      CheckPositions(high << 32 | random.Below(uint64_t{1} << 32), 0);
    }
  }
}

}  // namespace test
}  // namespace ffnorm
