// A block with random parameters, packed, with helpers that run it, and thread
// pools to run it on.
#ifndef FFNORM_TESTS_MODEL_H_
#define FFNORM_TESTS_MODEL_H_

#include <stddef.h>
#include <stdint.h>

#include <atomic>
#include <cmath>
#include <string>
#include <thread>
#include <vector>

#include "tests/buffers.h"
#include "tests/random_data.h"
#include "tests/test_util.h"

namespace ffnorm {
namespace test {

// The same (rows, cols) values with rows and columns exchanged.
inline std::vector<float> Transposed(size_t rows, size_t cols,
                                     const std::vector<float>& from) {
  std::vector<float> to(from.size());
  for (size_t r = 0; r < rows; ++r) {
    for (size_t c = 0; c < cols; ++c) to[c * rows + r] = from[r * cols + c];
  }
  return to;
}

// A parallel_for for tests. `calls` and `tasks` count what ran.
struct Pool {
  enum Kind { kInOrder, kReversed, kThreads };

  explicit Pool(Kind pool_kind, size_t pool_threads = 1)
      : kind(pool_kind), threads(pool_threads) {}

  static void ParallelFor(void* pool, size_t tasks, ffnorm_task task,
                          void* context) {
    Pool* self = static_cast<Pool*>(pool);
    ++self->calls;
    self->tasks += tasks;
    if (self->kind == kInOrder) {
      for (size_t i = 0; i < tasks; ++i) task(context, i);
    } else if (self->kind == kReversed) {
      for (size_t i = tasks; i-- > 0;) task(context, i);
    } else {
      // Tasks go to whichever thread is free.
      std::atomic<size_t> next{0};
      const auto work = [&] {
        for (size_t i = next++; i < tasks; i = next++) task(context, i);
      };
      std::vector<std::thread> workers;
      for (size_t t = 1; t < self->threads; ++t) workers.emplace_back(work);
      work();
      for (std::thread& worker : workers) worker.join();
    }
  }

  Kind kind;
  size_t threads;
  size_t calls = 0;
  size_t tasks = 0;
};

// A workspace of exactly the size that the library asks for.
class Workspace {
 public:
  Workspace(const ffnorm_block& block, size_t rows, size_t threads = 1,
            Pool* pool = nullptr)
      : memory_(Bytes(block, rows, threads)), threads_(threads), pool_(pool) {}

  // What to pass to a call; poisons the memory with NaN each time.
  const ffnorm_exec* Exec() {
    memory_.Poison();
    exec_ = {};
    exec_.workspace = memory_.data();
    exec_.workspace_bytes = memory_.bytes();
    exec_.parallel_for = pool_ == nullptr ? nullptr : &Pool::ParallelFor;
    exec_.pool = pool_;
    exec_.threads = threads_;
    return &exec_;
  }

  static size_t Bytes(const ffnorm_block& block, size_t rows, size_t threads) {
    size_t bytes = 0;
    REQUIRE(ffnorm_workspace_bytes(&block, rows, threads, &bytes) == FFNORM_OK);
    return bytes;
  }

 private:
  AlignedBuffer memory_;
  size_t threads_;
  Pool* pool_;
  ffnorm_exec exec_ = {};
};

// Parameters in Flax layout; change a field, then Pack() again.
class Model {
 public:
  Model(size_t model_d_model, size_t model_d_ff, Mode mode = Mode::kGaussian,
        uint64_t seed = 1)
      : d_model(model_d_model),
        d_ff(model_d_ff),
        w1(Filled(d_model * d_ff, mode, seed * 8 + 1)),
        b1(Filled(d_ff, mode, seed * 8 + 2)),
        w2(Filled(d_ff * d_model, mode, seed * 8 + 3)),
        b2(Filled(d_model, mode, seed * 8 + 4)),
        scale(Filled(d_model, mode, seed * 8 + 5)),
        offset(Filled(d_model, mode, seed * 8 + 6)) {
    if (mode == Mode::kGaussian) {
      // As a trained model has them: outputs of the order of the inputs.
      Multiply(w1, 1.0f / std::sqrt(static_cast<float>(d_model)));
      Multiply(w2, 1.0f / std::sqrt(static_cast<float>(d_ff)));
      for (float& s : scale) s = 1.0f + 0.1f * s;
    }
    Pack();
  }

