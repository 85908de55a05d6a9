#include "model.h"

#include <cstdlib>
#include <utility>

namespace tinylm {
namespace {

bool Fail(std::string* error, const std::string& text) {
  *error = text;
  return false;
}

bool LoadLinear(const Safetensors& file, const std::string& w,
                const std::string& b, size_t in, size_t out, Linear* linear,
                std::string* error) {
  linear->in = in;
  linear->out = out;
  return file.Find(w, {in, out}, &linear->w, error) &&
         file.Find(b, {out}, &linear->b, error);
}

bool LoadAttention(const Safetensors& file, const std::string& prefix,
                   size_t width, Layer* layer, std::string* error) {
  const auto load = [&](const char* which, Linear* linear) {
    return LoadLinear(file, prefix + "w" + which, prefix + "b" + which, width,
                      width, linear, error);
  };
  return file.Find(prefix + "ln_gamma", {width}, &layer->attention_norm.scale,
                   error) &&
         file.Find(prefix + "ln_beta", {width}, &layer->attention_norm.offset,
                   error) &&
         load("q", &layer->attention.query) &&
         load("k", &layer->attention.key) &&
         load("v", &layer->attention.value) &&
         load("o", &layer->attention.output);
}

// Packed once; the file's own arrays are not needed any more after that.
bool LoadFeedForward(const Safetensors& file, const std::string& prefix,
                     const Model& model, Layer* layer, std::string* error) {
  const std::vector<size_t> b1 = file.Shape(prefix + "b1");
  const size_t width = model.d_model;
  const size_t hidden = b1.empty() ? 0 : b1[0];
  ffnorm::Params params = ffnorm::DefaultParams(width, hidden);
  params.epsilon = model.epsilon;
  if (!file.Find(prefix + "b1", {hidden}, &params.b1, error) ||
      !file.Find(prefix + "w1", {width, hidden}, &params.w1, error) ||
      !file.Find(prefix + "w2", {hidden, width}, &params.w2, error) ||
      !file.Find(prefix + "b2", {width}, &params.b2, error) ||
      !file.Find(prefix + "gamma", {width}, &params.scale, error) ||
      !file.Find(prefix + "beta", {width}, &params.offset, error)) {
    return false;
  }
  ffnorm::Status status = ffnorm::PackedWeights::Pack(params, &layer->packed);
  if (Ok(status)) {
    status = layer->packed.Open(&layer->feed_forward, model.target);
  }
  return Ok(status) ||
         Fail(error, file.path() + ": " + prefix + ": " + Message(status));
}

bool LoadMetadata(const Safetensors& file, Model* model, std::string* error) {
  std::string order, heads, epsilon;
  if (!file.Metadata("order", &order, error) ||
      !file.Metadata("heads", &heads, error) ||
      !file.Metadata("epsilon", &epsilon, error) ||
      !file.Metadata("characters", &model->characters, error)) {
    return false;
  }
  if (order != "pre" && order != "post") {
    return Fail(error, file.path() + ": order is neither pre nor post");
  }
  model->trained_order =
      order == "pre" ? ffnorm::Order::kPreLn : ffnorm::Order::kPostLn;
  char* end = nullptr;
  model->heads = std::strtoul(heads.c_str(), &end, 10);
  if (*end != '\0' || model->heads == 0) {
    return Fail(error, file.path() + ": heads is no number above 0");
  }
  model->epsilon = std::strtof(epsilon.c_str(), &end);
  if (epsilon.empty() || *end != '\0') {
    return Fail(error, file.path() + ": epsilon is no number");
  }
  return true;
}

}  // namespace

bool Model::Load(const std::string& path, Model* model, std::string* error) {
  Model m;
  const ffnorm::Status found = ffnorm::Target::Find(nullptr, &m.target);
  if (!Ok(found)) return Fail(error, std::string("target: ") + Message(found));
  if (!Safetensors::Open(path, &m.file, error)) return false;
  const Safetensors& file = m.file;
  if (!LoadMetadata(file, &m, error)) return false;

  const std::vector<size_t> positions = file.Shape("pos_emb");
  if (positions.size() != 2 || positions[0] == 0 || positions[1] == 0) {
    return Fail(error, path + ": tensor pos_emb is missing, or no matrix");
  }
  m.context = positions[0];
  m.d_model = positions[1];
  if (m.d_model % m.heads != 0) {
    return Fail(error, path + ": d_model is no multiple of heads");
  }
  const size_t characters = m.characters.size();
  if (!file.Find("pos_emb", positions, &m.position_embedding, error) ||
      !file.Find("tok_emb", {characters, m.d_model}, &m.token_embedding,
                 error) ||
      !LoadLinear(file, "head_w", "head_b", m.d_model, characters, &m.head,
                  error)) {
    return false;
  }
  if (!file.Shape("final_ln_gamma").empty() &&
      (!file.Find("final_ln_gamma", {m.d_model}, &m.final_norm.scale, error) ||
       !file.Find("final_ln_beta", {m.d_model}, &m.final_norm.offset, error))) {
    return false;
  }
  for (size_t i = 0;; ++i) {
    const std::string number = std::to_string(i);
    if (file.Shape("attn" + number + ".wq").empty()) break;
    Layer layer;
    if (!LoadAttention(file, "attn" + number + ".", m.d_model, &layer, error) ||
        !LoadFeedForward(file, "ffn" + number + ".", m, &layer, error)) {
      return false;
    }
    m.layers.push_back(std::move(layer));
  }
  if (m.layers.empty()) return Fail(error, path + ": no layers");
  *model = std::move(m);
  return true;
}

bool Model::Encode(const std::string& text, std::vector<size_t>* ids,
                   std::string* error) const {
  ids->clear();
  for (const char c : text) {
    const size_t id = characters.find(c);
    if (id == std::string::npos) {
      return Fail(error, std::string("the model has no character '") + c + "'");
    }
    ids->push_back(id);
  }
  return true;
}

Session::Session(const Model& model, ffnorm::Order order)
    : model_(model), order_(order), caches_(model.layers.size()) {
  const size_t floats = model.context * model.d_model;
  for (KeyValueCache& cache : caches_) {
    cache.keys.resize(floats);
    cache.values.resize(floats);
  }
  x_.resize(floats);
  z_.resize(floats);
  a_.resize(floats);
  // All layers have the same width, and take turns: the workspace of the widest
  // hidden layer is enough for each.
  ready_ = ffnorm::Status::kOk;
  for (const Layer& layer : model.layers) {
    ffnorm::Workspace workspace;
    if (Ok(ready_)) {
      ready_ = ffnorm::Workspace::Allocate(layer.feed_forward, model.context, 1,
                                           &workspace);
    }
    if (workspace.bytes() > workspace_.bytes()) {
      workspace_ = std::move(workspace);
    }
  }
}

ffnorm::Status Session::Norm(const LayerNormWeights& weights, size_t rows,
                             const std::vector<float>& x,
                             std::vector<float>* y) const {
  const size_t width = model_.d_model;
  return ffnorm::LayerNorm(width, model_.epsilon, weights.scale, weights.offset,
                           {x.data(), rows, width}, {y->data(), rows, width},
                           model_.target);
}

// x = x + Attention(LN(x)), or LN(x + Attention(x)).
ffnorm::Status Session::Attend(const Layer& layer, size_t rows,
                               KeyValueCache* cache) {
  const bool pre = order_ == ffnorm::Order::kPreLn;
  ffnorm::Status status = ffnorm::Status::kOk;
  if (pre) status = Norm(layer.attention_norm, rows, x_, &z_);
  if (!Ok(status)) return status;
  Attention(layer.attention, model_.heads, length_, rows,
            pre ? z_.data() : x_.data(), cache, a_.data());
  for (size_t i = 0; i < rows * model_.d_model; ++i) x_[i] += a_[i];
  return pre ? status : Norm(layer.attention_norm, rows, x_, &x_);
}

ffnorm::Status Session::Read(const std::vector<size_t>& ids,
                             std::vector<float>* logits) {
  const size_t rows = ids.size();
  const size_t width = model_.d_model;
  if (!Ok(ready_)) return ready_;
  if (rows == 0 || rows > model_.context - length_) {
    return ffnorm::Status::kInvalidArgument;
  }
  for (size_t r = 0; r < rows; ++r) {
    const float* token = model_.token_embedding + ids[r] * width;
    const float* place = model_.position_embedding + (length_ + r) * width;
    for (size_t i = 0; i < width; ++i) x_[r * width + i] = token[i] + place[i];
  }

  const ffnorm::Rows x(x_.data(), rows, width);
  for (size_t i = 0; i < model_.layers.size(); ++i) {
    const Layer& layer = model_.layers[i];
    ffnorm::Status status = Attend(layer, rows, &caches_[i]);
    // The whole feed-forward half: LayerNorm, both matmuls and the residual.
    if (Ok(status)) {
      status = layer.feed_forward.Forward(order_, x, x, workspace_.Serial());
    }
    if (!Ok(status)) return status;
  }
  if (model_.final_norm.scale != nullptr) {
    const ffnorm::Status status = Norm(model_.final_norm, rows, x_, &x_);
    if (!Ok(status)) return status;
  }

  logits->resize(rows * model_.head.out);
  for (size_t r = 0; r < rows; ++r) {
    model_.head.Row(x[r], logits->data() + r * model_.head.out);
  }
  length_ += rows;
  return ffnorm::Status::kOk;
}

}  // namespace tinylm
