// Argument checks shared by the public functions.
#ifndef FFNORM_KERNELS_CHECK_H_
#define FFNORM_KERNELS_CHECK_H_

#include <float.h>
#include <stddef.h>
#include <stdint.h>

#include "ffnorm/ffnorm.h"
#include "kernels/dense_ref.h"
#include "kernels/shape.h"

namespace ffnorm {
namespace {

inline bool IsAligned(const void* pointer, size_t alignment) {
  return reinterpret_cast<uintptr_t>(pointer) % alignment == 0;
}
inline bool IsFloatAligned(const float* pointer) {
  return IsAligned(pointer, sizeof(float));
}

// Finite and not negative; false for NaN.
inline bool IsEpsilon(float epsilon) {
  return epsilon >= 0.0f && epsilon <= FLT_MAX;
}

// Callers may pass any number where an enum is wanted.
inline bool IsOrder(ffnorm_order order) {
  return order == FFNORM_PRE_LN || order == FFNORM_POST_LN;
}
inline bool IsLayer(ffnorm_layer layer) {
  return layer == FFNORM_DENSE_1 || layer == FFNORM_DENSE_2;
}
inline bool IsActivation(ffnorm_activation activation) {
  return activation == FFNORM_LINEAR || activation == FFNORM_RELU;
}

// A span of memory in bytes, [begin, end).
struct Span {
  uintptr_t begin;
  uintptr_t end;
};
inline bool Overlap(const Span& a, const Span& b) {
  return a.begin < b.end && b.begin < a.end && a.begin < a.end &&
         b.begin < b.end;
}
inline Span SpanOf(const void* pointer, size_t bytes) {
  const uintptr_t begin = reinterpret_cast<uintptr_t>(pointer);
  return {begin, begin + bytes};
}

// A caller's matrix: `rows` rows of `columns` floats, `stride` apart.
struct Matrix {
  const float* data;
  size_t rows;
  size_t columns;
  size_t stride;
};

// rows >= 1. From the first element to past the last one.
inline bool MatrixBytes(const Matrix& m, size_t* bytes) {
  size_t floats;
  return CheckedMul(m.rows - 1, m.stride, &floats) &&
         CheckedAdd(floats, m.columns, &floats) &&
         CheckedMul(floats, sizeof(float), bytes);
}

// rows >= 1. On FFNORM_OK *span is the memory from first to last element.
inline ffnorm_status CheckMatrix(const Matrix& m, Span* span) {
  if (m.data == nullptr || !IsFloatAligned(m.data) || m.stride < m.columns) {
    return FFNORM_INVALID_ARGUMENT;
  }
  size_t bytes;
  if (!MatrixBytes(m, &bytes)) return FFNORM_SIZE_OVERFLOW;
  *span = SpanOf(m.data, bytes);
  // A span that wraps around is no memory.
  return span->end < span->begin ? FFNORM_SIZE_OVERFLOW : FFNORM_OK;
}

// Whether writing `to` could change an element of `from` other than the one it
// replaces. Allowed: the same matrix; and, at equal strides, rows side by side
// in one larger matrix.
inline bool ElementsClash(const Matrix& from, const Span& from_span,
                          const Matrix& to, const Span& to_span) {
  if (!Overlap(from_span, to_span)) return false;
  if (from.stride != to.stride) return true;
  if (from.data == to.data) return false;
  // One row has no next one, and its stride may be any number.
  if (from.rows == 1) return true;
  const uintptr_t row_bytes = from.stride * sizeof(float);
  const uintptr_t shift = (to_span.begin - from_span.begin) % row_bytes;
  const uintptr_t back = (from_span.begin - to_span.begin) % row_bytes;
  const uintptr_t to_right =
      to_span.begin >= from_span.begin ? shift : (row_bytes - back) % row_bytes;
  return to_right < from.columns * sizeof(float) ||
         to_right + to.columns * sizeof(float) > row_bytes;
}

// From the input of a stage to its output.
struct Rows {
  Matrix x;
  Matrix y;
  Span x_span;
  Span y_span;
};

// rows >= 1. Whether a row may replace the row that it was computed from.
enum class InPlace { kNo, kYes };

inline ffnorm_status CheckRows(Rows* rows, InPlace in_place) {
  ffnorm_status status = CheckMatrix(rows->x, &rows->x_span);
  if (status == FFNORM_OK) status = CheckMatrix(rows->y, &rows->y_span);
  if (status != FFNORM_OK) return status;
  const bool same = rows->x.data == rows->y.data;
  if (same && in_place == InPlace::kNo) return FFNORM_INVALID_ARGUMENT;
  return ElementsClash(rows->x, rows->x_span, rows->y, rows->y_span)
             ? FFNORM_INVALID_ARGUMENT
             : FFNORM_OK;
}

// The whole of ffnorm_layer_norm's arguments. scale and offset must not overlap
// y, or later rows would be scaled by results.
inline ffnorm_status CheckLayerNorm(size_t d_model, float epsilon,
                                    const float* scale, const float* offset,
                                    size_t rows, const float* x,
                                    size_t x_stride, const float* y,
                                    size_t y_stride) {
  if (d_model == 0 || !IsEpsilon(epsilon) || !IsFloatAligned(scale) ||
      !IsFloatAligned(offset)) {
    return FFNORM_INVALID_ARGUMENT;
  }
  if (rows == 0) return FFNORM_OK;
  Rows io = {
      {x, rows, d_model, x_stride}, {y, rows, d_model, y_stride}, {}, {}};
  const ffnorm_status status = CheckRows(&io, InPlace::kYes);
  if (status != FFNORM_OK) return status;
  const size_t bytes = d_model * sizeof(float);
  if ((scale != nullptr && Overlap(SpanOf(scale, bytes), io.y_span)) ||
      (offset != nullptr && Overlap(SpanOf(offset, bytes), io.y_span))) {
    return FFNORM_INVALID_ARGUMENT;
  }
  return FFNORM_OK;
}

// The whole of ffnorm_residual_add's arguments.
inline ffnorm_status CheckResidualAdd(size_t d_model, size_t rows,
                                      const float* x, size_t x_stride,
                                      const float* v, size_t v_stride,
                                      const float* y, size_t y_stride) {
  if (d_model == 0) return FFNORM_INVALID_ARGUMENT;
  if (rows == 0) return FFNORM_OK;
  const Matrix to = {y, rows, d_model, y_stride};
  Rows from_x = {{x, rows, d_model, x_stride}, to, {}, {}};
  Rows from_v = {{v, rows, d_model, v_stride}, to, {}, {}};
  const ffnorm_status status = CheckRows(&from_x, InPlace::kYes);
  return status != FFNORM_OK ? status : CheckRows(&from_v, InPlace::kYes);
}

inline ffnorm_status CheckSizes(const ffnorm_params* params) {
  if (params == nullptr || params->d_model == 0 || params->d_ff == 0) {
    return FFNORM_INVALID_ARGUMENT;
  }
  return FFNORM_OK;
}

// One weight matrix as stored: rows of its leading dimension.
inline Matrix StoredMatrix(const ffnorm_params& params, ffnorm_layer layer) {
  const DenseWeights dense = LayerWeights(params, layer);
  const bool in_out = params.layout == FFNORM_IN_OUT;
  return {dense.w, in_out ? dense.inputs : dense.outputs,
          in_out ? dense.outputs : dense.inputs,
          in_out ? dense.input_stride : dense.output_stride};
}

inline ffnorm_status CheckParams(const ffnorm_params* params) {
  const ffnorm_status sizes = CheckSizes(params);
  if (sizes != FFNORM_OK) return sizes;
  if (params->layout != FFNORM_IN_OUT && params->layout != FFNORM_OUT_IN) {
    return FFNORM_INVALID_ARGUMENT;
  }
  if (!IsEpsilon(params->epsilon) || !IsFloatAligned(params->b1) ||
      !IsFloatAligned(params->b2) || !IsFloatAligned(params->scale) ||
      !IsFloatAligned(params->offset)) {
    return FFNORM_INVALID_ARGUMENT;
  }
  Span span;
  const ffnorm_status first =
      CheckMatrix(StoredMatrix(*params, FFNORM_DENSE_1), &span);
  if (first != FFNORM_OK) return first;
  return CheckMatrix(StoredMatrix(*params, FFNORM_DENSE_2), &span);
}

// params as CheckParams accepts them.
inline bool ParamsOverlap(const ffnorm_params& params, const void* memory,
                          size_t bytes) {
  const Span to = SpanOf(memory, bytes);
  const auto overlaps = [&to](const float* vector, size_t n) {
    return vector != nullptr && Overlap(SpanOf(vector, n * sizeof(float)), to);
  };
  const auto matrix_overlaps = [&](ffnorm_layer layer) {
    Span span;
    return CheckMatrix(StoredMatrix(params, layer), &span) != FFNORM_OK ||
           Overlap(span, to);
  };
  return matrix_overlaps(FFNORM_DENSE_1) || matrix_overlaps(FFNORM_DENSE_2) ||
         overlaps(params.b1, params.d_ff) ||
         overlaps(params.b2, params.d_model) ||
         overlaps(params.scale, params.d_model) ||
         overlaps(params.offset, params.d_model);
}

}  // namespace
}  // namespace ffnorm

#endif  // FFNORM_KERNELS_CHECK_H_
