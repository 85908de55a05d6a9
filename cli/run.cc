#include <algorithm>
#include <chrono>

#include "bench/pool.h"
#include "cli/commands.h"
#include "cli/default_target.h"
#include "cli/failure.h"
#include "cli/find_blocks.h"
#include "cli/output_file.h"
#include "cli/packed_file.h"
#include "cli/safetensors.h"
#include "cli/terminal.h"
#include "examples/npy.h"
#include "ffnorm/ffnorm.hpp"

namespace ffnorm_cli {
namespace {

using ffnorm::Order;
using Array = ffnorm_example::NpyArray<float>;

bool EndsWith(const std::string& text, const std::string& ending) {
  return text.size() >= ending.size() &&
         text.compare(text.size() - ending.size(), ending.size(), ending) == 0;
}

// What is asked for, or else what pack has put into the file's name.
Order OrderOf(const RunOptions& options) {
  for (const Order order : {Order::kPreLn, Order::kPostLn}) {
    const std::string word = OrderWord(order);
    if (options.order.empty() ? EndsWith(options.block, "." + word + ".ffnorm")
                              : options.order == word) {
      return order;
    }
  }
  throw Failure(options.block +
                    ": in which order? Its name does not end in .pre.ffnorm or "
                    ".post.ffnorm: give --order pre or post",
                kUsage);
}

Array ReadRows(const std::string& path, size_t d_model) {
  Array x;
  std::string error;
  if (!ffnorm_example::ReadNpy(path, &x, &error)) {
    const bool convert = error.find(": type is") != std::string::npos ||
                         error.find(": Fortran order") != std::string::npos;
    throw Failure(error + (convert
                               ? " (NumPy: np.ascontiguousarray(x, np.float32))"
                               : ""));
  }
  if (x.shape.empty() || x.shape.back() != d_model) {
    throw Failure(path + ": shape " + ShapeText(x.shape) +
                  ", but the block takes rows of " + std::to_string(d_model));
  }
  return x;
}

// NumPy's format 1.0: its header is padded so that values start at 64.
std::string NpyHeader(const std::vector<size_t>& shape) {
  std::string text = "{'descr': '<f4', 'fortran_order': False, 'shape': (";
  for (const size_t extent : shape) text += std::to_string(extent) + ", ";
  if (shape.size() > 1) text.resize(text.size() - 2);
  if (shape.size() == 1) text.resize(text.size() - 1);
  text += "), }";
  const size_t preamble = 10;
  while ((preamble + text.size() + 1) % 64 != 0) text += ' ';
  text += '\n';
  if (text.size() > 0xffff) throw Failure("a shape of too many numbers");
  std::string header("\x93NUMPY\x01\x00", 8);
  header += static_cast<char>(text.size() & 0xff);
  header += static_cast<char>(text.size() >> 8);
  return header + text;
}

void Require(ffnorm::Status status, const std::string& who) {
  if (!Ok(status)) throw Failure(who + ": " + Message(status));
}

}  // namespace

void Run(const RunOptions& options) {
  const ffnorm::Target target = DefaultTarget();
  const ffnorm::AlignedMemory packed = ReadPacked(options.block);
  const Order order = OrderOf(options);
  ffnorm::Block block;
  Require(ffnorm::Block::Open(packed.data(), packed.bytes(), &block, target),
          options.block);
  Array x = ReadRows(options.x, block.d_model());
  const size_t rows = x.values.size() / block.d_model();

  ffnorm::bench::Pool pool(options.threads);
  const auto parallel = [&pool](size_t tasks, ffnorm::Task task) {
    pool.Run(tasks, task);
  };
  ffnorm::Workspace workspace;
  Require(ffnorm::Workspace::Allocate(block, std::max<size_t>(rows, 1),
                                      options.threads, &workspace),
          options.block);
  const auto start = std::chrono::steady_clock::now();
  const ffnorm::Rows in_place = {x.values.data(), rows, block.d_model()};
  Require(block.Forward(order, in_place, in_place, workspace.On(parallel)),
          options.block);
  const std::chrono::duration<double, std::milli> took =
      std::chrono::steady_clock::now() - start;

  OutputFile output(options.y);
  const std::string header = NpyHeader(x.shape);
  output.Write(header.data(), header.size());
  output.Write(x.values.data(), x.values.size() * sizeof(float));
  output.Commit();
  std::printf("%s: %s, %s on %s, %.3f ms\n", Printable(options.y).c_str(),
              ShapeText(x.shape).c_str(), OrderName(order), target.name(),
              took.count());
}

}  // namespace ffnorm_cli
