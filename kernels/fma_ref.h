// The two ways to round a * w + acc, in portable scalar code.
#ifndef FFNORM_KERNELS_FMA_REF_H_
#define FFNORM_KERNELS_FMA_REF_H_

#include <stdint.h>
#include <string.h>

#include "ffnorm/ffnorm.h"

namespace ffnorm {
namespace {

// fma(a, b, c) with one rounding, without libm: its fmaf is wrong in places
// (MinGW) and a call to a slow emulation on CPUs without the instruction.
//
// a * b is exact in binary64 (24 + 24 bits, exponents far inside its range).
// The sum with c may not be, so it is rounded to odd: where TwoSum finds an
// error and the last bit is even, step to the neighbour on the side of the
// error. binary64 has more than two bits over binary32, hence the final
// conversion rounds as if the sum had been exact, subnormal results included.
inline float ExactFma(float a, float b, float c) {
#ifdef __FP_FAST_FMAF
  return __builtin_fmaf(a, b, c);
#else
  const double product = static_cast<double>(a) * static_cast<double>(b);
  const double addend = static_cast<double>(c);
  double sum = product + addend;
  const double part = sum - product;
  const double error = (product - (sum - part)) + (addend - part);
  // False for NaN too: error is NaN when an operand is not finite.
  if (error < 0 || error > 0) {
    int64_t bits;
    memcpy(&bits, &sum, sizeof(bits));
    if ((bits & 1) == 0) bits += ((error > 0) == (sum > 0)) ? 1 : -1;
    memcpy(&sum, &bits, sizeof(bits));
  }
  return static_cast<float>(sum);
#endif
}

inline float MulAddRef(ffnorm_class rounding, float a, float w, float acc) {
  return rounding == FFNORM_FUSED ? ExactFma(a, w, acc) : a * w + acc;
}

}  // namespace
}  // namespace ffnorm

#endif  // FFNORM_KERNELS_FMA_REF_H_
