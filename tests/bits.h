// Floats as bits. Needs no test framework, so that fuzz targets may use it.
#ifndef FFNORM_TESTS_BITS_H_
#define FFNORM_TESTS_BITS_H_

#include <stdint.h>
#include <string.h>

#include <cmath>
#include <cstdio>
#include <string>

namespace ffnorm {
namespace test {

inline uint32_t Bits(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof(bits));
  return bits;
}

inline float FromBits(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof(value));
  return value;
}

// All NaNs are one class; anything else must agree bit for bit, so -0 and +0
// differ.
inline bool SameBits(float a, float b) {
  return Bits(a) == Bits(b) || (std::isnan(a) && std::isnan(b));
}

inline std::string Describe(float value) {
  char text[48];
  std::snprintf(text, sizeof(text), "%.9g (0x%08x)", static_cast<double>(value),
                static_cast<unsigned>(Bits(value)));
  return text;
}

}  // namespace test
}  // namespace ffnorm

#endif  // FFNORM_TESTS_BITS_H_
