// Memory for weights and rows, as an engine would hold them.
#ifndef FFNORM_BENCH_MEMORY_H_
#define FFNORM_BENCH_MEMORY_H_

#include <stddef.h>

namespace ffnorm {
namespace bench {

enum class Pages {
  kOrdinary,
  kHuge,  // asks for 2 MiB pages where the memory is that large
};

// Zeroed and touched memory, aligned to a page; what it holds is lost when it
// grows.
class Memory {
 public:
  explicit Memory(Pages pages = Pages::kHuge) : pages_(pages) {}
  Memory(size_t bytes, Pages pages) : pages_(pages) { Reserve(bytes); }
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  void Reserve(size_t bytes);

  size_t bytes() const { return bytes_; }
  void* data() { return data_; }
  const void* data() const { return data_; }
  float* floats() { return static_cast<float*>(data_); }
  const float* floats() const { return static_cast<const float*>(data_); }

 private:
  Pages pages_;
  void* data_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace bench
}  // namespace ffnorm

#endif  // FFNORM_BENCH_MEMORY_H_
