// A whole small engine on ffnorm: reads a prompt and writes on. See --help.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "loss.h"
#include "model.h"

namespace tinylm {
namespace {

constexpr char kHelp[] =
    "usage: tinylm generate MODEL.safetensors [--prompt TEXT] [--length N]\n"
    "                       [--temperature T] [--seed N] [--order pre|post]\n"
    "       tinylm loss MODEL.safetensors TEXT_FILE\n"
    "\n"
    "generate  prints the prompt and then N characters as they come, and the\n"
    "          speed on stderr. T 0, the default, takes the likeliest "
    "character\n"
    "          each time; above it characters are drawn, the wilder the "
    "higher.\n"
    "loss      prints how badly the model foretells the text, in nats a\n"
    "          character, in the order that it was trained in and in the "
    "other.\n"
    "\n"
    "--order   runs attention and feed-forward in this order instead of the\n"
    "          one that the model was trained in.\n"
    "\n"
    "Exit status: 0, 2 usage, 3 a bad file, 4 the library refused a call.\n";

enum ExitStatus { kDone = 0, kUsage = 2, kBadFile = 3, kRefused = 4 };

struct Options {
  std::string model;
  std::string text;  // of loss
  std::string prompt = "Be not afeard: the isle is full of noises,\n";
  std::string order;  // empty: as trained
  size_t length = 200;
  double temperature = 0.0;
  unsigned seed = 1;
};

int Complain(ExitStatus status, const std::string& text) {
  std::fflush(stdout);
  std::fprintf(stderr, "tinylm: %s\n", text.c_str());
  return status;
}

// The next character, from the logits of the last one.
class Chooser {
 public:
  Chooser(double temperature, unsigned seed)
      : temperature_(temperature), random_(seed) {}

  size_t Choose(const float* logits, size_t count) {
    const float* largest = std::max_element(logits, logits + count);
    if (temperature_ == 0.0) return static_cast<size_t>(largest - logits);
    std::vector<double> weights;
    for (size_t i = 0; i < count; ++i) {
      weights.push_back(std::exp((logits[i] - *largest) / temperature_));
    }
    return std::discrete_distribution<size_t>(weights.begin(),
                                              weights.end())(random_);
  }

