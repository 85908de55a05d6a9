// The public functions that run kernels: every argument is checked here, then
// the target's function does the work.
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "ffnorm/ffnorm.h"
#include "kernels/check.h"
#include "kernels/cpu.h"
#include "kernels/packed.h"
#include "kernels/plan.h"
#include "kernels/shape.h"
#include "kernels/split.h"
#include "kernels/target.h"

namespace ffnorm {
namespace {

bool IsBlock(const ffnorm_block* block) {
  return block != nullptr && block->target != nullptr &&
         block->packed != nullptr && block->d_model != 0 && block->d_ff != 0;
}

// Workspace large enough, and apart from all other memory of the call.
ffnorm_status CheckExec(const ffnorm_block& block, const Rows& rows,
                        const ffnorm_exec* exec) {
  if (exec == nullptr) return FFNORM_INVALID_ARGUMENT;
  size_t bytes;
  if (!WorkspaceBytes(block, rows.x.rows, Tasks(*exec), &bytes)) {
    return FFNORM_SIZE_OVERFLOW;
  }
  if (exec->workspace == nullptr || exec->workspace_bytes < bytes) {
    return FFNORM_WORKSPACE_TOO_SMALL;
  }
  const Span workspace = SpanOf(exec->workspace, bytes);
  const Span packed = SpanOf(block.packed, block.packed_bytes);
  if (!IsAligned(exec->workspace, kAlignment) ||
      Overlap(workspace, rows.x_span) || Overlap(workspace, rows.y_span) ||
      Overlap(workspace, packed) || Overlap(rows.y_span, packed)) {
    return FFNORM_INVALID_ARGUMENT;
  }
  return FFNORM_OK;
}

bool Runs(const ffnorm_target& target, CpuLevel cpu) {
  return target.cpu_level <= cpu;
}

}  // namespace
}  // namespace ffnorm

