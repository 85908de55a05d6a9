// LayerNorm of one row, scalar: the definition of its bits (CONTRACT.md).
#ifndef FFNORM_KERNELS_LAYER_NORM_REF_H_
#define FFNORM_KERNELS_LAYER_NORM_REF_H_

#include <float.h>
#include <stddef.h>

#include "kernels/shape.h"

namespace ffnorm {
namespace {

constexpr size_t kLanes = 64;

// var + epsilon outside these bounds sends a row to binary64. The lower one
// keeps rstd and e * rstd well inside binary32; both comparisons fail for NaN.
constexpr float kMinVariance = 0x1p-96f;
inline bool InBinary32Range(float variance_plus_epsilon) {
  return variance_plus_epsilon >= kMinVariance &&
         variance_plus_epsilon <= FLT_MAX;
}

// What stands for a block of a missing scale or offset: they change no bit of a
// product or sum (+0 would, of -0).
struct Repeated {
  float values[kBlockK];
  constexpr explicit Repeated(float value) : values() {
    for (float& v : values) v = value;
  }
};
constexpr Repeated kNoScale(1.0f);
constexpr Repeated kNoOffset(-0.0f);

// The sum of n terms in 64 lanes that start at +0, folded by a fixed tree.
template <typename T, class Term>
T FoldRef(size_t n, const Term& term) {
  T lanes[kLanes] = {};
  for (size_t i = 0; i < n; ++i) lanes[i % kLanes] += term(i);
  for (size_t width = kLanes / 2; width != 0; width /= 2) {
    for (size_t j = 0; j < width; ++j) lanes[j] += lanes[j + width];
  }
  return lanes[0];
}

template <typename T>
struct RowStats {
  T mean;
  T correction;  // the mean that rounding left over in x - mean
  T variance_plus_epsilon;
};

template <typename T>
RowStats<T> RowStatsRef(const float* x, size_t n, float epsilon) {
  const T count = static_cast<T>(n);
  const auto at = [x](size_t i) { return static_cast<T>(x[i]); };
  RowStats<T> stats;
  const T mean = FoldRef<T>(n, at) / count;
  const T correction =
      FoldRef<T>(n, [&](size_t i) { return at(i) - mean; }) / count;
  const T variance = FoldRef<T>(n,
                                [&](size_t i) {
                                  const T e = (at(i) - mean) - correction;
                                  return e * e;
                                }) /
                     count;
  stats.mean = mean;
  stats.correction = correction;
  stats.variance_plus_epsilon = variance + static_cast<T>(epsilon);
  return stats;
}

inline float SqrtRef(float v) { return __builtin_sqrtf(v); }
inline double SqrtRef(double v) { return __builtin_sqrt(v); }

// Writes the normalized row to `out` (row 0). out may be x.
template <typename T>
void NormalizeRef(const RowStats<T>& stats, const float* x, size_t n,
                  const float* scale, const float* offset,
                  const BlockedRows& out) {
  const T rstd = T{1} / SqrtRef(stats.variance_plus_epsilon);
  for (size_t i = 0; i < n; ++i) {
    T v = ((static_cast<T>(x[i]) - stats.mean) - stats.correction) * rstd;
    if (scale != nullptr) v = v * static_cast<T>(scale[i]);
    if (offset != nullptr) v = v + static_cast<T>(offset[i]);
    *out.At(0, i) = static_cast<float>(v);
  }
}

// The rare row whose variance does not fit binary32: done again in binary64,
// by the kernels of all targets too. The lanes make it independent of vectors.
inline void LayerNormRowBinary64(const float* x, size_t n, float epsilon,
                                 const float* scale, const float* offset,
                                 const BlockedRows& out) {
  NormalizeRef(RowStatsRef<double>(x, n, epsilon), x, n, scale, offset, out);
}

inline void LayerNormRowRef(const float* x, size_t n, float epsilon,
                            const float* scale, const float* offset,
                            const BlockedRows& out) {
  const RowStats<float> stats = RowStatsRef<float>(x, n, epsilon);
  if (InBinary32Range(stats.variance_plus_epsilon)) {
    NormalizeRef(stats, x, n, scale, offset, out);
  } else {
    LayerNormRowBinary64(x, n, epsilon, scale, offset, out);
  }
}

}  // namespace
}  // namespace ffnorm

#endif  // FFNORM_KERNELS_LAYER_NORM_REF_H_
