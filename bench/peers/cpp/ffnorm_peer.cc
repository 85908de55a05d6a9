// ffnorm itself, used as its README says: packed once, then forward.
#include <stdexcept>
#include <string>

#include "bench/memory.h"
#include "bench/pool.h"
#include "ffnorm/ffnorm.h"
#include "peer.h"

namespace peers {
namespace {

using ffnorm::bench::Memory;
using ffnorm::bench::Pages;
using ffnorm::bench::Pool;

void Require(ffnorm_status status) {
  if (status != FFNORM_OK) {
    throw std::runtime_error(ffnorm_status_string(status));
  }
}

class Ffnorm : public Peer {
 public:
  Ffnorm(const Weights& w, int threads)
      : w_(w), pool_(static_cast<size_t>(threads)) {
    ffnorm_params params = ffnorm_default_params(w.d_model, w.d_ff);
    params.epsilon = w.epsilon;
    params.w1 = w.w1;
    params.b1 = w.b1;
    params.w2 = w.w2;
    params.b2 = w.b2;
    params.scale = w.scale;
    params.offset = w.offset;
    size_t bytes = 0;
    Require(ffnorm_packed_bytes(&params, &bytes));
    packed_.Reserve(bytes);
    Require(ffnorm_pack(&params, packed_.data(), bytes));
    Require(ffnorm_open(packed_.data(), bytes, nullptr, &block_));
  }

  const char* Prepare(size_t rows) override {
    exec_ = {};
    exec_.threads = pool_.threads();
    if (pool_.threads() > 1) {
      exec_.parallel_for = &Pool::ParallelFor;
      exec_.pool = &pool_;
    }
    Require(ffnorm_workspace_bytes(&block_, rows, pool_.threads(),
                                   &exec_.workspace_bytes));
    workspace_.Reserve(exec_.workspace_bytes);
    exec_.workspace = workspace_.data();
    return nullptr;
  }
  void PreLn(const float* x, float* y, size_t rows) override {
    Forward(FFNORM_PRE_LN, x, y, rows);
  }
  void PostLn(const float* x, float* y, size_t rows) override {
    Forward(FFNORM_POST_LN, x, y, rows);
  }
  void LayerNorm(const float* x, float* y, size_t rows) override {
    Require(ffnorm_layer_norm(block_.target, w_.d_model, w_.epsilon, w_.scale,
                              w_.offset, rows, x, w_.d_model, y, w_.d_model));
  }

 private:
  void Forward(ffnorm_order order, const float* x, float* y, size_t rows) {
    Require(ffnorm_forward(&block_, order, rows, x, block_.d_model, y,
                           block_.d_model, &exec_));
  }

  const Weights& w_;
  Pool pool_;
  Memory packed_;
  Memory workspace_;
  ffnorm_block block_;
  ffnorm_exec exec_;
};

}  // namespace
}  // namespace peers

int main(int argc, char** argv) {
  const int threads = peers::ThreadsOf(argc, argv);
  const ffnorm_target* target = nullptr;
  if (ffnorm_find_target(nullptr, &target) != FFNORM_OK) return 2;
  return peers::RunWorker({"ffnorm",
                           ffnorm_version(),
                           std::string("target ") + ffnorm_target_name(target),
                           {peers::MakeVariant<peers::Ffnorm>("forward")}},
                          threads);
}
