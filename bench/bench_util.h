// What all benchmarks share: shapes and names, the work that one call does, and
// how a call is checked, measured and stated.
#ifndef FFNORM_BENCH_BENCH_UTIL_H_
#define FFNORM_BENCH_BENCH_UTIL_H_

#include <benchmark/benchmark.h>
#include <stddef.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "bench/peak.h"
#include "bench/pool.h"
#include "ffnorm/ffnorm.h"

namespace ffnorm {
namespace bench {

// ---- What is run ------------------------------------------------------------

struct Shape {
  size_t d_model;
  size_t d_ff;
};
constexpr Shape kShapes[] = {{512, 2048}, {1024, 4096}, {768, 3072},
                             {256, 2048}, {384, 1536},  {4096, 16384}};
constexpr size_t kWidths[] = {256, 384, 512, 768, 1024, 4096};
constexpr size_t kRows[] = {1, 2, 4, 8, 16, 32, 64, 128, 512, 2048};
constexpr size_t kMaxRows = 2048;

struct Options {
  size_t threads = 1;
  bool all = false;  // also those that take seconds a call
};
// To be set before anything is registered.
Options& GetOptions();

// Of GetOptions().threads threads.
Pool& GetPool();

// All that this CPU runs, the best one first.
const std::vector<const ffnorm_target*>& Targets();

// ---- Work: of the asked shape, without padding ------------------------------

struct Work {
  double flops = 0.0;
  double weight_bytes = 0.0;  // of the matrices, read once
  double row_bytes = 0.0;     // of the rows that come in and go out
};

// A multiply-add counts as 2. LayerNorm and the bias are not counted.
inline Work BlockWork(size_t rows, Shape shape) {
  const double weights = 2.0 * static_cast<double>(shape.d_model) *
                         static_cast<double>(shape.d_ff);
  return {2.0 * static_cast<double>(rows) * weights, sizeof(float) * weights,
          0.0};
}
// One Dense layer: half a block.
inline Work DenseWork(size_t rows, Shape shape) {
  const Work block = BlockWork(rows, shape);
  return {block.flops / 2, block.weight_bytes / 2, 0.0};
}
// `matrices` matrices of `width` columns read or written.
inline Work RowWork(size_t rows, size_t width, size_t matrices) {
  return {0.0, 0.0,
          static_cast<double>(sizeof(float) * rows * width * matrices)};
}

// ---- One benchmark ----------------------------------------------------------

// Lives as long as its registration, since one benchmark runs several times.
class Case {
 public:
  // target: whose peak and bandwidth the result is compared with; nullptr: none
  // (the scalar reference).
  Case(const ffnorm_target* target, const Work& work)
      : target_(target), work_(work) {}

  // The weights that one call reads: `roof` takes the bandwidth of reading
  // these, or others of the same size.
  struct Weights {
    const void* memory = nullptr;
    size_t bytes = 0;
  };

  // call() does the work once and returns a ffnorm_status; check() says whether
  // its result is right.
  template <class Call>
  void Measure(benchmark::State& state, const Weights& weights,
               const Call& call, const std::function<bool()>& check) {
    MeasureBatches(
        state, weights,
        [&call](size_t count) {
          bool ok = true;
          for (size_t i = 0; i < count; ++i) {
            ok &= call() == FFNORM_OK;
            benchmark::ClobberMemory();
          }
          return ok;
        },
        check);
  }

 private:
  // Calls `count` times; false when a call failed.
  using Batch = std::function<bool(size_t count)>;

  void MeasureBatches(benchmark::State& state, const Weights& weights,
                      const Batch& batch, const std::function<bool()>& check);
  // Checks one result and finds how many calls make a batch. Returns what is
  // wrong, or nullptr.
  const char* Prepare(const Batch& batch, const std::function<bool()>& check);
  void Calibrate(const Weights& weights);
  void SetCounters(benchmark::State& state, double seconds,
                   double best_seconds) const;

  const ffnorm_target* target_;
  const PeakLoops* loops_ = nullptr;
  Work work_;
  size_t calls_per_batch_ = 0;  // 0: not checked yet
  double peak_ = 0.0;           // FLOP/s
  double bandwidth_ = 0.0;      // bytes/s
};

// "stage/who/1/512/2048", with "/threads:2" at its end unless there is one.
std::string Name(const std::string& stage, const std::string& who,
                 const std::vector<size_t>& sizes);

// Whether one call takes seconds; target nullptr means the reference.
bool TooLong(const ffnorm_target* target, const Work& work);

// body(case, state) sets its data up and calls case.Measure. Leaves out what is
// too long.
template <class Body>
void Register(const std::string& name, const ffnorm_target* target,
              const Work& work, Body body) {
  if (TooLong(target, work)) return;
  benchmark::internal::Benchmark* const registered =
      benchmark::RegisterBenchmark(
          name.c_str(),
          [body, bench_case = Case(target, work)](
              benchmark::State& state) mutable { body(bench_case, state); });
  registered->Unit(benchmark::kMicrosecond);
  if (GetOptions().threads > 1) registered->UseRealTime();
}

// Calls stage(first row, row count) on a part of the rows in each thread of the
// pool; for stages that are not split by the library.
template <class RowStage>
ffnorm_status InParts(size_t rows, const RowStage& stage) {
  Pool& pool = GetPool();
  const size_t parts = std::min(rows, pool.threads());
  std::atomic<bool> ok{true};
  pool.Run(parts, [&](size_t i) {
    const size_t first = rows * i / parts;
    const size_t count = rows * (i + 1) / parts - first;
    if (stage(first, count) != FFNORM_OK) ok = false;
  });
  return ok ? FFNORM_OK : FFNORM_INVALID_ARGUMENT;
}

// The rows of a result that are compared with the reference, which is slow.
inline std::array<size_t, 2> CheckedRows(size_t rows) { return {0, rows - 1}; }

// Reports an error instead of a result, and makes the program fail at its end.
void Fail(benchmark::State& state, const char* what);
bool AnyFailed();

// Equal bits; any NaN equals any other.
bool SameBits(const float* a, const float* b, size_t count);

// ---- The benchmarks, a file each --------------------------------------------

void RegisterBlock();
void RegisterDenseRelu();
void RegisterLayerNorm();
void RegisterResidualAdd();

}  // namespace bench
}  // namespace ffnorm

#endif  // FFNORM_BENCH_BENCH_UTIL_H_
