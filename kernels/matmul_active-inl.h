// Rows times the weights of their own active units.
//
// The tile of many rows (matmul_tile-inl.h) takes every unit that is on in any
// of its rows: with half of them off in each, nearly all. Here a row takes only
// those of its own list. The weights do not wait in registers for the next row
// then, but in L1: a share of units of two panels is 32 KiB, and all rows pass
// over it in turn.
#if defined(FFNORM_KERNELS_MATMUL_ACTIVE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FFNORM_KERNELS_MATMUL_ACTIVE_INL_H_
#undef FFNORM_KERNELS_MATMUL_ACTIVE_INL_H_
#else
#define FFNORM_KERNELS_MATMUL_ACTIVE_INL_H_
#endif

#include <hwy/highway.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/active-inl.h"
#include "kernels/matmul_tile-inl.h"
#include "kernels/shape.h"
#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ffnorm {
namespace HWY_NAMESPACE {
namespace {

// Cache lines of the weights of one share of units in one panel.
constexpr size_t kLinesPerShare =
    kUnitsPerShare * kPanelWidth / kAlignmentFloats;

// All rows, one share of the units of one block of K.
struct ActiveShareArgs {
  const float* a;         // left operand: row r, unit u at a[r * kBlockK + u]
  const float* b;         // first panel: unit u at b[u * kPanelWidth]
  size_t panel_stride;    // floats from panel to panel
  const uint8_t* counts;  // row r has counts[r] units,
  const uint8_t* units;   // from units[r * kUnitsPerShare] on
  size_t rows;
  float* sums;  // of the block so far: row r at sums[r * sums_stride]
  size_t sums_stride;
  bool first_share;
  bool last_share;
  // What a tile does at its end follows the block's last share (see TileArgs).
  float* c;
  size_t c_stride;
  const float* bias;
  bool first_block;
  Epilogue epilogue;
  // What to bring into L2 meanwhile: a share of the panels that are needed
  // next.
  const float* next;
};

// FFNORM_ACTIVE_ROW(M, r) applies M(r, vector) to the accumulators of one row,
// which have names because vectors of SVE and RVV cannot be array elements.
#define FFNORM_ACTIVE_VECTORS(M) M(0) M(1) M(2) M(3) M(4) M(5) M(6) M(7)
#define FFNORM_ACTIVE_ROW(M, r) \
  M(r, 0) M(r, 1) M(r, 2) M(r, 3) M(r, 4) M(r, 5) M(r, 6) M(r, 7)
#define FFNORM_PANEL(j)                            \
  [[maybe_unused]] const size_t column##j = j * N; \
  [[maybe_unused]] const size_t at##j =            \
      column##j / kPanelWidth * args.panel_stride + column##j % kPanelWidth;
#define FFNORM_DECLARE(r, j) [[maybe_unused]] TileVec sum##r##_##j = zero;
#define FFNORM_LOAD(r, j)     \
  if constexpr (j < kVectors) \
    sum##r##_##j = hn::Load(d, sums + r * args.sums_stride + column##j);
#define FFNORM_MUL_ADD(r, j)  \
  if constexpr (j < kVectors) \
    sum##r##_##j = hn::MulAdd(a_u, hn::Load(d, b_u + at##j), sum##r##_##j);
// The next unit of row r.
#define FFNORM_UNIT(r)                                        \
  {                                                           \
    if constexpr (kPrefetchEach) {                            \
      FFNORM_PREFETCH_NEXT                                    \
    }                                                         \
    const size_t u = units[r * kUnitsPerShare];               \
    const TileVec a_u = hn::Set(d, a[r * kBlockK + u]);       \
    const float* HWY_RESTRICT b_u = args.b + u * kPanelWidth; \
    FFNORM_ACTIVE_ROW(FFNORM_MUL_ADD, r)                      \
  }
#define FFNORM_STORE(r, j)    \
  if constexpr (j < kVectors) \
    hn::Store(sum##r##_##j, d, sums + r * args.sums_stride + column##j);
#define FFNORM_ADD_TO_ZERO(r, j) \
  if constexpr (j < kVectors) sum##r##_##j = hn::Add(zero, sum##r##_##j);
#define FFNORM_ADD_TO_C(r, j)                                               \
  if constexpr (j < kVectors)                                               \
    sum##r##_##j = hn::Add(hn::LoadU(d, c + r * args.c_stride + column##j), \
                           sum##r##_##j);
#define FFNORM_ADD_BIAS(r, j) \
  if constexpr (j < kVectors) \
    sum##r##_##j = hn::Add(sum##r##_##j, hn::Load(d, args.bias + at##j));
#define FFNORM_STORE_C(r, j)  \
  if constexpr (j < kVectors) \
    hn::StoreU(sum##r##_##j, d, c + r * args.c_stride + column##j);
#define FFNORM_ROWS(M)        \
  FFNORM_ACTIVE_ROW(M, 0)     \
  if constexpr (kRows == 2) { \
    FFNORM_ACTIVE_ROW(M, 1)   \
  }
#define FFNORM_PREFETCH_NEXT                                            \
  PrefetchL2(next);                                                     \
  if (kVectors * N > kPanelWidth) PrefetchL2(next + args.panel_stride); \
  next += kAlignmentFloats;

// The sums of rows [r, r + kRows), kVectors * Lanes columns of each; returns
// how far it has prefetched. A load of weights goes with each multiply-add, and
// one of the row's value with each unit: loads are what limits it, on Zen 4 to
// .70 of the peak of multiply-adds (AVX-512, 4 vectors, half of the units
// active; .66 with 8 vectors, for which L1 holds 64 units).
//
// Two rows take turns where one has too few accumulators to hide the latency of
// multiply-adds on two ports.
//
// kPrefetchEach: a line of each of the next panels goes with every unit. Else
// each row starts with its part of all lines.
template <size_t kVectors, size_t kRows, bool kPrefetchEach>
HWY_INLINE const float* ActiveRowsOfShare(const ActiveShareArgs& args, size_t r,
                                          const float* next) {
  static_assert(kVectors <= 8 && kRows <= 2);
  const TileTag d;
  const size_t N = hn::Lanes(d);
  const TileVec zero = hn::Zero(d);
  FFNORM_ACTIVE_VECTORS(FFNORM_PANEL)
  const float* HWY_RESTRICT a = args.a + r * kBlockK;
  const uint8_t* units = args.units + r * kUnitsPerShare;
  float* sums = args.sums + r * args.sums_stride;
  FFNORM_ACTIVE_ROW(FFNORM_DECLARE, 0)
  FFNORM_ACTIVE_ROW(FFNORM_DECLARE, 1)
  if (!args.first_share) {
    FFNORM_ROWS(FFNORM_LOAD)
  }
  if constexpr (!kPrefetchEach) {
    const size_t lines = kRows * CeilDiv(kLinesPerShare, args.rows);
    for (size_t i = 0; i < lines; ++i) {
      FFNORM_PREFETCH_NEXT
    }
  }
  if constexpr (kRows == 1) {
    for (const uint8_t* end = units + args.counts[r]; units != end; ++units) {
      FFNORM_UNIT(0)
    }
  } else {
    const uint8_t* const end0 = units + args.counts[r];
    const uint8_t* const end1 = units + args.counts[r + 1];
    const uint8_t* const both = HWY_MIN(end0, end1);
    for (; units != both; ++units) {
      FFNORM_UNIT(0)
      FFNORM_UNIT(1)
    }
    // The rest of one of them.
    for (; units < end0; ++units) {
      FFNORM_UNIT(0)
    }
    for (; units < end1; ++units) {
      FFNORM_UNIT(1)
    }
  }
  if (!args.last_share) {
    FFNORM_ROWS(FFNORM_STORE)
    return next;
  }
  float* c = args.c + r * args.c_stride;
  if (args.first_block) {
    FFNORM_ROWS(FFNORM_ADD_TO_ZERO)
  } else {
    FFNORM_ROWS(FFNORM_ADD_TO_C)
  }
  if (args.epilogue != Epilogue::kNone) {
    FFNORM_ROWS(FFNORM_ADD_BIAS)
  }
  FFNORM_ROWS(FFNORM_STORE_C)
  return next;
}

template <size_t kVectors, size_t kRows, bool kPrefetchEach>
void ActiveShare(const ActiveShareArgs& args) {
  const float* next = args.next;
  size_t r = 0;
  for (; args.rows - r >= kRows; r += kRows) {
    next = ActiveRowsOfShare<kVectors, kRows, kPrefetchEach>(args, r, next);
  }
  for (; r < args.rows; ++r) {
    next = ActiveRowsOfShare<kVectors, 1, kPrefetchEach>(args, r, next);
  }
}

#undef FFNORM_ACTIVE_VECTORS
#undef FFNORM_ACTIVE_ROW
#undef FFNORM_PANEL
#undef FFNORM_DECLARE
#undef FFNORM_LOAD
#undef FFNORM_MUL_ADD
#undef FFNORM_UNIT
#undef FFNORM_STORE
#undef FFNORM_ADD_TO_ZERO
#undef FFNORM_ADD_TO_C
#undef FFNORM_ADD_BIAS
#undef FFNORM_STORE_C
#undef FFNORM_ROWS
#undef FFNORM_PREFETCH_NEXT

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace ffnorm
HWY_AFTER_NAMESPACE();

#endif  // include guard
