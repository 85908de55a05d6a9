// The public scalar reference: ffnorm_reference_*.
#include <stddef.h>

#include "ffnorm/ffnorm.h"
#include "kernels/block_ref.h"
#include "kernels/check.h"
#include "kernels/dense_ref.h"
#include "kernels/layer_norm_ref.h"
#include "kernels/residual_add_ref.h"
#include "kernels/shape.h"

namespace ffnorm {
namespace {

bool IsClass(ffnorm_class rounding) {
  return rounding == FFNORM_UNFUSED || rounding == FFNORM_FUSED;
}

}  // namespace
}  // namespace ffnorm

extern "C" {

ffnorm_status ffnorm_reference_layer_norm(size_t d_model, float epsilon,
                                          const float* scale,
                                          const float* offset, size_t rows,
                                          const float* x, size_t x_stride,
                                          float* y, size_t y_stride) {
  const ffnorm_status status = ffnorm::CheckLayerNorm(
      d_model, epsilon, scale, offset, rows, x, x_stride, y, y_stride);
  if (status != FFNORM_OK) return status;
  for (size_t r = 0; r < rows; ++r) {
    ffnorm::LayerNormRowRef(x + r * x_stride, d_model, epsilon, scale, offset,
                            ffnorm::RowMajor(y + r * y_stride, y_stride));
  }
  return FFNORM_OK;
}

ffnorm_status ffnorm_reference_dense(const ffnorm_params* params,
                                     ffnorm_class rounding, ffnorm_layer layer,
                                     ffnorm_activation activation, size_t rows,
                                     const float* x, size_t x_stride, float* y,
                                     size_t y_stride) {
  using namespace ffnorm;
  const ffnorm_status status = CheckParams(params);
  if (status != FFNORM_OK) return status;
  if (!IsClass(rounding) || !IsLayer(layer) || !IsActivation(activation)) {
    return FFNORM_INVALID_ARGUMENT;
  }
  if (rows == 0) return FFNORM_OK;
  const DenseWeights dense = LayerWeights(*params, layer);
  Rows io = {{x, rows, dense.inputs, x_stride},
             {y, rows, dense.outputs, y_stride},
             {},
             {}};
  const ffnorm_status io_status = CheckRows(&io, InPlace::kNo);
  if (io_status != FFNORM_OK) return io_status;
  for (size_t r = 0; r < rows; ++r) {
    for (size_t n = 0; n < dense.outputs; ++n) {
      const float v = DenseRef(dense, rounding, x + r * x_stride, n);
      y[r * y_stride + n] = activation == FFNORM_RELU ? ReluRef(v) : v;
    }
  }
  return FFNORM_OK;
}

ffnorm_status ffnorm_reference_residual_add(size_t d_model, size_t rows,
                                            const float* x, size_t x_stride,
                                            const float* v, size_t v_stride,
                                            float* y, size_t y_stride) {
  const ffnorm_status status = ffnorm::CheckResidualAdd(
      d_model, rows, x, x_stride, v, v_stride, y, y_stride);
  if (status != FFNORM_OK) return status;
  for (size_t r = 0; r < rows; ++r) {
    ffnorm::ResidualAddRowRef(x + r * x_stride, v + r * v_stride, d_model,
                              y + r * y_stride);
  }
  return FFNORM_OK;
}

ffnorm_status ffnorm_reference_workspace_bytes(const ffnorm_params* params,
                                               size_t* bytes) {
  if (bytes == nullptr) return FFNORM_INVALID_ARGUMENT;
  const ffnorm_status status = ffnorm::CheckSizes(params);
  if (status != FFNORM_OK) return status;
  size_t floats, needed;
  if (!ffnorm::BlockRefScratch(*params, &floats) ||
      !ffnorm::CheckedMul(floats, sizeof(float), &needed)) {
    return FFNORM_SIZE_OVERFLOW;
  }
  *bytes = needed;
  return FFNORM_OK;
}

ffnorm_status ffnorm_reference_forward(
    const ffnorm_params* params, ffnorm_class rounding, ffnorm_order order,
    size_t rows, const float* x, size_t x_stride, float* y, size_t y_stride,
    void* workspace, size_t workspace_bytes) {
  using namespace ffnorm;
  ffnorm_status status = CheckParams(params);
  if (status != FFNORM_OK) return status;
  if (!IsClass(rounding) || !IsOrder(order)) {
    return FFNORM_INVALID_ARGUMENT;
  }
  if (rows == 0) return FFNORM_OK;
  Rows io = {{x, rows, params->d_model, x_stride},
             {y, rows, params->d_model, y_stride},
             {},
             {}};
  status = CheckRows(&io, InPlace::kYes);
  if (status != FFNORM_OK) return status;
  size_t needed;
  status = ffnorm_reference_workspace_bytes(params, &needed);
  if (status != FFNORM_OK) return status;
  if (workspace == nullptr || workspace_bytes < needed) {
    return FFNORM_WORKSPACE_TOO_SMALL;
  }
  float* scratch = static_cast<float*>(workspace);
  const Span span = SpanOf(workspace, needed);
  if (!IsFloatAligned(scratch) || Overlap(span, io.x_span) ||
      Overlap(span, io.y_span)) {
    return FFNORM_INVALID_ARGUMENT;
  }
  for (size_t r = 0; r < rows; ++r) {
    BlockRowRef(*params, rounding, order, x + r * x_stride, y + r * y_stride,
                scratch);
  }
  return FFNORM_OK;
}

}  // extern "C"
