// The roof of this machine, in the terms of ../../README.md and by the same
// code: multiply-adds from registers, and reads of a buffer. Commands, one a
// line:
//
//   peak            -> `ok FLOPS` (a second)
//   read BYTES      -> `ok BYTES` (a second), of memory of that size
#include <stdio.h>
#include <stdlib.h>

#include <algorithm>
#include <iostream>
#include <memory>
#include <sstream>
#include <string>

#include "bench/memory.h"
#include "bench/peak.h"
#include "bench/pool.h"
#include "ffnorm/ffnorm.h"

namespace {

using ffnorm::bench::MeasurePeak;
using ffnorm::bench::MeasureRead;
using ffnorm::bench::Memory;
using ffnorm::bench::Pages;

constexpr double kReadSeconds = 0.005;

// Buffers of one size on both kinds of page: either may be faster.
struct Buffers {
  explicit Buffers(size_t bytes)
      : huge(bytes, Pages::kHuge), ordinary(bytes, Pages::kOrdinary) {}
  Memory huge;
  Memory ordinary;
};

}  // namespace

int main(int argc, char** argv) {
  const int threads = argc == 2 ? atoi(argv[1]) : 0;
  if (threads < 1) {
    fprintf(stderr, "usage: %s THREADS (started by run.py)\n", argv[0]);
    return 2;
  }
  const ffnorm_target* target = nullptr;
  if (ffnorm_find_target(nullptr, &target) != FFNORM_OK) return 2;
  const ffnorm::bench::PeakLoops* const loops =
      ffnorm::bench::FindPeakLoops(target);
  if (loops == nullptr || !loops->has_peak) return 2;
  ffnorm::bench::Pool pool(static_cast<size_t>(threads));
  printf(
      "{\"library\": \"roof\", \"version\": \"\", \"note\": \"loops for %s\", "
      "\"variants\": []}\n",
      loops->target);
  fflush(stdout);

  std::unique_ptr<Buffers> buffers;
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    std::string command;
    size_t bytes = 0;
    words >> command;
    if (command == "peak") {
      printf("ok %.6e\n", MeasurePeak(*loops, pool));
    } else if (command == "read" && words >> bytes) {
      if (buffers == nullptr || buffers->huge.bytes() != bytes) {
        buffers.reset();
        buffers.reset(new Buffers(bytes));
      }
      printf("ok %.6e\n",
             std::max(MeasureRead(*loops, pool, buffers->huge.data(), bytes,
                                  kReadSeconds),
                      MeasureRead(*loops, pool, buffers->ordinary.data(), bytes,
                                  kReadSeconds)));
    } else {
      printf("error no such command\n");
    }
    fflush(stdout);
  }
  return 0;
}
