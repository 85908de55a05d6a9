// The two Dense layers on packed weights: every target against the scalar
// reference of its class, bit for bit, exactly on integers, and against float64
// truth.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

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

constexpr ffnorm_layer kLayers[] = {FFNORM_DENSE_1, FFNORM_DENSE_2};
constexpr ffnorm_activation kActivations[] = {FFNORM_LINEAR, FFNORM_RELU};

size_t Inputs(const Model& model, ffnorm_layer layer) {
  return layer == FFNORM_DENSE_1 ? model.d_model : model.d_ff;
}

size_t Outputs(const Model& model, ffnorm_layer layer) {
  return layer == FFNORM_DENSE_1 ? model.d_ff : model.d_model;
}

std::vector<float> Run(const Model& model, const ffnorm_target* target,
                       ffnorm_layer layer, ffnorm_activation activation,
                       size_t rows, const std::vector<float>& x,
                       size_t threads = 1, Pool* pool = nullptr) {
  const ffnorm_block block = model.Opened(target);
  const size_t outputs = Outputs(model, layer);
  Workspace workspace(block, rows, threads, pool);
  std::vector<float> y(rows * outputs, -7.0f);
  REQUIRE(ffnorm_dense(&block, layer, activation, rows, x.data(),
                       Inputs(model, layer), y.data(), outputs,
                       workspace.Exec()) == FFNORM_OK);
  return y;
}

std::vector<float> RunReference(const Model& model, ffnorm_class rounding,
                                ffnorm_layer layer,
                                ffnorm_activation activation, size_t rows,
                                const std::vector<float>& x) {
  const ffnorm_params params = model.Params();
  const size_t outputs = Outputs(model, layer);
  std::vector<float> y(rows * outputs, -7.0f);
  REQUIRE(ffnorm_reference_dense(&params, rounding, layer, activation, rows,
                                 x.data(), Inputs(model, layer), y.data(),
                                 outputs) == FFNORM_OK);
  return y;
}

// v < 0 ? 0 : v, the definition.
std::vector<float> Relu(std::vector<float> values) {
  for (float& v : values) v = v < 0.0f ? 0.0f : v;
  return values;
}

// Both activations of one layer, all targets.
void CheckLayer(const Model& model, ffnorm_layer layer, size_t rows,
                const std::vector<float>& x) {
  ReferenceCache linear;
  const size_t outputs = Outputs(model, layer);
  ForEachTarget([&](const ffnorm_target* target) {
    const std::vector<float>& want =
        linear.Get(ffnorm_target_class(target), [&](ffnorm_class rounding) {
          return RunReference(model, rounding, layer, FFNORM_LINEAR, rows, x);
        });
    const std::vector<float> positive = Relu(want);
    for (const ffnorm_activation activation : kActivations) {
      CAPTURE(activation);
      const std::vector<float> got =
          Run(model, target, layer, activation, rows, x);
      CheckSameBits(rows, outputs, got.data(), outputs,
                    activation == FFNORM_RELU ? positive.data() : want.data(),
                    outputs);
    }
  });
}

void CheckBothLayers(const Model& model, size_t rows, Mode input_mode) {
  for (const ffnorm_layer layer : kLayers) {
    CAPTURE(layer);
    CheckLayer(model, layer, rows,
               Filled(rows * Inputs(model, layer), input_mode, 99));
  }
}

}  // namespace

TEST_SUITE_BEGIN("dense");

TEST_CASE("dense: bits of the reference around vector, panel and block sizes") {
  for (const size_t d_model : Sizes()) {
    for (const size_t d_ff : {1, 2, 3, 5, 8, 17, 31, 32, 33, 63, 64, 65, 97}) {
      CAPTURE(d_model);
      CAPTURE(d_ff);
      CheckBothLayers(Model(d_model, d_ff), 3, Mode::kGaussian);
    }
  }
}

