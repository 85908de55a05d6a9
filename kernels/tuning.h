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

// Where one task alone finds its weights (SupplyOf): near; in L3, but beyond a
// core's share of it; most of them in L3; few of them.
enum Supply { kNear, kFar, kJustBeyondL3, kWellBeyondL3, kSupplies };

// What pays depends on how well the CPU reads ahead by itself (cpu.h).
struct ReadTuning {
  // Up to how many rows have tiles of their own if weights are far or just
  // beyond L3.
  size_t few_rows_near_l3;
  // In tiles for 1, 2, 3 and 4 rows, how many lines ahead of each panel that it
  // reads a tile prefetches, one out of few_rows_every lines; 0 leaves it to
  // the CPU.
  size_t few_rows_ahead[kMaxFewRows];
  size_t few_rows_every;
  // A tile takes its terms from a list of active hidden units where no more
  // than so many percent are active in any of its rows: a tile of one row, of
  // two or three, and of more, which wait less for the weights.
  size_t active_percent_one_row[kSupplies];
  size_t active_percent_few_rows[kSupplies];
  size_t active_percent[kSupplies];
};

struct Tuning {
  // Register tile for many rows: vectors side by side x rows (MR). Accumulators
  // must hide two FMA ports x 4 cycles, and fit the registers beside the
  // vectors of B and a broadcast.
  size_t tile_vectors;
  size_t tile_rows;
  // Up to how many rows have tiles of their own (see also few_rows_near_l3),
  // and their vectors side by side.
  size_t few_rows;
  size_t few_rows_vectors[kMaxFewRows];
  // Of these, tiles of two to so many rows hold each vector of B in a register.
  size_t held_rows;
  // Rows (MC) that one task takes through both matmuls while their panels stay
  // in L2.
  size_t block_rows;
  // Several tasks share rows where each gets so many (kRowsPerTask), if weights
  // are near, but beyond kFewMatrixFloats.
  size_t task_rows;
  // 1, 2, 3, 4 or more rows have lists of their own where no more than so many
  // percent of their units are active, and pass over so many vectors side by
  // side, so many rows in turn (one by one where the CPU reads ahead).
  size_t row_list_percent[kMaxFewRows + 1];
  size_t row_list_vectors;
  size_t row_list_rows;
  // But up to so many rows have the lists of tiles.
  size_t tile_list_rows[kSupplies];
  ReadTuning read;         // most CPUs
  ReadTuning reads_ahead;  // those with kCpuReadsAhead
};

// Matrices of so many floats are far, they come from memory: both of a block
// take 16 MiB then, more than a core's share of L3.
constexpr size_t kFarMatrixFloats = size_t{2} << 20;
// Of so many, 32 MiB for both, even one task alone finds just most of them in
// L3, and of so many only few.
constexpr size_t kJustBeyondL3MatrixFloats = size_t{4} << 20;
constexpr size_t kWellBeyondL3MatrixFloats = size_t{6} << 20;

// clang-format off
//        tile   few rows, vectors for 1-4, held, MC, rows a task, row lists
//        {few rows near L3, lines ahead for 1-4, one out of,
//         active in one row, few, more: near, far, just and well beyond L3}

