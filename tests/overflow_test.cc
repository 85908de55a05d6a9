// Sizes up to SIZE_MAX: every product and sum of a size query or of an argument
// check either is right or is a status. Compared with sums that are checked in
// another way than the library's, by division.
#include <stddef.h>
#include <stdint.h>

#include <set>
#include <string>
#include <vector>

#include "tests/buffers.h"
#include "tests/model.h"
#include "tests/test_util.h"

namespace ffnorm {
namespace test {
namespace {

// A size that knows whether it still fits.
struct Exact {
  Exact(size_t v) : value(v) {}  // NOLINT: sizes are exact

  friend Exact operator+(Exact a, Exact b) {
    Exact sum(a.value + b.value);
    sum.fits = a.fits && b.fits && a.value <= SIZE_MAX - b.value;
    return sum;
  }
  friend Exact operator*(Exact a, Exact b) {
    Exact product(a.value * b.value);
    product.fits =
        a.fits && b.fits && (b.value == 0 || a.value <= SIZE_MAX / b.value);
    return product;
  }

  size_t value;
  bool fits = true;
};

Exact RoundedUp(size_t v, size_t unit) {
  return Exact(v / unit + (v % unit != 0 ? 1 : 0)) * unit;
}

// 1 to SIZE_MAX: around each power of two, around the quotients of SIZE_MAX
// where products of the layouts begin to overflow, and up to the very end.
std::vector<size_t> AllScales() {
  std::set<size_t> sizes;
  const auto around = [&](size_t v) {
    for (const size_t step : {0, 1, 2, 31, 32, 33, 255, 256, 257}) {
      sizes.insert(v + step);
      sizes.insert(v - step);
    }
  };
  for (size_t bit = 0; bit < sizeof(size_t) * 8; ++bit) {
    around(size_t{1} << bit);
  }
  for (size_t divisor : {1, 2, 3, 4, 8, 12, 16, 20, 64, 128, 132, 256, 260}) {
    around(SIZE_MAX / divisor);
  }
  sizes.erase(0);
  return {sizes.begin(), sizes.end()};
}

// Fewer, for loops over three and four sizes.
std::vector<size_t> SomeScales() {
  const size_t root = size_t{1} << (sizeof(size_t) * 4);
  return {1,
          2,
          33,
          4096,
          root / 2,
          root - 1,
          root,
          root + 1,
          SIZE_MAX / 4096,
          SIZE_MAX / 64,
          SIZE_MAX / 16,
          SIZE_MAX / 4 - 256,
          SIZE_MAX / 4,
          SIZE_MAX / 4 + 1,
          SIZE_MAX / 2,
          SIZE_MAX - 257,
          SIZE_MAX - 1,
          SIZE_MAX};
}

// The sizes with which `query` is wrong.
struct Wrong {
  size_t count = 0;
  std::string first;

