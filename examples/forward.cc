// Runs the trained feed-forward blocks of two language models through ffnorm on
// the rows that really entered them, and compares with what Flax computed from
// the same rows in float64. See --help.
//
// An element agrees when it is as near to the float64 value as rounding in
// float32 allows (rounding_error.h). So that this means something, the block in
// its other order must not agree.

#include <cstdio>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "examples/block_runner.h"
#include "examples/comparison.h"
#include "examples/pool.h"
#include "examples/trained_block.h"
#include "ffnorm/ffnorm.hpp"

namespace ffnorm_example {
namespace {

enum ExitStatus {
  kAgree = 0,
  kDisagree = 1,
  kUsage = 2,
  kBadFile = 3,
  kRefused = 4,
};

constexpr char kHelp[] =
    "usage: forward [--data DIR] [--target NAME] [--rows N] [--threads N]\n"
    "\n"
    "Runs the trained blocks DIR/{pre,post}/ffn{0,1,2} in their own order and "
    "in\n"
    "the other one, compares with Flax, and measures.\n"
    "\n"
    "  --data DIR     default: tests/data/golden/trained\n"
    "  --target NAME  AVX3, AVX2, NEON, ...; default: the best this CPU has\n"
    "  --rows N       rows in a call, the block's own over and over;\n"
    "                 default: as many as the block has\n"
    "  --threads N    default: 1\n"
    "\n"
    "Columns:\n"
    "  active       share of hidden units that ReLU left on\n"
    "  max error    largest distance from Flax in float64\n"
    "  / row max    the same, as a share of the row's largest value\n"
    "  / allowed    the same, as a share of what float32 rounding can cause\n"
    "  Flax f32     Flax's own error in float32, as a share of the row's "
    "largest\n"
    "               value\n"
    "  other order  largest distance between the block and its other order\n"
    "  time         of one call: the best of at least 5\n"
    "\n"
    "Exit status: 0 all blocks agree, 1 one does not, 2 usage, 3 a file is\n"
    "missing or damaged, 4 the library refused a call.\n";

constexpr size_t kMaxRows = 65536;
constexpr size_t kMaxThreads = 256;

struct Options {
  std::string data;
  const char* target = nullptr;
  size_t rows = 0;  // 0: the block's own
  size_t threads = 1;
  bool help = false;
};

bool ParseCount(const char* text, size_t max, size_t* count) {
  size_t value = 0;
  if (*text == '\0') return false;
  for (; *text != '\0'; ++text) {
    if (*text < '0' || *text > '9') return false;
    value = value * 10 + static_cast<size_t>(*text - '0');
    if (value > max) return false;
  }
  *count = value;
  return value != 0;
}

// On false *error says what is wrong with the command line.
bool ParseOptions(int argc, char** argv, Options* options, std::string* error) {
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (name == "--help") {
      options->help = true;
      return true;
    }
    if (name != "--data" && name != "--target" && name != "--rows" &&
        name != "--threads") {
      *error = "unknown argument " + name;
      return false;
    }
    if (++i == argc) {
      *error = name + " needs a value";
      return false;
    }
    if (name == "--data") {
      options->data = argv[i];
    } else if (name == "--target") {
      options->target = argv[i];
    } else {
      const bool rows = name == "--rows";
      const size_t max = rows ? kMaxRows : kMaxThreads;
      if (!ParseCount(argv[i], max,
                      rows ? &options->rows : &options->threads)) {
        *error = name + " needs a number from 1 to " + std::to_string(max);
        return false;
      }
    }
  }
  return true;
}

// From the source tree the data is at hand; from elsewhere the build says where
// the source tree is.
std::string DefaultData() {
  const std::string here = "tests/data/golden/trained";
#ifdef FFNORM_EXAMPLE_DATA
  std::FILE* file = std::fopen((here + "/pre/ffn0/x.npy").c_str(), "rb");
  if (file == nullptr) return FFNORM_EXAMPLE_DATA;
  std::fclose(file);
#endif
  return here;
}

int Complain(ExitStatus status, const std::string& text) {
  std::fflush(stdout);
  std::fprintf(stderr, "forward: %s\n", text.c_str());
  return status;
}

int Refused(const char* what, ffnorm::Status status) {
  return Complain(kRefused, std::string(what) + ": " + Message(status));
}

const char* Name(ffnorm::Order order) {
  return order == ffnorm::Order::kPreLn ? "Pre-LN" : "Post-LN";
}

ffnorm::Order OtherOrder(ffnorm::Order order) {
  return order == ffnorm::Order::kPreLn ? ffnorm::Order::kPostLn
                                        : ffnorm::Order::kPreLn;
}

// Prints one line of the table.
int RunBlock(const std::string& name, ffnorm::Order order,
             const TrainedBlock& trained, ffnorm::Target target,
             const Options& options, Pool* pool) {
  BlockRunner runner(trained, options.rows == 0 ? trained.rows : options.rows,
                     pool);
  std::vector<float> y;
  std::vector<float> other;
  std::vector<float> row_by_row;
  double seconds = 0.0;
  double active = 0.0;
  ffnorm::Status status = runner.Prepare(target, options.threads);
  if (Ok(status)) status = runner.Forward(OtherOrder(order), &other);
  if (Ok(status)) status = runner.Time(order, &y, &seconds);
  if (Ok(status)) status = runner.ForwardRowByRow(order, &row_by_row);
  if (Ok(status)) status = runner.ActiveShare(order, &active);
  if (!Ok(status)) return Refused(name.c_str(), status);

  const std::vector<double> allowed = AllowedErrors(trained, order);
  const Comparison own = Compare(trained, allowed, y);
  const Comparison swapped = Compare(trained, allowed, other);
  const Comparison flax = Compare(trained, allowed, trained.y_f32);

  std::printf(
      "%-9s %-7s %5zu %7zu %5zu %5.1f %% %9.2e %9.2e %9.3f %8.2e %11.2f "
      "%8.3f ms %7.1f\n",
      name.c_str(), Name(order), runner.Rows(), trained.d_model, trained.d_ff,
      100.0 * active, own.max_error, own.of_row_max, own.of_allowed,
      flax.of_row_max, swapped.max_error, 1e3 * seconds,
      1e-9 * runner.Flops() / seconds);

  // Written so that NaN fails.
  if (!(own.of_allowed <= 1.0)) {
    char text[160];
    std::snprintf(text, sizeof(text),
                  ": row %zu, column %zu is off by %.3g times what rounding "
                  "allows",
                  own.row, own.column, own.of_allowed);
    return Complain(kDisagree, name + text);
  }
  if (swapped.of_allowed <= 1.0) {
    return Complain(kDisagree, name + ": the other order agrees too");
  }
  if (std::memcmp(row_by_row.data(), y.data(),
                  row_by_row.size() * sizeof(float)) != 0) {
    return Complain(kDisagree, name + ": a row alone gives other bits");
  }
  return kAgree;
}

int Run(const Options& options) {
  ffnorm::Target target;
  const ffnorm::Status status = ffnorm::Target::Find(options.target, &target);
  if (!Ok(status)) {
    const std::string name =
        options.target == nullptr ? "by default" : options.target;
    return Complain(kUsage, "target " + name + ": " + Message(status));
  }

  struct Model {
    const char* name;
    ffnorm::Order order;
  };
  struct Entry {
    std::string name;
    ffnorm::Order order;
    TrainedBlock trained;
  };
  std::vector<Entry> entries;
  for (const Model& model : {Model{"pre", ffnorm::Order::kPreLn},
                             Model{"post", ffnorm::Order::kPostLn}}) {
    for (const char* layer : {"/ffn0", "/ffn1", "/ffn2"}) {
      Entry entry{std::string(model.name) + layer, model.order, {}};
      std::string error;
      if (!LoadTrainedBlock(options.data + "/" + entry.name, &entry.trained,
                            &error)) {
        return Complain(kBadFile, error);
      }
      entries.push_back(std::move(entry));
    }
  }

  std::printf(
      "ffnorm %s, target %s (%zu-byte vectors, %s), %zu thread%s\n\n",
      ffnorm_version(), target.name(), target.vector_bytes(),
      target.rounding() == ffnorm::Rounding::kFused ? "fused" : "unfused",
      options.threads, options.threads == 1 ? "" : "s");
  std::printf("%-9s %-7s %5s %7s %5s %7s %9s %9s %9s %8s %11s %11s %7s\n",
              "block", "order", "rows", "d_model", "d_ff", "active",
              "max error", "/ row max", "/ allowed", "Flax f32", "other order",
              "time", "GFLOP/s");
  Pool pool(options.threads);
  int result = kAgree;
  for (const Entry& entry : entries) {
    const int code = RunBlock(entry.name, entry.order, entry.trained, target,
                              options, &pool);
    if (code == kRefused) return code;
    if (code != kAgree) result = code;
  }
  std::printf("\n%s\n",
              result == kAgree
                  ? "All blocks agree with Flax, each row alone gives "
                    "the same bits, and the other order does not agree."
                  : "Not all blocks agree.");
  return result;
}

int Main(int argc, char** argv) {
  Options options;
  std::string error;
  if (!ParseOptions(argc, argv, &options, &error)) {
    return Complain(kUsage, error + " (see --help)");
  }
  if (options.help) {
    std::fputs(kHelp, stdout);
    return kAgree;
  }
  if (options.data.empty()) options.data = DefaultData();
  return Run(options);
}

}  // namespace
}  // namespace ffnorm_example

int main(int argc, char** argv) { return ffnorm_example::Main(argc, argv); }
