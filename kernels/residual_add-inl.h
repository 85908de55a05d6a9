// y = x + v on rows.
#if defined(FFNORM_KERNELS_RESIDUAL_ADD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FFNORM_KERNELS_RESIDUAL_ADD_INL_H_
#undef FFNORM_KERNELS_RESIDUAL_ADD_INL_H_
#else
#define FFNORM_KERNELS_RESIDUAL_ADD_INL_H_
#endif

#include <hwy/highway.h>
#include <stddef.h>

#include "kernels/simd-inl.h"
#include "kernels/target.h"

HWY_BEFORE_NAMESPACE();
namespace ffnorm {
namespace HWY_NAMESPACE {
namespace {

// y may be x or v.
HWY_INLINE void ResidualAddRow(const float* x, const float* v, size_t n,
                               float* y) {
  const hn::ScalableTag<float> d;
  const size_t N = hn::Lanes(d);
  size_t i = 0;
  for (; i + N <= n; i += N) {
    hn::StoreU(hn::Add(hn::LoadU(d, x + i), hn::LoadU(d, v + i)), d, y + i);
  }
  for (; i < n; ++i) y[i] = x[i] + v[i];
}

void ResidualAdd(const ResidualAddArgs& args) {
  for (size_t r = 0; r < args.rows; ++r) {
    ResidualAddRow(args.x + r * args.x_stride, args.v + r * args.v_stride,
                   args.d_model, args.y + r * args.y_stride);
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace ffnorm
HWY_AFTER_NAMESPACE();

#endif  // include guard
