// OpenBLAS from the PyPI package scipy-openblas64: 64-bit integers, symbols
// scipy_*64_, and threads of its own. Its header asks for the package's other
// headers; these few declarations are all that is used.
#include <stdint.h>

#include <string>

#include "blas_block.h"

extern "C" {
void scipy_cblas_sgemm64_(int layout, int trans_a, int trans_b, int64_t m,
                          int64_t n, int64_t k, float alpha, const float* a,
                          int64_t lda, const float* b, int64_t ldb, float beta,
                          float* c, int64_t ldc);
void scipy_cblas_sgemv64_(int layout, int trans, int64_t m, int64_t n,
                          float alpha, const float* a, int64_t lda,
                          const float* x, int64_t incx, float beta, float* y,
                          int64_t incy);
void scipy_openblas_set_num_threads64_(int threads);
char* scipy_openblas_get_config64_();
char* scipy_openblas_get_corename64_();
}

namespace peers {
namespace {

constexpr int kRowMajor = 101;
constexpr int kNoTrans = 111;
constexpr int kTrans = 112;

int64_t Int(size_t n) { return static_cast<int64_t>(n); }

class Sgemm : public PlainBlasBlock {
 public:
  Sgemm(const Weights& weights, int threads) : PlainBlasBlock(weights, false) {
    scipy_openblas_set_num_threads64_(threads);
  }

 protected:
  void Multiply(const float* a, const float* b, float* c, size_t rows, size_t n,
                size_t k, float beta) override {
    scipy_cblas_sgemm64_(kRowMajor, kNoTrans, kNoTrans, Int(rows), Int(n),
                         Int(k), 1.0f, a, Int(k), b, Int(n), beta, c, Int(n));
  }
};

class Sgemv : public PlainBlasBlock {
 public:
  Sgemv(const Weights& weights, int threads) : PlainBlasBlock(weights, false) {
    scipy_openblas_set_num_threads64_(threads);
  }

 protected:
  void Multiply(const float* a, const float* b, float* c, size_t rows, size_t n,
                size_t k, float beta) override {
    for (size_t row = 0; row < rows; ++row) {
      scipy_cblas_sgemv64_(kRowMajor, kTrans, Int(k), Int(n), 1.0f, b, Int(n),
                           a + row * k, 1, beta, c + row * n, 1);
    }
  }
};

}  // namespace
}  // namespace peers

int main(int argc, char** argv) {
  const int threads = peers::ThreadsOf(argc, argv);
  // "OpenBLAS 0.3.34  USE64BITINT ..."
  const std::string config = scipy_openblas_get_config64_();
  const size_t start = config.find(' ') + 1;
  return peers::RunWorker(
      {"openblas",
       config.substr(start, config.find(' ', start) - start),
       std::string("core ") + scipy_openblas_get_corename64_(),
       {peers::MakeVariant<peers::Sgemm>("sgemm"),
        peers::MakeVariant<peers::Sgemv>("sgemv", peers::kGemvRows)}},
      threads);
}
