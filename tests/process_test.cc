// What needs a process of its own: the first calls of a program come from 16
// threads at once, and no call allocates. Exits with 0 if all was right.
#include <stddef.h>
#include <string.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include "ffnorm/ffnorm.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || \
    __has_feature(memory_sanitizer)
#define SANITIZED 1
#endif
#endif

// glibc lets a program bring its own malloc and still reach the first one. A
// sanitizer has its own already.
#if defined(__GLIBC__) && !defined(SANITIZED)
#define COUNTS_ALLOCATIONS 1
#endif

namespace {
std::atomic<size_t> allocations{0};
}  // namespace

#ifdef COUNTS_ALLOCATIONS
extern "C" {
void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);
void __libc_free(void*);

void* malloc(size_t bytes) {
  ++allocations;
  return __libc_malloc(bytes);
}
void* calloc(size_t count, size_t bytes) {
  ++allocations;
  return __libc_calloc(count, bytes);
}
void* realloc(void* memory, size_t bytes) {
  ++allocations;
  return __libc_realloc(memory, bytes);
}
void* memalign(size_t alignment, size_t bytes) {
  ++allocations;
  return __libc_memalign(alignment, bytes);
}
void* aligned_alloc(size_t alignment, size_t bytes) {
  return memalign(alignment, bytes);
}
int posix_memalign(void** memory, size_t alignment, size_t bytes) {
  *memory = memalign(alignment, bytes);
  return 0;
}
void free(void* memory) {
  if (memory != nullptr) ++allocations;
  __libc_free(memory);
}
}  // extern "C"
#endif

namespace {

constexpr size_t kModel = 33;
constexpr size_t kHidden = 300;
constexpr size_t kMostRows = 60;
constexpr size_t kThreads = 16;

// Static, so that nothing here depends on the heap.
struct alignas(FFNORM_ALIGNMENT) Memory {
  unsigned char packed[1 << 18];
  unsigned char workspace[1 << 20];
  float x[kMostRows * kModel];
  float y[kMostRows * kModel];
  float hidden[kMostRows * kHidden];
};

float w1[kModel * kHidden];
float w2[kHidden * kModel];
Memory memories[kThreads];

void InOrder(void*, size_t tasks, ffnorm_task task, void* context) {
  for (size_t i = 0; i < tasks; ++i) task(context, i);
}

// Small numbers of both signs.
void Fill(float* values, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    values[i] = static_cast<float>(i * 2654435761u % 201) / 100.0f - 1.0f;
  }
}

// Every public function, on its own memory and the best target or the given
// one. Returns how many calls failed.
size_t CallAll(Memory* memory, const ffnorm_target* target) {
  size_t failed = 0;
  const auto expect = [&failed](ffnorm_status status) {
    if (status != FFNORM_OK) ++failed;
  };
  ffnorm_params params = ffnorm_default_params(kModel, kHidden);
  params.w1 = w1;
  params.w2 = w2;
  size_t bytes = 0;
  expect(ffnorm_packed_bytes(&params, &bytes));
  if (bytes > sizeof(memory->packed)) return failed + 1;
  expect(ffnorm_pack(&params, memory->packed, bytes));
  expect(ffnorm_verify(memory->packed, bytes));
  ffnorm_block block;
  expect(ffnorm_open(memory->packed, bytes, target, &block));
  ffnorm_exec exec = {};
  exec.parallel_for = &InOrder;
  exec.threads = 3;
  exec.workspace = memory->workspace;
  exec.workspace_bytes = sizeof(memory->workspace);
  expect(ffnorm_workspace_bytes(&block, kMostRows, 3, &bytes));
  if (bytes > sizeof(memory->workspace)) return failed + 1;
  expect(ffnorm_reference_workspace_bytes(&params, &bytes));
  for (const size_t rows : {size_t{1}, size_t{4}, size_t{9}, kMostRows}) {
    for (const ffnorm_order order : {FFNORM_PRE_LN, FFNORM_POST_LN}) {
      expect(ffnorm_reference_forward(
          &params, ffnorm_target_class(block.target), order, 1, memory->x,
          kModel, memory->y, kModel, memory->workspace,
          sizeof(memory->workspace)));
      expect(ffnorm_forward(&block, order, rows, memory->x, kModel, memory->y,
                            kModel, &exec));
    }
    expect(ffnorm_dense(&block, FFNORM_DENSE_1, FFNORM_RELU, rows, memory->x,
                        kModel, memory->hidden, kHidden, &exec));
    expect(ffnorm_dense(&block, FFNORM_DENSE_2, FFNORM_LINEAR, rows,
                        memory->hidden, kHidden, memory->y, kModel, &exec));
    expect(ffnorm_layer_norm(target, kModel, 1e-6f, nullptr, nullptr, rows,
                             memory->x, kModel, memory->y, kModel));
    expect(ffnorm_residual_add(target, kModel, rows, memory->x, kModel,
                               memory->y, kModel, memory->y, kModel));
  }
  // Calls that fail do not allocate either.
  if (ffnorm_forward(&block, FFNORM_PRE_LN, 1, nullptr, kModel, memory->y,
                     kModel, &exec) != FFNORM_INVALID_ARGUMENT) {
    ++failed;
  }
  if (ffnorm_verify(memory->packed, 100) != FFNORM_CORRUPT) ++failed;
  const ffnorm_target* found = nullptr;
  if (ffnorm_find_target("none", &found) != FFNORM_UNSUPPORTED) ++failed;
  return failed;
}

int failures = 0;

void Check(bool right, const char* what) {
  if (right) return;
  std::printf("FAILED: %s\n", what);
  ++failures;
}

// Must run before any other call of the library.
void FirstCallsAtOnce() {
  std::atomic<size_t> waiting{0};
  std::vector<size_t> failed(kThreads, 1);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      ++waiting;
      while (waiting < kThreads) std::this_thread::yield();
      failed[i] = CallAll(&memories[i], nullptr);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (size_t i = 0; i < kThreads; ++i) {
    Check(failed[i] == 0, "a first call in 16 threads");
    Check(memcmp(memories[i].packed, memories[0].packed,
                 sizeof(memories[0].packed)) == 0,
          "16 threads: the same packed block");
    Check(memcmp(memories[i].y, memories[0].y, sizeof(memories[0].y)) == 0,
          "16 threads: the same y");
    Check(memcmp(memories[i].hidden, memories[0].hidden,
                 sizeof(memories[0].hidden)) == 0,
          "16 threads: the same hidden rows");
  }
}

#ifdef COUNTS_ALLOCATIONS
void NoAllocation() {
  size_t before = allocations;
  // Volatile, or a compiler may leave both calls out.
  void* volatile memory = std::malloc(1);
  std::free(memory);
  Check(allocations == before + 2, "allocations are counted");

  const ffnorm_target* targets[16];
  const size_t count = ffnorm_targets(targets, 16);
  Check(count != 0 && count <= 16, "targets");
  for (size_t i = 0; i < count; ++i) {
    before = allocations;
    const size_t failed = CallAll(&memories[0], targets[i]);
    const size_t after = allocations;
    Check(failed == 0, ffnorm_target_name(targets[i]));
    Check(after == before, "a call allocated");
  }
}
#endif

}  // namespace

int main() {
  Fill(w1, kModel * kHidden);
  Fill(w2, kModel * kHidden);
  for (Memory& memory : memories) Fill(memory.x, kMostRows * kModel);
  FirstCallsAtOnce();
#ifdef COUNTS_ALLOCATIONS
  NoAllocation();
#else
  std::printf("allocations: skipped, malloc cannot be replaced here\n");
#endif
  return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
