// Sizes, strides and the index formulas that define each packed layout. No
// arithmetic on values here, and nothing that depends on the target.
#ifndef FFNORM_KERNELS_SHAPE_H_
#define FFNORM_KERNELS_SHAPE_H_

#include <stddef.h>
#include <stdint.h>

namespace ffnorm {
namespace {

// Length of one block of a matmul's reduction: part of the numeric contract.
// Measured on AVX2 (Zen 3, 32 KiB L1): 512 is within +-3% of 256 from 24 rows
// up, but its half panel (32 KiB) fills L1 alone; 256 has 0.6x the error at
// K = 4096 (17 against 32 ulp).
constexpr size_t kBlockK = 256;

// Columns of one panel of packed weights: part of the packed format. 32 ties
// with 16 on AVX2 when the tile covers a whole panel (4 vectors x 3 rows: 94.9
// against 94.3 GFLOP/s of 96.5 at 48 rows), and keeps two cache lines together
// when single hidden units are read.
constexpr size_t kPanelWidth = 32;

constexpr size_t kPanelsPerBlock = kBlockK / kPanelWidth;

// Everything in a workspace or packed block starts at a multiple of this.
constexpr size_t kAlignment = 64;
constexpr size_t kAlignmentFloats = kAlignment / sizeof(float);

inline size_t MinOf(size_t a, size_t b) { return a < b ? a : b; }
inline size_t MaxOf(size_t a, size_t b) { return a < b ? b : a; }

// No sum here that could wrap.
constexpr size_t CeilDiv(size_t a, size_t b) {
  return a / b + (a % b != 0 ? 1 : 0);
}
constexpr size_t RoundUp(size_t a, size_t b) { return CeilDiv(a, b) * b; }

// Products and sums that say when they do not fit: false leaves *out alone.
inline bool CheckedMul(size_t a, size_t b, size_t* out) {
  return !__builtin_mul_overflow(a, b, out);
}
inline bool CheckedAdd(size_t a, size_t b, size_t* out) {
  return !__builtin_add_overflow(a, b, out);
}

// ---- Packed weights ---------------------------------------------------------
//
// A (K, N) weight matrix is cut in CeilDiv(N, 32) panels of 32 columns. A panel
// is k-major and starts with its bias values, so a kernel reads one stream:
//
//     float index in the panel      column: 0    1    2   ...  31
//                                 bias      0    1    2        31
//                                 k = 0    32   33   34        63
//                                 k = 1    64   65   66        95
//                                 ...
//
// Columns past N, and the bias of a matrix that has none, are +0. (Adding that
// bias changes no bit: a sum that started at +0 is never -0.)
constexpr size_t PanelFloats(size_t k) { return (k + 1) * kPanelWidth; }
constexpr size_t NumPanels(size_t n) { return CeilDiv(n, kPanelWidth); }

// Position of weight (row, column), from the first float of the first panel.
constexpr size_t PanelIndex(size_t k, size_t row, size_t column) {
  return (column / kPanelWidth) * PanelFloats(k) + (row + 1) * kPanelWidth +
         column % kPanelWidth;
}
constexpr size_t PanelBiasIndex(size_t k, size_t column) {
  return (column / kPanelWidth) * PanelFloats(k) + column % kPanelWidth;
}

// ---- A matrix cut in blocks of kBlockK columns ------------------------------
//
// Element (row, column) is
//     data[column / kBlockK * block_stride + row * row_stride
//          + column % kBlockK].
// A left operand ("left panel") has row_stride = kBlockK, so that a register
// tile addresses all its rows by constants; plain row-major is the special case
// block_stride = kBlockK.
struct BlockedRows {
  float* data;
  size_t row_stride;
  size_t block_stride;

  float* At(size_t row, size_t column) const {
    return data + column / kBlockK * block_stride + row * row_stride +
           column % kBlockK;
  }
};

inline BlockedRows LeftPanel(float* data, size_t rows) {
  return {data, kBlockK, rows * kBlockK};
}
inline BlockedRows RowMajor(float* data, size_t row_stride) {
  return {data, row_stride, kBlockK};
}
constexpr size_t LeftPanelFloats(size_t rows, size_t columns) {
  return rows * RoundUp(columns, kBlockK);
}

}  // namespace
}  // namespace ffnorm

#endif  // FFNORM_KERNELS_SHAPE_H_
