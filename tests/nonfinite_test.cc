// NaN, Inf and -0: they stay in their row, reach every element that depends on
// them, and are the same on every target and in vector bodies and tails.
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

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kBad[] = {kNaN, -kNaN, kInf, -kInf};
constexpr ffnorm_order kOrders[] = {FFNORM_PRE_LN, FFNORM_POST_LN};

// Row counts with tiles of several heights, sharing columns and sharing rows.
constexpr size_t kRowCounts[] = {1, 2, 3, 4, 5, 8, 13, 33, 60};

// Against the reference, for both orders and each row count.
void CheckAgainstReference(const Model& model, size_t max_rows,
                           const std::vector<float>& x) {
  const size_t D = model.d_model;
  for (const ffnorm_order order : kOrders) {
    CAPTURE(order);
    ReferenceCache reference;
    ForEachTarget([&](const ffnorm_target* target) {
      const std::vector<float>& want =
          reference.Get(ffnorm_target_class(target), [&](ffnorm_class c) {
            return model.ReferenceForward(c, order, max_rows, x);
          });
      for (const size_t rows : kRowCounts) {
        if (rows > max_rows) continue;
        CAPTURE(rows);
        const std::vector<float> got = model.Forward(target, order, rows, x);
        CheckSameBits(rows, D, got.data(), D, want.data(), D);
      }
    });
  }
}

size_t CountNaN(const float* values, size_t count) {
  size_t found = 0;
  for (size_t i = 0; i < count; ++i) found += std::isnan(values[i]) ? 1 : 0;
  return found;
}

// activation(x w1 + b1) for one row of x.
std::vector<float> Dense1(const Model& model, const ffnorm_target* target,
                          const std::vector<float>& x) {
  const ffnorm_block block = model.Opened(target);
  Workspace workspace(block, 1);
  std::vector<float> h(model.d_ff, 5.0f);
  REQUIRE(ffnorm_dense(&block, FFNORM_DENSE_1, FFNORM_RELU, 1, x.data(),
                       model.d_model, h.data(), model.d_ff,
                       workspace.Exec()) == FFNORM_OK);
  return h;
}

}  // namespace

