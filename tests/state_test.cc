// What a call leaves as it was, beside memory: the floating-point control
// state, the stack but for a few KiB, and the system, of which it asks nothing.
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cfenv>
#include <functional>
#include <string>
#include <vector>

#include "tests/buffers.h"
#include "tests/model.h"
#include "tests/random_data.h"
#include "tests/test_util.h"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define FFNORM_TESTS_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || \
    __has_feature(memory_sanitizer)
#define FFNORM_TESTS_SANITIZED 1
#endif
#endif

// A sanitizer's frames are larger, and its run-time library calls the system.
#if defined(__linux__) && !defined(FFNORM_TESTS_SANITIZED)
#define FFNORM_TESTS_BARE_LINUX 1
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#endif

namespace ffnorm {
namespace test {
namespace {

// One call of each function that computes, with results in `out`.
struct Call {
  std::string name;
  std::function<ffnorm_status()> run;
  const float* out;
  size_t size;
};

// Calls on one target that are ready to be run again and again, without any
// allocation between.
class Calls {
 public:
  Calls(const Model& model, const ffnorm_target* target, size_t rows)
      : model_(model),
        block_(model.Opened(target)),
        rows_(rows),
        x_(model.Input(rows)),
        hidden_(Filled(rows * model.d_ff, Mode::kGaussian, 99)),
        y_(rows * model.d_model),
        h_(rows * model.d_ff),
        packed_(model.packed.bytes()),
        workspace_(Workspace::Bytes(block_, rows, 3)),
        pool_(Pool::kReversed) {
    exec_.workspace = workspace_.data();
    exec_.workspace_bytes = workspace_.bytes();
    exec_.parallel_for = &Pool::ParallelFor;
    exec_.pool = &pool_;
    AddCalls(target);
  }
  Calls(const Calls&) = delete;
  Calls& operator=(const Calls&) = delete;

  const std::vector<Call>& All() const { return calls_; }

 private:
  void Add(const std::string& name, const std::vector<float>& out,
           std::function<ffnorm_status()> run) {
    calls_.push_back({name, std::move(run), out.data(), out.size()});
  }

  void AddCalls(const ffnorm_target* target) {
    const size_t D = model_.d_model;
    const size_t H = model_.d_ff;
    for (const size_t threads : {size_t{1}, size_t{3}}) {
      const std::string tasks = ", tasks: " + std::to_string(threads);
      for (const ffnorm_order order : {FFNORM_PRE_LN, FFNORM_POST_LN}) {
        Add((order == FFNORM_PRE_LN ? "pre" : "post") + tasks, y_, [=] {
          exec_.threads = threads;
          return ffnorm_forward(&block_, order, rows_, x_.data(), D, y_.data(),
                                D, &exec_);
        });
      }
      Add("dense 1" + tasks, h_, [=] {
        exec_.threads = threads;
        return ffnorm_dense(&block_, FFNORM_DENSE_1, FFNORM_RELU, rows_,
                            x_.data(), D, h_.data(), H, &exec_);
      });
      Add("dense 2" + tasks, y_, [=] {
        exec_.threads = threads;
        return ffnorm_dense(&block_, FFNORM_DENSE_2, FFNORM_LINEAR, rows_,
                            hidden_.data(), H, y_.data(), D, &exec_);
      });
    }
    Add("layer_norm", y_, [=] {
      return ffnorm_layer_norm(target, D, model_.epsilon, model_.scale.data(),
                               model_.offset.data(), rows_, x_.data(), D,
                               y_.data(), D);
    });
    Add("residual_add", y_, [=] {
      return ffnorm_residual_add(target, D, rows_, x_.data(), D, x_.data(), D,
                                 y_.data(), D);
    });
    Add("pack, verify, open", y_, [=] {
      const ffnorm_params params = model_.Params();
      ffnorm_block block;
      size_t bytes = 0;
      ffnorm_status status = ffnorm_packed_bytes(&params, &bytes);
      if (status == FFNORM_OK) {
        status = ffnorm_pack(&params, packed_.data(), bytes);
      }
      if (status == FFNORM_OK) status = ffnorm_verify(packed_.data(), bytes);
      if (status == FFNORM_OK) {
        status = ffnorm_open(packed_.data(), bytes, nullptr, &block);
      }
      if (status == FFNORM_OK) {
        status = ffnorm_workspace_bytes(&block, rows_, 3, &bytes);
      }
      return status;
    });
  }

