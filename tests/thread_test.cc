// The caller's threads: the same bits for every pool, every number of tasks and
// every order in which they run; many callers at once; pools within pools.
#include <stddef.h>
#include <stdint.h>

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "kernels/shape.h"
#include "kernels/tuning.h"
#include "tests/model.h"
#include "tests/random_data.h"
#include "tests/test_util.h"
#include "tests/thread_pool.h"

#if defined(__unix__) || defined(__APPLE__)
#define FFNORM_TESTS_HAVE_FORK 1
#include <sys/wait.h>
#include <unistd.h>
#else
#define FFNORM_TESTS_HAVE_FORK 0
#endif

namespace ffnorm {
namespace test {
namespace {

constexpr size_t kMostRows = 300;
constexpr size_t kTaskCounts[] = {1, 2, 3, 7, 64};

// One of the four functions that take an exec, as a function of its rows.
struct Call {
  std::string name;
  size_t inputs;
  size_t outputs;
  std::function<ffnorm_status(const ffnorm_block&, size_t rows, const float* x,
                              float* y, const ffnorm_exec*)>
      run;
};

Call ForwardCall(const Model& model, ffnorm_order order) {
  const size_t D = model.d_model;
  return {order == FFNORM_PRE_LN ? "pre" : "post", D, D,
          [D, order](const ffnorm_block& block, size_t rows, const float* x,
                     float* y, const ffnorm_exec* exec) {
            return ffnorm_forward(&block, order, rows, x, D, y, D, exec);
          }};
}

Call DenseCall(const Model& model, ffnorm_layer layer) {
  const bool first = layer == FFNORM_DENSE_1;
  const size_t in = first ? model.d_model : model.d_ff;
  const size_t out = first ? model.d_ff : model.d_model;
  return {first ? "dense 1" : "dense 2", in, out,
          [=](const ffnorm_block& block, size_t rows, const float* x, float* y,
              const ffnorm_exec* exec) {
            return ffnorm_dense(&block, layer, FFNORM_RELU, rows, x, in, y, out,
                                exec);
          }};
}

std::vector<Call> Calls(const Model& model) {
  return {ForwardCall(model, FFNORM_PRE_LN), ForwardCall(model, FFNORM_POST_LN),
          DenseCall(model, FFNORM_DENSE_1), DenseCall(model, FFNORM_DENSE_2)};
}

std::vector<float> Run(const Call& call, const ffnorm_block& block, size_t rows,
                       const std::vector<float>& x, size_t threads,
                       Pool* pool) {
  Workspace workspace(block, rows, threads, pool);
  std::vector<float> y(rows * call.outputs);
  FillNaN(y.data(), y.size());
  REQUIRE(call.run(block, rows, x.data(), y.data(), workspace.Exec()) ==
          FFNORM_OK);
  return y;
}

// Runs one task to its end before any other begins, then the others at once:
// a pool whose other threads come late. The first task may find all the work.
struct LatePool {
  size_t first;  // this task, if there are so many