 private:
  const double temperature_;
  std::mt19937 random_;
};

double Seconds() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

int Generate(const Options& options, const Model& model) {
  std::vector<size_t> text;
  std::string error;
  if (options.prompt.empty()) return Complain(kUsage, "the prompt is empty");
  if (!model.Encode(options.prompt, &text, &error)) {
    return Complain(kUsage, "prompt: " + error);
  }
  ffnorm::Order order = model.trained_order;
  if (options.order == "pre") order = ffnorm::Order::kPreLn;
  if (options.order == "post") order = ffnorm::Order::kPostLn;

  Session session(model, order);
  Chooser chooser(options.temperature, options.seed);
  std::vector<float> logits;
  std::fputs(options.prompt.c_str(), stdout);
  std::fflush(stdout);

  // The session reads what it has not read yet: first the prompt, then each
  // character as it is chosen. When the context is full, the later half of it
  // is read anew.
  size_t read = text.size() - std::min(text.size(), model.context);
  const size_t prompt_end = text.size();
  const size_t prompt_read = prompt_end - read;
  double prompt_seconds = 0.0;
  double start = Seconds();
  for (size_t i = 0; i < options.length; ++i) {
    if (session.length() == model.context) {
      session.Clear();
      read = text.size() - (model.context + 1) / 2;
    }
    const std::vector<size_t> fresh(
        text.begin() + static_cast<std::ptrdiff_t>(read), text.end());
    const ffnorm::Status status = session.Read(fresh, &logits);
    if (!Ok(status)) return Complain(kRefused, Message(status));
    if (i == 0) {
      prompt_seconds = Seconds() - start;
      start = Seconds();
    }
    read = text.size();
    const size_t count = model.characters.size();
    text.push_back(chooser.Choose(&logits[(fresh.size() - 1) * count], count));
    std::putchar(model.characters[text.back()]);
    std::fflush(stdout);
  }
  const double seconds = Seconds() - start;
  std::putchar('\n');
  std::fflush(stdout);
  std::fprintf(
      stderr,
      "%s on %s; prompt: %zu tokens, %.0f per second; then %zu tokens, "
      "%.0f per second\n",
      Name(order), model.target.name(), prompt_read,
      static_cast<double>(prompt_read) / prompt_seconds,
      text.size() - prompt_end,
      static_cast<double>(options.length - 1) / seconds);
  return kDone;
}

int PrintLoss(const Options& options, const Model& model) {
  std::vector<size_t> text;
  std::string error;
  if (!ReadText(options.text, model, &text, &error)) {
    return Complain(kBadFile, error);
  }
  const ffnorm::Order own = model.trained_order;
  for (const ffnorm::Order order : {own, OtherOrder(own)}) {
    double loss = 0.0;
    const ffnorm::Status status = Loss(model, order, text, &loss);
    if (!Ok(status)) return Complain(kRefused, Message(status));
    std::printf("%-7s %6.3f nats a character%s\n", Name(order), loss,
                order == own ? ", as trained" : "");
  }
  return kDone;
}

// A whole number from 1 to 1000000.
bool ParseCount(const std::string& text, size_t* count) {
  char* end = nullptr;
  *count = std::strtoul(text.c_str(), &end, 10);
  return !text.empty() && text[0] >= '0' && text[0] <= '9' && *end == '\0' &&
         *count >= 1 && *count <= 1000000;
}

// False with *error set where the value is none for this option.
bool SetOption(const std::string& name, const std::string& value,
               Options* options, std::string* error) {
  size_t number = 0;
  if (name == "--prompt") {
    options->prompt = value;
  } else if (name == "--order") {
    options->order = value;
    if (value != "pre" && value != "post") *error = "--order is pre or post";
  } else if (name == "--temperature") {
    char* end = nullptr;
    options->temperature = std::strtod(value.c_str(), &end);
    // Written so that NaN is refused.
    if (value.empty() || *end != '\0' ||
        !(options->temperature >= 0.0 && options->temperature <= 100.0)) {
      *error = "--temperature is a number from 0 to 100";
    }
  } else if (name == "--length" || name == "--seed") {
    if (!ParseCount(value, &number)) {
      *error = name + " is a number from 1 to 1000000";
    }
    if (name == "--length") options->length = number;
    if (name == "--seed") options->seed = static_cast<unsigned>(number);
  } else {
    *error = "unknown argument " + name;
  }
  return error->empty();
}

int Main(const std::vector<std::string>& arguments) {
  if (std::find(arguments.begin(), arguments.end(), "--help") !=
      arguments.end()) {
    std::fputs(kHelp, stdout);
    return kDone;
  }
  Options options;
  const std::string command = arguments.empty() ? "" : arguments[0];
  const bool loss = command == "loss";
  if ((!loss && command != "generate") || arguments.size() < (loss ? 3 : 2) ||
      (loss && arguments.size() > 3)) {
    return Complain(kUsage, "what to do? (see --help)");
  }
  std::string error;
  options.model = arguments[1];
  if (loss) options.text = arguments[2];
  for (size_t i = loss ? 3 : 2; i < arguments.size(); i += 2) {
    if (i + 1 == arguments.size()) {
      return Complain(kUsage, arguments[i] + " needs a value (see --help)");
    }
    if (!SetOption(arguments[i], arguments[i + 1], &options, &error)) {
      return Complain(kUsage, error + " (see --help)");
    }
  }
  Model model;
  if (!Model::Load(options.model, &model, &error)) {
    return Complain(kBadFile, error);
  }
  return loss ? PrintLoss(options, model) : Generate(options, model);
}

}  // namespace
}  // namespace tinylm

int main(int argc, char** argv) {
  return tinylm::Main(std::vector<std::string>(argv + 1, argv + argc));
}
