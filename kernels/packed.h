// The packed block: header and layout (CONTRACT.md, "The packed block").
#ifndef FFNORM_KERNELS_PACKED_H_
#define FFNORM_KERNELS_PACKED_H_

#include <stddef.h>
#include <stdint.h>

#include "ffnorm/ffnorm.h"
#include "kernels/shape.h"

namespace ffnorm {
namespace {

// The first 128 bytes, little-endian.
struct PackedHeader {
  char magic[8];
  uint32_t format_version;
  uint32_t element_type;
  uint32_t block_k;
  uint32_t panel_width;
  uint32_t flags;
  float epsilon;
  uint64_t d_model;
  uint64_t d_ff;
  uint64_t total_bytes;
  uint64_t checksum;     // over all bytes of the block, this field taken as 0
  uint8_t reserved[64];  // 0
};
static_assert(sizeof(PackedHeader) == 128, "the format fixes the header");

constexpr char kPackedMagic[8] = {'F', 'F', 'N', 'O', 'R', 'M', '\r', '\n'};
constexpr uint32_t kElementFloat32 = 1;

// Header flags. A matrix with an Inf or NaN must not have terms left out.
constexpr uint32_t kFiniteW1 = 1u << 0;
constexpr uint32_t kFiniteW2 = 1u << 1;
constexpr uint32_t kKnownFlags = kFiniteW1 | kFiniteW2;

// Where the parts start, in floats from the start of the block:
//   header | scale | offset | W1 panels with b1 | W2 panels with b2
// Scale and offset are padded to whole panels. A missing scale is stored as 1
// and a missing offset as -0, which change no bit of any value.
struct PackedLayout {
  size_t scale;
  size_t offset;
  size_t w1;
  size_t w2;
  size_t total_bytes;
};

// False when a size does not fit in size_t.
inline bool LayoutOf(size_t d_model, size_t d_ff, PackedLayout* layout) {
  // Neither may wrap when it is rounded up.
  if (d_model > SIZE_MAX - kBlockK || d_ff > SIZE_MAX - kBlockK) return false;
  const size_t vector = RoundUp(d_model, kPanelWidth);
  size_t w1_floats, w2_floats, floats;
  if (!CheckedMul(NumPanels(d_ff) * kPanelWidth, d_model + 1, &w1_floats) ||
      !CheckedMul(vector, d_ff + 1, &w2_floats)) {
    return false;
  }
  layout->scale = sizeof(PackedHeader) / sizeof(float);
  if (!CheckedAdd(layout->scale, vector, &layout->offset) ||
      !CheckedAdd(layout->offset, vector, &layout->w1) ||
      !CheckedAdd(layout->w1, w1_floats, &layout->w2) ||
      !CheckedAdd(layout->w2, w2_floats, &floats)) {
    return false;
  }
  return CheckedMul(floats, sizeof(float), &layout->total_bytes);
}

inline bool IsLittleEndian() {
  return __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__;
}

}  // namespace
}  // namespace ffnorm

#endif  // FFNORM_KERNELS_PACKED_H_
