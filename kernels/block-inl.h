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
  RowBlocks cut;  // where rows are shared
  Deal blocks;
  float* buffers;  // a slot for each task, or one for all
  RowBuffers slot;
  size_t totals_stride;
  bool may_skip;  // hidden units that are off
};

// A unit of 0 times a weight of Inf or NaN is not nothing. (And a list must be
// able to number the units of a few panels.)
HWY_INLINE bool MaySkip(const ffnorm_block& block) {
  PackedHeader header;
  memcpy(&header, block.packed, sizeof(header));
  return (header.flags & kFiniteW2) != 0 && block.d_ff < (size_t{1} << 28);
}

// Which hidden units are on, of some rows and some hidden columns.
struct HiddenLists {
  bool by_rows;  // a list for each row, not for each tile of rows
  ActiveTiles of_tiles;
  ActiveRows of_rows;
};

// Few rows wait for weights that come from memory: then it saves most to leave
// out what is off in all of them. Else each row leaves out its own.
HWY_INLINE HiddenLists HiddenListsOf(const BlockCall& call, float* slot,
                                     size_t rows, size_t columns) {
  const Supply supply = SupplyOf(*call.args->block);
  const ReadTuning& read = ReadTuningFor(call.layer2.cpu_reads_ahead);
  const size_t percent = rows == 1   ? read.active_percent_one_row[supply]
                         : rows <= 3 ? read.active_percent_few_rows[supply]
                                     : read.active_percent[supply];
  const size_t row_percent =
      kTuning.row_list_percent[HWY_MIN(rows, kMaxFewRows + 1) - 1];
  float* lists = slot + call.slot.active;
  float* sums = slot + call.slot.sums;
  return {
      rows > kTuning.tile_list_rows[supply],
      {TileListsOf(columns), reinterpret_cast<uint32_t*>(lists), rows, columns,
       percent},
      {reinterpret_cast<uint8_t*>(lists), rows, columns, row_percent, sums, 0}};
}

// Lists one share of hidden columns.
HWY_INLINE void ListHidden(const BlockCall& call, const HiddenLists& lists,
                           const BlockedRows& hidden, size_t share) {
  if (!call.may_skip) return;
  if (lists.by_rows) {
    ListShareOfRows(lists.of_rows, hidden, share);
  } else {
    ListShareOfTiles(lists.of_tiles, hidden, share);
  }
}

// Lets matmul 2 take the lists, all shares of which have been made, where that
// pays. Its tiles go on by so many panels.
HWY_INLINE void UseLists(const BlockCall& call, const HiddenLists& lists,
                         size_t tile_panels, Matmul* matmul2) {
  if (!call.may_skip) return;
  if (lists.by_rows) {
    const bool pays = AreSparse(lists.of_rows);
    if (pays) FillRows(lists.of_rows);
    matmul2->active_rows = pays ? &lists.of_rows : nullptr;
  } else {
    // Rows of a panel of W2, and its bias, from one strip to the next.
    JoinTiles(lists.of_tiles, tile_panels * (call.d_ff + 1));
    matmul2->active_tiles = &lists.of_tiles;
  }
}

