// Both blocks on one row, composed from the scalar stages: the definition of
// their bits (CONTRACT.md).
#ifndef FFNORM_KERNELS_BLOCK_REF_H_
#define FFNORM_KERNELS_BLOCK_REF_H_

#include <stddef.h>

#include "kernels/dense_ref.h"
#include "kernels/layer_norm_ref.h"
#include "kernels/residual_add_ref.h"

namespace ffnorm {
namespace {

// v = FFN(z); `hidden` holds d_ff floats.
inline void FeedForwardRef(const ffnorm_params& params, ffnorm_class rounding,
                           const float* z, float* hidden, float* v) {
  const DenseWeights dense1 = LayerWeights(params, FFNORM_DENSE_1);
  const DenseWeights dense2 = LayerWeights(params, FFNORM_DENSE_2);
  for (size_t n = 0; n < params.d_ff; ++n) {
    hidden[n] = ReluRef(DenseRef(dense1, rounding, z, n));
  }
  for (size_t n = 0; n < params.d_model; ++n) {
    v[n] = DenseRef(dense2, rounding, hidden, n);
  }
}

inline void LayerNormRef(const ffnorm_params& params, const float* x,
                         float* y) {
  LayerNormRowRef(x, params.d_model, params.epsilon, params.scale,
                  params.offset, RowMajor(y, params.d_model));
}

// Floats of scratch for one row of BlockRowRef: z, v, hidden.
inline bool BlockRefScratch(const ffnorm_params& params, size_t* floats) {
  return CheckedMul(params.d_model, 2, floats) &&
         CheckedAdd(*floats, params.d_ff, floats);
}

// y may be x.
inline void BlockRowRef(const ffnorm_params& params, ffnorm_class rounding,
                        ffnorm_order order, const float* x, float* y,
                        float* scratch) {
  float* z = scratch;
  float* v = z + params.d_model;
  float* hidden = v + params.d_model;
  if (order == FFNORM_PRE_LN) {
    LayerNormRef(params, x, z);
    FeedForwardRef(params, rounding, z, hidden, v);
    ResidualAddRowRef(x, v, params.d_model, y);
  } else {
    FeedForwardRef(params, rounding, x, hidden, v);
    ResidualAddRowRef(x, v, params.d_model, v);
    LayerNormRef(params, v, y);
  }
}

}  // namespace
}  // namespace ffnorm

#endif  // FFNORM_KERNELS_BLOCK_REF_H_
