// The register tile: the inner loop of the matmuls, except where rows go by
// lists of their own (matmul_active-inl.h).
#if defined(FFNORM_KERNELS_MATMUL_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FFNORM_KERNELS_MATMUL_TILE_INL_H_
#undef FFNORM_KERNELS_MATMUL_TILE_INL_H_
#else
#define FFNORM_KERNELS_MATMUL_TILE_INL_H_
#endif

#include <hwy/highway.h>
#include <stddef.h>
#include <stdint.h>

#include <utility>  // index_sequence

#include "kernels/shape.h"
#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ffnorm {
namespace HWY_NAMESPACE {
namespace {

// What happens to a total once its last block has been added.
enum class Epilogue { kNone, kBias, kBiasRelu };

// One tile of one block of K. Columns are counted from its first vector; they
// may span several panels, which are then `panel_stride` floats apart.
struct TileArgs {
  const float* a;         // left operand: row r, term k at a[r * kBlockK + k]
  const float* b;         // first panel: term k at b[k * kPanelWidth]
  size_t panel_stride;    // unused while the tile stays in one panel
  size_t terms;           // of this block: at most kBlockK
  const uint32_t* units;  // of a list: which k each term has, and those to come
  float* c;               // totals: row r at c[r * c_stride]
  size_t c_stride;        // (columns of all panels are adjacent)
  const float* bias;      // the panel's bias, laid out like one term of b
  bool first;             // first block: c is written without being read
  bool claim;             // then also: other cores have read c
  Epilogue epilogue;      // kNone unless this is the last block
  // What to bring into L2 meanwhile: the same terms of the panel that is needed
  // after this one, a line out of every `next_every`, from the first at `next`.
  const float* next;
  size_t next_every;
  bool far;  // the weights are: their pages are touched ahead
};

// The terms that share one prefetch where many tiles share a panel, and the
// loop's own instructions: with eight the tile of 2 x 6 takes 20.9 instructions
// a term, with four 22.3 (20 of them are loads and multiply-adds). Taller tiles
// have more to do in a term.
constexpr size_t RoundTerms(size_t rows) { return rows <= 6 ? 8 : 4; }

// The accumulators are named one by one because vectors of SVE and RVV cannot
// be array elements. FFNORM_TILE(M) applies M(row, vector) to all of a tile.
#define FFNORM_TILE_ROW(M, r) \
  M(r, 0) M(r, 1) M(r, 2) M(r, 3) M(r, 4) M(r, 5) M(r, 6) M(r, 7)
#define FFNORM_TILE_ROWS(M) \
  M(0) M(1) M(2) M(3) M(4) M(5) M(6) M(7) M(8) M(9) M(10) M(11) M(12) M(13)
#define FFNORM_TILE_VECTORS(M) M(0) M(1) M(2) M(3) M(4) M(5) M(6) M(7)

#define FFNORM_DECLARE(r, j) [[maybe_unused]] TileVec sum##r##_##j = zero;
#define FFNORM_DECLARE_ROW(r) FFNORM_TILE_ROW(FFNORM_DECLARE, r)
#define FFNORM_PANEL(j)                            \
  [[maybe_unused]] const size_t column##j = j * N; \
  [[maybe_unused]] const size_t at##j =            \
      column##j / kPanelWidth * args.panel_stride + column##j % kPanelWidth;
#define FFNORM_LOAD_B(j)                    \
  [[maybe_unused]] TileVec b##j = zero;     \
  if constexpr (j < kVectors) {             \
    b##j = hn::Load(d, b_k + at##j);        \
    if constexpr (kHold) HoldVector(&b##j); \
  }
#define FFNORM_MUL_ADD(r, j)  \
  if constexpr (j < kVectors) \
    sum##r##_##j = hn::MulAdd(a_r, b##j, sum##r##_##j);
#define FFNORM_MUL_ADD_ROW(r)                         \
  if constexpr (r < kRows) {                          \
    const TileVec a_r = hn::Set(d, a_k[r * kBlockK]); \
    FFNORM_TILE_ROW(FFNORM_MUL_ADD, r)                \
  }
#define FFNORM_PREFETCH_B(j)                                       \
  if constexpr (kAhead != 0 && kAhead < kListed && j < kVectors) { \
    if (column##j % (kEvery * kAlignmentFloats) == 0) {            \
      PrefetchL2(b_k + at##j + kAhead * kAlignmentFloats);         \
    }                                                              \
  }
// One line of a page to come of each panel.
#define FFNORM_TOUCH_PAGE(j)                             \
  if constexpr (j < kVectors) {                          \
    if (column##j % kPanelWidth == 0) {                  \
      PrefetchL2(b + at##j + kPagesAhead * kPageFloats); \
    }                                                    \
  }
// The same for three rows of more vectors, which fit the registers beside three
// values of A, but not beside all vectors of B.
#define FFNORM_MUL_ADD_THREE(j)                \
  if constexpr (j < kVectors) {                \
    TileVec b_j = hn::Load(d, b_k + at##j);    \
    if constexpr (kHold) HoldVector(&b_j);     \
    sum0_##j = hn::MulAdd(a_0, b_j, sum0_##j); \
    sum1_##j = hn::MulAdd(a_1, b_j, sum1_##j); \
    sum2_##j = hn::MulAdd(a_2, b_j, sum2_##j); \
  }
// All products of one k: kVectors loads of B, kRows broadcasts of A.
#define FFNORM_PRODUCTS                               \
  if constexpr (kRows == 3 && kVectors > 3) {         \
    const TileVec a_0 = hn::Set(d, a_k[0]);           \
    const TileVec a_1 = hn::Set(d, a_k[kBlockK]);     \
    const TileVec a_2 = hn::Set(d, a_k[2 * kBlockK]); \
    FFNORM_TILE_VECTORS(FFNORM_MUL_ADD_THREE)         \
  } else {                                            \
    FFNORM_TILE_VECTORS(FFNORM_LOAD_B)                \
    FFNORM_TILE_ROWS(FFNORM_MUL_ADD_ROW)              \
  }
#define FFNORM_TERM(k)                                   \
  {                                                      \
    const float* HWY_RESTRICT a_k = a + (k);             \
    const float* HWY_RESTRICT b_k = b + (k)*kPanelWidth; \
    FFNORM_TILE_VECTORS(FFNORM_PREFETCH_B)               \
    FFNORM_PRODUCTS                                      \
  }
// The same for the i-th unit of a list, with the weights of one to come: they
// are not where the CPU's own prefetch would look.
#define FFNORM_PREFETCH_LISTED(j)                                       \
  if constexpr (j < kVectors) {                                         \
    if (column##j % kAlignmentFloats == 0) PrefetchL2(b_ahead + at##j); \
  }
#define FFNORM_LISTED_TERM(i)                                         \
  {                                                                   \
    const size_t unit = units[i];                                     \
    const float* b_ahead = b + units[i + kListedAhead] * kPanelWidth; \
    const float* HWY_RESTRICT a_k = a + unit;                         \
    const float* HWY_RESTRICT b_k = b + unit * kPanelWidth;           \
    FFNORM_TILE_VECTORS(FFNORM_PREFETCH_LISTED)                       \
    FFNORM_PRODUCTS                                                   \
  }
#define FFNORM_FOUR_TERMS                                             \
  FFNORM_TERM(0) FFNORM_TERM(1) FFNORM_TERM(2) FFNORM_TERM(3) a += 4; \
  b += 4 * kPanelWidth;
// The same four terms with `lines` lines of the next panel in each.
#define FFNORM_PREFETCH_NEXT(k, lines)                     \
  PrefetchL2(next + (k)*kPanelWidth);                      \
  if constexpr (lines == 2) {                              \
    PrefetchL2(next + (k)*kPanelWidth + kAlignmentFloats); \
  }
#define FFNORM_FOUR_TERMS_AND_NEXT(lines)                              \
  FFNORM_PREFETCH_NEXT(0, lines)                                       \
  FFNORM_TERM(0)                                                       \
  FFNORM_PREFETCH_NEXT(1, lines)                                       \
  FFNORM_TERM(1)                                                       \
  FFNORM_PREFETCH_NEXT(2, lines)                                       \
  FFNORM_TERM(2) FFNORM_PREFETCH_NEXT(3, lines) FFNORM_TERM(3) a += 4; \
  b += 4 * kPanelWidth;                                                \
  next += 4 * kPanelWidth;
#define FFNORM_CLAIM_C(r, j)                                           \
  if constexpr (j < kVectors) {                                        \
    if (column##j % kAlignmentFloats == 0) ClaimLine(c_r + column##j); \
  }
#define FFNORM_CLAIM_C_ROW(r)                \
  if constexpr (r < kRows) {                 \
    float* c_r = args.c + r * args.c_stride; \
    FFNORM_TILE_ROW(FFNORM_CLAIM_C, r)       \
  }
#define FFNORM_PREFETCH_C(r, j)                                         \
  if constexpr (j < kVectors) {                                         \
    if (column##j % kAlignmentFloats == 0) PrefetchL1(c_r + column##j); \
  }
#define FFNORM_PREFETCH_C_ROW(r)                   \
  if constexpr (r < kRows) {                       \
    const float* c_r = args.c + r * args.c_stride; \
    FFNORM_TILE_ROW(FFNORM_PREFETCH_C, r)          \
  }
#define FFNORM_ADD_TO_ZERO(r, j) \
  if constexpr (j < kVectors) sum##r##_##j = hn::Add(zero, sum##r##_##j);
#define FFNORM_ADD_TO_ZERO_ROW(r) \
  if constexpr (r < kRows) FFNORM_TILE_ROW(FFNORM_ADD_TO_ZERO, r)
#define FFNORM_ADD_TO_C(r, j)                                            \
  if constexpr (j < kVectors) {                                          \
    sum##r##_##j = hn::Add(hn::LoadU(d, c_r + column##j), sum##r##_##j); \
  }
#define FFNORM_ADD_TO_C_ROW(r)                     \
  if constexpr (r < kRows) {                       \
    const float* c_r = args.c + r * args.c_stride; \
    FFNORM_TILE_ROW(FFNORM_ADD_TO_C, r)            \
  }
#define FFNORM_ADD_BIAS(r, j)                                             \
  if constexpr (j < kVectors) {                                           \
    sum##r##_##j = hn::Add(sum##r##_##j, hn::Load(d, args.bias + at##j)); \
  }
#define FFNORM_ADD_BIAS_ROW(r) \
  if constexpr (r < kRows) FFNORM_TILE_ROW(FFNORM_ADD_BIAS, r)
// The one form that keeps NaN of both signs and -0 on each target.
#define FFNORM_RELU(r, j)                                             \
  if constexpr (j < kVectors) {                                       \
    sum##r##_##j =                                                    \
        hn::IfThenZeroElse(hn::Lt(sum##r##_##j, zero), sum##r##_##j); \
  }
#define FFNORM_RELU_ROW(r) \
  if constexpr (r < kRows) FFNORM_TILE_ROW(FFNORM_RELU, r)
#define FFNORM_STORE(r, j) \
  if constexpr (j < kVectors) hn::StoreU(sum##r##_##j, d, c_r + column##j);
#define FFNORM_STORE_ROW(r)                  \
  if constexpr (r < kRows) {                 \
    float* c_r = args.c + r * args.c_stride; \
    FFNORM_TILE_ROW(FFNORM_STORE, r)         \
  }

// kRows x (kVectors * Lanes) totals take the sum of one block of K, which
// starts at +0 and takes its terms in ascending order.
//
// kAhead: for few rows, where reading B is all that takes time, how many lines
// ahead it is prefetched in its own panels, one line out of kEvery (where a
// line holds several vectors, with the first one); or 0, one line a page where
// they are far (see kPagesAhead). kNextWeights: for more rows, what args.next
// says instead. kListed: the terms are those of a list, and so are the
// prefetches. kHold: see HoldVector.
constexpr size_t kNextWeights = ~size_t{0};
constexpr size_t kListed = kNextWeights - 1;
template <size_t kVectors, size_t kRows, size_t kAhead, size_t kEvery = 1,
          bool kHold = false>
void Tile(const TileArgs& args) {
  static_assert(kVectors <= kMaxTileVectors && kRows <= kMaxTileRows);
  const TileTag d;
  const size_t N = hn::Lanes(d);
  const TileVec zero = hn::Zero(d);
  FFNORM_TILE_ROWS(FFNORM_DECLARE_ROW)
  FFNORM_TILE_VECTORS(FFNORM_PANEL)

  // The totals were last touched a whole pass over the weights ago.
  if (args.claim) {
    FFNORM_TILE_ROWS(FFNORM_CLAIM_C_ROW)
  } else {
    FFNORM_TILE_ROWS(FFNORM_PREFETCH_C_ROW)
  }

  const float* HWY_RESTRICT a = args.a;
  const float* HWY_RESTRICT b = args.b;
  size_t left = args.terms;
  // Without prefetches 11 to 17% are lost at many rows. They keep step with the
  // terms, so that a tile which has a panel to itself fetches the next one
  // whole: with half of its lines, in four places at a time, 8 and 14 rows of
  // (1024,4096) took 1.5x the time on Zen 4. A burst holds up the loads of A:
  // all lines in the first rounds took 1.28x at 512 rows on Zen 3.
  if constexpr (kAhead == kNextWeights) {
    constexpr size_t kRound = RoundTerms(kRows);
    const float* next = args.next;
    if (args.next_every == 1) {
      for (; left >= 4; left -= 4) {
        FFNORM_FOUR_TERMS_AND_NEXT(2)
      }
    } else if (args.next_every == 2) {
      for (; left >= 4; left -= 4) {
        FFNORM_FOUR_TERMS_AND_NEXT(1)
      }
    } else if (args.next_every == 4) {
      for (; left >= 4; left -= 4) {
        PrefetchL2(next);
        PrefetchL2(next + 2 * kPanelWidth);
        FFNORM_FOUR_TERMS
        next += 4 * kPanelWidth;
      }
    } else {
      for (; left >= kRound; left -= kRound) {
        PrefetchL2(next);
        FFNORM_FOUR_TERMS
        if constexpr (kRound == 8) {
          FFNORM_FOUR_TERMS
        }
        next += kRound * kPanelWidth;
      }
    }
  } else if constexpr (kAhead == kListed) {
    const uint32_t* units = args.units;
    for (; left >= 4; left -= 4) {
      FFNORM_LISTED_TERM(0)
      FFNORM_LISTED_TERM(1)
      FFNORM_LISTED_TERM(2)
      FFNORM_LISTED_TERM(3)
      units += 4;
    }
    for (; left != 0; --left) {
      FFNORM_LISTED_TERM(0)
      units += 1;
    }
  } else {
    if (kAhead == 0 && args.far) {
      constexpr size_t kPageTerms = kPageFloats / kPanelWidth;
      for (; left >= kPageTerms; left -= kPageTerms) {
        FFNORM_TILE_VECTORS(FFNORM_TOUCH_PAGE)
        for (size_t i = 0; i < kPageTerms; i += 4) {
          FFNORM_FOUR_TERMS
        }
      }
    }
    for (; left >= 4; left -= 4) {
      FFNORM_FOUR_TERMS
    }
  }
  for (; left != 0; --left) {
    FFNORM_TERM(0)
    a += 1;
    b += kPanelWidth;
  }

  // A block's sum may be -0 where a product underflows, a total never is: so
  // the first block is added to +0.
  if (args.first) {
    FFNORM_TILE_ROWS(FFNORM_ADD_TO_ZERO_ROW)
  } else {
    FFNORM_TILE_ROWS(FFNORM_ADD_TO_C_ROW)
  }
  if (args.epilogue != Epilogue::kNone) {
    FFNORM_TILE_ROWS(FFNORM_ADD_BIAS_ROW)
  }
  if (args.epilogue == Epilogue::kBiasRelu) {
    FFNORM_TILE_ROWS(FFNORM_RELU_ROW)
  }
  FFNORM_TILE_ROWS(FFNORM_STORE_ROW)
}

#undef FFNORM_TILE_ROW
#undef FFNORM_TILE_ROWS
#undef FFNORM_TILE_VECTORS
#undef FFNORM_DECLARE
#undef FFNORM_DECLARE_ROW
#undef FFNORM_PANEL
#undef FFNORM_LOAD_B
#undef FFNORM_PREFETCH_B
#undef FFNORM_TOUCH_PAGE
#undef FFNORM_MUL_ADD
#undef FFNORM_MUL_ADD_ROW
#undef FFNORM_MUL_ADD_THREE
#undef FFNORM_PRODUCTS
#undef FFNORM_TERM
#undef FFNORM_FOUR_TERMS
#undef FFNORM_PREFETCH_NEXT
#undef FFNORM_FOUR_TERMS_AND_NEXT
#undef FFNORM_LISTED_TERM
#undef FFNORM_PREFETCH_LISTED
#undef FFNORM_CLAIM_C
#undef FFNORM_CLAIM_C_ROW
#undef FFNORM_PREFETCH_C
#undef FFNORM_PREFETCH_C_ROW
#undef FFNORM_ADD_TO_ZERO
#undef FFNORM_ADD_TO_ZERO_ROW
#undef FFNORM_ADD_TO_C
#undef FFNORM_ADD_TO_C_ROW
#undef FFNORM_ADD_BIAS
#undef FFNORM_ADD_BIAS_ROW
#undef FFNORM_RELU
#undef FFNORM_RELU_ROW
#undef FFNORM_STORE
#undef FFNORM_STORE_ROW

template <size_t kVectors, size_t kAhead, size_t... kHeights>
HWY_INLINE void TileOfHeight(size_t rows, const TileArgs& args,
                             std::index_sequence<kHeights...>) {
  using TileFunction = void (*)(const TileArgs&);
  static constexpr TileFunction kTiles[] = {
      &Tile<kVectors, kHeights + 1, kAhead>...};
  kTiles[rows - 1](args);
}

// The tile for `rows` rows, 1 to kMaxRows.
template <size_t kVectors, size_t kMaxRows, size_t kAhead>
HWY_INLINE void RunTile(size_t rows, const TileArgs& args) {
  TileOfHeight<kVectors, kAhead>(rows, args,
                                 std::make_index_sequence<kMaxRows>());
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace ffnorm
HWY_AFTER_NAMESPACE();

#endif  // include guard