// First stage: `rows` rows of x, normalized for Pre-LN, as a left panel. (A
// function of its own, as the last one for Post-LN: the stack of LayerNorm is
// then not under that of the tiles.)
HWY_NOINLINE void RowsToLeftPanel(const BlockCall& call, const float* x,
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
HWY_NOINLINE void TotalsToPostLn(const BlockCall& call, size_t row, size_t rows,
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

  const Matmul matmul1 = MatmulOf(call.layer1, LeftPanel(slot, rows), rows,
                                  Epilogue::kBiasRelu, hidden_block);
  Matmul matmul2 = MatmulOf(call.layer2, hidden_block, rows, Epilogue::kBias,
                            RowMajor(totals, call.totals_stride));
  HiddenLists lists = HiddenListsOf(call, slot, rows, kBlockK);

  RowsToLeftPanel(call, args.x + begin * args.x_stride, rows, matmul1.left);
  const size_t panels1 = NumPanels(call.d_ff);
  for (size_t panel = 0; panel < panels1; panel += kPanelsPerBlock) {
    const size_t panel_end = HWY_MIN(panel + kPanelsPerBlock, panels1);
    const size_t k0 = panel * kPanelWidth;
    const float* weights2 = matmul2.panels + (k0 + 1) * kPanelWidth;
    const float* next1 = matmul1.panels + panel_end * PanelFloats(call.d_model);
    MatmulColumns(matmul1, panel, panel_end, weights2);
    lists.of_tiles.columns = HWY_MIN(kBlockK, call.d_ff - k0);
    lists.of_rows.columns = lists.of_tiles.columns;
    for (size_t share = 0; share < lists.of_rows.Shares(); ++share) {
      ListHidden(call, lists, hidden_block, share);
    }
    UseLists(call, lists, PanelsOfTile(matmul2), &matmul2);
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
  Taker taker(call.blocks, index);
  for (size_t block; (block = taker.Take()) < call.cut.blocks;) {
    BlockRows(call, call.cut.Begin(block), call.cut.Begin(block + 1), slot);
  }
}

// ---- Columns shared: one phase for each matmul ------------------------------

// What all tasks have in common.
struct ColumnsCall {
  const BlockCall* block;
  Matmul matmul1;
  Matmul matmul2;
  HiddenLists lists;
  size_t panels_per_share2;
  Deal shares;  // of this phase
};

// Asks at once for what other tasks have written of a left operand of few rows:
// a tile, which takes it line by line, would wait for another core each time.
// (Of 8 rows it wins nothing.)
HWY_INLINE void PrefetchLeft(const Matmul& m) {
  if (m.rows > kMaxFewRows) return;
  const size_t floats = LeftPanelFloats(m.rows, m.k);
  for (size_t i = 0; i < floats; i += kAlignmentFloats) {
    PrefetchL2(m.left.data + i);
  }
}

void BlockColumnsTask1(void* context, size_t index) {
  const ColumnsCall& call = *static_cast<const ColumnsCall*>(context);
  // (The caller wrote it, which most pools let run task 0.)
  if (index != 0) PrefetchLeft(call.matmul1);
  ShareColumns(call.matmul1, kPanelsPerShare, call.shares, index,
               [&](size_t column, size_t) HWY_ATTR {
                 ListHidden(*call.block, call.lists, call.matmul1.out,
                            column / kUnitsPerShare);
               });
}

void BlockColumnsTask2(void* context, size_t index) {
  const ColumnsCall& call = *static_cast<const ColumnsCall*>(context);
  const Matmul& matmul2 = call.matmul2;
  if (call.shares.tasks > 1) PrefetchLeft(matmul2);
  ShareColumns(matmul2, call.panels_per_share2, call.shares, index,
               [&](size_t column, size_t columns) HWY_ATTR {
                 if (call.block->args->order == FFNORM_PRE_LN) {
                   TotalsToPreLn(*call.block, 0, matmul2.rows, column, columns,
                                 matmul2.out.data);
                 }
               });
}

void BlockColumns(const BlockCall& block, size_t tasks, Counter* counters) {
  const ForwardArgs& args = *block.args;
  const size_t rows = args.rows;
  float* totals = block.buffers + block.slot.totals;
  const BlockedRows left = LeftPanel(block.buffers, rows);
  const BlockedRows hidden = LeftPanel(block.buffers + block.slot.hidden, rows);
  ColumnsCall call = {};
  call.block = &block;
  call.matmul1 =
      MatmulOf(block.layer1, left, rows, Epilogue::kBiasRelu, hidden);
  call.matmul2 = MatmulOf(block.layer2, hidden, rows, Epilogue::kBias,
                          RowMajor(totals, block.totals_stride));
  // (With far weights four rows of (1024,4096) took up to 1.09 of the time.)
  call.matmul1.claim_out = tasks > 1 && SupplyOf(*args.block) == kNear;
  call.lists = HiddenListsOf(block, block.buffers, rows, block.d_ff);
  call.lists.of_rows.panel_sums = rows * kPanelWidth;

  RowsToLeftPanel(block, args.x, rows, left);
  call.shares =
      DealParts(ColumnShares(block.d_ff, kPanelsPerShare), tasks, counters);
  RunTasks(*args.exec, call.shares, &BlockColumnsTask1, &call);
  const size_t tile_panels = PanelsOfTile(call.matmul2);
  UseLists(
      block, call.lists,
      HWY_MIN(tile_panels, PanelsPerShare(tile_panels, block.d_model, tasks)),
      &call.matmul2);
  call.panels_per_share2 =
      PanelsPerShare(PanelsAtOnce(call.matmul2), block.d_model, tasks);
  call.shares = DealParts(ColumnShares(block.d_model, call.panels_per_share2),
                          tasks, counters);
  RunTasks(*args.exec, call.shares, &BlockColumnsTask2, &call);
  if (args.order == FFNORM_POST_LN) TotalsToPostLn(block, 0, rows, totals);
}

void Forward(const ForwardArgs& args) {
  const ffnorm_block& block = *args.block;
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
  Counter* counters = static_cast<Counter*>(args.exec->workspace);
  call.buffers =
      reinterpret_cast<float*>(counters + MaxTasks(block, args.rows, tasks));

  if (SharesColumns(block, args.rows, tasks)) {
    ColumnsSlot(block, args.rows, &call.slot);
    BlockColumns(call, tasks, counters);
  } else {
    call.cut = CutRows(block, args.rows, tasks);
    RowsSlot(block, args.rows, &call.slot);
    call.blocks = DealParts(call.cut.blocks, tasks, counters);
    RunTasks(*args.exec, call.blocks, &BlockRowsTask, &call);
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace ffnorm
HWY_AFTER_NAMESPACE();

#endif  // include guard
