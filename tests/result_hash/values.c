#include "tests/result_hash/values.h"

#include <string.h>

const char* KindName(Kind kind) {
  switch (kind) {
    case kNormal:
      return "normal";
    case kIntegers:
      return "integers";
    case kWide:
      return "wide";
    case kExtreme:
      return "extreme";
    case kTiny:
      return "tiny";
    case kZeros:
      return "zeros";
    case kBase:
      return "base";
    case kConstant:
      return "constant";
    case kSparse:
      return "sparse";
    case kOff:
      return "off";
    case kNonFiniteX:
      return "nonfinite_x";
    case kNonFiniteW1:
      return "nonfinite_w1";
    case kNonFiniteW2:
      return "nonfinite_w2";
  }
  return "unknown";
}

float FloatFromBits(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof(value));
  return value;
}

uint32_t BitsOfFloat(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof(bits));
  return bits;
}

/* splitmix64. */
static uint64_t Next(uint64_t* state) {
  uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));
  z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
  return z ^ (z >> 31);
}

static uint32_t Below(uint64_t* state, uint32_t bound) {
  return (uint32_t)((Next(state) >> 32) % bound);
}

static uint32_t RandomSign(uint64_t* state) {
  return (uint32_t)(Next(state) >> 63) << 31;
}

/* 2^exponent, of a normal number. */
static float PowerOfTwo(int exponent) {
  return FloatFromBits((uint32_t)(exponent + 127) << 23);
}

/* The sum of four uniforms, of 24 bits with the sign, times a power of two:
 * exact. The variance is 4/3 at exponent 0. */
static float Normal(uint64_t* state, int exponent) {
  const uint64_t a = Next(state);
  const uint64_t b = Next(state);
  const uint32_t mask = (1u << 22) - 1;
  const int32_t sum =
      (int32_t)(((uint32_t)a & mask) + ((uint32_t)(a >> 32) & mask) +
                ((uint32_t)b & mask) + ((uint32_t)(b >> 32) & mask));
  return (float)(sum - (1 << 23)) * PowerOfTwo(exponent - 21);
}

/* A full mantissa and one of the biased exponents first to last. */
static float AnyExponent(uint64_t* state, uint32_t first, uint32_t last) {
  const uint32_t exponent = first + Below(state, last - first + 1);
  const uint32_t mantissa = (uint32_t)(Next(state) >> 41);
  return FloatFromBits(RandomSign(state) | exponent << 23 | mantissa);
}

static float NonFinite(uint64_t* state) {
  static const uint32_t bits[3] = {0x7f800000u, 0xff800000u, 0x7fc00000u};
  return FloatFromBits(bits[Below(state, 3)]);
}

/* True for some weight of one column in eight. */
static int Hits(uint64_t* state, size_t inputs) {
  return Below(state, 8 * (uint32_t)inputs) == 0;
}

/* About log2(inputs) / 2: sums of so many terms stay near 1. */
static int HalfLog2(size_t inputs) {
  int log2 = 0;
  while (inputs > 1) {
    inputs /= 2;
    ++log2;
  }
  return (log2 + 1) / 2;
}

/* What a trained model would have. */
static float Trained(Role role, uint64_t* state, size_t inputs) {
  switch (role) {
    case kW1:
    case kW2:
      return Normal(state, -HalfLog2(inputs));
    case kB1:
    case kB2:
    case kOffset:
      return Normal(state, -3);
    case kScale:
      /* On the grid of 2^-23, below 2: exact. */
      return 1.0f + (float)((int32_t)Below(state, 1 << 22) - (1 << 21)) *
                        PowerOfTwo(-23);
    default:
      return Normal(state, 0);
  }
}

/* Inputs of the second layer as ReLU leaves them, alike for all models with
 * units that are off: from one unit in 32 to one in four. */
static float SparseHidden(uint64_t* state, size_t row) {
  const float value = Normal(state, 0);
  const uint32_t active = 1 + (uint32_t)(row % 8);
  if (Below(state, 32) >= active) return FloatFromBits(RandomSign(state));
  return value;
}

static float Value(Kind kind, Role role, uint64_t* state, size_t row,
                   size_t inputs) {
  switch (kind) {
    case kNormal:
      break;
    case kIntegers:
      return (float)((int32_t)Below(state, 7) - 3);
    case kWide:
      return AnyExponent(state, 107, 147);
    case kExtreme:
      return AnyExponent(state, 0, 254);
    case kTiny:
      return AnyExponent(state, 0, 0);
    case kZeros:
      if (Below(state, 8) == 0) break;
      return FloatFromBits(RandomSign(state));
    case kBase:
      if (role != kX) break;
      return (float)(10000000 + (int32_t)Below(state, 64));
    case kConstant:
      break;
    case kSparse:
    case kNonFiniteW2:
      if (kind == kNonFiniteW2 && role == kW2 && Hits(state, inputs)) {
        return NonFinite(state);
      }
      if (role == kB1) return -2.5f;
      if (role == kHidden) return SparseHidden(state, row);
      break;
    case kOff:
      if (role == kB1) return -64.0f;
      if (role == kHidden) return FloatFromBits(RandomSign(state));
      break;
    case kNonFiniteX:
      if (role > kHidden || row % 3 != 1 || Below(state, 16) != 0) break;
      return NonFinite(state);
    case kNonFiniteW1:
      if (role != kW1 || !Hits(state, inputs)) break;
      return NonFinite(state);
  }
  return Trained(role, state, inputs);
}

void FillRow(Kind kind, Role role, uint64_t seed, size_t row, size_t inputs,
             size_t n, float* to) {
  uint64_t state = seed * 16 + (uint64_t)role;
  size_t i;
  state = Next(&state) + row;
  state = Next(&state);
  for (i = 0; i < n; ++i) to[i] = Value(kind, role, &state, row, inputs);
  if (kind == kConstant && role == kX) {
    for (i = 1; i < n; ++i) to[i] = to[0];
  }
}
