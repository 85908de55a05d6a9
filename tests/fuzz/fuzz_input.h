// What the fuzz targets share: values drawn from the fuzzer's bytes, and memory
// with guard pages.
#ifndef FFNORM_TESTS_FUZZ_FUZZ_INPUT_H_
#define FFNORM_TESTS_FUZZ_FUZZ_INPUT_H_

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

#include "ffnorm/ffnorm.h"

#if defined(__has_feature)
#if __has_feature(memory_sanitizer)
#define FFNORM_FUZZ_MSAN 1
#include <sanitizer/msan_interface.h>
#endif
#endif

namespace ffnorm {
namespace fuzz {

// Ends the process, which the fuzzer takes as a finding.
[[noreturn]] inline void Fail(const char* what) {
  std::fprintf(stderr, "FAILED: %s\n", what);
  std::abort();
}
inline void Require(bool right, const char* what) {
  if (!right) Fail(what);
}

// The input as a source of values; past its end all are 0.
class Input {
 public:
  Input(const uint8_t* data, size_t size) : data_(data), left_(size) {}

  template <typename T>
  T Next() {
    T value = {};
    const size_t bytes = left_ < sizeof(T) ? left_ : sizeof(T);
    if (bytes != 0) memcpy(&value, data_, bytes);
    data_ += bytes;
    left_ -= bytes;
    return value;
  }
  uint8_t Byte() { return Next<uint8_t>(); }
  size_t Below(size_t bound) { return Next<uint16_t>() % bound; }
  // True once in `in` times.
  bool Rarely(uint8_t in = 16) { return Byte() % in == in - 1; }

  // Small as a rule, else near a power of two, or any number at all.
  size_t Size() {
    switch (Byte() % 8) {
      case 0:
        return Below(600);
      case 1:
        return (size_t{1} << (Byte() % (8 * sizeof(size_t)))) + Byte() % 5 - 2;
      case 2:
        return Next<size_t>();
      case 3:
        return ~size_t{0} - Byte();
      default:
        return Byte() % 41;
    }
  }

  const uint8_t* rest() const { return data_; }
  size_t left() const { return left_; }

 private:
  const uint8_t* data_;
  size_t left_;
};

// Runs tasks in the calling thread, in either order.
inline void InOrder(void*, size_t tasks, ffnorm_task task, void* context) {
  for (size_t i = 0; i < tasks; ++i) task(context, i);
}
inline void Reversed(void*, size_t tasks, ffnorm_task task, void* context) {
  for (size_t i = tasks; i-- > 0;) task(context, i);
}

inline std::vector<const ffnorm_target*> Targets() {
  std::vector<const ffnorm_target*> targets(ffnorm_targets(nullptr, 0));
  ffnorm_targets(targets.data(), targets.size());
  return targets;
}

// Pages between two that cannot be touched, made once and used for buffers of
// any size up to its own, against either end.
class GuardedPages {
 public:
  explicit GuardedPages(size_t bytes) {
    const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    usable_ = (bytes + page - 1) / page * page;
    void* base = mmap(nullptr, usable_ + 2 * page, PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    Require(base != MAP_FAILED, "mmap");
    inner_ = static_cast<unsigned char*>(base) + page;
    Require(mprotect(inner_, usable_, PROT_READ | PROT_WRITE) == 0, "mprotect");
  }

  // `bytes` bytes of NaN, which MSan takes as not initialized; what was there
  // before is gone.
  void* Take(size_t bytes, bool at_end) {
    Require(bytes <= usable_, "guarded pages are too few");
    unsigned char* start = at_end ? inner_ + (usable_ - bytes) : inner_;
    memset(start, 0xff, bytes);
#ifdef FFNORM_FUZZ_MSAN
    __msan_allocated_memory(start, bytes);
#endif
    return start;
  }
  float* Floats(size_t count, bool at_end) {
    return static_cast<float*>(Take(count * sizeof(float), at_end));
  }

 private:
  size_t usable_;
  unsigned char* inner_;
};

}  // namespace fuzz
}  // namespace ffnorm

#endif  // FFNORM_TESTS_FUZZ_FUZZ_INPUT_H_
