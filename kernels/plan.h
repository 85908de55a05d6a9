// How one call is cut into tasks, and where they find their workspace.
#ifndef FFNORM_KERNELS_PLAN_H_
#define FFNORM_KERNELS_PLAN_H_

#include <stddef.h>

#include "ffnorm/ffnorm.h"
#include "kernels/cpu.h"
#include "kernels/shape.h"
#include "kernels/split.h"
#include "kernels/target.h"
#include "kernels/tuning.h"

namespace ffnorm {
namespace {

// The most panels that a tile reads at once. Tasks that share columns get a
// multiple of it where tiles do, so that none spans two blocks of a left panel.
constexpr size_t kPanelsPerShare = 4;

// Columns of a matmul are handed out in shares of some panels.
inline size_t ColumnShares(size_t n, size_t panels_per_share) {
  return CeilDiv(NumPanels(n), panels_per_share);
}

// Each core's L2 holds all weights: then it costs less to read them in every
// task than to wait for each other.
inline bool IsSmall(const ffnorm_block& block) {
  return block.d_model * block.d_ff <= kSmallMatrixFloats;
}

// Of a (k, n) matrix that is one half of a block's weights, and of a block.
inline Supply SupplyOf(size_t k, size_t n) {
  return k * n >= kWellBeyondL3MatrixFloats   ? kWellBeyondL3
         : k * n >= kJustBeyondL3MatrixFloats ? kJustBeyondL3
         : k * n >= kFarMatrixFloats          ? kFar
                                              : kNear;
}
inline Supply SupplyOf(const ffnorm_block& block) {
  return SupplyOf(block.d_model, block.d_ff);
}

inline bool CpuReadsAhead(const ffnorm_block& block) {
  return (block.cpu & kCpuReadsAhead) != 0;
}

// From how many rows each on several tasks share rows.
inline size_t RowsPerTask(const ffnorm_block& block) {
  if (SupplyOf(block) != kNear || !CpuReadsAhead(block)) return kRowsPerTaskFar;
  return block.d_model * block.d_ff <= kFewMatrixFloats
             ? kRowsPerTask
             : block.target->task_rows;
}

// Up to how many rows tasks share columns, if they share rows from so many for
// each on.
inline size_t ColumnRows(size_t tasks, size_t per_task) {
  if (tasks == 1) return kColumnRowsAlone;
  return tasks < kMaxColumnRows / per_task ? tasks * per_task - 1
                                           : kMaxColumnRows;
}

// Rows are shared where there are many or the weights are few; else every task
// has all rows and some of the columns, so that the weights are read once in
// all.
inline bool SharesColumns(const ffnorm_block& block, size_t rows,
                          size_t tasks) {
  if (tasks > 1 && rows >= tasks && IsSmall(block)) return false;
  return rows <= ColumnRows(tasks, RowsPerTask(block));
}

// Rows cut into blocks that each stay in L2 (kernels of a block pass all of the
// weights).
struct RowBlocks {
  size_t rows;
  size_t units;  // between which they may be cut, of even height
  size_t blocks;

