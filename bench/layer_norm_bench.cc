// LayerNorm alone, beside the plain two-pass formula with the same vectors.
#include <math.h>

#include "bench/bench_util.h"
#include "bench/model.h"
#include "bench/plain_layer_norm.h"

namespace ffnorm {
namespace bench {
namespace {

// On these rows (mean near 0, deviation near 1) the plain formula is good.
constexpr float kPlainTolerance = 1e-5f;

struct Data {
  Data(size_t rows, size_t row_width)
      : width(row_width),
        x(InputRows(width, Values::kNormal)),
        // Any values of the right size do.
        scale(x + width),
        offset(x + 2 * width),
        y(Scratch(Use::kOutput, rows * width * sizeof(float)).floats()) {}

  // right(got, expected) for some rows of y.
  template <class Right>
  bool Check(size_t rows, const Right& right) const {
    std::vector<float> expected(width);
    for (const size_t row : CheckedRows(rows)) {
      if (ffnorm_reference_layer_norm(width, FFNORM_DEFAULT_EPSILON, scale,
                                      offset, 1, x + row * width, width,
                                      expected.data(), width) != FFNORM_OK ||
          !right(y + row * width, expected.data())) {
        return false;
      }
    }
    return true;
  }

  size_t width;
  const float* x;
  const float* scale;
  const float* offset;
  float* y;
};

void LayerNorm(Case& bench_case, benchmark::State& state,
               const ffnorm_target* target, size_t rows, size_t width) {
  const Data data(rows, width);
  const auto normalize = [&](size_t first, size_t count) {
    return ffnorm_layer_norm(target, width, FFNORM_DEFAULT_EPSILON, data.scale,
                             data.offset, count, data.x + first * width, width,
                             data.y + first * width, width);
  };
  bench_case.Measure(
      state, {}, [&] { return InParts(rows, normalize); },
      [&] {
        return data.Check(rows, [&](const float* got, const float* expected) {
          return SameBits(got, expected, width);
        });
      });
}

void PlainTwoPass(Case& bench_case, benchmark::State& state,
                  const ffnorm_target* target, size_t rows, size_t width) {
  const PlainLayerNormFunction run = FindPlainLayerNorm(target);
  if (run == nullptr) {
    Fail(state, "the plain loop was not built for this target");
    return;
  }
  const Data data(rows, width);
  const auto normalize = [&](size_t first, size_t count) {
    run(width, FFNORM_DEFAULT_EPSILON, data.scale, data.offset, count,
        data.x + first * width, data.y + first * width);
    return FFNORM_OK;
  };
  bench_case.Measure(
      state, {}, [&] { return InParts(rows, normalize); },
      [&] {
        return data.Check(rows, [&](const float* got, const float* expected) {
          for (size_t i = 0; i < width; ++i) {
            // Written so that NaN fails.
            if (!(fabsf(got[i] - expected[i]) <= kPlainTolerance)) return false;
          }
          return true;
        });
      });
}

}  // namespace

void RegisterLayerNorm() {
  for (const size_t width : kWidths) {
    for (const size_t rows : kRows) {
      const Work work = RowWork(rows, width, 2);
      for (const ffnorm_target* const target : Targets()) {
        const std::string name = ffnorm_target_name(target);
        Register(Name("layer_norm", name, {rows, width}), target, work,
                 [=](Case& bench_case, benchmark::State& state) {
                   LayerNorm(bench_case, state, target, rows, width);
                 });
        const size_t vector_bytes = ffnorm_target_vector_bytes(target);
        if (width * sizeof(float) % (4 * vector_bytes) == 0) {
          Register(Name("layer_norm/plain_two_pass", name, {rows, width}),
                   target, work,
                   [=](Case& bench_case, benchmark::State& state) {
                     PlainTwoPass(bench_case, state, target, rows, width);
                   });
        }
      }
    }
  }
}

}  // namespace bench
}  // namespace ffnorm
