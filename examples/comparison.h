// How a block's results compare with Flax's float64 ones.
#ifndef FFNORM_EXAMPLES_COMPARISON_H_
#define FFNORM_EXAMPLES_COMPARISON_H_

#include <cmath>
#include <cstddef>
#include <vector>

#include "examples/rounding_error.h"
#include "examples/trained_block.h"
#include "ffnorm/ffnorm.hpp"

namespace ffnorm_example {

// The largest errors a right result may have, for all the block's rows.
inline std::vector<double> AllowedErrors(const TrainedBlock& block,
                                         ffnorm::Order order) {
  std::vector<double> allowed;
  for (size_t r = 0; r < block.rows; ++r) {
    RoundedRow x(block.d_model);
    for (size_t i = 0; i < block.d_model; ++i) {
      x[i].value = block.x[r * block.d_model + i];
    }
    const auto layer_norm = [&](const RoundedRow& row) {
      return LayerNormRounded(row, FFNORM_DEFAULT_EPSILON, block.gamma,
                              block.beta);
    };
    const auto feed_forward = [&](const RoundedRow& row) {
      const RoundedRow hidden = DenseRounded(row, block.w1, block.b1, true);
      return DenseRounded(hidden, block.w2, block.b2, false);
    };
    const RoundedRow y = order == ffnorm::Order::kPreLn
                             ? AddRounded(x, feed_forward(layer_norm(x)))
                             : layer_norm(AddRounded(x, feed_forward(x)));
    for (const Rounded& v : y) allowed.push_back(v.error);
  }
  return allowed;
}

struct Comparison {
  double max_error = 0.0;
  double of_row_max = 0.0;
  double of_allowed = 0.0;
  size_t row = 0;  // where of_allowed is
  size_t column = 0;
};

// The larger one, and NaN once there has been one.
inline double Worse(double a, double b) {
  return b <= a || std::isnan(a) ? a : b;
}

// part / whole; no error is no share, also where none is allowed.
inline double Share(double part, double whole) {
  return part == 0.0 ? 0.0 : part / whole;
}

// `y` has any number of rows of the block's, over and over.
inline Comparison Compare(const TrainedBlock& block,
                          const std::vector<double>& allowed,
                          const std::vector<float>& y) {
  const size_t width = block.d_model;
  Comparison result;
  for (size_t r = 0; r < y.size() / width; ++r) {
    const size_t from = r % block.rows * width;
    const double* truth = &block.y_f64[from];
    double row_max = 0.0;
    double row_error = 0.0;
    for (size_t i = 0; i < width; ++i) {
      const double error = std::fabs(y[r * width + i] - truth[i]);
      const double of_allowed = Share(error, allowed[from + i]);
      row_max = Worse(row_max, std::fabs(truth[i]));
      row_error = Worse(row_error, error);
      if (!std::isnan(result.of_allowed) &&
          !(of_allowed <= result.of_allowed)) {
        result.of_allowed = of_allowed;
        result.row = r;
        result.column = i;
      }
    }
    result.max_error = Worse(result.max_error, row_error);
    result.of_row_max = Worse(result.of_row_max, Share(row_error, row_max));
  }
  return result;
}

}  // namespace ffnorm_example

#endif  // FFNORM_EXAMPLES_COMPARISON_H_
