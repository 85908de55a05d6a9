/* The models and cases of the table, and what a case computes. */
#ifndef FFNORM_TESTS_RESULT_HASH_CASES_H_
#define FFNORM_TESTS_RESULT_HASH_CASES_H_

#include <stddef.h>
#include <stdint.h>

#include "ffnorm/ffnorm.h"
#include "tests/result_hash/values.h"

typedef enum Stage {
  kPack,
  kPreLn,
  kPostLn,
  kLayerNorm,
  kResidualAdd,
  kDense1,
  kDense1Relu,
  kDense2,
  kDense2Relu,
} Stage;

enum { kMaxCases = 80 }; /* of one model */

typedef struct Case {
  Stage stage;
  size_t rows; /* 0 for kPack */
} Case;

/* Parameters with their values, and the inputs of all its cases. */
typedef struct Model {
  Kind kind;
  ffnorm_params params;
  size_t num_cases;
  Case cases[kMaxCases];
  size_t max_rows;
  size_t x_stride;
  float* x;        /* (max_rows, d_model) */
  float* residual; /* the same, for kResidualAdd */
  float* hidden;   /* (max_rows, d_ff), for kDense2 */
  float* y;        /* room for (max_rows, columns of any stage) */
  void* packed;    /* room for the packed block */
  size_t packed_bytes;
  void* memory;
} Model;

size_t NumModels(void);

/* Makes model `index`; the table's order is that of models, then of cases.
 * Returns 0 if there is no memory. */
int MakeModel(size_t index, Model* model);
void FreeModel(Model* model);

/* "pre_ln/37x129/rows5/normal". */
void CaseName(const Model* model, const Case* which, char* name, size_t size);

size_t CaseColumns(const Model* model, Stage stage);

/* Stages that run on a packed block, or make one. */
int NeedsPacked(Stage stage);

/* How to run: by the reference, or by a block opened for a target. */
typedef struct Run {
  ffnorm_class rounding;
  const ffnorm_block* block;   /* NULL: by the reference */
  const ffnorm_target* target; /* for stages that need no block */
  size_t tasks;
} Run;

/* Runs a case other than kPack into model->y, contiguous. */
ffnorm_status RunCase(const Model* model, const Case* which, const Run* run);

/* `bytes` of memory aligned to FFNORM_ALIGNMENT, and in *to_free what to free.
 * NULL if there is none. */
void* AlignedMemory(size_t bytes, void** to_free);

#endif /* FFNORM_TESTS_RESULT_HASH_CASES_H_ */
