#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "bench/memory.h"
#include "bench/peak.h"
#include "bench/pool.h"
#include "cli/commands.h"
#include "cli/default_target.h"
#include "cli/failure.h"
#include "cli/find_blocks.h"
#include "cli/terminal.h"
#include "ffnorm/ffnorm.hpp"

namespace ffnorm_cli {
namespace {

using ffnorm::Order;
using ffnorm::bench::Memory;
using ffnorm::bench::Pages;
using ffnorm::bench::PeakLoops;
using ffnorm::bench::Pool;

// A batch is timed as a whole: long against the clock, short against the time
// slice of another process.
constexpr double kBatchSeconds = 5e-4;
constexpr double kSeconds = 0.5;
constexpr double kQuickSeconds = 0.2;
constexpr double kReadSeconds = 0.02;

constexpr size_t kBarWidth = 20;
constexpr size_t kMaxExtent = size_t{1} << 20;
constexpr size_t kMaxRows = size_t{1} << 20;

struct Shape {
  size_t d_model;
  size_t d_ff;
};

// "512x2048"
Shape ParseShape(const std::string& text) {
  Shape shape = {0, 0};
  size_t* extent = &shape.d_model;
  for (const char c : text) {
    if (c == 'x' && extent == &shape.d_model && *extent != 0) {
      extent = &shape.d_ff;
    } else if (c >= '0' && c <= '9' && *extent <= kMaxExtent) {
      *extent = *extent * 10 + static_cast<size_t>(c - '0');
    } else {
      shape.d_ff = 0;
      break;
    }
  }
  if (shape.d_ff == 0 || std::max(shape.d_model, shape.d_ff) > kMaxExtent) {
    throw Failure("--shape " + text + ": give d_model x d_ff as 512x2048",
                  kUsage);
  }
  return shape;
}

// The same in every process; deviations as in a model that was just made.
class Weights {
 public:
  explicit Weights(Shape shape)
      : w1_(Values(shape.d_model * shape.d_ff, shape.d_model, 1)),
        w2_(Values(shape.d_model * shape.d_ff, shape.d_ff, 2)),
        params_(ffnorm::DefaultParams(shape.d_model, shape.d_ff)) {
    params_.w1 = w1_.data();
    params_.w2 = w2_.data();
  }

  // Uniform, with variance 2 / fan_in: about half of the hidden units are off.
  static std::vector<float> Values(size_t count, size_t fan_in, unsigned seed) {
    const float reach = std::sqrt(6.0f / static_cast<float>(fan_in));
    std::minstd_rand random(seed);
    std::uniform_real_distribution<float> uniform(-reach, reach);
    std::vector<float> values(count);
    for (float& value : values) value = uniform(random);
    return values;
  }

  const ffnorm::Params& params() const { return params_; }

 private:
  std::vector<float> w1_, w2_;
  ffnorm::Params params_;
};

struct Result {
  double mean = 0.0;  // seconds a call
  double best = 0.0;  // of the fastest batch
};

// One shape: packed weights, rows, and what they should give.
class ShapeBench {
 public:
  ShapeBench(Shape shape, size_t most_rows, ffnorm::Target target, Pool& pool)
      : shape_(shape),
        pool_(pool),
        x_(Weights::Values(most_rows * shape.d_model, 2, 3)),
        y_(x_.size()) {
    // The reference is slow, so its results are kept only for the first row.
    const Weights weights(shape);
    size_t bytes = 0;
    Require(ffnorm::FromC(ffnorm_packed_bytes(&weights.params(), &bytes)));
    packed_.Reserve(bytes);
    packed_bytes_ = bytes;
    Require(
        ffnorm::FromC(ffnorm_pack(&weights.params(), packed_.data(), bytes)));
    Require(ffnorm::Block::Open(packed_.data(), bytes, &block_, target));
    Require(ffnorm::Workspace::Allocate(block_, most_rows, pool.threads(),
                                        &workspace_));
    for (const Order order : {Order::kPreLn, Order::kPostLn}) {
      Expect(weights.params(), order);
    }
  }

