// Bad arguments to the functions that compute: the right status from each,
// outputs untouched, nothing printed. With and without NDEBUG.
#include <stddef.h>
#include <stdint.h>

#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "tests/buffers.h"
#include "tests/model.h"
#include "tests/outcome.h"
#include "tests/test_util.h"

namespace ffnorm {
namespace test {
namespace {

constexpr size_t kModel = 6;
constexpr size_t kHidden = 9;
constexpr size_t kRows = 4;
constexpr size_t kStride = 10;  // of every matrix; more than both widths

// Floats from one arena, so that overlaps are easy to make.
struct Arena {
  // Room for three matrices of rows, one row over, and unaligned starts.
  std::vector<float> floats = std::vector<float>(200, 1.5f);
  float* x = floats.data();
  float* y = floats.data() + 60;
  float* v = floats.data() + 120;
};

template <typename T>
T* Shifted(T* pointer, size_t bytes) {
  return reinterpret_cast<T*>(reinterpret_cast<uintptr_t>(pointer) + bytes);
}

// Arguments of ffnorm_forward and ffnorm_dense, good ones to begin with.
struct Run {
  ffnorm_block block;
  const ffnorm_block* block_pointer = &block;
  ffnorm_order order = FFNORM_PRE_LN;
  ffnorm_layer layer = FFNORM_DENSE_1;
  ffnorm_activation activation = FFNORM_RELU;
  size_t rows = kRows;
  const float* x;
  size_t x_stride = kStride;
  float* y;
  size_t y_stride = kStride;
  ffnorm_exec exec = {};
  const ffnorm_exec* exec_pointer = &exec;

