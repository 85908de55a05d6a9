// Which calls a plain model of the rules allows: matrices in one arena,
// compared byte by byte; and the call itself, held to that verdict.
#ifndef FFNORM_TESTS_FUZZ_ARGUMENTS_MODEL_H_
#define FFNORM_TESTS_FUZZ_ARGUMENTS_MODEL_H_

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <vector>

#include "ffnorm/ffnorm.h"
#include "tests/fuzz/fuzz_input.h"

#if defined(__SANITIZE_ADDRESS__)
#define FFNORM_FUZZ_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define FFNORM_FUZZ_ASAN 1
#endif
#endif
#ifdef FFNORM_FUZZ_ASAN
#include <sanitizer/asan_interface.h>
#endif

namespace ffnorm {
namespace fuzz {
namespace {

constexpr size_t kArena = 1 << 14;
alignas(FFNORM_ALIGNMENT) unsigned char arena[kArena];
unsigned char before[kArena];
bool may_change[kArena];

// A matrix as a call names it.
struct Claim {
  const float* data;
  size_t rows;
  size_t columns;
  size_t stride;
  bool written;
};

enum class Fit {
  kInside,   // every element is in the arena
  kRefused,  // NULL, misaligned, a stride below the width, or past all memory
  kOutside   // may be real memory, but not ours: the call must not be made
};

bool MulFits(size_t a, size_t b, size_t* product) {
  *product = a * b;
  return b == 0 || a <= SIZE_MAX / b;
}

Fit FitOf(const Claim& c) {
  const uintptr_t data = reinterpret_cast<uintptr_t>(c.data);
  if (data == 0 || data % sizeof(float) != 0 || c.stride < c.columns) {
    return Fit::kRefused;
  }
  size_t floats, bytes;
  if (!MulFits(c.rows - 1, c.stride, &floats) ||
      floats > SIZE_MAX - c.columns ||
      !MulFits(floats + c.columns, sizeof(float), &bytes) ||
      bytes > SIZE_MAX - data) {
    return Fit::kRefused;
  }
  const uintptr_t begin = reinterpret_cast<uintptr_t>(arena);
  return data >= begin && data - begin <= kArena &&
                 bytes <= kArena - (data - begin)
             ? Fit::kInside
             : Fit::kOutside;
}

// Where in the arena a row starts, in floats. Claims that are inside are
// aligned.
size_t At(const Claim& c, size_t row) {
  return static_cast<size_t>(c.data - reinterpret_cast<const float*>(arena)) +
         row * c.stride;
}

// What two matrices, both inside the arena, have in common.
enum class Shared { kNothing, kSpan, kSame, kClash };

Shared SharedBy(const Claim& from, const Claim& to) {
  // Which element of `from` each float belongs to; 0 for none.
  static uint32_t owner[kArena / sizeof(float)];
  memset(owner, 0, sizeof(owner));
  for (size_t r = 0; r < from.rows; ++r) {
    for (size_t c = 0; c < from.columns; ++c) {
      owner[At(from, r) + c] = static_cast<uint32_t>(r * from.columns + c + 1);
    }
  }
  bool some = false;
  for (size_t r = 0; r < to.rows; ++r) {
    for (size_t c = 0; c < to.columns; ++c) {
      const uint32_t element = owner[At(to, r) + c];
      if (element == 0) continue;
      some = true;
      if (to.columns != from.columns || element != r * to.columns + c + 1) {
        return Shared::kClash;
      }
    }
  }
  if (from.data == to.data && from.stride == to.stride) return Shared::kSame;
  const bool apart = At(to, to.rows - 1) + to.columns <= At(from, 0) ||
                     At(from, from.rows - 1) + from.columns <= At(to, 0);
  return some || !apart ? Shared::kSpan : Shared::kNothing;
}

// What a call's matrices allow.
enum class Verdict { kMustRun, kMayRun, kMustFail, kSkip };

Verdict Worse(Verdict a, Verdict b) { return a < b ? b : a; }

// All matrices of a call, the last one being its output.
Verdict Judge(const std::vector<Claim>& claims, bool in_place) {
  Verdict verdict = Verdict::kMustRun;
  bool outside = false;
  for (const Claim& claim : claims) {
    const Fit fit = FitOf(claim);
    if (fit == Fit::kRefused) verdict = Verdict::kMustFail;
    if (fit == Fit::kOutside) outside = true;
  }
  if (outside) return Verdict::kSkip;
  if (verdict == Verdict::kMustFail) return verdict;
  const Claim& to = claims.back();
  for (size_t i = 0; i + 1 < claims.size(); ++i) {
    switch (SharedBy(claims[i], to)) {
      case Shared::kNothing:
        break;
      case Shared::kSpan:
        verdict = Worse(verdict, Verdict::kMayRun);
        break;
      case Shared::kSame:
        if (!in_place) verdict = Verdict::kMustFail;
        break;
      case Shared::kClash:
        verdict = Verdict::kMustFail;
        break;
    }
  }
  return verdict;
}

void Expose(const Claim& c) {
  if (FitOf(c) != Fit::kInside) return;
  for (size_t r = 0; r < c.rows; ++r) {
    const size_t bytes = c.columns * sizeof(float);
#ifdef FFNORM_FUZZ_ASAN
    ASAN_UNPOISON_MEMORY_REGION(c.data + r * c.stride, bytes);
#endif
    if (c.written) memset(may_change + At(c, r) * sizeof(float), 1, bytes);
  }
}

// Makes the call, and holds it to the verdict.
template <class Call>
void Make(const std::vector<Claim>& claims, Verdict verdict, const char* name,
          const Call& call) {
  if (verdict == Verdict::kSkip) return;
  memset(may_change, 0, sizeof(may_change));
#ifdef FFNORM_FUZZ_ASAN
  ASAN_POISON_MEMORY_REGION(arena, kArena);
#endif
  for (const Claim& claim : claims) Expose(claim);
  const ffnorm_status status = call();
#ifdef FFNORM_FUZZ_ASAN
  ASAN_UNPOISON_MEMORY_REGION(arena, kArena);
#endif
  if (status == FFNORM_OK) {
    if (verdict == Verdict::kMustFail) Fail(name);
  } else if (verdict == Verdict::kMustRun) {
    Fail(name);
  }
  if (memcmp(arena, before, kArena) == 0) return;
  for (size_t i = 0; i < kArena; ++i) {
    if (arena[i] != before[i] && !(status == FFNORM_OK && may_change[i])) {
      Fail("memory changed that is not the call's output");
    }
  }
}

}  // namespace
}  // namespace fuzz
}  // namespace ffnorm

#endif  // FFNORM_TESTS_FUZZ_ARGUMENTS_MODEL_H_
