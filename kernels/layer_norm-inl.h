// LayerNorm of rows, in the lanes and tree of layer_norm_ref.h.
#if defined(FFNORM_KERNELS_LAYER_NORM_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FFNORM_KERNELS_LAYER_NORM_INL_H_
#undef FFNORM_KERNELS_LAYER_NORM_INL_H_
#else
#define FFNORM_KERNELS_LAYER_NORM_INL_H_
#endif

#include <hwy/highway.h>
#include <stddef.h>
#include <string.h>

#include "kernels/layer_norm_ref.h"
#include "kernels/shape.h"
#include "kernels/simd-inl.h"
#include "kernels/target.h"

HWY_BEFORE_NAMESPACE();
namespace ffnorm {
namespace HWY_NAMESPACE {
namespace {

using LaneTag = hn::CappedTag<float, kLanes>;
using LaneVec = hn::Vec<LaneTag>;

// The terms that a row is summed over.
struct Value {
  HWY_INLINE LaneVec operator()(LaneVec x) const { return x; }
};
struct Centred {
  float mean;
  HWY_INLINE LaneVec operator()(LaneVec x) const {
    return hn::Sub(x, hn::Set(LaneTag(), mean));
  }
};
struct Deviation {
  float mean;
  float correction;
  HWY_INLINE LaneVec operator()(LaneVec x) const {
    const LaneTag d;
    return hn::Sub(hn::Sub(x, hn::Set(d, mean)), hn::Set(d, correction));
  }
};
struct SquaredDeviation {
  Deviation deviation;
  HWY_INLINE LaneVec operator()(LaneVec x) const {
    const LaneVec e = deviation(x);
    return hn::Mul(e, e);
  }
};

// Lane sums of the first n - n % 64 terms, in passes of kVectors accumulators
// (kVectors * Lanes(d) <= 64) side by side. Eight hide the latency of an add on
// two ports; AVX-512 has only four, since the lanes are part of the contract.
template <size_t kVectors, class Term>
HWY_INLINE void SumWholeLanes(const float* HWY_RESTRICT x, size_t n,
                              const Term& term, float* HWY_RESTRICT lanes) {
  const LaneTag d;
  const size_t N = hn::Lanes(d);
  for (size_t j = 0; j < kLanes; j += kVectors * N) {
    const LaneVec zero = hn::Zero(d);
    LaneVec sum0 = zero, sum1 = zero, sum2 = zero, sum3 = zero;
    LaneVec sum4 = zero, sum5 = zero, sum6 = zero, sum7 = zero;
    for (size_t i = 0; i + kLanes <= n; i += kLanes) {
      const float* p = x + i + j;
      sum0 = hn::Add(sum0, term(hn::LoadU(d, p)));
      if constexpr (kVectors > 1) {
        sum1 = hn::Add(sum1, term(hn::LoadU(d, p + N)));
      }
      if constexpr (kVectors > 2) {
        sum2 = hn::Add(sum2, term(hn::LoadU(d, p + 2 * N)));
        sum3 = hn::Add(sum3, term(hn::LoadU(d, p + 3 * N)));
      }
      if constexpr (kVectors > 4) {
        sum4 = hn::Add(sum4, term(hn::LoadU(d, p + 4 * N)));
        sum5 = hn::Add(sum5, term(hn::LoadU(d, p + 5 * N)));
        sum6 = hn::Add(sum6, term(hn::LoadU(d, p + 6 * N)));
        sum7 = hn::Add(sum7, term(hn::LoadU(d, p + 7 * N)));
      }
    }
    hn::Store(sum0, d, lanes + j);
    if constexpr (kVectors > 1) hn::Store(sum1, d, lanes + j + N);
    if constexpr (kVectors > 2) {
      hn::Store(sum2, d, lanes + j + 2 * N);
      hn::Store(sum3, d, lanes + j + 3 * N);
    }
    if constexpr (kVectors > 4) {
      hn::Store(sum4, d, lanes + j + 4 * N);
      hn::Store(sum5, d, lanes + j + 5 * N);
      hn::Store(sum6, d, lanes + j + 6 * N);
      hn::Store(sum7, d, lanes + j + 7 * N);
    }
  }
}

// Adds the last n % 64 terms. They are read from a copy, since a load of whole
// vectors would leave the row; lanes past the end keep their sum.
template <class Term>
HWY_INLINE void AddPartialLanes(const float* HWY_RESTRICT x, size_t rest,
                                const Term& term, float* HWY_RESTRICT lanes) {
  const LaneTag d;
  const size_t N = hn::Lanes(d);
  HWY_ALIGN float copy[kLanes];
  memset(copy, 0, sizeof(copy));
  memcpy(copy, x, rest * sizeof(float));
  for (size_t j = 0; j < rest; j += N) {
    const LaneVec sum = hn::Load(d, lanes + j);
    const LaneVec more = hn::Add(sum, term(hn::Load(d, copy + j)));
    const auto in_row = hn::FirstN(d, HWY_MIN(rest - j, N));
    hn::Store(hn::IfThenElse(in_row, more, sum), d, lanes + j);
  }
}

// One level of the tree: lane j += lane j + kWidth for j < kWidth.
template <size_t kWidth>
HWY_INLINE void FoldLevel(float* lanes) {
  const hn::CappedTag<float, kWidth> d;
  for (size_t j = 0; j < kWidth; j += hn::Lanes(d)) {
    hn::Store(hn::Add(hn::Load(d, lanes + j), hn::Load(d, lanes + j + kWidth)),
              d, lanes + j);
  }
}

template <class Term>
HWY_INLINE float Fold(const float* HWY_RESTRICT x, size_t n, const Term& term) {
  HWY_ALIGN float lanes[kLanes];
  const size_t vectors = kLanes / hn::Lanes(LaneTag());
  if (vectors >= 8) {
    SumWholeLanes<8>(x, n, term, lanes);
  } else if (vectors == 4) {
    SumWholeLanes<4>(x, n, term, lanes);
  } else if (vectors == 2) {
    SumWholeLanes<2>(x, n, term, lanes);
  } else {
    SumWholeLanes<1>(x, n, term, lanes);
  }
  const size_t rest = n % kLanes;
  if (rest != 0) AddPartialLanes(x + (n - rest), rest, term, lanes);
  FoldLevel<32>(lanes);
  FoldLevel<16>(lanes);
  FoldLevel<8>(lanes);
  FoldLevel<4>(lanes);
  FoldLevel<2>(lanes);
  FoldLevel<1>(lanes);
  return lanes[0];
}

// out = (e * rstd) * scale + offset over `n` contiguous floats. out may be x.
HWY_INLINE void Normalize(const Deviation& deviation, float rstd,
                          const float* x, size_t n, const float* scale,
                          const float* offset, float* out) {
  const LaneTag d;
  const size_t N = hn::Lanes(d);
  const LaneVec rstd_v = hn::Set(d, rstd);
  // These change no bit of any product or sum.
  const LaneVec one = hn::Set(d, 1.0f);
  const LaneVec minus_zero = hn::Set(d, -0.0f);
  size_t i = 0;
  for (; i + N <= n; i += N) {
    const LaneVec scale_v = scale == nullptr ? one : hn::LoadU(d, scale + i);
    const LaneVec offset_v =
        offset == nullptr ? minus_zero : hn::LoadU(d, offset + i);
    const LaneVec v = hn::Mul(deviation(hn::LoadU(d, x + i)), rstd_v);
    hn::StoreU(hn::Add(hn::Mul(v, scale_v), offset_v), d, out + i);
  }
  for (; i < n; ++i) {
    float v = ((x[i] - deviation.mean) - deviation.correction) * rstd;
    if (scale != nullptr) v = v * scale[i];
    if (offset != nullptr) v = v + offset[i];
    out[i] = v;
  }
}

// Row 0 of `out`; out may be x.
HWY_INLINE void LayerNormRow(const float* x, size_t n, float epsilon,
                             const float* scale, const float* offset,
                             const BlockedRows& out) {
  const float count = static_cast<float>(n);
  const float mean = Fold(x, n, Value()) / count;
  const float correction = Fold(x, n, Centred{mean}) / count;
  const Deviation deviation = {mean, correction};
  const float variance = Fold(x, n, SquaredDeviation{deviation}) / count;
  const float s = variance + epsilon;
  if (HWY_UNLIKELY(!InBinary32Range(s))) {
    LayerNormRowBinary64(x, n, epsilon, scale, offset, out);
    return;
  }
  const float rstd = 1.0f / SqrtRef(s);
  for (size_t i = 0; i < n; i += kBlockK) {
    Normalize(deviation, rstd, x + i, HWY_MIN(n - i, kBlockK),
              scale == nullptr ? nullptr : scale + i,
              offset == nullptr ? nullptr : offset + i, out.At(0, i));
  }
}

void LayerNorm(const LayerNormArgs& args) {
  for (size_t r = 0; r < args.rows; ++r) {
    LayerNormRow(args.x + r * args.x_stride, args.d_model, args.epsilon,
                 args.scale, args.offset,
                 RowMajor(args.y + r * args.y_stride, args.y_stride));
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace ffnorm
HWY_AFTER_NAMESPACE();

#endif  // include guard
