/* An engine's feed-forward half: from a model's arrays to rows. */
#define _POSIX_C_SOURCE 200112L
#include <ffnorm/ffnorm.h>
#include <stdio.h>
#include <stdlib.h>

#include "demo.h"

/* [memory] */
/* Packed blocks and workspaces start at a multiple of FFNORM_ALIGNMENT. */
static void* Allocate(size_t bytes) {
  void* memory = NULL;
  return posix_memalign(&memory, FFNORM_ALIGNMENT, bytes) == 0 ? memory : NULL;
}
/* [end] */

/* [load] */
/* What the engine keeps of a layer. */
typedef struct Layer {
  void* packed;       /* the engine's own memory */
  ffnorm_block block; /* refers to it */
} Layer;

static int LoadLayer(const ffnorm_params* params, Layer* layer) {
  size_t bytes;
  ffnorm_status status = ffnorm_packed_bytes(params, &bytes);
  if (status == FFNORM_OK) {
    layer->packed = Allocate(bytes);
    if (layer->packed == NULL) return 0;
    status = ffnorm_pack(params, layer->packed, bytes);
  }
  if (status == FFNORM_OK) {
    status = ffnorm_open(layer->packed, bytes, NULL, &layer->block);
  }
  if (status == FFNORM_OK) return 1;
  fprintf(stderr, "layer: %s\n", ffnorm_status_string(status));
  return 0;
}
/* [end] */

/* [session] */
/* What the engine keeps for each call that may run at the same time. */
static int NewSession(const Layer* layers, size_t count, size_t max_rows,
                      ffnorm_exec* exec) {
  const ffnorm_exec alone = {0}; /* no pool: the calling thread works */
  *exec = alone;
  for (size_t i = 0; i < count; ++i) {
    size_t bytes;
    if (ffnorm_workspace_bytes(&layers[i].block, max_rows, 1, &bytes) !=
        FFNORM_OK) {
      return 0;
    }
    if (bytes > exec->workspace_bytes) exec->workspace_bytes = bytes;
  }
  exec->workspace = Allocate(exec->workspace_bytes);
  return exec->workspace != NULL;
}
/* [end] */

int main(void) {
  static Demo demo;
  DemoInit(&demo);
  const float *w1 = demo.w1, *b1 = demo.b1, *w2 = demo.w2, *b2 = demo.b2;
  const float *gamma = demo.gamma, *beta = demo.beta, *x = demo.x;
  float* y = demo.y;
  const size_t d_model = kModel, d_ff = kHidden, rows = kRows;

  /* [flax] */
  /* Flax: nn.Dense has (in, out) kernels, nn.LayerNorm epsilon 1e-6. */
  ffnorm_params params = ffnorm_default_params(d_model, d_ff);
  params.w1 = w1; /* (d_model, d_ff) */
  params.b1 = b1; /* a bias, scale or offset may be missing: NULL */
  params.w2 = w2; /* (d_ff, d_model) */
  params.b2 = b2;
  params.scale = gamma;
  params.offset = beta;
  /* [end] */

  Layer layer;
  if (!LoadLayer(&params, &layer)) return EXIT_FAILURE;
  ffnorm_exec exec;
  if (!NewSession(&layer, 1, rows, &exec)) return EXIT_FAILURE;

  /* [forward] */
  ffnorm_status status = ffnorm_forward(&layer.block, FFNORM_PRE_LN, rows, x,
                                        d_model, y, d_model, &exec);
  /* [end] */
  DemoCheck(status, "forward");
  DemoCompare(&demo, &params, FFNORM_PRE_LN, layer.block.target);

  /* The same block serves the other order. */
  status = ffnorm_forward(&layer.block, FFNORM_POST_LN, rows, x, d_model, y,
                          d_model, &exec);
  DemoCheck(status, "forward");
  DemoCompare(&demo, &params, FFNORM_POST_LN, layer.block.target);

  /* [pytorch] */
  /* PyTorch: nn.Linear has (out, in) weights, nn.LayerNorm epsilon 1e-5. */
  params.layout = FFNORM_OUT_IN; /* w1 (d_ff, d_model), w2 (d_model, d_ff) */
  params.epsilon = 1e-5f;
  /* [end] */
  Layer torch;
  if (!LoadLayer(&params, &torch)) return EXIT_FAILURE;

  memcpy(y, x, rows * d_model * sizeof(*y));
  /* [in_place] */
  status = ffnorm_forward(&torch.block, FFNORM_POST_LN, rows, y, d_model, y,
                          d_model, &exec);
  /* [end] */
  DemoCheck(status, "forward");
  DemoCompare(&demo, &params, FFNORM_POST_LN, torch.block.target);

  printf("ffnorm %s on %s: the reference's bits in both orders\n",
         ffnorm_version(), ffnorm_target_name(layer.block.target));
  free(torch.packed);
  free(layer.packed);
  free(exec.workspace);
  return EXIT_SUCCESS;
}
