// Which hidden units ReLU left on, so that matmul 2 can leave the others out.
//
// A tile of rows has one list: the units that are on in any of its rows, in
// ascending order. (CONTRACT.md says why no bit depends on it.) Lists are made
// in shares of kUnitsPerShare units, by the task that computed these, and
// joined once all are there.
#if defined(FFNORM_KERNELS_ACTIVE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FFNORM_KERNELS_ACTIVE_INL_H_
#undef FFNORM_KERNELS_ACTIVE_INL_H_
#else
#define FFNORM_KERNELS_ACTIVE_INL_H_
#endif

#include <hwy/highway.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "kernels/plan.h"
#include "kernels/shape.h"
#include "kernels/simd-inl.h"
#include "kernels/split.h"

HWY_BEFORE_NAMESPACE();
namespace ffnorm {
namespace HWY_NAMESPACE {
namespace {

// The lists of all tiles of some rows, over some hidden columns.
struct ActiveUnits {
  ActiveLists layout;
  uint32_t* data;
  size_t rows;
  size_t columns;  // hidden ones, counted from the list's first unit
  size_t percent;  // the most active ones with which a list pays

  size_t Tiles() const { return CeilDiv(rows, kTuning.tile_rows); }
  size_t Shares() const { return CeilDiv(columns, kUnitsPerShare); }
  // Share s of a tile is entries begins[s] to begins[s + 1] of its units.
  uint32_t* Begins(size_t tile) const { return data + tile * layout.stride; }
  uint32_t* Units(size_t tile) const { return Begins(tile) + layout.units; }

  // Whether the list pays: it costs an index and prefetches of its own.
  bool IsSparse(size_t tile) const {
    return size_t{Begins(tile)[Shares()]} * 100 <= columns * percent;
  }
};

// The units of one share of hidden columns, one bit each.
constexpr size_t kWordsPerShare = kUnitsPerShare / 64;
struct ShareBits {
  uint64_t words[kWordsPerShare];
};

// (The compiler's own would call its run-time library where the CPU has no
// instruction for it.)
HWY_INLINE size_t CountBits(uint64_t v) {
  v -= v >> 1 & 0x5555555555555555u;
  v = (v & 0x3333333333333333u) + (v >> 2 & 0x3333333333333333u);
  v = (v + (v >> 4)) & 0x0f0f0f0f0f0f0f0fu;
  return v * 0x0101010101010101u >> 56;
}

// Bit i: h[i] is not 0. NaN is not 0.
HWY_INLINE ShareBits ActiveBits(const float* h, size_t columns) {
  const TileTag d;
  const size_t N = hn::Lanes(d);
  const TileVec zero = hn::Zero(d);
  // Each byte has eight lanes, or the N that there are.
  uint8_t bytes[kUnitsPerShare + sizeof(uint64_t)];
  uint8_t* to = bytes;
  for (size_t i = 0; i < columns; i += N) {
    to += hn::StoreMaskBits(d, hn::Not(hn::Eq(hn::Load(d, h + i), zero)), to);
  }
  ShareBits bits = {};
  if (N >= 8) {
    memcpy(&bits, bytes, CeilDiv(columns, size_t{8}));
  } else {
    for (size_t i = 0; i < columns; i += N) {
      bits.words[i / 64] |= uint64_t{bytes[i / N]} << (i % 64);
    }
  }
  // Columns that pad the panel may be anything.
  const size_t rest = columns % 64;
  if (rest != 0) bits.words[columns / 64] &= (uint64_t{1} << rest) - 1;
  return bits;
}

// One share of one tile's list, to where Join takes it from.
HWY_INLINE void ListShare(const ActiveUnits& active, const BlockedRows& hidden,
                          size_t tile, size_t share) {
  const size_t tiles = active.Tiles();
  size_t row = tiles == 1 ? 0 : PartBegin(active.rows, tiles, tile);
  const size_t end =
      tiles == 1 ? active.rows : PartBegin(active.rows, tiles, tile + 1);
  const size_t begin = share * kUnitsPerShare;
  const size_t columns = HWY_MIN(active.columns - begin, kUnitsPerShare);
  // More than this are not worth picking. (Units that are off may be listed.)
  const size_t many = columns * kMaxListedPercent / 100;
  ShareBits bits = {};
  size_t count = 0;
  for (; row < end && count <= many; ++row) {
    const ShareBits more = ActiveBits(hidden.At(row, begin), columns);
    count = 0;
    for (size_t i = 0; i < kWordsPerShare; ++i) {
      bits.words[i] |= more.words[i];
      count += CountBits(bits.words[i]);
    }
  }

  uint32_t* to = active.Units(tile) + begin;
  if (count > many) {
    count = columns;
    for (size_t i = 0; i < columns; ++i) {
      to[i] = static_cast<uint32_t>(begin + i);
    }
  } else {
    size_t first = begin;
    for (uint64_t word : bits.words) {
      for (; word != 0; word &= word - 1) {
        *to++ = static_cast<uint32_t>(first +
                                      hwy::Num0BitsBelowLS1Bit_Nonzero64(word));
      }
      first += 64;
    }
  }
  active.Begins(tile)[share] = static_cast<uint32_t>(count);
}

// Makes one list of a tile's shares. `group` is how many rows of the packed
// panels lie between what the tile reads now and what it reads next: the list
// goes on with that for as long as prefetches look ahead.
HWY_INLINE void Join(const ActiveUnits& active, size_t tile, size_t group) {
  uint32_t* begins = active.Begins(tile);
  uint32_t* units = active.Units(tile);
  const size_t shares = active.Shares();
  uint32_t at = 0;
  for (size_t share = 0; share < shares; ++share) {
    const uint32_t count = begins[share];
    const uint32_t* from = units + share * kUnitsPerShare;
    if (units + at != from) memmove(units + at, from, count * sizeof(*units));
    begins[share] = at;
    at += count;
  }
  begins[shares] = at;
  if (at == 0) return;
  for (size_t i = 0; i < kListedAhead; ++i) {
    units[at + i] = units[i] + static_cast<uint32_t>(group);
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace ffnorm
HWY_AFTER_NAMESPACE();

#endif  // include guard