TEST_CASE("dense: bits of the reference at all row counts") {
  const Model model(70, 101);
  for (size_t rows = 1; rows <= 40; ++rows) {
    CAPTURE(rows);
    CheckBothLayers(model, rows, Mode::kGaussian);
  }
  for (const size_t rows : {47, 48, 49, 63, 64, 65, 95, 96, 97, 127, 128, 129,
                            191, 192, 193, 255, 256, 257, 300}) {
    CAPTURE(rows);
    CheckBothLayers(model, rows, Mode::kGaussian);
  }
}

TEST_CASE("dense: bits of the reference over several blocks of K") {
  const Model model(513, 770);
  for (const size_t rows : {1, 2, 7, 33}) {
    CAPTURE(rows);
    CheckBothLayers(model, rows, Mode::kGaussian);
  }
}

TEST_CASE("dense: bits of the reference in all input modes") {
  for (const Mode weights : kAllModes) {
    const Model model(33, 300, weights);
    for (const Mode inputs : kAllModes) {
      const std::string weight_mode = ModeName(weights);
      const std::string input_mode = ModeName(inputs);
      CAPTURE(weight_mode);
      CAPTURE(input_mode);
      for (const size_t rows : {1, 3, 20}) {
        CAPTURE(rows);
        CheckBothLayers(model, rows, inputs);
      }
    }
  }
}

TEST_CASE("dense: bits of the reference with any number of threads") {
  const Model model(130, 520);
  for (const size_t rows : {1, 2, 5, 16, 61, 200}) {
    for (const ffnorm_layer layer : kLayers) {
      const std::vector<float> x =
          Filled(rows * Inputs(model, layer), Mode::kGaussian, 99);
      const size_t outputs = Outputs(model, layer);
      ForEachTarget([&](const ffnorm_target* target) {
        const std::vector<float> want =
            Run(model, target, layer, FFNORM_RELU, rows, x);
        for (const size_t threads : {1, 2, 3, 8, 50}) {
          for (const auto kind :
               {Pool::kInOrder, Pool::kReversed, Pool::kThreads}) {
            CAPTURE(rows);
            CAPTURE(layer);
            CAPTURE(threads);
            CAPTURE(kind);
            Pool pool(kind, 4);
            const std::vector<float> got =
                Run(model, target, layer, FFNORM_RELU, rows, x, threads, &pool);
            CheckSameBits(rows, outputs, got.data(), outputs, want.data(),
                          outputs);
          }
        }
      });
    }
  }
}

// Whole blocks of rows (48 or 112), several blocks of K and a last panel that
// is computed apart: if two tasks shared a buffer, one of the runs would show
// it.
TEST_CASE("dense: tasks at the same time keep apart") {
  const Model model(33, 1100);
  for (const size_t rows : {384, 448}) {
    CAPTURE(rows);
    const std::vector<float> x = Filled(rows * 1100, Mode::kGaussian, 99);
    ForEachTarget([&](const ffnorm_target* target) {
      const std::vector<float> want =
          Run(model, target, FFNORM_DENSE_2, FFNORM_LINEAR, rows, x);
      for (int repetition = 0; repetition < 10; ++repetition) {
        Pool pool(Pool::kThreads, 4);
        const std::vector<float> got = Run(model, target, FFNORM_DENSE_2,
                                           FFNORM_LINEAR, rows, x, 4, &pool);
        CheckSameBits(rows, 33, got.data(), 33, want.data(), 33);
      }
    });
  }
}

