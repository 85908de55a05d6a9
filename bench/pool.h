// The thread pool that the benchmarks hand to the library, and the clock that
// fits it.
#ifndef FFNORM_BENCH_POOL_H_
#define FFNORM_BENCH_POOL_H_

#include <stddef.h>
#include <stdint.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "ffnorm/ffnorm.h"

namespace ffnorm {
namespace bench {

// Persistent workers. A waiting worker spins for some tens of microseconds,
// so that the phases of one call find it awake, and then sleeps. Each takes the
// task of its own index first, so that the same task of every call finds its
// weights in the caches of the same core, and then what others left.
class Pool {
 public:
  // The thread that calls Run() counts as one of `threads`.
  explicit Pool(size_t threads);
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  size_t threads() const { return workers_.size() + 1; }

  // What ffnorm_parallel_for asks for, with no more tasks than threads; one
  // Run() at a time.
  void Run(size_t tasks, ffnorm_task task, void* context);

  // The same for a function object: f(index).
  template <class F>
  void Run(size_t tasks, const F& f) {
    Run(
        tasks,
        [](void* context, size_t index) {
          (*static_cast<const F*>(context))(index);
        },
        const_cast<F*>(&f));
  }

  static void ParallelFor(void* pool, size_t tasks, ffnorm_task task,
                          void* context) {
    static_cast<Pool*>(pool)->Run(tasks, task, context);
  }

  // Seconds. Without workers the CPU time of this thread, which leaves out
  // what other processes took; with workers the time of day.
  double Now() const;

 private:
  void Work(size_t thread);
  // Runs one task of the run that `state` names; false if all are taken.
  bool RunOne(uint64_t state, size_t thread);

  // High half: number of the run. Low half: how many tasks it has.
  std::atomic<uint64_t> state_{0};
  // For each index, the last run whose task was taken. It only grows, so a
  // worker that comes late cannot take a task of a run that is over.
  std::vector<std::atomic<uint64_t>> taken_;
  std::atomic<size_t> unfinished_{0};
  std::atomic<ffnorm_task> task_{nullptr};
  std::atomic<void*> context_{nullptr};

  std::atomic<size_t> sleepers_{0};
  std::atomic<bool> stop_{false};
  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<std::thread> workers_;
};

}  // namespace bench
}  // namespace ffnorm

#endif  // FFNORM_BENCH_POOL_H_
