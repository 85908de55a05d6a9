#include "attention.h"

#include <algorithm>
#include <cmath>

namespace tinylm {
namespace {

// What one head reads from the characters 0 to position, into mixed[0..size).
// `offset` is where the head's columns start.
void Head(const float* query, const KeyValueCache& cache, size_t width,
          size_t offset, size_t size, size_t position,
          std::vector<float>* weights, float* mixed) {
  weights->resize(position + 1);
  float largest = -INFINITY;
  for (size_t t = 0; t <= position; ++t) {
    const float* key = &cache.keys[t * width + offset];
    float dot = 0.0f;
    for (size_t i = 0; i < size; ++i) dot += query[offset + i] * key[i];
    (*weights)[t] = dot / std::sqrt(static_cast<float>(size));
    largest = std::max(largest, (*weights)[t]);
  }

  // Softmax, less the largest score so that nothing overflows.
  float sum = 0.0f;
  for (float& weight : *weights) {
    weight = std::exp(weight - largest);
    sum += weight;
  }

  std::fill(mixed, mixed + size, 0.0f);
  for (size_t t = 0; t <= position; ++t) {
    const float share = (*weights)[t] / sum;
    const float* value = &cache.values[t * width + offset];
    for (size_t i = 0; i < size; ++i) mixed[i] += share * value[i];
  }
}

}  // namespace

void Linear::Row(const float* x, float* y) const {
  std::copy(b, b + out, y);
  for (size_t k = 0; k < in; ++k) {
    const float* row = w + k * out;
    for (size_t i = 0; i < out; ++i) y[i] += x[k] * row[i];
  }
}

void Attention(const AttentionWeights& weights, size_t heads, size_t first,
               size_t rows, const float* x, KeyValueCache* cache, float* y) {
  const size_t width = weights.query.in;
  const size_t size = width / heads;
  std::vector<float> query(width), mixed(width), scores;
  for (size_t r = 0; r < rows; ++r) {
    const size_t position = first + r;
    const float* row = x + r * width;
    weights.query.Row(row, query.data());
    weights.key.Row(row, &cache->keys[position * width]);
    weights.value.Row(row, &cache->values[position * width]);
    for (size_t head = 0; head < heads; ++head) {
      const size_t offset = head * size;
      Head(query.data(), *cache, width, offset, size, position, &scores,
           &mixed[offset]);
    }
    weights.output.Row(mixed.data(), y + r * width);
  }
}

}  // namespace tinylm
