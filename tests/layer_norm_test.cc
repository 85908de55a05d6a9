// LayerNorm: every target against the scalar reference, bit for bit, and
// against float64 truth.
#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "kernels/shape.h"
#include "kernels/tuning.h"
#include "tests/buffers.h"
#include "tests/oracle.h"
#include "tests/random_data.h"
#include "tests/test_util.h"

namespace ffnorm {
namespace test {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

struct Row {
  size_t width;
  float epsilon = FFNORM_DEFAULT_EPSILON;
  const float* scale = nullptr;
  const float* offset = nullptr;
};

std::vector<float> Run(const ffnorm_target* target, const Row& row,
                       const std::vector<float>& x) {
  std::vector<float> y(x.size(), -7.0f);
  REQUIRE(ffnorm_layer_norm(target, row.width, row.epsilon, row.scale,
                            row.offset, x.size() / row.width, x.data(),
                            row.width, y.data(), row.width) == FFNORM_OK);
  return y;
}

std::vector<float> RunInPlace(const ffnorm_target* target, const Row& row,
                              std::vector<float> x) {
  REQUIRE(ffnorm_layer_norm(target, row.width, row.epsilon, row.scale,
                            row.offset, x.size() / row.width, x.data(),
                            row.width, x.data(), row.width) == FFNORM_OK);
  return x;
}

std::vector<float> RunReference(const Row& row, const std::vector<float>& x) {
  std::vector<float> y(x.size(), -7.0f);
  REQUIRE(ffnorm_reference_layer_norm(row.width, row.epsilon, row.scale,
                                      row.offset, x.size() / row.width,
                                      x.data(), row.width, y.data(),
                                      row.width) == FFNORM_OK);
  return y;
}

// All targets give the reference's bits for these rows, with and without scale
// and offset.
void CheckAgainstReference(size_t width, float epsilon,
                           const std::vector<float>& x) {
  const std::vector<float> scale = Filled(width, Mode::kGaussian, 5);
  const std::vector<float> offset = Filled(width, Mode::kGaussian, 6);
  for (const bool scaled : {false, true}) {
    for (const bool shifted : {false, true}) {
      CAPTURE(scaled);
      CAPTURE(shifted);
      Row row = {width, epsilon};
      if (scaled) row.scale = scale.data();
      if (shifted) row.offset = offset.data();
      const std::vector<float> want = RunReference(row, x);
      ForEachTarget([&](const ffnorm_target* target) {
        for (const auto& got :
             {Run(target, row, x), RunInPlace(target, row, x)}) {
          CheckSameBits(x.size() / width, width, got.data(), width, want.data(),
                        width);
        }
      });
    }
  }
}

std::vector<size_t> Widths() {
  std::vector<size_t> widths;
  for (size_t width = 1; width <= 200; ++width) widths.push_back(width);
  for (size_t width :
       {255, 256,  257,  319,  320,  321,  511,  512,  513,  767,  768,
        769, 1000, 1023, 1024, 1025, 2047, 2048, 2049, 4095, 4096, 4097}) {
    widths.push_back(width);
  }
  return widths;
}

// base + i * step, rounded to float.
std::vector<float> Ramp(size_t width, double base, double step) {
  std::vector<float> x(width);
  for (size_t i = 0; i < width; ++i) {
    x[i] = static_cast<float>(base + static_cast<double>(i) * step);
  }
  return x;
}

double MaxError(const std::vector<float>& got, const TruthRow& truth) {
  double worst = 0.0;
  for (size_t i = 0; i < got.size(); ++i) {
    const double error =
        std::fabs(static_cast<double>(got[i]) - truth[i].value);
    if (!(error <= worst)) worst = error;
  }
  return worst;
}

}  // namespace

TEST_SUITE_BEGIN("layer_norm");

TEST_CASE("layer_norm: bits of the reference at all widths and inputs") {
  for (const size_t width : Widths()) {
    CAPTURE(width);
    for (const Mode mode : kAllModes) {
      const std::string mode_name = ModeName(mode);
      CAPTURE(mode_name);
      CheckAgainstReference(width, FFNORM_DEFAULT_EPSILON,
                            Filled(7 * width, mode, width));
    }
  }
}

TEST_CASE("layer_norm: bits of the reference at other epsilons") {
  for (const float epsilon : {0.0f, 1e-45f, 1e-30f, 1e-12f, 1e-5f, 1.0f}) {
    CAPTURE(epsilon);
    for (const size_t width : Sizes()) {
      CAPTURE(width);
      for (const Mode mode : kAllModes) {
        const std::string mode_name = ModeName(mode);
        CAPTURE(mode_name);
        CheckAgainstReference(width, epsilon, Filled(2 * width, mode, width));
      }
    }
  }
}

TEST_CASE("layer_norm: bits of the reference on any finite floats") {
  Random random(11);
  for (int i = 0; i < 300; ++i) {
    const size_t width = 1 + random.Below(150);
    CAPTURE(width);
    // All with a similar exponent, so that rows differ in size, not elements.
    const float base = random.AnyFinite();
    std::vector<float> x(2 * width);
    for (float& v : x) v = base * (0.5f + 0.5f * random.Gaussian());
    CheckAgainstReference(width, 0.0f, x);
  }
}

// Rows are computed in turns: a row that is done again in binary64 must not
// disturb its neighbours.
TEST_CASE("layer_norm: rows of all kinds side by side") {
  constexpr Mode kModes[] = {Mode::kGaussian, Mode::kHuge, Mode::kTiny,
                             Mode::kOffset};
  for (const size_t width : {2, 5, 33, 64, 100, 513, 770, 2050}) {
    CAPTURE(width);
    // All pairs of kinds, at even and at odd rows.
    std::vector<float> x;
    for (const Mode a : kModes) {
      for (const Mode b : kModes) {
        for (const Mode mode : {a, b, a}) {
          const std::vector<float> row = Filled(width, mode, x.size());
          x.insert(x.end(), row.begin(), row.end());
        }
      }
    }
    CheckAgainstReference(width, 0.0f, x);
    x.resize(x.size() - width);
    CheckAgainstReference(width, 1e-5f, x);
  }
}

// From this size on they are taken one by one (kFarMatrixFloats).
TEST_CASE("layer_norm: rows that come from memory") {
  constexpr size_t kWidth = 500;
  constexpr size_t kRows = kFarMatrixFloats / kWidth + 1;
  const Row row = {kWidth};
  const std::vector<float> x = Filled(kRows * kWidth, Mode::kGaussian, 7);
  const std::vector<float> want = RunReference(row, x);
  ForEachTarget([&](const ffnorm_target* target) {
    const std::vector<float> got = Run(target, row, x);
    CheckSameBits(kRows, kWidth, got.data(), kWidth, want.data(), kWidth);
  });
}

// So many floats are stored past the caches where y has whole lines, and not
// elsewhere or in place (kStreamedFloats). A row of 3e38 needs binary64.
TEST_CASE("layer_norm: rows that are stored past the caches") {
  constexpr size_t kDistinct = 37;
  constexpr size_t kMostFloats = kStreamedFloats + 3 * kPrefetchedNormRow;
  std::vector<float> x(kMostFloats);
  AlignedBuffer y((kMostFloats + 1) * sizeof(float));
  // Four rows together, two, one, and one with prefetches.
  for (const size_t width :
       {kStreamedNormRow, kTwoStreamedNormRows, kOneStreamedNormRow,
        kPrefetchedNormRow + kAlignmentFloats}) {
    CAPTURE(width);
    const size_t rows = CeilDiv(kStreamedFloats, width) + 1;
    REQUIRE(rows * width <= kMostFloats);
    const Row row = {width};
    std::vector<float> some = Filled(kDistinct * width, Mode::kGaussian, 8);
    for (size_t i = 0; i < width; ++i) some[5 * width + i] *= 1e38f;
    const std::vector<float> want = RunReference(row, some);
    for (size_t i = 0; i < rows * width; ++i) x[i] = some[i % some.size()];

    ForEachTarget([&](const ffnorm_target* target) {
      const auto check = [&](const float* from, float* to) {
        REQUIRE(ffnorm_layer_norm(target, width, row.epsilon, nullptr, nullptr,
                                  rows, from, width, to, width) == FFNORM_OK);
        for (size_t r = 0; r < rows; r += kDistinct) {
          CheckSameBits(std::min(kDistinct, rows - r), width, to + r * width,
                        width, want.data(), width);
        }
      };
      y.Poison();
      check(x.data(), y.floats());
      y.Poison();
      check(x.data(), y.floats() + 1);
      std::copy_n(x.begin(), rows * width, y.floats());
      check(y.floats(), y.floats());
    });
  }
}

// No pointer is formed to where a next row would be: sanitizers see that.
TEST_CASE("layer_norm: one row may have any stride") {
  for (const size_t width : {size_t{5}, kPrefetchedNormRow, kStreamedFloats}) {
    CAPTURE(width);
    const Row row = {width};
    const std::vector<float> x = Filled(width, Mode::kGaussian, 9);
    const std::vector<float> want = RunReference(row, x);
    AlignedBuffer y(width * sizeof(float));
    ForEachTarget([&](const ffnorm_target* target) {
      for (const size_t stride : {SIZE_MAX, SIZE_MAX / 2, SIZE_MAX / 8}) {
        CAPTURE(stride);
        y.Poison();
        REQUIRE(ffnorm_layer_norm(
                    target, width, row.epsilon, nullptr, nullptr, 1, x.data(),
                    stride, y.floats(),
                    stride / kAlignmentFloats * kAlignmentFloats) == FFNORM_OK);
        CheckSameBits(1, width, y.floats(), width, want.data(), width);
      }
    });
  }
}

TEST_CASE("layer_norm: strides and in place") {
  for (const size_t width : TinySizes()) {
    for (const size_t gap : {0, 1, 5, 16}) {
      CAPTURE(width);
      CAPTURE(gap);
      const size_t rows = 7;
      const Row row = {width};
      const std::vector<float> x = Filled(rows * width, Mode::kGaussian, width);
      const std::vector<float> want = RunReference(row, x);
      ForEachTarget([&](const ffnorm_target* target) {
        StridedMatrix from(rows, width, width + gap, x.data());
        StridedMatrix to(rows, width, width + 2 * gap);
        REQUIRE(ffnorm_layer_norm(target, width, row.epsilon, nullptr, nullptr,
                                  rows, from.data(), from.stride(), to.data(),
                                  to.stride()) == FFNORM_OK);
        CheckSameBits(rows, width, to.data(), to.stride(), want.data(), width);
        CHECK(to.GapsIntact());
        CheckSameBits(rows, width, from.data(), from.stride(), x.data(), width);

        REQUIRE(ffnorm_layer_norm(target, width, row.epsilon, nullptr, nullptr,
                                  rows, from.data(), from.stride(), from.data(),
                                  from.stride()) == FFNORM_OK);
        CheckSameBits(rows, width, from.data(), from.stride(), want.data(),
                      width);
        CHECK(from.GapsIntact());
      });
    }
  }
}

TEST_CASE("layer_norm: nothing outside the arrays is touched") {
  for (size_t width = 1; width <= 70; ++width) {
    CAPTURE(width);
    const size_t rows = 2;
    const std::vector<float> scale = Filled(width, Mode::kGaussian, 5);
    const std::vector<float> offset = Filled(width, Mode::kGaussian, 6);
    const std::vector<float> x = Filled(rows * width, Mode::kGaussian, width);
    const std::vector<float> want = RunReference(
        {width, FFNORM_DEFAULT_EPSILON, scale.data(), offset.data()}, x);
    for (const auto edge : {GuardedBuffer::kEnd, GuardedBuffer::kBegin}) {
      const GuardedBuffer guarded_x(x, edge);
      const GuardedBuffer guarded_scale(scale, edge);
      const GuardedBuffer guarded_offset(offset, edge);
      ForEachTarget([&](const ffnorm_target* target) {
        GuardedBuffer y(rows * width, edge);
        REQUIRE(ffnorm_layer_norm(target, width, FFNORM_DEFAULT_EPSILON,
                                  guarded_scale.data(), guarded_offset.data(),
                                  rows, guarded_x.data(), width, y.data(),
                                  width) == FFNORM_OK);
        CheckSameBits(rows, width, y.data(), width, want.data(), width);
        CHECK(y.CanariesIntact());
      });
    }
  }
}

TEST_CASE("layer_norm: within the proven bound of float64") {
  for (const size_t width : Sizes()) {
    CAPTURE(width);
    const std::vector<float> scale = Filled(width, Mode::kGaussian, 5);
    const std::vector<float> offset = Filled(width, Mode::kGaussian, 6);
    for (const Mode mode : kAllModes) {
      const std::string mode_name = ModeName(mode);
      CAPTURE(mode_name);
      const std::vector<float> x = Filled(width, mode, width);
      const Row row = {width, 1e-5f, scale.data(), offset.data()};
      const TruthRow truth = LayerNormTruth(Exactly(width, x.data()), 1e-5f,
                                            scale.data(), offset.data());
      ForEachTarget([&](const ffnorm_target* target) {
        CheckWithin(truth, Run(target, row, x).data());
      });
    }
  }
}

TEST_CASE("layer_norm: rows on a large base keep their precision") {
  struct Base {
    double base;
    double step;
  };
  for (const Base& b : {Base{1e7, 1.0}, Base{1e4, 1e-3}, Base{100.0, 1e-3},
                        Base{-4e4, 1.0}, Base{0.0, 1.0}}) {
    for (const size_t width : {4, 16, 17, 64, 100, 256, 1024, 4096}) {
      CAPTURE(b.base);
      CAPTURE(width);
      const std::vector<float> x = Ramp(width, b.base, b.step);
      const TruthRow truth = LayerNormTruth(
          Exactly(width, x.data()), FFNORM_DEFAULT_EPSILON, nullptr, nullptr);
      ForEachTarget([&](const ffnorm_target* target) {
        const std::vector<float> y = Run(target, {width}, x);
        CHECK(MaxError(y, truth) <= 1e-6);
        CheckWithin(truth, y.data());
      });
    }
  }
}

TEST_CASE("layer_norm: a constant row gives exactly the offset") {
  constexpr size_t kMaxWidth = 5000;
  constexpr int kRows = 12000;
  const std::vector<float> scale = Filled(kMaxWidth, Mode::kGaussian, 5);
  const std::vector<float> offset = Filled(kMaxWidth, Mode::kGaussian, 6);
  constexpr float kEpsilons[] = {1e-6f, 1e-5f, 1e-12f, 1e-30f};
  std::vector<float> x(kMaxWidth);
  std::vector<float> y(kMaxWidth);
  ForEachTarget([&](const ffnorm_target* target) {
    Random random(3);
    int wrong_rows = 0;
    for (int i = 0; i < kRows; ++i) {
      // Most widths are small, some large.
      const double u = random.Uniform();
      const size_t width = 1 + static_cast<size_t>(u * u * u * (kMaxWidth - 1));
      const float value =
          i % 2 == 0 ? random.AnyFinite() : 1e4f * random.Gaussian();
      for (size_t j = 0; j < width; ++j) x[j] = value;
      REQUIRE(ffnorm_layer_norm(target, width, kEpsilons[i / 2 % 4],
                                scale.data(), offset.data(), 1, x.data(), width,
                                y.data(), width) == FFNORM_OK);
      bool right = true;
      for (size_t j = 0; j < width; ++j) {
        right = right && Bits(y[j]) == Bits(offset[j]);
      }
      wrong_rows += right ? 0 : 1;
    }
    CHECK(wrong_rows == 0);
  });
}

TEST_CASE("layer_norm: one column gives the offset") {
  const float scale = 3.0f;
  const float offset = 0.25f;
  const std::vector<float> x = {0.0f,   -0.0f,   1e6f, -3e38f,
                                1e-45f, FLT_MAX, 0.1f};
  ForEachTarget([&](const ffnorm_target* target) {
    for (const float got : Run(target, {1, 1e-5f, &scale, &offset}, x)) {
      CHECK(got == 0.25f);
    }
  });
}

TEST_CASE("layer_norm: epsilon 0") {
  ForEachTarget([&](const ffnorm_target* target) {
    // 0 * (1 / 0).
    for (const size_t width : TinySizes()) {
      for (const float got :
           Run(target, {width, 0.0f}, std::vector<float>(width, 2.5f))) {
        CHECK(std::isnan(got));
      }
    }
    // Variances that no float holds.
    const std::vector<float> x = {1e-20f, -1e-20f, 2e-20f, -2e-20f};
    const TruthRow truth =
        LayerNormTruth(Exactly(4, x.data()), 0.0f, nullptr, nullptr);
    const std::vector<float> y = Run(target, {4, 0.0f}, x);
    CHECK(MaxError(y, truth) <= 1e-7);
    CHECK(y[0] == doctest::Approx(0.6324555).epsilon(1e-6));
  });
}

TEST_CASE("layer_norm: huge finite rows come out right") {
  std::vector<std::vector<float>> rows = {
      {1e30f, -1e30f, 2e30f, -2e30f},
      {3e38f, 3e38f, -3e38f, 3e38f},
      {FLT_MAX, -FLT_MAX, FLT_MAX, FLT_MAX},
      {FLT_MAX, 1.0f, 0.0f, -1.0f},
  };
  for (const size_t width : Sizes()) {
    if (width > 1) rows.push_back(Filled(width, Mode::kHuge, width));
  }
  for (const std::vector<float>& x : rows) {
    const size_t width = x.size();
    CAPTURE(width);
    // These are computed in binary64 and rounded once.
    const TruthRow truth = LayerNormTruth(
        Exactly(width, x.data()), FFNORM_DEFAULT_EPSILON, nullptr, nullptr);
    ForEachTarget([&](const ffnorm_target* target) {
      const std::vector<float> y = Run(target, {width}, x);
      int wrong = 0;
      for (size_t i = 0; i < width; ++i) {
        const double error =
            std::fabs(static_cast<double>(y[i]) - truth[i].value);
        if (!(error <= kUnit * std::fabs(truth[i].value) + 1e-12)) ++wrong;
      }
      CHECK(wrong == 0);
    });
  }
}

TEST_CASE("layer_norm: NaN and Inf stay in their row") {
  constexpr size_t kRows = 5;
  for (const size_t width : {1, 2, 7, 8, 31, 33, 64, 65, 130}) {
    CAPTURE(width);
    const std::vector<float> clean =
        Filled(kRows * width, Mode::kGaussian, width);
    ForEachTarget([&](const ffnorm_target* target) {
      const std::vector<float> want = Run(target, {width}, clean);
      for (const float bad : {kNaN, -kNaN, kInf, -kInf}) {
        for (size_t row = 0; row < kRows; ++row) {
          // First, last and one more column.
          for (const size_t column : {size_t{0}, width / 2, width - 1}) {
            std::vector<float> x = clean;
            x[row * width + column] = bad;
            const std::vector<float> y = Run(target, {width}, x);
            size_t numbers = 0;
            for (size_t c = 0; c < width; ++c) {
              if (!std::isnan(y[row * width + c])) ++numbers;
            }
            CHECK(numbers == 0);
            CheckSameBits(row, width, y.data(), width, want.data(), width);
            const size_t below = (row + 1) * width;
            CheckSameBits(kRows - row - 1, width, y.data() + below, width,
                          want.data() + below, width);
          }
        }
      }
    });
  }
}

TEST_SUITE_END();

}  // namespace test
}  // namespace ffnorm
