/* ffnorm's C interface in one call each, for ctypes: what the tests compare
 * with, bit for bit. No code of ffnorm_jax is in here. */
#include <stddef.h>
#include <stdlib.h>

#include "ffnorm/ffnorm.h"

/* y = the block of x, by the best target of this CPU in one thread. */
int run_library(const ffnorm_params* params, int order, size_t rows,
                const float* x, float* y) {
  ffnorm_block block;
  ffnorm_exec exec = {0};
  void* packed = NULL;
  size_t bytes = 0;
  ffnorm_status status = ffnorm_packed_bytes(params, &bytes);
  if (status == FFNORM_OK) {
    packed = aligned_alloc(FFNORM_ALIGNMENT, bytes);
    status = ffnorm_pack(params, packed, bytes);
  }
  if (status == FFNORM_OK) {
    status = ffnorm_open(packed, bytes, NULL, &block);
  }
  if (status == FFNORM_OK) {
    status = ffnorm_workspace_bytes(&block, rows, 1, &exec.workspace_bytes);
  }
  if (status == FFNORM_OK) {
    const size_t rounded = (exec.workspace_bytes + FFNORM_ALIGNMENT - 1) /
                           FFNORM_ALIGNMENT * FFNORM_ALIGNMENT;
    exec.workspace = aligned_alloc(FFNORM_ALIGNMENT, rounded);
    status = ffnorm_forward(&block, (ffnorm_order)order, rows, x,
                            params->d_model, y, params->d_model, &exec);
  }
  free(exec.workspace);
  free(packed);
  return (int)status;
}

/* The same by the scalar reference, in the class of that target. */
int run_reference(const ffnorm_params* params, int order, size_t rows,
                  const float* x, float* y) {
  const ffnorm_target* target;
  void* workspace = NULL;
  size_t bytes = 0;
  ffnorm_status status = ffnorm_find_target(NULL, &target);
  if (status == FFNORM_OK) {
    status = ffnorm_reference_workspace_bytes(params, &bytes);
  }
  if (status == FFNORM_OK) {
    workspace = malloc(bytes);
    status = ffnorm_reference_forward(
        params, ffnorm_target_class(target), (ffnorm_order)order, rows, x,
        params->d_model, y, params->d_model, workspace, bytes);
  }
  free(workspace);
  return (int)status;
}