  Result Measure(Order order, size_t rows, double seconds) {
    // Its last row is its first one again, so that both are checked.
    const size_t width = shape_.d_model;
    std::vector<float> last(x_.begin() + Offset((rows - 1) * width),
                            x_.begin() + Offset(rows * width));
    std::copy_n(x_.begin(), width, x_.begin() + Offset((rows - 1) * width));
    std::fill(y_.begin(), y_.end(), std::numeric_limits<float>::quiet_NaN());

    double first = Batch(order, rows, 1);
    size_t calls = 1;
    while (first < kBatchSeconds / 2 && calls < (size_t{1} << 20)) {
      calls *= 2;
      first = Batch(order, rows, calls);
    }
    double total = 0.0;
    double best = std::numeric_limits<double>::infinity();
    size_t batches = 0;
    while (total < seconds || batches < 2) {
      const double batch = Batch(order, rows, calls);
      total += batch;
      best = std::min(best, batch);
      ++batches;
    }
    Check(order, rows);
    std::copy(last.begin(), last.end(),
              x_.begin() + Offset((rows - 1) * width));
    const double count = static_cast<double>(calls);
    return {total / (count * static_cast<double>(batches)), best / count};
  }

  double ReadBandwidth(const PeakLoops& loops) const {
    return std::max(ffnorm::bench::BestRead(loops, pool_, packed_bytes_),
                    ffnorm::bench::MeasureRead(loops, pool_, packed_.data(),
                                               packed_bytes_, kReadSeconds));
  }

  double packed_bytes() const { return static_cast<double>(packed_bytes_); }

 private:
  static std::ptrdiff_t Offset(size_t i) {
    return static_cast<std::ptrdiff_t>(i);
  }

  static void Require(ffnorm::Status status) {
    if (!Ok(status)) throw Failure(Message(status));
  }

  std::vector<float>& Expected(Order order) {
    return expected_[order == Order::kPreLn ? 0 : 1];
  }

  void Expect(const ffnorm::Params& params, Order order) {
    size_t bytes = 0;
    Require(ffnorm::FromC(ffnorm_reference_workspace_bytes(&params, &bytes)));
    std::vector<float> workspace(bytes / sizeof(float) + 1);
    std::vector<float>& y = Expected(order);
    y.resize(shape_.d_model);
    Require(ffnorm::FromC(ffnorm_reference_forward(
        &params, ffnorm_target_class(block_.target().c()),
        static_cast<ffnorm_order>(order), 1, x_.data(), shape_.d_model,
        y.data(), shape_.d_model, workspace.data(), bytes)));
  }

  // Seconds of `calls` calls.
  double Batch(Order order, size_t rows, size_t calls) {
    const auto parallel = [this](size_t tasks, ffnorm::Task task) {
      pool_.Run(tasks, task);
    };
    const ffnorm::Exec exec =
        pool_.threads() == 1 ? workspace_.Serial() : workspace_.On(parallel);
    const double start = pool_.Now();
    for (size_t i = 0; i < calls; ++i) {
      Require(block_.Forward(order, {x_.data(), rows, shape_.d_model},
                             {y_.data(), rows, shape_.d_model}, exec));
    }
    return pool_.Now() - start;
  }

  void Check(Order order, size_t rows) {
    for (const size_t row : {size_t{0}, rows - 1}) {
      if (std::memcmp(&y_[row * shape_.d_model], Expected(order).data(),
                      shape_.d_model * sizeof(float)) != 0) {
        throw Failure(std::string(OrderName(order)) +
                      ": the result is not the reference's");
      }
    }
  }

