// A character language model: embedding, layers of attention and feed-forward,
// and a head that gives each character a score (its logit) to come next.
#ifndef FFNORM_EXAMPLES_TINYLM_MODEL_H_
#define FFNORM_EXAMPLES_TINYLM_MODEL_H_

#include <cstddef>
#include <ffnorm/ffnorm.hpp>
#include <string>
#include <vector>

#include "attention.h"
#include "safetensors.h"

namespace tinylm {

struct LayerNormWeights {
  const float* scale = nullptr;
  const float* offset = nullptr;
};

struct Layer {
  LayerNormWeights attention_norm;
  AttentionWeights attention;
  ffnorm::PackedWeights packed;  // the feed-forward block with its LayerNorm
  ffnorm::Block feed_forward;
};

// Read only once loaded: any number of sessions may share it.
struct Model {
  ffnorm::Order trained_order = ffnorm::Order::kPreLn;
  size_t context = 0;  // the most characters that it can look at
  size_t d_model = 0;
  size_t heads = 0;
  float epsilon = 0.0f;
  std::string characters;  // a character's id is its place here
  ffnorm::Target target;

  const float* token_embedding = nullptr;
  const float* position_embedding = nullptr;
  std::vector<Layer> layers;
  LayerNormWeights final_norm;  // null: the model has none
  Linear head;

  Safetensors file;  // owns what the pointers above point to

  // On false *error is one line that names the file.
  static bool Load(const std::string& path, Model* model, std::string* error);

  // False if the model does not know a character.
  bool Encode(const std::string& text, std::vector<size_t>* ids,
              std::string* error) const;
};

// One text, as far as the model has read it.
class Session {
 public:
  // `order` is for attention and feed-forward alike. The weights fit both
  // orders, but make sense only in the one that they were trained in.
  Session(const Model& model, ffnorm::Order order);

  // Reads on by these characters, at least one and at most up to the context in
  // all. logits is (ids, characters): what is expected after each of them.
  ffnorm::Status Read(const std::vector<size_t>& ids,
                      std::vector<float>* logits);

  // Forgets the text.
  void Clear() { length_ = 0; }
  size_t length() const { return length_; }

 private:
  ffnorm::Status Attend(const Layer& layer, size_t rows, KeyValueCache* cache);
  ffnorm::Status Norm(const LayerNormWeights& weights, size_t rows,
                      const std::vector<float>& x, std::vector<float>* y) const;

  const Model& model_;
  const ffnorm::Order order_;
  std::vector<KeyValueCache> caches_;  // one a layer
  ffnorm::Workspace workspace_;
  ffnorm::Status ready_;
  std::vector<float> x_;      // (context, d_model): the rows under way
  std::vector<float> z_, a_;  // what enters and leaves attention
  size_t length_ = 0;
};

}  // namespace tinylm

#endif  // FFNORM_EXAMPLES_TINYLM_MODEL_H_
