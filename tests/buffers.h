// Memory for tests: aligned and exactly sized, or up against a guard page.
#ifndef FFNORM_TESTS_BUFFERS_H_
#define FFNORM_TESTS_BUFFERS_H_

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <limits>
#include <memory>
#include <new>
#include <vector>

#include "tests/test_util.h"

#if defined(__unix__) || defined(__APPLE__)
#define FFNORM_TESTS_HAVE_MMAP 1
#include <sys/mman.h>
#include <unistd.h>
#else
#define FFNORM_TESTS_HAVE_MMAP 0
#endif

// Valgrind, in a build for it, is told what counts as not initialized, and
// where that may be read all the same.
#ifdef FFNORM_TESTS_VALGRIND
#include <valgrind/memcheck.h>
#define FFNORM_TESTS_UNINITIALIZED(data, bytes) \
  static_cast<void>(VALGRIND_MAKE_MEM_UNDEFINED(data, bytes))
#define FFNORM_TESTS_INITIALIZED(data, bytes) \
  static_cast<void>(VALGRIND_MAKE_MEM_DEFINED(data, bytes))
#else
#define FFNORM_TESTS_UNINITIALIZED(data, bytes) static_cast<void>(0)
#define FFNORM_TESTS_INITIALIZED(data, bytes) static_cast<void>(0)
#endif

namespace ffnorm {
namespace test {

// NaN, which shows in any result that was computed from it.
inline void FillNaN(float* values, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    values[i] = std::numeric_limits<float>::quiet_NaN();
  }
  FFNORM_TESTS_UNINITIALIZED(values, count * sizeof(float));
}

// `bytes` bytes at FFNORM_ALIGNMENT. Not one byte more, so that sanitizers and
// valgrind see a step over the end. Filled with NaN, to expose a read of what
// was never written.
class AlignedBuffer {
 public:
  explicit AlignedBuffer(size_t bytes = 0)
      : bytes_(bytes),
        data_(static_cast<unsigned char*>(
            ::operator new (bytes, std::align_val_t{FFNORM_ALIGNMENT}))) {
    Poison();
  }

  unsigned char* data() { return data_.get(); }
  const unsigned char* data() const { return data_.get(); }
  float* floats() { return reinterpret_cast<float*>(data_.get()); }
  const float* floats() const {
    return reinterpret_cast<const float*>(data_.get());
  }
  size_t bytes() const { return bytes_; }

  // All bytes one: every float in it is a NaN.
  void Poison() {
    memset(data_.get(), 0xff, bytes_);
    FFNORM_TESTS_UNINITIALIZED(data_.get(), bytes_);
  }

 private:
  struct Delete {
    void operator()(unsigned char* p) const {
      ::operator delete (p, std::align_val_t{FFNORM_ALIGNMENT});
    }
  };
  size_t bytes_;
  std::unique_ptr<unsigned char, Delete> data_;
};

// Floats with an unmapped page right after the last of them (kEnd) or right
// before the first (kBegin): a vector load over the edge crashes. Where mmap is
// missing this is plain memory. What is left of the mapped pages holds a
// pattern, which CanariesIntact checks.
class GuardedBuffer {
 public:
  enum Edge { kEnd, kBegin };

  GuardedBuffer(size_t count, Edge edge) : count_(count) {
    const size_t bytes = count * sizeof(float);
#if FFNORM_TESTS_HAVE_MMAP
    const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    usable_ = (bytes + page - 1) / page * page;
    if (usable_ == 0) usable_ = page;
    mapped_ = usable_ + 2 * page;
    void* base = mmap(nullptr, mapped_, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(base != MAP_FAILED);
    base_ = static_cast<unsigned char*>(base);
    inner_ = base_ + page;
    REQUIRE(mprotect(base_, page, PROT_NONE) == 0);
    REQUIRE(mprotect(inner_ + usable_, page, PROT_NONE) == 0);
#else
    // Both edges are aligned, as those of pages are.
    usable_ =
        (bytes + FFNORM_ALIGNMENT - 1) / FFNORM_ALIGNMENT * FFNORM_ALIGNMENT;
    plain_ = AlignedBuffer(usable_);
    inner_ = plain_.data();
#endif
    memset(inner_, kCanary, usable_);
    data_ = edge == kEnd ? inner_ + usable_ - bytes : inner_;
    FillNaN(data(), count_);
  }

  GuardedBuffer(const std::vector<float>& values, Edge edge)
      : GuardedBuffer(values.size(), edge) {
    if (!values.empty()) {
      memcpy(data_, values.data(), values.size() * sizeof(float));
    }
  }

  GuardedBuffer(const GuardedBuffer&) = delete;
  GuardedBuffer& operator=(const GuardedBuffer&) = delete;

  ~GuardedBuffer() {
#if FFNORM_TESTS_HAVE_MMAP
    munmap(base_, mapped_);
#endif
  }

  float* data() { return reinterpret_cast<float*>(data_); }
  const float* data() const { return reinterpret_cast<const float*>(data_); }
  size_t size() const { return count_; }

  bool CanariesIntact() const {
    const unsigned char* end = data_ + count_ * sizeof(float);
    for (const unsigned char* p = inner_; p < inner_ + usable_; ++p) {
      if ((p < data_ || p >= end) && *p != kCanary) return false;
    }
    return true;
  }

 private:
  static constexpr unsigned char kCanary = 0xa5;

  size_t count_;
  size_t usable_ = 0;
  unsigned char* inner_ = nullptr;  // the accessible bytes
  unsigned char* data_ = nullptr;   // the floats in them
#if FFNORM_TESTS_HAVE_MMAP
  size_t mapped_ = 0;
  unsigned char* base_ = nullptr;
#else
  AlignedBuffer plain_;
#endif
};

// A (rows, cols) matrix whose rows lie `stride` apart; the gaps, and as many
// floats before and after, hold a pattern that GapsIntact checks. Its first
// float is only float-aligned.
class StridedMatrix {
 public:
  StridedMatrix(size_t rows, size_t cols, size_t stride)
      : rows_(rows),
        cols_(cols),
        stride_(stride),
        values_(kMargin + rows * stride + kMargin, Canary()) {
    for (size_t r = 0; r < rows; ++r) FillNaN(data() + r * stride, cols);
  }

  // Copies a contiguous (rows, cols) matrix in.
  StridedMatrix(size_t rows, size_t cols, size_t stride, const float* from)
      : StridedMatrix(rows, cols, stride) {
    for (size_t r = 0; r < rows; ++r) {
      memcpy(data() + r * stride, from + r * cols, cols * sizeof(float));
    }
  }

  float* data() { return values_.data() + kMargin; }
  const float* data() const { return values_.data() + kMargin; }
  size_t stride() const { return stride_; }

  bool GapsIntact() const {
    for (size_t i = 0; i < values_.size(); ++i) {
      const size_t inside = i - kMargin;  // wraps in the leading margin
      if (inside < rows_ * stride_ && inside % stride_ < cols_) continue;
      if (Bits(values_[i]) != Bits(Canary())) return false;
    }
    return true;
  }

 private:
  static constexpr size_t kMargin = 19;
  static float Canary() { return -12345.678f; }

  size_t rows_;
  size_t cols_;
  size_t stride_;
  std::vector<float> values_;
};

}  // namespace test
}  // namespace ffnorm

#endif  // FFNORM_TESTS_BUFFERS_H_
