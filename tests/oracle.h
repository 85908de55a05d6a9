// What the results should be: float64 values, each with a proven bound on how
// far a float32 result that follows the numeric contract may be from it.
//
// u = 2^-24; one rounding changes a result by a factor within 1 +- u, n of them
// by a factor within 1 +- gamma(n), gamma(n) = n u / (1 - n u).
//
// Dense, sum over k < K of a[k] w[k], plus bias. In a block of at most 256
// terms each term is rounded at most 256 times (fused: once per step; unfused:
// once in its product, and the first addition, to +0, is exact). Adding the
// blocks rounds ceil(K / 256) - 1 times more, the bias once. That makes min(K,
// 256) + ceil(K / 256); one more covers the residual, another this oracle's own
// sum (K 2^-53 is far below u). The bias itself is rounded but once. If inputs
// are only known within e[k], the result moves by at most sum e[k] |w[k]|, and
// the magnitudes that gamma multiplies are |a[k]| + e[k]. ReLU never widens a
// distance.
//
// LayerNorm of a row x known within s[i]. Write z = x - mean(x) for the truth,
// t[i] = s[i] + mean(s): what the uncertain input can do to z[i]. fold() rounds
// each term at most f = ceil(D / 64) - 1 + 6 times; g = gamma(f + 1).
//   m: off by at most E = g mean|x|.
//   d = x - m: off by u |x - m|, and |x - m| <= |z| + E. Its mean is c up to
//     g mean|d|; so c takes out m's error E, and leaves u (|z| + E) of its own
//     terms and g (mean|z| + E) of its sum.
//   e = d - c: one more u |z|. Together, |e[i] - z[i]| <= h[i], as computed in
//     LayerNormTruth: E appears only multiplied by g or u, which is why rows on
//     a huge base come out right.
//   var: within q = mean(2 |z| h + h^2) of V = mean(z^2), plus gamma(f + 2) of
//     the sum. With + eps that gives S = V + eps within p S, say.
//   rstd: 1 / sqrt moves by a factor of at most (1 - p)^-1/2, then sqrt and
//     division round: within k of r = S^-1/2, relatively. If p >= 1 the row
//     cannot be told from a constant one, and nothing is promised but a number.
//   e * rstd: within h r (1 + k) + |z| r k. Scale, offset: three roundings.
// The binary64 redo of the contract is closer than all this.
//
// Pre-LN and Post-LN chain these. Below 2^-126 roundings are absolute: 2^-150
// each, which kUnderflow stands for. Overflow is not covered.
#ifndef FFNORM_TESTS_ORACLE_H_
#define FFNORM_TESTS_ORACLE_H_

#include <stddef.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "kernels/shape.h"
#include "tests/test_util.h"

