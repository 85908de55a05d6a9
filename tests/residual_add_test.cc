// The residual addition: every target against plain float addition.
#include <algorithm>
#include <limits>
#include <vector>

#include "kernels/shape.h"
#include "kernels/tuning.h"
#include "tests/buffers.h"
#include "tests/random_data.h"
#include "tests/test_util.h"

namespace ffnorm {
namespace test {
namespace {

std::vector<float> Sum(const std::vector<float>& x,
                       const std::vector<float>& v) {
  std::vector<float> y(x.size());
  for (size_t i = 0; i < x.size(); ++i) y[i] = x[i] + v[i];
  return y;
}

}  // namespace

TEST_SUITE_BEGIN("residual_add");

TEST_CASE("residual_add: the reference adds") {
  const std::vector<float> x = Filled(35, Mode::kGaussian, 1);
  const std::vector<float> v = Filled(35, Mode::kGaussian, 2);
  std::vector<float> y(35);
  REQUIRE(ffnorm_reference_residual_add(7, 5, x.data(), 7, v.data(), 7,
                                        y.data(), 7) == FFNORM_OK);
  CheckSameBits(y, Sum(x, v));
}

TEST_CASE("residual_add: bits of float addition at all sizes and inputs") {
  for (const size_t width : Sizes()) {
    for (const Mode mode : kAllModes) {
      const std::string mode_name = ModeName(mode);
      CAPTURE(width);
      CAPTURE(mode_name);
      const size_t rows = 3;
      const std::vector<float> x = Filled(rows * width, mode, 1);
      const std::vector<float> v = Filled(rows * width, mode, 2);
      const std::vector<float> want = Sum(x, v);
      ForEachTarget([&](const ffnorm_target* target) {
        std::vector<float> y(rows * width, -7.0f);
        REQUIRE(ffnorm_residual_add(target, width, rows, x.data(), width,
                                    v.data(), width, y.data(),
                                    width) == FFNORM_OK);
        CheckSameBits(y, want);
      });
    }
  }
}

TEST_CASE("residual_add: zeros, Inf and NaN") {
  const float inf = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> values = {0.0f, -0.0f, 1.0f, -1.0f,
                                     inf,  -inf,  nan,  -nan};
  std::vector<float> x;
  std::vector<float> v;
  for (const float a : values) {
    for (const float b : values) {
      x.push_back(a);
      v.push_back(b);
    }
  }
  const std::vector<float> want = Sum(x, v);
  ForEachTarget([&](const ffnorm_target* target) {
    // Each pair in each lane and tail.
    for (const size_t width : TinySizes()) {
      for (size_t i = 0; i < x.size(); ++i) {
        const std::vector<float> a(width, x[i]);
        const std::vector<float> b(width, v[i]);
        std::vector<float> y(width, -7.0f);
        REQUIRE(ffnorm_residual_add(target, width, 1, a.data(), width, b.data(),
                                    width, y.data(), width) == FFNORM_OK);
        CheckSameBits(y, std::vector<float>(width, want[i]));
      }
    }
  });
}

TEST_CASE("residual_add: y may be x, v or both") {
  for (const size_t width : Sizes()) {
    CAPTURE(width);
    const size_t rows = 4;
    const std::vector<float> x = Filled(rows * width, Mode::kGaussian, 1);
    const std::vector<float> v = Filled(rows * width, Mode::kGaussian, 2);
    ForEachTarget([&](const ffnorm_target* target) {
      std::vector<float> y = x;
      REQUIRE(ffnorm_residual_add(target, width, rows, y.data(), width,
                                  v.data(), width, y.data(),
                                  width) == FFNORM_OK);
      CheckSameBits(y, Sum(x, v));
      y = v;
      REQUIRE(ffnorm_residual_add(target, width, rows, x.data(), width,
                                  y.data(), width, y.data(),
                                  width) == FFNORM_OK);
      CheckSameBits(y, Sum(x, v));
      y = x;
      REQUIRE(ffnorm_residual_add(target, width, rows, y.data(), width,
                                  y.data(), width, y.data(),
                                  width) == FFNORM_OK);
      CheckSameBits(y, Sum(x, x));
    });
  }
}

// So many floats are stored past the caches where y has whole lines
// (kStreamedFloats).
TEST_CASE("residual_add: rows that are stored past the caches") {
  constexpr size_t kWidth = 336;
  constexpr size_t kRows = CeilDiv(kStreamedFloats, kWidth);
  const std::vector<float> x = Filled(kRows * kWidth, Mode::kGaussian, 1);
  const std::vector<float> v = Filled(kRows * kWidth, Mode::kGaussian, 2);
  const std::vector<float> want = Sum(x, v);
  AlignedBuffer y((x.size() + 1) * sizeof(float));
  ForEachTarget([&](const ffnorm_target* target) {
    for (const size_t misaligned : {0, 1}) {
      CAPTURE(misaligned);
      y.Poison();
      float* to = y.floats() + misaligned;
      REQUIRE(ffnorm_residual_add(target, kWidth, kRows, x.data(), kWidth,
                                  v.data(), kWidth, to, kWidth) == FFNORM_OK);
      CheckSameBits(kRows, kWidth, to, kWidth, want.data(), kWidth);
    }
    std::copy(v.begin(), v.end(), y.floats());
    REQUIRE(ffnorm_residual_add(target, kWidth, kRows, x.data(), kWidth,
                                y.floats(), kWidth, y.floats(),
                                kWidth) == FFNORM_OK);
    CheckSameBits(kRows, kWidth, y.floats(), kWidth, want.data(), kWidth);
  });
}

TEST_CASE("residual_add: strides, and nothing outside the arrays") {
  for (size_t width = 1; width <= 70; ++width) {
    CAPTURE(width);
    const size_t rows = 3;
    const std::vector<float> x = Filled(rows * width, Mode::kGaussian, 1);
    const std::vector<float> v = Filled(rows * width, Mode::kGaussian, 2);
    const std::vector<float> want = Sum(x, v);
    ForEachTarget([&](const ffnorm_target* target) {
      const StridedMatrix sx(rows, width, width + 3, x.data());
      const StridedMatrix sv(rows, width, width + 7, v.data());
      StridedMatrix sy(rows, width, width + 1);
      REQUIRE(ffnorm_residual_add(target, width, rows, sx.data(), sx.stride(),
                                  sv.data(), sv.stride(), sy.data(),
                                  sy.stride()) == FFNORM_OK);
      CheckSameBits(rows, width, sy.data(), sy.stride(), want.data(), width);
      CHECK(sy.GapsIntact());

      for (const auto edge : {GuardedBuffer::kEnd, GuardedBuffer::kBegin}) {
        const GuardedBuffer gx(x, edge);
        const GuardedBuffer gv(v, edge);
        GuardedBuffer gy(rows * width, edge);
        REQUIRE(ffnorm_residual_add(target, width, rows, gx.data(), width,
                                    gv.data(), width, gy.data(),
                                    width) == FFNORM_OK);
        CheckSameBits(rows, width, gy.data(), width, want.data(), width);
        CHECK(gy.CanariesIntact());
      }
    });
  }
}

TEST_SUITE_END();

}  // namespace test
}  // namespace ffnorm
