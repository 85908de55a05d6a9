// Guard pages on both sides of every array, canaries in the gaps between rows,
// NaN in whatever a call may not read: each call on each target gives the bits
// of the reference, and touches nothing else.
//
// Sizes: d_model and d_ff 1 to 40, each with each. The rows go through 1 to 9
// as a Latin square does, so that each d_model and each d_ff meets all of them
// at both edges; gaps and tasks vary as well. Then, at both edges, the sizes
// around whole vectors, panels, groups of panels and K blocks, and rows enough
// for several blocks.
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <vector>

#include "tests/buffers.h"
#include "tests/model.h"
#include "tests/random_data.h"
#include "tests/test_util.h"

namespace ffnorm {
namespace test {
namespace {

using Edge = GuardedBuffer::Edge;

struct Case {
  size_t d_model;
  size_t d_ff;
  size_t rows;
  size_t tasks;
  size_t gap;  // floats between the rows of x; y has another one
  Edge edge;
};

// A (rows, columns) matrix against a guard page. Between the rows is a NaN that
// no arithmetic makes.
class GuardedRows {
 public:
  GuardedRows(size_t rows, size_t columns, size_t gap, Edge edge)
      : rows_(rows),
        columns_(columns),
        stride_(columns + gap),
        buffer_((rows - 1) * stride_ + columns, edge) {
    for (size_t r = 0; r + 1 < rows; ++r) {
      for (size_t i = 0; i < gap; ++i) Gap(r)[i] = FromBits(kCanary);
    }
  }

  GuardedRows(const std::vector<float>& values, size_t rows, size_t columns,
              size_t gap, Edge edge)
      : GuardedRows(rows, columns, gap, edge) {
    for (size_t r = 0; r < rows; ++r) {
      memcpy(data() + r * stride_, values.data() + r * columns,
             columns * sizeof(float));
    }
  }

  float* data() { return buffer_.data(); }
  const float* data() const { return buffer_.data(); }
  size_t stride() const { return stride_; }

  bool Intact() const {
    for (size_t r = 0; r + 1 < rows_; ++r) {
      const float* gap = data() + r * stride_ + columns_;
      for (size_t i = 0; i < stride_ - columns_; ++i) {
        if (Bits(gap[i]) != kCanary) return false;
      }
    }
    return buffer_.CanariesIntact();
  }

  void CheckValues(const std::vector<float>& want) const {
    CheckSameBits(rows_, columns_, data(), stride_, want.data(), columns_);
  }

 private:
  static constexpr uint32_t kCanary = 0xffc0ffee;

  float* Gap(size_t row) { return data() + row * stride_ + columns_; }

  size_t rows_;
  size_t columns_;
  size_t stride_;
  GuardedBuffer buffer_;
};

// The model's parameters, each against a guard page.
struct GuardedParams {
  GuardedParams(const Model& model, Edge edge)
      : w1(model.w1, edge),
        b1(model.b1, edge),
        w2(model.w2, edge),
        b2(model.b2, edge),
        scale(model.scale, edge),
        offset(model.offset, edge),
        params(model.Params()) {
    params.w1 = w1.data();
    params.b1 = b1.data();
    params.w2 = w2.data();
    params.b2 = b2.data();
    params.scale = scale.data();
    params.offset = offset.data();
  }

  bool Intact() const {
    return w1.CanariesIntact() && b1.CanariesIntact() && w2.CanariesIntact() &&
           b2.CanariesIntact() && scale.CanariesIntact() &&
           offset.CanariesIntact();
  }

