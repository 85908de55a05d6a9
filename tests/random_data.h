// Deterministic test data: the same on every machine and compiler.
#ifndef FFNORM_TESTS_RANDOM_DATA_H_
#define FFNORM_TESTS_RANDOM_DATA_H_

#include <stddef.h>
#include <stdint.h>

#include <cmath>
#include <string>
#include <vector>

#include "tests/bits.h"

namespace ffnorm {
namespace test {

// splitmix64.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  uint64_t Next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }

  // In [0, bound).
  size_t Below(size_t bound) { return static_cast<size_t>(Next() % bound); }

  // In [0, 1).
  double Uniform() {
    return static_cast<double>(Next() >> 11) * (1.0 / 9007199254740992.0);
  }

  // Close to normal, mean 0 and variance 1: the sum of four uniforms, which,
  // unlike log and cos, has the same bits everywhere.
  float Gaussian() {
    const uint64_t a = Next();
    const uint64_t b = Next();
    const uint64_t sum =
        (a >> 32) + (a & 0xffffffffu) + (b >> 32) + (b & 0xffffffffu);
    const double centred = static_cast<double>(sum) / 4294967296.0 - 2.0;
    return static_cast<float>(centred * 1.7320508075688772);
  }

  // Any finite float: all exponents, zeros and denormals are likely.
  float AnyFinite() {
    for (;;) {
      const float value = FromBits(static_cast<uint32_t>(Next()));
      if (std::isfinite(value)) return value;
    }
  }

  float Sign() { return (Next() & 1) != 0 ? -1.0f : 1.0f; }

 private:
  uint64_t state_;
};

enum class Mode {
  kGaussian,
  kIntegers,    // -3..3: sums of products stay exact, in both layers as well
  kCancelling,  // large terms of alternating sign plus a small one
  kHuge,        // up to FLT_MAX: sums and products overflow
  kTiny,        // denormals
  kOffset,      // a large base plus a small spread
  kSparse,      // mostly zeros, of both signs
};

constexpr Mode kAllModes[] = {
    Mode::kGaussian, Mode::kIntegers, Mode::kCancelling, Mode::kHuge,
    Mode::kTiny,     Mode::kOffset,   Mode::kSparse};

inline std::string ModeName(Mode mode) {
  switch (mode) {
    case Mode::kGaussian:
      return "gaussian";
    case Mode::kIntegers:
      return "integers";
    case Mode::kCancelling:
      return "cancelling";
    case Mode::kHuge:
      return "huge";
    case Mode::kTiny:
      return "tiny";
    case Mode::kOffset:
      return "offset";
    case Mode::kSparse:
      return "sparse";
  }
  return "unknown";
}

// The element with this index of a vector filled in the given mode.
inline float Draw(Mode mode, size_t index, Random& random) {
  switch (mode) {
    case Mode::kGaussian:
      return random.Gaussian();
    case Mode::kIntegers:
      return static_cast<float>(random.Below(7)) - 3.0f;
    case Mode::kCancelling:
      return (index % 2 == 0 ? 1e6f : -1e6f) + random.Gaussian();
    case Mode::kHuge: {
      // Exponents 2^90 to 2^127, full mantissas.
      const uint32_t exponent = 217 + static_cast<uint32_t>(random.Below(38));
      const uint32_t mantissa = static_cast<uint32_t>(random.Next() >> 41);
      return random.Sign() * FromBits(exponent << 23 | mantissa);
    }
    case Mode::kTiny:
      return random.Sign() *
             FromBits(static_cast<uint32_t>(random.Next() >> 41));
    case Mode::kOffset:
      return 1e4f + 0.01f * random.Gaussian();
    case Mode::kSparse:
      if (random.Below(8) == 0) return random.Gaussian();
      return random.Sign() * 0.0f;
  }
  return 0.0f;
}

inline std::vector<float> Filled(size_t count, Mode mode, uint64_t seed) {
  Random random(seed);
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = Draw(mode, i, random);
  return values;
}

}  // namespace test
}  // namespace ffnorm

#endif  // FFNORM_TESTS_RANDOM_DATA_H_
