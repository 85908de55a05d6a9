#include "bench/model.h"

#include <math.h>
#include <string.h>

#include <memory>
#include <stdexcept>
#include <utility>

namespace ffnorm {
namespace bench {
namespace {

void Require(ffnorm_status status) {
  if (status != FFNORM_OK) {
    throw std::runtime_error(ffnorm_status_string(status));
  }
}

// splitmix64.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  // The sum of four uniforms: mean 0, variance 1.
  float Normal() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    z ^= z >> 31;
    const int32_t sum = static_cast<int32_t>((z & 0xffff) + (z >> 16 & 0xffff) +
                                             (z >> 32 & 0xffff) + (z >> 48));
    return static_cast<float>(sum - 2 * 0xffff) * (1.7320508f / 65536.0f);
  }

 private:
  uint64_t state_;
};

void Fill(float* to, size_t count, float mean, float deviation, uint64_t seed) {
  Random random(seed);
  for (size_t i = 0; i < count; ++i) to[i] = mean + deviation * random.Normal();
}

std::vector<float> Filled(size_t count, float mean, float deviation,
                          uint64_t seed) {
  std::vector<float> values(count);
  Fill(values.data(), count, mean, deviation, seed);
  return values;
}

float HeDeviation(size_t fan_in) {
  return sqrtf(2.0f / static_cast<float>(fan_in));
}

}  // namespace

const float* InputRows(size_t width, Values values) {
  static std::map<std::pair<size_t, Values>, std::unique_ptr<Memory>> all;
  std::unique_ptr<Memory>& rows = all[{width, values}];
  if (rows == nullptr) {
    const size_t count = kMaxRows * width;
    rows.reset(new Memory(count * sizeof(float), Pages::kHuge));
    Fill(rows->floats(), count, 0.0f, 1.0f, width);
    if (values == Values::kPositive) {
      for (size_t i = 0; i < count; ++i) {
        if (rows->floats()[i] < 0.0f) rows->floats()[i] = 0.0f;
      }
    }
  }
  return rows->floats();
}

Memory& Scratch(Use use, size_t bytes) {
  static Memory all[4];
  Memory& memory = all[static_cast<size_t>(use)];
  memory.Reserve(bytes);
  memset(memory.data(), 0xff, bytes);
  return memory;
}

Model& Model::Get(Shape shape) {
  static std::map<std::pair<size_t, size_t>, std::unique_ptr<Model>> all;
  std::unique_ptr<Model>& model = all[{shape.d_model, shape.d_ff}];
  if (model == nullptr) model.reset(new Model(shape));
  return *model;
}

Model::Model(Shape shape)
    : shape_(shape),
      w1_(sizeof(float) * shape.d_model * shape.d_ff, Pages::kHuge),
      w2_(sizeof(float) * shape.d_model * shape.d_ff, Pages::kHuge),
      b1_(Filled(shape.d_ff, 0.0f, 0.1f, 3)),
      b2_(Filled(shape.d_model, 0.0f, 0.1f, 4)),
      scale_(Filled(shape.d_model, 1.0f, 0.1f, 5)),
      offset_(Filled(shape.d_model, 0.0f, 0.1f, 6)) {
  const size_t count = shape.d_model * shape.d_ff;
  Fill(w1_.floats(), count, 0.0f, HeDeviation(shape.d_model), 1);
  Fill(w2_.floats(), count, 0.0f, HeDeviation(shape.d_ff), 2);
  const ffnorm_params params = Params();
  Require(ffnorm_packed_bytes(&params, &packed_bytes_));
  packed_.Reserve(packed_bytes_);
  Require(ffnorm_pack(&params, packed_.data(), packed_bytes_));
}

ffnorm_params Model::Params() const {
  ffnorm_params params = ffnorm_default_params(shape_.d_model, shape_.d_ff);
  params.w1 = w1_.floats();
  params.b1 = b1_.data();
  params.w2 = w2_.floats();
  params.b2 = b2_.data();
  params.scale = scale_.data();
  params.offset = offset_.data();
  return params;
}

ffnorm_block Model::Open(const ffnorm_target* target) const {
  ffnorm_block block;
  Require(ffnorm_open(packed_.data(), packed_bytes_, target, &block));
  return block;
}

Case::Weights Model::WeightsOf(Stage stage) const {
  // W1 lies in the first half, W2 in the second.
  const size_t half = packed_bytes_ / 2 / FFNORM_ALIGNMENT * FFNORM_ALIGNMENT;
  const char* const start = static_cast<const char*>(packed_.data());
  if (stage == Stage::kDense1Relu) return {start, half};
  if (stage == Stage::kDense2) return {start + half, half};
  return {start, packed_bytes_};
}

const float* Model::Input(Stage stage) const {
  return stage == Stage::kDense2 ? InputRows(shape_.d_ff, Values::kPositive)
                                 : InputRows(shape_.d_model, Values::kNormal);
}

size_t Model::OutputWidth(Stage stage) const {
  return stage == Stage::kDense1Relu ? shape_.d_ff : shape_.d_model;
}

void Model::Reference(Stage stage, ffnorm_class rounding, size_t rows,
                      const float* x, float* y) const {
  const ffnorm_params params = Params();
  const size_t d_model = shape_.d_model;
  const size_t d_ff = shape_.d_ff;
  if (stage == Stage::kDense1Relu) {
    Require(ffnorm_reference_dense(&params, rounding, FFNORM_DENSE_1,
                                   FFNORM_RELU, rows, x, d_model, y, d_ff));
  } else if (stage == Stage::kDense2) {
    Require(ffnorm_reference_dense(&params, rounding, FFNORM_DENSE_2,
                                   FFNORM_LINEAR, rows, x, d_ff, y, d_model));
  } else {
    const ffnorm_order order =
        stage == Stage::kPreLn ? FFNORM_PRE_LN : FFNORM_POST_LN;
    size_t bytes = 0;
    Require(ffnorm_reference_workspace_bytes(&params, &bytes));
    std::vector<float> workspace((bytes + sizeof(float) - 1) / sizeof(float));
    Require(ffnorm_reference_forward(&params, rounding, order, rows, x, d_model,
                                     y, d_model, workspace.data(), bytes));
  }
}

bool Model::Check(Stage stage, ffnorm_class rounding, size_t rows,
                  const float* y) {
  const size_t width = OutputWidth(stage);
  const size_t input_width =
      stage == Stage::kDense2 ? shape_.d_ff : shape_.d_model;
  for (const size_t row : CheckedRows(rows)) {
    std::vector<float>& expected = expected_[{stage, rounding, row}];
    if (expected.empty()) {
      expected.resize(width);
      Reference(stage, rounding, 1, Input(stage) + row * input_width,
                expected.data());
    }
    if (!SameBits(y + row * width, expected.data(), width)) return false;
  }
  return true;
}

ffnorm_exec MakeExec(const ffnorm_block& block, size_t rows) {
  Pool& pool = GetPool();
  ffnorm_exec exec = {};
  Require(ffnorm_workspace_bytes(&block, rows, pool.threads(),
                                 &exec.workspace_bytes));
  exec.workspace = Scratch(Use::kWorkspace, exec.workspace_bytes).data();
  exec.threads = pool.threads();
  if (pool.threads() > 1) {
    exec.parallel_for = &Pool::ParallelFor;
    exec.pool = &pool;
  }
  return exec;
}

}  // namespace bench
}  // namespace ffnorm
