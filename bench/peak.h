// What this CPU can do at best with the vectors of one target: multiply-adds
// from registers, and reads from memory. Kernels are stated as shares of these.
#ifndef FFNORM_BENCH_PEAK_H_
#define FFNORM_BENCH_PEAK_H_

#include <stddef.h>
#include <stdint.h>

#include "bench/pool.h"
#include "ffnorm/ffnorm.h"

namespace ffnorm {
namespace bench {

// Loops compiled for one target.
struct PeakLoops {
  const char* target;
  // False for EMU128: plain C++ has no instructions of its own, and how fast it
  // is depends on what the compiler makes of each loop.
  bool has_peak;
  size_t (*flops_per_step)();
  // `steps` times one multiply-add in each of many independent chains, all in
  // registers: fused on targets that fuse, else a product and a sum. Returns a
  // value that depends on all of them.
  float (*multiply_add)(size_t steps, float a, float b);
  // Sum of `words` words; words is a multiple of kReadStep.
  uint32_t (*read_one_stream)(const uint32_t* from, size_t words);
  uint32_t (*read_four_streams)(const uint32_t* from, size_t words);
};

// 8 vectors of 2048 bits, 4 streams.
constexpr size_t kReadStep = 8 * 64 * 4;

// nullptr: this benchmark was built without that target.
const PeakLoops* FindPeakLoops(const ffnorm_target* target);

// FLOP/s of all threads together: best of several slots of about 1 ms.
double MeasurePeak(const PeakLoops& loops, Pool& pool);

// Bytes/s, reading this memory with all threads, each its own part: the best of
// a few passes in either pattern, of at least `seconds` each.
double MeasureRead(const PeakLoops& loops, Pool& pool, const void* memory,
                   size_t bytes, double seconds);

// The same for fresh memory of this size, on 2 MiB pages and on the ordinary
// ones, whichever is faster. Measured once for each size.
double BestRead(const PeakLoops& loops, Pool& pool, size_t bytes);

}  // namespace bench
}  // namespace ffnorm

#endif  // FFNORM_BENCH_PEAK_H_
