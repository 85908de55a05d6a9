// y = x + v on rows.
#if defined(FFNORM_KERNELS_RESIDUAL_ADD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FFNORM_KERNELS_RESIDUAL_ADD_INL_H_
#undef FFNORM_KERNELS_RESIDUAL_ADD_INL_H_
#else
#define FFNORM_KERNELS_RESIDUAL_ADD_INL_H_
#endif

#include <hwy/cache_control.h>
#include <hwy/highway.h>
#include <stddef.h>

#include "kernels/simd-inl.h"
#include "kernels/target.h"

HWY_BEFORE_NAMESPACE();
namespace ffnorm {
namespace HWY_NAMESPACE {
namespace {

// y may be x or v. kStream: see StreamsRows.
template <bool kStream = false>
HWY_INLINE void ResidualAddRow(const float* x, const float* v, size_t n,
                               float* y) {
  const hn::ScalableTag<float> d;
  const size_t N = hn::Lanes(d);
  size_t i = 0;
  for (; i + N <= n; i += N) {
    StoreRow<kStream>(hn::Add(hn::LoadU(d, x + i), hn::LoadU(d, v + i)), d,
                      y + i);
  }
  for (; i < n; ++i) y[i] = x[i] + v[i];
}

template <bool kStream>
HWY_INLINE void ResidualAddRows(const ResidualAddArgs& args) {
  for (size_t r = 0; r < args.rows; ++r) {
    ResidualAddRow<kStream>(args.x + r * args.x_stride,
                            args.v + r * args.v_stride, args.d_model,
                            args.y + r * args.y_stride);
  }
}

void ResidualAdd(const ResidualAddArgs& args) {
  // In place, the lines of y are in the caches already.
  const bool in_place = args.y == args.x || args.y == args.v;
  if (in_place ||
      !StreamsRows(args.rows, args.d_model, args.y, args.y_stride)) {
    return ResidualAddRows<false>(args);
  }
  ResidualAddRows<true>(args);
  hwy::FlushStream();
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace ffnorm
HWY_AFTER_NAMESPACE();

#endif  // include guard
