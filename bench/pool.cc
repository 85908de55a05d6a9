#include "bench/pool.h"

#include <time.h>

#include <chrono>

namespace ffnorm {
namespace bench {
namespace {

// About 50 us of waiting.
constexpr int kSpins = 2000;

void Pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

Pool::Pool(size_t threads) : taken_(threads == 0 ? 1 : threads) {
  for (size_t i = 1; i < threads; ++i) {
    workers_.emplace_back([this, i] { Work(i); });
  }
}

Pool::~Pool() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void Pool::Run(size_t tasks, ffnorm_task task, void* context) {
  if (workers_.empty()) {
    for (size_t i = 0; i < tasks; ++i) task(context, i);
    return;
  }
  // Nobody reads these now: all tasks of the last run are finished.
  task_ = task;
  context_ = context;
  unfinished_ = tasks;
  const uint64_t run = (state_.load() >> 32) + 1;
  state_ = run << 32 | tasks;
  if (sleepers_.load() != 0) {
    { std::lock_guard<std::mutex> lock(mutex_); }
    wake_.notify_all();
  }
  while (RunOne(state_, 0)) {
  }
  for (int i = 0; unfinished_.load() != 0; ++i) {
    if (i < kSpins) {
      Pause();
    } else {
      std::this_thread::yield();  // a worker lost its core
    }
  }
}

bool Pool::RunOne(uint64_t state, size_t thread) {
  const uint64_t run = state >> 32;
  const size_t tasks = state & 0xffffffffu;
  for (size_t i = 0; i < tasks; ++i) {
    const size_t index = (thread + i) % tasks;
    uint64_t last = taken_[index].load();
    // If an exchange succeeds, this run had an open task all the while, so
    // these two are its own.
    const ffnorm_task task = task_.load();
    void* const context = context_.load();
    while (last < run) {
      if (taken_[index].compare_exchange_weak(last, run)) {
        task(context, index);
        --unfinished_;
        return true;
      }
    }
  }
  return false;
}

void Pool::Work(size_t thread) {
  uint64_t seen = 0;  // the last run in which there was nothing left to take
  while (!stop_) {
    for (int i = 0; i < kSpins; ++i) {
      const uint64_t state = state_.load();
      if (state != seen) {
        while (RunOne(state, thread)) {
        }
        seen = state;
        i = 0;
      }
      Pause();
    }
    std::unique_lock<std::mutex> lock(mutex_);
    ++sleepers_;
    wake_.wait(lock, [this, seen] { return stop_ || state_.load() != seen; });
    --sleepers_;
  }
}

double Pool::Now() const {
#ifdef CLOCK_THREAD_CPUTIME_ID
  if (workers_.empty()) {
    timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) +
           1e-9 * static_cast<double>(t.tv_nsec);
  }
#endif
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

}  // namespace bench
}  // namespace ffnorm
