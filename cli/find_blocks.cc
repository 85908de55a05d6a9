#include "cli/find_blocks.h"

#include <algorithm>
#include <cctype>

#include "cli/failure.h"
#include "cli/terminal.h"

namespace ffnorm_cli {
namespace {

enum class Family { kFlax, kTorch, kFairseq, kGiven };

// A way to name the tensors of a block: what the names end in. LayerNorm's are
// empty where FindNorm looks for them.
struct Scheme {
  Family family;
  std::string text;
  std::array<std::string, 6> endings;  // w1, b1, w2, b2, scale, offset
  std::optional<ffnorm_layout> layout;
};

std::vector<Scheme> KnownSchemes() {
  return {
      {Family::kFlax,
       "w1, w2, gamma, as examples/tinylm/convert.py writes them",
       {"w1", "b1", "w2", "b2", "gamma", "beta"},
       FFNORM_IN_OUT},
      {Family::kFlax,
       "Flax Linen: Dense_0, Dense_1, the last LayerNorm",
       {"Dense_0/kernel", "Dense_0/bias", "Dense_1/kernel", "Dense_1/bias", "",
        ""},
       FFNORM_IN_OUT},
      {Family::kFlax,
       "Flax Linen: Dense_0, Dense_1, the last LayerNorm",
       {"Dense_0.kernel", "Dense_0.bias", "Dense_1.kernel", "Dense_1.bias", "",
        ""},
       FFNORM_IN_OUT},
      {Family::kTorch,
       "PyTorch's nn.Transformer: linear1, linear2, the last norm",
       {"linear1.weight", "linear1.bias", "linear2.weight", "linear2.bias", "",
        ""},
       FFNORM_OUT_IN},
      {Family::kFairseq,
       "OPT and fairseq: fc1, fc2, final_layer_norm",
       {"fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias",
        "final_layer_norm.weight", "final_layer_norm.bias"},
       FFNORM_OUT_IN},
  };
}

bool EndsWith(const std::string& text, const std::string& ending) {
  return text.size() >= ending.size() &&
         text.compare(text.size() - ending.size(), ending.size(), ending) == 0;
}

bool IsSeparator(char c) { return c == '.' || c == '/'; }

// "a/b/" of "a/b/c/"; "" of "a/".
std::string Parent(const std::string& prefix) {
  size_t end = prefix.size();
  if (end != 0) --end;
  while (end != 0 && !IsSeparator(prefix[end - 1])) --end;
  return prefix.substr(0, end);
}

// Numbers by their value, so that 2 comes before 10.
bool NaturalLess(const std::string& a, const std::string& b) {
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  size_t i = 0, j = 0;
  while (i < a.size() && j < b.size()) {
    if (digit(a[i]) && digit(b[j])) {
      size_t a_end = i, b_end = j;
      while (a_end < a.size() && digit(a[a_end])) ++a_end;
      while (b_end < b.size() && digit(b[b_end])) ++b_end;
      while (i + 1 < a_end && a[i] == '0') ++i;
      while (j + 1 < b_end && b[j] == '0') ++j;
      if (a_end - i != b_end - j) return a_end - i < b_end - j;
      const int order = a.compare(i, a_end - i, b, j, b_end - j);
      if (order != 0) return order < 0;
      i = a_end;
      j = b_end;
    } else {
      if (a[i] != b[j]) return a[i] < b[j];
      ++i;
      ++j;
    }
  }
  return a.size() - i < b.size() - j;
}

const char* LayoutName(ffnorm_layout layout) {
  return layout == FFNORM_IN_OUT ? "(in, out)" : "(out, in)";
}

// Looks at one block after another.
class Finder {
 public:
  Finder(const Safetensors& file, const ModelHints& hints)
      : file_(file), hints_(hints) {}

  void Look(const Scheme& scheme) {
    for (const auto& entry : file_.tensors()) {
      const std::string& name = entry.first;
      const std::string& ending = scheme.endings[0];
      if (!EndsWith(name, ending)) continue;
      const std::string prefix = name.substr(0, name.size() - ending.size());
      if (!prefix.empty() && !IsSeparator(prefix.back()) &&
          scheme.family != Family::kGiven) {
        continue;
      }
      if (Has(prefix + scheme.endings[2])) LookAt(prefix, scheme);
    }
  }

