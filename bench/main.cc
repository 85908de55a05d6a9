// Registers and runs the benchmarks; bench/README.md says how to read them.
#include <benchmark/benchmark.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <string>
#include <vector>

#include "bench/bench_util.h"
#include "bench/cpu_name.h"
#include "ffnorm/ffnorm.h"

namespace ffnorm {
namespace bench {
namespace {

// A run of everything takes tens of minutes as it is.
char kDefaultMinTime[] = "--benchmark_min_time=0.1";

constexpr size_t kMaxThreads = 1024;

void PrintHelp() {
  printf(
      "ffnorm_bench measures ffnorm on every target of this CPU.\n"
      "Names: STAGE/TARGET/rows/d_model/d_ff, such as pre_ln/AVX2/16/512/2048\n"
      "  pre_ln, post_ln  the whole block; TARGET may be `reference` (scalar)\n"
      "  pre_ln_unfused   the same from its stages, one after another\n"
      "  dense_relu       layer 1 with bias and ReLU\n"
      "  dense            layer 2 with bias\n"
      "  layer_norm, layer_norm/plain_two_pass, residual_add  /rows/d_model\n"
      "Counters: peak = share of the multiply-add peak of the target's "
      "vectors,\n"
      "roof = share of what peak and read bandwidth allow, roof_best = the "
      "same\n"
      "in the fastest batch of about 0.5 ms.\n"
      "Options:\n"
      "  --threads=N  run on a pool of N threads (environment:\n"
      "               FFNORM_BENCH_THREADS); names end in "
      "/threads:N/real_time\n"
      "  --all        also those that take seconds a call\n"
      "Google Benchmark's options, with --benchmark_min_time=0.1 by "
      "default:\n");
  benchmark::PrintDefaultHelp();
}

bool ParseThreads(const char* text, size_t* threads) {
  char* end = nullptr;
  const unsigned long value = strtoul(text, &end, 10);
  if (end == text || *end != '\0' || value < 1 || value > kMaxThreads) {
    fprintf(stderr, "threads: want 1 to %zu, got '%s'\n", kMaxThreads, text);
    return false;
  }
  *threads = value;
  return true;
}

// Takes this program's own options out of args.
bool ParseOptions(std::vector<char*>* args, Options* options) {
  const char* const environment = getenv("FFNORM_BENCH_THREADS");
  if (environment != nullptr && !ParseThreads(environment, &options->threads)) {
    return false;
  }
  static const char kThreads[] = "--threads=";
  std::vector<char*> others;
  for (char* const arg : *args) {
    if (strncmp(arg, kThreads, sizeof(kThreads) - 1) == 0) {
      if (!ParseThreads(arg + sizeof(kThreads) - 1, &options->threads)) {
        return false;
      }
    } else if (strcmp(arg, "--all") == 0) {
      options->all = true;
    } else {
      others.push_back(arg);
    }
  }
  *args = others;
  return true;
}

std::string Compiler() {
#ifdef __clang__
  return std::string("clang ") + __clang_version__;
#else
  return std::string("gcc ") + __VERSION__;
#endif
}

void AddContext() {
  std::string targets;
  for (const ffnorm_target* const target : Targets()) {
    if (!targets.empty()) targets += ' ';
    targets += ffnorm_target_name(target);
  }
  benchmark::AddCustomContext("ffnorm_version", ffnorm_version());
  benchmark::AddCustomContext("targets", targets);
  benchmark::AddCustomContext("cpu", CpuName());
  benchmark::AddCustomContext("compiler", Compiler());
}

int Main(int argc, char** argv) {
  std::vector<char*> args(argv, argv + argc);
  // In front, so that the caller's own comes later and wins.
  args.insert(args.begin() + 1, kDefaultMinTime);
  if (!ParseOptions(&args, &GetOptions())) return 2;
  int count = static_cast<int>(args.size());
  args.push_back(nullptr);
  benchmark::Initialize(&count, args.data(), &PrintHelp);
  if (benchmark::ReportUnrecognizedArguments(count, args.data())) return 2;
  AddContext();
  RegisterBlock();
  RegisterDenseRelu();
  RegisterLayerNorm();
  RegisterResidualAdd();
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return AnyFailed() ? 1 : 0;
}

}  // namespace
}  // namespace bench
}  // namespace ffnorm

int main(int argc, char** argv) { return ffnorm::bench::Main(argc, argv); }