  void Add(const std::string& what) {
    if (count++ == 0) first = what;
  }
};

std::string Text(size_t a, size_t b) {
  return std::to_string(a) + ", " + std::to_string(b);
}

constexpr size_t kUntouched = 4711;

// Whether status and size are what the exact size says.
bool Agrees(Exact want, ffnorm_status status, size_t bytes) {
  return want.fits ? status == FFNORM_OK && bytes == want.value
                   : status == FFNORM_SIZE_OVERFLOW && bytes == kUntouched;
}

// From the first to past the last byte of a matrix.
Exact MatrixBytes(size_t rows, size_t columns, size_t stride) {
  return (Exact(rows - 1) * stride + columns) * sizeof(float);
}

// Whether a matrix at `data` would end past the end of memory.
bool Overflows(const void* data, size_t rows, size_t columns, size_t stride) {
  const Exact end =
      MatrixBytes(rows, columns, stride) + reinterpret_cast<uintptr_t>(data);
  return !end.fits;
}

// A block of sizes that no memory holds: only for calls that end before they
// would use it.
ffnorm_block Forged(const ffnorm_block& like, size_t d_model, size_t d_ff) {
  ffnorm_block block = like;
  block.d_model = d_model;
  block.d_ff = d_ff;
  return block;
}

}  // namespace

TEST_SUITE("overflow") {
  TEST_CASE("packed_bytes and reference_workspace_bytes, of all sizes") {
    const std::vector<size_t> sizes = AllScales();
    Wrong packed;
    Wrong scratch;
    size_t fitting = 0;
    for (const size_t d_model : sizes) {
      for (const size_t d_ff : sizes) {
        const ffnorm_params params = ffnorm_default_params(d_model, d_ff);
        const Exact vector = RoundedUp(d_model, 32);
        const Exact w1 = RoundedUp(d_ff, 32) * (Exact(d_model) + 1);
        const Exact w2 = vector * (Exact(d_ff) + 1);
        const Exact want =
            (Exact(32) + vector + vector + w1 + w2) * sizeof(float);
        size_t bytes = kUntouched;
        const ffnorm_status status = ffnorm_packed_bytes(&params, &bytes);
        if (!Agrees(want, status, bytes)) packed.Add(Text(d_model, d_ff));
        if (want.fits) ++fitting;

        const Exact floats = Exact(d_model) + d_model + d_ff;
        size_t needed = kUntouched;
        const ffnorm_status reference =
            ffnorm_reference_workspace_bytes(&params, &needed);
        if (!Agrees(floats * sizeof(float), reference, needed)) {
          scratch.Add(Text(d_model, d_ff));
        }
      }
    }
    CAPTURE(packed.first);
    CHECK(packed.count == 0);
    CAPTURE(scratch.first);
    CHECK(scratch.count == 0);
    // Both sides of the edge were met.
    CHECK(fitting > sizes.size());
    CHECK(fitting < sizes.size() * sizes.size());
  }

  // What the workspace holds is the library's own affair, but it holds a row of
  // each width, and none of its four sizes makes it smaller: a product that
  // wrapped would.
  TEST_CASE("workspace_bytes never shrinks, up to SIZE_MAX") {
    const std::vector<size_t> sizes = SomeScales();
    const Model model(6, 9);
    ForEachTarget([&](const ffnorm_target* target) {
      const ffnorm_block opened = model.Opened(target);
      // SIZE_MAX stands for an overflow.
      const auto bytes_of = [&](size_t d_model, size_t d_ff, size_t rows,
                                size_t threads) {
        const ffnorm_block block = Forged(opened, d_model, d_ff);
        size_t bytes = kUntouched;
        const ffnorm_status status =
            ffnorm_workspace_bytes(&block, rows, threads, &bytes);
        if (status == FFNORM_OK) return bytes;
        return status == FFNORM_SIZE_OVERFLOW && bytes == kUntouched ? SIZE_MAX
                                                                     : 0;
      };
      Wrong wrong;
      size_t overflows = 0;
      size_t calls = 0;
      for (size_t i = 0; i < sizes.size(); ++i) {
        for (const size_t d_ff : sizes) {
          for (const size_t rows : sizes) {
            for (const size_t threads : sizes) {
              const size_t d_model = sizes[i];
              const size_t bytes = bytes_of(d_model, d_ff, rows, threads);
              const Exact least = (Exact(d_model) + d_ff) * sizeof(float);
              bool right =
                  least.fits ? bytes >= least.value : bytes == SIZE_MAX;
              if (i != 0) {
                // In each place in turn, the next smaller size.
                const size_t less = sizes[i - 1];
                const size_t more = sizes[i];
                right = right && bytes >= bytes_of(less, d_ff, rows, threads) &&
                        bytes_of(d_ff, more, rows, threads) >=
                            bytes_of(d_ff, less, rows, threads) &&
                        bytes_of(d_ff, rows, more, threads) >=
                            bytes_of(d_ff, rows, less, threads) &&
                        bytes_of(d_ff, rows, threads, more) >=
                            bytes_of(d_ff, rows, threads, less);
              }
              if (!right) {
                wrong.Add(Text(d_model, d_ff) + ", " + Text(rows, threads));
              }
              ++calls;
              if (bytes == SIZE_MAX) ++overflows;
            }
          }
        }
      }
      CAPTURE(wrong.first);
      CHECK(wrong.count == 0);
      CHECK(overflows > 0);
      CHECK(overflows < calls);
    });
  }

  // A call that is right but for its sizes, and ends before it computes because
  // something that is looked at later is wrong as well.
  TEST_CASE("rows and strides of every call, up to SIZE_MAX") {
    const Model model(6, 9);
    std::vector<float> from(64, 1.0f);
    std::vector<float> to(64, 2.0f);
    ForEachTarget([&](const ffnorm_target* target) {
      const ffnorm_block block = model.Opened(target);
      Wrong wrong;
      size_t overflows = 0;
      size_t calls = 0;
      const auto call = [&](const std::string& what, bool overflow,
                            ffnorm_status got) {
        ++calls;
        if (overflow) ++overflows;
        if (got !=
            (overflow ? FFNORM_SIZE_OVERFLOW : FFNORM_INVALID_ARGUMENT)) {
          wrong.Add(what + ": " + ffnorm_status_string(got));
        }
      };
      const float* x = from.data();
      float* y = to.data();
      for (const size_t rows : SomeScales()) {
        for (const size_t x_stride : SomeScales()) {
          for (const size_t y_stride : SomeScales()) {
            const std::string sizes =
                Text(rows, x_stride) + ", " + std::to_string(y_stride);
            const auto overflow = [&](size_t in, size_t out) {
              return Overflows(x, rows, in, x_stride) ||
                     Overflows(y, rows, out, y_stride);
            };
            // Strides below the width are refused before anything is
            // multiplied.
            if (x_stride >= 9 && y_stride >= 9) {
              call("forward " + sizes, overflow(6, 6),
                   ffnorm_forward(&block, FFNORM_PRE_LN, rows, x, x_stride, y,
                                  y_stride, nullptr));
              call("dense 1 " + sizes, overflow(6, 9),
                   ffnorm_dense(&block, FFNORM_DENSE_1, FFNORM_RELU, rows, x,
                                x_stride, y, y_stride, nullptr));
              call("dense 2 " + sizes, overflow(9, 6),
                   ffnorm_dense(&block, FFNORM_DENSE_2, FFNORM_RELU, rows, x,
                                x_stride, y, y_stride, nullptr));
              // A scale within y.
              call("layer_norm " + sizes, overflow(6, 6),
                   ffnorm_layer_norm(target, 6, 1e-6f, y, nullptr, rows, x,
                                     x_stride, y, y_stride));
              // No v.
              call("residual_add x, y " + sizes, overflow(6, 6),
                   ffnorm_residual_add(target, 6, rows, x, x_stride, nullptr, 6,
                                       y, y_stride));
              // In place, and v a float on.
              call("residual_add v " + sizes,
                   Overflows(y, rows, 6, y_stride) ||
                       Overflows(y + 1, rows, 6, x_stride),
                   ffnorm_residual_add(target, 6, rows, y, y_stride, y + 1,
                                       x_stride, y, y_stride));
            }
          }
        }
      }
      CAPTURE(wrong.first);
      CHECK(wrong.count == 0);
      CHECK(overflows > 0);
      CHECK(overflows < calls);
    });
    CheckSameBits(to, std::vector<float>(64, 2.0f));
  }

  // Rows that would fit, but not what so many tasks want for them.
  TEST_CASE("only the workspace overflows") {
    const Model model(6, 9);
    std::vector<float> y(6, 2.0f);
    ForEachTarget([&](const ffnorm_target* target) {
      const ffnorm_block block = model.Opened(target);
      Workspace workspace(block, 1);
      ffnorm_exec exec = *workspace.Exec();
      exec.parallel_for = &Pool::ParallelFor;
      exec.threads = SIZE_MAX;
      CHECK(ffnorm_forward(&block, FFNORM_PRE_LN, SIZE_MAX / 32, y.data(), 6,
                           y.data(), 6, &exec) == FFNORM_SIZE_OVERFLOW);
    });
    CheckSameBits(y, std::vector<float>(6, 2.0f));
  }

  // Products with the number of tasks may wrap, to 0 as well.
  TEST_CASE("any number of tasks") {
    const Model model(70, 300);
    constexpr size_t kMostRows = 30;
    const std::vector<float> x = model.Input(kMostRows);
    for (const size_t rows : {size_t{1}, size_t{8}, kMostRows}) {
      CAPTURE(rows);
      ForEachTarget([&](const ffnorm_target* target) {
        const ffnorm_block block = model.Opened(target);
        const std::vector<float> want =
            model.Forward(target, FFNORM_PRE_LN, rows, x);
        Workspace alone(block, rows);
        std::vector<float> want_z(rows * 300), z(rows * 300);
        REQUIRE(ffnorm_dense(&block, FFNORM_DENSE_1, FFNORM_RELU, rows,
                             x.data(), 70, want_z.data(), 300,
                             alone.Exec()) == FFNORM_OK);
        for (const int shift : {0, 1, 2, 3, 28}) {
          for (const size_t less : {0, 1}) {
            const size_t threads = (SIZE_MAX >> shift) / 2 + 1 - less;
            CAPTURE(threads);
            Pool pool(Pool::kReversed);
            CheckSameBits(
                model.Forward(target, FFNORM_PRE_LN, rows, x, threads, &pool),
                want);
            Workspace workspace(block, rows, threads, &pool);
            REQUIRE(ffnorm_dense(&block, FFNORM_DENSE_1, FFNORM_RELU, rows,
                                 x.data(), 70, z.data(), 300,
                                 workspace.Exec()) == FFNORM_OK);
            CheckSameBits(z, want_z);
          }
        }
      });
    }
  }

  // One row may have any stride, also one that wraps when counted in bytes.
  TEST_CASE("one row with strides that wrap in bytes") {
    constexpr size_t kQuarter = SIZE_MAX / 4 + 1;  // times 4 is 0
    const Model model(6, 9);
    const std::vector<float> x = model.Input(1);
    ForEachTarget([&](const ffnorm_target* target) {
      const ffnorm_block block = model.Opened(target);
      const std::vector<float> want =
          model.Forward(target, FFNORM_PRE_LN, 1, x);
      Workspace workspace(block, 1);
      for (const size_t stride : {kQuarter, 2 * kQuarter, 3 * kQuarter,
                                  kQuarter + 1, SIZE_MAX - 1, SIZE_MAX}) {
        CAPTURE(stride);
        std::vector<float> y(6);
        CHECK(ffnorm_forward(&block, FFNORM_PRE_LN, 1, x.data(), stride,
                             y.data(), stride, workspace.Exec()) == FFNORM_OK);
        CheckSameBits(y, want);
        y = x;
        CHECK(ffnorm_forward(&block, FFNORM_PRE_LN, 1, y.data(), stride,
                             y.data(), stride, workspace.Exec()) == FFNORM_OK);
        CheckSameBits(y, want);
        // A shifted y overlaps, whatever the stride.
        std::vector<float> both(12, 1.0f);
        for (const size_t shift : {1, 3, 5}) {
          float* low = both.data();
          float* high = low + shift;
          CHECK(ffnorm_forward(&block, FFNORM_PRE_LN, 1, low, stride, high,
                               stride,
                               workspace.Exec()) == FFNORM_INVALID_ARGUMENT);
          CHECK(ffnorm_forward(&block, FFNORM_PRE_LN, 1, high, stride, low,
                               stride,
                               workspace.Exec()) == FFNORM_INVALID_ARGUMENT);
          CHECK(ffnorm_layer_norm(target, 6, 1e-6f, nullptr, nullptr, 1, low,
                                  stride, high,
                                  stride) == FFNORM_INVALID_ARGUMENT);
          CHECK(ffnorm_residual_add(target, 6, 1, x.data(), 6, high, stride,
                                    low, stride) == FFNORM_INVALID_ARGUMENT);
        }
        CheckSameBits(both, std::vector<float>(12, 1.0f));
      }
    });
  }

  TEST_CASE("weights' sizes and strides, up to SIZE_MAX") {
    const float weights[4] = {1.0f, 2.0f, 3.0f, 4.0f};
    Wrong wrong;
    size_t overflows = 0;
    size_t calls = 0;
    for (const ffnorm_layout layout : {FFNORM_IN_OUT, FFNORM_OUT_IN}) {
      for (const size_t d_model : SomeScales()) {
        for (const size_t d_ff : SomeScales()) {
          for (const size_t extra : SomeScales()) {
            ffnorm_params params = ffnorm_default_params(d_model, d_ff);
            params.layout = layout;
            params.w1 = weights;
            params.w2 = weights;
            const bool in_out = layout == FFNORM_IN_OUT;
            const size_t columns1 = in_out ? d_ff : d_model;
            const size_t columns2 = in_out ? d_model : d_ff;
            const Exact stride = Exact(columns1) + extra;
            if (!stride.fits) continue;
            params.w1_stride = stride.value;
            const bool overflow =
                Overflows(weights, in_out ? d_model : d_ff, columns1,
                          stride.value) ||
                Overflows(weights, in_out ? d_ff : d_model, columns2, columns2);
            // Memory NULL is found only after all parameters.
            const ffnorm_status got = ffnorm_pack(&params, nullptr, 0);
            ++calls;
            if (overflow) ++overflows;
            if (got !=
                (overflow ? FFNORM_SIZE_OVERFLOW : FFNORM_INVALID_ARGUMENT)) {
              wrong.Add(Text(d_model, d_ff) + ", " + std::to_string(extra));
            }
          }
        }
      }
    }
    CAPTURE(wrong.first);
    CHECK(wrong.count == 0);
    CHECK(overflows > 0);
    CHECK(overflows < calls);
  }

  // The packed block would not fit, though each matrix does.
  TEST_CASE("pack where only the packed block overflows") {
    alignas(FFNORM_ALIGNMENT) unsigned char memory[256] = {};
    const float weights[1] = {1.0f};
    ffnorm_params params = ffnorm_default_params(SIZE_MAX / 128, 1);
    params.w1 = params.w2 = weights;
    size_t bytes = kUntouched;
    CHECK(ffnorm_packed_bytes(&params, &bytes) == FFNORM_SIZE_OVERFLOW);
    CHECK(ffnorm_pack(&params, memory, sizeof(memory)) == FFNORM_SIZE_OVERFLOW);
    CHECK(bytes == kUntouched);
  }
}

}  // namespace test
}  // namespace ffnorm
