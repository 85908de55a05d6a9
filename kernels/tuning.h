// Every tuning constant of the kernels, one row per kind of target, each with
// the measurement that chose it. None of them changes a bit of any result.
#ifndef FFNORM_KERNELS_TUNING_H_
#define FFNORM_KERNELS_TUNING_H_

#include <stddef.h>

namespace ffnorm {

// The most vectors and rows that any register tile has (matmul_tile-inl.h).
constexpr size_t kMaxTileVectors = 8;
constexpr size_t kMaxTileRows = 14;

// Up to this many rows have tiles of their own, which read several panels at
// once so that enough loads are under way.
constexpr size_t kMaxFewRows = 4;

struct Tuning {
  // Register tile for many rows: vectors side by side x rows (MR). Accumulators
  // must hide two FMA ports x 4 cycles, and fit the registers beside the
  // vectors of B and a broadcast.
  size_t tile_vectors;
  size_t tile_rows;
  // Vectors side by side in the tile for 1, 2, 3 and 4 rows, and how many lines
  // it prefetches ahead in each panel that it reads; 0 leaves it to the CPU.
  size_t few_rows_vectors[kMaxFewRows];
  size_t few_rows_ahead[kMaxFewRows];
  // The vectors for 4 rows when the weights are too large for L3.
  size_t far_four_rows_vectors;
  // Rows (MC) that one task takes through both matmuls while their panels stay
  // in L2.
  size_t block_rows;
  // A tile takes its terms from a list of active hidden units where no more
  // than so many percent are active in any of its rows: a tile alone, whose
  // time is that of reading the weights, and one of several.
  size_t active_percent_alone;
  size_t active_percent;
};

// Matrices of so many floats come from memory: both of a block take 16 MiB
// then, more than a core's share of L3.
constexpr size_t kFarMatrixFloats = size_t{2} << 20;

// clang-format off
//        tile   vectors for 1-4 rows, lines ahead, far, MC, active

// AVX-512, 32 registers: 28 accumulators + 2 of B + 1. From a prototype on
// Emerald Rapids, (512,2048): 14x32 and 12x32 tie at 128 rows, 6x64 is worse at
// 16; 4 panels at once and 32 to 64 lines ahead give .96 of the read bandwidth
// at one row. There a list reads at full bandwidth (matmul 2 of one row, 50%
// active: 71 us of 137, 3%: 4 us), so that it pays nearly always.
constexpr Tuning kTuningAvx3 =
         {2, 14, {8, 8, 8, 4}, {64, 64, 64, 64}, 4,         112, 80, 50};

// AVX2, 16 registers: 12 accumulators + 2 of B + 1. Zen 3, shares of the FMA
// peak at 48 rows with all weights in L2: .855 with 2 x 6, .850 with 4 x 3;
// with weights in L3 4 x 3 is within 3% from 64 rows up, and loses 4 to 20% at
// 5 to 32. One and two rows read two panels at once, two rows although their 16
// accumulators spill: from memory .80 of the read bandwidth against .62 with
// one panel, from L3 the same. For these the CPU's own prefetch is enough (one
// row from memory: .89 against .81 with 64 lines ahead); three and four rows
// gain 10 and 20%. Four rows of a whole panel spill too: from memory .62 of the
// read bandwidth against .43 with half a panel at a time, from L3 .53 against
// .71. Reading each block of d_ff once for up to six blocks of rows changed
// nothing (.97x to 1x from L3 and memory, 512 rows), nor did a matmul 1 that
// keeps one block of K of its rows in L2 (1.00x; .97x at d_model 4096). MC 72
// and 96 against 48: 64 rows of (1024,4096) .77 of the peak against .72, 512
// rows .83 against .81. Lists: prefetches for them reach half the speed of the
// CPU's own, so that one row breaks even near 65% with weights in L3 and 42%
// from memory, where a list of 50% took 1.2x to 1.3x the time; 30% active take
// .78x / .86x the time, 10% .62x / .61x, 3% .57x / .51x. Six rows with 47%
// active in some row .85x / .92x; 64 rows 1.03x / 1.15x, with 17% .87x.
constexpr Tuning kTuningAvx2 =
         {2, 6,  {8, 8, 4, 2}, {0, 0, 64, 64},   4,          72, 40, 30};

// SSE, 16 registers, no FMA: the product needs one more.
constexpr Tuning kTuningSse =
         {2, 6,  {8, 4, 4, 2}, {64, 64, 64, 64}, 2,          48, 50, 30};

// NEON, SVE, RVV, 32 registers: 24 accumulators + 4 of B + 1. Not yet measured
// on a machine.
constexpr Tuning kTuning32Registers =
         {4, 6,  {8, 4, 4, 4}, {64, 64, 64, 64}, 4,          48, 80, 50};
// clang-format on

// A list of active units is not worth picking where more percent are active.
constexpr size_t kMaxListedPercent = 90;
// How many active units ahead their weights are prefetched.
constexpr size_t kListedAhead = 16;

// Up to so many rows a single task computes whole columns, hidden layer first;
// more rows go through both matmuls a block of d_ff at a time.
constexpr size_t kColumnRowsAlone = kMaxFewRows;
// Several tasks share columns instead of rows up to this many tiles of rows for
// each task, and this many rows in all (the hidden rows of a 4096-wide d_ff
// then take 2 MiB).
constexpr size_t kColumnTilesPerTask = 2;
constexpr size_t kMaxColumnRows = 128;

}  // namespace ffnorm

#endif  // FFNORM_KERNELS_TUNING_H_
