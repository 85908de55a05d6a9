// Which hidden units ReLU left on, so that matmul 2 can leave the others out.
// (CONTRACT.md says why no bit depends on it.) Lists name them in ascending
// order: either one list for each tile of rows, of the units that are on in any
// of them, or one for each row. They are made in shares of kUnitsPerShare
// units, by the task that computed these; a tile's are joined once all are
// there.
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

#include "kernels/bits.h"
#include "kernels/plan.h"
#include "kernels/shape.h"
#include "kernels/simd-inl.h"
#include "kernels/split.h"

HWY_BEFORE_NAMESPACE();
namespace ffnorm {
namespace HWY_NAMESPACE {
namespace {

// The lists of all tiles of some rows, over some hidden columns.
struct ActiveTiles {
  TileLists layout;
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

// Bit i: h[i] is not 0. NaN is not 0.
HWY_INLINE ShareBits ActiveBits(const float* h, size_t columns) {
  const TileTag d;
  const size_t N = hn::Lanes(d);
  const TileVec zero = hn::Zero(d);
  ShareBits bits = {};
  for (size_t i = 0; i < columns; i += N) {
    uint8_t bytes[sizeof(uint64_t)] = {};
    hn::StoreMaskBits(d, hn::Not(hn::Eq(hn::Load(d, h + i), zero)), bytes);
    uint64_t lanes;
    memcpy(&lanes, bytes, sizeof(lanes));
    bits.words[i / 64] |= lanes << (i % 64);
  }
  // Columns that pad the panel may be anything.
  const size_t rest = columns % 64;
  if (rest != 0) bits.words[columns / 64] &= (uint64_t{1} << rest) - 1;
  return bits;
}

HWY_INLINE size_t CountActive(const ShareBits& bits) {
  size_t count = 0;
  for (const uint64_t word : bits.words) count += CountBits(word);
  return count;
}

// One share of one tile's list, to where JoinTile takes it from.
HWY_INLINE void ListShareOfTile(const ActiveTiles& active,
                                const BlockedRows& hidden, size_t tile,
                                size_t share) {
  const size_t tiles = active.Tiles();
  size_t row = tiles == 1 ? 0 : PartBegin(active.rows, tiles, tile);
  const size_t end =
      tiles == 1 ? active.rows : PartBegin(active.rows, tiles, tile + 1);
  const size_t begin = share * kUnitsPerShare;
  const size_t columns = HWY_MIN(active.columns - begin, kUnitsPerShare);
  const size_t most = active.percent + kSparePercentOfTile;
  ShareBits bits = {};
  bool many = false;
  for (; row < end && !many; ++row) {
    const ShareBits more = ActiveBits(hidden.At(row, begin), columns);
    for (size_t i = 0; i < kWordsPerShare; ++i) bits.words[i] |= more.words[i];
    many = CountActive(bits) * 100 > columns * most;
  }

  uint32_t* const units = active.Units(tile) + begin;
  uint32_t* to = units;
  if (many) {  // all (units that are off may be listed)
    for (size_t i = 0; i < columns; ++i) {
      *to++ = static_cast<uint32_t>(begin + i);
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
  active.Begins(tile)[share] = static_cast<uint32_t>(to - units);
}

HWY_INLINE void ListShareOfTiles(const ActiveTiles& active,
                                 const BlockedRows& hidden, size_t share) {
  for (size_t tile = 0; tile < active.Tiles(); ++tile) {
    ListShareOfTile(active, hidden, tile, share);
  }
}

// Makes one list of a tile's shares. `group` is how many rows of the packed
// panels lie between what the tile reads now and what it reads next: the list
// goes on with that for as long as prefetches look ahead.
HWY_INLINE void JoinTile(const ActiveTiles& active, size_t tile, size_t group) {
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

HWY_INLINE void JoinTiles(const ActiveTiles& active, size_t group) {
  for (size_t tile = 0; tile < active.Tiles(); ++tile) {
    JoinTile(active, tile, group);
  }
}

// The lists of all rows (matmul_active-inl.h): for each share, how many units
// each row has | its units, a byte each, counted from the share's first.
struct ActiveRows {
  uint8_t* data;
  size_t rows;
  size_t columns;  // hidden ones
  size_t percent;  // the most active ones with which the lists pay
  // Where the sums of a block of K are kept from one share to the next: those
  // of each group of panels together, or of all groups in the same place.
  float* sums;
  size_t panel_sums;  // floats for each panel, or 0

  size_t Shares() const { return CeilDiv(columns, kUnitsPerShare); }
  uint8_t* Counts(size_t share) const {
    return data + share * RowListsBytes(rows);
  }
  uint8_t* Units(size_t share) const {
    return Counts(share) + RoundUp(rows, kAlignment);
  }
  float* Sums(size_t panel) const { return sums + panel * panel_sums; }
};

// The units of one row's share, and how many.
HWY_INLINE uint8_t ListRow(const ShareBits& bits, uint8_t* units) {
  static_assert(kUnitsPerShare < 256, "a unit is a byte, and so is a count");
  size_t count = 0;
  for (size_t i = 0; i < kWordsPerShare; ++i) {
    count += BitPositions(bits.words[i], i * 64, units + count);
  }
  return static_cast<uint8_t>(count);
}

// One share of the lists of all rows. Where two rows have too many units, the
// others are not even looked at.
HWY_INLINE void ListShareOfRows(const ActiveRows& active,
                                const BlockedRows& hidden, size_t share) {
  const size_t begin = share * kUnitsPerShare;
  const size_t columns = HWY_MIN(active.columns - begin, kUnitsPerShare);
  uint8_t* counts = active.Counts(share);
  uint8_t* units = active.Units(share);
  const auto bits_of = [&](size_t row) HWY_ATTR {
    return ActiveBits(hidden.At(row, begin), columns);
  };
  const size_t active_of_two =
      CountActive(bits_of(0)) + CountActive(bits_of(active.rows / 2));
  const size_t most = active.percent + kSparePercentOfRows;
  if (active_of_two * 100 > 2 * columns * most) {
    memset(counts, static_cast<int>(columns), active.rows);  // see FillRows
    return;
  }
  for (size_t r = 0; r < active.rows; ++r) {
    counts[r] = ListRow(bits_of(r), units + r * kUnitsPerShare);
  }
}

// Makes the lists of rows that have all units of a share.
HWY_INLINE void FillRows(const ActiveRows& active) {
  for (size_t share = 0; share < active.Shares(); ++share) {
    const size_t columns =
        HWY_MIN(active.columns - share * kUnitsPerShare, kUnitsPerShare);
    uint8_t* units = active.Units(share);
    for (size_t r = 0; r < active.rows; ++r, units += kUnitsPerShare) {
      if (active.Counts(share)[r] != columns) continue;
      for (size_t unit = 0; unit < columns; ++unit) {
        units[unit] = static_cast<uint8_t>(unit);
      }
    }
  }
}

// Whether the lists pay, over all rows.
HWY_INLINE bool AreSparse(const ActiveRows& active) {
  size_t count = 0;
  for (size_t share = 0; share < active.Shares(); ++share) {
    const uint8_t* counts = active.Counts(share);
    for (size_t r = 0; r < active.rows; ++r) count += counts[r];
  }
  return count * 100 <= active.rows * active.columns * active.percent;
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace ffnorm
HWY_AFTER_NAMESPACE();

#endif  // include guard
