// Threads for tests: a pool that keeps its own, and a crowd that starts at
// once.
#ifndef FFNORM_TESTS_THREAD_POOL_H_
#define FFNORM_TESTS_THREAD_POOL_H_

#include <stddef.h>

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "ffnorm/ffnorm.h"

namespace ffnorm {
namespace test {

// Keeps its threads, as real pools do. Whoever calls takes part in the work, so
// a task may call it again.
class KeptPool {
 public:
  explicit KeptPool(size_t workers) {
    for (size_t i = 0; i < workers; ++i) {
      threads_.emplace_back([this] { Work(nullptr); });
    }
  }

  ~KeptPool() {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  static void ParallelFor(void* pool, size_t tasks, ffnorm_task task,
                          void* context) {
    KeptPool* self = static_cast<KeptPool*>(pool);
    Job job{task, context, tasks, 0, 0};
    {
      std::lock_guard<std::mutex> lock(self->mutex_);
      self->jobs_.push_back(&job);
    }
    self->changed_.notify_all();
    self->Work(&job);
  }

 private:
  struct Job {
    ffnorm_task task;
    void* context;
    size_t tasks;
    size_t started;
    size_t finished;
  };

  // Takes tasks of any job until `until` is finished, or else until the end.
  void Work(const Job* until) {
    std::unique_lock<std::mutex> lock(mutex_);
    for (;;) {
      if (until != nullptr && until->finished == until->tasks) return;
      if (!jobs_.empty()) {
        Job* job = jobs_.back();
        const size_t index = job->started++;
        if (job->started == job->tasks) jobs_.pop_back();
        lock.unlock();
        job->task(job->context, index);
        lock.lock();
        if (++job->finished == job->tasks) changed_.notify_all();
      } else if (until == nullptr && stop_) {
        return;
      } else {
        changed_.wait(lock);
      }
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Job*> jobs_;
  std::vector<std::thread> threads_;
  bool stop_ = false;
};

// Calls fn(0) ... fn(count - 1), each in a thread of its own, all at once.
inline void AllAtOnce(size_t count, const std::function<void(size_t)>& fn) {
  std::atomic<size_t> waiting{0};
  std::vector<std::thread> threads;
  for (size_t i = 0; i < count; ++i) {
    threads.emplace_back([&, i] {
      ++waiting;
      while (waiting < count) std::this_thread::yield();
      fn(i);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace test
}  // namespace ffnorm

#endif  // FFNORM_TESTS_THREAD_POOL_H_
