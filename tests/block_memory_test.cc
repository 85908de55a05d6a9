// What a block reads and writes: strides, alignment, in place and moved packed
// memory. (That it touches nothing else is guard_test.cc.)
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/buffers.h"
#include "tests/model.h"
#include "tests/test_util.h"

namespace ffnorm {
namespace test {
namespace {

constexpr ffnorm_order kOrders[] = {FFNORM_PRE_LN, FFNORM_POST_LN};

// Shapes with whole and partial panels and K blocks.
constexpr size_t kShapes[][2] = {
    {1, 1}, {7, 33}, {32, 64}, {45, 300}, {290, 70}};

// Row counts that share columns, and that share rows.
constexpr size_t kRowCounts[] = {1, 2, 4, 5, 13, 60};

template <class Function>
void ForEachCase(const Function& fn) {
  for (const auto& shape : kShapes) {
    CAPTURE(shape[0]);
    CAPTURE(shape[1]);
    const Model model(shape[0], shape[1]);
    for (const size_t rows : kRowCounts) {
      CAPTURE(rows);
      const std::vector<float> x = model.Input(rows);
      for (const ffnorm_order order : kOrders) {
        CAPTURE(order);
        ForEachTarget([&](const ffnorm_target* target) {
          fn(model, target, order, rows, x);
        });
      }
    }
  }
}

// A copy of `values` that starts `offset` bytes after an aligned address.
class Misaligned {
 public:
  Misaligned(const std::vector<float>& values, size_t offset)
      : buffer_(offset + values.size() * sizeof(float)), offset_(offset) {
    memcpy(data(), values.data(), values.size() * sizeof(float));
  }

  float* data() { return reinterpret_cast<float*>(buffer_.data() + offset_); }

