// Flax Linen's own results. Each target against Flax in float64, within the
// bound that oracle.h derives from the same inputs; data/golden/README.md says
// what the files hold.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "examples/npy.h"
#include "tests/model.h"
#include "tests/oracle.h"
#include "tests/test_util.h"

namespace ffnorm {
namespace test {
namespace {

// The largest part of a bound that the oracle may differ from Flax by.
constexpr double kSmall = 0.02;

// How many bounds away a result must be to count as another function.
constexpr double kFar = 100.0;

std::string GoldenPath(const std::string& name) {
  const char* data = std::getenv("FFNORM_TEST_DATA");
  INFO("FFNORM_TEST_DATA must name the directory tests/data");
  REQUIRE(data != nullptr);
  return std::string(data) + "/golden/" + name;
}

template <typename T>
std::vector<T> Load(const std::string& folder, const std::string& name,
                    const std::vector<size_t>& shape) {
  std::vector<T> values;
  std::string error;
  const bool read = ffnorm_example::ReadNpy(folder + "/" + name + ".npy", shape,
                                            &values, &error);
  INFO(error);
  REQUIRE(read);
  return values;
}

// One folder: input and parameters, and the parameters packed.
struct Golden {
  Golden(const std::string& path, size_t case_rows, size_t d_model, size_t d_ff,
         float epsilon)
      : folder(path),
        rows(case_rows),
        model(d_model, d_ff),
        x(Load<float>(path, "x", {rows, d_model})) {
    model.epsilon = epsilon;
    model.scale = Load<float>(path, "gamma", {d_model});
    model.offset = Load<float>(path, "beta", {d_model});
    model.w1 = Load<float>(path, "w1", {d_model, d_ff});
    model.b1 = Load<float>(path, "b1", {d_ff});
    model.w2 = Load<float>(path, "w2", {d_ff, d_model});
    model.b2 = Load<float>(path, "b2", {d_model});
    model.Pack();
  }

  // A (rows, d_model) result of Flax.
  template <typename T>
  std::vector<T> Result(const std::string& name) const {
    return Load<T>(folder, name, {rows, model.d_model});
  }

  // A float64 result, with the bound on how far a target may be from it: the
  // oracle's own, plus what the oracle differs from Flax by. That is rounding
  // in float64, and of epsilon to float: Flax's 1e-6 is a double. Where Flax
  // has no finite value there is no bound either.
  std::vector<TruthRow> Truths(const std::string& name,
                               TruthRow (*oracle)(const ffnorm_params&,
                                                  const float*)) const {
    const std::vector<double> values = Result<double>(name);
    const size_t D = model.d_model;
    std::vector<TruthRow> truths(rows);
    size_t apart = 0;
    for (size_t r = 0; r < rows; ++r) {
      truths[r] = oracle(model.Params(), x.data() + r * D);
      for (size_t i = 0; i < D; ++i) {
        Truth& truth = truths[r][i];
        const double flax = values[r * D + i];
        if (std::isfinite(flax)) {
          const double difference = std::fabs(truth.value - flax);
          if (!(difference <= kSmall * truth.error)) ++apart;
          truth.error += difference;
        } else {
          truth.error = 0.0;
        }
        truth.value = flax;
      }
    }
    CAPTURE(folder);
    CAPTURE(name);
    REQUIRE(apart == 0);
    return truths;
  }

