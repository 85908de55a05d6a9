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

// FFNORM_ACTIVE(M) applies M(vector) to all accumulators of a row, which have
// names because vectors of SVE and RVV cannot be array elements.
#define FFNORM_ACTIVE(M) M(0) M(1) M(2) M(3) M(4) M(5) M(6) M(7)
#define FFNORM_PANEL(j)                            \
  [[maybe_unused]] const size_t column##j = j * N; \
  [[maybe_unused]] const size_t at##j =            \
      column##j / kPanelWidth * args.panel_stride + column##j % kPanelWidth;
#define FFNORM_DECLARE(j) [[maybe_unused]] TileVec sum##j = zero;
#define FFNORM_LOAD(j) \
  if constexpr (j < kVectors) sum##j = hn::Load(d, sums + column##j);
#define FFNORM_MUL_ADD(j)     \
  if constexpr (j < kVectors) \
    sum##j = hn::MulAdd(a_u, hn::Load(d, b_u + at##j), sum##j);
#define FFNORM_STORE(j) \
  if constexpr (j < kVectors) hn::Store(sum##j, d, sums + column##j);
#define FFNORM_ADD_TO_ZERO(j) \
  if constexpr (j < kVectors) sum##j = hn::Add(zero, sum##j);
#define FFNORM_ADD_TO_C(j)    \
  if constexpr (j < kVectors) \
    sum##j = hn::Add(hn::LoadU(d, c + column##j), sum##j);
#define FFNORM_ADD_BIAS(j)    \
  if constexpr (j < kVectors) \
    sum##j = hn::Add(sum##j, hn::Load(d, args.bias + at##j));
#define FFNORM_STORE_C(j) \
  if constexpr (j < kVectors) hn::StoreU(sum##j, d, c + column##j);

#define FFNORM_PREFETCH_NEXT                                            \
  PrefetchL2(next);                                                     \
  if (kVectors * N > kPanelWidth) PrefetchL2(next + args.panel_stride); \
  next += kAlignmentFloats;

// The sums of kVectors * Lanes columns. A load of weights goes with each
// multiply-add, and one of the row's value with each unit: loads are what
// limits it, on Zen 4 to .70 of the peak of multiply-adds (AVX-512, 4 vectors,
// half of the units active; .66 with 8 vectors, for which L1 holds 64 units).
//
// kPrefetchEach: a line of each of the next panels goes with every unit. Else
// each row starts with its part of all lines.
template <size_t kVectors, bool kPrefetchEach>
void ActiveShare(const ActiveShareArgs& args) {
  const TileTag d;
  const size_t N = hn::Lanes(d);
  const TileVec zero = hn::Zero(d);
  FFNORM_ACTIVE(FFNORM_PANEL)
  const size_t lines_per_row = CeilDiv(kLinesPerShare, args.rows);
  const float* next = args.next;
  for (size_t r = 0; r < args.rows; ++r) {
    const float* HWY_RESTRICT a = args.a + r * kBlockK;
    const uint8_t* unit = args.units + r * kUnitsPerShare;
    const uint8_t* const end = unit + args.counts[r];
    float* sums = args.sums + r * args.sums_stride;
    FFNORM_ACTIVE(FFNORM_DECLARE)
    if (!args.first_share) {
      FFNORM_ACTIVE(FFNORM_LOAD)
    }
    for (size_t i = 0; !kPrefetchEach && i < lines_per_row; ++i) {
      FFNORM_PREFETCH_NEXT
    }
    for (; unit != end; ++unit) {
      if constexpr (kPrefetchEach) {
        FFNORM_PREFETCH_NEXT
      }
      const TileVec a_u = hn::Set(d, a[*unit]);
      const float* HWY_RESTRICT b_u = args.b + *unit * kPanelWidth;
      FFNORM_ACTIVE(FFNORM_MUL_ADD)
    }
    if (!args.last_share) {
      FFNORM_ACTIVE(FFNORM_STORE)
      continue;
    }
    float* c = args.c + r * args.c_stride;
    if (args.first_block) {
      FFNORM_ACTIVE(FFNORM_ADD_TO_ZERO)
    } else {
      FFNORM_ACTIVE(FFNORM_ADD_TO_C)
    }
    if (args.epilogue != Epilogue::kNone) {
      FFNORM_ACTIVE(FFNORM_ADD_BIAS)
    }
    FFNORM_ACTIVE(FFNORM_STORE_C)
  }
}

#undef FFNORM_ACTIVE
#undef FFNORM_PANEL
#undef FFNORM_DECLARE
#undef FFNORM_LOAD
#undef FFNORM_MUL_ADD
#undef FFNORM_STORE
#undef FFNORM_ADD_TO_ZERO
#undef FFNORM_ADD_TO_C
#undef FFNORM_ADD_BIAS
#undef FFNORM_STORE_C
#undef FFNORM_PREFETCH_NEXT

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace ffnorm
HWY_AFTER_NAMESPACE();

#endif  // include guard
