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

// Hands out parts to whichever task asks next, so that a slow or late task
// costs little: with a stolen core a fixed split fell to 0.25 to 0.6x of one
// thread, the counter kept 1.2 to 1.45x. Lives in the workspace, a cache line
// to itself.
struct alignas(kAlignment) Counter {
  size_t next;

  void Reset() { __atomic_store_n(&next, size_t{0}, __ATOMIC_RELAXED); }
  size_t Take() {
    return __atomic_fetch_add(&next, size_t{1}, __ATOMIC_RELAXED);
  }
};

inline size_t Tasks(const ffnorm_exec& exec) {
  return exec.parallel_for == nullptr || exec.threads == 0 ? 1 : exec.threads;
}

// Runs task(context, 0 .. tasks - 1) on the caller's pool, or here.
inline void RunTasks(const ffnorm_exec& exec, size_t tasks, ffnorm_task task,
                     void* context) {
  if (exec.parallel_for != nullptr && tasks > 1) {
    exec.parallel_for(exec.pool, tasks, task, context);
  } else {
    for (size_t i = 0; i < tasks; ++i) task(context, i);
  }
}

}  // namespace
}  // namespace ffnorm

#endif  // FFNORM_KERNELS_SPLIT_H_
