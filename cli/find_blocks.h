// Finds the feed-forward blocks of a model by the names of its tensors.
#ifndef FFNORM_CLI_FIND_BLOCKS_H_
#define FFNORM_CLI_FIND_BLOCKS_H_

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "cli/model_hints.h"
#include "cli/safetensors.h"
#include "ffnorm/ffnorm.hpp"

namespace ffnorm_cli {

// The names of a block's tensors; empty where it has none.
struct TensorNames {
  std::string w1, b1, w2, b2, scale, offset;
};

struct FoundBlock {
  std::string name;  // what the names of its tensors start with
  TensorNames tensors;
  size_t d_model = 0;
  size_t d_ff = 0;
  // Unset where neither the caller nor the file says, and nothing is known to
  // guess from.
  std::optional<ffnorm_layout> layout;
  std::optional<ffnorm::Order> order;
  float epsilon = FFNORM_DEFAULT_EPSILON;

  // How each of these came about, for people to read.
  std::string names_text, layout_text, order_text, epsilon_text;
};

struct Found {
  std::vector<FoundBlock> blocks;    // layers.2 before layers.10
  std::vector<std::string> refused;  // what looked like a block: why it is none
};

// Throws Failure where what is given contradicts the file.
Found FindBlocks(const Safetensors& file, const ModelHints& hints);

// "Pre-LN" and "pre"
const char* OrderName(ffnorm::Order order);
const char* OrderWord(ffnorm::Order order);

}  // namespace ffnorm_cli

#endif  // FFNORM_CLI_FIND_BLOCKS_H_
