/* The header alone, from C99: packs a block whose answers can be checked by
 * hand, runs one row in both orders, and says by its exit status whether all
 * was right. */
#include "ffnorm/ffnorm.h"

/* Static storage aligned for packed memory and workspace: C99 has no _Alignas,
 * so both are cut from arrays with room to spare. */
static unsigned char packed_storage[1 << 16];
static unsigned char workspace_storage[1 << 20];

static void* AlignUp(unsigned char* storage) {
  const uintptr_t mask = FFNORM_ALIGNMENT - 1u;
  return (void*)(((uintptr_t)storage + mask) & ~mask);
}

static int Near(float got, float want) {
  const float error = got - want;
  return error >= -2e-6f && error <= 2e-6f;
}

/* FFN(z) = 2 z: relu(z) and relu(-z) side by side, doubled and put together
 * again. So LN([1, 3]) = [-1, 1] gives Pre-LN [1 - 2, 3 + 2], and Post-LN is
 * LN([3, 9]). */
static const float w1[2][4] = {{1, 0, -1, 0}, {0, 1, 0, -1}};
static const float w2[4][2] = {{2, 0}, {0, 2}, {-2, 0}, {0, -2}};
static const float x[2] = {1, 3};

int main(void) {
  ffnorm_params params = ffnorm_default_params(2, 4);
  ffnorm_block block;
  ffnorm_exec exec = {0};
  size_t packed_bytes = 0;
  size_t workspace_bytes = 0;
  void* packed = AlignUp(packed_storage);
  float y[2] = {0, 0};

  params.w1 = &w1[0][0];
  params.w2 = &w2[0][0];
  if (params.d_model != 2 || params.d_ff != 4) return 1;
  if (params.epsilon != FFNORM_DEFAULT_EPSILON) return 2;
  if (ffnorm_packed_bytes(&params, &packed_bytes) != FFNORM_OK) return 3;
  if (packed_bytes > sizeof(packed_storage) - FFNORM_ALIGNMENT) return 4;
  if (ffnorm_pack(&params, packed, packed_bytes) != FFNORM_OK) return 5;
  if (ffnorm_verify(packed, packed_bytes) != FFNORM_OK) return 6;
  if (ffnorm_open(packed, packed_bytes, NULL, &block) != FFNORM_OK) return 7;
  if (block.d_model != 2 || block.d_ff != 4) return 8;

  if (ffnorm_workspace_bytes(&block, 1, 1, &workspace_bytes) != FFNORM_OK) {
    return 9;
  }
  if (workspace_bytes > sizeof(workspace_storage) - FFNORM_ALIGNMENT) return 10;
  exec.workspace = AlignUp(workspace_storage);
  exec.workspace_bytes = workspace_bytes;

  if (ffnorm_forward(&block, FFNORM_PRE_LN, 1, x, 2, y, 2, &exec) !=
      FFNORM_OK) {
    return 11;
  }
  if (!Near(y[0], -1) || !Near(y[1], 5)) return 12;
  if (ffnorm_forward(&block, FFNORM_POST_LN, 1, x, 2, y, 2, &exec) !=
      FFNORM_OK) {
    return 13;
  }
  if (!Near(y[0], -1) || !Near(y[1], 1)) return 14;

  /* Failures are statuses, with a text. */
  if (ffnorm_forward(NULL, FFNORM_PRE_LN, 1, x, 2, y, 2, &exec) !=
      FFNORM_INVALID_ARGUMENT) {
    return 15;
  }
  if (ffnorm_status_string(FFNORM_INVALID_ARGUMENT)[0] == '\0') return 16;
  return 0;
}
