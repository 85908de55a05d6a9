// Both blocks, y = x + FFN(LN(x)) and y = LN(x + FFN(x)): every target against
// the reference of its class, bit for bit; exactly on integers; and against
// float64 truth.
#include <stddef.h>
#include <stdint.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <string>
#include <vector>

#include "kernels/cpu.h"
#include "kernels/shape.h"
#include "kernels/target.h"
#include "kernels/tuning.h"
#include "tests/model.h"
#include "tests/oracle.h"
#include "tests/random_data.h"
#include "tests/test_util.h"

namespace ffnorm {
namespace test {
namespace {

constexpr ffnorm_order kOrders[] = {FFNORM_PRE_LN, FFNORM_POST_LN};

// Each row count on each target: `counts(target)` rows of one input, all of
// them against the first rows of one run of the reference.
template <class Counts>
void CheckAgainstReference(const Model& model, size_t max_rows,
                           const std::vector<float>& x, const Counts& counts) {
  const size_t D = model.d_model;
  CAPTURE(D);
  CAPTURE(model.d_ff);
  for (const ffnorm_order order : kOrders) {
    CAPTURE(order);
    ReferenceCache reference;
    ForEachTarget([&](const ffnorm_target* target) {
      const std::vector<float>& want =
          reference.Get(ffnorm_target_class(target), [&](ffnorm_class c) {
            return model.ReferenceForward(c, order, max_rows, x);
          });
      for (const size_t rows : counts(target)) {
        CAPTURE(rows);
        REQUIRE(rows <= max_rows);
        const std::vector<float> got = model.Forward(target, order, rows, x);
        CheckSameBits(rows, D, got.data(), D, want.data(), D);
      }
    });
  }
}

void CheckAgainstReference(const Model& model, size_t rows,
                           const std::vector<float>& x) {
  CheckAgainstReference(model, rows, x, [rows](const ffnorm_target*) {
    return std::vector<size_t>{rows};
  });
}

// Packs and runs parameters that a Model cannot have.
std::vector<float> RunParams(const ffnorm_params& params,
                             const ffnorm_target* target, ffnorm_order order,
                             size_t rows, const std::vector<float>& x) {
  size_t bytes = 0;
  REQUIRE(ffnorm_packed_bytes(&params, &bytes) == FFNORM_OK);
  AlignedBuffer packed(bytes);
  REQUIRE(ffnorm_pack(&params, packed.data(), bytes) == FFNORM_OK);
  const ffnorm_block block = OpenedOn(packed.data(), bytes, target);
  Workspace workspace(block, rows);
  std::vector<float> y(rows * params.d_model);
  FillNaN(y.data(), y.size());
  REQUIRE(ffnorm_forward(&block, order, rows, x.data(), params.d_model,
                         y.data(), params.d_model,
                         workspace.Exec()) == FFNORM_OK);
  return y;
}

std::vector<float> RunReference(const ffnorm_params& params,
                                ffnorm_class rounding, ffnorm_order order,
                                size_t rows, const std::vector<float>& x) {
  size_t bytes = 0;
  REQUIRE(ffnorm_reference_workspace_bytes(&params, &bytes) == FFNORM_OK);
  AlignedBuffer workspace(bytes);
  std::vector<float> y(rows * params.d_model);
  FillNaN(y.data(), y.size());
  REQUIRE(ffnorm_reference_forward(&params, rounding, order, rows, x.data(),
                                   params.d_model, y.data(), params.d_model,
                                   workspace.data(), bytes) == FFNORM_OK);
  return y;
}

void CheckParams(const ffnorm_params& params, size_t rows,
                 const std::vector<float>& x) {
  for (const ffnorm_order order : kOrders) {
    CAPTURE(order);
    ForEachTarget([&](const ffnorm_target* target) {
      CheckSameBits(
          RunParams(params, target, order, rows, x),
          RunReference(params, ffnorm_target_class(target), order, rows, x));
    });
  }
}

// A row on which LayerNorm is exact with epsilon 0: half its elements are m +
// s, half m - s, s a power of two, so that mean, deviation and its inverse are.
// `signs` receives which.
std::vector<float> TwoValuedRow(size_t D, float m, float s, uint64_t seed,
                                std::vector<int>* signs) {
  REQUIRE(D % 2 == 0);
  Random random(seed);
  signs->assign(D, 1);
  std::fill(signs->begin(), signs->begin() + static_cast<ptrdiff_t>(D / 2), -1);
  for (size_t i = D; i > 1; --i) {
    std::swap((*signs)[i - 1], (*signs)[random.Below(i)]);
  }
  std::vector<float> row(D);
  for (size_t i = 0; i < D; ++i) {
    row[i] = m + s * static_cast<float>((*signs)[i]);
  }
  return row;
}

// FFN in whole numbers.
std::vector<int64_t> IntegerFfn(const Model& model,
                                const std::vector<int64_t>& z) {
  std::vector<int64_t> hidden(model.d_ff);
  for (size_t j = 0; j < model.d_ff; ++j) {
    int64_t sum = static_cast<int64_t>(model.b1[j]);
    for (size_t i = 0; i < model.d_model; ++i) {
      sum += z[i] * static_cast<int64_t>(model.w1[i * model.d_ff + j]);
    }
    hidden[j] = std::max<int64_t>(sum, 0);
  }
  std::vector<int64_t> v(model.d_model);
  for (size_t i = 0; i < model.d_model; ++i) {
    v[i] = static_cast<int64_t>(model.b2[i]);
    for (size_t j = 0; j < model.d_ff; ++j) {
      v[i] += hidden[j] * static_cast<int64_t>(model.w2[j * model.d_model + i]);
    }
  }
  return v;
}

// FNV-1a over the bits, which hold no NaN.
uint64_t Hash(const std::vector<float>& values) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const float value : values) {
    for (int shift = 0; shift < 32; shift += 8) {
      hash = (hash ^ (Bits(value) >> shift & 0xff)) * 0x100000001b3u;
    }
  }
  return hash;
}

float Exact(int64_t value) {
  // Beyond this not every whole number is a float.
  REQUIRE(value < (1 << 24));
  REQUIRE(value > -(1 << 24));
  return static_cast<float>(value);
}

}  // namespace