// AVX-512, 32 registers: 28 accumulators + 2 of B + 1. From a prototype on
// Emerald Rapids, (512,2048): 14x32 and 12x32 tie at 128 rows, 6x64 is worse at
// 16; 4 panels at once and 32 to 64 lines ahead give .96 of the read bandwidth
// at one row; a list reads at full bandwidth (matmul 2 of one row, 50% active:
// 71 us of 137, 3%: 4 us), so that it pays nearly always. Zen 4 loses by
// prefetches, which share its 24 miss buffers with loads: without them one row
// of (512,2048) takes .81 of the time, two .83, three .91; with one line in two
// .89, .96, .95. Four rows tie there; from memory (1024,4096) one line in two,
// 16 ahead, takes .85 of the time of all, 64 ahead; none, but each page touched
// (kPagesAhead), 1.02. For four rows the tile of many, which prefetches whole
// panels, takes .84 to .95 of the time at (1024,4096), one and two tasks (.98
// to 1.1 in an hour when neighbours used the L3), and .93 to .98 at (768,3072),
// but from L2 and L3 1.02 to 1.06, and where L3 has little of the weights, 1.08
// to 1.2 at (1280,5120), 1.3 at (1536,6144), 1.45 at (4096,16384): prefetches
// wait in L1's miss buffers, the CPU's own do not. Four vectors for all of 1 to
// 4 rows: 1.03 to 1.15, the tile of many rows at 2 and 3: up to 1.4. Holding
// vectors of B: three rows .86 of the time, from memory .93; two rows .90 from
// L2, .96 to 1.00 from L3, but from memory 1.05 (1024,4096) to 1.16
// (4096,16384): there each is loaded twice. Lists of tiles there, time relative
// to dense (with pages touched), percent of the units that are on in any row:
// one row 50% .84, 30% .70, 10% .58; (768,3072) 50% .77, 60% .84, 69% .93, 75%
// .99 (two tasks 1.04); (1024,4096) 44% .87, 50% .92, 60% .96; (1536,6144) 38%
// .88, 44% .95; (4096,16384) 34% .91, 38% .97, 44% 1.06. Two and three rows:
// (768,3072) 64% .76 to .95, 75% .85 to 1.04, where lists of rows take 1.04 to
// 1.26 with half of the units on; (1024,4096) 60 to 64% .96; (1536,6144) 33%
// .85, 45% .96, 50% 1.00, 64% 1.03. Four to eight: 30% .82 to .95, 34% .83 to
// .92, 44% 1.00 to 1.15, 56% 1.05 to 1.2. Row lists there, (512,2048), time
// relative to all of the above: half of the units active .92 at 5, .91 at 8,
// .86 at 32 and .85 at 112; 30% .72 at 112; 10% .70, 3% .87. 64% active 1.01 at
// 8 rows, .95 at 112, 68% 1.03 and .97. Fewer rows have tiles of their own,
// with which lists compete: (128,512) to (512,2048), 2 and 3 rows 62% 1.04 to
// 1.09, 56% 1.01 to 1.06, 50% 1.01 to 1.04 (two tasks, (256,1024) .96 to 1.00),
// 44% .97 to 1.02, 37% .91 to .96; 4 rows 62% 1.02 to 1.04, 56% .98 to 1.01,
// 50% .94 to .98. For one row a tile over more panels takes .95 to .98 of the
// time; by its list 73% 1.02 to 1.04, 62% .94 to .95. From memory, 50%:
// (1024,4096) 5 rows 1.13, 6 1.02, 7 1.04, 8 .95, 12 .94; (1280,5120) 8 rows
// 1.00, 9 .93, 12 .98; (1536,6144) 8 rows 1.05, 9 .95, 12 1.00, 28 .77 to .88;
// (2048,8192) 8 rows 1.13, 9 .98, 10 .94; (4096,16384) 7 to 12 1.00. Two rows
// take turns, but not on CPUs that read ahead, for those that start two
// multiply-adds a cycle, of which four accumulators use half: llvm-mca gives
// Sapphire Rapids 6.0 cycles a unit for rows one by one, 4.0 in turn. Zen 4
// starts one, and would lose 1.0 to 1.5% by it, from memory 5 to 11% at 14 to
// 32 rows.
constexpr Tuning kTuningAvx3 =
         {2, 14, 4, {8, 8, 8, 4}, 3, 112, 4, {0, 44, 44, 57, 66}, 4, 2,
          {1, 3, 7, 8},
          {4, {64, 64, 64, 64}, 1,
           {80, 80, 80, 80}, {80, 80, 80, 80}, {80, 80, 80, 80}},
          {3, {0, 0, 0, 16}, 2,
           {70, 70, 62, 40}, {70, 70, 65, 45}, {36, 36, 36, 36}}};

