// libxsmm: both matmuls from its batch-reduce kernels over blocked weights, as
// its fully connected layers do, with bias and ReLU while a tile is in cache.
//
// libxsmm counts columns first, so its m are our columns, its n our rows:
// C (columns x rows) += sum over blocks of A (columns x k) B (k x rows), where
// B is the activations as they lie and A one packed block of the weights.
#include <libxsmm.h>

#include <algorithm>
#include <string>

#include "blas_block.h"

namespace peers {
namespace {

constexpr size_t kBlockRows = 64;
constexpr size_t kBlockDepth = 64;

// 32 is the best of 16, 32, 64 and 128 on AVX2 at 1 to 128 rows (Zen 3).
// AVX-512 has twice the lanes.
size_t BlockColumns(size_t width) {
  const bool avx512 = libxsmm_get_target_archid() >= LIBXSMM_X86_AVX512;
  if (avx512 && width % 64 == 0) return 64;
  return width % 32 == 0 ? 32 : 16;
}

using Kernel = libxsmm_smmfunction_reducebatch_strd;

// One matrix (depth, width) as blocks [width / columns][depth][columns], and
// the kernels that multiply by it.
class Layer {
 public:
  Layer(const float* w, size_t depth, size_t width)
      : depth_(depth),
        width_(width),
        columns_(BlockColumns(width)),
        packed_(depth * width * sizeof(float), Pages::kHuge) {
    float* to = packed_.floats();
    for (size_t c = 0; c + columns_ <= width; c += columns_) {
      for (size_t k = 0; k < depth; ++k) {
        to = std::copy_n(w + k * width + c, columns_, to);
      }
    }
  }

  const char* Prepare(size_t rows) {
    if (depth_ % kBlockDepth != 0 || width_ % columns_ != 0) {
      return "the shape does not divide into blocks of 64 x 16";
    }
    full_ = Dispatch(kBlockRows);
    tail_ = rows % kBlockRows == 0 ? nullptr : Dispatch(rows % kBlockRows);
    const bool ok = (rows < kBlockRows || full_ != nullptr) &&
                    (rows % kBlockRows == 0 || tail_ != nullptr);
    return ok ? nullptr : "libxsmm makes no such kernel on this CPU";
  }

  // y = x w + (add + bias), then ReLU if asked; add may be null.
  void Run(const float* x, const float* add, const float* bias, bool relu,
           float* y, size_t rows, bool parallel) const {
    const size_t row_blocks = (rows + kBlockRows - 1) / kBlockRows;
    const size_t column_blocks = width_ / columns_;
#pragma omp parallel for collapse(2) if (parallel)
    for (size_t c = 0; c < column_blocks; ++c) {
      for (size_t r = 0; r < row_blocks; ++r) {
        const size_t first = r * kBlockRows;
        Tile(x, add, bias, relu, y, first, std::min(kBlockRows, rows - first),
             c * columns_);
      }
    }
  }

 private:
  Kernel Dispatch(size_t rows) const {
    const auto size = [](size_t n) { return static_cast<libxsmm_blasint>(n); };
    const libxsmm_blasint lda = size(columns_);
    const libxsmm_blasint ldb = size(depth_);
    const libxsmm_blasint ldc = size(width_);
    return libxsmm_smmdispatch_reducebatch_strd(
        size(columns_), size(rows), size(kBlockDepth),
        size(columns_ * kBlockDepth * sizeof(float)),
        size(kBlockDepth * sizeof(float)), &lda, &ldb, &ldc, nullptr, nullptr,
        nullptr, nullptr);
  }

  void Tile(const float* x, const float* add, const float* bias, bool relu,
            float* y, size_t first, size_t count, size_t column) const {
    float* const to = y + first * width_ + column;
    for (size_t row = 0; row < count; ++row) {
      const size_t at = (first + row) * width_ + column;
      for (size_t i = 0; i < columns_; ++i) {
        y[at + i] = bias[column + i] + (add == nullptr ? 0.0f : add[at + i]);
      }
    }
    const unsigned long long blocks = depth_ / kBlockDepth;
    const Kernel kernel = count == kBlockRows ? full_ : tail_;
    kernel(packed_.floats() + column * depth_, x + first * depth_, to, &blocks);
    if (!relu) return;
    for (size_t row = 0; row < count; ++row) {
      float* const line = to + row * width_;
      for (size_t i = 0; i < columns_; ++i) {
        line[i] = line[i] > 0.0f ? line[i] : 0.0f;
      }
    }
  }

  size_t depth_;
  size_t width_;
  size_t columns_;
  Memory packed_;
  Kernel full_ = nullptr;
  Kernel tail_ = nullptr;
};

class BatchReduce : public Peer {
 public:
  BatchReduce(const Weights& weights, int threads)
      : w_(weights),
        parallel_(threads > 1),
        layer1_(weights.w1, weights.d_model, weights.d_ff),
        layer2_(weights.w2, weights.d_ff, weights.d_model) {}

  const char* Prepare(size_t rows) override {
    z_.Reserve(rows * w_.d_model * sizeof(float));
    h_.Reserve(rows * w_.d_ff * sizeof(float));
    const char* const problem = layer1_.Prepare(rows);
    return problem != nullptr ? problem : layer2_.Prepare(rows);
  }
  void PreLn(const float* x, float* y, size_t rows) override {
    LayerNormRows(w_, x, z_.floats(), rows, parallel_);
    FfnAdd(z_.floats(), x, y, rows);
  }
  void PostLn(const float* x, float* y, size_t rows) override {
    FfnAdd(x, x, y, rows);
    LayerNormRows(w_, y, y, rows, parallel_);
  }

 private:
  void FfnAdd(const float* z, const float* x, float* y, size_t rows) {
    float* const h = h_.floats();
    layer1_.Run(z, nullptr, w_.b1, true, h, rows, parallel_);
    layer2_.Run(h, x, w_.b2, false, y, rows, parallel_);
  }

  const Weights& w_;
  bool parallel_;
  Layer layer1_;
  Layer layer2_;
  Memory z_;
  Memory h_;
};

}  // namespace
}  // namespace peers

int main(int argc, char** argv) {
  const int threads = peers::ThreadsOf(argc, argv);
  libxsmm_init();
  return peers::RunWorker(
      {"libxsmm",
       LIBXSMM_CONFIG_VERSION,
       std::string("kernels for ") + libxsmm_get_target_arch(),
       {peers::MakeVariant<peers::BatchReduce>("batch-reduce")}},
      threads);
}
