#include "cli/model_hints.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "cli/failure.h"

namespace ffnorm_cli {
namespace {

using Json = nlohmann::json;

bool ParseOrder(const std::string& text, ffnorm::Order* order) {
  *order = text == "post" ? ffnorm::Order::kPostLn : ffnorm::Order::kPreLn;
  return text == "pre" || text == "post";
}

bool ParseEpsilon(const std::string& text, float* epsilon) {
  char* end = nullptr;
  *epsilon = std::strtof(text.c_str(), &end);
  return !text.empty() && *end == '\0' && std::isfinite(*epsilon) &&
         *epsilon >= 0.0f;
}

// Exactly six, of which some may be empty.
std::array<std::string, 6> ParseNames(const std::string& text) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == ',') {
      parts.emplace_back();
    } else {
      parts.back().push_back(c);
    }
  }
  if (parts.size() != 6 || parts[0].empty() || parts[2].empty()) {
    throw Failure(
        "--names takes six endings of names with commas between them, "
        "W1,B1,W2,B2,SCALE,OFFSET, where W1 and W2 are not empty",
        kUsage);
  }
  std::array<std::string, 6> names;
  std::copy(parts.begin(), parts.end(), names.begin());
  return names;
}

void UseMetadata(const Safetensors& file, ModelHints* hints) {
  const auto& metadata = file.metadata();
  const auto order = metadata.find("order");
  ffnorm::Order order_value;
  if (order != metadata.end() && ParseOrder(order->second, &order_value) &&
      !hints->order.value) {
    hints->order = {order_value, "says the file's metadata"};
  }
  const auto epsilon = metadata.find("epsilon");
  float epsilon_value = 0.0f;
  if (epsilon != metadata.end() &&
      ParseEpsilon(epsilon->second, &epsilon_value) && !hints->epsilon.value) {
    hints->epsilon = {epsilon_value, "says the file's metadata"};
  }
}

std::string FolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash + 1);
}

// As Hugging Face writes it.
void UseConfig(const std::string& path, ModelHints* hints) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> stream(
      std::fopen(path.c_str(), "rb"), &std::fclose);
  if (stream == nullptr) return;
  const Json config =
      Json::parse(stream.get(), nullptr, /*allow_exceptions=*/false);
  if (!config.is_object()) return;
  for (const char* const key :
       {"activation_function", "hidden_act", "activation"}) {
    const auto found = config.find(key);
    if (found == config.end() || !found->is_string()) continue;
    const std::string name = found->get<std::string>();
    if (name != "relu") {
      throw Failure(path + " says that the activation is " + name +
                    ", and ffnorm computes ReLU (--no-config if it is wrong)");
    }
    hints->activation_text = "ReLU, says config.json";
  }
  const auto order = config.find("do_layer_norm_before");
  if (order != config.end() && order->is_boolean() && !hints->order.value) {
    hints->order = {
        order->get<bool>() ? ffnorm::Order::kPreLn : ffnorm::Order::kPostLn,
        "says config.json"};
  }
  for (const char* const key : {"layer_norm_eps", "layer_norm_epsilon"}) {
    const auto epsilon = config.find(key);
    if (epsilon == config.end() || !epsilon->is_number()) continue;
    const float value = epsilon->get<float>();
    if (!std::isfinite(value) || value < 0.0f || hints->epsilon.value) continue;
    hints->epsilon = {value, "says config.json"};
  }
}

}  // namespace

ModelHints CollectHints(const Safetensors& file, const GivenHints& given) {
  ModelHints hints;
  hints.activation_text = "ReLU, assumed: names do not tell";
  if (!given.order.empty()) {
    ffnorm::Order order;
    if (!ParseOrder(given.order, &order)) {
      throw Failure("--order is pre or post", kUsage);
    }
    hints.order = {order, "given"};
  }
  if (!given.layout.empty()) {
    hints.layout = {given.layout == "in_out" ? FFNORM_IN_OUT : FFNORM_OUT_IN,
                    "given"};
  }
  if (!given.epsilon.empty()) {
    float epsilon = 0.0f;
    if (!ParseEpsilon(given.epsilon, &epsilon)) {
      throw Failure("--epsilon is a number from 0 up, such as 1e-5", kUsage);
    }
    hints.epsilon = {epsilon, "given"};
  }
  if (!given.names.empty()) hints.names = ParseNames(given.names);
  UseMetadata(file, &hints);
  if (!given.no_config) {
    UseConfig(FolderOf(file.path()) + "config.json", &hints);
  }
  return hints;
}

}  // namespace ffnorm_cli
