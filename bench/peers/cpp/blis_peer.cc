// BLIS: plain sgemm.
#include <blis.h>

#include <string>

#include "blas_block.h"

namespace peers {
namespace {

class Sgemm : public PlainBlasBlock {
 public:
  Sgemm(const Weights& weights, int threads)
      : PlainBlasBlock(weights, threads > 1) {
    bli_thread_set_num_threads(threads);
  }

 protected:
  // BLIS takes no const.
  void Multiply(const float* a, const float* b, float* c, size_t rows, size_t n,
                size_t k, float beta) override {
    float one = 1.0f;
    bli_sgemm(BLIS_NO_TRANSPOSE, BLIS_NO_TRANSPOSE, static_cast<dim_t>(rows),
              static_cast<dim_t>(n), static_cast<dim_t>(k), &one,
              const_cast<float*>(a), static_cast<inc_t>(k), 1,
              const_cast<float*>(b), static_cast<inc_t>(n), 1, &beta, c,
              static_cast<inc_t>(n), 1);
  }
};

}  // namespace
}  // namespace peers

int main(int argc, char** argv) {
  const int threads = peers::ThreadsOf(argc, argv);
  bli_init();  // else a BLIS_ARCH_TYPE in the environment ends the program
  return peers::RunWorker(
      {"blis",
       bli_info_get_version_str(),
       std::string("kernels for ") + bli_arch_string(bli_arch_query_id()),
       {peers::MakeVariant<peers::Sgemm>("sgemm")}},
      threads);
}