namespace ffnorm {
namespace test {

constexpr double kUnit = 1.0 / 16777216.0;
constexpr double kUnderflow = 1.0 / 1.4e45;

inline double Gamma(size_t n) {
  const double nu = static_cast<double>(n) * kUnit;
  return nu / (1.0 - nu);
}

// A right result must be within `error` of `value`.
struct Truth {
  double value;
  double error;
};
using TruthRow = std::vector<Truth>;

// Inputs, which are what they are.
inline TruthRow Exactly(size_t count, const float* values) {
  TruthRow row(count);
  for (size_t i = 0; i < count; ++i) row[i] = {values[i], 0.0};
  return row;
}

// a w + bias, w being (a.size(), outputs) in Flax layout; bias may be null.
inline TruthRow DenseTruth(const TruthRow& a, size_t outputs, const float* w,
                           const float* bias) {
  const size_t K = a.size();
  std::vector<double> sum(outputs, 0.0);
  std::vector<double> magnitude(outputs, 0.0);
  std::vector<double> carried(outputs, 0.0);
  for (size_t k = 0; k < K; ++k) {
    const double value = a[k].value;
    const double error = a[k].error;
    const double size = std::fabs(value) + error;
    const float* row = w + k * outputs;
    for (size_t j = 0; j < outputs; ++j) {
      const double weight = row[j];
      sum[j] += value * weight;
      magnitude[j] += size * std::fabs(weight);
      carried[j] += error * std::fabs(weight);
    }
  }
  const double gamma =
      Gamma(std::min(K, kBlockK) + (K + kBlockK - 1) / kBlockK + 2);
  TruthRow out(outputs);
  for (size_t j = 0; j < outputs; ++j) {
    const double b = bias == nullptr ? 0.0 : bias[j];
    out[j].value = sum[j] + b;
    out[j].error = carried[j] + gamma * magnitude[j] + Gamma(2) * std::fabs(b) +
                   static_cast<double>(K) * kUnderflow;
  }
  return out;
}

inline TruthRow ReluTruth(TruthRow row) {
  for (Truth& t : row) t.value = std::max(t.value, 0.0);
  return row;
}

inline TruthRow AddTruth(const TruthRow& x, const TruthRow& v) {
  TruthRow out(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    const double value = x[i].value + v[i].value;
    const double error = x[i].error + v[i].error;
    out[i] = {value, error + kUnit * (std::fabs(value) + error)};
  }
  return out;
}

// scale and offset may be null.
inline TruthRow LayerNormTruth(const TruthRow& x, float epsilon,
                               const float* scale, const float* offset) {
  const size_t D = x.size();
  const double count = static_cast<double>(D);
  const double u = kUnit;
  const size_t f = (D + 63) / 64 + 5;
  const double g = Gamma(f + 1);

  double mean = 0.0;
  double mean_size = 0.0;
  double mean_s = 0.0;
  for (const Truth& t : x) {
    mean += t.value / count;
    mean_size += (std::fabs(t.value) + t.error) / count;
    mean_s += t.error / count;
  }
  // Recentred, so that float64 is enough on any base.
  double rest = 0.0;
  for (const Truth& t : x) rest += (t.value - mean) / count;

  std::vector<double> z(D);
  std::vector<double> z_size(D);
  double mean_z = 0.0;
  double variance = 0.0;
  for (size_t i = 0; i < D; ++i) {
    z[i] = (x[i].value - mean) - rest;
    z_size[i] = std::fabs(z[i]) + x[i].error + mean_s;
    mean_z += z_size[i] / count;
    variance += z[i] * z[i] / count;
  }

  const double E = g * mean_size + kUnderflow;
  std::vector<double> h(D);
  double q = 0.0;
  for (size_t i = 0; i < D; ++i) {
    const double t = x[i].error + mean_s;
    const double left = u * (z_size[i] + E) + u * (mean_z + E) +
                        g * (mean_z + E) * (1.0 + u) + kUnderflow;
    h[i] = t + left + u * (z_size[i] + left);
    q += (2.0 * std::fabs(z[i]) * h[i] + h[i] * h[i]) / count;
  }
  const double S = variance + static_cast<double>(epsilon);
  const double var_error = q + Gamma(f + 2) * (variance + q);
  const double p = (var_error + u * (S + var_error)) / S;
  const double r = 1.0 / std::sqrt(S);
  const double k = (1.0 + Gamma(2)) / std::sqrt(1.0 - p) - 1.0;

  TruthRow out(D);
  for (size_t i = 0; i < D; ++i) {
    const double gain = scale == nullptr ? 1.0 : scale[i];
    const double shift = offset == nullptr ? 0.0 : offset[i];
    const double normal = std::fabs(z[i]) * r;
    const double normal_error = h[i] * r * (1.0 + k) + normal * k + kUnderflow;
    const double scaled_error =
        std::fabs(gain) * (normal_error + Gamma(2) * (normal + normal_error)) +
        kUnderflow;
    const double value = z[i] * r * gain + shift;
    const double error = scaled_error + u * (std::fabs(value) + scaled_error);
    out[i] = {value, p < 1.0 ? error : std::numeric_limits<double>::infinity()};
  }
  return out;
}

// The functions below take weights in Flax layout with contiguous rows.

inline TruthRow FfnTruth(const ffnorm_params& p, const TruthRow& z) {
  const TruthRow hidden = ReluTruth(DenseTruth(z, p.d_ff, p.w1, p.b1));
  return DenseTruth(hidden, p.d_model, p.w2, p.b2);
}

inline TruthRow PreLnTruth(const ffnorm_params& p, const float* x) {
  const TruthRow in = Exactly(p.d_model, x);
  const TruthRow z = LayerNormTruth(in, p.epsilon, p.scale, p.offset);
  return AddTruth(in, FfnTruth(p, z));
}

inline TruthRow PostLnTruth(const ffnorm_params& p, const float* x) {
  const TruthRow in = Exactly(p.d_model, x);
  const TruthRow sum = AddTruth(in, FfnTruth(p, in));
  return LayerNormTruth(sum, p.epsilon, p.scale, p.offset);
}

inline TruthRow ForwardTruth(const ffnorm_params& p, ffnorm_order order,
                             const float* x) {
  return order == FFNORM_PRE_LN ? PreLnTruth(p, x) : PostLnTruth(p, x);
}

// One assertion for a row; NaN fails.
inline void CheckWithin(const TruthRow& truth, const float* got) {
  size_t misses = 0;
  std::string first;
  for (size_t i = 0; i < truth.size(); ++i) {
    const double error = std::fabs(double{got[i]} - truth[i].value);
    if (!(error <= truth[i].error) && misses++ == 0) {
      first = "column " + std::to_string(i) + ": got " + Describe(got[i]) +
              ", want " + std::to_string(truth[i].value) + ", off by " +
              std::to_string(error / truth[i].error) + " bounds";
    }
  }
  INFO("first miss of ", misses, " in ", truth.size(), ": ", first);
  CHECK(misses == 0);
}

}  // namespace test
}  // namespace ffnorm

#endif  // FFNORM_TESTS_ORACLE_H_
