// The same in C++17: owners, row views, and any callable as a pool.
#include <atomic>
#include <cstdio>
#include <ffnorm/ffnorm.hpp>
#include <thread>
#include <vector>

#include "demo.h"

// [load]
// One layer: its packed memory, and the block that refers to it.
struct Layer {
  ffnorm::PackedWeights weights;
  ffnorm::Block block;
};

ffnorm::Status Load(const ffnorm::Params& params, Layer* layer) {
  const ffnorm::Status status =
      ffnorm::PackedWeights::Pack(params, &layer->weights);
  return Ok(status) ? layer->weights.Open(&layer->block) : status;
}
// [end]

// [pool]
// An engine has a pool already. ffnorm calls it as pool(tasks, task), and wants
// task(i) called once for each i in [0, tasks) before it returns.
struct Pool {
  unsigned threads;

  void operator()(size_t tasks, ffnorm::Task task) const {
    std::atomic<size_t> next{0};
    const auto work = [&] {
      for (size_t i; (i = next++) < tasks;) task(i);
    };
    std::vector<std::thread> others;
    for (unsigned i = 1; i < threads; ++i) others.emplace_back(work);
    work();
    for (std::thread& other : others) other.join();
  }
};
// [end]

int main() {
  static Demo demo;
  DemoInit(&demo);
  ffnorm::Params params = ffnorm::DefaultParams(kModel, kHidden);
  params.w1 = demo.w1, params.b1 = demo.b1;
  params.w2 = demo.w2, params.b2 = demo.b2;
  params.scale = demo.gamma, params.offset = demo.beta;
  Layer layer;
  ffnorm::Status status = Load(params, &layer);
  Pool pool{3};
  const float* x = demo.x;
  float* y = demo.y;
  const size_t rows = kRows, d_model = kModel;

  // [forward]
  ffnorm::Workspace workspace;
  if (Ok(status)) {
    status = ffnorm::Workspace::Allocate(layer.block, rows, pool.threads,
                                         &workspace);
  }
  if (Ok(status)) {
    status = layer.block.Forward(ffnorm::Order::kPreLn, {x, rows, d_model},
                                 {y, rows, d_model}, workspace.On(pool));
  }
  if (!Ok(status)) std::fprintf(stderr, "ffnorm: %s\n", Message(status));
  // [end]

  if (!Ok(status)) return 1;
  DemoCompare(&demo, &params, FFNORM_PRE_LN, layer.block.target().c());
  std::printf("C++, %zu threads: the reference's bits\n", workspace.threads());
  return 0;
}