  static void ParallelFor(void* pool, size_t tasks, ffnorm_task task,
                          void* context) {
    const size_t first = static_cast<LatePool*>(pool)->first % tasks;
    task(context, first);
    std::vector<std::thread> threads;
    for (size_t i = 0; i < tasks; ++i) {
      if (i != first) threads.emplace_back([=] { task(context, i); });
    }
    for (std::thread& thread : threads) thread.join();
  }
};

// Opens the block and runs all rows in one thread, without doctest: for code
// that runs in other threads and processes. False on any failure.
bool OpenAndRun(const Model& model, const ffnorm_target* target,
                ffnorm_order order, size_t rows, const std::vector<float>& x,
                std::vector<float>* y) {
  ffnorm_block block;
  size_t bytes = 0;
  if (ffnorm_open(model.packed.data(), model.packed.bytes(), target, &block) !=
          FFNORM_OK ||
      ffnorm_workspace_bytes(&block, rows, 1, &bytes) != FFNORM_OK) {
    return false;
  }
  AlignedBuffer workspace(bytes);
  ffnorm_exec exec = {};
  exec.workspace = workspace.data();
  exec.workspace_bytes = bytes;
  y->assign(rows * model.d_model, 0.0f);
  return ffnorm_forward(&block, order, rows, x.data(), model.d_model, y->data(),
                        model.d_model, &exec) == FFNORM_OK;
}

#if FFNORM_TESTS_HAVE_FORK
bool AllSameBits(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (!SameBits(a[i], b[i])) return false;
  }
  return true;
}
#endif

}  // namespace

TEST_SUITE("thread") {
  TEST_CASE("rows 1..300: any number of tasks, in any order") {
    // More panels than shares of columns, and more than one block of K.
    const Model model(9, 300);
    for (const Call& call : Calls(model)) {
      CAPTURE(call.name);
      const std::vector<float> x =
          Filled(kMostRows * call.inputs, Mode::kGaussian, 3);
      ForEachTarget([&](const ffnorm_target* target) {
        const ffnorm_block block = model.Opened(target);
        const std::vector<float> all =
            Run(call, block, kMostRows, x, 1, nullptr);
        // Every row count for one function, every third for the others; all
        // combinations come in turn.
        const size_t step = call.name == "pre" ? 1 : 3;
        size_t turn = 0;
        for (size_t rows = 1; rows <= kMostRows; rows += step) {
          const size_t tasks = kTaskCounts[turn % 5];
          Pool pool(turn / 5 % 2 == 0 ? Pool::kInOrder : Pool::kReversed);
          ++turn;
          CAPTURE(rows);
          CAPTURE(tasks);
          const std::vector<float> got =
              Run(call, block, rows, x, tasks, &pool);
          CheckSameBits(rows, call.outputs, got.data(), call.outputs,
                        all.data(), call.outputs);
          CHECK(pool.tasks <= pool.calls * tasks);
        }
      });
    }
  }

  TEST_CASE("real threads") {
    const Model model(40, 290);
    for (const Call& call : Calls(model)) {
      CAPTURE(call.name);
      const std::vector<float> x =
          Filled(kMostRows * call.inputs, Mode::kGaussian, 3);
      ForEachTarget([&](const ffnorm_target* target) {
        const ffnorm_block block = model.Opened(target);
        const std::vector<float> all =
            Run(call, block, kMostRows, x, 1, nullptr);
        const auto check = [&](size_t rows, const std::vector<float>& got) {
          CheckSameBits(rows, call.outputs, got.data(), call.outputs,
                        all.data(), call.outputs);
        };
        for (const size_t rows : {1, 2, 5, 13, 14, 47, 48, 100, 112, 300}) {
          CAPTURE(rows);
          for (const size_t tasks : kTaskCounts) {
            CAPTURE(tasks);
            Pool pool(Pool::kThreads, 4);
            check(rows, Run(call, block, rows, x, tasks, &pool));
          }
          for (const size_t first : {size_t{0}, size_t{2}}) {
            CAPTURE(first);
            LatePool pool{first};
            AlignedBuffer workspace(Workspace::Bytes(block, rows, 5));
            const ffnorm_exec exec = {workspace.data(), workspace.bytes(),
                                      &LatePool::ParallelFor, &pool, 5};
            std::vector<float> y(rows * call.outputs);
            REQUIRE(call.run(block, rows, x.data(), y.data(), &exec) ==
                    FFNORM_OK);
            check(rows, y);
          }
        }
      });
    }
  }

  TEST_CASE("few rows, and panels that few numbers of tasks divide") {
    for (const size_t panels : {9, 10, 11, 12, 15}) {
      CAPTURE(panels);
      for (const float shift : {0.0f, -1.0f}) {
        CAPTURE(shift);
        Model model(panels * kPanelWidth, 500);
        REQUIRE(model.d_model * model.d_ff > kSmallMatrixFloats);
        for (float& b : model.b1) b += shift;
        model.Pack();
        const Call call = ForwardCall(
            model, panels % 2 == 0 ? FFNORM_PRE_LN : FFNORM_POST_LN);
        // So many rows have no tile of their own, as fewer do.
        constexpr size_t kRows = 7;
        const std::vector<float> x =
            Filled(kRows * call.inputs, Mode::kGaussian, 3);
        ForEachTarget([&](const ffnorm_target* target) {
          const ffnorm_block block = model.Opened(target);
          const std::vector<float> all = Run(call, block, kRows, x, 1, nullptr);
          for (size_t rows = 1; rows <= 4; ++rows) {
            CAPTURE(rows);
            for (size_t tasks = 1; tasks <= 7; ++tasks) {
              CAPTURE(tasks);
              Pool pool(Pool::kReversed);
              const std::vector<float> got =
                  Run(call, block, rows, x, tasks, &pool);
              CheckSameBits(rows, call.outputs, got.data(), call.outputs,
                            all.data(), call.outputs);
            }
          }
        });
      }
    }
  }

  TEST_CASE("the pool is used, and left alone where one task is asked for") {
    const Model model(64, 512);
    for (const Call& call : Calls(model)) {
      CAPTURE(call.name);
      const std::vector<float> x =
          Filled(kMostRows * call.inputs, Mode::kGaussian, 3);
      ForEachTarget([&](const ffnorm_target* target) {
        const ffnorm_block block = model.Opened(target);
        Pool four(Pool::kInOrder);
        Run(call, block, kMostRows, x, 4, &four);
        CHECK(four.calls >= 1);
        CHECK(four.tasks == 4 * four.calls);
        for (const size_t threads : {size_t{0}, size_t{1}}) {
          Pool one(Pool::kInOrder);
          Run(call, block, kMostRows, x, threads, &one);
          CHECK(one.tasks == one.calls);
        }
      });
    }
  }

  TEST_CASE("absurd numbers of tasks cost neither time nor results") {
    const Model model(19, 300);
    for (const Call& call : Calls(model)) {
      CAPTURE(call.name);
      const std::vector<float> x =
          Filled(kMostRows * call.inputs, Mode::kGaussian, 3);
      ForEachTarget([&](const ffnorm_target* target) {
        const ffnorm_block block = model.Opened(target);
        const std::vector<float> all =
            Run(call, block, kMostRows, x, 1, nullptr);
        for (const size_t tasks : {size_t{100000}, SIZE_MAX / 2, SIZE_MAX}) {
          for (const size_t rows : {size_t{1}, size_t{9}, kMostRows}) {
            CAPTURE(tasks);
            CAPTURE(rows);
            // Stops a library that would hand out all of them.
            struct Bounded {
              size_t most = 0;
              static void ParallelFor(void* pool, size_t count,
                                      ffnorm_task task, void* context) {
                Bounded* self = static_cast<Bounded*>(pool);
                if (count > self->most) self->most = count;
                for (size_t i = 0; i < count && i < 1000; ++i) task(context, i);
              }
            } pool;
            AlignedBuffer workspace(Workspace::Bytes(block, rows, tasks));
            const ffnorm_exec exec = {workspace.data(), workspace.bytes(),
                                      &Bounded::ParallelFor, &pool, tasks};
            std::vector<float> y(rows * call.outputs);
            FillNaN(y.data(), y.size());
            REQUIRE(call.run(block, rows, x.data(), y.data(), &exec) ==
                    FFNORM_OK);
            CHECK(pool.most <= 1000);
            CheckSameBits(rows, call.outputs, y.data(), call.outputs,
                          all.data(), call.outputs);
          }
        }
      });
    }
  }

  TEST_CASE("workspace never shrinks as rows or tasks grow") {
    const Model model(19, 300);
    ForEachTarget([&](const ffnorm_target* target) {
      const ffnorm_block block = model.Opened(target);
      size_t last_tasks[70] = {};
      for (size_t rows = 1; rows <= kMostRows; ++rows) {
        size_t last_rows = 0;
        size_t shrunk = 0;
        for (size_t tasks = 1; tasks < 70; ++tasks) {
          const size_t bytes = Workspace::Bytes(block, rows, tasks);
          if (bytes < last_rows || bytes < last_tasks[tasks]) ++shrunk;
          last_rows = bytes;
          last_tasks[tasks] = bytes;
        }
        CAPTURE(rows);
        CHECK(shrunk == 0);
      }
      // A few hundred rows a thread are the end of it.
      CHECK(Workspace::Bytes(block, 1000000, 1) ==
            Workspace::Bytes(block, 1000, 1));
    });
  }

  TEST_CASE("16 threads open and run one packed block at once") {
    const Model model(33, 300);
    const std::vector<float> x = model.Input(21);
    for (const ffnorm_order order : {FFNORM_PRE_LN, FFNORM_POST_LN}) {
      // NULL: the default target, found by each thread.
      std::vector<const ffnorm_target*> targets = TargetsUnderTest();
      targets.push_back(nullptr);
      for (const ffnorm_target* target : targets) {
        std::vector<float> want;
        REQUIRE(OpenAndRun(model, target, order, 21, x, &want));
        std::vector<std::vector<float>> got(16);
        std::vector<char> ok(16, 0);
        AllAtOnce(16, [&](size_t i) {
          ok[i] = OpenAndRun(model, target, order, 21, x, &got[i]) ? 1 : 0;
        });
        for (size_t i = 0; i < 16; ++i) {
          CHECK(ok[i] == 1);
          CheckSameBits(got[i], want);
        }
      }
    }
  }

  TEST_CASE("calls within tasks of the same pool") {
    const Model model(33, 300);
    const std::vector<float> x = model.Input(90);
    for (const ffnorm_order order : {FFNORM_PRE_LN, FFNORM_POST_LN}) {
      ForEachTarget([&](const ffnorm_target* target) {
        const std::vector<float> want = model.Forward(target, order, 90, x);
        const ffnorm_block block = model.Opened(target);
        // The caller alone, one more thread, and three more.
        for (const size_t workers : {size_t{0}, size_t{1}, size_t{3}}) {
          CAPTURE(workers);
          KeptPool pool(workers);
          struct Outer {
            std::function<void(size_t)> work;
            static void Task(void* context, size_t index) {
              static_cast<Outer*>(context)->work(index);
            }
          } outer;
          constexpr size_t kCalls = 6;
          std::vector<std::vector<float>> got(kCalls,
                                              std::vector<float>(x.size()));
          std::vector<ffnorm_status> status(kCalls, FFNORM_CORRUPT);
          const size_t bytes = Workspace::Bytes(block, 90, 4);
          outer.work = [&](size_t i) {
            AlignedBuffer workspace(bytes);
            const ffnorm_exec exec = {workspace.data(), bytes,
                                      &KeptPool::ParallelFor, &pool, 4};
            status[i] = ffnorm_forward(&block, order, 90, x.data(), 33,
                                       got[i].data(), 33, &exec);
          };
          KeptPool::ParallelFor(&pool, kCalls, &Outer::Task, &outer);
          for (size_t i = 0; i < kCalls; ++i) {
            CHECK(status[i] == FFNORM_OK);
            CheckSameBits(got[i], want);
          }
        }
      });
    }
  }

#if FFNORM_TESTS_HAVE_FORK
  TEST_CASE("fork between calls") {
    const Model model(33, 300);
    const std::vector<float> x = model.Input(21);
    ForEachTarget([&](const ffnorm_target* target) {
      for (const ffnorm_order order : {FFNORM_PRE_LN, FFNORM_POST_LN}) {
        std::vector<float> want;
        REQUIRE(OpenAndRun(model, target, order, 21, x, &want));
        const pid_t child = fork();
        REQUIRE(child >= 0);
        if (child == 0) {
          std::vector<float> got;
          const bool same = OpenAndRun(model, target, order, 21, x, &got) &&
                            AllSameBits(got, want);
          _exit(same ? 0 : 1);
        }
        std::vector<float> got;
        CHECK(OpenAndRun(model, target, order, 21, x, &got));
        CheckSameBits(got, want);
        int status = 0;
        REQUIRE(waitpid(child, &status, 0) == child);
        CHECK(WIFEXITED(status));
        CHECK(WEXITSTATUS(status) == 0);
      }
    });
  }
#endif
}

}  // namespace test
}  // namespace ffnorm