// AVX2, 16 registers: 12 accumulators + 2 of B + 1. Zen 3, shares of the FMA
// peak at 48 rows with all weights in L2: .855 with 2 x 6, .850 with 4 x 3. On
// Zen 4 4 x 3 ties at 6 to 9 and 24 rows, and loses 5 to 14% at others. One row
// reads two panels at once. Two rows do not, their 16 accumulators would spill:
// on Zen 4 one panel takes .87 to .91 of the time from L2 and L3, .97 from
// memory, and .93 to .98 of that if they hold vectors of B, for which three
// rows have no register left. (Zen 3, before lists of rows: the same from L3,
// .62 of the read bandwidth from memory against .80.) For these the CPU's own
// prefetch is enough (one row from memory, Zen 3: .89 of the bandwidth against
// .81 with 64 lines ahead; Zen 4: .70 of the time from memory, .82 from L3).
// Three rows gain 10% by prefetches on Zen 3; on Zen 4 one line in two takes
// .65 of the time of all lines from memory, and the same otherwise. Four rows
// have no tile of their own since that of many rows prefetches whole panels: on
// Zen 4 it takes .97 of the time from L3 and .71 from memory. Reading each
// block of d_ff once for up to six blocks of rows changed nothing (.97x to 1x
// from L3 and memory, 512 rows), nor did a matmul 1 that keeps one block of K
// of its rows in L2 (1.00x; .97x at d_model 4096). MC 72 and 96 against 48: 64
// rows of (1024,4096) .77 of the peak against .72, 512 rows .83 against .81.
// Lists of tiles, Zen 4, as above: one row 65% .97, 10% .57; (768,3072) 50%
// .77, 60% .90, 69% .99; (1024,4096) 44% .97, 50% 1.02; (1536,6144) 38% .91,
// 44% 1.04; (4096,16384) 34% .95, 38% 1.01. Two and three rows: (768,3072) 64%
// .85 to 1.01, 75% .88 to 1.06, lists of rows with half of the units on .97 to
// 1.12; from memory 33% .82 to .91, 45 to 50% 1.04. Four to eight: 34% .82 to
// .86, 44% 1.00 to 1.14, 56% 1.08 to 1.34. (Zen 3, before lists were prefetched
// into L2: one row breaks even near 65%, from memory 42%.) Row lists, half of
// the units active: 1.03 to 1.06 at 2 and 3 rows (two tasks, (256,1024) .95 to
// .99; 44% .99 to 1.02, 37% .93 to .98), .92 at 4, .94 at 5, .90 at 8, .87 at
// 112; 62% active .98 to 1.00 at 4, 64% .99 at 8, .96 at 112; from memory
// (1024,4096) 5 rows 1.09, 6 .97, 7 .89, 8 .94, 12 .94, 16 .98; (1280,5120) 8
// rows .96, 9 .96, 12 .98; (1536,6144) 8 rows 1.01, 9 .97, 12 1.01, 28 .90;
// (2048,8192) 8 rows 1.05, 9 1.00, 12 .98. With 12 vectors (three panels, of 64
// units at a time) a row ran at .58 of the peak of multiply-adds instead of
// .64.
constexpr Tuning kTuningAvx2 =
         {2, 6,  3, {8, 4, 4, 0}, 2, 72, 5, {0, 44, 44, 64, 64}, 8, 1,
          {1, 3, 5, 8},
          {3, {64, 64, 64, 0}, 1,
           {40, 40, 40, 40}, {40, 40, 40, 40}, {40, 40, 40, 40}},
          {3, {0, 0, 64, 0}, 2,
           {65, 65, 47, 37}, {65, 65, 38, 38}, {38, 38, 38, 42}}};

// SSE, 16 registers, no FMA: the product needs one more, and each of the two
// overwrites an operand. Two rows that hold vectors of B take 1.10 of the time.
// A row by its list needs fewer copies than the tile: .93 of the time with 92%
// active, .75 with half (8 rows, Zen 4).
constexpr Tuning kTuningSse =
         {2, 6,  3, {8, 4, 4, 0}, 0, 48, 4, {0, 90, 90, 90, 90}, 8, 1,
          {1, 1, 3, 3},
          {3, {64, 64, 64, 0}, 1,
           {50, 50, 50, 50}, {50, 50, 50, 50}, {50, 50, 50, 50}},
          {3, {64, 64, 64, 0}, 1,
           {50, 50, 50, 50}, {50, 50, 50, 50}, {50, 50, 50, 50}}};

// NEON, SVE, RVV, 32 registers: 24 accumulators + 4 of B + 1. Not yet measured
// on a machine.
constexpr Tuning kTuning32Registers =
         {4, 6,  3, {8, 4, 4, 0}, 0, 48, 4, {0, 40, 40, 40, 40}, 8, 1,
          {1, 1, 12, 12},
          {3, {64, 64, 64, 0}, 1,
           {80, 80, 80, 80}, {80, 80, 80, 80}, {80, 80, 50, 50}},
          {3, {64, 64, 64, 0}, 1,
           {80, 80, 80, 80}, {80, 80, 80, 80}, {80, 80, 50, 50}}};
// clang-format on

