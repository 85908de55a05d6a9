// More bugs of other libraries, replayed: threads, the state of the machine,
// packed weights, statuses and output.
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <string>
#include <vector>

#include "kernels/cpu.h"
#include "tests/buffers.h"
#include "tests/model.h"
#include "tests/outcome.h"
#include "tests/random_data.h"
#include "tests/test_util.h"
#include "tests/thread_pool.h"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace ffnorm {
namespace test {
namespace {

constexpr ffnorm_order kOrders[] = {FFNORM_PRE_LN, FFNORM_POST_LN};

}  // namespace

TEST_SUITE("bug_replay_system") {
  TEST_CASE("OpenBLAS #1755, #2126, #5825: wrong results for many callers") {
    const Model model(33, 65);
    const std::vector<float> x = model.Input(5);
    ForEachTarget([&](const ffnorm_target* target) {
      const ffnorm_block block = model.Opened(target);
      const std::vector<float> want[] = {
          model.Forward(target, FFNORM_PRE_LN, 5, x),
          model.Forward(target, FFNORM_POST_LN, 5, x)};
      const size_t bytes = Workspace::Bytes(block, 5, 1);
      std::vector<size_t> wrong(8, 0);
      AllAtOnce(8, [&](size_t thread) {
        AlignedBuffer workspace(bytes);
        const ffnorm_exec exec = {workspace.data(), bytes, nullptr, nullptr, 1};
        std::vector<float> y(x.size());
        for (size_t call = 0; call < 200; ++call) {
          const ffnorm_order order = kOrders[(call + thread) % 2];
          const ffnorm_status status = ffnorm_forward(
              &block, order, 5, x.data(), 33, y.data(), 33, &exec);
          const std::vector<float>& right = want[order];
          if (status != FFNORM_OK ||
              memcmp(y.data(), right.data(), y.size() * sizeof(float)) != 0) {
            ++wrong[thread];
          }
        }
      });
      CHECK(wrong == std::vector<size_t>(8, 0));
    });
  }

  TEST_CASE("executorch PR #22663: a pool within its own task hangs") {
    const Model model(33, 300);
    const std::vector<float> x = model.Input(30);
    ForEachTarget([&](const ffnorm_target* target) {
      const ffnorm_block block = model.Opened(target);
      const std::vector<float> want =
          model.Forward(target, FFNORM_PRE_LN, 30, x);
      const size_t bytes = Workspace::Bytes(block, 30, 3);
      for (const size_t workers : {size_t{0}, size_t{1}, size_t{2}}) {
        KeptPool pool(workers);
        std::vector<std::vector<float>> got(4, std::vector<float>(x.size()));
        const auto call = [&](size_t i) {
          AlignedBuffer workspace(bytes);
          const ffnorm_exec exec = {workspace.data(), bytes,
                                    &KeptPool::ParallelFor, &pool, 3};
          ffnorm_forward(&block, FFNORM_PRE_LN, 30, x.data(), 33, got[i].data(),
                         33, &exec);
        };
        KeptPool::ParallelFor(
            &pool, got.size(),
            [](void* context, size_t i) {
              (*static_cast<decltype(call)*>(context))(i);
            },
            const_cast<void*>(static_cast<const void*>(&call)));
        for (const std::vector<float>& y : got) CheckSameBits(y, want);
      }
    });
  }

  // ---- The machine

#if defined(__x86_64__)
  TEST_CASE("llvm #57589, Paddle #27704: results depend on FTZ and DAZ") {
    const Model model(65, 300);
    Model denormal(33, 40);
    for (float& w : denormal.w1) w *= 1e-41f;
    for (float& w : denormal.w2) w *= 1e-41f;
    denormal.Pack();
    const std::vector<float> x = model.Input(7);
    const std::vector<float> z = denormal.Input(7);
    // Everything in MXCSR but the exception flags.
    const auto control = [] { return _mm_getcsr() & ~0x3fu; };
    constexpr unsigned kFtzDaz = 0x8040;
    constexpr unsigned kTowardsZero = 0x6000;
    const unsigned before = _mm_getcsr();
    for (const ffnorm_order order : kOrders) {
      ForEachTarget([&](const ffnorm_target* target) {
        const std::vector<float> want = model.Forward(target, order, 7, x);
        const ffnorm_block block = model.Opened(target);
        std::vector<float> y(x.size());
        for (const unsigned mode : {kFtzDaz, kTowardsZero}) {
          Workspace workspace(block, 7);
          const ffnorm_exec* exec = workspace.Exec();
          _mm_setcsr(before | mode);
          const unsigned set = control();
          const ffnorm_status status = ffnorm_forward(
              &block, order, 7, x.data(), 65, y.data(), 65, exec);
          const unsigned after = control();
          _mm_setcsr(before);
          CHECK(status == FFNORM_OK);
          CHECK(after == set);
          // No subnormal numbers occur in this model.
          if (mode == kFtzDaz) CheckSameBits(y, want);
        }
        CheckSameBits(denormal.Forward(target, order, 7, z),
                      denormal.ReferenceForward(ffnorm_target_class(target),
                                                order, 7, z));
        CHECK(control() == (before & ~0x3fu));
      });
    }
  }
#endif

  TEST_CASE("OpenBLAS #1947, #4069, jax #2906: AVX-512 the system masks") {
    CpuidLeaves all = {};
    all.leaf1_ecx = ~0u;
    all.leaf7_ebx = ~0u;
    all.xcr0 = 0xe7;
    CHECK(LevelOf(all) == kCpuAvx3);
    CpuidLeaves cpu = all;
    // No mask registers, upper halves of ZMM0-15, or ZMM16-31 saved.
    for (const uint64_t state : {0x20, 0x40, 0x80, 0xe0}) {
      cpu.xcr0 = all.xcr0 & ~state;
      CHECK(LevelOf(cpu) == kCpuAvx2);
    }
    // Nor YMM; nor XSAVE at all.
    for (const uint64_t state : {0xe3, 0xe5, 0x03, 0x00}) {
      cpu.xcr0 = state;
      CHECK(LevelOf(cpu) == kCpuSse4);
    }
    cpu = all;
    cpu.leaf7_ebx = 0;
    CHECK(LevelOf(cpu) == kCpuSse4);
    cpu.leaf7_ebx = 1u << 3 | 1u << 5 | 1u << 8;
    CHECK(LevelOf(cpu) == kCpuAvx2);
    CHECK(LevelOf({}) == kCpuBaseline);
  }

  // ---- Packed weights, statuses, output

  TEST_CASE("AiDotNet PR #583, XNNPACK #11165: stale or half packed weights") {
    Model model(7, 20);
    const std::vector<float> x = model.Input(3);
    ForEachTarget([&](const ffnorm_target* target) {
      Model changed(7, 20);
      const std::vector<float> old_y =
          changed.Forward(target, FFNORM_PRE_LN, 3, x);
      for (float& w : changed.w1) w = -2.0f * w;
      // The block holds copies.
      CheckSameBits(changed.Forward(target, FFNORM_PRE_LN, 3, x), old_y);
      changed.Pack();
      const std::vector<float> new_y =
          changed.Forward(target, FFNORM_PRE_LN, 3, x);
      CHECK(new_y != old_y);
      CheckSameBits(new_y, changed.ReferenceForward(ffnorm_target_class(target),
                                                    FFNORM_PRE_LN, 3, x));
      // Never packed, of another kind, and cut off.
      ffnorm_block block = {};
      AlignedBuffer memory(model.packed.bytes());
      memset(memory.data(), 0xff, memory.bytes());
      CHECK(ffnorm_open(memory.data(), memory.bytes(), target, &block) ==
            FFNORM_CORRUPT);
      memcpy(memory.data(), model.packed.data(), memory.bytes());
      CHECK(ffnorm_open(memory.data(), memory.bytes() - 1, target, &block) ==
            FFNORM_CORRUPT);
      memory.data()[0] ^= 1;
      CHECK(ffnorm_open(memory.data(), memory.bytes(), target, &block) ==
            FFNORM_CORRUPT);
      CHECK(block.packed == nullptr);
    });
  }

  TEST_CASE("FBGEMM PR #6177: zeros instead of an error in release builds") {
    const Model model(7, 20);
    const std::vector<float> x = model.Input(3);
    ForEachTarget([&](const ffnorm_target* target) {
      const ffnorm_block block = model.Opened(target);
      Workspace workspace(block, 3);
      std::vector<float> y(x.size(), 7.0f);
      CHECK(ffnorm_forward(&block, FFNORM_PRE_LN, 3, x.data(), 6, y.data(), 7,
                           workspace.Exec()) == FFNORM_INVALID_ARGUMENT);
      CHECK(ffnorm_forward(&block, FFNORM_PRE_LN, 3, x.data(), 7, y.data(), 7,
                           nullptr) == FFNORM_INVALID_ARGUMENT);
      ffnorm_exec small = *workspace.Exec();
      small.workspace_bytes /= 2;
      CHECK(ffnorm_forward(&block, FFNORM_PRE_LN, 3, x.data(), 7, y.data(), 7,
                           &small) == FFNORM_WORKSPACE_TOO_SMALL);
      CheckSameBits(y, std::vector<float>(x.size(), 7.0f));
    });
  }

#if FFNORM_TESTS_HAVE_DUP
  TEST_CASE("highway #1248, #882: text on stderr, or an abort, in the host") {
    const Model model(7, 20);
    const std::vector<float> x = model.Input(3);
    const ffnorm_target* found = nullptr;
    ffnorm_status status = FFNORM_OK;
    const long bytes = BytesPrinted([&] {
      status = ffnorm_find_target("NO_SUCH_TARGET", &found);
      for (const ffnorm_target* target : TargetsUnderTest()) {
        for (const ffnorm_order order : kOrders) {
          model.Forward(target, order, 3, x);
        }
      }
    });
    CHECK(bytes == 0);
    CHECK(status == FFNORM_UNSUPPORTED);
    CHECK(found == nullptr);
  }
#endif
}

}  // namespace test
}  // namespace ffnorm
