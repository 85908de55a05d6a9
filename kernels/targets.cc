// Compiles the kernels once for each target and collects them in a table.
//
// Only Highway's headers are used. Its own dispatch would need its compiled
// library, which distributions ship as a shared object only; a constant table
// for each target and cpu.h do instead.

// The AVX-512 subtargets, all of the bits below AVX3's, bring no instruction
// that these kernels would use.
#define HWY_DISABLED_TARGETS (HWY_AVX3 - 1)

// Elsewhere than on x86 the target is the one that the compiler was told of.
#if !defined(__x86_64__) && !defined(__i386__)
#define HWY_COMPILE_ONLY_STATIC
#endif

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/targets.cc"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

#include "kernels/block-inl.h"
#include "kernels/cpu.h"
#include "kernels/dense-inl.h"
#include "kernels/layer_norm-inl.h"
#include "kernels/residual_add-inl.h"
#include "kernels/simd-inl.h"
#include "kernels/target.h"

HWY_BEFORE_NAMESPACE();
namespace ffnorm {
namespace HWY_NAMESPACE {
namespace {

size_t VectorBytes() {
  return hn::Lanes(hn::ScalableTag<float>()) * sizeof(float);
}

constexpr CpuLevel kCpuLevel = HWY_TARGET == HWY_AVX3    ? kCpuAvx3
                               : HWY_TARGET == HWY_AVX2  ? kCpuAvx2
                               : HWY_TARGET == HWY_SSE4  ? kCpuSse4
                               : HWY_TARGET == HWY_SSSE3 ? kCpuSsse3
                                                         : kCpuBaseline;

static_assert(kTuning.task_rows <= kRowsPerTaskFar,
              "a workspace has room for columns of so many rows");

constexpr ffnorm_target kTarget = {
    &HWY_STR(HWY_NAMESPACE)[2],  // without "N_"
    HWY_NATIVE_FMA ? FFNORM_FUSED : FFNORM_UNFUSED,
    kCpuLevel,
    kTuning.tile_rows,
    kTuning.block_rows,
    kTuning.task_rows,
    &VectorBytes,
    &LayerNorm,
    &ResidualAdd,
    &Dense,
    &Forward,
};

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace ffnorm
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

extern "C" {

const ffnorm_target* const ffnorm_built_targets[] = {
#ifdef HWY_COMPILE_ONLY_STATIC
    &ffnorm::HWY_NAMESPACE::kTarget,
#else
#if HWY_TARGETS & HWY_AVX3
    &ffnorm::N_AVX3::kTarget,
#endif
#if HWY_TARGETS & HWY_AVX2
    &ffnorm::N_AVX2::kTarget,
#endif
#if HWY_TARGETS & HWY_SSE4
    &ffnorm::N_SSE4::kTarget,
#endif
#if HWY_TARGETS & HWY_SSSE3
    &ffnorm::N_SSSE3::kTarget,
#endif
#if HWY_TARGETS & HWY_SSE2
    &ffnorm::N_SSE2::kTarget,
#endif
#if HWY_TARGETS & HWY_EMU128
    &ffnorm::N_EMU128::kTarget,
#endif
#if HWY_TARGETS & HWY_SCALAR
    &ffnorm::N_SCALAR::kTarget,
#endif
#endif  // HWY_COMPILE_ONLY_STATIC
};

const size_t ffnorm_num_built_targets =
    sizeof(ffnorm_built_targets) / sizeof(ffnorm_built_targets[0]);

}  // extern "C"

#endif  // HWY_ONCE
