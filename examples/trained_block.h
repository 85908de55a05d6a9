// One feed-forward block of a trained language model, as a folder of .npy files
// holds it: parameters, the rows that entered it, and what Flax made of them.
#ifndef FFNORM_EXAMPLES_TRAINED_BLOCK_H_
#define FFNORM_EXAMPLES_TRAINED_BLOCK_H_

#include <cstddef>
#include <string>
#include <vector>

#include "examples/npy.h"
#include "ffnorm/ffnorm.hpp"

namespace ffnorm_example {

struct TrainedBlock {
  size_t rows = 0;
  size_t d_model = 0;
  size_t d_ff = 0;
  std::vector<float> gamma, beta, w1, b1, w2, b2;
  std::vector<float> x;
  std::vector<float> y_f32;   // Flax in float32
  std::vector<double> y_f64;  // Flax in float64: the truth

  // Epsilon stays at Flax's default, which the models were trained with.
  ffnorm::Params Params() const {
    ffnorm::Params params = ffnorm::DefaultParams(d_model, d_ff);
    params.w1 = w1.data();
    params.b1 = b1.data();
    params.w2 = w2.data();
    params.b2 = b2.data();
    params.scale = gamma.data();
    params.offset = beta.data();
    return params;
  }
};

// On false *error names the file and what is wrong with it.
inline bool LoadTrainedBlock(const std::string& folder, TrainedBlock* block,
                             std::string* error) {
  const auto path = [&](const char* name) {
    return folder + "/" + name + ".npy";
  };
  NpyArray<float> x;
  NpyArray<float> b1;
  if (!ReadNpy(path("x"), &x, error)) return false;
  if (x.shape.size() != 2 || x.values.empty()) {
    *error = path("x") + ": no matrix with values";
    return false;
  }
  if (!ReadNpy(path("b1"), &b1, error)) return false;
  if (b1.shape.size() != 1 || b1.values.empty()) {
    *error = path("b1") + ": no vector with values";
    return false;
  }
  block->rows = x.shape[0];
  block->d_model = x.shape[1];
  block->d_ff = b1.shape[0];
  block->x.swap(x.values);
  block->b1.swap(b1.values);
  const size_t D = block->d_model;
  const size_t F = block->d_ff;
  return ReadNpy(path("gamma"), {D}, &block->gamma, error) &&
         ReadNpy(path("beta"), {D}, &block->beta, error) &&
         ReadNpy(path("w1"), {D, F}, &block->w1, error) &&
         ReadNpy(path("w2"), {F, D}, &block->w2, error) &&
         ReadNpy(path("b2"), {D}, &block->b2, error) &&
         ReadNpy(path("y_f32"), {block->rows, D}, &block->y_f32, error) &&
         ReadNpy(path("y_f64"), {block->rows, D}, &block->y_f64, error);
}

}  // namespace ffnorm_example

#endif  // FFNORM_EXAMPLES_TRAINED_BLOCK_H_
