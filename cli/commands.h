// The subcommands. Each prints its results on stdout, returns when all went
// well, and throws Failure otherwise.
#ifndef FFNORM_CLI_COMMANDS_H_
#define FFNORM_CLI_COMMANDS_H_

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "cli/model_hints.h"

namespace ffnorm_cli {

struct InfoOptions {
  size_t threads = 1;
};
void Info(const InfoOptions& options);

struct PackOptions {
  std::string model;
  std::string folder = ".";
  GivenHints given;
  bool list = false;
};
void Pack(const PackOptions& options);

struct RunOptions {
  std::string block;
  std::string x;
  std::string y = "y.npy";
  std::string order;  // empty: what the block's name says
  size_t threads = 1;
};
void Run(const RunOptions& options);

struct BenchOptions {
  bool quick = false;
  std::vector<std::string> shapes;  // such as 512x2048; empty: a choice
  std::vector<size_t> rows;
  size_t threads = 1;
};
void Bench(const BenchOptions& options);

}  // namespace ffnorm_cli

#endif  // FFNORM_CLI_COMMANDS_H_