TEST_SUITE("nonfinite") {
  TEST_CASE("a bad row is NaN, and the others do not change") {
    constexpr size_t kShapes[][2] = {{1, 3}, {17, 40}, {64, 300}};
    for (const auto& shape : kShapes) {
      const Model model(shape[0], shape[1]);
      const size_t D = model.d_model;
      CAPTURE(D);
      for (const size_t rows : {size_t{5}, size_t{30}, size_t{120}}) {
        CAPTURE(rows);
        const std::vector<float> good = model.Input(rows);
        for (const ffnorm_order order : kOrders) {
          CAPTURE(order);
          ForEachTarget([&](const ffnorm_target* target) {
            const std::vector<float> y =
                model.Forward(target, order, rows, good);
            REQUIRE(CountNaN(y.data(), y.size()) == 0);
            size_t turn = 0;
            for (const float bad : kBad) {
              for (const size_t row : {size_t{0}, rows / 2, rows - 1}) {
                CAPTURE(bad);
                CAPTURE(row);
                // Every column gets its turn.
                const size_t column = turn++ * 5 % D;
                std::vector<float> x = good;
                x[row * D + column] = bad;
                const std::vector<float> got =
                    model.Forward(target, order, rows, x);
                CHECK(CountNaN(got.data() + row * D, D) == D);
                CheckSameBits(row, D, got.data(), D, y.data(), D);
                const size_t next = (row + 1) * D;
                CheckSameBits(rows - row - 1, D, got.data() + next, D,
                              y.data() + next, D);
              }
            }
          });
        }
      }
    }
  }

  TEST_CASE("a bad row stays alone when tasks share the work") {
    const Model model(40, 290);
    for (const size_t rows : {size_t{6}, size_t{100}}) {
      std::vector<float> x = model.Input(rows);
      x[3 * 40 + 39] = kNaN;
      for (const ffnorm_order order : kOrders) {
        ForEachTarget([&](const ffnorm_target* target) {
          const std::vector<float> want = model.Forward(target, order, rows, x);
          CHECK(CountNaN(want.data(), want.size()) == 40);
          Pool pool(Pool::kReversed);
          CheckSameBits(model.Forward(target, order, rows, x, 7, &pool), want);
        });
      }
    }
  }

  TEST_CASE("NaN between the rows of x is not read") {
    const Model model(17, 40);
    for (const size_t rows : kRowCounts) {
      const std::vector<float> x = model.Input(rows);
      std::vector<float> padded(rows * 24, kNaN);
      for (size_t i = 0; i < x.size(); ++i) padded[i / 17 * 24 + i % 17] = x[i];
      for (const ffnorm_order order : kOrders) {
        ForEachTarget([&](const ffnorm_target* target) {
          const ffnorm_block block = model.Opened(target);
          Workspace workspace(block, rows);
          std::vector<float> y(x.size());
          REQUIRE(ffnorm_forward(&block, order, rows, padded.data(), 24,
                                 y.data(), 17, workspace.Exec()) == FFNORM_OK);
          CheckSameBits(y, model.Forward(target, order, rows, x));
        });
      }
    }
  }

  TEST_CASE("NaN in b1 makes every row NaN, wherever the unit is") {
    for (const size_t d_ff : {1, 5, 33, 64, 300}) {
      for (const size_t unit : {size_t{0}, d_ff / 2, d_ff - 1}) {
        for (const float bad : {kNaN, -kNaN}) {
          Model model(9, d_ff);
          model.b1[unit] = bad;
          model.Pack();
          CAPTURE(d_ff);
          CAPTURE(unit);
          for (const size_t rows : {1, 4, 7}) {
            const std::vector<float> x = model.Input(rows);
            for (const ffnorm_order order : kOrders) {
              ForEachTarget([&](const ffnorm_target* target) {
                const std::vector<float> y =
                    model.Forward(target, order, rows, x);
                CHECK(CountNaN(y.data(), y.size()) == y.size());
              });
            }
          }
        }
      }
    }
  }

  TEST_CASE("bad values in each parameter, as the reference has them") {
    for (const float bad : kBad) {
      CAPTURE(bad);
      for (size_t which = 0; which < 6; ++which) {
        CAPTURE(which);
        Model model(34, 300);
        std::vector<float>* const parameters[] = {&model.w1,    &model.b1,
                                                  &model.w2,    &model.b2,
                                                  &model.scale, &model.offset};
        std::vector<float>& parameter = *parameters[which];
        parameter[parameter.size() * 2 / 3] = bad;
        model.Pack();
        CheckAgainstReference(model, 13, model.Input(13));
      }
    }
  }

  // 0 * Inf is NaN: the kernel may not skip units that are off.
  TEST_CASE("a unit that is off, with Inf or NaN in its row of W2") {
    for (const float bad : kBad) {
      CAPTURE(bad);
      for (const size_t unit : {size_t{0}, size_t{150}, size_t{299}}) {
        CAPTURE(unit);
        // One unit off, and all of them.
        for (const bool all : {false, true}) {
          Model model(34, 300);
          for (size_t j = 0; j < model.d_ff; ++j) {
            if (all || j == unit) model.b1[j] = -1000.0f;
          }
          constexpr size_t kColumn = 7;
          model.w2[unit * model.d_model + kColumn] = bad;
          model.Pack();
          const std::vector<float> x = model.Input(60);
          CheckAgainstReference(model, 60, x);
          ForEachTarget([&](const ffnorm_target* target) {
            for (const size_t rows : kRowCounts) {
              const std::vector<float> y =
                  model.Forward(target, FFNORM_PRE_LN, rows, x);
              CHECK(CountNaN(y.data(), y.size()) == rows);
              CHECK(std::isnan(y[kColumn]));
            }
          });
        }
      }
    }
  }

  TEST_CASE("ReLU on nothing but NaN, widths 1 to 67") {
    for (size_t width = 1; width <= 67; ++width) {
      CAPTURE(width);
      Model model(2, width);
      ForEachTarget([&](const ffnorm_target* target) {
        // From x, both signs, and made by the multiplication itself.
        model.w1.assign(2 * width, 1.0f);
        model.b1.assign(width, 0.0f);
        model.Pack();
        for (const std::vector<float>& x :
             {std::vector<float>{kNaN, 1.0f}, std::vector<float>{1.0f, -kNaN},
              std::vector<float>{kInf, -kInf}}) {
          CHECK(CountNaN(Dense1(model, target, x).data(), width) == width);
        }
        for (const float bad : {kNaN, -kNaN}) {
          model.b1.assign(width, bad);
          model.Pack();
          CHECK(CountNaN(Dense1(model, target, {1.0f, 2.0f}).data(), width) ==
                width);
        }
      });
    }
  }

  // A total starts at +0, so no sum is -0: neither of zeros of either sign, nor
  // of products that underflow from below, nor with a bias of -0.
  TEST_CASE("ReLU on zeros, widths 1 to 67: +0 everywhere") {
    for (size_t width = 1; width <= 67; ++width) {
      CAPTURE(width);
      Model model(2, width);
      model.b1.assign(width, -0.0f);
      const std::vector<float> zeros(width, 0.0f);
      for (const float w : {0.0f, -0.0f, 1e-30f, -1e-30f}) {
        model.w1.assign(2 * width, w);
        model.Pack();
        for (const float v : {0.0f, -0.0f, 1e-30f, -1e-30f}) {
          ForEachTarget([&](const ffnorm_target* target) {
            CheckSameBits(Dense1(model, target, {v, v}), zeros);
          });
        }
      }
    }
  }

  TEST_CASE("negative sums of every size become +0, positive ones stay") {
    const float tiny = std::numeric_limits<float>::denorm_min();
    for (size_t width = 1; width <= 67; ++width) {
      CAPTURE(width);
      Model model(1, width);
      model.w1.assign(width, 0.0f);
      std::vector<float> want(width);
      for (size_t j = 0; j < width; ++j) {
        const float size[] = {tiny, 1e-38f, 1.0f, 1e38f, kInf};
        const float v = size[j % 5];
        model.b1[j] = j % 2 == 0 ? -v : v;
        want[j] = j % 2 == 0 ? 0.0f : v;
      }
      model.Pack();
      ForEachTarget([&](const ffnorm_target* target) {
        CheckSameBits(Dense1(model, target, {1.0f}), want);
      });
    }
  }

  TEST_CASE("rows of zeros of either sign, widths 1 to 67") {
    for (size_t width = 1; width <= 67; ++width) {
      CAPTURE(width);
      Model model(width, 3);
      model.b1.assign(3, -1.0f);
      for (const float sign : {1.0f, -1.0f}) {
        model.scale.assign(width, sign);
        model.offset.assign(width, -0.0f);
        model.b2.assign(width, -0.0f);
        model.Pack();
        std::vector<float> x(4 * width, -0.0f);
        for (size_t i = 0; i < width; ++i) x[width + i] = 0.0f;
        CheckAgainstReference(model, 4, x);
      }
    }
  }

  TEST_CASE("epsilon 0: a constant row is NaN, and no other") {
    Model model(20, 40);
    model.epsilon = 0.0f;
    model.Pack();
    for (const size_t rows : {3, 13, 60}) {
      std::vector<float> x = model.Input(rows);
      for (size_t i = 0; i < 20; ++i) x[2 * 20 + i] = 0.5f;
      ForEachTarget([&](const ffnorm_target* target) {
        const std::vector<float> y =
            model.Forward(target, FFNORM_PRE_LN, rows, x);
        CHECK(CountNaN(y.data(), y.size()) == 20);
        CHECK(CountNaN(y.data() + 2 * 20, 20) == 20);
      });
    }
  }
}

}  // namespace test
}  // namespace ffnorm
