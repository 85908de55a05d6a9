// y = x + v, row by row.
#include "bench/bench_util.h"
#include "bench/model.h"

namespace ffnorm {
namespace bench {
namespace {

void ResidualAdd(Case& bench_case, benchmark::State& state,
                 const ffnorm_target* target, size_t rows, size_t width) {
  const float* const x = InputRows(width, Values::kNormal);
  const float* const v = InputRows(width, Values::kPositive);
  float* const y = Scratch(Use::kOutput, rows * width * sizeof(float)).floats();
  const auto add = [&](size_t first, size_t count) {
    const size_t start = first * width;
    return ffnorm_residual_add(target, width, count, x + start, width,
                               v + start, width, y + start, width);
  };
  bench_case.Measure(
      state, {}, [&] { return InParts(rows, add); },
      [&] {
        std::vector<float> expected(width);
        for (const size_t row : CheckedRows(rows)) {
          const size_t start = row * width;
          if (ffnorm_reference_residual_add(width, 1, x + start, width,
                                            v + start, width, expected.data(),
                                            width) != FFNORM_OK ||
              !SameBits(y + start, expected.data(), width)) {
            return false;
          }
        }
        return true;
      });
}

}  // namespace

void RegisterResidualAdd() {
  for (const size_t width : kWidths) {
    for (const size_t rows : kRows) {
      for (const ffnorm_target* const target : Targets()) {
        Register(
            Name("residual_add", ffnorm_target_name(target), {rows, width}),
            target, RowWork(rows, width, 3),
            [=](Case& bench_case, benchmark::State& state) {
              ResidualAdd(bench_case, state, target, rows, width);
            });
      }
    }
  }
}

}  // namespace bench
}  // namespace ffnorm