TEST_SUITE("block") {
  TEST_CASE("tiles for few rows, however the CPU reads the weights") {
    // The second one's are far, where lists pay less.
    constexpr size_t kShapes[][2] = {{257, 300}, {1024, 2048}};
    REQUIRE(kShapes[1][0] * kShapes[1][1] == kFarMatrixFloats);
    for (const auto& shape : kShapes) {
      Model model(shape[0], shape[1]);
      for (const uint32_t traits : {0u, uint32_t{kCpuReadsAhead}}) {
        CAPTURE(traits);
        model.other_traits = traits;
        CheckAgainstReference(model, 5, model.Input(5),
                              [](const ffnorm_target*) {
                                return std::vector<size_t>{1, 2, 3, 4, 5};
                              });
      }
    }
  }

  TEST_CASE("every width with every hidden width") {
    size_t rows = 0;
    for (const size_t d_model : Sizes()) {
      for (const size_t d_ff : Sizes()) {
        // Few rows where both are wide: the reference is slow.
        const size_t most = d_model * d_ff > 20000 ? 3 : 20;
        rows = rows % most + 1;
        const Model model(d_model, d_ff, Mode::kGaussian, rows);
        CheckAgainstReference(model, rows, model.Input(rows));
      }
    }
  }

  TEST_CASE("row counts around tiles and row blocks") {
    size_t max_rows = 0;
    for (const ffnorm_target* target : TargetsUnderTest()) {
      max_rows = std::max(max_rows, 3 * target->block_rows + 1);
    }
    const auto counts = [](const ffnorm_target* target) {
      std::vector<size_t> rows = {target->block_rows + 1};
      for (size_t n = 1; n <= 20; ++n) rows.push_back(n);
      for (const size_t unit : {target->tile_rows, target->block_rows}) {
        for (const size_t n : {2 * unit, 3 * unit}) {
          rows.insert(rows.end(), {n - 1, n, n + 1});
        }
      }
      return rows;
    };
    constexpr size_t kShapes[][2] = {
        {9, 40}, {33, 77}, {64, 300}, {257, 33}, {300, 5}};
    for (const auto& shape : kShapes) {
      const Model model(shape[0], shape[1]);
      CheckAgainstReference(model, max_rows, model.Input(max_rows), counts);
    }
  }

  TEST_CASE("inputs and parameters of every kind") {
    for (const Mode mode : kAllModes) {
      CAPTURE(ModeName(mode));
      // Ordinary weights, then weights as strange as the input.
      const Model ordinary(65, 290);
      CheckAgainstReference(ordinary, 9, ordinary.Input(9, mode));
      const Model strange(65, 290, mode);
      CheckAgainstReference(strange, 9, strange.Input(9, mode));
    }
  }

  TEST_CASE("few hidden units active, all, or none") {
    for (const float shift : {-100.0f, -3.0f, -2.0f, -1.0f, 100.0f}) {
      CAPTURE(shift);
      Model model(40, 700);
      for (float& b : model.b1) b += shift;
      model.Pack();
      for (const size_t rows : {1, 2, 3, 4, 5, 8, 15, 60}) {
        CheckAgainstReference(model, rows, model.Input(rows));
      }
    }
  }

  TEST_CASE("epsilon is used, and inside the root") {
    Model model(4, 8);
    for (const float epsilon : {0.0f, 1e-12f, 1e-6f, 1e-5f, 1.0f, 1e30f}) {
      CAPTURE(epsilon);
      model.epsilon = epsilon;
      model.Pack();
      CheckAgainstReference(model, 7, model.Input(7));
    }
  }

  TEST_CASE("each optional parameter may be missing") {
    const Model model(37, 70);
    const std::vector<float> x = model.Input(5);
    for (unsigned missing = 0; missing < 16; ++missing) {
      CAPTURE(missing);
      ffnorm_params params = model.Params();
      if (missing & 1) params.b1 = nullptr;
      if (missing & 2) params.b2 = nullptr;
      if (missing & 4) params.scale = nullptr;
      if (missing & 8) params.offset = nullptr;
      CheckParams(params, 5, x);
    }
  }

  TEST_CASE("both layouts and padded weight rows give the same block") {
    const Model model(37, 70);
    const std::vector<float> x = model.Input(5);
    const std::vector<float> w1t = Transposed(37, 70, model.w1);
    const std::vector<float> w2t = Transposed(70, 37, model.w2);
    const StridedMatrix wide1(37, 70, 75, model.w1.data());
    const StridedMatrix wide2(70, 37, 64, model.w2.data());
    ffnorm_params out_in = model.Params();
    out_in.layout = FFNORM_OUT_IN;
    out_in.w1 = w1t.data();
    out_in.w2 = w2t.data();
    ffnorm_params wide = model.Params();
    wide.w1 = wide1.data();
    wide.w1_stride = 75;
    wide.w2 = wide2.data();
    wide.w2_stride = 64;
    for (const ffnorm_params& params : {out_in, wide}) {
      CheckParams(params, 5, x);
      for (const ffnorm_order order : kOrders) {
        ForEachTarget([&](const ffnorm_target* target) {
          CheckSameBits(RunParams(params, target, order, 5, x),
                        model.Forward(target, order, 5, x));
        });
      }
    }
  }

  TEST_CASE("the targets of one class give the same bits, from one block") {
    const Model model(96, 520);
    const std::vector<float> x = model.Input(33);
    for (const ffnorm_order order : kOrders) {
      const ffnorm_target* first[2] = {nullptr, nullptr};
      ForEachTarget([&](const ffnorm_target* target) {
        const ffnorm_target*& other = first[ffnorm_target_class(target)];
        if (other == nullptr) other = target;
        CheckSameBits(model.Forward(target, order, 33, x),
                      model.Forward(other, order, 33, x));
      });
    }
  }

  // Version 1 of the contract, on every machine and in every release. Several
  // blocks of K and passes over the lanes of LayerNorm, and remainders of both.
  TEST_CASE("the bits are those of the first release") {
    const Model model(333, 700);
    const std::vector<float> x = model.Input(5);
    constexpr uint64_t kHashes[2][2] = {
        {0x09c84ab887412b7bu, 0x77339c4d43e27b54u},
        {0xcb3a592390da1222u, 0x3ba3abc758caff5au}};
    for (const ffnorm_order order : kOrders) {
      CAPTURE(order);
      for (const ffnorm_class rounding : {FFNORM_UNFUSED, FFNORM_FUSED}) {
        CAPTURE(rounding);
        CHECK(Hash(model.ReferenceForward(rounding, order, 5, x)) ==
              kHashes[rounding][order]);
      }
      ForEachTarget([&](const ffnorm_target* target) {
        CHECK(Hash(model.Forward(target, order, 5, x)) ==
              kHashes[ffnorm_target_class(target)][order]);
      });
    }
  }

  // A row times a power of two has the same bits of output for as long as its
  // variance stays within the contract's bounds, and those of binary64 outside.
  TEST_CASE("LayerNorm turns to binary64 exactly where the contract says") {
    constexpr size_t kWidth = 100;
    const std::vector<float> row = Filled(kWidth, Mode::kGaussian, 9);
    double mean = 0.0;
    double squares = 0.0;
    for (const float v : row) mean += v / static_cast<double>(kWidth);
    for (const float v : row) squares += (v - mean) * (v - mean);
    // Far enough from a power of 4 for its rounding not to matter.
    const double variance = squares / kWidth;
    REQUIRE(variance > 0.5);
    REQUIRE(variance < 0.98);
    const auto norm = [&](const ffnorm_target* target, int exponent) {
      std::vector<float> x = row;
      for (float& v : x) v = std::ldexp(v, exponent);
      std::vector<float> y(kWidth);
      REQUIRE(ffnorm_layer_norm(target, kWidth, 0.0f, nullptr, nullptr, 1,
                                x.data(), kWidth, y.data(),
                                kWidth) == FFNORM_OK);
      return y;
    };
    ForEachTarget([&](const ffnorm_target* target) {
      const std::vector<float> plain = norm(target, 0);
      for (int exponent = -60; exponent <= 64; ++exponent) {
        CAPTURE(exponent);
        const bool within =
            std::ldexp(variance, 2 * exponent) >= std::ldexp(1.0, -96) &&
            std::ldexp(squares, 2 * exponent) <=
                std::numeric_limits<float>::max();
        CHECK((norm(target, exponent) == plain) == within);
      }
    });
  }

  // Zero tolerance: every sum is a whole number that a float holds.
  TEST_CASE("Pre-LN on whole numbers is exact") {
    constexpr size_t kShapes[][2] = {{2, 3},   {4, 9},     {8, 40},  {34, 70},
                                     {64, 33}, {130, 300}, {258, 17}};
    uint64_t seed = 1;
    for (const auto& shape : kShapes) {
      const size_t D = shape[0];
      Model model(D, shape[1], Mode::kIntegers, ++seed);
      model.epsilon = 0.0f;
      model.Pack();
      std::vector<float> x;
      std::vector<float> want;
      for (const float s : {1.0f, 2.0f, 0.25f, 512.0f, 4.0f, 1.0f, 16.0f}) {
        std::vector<int> signs;
        const float m = static_cast<float>(seed % 9) - 4.0f;
        const std::vector<float> row = TwoValuedRow(D, m, s, ++seed, &signs);
        std::vector<int64_t> z(D);
        for (size_t i = 0; i < D; ++i) {
          z[i] = signs[i] * static_cast<int64_t>(model.scale[i]) +
                 static_cast<int64_t>(model.offset[i]);
        }
        const std::vector<int64_t> v = IntegerFfn(model, z);
        for (size_t i = 0; i < D; ++i) {
          want.push_back(row[i] + Exact(v[i]));
        }
        x.insert(x.end(), row.begin(), row.end());
      }
      const size_t rows = x.size() / D;
      CAPTURE(D);
      ForEachTarget([&](const ffnorm_target* target) {
        CheckSameBits(model.Forward(target, FFNORM_PRE_LN, rows, x), want);
      });
    }
  }

  // Column i of W2 and b2 is sign[i] times one vector, so that FFN(x) is
  // sign[i] t, and W1 sees only the row's mean. Then x = m + sign[i] (s - t)
  // makes x + FFN(x) a row m + sign[i] s, which LayerNorm takes exactly.
  TEST_CASE("Post-LN on whole numbers is exact") {
    constexpr size_t kShapes[][2] = {{2, 3},   {4, 9},   {8, 300}, {34, 70},
                                     {64, 33}, {130, 9}, {258, 5}};
    uint64_t seed = 100;
    for (const auto& shape : kShapes) {
      const size_t D = shape[0];
      const size_t H = shape[1];
      Model model(D, H, Mode::kIntegers, ++seed);
      model.epsilon = 0.0f;
      std::vector<int> signs;
      TwoValuedRow(D, 0.0f, 1.0f, ++seed, &signs);
      // Each +1 column of x is paired with a -1 column of equal weights.
      std::vector<size_t> up, down;
      for (size_t i = 0; i < D; ++i) (signs[i] > 0 ? up : down).push_back(i);
      for (size_t pair = 0; pair < up.size(); ++pair) {
        std::copy_n(model.w1.begin() + static_cast<ptrdiff_t>(up[pair] * H), H,
                    model.w1.begin() + static_cast<ptrdiff_t>(down[pair] * H));
      }
      for (size_t i = 0; i < D; ++i) {
        const float sign = static_cast<float>(signs[i]);
        const float first = static_cast<float>(signs[0]);
        model.b2[i] = sign * first * model.b2[0];
        for (size_t j = 0; j < H; ++j) {
          model.w2[j * D + i] = sign * first * model.w2[j * D];
        }
      }
      model.Pack();
      std::vector<float> x;
      std::vector<float> want;
      for (const int64_t m : {0, 1, -1, 2, -2, 3}) {
        const std::vector<int64_t> v =
            IntegerFfn(model, std::vector<int64_t>(D, m));
        const int64_t t = v[0] * signs[0];
        const int64_t s = int64_t{1} << (static_cast<uint64_t>(m + 4) % 5);
        // The largest partial sum of matmul 1.
        Exact(static_cast<int64_t>(D) * 3 * (std::abs(m) + std::abs(s - t)));
        for (size_t i = 0; i < D; ++i) {
          REQUIRE(v[i] == signs[i] * t);
          x.push_back(Exact(m + signs[i] * (s - t)));
          want.push_back(static_cast<float>(signs[i]) * model.scale[i] +
                         model.offset[i]);
        }
      }
      const size_t rows = x.size() / D;
      CAPTURE(D);
      ForEachTarget([&](const ffnorm_target* target) {
        CheckSameBits(model.Forward(target, FFNORM_POST_LN, rows, x), want);
      });
    }
  }

  TEST_CASE("within the derived distance of float64") {
    constexpr size_t kShapes[][2] = {{1, 1},    {3, 2},     {17, 33},
                                     {64, 256}, {100, 700}, {520, 60}};
    for (const Mode mode : {Mode::kGaussian, Mode::kCancelling, Mode::kTiny,
                            Mode::kOffset, Mode::kSparse}) {
      CAPTURE(ModeName(mode));
      for (const auto& shape : kShapes) {
        const size_t D = shape[0];
        CAPTURE(D);
        const Model model(D, shape[1]);
        const ffnorm_params params = model.Params();
        constexpr size_t kRows = 6;
        const std::vector<float> x = model.Input(kRows, mode);
        for (const ffnorm_order order : kOrders) {
          CAPTURE(order);
          std::vector<TruthRow> truths;
          for (size_t r = 0; r < kRows; ++r) {
            truths.push_back(ForwardTruth(params, order, x.data() + r * D));
          }
          ForEachTarget([&](const ffnorm_target* target) {
            const std::vector<float> got =
                model.Forward(target, order, kRows, x);
            for (size_t r = 0; r < kRows; ++r) {
              CAPTURE(r);
              CheckWithin(truths[r], got.data() + r * D);
            }
          });
        }
      }
    }
  }
}

}  // namespace test
}  // namespace ffnorm
