// Runs one call of the library in a function that an instruction counter can
// single out: see check_instructions.sh.
//
//   ffnorm_instructions STAGE TARGET ROWS D_MODEL D_FF ACTIVE
//
// STAGE is pre_ln, post_ln or layer_norm. ACTIVE percent of the hidden units
// are on, the same ones in each row. Prints the FLOPs of the call: those of
// both matmuls, whatever is left out, or rows * d_model * 8 for layer_norm.
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <new>
#include <vector>

#include "ffnorm/ffnorm.h"

namespace {

struct Call {
  bool layer_norm;
  ffnorm_order order;
  const ffnorm_target* target;
  ffnorm_block block;
  size_t rows;
  size_t d_model;
  const float* x;
  float* y;
  ffnorm_exec exec;
};

std::vector<float> Values(size_t count, float size) {
  uint32_t state = 1;
  std::vector<float> values(count);
  for (float& v : values) {
    state = state * 1664525u + 1013904223u;
    v = size * (static_cast<float>(state >> 8) / 8388608.0f - 1.0f);
  }
  return values;
}

void* Aligned(size_t bytes) {
  return ::operator new (bytes, std::align_val_t{FFNORM_ALIGNMENT});
}

}  // namespace

extern "C" {
__attribute__((noinline)) ffnorm_status ffnorm_bench_counted(const Call& call) {
  if (call.layer_norm) {
    return ffnorm_layer_norm(call.target, call.d_model, FFNORM_DEFAULT_EPSILON,
                             nullptr, nullptr, call.rows, call.x, call.d_model,
                             call.y, call.d_model);
  }
  return ffnorm_forward(&call.block, call.order, call.rows, call.x,
                        call.d_model, call.y, call.d_model, &call.exec);
}
}

int main(int argc, char** argv) {
  if (argc != 7) {
    fprintf(stderr, "usage: %s STAGE TARGET ROWS D_MODEL D_FF ACTIVE\n",
            argv[0]);
    return 2;
  }
  Call call = {};
  call.layer_norm = strcmp(argv[1], "layer_norm") == 0;
  call.order = strcmp(argv[1], "post_ln") == 0 ? FFNORM_POST_LN : FFNORM_PRE_LN;
  call.rows = strtoul(argv[3], nullptr, 10);
  call.d_model = strtoul(argv[4], nullptr, 10);
  const size_t d_ff = strtoul(argv[5], nullptr, 10);
  const size_t active = strtoul(argv[6], nullptr, 10);
  if (ffnorm_find_target(argv[2], &call.target) != FFNORM_OK) {
    fprintf(stderr, "%s: no such target on this CPU\n", argv[2]);
    return 77;
  }

  const std::vector<float> w1 = Values(call.d_model * d_ff, 0.01f);
  const std::vector<float> w2 = Values(d_ff * call.d_model, 0.01f);
  // Far above and far below what the weights add; evenly spread.
  std::vector<float> b1(d_ff);
  for (size_t i = 0; i < d_ff; ++i) {
    const bool on = (i + 1) * active / 100 != i * active / 100;
    b1[i] = on ? 100.0f : -100.0f;
  }
  ffnorm_params params = ffnorm_default_params(call.d_model, d_ff);
  params.w1 = w1.data();
  params.b1 = b1.data();
  params.w2 = w2.data();
  size_t packed_bytes = 0;
  ffnorm_status status = ffnorm_packed_bytes(&params, &packed_bytes);
  void* packed = Aligned(packed_bytes);
  if (status == FFNORM_OK) status = ffnorm_pack(&params, packed, packed_bytes);
  if (status == FFNORM_OK) {
    status = ffnorm_open(packed, packed_bytes, call.target, &call.block);
  }
  // As if on a CPU that reads ahead (kernels/cpu.h), whatever the counter's is.
  call.block.cpu = 1;
  if (status == FFNORM_OK) {
    status = ffnorm_workspace_bytes(&call.block, call.rows, 1,
                                    &call.exec.workspace_bytes);
  }
  call.exec.workspace = Aligned(call.exec.workspace_bytes);
  const std::vector<float> x = Values(call.rows * call.d_model, 1.0f);
  std::vector<float> y(x.size());
  call.x = x.data();
  call.y = y.data();
  if (status == FFNORM_OK) status = ffnorm_bench_counted(call);
  if (status != FFNORM_OK) {
    fprintf(stderr, "%s\n", ffnorm_status_string(status));
    return 1;
  }
  const double cells =
      static_cast<double>(call.rows) * static_cast<double>(call.d_model);
  printf("%.0f\n",
         call.layer_norm ? 8 * cells : 4 * cells * static_cast<double>(d_ff));
  ::operator delete (packed, std::align_val_t{FFNORM_ALIGNMENT});
  ::operator delete (call.exec.workspace, std::align_val_t{FFNORM_ALIGNMENT});
  return 0;
}
