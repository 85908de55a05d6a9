// One Dense layer alone: y = activation(x w + b).
#if defined(FFNORM_KERNELS_DENSE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FFNORM_KERNELS_DENSE_INL_H_
#undef FFNORM_KERNELS_DENSE_INL_H_
#else
#define FFNORM_KERNELS_DENSE_INL_H_
#endif

#include <hwy/highway.h>
#include <stddef.h>
#include <string.h>

#include "kernels/matmul-inl.h"
#include "kernels/packed.h"
#include "kernels/plan.h"
#include "kernels/shape.h"
#include "kernels/target.h"

HWY_BEFORE_NAMESPACE();
namespace ffnorm {
namespace HWY_NAMESPACE {
namespace {

// Columns [k0, k0 + terms) of `rows` rows into one block of a left panel.
HWY_INLINE void CopyToLeftBlock(const float* x, size_t x_stride, size_t rows,
                                size_t k0, size_t terms, float* left) {
  for (size_t r = 0; r < rows; ++r) {
    memcpy(left + r * kBlockK, x + r * x_stride + k0, terms * sizeof(float));
  }
}

// All columns of `rows` rows into a left panel.
HWY_INLINE void CopyToLeftPanel(const float* x, size_t x_stride, size_t rows,
                                size_t columns, const BlockedRows& left) {
  for (size_t k0 = 0; k0 < columns; k0 += kBlockK) {
    CopyToLeftBlock(x, x_stride, rows, k0, HWY_MIN(columns - k0, kBlockK),
                    left.At(0, k0));
  }
}

// One of a block's two layers, as the matmuls see it.
struct Layer {
  size_t k;
  size_t n;
  const float* panels;
  bool cpu_reads_ahead;
};
HWY_INLINE Layer LayerOf(const ffnorm_block& block, ffnorm_layer layer) {
  PackedLayout layout = {};
  LayoutOf(block.d_model, block.d_ff, &layout);
  const float* floats = reinterpret_cast<const float*>(block.packed);
  const bool reads_ahead = CpuReadsAhead(block);
  if (layer == FFNORM_DENSE_1) {
    return {block.d_model, block.d_ff, floats + layout.w1, reads_ahead};
  }
  return {block.d_ff, block.d_model, floats + layout.w2, reads_ahead};
}

// A layer applied to rows whose units may not be left out, with room for whole
// panels in `out`.
HWY_INLINE Matmul MatmulOf(const Layer& layer, const BlockedRows& left,
                           size_t rows, Epilogue epilogue,
                           const BlockedRows& out) {
  Matmul matmul = {};
  matmul.left = left;
  matmul.rows = rows;
  matmul.k = layer.k;
  matmul.panels = layer.panels;
  matmul.n = layer.n;
  matmul.epilogue = epilogue;
  matmul.out = out;
  matmul.cpu_reads_ahead = layer.cpu_reads_ahead;
  return matmul;
}

// Panels that one of the tasks gets at most, in shares of so many.
HWY_INLINE size_t MostPanels(size_t panels, size_t per_share, size_t tasks) {
  return HWY_MIN(CeilDiv(CeilDiv(panels, per_share), tasks) * per_share,
                 panels);
}

// Panels of one share of a matmul whose columns are shared: a few shares for
// each task, of whole groups of the panels that are read at once, or of half a
// group where that deals them more evenly.
HWY_INLINE size_t PanelsPerShare(size_t at_once, size_t n, size_t tasks) {
  const size_t panels = NumPanels(n);
  const size_t groups =
      HWY_MAX(panels / kSharesPerTask / tasks / at_once, size_t{1});
  const size_t whole = HWY_MIN(groups * at_once, kPanelsPerShare);
  const size_t half = HWY_MAX(at_once / 2, size_t{1});
  const bool by_halves = MostPanels(panels, half, tasks) * 100 <=
                         MostPanels(panels, whole, tasks) * kHalfGroupPercent;
  return by_halves ? half : whole;
}

// Runs a matmul over the column shares that this task gets, and `finish` on the
// columns of each.
template <class Finish>
HWY_INLINE void ShareColumns(const Matmul& matmul, size_t panels_per_share,
                             const Deal& shares, size_t task,
                             const Finish& finish) {
  const size_t panels = NumPanels(matmul.n);
  Taker taker(shares, task);
  const auto panel_at = [&matmul](size_t panel) {
    return matmul.panels + panel * PanelFloats(matmul.k);
  };
  for (size_t share = taker.Take(); share < shares.parts;) {
    const size_t begin = share * panels_per_share;
    const size_t end = HWY_MIN(begin + panels_per_share, panels);
    // The last panel prefetches the next share, which is taken no earlier: else
    // one task could have taken two before another came. (Tiles for few rows
    // prefetch in the panels they read.)
    const size_t at_once = PanelsAtOnce(matmul);
    const bool prefetches = PanelsOfTile(matmul) == 1 && end - begin > at_once;
    const size_t last = prefetches ? end - at_once : end;
    MatmulColumns(matmul, begin, last, panel_at(last));
    share = taker.Take();
    MatmulColumns(
        matmul, last, end,
        panel_at(share < shares.parts ? share * panels_per_share : end));
    const size_t column = begin * kPanelWidth;
    finish(column, HWY_MIN(end * kPanelWidth, matmul.n) - column);
  }
}

// A whole call, shared by its tasks.
struct DenseCall {
  const DenseArgs* args;
  Layer layer;
  Epilogue epilogue;
  RowBlocks cut;  // where rows are shared
  Matmul matmul;  // where columns are shared
  size_t panels_per_share;
  Deal parts;             // blocks of rows, or shares of columns
  float* buffers;         // where rows are shared, a slot for each task
  size_t buffers_stride;  // floats from slot to slot
};

// Some rows, all columns, a block of K at a time, with totals kept in y.
HWY_INLINE void DenseRows(const DenseCall& call, size_t begin, size_t end,
                          float* slot) {
  const DenseArgs& args = *call.args;
  const float* x = args.x + begin * args.x_stride;
  const size_t rows = end - begin;
  float* left = slot;
  Matmul matmul =
      MatmulOf(call.layer, {left, kBlockK, 0}, rows, call.epilogue,
               RowMajor(args.y + begin * args.y_stride, args.y_stride));
  matmul.last_panel = slot + rows * kBlockK;
  const size_t blocks = CeilDiv(call.layer.k, kBlockK);
  for (size_t block = 0; block < blocks; ++block) {
    const size_t k0 = block * kBlockK;
    CopyToLeftBlock(x, args.x_stride, rows, k0,
                    HWY_MIN(call.layer.k - k0, kBlockK), left);
    const float* after = call.layer.panels + (k0 + kBlockK + 1) * kPanelWidth;
    MatmulBlock(matmul, block, after);
  }
}

void DenseRowsTask(void* context, size_t index) {
  const DenseCall& call = *static_cast<const DenseCall*>(context);
  float* slot = call.buffers + index * call.buffers_stride;
  Taker taker(call.parts, index);
  for (size_t block; (block = taker.Take()) < call.cut.blocks;) {
    DenseRows(call, call.cut.Begin(block), call.cut.Begin(block + 1), slot);
  }
}

void DenseColumnsTask(void* context, size_t index) {
  const DenseCall& call = *static_cast<const DenseCall*>(context);
  ShareColumns(call.matmul, call.panels_per_share, call.parts, index,
               [](size_t, size_t) HWY_ATTR {});
}

void Dense(const DenseArgs& args) {
  const size_t tasks = Tasks(*args.exec);
  DenseCall call = {};
  call.args = &args;
  call.layer = LayerOf(*args.block, args.layer);
  call.epilogue =
      args.activation == FFNORM_RELU ? Epilogue::kBiasRelu : Epilogue::kBias;
  Counter* counters = static_cast<Counter*>(args.exec->workspace);
  float* buffers = reinterpret_cast<float*>(
      counters + MaxTasks(*args.block, args.rows, tasks));
  if (SharesColumns(*args.block, args.rows, tasks)) {
    const BlockedRows left = LeftPanel(buffers, args.rows);
    CopyToLeftPanel(args.x, args.x_stride, args.rows, call.layer.k, left);
    call.matmul = MatmulOf(call.layer, left, args.rows, call.epilogue,
                           RowMajor(args.y, args.y_stride));
    call.matmul.last_panel = buffers + LeftPanelFloats(args.rows, call.layer.k);
    call.panels_per_share =
        PanelsPerShare(PanelsAtOnce(call.matmul), call.layer.n, tasks);
    call.parts = DealParts(ColumnShares(call.layer.n, call.panels_per_share),
                           tasks, counters);
    RunTasks(*args.exec, call.parts, &DenseColumnsTask, &call);
  } else {
    call.cut = CutRows(*args.block, args.rows, tasks);
    RowBuffers slot = {};
    RowsSlot(*args.block, args.rows, &slot);
    call.buffers = buffers;
    call.buffers_stride = slot.size;
    call.parts = DealParts(call.cut.blocks, tasks, counters);
    RunTasks(*args.exec, call.parts, &DenseRowsTask, &call);
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace ffnorm
HWY_AFTER_NAMESPACE();

#endif  // include guard
