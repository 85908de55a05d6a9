#include "tests/result_hash/cases.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Sizes around the vectors of all targets, lanes and panels (32, 64), the
 * blocks of a reduction (256), and where tasks split columns (128); rows around
 * register tiles (6, 14), blocks of rows (48, 112) and tiles for few rows. The
 * values of one model are one kind. */
typedef struct Shape {
  uint16_t d_model;
  uint16_t d_ff;
  Kind kind;
  uint8_t few;  /* rows */
  uint8_t many; /* rows */
} Shape;

static const Shape kShapes[] = {
    {1, 1, kNormal, 1, 70},        {2, 3, kIntegers, 2, 33},
    {3, 2, kWide, 3, 48},          {4, 7, kExtreme, 4, 49},
    {5, 16, kTiny, 5, 28},         {7, 9, kZeros, 6, 56},
    {8, 33, kBase, 7, 42},         {9, 31, kConstant, 8, 29},
    {15, 64, kSparse, 1, 30},      {16, 65, kNonFiniteX, 2, 31},
    {17, 63, kNonFiniteW1, 3, 32}, {31, 95, kNonFiniteW2, 4, 34},
    {32, 32, kNormal, 9, 70},      {33, 96, kOff, 1, 13},
    {36, 97, kIntegers, 10, 57},   {40, 128, kExtreme, 3, 14},
    {63, 127, kWide, 2, 15},       {64, 129, kNormal, 12, 69},
    {65, 192, kZeros, 1, 47},      {72, 255, kSparse, 2, 61},
    {95, 256, kSparse, 3, 62},     {96, 257, kNonFiniteW2, 4, 18},
    {97, 160, kTiny, 1, 19},       {112, 384, kSparse, 4, 40},
    {127, 300, kBase, 2, 24},      {128, 512, kNormal, 1, 64},
    {129, 511, kSparse, 1, 17},    {160, 40, kNonFiniteX, 5, 36},
    {192, 513, kWide, 3, 12},      {255, 33, kConstant, 2, 16},
    {256, 1024, kNormal, 2, 9},    {257, 64, kNonFiniteW1, 1, 11},
    {320, 257, kExtreme, 2, 21},   {384, 256, kOff, 4, 22},
    {448, 130, kBase, 1, 50},      {511, 128, kIntegers, 3, 26},
    {512, 384, kSparse, 1, 14},    {513, 260, kNormal, 4, 13},
    {640, 36, kZeros, 2, 25},      {769, 257, kNonFiniteX, 1, 6},
    {1025, 65, kNormal, 2, 7},     {24, 280, kNormal, 111, 113},
    {20, 20, kSparse, 1, 225},
};

/* Each number of rows from 1 to this is a case of the last shapes, which come
 * after those above: of the first in Pre-LN, of the second in Post-LN. */
enum { kSweepRows = 70 };
static const Shape kSweeps[] = {
    {24, 264, kNormal, 1, kSweepRows},
    {136, 36, kSparse, 1, kSweepRows},
};

enum {
  kNumShapes = sizeof(kShapes) / sizeof(kShapes[0]),
  kNumSweeps = sizeof(kSweeps) / sizeof(kSweeps[0]),
};

size_t NumModels(void) { return kNumShapes + kNumSweeps; }

void* AlignedMemory(size_t bytes, void** to_free) {
  const size_t mask = FFNORM_ALIGNMENT - 1;
  *to_free = malloc(bytes + mask);
  if (*to_free == NULL) return NULL;
  return (void*)(((uintptr_t)*to_free + mask) & ~(uintptr_t)mask);
}

static void AddCase(Model* model, Stage stage, size_t rows) {
  Case* added = &model->cases[model->num_cases++];
  added->stage = stage;
  added->rows = rows;
}

static void AddCases(const Shape* shape, Model* model) {
  AddCase(model, kPack, 0);
  AddCase(model, kPreLn, shape->few);
  AddCase(model, kPreLn, shape->many);
  AddCase(model, kPostLn, shape->few);
  AddCase(model, kPostLn, shape->many);
  AddCase(model, kLayerNorm, shape->many);
  AddCase(model, kResidualAdd, shape->many);
  AddCase(model, kDense1, shape->few);
  AddCase(model, kDense1Relu, shape->many);
  AddCase(model, kDense2, shape->few);
  AddCase(model, kDense2, shape->many);
  AddCase(model, kDense2Relu, shape->few);
}

static void AddSweep(Stage stage, Model* model) {
  size_t rows;
  AddCase(model, kPack, 0);
  for (rows = 1; rows <= kSweepRows; ++rows) AddCase(model, stage, rows);
}

/* Fills the weight (inputs, outputs) in the layout of the model. */
static void FillWeight(const Model* model, Role role, uint64_t seed,
                       size_t inputs, size_t outputs, float* row, float* to) {
  size_t k, n;
  for (k = 0; k < inputs; ++k) {
    if (model->params.layout == FFNORM_IN_OUT) {
      FillRow(model->kind, role, seed, k, inputs, outputs, to + k * outputs);
      continue;
    }
    FillRow(model->kind, role, seed, k, inputs, outputs, row);
    for (n = 0; n < outputs; ++n) to[n * inputs + k] = row[n];
  }
}

