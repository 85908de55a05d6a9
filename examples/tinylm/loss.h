// How well a model foretells a text.
#ifndef FFNORM_EXAMPLES_TINYLM_LOSS_H_
#define FFNORM_EXAMPLES_TINYLM_LOSS_H_

#include <cstddef>
#include <ffnorm/ffnorm.hpp>
#include <string>
#include <vector>

#include "model.h"

namespace tinylm {

// "Pre-LN" or "Post-LN".
const char* Name(ffnorm::Order order);
ffnorm::Order OtherOrder(ffnorm::Order order);

// The mean of -log p(next character) over the text, in nats, read in pieces as
// long as the context. The text has at least two characters.
ffnorm::Status Loss(const Model& model, ffnorm::Order order,
                    const std::vector<size_t>& text, double* loss);

// The whole file as a text that the model knows and that is long enough for
// Loss. On false *error is one line.
bool ReadText(const std::string& path, const Model& model,
              std::vector<size_t>* text, std::string* error);

}  // namespace tinylm

#endif  // FFNORM_EXAMPLES_TINYLM_LOSS_H_
