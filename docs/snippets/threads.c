/* Threads: the engine's pool, here OpenMP's, runs ffnorm's tasks. */
#define _POSIX_C_SOURCE 200112L
#include <ffnorm/ffnorm.h>
#include <stdio.h>
#include <stdlib.h>

#include "demo.h"

/* [pool] */
/* Calls task(context, i) once for each i, and returns when all are done. */
static void OnOpenMp(void* pool, size_t tasks, ffnorm_task task,
                     void* context) {
  (void)pool;
#pragma omp parallel for schedule(static, 1) /* i in the same thread */
  for (long i = 0; i < (long)tasks; ++i) task(context, (size_t)i);
}
/* [end] */

static void* Allocate(size_t bytes) {
  void* memory = NULL;
  if (posix_memalign(&memory, FFNORM_ALIGNMENT, bytes) == 0) return memory;
  exit(EXIT_FAILURE);
}

int main(void) {
  static Demo demo;
  DemoInit(&demo);
  ffnorm_params params = ffnorm_default_params(kModel, kHidden);
  params.w1 = demo.w1, params.b1 = demo.b1;
  params.w2 = demo.w2, params.b2 = demo.b2;
  params.scale = demo.gamma, params.offset = demo.beta;
  size_t bytes;
  ffnorm_block block;
  DemoCheck(ffnorm_packed_bytes(&params, &bytes), "packed_bytes");
  void* packed = Allocate(bytes);
  DemoCheck(ffnorm_pack(&params, packed, bytes), "pack");
  DemoCheck(ffnorm_open(packed, bytes, NULL, &block), "open");
  const size_t max_rows = kRows, threads = 3;

  /* [exec] */
  ffnorm_exec exec = {0};
  exec.parallel_for = &OnOpenMp;
  exec.pool = NULL; /* handed to OnOpenMp, which needs none */
  exec.threads = threads;
  ffnorm_status status =
      ffnorm_workspace_bytes(&block, max_rows, threads, &exec.workspace_bytes);
  /* [end] */
  DemoCheck(status, "workspace_bytes");
  exec.workspace = Allocate(exec.workspace_bytes);
  for (int order = FFNORM_PRE_LN; order <= FFNORM_POST_LN; ++order) {
    DemoCheck(ffnorm_forward(&block, (ffnorm_order)order, kRows, demo.x, kModel,
                             demo.y, kModel, &exec),
              "forward");
    DemoCompare(&demo, &params, (ffnorm_order)order, block.target);
  }
  printf("%zu tasks: the reference's bits\n", threads);
  free(exec.workspace);
  free(packed);
  return EXIT_SUCCESS;
}
