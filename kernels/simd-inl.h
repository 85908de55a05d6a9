// Per-target basics of the kernels: vector types and the row of tuning.h.
#if defined(FFNORM_KERNELS_SIMD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FFNORM_KERNELS_SIMD_INL_H_
#undef FFNORM_KERNELS_SIMD_INL_H_
#else
#define FFNORM_KERNELS_SIMD_INL_H_
#endif

#include <hwy/highway.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/shape.h"
#include "kernels/tuning.h"

HWY_BEFORE_NAMESPACE();
namespace ffnorm {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET == HWY_AVX3
constexpr Tuning kTuning = kTuningAvx3;
#elif HWY_TARGET == HWY_AVX2
constexpr Tuning kTuning = kTuningAvx2;
#elif HWY_ARCH_X86
constexpr Tuning kTuning = kTuningSse;
#else
constexpr Tuning kTuning = kTuning32Registers;
#endif

HWY_INLINE const ReadTuning& ReadTuningFor(bool cpu_reads_ahead) {
  return cpu_reads_ahead ? kTuning.reads_ahead : kTuning.read;
}

// Vectors of a matmul tile. Where the vector length is known only at run time a
// tile must still fit in one panel, so its vectors are capped.
#if HWY_HAVE_SCALABLE
constexpr size_t kMaxTileLanes = kPanelWidth / 4;
#else
constexpr size_t kMaxTileLanes = kPanelWidth;
#endif
using TileTag = hn::CappedTag<float, kMaxTileLanes>;
using TileVec = hn::Vec<TileTag>;

// Keeps v in a register until its last use. GCC 12 would load it again for each
// multiply-add of a tile for few rows, and then loads take longer than these.
HWY_INLINE void HoldVector([[maybe_unused]] TileVec* v) {
#if HWY_COMPILER_GCC_ACTUAL && \
    (HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2)
  asm("" : "+v"(v->raw));
#endif
}

HWY_INLINE void PrefetchL1(const float* p) { __builtin_prefetch(p, 0, 3); }

// Makes a line, which will be written whole, this core's own meanwhile. If
// another core has read it, that takes 7 ns on Zen 4, 30 from one L3 to
// another, one line after the other, and PREFETCHW leaves such lines alone.
HWY_INLINE void ClaimLine(float* p) { *const_cast<volatile float*>(p) = 0.0f; }

// For weights: two panels do not fit in L1.
HWY_INLINE void PrefetchL2(const float* p) { __builtin_prefetch(p, 0, 2); }

// The line so many floats behind p, which need not be in the same array.
HWY_INLINE void PrefetchL2Ahead(const float* p, size_t floats) {
  const uintptr_t at = reinterpret_cast<uintptr_t>(p) + floats * sizeof(float);
  PrefetchL2(reinterpret_cast<const float*>(at));
}

// Whether rows of a result are better stored past the caches (kStreamedFloats).
// That takes whole lines, and whoever does it calls hwy::FlushStream() at the
// end.
HWY_INLINE bool StreamsRows([[maybe_unused]] size_t rows,
                            [[maybe_unused]] size_t width,
                            [[maybe_unused]] const float* y,
                            [[maybe_unused]] size_t y_stride) {
#if HWY_ARCH_X86
  const bool whole_lines = reinterpret_cast<uintptr_t>(y) % kAlignment == 0 &&
                           y_stride % kAlignmentFloats == 0 &&
                           width % kAlignmentFloats == 0;
  return whole_lines && rows >= CeilDiv(kStreamedFloats, width);
#else
  return false;  // not measured
#endif
}

template <bool kStream, class D>
HWY_INLINE void StoreRow(hn::Vec<D> v, D d, float* y) {
  if constexpr (kStream) {
    hn::Stream(v, d, y);
  } else {
    hn::StoreU(v, d, y);
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace ffnorm
HWY_AFTER_NAMESPACE();

#endif  // include guard
