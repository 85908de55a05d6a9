// What this CPU calls itself, for whoever reads measurements.
#ifndef FFNORM_BENCH_CPU_NAME_H_
#define FFNORM_BENCH_CPU_NAME_H_

#include <stddef.h>

#include <fstream>
#include <string>

namespace ffnorm {
namespace bench {

inline std::string CpuName() {
  std::ifstream cpuinfo("/proc/cpuinfo");
  for (std::string line; std::getline(cpuinfo, line);) {
    const size_t colon = line.find(": ");
    if (line.compare(0, 10, "model name") == 0 && colon != std::string::npos) {
      return line.substr(colon + 2);
    }
  }
  return "unknown";
}

}  // namespace bench
}  // namespace ffnorm

#endif  // FFNORM_BENCH_CPU_NAME_H_
