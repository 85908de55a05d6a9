// LayerNorm of rows, in the lanes and tree of layer_norm_ref.h.
#if defined(FFNORM_KERNELS_LAYER_NORM_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FFNORM_KERNELS_LAYER_NORM_INL_H_
#undef FFNORM_KERNELS_LAYER_NORM_INL_H_
#else
#define FFNORM_KERNELS_LAYER_NORM_INL_H_
#endif

#include <hwy/cache_control.h>
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

// x - mean. As a multiply-add it is the same number, from another port: Zen has
// two for additions beside two for multiply-adds. (clang turns it back into a
// subtraction.)
HWY_INLINE LaneVec MinusMean(LaneVec x, float mean) {
  const LaneTag d;
#if HWY_NATIVE_FMA
  return hn::MulSub(x, hn::Set(d, 1.0f), hn::Set(d, mean));
#else
  return hn::Sub(x, hn::Set(d, mean));
#endif
}

// What is known of a row after its passes.
struct Deviation {
  float mean;
  float correction;
  HWY_INLINE LaneVec operator()(LaneVec x) const {
    return hn::Sub(MinusMean(x, mean), hn::Set(LaneTag(), correction));
  }
};

// The terms that a row is summed over, each from a vector of x.
struct Value {
  HWY_INLINE LaneVec operator()(LaneVec x) const { return x; }
};
struct Centred {
  float mean;
  HWY_INLINE LaneVec operator()(LaneVec x) const { return MinusMean(x, mean); }
};
struct SquaredDeviation {
  Deviation deviation;
  HWY_INLINE LaneVec operator()(LaneVec x) const {
    const LaneVec e = deviation(x);
    return hn::Mul(e, e);
  }
};

// What else happens to the deviations of whole lanes, vector by vector.
struct DropDeviations {
  HWY_INLINE void StartBlock(size_t /*first*/) {}
  template <class Term>
  HWY_INLINE LaneVec operator()(const Term& term, LaneVec x,
                                size_t /*at*/) const {
    return term(x);
  }
};
// They are kept where the normalized row will be, for the last pass.
struct KeepDeviations {
  const BlockedRows* out;
  size_t row;
  float* block;
  HWY_INLINE void StartBlock(size_t first) { block = out->At(row, first); }
  HWY_INLINE LaneVec operator()(const SquaredDeviation& term, LaneVec x,
                                size_t at) const {
    const LaneVec e = term.deviation(x);
    hn::StoreU(e, LaneTag(), block + at);
    return hn::Mul(e, e);
  }
};

