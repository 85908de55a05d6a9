// The C++ view: each member against the C function behind it, ownership, and
// pools of several kinds.
#include <doctest/doctest.h>

#include <cstdint>
#include <cstring>
#include <functional>
#include <new>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "ffnorm/ffnorm.hpp"
#include "tests/test_util.h"

namespace {

// Set by a test that wants the header's allocations to fail.
bool memory_is_exhausted = false;
size_t aligned_allocations = 0;

}  // namespace

// The only allocation function that the header calls.
void* operator new(std::size_t bytes, std::align_val_t alignment,
                   const std::nothrow_t&) noexcept {
  if (memory_is_exhausted) return nullptr;
  ++aligned_allocations;
  return ::operator new(bytes, alignment);
}

namespace {

using ffnorm::Status;
using ffnorm::test::CheckSameBits;

constexpr size_t kModel = 5;
constexpr size_t kHidden = 37;
// More than any target shares by columns (kMaxColumnRows), so that a pool is
// used.
constexpr size_t kRows = 130;

// Small fractions, both signs, no pattern that columns or rows share.
std::vector<float> Values(size_t count, uint32_t seed) {
  std::vector<float> values(count);
  for (float& value : values) {
    seed = seed * 1664525u + 1013904223u;
    value = static_cast<float>(static_cast<int>(seed >> 20) - 2048) / 1024.0f;
  }
  return values;
}

struct Model {
  std::vector<float> w1 = Values(kModel * kHidden, 1);
  std::vector<float> b1 = Values(kHidden, 2);
  std::vector<float> w2 = Values(kHidden * kModel, 3);
  std::vector<float> b2 = Values(kModel, 4);
  std::vector<float> scale = Values(kModel, 5);
  std::vector<float> offset = Values(kModel, 6);
  std::vector<float> x = Values(kRows * kModel, 7);

  ffnorm::Params params() const {
    ffnorm::Params params = ffnorm::DefaultParams(kModel, kHidden);
    params.w1 = w1.data();
    params.b1 = b1.data();
    params.w2 = w2.data();
    params.b2 = b2.data();
    params.scale = scale.data();
    params.offset = offset.data();
    return params;
  }

  ffnorm::ConstRows rows() const { return {x.data(), kRows, kModel}; }
};

std::vector<float> Reference(const Model& model, ffnorm::Target target,
                             ffnorm::Order order) {
  const ffnorm::Params params = model.params();
  size_t bytes = 0;
  REQUIRE(ffnorm_reference_workspace_bytes(&params, &bytes) == FFNORM_OK);
  std::vector<float> workspace(bytes / sizeof(float) + 1);
  std::vector<float> y(kRows * kModel);
  REQUIRE(ffnorm_reference_forward(
              &params, static_cast<ffnorm_class>(target.rounding()),
              static_cast<ffnorm_order>(order), kRows, model.x.data(), kModel,
              y.data(), kModel, workspace.data(), bytes) == FFNORM_OK);
  return y;
}

// Runs tasks last to first, in the calling thread.
struct Backwards {
  size_t calls = 0;
  size_t tasks = 0;

  void operator()(size_t count, ffnorm::Task task) {
    ++calls;
    tasks += count;
    while (count-- != 0) task(count);
  }
};

// A thread for each task.
struct ThreadPerTask {
  void operator()(size_t count, const std::function<void(size_t)>& task) const {
    std::vector<std::thread> threads;
    for (size_t i = 0; i < count; ++i) threads.emplace_back(task, i);
    for (std::thread& thread : threads) thread.join();
  }
};

static_assert(std::is_trivially_copyable_v<ffnorm::Task>);
static_assert(sizeof(ffnorm::Task) == 2 * sizeof(void*));
static_assert(std::is_trivially_copyable_v<ffnorm::Block>);
static_assert(std::is_convertible_v<ffnorm::Rows, ffnorm::ConstRows>);
static_assert(!std::is_convertible_v<ffnorm::ConstRows, ffnorm::Rows>);
static_assert(!std::is_copy_constructible_v<ffnorm::AlignedMemory>);
static_assert(!std::is_copy_constructible_v<ffnorm::PackedWeights>);
static_assert(!std::is_copy_constructible_v<ffnorm::Workspace>);
static_assert(std::is_nothrow_move_constructible_v<ffnorm::PackedWeights>);
static_assert(std::is_nothrow_move_assignable_v<ffnorm::Workspace>);

}  // namespace

