// What LayerNorm costs without the numeric contract: the plain two-pass formula
// with the vectors of each target. It is what ffnorm_layer_norm is measured
// against, and loses accuracy on rows far from 0.
#ifndef FFNORM_BENCH_PLAIN_LAYER_NORM_H_
#define FFNORM_BENCH_PLAIN_LAYER_NORM_H_

#include <stddef.h>

#include "ffnorm/ffnorm.h"

namespace ffnorm {
namespace bench {

// As ffnorm_layer_norm, for contiguous rows whose width is a multiple of four
// vectors. scale and offset are required.
using PlainLayerNormFunction = void (*)(size_t width, float epsilon,
                                        const float* scale, const float* offset,
                                        size_t rows, const float* x, float* y);

struct PlainLayerNorm {
  const char* target;
  PlainLayerNormFunction run;
};

// nullptr: this benchmark was built without that target.
PlainLayerNormFunction FindPlainLayerNorm(const ffnorm_target* target);

}  // namespace bench
}  // namespace ffnorm

#endif  // FFNORM_BENCH_PLAIN_LAYER_NORM_H_