  Found Result() {
    std::sort(found_.blocks.begin(), found_.blocks.end(),
              [](const FoundBlock& a, const FoundBlock& b) {
                return NaturalLess(a.name, b.name);
              });
    return std::move(found_);
  }

 private:
  bool Has(const std::string& name) const {
    return file_.tensors().count(name) != 0;
  }

  void LookAt(const std::string& prefix, const Scheme& scheme) {
    FoundBlock block;
    block.name = prefix;
    while (!block.name.empty() && IsSeparator(block.name.back())) {
      block.name.pop_back();
    }
    if (block.name.empty()) block.name = "block";
    block.names_text = scheme.text;
    std::string why;
    if (!FindTensors(prefix, scheme, &block, &why) ||
        !FindShape(scheme, &block, &why)) {
      found_.refused.push_back(block.name + ": " + why);
      return;
    }
    FindOrder(prefix, scheme, &block);
    FindEpsilon(scheme, &block);
    found_.blocks.push_back(block);
  }

  bool FindTensors(const std::string& prefix, const Scheme& scheme,
                   FoundBlock* block, std::string* why) const {
    std::string* const names[] = {
        &block->tensors.w1, &block->tensors.b1,    &block->tensors.w2,
        &block->tensors.b2, &block->tensors.scale, &block->tensors.offset};
    for (size_t i = 0; i < 6; ++i) {
      if (scheme.endings[i].empty()) continue;
      const std::string name = prefix + scheme.endings[i];
      if (Has(name)) {
        *names[i] = name;
      } else if (scheme.family == Family::kGiven) {
        *why = "there is no " + name;
        return false;
      }
    }
    if (scheme.family == Family::kGiven) return true;
    if (block->tensors.scale.empty()) FindNorm(prefix, scheme, block);
    if (block->tensors.scale.empty()) {
      *why = "no LayerNorm beside its two layers";
      return false;
    }
    return true;
  }

  // The last LayerNorm of the layer is the feed-forward half's. (Flax: or of
  // the module around, when Dense_0 and Dense_1 are in one of their own.)
  void FindNorm(const std::string& prefix, const Scheme& scheme,
                FoundBlock* block) const {
    const auto take = [&](const std::string& scale, const std::string& offset) {
      if (!Has(scale)) return false;
      block->tensors.scale = scale;
      if (Has(offset)) block->tensors.offset = offset;
      return true;
    };
    if (scheme.family == Family::kTorch) {
      for (const char* const norm : {"norm3.", "norm2."}) {
        if (take(prefix + norm + "weight", prefix + norm + "bias")) return;
      }
    } else if (scheme.family == Family::kFlax) {
      const char separator = scheme.endings[0][sizeof("Dense_0") - 1];
      for (const std::string& around : {prefix, Parent(prefix)}) {
        for (int i = 9; i >= 0; --i) {
          const std::string norm =
              around + "LayerNorm_" + std::to_string(i) + separator;
          if (take(norm + "scale", norm + "bias")) return;
        }
      }
    }
  }

  // Whether this tensor is a vector of `size`, or not there.
  bool Fits(const std::string& name, size_t size) const {
    return name.empty() || file_.Shape(name) == std::vector<size_t>{size};
  }

  bool FitsLayout(const FoundBlock& block, ffnorm_layout layout) const {
    std::vector<size_t> w1 = file_.Shape(block.tensors.w1);
    if (layout == FFNORM_OUT_IN) std::swap(w1[0], w1[1]);
    return Fits(block.tensors.b1, w1[1]) && Fits(block.tensors.b2, w1[0]) &&
           Fits(block.tensors.scale, w1[0]) &&
           Fits(block.tensors.offset, w1[0]);
  }