TEST_SUITE("cpp_view") {
  TEST_CASE("statuses are those of the C API, in the same words") {
    for (unsigned value = FFNORM_OK; value <= FFNORM_WORKSPACE_TOO_SMALL;
         ++value) {
      const ffnorm_status status = static_cast<ffnorm_status>(value);
      CAPTURE(value);
      CHECK(Ok(ffnorm::FromC(status)) == (status == FFNORM_OK));
      CHECK(std::string(Message(ffnorm::FromC(status))) ==
            ffnorm_status_string(status));
    }
    CHECK(ffnorm::FromC(FFNORM_CORRUPT) == Status::kCorrupt);
    CHECK(ffnorm::FromC(FFNORM_WORKSPACE_TOO_SMALL) ==
          Status::kWorkspaceTooSmall);
    CHECK_FALSE(Ok(Status::kOutOfMemory));
    CHECK(std::string(Message(Status::kOutOfMemory)) == "out of memory");
  }

  TEST_CASE("rows are found by stride") {
    std::vector<float> values(12);
    const ffnorm::Rows rows(values.data(), 3, 4);
    const ffnorm::ConstRows same = rows;
    CHECK(rows[2] == values.data() + 8);
    CHECK(same[1] == values.data() + 4);
    CHECK(same.rows == 3);
    CHECK(same.stride == 4);
  }

  TEST_CASE("the target list is the library's, and names find its members") {
    const ffnorm::TargetList targets;
    REQUIRE(targets.size() >= 1);
    REQUIRE(targets.size() == ffnorm_targets(nullptr, 0));
    size_t seen = 0;
    for (const ffnorm::Target target : targets) {
      CAPTURE(std::string(target.name()));
      CHECK(targets[seen].c() == target.c());
      CHECK(target.vector_bytes() == ffnorm_target_vector_bytes(target.c()));
      CHECK(static_cast<ffnorm_class>(target.rounding()) ==
            ffnorm_target_class(target.c()));
      ffnorm::Target found;
      CHECK(Ok(ffnorm::Target::Find(target.name(), &found)));
      CHECK(found.c() == target.c());
      ++seen;
    }
    CHECK(seen == targets.size());

    ffnorm::Target found = targets[0];
    CHECK(ffnorm::Target::Find("no such target", &found) ==
          Status::kUnsupported);
    CHECK(found.c() == targets[0].c());
    CHECK(ffnorm::Target::Find(nullptr, nullptr) == Status::kInvalidArgument);
    CHECK(ffnorm::Target().name() == nullptr);
  }

  TEST_CASE("aligned memory is aligned, and moves") {
    ffnorm::AlignedMemory memory = ffnorm::AlignedMemory::Allocate(100);
    REQUIRE(memory);
    CHECK(reinterpret_cast<uintptr_t>(memory.data()) % FFNORM_ALIGNMENT == 0);
    CHECK(memory.bytes() == 100);
    std::memset(memory.data(), 1, memory.bytes());

    const unsigned char* data = memory.data();
    ffnorm::AlignedMemory moved = std::move(memory);
    CHECK(moved.data() == data);
    CHECK(moved.bytes() == 100);
    CHECK_FALSE(memory);
    CHECK(memory.bytes() == 0);

    memory = ffnorm::AlignedMemory::Allocate(7);
    memory = std::move(moved);
    CHECK(memory.data() == data);
    CHECK(moved.data() == nullptr);
    CHECK(moved.bytes() == 0);
  }

  TEST_CASE("a block runs from parameters to rows on every target") {
    const Model model;
    ffnorm::PackedWeights weights;
    REQUIRE(Ok(ffnorm::PackedWeights::Pack(model.params(), &weights)));
    CHECK(ffnorm_verify(weights.data(), weights.bytes()) == FFNORM_OK);

    ffnorm::test::ForEachTarget([&](const ffnorm_target* c_target) {
      const ffnorm::Target target(c_target);
      ffnorm::Block block;
      REQUIRE(Ok(weights.Open(&block, target)));
      CHECK(block.d_model() == kModel);
      CHECK(block.d_ff() == kHidden);
      CHECK(block.epsilon() == FFNORM_DEFAULT_EPSILON);
      CHECK(block.target().c() == target.c());

      ffnorm::Workspace workspace;
      REQUIRE(Ok(ffnorm::Workspace::Allocate(block, kRows, 1, &workspace)));
      size_t bytes = 0;
      REQUIRE(Ok(block.WorkspaceBytes(kRows, 1, &bytes)));
      CHECK(workspace.bytes() == bytes);

      for (const ffnorm::Order order :
           {ffnorm::Order::kPreLn, ffnorm::Order::kPostLn}) {
        CAPTURE(static_cast<int>(order));
        std::vector<float> y(kRows * kModel);
        REQUIRE(Ok(block.Forward(order, model.rows(), {y.data(), kRows, kModel},
                                 workspace.Serial())));
        CheckSameBits(y, Reference(model, target, order));
      }
    });
  }

  TEST_CASE("any pool gives the same bits, without allocation") {
    const Model model;
    ffnorm::PackedWeights weights;
    ffnorm::Block block;
    ffnorm::Workspace workspace;
    REQUIRE(Ok(ffnorm::PackedWeights::Pack(model.params(), &weights)));
    REQUIRE(Ok(weights.Open(&block)));
    REQUIRE(Ok(ffnorm::Workspace::Allocate(block, kRows, 3, &workspace)));
    CHECK(workspace.threads() == 3);

    const ffnorm::Order order = ffnorm::Order::kPostLn;
    const std::vector<float> want = Reference(model, block.target(), order);
    std::vector<float> y(kRows * kModel);
    const ffnorm::Rows out(y.data(), kRows, kModel);
    const size_t allocations = aligned_allocations;

    SUBCASE("that counts") {
      Backwards pool;
      REQUIRE(Ok(block.Forward(order, model.rows(), out, workspace.On(pool))));
      CHECK(pool.calls >= 1);
      CHECK(pool.tasks >= pool.calls);
    }
    SUBCASE("that has threads") {
      const ThreadPerTask pool;
      REQUIRE(Ok(block.Forward(order, model.rows(), out, workspace.On(pool))));
    }
    SUBCASE("that is a lambda") {
      auto pool = [](size_t tasks, auto task) {
        for (size_t i = 0; i < tasks; ++i) task(i);
      };
      const ffnorm::Exec exec = ffnorm::OnPool(workspace.Serial(), pool, 2);
      CHECK(exec.threads == 2);
      REQUIRE(Ok(block.Forward(order, model.rows(), out, exec)));
    }
    SUBCASE("that is a std::function") {
      std::function<void(size_t, ffnorm::Task)> pool = Backwards();
      REQUIRE(Ok(block.Forward(order, model.rows(), out, workspace.On(pool))));
    }
    CheckSameBits(y, want);
    CHECK(aligned_allocations == allocations);
  }

  TEST_CASE("the adapter hands each index on once, to the pool it was given") {
    std::vector<int> runs(9);
    Backwards pool;
    const ffnorm::Exec exec = ffnorm::OnPool({}, pool, 4);
    exec.parallel_for(
        exec.pool, runs.size(),
        [](void* context, size_t i) { ++static_cast<int*>(context)[i]; },
        runs.data());
    CHECK(pool.calls == 1);
    CHECK(pool.tasks == runs.size());
    CHECK(runs == std::vector<int>(runs.size(), 1));
  }

  TEST_CASE("the stages alone are those of the C API") {
    const Model model;
    ffnorm::PackedWeights weights;
    ffnorm::Block block;
    ffnorm::Workspace workspace;
    REQUIRE(Ok(ffnorm::PackedWeights::Pack(model.params(), &weights)));
    REQUIRE(Ok(weights.Open(&block)));
    REQUIRE(Ok(ffnorm::Workspace::Allocate(block, kRows, 1, &workspace)));
    const ffnorm::Params params = model.params();
    const ffnorm_class rounding =
        static_cast<ffnorm_class>(block.target().rounding());

    std::vector<float> z(kRows * kModel);
    std::vector<float> want_z(z.size());
    REQUIRE(Ok(ffnorm::LayerNorm(kModel, params.epsilon, params.scale,
                                 params.offset, model.rows(),
                                 {z.data(), kRows, kModel})));
    REQUIRE(ffnorm_reference_layer_norm(
                kModel, params.epsilon, params.scale, params.offset, kRows,
                model.x.data(), kModel, want_z.data(), kModel) == FFNORM_OK);
    CheckSameBits(z, want_z);

    std::vector<float> hidden(kRows * kHidden);
    std::vector<float> want_hidden(hidden.size());
    REQUIRE(
        Ok(block.Dense(ffnorm::Layer::kDense1, ffnorm::Activation::kRelu,
                       ffnorm::Rows(z.data(), kRows, kModel),
                       {hidden.data(), kRows, kHidden}, workspace.Serial())));
    REQUIRE(ffnorm_reference_dense(&params, rounding, FFNORM_DENSE_1,
                                   FFNORM_RELU, kRows, z.data(), kModel,
                                   want_hidden.data(), kHidden) == FFNORM_OK);
    CheckSameBits(hidden, want_hidden);

    std::vector<float> v(kRows * kModel);
    std::vector<float> want_v(v.size());
    REQUIRE(Ok(block.Dense(ffnorm::Layer::kDense2, ffnorm::Activation::kLinear,
                           ffnorm::Rows(hidden.data(), kRows, kHidden),
                           {v.data(), kRows, kModel}, workspace.Serial())));
    REQUIRE(ffnorm_reference_dense(&params, rounding, FFNORM_DENSE_2,
                                   FFNORM_LINEAR, kRows, hidden.data(), kHidden,
                                   want_v.data(), kModel) == FFNORM_OK);
    CheckSameBits(v, want_v);

    // The stages in this order are the Pre-LN block.
    const ffnorm::Rows v_rows(v.data(), kRows, kModel);
    REQUIRE(Ok(ffnorm::ResidualAdd(kModel, model.rows(), v_rows, v_rows)));
    CheckSameBits(v, Reference(model, block.target(), ffnorm::Order::kPreLn));
  }

  TEST_CASE("what is wrong is said, and nothing is changed") {
    const Model model;
    ffnorm::PackedWeights weights;
    ffnorm::Block block;
    ffnorm::Workspace workspace;
    REQUIRE(Ok(ffnorm::PackedWeights::Pack(model.params(), &weights)));
    REQUIRE(Ok(weights.Open(&block)));
    REQUIRE(Ok(ffnorm::Workspace::Allocate(block, kRows, 1, &workspace)));
    const unsigned char* packed = weights.data();
    const size_t packed_bytes = weights.bytes();
    const std::vector<float> before(kRows * kModel, 123.0f);
    std::vector<float> y = before;
    const ffnorm::Rows out(y.data(), kRows, kModel);

    SUBCASE("rows that differ in number") {
      const ffnorm::Rows fewer(y.data(), kRows - 1, kModel);
      CHECK(block.Forward(ffnorm::Order::kPreLn, model.rows(), fewer,
                          workspace.Serial()) == Status::kInvalidArgument);
      CHECK(block.Dense(ffnorm::Layer::kDense1, ffnorm::Activation::kLinear,
                        model.rows(), fewer,
                        workspace.Serial()) == Status::kInvalidArgument);
      CHECK(ffnorm::LayerNorm(kModel, 1.0f, nullptr, nullptr, model.rows(),
                              fewer) == Status::kInvalidArgument);
      CHECK(ffnorm::ResidualAdd(kModel, model.rows(), model.rows(), fewer) ==
            Status::kInvalidArgument);
      CHECK(ffnorm::ResidualAdd(kModel, model.rows(), fewer, out) ==
            Status::kInvalidArgument);
    }
    SUBCASE("a workspace that was never allocated") {
      CHECK(block.Forward(ffnorm::Order::kPreLn, model.rows(), out,
                          ffnorm::Workspace().Serial()) ==
            Status::kWorkspaceTooSmall);
    }
    SUBCASE("a block that was never opened") {
      CHECK_FALSE(Ok(ffnorm::Block().Forward(
          ffnorm::Order::kPreLn, model.rows(), out, workspace.Serial())));
      CHECK_FALSE(
          Ok(ffnorm::Workspace::Allocate(ffnorm::Block(), 1, 1, &workspace)));
      CHECK_FALSE(Ok(ffnorm::PackedWeights().Open(&block)));
    }
    SUBCASE("parameters without weights") {
      CHECK(ffnorm::PackedWeights::Pack(ffnorm::DefaultParams(4, 4),
                                        &weights) == Status::kInvalidArgument);
    }
    SUBCASE("a packed block that is cut off") {
      CHECK(ffnorm::Block::Open(packed, packed_bytes - 1, &block) ==
            Status::kCorrupt);
    }
    SUBCASE("no memory") {
      memory_is_exhausted = true;
      const Status pack = ffnorm::PackedWeights::Pack(model.params(), &weights);
      const Status allocate =
          ffnorm::Workspace::Allocate(block, kRows, 2, &workspace);
      const bool owns = static_cast<bool>(ffnorm::AlignedMemory::Allocate(1));
      memory_is_exhausted = false;
      CHECK(pack == Status::kOutOfMemory);
      CHECK(allocate == Status::kOutOfMemory);
      CHECK_FALSE(owns);
    }
    SUBCASE("nowhere to put the result") {
      CHECK(ffnorm::PackedWeights::Pack(model.params(), nullptr) ==
            Status::kInvalidArgument);
      CHECK(weights.Open(nullptr) == Status::kInvalidArgument);
      CHECK(ffnorm::Workspace::Allocate(block, 1, 1, nullptr) ==
            Status::kInvalidArgument);
    }

    CheckSameBits(y, before);
    CHECK(weights.data() == packed);
    CHECK(weights.bytes() == packed_bytes);
    CHECK(block.d_model() == kModel);
    CHECK(workspace.threads() == 1);
  }

  TEST_CASE("a block outlives a move of its weights") {
    const Model model;
    ffnorm::PackedWeights weights;
    ffnorm::Block block;
    ffnorm::Workspace workspace;
    REQUIRE(Ok(ffnorm::PackedWeights::Pack(model.params(), &weights)));
    REQUIRE(Ok(weights.Open(&block)));
    REQUIRE(Ok(ffnorm::Workspace::Allocate(block, kRows, 1, &workspace)));
    const ffnorm::PackedWeights moved = std::move(weights);

    std::vector<float> y(kRows * kModel);
    REQUIRE(Ok(block.Forward(ffnorm::Order::kPreLn, model.rows(),
                             {y.data(), kRows, kModel}, workspace.Serial())));
    CheckSameBits(y, Reference(model, block.target(), ffnorm::Order::kPreLn));
  }
}