 private:
  AlignedBuffer buffer_;
  size_t offset_;
};

constexpr size_t kOffsets[] = {0, 4, 8, 12, 20};

}  // namespace

TEST_SUITE("block_memory") {
  TEST_CASE("strides: equal results, gaps untouched") {
    ForEachCase([](const Model& model, const ffnorm_target* target,
                   ffnorm_order order, size_t rows,
                   const std::vector<float>& x) {
      const size_t D = model.d_model;
      const ffnorm_block block = model.Opened(target);
      Workspace workspace(block, rows);
      const std::vector<float> want = model.Forward(target, order, rows, x);
      constexpr size_t kExtra[][2] = {{3, 5}, {0, 1}, {16, 0}, {1, 1}};
      for (const auto& extra : kExtra) {
        StridedMatrix in(rows, D, D + extra[0], x.data());
        StridedMatrix out(rows, D, D + extra[1]);
        REQUIRE(ffnorm_forward(&block, order, rows, in.data(), in.stride(),
                               out.data(), out.stride(),
                               workspace.Exec()) == FFNORM_OK);
        CheckSameBits(rows, D, out.data(), out.stride(), want.data(), D);
        CheckSameBits(rows, D, in.data(), in.stride(), x.data(), D);
        CHECK(in.GapsIntact());
        CHECK(out.GapsIntact());
      }
    });
  }

  TEST_CASE("x and y at any multiple of 4 bytes") {
    ForEachCase([](const Model& model, const ffnorm_target* target,
                   ffnorm_order order, size_t rows,
                   const std::vector<float>& x) {
      const size_t D = model.d_model;
      const ffnorm_block block = model.Opened(target);
      Workspace workspace(block, rows);
      const std::vector<float> want = model.Forward(target, order, rows, x);
      for (const size_t x_offset : kOffsets) {
        for (const size_t y_offset : kOffsets) {
          CAPTURE(x_offset);
          CAPTURE(y_offset);
          Misaligned in(x, x_offset);
          Misaligned out(std::vector<float>(x.size()), y_offset);
          REQUIRE(ffnorm_forward(&block, order, rows, in.data(), D, out.data(),
                                 D, workspace.Exec()) == FFNORM_OK);
          CheckSameBits(rows, D, out.data(), D, want.data(), D);
        }
      }
    });
  }

  TEST_CASE("parameters at any multiple of 4 bytes: the same packed bytes") {
    for (const auto& shape : kShapes) {
      const Model model(shape[0], shape[1]);
      const auto check = [&](const size_t(&offsets)[6]) {
        Misaligned w1(model.w1, offsets[0]);
        Misaligned b1(model.b1, offsets[1]);
        Misaligned w2(model.w2, offsets[2]);
        Misaligned b2(model.b2, offsets[3]);
        Misaligned scale(model.scale, offsets[4]);
        Misaligned offset(model.offset, offsets[5]);
        ffnorm_params params = model.Params();
        params.w1 = w1.data();
        params.b1 = b1.data();
        params.w2 = w2.data();
        params.b2 = b2.data();
        params.scale = scale.data();
        params.offset = offset.data();
        AlignedBuffer packed(model.packed.bytes());
        REQUIRE(ffnorm_pack(&params, packed.data(), packed.bytes()) ==
                FFNORM_OK);
        CHECK(memcmp(packed.data(), model.packed.data(), packed.bytes()) == 0);
      };
      for (const size_t offset : kOffsets) {
        for (size_t alone = 0; alone < 6; ++alone) {
          size_t offsets[6] = {};
          offsets[alone] = offset;
          check(offsets);
        }
        check({offset, offset, offset, offset, offset, offset});
      }
      check({4, 8, 12, 20, 4, 8});
    }
  }

  TEST_CASE("in place") {
    ForEachCase([](const Model& model, const ffnorm_target* target,
                   ffnorm_order order, size_t rows,
                   const std::vector<float>& x) {
      const size_t D = model.d_model;
      const ffnorm_block block = model.Opened(target);
      const std::vector<float> want = model.Forward(target, order, rows, x);
      for (const size_t extra : {size_t{0}, size_t{3}}) {
        for (const size_t threads : {size_t{1}, size_t{3}}) {
          Pool pool(Pool::kReversed);
          Workspace workspace(block, rows, threads, &pool);
          StridedMatrix y(rows, D, D + extra, x.data());
          REQUIRE(ffnorm_forward(&block, order, rows, y.data(), y.stride(),
                                 y.data(), y.stride(),
                                 workspace.Exec()) == FFNORM_OK);
          CheckSameBits(rows, D, y.data(), y.stride(), want.data(), D);
          CHECK(y.GapsIntact());
        }
      }
    });
  }

  TEST_CASE("x and y side by side in one matrix") {
    ForEachCase([](const Model& model, const ffnorm_target* target,
                   ffnorm_order order, size_t rows,
                   const std::vector<float>& x) {
      const size_t D = model.d_model;
      const ffnorm_block block = model.Opened(target);
      Workspace workspace(block, rows);
      StridedMatrix both(rows, 2 * D, 2 * D);
      for (const size_t left : {size_t{0}, D}) {
        float* in = both.data() + left;
        float* out = both.data() + (D - left);
        for (size_t r = 0; r < rows; ++r) {
          memcpy(in + r * 2 * D, x.data() + r * D, D * sizeof(float));
        }
        REQUIRE(ffnorm_forward(&block, order, rows, in, 2 * D, out, 2 * D,
                               workspace.Exec()) == FFNORM_OK);
        CheckSameBits(rows, D, in, 2 * D, x.data(), D);
        const std::vector<float> want = model.Forward(target, order, rows, x);
        CheckSameBits(rows, D, out, 2 * D, want.data(), D);
        CHECK(both.GapsIntact());
      }
    });
  }

  TEST_CASE("a packed block moved to other memory and opened there") {
    const Model model(45, 300);
    const std::vector<float> x = model.Input(9);
    const size_t bytes = model.packed.bytes();
    for (const ffnorm_order order : kOrders) {
      ForEachTarget([&](const ffnorm_target* target) {
        const std::vector<float> want = model.Forward(target, order, 9, x);
        // By one alignment unit, so that old and new place overlap.
        AlignedBuffer memory(bytes + FFNORM_ALIGNMENT);
        memcpy(memory.data(), model.packed.data(), bytes);
        unsigned char* moved = memory.data() + FFNORM_ALIGNMENT;
        memmove(moved, memory.data(), bytes);
        memset(memory.data(), 0xff, FFNORM_ALIGNMENT);
        REQUIRE(ffnorm_verify(moved, bytes) == FFNORM_OK);
        const ffnorm_block block = OpenedOn(moved, bytes, target);
        Workspace workspace(block, 9);
        std::vector<float> y(x.size());
        REQUIRE(ffnorm_forward(&block, order, 9, x.data(), 45, y.data(), 45,
                               workspace.Exec()) == FFNORM_OK);
        CheckSameBits(y, want);
      });
    }
  }

  TEST_CASE("neither x nor the packed block is written") {
    ForEachCase([](const Model& model, const ffnorm_target* target,
                   ffnorm_order order, size_t rows,
                   const std::vector<float>& x) {
      AlignedBuffer before(model.packed.bytes());
      memcpy(before.data(), model.packed.data(), before.bytes());
      const std::vector<float> copy = x;
      model.Forward(target, order, rows, x);
      CHECK(memcmp(before.data(), model.packed.data(), before.bytes()) == 0);
      CheckSameBits(x, copy);
    });
  }

  TEST_CASE("whatever the workspace and y held before, and held by others") {
    ForEachCase([](const Model& model, const ffnorm_target* target,
                   ffnorm_order order, size_t rows,
                   const std::vector<float>& x) {
      const size_t D = model.d_model;
      const ffnorm_block block = model.Opened(target);
      const std::vector<float> want = model.Forward(target, order, rows, x);
      AlignedBuffer memory(Workspace::Bytes(block, rows, 1));
      ffnorm_exec exec = {};
      exec.workspace = memory.data();
      exec.workspace_bytes = memory.bytes();
      // NaN, 0, 3.4e38, a NaN of the other sign; then as the last run left it.
      for (const int byte : {0xff, 0x00, 0x7f, 0x7e}) {
        memset(memory.data(), byte, memory.bytes());
        for (int run = 0; run < 2; ++run) {
          std::vector<float> y(x.size());
          memset(y.data(), byte, y.size() * sizeof(float));
          REQUIRE(ffnorm_forward(&block, order, rows, x.data(), D, y.data(), D,
                                 &exec) == FFNORM_OK);
          CheckSameBits(y, want);
        }
      }
    });
  }
}

}  // namespace test
}  // namespace ffnorm
