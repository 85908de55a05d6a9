// Intel MKL: weights packed once, plain sgemm, and sgemv for the fewest rows.
#include <mkl.h>

#include <string>

#include "blas_block.h"

namespace peers {
namespace {

MKL_INT Int(size_t n) { return static_cast<MKL_INT>(n); }

void SetThreads(int threads) {
  mkl_set_dynamic(0);
  mkl_set_num_threads(threads);
}

// The packed form is chosen for a number of rows, so it is made anew for each.
class Packed : public BlasBlock {
 public:
  Packed(const Weights& weights, int threads)
      : BlasBlock(weights, threads > 1) {
    SetThreads(threads);
  }
  const char* Prepare(size_t rows) override {
    if (rows != rows_) {
      Pack(w_.w1, rows, w_.d_ff, w_.d_model, &w1_);
      Pack(w_.w2, rows, w_.d_model, w_.d_ff, &w2_);
      rows_ = rows;
    }
    return BlasBlock::Prepare(rows);
  }

 protected:
  void Matmul1(const float* z, float* h, size_t rows) override {
    Multiply(z, w1_.floats(), h, rows, w_.d_ff, w_.d_model, 0.0f);
  }
  void Matmul2(const float* h, float* y, size_t rows) override {
    Multiply(h, w2_.floats(), y, rows, w_.d_model, w_.d_ff, 1.0f);
  }

 private:
  static void Pack(const float* b, size_t rows, size_t n, size_t k,
                   Memory* packed) {
    packed->Reserve(
        cblas_sgemm_pack_get_size(CblasBMatrix, Int(rows), Int(n), Int(k)));
    cblas_sgemm_pack(CblasRowMajor, CblasBMatrix, CblasNoTrans, Int(rows),
                     Int(n), Int(k), 1.0f, b, Int(n), packed->floats());
  }
  static void Multiply(const float* a, const float* packed, float* c,
                       size_t rows, size_t n, size_t k, float beta) {
    cblas_sgemm_compute(CblasRowMajor, CblasNoTrans, CblasPacked, Int(rows),
                        Int(n), Int(k), a, Int(k), packed, Int(n), beta, c,
                        Int(n));
  }

  size_t rows_ = 0;
  Memory w1_;
  Memory w2_;
};

class Sgemm : public PlainBlasBlock {
 public:
  Sgemm(const Weights& weights, int threads)
      : PlainBlasBlock(weights, threads > 1) {
    SetThreads(threads);
  }

 protected:
  void Multiply(const float* a, const float* b, float* c, size_t rows, size_t n,
                size_t k, float beta) override {
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, Int(rows), Int(n),
                Int(k), 1.0f, a, Int(k), b, Int(n), beta, c, Int(n));
  }
};

class Sgemv : public PlainBlasBlock {
 public:
  Sgemv(const Weights& weights, int threads)
      : PlainBlasBlock(weights, threads > 1) {
    SetThreads(threads);
  }

 protected:
  void Multiply(const float* a, const float* b, float* c, size_t rows, size_t n,
                size_t k, float beta) override {
    for (size_t row = 0; row < rows; ++row) {
      cblas_sgemv(CblasRowMajor, CblasTrans, Int(k), Int(n), 1.0f, b, Int(n),
                  a + row * k, 1, beta, c + row * n, 1);
    }
  }
};

}  // namespace
}  // namespace peers

int main(int argc, char** argv) {
  const int threads = peers::ThreadsOf(argc, argv);
  MKLVersion version;
  mkl_get_version(&version);
  return peers::RunWorker(
      {"mkl",
       std::to_string(version.MajorVersion) + "." +
           std::to_string(version.MinorVersion) + "." +
           std::to_string(version.UpdateVersion),
       std::string("its code for: ") + version.Processor,
       {peers::MakeVariant<peers::Packed>("packed"),
        peers::MakeVariant<peers::Sgemm>("sgemm"),
        peers::MakeVariant<peers::Sgemv>("sgemv", peers::kGemvRows)}},
      threads);
}
