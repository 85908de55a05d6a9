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
// x - mean. As a multiply-add it is the same number, from another port: Zen has
// two for additions beside two for multiply-adds, and a row is 9 additions and
// 3 products an element. (clang turns it back into a subtraction.)
HWY_INLINE LaneVec MinusMean(LaneVec x, float mean) {
  const LaneTag d;
#if HWY_NATIVE_FMA
  return hn::MulSub(x, hn::Set(d, 1.0f), hn::Set(d, mean));
#else
  return hn::Sub(x, hn::Set(d, mean));
#endif
}

struct Centred {
  float mean;
  HWY_INLINE LaneVec operator()(LaneVec x) const { return MinusMean(x, mean); }
};
struct Deviation {
  float mean;
  float correction;
  HWY_INLINE LaneVec operator()(LaneVec x) const {
    return hn::Sub(MinusMean(x, mean), hn::Set(LaneTag(), correction));
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

#if HWY_HAVE_SCALABLE || HWY_TARGET == HWY_SCALAR

HWY_INLINE float FoldLast16(float* lanes) {
  FoldLevel<8>(lanes);
  FoldLevel<4>(lanes);
  FoldLevel<2>(lanes);
  FoldLevel<1>(lanes);
  return lanes[0];
}

#else

// The levels below a whole vector stay in registers: each one through memory
// would take 12 cycles instead of 5 to 7, three times a row.
template <class D>
HWY_INLINE float FoldVector(D, hn::Vec<D> v) {
  if constexpr (hn::MaxLanes(D()) > 4) {
    const hn::Half<D> half;
    return FoldVector(half,
                      hn::Add(hn::LowerHalf(half, v), hn::UpperHalf(half, v)));
  } else {
    v = hn::Add(v, hn::Shuffle1032(v));  // lane j + lane j + 2
    return hn::GetLane(hn::Add(v, hn::Shuffle2301(v)));
  }
}

HWY_INLINE float FoldLast16(float* lanes) {
  const hn::CappedTag<float, 16> d;
  constexpr size_t kN = hn::MaxLanes(hn::CappedTag<float, 16>());
  if constexpr (kN <= 8) FoldLevel<8>(lanes);
  if constexpr (kN <= 4) FoldLevel<4>(lanes);
  return FoldVector(d, hn::Load(d, lanes));
}

#endif  // HWY_HAVE_SCALABLE || HWY_TARGET == HWY_SCALAR

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
  return FoldLast16(lanes);
}

// out = (e * rstd) * scale + offset over `n` contiguous floats. out may be x.
HWY_INLINE void Normalize(const Deviation& deviation, float rstd,
                          const float* x, size_t n, const float* scale,
                          const float* offset, float* out) {
  const LaneTag d;
  const size_t N = hn::Lanes(d);
  const LaneVec rstd_v = hn::Set(d, rstd);
  size_t i = 0;
  for (; i + N <= n; i += N) {
    const LaneVec v = hn::Mul(deviation(hn::LoadU(d, x + i)), rstd_v);
    const LaneVec scaled = hn::Mul(v, hn::LoadU(d, scale + i));
    hn::StoreU(hn::Add(scaled, hn::LoadU(d, offset + i)), d, out + i);
  }
  for (; i < n; ++i) {
    const float e = (x[i] - deviation.mean) - deviation.correction;
    out[i] = (e * rstd) * scale[i] + offset[i];
  }
}

// A scale or offset that is there or not.
struct NormParams {
  size_t d_model;
  float epsilon;
  const float* scale;   // or NULL
  const float* offset;  // or NULL
};

// Row `row` of `out`; out may be x.
HWY_INLINE void FinishRow(const NormParams& params, const Deviation& deviation,
                          float variance, const float* x, size_t row,
                          const BlockedRows& out) {
  const size_t n = params.d_model;
  const float s = variance + params.epsilon;
  if (HWY_UNLIKELY(!InBinary32Range(s))) {
    LayerNormRowBinary64(x, n, params.epsilon, params.scale, params.offset,
                         {out.At(row, 0), out.row_stride, out.block_stride});
    return;
  }
  const float rstd = 1.0f / SqrtRef(s);
  for (size_t i = 0; i < n; i += kBlockK) {
    Normalize(deviation, rstd, x + i, HWY_MIN(n - i, kBlockK),
              params.scale == nullptr ? kNoScale.values : params.scale + i,
              params.offset == nullptr ? kNoOffset.values : params.offset + i,
              out.At(row, i));
  }
}

// out = LN(x) on rows; out may be x. Two rows go through each pass in turn: the
// tree and the division that end one row's pass take some 50 cycles, in which
// the other row's pass is under way. (One by one: AVX2 17% slower at 512.)
HWY_INLINE void LayerNormRows(const NormParams& params, const float* x,
                              size_t x_stride, size_t rows,
                              const BlockedRows& out) {
  constexpr size_t kTogether = 2;
  const size_t n = params.d_model;
  const float count = static_cast<float>(n);
  for (size_t row = 0; row < rows; row += kTogether) {
    const size_t together = HWY_MIN(rows - row, kTogether);
    const float* first = x + row * x_stride;
    Deviation deviation[kTogether];
    float variance[kTogether];
    for (size_t r = 0; r < together; ++r) {
      deviation[r].mean = Fold(first + r * x_stride, n, Value()) / count;
    }
    for (size_t r = 0; r < together; ++r) {
      const Centred centred = {deviation[r].mean};
      deviation[r].correction = Fold(first + r * x_stride, n, centred) / count;
    }
    for (size_t r = 0; r < together; ++r) {
      const SquaredDeviation squared = {deviation[r]};
      variance[r] = Fold(first + r * x_stride, n, squared) / count;
    }
    for (size_t r = 0; r < together; ++r) {
      FinishRow(params, deviation[r], variance[r], first + r * x_stride,
                row + r, out);
    }
  }
}

void LayerNorm(const LayerNormArgs& args) {
  LayerNormRows({args.d_model, args.epsilon, args.scale, args.offset}, args.x,
                args.x_stride, args.rows, RowMajor(args.y, args.y_stride));
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace ffnorm
HWY_AFTER_NAMESPACE();

#endif  // include guard
