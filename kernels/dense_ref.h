// One output of a Dense layer, scalar: the definition of its bits
// (CONTRACT.md).
#ifndef FFNORM_KERNELS_DENSE_REF_H_
#define FFNORM_KERNELS_DENSE_REF_H_

#include <stddef.h>

#include "kernels/fma_ref.h"
#include "kernels/shape.h"

namespace ffnorm {
namespace {

// One Dense layer as the caller has it, in either layout.
struct DenseWeights {
  size_t inputs;
  size_t outputs;
  const float* w;
  size_t input_stride;   // from w[k][n] to w[k + 1][n]
  size_t output_stride;  // from w[k][n] to w[k][n + 1]
  const float* bias;     // (outputs), or NULL
};

// Layer 1 maps d_model to d_ff, layer 2 back.
inline DenseWeights LayerWeights(const ffnorm_params& params,
                                 ffnorm_layer layer) {
  const bool first = layer == FFNORM_DENSE_1;
  DenseWeights dense;
  dense.inputs = first ? params.d_model : params.d_ff;
  dense.outputs = first ? params.d_ff : params.d_model;
  dense.w = first ? params.w1 : params.w2;
  dense.bias = first ? params.b1 : params.b2;
  const bool in_out = params.layout == FFNORM_IN_OUT;
  size_t stride = first ? params.w1_stride : params.w2_stride;
  if (stride == 0) stride = in_out ? dense.outputs : dense.inputs;
  dense.input_stride = in_out ? stride : 1;
  dense.output_stride = in_out ? 1 : stride;
  return dense;
}

// NaN stays NaN and -0 stays -0.
inline float ReluRef(float v) { return v < 0.0f ? 0.0f : v; }

// Column n of one row x.
inline float DenseRef(const DenseWeights& dense, ffnorm_class rounding,
                      const float* x, size_t n) {
  const float* w = dense.w + n * dense.output_stride;
  float total = 0.0f;
  for (size_t k0 = 0; k0 < dense.inputs; k0 += kBlockK) {
    const size_t left = dense.inputs - k0;
    const size_t k1 = k0 + (left < kBlockK ? left : kBlockK);
    float block = 0.0f;
    for (size_t k = k0; k < k1; ++k) {
      block = MulAddRef(rounding, x[k], w[k * dense.input_stride], block);
    }
    total = total + block;
  }
  return dense.bias == nullptr ? total : total + dense.bias[n];
}

}  // namespace
}  // namespace ffnorm

#endif  // FFNORM_KERNELS_DENSE_REF_H_
