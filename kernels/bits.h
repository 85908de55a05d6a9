// Bits of a mask, counted and turned into positions.
#ifndef FFNORM_KERNELS_BITS_H_
#define FFNORM_KERNELS_BITS_H_

#include <stddef.h>
#include <stdint.h>
#include <string.h>

namespace ffnorm {
namespace {

// (The compiler's own would call its run-time library where the CPU has no
// instruction for it.)
inline size_t CountBits(uint64_t v) {
  v -= v >> 1 & 0x5555555555555555u;
  v = (v & 0x3333333333333333u) + (v >> 2 & 0x3333333333333333u);
  v = (v + (v >> 4)) & 0x0f0f0f0f0f0f0f0fu;
  return v * 0x0101010101010101u >> 56;
}

// For each value of a byte, the positions of its bits that are set, and how
// many there are.
struct BytePositions {
  uint8_t positions[256][8];
  uint8_t count[256];
};
constexpr BytePositions MakeBytePositions() {
  BytePositions table = {};
  for (size_t byte = 0; byte < 256; ++byte) {
    uint8_t count = 0;
    for (uint8_t bit = 0; bit < 8; ++bit) {
      if ((byte >> bit & 1) != 0) table.positions[byte][count++] = bit;
    }
    table.count[byte] = count;
  }
  return table;
}
constexpr BytePositions kBytePositions = MakeBytePositions();

// Writes the positions of the bits set in `word`, plus `first` (sums below 256)
// and returns how many there are. Eight bytes are written to for each byte of
// the word, the last ones perhaps past the end of what counts, but never past
// to + 64. (A loop over the bits that are set takes twice the time.)
inline size_t BitPositions(uint64_t word, size_t first, uint8_t* to) {
  constexpr uint64_t kEachByte = 0x0101010101010101u;
  uint64_t offset = first * kEachByte;
  size_t count = 0;
  for (size_t i = 0; i < sizeof(word); ++i) {
    const uint8_t byte = static_cast<uint8_t>(word >> (8 * i));
    uint64_t eight;
    memcpy(&eight, kBytePositions.positions[byte], sizeof(eight));
    eight += offset;
    memcpy(to + count, &eight, sizeof(eight));
    count += kBytePositions.count[byte];
    offset += 8 * kEachByte;
  }
  return count;
}

}  // namespace
}  // namespace ffnorm

#endif  // FFNORM_KERNELS_BITS_H_