int MakeModel(size_t index, Model* model) {
  const int is_sweep = index >= kNumShapes;
  const Shape* shape =
      is_sweep ? &kSweeps[index - kNumShapes] : &kShapes[index];
  const size_t d_model = shape->d_model;
  const size_t d_ff = shape->d_ff;
  const size_t rows = shape->many;
  const size_t larger = d_model > d_ff ? d_model : d_ff;
  const uint64_t seed = index + 1;
  float *w1, *b1, *w2, *b2, *scale, *offset, *row;
  size_t floats, r;

  memset(model, 0, sizeof(*model));
  model->kind = shape->kind;
  model->params = ffnorm_default_params(d_model, d_ff);
  if (index % 4 == 1) model->params.layout = FFNORM_OUT_IN;
  if (index % 6 == 2) model->params.epsilon = 0x1p-17f;
  if (shape->kind == kConstant) model->params.epsilon = 0;
  model->max_rows = rows;
  model->x_stride = d_model + index % 3;
  if (is_sweep) {
    AddSweep(shape == &kSweeps[0] ? kPreLn : kPostLn, model);
  } else {
    AddCases(shape, model);
  }
  if (ffnorm_packed_bytes(&model->params, &model->packed_bytes) != FFNORM_OK) {
    return 0;
  }

  floats = model->packed_bytes / sizeof(float) + 2 * d_model * d_ff + d_ff +
           3 * d_model + larger + 2 * rows * model->x_stride + rows * d_ff +
           rows * larger;
  model->packed = AlignedMemory(floats * sizeof(float), &model->memory);
  if (model->packed == NULL) return 0;
  w1 = (float*)model->packed + model->packed_bytes / sizeof(float);
  w2 = w1 + d_model * d_ff;
  b1 = w2 + d_model * d_ff;
  b2 = b1 + d_ff;
  scale = b2 + d_model;
  offset = scale + d_model;
  row = offset + d_model;
  model->x = row + larger;
  model->residual = model->x + rows * model->x_stride;
  model->hidden = model->residual + rows * model->x_stride;
  model->y = model->hidden + rows * d_ff;

  FillWeight(model, kW1, seed, d_model, d_ff, row, w1);
  FillWeight(model, kW2, seed, d_ff, d_model, row, w2);
  FillRow(model->kind, kB1, seed, 0, d_model, d_ff, b1);
  FillRow(model->kind, kB2, seed, 0, d_ff, d_model, b2);
  FillRow(model->kind, kScale, seed, 0, d_model, d_model, scale);
  FillRow(model->kind, kOffset, seed, 0, d_model, d_model, offset);
  model->params.w1 = w1;
  model->params.w2 = w2;
  /* No model with units that are off is among those without biases. */
  if (index % 7 != 3) {
    model->params.b1 = b1;
    model->params.b2 = b2;
  }
  if (index % 5 != 2) {
    model->params.scale = scale;
    model->params.offset = offset;
  }
  for (r = 0; r < rows; ++r) {
    float* x = model->x + r * model->x_stride;
    float* residual = model->residual + r * model->x_stride;
    FillRow(model->kind, kX, seed, r, d_model, d_model, x);
    FillRow(model->kind, kResidual, seed, r, d_model, d_model, residual);
    FillRow(model->kind, kHidden, seed, r, d_ff, d_ff,
            model->hidden + r * d_ff);
  }
  return 1;
}

void FreeModel(Model* model) { free(model->memory); }

static const char* StageName(Stage stage) {
  switch (stage) {
    case kPack:
      return "pack";
    case kPreLn:
      return "pre_ln";
    case kPostLn:
      return "post_ln";
    case kLayerNorm:
      return "layer_norm";
    case kResidualAdd:
      return "residual_add";
    case kDense1:
      return "dense1";
    case kDense1Relu:
      return "dense1_relu";
    case kDense2:
      return "dense2";
    case kDense2Relu:
      return "dense2_relu";
  }
  return "unknown";
}

void CaseName(const Model* model, const Case* which, char* name, size_t size) {
  const unsigned long d_model = (unsigned long)model->params.d_model;
  const unsigned long d_ff = (unsigned long)model->params.d_ff;
  const char* kind = KindName(model->kind);
  if (which->stage == kPack) {
    snprintf(name, size, "pack/%lux%lu/%s", d_model, d_ff, kind);
  } else {
    snprintf(name, size, "%s/%lux%lu/rows%lu/%s", StageName(which->stage),
             d_model, d_ff, (unsigned long)which->rows, kind);
  }
}

size_t CaseColumns(const Model* model, Stage stage) {
  return stage == kDense1 || stage == kDense1Relu ? model->params.d_ff
                                                  : model->params.d_model;
}