TEST_CASE("dense: exact on small integers") {
  for (const size_t d_model : {1, 7, 32, 33, 255, 256, 257, 512, 600}) {
    for (const size_t d_ff : {1, 31, 64, 257}) {
      CAPTURE(d_model);
      CAPTURE(d_ff);
      const Model model(d_model, d_ff, Mode::kIntegers);
      for (const ffnorm_layer layer : kLayers) {
        const size_t inputs = Inputs(model, layer);
        const size_t outputs = Outputs(model, layer);
        const std::vector<float>& w =
            layer == FFNORM_DENSE_1 ? model.w1 : model.w2;
        const std::vector<float>& bias =
            layer == FFNORM_DENSE_1 ? model.b1 : model.b2;
        const size_t rows = 5;
        const std::vector<float> x = Filled(rows * inputs, Mode::kIntegers, 99);
        std::vector<float> want(rows * outputs);
        for (size_t r = 0; r < rows; ++r) {
          for (size_t n = 0; n < outputs; ++n) {
            int64_t sum = static_cast<int64_t>(bias[n]);
            for (size_t k = 0; k < inputs; ++k) {
              sum += static_cast<int64_t>(x[r * inputs + k]) *
                     static_cast<int64_t>(w[k * outputs + n]);
            }
            want[r * outputs + n] = static_cast<float>(sum);
          }
        }
        ForEachTarget([&](const ffnorm_target* target) {
          CheckSameBits(Run(model, target, layer, FFNORM_LINEAR, rows, x),
                        want);
          CheckSameBits(Run(model, target, layer, FFNORM_RELU, rows, x),
                        Relu(want));
        });
      }
    }
  }
}

TEST_CASE("dense: within the proven bound of float64") {
  constexpr Mode kModes[] = {Mode::kGaussian, Mode::kCancelling, Mode::kTiny,
                             Mode::kOffset, Mode::kSparse};
  for (const size_t inputs : {1, 2, 3, 31, 64, 255, 256, 257, 511, 513, 2049}) {
    for (const Mode mode : kModes) {
      const std::string mode_name = ModeName(mode);
      CAPTURE(inputs);
      CAPTURE(mode_name);
      const size_t rows = 2;
      const Model model(inputs, 40, Mode::kGaussian);
      const std::vector<float> x = Filled(rows * inputs, mode, 99);
      ForEachTarget([&](const ffnorm_target* target) {
        const std::vector<float> y =
            Run(model, target, FFNORM_DENSE_1, FFNORM_LINEAR, rows, x);
        const std::vector<float> positive =
            Run(model, target, FFNORM_DENSE_1, FFNORM_RELU, rows, x);
        for (size_t r = 0; r < rows; ++r) {
          const TruthRow truth =
              DenseTruth(Exactly(inputs, x.data() + r * inputs), 40,
                         model.w1.data(), model.b1.data());
          CheckWithin(truth, y.data() + r * 40);
          CheckWithin(ReluTruth(truth), positive.data() + r * 40);
        }
      });
    }
  }
}

TEST_CASE("dense: a missing bias is not added") {
  for (const size_t d_ff : {1, 31, 32, 33, 257}) {
    CAPTURE(d_ff);
    Model model(40, d_ff);
    model.has_bias = false;
    model.Pack();
    CheckBothLayers(model, 1, Mode::kGaussian);
    CheckBothLayers(model, 9, Mode::kSparse);
  }
}

// With x = 0 the outputs are the biases.
TEST_CASE("dense: ReLU at NaN, Inf, zeros and the smallest numbers") {
  const std::vector<float> special = {kNaN,  -kNaN,  kInf,    -kInf,  0.0f,
                                      -0.0f, 1e-45f, -1e-45f, 1e-38f, -1e-38f,
                                      -1.0f, 1.0f,   3e38f,   -3e38f};
  for (size_t d_ff = 1; d_ff <= 67; ++d_ff) {
    CAPTURE(d_ff);
    Model model(3, d_ff);
    for (size_t shift = 0; shift < special.size(); ++shift) {
      for (size_t n = 0; n < d_ff; ++n) {
        model.b1[n] = special[(n + shift) % special.size()];
      }
      model.Pack();
      for (const size_t rows : {1, 5}) {
        const std::vector<float> x(rows * 3, 0.0f);
        std::vector<float> want;
        for (size_t r = 0; r < rows; ++r) {
          for (const float b : model.b1) want.push_back(0.0f + b);
        }
        ForEachTarget([&](const ffnorm_target* target) {
          CheckSameBits(
              Run(model, target, FFNORM_DENSE_1, FFNORM_LINEAR, rows, x), want);
          CheckSameBits(
              Run(model, target, FFNORM_DENSE_1, FFNORM_RELU, rows, x),
              Relu(want));
        });
      }
    }
  }
}

