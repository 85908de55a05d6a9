// What is known about a model besides its tensors: from the command line, from
// the file's metadata, and from a config.json beside it.
#ifndef FFNORM_CLI_MODEL_HINTS_H_
#define FFNORM_CLI_MODEL_HINTS_H_

#include <array>
#include <optional>
#include <string>

#include "cli/safetensors.h"
#include "ffnorm/ffnorm.hpp"

namespace ffnorm_cli {

// A value, and who says so.
template <typename T>
struct Hint {
  std::optional<T> value;
  std::string source;  // such as "given" or "says config.json"
};

struct ModelHints {
  Hint<ffnorm::Order> order;
  Hint<ffnorm_layout> layout;
  Hint<float> epsilon;
  std::string activation_text;  // how ReLU came about
  // Of w1, b1, w2, b2, scale, offset: what their names end in. Unset: names
  // that are known.
  std::optional<std::array<std::string, 6>> names;
};

// What the command line says, each text as it was given; "" where it says
// nothing.
struct GivenHints {
  std::string order;   // pre, post
  std::string layout;  // in_out, out_in
  std::string epsilon;
  std::string names;  // W1,B1,W2,B2,SCALE,OFFSET
  bool no_config = false;
};

// What is given goes before the metadata, and that before config.json. Throws
// Failure for values that mean nothing, and where the model says that its
// activation is not ReLU.
ModelHints CollectHints(const Safetensors& file, const GivenHints& given);

}  // namespace ffnorm_cli

#endif  // FFNORM_CLI_MODEL_HINTS_H_
