// y = x + v on one row, scalar.
#ifndef FFNORM_KERNELS_RESIDUAL_ADD_REF_H_
#define FFNORM_KERNELS_RESIDUAL_ADD_REF_H_

#include <stddef.h>

namespace ffnorm {
namespace {

// y may be x or v.
inline void ResidualAddRowRef(const float* x, const float* v, size_t n,
                              float* y) {
  for (size_t i = 0; i < n; ++i) y[i] = x[i] + v[i];
}

}  // namespace
}  // namespace ffnorm

#endif  // FFNORM_KERNELS_RESIDUAL_ADD_REF_H_
