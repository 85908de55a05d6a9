/* The result that each consumer checks: a small block, in both orders, equals
 * the scalar reference bit for bit. C99, and C++. */
#ifndef FFNORM_EXAMPLES_CONSUMERS_COMPARE_H_
#define FFNORM_EXAMPLES_CONSUMERS_COMPARE_H_

#include <ffnorm/ffnorm.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kRows = 5, kModel = 72, kHidden = 200 };

static float w1[kModel * kHidden], b1[kHidden];
static float w2[kHidden * kModel], b2[kModel];
static float scale[kModel], offset[kModel];
static float x[kRows * kModel], y[kRows * kModel], expected[kRows * kModel];

/* Numbers from -1 to 1 that look random and are the same everywhere. */
static void Fill(float* values, size_t count) {
  static uint32_t state = 1;
  for (size_t i = 0; i < count; ++i) {
    state = state * 1664525u + 1013904223u;
    values[i] = (float)(int32_t)state / 2147483648.0f;
  }
}

static void Require(ffnorm_status status, const char* call) {
  if (status == FFNORM_OK) return;
  fprintf(stderr, "%s: %s\n", call, ffnorm_status_string(status));
  exit(EXIT_FAILURE);
}

/* Memory aligned for ffnorm; malloc's own pointer goes to *owner. */
static void* Aligned(size_t bytes, void** owner) {
  *owner = malloc(bytes + FFNORM_ALIGNMENT);
  if (*owner == NULL) exit(EXIT_FAILURE);
  const uintptr_t past = (uintptr_t)*owner % FFNORM_ALIGNMENT;
  return (unsigned char*)*owner + (FFNORM_ALIGNMENT - past);
}

/* Whether the block equals the reference in `order`. */
static int SameBits(const ffnorm_block* block, const ffnorm_params* params,
                    ffnorm_order order) {
  ffnorm_exec exec = {NULL, 0, NULL, NULL, 1};
  void* owner;
  size_t bytes;
  Require(ffnorm_workspace_bytes(block, kRows, 1, &exec.workspace_bytes),
          "ffnorm_workspace_bytes");
  exec.workspace = Aligned(exec.workspace_bytes, &owner);
  Require(ffnorm_forward(block, order, kRows, x, kModel, y, kModel, &exec),
          "ffnorm_forward");
  free(owner);

  Require(ffnorm_reference_workspace_bytes(params, &bytes),
          "ffnorm_reference_workspace_bytes");
  void* workspace = Aligned(bytes, &owner);
  Require(ffnorm_reference_forward(params, ffnorm_target_class(block->target),
                                   order, kRows, x, kModel, expected, kModel,
                                   workspace, bytes),
          "ffnorm_reference_forward");
  free(owner);
  /* The rows must have changed, or equal bits would mean nothing. */
  return memcmp(y, expected, sizeof(y)) == 0 && memcmp(y, x, sizeof(y)) != 0;
}

/* 0 when both orders are right on the default target, else 1. */
static int CompareWithReference(void) {
  Fill(w1, kModel * kHidden), Fill(b1, kHidden);
  Fill(w2, kHidden * kModel), Fill(b2, kModel);
  Fill(scale, kModel), Fill(offset, kModel);
  Fill(x, kRows * kModel);

  ffnorm_params params = ffnorm_default_params(kModel, kHidden);
  params.w1 = w1, params.b1 = b1, params.w2 = w2, params.b2 = b2;
  params.scale = scale, params.offset = offset;
  size_t bytes;
  void* owner;
  ffnorm_block block;
  Require(ffnorm_packed_bytes(&params, &bytes), "ffnorm_packed_bytes");
  void* packed = Aligned(bytes, &owner);
  Require(ffnorm_pack(&params, packed, bytes), "ffnorm_pack");
  Require(ffnorm_open(packed, bytes, NULL, &block), "ffnorm_open");

  const int same = SameBits(&block, &params, FFNORM_PRE_LN) &&
                   SameBits(&block, &params, FFNORM_POST_LN);
  free(owner);
  printf("ffnorm %s on %s: %s\n", ffnorm_version(),
         ffnorm_target_name(block.target),
         same ? "the reference's bits" : "OTHER BITS THAN THE REFERENCE");
  return same ? 0 : 1;
}

#endif /* FFNORM_EXAMPLES_CONSUMERS_COMPARE_H_ */
