/* What the library itself gives, for the tests of the program to compare with.
 *
 *     cli_expected targets
 *         a line for each target of this CPU: its name and class
 *     cli_expected pack D_MODEL D_FF in_out|out_in EPSILON PARTS WEIGHTS
 *         the packed block
 *     cli_expected forward D_MODEL D_FF in_out|out_in EPSILON PARTS WEIGHTS
 *                  CLASS pre|post ROWS X
 *         the rows that the scalar reference gives
 *
 * WEIGHTS and X are files of plain float32. WEIGHTS holds those of w1, b1, w2,
 * b2, scale and offset for which PARTS, such as 111111, has a 1. Results go to
 * stdout. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ffnorm/ffnorm.h"

static void Die(const char* what) {
  fprintf(stderr, "cli_expected: %s\n", what);
  exit(1);
}

static void Require(ffnorm_status status) {
  if (status != FFNORM_OK) Die(ffnorm_status_string(status));
}

static void* Allocate(size_t bytes) {
  void* const memory = calloc(bytes + FFNORM_ALIGNMENT, 1);
  if (memory == NULL) Die("out of memory");
  return memory;
}

static unsigned char* Aligned(size_t bytes) {
  unsigned char* const memory = Allocate(bytes);
  return memory +
         (FFNORM_ALIGNMENT - (size_t)((uintptr_t)memory % FFNORM_ALIGNMENT));
}

/* All of the file, which must hold `count` floats. */
static float* ReadFloats(const char* path, size_t count) {
  float* const values = Allocate(count * sizeof(float));
  FILE* const file = fopen(path, "rb");
  if (file == NULL || fread(values, sizeof(float), count, file) != count ||
      fgetc(file) != EOF) {
    Die(path);
  }
  fclose(file);
  return values;
}

static void WriteBytes(const void* bytes, size_t count) {
  if (fwrite(bytes, 1, count, stdout) != count || fflush(stdout) != 0) {
    Die("stdout");
  }
}

static ffnorm_params ReadParams(char** arguments) {
  const size_t d_model = strtoul(arguments[0], NULL, 10);
  const size_t d_ff = strtoul(arguments[1], NULL, 10);
  const size_t sizes[6] = {d_model * d_ff, d_ff,    d_ff * d_model,
                           d_model,        d_model, d_model};
  const char* const parts = arguments[4];
  const float* pointers[6];
  size_t total = 0;
  size_t i;
  ffnorm_params params = ffnorm_default_params(d_model, d_ff);
  if (strlen(parts) != 6) Die("PARTS");
  for (i = 0; i < 6; ++i) total += parts[i] == '1' ? sizes[i] : 0;
  {
    const float* at = ReadFloats(arguments[5], total);
    for (i = 0; i < 6; ++i) {
      pointers[i] = parts[i] == '1' ? at : NULL;
      at += parts[i] == '1' ? sizes[i] : 0;
    }
  }
  params.layout =
      strcmp(arguments[2], "in_out") == 0 ? FFNORM_IN_OUT : FFNORM_OUT_IN;
  params.epsilon = strtof(arguments[3], NULL);
  params.w1 = pointers[0];
  params.b1 = pointers[1];
  params.w2 = pointers[2];
  params.b2 = pointers[3];
  params.scale = pointers[4];
  params.offset = pointers[5];
  return params;
}

static void PrintTargets(void) {
  const ffnorm_target* targets[32];
  const size_t count = ffnorm_targets(targets, 32);
  size_t i;
  for (i = 0; i < count; ++i) {
    printf(
        "%s %s\n", ffnorm_target_name(targets[i]),
        ffnorm_target_class(targets[i]) == FFNORM_FUSED ? "fused" : "unfused");
  }
}

static void Pack(const ffnorm_params* params) {
  size_t bytes = 0;
  unsigned char* packed;
  Require(ffnorm_packed_bytes(params, &bytes));
  packed = Aligned(bytes);
  Require(ffnorm_pack(params, packed, bytes));
  WriteBytes(packed, bytes);
}

static void Forward(const ffnorm_params* params, char** arguments) {
  const ffnorm_class rounding =
      strcmp(arguments[0], "fused") == 0 ? FFNORM_FUSED : FFNORM_UNFUSED;
  const ffnorm_order order =
      strcmp(arguments[1], "pre") == 0 ? FFNORM_PRE_LN : FFNORM_POST_LN;
  const size_t rows = strtoul(arguments[2], NULL, 10);
  const size_t count = rows * params->d_model;
  const float* const x = ReadFloats(arguments[3], count);
  float* const y = Allocate(count * sizeof(float));
  size_t bytes = 0;
  Require(ffnorm_reference_workspace_bytes(params, &bytes));
  Require(ffnorm_reference_forward(params, rounding, order, rows, x,
                                   params->d_model, y, params->d_model,
                                   Allocate(bytes), bytes));
  WriteBytes(y, count * sizeof(float));
}

int main(int argc, char** argv) {
  ffnorm_params params;
  if (argc == 2 && strcmp(argv[1], "targets") == 0) {
    PrintTargets();
    return 0;
  }
  if (argc < 8) Die("too few arguments");
  params = ReadParams(argv + 2);
  if (argc == 8 && strcmp(argv[1], "pack") == 0) {
    Pack(&params);
  } else if (argc == 12 && strcmp(argv[1], "forward") == 0) {
    Forward(&params, argv + 8);
  } else {
    Die("unknown command");
  }
  return 0;
}