extern "C" {

const char* ffnorm_version(void) { return FFNORM_VERSION; }

const char* ffnorm_status_string(ffnorm_status status) {
  switch (status) {
    case FFNORM_OK:
      return "ok";
    case FFNORM_INVALID_ARGUMENT:
      return "invalid argument";
    case FFNORM_UNSUPPORTED:
      return "not supported by this build or this CPU";
    case FFNORM_CORRUPT:
      return "not a whole, unchanged packed block";
    case FFNORM_SIZE_OVERFLOW:
      return "a size does not fit in memory";
    case FFNORM_MEMORY_TOO_SMALL:
      return "memory too small for the packed block";
    case FFNORM_WORKSPACE_TOO_SMALL:
      return "workspace missing or too small";
  }
  return "unknown status";
}

size_t ffnorm_targets(const ffnorm_target** targets, size_t capacity) {
  const ffnorm::CpuLevel cpu = ffnorm::ThisCpu();
  size_t count = 0;
  for (size_t i = 0; i < ffnorm_num_built_targets; ++i) {
    if (!ffnorm::Runs(*ffnorm_built_targets[i], cpu)) continue;
    if (count < capacity) targets[count] = ffnorm_built_targets[i];
    ++count;
  }
  return count;
}

ffnorm_status ffnorm_find_target(const char* name,
                                 const ffnorm_target** target) {
  if (target == nullptr) return FFNORM_INVALID_ARGUMENT;
  if (name == nullptr) {
    name = getenv("FFNORM_TARGET");
    if (name != nullptr && name[0] == '\0') name = nullptr;  // as if unset
  }
  const ffnorm::CpuLevel cpu = ffnorm::ThisCpu();
  for (size_t i = 0; i < ffnorm_num_built_targets; ++i) {
    const ffnorm_target* built = ffnorm_built_targets[i];
    if (ffnorm::Runs(*built, cpu) &&
        (name == nullptr || strcmp(name, built->name) == 0)) {
      *target = built;
      return FFNORM_OK;
    }
  }
  return FFNORM_UNSUPPORTED;
}

const char* ffnorm_target_name(const ffnorm_target* target) {
  return target == nullptr ? nullptr : target->name;
}

size_t ffnorm_target_vector_bytes(const ffnorm_target* target) {
  return target == nullptr ? 0 : target->vector_bytes();
}

ffnorm_class ffnorm_target_class(const ffnorm_target* target) {
  return target == nullptr ? FFNORM_UNFUSED : target->rounding;
}

ffnorm_status ffnorm_workspace_bytes(const ffnorm_block* block, size_t rows,
                                     size_t threads, size_t* bytes) {
  if (!ffnorm::IsBlock(block) || bytes == nullptr) {
    return FFNORM_INVALID_ARGUMENT;
  }
  if (rows == 0) rows = 1;
  if (threads == 0) threads = 1;
  size_t needed;
  if (!ffnorm::WorkspaceBytes(*block, rows, threads, &needed)) {
    return FFNORM_SIZE_OVERFLOW;
  }
  *bytes = needed;
  return FFNORM_OK;
}

ffnorm_status ffnorm_forward(const ffnorm_block* block, ffnorm_order order,
                             size_t rows, const float* x, size_t x_stride,
                             float* y, size_t y_stride,
                             const ffnorm_exec* exec) {
  using namespace ffnorm;
  if (!IsBlock(block) || !IsOrder(order)) {
    return FFNORM_INVALID_ARGUMENT;
  }
  if (rows == 0) return FFNORM_OK;
  Rows io = {{x, rows, block->d_model, x_stride},
             {y, rows, block->d_model, y_stride},
             {},
             {}};
  ffnorm_status status = CheckRows(&io, InPlace::kYes);
  if (status == FFNORM_OK) status = CheckExec(*block, io, exec);
  if (status != FFNORM_OK) return status;
  block->target->forward({block, order, rows, x, x_stride, y, y_stride, exec});
  return FFNORM_OK;
}

ffnorm_status ffnorm_dense(const ffnorm_block* block, ffnorm_layer layer,
                           ffnorm_activation activation, size_t rows,
                           const float* x, size_t x_stride, float* y,
                           size_t y_stride, const ffnorm_exec* exec) {
  using namespace ffnorm;
  if (!IsBlock(block) || !IsLayer(layer) || !IsActivation(activation)) {
    return FFNORM_INVALID_ARGUMENT;
  }
  if (rows == 0) return FFNORM_OK;
  const bool first = layer == FFNORM_DENSE_1;
  Rows io = {{x, rows, first ? block->d_model : block->d_ff, x_stride},
             {y, rows, first ? block->d_ff : block->d_model, y_stride},
             {},
             {}};
  ffnorm_status status = CheckRows(&io, InPlace::kNo);
  if (status == FFNORM_OK) status = CheckExec(*block, io, exec);
  if (status != FFNORM_OK) return status;
  block->target->dense(
      {block, layer, activation, rows, x, x_stride, y, y_stride, exec});
  return FFNORM_OK;
}

ffnorm_status ffnorm_layer_norm(const ffnorm_target* target, size_t d_model,
                                float epsilon, const float* scale,
                                const float* offset, size_t rows,
                                const float* x, size_t x_stride, float* y,
                                size_t y_stride) {
  const ffnorm_status status = ffnorm::CheckLayerNorm(
      d_model, epsilon, scale, offset, rows, x, x_stride, y, y_stride);
  if (status != FFNORM_OK || rows == 0) return status;
  const ffnorm_status found = ffnorm::DefaultTarget(&target);
  if (found != FFNORM_OK) return found;
  target->layer_norm(
      {d_model, epsilon, scale, offset, rows, x, x_stride, y, y_stride});
  return FFNORM_OK;
}

ffnorm_status ffnorm_residual_add(const ffnorm_target* target, size_t d_model,
                                  size_t rows, const float* x, size_t x_stride,
                                  const float* v, size_t v_stride, float* y,
                                  size_t y_stride) {
  const ffnorm_status status = ffnorm::CheckResidualAdd(
      d_model, rows, x, x_stride, v, v_stride, y, y_stride);
  if (status != FFNORM_OK || rows == 0) return status;
  const ffnorm_status found = ffnorm::DefaultTarget(&target);
  if (found != FFNORM_OK) return found;
  target->residual_add({d_model, rows, x, x_stride, v, v_stride, y, y_stride});
  return FFNORM_OK;
}

}  // extern "C"
