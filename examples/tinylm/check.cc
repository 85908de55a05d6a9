// Compares the engine with Flax, from which its models come.
//
//     tinylm_check MODEL.safetensors FLAX_FOLDER TEXT_FILE
//
// FLAX_FOLDER holds a prompt, the logits that Flax computed for it in float64
// and float32, and the characters that Flax then chose.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "../npy.h"
#include "loss.h"
#include "model.h"

namespace tinylm {
namespace {

// The engine's attention sums in another order than Flax's; its error may be
// this many times that of Flax in float32.
constexpr double kTimesFlaxError = 4.0;

[[noreturn]] void Die(const std::string& text) {
  std::fprintf(stderr, "tinylm_check: %s\n", text.c_str());
  std::exit(EXIT_FAILURE);
}

void Require(ffnorm::Status status) {
  if (!Ok(status)) Die(Message(status));
}

template <typename T>
std::vector<T> Load(const std::string& folder, const char* name) {
  ffnorm_example::NpyArray<T> array;
  std::string error;
  if (!ffnorm_example::ReadNpy(folder + "/" + name + ".npy", &array, &error)) {
    Die(error);
  }
  return array.values;
}

// NaN where a value is NaN.
template <typename T>
double MaxError(const std::vector<T>& a, const std::vector<double>& truth) {
  if (a.size() != truth.size()) Die("another number of logits than Flax's");
  double max = 0.0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double error = std::fabs(static_cast<double>(a[i]) - truth[i]);
    if (!(error <= max)) max = error;
    if (std::isnan(max)) break;
  }
  return max;
}

std::vector<size_t> Ids(const std::vector<int32_t>& ids, const Model& model) {
  for (const int32_t id : ids) {
    if (id < 0 || static_cast<size_t>(id) >= model.characters.size()) {
      Die("an id that the model does not have");
    }
  }
  return {ids.begin(), ids.end()};
}

bool CheckLogits(const Model& model, const std::string& folder,
                 const std::vector<size_t>& prompt) {
  const std::vector<double> truth = Load<double>(folder, "logits_f64");
  const double flax = MaxError(Load<float>(folder, "logits_f32"), truth);
  std::vector<float> logits;
  Session session(model, model.trained_order);
  Require(session.Read(prompt, &logits));
  const double error = MaxError(logits, truth);
  const bool near = error <= kTimesFlaxError * flax;

  // The same prompt, one character at a time.
  std::vector<float> one, all;
  session.Clear();
  for (const size_t id : prompt) {
    Require(session.Read({id}, &one));
    all.insert(all.end(), one.begin(), one.end());
  }
  const bool same =
      all.size() == logits.size() &&
      std::memcmp(all.data(), logits.data(), all.size() * sizeof(float)) == 0;
  std::printf("%s: logits off by %.2e (Flax in float32: %.2e): %s\n",
              Name(model.trained_order), error, flax,
              near ? "near enough" : "TOO FAR");
  std::printf("%s: one character at a time: %s\n", Name(model.trained_order),
              same ? "the same bits" : "OTHER BITS");
  return near && same;
}

bool CheckGreedy(const Model& model, const std::string& folder,
                 const std::vector<size_t>& prompt) {
  const std::vector<size_t> expected =
      Ids(Load<int32_t>(folder, "continuation_ids"), model);
  Session session(model, model.trained_order);
  std::vector<size_t> fresh = prompt, chosen;
  std::vector<float> logits;
  while (chosen.size() < expected.size()) {
    Require(session.Read(fresh, &logits));
    const auto last =
        logits.end() - static_cast<std::ptrdiff_t>(model.characters.size());
    const auto best = std::max_element(last, logits.end());
    chosen.push_back(static_cast<size_t>(best - last));
    fresh = {chosen.back()};
  }
  const bool same = !expected.empty() && chosen == expected;
  std::printf("%s: %zu characters chosen greedily: %s\n",
              Name(model.trained_order), chosen.size(),
              same ? "as Flax" : "NOT AS FLAX");
  return same;
}

bool CheckLoss(const Model& model, const std::vector<size_t>& text) {
  const ffnorm::Order own = model.trained_order;
  double loss = 0.0, other = 0.0;
  Require(Loss(model, own, text, &loss));
  Require(Loss(model, OtherOrder(own), text, &other));
  const bool worse = other > loss;
  std::printf(
      "%s: loss %.3f nats a character; its weights run as %s: %.3f, %s\n",
      Name(own), loss, Name(OtherOrder(own)), other,
      worse ? "worse" : "NOT WORSE");
  return worse;
}

int Main(const std::string& path, const std::string& folder,
         const std::string& text_path) {
  Model model;
  std::string error;
  std::vector<size_t> text;
  if (!Model::Load(path, &model, &error) ||
      !ReadText(text_path, model, &text, &error)) {
    Die(error);
  }
  const std::vector<size_t> prompt =
      Ids(Load<int32_t>(folder, "prompt_ids"), model);
  bool right = CheckLogits(model, folder, prompt);
  right = CheckGreedy(model, folder, prompt) && right;
  right = CheckLoss(model, text) && right;
  return right ? EXIT_SUCCESS : EXIT_FAILURE;
}

}  // namespace
}  // namespace tinylm

int main(int argc, char** argv) {
  if (argc != 4) tinylm::Die("MODEL.safetensors FLAX_FOLDER TEXT_FILE");
  return tinylm::Main(argv[1], argv[2], argv[3]);
}