  size_t Begin(size_t block) const {
    return PartBegin(rows, units, PartBegin(units, blocks, block));
  }
};

inline size_t TilesPerBlock(const ffnorm_target& target) {
  return target.block_rows / target.tile_rows;
}

// How many row blocks there may be, so that each is worth its pass.
inline size_t MaxRowBlocks(const ffnorm_block& block, size_t rows) {
  return IsSmall(block) ? rows : MaxOf(rows / kRowsPerTask, 1);
}

inline RowBlocks CutRows(const ffnorm_block& block, size_t rows, size_t tasks) {
  const size_t tiles = CeilDiv(rows, block.target->tile_rows);
  const size_t most = MaxRowBlocks(block, rows);
  RowBlocks cut;
  cut.rows = rows;
  // One task saves tiles; several wait for who has the most rows.
  cut.units = tasks == 1 ? tiles : rows;
  // Equal shares for all tasks, where there is enough for each: some, so that
  // a task whose core is taken away leaves its second one to others.
  size_t wanted = CeilDiv(tiles, TilesPerBlock(*block.target));
  if (tasks > 1) {
    const size_t spare = MinOf(tasks, rows / kSpareBlockRows / kBlocksPerTask);
    wanted = MaxOf(wanted, spare * kBlocksPerTask);
  }
  const size_t blocks = RoundUp(wanted, MinOf(tasks, most));
  cut.blocks = MinOf(blocks, most);
  return cut;
}

// From one row of totals to the next. Rows 2 KiB or a multiple of it apart
// would fall in few sets of L1.
inline size_t TotalsStride(size_t d_model) {
  const size_t stride = RoundUp(d_model, kPanelWidth);
  return stride % 512 == 0 ? stride + kAlignmentFloats : stride;
}

// Lists of active hidden units (active-inl.h), one for each tile of rows, are
// made in shares of so many units: what one share of columns computes.
constexpr size_t kUnitsPerShare = kPanelsPerShare * kPanelWidth;
static_assert(kBlockK % kUnitsPerShare == 0, "a block of K is whole shares");
constexpr size_t kSharesPerBlock = kBlockK / kUnitsPerShare;

// One list, in 32-bit words: where each share begins and the last one ends |
// its units, and those of the next panels as far as prefetches look ahead.
struct TileLists {
  size_t units;
  size_t stride;  // from list to list
};
inline TileLists TileListsOf(size_t hidden_columns) {
  const size_t shares = CeilDiv(hidden_columns, kUnitsPerShare);
  TileLists lists;
  lists.units = RoundUp(shares + 1, kAlignmentFloats);
  lists.stride = lists.units + RoundUp(hidden_columns, kBlockK) +
                 RoundUp(kListedAhead, kAlignmentFloats);
  return lists;
}

// Where every row has a list, bytes of all rows' lists of one share of units:
// their counts | their units.
constexpr size_t RowListsBytes(size_t rows) {
  return RoundUp(rows, kAlignment) + rows * kUnitsPerShare;
}

// The most panels that one row passes over at once (matmul_active-inl.h).
constexpr size_t kActivePanels = 2;

// Buffers for some rows, in floats from their start, all aligned:
//   left | hidden | totals | active | sums
struct RowBuffers {
  size_t hidden;
  size_t totals;
  size_t active;
  size_t sums;
  size_t size;
};
inline bool BuffersOf(const ffnorm_target& target, size_t rows, size_t d_model,
                      size_t hidden_columns, size_t sums_columns,
                      RowBuffers* buffers) {
  static_assert(sizeof(uint32_t) == sizeof(float), "lists share the buffer");
  // Rows of more bytes than there are; so no size below wraps when it is
  // rounded up, and a list is not much longer than its row.
  if (MaxOf(d_model, hidden_columns) > SIZE_MAX / sizeof(float)) return false;
  size_t hidden, totals, tile_lists, row_lists, sums;
  return CheckedMul(rows, RoundUp(d_model, kBlockK), &buffers->hidden) &&
         CheckedMul(rows, RoundUp(hidden_columns, kBlockK), &hidden) &&
         CheckedMul(rows, TotalsStride(d_model), &totals) &&
         CheckedMul(CeilDiv(rows, target.tile_rows),
                    TileListsOf(hidden_columns).stride, &tile_lists) &&
         CheckedMul(CeilDiv(hidden_columns, kUnitsPerShare),
                    RowListsBytes(rows) / sizeof(float), &row_lists) &&
         CheckedMul(rows, RoundUp(sums_columns, kPanelWidth), &sums) &&
         CheckedAdd(buffers->hidden, hidden, &buffers->totals) &&
         CheckedAdd(buffers->totals, totals, &buffers->active) &&
         CheckedAdd(buffers->active, MaxOf(tile_lists, row_lists),
                    &buffers->sums) &&
         CheckedAdd(buffers->sums, sums, &buffers->size);
}

// What a task needs for a block of up to so many rows: one block of K of the
// hidden columns at a time, the sums of few panels.
inline bool RowsSlot(const ffnorm_block& block, size_t rows,
                     RowBuffers* buffers) {
  const ffnorm_target& target = *block.target;
  return BuffersOf(
      target, MinOf(rows, TilesPerBlock(target) * target.tile_rows),
      block.d_model, kBlockK, kActivePanels * kPanelWidth, buffers);
}

// What all tasks need together where columns are shared.
inline bool ColumnsSlot(const ffnorm_block& block, size_t rows,
                        RowBuffers* buffers) {
  return BuffersOf(*block.target, rows, block.d_model, block.d_ff,
                   block.d_model, buffers);
}

// How many of so many tasks at most are used: none without a row or a panel.
// The workspace starts with a counter for each of them.
inline size_t MaxTasks(const ffnorm_block& block, size_t rows, size_t tasks) {
  const size_t panels = NumPanels(MaxOf(block.d_model, block.d_ff));
  return MinOf(tasks, MaxOf(rows, panels));
}

// Enough for every call with up to so many rows (>= 1) and tasks (>= 1): it
// takes the larger of both ways to share, and never shrinks as either grows.
// False when it does not fit in size_t.
inline bool WorkspaceBytes(const ffnorm_block& block, size_t rows, size_t tasks,
                           size_t* bytes) {
  RowBuffers by_rows;
  size_t all_rows;
  if (!RowsSlot(block, rows, &by_rows) ||
      !CheckedMul(by_rows.size, MinOf(tasks, rows), &all_rows)) {
    return false;
  }
  RowBuffers by_columns;
  size_t data_bytes, counter_bytes;
  static_assert(kRowsPerTask <= kRowsPerTaskFar, "the larger");
  return ColumnsSlot(block, MinOf(rows, ColumnRows(tasks, kRowsPerTaskFar)),
                     &by_columns) &&
         CheckedMul(MaxOf(all_rows, by_columns.size), sizeof(float),
                    &data_bytes) &&
         CheckedMul(MaxTasks(block, rows, tasks), sizeof(Counter),
                    &counter_bytes) &&
         CheckedAdd(data_bytes, counter_bytes, bytes);
}

}  // namespace
}  // namespace ffnorm

#endif  // FFNORM_KERNELS_PLAN_H_
