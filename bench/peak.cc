#include "bench/peak.h"

#include <algorithm>
#include <map>
#include <utility>

#include "bench/memory.h"

namespace ffnorm {
namespace bench {
namespace {

// Long against the clock, short against the time slice of another process.
constexpr double kSlotSeconds = 1e-3;
constexpr int kSlots = 20;

constexpr int kReadPasses = 3;
constexpr double kFreshReadSeconds = 0.02;

using ReadFunction = uint32_t (*)(const uint32_t*, size_t);

// Keeps the loop that made the value, of which nothing else is wanted.
template <class T>
void Keep(T value) {
  asm volatile("" : : "m"(value));
}

double PassesPerSecond(ReadFunction read, Pool& pool, const uint32_t* from,
                       size_t words_each, double min_seconds) {
  double best = 0.0;
  double total = 0.0;
  for (int pass = 0; pass < kReadPasses || total < min_seconds; ++pass) {
    const double start = pool.Now();
    pool.Run(pool.threads(), [&](size_t i) {
      Keep(read(from + i * words_each, words_each));
    });
    const double seconds = pool.Now() - start;
    total += seconds;
    // The first pass brings the memory into the caches.
    if (pass != 0 && seconds > 0.0) best = std::max(best, 1.0 / seconds);
  }
  return best;
}

}  // namespace

double MeasurePeak(const PeakLoops& loops, Pool& pool) {
  double best = 0.0;
  size_t steps = 4096;
  for (int slot = 0; slot < kSlots;) {
    const double start = pool.Now();
    pool.Run(pool.threads(), [&](size_t) {
      Keep(loops.multiply_add(steps, 0.9f, 0.1f));
    });
    const double seconds = pool.Now() - start;
    if (seconds < kSlotSeconds / 2) {
      steps *= 2;
      continue;
    }
    const double flops =
        static_cast<double>(steps * loops.flops_per_step() * pool.threads());
    best = std::max(best, flops / seconds);
    ++slot;
  }
  return best;
}

double MeasureRead(const PeakLoops& loops, Pool& pool, const void* memory,
                   size_t bytes, double seconds) {
  const size_t words_each =
      bytes / sizeof(uint32_t) / pool.threads() / kReadStep * kReadStep;
  const double bytes_read =
      static_cast<double>(words_each * sizeof(uint32_t) * pool.threads());
  const uint32_t* const from = static_cast<const uint32_t*>(memory);
  return bytes_read * std::max(PassesPerSecond(loops.read_one_stream, pool,
                                               from, words_each, seconds),
                               PassesPerSecond(loops.read_four_streams, pool,
                                               from, words_each, seconds));
}

double BestRead(const PeakLoops& loops, Pool& pool, size_t bytes) {
  static std::map<std::pair<const PeakLoops*, size_t>, double> known;
  double& best = known[{&loops, bytes}];
  if (best == 0.0) {
    for (const Pages pages : {Pages::kHuge, Pages::kOrdinary}) {
      const Memory memory(bytes, pages);
      best = std::max(best, MeasureRead(loops, pool, memory.data(), bytes,
                                        kFreshReadSeconds));
    }
  }
  return best;
}

}  // namespace bench
}  // namespace ffnorm
