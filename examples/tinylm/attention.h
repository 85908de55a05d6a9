// Causal self-attention, in plain loops: rows are computed one by one and
// always in the same order, so that a row's bits do not depend on the others.
#ifndef FFNORM_EXAMPLES_TINYLM_ATTENTION_H_
#define FFNORM_EXAMPLES_TINYLM_ATTENTION_H_

#include <cstddef>
#include <vector>

namespace tinylm {

// A Dense layer of the model's own: y = x w + b, w is (in, out) as in Flax.
struct Linear {
  size_t in = 0;
  size_t out = 0;
  const float* w = nullptr;
  const float* b = nullptr;

  void Row(const float* x, float* y) const;
};

struct AttentionWeights {
  Linear query, key, value, output;
};

// Keys and values of the characters so far, (context, d_model) each.
struct KeyValueCache {
  std::vector<float> keys, values;
};

// y = attention of the rows of x, which are the characters at positions first,
// first + 1, ...; those before them are in the cache already, and these are
// added to it. x and y are (rows, d_model) and do not overlap.
void Attention(const AttentionWeights& weights, size_t heads, size_t first,
               size_t rows, const float* x, KeyValueCache* cache, float* y);

}  // namespace tinylm

#endif  // FFNORM_EXAMPLES_TINYLM_ATTENTION_H_