// Lane sums of the first n - n % 64 terms, in passes of kVectors accumulators
// (kVectors * Lanes(d) <= 64) side by side. Eight hide the latency of an add on
// two ports; AVX-512 has only four, since the lanes are part of the contract.
template <size_t kVectors, class Term, class Keep>
HWY_INLINE void SumWholeLanes(const float* x, size_t n, const Term& term,
                              Keep keep, float* HWY_RESTRICT lanes) {
  const LaneTag d;
  const size_t N = hn::Lanes(d);
  for (size_t j = 0; j < kLanes; j += kVectors * N) {
    const LaneVec zero = hn::Zero(d);
    LaneVec sum0 = zero, sum1 = zero, sum2 = zero, sum3 = zero;
    LaneVec sum4 = zero, sum5 = zero, sum6 = zero, sum7 = zero;
    const size_t whole = n - n % kLanes;
    for (size_t first = 0; first < whole; first += kBlockK) {
      const size_t end = HWY_MIN(whole - first, kBlockK);
      keep.StartBlock(first);
      for (size_t i = j; i < end; i += kLanes) {
        const float* p = x + first + i;
        sum0 = hn::Add(sum0, keep(term, hn::LoadU(d, p), i));
        if constexpr (kVectors > 1) {
          sum1 = hn::Add(sum1, keep(term, hn::LoadU(d, p + N), i + N));
        }
        if constexpr (kVectors > 2) {
          sum2 = hn::Add(sum2, keep(term, hn::LoadU(d, p + 2 * N), i + 2 * N));
          sum3 = hn::Add(sum3, keep(term, hn::LoadU(d, p + 3 * N), i + 3 * N));
        }
        if constexpr (kVectors > 4) {
          sum4 = hn::Add(sum4, keep(term, hn::LoadU(d, p + 4 * N), i + 4 * N));
          sum5 = hn::Add(sum5, keep(term, hn::LoadU(d, p + 5 * N), i + 5 * N));
          sum6 = hn::Add(sum6, keep(term, hn::LoadU(d, p + 6 * N), i + 6 * N));
          sum7 = hn::Add(sum7, keep(term, hn::LoadU(d, p + 7 * N), i + 7 * N));
        }
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

template <class Term, class Keep = DropDeviations>
HWY_INLINE float Fold(const float* x, size_t n, const Term& term,
                      const Keep& keep = Keep()) {
  HWY_ALIGN float lanes[kLanes];
  const size_t vectors = kLanes / hn::Lanes(LaneTag());
  if (vectors >= 8) {
    SumWholeLanes<8>(x, n, term, keep, lanes);
  } else if (vectors == 4) {
    SumWholeLanes<4>(x, n, term, keep, lanes);
  } else if (vectors == 2) {
    SumWholeLanes<2>(x, n, term, keep, lanes);
  } else {
    SumWholeLanes<1>(x, n, term, keep, lanes);
  }
  const size_t rest = n % kLanes;
  if (rest != 0) AddPartialLanes(x + (n - rest), rest, term, lanes);
  FoldLevel<32>(lanes);
  FoldLevel<16>(lanes);
  return FoldLast16(lanes);
}

// A scale or offset that is there or not.
struct NormParams {
  size_t d_model;
  float epsilon;
  const float* scale;   // or NULL
  const float* offset;  // or NULL
};

struct RowNorm {
  Deviation deviation;
  float variance_plus_epsilon;
};

// One vector of each of kRows rows: to[r][i...] = (e * rstd) * scale + offset,
// where e = deviation(r). Of two rows both are loaded before one is stored: to
// a load that follows a store, addresses a multiple of 4 KiB apart look the
// same. (Zen 4, AVX3: d_model 1024 .91 of the time, 4096 .80 to .92. Four rows,
// which are shorter, take 1.00 to 1.04.)
template <size_t kRows, bool kStream, class GetDeviation>
HWY_INLINE void NormalizeVectors(const GetDeviation& deviation,
                                 const float* rstd, const float* scale,
                                 const float* offset, float* const* to,
                                 size_t i) {
  const LaneTag d;
  const LaneVec scale_v = hn::LoadU(d, scale + i);
  const LaneVec offset_v = hn::LoadU(d, offset + i);
  const auto store = [&](LaneVec e, size_t r) HWY_ATTR {
    const LaneVec v = hn::Mul(e, hn::Set(d, rstd[r]));
    StoreRow<kStream>(hn::Add(hn::Mul(v, scale_v), offset_v), d, to[r] + i);
  };
  if constexpr (kRows == 2) {
    const LaneVec e0 = deviation(0);
    const LaneVec e1 = deviation(1);
    store(e0, 0);
    store(e1, 1);
  } else {
    for (size_t r = 0; r < kRows; ++r) store(deviation(r), r);
  }
}

// Rows [row, row + kRows) of `out` = (e * rstd) * scale + offset. Of the first
// `kept` elements of a row out has the deviations e, of the others x has what
// they are made of. out may be x where none are kept. Rows together load scale
// and offset once.
//
// kStream: out is stored past the caches. What is loaded here is in L1, so that
// memory would be idle but for the rows of x to come.
template <size_t kRows, bool kStream>
HWY_INLINE void NormalizeRows(const NormParams& params, const RowNorm* norms,
                              const float* x, size_t x_stride, size_t row,
                              size_t kept, const BlockedRows& out) {
  const LaneTag d;
  const size_t N = hn::Lanes(d);
  const bool prefetches =
      kStream && kRows == 1 && params.d_model >= kPrefetchedNormRow;
  // (As a number: of a single row the stride may be any, and a pointer to the
  // next one none.)
  const size_t ahead = CeilDiv(kNormFloatsAhead, params.d_model) * x_stride;
  float rstd[kRows];
  for (size_t r = 0; r < kRows; ++r) {
    rstd[r] = 1.0f / SqrtRef(norms[r].variance_plus_epsilon);
  }
  for (size_t first = 0; first < params.d_model; first += kBlockK) {
    const size_t n = HWY_MIN(params.d_model - first, kBlockK);
    const size_t n_kept = HWY_MIN(kept - HWY_MIN(kept, first), n);
    const float* scale =
        params.scale == nullptr ? kNoScale.values : params.scale + first;
    const float* offset =
        params.offset == nullptr ? kNoOffset.values : params.offset + first;
    const float* from = x + first;
    float* to[kRows];
    for (size_t r = 0; r < kRows; ++r) to[r] = out.At(row + r, first);
    size_t i = 0;
    for (; i < n_kept; i += N) {
      const auto kept_deviation = [&](size_t r) HWY_ATTR {
        return hn::LoadU(d, to[r] + i);
      };
      NormalizeVectors<kRows, kStream>(kept_deviation, rstd, scale, offset, to,
                                       i);
    }
    for (; i + N <= n; i += N) {
      if (prefetches && i % kAlignmentFloats == 0) {
        PrefetchL2Ahead(from + i, ahead);
      }
      const auto deviation = [&](size_t r) HWY_ATTR {
        return norms[r].deviation(hn::LoadU(d, from + r * x_stride + i));
      };
      NormalizeVectors<kRows, kStream>(deviation, rstd, scale, offset, to, i);
    }
    for (; i < n; ++i) {
      for (size_t r = 0; r < kRows; ++r) {
        const Deviation& deviation = norms[r].deviation;
        const float e =
            (from[r * x_stride + i] - deviation.mean) - deviation.correction;
        to[r][i] = (e * rstd[r]) * scale[i] + offset[i];
      }
    }
  }
}

// kRows rows. They go through each pass in turn: the tree and the division that
// end one row's pass take some 50 cycles, in which other rows' passes are under
// way. kStream: see NormalizeRows.
template <size_t kRows, bool kStream>
HWY_INLINE void LayerNormTogether(const NormParams& params, const float* x,
                                  size_t x_stride, size_t row,
                                  const BlockedRows& out) {
  const size_t n = params.d_model;
  const float count = static_cast<float>(n);
  // (A row that would overwrite x may yet need it, for binary64.)
  const bool keeps = !kStream && n <= kKeptDeviations && x != out.At(row, 0);
  RowNorm norms[kRows];
  bool fit = true;
  for (size_t r = 0; r < kRows; ++r) {
    norms[r].deviation.mean = Fold(x + r * x_stride, n, Value()) / count;
  }
  for (size_t r = 0; r < kRows; ++r) {
    const Centred centred = {norms[r].deviation.mean};
    norms[r].deviation.correction = Fold(x + r * x_stride, n, centred) / count;
  }
  for (size_t r = 0; r < kRows; ++r) {
    const SquaredDeviation squared = {norms[r].deviation};
    const float sum = keeps ? Fold(x + r * x_stride, n, squared,
                                   KeepDeviations{&out, row + r, nullptr})
                            : Fold(x + r * x_stride, n, squared);
    norms[r].variance_plus_epsilon = sum / count + params.epsilon;
    fit = fit && InBinary32Range(norms[r].variance_plus_epsilon);
  }
  const size_t kept = keeps ? n - n % kLanes : 0;
  if (HWY_LIKELY(fit)) {
    NormalizeRows<kRows, kStream>(params, norms, x, x_stride, row, kept, out);
    return;
  }
  for (size_t r = 0; r < kRows; ++r) {
    const float* x_r = x + r * x_stride;
    if (InBinary32Range(norms[r].variance_plus_epsilon)) {
      NormalizeRows<1, kStream>(params, norms + r, x_r, x_stride, row + r, kept,
                                out);
    } else {
      LayerNormRowBinary64(
          x_r, n, params.epsilon, params.scale, params.offset,
          {out.At(row + r, 0), out.row_stride, out.block_stride});
    }
  }
}

// How many rows take each pass in turn (see kFourNormRows).
template <bool kStream>
HWY_INLINE size_t NormRowsTogether(size_t d_model, size_t rows) {
  if constexpr (kStream) {
    return d_model < kTwoStreamedNormRows  ? 4
           : d_model < kOneStreamedNormRow ? 2
                                           : 1;
  }
  const bool far = rows * d_model >= kFarMatrixFloats;
  if (far && d_model >= kOneNormRow && d_model < kTwoNormRowsFar) return 1;
  return d_model <= kFourNormRows ? 4 : 2;
}

// out = LN(x) on rows; out may be x. kStream: see NormalizeRows.
template <bool kStream = false>
HWY_INLINE void LayerNormRows(const NormParams& params, const float* x,
                              size_t x_stride, size_t rows,
                              const BlockedRows& out) {
  const size_t together = NormRowsTogether<kStream>(params.d_model, rows);
  size_t row = 0;
  for (; together == 4 && rows - row >= 4; row += 4) {
    LayerNormTogether<4, kStream>(params, x + row * x_stride, x_stride, row,
                                  out);
  }
  for (; together >= 2 && rows - row >= 2; row += 2) {
    LayerNormTogether<2, kStream>(params, x + row * x_stride, x_stride, row,
                                  out);
  }
  for (; row < rows; ++row) {
    LayerNormTogether<1, kStream>(params, x + row * x_stride, x_stride, row,
                                  out);
  }
}

void LayerNorm(const LayerNormArgs& args) {
  const NormParams params = {args.d_model, args.epsilon, args.scale,
                             args.offset};
  const BlockedRows out = RowMajor(args.y, args.y_stride);
  // In place, the lines of y are in the caches already.
  if (args.d_model < kStreamedNormRow || args.x == args.y ||
      !StreamsRows(args.rows, args.d_model, args.y, args.y_stride)) {
    return LayerNormRows(params, args.x, args.x_stride, args.rows, out);
  }
  LayerNormRows<true>(params, args.x, args.x_stride, args.rows, out);
  hwy::FlushStream();
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace ffnorm
HWY_AFTER_NAMESPACE();

#endif  // include guard