// A share of units is not worth picking where so many percent more are active
// than the whole list pays with: shares of one row differ more than those of
// two. Zen 4, (256,1024) to (512,2048), time relative to a block that makes no
// lists, where they do not pay (in brackets: where only shares with more than
// 90% were not picked): 1 row with 82% active 1.01 to 1.02 (1.01 to 1.03), 2
// and 3 rows with 50 to 82% 1.00 to 1.02 (1.01 to 1.06), 8 and 32 rows with 73
// to 82% 1.00 to 1.01 (1.02 to 1.03).
constexpr size_t kSparePercentOfTile = 6;
constexpr size_t kSparePercentOfRows = 3;
// How many active units ahead their weights are prefetched into L2. On Zen 4,
// 12 rows of (1024,4096) with 10% active take .88 of the dense time with 64,
// .90 with 32, .87 with 128; 16 ahead into L1 took 1.12.
constexpr size_t kListedAhead = 64;

// A page of memory, and how many pages ahead few rows prefetch one line where
// the CPU reads ahead by itself: that stops where a page ends, and the address
// of the next one has to be looked up then. Zen 4, pages of 4 KiB, AVX3: one
// row of (1024,4096) takes .86 to .91 of the time, of (768,3072) and
// (4096,16384) .91 to .95, two rows .93 to .96, three .96 to .99; AVX2 .97,
// .95, .99; from L2 and L3 1.00. One page ahead .92 to .95, one and a half as
// two, three the same; two lines a page, or one for each half, win nothing,
// four lose 2 to 4%. (Pages of 2 MiB took .86 to .98 of the time before.)
// More rows touch the pages of a strip to come where it is far, one page
// ahead, although all of its lines are prefetched later: (1536,6144) 5 rows .87
// to .98, 8 .95 to 1.00, 12 .94 to 1.00, 24 .97; (1024,4096) 24 .98 to .99;
// AVX2 (1024,4096) 5 rows .93 to .96, 8 .95 to .98, 12 .97, 24 .98. None, two
// or eight pages ahead: .5 to 3% more.
constexpr size_t kPageFloats = 4096 / sizeof(float);
constexpr size_t kPagesAhead = 2;

// Up to so many rows prefetch a line of each panel with every unit, more rows
// share the lines of the next panels. On Zen 4 AVX3, (512,2048): 5 rows .93 of
// the time, 8 .97, 12 .99, 32 1.02, 112 1.03; (1536,6144), 12 rows .96 to 1.13,
// 28 1.00 to 1.05. Without prefetches, from memory: 1.3 to 1.5 at 8 to 16 rows,
// from L3 1.00 to 1.03 at 2 to 8; two lines of each panel 1.01 to 1.09; into L1
// 1.08 to 1.15, with half as many units at a time 1.00 to 1.06.
constexpr size_t kPrefetchEachRows = 12;

// LayerNorm takes four rows together up to this d_model, then two: x and what
// becomes of it are 24 KiB of L1. Zen 4, from L2, AVX3 and AVX2: four take .86
// of the time of two at 256, .90 to .97 at 512, .92 at 768, 1.08 to 1.2 at
// 1024. (Eight: 1.00 at 256, 1.08 at 512. One by one instead of two: 1.17 at
// 512.)
constexpr size_t kFourNormRows = 768;
// But from and below these d_model one by one if all rows take kFarMatrixFloats
// or more: their loads and stores then wait for memory, in turns with passes
// that leave it idle. Zen 4, 12 to 64 MiB, AVX3 and AVX2: one by one .65 to .75
// of the time of four at 512 to 768, .87 to 1.02 at 384, 1.0 to 1.28 at 256 and
// 320; of two .67 to .80 at 1024, .78 to .87 at 1280, .90 to 1.2 from 1536 on.
// Prefetches of the next row, or of where it goes, lose 5 to 70% at 512 to 1024
// and win 0 to 10% from 2048 on.
constexpr size_t kOneNormRow = 384;
constexpr size_t kTwoNormRowsFar = 1536;
// The stages alone store their rows past the caches from so many floats on,
// which with those of x are more than most L3 hold: a store to a line that no
// cache has reads it from memory first. Residual addition on Zen 4, 24 to 64
// MiB, takes .59 to .69 of the time then.
constexpr size_t kStreamedFloats = size_t{6} << 20;
// LayerNorm does so from this d_model on: below 384 four rows together, then
// two, from 640 on one by one. Zen 4, 24 to 128 MiB, time of the above: 128
// 1.04 to 1.20; 256 .86 to .93 (AVX2 .97); 384 .76 to .81 (two; AVX2 .85 to
// .92); 512 .92 to 1.05 (two; four 1.2 to 1.3, one 1.00 to 1.20); 640 .84 to
// 1.07; 768 and 1024 .85 to .99.
constexpr size_t kStreamedNormRow = 256;
constexpr size_t kTwoStreamedNormRows = 384;
constexpr size_t kOneStreamedNormRow = 640;
// And from this one on the last pass prefetches x so many floats ahead, in
// whole rows: 1280 .62 to 1.00, 1536 .57 to .63 (AVX2 .79), 2048 .55 (.74),
// 4096 .65, 8192 .67 to .70; without prefetches .75 to 1.04, with some in each
// pass .62 to .73, all in the second .70 to .88. With prefetches 256 to 1024
// take .96 to 1.5: the CPU reads far enough ahead by itself.
constexpr size_t kPrefetchedNormRow = 1280;
constexpr size_t kNormFloatsAhead = 2560;
// Up to this d_model LayerNorm keeps x - mean - correction in the output for
// its last pass: .87 to .90 of the time at 2048, .92 (AVX2) to 1.00 (AVX3)
// below, 1.00 to 1.08 at 4096, where L1 cannot hold two rows of both.
constexpr size_t kKeptDeviations = 2048;

