// Bugs that users of other libraries reported, replayed here: each case is
// named after the issue or pull request, and expects the right values.
#include <stddef.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "tests/buffers.h"
#include "tests/model.h"
#include "tests/random_data.h"
#include "tests/test_util.h"

namespace ffnorm {
namespace test {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr ffnorm_order kOrders[] = {FFNORM_PRE_LN, FFNORM_POST_LN};

// LN of one row; scale and offset may be empty.
std::vector<float> Norm(const ffnorm_target* target,
                        const std::vector<float>& x, float epsilon,
                        const std::vector<float>& scale = {},
                        const std::vector<float>& offset = {}) {
  const size_t D = x.size();
  std::vector<float> y(D, 99.0f);
  REQUIRE(ffnorm_layer_norm(target, D, epsilon,
                            scale.empty() ? nullptr : scale.data(),
                            offset.empty() ? nullptr : offset.data(), 1,
                            x.data(), D, y.data(), D) == FFNORM_OK);
  return y;
}

void CheckNear(const std::vector<float>& got, const std::vector<double>& want) {
  REQUIRE(got.size() == want.size());
  for (size_t i = 0; i < want.size(); ++i) {
    CAPTURE(i);
    const double error = std::fabs(static_cast<double>(got[i]) - want[i]);
    CHECK(error <= 1e-6);
  }
}

std::vector<float> Ramp(size_t D, double base, double step) {
  std::vector<float> x(D);
  for (size_t i = 0; i < D; ++i) {
    x[i] = static_cast<float>(base + step * static_cast<double>(i));
  }
  return x;
}

// One call on contiguous rows.
ffnorm_status Forward(const ffnorm_block& block, ffnorm_order order,
                      size_t rows, const float* x, float* y) {
  Workspace workspace(block, rows);
  return ffnorm_forward(&block, order, rows, x, block.d_model, y, block.d_model,
                        workspace.Exec());
}

}  // namespace

TEST_SUITE("bug_replay") {
  // ---- LayerNorm

  TEST_CASE("onnxruntime #28463: NaN where the mean is far above the spread") {
    const std::vector<double> want = {-1.3416354, -0.4472118, 0.4472118,
                                      1.3416354};
    for (const double base : {40000.0, 80000.0, 1e6}) {
      CAPTURE(base);
      ForEachTarget([&](const ffnorm_target* target) {
        CheckNear(Norm(target, Ramp(4, base, 1.0), 1e-5f), want);
      });
    }
  }

  TEST_CASE("onnxruntime #21935: NaN on a constant row") {
    for (const size_t D : {1, 3, 7, 255, 256, 257, 768}) {
      const std::vector<float> scale = Filled(D, Mode::kGaussian, 1);
      const std::vector<float> offset = Filled(D, Mode::kGaussian, 2);
      for (const float value : {1234.0f, 0.1f}) {
        for (const float epsilon : {1e-5f, 1e-12f}) {
          ForEachTarget([&](const ffnorm_target* target) {
            CheckSameBits(Norm(target, std::vector<float>(D, value), epsilon,
                               scale, offset),
                          offset);
          });
        }
      }
    }
  }

  TEST_CASE("burn #5607: a small spread on a large base, silently wrong") {
    ForEachTarget([](const ffnorm_target* target) {
      const std::vector<float> low = Norm(target, Ramp(16, 100, 1e-3), 1e-5f);
      CheckNear({low[0], low[15]}, {-1.3415277, 1.3413571});
      const std::vector<float> high =
          Norm(target, Ramp(16, 10000, 1e-3), 1e-5f);
      CheckNear({high[0], high[15]}, {-1.3313334, 1.3313334});
    });
  }

  TEST_CASE("pytorch #108072: a constant row is not exactly the offset") {
    for (const float value : {0.3f, 1e-3f, 12345.678f, -7e8f}) {
      for (const size_t D : {1, 4, 33, 1000}) {
        const std::vector<float> scale(D, 3.0f);
        const std::vector<float> offset(D, 0.25f);
        ForEachTarget([&](const ffnorm_target* target) {
          CheckSameBits(
              Norm(target, std::vector<float>(D, value), 1e-5f, scale, offset),
              offset);
        });
      }
    }
  }

  TEST_CASE("pytorch #188372, #108956: one column") {
    Model model(1, 3);
    model.epsilon = 1e-5f;
    model.w1 = {2.0f, -1.0f, 0.5f};
    model.b1 = {1.0f, 1.0f, -4.0f};
    model.w2 = {4.0f, 8.0f, 16.0f};
    model.b2 = {0.5f};
    model.scale = {3.0f};
    model.offset = {0.25f};
    model.Pack();
    // relu(0.25 w1 + b1) = [1.5, 0.75, 0]
    constexpr float kFfn = 1.5f * 4.0f + 0.75f * 8.0f + 0.5f;
    for (const float x : {0.0f, 1e6f, -3e38f, 1e-45f}) {
      CAPTURE(x);
      ForEachTarget([&](const ffnorm_target* target) {
        CheckSameBits(Norm(target, {x}, 1e-5f, model.scale, model.offset),
                      model.offset);
        CheckSameBits(model.Forward(target, FFNORM_PRE_LN, 1, {x}), {x + kFfn});
      });
    }
  }

  TEST_CASE("pytorch #162489, #178123: finite rows that overflow on the way") {
    const double r = 0.6324555;
    const double s = 0.57735027;
    ForEachTarget([&](const ffnorm_target* target) {
      CheckNear(Norm(target, {1e30f, -1e30f, 2e30f, -2e30f}, 1e-5f),
                {r, -r, 2 * r, -2 * r});
      CheckNear(Norm(target, {3e38f, 3e38f, -3e38f, 3e38f}, 1e-5f),
                {s, s, -3 * s, s});
    });
  }

  TEST_CASE("tensorflow #61287, DeepSpeed #581: rows of zeros") {
    const double r = 0.6324555;
    for (const size_t D : {1, 5, 64, 100}) {
      const std::vector<float> zeros(D, 0.0f);
      const std::vector<float> offset = Filled(D, Mode::kGaussian, 2);
      ForEachTarget([&](const ffnorm_target* target) {
        CheckSameBits(Norm(target, zeros, 1e-5f, {}, offset), offset);
        // 0 * (1 / sqrt(0)), as IEEE has it.
        CheckSameBits(Norm(target, zeros, 0.0f, {}, offset),
                      std::vector<float>(D, kNaN));
      });
    }
    ForEachTarget([&](const ffnorm_target* target) {
      CheckNear(Norm(target, {1e-20f, -1e-20f, 2e-20f, -2e-20f}, 0.0f),
                {r, -r, 2 * r, -2 * r});
    });
  }

  TEST_CASE("onnxruntime PR #3768: epsilon ignored") {
    ForEachTarget([](const ffnorm_target* target) {
      CheckNear(Norm(target, {1, 0, 0, 0}, 1e-5f),
                {1.7320046, -0.5773349, -0.5773349, -0.5773349});
      CheckNear({Norm(target, {1, 0, 0, 0}, 1.0f)[0]}, {0.6882472});
    });
  }

  // ---- Values that must not get lost

  TEST_CASE("tensorflow #12659: NaN in the tail only, zero before it") {
    for (size_t width = 1; width <= 67; ++width) {
      CAPTURE(width);
      const Model model(width, width + 1);
      const std::vector<float> nan(width, kNaN);
      const std::vector<float> zeros(width, -0.0f);
      for (const ffnorm_order order : kOrders) {
        ReferenceCache reference;
        ForEachTarget([&](const ffnorm_target* target) {
          CheckSameBits(model.Forward(target, order, 1, nan), nan);
          CheckSameBits(
              model.Forward(target, order, 1, zeros),
              reference.Get(ffnorm_target_class(target), [&](ffnorm_class c) {
                return model.ReferenceForward(c, order, 1, zeros);
              }));
        });
      }
    }
  }

  TEST_CASE("mxnet #11115, onnxruntime #11010: ReLU(NaN) is 0") {
    Model model(11, 23);
    for (const size_t unit : {0, 11, 22}) {
      Model poisoned(11, 23);
      poisoned.b1[unit] = kNaN;
      poisoned.Pack();
      ForEachTarget([&](const ffnorm_target* target) {
        for (const ffnorm_order order : kOrders) {
          CheckSameBits(poisoned.Forward(target, order, 1, model.Input(1)),
                        std::vector<float>(11, kNaN));
        }
      });
    }
  }

  TEST_CASE("pytorch #193781, #181533: the sign of zero depends on length") {
    for (size_t width = 1; width <= 33; ++width) {
      CAPTURE(width);
      const std::vector<float> zeros(width, -0.0f);
      Model dead(width, width);
      dead.b1.assign(width, -1000.0f);
      dead.b2 = zeros;
      dead.Pack();
      ForEachTarget([&](const ffnorm_target* target) {
        // -0 + -0
        std::vector<float> y(width, 1.0f);
        REQUIRE(ffnorm_residual_add(target, width, 1, zeros.data(), width,
                                    zeros.data(), width, y.data(),
                                    width) == FFNORM_OK);
        CheckSameBits(y, zeros);
        // -0 + FFN(..), and a sum that starts at +0 is +0.
        CheckSameBits(dead.Forward(target, FFNORM_PRE_LN, 1, zeros),
                      std::vector<float>(width, 0.0f));
      });
    }
  }

  TEST_CASE("Reference-LAPACK #179: 0 * Inf lost where zeros are skipped") {
    Model model(6, 40);
    for (float& b : model.b1) b = -1000.0f;
    model.w2[13 * 6 + 4] = kInf;
    model.Pack();
    for (const size_t rows : {1, 2, 9}) {
      const std::vector<float> x = model.Input(rows);
      ForEachTarget([&](const ffnorm_target* target) {
        const std::vector<float> y =
            model.Forward(target, FFNORM_PRE_LN, rows, x);
        for (size_t i = 0; i < y.size(); ++i) {
          CHECK(std::isnan(y[i]) == (i % 6 == 4));
        }
      });
    }
  }

  // ---- Shapes and rows

  TEST_CASE("tensorflow #46366, onnxruntime #6232: empty dimensions") {
    const Model model(4, 5);
    ForEachTarget([&](const ffnorm_target* target) {
      const ffnorm_block block = model.Opened(target);
      for (const ffnorm_order order : kOrders) {
        CHECK(ffnorm_forward(&block, order, 0, nullptr, 0, nullptr, 0,
                             nullptr) == FFNORM_OK);
      }
    });
    size_t bytes = 17;
    for (const ffnorm_params& params :
         {ffnorm_default_params(0, 5), ffnorm_default_params(4, 0)}) {
      CHECK(ffnorm_packed_bytes(&params, &bytes) == FFNORM_INVALID_ARGUMENT);
      CHECK(bytes == 17);
    }
  }

  TEST_CASE("pytorch #184826: very many rows of an odd width") {
    constexpr size_t kRows = (size_t{1} << 17) + 3;
    const Model model(5, 3);
    const std::vector<float> x = model.Input(kRows);
    const std::vector<float> last(x.end() - 3 * 5, x.end());
    for (const ffnorm_order order : kOrders) {
      ForEachTarget([&](const ffnorm_target* target) {
        const std::vector<float> y = model.Forward(target, order, kRows, x);
        const std::vector<float> want =
            model.ReferenceForward(ffnorm_target_class(target), order, 3, last);
        CheckSameBits(3, 5, y.data() + (kRows - 3) * 5, 5, want.data(), 5);
      });
    }
  }

  TEST_CASE("pytorch #136338, #45422: one row differs from the same of many") {
    const Model model(31, 130);
    const std::vector<float> x = model.Input(67);
    for (const ffnorm_order order : kOrders) {
      ForEachTarget([&](const ffnorm_target* target) {
        const std::vector<float> all = model.Forward(target, order, 67, x);
        for (size_t rows = 1; rows <= 67; ++rows) {
          CAPTURE(rows);
          const std::vector<float> y = model.Forward(target, order, rows, x);
          CheckSameBits(rows, 31, y.data(), 31, all.data(), 31);
        }
      });
    }
  }

  TEST_CASE("LightLLM #1467, TransformerEngine PR #1017: strides ignored") {
    const Model model(13, 29);
    for (const size_t rows : {2, 9, 60}) {
      const std::vector<float> x = model.Input(rows);
      StridedMatrix in(rows, 13, 13 + 3, x.data());
      for (const ffnorm_order order : kOrders) {
        ForEachTarget([&](const ffnorm_target* target) {
          const ffnorm_block block = model.Opened(target);
          Workspace workspace(block, rows);
          StridedMatrix out(rows, 13, 13 + 5);
          REQUIRE(ffnorm_forward(&block, order, rows, in.data(), in.stride(),
                                 out.data(), out.stride(),
                                 workspace.Exec()) == FFNORM_OK);
          const std::vector<float> want = model.Forward(target, order, rows, x);
          CheckSameBits(rows, 13, out.data(), out.stride(), want.data(), 13);
          CHECK(in.GapsIntact());
          CHECK(out.GapsIntact());
        });
      }
    }
  }

  TEST_CASE("onnxruntime PR #17896: the residual reads overwritten input") {
    const Model model(13, 29);
    for (size_t rows = 1; rows <= 9; ++rows) {
      const std::vector<float> x = model.Input(rows);
      for (const ffnorm_order order : kOrders) {
        ForEachTarget([&](const ffnorm_target* target) {
          const ffnorm_block block = model.Opened(target);
          std::vector<float> y = x;
          REQUIRE(Forward(block, order, rows, y.data(), y.data()) == FFNORM_OK);
          CheckSameBits(y, model.Forward(target, order, rows, x));
          if (rows < 3) return;
          // Shifted by a row: refused, and nothing written.
          std::vector<float> shifted = x;
          CHECK(Forward(block, order, rows - 1, shifted.data(),
                        shifted.data() + 13) == FFNORM_INVALID_ARGUMENT);
          CheckSameBits(shifted, x);
        });
      }
    }
  }

  // Each parameter is another power of two: a bias added twice or read from the
  // wrong place, scale for offset, or LN in the wrong place give other numbers.
  TEST_CASE("xformers PR #317, onnxruntime #28424: parameters mixed up") {
    Model model(2, 2);
    model.epsilon = 0.0f;
    model.w1 = {1, 0, 0, 1};
    model.b1 = {32, 64};
    model.w2 = {1, 0, 0, 1};
    model.b2 = {128, 256};
    model.scale = {2, 4};
    model.offset = {8, 16};
    model.Pack();
    ForEachTarget([&](const ffnorm_target* target) {
      // LN: [-1, 1] * [2, 4] + [8, 16] = [6, 20]; + b1 + b2 + x.
      CheckSameBits(model.Forward(target, FFNORM_PRE_LN, 1, {1, 3}),
                    {1 + 6 + 32 + 128, 3 + 20 + 64 + 256});
      // x + FFN(x) = [162, 418] = 290 -+ 128.
      CheckSameBits(model.Forward(target, FFNORM_POST_LN, 1, {1, 49}),
                    {-2 + 8, 4 + 16});
    });
  }
}

}  // namespace test
}  // namespace ffnorm