  const Model& model_;
  ffnorm_block block_;
  size_t rows_;
  std::vector<float> x_;
  std::vector<float> hidden_;
  std::vector<float> y_;
  std::vector<float> h_;
  AlignedBuffer packed_;
  AlignedBuffer workspace_;
  Pool pool_;
  ffnorm_exec exec_ = {};
  std::vector<Call> calls_;
};

// Columns shared, and rows shared in one block and in several.
constexpr size_t kRowCounts[] = {1, 4, 9, 60};

template <class Function>
void ForEachCall(const Model& model, const Function& fn) {
  ForEachTarget([&](const ffnorm_target* target) {
    for (const size_t rows : kRowCounts) {
      CAPTURE(rows);
      const Calls calls(model, target, rows);
      for (const Call& call : calls.All()) {
        CAPTURE(call.name);
        fn(call);
      }
    }
  });
}

#if defined(__x86_64__)
std::vector<float> Result(const Call& call) {
  return std::vector<float>(call.out, call.out + call.size);
}

constexpr unsigned kFtzDaz = 0x8040;

// MXCSR but for the exception flags, which say what occurred.
unsigned Control() { return _mm_getcsr() & ~0x3fu; }

// Runs the call with these bits set in MXCSR, and checks that it left the
// control bits as they were.
void RunWith(unsigned bits, const Call& call) {
  const unsigned before = _mm_getcsr();
  _mm_setcsr(before | bits);
  const unsigned set = Control();
  const ffnorm_status status = call.run();
  const unsigned after = Control();
  _mm_setcsr(before);
  CHECK(status == FFNORM_OK);
  CHECK(after == set);
}
#endif

#ifdef FFNORM_TESTS_BARE_LINUX
// Runs the call in a thread whose stack holds a pattern, and returns how deep
// below this frame it has been written to.
class StackDepth {
 public:
  explicit StackDepth(const Call& call) : call_(call), stack_(kFloats, kEdge) {
    memset(stack_.data(), kPattern, kFloats * sizeof(float));
  }

  size_t Measure() {
    pthread_attr_t attributes;
    pthread_t thread;
    REQUIRE(pthread_attr_init(&attributes) == 0);
    REQUIRE(pthread_attr_setstack(&attributes, stack_.data(),
                                  kFloats * sizeof(float)) == 0);
    REQUIRE(pthread_create(&thread, &attributes, &StackDepth::Run, this) == 0);
    REQUIRE(pthread_join(thread, nullptr) == 0);
    pthread_attr_destroy(&attributes);
    REQUIRE(status_ == FFNORM_OK);
    return depth_;
  }

 private:
  static constexpr size_t kFloats = size_t{1} << 16;
  static constexpr GuardedBuffer::Edge kEdge = GuardedBuffer::kBegin;
  static constexpr unsigned char kPattern = 0x5c;

  static void* Run(void* self) {
    StackDepth& depth = *static_cast<StackDepth*>(self);
    depth.status_ = depth.call_.run();
    const auto* top =
        static_cast<const unsigned char*>(__builtin_frame_address(0));
    const auto* lowest =
        reinterpret_cast<const unsigned char*>(depth.stack_.data());
    while (*lowest == kPattern) ++lowest;
    depth.depth_ = static_cast<size_t>(top - lowest);
    return nullptr;
  }

