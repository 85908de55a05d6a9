/* What the guide's programs share: weights and rows that look random, and the
 * comparison with the definition. */
#ifndef FFNORM_DOCS_SNIPPETS_DEMO_H_
#define FFNORM_DOCS_SNIPPETS_DEMO_H_

#include <ffnorm/ffnorm.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kRows = 7, kModel = 96, kHidden = 416 };

typedef struct Demo {
  float w1[kModel * kHidden], b1[kHidden];
  float w2[kHidden * kModel], b2[kModel];
  float gamma[kModel], beta[kModel];
  float x[kRows * kModel], y[kRows * kModel];
  float scratch[2 * kModel + kHidden]; /* of the reference */
} Demo;

/* Numbers from -1 to 1, the same everywhere. */
static inline void DemoFill(float* values, size_t count, unsigned seed) {
  unsigned state = seed;
  for (size_t i = 0; i < count; ++i) {
    state = (state * 1664525u + 1013904223u) & 0xFFFFFFFFu;
    values[i] = (float)state / 2147483648.0f - 1.0f;
  }
}

static inline void DemoInit(Demo* demo) {
  DemoFill(demo->w1, kModel * kHidden, 1);
  DemoFill(demo->b1, kHidden, 2);
  DemoFill(demo->w2, kHidden * kModel, 3);
  DemoFill(demo->b2, kModel, 4);
  DemoFill(demo->gamma, kModel, 5);
  DemoFill(demo->beta, kModel, 6);
  DemoFill(demo->x, kRows * kModel, 7);
  memset(demo->y, 0, sizeof(demo->y));
}

/* Ends the program where a call was refused. */
static inline void DemoCheck(ffnorm_status status, const char* what) {
  if (status == FFNORM_OK) return;
  fprintf(stderr, "%s: %s\n", what, ffnorm_status_string(status));
  exit(EXIT_FAILURE);
}

/* Ends the program unless y is what the scalar reference gives, bit for bit. */
static inline void DemoCompare(Demo* demo, const ffnorm_params* params,
                               ffnorm_order order,
                               const ffnorm_target* target) {
  float expected[kRows * kModel];
  size_t bytes;
  DemoCheck(ffnorm_reference_workspace_bytes(params, &bytes), "reference");
  if (bytes > sizeof(demo->scratch)) exit(EXIT_FAILURE);
  DemoCheck(ffnorm_reference_forward(params, ffnorm_target_class(target), order,
                                     kRows, demo->x, kModel, expected, kModel,
                                     demo->scratch, sizeof(demo->scratch)),
            "reference");
  if (memcmp(demo->y, expected, sizeof(expected)) != 0) {
    fprintf(stderr, "other bits than the reference's\n");
    exit(EXIT_FAILURE);
  }
}

#endif /* FFNORM_DOCS_SNIPPETS_DEMO_H_ */
