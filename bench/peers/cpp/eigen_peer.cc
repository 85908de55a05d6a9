// Eigen: matrix expressions, compiled for this CPU.
#include <Eigen/Core>
#include <string>

#include "blas_block.h"

namespace peers {
namespace {

using Matrix =
    Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Row = Eigen::RowVectorXf;

Eigen::Index Int(size_t n) { return static_cast<Eigen::Index>(n); }

class Expressions : public PlainBlasBlock {
 public:
  Expressions(const Weights& weights, int threads)
      : PlainBlasBlock(weights, threads > 1) {
    Eigen::setNbThreads(threads);
  }

 protected:
  void Multiply(const float* a, const float* b, float* c, size_t rows, size_t n,
                size_t k, float beta) override {
    const bool add = beta != 0.0f;
    const Eigen::Map<const Matrix> B(b, Int(k), Int(n));
    if (rows == 1) {  // as a vector, for which Eigen has other loops
      Assign(Eigen::Map<Row>(c, Int(n)), Eigen::Map<const Row>(a, Int(k)) * B,
             add);
    } else {
      Assign(Eigen::Map<Matrix>(c, Int(rows), Int(n)),
             Eigen::Map<const Matrix>(a, Int(rows), Int(k)) * B, add);
    }
  }

 private:
  template <class To, class Product>
  static void Assign(To to, const Product& product, bool add) {
    if (add) {
      to.noalias() += product;
    } else {
      to.noalias() = product;
    }
  }
};

}  // namespace
}  // namespace peers

int main(int argc, char** argv) {
  const int threads = peers::ThreadsOf(argc, argv);
  return peers::RunWorker(
      {"eigen",
       std::to_string(EIGEN_WORLD_VERSION) + "." +
           std::to_string(EIGEN_MAJOR_VERSION) + "." +
           std::to_string(EIGEN_MINOR_VERSION),
       Eigen::SimdInstructionSetsInUse(),
       {peers::MakeVariant<peers::Expressions>("expressions")}},
      threads);
}