  const Call& call_;
  GuardedBuffer stack_;
  ffnorm_status status_ = FFNORM_CORRUPT;
  size_t depth_ = 0;
};
#endif

}  // namespace

TEST_SUITE("state") {
  TEST_CASE("the rounding mode stays what it was") {
    const Model model(33, 70);
    ForEachCall(model, [](const Call& call) {
      for (const int mode : {
               FE_TONEAREST,
#ifdef FE_TOWARDZERO
               FE_TOWARDZERO,
#endif
#ifdef FE_UPWARD
               FE_UPWARD,
#endif
           }) {
        if (std::fesetround(mode) != 0) continue;
        const ffnorm_status status = call.run();
        const int after = std::fegetround();
        std::fesetround(FE_TONEAREST);
        CHECK(status == FFNORM_OK);
        CHECK(after == mode);
      }
    });
  }

#if defined(__x86_64__)
  TEST_CASE("FTZ and DAZ stay set, and change no result without subnormals") {
    const Model model(33, 70);
    ForEachCall(model, [](const Call& call) {
      REQUIRE(call.run() == FFNORM_OK);
      const std::vector<float> want = Result(call);
      RunWith(kFtzDaz, call);
      CheckSameBits(Result(call), want);
    });
  }

  TEST_CASE("FTZ and DAZ with subnormals: one result for each class") {
    Model model(33, 70);
    for (float& w : model.w1) w *= 1e-39f;
    for (float& w : model.w2) w *= 1e-3f;
    for (float& b : model.b1) b *= 1e-39f;
    for (float& b : model.b2) b *= 1e-39f;
    model.Pack();
    size_t changed = 0;
    std::vector<std::vector<float>> results[2];
    ForEachTarget([&](const ffnorm_target* target) {
      std::vector<std::vector<float>> mine;
      for (const size_t rows : kRowCounts) {
        const Calls calls(model, target, rows);
        for (const Call& call : calls.All()) {
          REQUIRE(call.run() == FFNORM_OK);
          const std::vector<float> without = Result(call);
          RunWith(kFtzDaz, call);
          mine.push_back(Result(call));
          if (mine.back() != without) ++changed;
        }
      }
      std::vector<std::vector<float>>& first =
          results[ffnorm_target_class(target)];
      if (first.empty()) first = mine;
      REQUIRE(first.size() == mine.size());
      for (size_t i = 0; i < mine.size(); ++i) CheckSameBits(mine[i], first[i]);
    });
    // Else this would have tested nothing.
    CHECK(changed > 0);
  }
#endif

#if defined(FFNORM_TESTS_BARE_LINUX) && defined(__OPTIMIZE__)
  TEST_CASE("a call takes little stack") {
    const Model model(65, 300);
    std::string deepest_name;
    size_t deepest = 0;
    ForEachTarget([&](const ffnorm_target* target) {
      // A compiler that optimizes little takes up to 6 KiB.
      const size_t most = 7168 + 16 * ffnorm_target_vector_bytes(target);
      for (const size_t rows : kRowCounts) {
        const Calls calls(model, target, rows);
        for (const Call& call : calls.All()) {
          CAPTURE(call.name);
          // The first call lets the dynamic linker find memcpy.
          REQUIRE(call.run() == FFNORM_OK);
          const size_t depth = StackDepth(call).Measure();
          CHECK(depth <= most);
          if (depth > deepest) {
            deepest = depth;
            deepest_name = TargetName(target) + " " + call.name +
                           ", rows: " + std::to_string(rows);
          }
        }
      }
    });
    MESSAGE("deepest stack: ", deepest, " bytes, ", deepest_name);
    CHECK(deepest > 0);
  }
#endif

#ifdef FFNORM_TESTS_BARE_LINUX
  TEST_CASE("no call asks the system for anything") {
    const Model model(33, 70);
    ForEachTarget([&](const ffnorm_target* target) {
      for (const size_t rows : kRowCounts) {
        CAPTURE(rows);
        const Calls calls(model, target, rows);
        for (const Call& call : calls.All()) {
          REQUIRE(call.run() == FFNORM_OK);
        }
        const pid_t child = fork();
        REQUIRE(child >= 0);
        if (child == 0) {
          // From here every system call but read, write and exit kills. An
          // emulator of CPUs refuses this.
          if (prctl(PR_SET_SECCOMP, 1) != 0) _exit(77);
          bool right = true;
          for (const Call& call : calls.All()) {
            right = right && call.run() == FFNORM_OK;
          }
          syscall(SYS_exit, right ? 0 : 1);
        }
        int status = 0;
        REQUIRE(waitpid(child, &status, 0) == child);
        CHECK(WIFEXITED(status));
        if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
          MESSAGE("skipped: no seccomp here");
          continue;
        }
        CHECK(WEXITSTATUS(status) == 0);
      }
    });
  }
#endif
}

}  // namespace test
}  // namespace ffnorm