// Up to so many rows a single task computes whole columns, hidden layer first;
// more rows go through both matmuls a block of d_ff at a time.
constexpr size_t kColumnRowsAlone = kMaxFewRows;
// Shares of columns for each task, of one to four panels: at (384,1536), whose
// matmul 2 has 12 panels, two tasks take .86 of the time that they took with
// shares of four, the same with four for each.
constexpr size_t kSharesPerTask = 2;
// Of half a group of the panels that few rows read at once if the task with the
// most panels gets no more than so many percent of them then. Tiles of half as
// many vectors take up to 1.15 of the time, but at (384,1536), whose three
// groups are two and one for two tasks, 1, 2 and 3 rows take .87 to .90, .88 to
// .92 and .91 to .93 (Zen 4, AVX3; shares of a group and a half the same).
constexpr size_t kHalfGroupPercent = 90;
// Several tasks share rows where each gets so many, else columns: where weights
// come from L3 and the CPU reads ahead, and otherwise. With columns, tasks
// exchange left and hidden panels; with rows all of them read all weights. Two
// tasks that share rows instead of columns take, on Zen 4 AVX3, 8 rows of
// (256,1024) .95 of the time, (384,1536) .99, (512,2048) 1.03, but .66, .77 and
// .84 while the two CPUs of the virtual machine exchanged lines slowly (a round
// trip of 340 ns instead of 55: two L3 caches instead of one); 6 rows 1.04 to
// 1.15, then .72 to .95; from memory (768,3072) 8 rows 1.07, 12 .96,
// (1024,4096) 8 rows 1.38, 12 1.01, (1536,6144) 18 rows 1.36, 24 .97. AVX2:
// (1024,4096) 16 rows 1.18, 24 1.07. With more than kFewMatrixFloats the target
// decides (task_rows): on AVX2 four rows a task use their tile less well, 8 and
// 9 rows of (384,1536) take 1.06 and 1.10 (.86 and 1.0 to 1.05 by slow
// exchange), (512,2048) 1.07 to 1.2 (.94 to 1.1), 10 rows .99 to 1.1.
constexpr size_t kRowsPerTask = 4;
constexpr size_t kRowsPerTaskFar = 12;
constexpr size_t kFewMatrixFloats = size_t{512} << 10;
// And up to this many rows in all (the hidden rows of a 4096-wide d_ff then
// take 2 MiB).
constexpr size_t kMaxColumnRows = 128;
// Where a matrix has no more than so many floats, both take 1 MiB, tasks share
// rows alone: two of them take .72 of the time at 4 rows of (128,512), .63 at 8
// to 48 (Zen 4).
constexpr size_t kSmallMatrixFloats = size_t{128} << 10;

// Tasks that share rows get so many blocks each if these have this many rows.
// With one of two cores taken away, 128 rows of (1024,4096) take .83 of the
// time of one block each; with both free 1.00 to 1.01 (Zen 4). Four blocks at
// 256 rows take 1.00 to 1.04 with a core taken away, and 1.03 to 1.06 with both
// free: what costs is the wait for the task that lost its core, 4 ms at a time.
// Simulated, calls of up to twice that gain at most 5% however they are cut.
constexpr size_t kBlocksPerTask = 2;
constexpr size_t kSpareBlockRows = 24;

}  // namespace ffnorm

#endif  // FFNORM_KERNELS_TUNING_H_
