// The two Dense layers alone: dense_relu is the first with its bias and ReLU,
// dense the second with its bias, on inputs that went through a ReLU.
#include "bench/bench_util.h"
#include "bench/model.h"

namespace ffnorm {
namespace bench {
namespace {

void Dense(Case& bench_case, benchmark::State& state,
           const ffnorm_target* target, Stage stage, size_t rows, Shape shape) {
  Model& model = Model::Get(shape);
  const ffnorm_block block = model.Open(target);
  const ffnorm_exec exec = MakeExec(block, rows);
  const bool first = stage == Stage::kDense1Relu;
  const ffnorm_layer layer = first ? FFNORM_DENSE_1 : FFNORM_DENSE_2;
  const ffnorm_activation activation = first ? FFNORM_RELU : FFNORM_LINEAR;
  const size_t x_width = first ? shape.d_model : shape.d_ff;
  const size_t y_width = first ? shape.d_ff : shape.d_model;
  const float* const x = model.Input(stage);
  float* const y =
      Scratch(Use::kHidden, rows * y_width * sizeof(float)).floats();
  bench_case.Measure(
      state, model.WeightsOf(stage),
      [&] {
        return ffnorm_dense(&block, layer, activation, rows, x, x_width, y,
                            y_width, &exec);
      },
      [&] { return model.Check(stage, ffnorm_target_class(target), rows, y); });
}

}  // namespace

void RegisterDenseRelu() {
  for (const Shape shape : kShapes) {
    for (const size_t rows : kRows) {
      for (const Stage stage : {Stage::kDense1Relu, Stage::kDense2}) {
        for (const ffnorm_target* const target : Targets()) {
          Register(Name(stage == Stage::kDense1Relu ? "dense_relu" : "dense",
                        ffnorm_target_name(target),
                        {rows, shape.d_model, shape.d_ff}),
                   target, DenseWork(rows, shape),
                   [=](Case& bench_case, benchmark::State& state) {
                     Dense(bench_case, state, target, stage, rows, shape);
                   });
        }
      }
    }
  }
}

}  // namespace bench
}  // namespace ffnorm
