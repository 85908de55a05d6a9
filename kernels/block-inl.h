// Both blocks, fused: x rows to y rows.
//
//   x rows -> LayerNorm -> left panel -> matmul 1 + bias + ReLU -> hidden panel
//     -> matmul 2 (of active units) + bias -> totals + x (-> LayerNorm) -> y
//     rows
//
// Pre-LN has the first LayerNorm, Post-LN the second. Rows are shared among
// tasks (BlockRows...) or, when there are few, columns (BlockColumns...).
#if defined(FFNORM_KERNELS_BLOCK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FFNORM_KERNELS_BLOCK_INL_H_
#undef FFNORM_KERNELS_BLOCK_INL_H_
#else
#define FFNORM_KERNELS_BLOCK_INL_H_
#endif

#include <hwy/highway.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "kernels/active-inl.h"
#include "kernels/dense-inl.h"
#include "kernels/layer_norm-inl.h"
#include "kernels/matmul-inl.h"
#include "kernels/packed.h"
#include "kernels/plan.h"
#include "kernels/residual_add-inl.h"
#include "kernels/shape.h"
#include "kernels/target.h"

HWY_BEFORE_NAMESPACE();
namespace ffnorm {
namespace HWY_NAMESPACE {
namespace {

// A whole call, shared by its tasks.
struct BlockCall {
  const ForwardArgs* args;
  size_t d_model;
  size_t d_ff;
  Layer layer1;
  Layer layer2;
  NormParams norm;
  RowBlocks cut;      // where rows are shared
  Counter* counters;  // one for each phase
  float* buffers;     // a slot for each task, or one for all
  RowBuffers slot;
  size_t totals_stride;
  size_t panels_per_share2;  // of matmul 2, where columns are shared
  bool may_skip;             // hidden units that are off
};

// A unit of 0 times a weight of Inf or NaN is not nothing. (And a list must be
// able to number the units of a few panels.)
HWY_INLINE bool MaySkip(const ffnorm_block& block) {
  PackedHeader header;
  memcpy(&header, block.packed, sizeof(header));
  return (header.flags & kFiniteW2) != 0 && block.d_ff < (size_t{1} << 28);
}

// The lists of `rows` rows, over `columns` hidden columns.
HWY_INLINE ActiveUnits ActiveUnitsOf(const BlockCall& call, float* slot,
                                     size_t rows, size_t columns) {
  const bool far = IsFar(*call.args->block);
  const ReadTuning& read =
      call.layer2.cpu_reads_ahead ? kTuning.reads_ahead : kTuning.read;
  const size_t percent = rows > kTuning.tile_rows ? kTuning.active_percent
                         : far                    ? read.active_percent_far
                                                  : read.active_percent_alone;
  return {ActiveListsOf(columns),
          reinterpret_cast<uint32_t*>(slot + call.slot.active), rows, columns,
          percent};
}

// Rows of a panel of W2, and its bias, from one strip to the next.
HWY_INLINE size_t UnitsToNextPanels(const BlockCall& call, size_t rows) {
  return PanelsAtOnce(rows) * (call.d_ff + 1);
}

// First stage: `rows` rows of x, normalized for Pre-LN, as a left panel.
HWY_INLINE void RowsToLeftPanel(const BlockCall& call, const float* x,
                                size_t rows, const BlockedRows& left) {
  const size_t x_stride = call.args->x_stride;
  if (call.args->order == FFNORM_POST_LN) {
    CopyToLeftPanel(x, x_stride, rows, call.d_model, left);
    return;
  }
  LayerNormRows(call.norm, x, x_stride, rows, left);
}

// Last stage for Pre-LN: y = x + v.
HWY_INLINE void TotalsToPreLn(const BlockCall& call, size_t row, size_t rows,
                              size_t column, size_t columns, float* totals) {
  const ForwardArgs& args = *call.args;
  for (size_t r = 0; r < rows; ++r) {
    ResidualAddRow(args.x + (row + r) * args.x_stride + column,
                   totals + r * call.totals_stride + column, columns,
                   args.y + (row + r) * args.y_stride + column);
  }
}

// Last stage for Post-LN: y = LN(x + v), the sum formed in place of v.
HWY_INLINE void TotalsToPostLn(const BlockCall& call, size_t row, size_t rows,
                               float* totals) {
  const ForwardArgs& args = *call.args;
  for (size_t r = 0; r < rows; ++r) {
    float* v = totals + r * call.totals_stride;
    ResidualAddRow(args.x + (row + r) * args.x_stride, v, call.d_model, v);
  }
  LayerNormRows(call.norm, totals, call.totals_stride, rows,
                RowMajor(args.y + row * args.y_stride, args.y_stride));
}

// ---- Rows shared: a block of rows passes through everything -----------------

// d_ff is walked one block of K at a time: matmul 1 computes these hidden
// columns whole, and matmul 2 adds their block sum to the totals. So only
// kBlockK columns of the hidden rows ever exist.
HWY_INLINE void BlockRows(const BlockCall& call, size_t begin, size_t end,
                          float* slot) {
  const ForwardArgs& args = *call.args;
  const size_t rows = end - begin;
  float* hidden = slot + call.slot.hidden;
  float* totals = slot + call.slot.totals;
  // Every block of hidden columns goes to the same place.
  const BlockedRows hidden_block = {hidden, kBlockK, 0};

  const Matmul matmul1 = {LeftPanel(slot, rows),
                          rows,
                          call.layer1.k,
                          call.layer1.panels,
                          call.layer1.n,
                          Epilogue::kBiasRelu,
                          hidden_block,
                          nullptr,
                          nullptr,
                          call.layer1.cpu_reads_ahead};
  ActiveUnits active = ActiveUnitsOf(call, slot, rows, kBlockK);
  const Matmul matmul2 = {hidden_block,
                          rows,
                          call.layer2.k,
                          call.layer2.panels,
                          call.layer2.n,
                          Epilogue::kBias,
                          RowMajor(totals, call.totals_stride),
                          nullptr,
                          call.may_skip ? &active : nullptr,
                          call.layer2.cpu_reads_ahead};

  RowsToLeftPanel(call, args.x + begin * args.x_stride, rows, matmul1.left);
  const size_t panels1 = NumPanels(call.d_ff);
  for (size_t panel = 0; panel < panels1; panel += kPanelsPerBlock) {
    const size_t panel_end = HWY_MIN(panel + kPanelsPerBlock, panels1);
    const size_t k0 = panel * kPanelWidth;
    const float* weights2 = matmul2.panels + (k0 + 1) * kPanelWidth;
    const float* next1 = matmul1.panels + panel_end * PanelFloats(call.d_model);
    MatmulColumns(matmul1, panel, panel_end, weights2);
    if (call.may_skip) {
      active.columns = HWY_MIN(kBlockK, call.d_ff - k0);
      for (size_t tile = 0; tile < active.Tiles(); ++tile) {
        for (size_t share = 0; share < active.Shares(); ++share) {
          ListShare(active, hidden_block, tile, share);
        }
        Join(active, tile, UnitsToNextPanels(call, rows));
      }
    }
    MatmulBlock(matmul2, panel / kPanelsPerBlock, next1);
  }
  if (args.order == FFNORM_PRE_LN) {
    TotalsToPreLn(call, begin, rows, 0, call.d_model, totals);
  } else {
    TotalsToPostLn(call, begin, rows, totals);
  }
}

void BlockRowsTask(void* context, size_t index) {
  const BlockCall& call = *static_cast<const BlockCall*>(context);
  float* slot = call.buffers + index * call.slot.size;
  for (size_t block; (block = call.counters[0].Take()) < call.cut.blocks;) {
    BlockRows(call, call.cut.Begin(block), call.cut.Begin(block + 1), slot);
  }
}

// ---- Columns shared: one phase for each matmul ------------------------------

void BlockColumnsTask1(void* context, size_t /*index*/) {
  const BlockCall& call = *static_cast<const BlockCall*>(context);
  const size_t rows = call.args->rows;
  const Matmul matmul1 = {LeftPanel(call.buffers, rows),
                          rows,
                          call.layer1.k,
                          call.layer1.panels,
                          call.layer1.n,
                          Epilogue::kBiasRelu,
                          LeftPanel(call.buffers + call.slot.hidden, rows),
                          nullptr,
                          nullptr,
                          call.layer1.cpu_reads_ahead};
  const ActiveUnits active = ActiveUnitsOf(call, call.buffers, rows, call.d_ff);
  ShareColumns(
      matmul1, kPanelsPerShare, &call.counters[0],
      [&](size_t column, size_t) HWY_ATTR {
        for (size_t tile = 0; call.may_skip && tile < active.Tiles(); ++tile) {
          ListShare(active, matmul1.out, tile, column / kUnitsPerShare);
        }
      });
}

void BlockColumnsTask2(void* context, size_t /*index*/) {
  const BlockCall& call = *static_cast<const BlockCall*>(context);
  const size_t rows = call.args->rows;
  float* totals = call.buffers + call.slot.totals;
  const ActiveUnits active = ActiveUnitsOf(call, call.buffers, rows, call.d_ff);
  const Matmul matmul2 = {LeftPanel(call.buffers + call.slot.hidden, rows),
                          rows,
                          call.layer2.k,
                          call.layer2.panels,
                          call.layer2.n,
                          Epilogue::kBias,
                          RowMajor(totals, call.totals_stride),
                          nullptr,
                          call.may_skip ? &active : nullptr,
                          call.layer2.cpu_reads_ahead};
  ShareColumns(matmul2, call.panels_per_share2, &call.counters[1],
               [&](size_t column, size_t columns) HWY_ATTR {
                 if (call.args->order == FFNORM_PRE_LN) {
                   TotalsToPreLn(call, 0, rows, column, columns, totals);
                 }
               });
}

void BlockColumns(BlockCall* call, size_t tasks) {
  const ForwardArgs& args = *call->args;
  RowsToLeftPanel(*call, args.x, args.rows,
                  LeftPanel(call->buffers, args.rows));
  call->panels_per_share2 = PanelsPerShare(args.rows, call->d_model, tasks);
  RunTasks(*args.exec, MinOf(tasks, ColumnShares(call->d_ff, kPanelsPerShare)),
           &BlockColumnsTask1, call);
  if (call->may_skip) {
    const ActiveUnits active =
        ActiveUnitsOf(*call, call->buffers, args.rows, call->d_ff);
    for (size_t tile = 0; tile < active.Tiles(); ++tile) {
      Join(active, tile, UnitsToNextPanels(*call, args.rows));
    }
  }
  RunTasks(*args.exec,
           MinOf(tasks, ColumnShares(call->d_model, call->panels_per_share2)),
           &BlockColumnsTask2, call);
  if (args.order == FFNORM_POST_LN) {
    TotalsToPostLn(*call, 0, args.rows, call->buffers + call->slot.totals);
  }
}

void Forward(const ForwardArgs& args) {
  const ffnorm_block& block = *args.block;
  const ffnorm_target& target = *block.target;
  const size_t tasks = Tasks(*args.exec);
  PackedLayout layout = {};
  LayoutOf(block.d_model, block.d_ff, &layout);
  const float* packed = reinterpret_cast<const float*>(block.packed);

  BlockCall call = {};
  call.args = &args;
  call.d_model = block.d_model;
  call.d_ff = block.d_ff;
  call.layer1 = LayerOf(block, FFNORM_DENSE_1);
  call.layer2 = LayerOf(block, FFNORM_DENSE_2);
  call.norm = {block.d_model, block.epsilon, packed + layout.scale,
               packed + layout.offset};
  call.totals_stride = TotalsStride(block.d_model);
  call.may_skip = MaySkip(block);
  call.counters = static_cast<Counter*>(args.exec->workspace);
  for (size_t i = 0; i < kMaxPhases; ++i) call.counters[i].Reset();
  call.buffers = reinterpret_cast<float*>(
      static_cast<unsigned char*>(args.exec->workspace) + kCounterBytes);

  if (SharesColumns(block, args.rows, tasks)) {
    RowBuffersOf(target, args.rows, block.d_model, block.d_ff, &call.slot);
    BlockColumns(&call, tasks);
  } else {
    call.cut = CutRows(block, args.rows, tasks);
    RowBuffersOf(target,
                 MinOf(args.rows, TilesPerBlock(target) * target.tile_rows),
                 block.d_model, kBlockK, &call.slot);
    RunTasks(*args.exec, MinOf(tasks, call.cut.blocks), &BlockRowsTask, &call);
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace ffnorm
HWY_AFTER_NAMESPACE();

#endif  // include guard
