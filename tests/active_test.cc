// Hidden units that ReLU switched off are left out of matmul 2, and no bit
// shows it: which units are on is set here unit by unit, on both sides of
// every boundary that lists of them have.
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <limits>
#include <string>
#include <vector>

#include "kernels/cpu.h"
#include "tests/model.h"
#include "tests/random_data.h"
#include "tests/test_util.h"

namespace ffnorm {
namespace test {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

// A normalized row times w1 stays far below this.
constexpr float kOn = 64.0f;
constexpr float kOff = -64.0f;

// Biases that leave unit i on, for every row, where is_on(i), and else off.
template <class IsOn>
void Switch(Model& model, const IsOn& is_on) {
  for (size_t i = 0; i < model.d_ff; ++i) model.b1[i] = is_on(i) ? kOn : kOff;
  model.Pack();
}

// (Which lists are used depends on what the CPU is taken for.)
void CheckAllTargets(Model& model, size_t rows, const std::vector<float>& x,
                     size_t threads) {
  for (const ffnorm_order order : {FFNORM_PRE_LN, FFNORM_POST_LN}) {
    CAPTURE(order);
    ReferenceCache reference;
    ForEachTarget([&](const ffnorm_target* target) {
      Pool pool(Pool::kReversed);
      const std::vector<float>& want = reference.Get(
          ffnorm_target_class(target), [&](ffnorm_class rounding) {
            return model.ReferenceForward(rounding, order, rows, x);
          });
      for (const uint32_t traits : {0u, uint32_t{kCpuReadsAhead}}) {
        CAPTURE(traits);
        model.other_traits = traits;
        CheckSameBits(model.Forward(target, order, rows, x, threads, &pool),
                      want);
      }
    });
  }
}

void CheckAllTargets(Model& model, size_t rows, size_t threads = 1) {
  CheckAllTargets(model, rows, model.Input(rows), threads);
}

// Sizes of d_ff around the lists' shares (128), the blocks of K (256) and words
// of 64 units.
constexpr size_t kWidths[] = {1, 5, 63, 65, 127, 128, 130, 255, 257, 384, 520};

}  // namespace

TEST_SUITE("active") {
  TEST_CASE("no unit, one unit, all but one, every second") {
    for (const size_t d_ff : kWidths) {
      CAPTURE(d_ff);
      Model model(9, d_ff);
      Switch(model, [](size_t) { return false; });
      CheckAllTargets(model, 1);
      CheckAllTargets(model, 7);
      for (const size_t unit : {size_t{0}, d_ff / 2, d_ff - 1}) {
        CAPTURE(unit);
        Switch(model, [&](size_t i) { return i == unit; });
        CheckAllTargets(model, 1);
        CheckAllTargets(model, 6);
        Switch(model, [&](size_t i) { return i != unit; });
        CheckAllTargets(model, 2);
      }
      Switch(model, [](size_t i) { return i % 2 == 0; });
      CheckAllTargets(model, 1);
      CheckAllTargets(model, 3);
    }
  }

  TEST_CASE("units at random, 2% to 95% of them, any number of rows") {
    // 100 and 300 columns make several panels and a group of them with a rest.
    constexpr size_t kModels[] = {1, 100, 300};
    uint64_t seed = 5;
    for (const size_t d_model : kModels) {
      for (const size_t percent : {2, 20, 45, 60, 95}) {
        CAPTURE(d_model);
        CAPTURE(percent);
        Model model(d_model, 390, Mode::kGaussian, ++seed);
        Random random(seed);
        Switch(model, [&](size_t) { return random.Below(100) < percent; });
        for (const size_t rows : {1, 2, 3, 4, 5, 15}) {
          CAPTURE(rows);
          CheckAllTargets(model, rows);
        }
      }
    }
  }

  TEST_CASE("a share of units all on beside shares nearly off") {
    // Units of the one are not picked, and those of the others are.
    for (const size_t full : {0, 2, 5}) {
      CAPTURE(full);
      Model model(70, 700);
      Random random(full + 1);
      Switch(model, [&](size_t i) {
        return i / 128 == full || random.Below(100) < 5;
      });
      for (const size_t rows : {1, 2, 3, 4, 8, 15}) {
        CAPTURE(rows);
        CheckAllTargets(model, rows);
        CheckAllTargets(model, rows, 3);
      }
    }
  }

  TEST_CASE("rows that differ in what is on") {
    // About 2% and 16% of the units of a row.
    for (const float shift : {-2.0f, -1.0f}) {
      CAPTURE(shift);
      Model model(70, 300);
      for (float& b : model.b1) b = shift;
      model.Pack();
      for (const size_t rows : {1, 2, 4, 6, 14, 33, 90}) {
        CAPTURE(rows);
        CheckAllTargets(model, rows);
      }
    }
  }

  TEST_CASE("shared by tasks, out of order") {
    Model model(140, 700);
    for (float& b : model.b1) b = -1.8f;
    model.Pack();
    for (const size_t threads : {2, 3, 7}) {
      CAPTURE(threads);
      for (const size_t rows : {1, 4, 11, 40}) {
        CAPTURE(rows);
        CheckAllTargets(model, rows, threads);
      }
    }
  }

  TEST_CASE("panels one by one and in pairs, some left over") {
    for (const size_t d_model : {31, 33, 64, 65, 97}) {
      for (const size_t d_ff : {130, 300}) {
        CAPTURE(d_model);
        CAPTURE(d_ff);
        Model model(d_model, d_ff);
        for (float& b : model.b1) b = -0.2f;
        model.Pack();
        for (const size_t rows : {2, 5, 13, 29}) {
          CAPTURE(rows);
          CheckAllTargets(model, rows);
          CheckAllTargets(model, rows, 3);
        }
      }
    }
  }

  TEST_CASE("more rows than a task takes at once") {
    Model model(40, 300);
    for (float& b : model.b1) b = -0.3f;
    model.Pack();
    for (const size_t rows : {113, 230}) {
      CAPTURE(rows);
      CheckAllTargets(model, rows);
      CheckAllTargets(model, rows, 2);
    }
  }

  TEST_CASE("all units of the rows that are looked at first, few of the rest") {
    constexpr size_t kModel = 16;
    for (const size_t d_ff : {100, 128, 300}) {
      Model model(kModel, d_ff);
      for (size_t i = 0; i < d_ff; ++i) {
        model.w1[i] = i % 5 == 0 ? -1.0f : 1.0f;  // of the first input
        model.b1[i] = 0.0f;
      }
      model.Pack();
      for (const size_t rows : {2, 5, 12, 20, 60}) {
        CAPTURE(rows);
        for (const bool all_but_these : {false, true}) {
          std::vector<float> x = model.Input(rows);
          for (size_t r = 0; r < rows; ++r) {
            const bool first = r == 0 || r == rows / 2;
            x[r * kModel] = first != all_but_these ? 1000.0f : -1000.0f;
          }
          CheckAllTargets(model, rows, x, 1);
          CheckAllTargets(model, rows, x, 2);
        }
      }
    }
  }

  TEST_CASE("weights from L3 and from memory") {
    // 2 to 6 Mi of them in each matrix: beyond a core's share of L3, just and
    // well beyond all of it.
    for (const size_t d_ff : {32768, 65536, 98304}) {
      CAPTURE(d_ff);
      Model model(64, d_ff);
      for (float& b : model.b1) b = -1.0f;
      model.Pack();
      for (const size_t rows : {2, 5}) {
        CAPTURE(rows);
        CheckAllTargets(model, rows);
      }
      if (d_ff == 65536) CheckAllTargets(model, 17);
    }
  }

  TEST_CASE("products that underflow to -0 between units that are off") {
    Model model(3, 300);
    for (float& w : model.w2) w *= -1e-38f;
    for (float& b : model.b2) b = -0.0f;
    Switch(model, [](size_t i) { return i % 7 == 3; });
    for (size_t i = 3; i < model.d_ff; i += 7) {
      model.b1[i] = 1e-30f;
      for (size_t k = 0; k < 3; ++k) model.w1[k * model.d_ff + i] = 0.0f;
    }
    model.Pack();
    CheckAllTargets(model, 1);
    CheckAllTargets(model, 9);
  }

  TEST_CASE("a row of NaN is on everywhere, the others stay as they are") {
    // 37 units end within a vector: the padding of the NaN row is NaN too.
    for (const size_t d_ff : {37, 290}) {
      Model model(20, d_ff);
      Switch(model, [](size_t i) { return i % 9 == 1; });
      for (const size_t rows : {1, 4, 13}) {
        CAPTURE(rows);
        std::vector<float> x = model.Input(rows);
        for (size_t k = 0; k < 20; ++k) x[(rows - 1) * 20 + k] = kNaN;
        ReferenceCache want;
        ForEachTarget([&](const ffnorm_target* target) {
          CheckSameBits(
              model.Forward(target, FFNORM_PRE_LN, rows, x),
              want.Get(ffnorm_target_class(target), [&](ffnorm_class rounding) {
                return model.ReferenceForward(rounding, FFNORM_PRE_LN, rows, x);
              }));
        });
      }
    }
  }

  TEST_CASE("nothing is left out where a weight of W2 is not finite") {
    for (const float value : {kInf, -kInf, kNaN}) {
      CAPTURE(value);
      Model model(40, 300);
      Switch(model, [](size_t i) { return i == 5; });
      // Unit 100 is off, but 0 * Inf is NaN.
      model.w2[100 * model.d_model + 17] = value;
      model.Pack();
      for (const size_t rows : {1, 8}) {
        CAPTURE(rows);
        const std::vector<float> x = model.Input(rows);
        ForEachTarget([&](const ffnorm_target* target) {
          const std::vector<float> y =
              model.Forward(target, FFNORM_PRE_LN, rows, x);
          for (size_t r = 0; r < rows; ++r) {
            for (size_t c = 0; c < model.d_model; ++c) {
              CHECK((y[r * model.d_model + c] != y[r * model.d_model + c]) ==
                    (c == 17));
            }
          }
        });
        CheckAllTargets(model, rows);
      }
    }
  }

  TEST_CASE("units that are off are not read") {
    for (const size_t rows : {1, 2, 4, 6, 40}) {
      CAPTURE(rows);
      Model model(70, 600);
      Switch(model, [](size_t i) { return i % 50 == 7; });
      const std::vector<float> x = model.Input(rows);
      ReferenceCache want;
      const auto reference = [&](ffnorm_class rounding) {
        return model.ReferenceForward(rounding, FFNORM_PRE_LN, rows, x);
      };
      ForEachTarget([&](const ffnorm_target* target) {
        want.Get(ffnorm_target_class(target), reference);
      });
      // Behind the back of the header, which says that all is finite: the first
      // float of each panel row of W2 whose unit is off.
      const size_t w2_panels = 3;
      const size_t panel_bytes = (model.d_ff + 1) * 32 * sizeof(float);
      unsigned char* w2 =
          model.packed.data() + model.packed.bytes() - w2_panels * panel_bytes;
      for (size_t panel = 0; panel < w2_panels; ++panel) {
        for (size_t i = 0; i < model.d_ff; ++i) {
          if (i % 50 == 7) continue;
          memcpy(w2 + panel * panel_bytes + (i + 1) * 32 * sizeof(float), &kNaN,
                 sizeof(kNaN));
        }
      }
      ForEachTarget([&](const ffnorm_target* target) {
        CheckSameBits(model.Forward(target, FFNORM_PRE_LN, rows, x),
                      want.Get(ffnorm_target_class(target), reference));
      });
    }
  }
}

}  // namespace test
}  // namespace ffnorm
