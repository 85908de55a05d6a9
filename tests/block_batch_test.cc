// A row's bits depend on the row and the block alone: not on how many rows are
// run with it, where it stands among them, or what they hold.
#include <stddef.h>
#include <stdint.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/model.h"
#include "tests/random_data.h"
#include "tests/test_util.h"

namespace ffnorm {
namespace test {
namespace {

constexpr ffnorm_order kOrders[] = {FFNORM_PRE_LN, FFNORM_POST_LN};
constexpr size_t kMostRows = 257;

// Calls fn(model, target, order) for models on both sides of kBlockK, each with
// about half its hidden units active, and with few.
template <class Function>
void ForEachBlock(const Function& fn) {
  constexpr size_t kShapes[][2] = {{5, 3}, {48, 80}, {40, 300}, {300, 40}};
  for (const auto& shape : kShapes) {
    CAPTURE(shape[0]);
    CAPTURE(shape[1]);
    for (const float shift : {0.0f, -2.0f}) {
      CAPTURE(shift);
      Model model(shape[0], shape[1]);
      for (float& b : model.b1) b += shift;
      model.Pack();
      for (const ffnorm_order order : kOrders) {
        CAPTURE(order);
        ForEachTarget(
            [&](const ffnorm_target* target) { fn(model, target, order); });
      }
    }
  }
}

// Rows of x in the order that `rows` lists them.
std::vector<float> Gather(const std::vector<float>& x, size_t columns,
                          const std::vector<size_t>& rows) {
  std::vector<float> gathered;
  for (const size_t row : rows) {
    const float* from = x.data() + row * columns;
    gathered.insert(gathered.end(), from, from + columns);
  }
  return gathered;
}

}  // namespace

TEST_SUITE("block_batch") {
  TEST_CASE("the first n rows, run alone, for n = 1..67 and 255..257") {
    ForEachBlock([](const Model& model, const ffnorm_target* target,
                    ffnorm_order order) {
      const size_t D = model.d_model;
      const std::vector<float> x = model.Input(kMostRows);
      const std::vector<float> all = model.Forward(target, order, kMostRows, x);
      for (size_t rows = 1; rows < kMostRows; ++rows) {
        if (rows == 68) rows = 255;
        CAPTURE(rows);
        const std::vector<float> got = model.Forward(target, order, rows, x);
        CheckSameBits(rows, D, got.data(), D, all.data(), D);
      }
    });
  }

  TEST_CASE("one row alone, for each of 67") {
    ForEachBlock([](const Model& model, const ffnorm_target* target,
                    ffnorm_order order) {
      const size_t D = model.d_model;
      const std::vector<float> x = model.Input(67);
      const std::vector<float> all = model.Forward(target, order, 67, x);
      for (size_t row = 0; row < 67; ++row) {
        CAPTURE(row);
        const std::vector<float> got =
            model.Forward(target, order, 1, Gather(x, D, {row}));
        CheckSameBits(1, D, got.data(), D, all.data() + row * D, D);
      }
    });
  }

  TEST_CASE("every row at every position") {
    ForEachBlock([](const Model& model, const ffnorm_target* target,
                    ffnorm_order order) {
      const size_t D = model.d_model;
      // 5 rows fill one register tile or less, 23 several.
      for (const size_t rows : {size_t{5}, size_t{23}}) {
        const std::vector<float> x = model.Input(rows);
        const std::vector<float> all = model.Forward(target, order, rows, x);
        for (size_t turn = 1; turn < rows; ++turn) {
          CAPTURE(turn);
          std::vector<size_t> order_of_rows(rows);
          for (size_t i = 0; i < rows; ++i) {
            order_of_rows[i] = (i + turn) % rows;
          }
          CheckSameBits(
              model.Forward(target, order, rows, Gather(x, D, order_of_rows)),
              Gather(all, D, order_of_rows));
        }
      }
    });
  }

  TEST_CASE("257 rows shuffled") {
    ForEachBlock([](const Model& model, const ffnorm_target* target,
                    ffnorm_order order) {
      const size_t D = model.d_model;
      const std::vector<float> x = model.Input(kMostRows);
      const std::vector<float> all = model.Forward(target, order, kMostRows, x);
      for (uint64_t seed = 1; seed <= 3; ++seed) {
        Random random(seed);
        std::vector<size_t> rows(kMostRows);
        for (size_t i = 0; i < kMostRows; ++i) rows[i] = i;
        for (size_t i = kMostRows; i > 1; --i) {
          std::swap(rows[i - 1], rows[random.Below(i)]);
        }
        CheckSameBits(
            model.Forward(target, order, kMostRows, Gather(x, D, rows)),
            Gather(all, D, rows));
      }
    });
  }

  // Equal rows share their active units, unequal ones do not.
  TEST_CASE("a row among copies of itself") {
    ForEachBlock([](const Model& model, const ffnorm_target* target,
                    ffnorm_order order) {
      const size_t D = model.d_model;
      const std::vector<float> x = model.Input(40);
      const std::vector<float> all = model.Forward(target, order, 40, x);
      for (const size_t row : {size_t{0}, size_t{17}}) {
        const std::vector<size_t> copies(33, row);
        CheckSameBits(model.Forward(target, order, 33, Gather(x, D, copies)),
                      Gather(all, D, copies));
      }
    });
  }
}

}  // namespace test
}  // namespace ffnorm
