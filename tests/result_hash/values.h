/* Values that are the same on every machine and compiler: integer arithmetic
 * makes their bits, and no other step rounds. */
#ifndef FFNORM_TESTS_RESULT_HASH_VALUES_H_
#define FFNORM_TESTS_RESULT_HASH_VALUES_H_

#include <stddef.h>
#include <stdint.h>

/* What is special about a model's values. */
typedef enum Kind {
  kNormal,      /* close to normal, as in trained models */
  kIntegers,    /* -3 to 3 */
  kWide,        /* exponents of 2^-20 to 2^20 */
  kExtreme,     /* every finite float; sums overflow */
  kTiny,        /* subnormal numbers */
  kZeros,       /* mostly zeros, of both signs */
  kBase,        /* x: a small spread on a large base */
  kConstant,    /* x: all elements of a row equal, epsilon 0 */
  kSparse,      /* most hidden units are off */
  kOff,         /* all of them are */
  kNonFiniteX,  /* NaN and Inf in some rows of x */
  kNonFiniteW1, /* NaN and Inf in W1 */
  kNonFiniteW2, /* ... in W2, with most hidden units off */
} Kind;

/* As used in the names of cases. */
const char* KindName(Kind kind);

/* What a row of values is for. */
typedef enum Role {
  kX,
  kResidual,
  kHidden,
  kW1,
  kB1,
  kW2,
  kB2,
  kScale,
  kOffset,
} Role;

float FloatFromBits(uint32_t bits);
uint32_t BitsOfFloat(float value);

/* Fills row `row` of what `role` says, n elements. The same for the same
 * arguments: it does not depend on which rows were filled before. `inputs` is
 * how many terms each result of the layer sums (weights shrink with it). */
void FillRow(Kind kind, Role role, uint64_t seed, size_t row, size_t inputs,
             size_t n, float* to);

#endif /* FFNORM_TESTS_RESULT_HASH_VALUES_H_ */
