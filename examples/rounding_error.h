// How far a right float32 result may be from the true value: a float64 run that
// carries with each value the error that rounding is to be expected to have
// made at most.
//
// Roundings, each within u = 2^-24 of its result, are taken as independent: n
// of them add up like sqrt(n), not like n, and what single inputs bring along
// adds up as the square root of squares. In a sum whose terms have one sign,
// which is the worst, the n roundings then have a standard deviation of u
// sqrt(n) / 3 times the sum of the terms' sizes. Six of them are allowed, 2 u
// sqrt(n): in the 50000 elements of the trained blocks one would be off by more
// than that once in 10000 tries. The strict limit, n u, is two hundred times
// wider after two layers and would let real mistakes pass.
//
// How many roundings lie on the way follows from the order of operations, which
// kernels/CONTRACT.md fixes:
//   - a Dense sum of K terms in blocks of 256, with its bias:
//     min(K, 256) + ceil(K / 256) + 2;
//   - a LayerNorm sum of D terms in 64 lanes, divided by D: ceil(D / 64) + 6.
// An error that a whole row shares (that of 1 / deviation) is a few u of the
// result's size, and lies well inside what a Dense sum is allowed.
#ifndef FFNORM_EXAMPLES_ROUNDING_ERROR_H_
#define FFNORM_EXAMPLES_ROUNDING_ERROR_H_

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace ffnorm_example {

// A right result lies within `error` of `value`.
struct Rounded {
  double value = 0.0;
  double error = 0.0;
};

using RoundedRow = std::vector<Rounded>;

// What n roundings may do to a sum, as a share of the size of its terms.
inline double Rounding(size_t n) {
  return 2.0 * 0x1p-24 * std::sqrt(static_cast<double>(n));
}

// relu(a w + bias), or without relu; w is (a.size(), bias.size()).
inline RoundedRow DenseRounded(const RoundedRow& a, const std::vector<float>& w,
                               const std::vector<float>& bias, bool relu) {
  const size_t inputs = a.size();
  const size_t outputs = bias.size();
  const double rounding =
      Rounding(std::min<size_t>(inputs, 256) + (inputs + 255) / 256 + 2);
  RoundedRow y(outputs);
  std::vector<double> size(outputs);
  std::vector<double> squares(outputs);
  for (size_t n = 0; n < outputs; ++n) {
    y[n].value = bias[n];
    size[n] = std::fabs(bias[n]);
  }
  for (size_t k = 0; k < inputs; ++k) {
    for (size_t n = 0; n < outputs; ++n) {
      const double weight = w[k * outputs + n];
      const double term = a[k].value * weight;
      const double carried = a[k].error * weight;
      y[n].value += term;
      size[n] += std::fabs(term);
      squares[n] += carried * carried;
    }
  }
  for (size_t n = 0; n < outputs; ++n) {
    y[n].error = std::hypot(rounding * size[n], std::sqrt(squares[n]));
    // A unit that is off for certain is exactly 0.
    if (relu && y[n].value < -y[n].error) y[n].error = 0.0;
    if (relu) y[n].value = std::max(y[n].value, 0.0);
  }
  return y;
}

inline RoundedRow AddRounded(const RoundedRow& x, const RoundedRow& v) {
  RoundedRow y(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    y[i].value = x[i].value + v[i].value;
    y[i].error = std::hypot(x[i].error, v[i].error) +
                 Rounding(1) * std::fabs(y[i].value);
  }
  return y;
}

// LN(x). z = x - mean(x) is off by what x brings along, by roundings of its
// own, and by those of the second mean, which takes out what the first one left
// over: so the first one's error counts only as a size. From there on relative
// errors add up: half the variance's, that of root and division, and those of
// the two products and the sum at the end.
inline RoundedRow LayerNormRounded(const RoundedRow& x, double epsilon,
                                   const std::vector<float>& scale,
                                   const std::vector<float>& offset) {
  const size_t width = x.size();
  const size_t sum_roundings = (width + 63) / 64 + 6;
  const double count = static_cast<double>(width);

  double mean = 0.0;
  double size_x = 0.0;
  double squares_x = 0.0;
  for (const Rounded& v : x) {
    mean += v.value / count;
    size_x += std::fabs(v.value) / count;
    squares_x += v.error * v.error;
  }
  const double mean_error_x = std::sqrt(squares_x) / count;
  const double first_mean_error = Rounding(sum_roundings) * size_x;

  std::vector<double> z(width);
  double size_z = 0.0;
  double variance = 0.0;
  for (size_t i = 0; i < width; ++i) {
    z[i] = x[i].value - mean;
    size_z += std::fabs(z[i]) / count;
    variance += z[i] * z[i] / count;
  }

  std::vector<double> z_error(width);
  double squares_z = 0.0;
  for (size_t i = 0; i < width; ++i) {
    z_error[i] = std::hypot(x[i].error, mean_error_x) +
                 Rounding(2) * (std::fabs(z[i]) + first_mean_error) +
                 Rounding(sum_roundings) * (size_z + first_mean_error);
    const double moved = (2.0 * std::fabs(z[i]) + z_error[i]) * z_error[i];
    squares_z += moved * moved;
  }
  const double variance_error =
      std::sqrt(squares_z) / count + Rounding(sum_roundings + 1) * variance;
  const double rstd = 1.0 / std::sqrt(variance + epsilon);
  const double rstd_error =
      0.5 * variance_error / (variance + epsilon) + Rounding(3);

  RoundedRow y(width);
  for (size_t i = 0; i < width; ++i) {
    const double normal = z[i] * rstd * scale[i];
    y[i].value = normal + offset[i];
    y[i].error = std::fabs(scale[i]) * rstd * z_error[i] +
                 std::fabs(normal) * rstd_error +
                 Rounding(3) * (std::fabs(normal) + std::fabs(offset[i]));
  }
  return y;
}

}  // namespace ffnorm_example

#endif  // FFNORM_EXAMPLES_ROUNDING_ERROR_H_
