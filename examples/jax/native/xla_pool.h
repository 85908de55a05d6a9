// XLA's thread pool as a pool for ffnorm.
#ifndef FFNORM_JAX_XLA_POOL_H_
#define FFNORM_JAX_XLA_POOL_H_

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>

#include "ffnorm/ffnorm.hpp"
#include "xla/ffi/api/ffi.h"

namespace ffnorm_jax {

// The calling thread, which may be one of the pool's own, takes tasks too, and
// then waits only for tasks that have begun: so calls that fill the whole pool
// never wait for each other. A helper that starts when all is done finds the
// counter at its end; it shares ownership of `Work`, as the call has returned.
class XlaPool {
 public:
  XlaPool(xla::ffi::ThreadPool pool, size_t threads)
      : pool_(pool), threads_(threads) {}

  // Calls task(i) for each i in [0, tasks).
  void operator()(size_t tasks, ffnorm::Task task) {
    const auto work = std::make_shared<Work>(tasks, task);
    for (size_t i = 1; i < std::min(tasks, threads_); ++i) {
      pool_.Schedule([work] { work->Run(); });
    }
    work->Run();
    work->Wait();
  }

 private:
  class Work {
   public:
    Work(size_t tasks, ffnorm::Task task) : tasks_(tasks), task_(task) {}

    void Run() {
      size_t done = 0;
      for (size_t i = next_++; i < tasks_; i = next_++, ++done) task_(i);
      if (done == 0) return;
      const std::lock_guard<std::mutex> lock(mutex_);
      done_ += done;
      if (done_ == tasks_) all_done_.notify_one();
    }

    void Wait() {
      std::unique_lock<std::mutex> lock(mutex_);
      all_done_.wait(lock, [this] { return done_ == tasks_; });
    }

   private:
    const size_t tasks_;
    const ffnorm::Task task_;
    std::atomic<size_t> next_{0};
    std::mutex mutex_;
    std::condition_variable all_done_;
    size_t done_ = 0;
  };

  xla::ffi::ThreadPool pool_;
  size_t threads_;
};

}  // namespace ffnorm_jax

#endif  // FFNORM_JAX_XLA_POOL_H_
