// The least a thread pool can be: threads that wait, and a counter that hands
// out tasks. An engine brings its own instead; ffnorm takes any.
#ifndef FFNORM_EXAMPLES_POOL_H_
#define FFNORM_EXAMPLES_POOL_H_

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

#include "ffnorm/ffnorm.hpp"

namespace ffnorm_example {

class Pool {
 public:
  // Runs tasks in `threads` threads, the calling one among them.
  explicit Pool(size_t threads) {
    for (size_t i = 1; i < threads; ++i) {
      workers_.emplace_back([this] { Work(); });
    }
  }

  ~Pool() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      stop_ = true;
    }
    start_.notify_all();
    for (std::thread& worker : workers_) worker.join();
  }

  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  // Calls task(i) for each i in [0, tasks).
  void operator()(size_t tasks, ffnorm::Task task) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      task_ = task;
      tasks_ = tasks;
      next_ = 0;
      busy_ = workers_.size();
      ++round_;
    }
    start_.notify_all();
    RunTasks(task, tasks);
    std::unique_lock<std::mutex> lock(mutex_);
    done_.wait(lock, [this] { return busy_ == 0; });
  }

 private:
  void RunTasks(ffnorm::Task task, size_t tasks) {
    for (size_t i = next_++; i < tasks; i = next_++) task(i);
  }

  void Work() {
    uint64_t round = 0;
    std::unique_lock<std::mutex> lock(mutex_);
    for (;;) {
      start_.wait(lock, [&] { return stop_ || round_ != round; });
      if (stop_) return;
      round = round_;
      const ffnorm::Task task = task_;
      const size_t tasks = tasks_;
      lock.unlock();
      RunTasks(task, tasks);
      lock.lock();
      if (--busy_ == 0) done_.notify_one();
    }
  }

  std::mutex mutex_;
  std::condition_variable start_;
  std::condition_variable done_;
  ffnorm::Task task_{nullptr, nullptr};
  size_t tasks_ = 0;
  size_t busy_ = 0;  // workers that have not finished this round
  uint64_t round_ = 0;
  bool stop_ = false;
  std::atomic<size_t> next_{0};
  std::vector<std::thread> workers_;
};

}  // namespace ffnorm_example

#endif  // FFNORM_EXAMPLES_POOL_H_
