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

Pool::Pool(size_t threads) {
  for (size_t i = 1; i < threads; ++i) {
    workers_.emplace_back([this] { Work(); });
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
  while (RunOne()) {
  }
  for (int i = 0; unfinished_.load() != 0; ++i) {
    if (i < kSpins) {
      Pause();
    } else {
      std::this_thread::yield();  // a worker lost its core
    }
  }
}

bool Pool::RunOne() {
  uint64_t state = state_.load();
  while ((state & 0xffffffffu) != 0) {
    // If the exchange succeeds, this run had an open task all the while, so
    // these two are its own.
    const ffnorm_task task = task_.load();
    void* const context = context_.load();
    if (state_.compare_exchange_weak(state, state - 1)) {
      task(context, (state & 0xffffffffu) - 1);
      --unfinished_;
      return true;
    }
  }
  return false;
}

void Pool::Work() {
  while (!stop_) {
    for (int i = 0; i < kSpins; ++i) {
      if (RunOne()) i = 0;
      Pause();
    }
    std::unique_lock<std::mutex> lock(mutex_);
    ++sleepers_;
    wake_.wait(lock, [this] { return stop_ || HasTasks(); });
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