  // With all pointers set; `packed` was made from this.
  ffnorm_params Params() const {
    ffnorm_params params = ffnorm_default_params(d_model, d_ff);
    params.epsilon = epsilon;
    params.w1 = w1.data();
    params.b1 = has_bias ? b1.data() : nullptr;
    params.w2 = w2.data();
    params.b2 = has_bias ? b2.data() : nullptr;
    params.scale = has_affine ? scale.data() : nullptr;
    params.offset = has_affine ? offset.data() : nullptr;
    return params;
  }

  void Pack() {
    const ffnorm_params params = Params();
    size_t bytes = 0;
    REQUIRE(ffnorm_packed_bytes(&params, &bytes) == FFNORM_OK);
    packed = AlignedBuffer(bytes);
    REQUIRE(ffnorm_pack(&params, packed.data(), bytes) == FFNORM_OK);
  }

  ffnorm_block Opened(const ffnorm_target* target) const {
    ffnorm_block block = OpenedOn(packed.data(), packed.bytes(), target);
    block.cpu ^= other_traits;
    return block;
  }

  // rows of input in the given mode.
  std::vector<float> Input(size_t rows, Mode mode = Mode::kGaussian,
                           uint64_t seed = 77) const {
    return Filled(rows * d_model, mode, seed);
  }

  // Contiguous in and out.
  std::vector<float> Forward(const ffnorm_target* target, ffnorm_order order,
                             size_t rows, const std::vector<float>& x,
                             size_t threads = 1, Pool* pool = nullptr) const {
    const ffnorm_block block = Opened(target);
    Workspace workspace(block, rows, threads, pool);
    std::vector<float> y(rows * d_model);
    FillNaN(y.data(), y.size());
    REQUIRE(ffnorm_forward(&block, order, rows, x.data(), d_model, y.data(),
                           d_model, workspace.Exec()) == FFNORM_OK);
    return y;
  }

  // What a target of this class must return, bit for bit.
  std::vector<float> ReferenceForward(ffnorm_class rounding, ffnorm_order order,
                                      size_t rows,
                                      const std::vector<float>& x) const {
    const ffnorm_params params = Params();
    size_t bytes = 0;
    REQUIRE(ffnorm_reference_workspace_bytes(&params, &bytes) == FFNORM_OK);
    AlignedBuffer workspace(bytes);
    std::vector<float> y(rows * d_model);
    FillNaN(y.data(), y.size());
    REQUIRE(ffnorm_reference_forward(&params, rounding, order, rows, x.data(),
                                     d_model, y.data(), d_model,
                                     workspace.data(), bytes) == FFNORM_OK);
    return y;
  }

  size_t d_model;
  size_t d_ff;
  float epsilon = FFNORM_DEFAULT_EPSILON;
  bool has_bias = true;
  bool has_affine = true;
  std::vector<float> w1;  // (d_model, d_ff)
  std::vector<float> b1;
  std::vector<float> w2;  // (d_ff, d_model)
  std::vector<float> b2;
  std::vector<float> scale;
  std::vector<float> offset;
  AlignedBuffer packed;
  // Traits of the CPU (kernels/cpu.h) to be taken for what they are not.
  uint32_t other_traits = 0;

 private:
  static void Multiply(std::vector<float>& values, float by) {
    for (float& v : values) v *= by;
  }
};

// The results of the reference for both classes, each computed only when a
// target of that class comes along: the scalar reference costs far more time
// than the kernels.
class ReferenceCache {
 public:
  template <class Compute>
  const std::vector<float>& Get(ffnorm_class rounding, const Compute& compute) {
    std::vector<float>& result = results_[rounding == FFNORM_FUSED ? 1 : 0];
    if (result.empty()) result = compute(rounding);
    return result;
  }

 private:
  std::vector<float> results_[2];
};

}  // namespace test
}  // namespace ffnorm

#endif  // FFNORM_TESTS_MODEL_H_
