// The data that the benchmarks run on, and the right results for it. Everything
// is made once, kept, and the same in every process.
#ifndef FFNORM_BENCH_MODEL_H_
#define FFNORM_BENCH_MODEL_H_

#include <stddef.h>
#include <stdint.h>

#include <map>
#include <tuple>
#include <vector>

#include "bench/bench_util.h"
#include "bench/memory.h"
#include "ffnorm/ffnorm.h"

namespace ffnorm {
namespace bench {

enum class Values {
  kNormal,
  kPositive,  // those that ReLU lets through, 0 for the others
};

// kMaxRows contiguous rows of this width, close to normally distributed.
const float* InputRows(size_t width, Values values);

// Memory that a benchmark's calls write, filled with NaN so that no result of
// an earlier benchmark passes for one of this. Each use has one piece of
// memory.
enum class Use { kOutput, kNormalized, kHidden, kWorkspace };
Memory& Scratch(Use use, size_t bytes);

enum class Stage { kPreLn, kPostLn, kDense1Relu, kDense2 };

// One block: weights with variance 2 / fan-in (He), so that about half of the
// hidden units are off and outputs are of the order of the inputs.
class Model {
 public:
  static Model& Get(Shape shape);

  Shape shape() const { return shape_; }
  const float* scale() const { return scale_.data(); }
  const float* offset() const { return offset_.data(); }

  ffnorm_params Params() const;
  ffnorm_block Open(const ffnorm_target* target) const;

  // What a stage reads of the packed block.
  Case::Weights WeightsOf(Stage stage) const;

  // One input row per row of output: what the stage expects.
  const float* Input(Stage stage) const;

  // Whether the first and the last of `rows` rows of output have the bits of
  // the reference.
  bool Check(Stage stage, ffnorm_class rounding, size_t rows, const float* y);

  // This is the definition that Check compares with.
  void Reference(Stage stage, ffnorm_class rounding, size_t rows,
                 const float* x, float* y) const;

 private:
  explicit Model(Shape shape);

  size_t OutputWidth(Stage stage) const;

  Shape shape_;
  Memory w1_;
  Memory w2_;
  std::vector<float> b1_;
  std::vector<float> b2_;
  std::vector<float> scale_;
  std::vector<float> offset_;
  Memory packed_;
  size_t packed_bytes_ = 0;
  std::map<std::tuple<Stage, ffnorm_class, size_t>, std::vector<float>>
      expected_;  // single rows
};

// What forward and dense may use, with the benchmark's pool; its workspace is
// Scratch(Use::kWorkspace).
ffnorm_exec MakeExec(const ffnorm_block& block, size_t rows);

}  // namespace bench
}  // namespace ffnorm

#endif  // FFNORM_BENCH_MODEL_H_
