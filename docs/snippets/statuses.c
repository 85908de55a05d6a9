/* What a refused call leaves behind: nothing. */
#include <ffnorm/ffnorm.h>
#include <stdio.h>
#include <string.h>

#include "demo.h"

int main(void) {
  static Demo demo;
  DemoInit(&demo);
  const ffnorm_params params = ffnorm_default_params(kModel, kHidden);
  size_t bytes = 1;

  /* [refused] */
  /* No w1 and no w2: pack says so, and writes nothing. */
  unsigned char memory[64] = {42};
  ffnorm_status status = ffnorm_pack(&params, memory, sizeof(memory));
  if (status != FFNORM_OK) {
    fprintf(stderr, "pack: %s\n", ffnorm_status_string(status));
  }
  /* [end] */
  if (status != FFNORM_INVALID_ARGUMENT || memory[0] != 42) return 1;

  /* [target] */
  const ffnorm_target* target = NULL;
  if (ffnorm_find_target("AVX3", &target) == FFNORM_UNSUPPORTED) {
    ffnorm_find_target(NULL, &target); /* the best one here */
  }
  /* [end] */
  if (target == NULL || ffnorm_target_name(target) == NULL) return 1;

  const ffnorm_params none = ffnorm_default_params(0, kHidden);
  if (ffnorm_packed_bytes(&none, &bytes) != FFNORM_INVALID_ARGUMENT ||
      bytes != 1) {
    return 1;
  }
  const ffnorm_params huge = ffnorm_default_params((size_t)-1, kHidden);
  if (ffnorm_packed_bytes(&huge, &bytes) != FFNORM_SIZE_OVERFLOW ||
      bytes != 1) {
    return 1;
  }
  float layer_norm[kModel] = {7.0f};
  if (ffnorm_layer_norm(target, kModel, -1.0f, NULL, NULL, 1, demo.x, kModel,
                        layer_norm, kModel) != FFNORM_INVALID_ARGUMENT ||
      layer_norm[0] != 7.0f) {
    return 1;
  }
  printf("on %s: refused calls wrote nothing\n", ffnorm_target_name(target));
  return 0;
}