int NeedsPacked(Stage stage) {
  return stage != kLayerNorm && stage != kResidualAdd;
}

/* A pool of one thread that takes the last task first. */
static void LastTaskFirst(void* pool, size_t tasks, ffnorm_task task,
                          void* context) {
  (void)pool;
  while (tasks-- > 0) task(context, tasks);
}

static ffnorm_status Forward(const Model* model, ffnorm_order order,
                             size_t rows, const Run* run,
                             const ffnorm_exec* exec) {
  const size_t d_model = model->params.d_model;
  if (run->block != NULL) {
    return ffnorm_forward(run->block, order, rows, model->x, model->x_stride,
                          model->y, d_model, exec);
  }
  return ffnorm_reference_forward(&model->params, run->rounding, order, rows,
                                  model->x, model->x_stride, model->y, d_model,
                                  exec->workspace, exec->workspace_bytes);
}

static ffnorm_status Dense(const Model* model, ffnorm_layer layer,
                           ffnorm_activation activation, size_t rows,
                           const Run* run, const ffnorm_exec* exec) {
  const int first = layer == FFNORM_DENSE_1;
  const float* x = first ? model->x : model->hidden;
  const size_t x_stride = first ? model->x_stride : model->params.d_ff;
  const size_t y_stride = first ? model->params.d_ff : model->params.d_model;
  if (run->block != NULL) {
    return ffnorm_dense(run->block, layer, activation, rows, x, x_stride,
                        model->y, y_stride, exec);
  }
  return ffnorm_reference_dense(&model->params, run->rounding, layer,
                                activation, rows, x, x_stride, model->y,
                                y_stride);
}

static ffnorm_status LayerNorm(const Model* model, size_t rows,
                               const Run* run) {
  const ffnorm_params* p = &model->params;
  if (run->target != NULL) {
    return ffnorm_layer_norm(run->target, p->d_model, p->epsilon, p->scale,
                             p->offset, rows, model->x, model->x_stride,
                             model->y, p->d_model);
  }
  return ffnorm_reference_layer_norm(p->d_model, p->epsilon, p->scale,
                                     p->offset, rows, model->x, model->x_stride,
                                     model->y, p->d_model);
}

static ffnorm_status ResidualAdd(const Model* model, size_t rows,
                                 const Run* run) {
  const size_t d_model = model->params.d_model;
  if (run->target != NULL) {
    return ffnorm_residual_add(run->target, d_model, rows, model->x,
                               model->x_stride, model->residual,
                               model->x_stride, model->y, d_model);
  }
  return ffnorm_reference_residual_add(d_model, rows, model->x, model->x_stride,
                                       model->residual, model->x_stride,
                                       model->y, d_model);
}

static ffnorm_status RunStage(const Model* model, const Case* which,
                              const Run* run, const ffnorm_exec* exec) {
  const size_t rows = which->rows;
  switch (which->stage) {
    case kPreLn:
      return Forward(model, FFNORM_PRE_LN, rows, run, exec);
    case kPostLn:
      return Forward(model, FFNORM_POST_LN, rows, run, exec);
    case kLayerNorm:
      return LayerNorm(model, rows, run);
    case kResidualAdd:
      return ResidualAdd(model, rows, run);
    case kDense1:
      return Dense(model, FFNORM_DENSE_1, FFNORM_LINEAR, rows, run, exec);
    case kDense1Relu:
      return Dense(model, FFNORM_DENSE_1, FFNORM_RELU, rows, run, exec);
    case kDense2:
      return Dense(model, FFNORM_DENSE_2, FFNORM_LINEAR, rows, run, exec);
    case kDense2Relu:
      return Dense(model, FFNORM_DENSE_2, FFNORM_RELU, rows, run, exec);
    case kPack:
      break;
  }
  return FFNORM_INVALID_ARGUMENT;
}

ffnorm_status RunCase(const Model* model, const Case* which, const Run* run) {
  ffnorm_exec exec = {0};
  ffnorm_status status = FFNORM_OK;
  void* to_free = NULL;
  const size_t values = which->rows * CaseColumns(model, which->stage);
  if (run->block != NULL) {
    status = ffnorm_workspace_bytes(run->block, which->rows, run->tasks,
                                    &exec.workspace_bytes);
    exec.parallel_for = &LastTaskFirst;
    exec.threads = run->tasks;
  } else {
    status =
        ffnorm_reference_workspace_bytes(&model->params, &exec.workspace_bytes);
  }
  if (status != FFNORM_OK) return status;
  exec.workspace = AlignedMemory(exec.workspace_bytes, &to_free);
  if (exec.workspace == NULL) return FFNORM_WORKSPACE_TOO_SMALL;
  /* NaN in all that the library has to write before it reads. */
  memset(exec.workspace, 0xff, exec.workspace_bytes);
  memset(model->y, 0xff, values * sizeof(float));
  status = RunStage(model, which, run, &exec);
  free(to_free);
  return status;
}