  std::string folder;
  size_t rows;
  Model model;
  std::vector<float> x;
};

TruthRow LnOracle(const ffnorm_params& p, const float* x) {
  return LayerNormTruth(Exactly(p.d_model, x), p.epsilon, p.scale, p.offset);
}

TruthRow FfnOracle(const ffnorm_params& p, const float* x) {
  return FfnTruth(p, Exactly(p.d_model, x));
}

// x + LN(FFN(x)): neither of the two blocks.
TruthRow OtherOracle(const ffnorm_params& p, const float* x) {
  const TruthRow normed =
      LayerNormTruth(FfnOracle(p, x), p.epsilon, p.scale, p.offset);
  return AddTruth(Exactly(p.d_model, x), normed);
}

std::vector<float> LayerNormOf(const Golden& golden,
                               const ffnorm_target* target) {
  const Model& m = golden.model;
  std::vector<float> y(golden.x.size());
  FillNaN(y.data(), y.size());
  REQUIRE(ffnorm_layer_norm(target, m.d_model, m.epsilon, m.scale.data(),
                            m.offset.data(), golden.rows, golden.x.data(),
                            m.d_model, y.data(), m.d_model) == FFNORM_OK);
  return y;
}

// FFN(x) by the two Dense layers.
std::vector<float> FfnOf(const Golden& golden, const ffnorm_target* target) {
  const Model& m = golden.model;
  const ffnorm_block block = m.Opened(target);
  Workspace workspace(block, golden.rows);
  std::vector<float> hidden(golden.rows * m.d_ff);
  std::vector<float> y(golden.x.size());
  FillNaN(hidden.data(), hidden.size());
  FillNaN(y.data(), y.size());
  REQUIRE(ffnorm_dense(&block, FFNORM_DENSE_1, FFNORM_RELU, golden.rows,
                       golden.x.data(), m.d_model, hidden.data(), m.d_ff,
                       workspace.Exec()) == FFNORM_OK);
  REQUIRE(ffnorm_dense(&block, FFNORM_DENSE_2, FFNORM_LINEAR, golden.rows,
                       hidden.data(), m.d_ff, y.data(), m.d_model,
                       workspace.Exec()) == FFNORM_OK);
  return y;
}

std::vector<float> Forward(const Golden& golden, const ffnorm_target* target,
                           ffnorm_order order) {
  return golden.model.Forward(target, order, golden.rows, golden.x);
}

// Finite values within their bounds; NaN for NaN, and Inf for the same Inf.
void CheckAll(const std::vector<TruthRow>& truths,
              const std::vector<float>& got) {
  for (size_t r = 0; r < truths.size(); ++r) {
    CAPTURE(r);
    const float* row = got.data() + r * truths[r].size();
    TruthRow finite;
    std::vector<float> finite_got;
    size_t wrong_kind = 0;
    for (size_t i = 0; i < truths[r].size(); ++i) {
      const Truth& truth = truths[r][i];
      if (std::isfinite(truth.value)) {
        finite.push_back(truth);
        finite_got.push_back(row[i]);
      } else if (!SameBits(row[i], static_cast<float>(truth.value))) {
        ++wrong_kind;
      }
    }
    CHECK(wrong_kind == 0);
    CheckWithin(finite, finite_got.data());
  }
}

// The largest distance of a result from the right one, in bounds.
template <typename T>
double Distance(const std::vector<TruthRow>& truths,
                const std::vector<T>& other) {
  double farthest = 0.0;
  size_t at = 0;
  for (const TruthRow& row : truths) {
    for (const Truth& truth : row) {
      const double error =
          std::fabs(static_cast<double>(other[at++]) - truth.value);
      if (std::isfinite(error)) {
        farthest = std::max(farthest, error / truth.error);
      }
    }
  }
  return farthest;
}

struct CaseLine {
  std::string name;
  size_t rows;
  size_t d_model;
  size_t d_ff;
  float epsilon;
  std::string check;
};

// cases.tsv, without the gradient cases.
std::vector<CaseLine> Cases() {
  std::ifstream file(GoldenPath("golden/cases.tsv"));
  std::string line;
  REQUIRE(std::getline(file, line));
  REQUIRE(line == "name\tT\tD\tF\teps\tcheck");
  std::vector<CaseLine> cases;
  while (std::getline(file, line)) {
    std::istringstream fields(line);
    CaseLine c;
    REQUIRE((fields >> c.name >> c.rows >> c.d_model >> c.d_ff >> c.epsilon >>
             c.check));
    if (c.check != "grad") cases.push_back(c);
  }
  return cases;
}

Golden Open(const CaseLine& c) {
  return Golden(GoldenPath("golden/" + c.name), c.rows, c.d_model, c.d_ff,
                c.epsilon);
}

Golden OpenNamed(const std::string& name) {
  for (const CaseLine& c : Cases()) {
    if (c.name == name) return Open(c);
  }
  FAIL("no case ", name);
  return Golden("", 0, 1, 1, 0.0f);
}

// Size of the trained models (trained/*/config.json).
constexpr size_t kTrainedRows = 64;
constexpr size_t kTrainedModel = 128;
constexpr size_t kTrainedHidden = 512;

}  // namespace

TEST_SUITE("golden") {
  // All kinds of case hold to the bound, 'loose' and 'special' as well: rows on
  // a large mean, rows that overflow float32 on the way, subnormal rows, rows
  // with NaN and Inf.
  TEST_CASE("the 18 cases: ln, ffn, pre and post on every target") {
    const std::vector<CaseLine> cases = Cases();
    REQUIRE(cases.size() == 18);
    for (const CaseLine& c : cases) {
      CAPTURE(c.name);
      const Golden golden = Open(c);
      const std::vector<TruthRow> ln = golden.Truths("ln_f64", LnOracle);
      const std::vector<TruthRow> ffn = golden.Truths("ffn_f64", FfnOracle);
      const std::vector<TruthRow> pre = golden.Truths("pre_f64", PreLnTruth);
      const std::vector<TruthRow> post = golden.Truths("post_f64", PostLnTruth);
      ForEachTarget([&](const ffnorm_target* target) {
        {
          INFO("ln");
          CheckAll(ln, LayerNormOf(golden, target));
        }
        {
          INFO("ffn");
          CheckAll(ffn, FfnOf(golden, target));
        }
        {
          INFO("pre");
          CheckAll(pre, Forward(golden, target, FFNORM_PRE_LN));
        }
        {
          INFO("post");
          CheckAll(post, Forward(golden, target, FFNORM_POST_LN));
        }
      });
    }
  }

  TEST_CASE("the two orders differ, and neither is x + LN(FFN(x))") {
    for (const CaseLine& c : Cases()) {
      if (c.rows == 0) continue;
      CAPTURE(c.name);
      const Golden golden = Open(c);
      const std::vector<TruthRow> pre = golden.Truths("pre_f64", PreLnTruth);
      const std::vector<TruthRow> post = golden.Truths("post_f64", PostLnTruth);
      const std::vector<double> other = golden.Result<double>("other_f64");
      // Beside rows of 1e15 and more, any LN or FFN(LN) is below half an ulp.
      const bool vanishes = c.name == "huge_1e18" || c.name == "huge_overflow";
      CHECK((Distance(pre, other) > kFar) == !vanishes);
      CHECK(Distance(post, other) > kFar);
      ForEachTarget([&](const ffnorm_target* target) {
        CHECK(Distance(pre, Forward(golden, target, FFNORM_POST_LN)) > kFar);
        CHECK(Distance(post, Forward(golden, target, FFNORM_PRE_LN)) > kFar);
      });
    }
  }

  // What the notes of manifest.json say beyond the bound.
  TEST_CASE("d1_zero_variance and constant_rows: LayerNorm is beta, exactly") {
    for (const std::string name : {"d1_zero_variance", "constant_rows"}) {
      const Golden golden = OpenNamed(name);
      ForEachTarget([&](const ffnorm_target* target) {
        CheckSameBits(golden.rows, golden.model.d_model,
                      LayerNormOf(golden, target).data(), golden.model.d_model,
                      golden.model.offset.data(), 0);
      });
    }
    const Golden narrow = OpenNamed("d1_zero_variance");
    ForEachTarget([&](const ffnorm_target* target) {
      CheckSameBits(narrow.rows, 1,
                    Forward(narrow, target, FFNORM_POST_LN).data(), 1,
                    narrow.model.offset.data(), 0);
    });
  }

  TEST_CASE("relu_dead: Pre-LN is x + b2, exactly") {
    const Golden golden = OpenNamed("relu_dead");
    std::vector<float> want = golden.x;
    for (size_t i = 0; i < want.size(); ++i) {
      want[i] += golden.model.b2[i % golden.model.d_model];
    }
    ForEachTarget([&](const ffnorm_target* target) {
      CheckSameBits(Forward(golden, target, FFNORM_PRE_LN), want);
    });
  }

  TEST_CASE("nonfinite_rows: rows 1, 3 and 4 are NaN, 0 and 2 are finite") {
    const Golden golden = OpenNamed("nonfinite_rows");
    const size_t D = golden.model.d_model;
    const auto check = [&](const std::vector<float>& got) {
      for (size_t i = 0; i < got.size(); ++i) {
        const size_t row = i / D;
        CAPTURE(i);
        CHECK(std::isnan(got[i]) == (row == 1 || row == 3 || row == 4));
      }
    };
    ForEachTarget([&](const ffnorm_target* target) {
      check(LayerNormOf(golden, target));
      check(Forward(golden, target, FFNORM_PRE_LN));
      check(Forward(golden, target, FFNORM_POST_LN));
    });
  }

  TEST_CASE("huge_overflow and tiny_values: finite rows give finite results") {
    for (const std::string name : {"huge_overflow", "tiny_values"}) {
      const Golden golden = OpenNamed(name);
      ForEachTarget([&](const ffnorm_target* target) {
        for (const std::vector<float>& got :
             {LayerNormOf(golden, target),
              Forward(golden, target, FFNORM_PRE_LN),
              Forward(golden, target, FFNORM_POST_LN)}) {
          size_t not_finite = 0;
          for (const float v : got) not_finite += std::isfinite(v) ? 0 : 1;
          CHECK(not_finite == 0);
        }
      });
    }
  }

  // The bound that all targets keep is tight: where float32 is hard, Flax
  // itself in float32, with its default variance, does not keep it.
  TEST_CASE("hard rows: Flax in float32 is outside the bound") {
    const auto misses = [](const std::vector<TruthRow>& truths,
                           const std::vector<float>& flax) {
      size_t count = 0;
      size_t at = 0;
      for (const TruthRow& row : truths) {
        for (const Truth& truth : row) {
          const double error =
              std::fabs(static_cast<double>(flax[at++]) - truth.value);
          if (!(error <= truth.error)) ++count;
        }
      }
      return count;
    };
    for (const std::string name :
         {"large_mean", "constant_rows", "huge_overflow", "tiny_values"}) {
      CAPTURE(name);
      const Golden golden = OpenNamed(name);
      CHECK(misses(golden.Truths("ln_f64", LnOracle),
                   golden.Result<float>("ln_f32")) > 0);
    }
    const Golden golden = OpenNamed("large_mean_post");
    CHECK(misses(golden.Truths("post_f64", PostLnTruth),
                 golden.Result<float>("post_f32")) > 0);
  }

  TEST_CASE("trained blocks on their real inputs") {
    for (const ffnorm_order order : {FFNORM_PRE_LN, FFNORM_POST_LN}) {
      const bool pre = order == FFNORM_PRE_LN;
      const auto oracle = pre ? PreLnTruth : PostLnTruth;
      const ffnorm_order wrong = pre ? FFNORM_POST_LN : FFNORM_PRE_LN;
      for (int layer = 0; layer < 3; ++layer) {
        const std::string name = std::string("trained/") +
                                 (pre ? "pre" : "post") + "/ffn" +
                                 std::to_string(layer);
        CAPTURE(name);
        const Golden golden(GoldenPath(name), kTrainedRows, kTrainedModel,
                            kTrainedHidden, 1e-6f);
        const std::vector<TruthRow> truths = golden.Truths("y_f64", oracle);
        std::vector<double> other;
        for (size_t r = 0; r < golden.rows; ++r) {
          for (const Truth& truth :
               OtherOracle(golden.model.Params(),
                           golden.x.data() + r * kTrainedModel)) {
            other.push_back(truth.value);
          }
        }
        CHECK(Distance(truths, other) > kFar);
        ForEachTarget([&](const ffnorm_target* target) {
          CheckAll(truths, Forward(golden, target, order));
          CHECK(Distance(truths, Forward(golden, target, wrong)) > kFar);
        });
      }
    }
  }

  // Small enough to follow by hand: W1 = [I, -I] and W2 = [2I; -2I] make
  // FFN(z) = 2 z, LN([1, 3]) = [-1, 1], and Post-LN sees [3, 9].
  TEST_CASE("x = [1, 3] with FFN(z) = 2 z") {
    Model model(2, 4);
    model.has_bias = false;
    model.has_affine = false;
    model.w1 = {1, 0, -1, 0, 0, 1, 0, -1};
    model.w2 = {2, 0, 0, 2, -2, 0, 0, -2};
    model.Pack();
    const auto near = [](float got, double want) {
      return std::fabs(static_cast<double>(got) - want) <= 2e-6;
    };
    ForEachTarget([&](const ffnorm_target* target) {
      const std::vector<float> pre =
          model.Forward(target, FFNORM_PRE_LN, 1, {1.0f, 3.0f});
      CHECK(near(pre[0], -1.0));
      CHECK(near(pre[1], 5.0));
      const std::vector<float> post =
          model.Forward(target, FFNORM_POST_LN, 1, {1.0f, 3.0f});
      CHECK(near(post[0], -1.0));
      CHECK(near(post[1], 1.0));
    });
  }
}

}  // namespace test
}  // namespace ffnorm
