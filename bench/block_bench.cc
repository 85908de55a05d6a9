// The whole block: fused, composed from its stages, and the scalar reference.
#include "bench/bench_util.h"
#include "bench/model.h"

namespace ffnorm {
namespace bench {
namespace {

size_t Bytes(size_t rows, size_t width) { return rows * width * sizeof(float); }

void Fused(Case& bench_case, benchmark::State& state,
           const ffnorm_target* target, Stage stage, size_t rows, Shape shape) {
  Model& model = Model::Get(shape);
  const ffnorm_block block = model.Open(target);
  const ffnorm_order order =
      stage == Stage::kPreLn ? FFNORM_PRE_LN : FFNORM_POST_LN;
  const ffnorm_exec exec = MakeExec(block, rows);
  const size_t d_model = shape.d_model;
  const float* const x = model.Input(stage);
  float* const y = Scratch(Use::kOutput, Bytes(rows, d_model)).floats();
  bench_case.Measure(
      state, model.WeightsOf(stage),
      [&] {
        return ffnorm_forward(&block, order, rows, x, d_model, y, d_model,
                              &exec);
      },
      [&] { return model.Check(stage, ffnorm_target_class(target), rows, y); });
}

// Pre-LN from the stages alone, each over all rows, with the whole hidden
// matrix in memory.
void Unfused(Case& bench_case, benchmark::State& state,
             const ffnorm_target* target, size_t rows, Shape shape) {
  Model& model = Model::Get(shape);
  const ffnorm_block block = model.Open(target);
  const ffnorm_exec exec = MakeExec(block, rows);
  const size_t d_model = shape.d_model;
  const size_t d_ff = shape.d_ff;
  const float* const x = model.Input(Stage::kPreLn);
  float* const y = Scratch(Use::kOutput, Bytes(rows, d_model)).floats();
  float* const z = Scratch(Use::kNormalized, Bytes(rows, d_model)).floats();
  float* const h = Scratch(Use::kHidden, Bytes(rows, d_ff)).floats();
  const auto normalize = [&](size_t first, size_t count) {
    return ffnorm_layer_norm(target, d_model, block.epsilon, model.scale(),
                             model.offset(), count, x + first * d_model,
                             d_model, z + first * d_model, d_model);
  };
  const auto add = [&](size_t first, size_t count) {
    return ffnorm_residual_add(target, d_model, count, x + first * d_model,
                               d_model, z + first * d_model, d_model,
                               y + first * d_model, d_model);
  };
  bench_case.Measure(
      state, model.WeightsOf(Stage::kPreLn),
      [&] {
        ffnorm_status status = InParts(rows, normalize);
        if (status == FFNORM_OK) {
          status = ffnorm_dense(&block, FFNORM_DENSE_1, FFNORM_RELU, rows, z,
                                d_model, h, d_ff, &exec);
        }
        if (status == FFNORM_OK) {
          status = ffnorm_dense(&block, FFNORM_DENSE_2, FFNORM_LINEAR, rows, h,
                                d_ff, z, d_model, &exec);
        }
        return status == FFNORM_OK ? InParts(rows, add) : status;
      },
      [&] {
        return model.Check(Stage::kPreLn, ffnorm_target_class(target), rows, y);
      });
}

// The class of the best target: what its results are defined by.
void Reference(Case& bench_case, benchmark::State& state, Stage stage,
               size_t rows, Shape shape) {
  Model& model = Model::Get(shape);
  const ffnorm_class rounding = ffnorm_target_class(Targets().front());
  const float* const x = model.Input(stage);
  float* const y = Scratch(Use::kOutput, Bytes(rows, shape.d_model)).floats();
  bench_case.Measure(
      state, {},
      [&] {
        model.Reference(stage, rounding, rows, x, y);
        return FFNORM_OK;
      },
      [&] { return model.Check(stage, rounding, rows, y); });
}

}  // namespace

void RegisterBlock() {
  for (const Shape shape : kShapes) {
    for (const size_t rows : kRows) {
      const std::vector<size_t> sizes = {rows, shape.d_model, shape.d_ff};
      const Work work = BlockWork(rows, shape);
      for (const ffnorm_target* const target : Targets()) {
        const char* const name = ffnorm_target_name(target);
        for (const Stage stage : {Stage::kPreLn, Stage::kPostLn}) {
          Register(
              Name(stage == Stage::kPreLn ? "pre_ln" : "post_ln", name, sizes),
              target, work, [=](Case& bench_case, benchmark::State& state) {
                Fused(bench_case, state, target, stage, rows, shape);
              });
        }
        Register(Name("pre_ln_unfused", name, sizes), target, work,
                 [=](Case& bench_case, benchmark::State& state) {
                   Unfused(bench_case, state, target, rows, shape);
                 });
      }
      for (const Stage stage : {Stage::kPreLn, Stage::kPostLn}) {
        Register(Name(stage == Stage::kPreLn ? "pre_ln" : "post_ln",
                      "reference", sizes),
                 nullptr, work, [=](Case& bench_case, benchmark::State& state) {
                   Reference(bench_case, state, stage, rows, shape);
                 });
      }
    }
  }
}

}  // namespace bench
}  // namespace ffnorm
