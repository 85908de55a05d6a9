// Random shapes and values: each target against the reference of its class, all
// bits equal, with every array against a guard page.
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <vector>

#include "ffnorm/ffnorm.h"
#include "tests/bits.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/random_data.h"

namespace ffnorm {
namespace fuzz {
namespace {

using test::Mode;
using test::Random;

constexpr size_t kMostWidth = 600;
constexpr size_t kMostRows = 130;
constexpr size_t kMostMultiplyAdds = 100000;

// Pages for one array each, made once.
struct Pages {
  GuardedPages x{kMostRows * (kMostWidth + 8) * sizeof(float)};
  GuardedPages y{kMostRows * (kMostWidth + 8) * sizeof(float)};
  GuardedPages packed{size_t{1} << 23};
  GuardedPages workspace{size_t{1} << 24};
};

// Values of one kind, or any bits (NaN and Inf among them), or the input's own
// bytes.
void Fill(Input* input, std::vector<float>* values) {
  constexpr size_t kModes = sizeof(test::kAllModes) / sizeof(Mode);
  const size_t kind = input->Byte() % (kModes + 2);
  Random random(input->Next<uint32_t>());
  for (size_t i = 0; i < values->size(); ++i) {
    float& value = (*values)[i];
    if (kind < kModes) {
      value = Draw(test::kAllModes[kind], i, random);
    } else if (kind == kModes) {
      value = test::FromBits(static_cast<uint32_t>(random.Next()));
    } else {
      value = input->Next<float>();
    }
  }
  // A few that are special.
  constexpr uint32_t kSpecial[] = {0x7f800000, 0xff800000, 0x7fc00000,
                                   0x80000000, 0x00000001, 0x7f7fffff};
  for (size_t i = input->Byte() % 4; i != 0; --i) {
    (*values)[input->Below(values->size())] =
        test::FromBits(kSpecial[input->Byte() % 6]);
  }
}

struct Problem {
  ffnorm_params params;
  size_t rows;
  size_t x_gap;
  size_t y_gap;
  size_t tasks;
  bool at_end;
  bool in_place;
  std::vector<float> w1, b1, w2, b2, scale, offset;
};

Problem Draw(Input* input) {
  Problem p;
  const auto width = [&] {
    return input->Rarely(4) ? input->Below(kMostWidth) + 1
                            : input->Byte() % 70u + 1;
  };
  const size_t D = width();
  const size_t H = width();
  p.rows =
      input->Rarely(4) ? input->Byte() % kMostRows + 1 : input->Byte() % 9u + 1;
  const size_t most = kMostMultiplyAdds / (D * H) + 1;
  if (p.rows > most) p.rows = most;
  const uint8_t options = input->Byte();
  p.x_gap = options % 4;
  p.y_gap = options / 4 % 4;
  p.at_end = (options & 16) != 0;
  p.in_place = (options & 32) != 0;
  p.tasks = input->Byte() % 5;
  p.params = ffnorm_default_params(D, H);
  constexpr float kEpsilons[] = {FFNORM_DEFAULT_EPSILON, 1e-5f, 0.0f, 1e-30f};
  p.params.epsilon = kEpsilons[options >> 6];
  p.w1.resize(D * H);
  p.b1.resize(H);
  p.w2.resize(H * D);
  p.b2.resize(D);
  p.scale.resize(D);
  p.offset.resize(D);
  for (auto* values : {&p.w1, &p.b1, &p.w2, &p.b2, &p.scale, &p.offset}) {
    Fill(input, values);
  }
  const uint8_t missing = input->Byte();
  p.params.layout = (missing & 1) != 0 ? FFNORM_OUT_IN : FFNORM_IN_OUT;
  p.params.w1 = p.w1.data();
  p.params.w2 = p.w2.data();
  p.params.b1 = (missing & 2) != 0 ? nullptr : p.b1.data();
  p.params.b2 = (missing & 4) != 0 ? nullptr : p.b2.data();
  p.params.scale = (missing & 8) != 0 ? nullptr : p.scale.data();
  p.params.offset = (missing & 16) != 0 ? nullptr : p.offset.data();
  return p;
}

// One of the calls that may be compared.
struct Stage {
  enum Kind { kPreLn, kPostLn, kDense1, kDense2, kLayerNorm, kResidual };
  Kind kind;
  ffnorm_activation activation;
  size_t inputs;
  size_t outputs;
};

void RunReference(const Problem& p, const Stage& stage, ffnorm_class rounding,
                  const std::vector<float>& x, std::vector<float>* y) {
  const ffnorm_params& params = p.params;
  const size_t in = stage.inputs;
  const size_t out = stage.outputs;
  ffnorm_status status = FFNORM_OK;
  if (stage.kind == Stage::kPreLn || stage.kind == Stage::kPostLn) {
    size_t bytes = 0;
    ffnorm_reference_workspace_bytes(&params, &bytes);
    std::vector<float> scratch(bytes / sizeof(float));
    status = ffnorm_reference_forward(
        &params, rounding,
        stage.kind == Stage::kPreLn ? FFNORM_PRE_LN : FFNORM_POST_LN, p.rows,
        x.data(), in, y->data(), out, scratch.data(), bytes);
  } else if (stage.kind == Stage::kLayerNorm) {
    status = ffnorm_reference_layer_norm(in, params.epsilon, params.scale,
                                         params.offset, p.rows, x.data(), in,
                                         y->data(), out);
  } else if (stage.kind == Stage::kResidual) {
    status = ffnorm_reference_residual_add(in, p.rows, x.data(), in, x.data(),
                                           in, y->data(), out);
  } else {
    status = ffnorm_reference_dense(
        &params, rounding,
        stage.kind == Stage::kDense1 ? FFNORM_DENSE_1 : FFNORM_DENSE_2,
        stage.activation, p.rows, x.data(), in, y->data(), out);
  }
  Require(status == FFNORM_OK, "the reference refused");
}

ffnorm_status RunTarget(const Problem& p, const Stage& stage,
                        const ffnorm_block& block, const float* x,
                        size_t x_stride, float* y, size_t y_stride,
                        const ffnorm_exec* exec) {
  switch (stage.kind) {
    case Stage::kPreLn:
    case Stage::kPostLn:
      return ffnorm_forward(
          &block, stage.kind == Stage::kPreLn ? FFNORM_PRE_LN : FFNORM_POST_LN,
          p.rows, x, x_stride, y, y_stride, exec);
    case Stage::kDense1:
    case Stage::kDense2:
      return ffnorm_dense(
          &block,
          stage.kind == Stage::kDense1 ? FFNORM_DENSE_1 : FFNORM_DENSE_2,
          stage.activation, p.rows, x, x_stride, y, y_stride, exec);
    case Stage::kLayerNorm:
      return ffnorm_layer_norm(block.target, stage.inputs, p.params.epsilon,
                               p.params.scale, p.params.offset, p.rows, x,
                               x_stride, y, y_stride);
    case Stage::kResidual:
      return ffnorm_residual_add(block.target, stage.inputs, p.rows, x,
                                 x_stride, x, x_stride, y, y_stride);
  }
  return FFNORM_INVALID_ARGUMENT;
}

// The rows of `x`, `stride` apart, in guarded pages; without x, not
// initialized. The gaps are NaN.
float* Place(GuardedPages* pages, const Problem& p, size_t columns,
             size_t stride, const std::vector<float>* x) {
  float* to = pages->Floats((p.rows - 1) * stride + columns, p.at_end);
  for (size_t r = 0; r < p.rows; ++r) {
    float* row = to + r * stride;
    if (x != nullptr) {
      memcpy(row, x->data() + r * columns, columns * sizeof(float));
    }
    if (r + 1 < p.rows) {
      memset(row + columns, 0xff, (stride - columns) * sizeof(float));
    }
  }
  return to;
}

void Compare(const Problem& p, const Stage& stage, const ffnorm_block& block,
             const std::vector<float>& x, const std::vector<float>& want,
             Pages* pages) {
  const bool in_place = p.in_place && stage.inputs == stage.outputs &&
                        stage.kind != Stage::kDense1 &&
                        stage.kind != Stage::kDense2;
  const size_t x_stride = stage.inputs + p.x_gap;
  const size_t y_stride = in_place ? x_stride : stage.outputs + p.y_gap;
  float* from = Place(&pages->x, p, stage.inputs, x_stride, &x);
  float* to =
      in_place ? from : Place(&pages->y, p, stage.outputs, y_stride, nullptr);
  size_t bytes = 0;
  Require(ffnorm_workspace_bytes(&block, p.rows, p.tasks, &bytes) == FFNORM_OK,
          "workspace_bytes");
  const ffnorm_exec exec = {pages->workspace.Take(bytes, p.at_end), bytes,
                            &Reversed, nullptr, p.tasks};
  Require(RunTarget(p, stage, block, from, x_stride, to, y_stride, &exec) ==
              FFNORM_OK,
          "a target refused what the reference took");
  for (size_t r = 0; r < p.rows; ++r) {
    for (size_t c = 0; c < y_stride; ++c) {
      if (r + 1 == p.rows && c >= stage.outputs) break;
      const float got = to[r * y_stride + c];
      if (c >= stage.outputs) {
        Require(test::Bits(got) == 0xffffffff, "a gap was written to");
      } else if (!test::SameBits(got, want[r * stage.outputs + c])) {
        std::fprintf(stderr, "%s (%zu, %zu), rows %zu, stage %d: [%zu, %zu]\n",
                     ffnorm_target_name(block.target), p.params.d_model,
                     p.params.d_ff, p.rows, static_cast<int>(stage.kind), r, c);
        Fail("bits differ from the reference");
      }
    }
  }
}

void RunDifferential(Input input) {
  static const std::vector<const ffnorm_target*> targets = Targets();
  static Pages pages;
  const Problem p = Draw(&input);
  const size_t D = p.params.d_model;
  const size_t H = p.params.d_ff;
  size_t bytes = 0;
  Require(ffnorm_packed_bytes(&p.params, &bytes) == FFNORM_OK, "packed_bytes");
  void* packed = pages.packed.Take(bytes, p.at_end);
  Require(ffnorm_pack(&p.params, packed, bytes) == FFNORM_OK, "pack");

  const uint8_t which = input.Byte();
  const Stage::Kind kind = static_cast<Stage::Kind>(which % 6);
  const Stage stage = {kind, (which & 64) != 0 ? FFNORM_RELU : FFNORM_LINEAR,
                       kind == Stage::kDense2 ? H : D,
                       kind == Stage::kDense1 ? H : D};
  std::vector<float> x(p.rows * stage.inputs);
  Fill(&input, &x);
  std::vector<float> want[2];
  for (const ffnorm_target* target : targets) {
    ffnorm_block block = {};
    Require(ffnorm_open(packed, bytes, target, &block) == FFNORM_OK, "open");
    const ffnorm_class rounding = ffnorm_target_class(target);
    std::vector<float>& y = want[rounding];
    if (y.empty()) {
      y.resize(p.rows * stage.outputs);
      RunReference(p, stage, rounding, x, &y);
    }
    Compare(p, stage, block, x, y, &pages);
  }
}

}  // namespace
}  // namespace fuzz
}  // namespace ffnorm

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  ffnorm::fuzz::RunDifferential(ffnorm::fuzz::Input(data, size));
  return 0;
}