  Shape shape_;
  Pool& pool_;
  std::vector<float> x_, y_;
  Memory packed_;
  size_t packed_bytes_ = 0;
  ffnorm::Block block_;
  ffnorm::Workspace workspace_;
  std::vector<float> expected_[2];
};

std::string TimeText(double seconds) {
  return seconds < 1e-3 ? Format("%7.1f us", seconds * 1e6)
                        : Format("%7.2f ms", seconds * 1e3);
}

void PrintResult(const Style& style, size_t rows, Order order, double flops,
                 const Result& result, double roof) {
  std::printf("  %5zu  %-7s ", rows, OrderName(order));
  if (roof != 0.0) {
    const double share = flops / result.mean / roof;
    const double best = flops / result.best / roof;
    std::printf(" %s  %.2f / %.2f", Bar(style, share, best, kBarWidth).c_str(),
                share, best);
  }
  std::printf("  %s  %6.1f GFLOP/s\n", TimeText(result.mean).c_str(),
              flops / result.mean * 1e-9);
  std::fflush(stdout);
}

void PrintHeading(const Style& style, bool shares) {
  const std::string line =
      shares ? Format("   rows  order    %-*s  mean / best    a call",
                      static_cast<int>(kBarWidth), "share of the roof")
             : "   rows  order      a call";
  std::printf("\n%s\n", Paint(style, Color::kDim, line).c_str());
}

// What is measured, and on what.
struct Plan {
  std::vector<Shape> shapes;
  std::vector<size_t> rows;
  double seconds = kSeconds;  // for each result
};

Plan MakePlan(const BenchOptions& options) {
  Plan plan;
  for (const std::string& text : options.shapes) {
    plan.shapes.push_back(ParseShape(text));
  }
  plan.rows = options.rows;
  for (const size_t rows : plan.rows) {
    if (rows < 1 || rows > kMaxRows) {
      throw Failure("--rows: give numbers from 1 to 1048576", kUsage);
    }
  }
  if (plan.shapes.empty()) {
    plan.shapes = {{256, 1024}, {512, 2048}, {1024, 4096}};
    if (!options.quick) plan.shapes.push_back({768, 3072});
  }
  if (plan.rows.empty()) {
    plan.rows = {1, 16, 128};
    if (!options.quick) plan.rows = {1, 2, 4, 8, 16, 32, 64, 128, 512};
  }
  if (options.quick) plan.seconds = kQuickSeconds;
  return plan;
}

// `loops` is null where no peak is known; else *peak may grow.
void BenchShape(Shape shape, const Plan& plan, const Style& style,
                ffnorm::Target target, Pool& pool, const PeakLoops* loops,
                double* peak) {
  ShapeBench bench(shape, *std::max_element(plan.rows.begin(), plan.rows.end()),
                   target, pool);
  const double weights = 2.0 * static_cast<double>(shape.d_model) *
                         static_cast<double>(shape.d_ff);
  const std::string title =
      Format("d_model %zu, d_ff %zu", shape.d_model, shape.d_ff);
  std::printf("\n%s, %s", Paint(style, Color::kBold, title).c_str(),
              BytesText(bench.packed_bytes()).c_str());
  double bandwidth = 0.0;
  if (loops != nullptr) {
    bandwidth = bench.ReadBandwidth(*loops);
    *peak = std::max(*peak, MeasurePeak(*loops, pool));
    std::printf(" read at %.1f GB/s", bandwidth * 1e-9);
  }
  PrintHeading(style, loops != nullptr);
  for (const size_t rows : plan.rows) {
    for (const Order order : {Order::kPreLn, Order::kPostLn}) {
      const Result result = bench.Measure(order, rows, plan.seconds);
      const double flops = 2.0 * static_cast<double>(rows) * weights;
      const double roof =
          std::min(*peak, bandwidth * flops / (sizeof(float) * weights));
      PrintResult(style, rows, order, flops, result, roof);
    }
  }
}

}  // namespace

void Bench(const BenchOptions& options) {
  const Plan plan = MakePlan(options);
  const Style style = StyleOf(stdout);
  const ffnorm::Target target = DefaultTarget();
  const PeakLoops* loops = ffnorm::bench::FindPeakLoops(target.c());
  if (loops != nullptr && !loops->has_peak) loops = nullptr;
  Pool pool(options.threads);
  double peak = loops == nullptr ? 0.0 : MeasurePeak(*loops, pool);
  std::printf("ffnorm %s on %s, %zu thread%s", ffnorm_version(), target.name(),
              options.threads, options.threads == 1 ? "" : "s");
  if (loops != nullptr) {
    std::printf(
        ", multiply-add peak %.1f GFLOP/s\n"
        "The roof is what this peak and the read bandwidth allow. Bars: %s is "
        "the mean,\n%s the fastest %.1f ms. Each result has the bits of the "
        "scalar reference.\n",
        peak * 1e-9, style.unicode ? "█" : "#", style.unicode ? "▒" : "+",
        kBatchSeconds * 1e3);
  } else {
    std::printf(": no peak is known for it, so no shares are shown\n");
  }
  for (const Shape shape : plan.shapes) {
    BenchShape(shape, plan, style, target, pool, loops, &peak);
  }
}

}  // namespace ffnorm_cli
