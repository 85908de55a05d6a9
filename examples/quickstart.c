/* The shortest whole use of ffnorm, in C99: pack once, then run rows. Prints
 * rows and their Pre-LN block, and fails if they are not what they should be.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "ffnorm/ffnorm.h"

enum { kModel = 4, kHidden = 8, kRows = 2 };

/* Packed blocks and workspaces start at a multiple of FFNORM_ALIGNMENT. C11 has
 * aligned_alloc; C99 cuts them from something larger. */
static void* Allocate(size_t bytes) {
  void* memory = malloc(bytes + FFNORM_ALIGNMENT);
  if (memory == NULL) exit(EXIT_FAILURE);
  return memory;
}

static void* Align(void* memory) {
  const uintptr_t past = (uintptr_t)memory % FFNORM_ALIGNMENT;
  return (unsigned char*)memory + (FFNORM_ALIGNMENT - past);
}

static void Check(ffnorm_status status) {
  if (status == FFNORM_OK) return;
  fprintf(stderr, "quickstart: %s\n", ffnorm_status_string(status));
  exit(EXIT_FAILURE);
}

/* w1 is (kModel, kHidden), w2 (kHidden, kModel): here FFN(z) = z + b2, as
 * relu(z) - relu(-z) = z. */
static void FillWeights(float* w1, float* w2, float* b2) {
  for (int i = 0; i < kModel; ++i) {
    w1[i * kHidden + i] = w2[i * kModel + i] = 1.0f;
    w1[i * kHidden + kModel + i] = w2[(kModel + i) * kModel + i] = -1.0f;
    b2[i] = 10.0f;
  }
}

/* Pre-LN is x + LN(x) + b2 with these weights. The rows of x have mean 2.5 and
 * deviation sqrt(1.25), and mean 0 and deviation 5. */
static int IsRight(const float* x, const float* y) {
  for (int i = 0; i < kRows * kModel; ++i) {
    const double normal = i < kModel ? (x[i] - 2.5) / sqrt(1.25) : x[i] / 5.0;
    printf("%g -> %.6f\n", x[i], y[i]);
    if (!(fabs(y[i] - (x[i] + normal + 10.0)) <= 4e-6)) return 0;
  }
  return 1;
}

int main(void) {
  const float x[kRows * kModel] = {1, 2, 3, 4, -5, 5, 5, -5};
  float w1[kModel * kHidden] = {0}, w2[kHidden * kModel] = {0}, b2[kModel];
  float y[kRows * kModel];
  FillWeights(w1, w2, b2);

  /* Once per set of weights. b1, scale and offset may be missing. */
  ffnorm_params params = ffnorm_default_params(kModel, kHidden);
  params.w1 = w1;
  params.w2 = w2;
  params.b2 = b2;
  size_t bytes;
  Check(ffnorm_packed_bytes(&params, &bytes));
  void* weights = Allocate(bytes);
  Check(ffnorm_pack(&params, Align(weights), bytes));

  /* Once per process. */
  ffnorm_block block;
  ffnorm_exec exec = {0};
  Check(ffnorm_open(Align(weights), bytes, NULL, &block));
  Check(ffnorm_workspace_bytes(&block, kRows, 1, &exec.workspace_bytes));
  void* workspace = Allocate(exec.workspace_bytes);
  exec.workspace = Align(workspace);

  /* As often as wanted. */
  Check(ffnorm_forward(&block, FFNORM_PRE_LN, kRows, x, kModel, y, kModel,
                       &exec));

  printf("ffnorm %s on %s\n", ffnorm_version(),
         ffnorm_target_name(block.target));
  const int right = IsRight(x, y);
  free(workspace);
  free(weights);
  return right ? EXIT_SUCCESS : EXIT_FAILURE;
}
