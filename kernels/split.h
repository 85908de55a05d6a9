// Work cut into even parts, and the parts handed out to tasks.
#ifndef FFNORM_KERNELS_SPLIT_H_
#define FFNORM_KERNELS_SPLIT_H_

#include <stddef.h>

#include "ffnorm/ffnorm.h"
#include "kernels/shape.h"

namespace ffnorm {
namespace {

// First item of part `part` when `items` are cut in `parts` parts whose sizes
// differ by at most one; part == parts gives `items`.
inline size_t PartBegin(size_t items, size_t parts, size_t part) {
  const size_t remainder = items % parts;
  return items / parts * part + (part < remainder ? part : remainder);
}

// How many parts of one task are taken. Lives in the workspace, a cache line to
// itself.
struct alignas(kAlignment) Counter {
  size_t taken;

  void Reset() { __atomic_store_n(&taken, size_t{0}, __ATOMIC_RELAXED); }
  // Takes one of so many parts; no less than `parts` if none is left. Then it
  // only reads: every task asks all counters at its end.
  size_t Take(size_t parts) {
    const size_t before = __atomic_load_n(&taken, __ATOMIC_RELAXED);
    if (before >= parts) return before;
    return __atomic_fetch_add(&taken, size_t{1}, __ATOMIC_RELAXED);
  }
};

// Parts of work, dealt to tasks: each has some in a row, the same in every
// call, so that their weights stay in its core's caches. On Zen 4 two tasks
// take .86 to .98 of the time at 1 to 8 rows that they took when both drew from
// one counter: a line that the other core read last comes from its cache.
struct Deal {
  Counter* counters;  // one for each task
  size_t tasks;       // no more than parts
  size_t parts;
};

// `counters` has room for so many tasks, of which each gets a part.
inline Deal DealParts(size_t parts, size_t tasks, Counter* counters) {
  const Deal deal = {counters, MinOf(tasks, parts), parts};
  for (size_t task = 0; task < deal.tasks; ++task) counters[task].Reset();
  return deal;
}

// Takes the parts of one task, then what others have left, so that a slow or
// late one costs little: with a stolen core a fixed split fell to 0.25 to 0.6x
// of one thread, taking what is left kept 1.2 to 1.45x.
class Taker {
 public:
  Taker(const Deal& deal, size_t task) : deal_(deal), owner_(task) {}

  // The next part, or deal.parts if none is left.
  size_t Take() {
    for (; finished_ < deal_.tasks; ++finished_) {
      const size_t begin = PartBegin(deal_.parts, deal_.tasks, owner_);
      const size_t end = PartBegin(deal_.parts, deal_.tasks, owner_ + 1);
      const size_t taken = deal_.counters[owner_].Take(end - begin);
      if (taken < end - begin) return begin + taken;
      owner_ = owner_ + 1 == deal_.tasks ? 0 : owner_ + 1;
    }
    return deal_.parts;
  }

 private:
  const Deal& deal_;
  size_t owner_;
  size_t finished_ = 0;  // tasks that have no parts left
};

inline size_t Tasks(const ffnorm_exec& exec) {
  return exec.parallel_for == nullptr || exec.threads == 0 ? 1 : exec.threads;
}

// Runs task(context, i) for each task of a deal, on the caller's pool or here.
inline void RunTasks(const ffnorm_exec& exec, const Deal& deal,
                     ffnorm_task task, void* context) {
  if (exec.parallel_for != nullptr && deal.tasks > 1) {
    exec.parallel_for(exec.pool, deal.tasks, task, context);
  } else {
    for (size_t i = 0; i < deal.tasks; ++i) task(context, i);
  }
}

}  // namespace
}  // namespace ffnorm

#endif  // FFNORM_KERNELS_SPLIT_H_