  GuardedBuffer w1, b1, w2, b2, scale, offset;
  ffnorm_params params;
};

constexpr ffnorm_order kOrders[] = {FFNORM_PRE_LN, FFNORM_POST_LN};
constexpr ffnorm_layer kLayers[] = {FFNORM_DENSE_1, FFNORM_DENSE_2};

// What each call must return on `x` (forward and the first layer), and on
// `hidden` (the second layer).
struct Expected {
  ReferenceCache forward[2];
  ReferenceCache dense[2];
};

std::vector<float> ReferenceDense(const ffnorm_params& params,
                                  ffnorm_class rounding, ffnorm_layer layer,
                                  size_t rows, const std::vector<float>& x) {
  const bool first = layer == FFNORM_DENSE_1;
  const size_t inputs = first ? params.d_model : params.d_ff;
  const size_t outputs = first ? params.d_ff : params.d_model;
  std::vector<float> y(rows * outputs);
  REQUIRE(ffnorm_reference_dense(&params, rounding, layer, FFNORM_RELU, rows,
                                 x.data(), inputs, y.data(),
                                 outputs) == FFNORM_OK);
  return y;
}

// Both orders and both layers on one target.
void RunBlock(const Case& c, const Model& model, const ffnorm_block& block,
              const std::vector<float>& x, const std::vector<float>& hidden,
              Expected* expected) {
  const ffnorm_class rounding = ffnorm_target_class(block.target);
  const size_t bytes = Workspace::Bytes(block, c.rows, c.tasks);
  REQUIRE(bytes % FFNORM_ALIGNMENT == 0);
  GuardedBuffer workspace(bytes / sizeof(float), c.edge);
  Pool pool(Pool::kReversed);
  const ffnorm_exec exec = {workspace.data(), bytes, &Pool::ParallelFor, &pool,
                            c.tasks};
  const GuardedRows in(x, c.rows, c.d_model, c.gap, c.edge);
  const GuardedRows in2(hidden, c.rows, c.d_ff, c.gap, c.edge);
  for (const ffnorm_order order : kOrders) {
    CAPTURE(order);
    FillNaN(workspace.data(), workspace.size());
    GuardedRows y(c.rows, c.d_model, c.gap / 2, c.edge);
    REQUIRE(ffnorm_forward(&block, order, c.rows, in.data(), in.stride(),
                           y.data(), y.stride(), &exec) == FFNORM_OK);
    y.CheckValues(expected->forward[order].Get(rounding, [&](ffnorm_class of) {
      return model.ReferenceForward(of, order, c.rows, x);
    }));
    CHECK(y.Intact());
  }
  for (const ffnorm_layer layer : kLayers) {
    CAPTURE(layer);
    const bool first = layer == FFNORM_DENSE_1;
    FillNaN(workspace.data(), workspace.size());
    GuardedRows y(c.rows, first ? c.d_ff : c.d_model, c.gap / 2, c.edge);
    REQUIRE(ffnorm_dense(&block, layer, FFNORM_RELU, c.rows,
                         first ? in.data() : in2.data(),
                         first ? in.stride() : in2.stride(), y.data(),
                         y.stride(), &exec) == FFNORM_OK);
    y.CheckValues(expected->dense[layer].Get(rounding, [&](ffnorm_class of) {
      return ReferenceDense(model.Params(), of, layer, c.rows,
                            first ? x : hidden);
    }));
    CHECK(y.Intact());
  }
  CHECK(in.Intact());
  CHECK(in2.Intact());
  CHECK(workspace.CanariesIntact());
}

void RunCase(const Case& c) {
  CAPTURE(c.d_model);
  CAPTURE(c.d_ff);
  CAPTURE(c.rows);
  CAPTURE(c.tasks);
  CAPTURE(c.gap);
  CAPTURE(c.edge);
  const Model model(c.d_model, c.d_ff);
  const size_t bytes = model.packed.bytes();
  GuardedBuffer packed(bytes / sizeof(float), c.edge);
  {
    const GuardedParams guarded(model, c.edge);
    REQUIRE(ffnorm_pack(&guarded.params, packed.data(), bytes) == FFNORM_OK);
    CHECK(guarded.Intact());
  }
  CHECK(memcmp(packed.data(), model.packed.data(), bytes) == 0);
  REQUIRE(ffnorm_verify(packed.data(), bytes) == FFNORM_OK);

  const std::vector<float> x = model.Input(c.rows);
  const std::vector<float> hidden =
      Filled(c.rows * c.d_ff, Mode::kGaussian, 99);
  Expected expected;
  ForEachTarget([&](const ffnorm_target* target) {
    RunBlock(c, model, OpenedOn(packed.data(), bytes, target), x, hidden,
             &expected);
  });
  CHECK(memcmp(packed.data(), model.packed.data(), bytes) == 0);
  CHECK(packed.CanariesIntact());
}

// Both edges, and gaps from none to a few floats.
void RunAtBothEdges(size_t d_model, size_t d_ff, size_t rows, size_t tasks) {
  const size_t gap = (d_model + 2 * d_ff + rows) % 5;
  RunCase({d_model, d_ff, rows, tasks, gap, GuardedBuffer::kEnd});
  RunCase({d_model, d_ff, rows, tasks, gap, GuardedBuffer::kBegin});
}

// LayerNorm and the residual alone, in place and not.
void RunStages(size_t width, size_t rows, size_t gap, Edge edge) {
  CAPTURE(width);
  CAPTURE(rows);
  CAPTURE(gap);
  CAPTURE(edge);
  constexpr float kEpsilon = FFNORM_DEFAULT_EPSILON;
  const std::vector<float> x = Filled(rows * width, Mode::kGaussian, 1);
  const std::vector<float> v = Filled(rows * width, Mode::kGaussian, 2);
  const GuardedBuffer scale(Filled(width, Mode::kGaussian, 3), edge);
  const GuardedBuffer offset(Filled(width, Mode::kGaussian, 4), edge);
  std::vector<float> normed(x.size());
  std::vector<float> sum(x.size());
  REQUIRE(ffnorm_reference_layer_norm(width, kEpsilon, scale.data(),
                                      offset.data(), rows, x.data(), width,
                                      normed.data(), width) == FFNORM_OK);
  REQUIRE(ffnorm_reference_residual_add(width, rows, x.data(), width, v.data(),
                                        width, sum.data(), width) == FFNORM_OK);
  const GuardedRows in(x, rows, width, gap, edge);
  const GuardedRows more(v, rows, width, gap / 2, edge);
  ForEachTarget([&](const ffnorm_target* target) {
    GuardedRows y(rows, width, gap + 1, edge);
    REQUIRE(ffnorm_layer_norm(target, width, kEpsilon, scale.data(),
                              offset.data(), rows, in.data(), in.stride(),
                              y.data(), y.stride()) == FFNORM_OK);
    y.CheckValues(normed);
    CHECK(y.Intact());
    GuardedRows z(rows, width, gap + 1, edge);
    REQUIRE(ffnorm_residual_add(target, width, rows, in.data(), in.stride(),
                                more.data(), more.stride(), z.data(),
                                z.stride()) == FFNORM_OK);
    z.CheckValues(sum);
    CHECK(z.Intact());
    GuardedRows same(x, rows, width, gap, edge);
    REQUIRE(ffnorm_layer_norm(target, width, kEpsilon, scale.data(),
                              offset.data(), rows, same.data(), same.stride(),
                              same.data(), same.stride()) == FFNORM_OK);
    same.CheckValues(normed);
    CHECK(same.Intact());
  });
  in.CheckValues(x);
  CHECK(in.Intact());
  CHECK(more.Intact());
}

// Around two and more vectors of the widest target, one to four panels, and one
// and two blocks of K.
constexpr size_t kBoundaries[] = {41,  47,  48,  49,  63,  64,  65,  95,  96,
                                  97,  127, 128, 129, 159, 160, 161, 255, 256,
                                  257, 288, 289, 320, 511, 512, 513};

}  // namespace

TEST_SUITE("guard") {
  TEST_CASE("every d_model and d_ff from 1 to 40") {
    for (size_t d_model = 1; d_model <= 40; ++d_model) {
      for (size_t d_ff = 1; d_ff <= 40; ++d_ff) {
        // 9 is odd: along a row of the square the same number of rows comes
        // with either edge in turn.
        const size_t sum = d_model + d_ff;
        RunCase({d_model, d_ff, 1 + sum % 9, 1 + (d_model + d_ff / 9) % 3,
                 (d_model + 2 * d_ff) % 5,
                 sum % 2 == 0 ? GuardedBuffer::kEnd : GuardedBuffer::kBegin});
      }
    }
  }

  TEST_CASE("around vectors, panels and K blocks, in either size") {
    size_t turn = 0;
    for (const size_t boundary : kBoundaries) {
      for (const size_t other : {size_t{1}, size_t{33}, size_t{257}}) {
        RunAtBothEdges(boundary, other, 1 + turn % 9, 1 + turn % 4);
        RunAtBothEdges(other, boundary, 1 + (turn + 4) % 9, 1 + turn % 3);
        ++turn;
      }
    }
  }

  TEST_CASE("every number of rows at the boundaries that meet") {
    for (size_t rows = 1; rows <= 9; ++rows) {
      for (const size_t d_ff : {size_t{32}, size_t{129}, size_t{257}}) {
        RunAtBothEdges(33, d_ff, rows, 1);
        RunAtBothEdges(257, d_ff, rows, 2);
      }
    }
  }

  TEST_CASE("several blocks of rows") {
    for (const size_t rows : {13, 49, 113, 150}) {
      for (const size_t tasks : {1, 4}) {
        RunAtBothEdges(33, 40, rows, tasks);
        RunAtBothEdges(65, 257, rows, tasks);
        RunAtBothEdges(257, 31, rows, tasks);
      }
    }
  }

  TEST_CASE("LayerNorm and the residual alone") {
    size_t turn = 0;
    const auto run = [&](size_t width) {
      RunStages(width, 1 + turn % 9, turn % 4, GuardedBuffer::kEnd);
      RunStages(width, 1 + (turn + 1) % 9, turn % 4, GuardedBuffer::kBegin);
      ++turn;
    };
    for (size_t width = 1; width <= 40; ++width) run(width);
    for (const size_t width : kBoundaries) run(width);
  }
}

}  // namespace test
}  // namespace ffnorm
