// Runs one trained block: packs its weights and repeats its rows as often as
// asked.
#ifndef FFNORM_EXAMPLES_BLOCK_RUNNER_H_
#define FFNORM_EXAMPLES_BLOCK_RUNNER_H_

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <limits>
#include <vector>

#include "examples/pool.h"
#include "examples/trained_block.h"
#include "ffnorm/ffnorm.hpp"

namespace ffnorm_example {

// One trained block on one target, packed and ready.
class BlockRunner {
 public:
  BlockRunner(const TrainedBlock& trained, size_t rows, Pool* pool)
      : trained_(trained), pool_(pool), x_(rows * trained.d_model) {
    for (size_t i = 0; i < x_.size(); ++i) {
      x_[i] = trained.x[i % trained.x.size()];
    }
  }

  ffnorm::Status Prepare(ffnorm::Target target, size_t threads) {
    ffnorm::Status status =
        ffnorm::PackedWeights::Pack(trained_.Params(), &weights_);
    if (Ok(status)) status = weights_.Open(&block_, target);
    if (!Ok(status)) return status;
    return ffnorm::Workspace::Allocate(block_, Rows(), threads, &workspace_);
  }

  // All rows in one call.
  ffnorm::Status Forward(ffnorm::Order order, std::vector<float>* y) {
    y->resize(x_.size());
    return block_.Forward(order, X(), {y->data(), Rows(), Width()},
                          workspace_.On(*pool_));
  }

  // Each of the block's own rows in a call of its own, in this thread.
  ffnorm::Status ForwardRowByRow(ffnorm::Order order, std::vector<float>* y) {
    y->assign(std::min(x_.size(), trained_.x.size()), 0.0f);
    ffnorm::Status status = ffnorm::Status::kOk;
    for (size_t i = 0; i < y->size() && Ok(status); i += Width()) {
      status = block_.Forward(order, {&x_[i], 1, Width()},
                              {&(*y)[i], 1, Width()}, workspace_.Serial());
    }
    return status;
  }

  // Seconds of one call: the best of at least 5, and of 50 ms.
  ffnorm::Status Time(ffnorm::Order order, std::vector<float>* y,
                      double* best) {
    using Clock = std::chrono::steady_clock;
    *best = std::numeric_limits<double>::infinity();
    double total = 0.0;
    for (int calls = 0; calls < 5 || total < 0.05; ++calls) {
      const Clock::time_point start = Clock::now();
      const ffnorm::Status status = Forward(order, y);
      const std::chrono::duration<double> taken = Clock::now() - start;
      if (!Ok(status)) return status;
      total += taken.count();
      *best = std::min(*best, taken.count());
    }
    return ffnorm::Status::kOk;
  }

  // The share of hidden units that are not zero, by the stages alone.
  ffnorm::Status ActiveShare(ffnorm::Order order, double* share) {
    std::vector<float> z = x_;
    std::vector<float> hidden(Rows() * trained_.d_ff);
    const ffnorm::Rows z_rows(z.data(), Rows(), Width());
    ffnorm::Status status = ffnorm::Status::kOk;
    if (order == ffnorm::Order::kPreLn) {
      status =
          ffnorm::LayerNorm(Width(), block_.epsilon(), trained_.gamma.data(),
                            trained_.beta.data(), X(), z_rows, block_.target());
    }
    if (!Ok(status)) return status;
    status = block_.Dense(ffnorm::Layer::kDense1, ffnorm::Activation::kRelu,
                          z_rows, {hidden.data(), Rows(), trained_.d_ff},
                          workspace_.On(*pool_));
    const auto active = std::count_if(hidden.begin(), hidden.end(),
                                      [](float h) { return h > 0.0f; });
    *share = static_cast<double>(active) / static_cast<double>(hidden.size());
    return status;
  }

  size_t Rows() const { return x_.size() / Width(); }
  // As stated in the README: of the asked shape, whatever ReLU lets skip.
  double Flops() const {
    return 4.0 * static_cast<double>(x_.size()) *
           static_cast<double>(trained_.d_ff);
  }

 private:
  size_t Width() const { return trained_.d_model; }
  ffnorm::ConstRows X() const { return {x_.data(), Rows(), Width()}; }

  const TrainedBlock& trained_;
  Pool* pool_;
  std::vector<float> x_;
  ffnorm::PackedWeights weights_;
  ffnorm::Block block_;
  ffnorm::Workspace workspace_;
};

}  // namespace ffnorm_example

#endif  // FFNORM_EXAMPLES_BLOCK_RUNNER_H_
