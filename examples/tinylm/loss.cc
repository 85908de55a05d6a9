#include "loss.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>

namespace tinylm {

const char* Name(ffnorm::Order order) {
  return order == ffnorm::Order::kPreLn ? "Pre-LN" : "Post-LN";
}

ffnorm::Order OtherOrder(ffnorm::Order order) {
  return order == ffnorm::Order::kPreLn ? ffnorm::Order::kPostLn
                                        : ffnorm::Order::kPreLn;
}

ffnorm::Status Loss(const Model& model, ffnorm::Order order,
                    const std::vector<size_t>& text, double* loss) {
  const size_t characters = model.characters.size();
  Session session(model, order);
  std::vector<float> logits;
  double sum = 0.0;
  for (size_t at = 0; at + 1 < text.size(); at += model.context) {
    // The last character of the text is foretold, but foretells nothing.
    const size_t count = std::min(model.context, text.size() - 1 - at);
    session.Clear();
    const auto from = text.begin() + static_cast<std::ptrdiff_t>(at);
    const ffnorm::Status status = session.Read(
        {from, from + static_cast<std::ptrdiff_t>(count)}, &logits);
    if (!Ok(status)) return status;
    for (size_t i = 0; i < count; ++i) {
      const float* row = &logits[i * characters];
      const double largest = *std::max_element(row, row + characters);
      double total = 0.0;
      for (size_t c = 0; c < characters; ++c)
        total += std::exp(row[c] - largest);
      sum += largest + std::log(total) - row[text[at + i + 1]];
    }
  }
  *loss = sum / static_cast<double>(text.size() - 1);
  return ffnorm::Status::kOk;
}

bool ReadText(const std::string& path, const Model& model,
              std::vector<size_t>* text, std::string* error) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file),
                          std::istreambuf_iterator<char>()};
  if (!file.is_open() || file.bad()) {
    *error = path + ": cannot be read";
    return false;
  }
  if (!model.Encode(bytes, text, error)) {
    *error = path + ": " + *error;
    return false;
  }
  if (text->size() < 2) {
    *error = path + ": shorter than two characters";
    return false;
  }
  return true;
}

}  // namespace tinylm
