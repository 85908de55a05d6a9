#include <string>

#include "bench/cpu_name.h"
#include "bench/peak.h"
#include "bench/pool.h"
#include "cli/commands.h"
#include "cli/default_target.h"
#include "cli/terminal.h"
#include "ffnorm/ffnorm.hpp"

namespace ffnorm_cli {
namespace {

struct ReadSize {
  const char* name;
  size_t bytes;
};

// In and out of the caches, on most CPUs.
constexpr ReadSize kReadSizes[] = {{"1 MiB", size_t{1} << 20},
                                   {"8 MiB", size_t{8} << 20},
                                   {"64 MiB", size_t{64} << 20},
                                   {"256 MiB", size_t{256} << 20}};

void PrintTarget(const ffnorm::Target& target, const ffnorm::Target& in_use,
                 ffnorm::bench::Pool& pool, const Style& style) {
  const bool used = target.c() == in_use.c();
  const std::string bits = std::to_string(target.vector_bytes() * 8) + " bit";
  const char* const rounding =
      target.rounding() == ffnorm::Rounding::kFused ? "fused" : "unfused";
  const ffnorm::bench::PeakLoops* const loops =
      ffnorm::bench::FindPeakLoops(target.c());
  std::string peak = "-";
  if (loops != nullptr && loops->has_peak) {
    peak =
        Format("%.1f GFLOP/s", ffnorm::bench::MeasurePeak(*loops, pool) * 1e-9);
  }
  const std::string line =
      Format("%s %-8s %8s  %-8s %14s%s", used ? "*" : " ", target.name(),
             bits.c_str(), rounding, peak.c_str(), used ? "  in use" : "");
  std::printf("%s\n",
              used ? Paint(style, Color::kBold, line).c_str() : line.c_str());
  std::fflush(stdout);
}

}  // namespace

void Info(const InfoOptions& options) {
  const Style style = StyleOf(stdout);
  const ffnorm::Target in_use = DefaultTarget();
  ffnorm::bench::Pool pool(options.threads);
  std::printf("ffnorm %s\n", ffnorm_version());
  std::printf("cpu: %s\n", Printable(ffnorm::bench::CpuName()).c_str());
  const std::string threads = std::to_string(options.threads) +
                              (options.threads == 1 ? " thread" : " threads");

  std::printf("\ntargets, best first (peak of multiply-adds on %s)\n",
              threads.c_str());
  for (const ffnorm::Target& target : ffnorm::TargetList()) {
    PrintTarget(target, in_use, pool, style);
  }
  std::printf(
      "FFNORM_TARGET=NAME chooses another. Fused targets give one set "
      "of bits, unfused\nones another.\n");

  std::printf("\nreading memory on %s\n", threads.c_str());
  const ffnorm::bench::PeakLoops* const loops =
      ffnorm::bench::FindPeakLoops(in_use.c());
  for (const ReadSize& size : kReadSizes) {
    if (loops == nullptr) break;
    std::printf("  %-8s %17.1f GB/s\n", size.name,
                ffnorm::bench::BestRead(*loops, pool, size.bytes) * 1e-9);
    std::fflush(stdout);
  }
}

}  // namespace ffnorm_cli
