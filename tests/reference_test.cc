// The scalar reference against values worked out by hand and against the
// contract written down a second time: what all other tests rest on.
#include <cfloat>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/fma_ref.h"
#include "tests/buffers.h"
#include "tests/model.h"
#include "tests/oracle.h"
#include "tests/random_data.h"
#include "tests/test_util.h"

namespace ffnorm {
namespace test {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

// 2^exponent.
float Power(int exponent) { return std::ldexp(1.0f, exponent); }

struct Triple {
  float a;
  float b;
  float c;
};

void CheckFma(const Triple& t, float want) {
  const std::string what = Describe(t.a) + " * " + Describe(t.b) + " + " +
                           Describe(t.c) + " should be " + Describe(want);
  CAPTURE(what);
  CHECK(SameBits(ExactFma(t.a, t.b, t.c), want));
}

// Any finite floats; or c close to -a b, where the sum cancels; or c far below
// the product of few bits, where rounding twice goes wrong.
Triple Draw(Random& random, int kind) {
  Triple t = {random.AnyFinite(), random.AnyFinite(), random.AnyFinite()};
  if (kind == 0) return t;
  t.a =
      std::ldexp(random.Gaussian(), static_cast<int>(random.Below(200)) - 140);
  t.b = random.Gaussian();
  if (kind == 1) {
    t.c = -(t.a * t.b) * (1.0f + FLT_EPSILON * random.Gaussian());
    return t;
  }
  const float few_bits = 1.0f + Power(-12);
  t.a = few_bits * Power(static_cast<int>(random.Below(250)) - 140);
  t.b = (1.0f + Power(-12) * static_cast<float>(random.Below(4)));
  t.c = random.Sign() * t.a * Power(-20 - static_cast<int>(random.Below(60)));
  return t;
}

float Separately(float a, float b, float c) {
  // volatile: two roundings, whatever the compiler would like.
  const volatile float product = a * b;
  return product + c;
}

// a b + c as a Dense layer of two inputs computes it: 1 * c first.
float ThroughDense(ffnorm_class rounding, const Triple& t) {
  const float x[2] = {t.c, t.a};
  const float w1[2] = {1.0f, t.b};
  const float w2[2] = {0.0f, 0.0f};
  ffnorm_params params = ffnorm_default_params(2, 1);
  params.w1 = w1;
  params.w2 = w2;
  float y = -7.0f;
  REQUIRE(ffnorm_reference_dense(&params, rounding, FFNORM_DENSE_1,
                                 FFNORM_LINEAR, 1, x, 2, &y, 1) == FFNORM_OK);
  return y;
}

// ---- The contract a second time

float MulAdd(ffnorm_class rounding, float a, float w, float acc) {
  return rounding == FFNORM_FUSED ? ExactFma(a, w, acc) : Separately(a, w, acc);
}

float DenseElement(ffnorm_class rounding, const std::vector<float>& a,
                   const std::vector<float>& w, float bias) {
  float total = 0.0f;
  size_t k = 0;
  while (k < a.size()) {
    float acc = 0.0f;
    do {
      acc = MulAdd(rounding, a[k], w[k], acc);
      ++k;
    } while (k < a.size() && k % 256 != 0);
    total += acc;
  }
  return total + bias;
}

template <class T>
T Fold(const std::vector<T>& terms) {
  T lanes[64];
  for (size_t lane = 0; lane < 64; ++lane) {
    lanes[lane] = 0;
    for (size_t i = lane; i < terms.size(); i += 64) lanes[lane] += terms[i];
  }
  for (const size_t half : {32, 16, 8, 4, 2, 1}) {
    for (size_t lane = 0; lane < half; ++lane) {
      lanes[lane] += lanes[lane + half];
    }
  }
  return lanes[0];
}

// False if the variance is out of T's range, as the contract sets it.
template <class T>
bool LayerNormIn(const std::vector<float>& x, float epsilon,
                 const std::vector<float>& scale,
                 const std::vector<float>& offset, std::vector<float>* out) {
  const T count = static_cast<T>(x.size());
  std::vector<T> e(x.begin(), x.end());
  const T m = Fold(e) / count;
  for (T& v : e) v = v - m;
  const T c = Fold(e) / count;
  for (T& v : e) v = v - c;
  std::vector<T> squares;
  for (const T v : e) squares.push_back(v * v);
  const T var = Fold(squares) / count;
  const T s = var + static_cast<T>(epsilon);
  if (sizeof(T) == sizeof(float) && !(s >= Power(-96) && s <= FLT_MAX)) {
    return false;
  }
  const T rstd = 1 / std::sqrt(s);
  out->clear();
  for (size_t i = 0; i < x.size(); ++i) {
    const T normal = e[i] * rstd;
    const T scaled = normal * static_cast<T>(scale[i]);
    out->push_back(static_cast<float>(scaled + static_cast<T>(offset[i])));
  }
  return true;
}

std::vector<float> ReferenceLayerNorm(const std::vector<float>& x,
                                      float epsilon, const float* scale,
                                      const float* offset) {
  std::vector<float> y(x.size(), -7.0f);
  REQUIRE(ffnorm_reference_layer_norm(x.size(), epsilon, scale, offset, 1,
                                      x.data(), x.size(), y.data(),
                                      x.size()) == FFNORM_OK);
  return y;
}

}  // namespace

TEST_SUITE_BEGIN("reference");

TEST_CASE("reference: fma rounds once") {
  const float tiny = Power(-100);
  const float least = Power(-149);
  // The product has 47 bits, and all but the last cancel.
  const float a = 1.0f + Power(-23);
  CheckFma({a, a, -(1.0f + Power(-22))}, Power(-46));
  // 1 + 2^-11 + 2^-24 is half way between two floats: to even, unless c tells.
  const float b = 1.0f + Power(-12);
  const float low = 1.0f + Power(-11);
  const float high = low + Power(-23);
  CheckFma({b, b, 0.0f}, low);
  CheckFma({b, b, tiny}, high);
  CheckFma({b, b, -tiny}, low);
  CheckFma({-b, b, tiny}, -low);
  CheckFma({-b, b, -tiny}, -high);
  CheckFma({b, b, least}, high);
  CheckFma({b, b, -least}, low);
  // The sum is half way, and a product far below decides.
  CheckFma({Power(-80), Power(-80), high}, high);
  CheckFma({tiny, tiny, 1.0f}, 1.0f);
  CheckFma({tiny, -tiny, 1.0f}, 1.0f);
}

TEST_CASE("reference: fma with subnormal results") {
  const float least = Power(-149);
  CheckFma({Power(-75), Power(-75), 0.0f}, 0.0f);
  CheckFma({-Power(-75), Power(-75), 0.0f}, -0.0f);
  CheckFma({Power(-75) * (1.0f + Power(-23)), Power(-75), 0.0f}, least);
  CheckFma({Power(-75), Power(-75), least}, 2 * least);
  CheckFma({Power(-75), Power(-75), 2 * least}, 2 * least);
  CheckFma({-Power(-75), Power(-75), least}, 0.0f);
  CheckFma({Power(-149), Power(-149), least}, least);
  CheckFma({Power(-149), Power(-149), 0.0f}, 0.0f);
  CheckFma({0.5f, 3 * least, 0.0f}, 2 * least);
  CheckFma({0.5f, 3 * least, FLT_MIN}, FLT_MIN + 2 * least);
  CheckFma({1.0f, least, -FLT_MIN}, -(FLT_MIN - least));
}

TEST_CASE("reference: fma at the upper end") {
  const float half_ulp = Power(103);
  CheckFma({FLT_MAX, 2.0f, -FLT_MAX}, FLT_MAX);
  CheckFma({FLT_MAX, FLT_MAX, 0.0f}, kInf);
  CheckFma({-FLT_MAX, FLT_MAX, FLT_MAX}, -kInf);
  CheckFma({Power(52), Power(51), FLT_MAX}, kInf);
  CheckFma({Power(52), Power(51) * (1.0f - Power(-24)), FLT_MAX}, FLT_MAX);
  CheckFma({1.0f, half_ulp, FLT_MAX}, kInf);
  CheckFma({1.0f, FLT_MAX, -FLT_MAX}, 0.0f);
}

TEST_CASE("reference: fma with zeros, Inf and NaN") {
  CheckFma({0.0f, 1.0f, 0.0f}, 0.0f);
  CheckFma({-0.0f, 1.0f, -0.0f}, -0.0f);
  CheckFma({-0.0f, 1.0f, 0.0f}, 0.0f);
  CheckFma({1.0f, -1.0f, 1.0f}, 0.0f);
  CheckFma({kInf, 1.0f, 1.0f}, kInf);
  CheckFma({kInf, -2.0f, FLT_MAX}, -kInf);
  CheckFma({1.0f, 1.0f, -kInf}, -kInf);
  CheckFma({kInf, 0.0f, 1.0f}, kNaN);
  CheckFma({kInf, 1.0f, -kInf}, kNaN);
  CheckFma({kNaN, 0.0f, 1.0f}, kNaN);
  CheckFma({1.0f, 1.0f, kNaN}, kNaN);
  CheckFma({FLT_MAX, FLT_MAX, -kInf}, -kInf);
}

// MinGW's fmaf rounds twice, so there is nothing to compare with.
#ifndef __MINGW32__
TEST_CASE("reference: fma equals std::fma on random numbers") {
  Random random(42);
  for (int kind = 0; kind < 3; ++kind) {
    size_t wrong = 0;
    std::string first;
    for (int i = 0; i < 300000; ++i) {
      const Triple t = Draw(random, kind);
      const float want = std::fma(t.a, t.b, t.c);
      const float got = ExactFma(t.a, t.b, t.c);
      if (SameBits(got, want)) continue;
      if (wrong++ == 0) {
        first = Describe(t.a) + " * " + Describe(t.b) + " + " + Describe(t.c) +
                ": got " + Describe(got) + ", want " + Describe(want);
      }
    }
    CAPTURE(kind);
    CAPTURE(first);
    CHECK(wrong == 0);
  }
}
#endif

TEST_CASE("reference: the two classes of rounding, through a layer") {
  Random random(43);
  size_t wrong = 0;
  size_t different = 0;
  for (int i = 0; i < 30000; ++i) {
    const Triple t = Draw(random, i % 3);
    // The layer's sum starts at +0, so a zero has lost its sign.
    const float fused = 0.0f + ExactFma(t.a, t.b, t.c);
    const float unfused = 0.0f + Separately(t.a, t.b, t.c);
    if (!SameBits(ThroughDense(FFNORM_FUSED, t), fused)) ++wrong;
    if (!SameBits(ThroughDense(FFNORM_UNFUSED, t), unfused)) ++wrong;
    if (!SameBits(fused, unfused)) ++different;
  }
  CHECK(wrong == 0);
  CHECK(different > 5000);
}

TEST_CASE("reference: dense as the contract says it") {
  for (const size_t inputs : {1, 2, 255, 256, 257, 511, 512, 513, 1000}) {
    const size_t outputs = 3;
    const Model model(inputs, outputs);
    const ffnorm_params in_out = model.Params();
    ffnorm_params out_in = in_out;
    const std::vector<float> w1_t = Transposed(inputs, outputs, model.w1);
    const std::vector<float> w2_t = Transposed(outputs, inputs, model.w2);
    const StridedMatrix strided(outputs, inputs, inputs + 9, w1_t.data());
    out_in.layout = FFNORM_OUT_IN;
    out_in.w1 = strided.data();
    out_in.w1_stride = strided.stride();
    out_in.w2 = w2_t.data();

    const std::vector<float> x = model.Input(1);
    for (const ffnorm_class rounding : {FFNORM_UNFUSED, FFNORM_FUSED}) {
      std::vector<float> want(outputs);
      for (size_t n = 0; n < outputs; ++n) {
        const std::vector<float> column(w1_t.begin() + n * inputs,
                                        w1_t.begin() + (n + 1) * inputs);
        want[n] = DenseElement(rounding, x, column, model.b1[n]);
      }
      for (const ffnorm_params& params : {in_out, out_in}) {
        CAPTURE(inputs);
        CAPTURE(rounding);
        std::vector<float> y(outputs, -7.0f);
        REQUIRE(ffnorm_reference_dense(&params, rounding, FFNORM_DENSE_1,
                                       FFNORM_LINEAR, 1, x.data(), inputs,
                                       y.data(), outputs) == FFNORM_OK);
        CheckSameBits(y, want);
      }
    }
  }
}

TEST_CASE("reference: ReLU") {
  const std::vector<float> bias = {kNaN,  -kNaN, kInf,  -kInf,  1.5f,
                                   -1.5f, 0.0f,  -0.0f, 1e-45f, -1e-45f};
  const std::vector<float> want = {kNaN, kNaN, kInf, 0.0f,   1.5f,
                                   0.0f, 0.0f, 0.0f, 1e-45f, 0.0f};
  const std::vector<float> zeros(bias.size(), 0.0f);
  ffnorm_params params = ffnorm_default_params(1, bias.size());
  params.w1 = zeros.data();
  params.w2 = zeros.data();
  params.b1 = bias.data();
  std::vector<float> y(bias.size(), -7.0f);
  REQUIRE(ffnorm_reference_dense(&params, FFNORM_FUSED, FFNORM_DENSE_1,
                                 FFNORM_RELU, 1, zeros.data(), 1, y.data(),
                                 y.size()) == FFNORM_OK);
  CheckSameBits(y, want);
}

TEST_CASE("reference: layer_norm by hand") {
  // Mean 2, variance 1.
  CheckSameBits(ReferenceLayerNorm({1.0f, 3.0f}, 0.0f, nullptr, nullptr),
                {-1.0f, 1.0f});
  // Variance 1, epsilon 3: half.
  CheckSameBits(ReferenceLayerNorm({1.0f, 3.0f}, 3.0f, nullptr, nullptr),
                {-0.5f, 0.5f});
  const float scale[] = {4.0f, -2.0f};
  const float offset[] = {0.25f, 1.0f};
  CheckSameBits(ReferenceLayerNorm({1.0f, 3.0f}, 3.0f, scale, nullptr),
                {-2.0f, -1.0f});
  CheckSameBits(ReferenceLayerNorm({1.0f, 3.0f}, 3.0f, nullptr, offset),
                {-0.25f, 1.5f});
  CheckSameBits(ReferenceLayerNorm({1.0f, 3.0f}, 3.0f, scale, offset),
                {-1.75f, 0.0f});
  // Mean 0, variance 4, also where binary32 holds no square: these rows are
  // done again in binary64.
  for (const float size : {1.0f, 1e-30f, 3e38f}) {
    CheckSameBits(
        ReferenceLayerNorm({size, -size, size, -size}, 0.0f, nullptr, nullptr),
        {1.0f, -1.0f, 1.0f, -1.0f});
  }
}

TEST_CASE("reference: layer_norm as the contract says it") {
  for (size_t width = 1; width <= 300; ++width) {
    for (const Mode mode : {Mode::kGaussian, Mode::kOffset, Mode::kCancelling,
                            Mode::kIntegers, Mode::kSparse}) {
      const std::string mode_name = ModeName(mode);
      CAPTURE(width);
      CAPTURE(mode_name);
      const std::vector<float> x = Filled(width, mode, width);
      const std::vector<float> scale = Filled(width, Mode::kGaussian, 5);
      const std::vector<float> offset = Filled(width, Mode::kGaussian, 6);
      std::vector<float> want;
      REQUIRE(LayerNormIn<float>(x, 1e-5f, scale, offset, &want));
      CheckSameBits(ReferenceLayerNorm(x, 1e-5f, scale.data(), offset.data()),
                    want);
    }
  }
}

// Rows whose variance is about 2^-96, or whose sum of squares is about FLT_MAX:
// binary32 inside, binary64 outside.
TEST_CASE("reference: layer_norm at both ends of binary32") {
  constexpr size_t kWidth = 40;
  const std::vector<float> scale = Filled(kWidth, Mode::kGaussian, 5);
  const std::vector<float> offset = Filled(kWidth, Mode::kGaussian, 6);
  for (const float size : {Power(-48), 1.26f * Power(61)}) {
    size_t inside = 0;
    size_t outside = 0;
    for (uint64_t seed = 0; seed < 300; ++seed) {
      std::vector<float> x = Filled(kWidth, Mode::kGaussian, seed);
      for (float& v : x) v *= size;
      std::vector<float> want;
      if (LayerNormIn<float>(x, 0.0f, scale, offset, &want)) {
        ++inside;
      } else {
        ++outside;
        LayerNormIn<double>(x, 0.0f, scale, offset, &want);
      }
      CAPTURE(size);
      CAPTURE(seed);
      CheckSameBits(ReferenceLayerNorm(x, 0.0f, scale.data(), offset.data()),
                    want);
    }
    CHECK(inside > 50);
    CHECK(outside > 50);
  }
}

TEST_CASE("reference: forward is its stages, one after another") {
  const size_t rows = 3;
  for (const bool complete : {true, false}) {
    Model model(30, 70);
    model.has_bias = complete;
    model.has_affine = complete;
    const ffnorm_params p = model.Params();
    const std::vector<float> x = model.Input(rows);
    for (const ffnorm_class rounding : {FFNORM_UNFUSED, FFNORM_FUSED}) {
      const auto layer_norm = [&](const std::vector<float>& from) {
        std::vector<float> to(from.size());
        REQUIRE(ffnorm_reference_layer_norm(30, p.epsilon, p.scale, p.offset,
                                            rows, from.data(), 30, to.data(),
                                            30) == FFNORM_OK);
        return to;
      };
      const auto feed_forward = [&](const std::vector<float>& from) {
        std::vector<float> hidden(rows * 70);
        std::vector<float> to(from.size());
        REQUIRE(ffnorm_reference_dense(&p, rounding, FFNORM_DENSE_1,
                                       FFNORM_RELU, rows, from.data(), 30,
                                       hidden.data(), 70) == FFNORM_OK);
        REQUIRE(ffnorm_reference_dense(&p, rounding, FFNORM_DENSE_2,
                                       FFNORM_LINEAR, rows, hidden.data(), 70,
                                       to.data(), 30) == FFNORM_OK);
        return to;
      };
      const auto plus_x = [&](std::vector<float> v) {
        for (size_t i = 0; i < v.size(); ++i) v[i] = x[i] + v[i];
        return v;
      };
      CheckSameBits(model.ReferenceForward(rounding, FFNORM_PRE_LN, rows, x),
                    plus_x(feed_forward(layer_norm(x))));
      CheckSameBits(model.ReferenceForward(rounding, FFNORM_POST_LN, rows, x),
                    layer_norm(plus_x(feed_forward(x))));
    }
  }
}

TEST_CASE("reference: forward in place and inside its arrays") {
  const Model model(13, 21);
  const size_t rows = 4;
  const ffnorm_params params = model.Params();
  const std::vector<float> x = model.Input(rows);
  size_t bytes = 0;
  REQUIRE(ffnorm_reference_workspace_bytes(&params, &bytes) == FFNORM_OK);
  for (const ffnorm_order order : {FFNORM_PRE_LN, FFNORM_POST_LN}) {
    const std::vector<float> want =
        model.ReferenceForward(FFNORM_FUSED, order, rows, x);
    for (const auto edge : {GuardedBuffer::kEnd, GuardedBuffer::kBegin}) {
      GuardedBuffer y(x, edge);
      GuardedBuffer workspace(bytes / sizeof(float), edge);
      REQUIRE(ffnorm_reference_forward(&params, FFNORM_FUSED, order, rows,
                                       y.data(), 13, y.data(), 13,
                                       workspace.data(), bytes) == FFNORM_OK);
      CheckSameBits(rows, 13, y.data(), 13, want.data(), 13);
      CHECK(y.CanariesIntact());
      CHECK(workspace.CanariesIntact());
    }
  }
}

TEST_SUITE_END();

}  // namespace test
}  // namespace ffnorm