  bool FindShape(const Scheme& scheme, FoundBlock* block,
                 std::string* why) const {
    const std::vector<size_t> w1 = file_.Shape(block->tensors.w1);
    const std::vector<size_t> w2 = file_.Shape(block->tensors.w2);
    if (w1.size() != 2 || w2.size() != 2 || w1[0] != w2[1] || w1[1] != w2[0] ||
        w1[0] == 0 || w1[1] == 0) {
      *why = block->tensors.w1 + " " + ShapeText(w1) + " and " +
             block->tensors.w2 + " " + ShapeText(w2) + " are no pair of layers";
      return false;
    }
    const bool in_out = FitsLayout(*block, FFNORM_IN_OUT);
    const bool out_in = FitsLayout(*block, FFNORM_OUT_IN);
    if (!in_out && !out_in) {
      *why = "biases or LayerNorm do not fit " + block->tensors.w1 + " " +
             ShapeText(w1);
      return false;
    }
    if (in_out != out_in) {
      block->layout = in_out ? FFNORM_IN_OUT : FFNORM_OUT_IN;
      block->layout_text =
          std::string(LayoutName(*block->layout)) + ", as the shapes tell";
      if (hints_.layout.value && *hints_.layout.value != *block->layout) {
        throw Failure(file_.path() + ": " + block->tensors.w1 + " " +
                      ShapeText(w1) + " is " + LayoutName(*block->layout) +
                      ", not " + LayoutName(*hints_.layout.value));
      }
    } else if (hints_.layout.value) {
      block->layout = hints_.layout.value;
      block->layout_text =
          std::string(LayoutName(*block->layout)) + ", " + hints_.layout.source;
    } else if (scheme.layout) {
      block->layout = scheme.layout;
      block->layout_text = std::string(LayoutName(*block->layout)) +
                           ", guessed from the names, as they are square";
    } else {
      block->layout_text = "not known: give --layout in_out or out_in";
    }
    const bool turned = block->layout == FFNORM_OUT_IN;
    block->d_model = w1[turned ? 1 : 0];
    block->d_ff = w1[turned ? 0 : 1];
    return true;
  }

  void FindOrder(const std::string& prefix, const Scheme& scheme,
                 FoundBlock* block) const {
    using ffnorm::Order;
    std::string source;
    if (hints_.order.value) {
      block->order = hints_.order.value;
      source = hints_.order.source;
    } else if (scheme.family == Family::kTorch) {
      block->order = Order::kPostLn;
      source = "guessed: PyTorch's default, norm_first=False";
    } else if (scheme.family == Family::kFairseq) {
      // A stack of Pre-LN layers ends in a LayerNorm of its own.
      const std::string stack = Parent(Parent(prefix));
      block->order = Order::kPostLn;
      source = "guessed: no LayerNorm after all layers";
      for (const char* const norm : {"final_layer_norm", "layer_norm"}) {
        if (!Has(stack + norm + ".weight")) continue;
        block->order = Order::kPreLn;
        source = "guessed: there is " + stack + norm + " after all layers";
      }
    }
    block->order_text =
        block->order ? std::string(OrderName(*block->order)) + ", " + source
                     : "not known: give --order pre or post";
  }

  void FindEpsilon(const Scheme& scheme, FoundBlock* block) const {
    std::string source = hints_.epsilon.source;
    if (hints_.epsilon.value) {
      block->epsilon = *hints_.epsilon.value;
    } else if (scheme.family == Family::kTorch ||
               scheme.family == Family::kFairseq) {
      block->epsilon = 1e-5f;
      source = "guessed: PyTorch's default";
    } else {
      source = "guessed: Flax's default";
    }
    block->epsilon_text =
        Format("%g, %s", static_cast<double>(block->epsilon), source.c_str());
  }

  const Safetensors& file_;
  const ModelHints& hints_;
  Found found_;
};

}  // namespace

Found FindBlocks(const Safetensors& file, const ModelHints& hints) {
  Finder finder(file, hints);
  if (hints.names) {
    finder.Look({Family::kGiven, "given", *hints.names, std::nullopt});
  } else {
    for (const Scheme& scheme : KnownSchemes()) finder.Look(scheme);
  }
  return finder.Result();
}

const char* OrderName(ffnorm::Order order) {
  return order == ffnorm::Order::kPreLn ? "Pre-LN" : "Post-LN";
}

const char* OrderWord(ffnorm::Order order) {
  return order == ffnorm::Order::kPreLn ? "pre" : "post";
}

}  // namespace ffnorm_cli
