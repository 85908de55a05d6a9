#include "bench/bench_util.h"

#include <math.h>
#include <string.h>

#include <algorithm>
#include <limits>

namespace ffnorm {
namespace bench {
namespace {

// A batch is timed as a whole: long against the clock, short against the time
// slice of another process.
constexpr double kBatchSeconds = 5e-4;

// A first call that takes longer is a batch, without further trials.
constexpr double kLongCallSeconds = 1e-2;

// For reading the weights again, before and after each run.
constexpr double kReadSeconds = 4e-3;

// FLOPs of one call above which a benchmark is left out.
constexpr double kLongFlops = 2e11;
constexpr double kLongFlopsOneLane = 2e10;
constexpr double kLongFlopsReference = 7e7;

bool any_failed = false;

double Timed(const std::function<bool(size_t)>& batch, size_t count, bool* ok) {
  const double start = GetPool().Now();
  *ok &= batch(count);
  return GetPool().Now() - start;
}

}  // namespace

Options& GetOptions() {
  static Options options;
  return options;
}

Pool& GetPool() {
  static Pool pool(GetOptions().threads);
  return pool;
}

const std::vector<const ffnorm_target*>& Targets() {
  static const std::vector<const ffnorm_target*> targets = [] {
    std::vector<const ffnorm_target*> all(ffnorm_targets(nullptr, 0));
    ffnorm_targets(all.data(), all.size());
    return all;
  }();
  return targets;
}

std::string Name(const std::string& stage, const std::string& who,
                 const std::vector<size_t>& sizes) {
  std::string name = stage + "/" + who;
  for (const size_t size : sizes) name += "/" + std::to_string(size);
  const size_t threads = GetOptions().threads;
  if (threads > 1) name += "/threads:" + std::to_string(threads);
  return name;
}

bool TooLong(const ffnorm_target* target, const Work& work) {
  if (target == nullptr) return work.flops > kLongFlopsReference;
  if (GetOptions().all) return false;
  const bool one_lane = ffnorm_target_vector_bytes(target) <= sizeof(float);
  return work.flops > (one_lane ? kLongFlopsOneLane : kLongFlops);
}

bool SameBits(const float* a, const float* b, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    if (isnan(a[i]) && isnan(b[i])) continue;
    if (memcmp(a + i, b + i, sizeof(float)) != 0) return false;
  }
  return true;
}

void Fail(benchmark::State& state, const char* what) {
  any_failed = true;
  state.SkipWithError(what);
}

bool AnyFailed() { return any_failed; }

const char* Case::Prepare(const Batch& batch,
                          const std::function<bool()>& check) {
  if (target_ != nullptr && work_.flops != 0.0) {
    loops_ = FindPeakLoops(target_);
    if (loops_ == nullptr) return "no peak loop was built for this target";
    if (!loops_->has_peak) loops_ = nullptr;
  }
  bool ok = true;
  const double first_seconds = Timed(batch, 1, &ok);
  if (!ok) return "the call failed";
  if (!check()) return "the result is not the reference's";
  size_t calls = 1;
  if (first_seconds < kLongCallSeconds) {
    while (Timed(batch, calls, &ok) < kBatchSeconds / 2) calls *= 2;
  }
  if (!ok) return "the call failed";
  calls_per_batch_ = calls;
  return nullptr;
}

void Case::Calibrate(const Weights& weights) {
  if (loops_ == nullptr) return;
  Pool& pool = GetPool();
  peak_ = std::max(peak_, MeasurePeak(*loops_, pool));
  bandwidth_ = std::max({bandwidth_, BestRead(*loops_, pool, weights.bytes),
                         MeasureRead(*loops_, pool, weights.memory,
                                     weights.bytes, kReadSeconds)});
}

void Case::MeasureBatches(benchmark::State& state, const Weights& weights,
                          const Batch& batch,
                          const std::function<bool()>& check) {
  if (calls_per_batch_ == 0) {
    if (const char* const error = Prepare(batch, check)) {
      Fail(state, error);
      return;
    }
  }
  Calibrate(weights);
  double seconds = 0.0;
  double best_seconds = std::numeric_limits<double>::infinity();
  bool ok = true;
  const auto count = static_cast<benchmark::IterationCount>(calls_per_batch_);
  while (state.KeepRunningBatch(count)) {
    const double batch_seconds = Timed(batch, calls_per_batch_, &ok);
    seconds += batch_seconds;
    best_seconds = std::min(best_seconds, batch_seconds);
  }
  Calibrate(weights);
  if (!ok || !check()) {
    Fail(state, "the result changed during the measurement");
    return;
  }
  SetCounters(state, seconds / static_cast<double>(state.iterations()),
              best_seconds / static_cast<double>(calls_per_batch_));
}

void Case::SetCounters(benchmark::State& state, double seconds,
                       double best_seconds) const {
  using benchmark::Counter;
  const double calls = static_cast<double>(state.iterations());
  if (work_.flops != 0.0) {
    state.counters["FLOP/s"] = Counter(work_.flops * calls, Counter::kIsRate);
  }
  if (work_.weight_bytes != 0.0) {
    state.counters["weight_B/s"] =
        Counter(work_.weight_bytes * calls, Counter::kIsRate);
  }
  if (work_.row_bytes != 0.0) {
    state.counters["bytes/s"] =
        Counter(work_.row_bytes * calls, Counter::kIsRate);
  }
  if (loops_ != nullptr) {
    const double roof =
        std::min(peak_, bandwidth_ * work_.flops / work_.weight_bytes);
    state.counters["peak"] = work_.flops / seconds / peak_;
    state.counters["roof"] = work_.flops / seconds / roof;
    state.counters["roof_best"] = work_.flops / best_seconds / roof;
  }
}

}  // namespace bench
}  // namespace ffnorm
