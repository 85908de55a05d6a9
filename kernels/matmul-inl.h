// Rows times packed panels: how register tiles cover a matmul.
#if defined(FFNORM_KERNELS_MATMUL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FFNORM_KERNELS_MATMUL_INL_H_
#undef FFNORM_KERNELS_MATMUL_INL_H_
#else
#define FFNORM_KERNELS_MATMUL_INL_H_
#endif

#include <hwy/highway.h>
#include <stddef.h>
#include <string.h>

#include "kernels/active-inl.h"
#include "kernels/matmul_active-inl.h"
#include "kernels/matmul_tile-inl.h"
#include "kernels/plan.h"
#include "kernels/shape.h"
#include "kernels/simd-inl.h"
#include "kernels/split.h"

HWY_BEFORE_NAMESPACE();
namespace ffnorm {
namespace HWY_NAMESPACE {
namespace {

struct Matmul {
  BlockedRows left;  // (rows, k), row_stride = kBlockK
  size_t rows;
  size_t k;
  const float* panels;  // of a (k, n) matrix
  size_t n;
  Epilogue epilogue;
  BlockedRows out;  // (rows, n)
  bool claim_out;   // other cores have read it, and read it again
  // Where `out` has no room for the columns that pad the last panel: rows *
  // kPanelWidth floats to compute it in; else NULL.
  float* last_panel;
  // Lists of the columns of `left` that are not 0, which are all of k or this
  // block of it; NULL where no term may be left out, or these are not used.
  const ActiveTiles* active_tiles;
  const ActiveRows* active_rows;
  bool cpu_reads_ahead;
};

// The piece of a matmul that its register tiles cover: all rows, one block of
// K, one or more whole panels.
struct Strip {
  const Matmul* matmul;
  size_t block;       // of K
  size_t panel;       // the first one
  size_t panels;      // side by side
  const float* next;  // the weights that are needed after these
};

// Whether the rows are few enough for a tile of their own.
HWY_INLINE bool HaveFewRowsTile(const Matmul& m) {
  const ReadTuning& read = ReadTuningFor(m.cpu_reads_ahead);
  const Supply supply = SupplyOf(m.k, m.n);
  const bool near_l3 = supply == kFar || supply == kJustBeyondL3;
  return m.rows <= (near_l3 ? read.few_rows_near_l3 : kTuning.few_rows);
}

// How many panels are read at once by so many vectors, by the register tile of
// a matmul, and by a matmul.
HWY_INLINE size_t PanelsOfVectors(size_t vectors) {
  const size_t columns = vectors * hn::Lanes(TileTag());
  return columns <= kPanelWidth ? 1 : columns / kPanelWidth;
}
HWY_INLINE size_t PanelsOfTile(const Matmul& m) {
  if (!HaveFewRowsTile(m)) return 1;
  return PanelsOfVectors(kTuning.few_rows_vectors[m.rows - 1]);
}
HWY_INLINE size_t PanelsAtOnce(const Matmul& m) {
  return m.active_rows == nullptr ? PanelsOfTile(m)
                                  : PanelsOfVectors(kTuning.row_list_vectors);
}

// What all tiles of a strip have in common.
HWY_INLINE TileArgs StripArgs(const Strip& strip) {
  const Matmul& m = *strip.matmul;
  const size_t k0 = strip.block * kBlockK;
  const size_t column0 = strip.panel * kPanelWidth;
  const bool apart = m.last_panel != nullptr && column0 + kPanelWidth > m.n;
  TileArgs args = {};
  args.a = m.left.At(0, k0);
  args.panel_stride = PanelFloats(m.k);
  args.bias = m.panels + strip.panel * args.panel_stride;
  args.b = args.bias + (k0 + 1) * kPanelWidth;
  args.terms = HWY_MIN(m.k - k0, kBlockK);
  args.c = apart ? m.last_panel : m.out.At(0, column0);
  args.c_stride = apart ? kPanelWidth : m.out.row_stride;
  args.first = strip.block == 0;
  args.epilogue = k0 + kBlockK >= m.k ? m.epilogue : Epilogue::kNone;
  args.far = SupplyOf(m.k, m.n) != kNear;
  args.claim = m.claim_out && args.first;
  return args;
}

// Lets a tile, whose arguments are those for all terms, take a list's instead.
HWY_INLINE void TakeListed(const Strip& strip, size_t tile, TileArgs* args) {
  const ActiveTiles& active = *strip.matmul->active_tiles;
  // Units are numbered from the start of the left operand, which holds either
  // all blocks or this one.
  const size_t share =
      active.columns == strip.matmul->k ? strip.block * kSharesPerBlock : 0;
  const size_t first_unit = share * kUnitsPerShare;
  const uint32_t* begins = active.Begins(tile);
  const size_t end = HWY_MIN(share + kSharesPerBlock, active.Shares());
  args->a -= first_unit;
  args->b -= first_unit * kPanelWidth;
  args->units = active.Units(tile) + begins[share];
  args->terms = begins[end] - begins[share];
}

// Columns of the strip that are worth computing.
HWY_INLINE size_t StripColumns(const Strip& strip) {
  return HWY_MIN(strip.panels * kPanelWidth,
                 strip.matmul->n - strip.panel * kPanelWidth);
}

// Of the next panel's lines, two a term, each of so many tiles that pass over
// this panel prefetches one out of so many. (Those in excess repeat some: it is
// as fast to skip them.)
HWY_INLINE size_t NextEvery(size_t tiles, size_t rows) {
  static_assert(kPanelWidth == 2 * kAlignmentFloats, "two lines a term");
  const size_t lines = 2 * RoundTerms(rows);
  return tiles == 1 ? 1 : tiles < 4 ? 2 : tiles < lines ? 4 : lines;
}

// One line of each page behind the start of a panel's weights that are needed
// next: their addresses are known then when all lines are prefetched. (With
// weights in caches it would cost .3% at 8 rows.)
HWY_INLINE void TouchPages(const Matmul& m, const float* next, size_t terms) {
  if (SupplyOf(m.k, m.n) == kNear) return;
  for (size_t at = 0; at < terms * kPanelWidth; at += kPageFloats) {
    PrefetchL2(next + at + kPageFloats);
  }
}

// Tiles of kVectors vectors over a strip of one panel: all rows before the next
// columns, so that those of B stay in L1.
template <size_t kVectors, size_t kMaxRows>
HWY_INLINE void RunStrip(const Strip& strip) {
  const size_t all_rows = strip.matmul->rows;
  const size_t columns = StripColumns(strip);
  const size_t tile_columns = kVectors * hn::Lanes(TileTag());
  const size_t tiles = CeilDiv(all_rows, kMaxRows);
  const ActiveTiles* active = strip.matmul->active_tiles;
  TileArgs args = StripArgs(strip);
  const float* a = args.a;
  const float* b = args.b;
  const float* bias = args.bias;
  float* c = args.c;
  const size_t terms = args.terms;

  args.next_every = NextEvery(tiles * CeilDiv(columns, tile_columns),
                              CeilDiv(all_rows, tiles));
  TouchPages(*strip.matmul, strip.next, kBlockK);
  size_t line = 0;
  for (size_t column = 0; column < columns; column += tile_columns) {
    args.bias = bias + column;
    for (size_t tile = 0; tile < tiles; ++tile) {
      const size_t row = PartBegin(all_rows, tiles, tile);
      const size_t rows = PartBegin(all_rows, tiles, tile + 1) - row;
      args.next = strip.next + line % args.next_every * kAlignmentFloats;
      ++line;
      args.a = a + row * kBlockK;
      args.b = b + column;
      args.terms = terms;
      args.c = c + row * args.c_stride + column;
      if (active != nullptr && active->IsSparse(tile)) {
        TakeListed(strip, tile, &args);
        RunTile<kVectors, kMaxRows, kListed>(rows, args);
      } else {
        RunTile<kVectors, kMaxRows, kNextWeights>(rows, args);
      }
    }
  }
}

// The tile for kRows rows that holds vectors of B, or not: the faster one.
template <size_t kVectors, size_t kRows, size_t kAhead, size_t kEvery>
HWY_INLINE void RunFewRowsTile(const Matmul& m, const TileArgs& args) {
  constexpr bool kHolds = kRows > 1 && kRows <= kTuning.held_rows;
  if (kRows == 2 && SupplyOf(m.k, m.n) != kNear) {
    Tile<kVectors, kRows, kAhead, kEvery>(args);
  } else {
    Tile<kVectors, kRows, kAhead, kEvery, kHolds>(args);
  }
}

// A strip of kRows rows, in tiles of kVectors vectors.
template <size_t kVectors, size_t kRows>
HWY_INLINE void RunFewRowsStrip(const Strip& strip) {
  constexpr ReadTuning kRead = kTuning.read;
  constexpr ReadTuning kReadsAhead = kTuning.reads_ahead;
  const ActiveTiles* active = strip.matmul->active_tiles;
  const bool sparse = active != nullptr && active->IsSparse(0);
  const size_t columns = StripColumns(strip);
  const size_t tile_columns = kVectors * hn::Lanes(TileTag());
  // (Copying it would load what was just stored in other pieces: 3% at 1 row.)
  TileArgs args = StripArgs(strip);
  if (sparse) TakeListed(strip, 0, &args);
  for (size_t column = 0; column < columns; column += tile_columns) {
    if (sparse) {
      Tile<kVectors, kRows, kListed>(args);
    } else if (strip.matmul->cpu_reads_ahead) {
      RunFewRowsTile<kVectors, kRows, kReadsAhead.few_rows_ahead[kRows - 1],
                     kReadsAhead.few_rows_every>(*strip.matmul, args);
    } else {
      RunFewRowsTile<kVectors, kRows, kRead.few_rows_ahead[kRows - 1],
                     kRead.few_rows_every>(*strip.matmul, args);
    }
    args.b += tile_columns;
    args.bias += tile_columns;
    args.c += tile_columns;
  }
}

// The same by a tile that may span several panels, or half of it where the
// strip is narrower.
template <size_t kRows>
HWY_INLINE void RunFewRowsStrip(const Strip& strip) {
  constexpr size_t kVectors = kTuning.few_rows_vectors[kRows - 1];
  constexpr size_t kMostLanes = HWY_MIN(HWY_LANES(float), kMaxTileLanes);
  constexpr bool kMaySpan = kVectors * kMostLanes > kPanelWidth;
  if (kMaySpan && strip.panels < PanelsOfVectors(kVectors)) {
    RunFewRowsStrip<kMaySpan ? kVectors / 2 : kVectors, kRows>(strip);
  } else {
    RunFewRowsStrip<kVectors, kRows>(strip);
  }
}

// Moves a last panel that was computed apart to where it belongs.
HWY_INLINE void CopyLastPanel(const Matmul& m) {
  const size_t column0 = (NumPanels(m.n) - 1) * kPanelWidth;
  for (size_t r = 0; r < m.rows; ++r) {
    memcpy(m.out.At(r, column0), m.last_panel + r * kPanelWidth,
           (m.n - column0) * sizeof(float));
  }
}

// All rows, each by its own list, in passes of kVectors vectors, kRows in turn.
template <size_t kVectors, size_t kRows>
HWY_INLINE void RunActiveStrip(const Strip& strip) {
  const Matmul& m = *strip.matmul;
  const ActiveRows& active = *m.active_rows;
  const TileArgs tile = StripArgs(strip);
  const size_t first_share =
      active.columns == m.k ? strip.block * kSharesPerBlock : 0;
  const size_t shares = CeilDiv(tile.terms, kUnitsPerShare);
  const size_t columns = strip.panels * kPanelWidth;
  const size_t pass_columns = kVectors * hn::Lanes(TileTag());
  ActiveShareArgs args = {};
  args.panel_stride = tile.panel_stride;
  args.rows = m.rows;
  args.sums_stride = columns;
  args.c_stride = tile.c_stride;
  args.first_block = tile.first;
  args.epilogue = tile.epilogue;
  for (size_t share = 0; share < shares; ++share) {
    const size_t unit = share * kUnitsPerShare;
    args.a = tile.a + unit;
    args.b = tile.b + unit * kPanelWidth;
    args.bias = tile.bias;
    args.counts = active.Counts(first_share + share);
    args.units = active.Units(first_share + share);
    args.sums = active.Sums(strip.panel);
    args.c = tile.c;
    args.first_share = share == 0;
    args.last_share = share + 1 == shares;
    args.next =
        args.last_share ? strip.next : args.b + kUnitsPerShare * kPanelWidth;
    for (size_t panel = 0; panel < strip.panels; ++panel) {
      TouchPages(m, args.next + panel * args.panel_stride, kUnitsPerShare);
    }
    for (size_t column = 0; column < columns; column += pass_columns) {
      if (m.rows <= kPrefetchEachRows) {
        ActiveShare<kVectors, kRows, true>(args);
      } else {
        ActiveShare<kVectors, kRows, false>(args);
      }
      args.b += pass_columns;
      args.bias += pass_columns;
      args.sums += pass_columns;
      args.c += pass_columns;
    }
  }
}

template <size_t kRows>
HWY_INLINE void RunActiveStrip(const Strip& strip) {
  constexpr size_t kVectors = kTuning.row_list_vectors;
  constexpr size_t kMostLanes = HWY_MIN(HWY_LANES(float), kMaxTileLanes);
  static_assert(kVectors * kMostLanes <= kActivePanels * kPanelWidth,
                "the workspace has room for the sums of so many panels");
  if (strip.panels == PanelsOfVectors(kVectors)) {
    RunActiveStrip<kVectors, kRows>(strip);
  } else {  // one panel instead of two
    RunActiveStrip<kVectors / 2, kRows>(strip);
  }
}

HWY_NOINLINE void RunStrip(const Strip& strip) {
  const Matmul& m = *strip.matmul;
  if (m.active_rows != nullptr) {
    if (m.cpu_reads_ahead) return RunActiveStrip<1>(strip);
    return RunActiveStrip<kTuning.row_list_rows>(strip);
  }
  const bool few = HaveFewRowsTile(m) && 2 * strip.panels >= PanelsOfTile(m);
  if (few && m.rows == 1) {
    RunFewRowsStrip<1>(strip);
  } else if (few && m.rows == 2) {
    RunFewRowsStrip<2>(strip);
  } else if (few && m.rows == 3) {
    RunFewRowsStrip<3>(strip);
  } else if (few) {
    RunFewRowsStrip<kTuning.few_rows>(strip);
  } else {
    RunStrip<kTuning.tile_vectors, kTuning.tile_rows>(strip);
  }
  const bool last_block = (strip.block + 1) * kBlockK >= m.k;
  const bool last_panel = (strip.panel + strip.panels) * kPanelWidth > m.n;
  if (m.last_panel != nullptr && last_block && last_panel) CopyLastPanel(m);
}

// Calls run(first panel, panels) over [begin, end), as many panels at once as
// the rows want, half as many where fewer are left, and so on. A last panel
// that is computed apart stays alone.
template <class Run>
HWY_INLINE void ForEachPanelGroup(const Matmul& m, size_t begin, size_t end,
                                  const Run& run) {
  const size_t together =
      m.last_panel == nullptr ? end : HWY_MIN(end, m.n / kPanelWidth);
  size_t panel = begin;
  for (size_t at_once = PanelsAtOnce(m); at_once > 1; at_once /= 2) {
    for (; panel + at_once <= together; panel += at_once) run(panel, at_once);
  }
  for (; panel < end; ++panel) run(panel, size_t{1});
}

// Whole columns: panels [begin, end), each over all of K. `after` is what the
// caller reads next.
HWY_INLINE void MatmulColumns(const Matmul& m, size_t begin, size_t end,
                              const float* after) {
  const size_t blocks = CeilDiv(m.k, kBlockK);
  ForEachPanelGroup(m, begin, end, [&](size_t panel, size_t panels) HWY_ATTR {
    for (size_t block = 0; block < blocks; ++block) {
      const size_t next_panel = panel + panels;
      const size_t next_row = (block + 1) * kBlockK;
      const size_t next = next_row < m.k
                              ? PanelIndex(m.k, next_row, panel * kPanelWidth)
                              : PanelIndex(m.k, 0, next_panel * kPanelWidth);
      const bool last = block + 1 == blocks && next_panel == end;
      RunStrip({&m, block, panel, panels, last ? after : m.panels + next});
    }
  });
}

// One block of K of all columns. `after` is what the caller reads next.
HWY_INLINE void MatmulBlock(const Matmul& m, size_t block, const float* after) {
  const size_t end = NumPanels(m.n);
  ForEachPanelGroup(m, 0, end, [&](size_t panel, size_t panels) HWY_ATTR {
    const float* next = m.panels + (panel + panels) * PanelFloats(m.k) +
                        (block * kBlockK + 1) * kPanelWidth;
    RunStrip({&m, block, panel, panels, panel + panels == end ? after : next});
  });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace ffnorm
HWY_AFTER_NAMESPACE();

#endif  // include guard
