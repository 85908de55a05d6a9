// The block from two matmuls of a BLAS and plain loops for the rest, as an
// engine writes it that has no fused kernels. Built with -ffast-math, so that
// the loops vectorize.
#ifndef FFNORM_BENCH_PEERS_CPP_BLAS_BLOCK_H_
#define FFNORM_BENCH_PEERS_CPP_BLAS_BLOCK_H_

#include <math.h>
#include <string.h>

#include "bench/memory.h"
#include "peer.h"

namespace peers {

using ffnorm::bench::Memory;
using ffnorm::bench::Pages;

// Below so many floats a loop is not worth a second thread.
constexpr size_t kParallelFloats = 16384;

inline void LayerNormRows(const Weights& w, const float* x, float* y,
                          size_t rows, bool parallel) {
  const size_t width = w.d_model;
#pragma omp parallel for if (parallel && rows * width > kParallelFloats)
  for (size_t row = 0; row < rows; ++row) {
    const float* const from = x + row * width;
    float* const to = y + row * width;
    float sum = 0.0f;
    for (size_t i = 0; i < width; ++i) sum += from[i];
    const float mean = sum / static_cast<float>(width);
    float squares = 0.0f;
    for (size_t i = 0; i < width; ++i) {
      squares += (from[i] - mean) * (from[i] - mean);
    }
    const float factor =
        1.0f / sqrtf(squares / static_cast<float>(width) + w.epsilon);
    for (size_t i = 0; i < width; ++i) {
      to[i] = (from[i] - mean) * factor * w.scale[i] + w.offset[i];
    }
  }
}

inline void AddBiasRelu(float* h, const float* bias, size_t rows, size_t width,
                        bool parallel) {
#pragma omp parallel for if (parallel && rows * width > kParallelFloats)
  for (size_t row = 0; row < rows; ++row) {
    float* const to = h + row * width;
    for (size_t i = 0; i < width; ++i) {
      const float v = to[i] + bias[i];
      to[i] = v > 0.0f ? v : 0.0f;
    }
  }
}

// y = x + bias
inline void AddBias(const float* x, const float* bias, float* y, size_t rows,
                    size_t width, bool parallel) {
#pragma omp parallel for if (parallel && rows * width > kParallelFloats)
  for (size_t row = 0; row < rows; ++row) {
    const float* const from = x + row * width;
    float* const to = y + row * width;
    for (size_t i = 0; i < width; ++i) to[i] = from[i] + bias[i];
  }
}

// A derived class adds the two matmuls.
class BlasBlock : public Peer {
 public:
  // parallel: the plain loops run on OpenMP threads too.
  BlasBlock(const Weights& weights, bool parallel)
      : w_(weights), parallel_(parallel) {}

  const char* Prepare(size_t rows) override {
    z_.Reserve(rows * w_.d_model * sizeof(float));
    h_.Reserve(rows * w_.d_ff * sizeof(float));
    return nullptr;
  }
  void PreLn(const float* x, float* y, size_t rows) override {
    LayerNormRows(w_, x, z_.floats(), rows, parallel_);
    FfnAdd(z_.floats(), x, y, rows);
  }
  void PostLn(const float* x, float* y, size_t rows) override {
    FfnAdd(x, x, y, rows);
    LayerNormRows(w_, y, y, rows, parallel_);
  }

 protected:
  // h = z w1
  virtual void Matmul1(const float* z, float* h, size_t rows) = 0;
  // y += h w2
  virtual void Matmul2(const float* h, float* y, size_t rows) = 0;

  const Weights& w_;

 private:
  void FfnAdd(const float* z, const float* x, float* y, size_t rows) {
    float* const h = h_.floats();
    Matmul1(z, h, rows);
    AddBiasRelu(h, w_.b1, rows, w_.d_ff, parallel_);
    AddBias(x, w_.b2, y, rows, w_.d_model, parallel_);
    Matmul2(h, y, rows);
  }

  bool parallel_;
  Memory z_;
  Memory h_;
};

// The same with both matrices copied to huge pages, for what reads them as they
// are. A derived class adds one multiplication for both.
class PlainBlasBlock : public BlasBlock {
 public:
  PlainBlasBlock(const Weights& weights, bool parallel)
      : BlasBlock(weights, parallel),
        w1_(weights.d_model * weights.d_ff * sizeof(float), Pages::kHuge),
        w2_(weights.d_model * weights.d_ff * sizeof(float), Pages::kHuge) {
    memcpy(w1_.data(), weights.w1, w1_.bytes());
    memcpy(w2_.data(), weights.w2, w2_.bytes());
  }

 protected:
  // c = a b + beta c, beta 0 or 1; a is (rows, k), b (k, n), all contiguous.
  virtual void Multiply(const float* a, const float* b, float* c, size_t rows,
                        size_t n, size_t k, float beta) = 0;

 private:
  void Matmul1(const float* z, float* h, size_t rows) final {
    Multiply(z, w1_.floats(), h, rows, w_.d_ff, w_.d_model, 0.0f);
  }
  void Matmul2(const float* h, float* y, size_t rows) final {
    Multiply(h, w2_.floats(), y, rows, w_.d_model, w_.d_ff, 1.0f);
  }

  Memory w1_;
  Memory w2_;
};

// Matrix times vector pays only for so many rows, one at a time.
constexpr size_t kGemvRows = 4;

}  // namespace peers

#endif  // FFNORM_BENCH_PEERS_CPP_BLAS_BLOCK_H_