// x86 makes its own NaNs with the sign set; ReLU must keep those too.
TEST_CASE("dense: ReLU keeps the NaNs that arithmetic makes") {
  for (const size_t d_ff : TinySizes()) {
    Model model(2, d_ff);
    model.b1.assign(d_ff, 1.0f);
    model.w1.assign(2 * d_ff, 1.0f);
    model.Pack();
    ForEachTarget([&](const ffnorm_target* target) {
      for (const float got :
           Run(model, target, FFNORM_DENSE_1, FFNORM_RELU, 1, {kInf, -kInf})) {
        CHECK(std::isnan(got));
      }
    });
  }
}

// Terms whose left factor is 0 may be left out only while all weights are
// finite: 0 * Inf is NaN.
TEST_CASE("dense: zeros in x against Inf and NaN among the weights") {
  for (const float bad : {kInf, -kInf, kNaN}) {
    for (const ffnorm_layer layer : kLayers) {
      for (const size_t row : {size_t{0}, size_t{17}, size_t{299}}) {
        CAPTURE(bad);
        CAPTURE(layer);
        CAPTURE(row);
        Model model(300, 300);
        (layer == FFNORM_DENSE_1 ? model.w1 : model.w2)[row * 300 + 41] = bad;
        model.Pack();
        for (const size_t rows : {1, 4, 30}) {
          std::vector<float> x = Filled(rows * 300, Mode::kSparse, 99);
          for (size_t r = 0; r < rows; ++r) x[r * 300 + row] = 0.0f;
          CheckLayer(model, layer, rows, x);
          ForEachTarget([&](const ffnorm_target* target) {
            const std::vector<float> y =
                Run(model, target, layer, FFNORM_LINEAR, rows, x);
            for (size_t r = 0; r < rows; ++r) {
              CHECK(std::isnan(y[r * 300 + 41]));
              CHECK(std::isfinite(y[r * 300 + 40]));
            }
          });
        }
      }
    }
  }
}

TEST_CASE("dense: NaN and Inf stay in their row") {
  const Model model(37, 290);
  for (const ffnorm_layer layer : kLayers) {
    const size_t inputs = Inputs(model, layer);
    const size_t outputs = Outputs(model, layer);
    for (const size_t rows : {2, 7, 26}) {
      const std::vector<float> clean =
          Filled(rows * inputs, Mode::kGaussian, 99);
      for (size_t bad_row = 0; bad_row < rows; bad_row += 3) {
        std::vector<float> x = clean;
        x[bad_row * inputs + inputs / 2] = kNaN;
        x[bad_row * inputs] = kInf;
        CAPTURE(layer);
        CAPTURE(rows);
        CAPTURE(bad_row);
        ForEachTarget([&](const ffnorm_target* target) {
          std::vector<float> want =
              Run(model, target, layer, FFNORM_LINEAR, rows, clean);
          std::fill_n(want.data() + bad_row * outputs, outputs, kNaN);
          CheckSameBits(Run(model, target, layer, FFNORM_LINEAR, rows, x),
                        want);
        });
      }
    }
  }
}

TEST_CASE("dense: strides") {
  const Model model(35, 67);
  for (const ffnorm_layer layer : kLayers) {
    const size_t inputs = Inputs(model, layer);
    const size_t outputs = Outputs(model, layer);
    for (const size_t rows : {1, 2, 3, 8, 25, 50}) {
      CAPTURE(layer);
      CAPTURE(rows);
      const std::vector<float> x = Filled(rows * inputs, Mode::kGaussian, 99);
      ForEachTarget([&](const ffnorm_target* target) {
        const std::vector<float> want =
            Run(model, target, layer, FFNORM_RELU, rows, x);
        const ffnorm_block block = model.Opened(target);
        Workspace workspace(block, rows);
        const StridedMatrix from(rows, inputs, inputs + 3, x.data());
        StridedMatrix to(rows, outputs, outputs + 5);
        REQUIRE(ffnorm_dense(&block, layer, FFNORM_RELU, rows, from.data(),
                             from.stride(), to.data(), to.stride(),
                             workspace.Exec()) == FFNORM_OK);
        CheckSameBits(rows, outputs, to.data(), to.stride(), want.data(),
                      outputs);
        CHECK(to.GapsIntact());
      });
    }
  }
}

