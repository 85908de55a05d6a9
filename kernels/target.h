// One target's kernels, and how the rest of the library finds them.
#ifndef FFNORM_KERNELS_TARGET_H_
#define FFNORM_KERNELS_TARGET_H_

#include <stddef.h>
#include <stdint.h>

#include "ffnorm/ffnorm.h"
#include "kernels/shape.h"

namespace ffnorm {

// Arguments of the stages, checked before a kernel sees them: rows >= 1.
struct LayerNormArgs {
  size_t d_model;
  float epsilon;
  const float* scale;   // or NULL
  const float* offset;  // or NULL
  size_t rows;
  const float* x;
  size_t x_stride;
  float* y;
  size_t y_stride;
};

struct ResidualAddArgs {
  size_t d_model;
  size_t rows;
  const float* x;
  size_t x_stride;
  const float* v;
  size_t v_stride;
  float* y;
  size_t y_stride;
};

struct DenseArgs {
  const ffnorm_block* block;
  ffnorm_layer layer;
  ffnorm_activation activation;
  size_t rows;
  const float* x;
  size_t x_stride;
  float* y;
  size_t y_stride;
  const ffnorm_exec* exec;
};

struct ForwardArgs {
  const ffnorm_block* block;
  ffnorm_order order;
  size_t rows;
  const float* x;
  size_t x_stride;
  float* y;
  size_t y_stride;
  const ffnorm_exec* exec;
};

}  // namespace ffnorm

// The opaque type of the public header: constants and functions only, so a
// table of them needs no initializer at run time.
struct ffnorm_target {
  const char* name;
  ffnorm_class rounding;
  // The smallest CpuLevel (cpu.h) that runs it.
  uint32_t cpu_level;
  size_t tile_rows;   // rows of the largest register tile (MR)
  size_t block_rows;  // rows that stay in L2 together (MC)
  size_t task_rows;   // for each task at least, or tasks share columns
  size_t (*vector_bytes)();
  void (*layer_norm)(const ffnorm::LayerNormArgs&);
  void (*residual_add)(const ffnorm::ResidualAddArgs&);
  void (*dense)(const ffnorm::DenseArgs&);
  void (*forward)(const ffnorm::ForwardArgs&);
};

extern "C" {
// All targets of this build, the best one first, and how many (targets.cc).
extern const ffnorm_target* const ffnorm_built_targets[];
extern const size_t ffnorm_num_built_targets;
}

namespace ffnorm {
namespace {

// Puts the default where *target is NULL.
inline ffnorm_status DefaultTarget(const ffnorm_target** target) {
  return *target != nullptr ? FFNORM_OK : ffnorm_find_target(nullptr, target);
}

}  // namespace
}  // namespace ffnorm

#endif  // FFNORM_KERNELS_TARGET_H_