  ffnorm_status Forward() const {
    return ffnorm_forward(block_pointer, order, rows, x, x_stride, y, y_stride,
                          exec_pointer);
  }
  ffnorm_status Dense() const {
    return ffnorm_dense(block_pointer, layer, activation, rows, x, x_stride, y,
                        y_stride, exec_pointer);
  }
};

void NoPool(void*, size_t, ffnorm_task, void*) {}

struct BadRun {
  std::string what;
  ffnorm_status want;
  std::function<void(Run&)> spoil;
};

// What is wrong for forward and dense alike.
std::vector<BadRun> BadRuns() {
  constexpr ffnorm_status kInvalid = FFNORM_INVALID_ARGUMENT;
  constexpr ffnorm_status kOverflow = FFNORM_SIZE_OVERFLOW;
  constexpr ffnorm_status kWorkspace = FFNORM_WORKSPACE_TOO_SMALL;
  std::vector<BadRun> bad = {
      {"block NULL", kInvalid, [](Run& r) { r.block_pointer = nullptr; }},
      {"block NULL, no rows", kInvalid,
       [](Run& r) {
         r.block_pointer = nullptr;
         r.rows = 0;
       }},
      {"block all zero", kInvalid, [](Run& r) { r.block = {}; }},
      {"block without target", kInvalid,
       [](Run& r) { r.block.target = nullptr; }},
      {"block without memory", kInvalid,
       [](Run& r) { r.block.packed = nullptr; }},
      {"x NULL", kInvalid, [](Run& r) { r.x = nullptr; }},
      {"y NULL", kInvalid, [](Run& r) { r.y = nullptr; }},
      {"exec NULL", kInvalid, [](Run& r) { r.exec_pointer = nullptr; }},
      {"x stride 0", kInvalid, [](Run& r) { r.x_stride = 0; }},
      {"y stride 0", kInvalid, [](Run& r) { r.y_stride = 0; }},
      {"x stride below its width", kInvalid,
       [](Run& r) { r.x_stride = kModel - 1; }},
      {"y stride below its width", kInvalid,
       [](Run& r) { r.y_stride = kModel - 1; }},
      {"y one float after x", kInvalid,
       [](Run& r) { r.y = const_cast<float*>(r.x) + 1; }},
      {"y one row after x", kInvalid,
       [](Run& r) { r.y = const_cast<float*>(r.x) + kStride; }},
      {"x one row after y", kInvalid, [](Run& r) { r.x = r.y + kStride; }},
      {"y over the end of x", kInvalid,
       [](Run& r) {
         r.y = const_cast<float*>(r.x) + (kRows - 1) * kStride + kModel - 1;
       }},
      {"y is x with another stride", kInvalid,
       [](Run& r) {
         r.y = const_cast<float*>(r.x);
         r.y_stride = kStride + 1;
       }},
      {"workspace NULL", kWorkspace,
       [](Run& r) { r.exec.workspace = nullptr; }},
      {"workspace of size 0", kWorkspace,
       [](Run& r) { r.exec.workspace_bytes = 0; }},
      {"workspace one byte too small", kWorkspace,
       [](Run& r) { --r.exec.workspace_bytes; }},
      {"workspace for one thread, given to 64", kWorkspace,
       [](Run& r) {
         r.rows = 2000;
         r.y = Shifted(r.y, r.rows * kStride * sizeof(float));
         size_t bytes = 0;
         ffnorm_workspace_bytes(&r.block, r.rows, 1, &bytes);
         r.exec.workspace_bytes = bytes;
         r.exec.parallel_for = &NoPool;
         r.exec.threads = 64;
       }},
      {"workspace over x", kInvalid,
       [](Run& r) { r.x = static_cast<const float*>(r.exec.workspace); }},
      {"workspace's last bytes over x", kInvalid,
       [](Run& r) {
         r.x = static_cast<const float*>(r.exec.workspace) +
               r.exec.workspace_bytes / sizeof(float) - 1;
       }},
      {"workspace over y", kInvalid,
       [](Run& r) { r.y = static_cast<float*>(r.exec.workspace); }},
      {"workspace over the packed block", kInvalid,
       [](Run& r) {
         r.exec.workspace = const_cast<unsigned char*>(r.block.packed);
       }},
      {"y over the packed block", kInvalid,
       [](Run& r) {
         r.y = reinterpret_cast<float*>(
             const_cast<unsigned char*>(r.block.packed));
       }},
      {"y over the packed block's end", kInvalid,
       [](Run& r) {
         r.y = reinterpret_cast<float*>(
             const_cast<unsigned char*>(r.block.packed) + r.block.packed_bytes -
             sizeof(float));
       }},
      {"SIZE_MAX rows", kOverflow, [](Run& r) { r.rows = SIZE_MAX; }},
      {"rows that overflow in bytes only", kOverflow,
       [](Run& r) { r.rows = SIZE_MAX / kStride / 2; }},
      {"x stride SIZE_MAX", kOverflow, [](Run& r) { r.x_stride = SIZE_MAX; }},
      {"y stride SIZE_MAX", kOverflow, [](Run& r) { r.y_stride = SIZE_MAX; }},
      {"y stride that overflows in bytes only", kOverflow,
       [](Run& r) { r.y_stride = SIZE_MAX / kRows; }},
  };
  for (const size_t bytes : {1, 2, 3}) {
    const std::string by = " misaligned by " + std::to_string(bytes);
    bad.push_back(
        {"x" + by, kInvalid, [bytes](Run& r) { r.x = Shifted(r.x, bytes); }});
    bad.push_back(
        {"y" + by, kInvalid, [bytes](Run& r) { r.y = Shifted(r.y, bytes); }});
  }
  for (const size_t bytes : {1, 4, 16, 32}) {
    bad.push_back({"workspace misaligned by " + std::to_string(bytes), kInvalid,
                   [bytes](Run& r) {
                     r.exec.workspace = Shifted(
                         static_cast<unsigned char*>(r.exec.workspace), bytes);
                   }});
  }
  return bad;
}

Outcomes RunOutcomes(const ffnorm_target* target) {
  const Model model(kModel, kHidden);
  const auto call = [&](const BadRun& bad,
                        ffnorm_status (Run::*function)() const) {
    Arena arena;
    Run run;
    run.block = model.Opened(target);
    run.x = arena.x;
    run.y = arena.y;
    const size_t bytes = Workspace::Bytes(run.block, kRows, 1);
    // Room for a start that is not aligned.
    AlignedBuffer workspace(bytes + FFNORM_ALIGNMENT);
    run.exec.workspace = workspace.data();
    run.exec.workspace_bytes = bytes;
    bad.spoil(run);
    const Snapshot floats(arena.floats.data(), 200 * sizeof(float));
    const Snapshot packed(model.packed.data(), model.packed.bytes());
    const Snapshot work(workspace.data(), workspace.bytes());
    const ffnorm_status got = (run.*function)();
    return Outcome{
        bad.what, bad.want, got,
        floats.Unchanged() && packed.Unchanged() && work.Unchanged()};
  };
  Outcomes outcomes;
  for (const BadRun& bad : BadRuns()) {
    outcomes.push_back(call(bad, &Run::Forward));
    outcomes.push_back(call(bad, &Run::Dense));
  }
  for (const int value : {-1, 2, 1000}) {
    const BadRun order = {"order", FFNORM_INVALID_ARGUMENT, [&](Run& r) {
                            r.order = Enumerator<ffnorm_order>(value);
                          }};
    const BadRun layer = {"layer", FFNORM_INVALID_ARGUMENT, [&](Run& r) {
                            r.layer = Enumerator<ffnorm_layer>(value);
                          }};
    const BadRun activation = {
        "activation", FFNORM_INVALID_ARGUMENT,
        [&](Run& r) { r.activation = Enumerator<ffnorm_activation>(value); }};
    outcomes.push_back(call(order, &Run::Forward));
    outcomes.push_back(call(layer, &Run::Dense));
    outcomes.push_back(call(activation, &Run::Dense));
  }
  const BadRun in_place = {"dense in place", FFNORM_INVALID_ARGUMENT,
                           [](Run& r) { r.y = const_cast<float*>(r.x); }};
  outcomes.push_back(call(in_place, &Run::Dense));
  return outcomes;
}

// ---- layer_norm and residual_add, each beside its reference

struct Stage {
  size_t d_model = kModel;
  float epsilon = 1e-6f;
  const float* scale = nullptr;
  const float* offset = nullptr;
  size_t rows = kRows;
  const float* x;
  size_t x_stride = kStride;
  const float* v;
  size_t v_stride = kStride;
  float* y;
  size_t y_stride = kStride;
};

struct BadStage {
  std::string what;
  ffnorm_status want;
  std::function<void(Stage&)> spoil;
};

std::vector<BadStage> BadMatrices() {
  constexpr ffnorm_status kInvalid = FFNORM_INVALID_ARGUMENT;
  constexpr ffnorm_status kOverflow = FFNORM_SIZE_OVERFLOW;
  return {
      {"d_model 0", kInvalid, [](Stage& s) { s.d_model = 0; }},
      {"d_model 0, no rows", kInvalid,
       [](Stage& s) { s.d_model = s.rows = 0; }},
      {"x NULL", kInvalid, [](Stage& s) { s.x = nullptr; }},
      {"y NULL", kInvalid, [](Stage& s) { s.y = nullptr; }},
      {"x misaligned", kInvalid, [](Stage& s) { s.x = Shifted(s.x, 2); }},
      {"y misaligned", kInvalid, [](Stage& s) { s.y = Shifted(s.y, 1); }},
      {"x stride", kInvalid, [](Stage& s) { s.x_stride = kModel - 1; }},
      {"y stride", kInvalid, [](Stage& s) { s.y_stride = 0; }},
      {"y a row after x", kInvalid,
       [](Stage& s) { s.y = const_cast<float*>(s.x) + kStride; }},
      {"y a float before x", kInvalid, [](Stage& s) { s.x = s.y + 1; }},
      {"y is x with another stride", kInvalid,
       [](Stage& s) {
         s.x = s.y;
         s.x_stride = kStride - 1;
       }},
      {"SIZE_MAX rows", kOverflow, [](Stage& s) { s.rows = SIZE_MAX; }},
      {"x stride SIZE_MAX", kOverflow, [](Stage& s) { s.x_stride = SIZE_MAX; }},
      {"y stride overflows in bytes", kOverflow,
       [](Stage& s) { s.y_stride = SIZE_MAX / kRows; }},
      {"d_model SIZE_MAX", kOverflow,
       [](Stage& s) {
         s.d_model = s.x_stride = s.v_stride = s.y_stride = SIZE_MAX;
       }},
  };
}

std::vector<BadStage> BadLayerNorms() {
  constexpr ffnorm_status kInvalid = FFNORM_INVALID_ARGUMENT;
  std::vector<BadStage> bad = BadMatrices();
  const float kInf = std::numeric_limits<float>::infinity();
  for (const float epsilon :
       {std::numeric_limits<float>::quiet_NaN(), -1.0f, -1e-45f, kInf, -kInf}) {
    bad.push_back({"epsilon " + Describe(epsilon), kInvalid,
                   [epsilon](Stage& s) { s.epsilon = epsilon; }});
  }
  bad.push_back({"scale misaligned", kInvalid,
                 [](Stage& s) { s.scale = Shifted(s.v, 1); }});
  bad.push_back({"offset misaligned", kInvalid,
                 [](Stage& s) { s.offset = Shifted(s.v, 2); }});
  bad.push_back(
      {"scale within y", kInvalid, [](Stage& s) { s.scale = s.y + 1; }});
  bad.push_back(
      {"offset within y", kInvalid, [](Stage& s) { s.offset = s.y; }});
  return bad;
}

std::vector<BadStage> BadResidualAdds() {
  constexpr ffnorm_status kInvalid = FFNORM_INVALID_ARGUMENT;
  std::vector<BadStage> bad = BadMatrices();
  bad.push_back({"v NULL", kInvalid, [](Stage& s) { s.v = nullptr; }});
  bad.push_back(
      {"v misaligned", kInvalid, [](Stage& s) { s.v = Shifted(s.v, 3); }});
  bad.push_back(
      {"v stride", kInvalid, [](Stage& s) { s.v_stride = kModel - 1; }});
  bad.push_back({"v stride SIZE_MAX", FFNORM_SIZE_OVERFLOW,
                 [](Stage& s) { s.v_stride = SIZE_MAX; }});
  bad.push_back({"y a row after v", kInvalid,
                 [](Stage& s) { s.y = const_cast<float*>(s.v) + kStride; }});
  bad.push_back({"y is v with another stride", kInvalid, [](Stage& s) {
                   s.v = s.y;
                   s.v_stride = kStride + 1;
                 }});
  return bad;
}

Outcomes StageOutcomes(const ffnorm_target* target) {
  Outcomes outcomes;
  const auto call = [&](const BadStage& bad, const auto& function) {
    Arena arena;
    Stage stage;
    stage.x = arena.x;
    stage.v = arena.v;
    stage.y = arena.y;
    bad.spoil(stage);
    const Snapshot floats(arena.floats.data(), 200 * sizeof(float));
    const ffnorm_status got = function(stage);
    outcomes.push_back({bad.what, bad.want, got, floats.Unchanged()});
  };
  for (const BadStage& bad : BadLayerNorms()) {
    call(bad, [&](const Stage& s) {
      return ffnorm_layer_norm(target, s.d_model, s.epsilon, s.scale, s.offset,
                               s.rows, s.x, s.x_stride, s.y, s.y_stride);
    });
    call(bad, [](const Stage& s) {
      return ffnorm_reference_layer_norm(s.d_model, s.epsilon, s.scale,
                                         s.offset, s.rows, s.x, s.x_stride, s.y,
                                         s.y_stride);
    });
  }
  for (const BadStage& bad : BadResidualAdds()) {
    call(bad, [&](const Stage& s) {
      return ffnorm_residual_add(target, s.d_model, s.rows, s.x, s.x_stride,
                                 s.v, s.v_stride, s.y, s.y_stride);
    });
    call(bad, [](const Stage& s) {
      return ffnorm_reference_residual_add(s.d_model, s.rows, s.x, s.x_stride,
                                           s.v, s.v_stride, s.y, s.y_stride);
    });
  }
  return outcomes;
}

}  // namespace

TEST_SUITE("status_run") {
  TEST_CASE("forward and dense") {
    ForEachTarget([](const ffnorm_target* target) {
      CheckOutcomes(RunOutcomes(target));
    });
  }

  TEST_CASE("layer_norm and residual_add, and their references") {
    ForEachTarget([](const ffnorm_target* target) {
      CheckOutcomes(StageOutcomes(target));
    });
  }

  TEST_CASE("no rows: nothing to check but the block, nothing touched") {
    const Model model(kModel, kHidden);
    const ffnorm_params params = model.Params();
    ForEachTarget([&](const ffnorm_target* target) {
      const ffnorm_block block = model.Opened(target);
      for (const ffnorm_order order : {FFNORM_PRE_LN, FFNORM_POST_LN}) {
        CHECK(ffnorm_forward(&block, order, 0, nullptr, 0, nullptr, 0,
                             nullptr) == FFNORM_OK);
        CHECK(ffnorm_reference_forward(&params, FFNORM_FUSED, order, 0, nullptr,
                                       0, nullptr, 0, nullptr, 0) == FFNORM_OK);
      }
      for (const ffnorm_layer layer : {FFNORM_DENSE_1, FFNORM_DENSE_2}) {
        CHECK(ffnorm_dense(&block, layer, FFNORM_RELU, 0, nullptr, 0, nullptr,
                           0, nullptr) == FFNORM_OK);
        CHECK(ffnorm_reference_dense(&params, FFNORM_FUSED, layer, FFNORM_RELU,
                                     0, nullptr, 0, nullptr, 0) == FFNORM_OK);
      }
      CHECK(ffnorm_layer_norm(target, 3, 0.0f, nullptr, nullptr, 0, nullptr, 0,
                              nullptr, 0) == FFNORM_OK);
      CHECK(ffnorm_residual_add(target, 3, 0, nullptr, 0, nullptr, 0, nullptr,
                                0) == FFNORM_OK);
      // y given, but no rows of it.
      std::vector<float> y(kModel, 7.0f);
      CHECK(ffnorm_forward(&block, FFNORM_PRE_LN, 0, y.data(), kModel, y.data(),
                           kModel, nullptr) == FFNORM_OK);
      CheckSameBits(y, std::vector<float>(kModel, 7.0f));
    });
    CHECK(ffnorm_reference_layer_norm(3, 0.0f, nullptr, nullptr, 0, nullptr, 0,
                                      nullptr, 0) == FFNORM_OK);
    CHECK(ffnorm_reference_residual_add(3, 0, nullptr, 0, nullptr, 0, nullptr,
                                        0) == FFNORM_OK);
  }

#if FFNORM_TESTS_HAVE_DUP
  TEST_CASE("no bad call prints") {
    ForEachTarget([](const ffnorm_target* target) {
      Outcomes outcomes;
      const long bytes = BytesPrinted([&] {
        outcomes = RunOutcomes(target);
        const Outcomes more = StageOutcomes(target);
        outcomes.insert(outcomes.end(), more.begin(), more.end());
      });
      CHECK(bytes == 0);
      CHECK(outcomes.size() > 100);
    });
  }
#endif
}

}  // namespace test
}  // namespace ffnorm
