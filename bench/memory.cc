#include "bench/memory.h"

#include <stdlib.h>
#include <string.h>
#ifdef __linux__
#include <sys/mman.h>
#endif

#include <new>

namespace ffnorm {
namespace bench {
namespace {

constexpr size_t kPageBytes = 4096;
constexpr size_t kHugePageBytes = size_t{2} << 20;

}  // namespace

Memory::~Memory() { free(data_); }

void Memory::Reserve(size_t bytes) {
  if (bytes <= bytes_) return;
  free(data_);
  bytes_ = 0;
  const bool huge = pages_ == Pages::kHuge && bytes >= kHugePageBytes;
  // Aligned to 2 MiB either way, so that both kinds of page see the same cache
  // sets.
  const size_t alignment =
      bytes >= kHugePageBytes ? kHugePageBytes : kPageBytes;
  const size_t rounded = (bytes + alignment - 1) / alignment * alignment;
  data_ = aligned_alloc(alignment, rounded);
  if (data_ == nullptr) throw std::bad_alloc();
#ifdef MADV_HUGEPAGE
  madvise(data_, rounded, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
#else
  static_cast<void>(huge);
#endif
  memset(data_, 0, rounded);
  bytes_ = bytes;
}

}  // namespace bench
}  // namespace ffnorm