TEST_CASE("dense: nothing outside the arrays is touched") {
  for (const size_t d_model : {1, 3, 8, 17, 33}) {
    for (const size_t d_ff : {1, 4, 15, 32, 40, 65}) {
      const Model model(d_model, d_ff);
      for (const ffnorm_layer layer : kLayers) {
        const size_t inputs = Inputs(model, layer);
        const size_t outputs = Outputs(model, layer);
        for (const size_t rows : {1, 2, 4, 9, 13}) {
          CAPTURE(d_model);
          CAPTURE(d_ff);
          CAPTURE(layer);
          CAPTURE(rows);
          const std::vector<float> x =
              Filled(rows * inputs, Mode::kGaussian, 99);
          ForEachTarget([&](const ffnorm_target* target) {
            const std::vector<float> want =
                Run(model, target, layer, FFNORM_LINEAR, rows, x);
            const ffnorm_block block = model.Opened(target);
            Workspace workspace(block, rows);
            for (const auto edge :
                 {GuardedBuffer::kEnd, GuardedBuffer::kBegin}) {
              const GuardedBuffer from(x, edge);
              GuardedBuffer to(rows * outputs, edge);
              REQUIRE(ffnorm_dense(&block, layer, FFNORM_LINEAR, rows,
                                   from.data(), inputs, to.data(), outputs,
                                   workspace.Exec()) == FFNORM_OK);
              CheckSameBits(rows, outputs, to.data(), outputs, want.data(),
                            outputs);
              CHECK(to.CanariesIntact());
            }
          });
        }
      }
    }
  }
}

// The packed block and the workspace against the guard page themselves; both
// have sizes that keep their alignment there.
TEST_CASE("dense: nothing outside packed block and workspace is touched") {
  for (const size_t d_model : {1, 31, 33}) {
    for (const size_t d_ff : {1, 32, 65}) {
      const Model model(d_model, d_ff);
      const size_t packed_floats = model.packed.bytes() / sizeof(float);
      const std::vector<float> values(model.packed.floats(),
                                      model.packed.floats() + packed_floats);
      const GuardedBuffer packed(values, GuardedBuffer::kEnd);
      ForEachTarget([&](const ffnorm_target* target) {
        const ffnorm_block block =
            OpenedOn(packed.data(), model.packed.bytes(), target);
        for (const size_t rows : {1, 3, 50}) {
          const size_t bytes = Workspace::Bytes(block, rows, 1);
          REQUIRE(bytes % FFNORM_ALIGNMENT == 0);
          GuardedBuffer workspace(bytes / sizeof(float), GuardedBuffer::kEnd);
          ffnorm_exec exec = {};
          exec.workspace = workspace.data();
          exec.workspace_bytes = bytes;
          for (const ffnorm_layer layer : kLayers) {
            const size_t inputs = Inputs(model, layer);
            const size_t outputs = Outputs(model, layer);
            const std::vector<float> x =
                Filled(rows * inputs, Mode::kGaussian, 99);
            std::vector<float> y(rows * outputs, -7.0f);
            REQUIRE(ffnorm_dense(&block, layer, FFNORM_LINEAR, rows, x.data(),
                                 inputs, y.data(), outputs,
                                 &exec) == FFNORM_OK);
            CheckSameBits(y, Run(model, target, layer, FFNORM_LINEAR, rows, x));
          }
        }
      });
    }
  }
}

TEST_SUITE_END();

}  // namespace test
}  // namespace ffnorm
