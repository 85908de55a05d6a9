#include <algorithm>
#include <filesystem>
#include <set>
#include <system_error>

#include "cli/commands.h"
#include "cli/failure.h"
#include "cli/find_blocks.h"
#include "cli/output_file.h"
#include "cli/terminal.h"

namespace ffnorm_cli {
namespace {

// A name for a file, whatever the tensors are called: no folders, no spaces,
// not hidden.
std::string FileStem(const std::string& name) {
  std::string stem;
  for (const char c : name) {
    const bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
                       (c >= 'A' && c <= 'Z') || c == '-' || c == '_';
    const bool dot = (c == '.' || c == '/') && !stem.empty();
    stem += plain ? c : dot ? '.' : '_';
  }
  return stem;
}

// One for each block, no two the same.
std::vector<std::string> FileNames(const std::vector<FoundBlock>& blocks) {
  std::vector<std::string> names;
  std::set<std::string> taken;
  for (const FoundBlock& block : blocks) {
    const std::string stem = FileStem(block.name);
    const std::string ending = std::string(".") +
                               (block.order ? OrderWord(*block.order) : "?") +
                               ".ffnorm";
    std::string name = stem + ending;
    for (int i = 2; !taken.insert(name).second; ++i) {
      name = stem + "-" + std::to_string(i) + ending;
    }
    names.push_back(name);
  }
  return names;
}

// Each different text once, under its label.
void PrintTexts(const char* label, const std::vector<FoundBlock>& blocks,
                std::string FoundBlock::*text) {
  std::vector<std::string> printed;
  for (const FoundBlock& block : blocks) {
    const std::string& line = block.*text;
    if (std::count(printed.begin(), printed.end(), line) != 0) continue;
    std::printf("  %-11s %s\n", printed.empty() ? label : "",
                Printable(line).c_str());
    printed.push_back(line);
  }
}

void PrintSettings(const std::string& model, const ModelHints& hints,
                   const Found& found) {
  const std::vector<FoundBlock>& blocks = found.blocks;
  std::printf("%s: %zu block%s\n", Printable(model).c_str(), blocks.size(),
              blocks.size() == 1 ? "" : "s");
  PrintTexts("names", blocks, &FoundBlock::names_text);
  PrintTexts("weights", blocks, &FoundBlock::layout_text);
  PrintTexts("order", blocks, &FoundBlock::order_text);
  PrintTexts("epsilon", blocks, &FoundBlock::epsilon_text);
  std::printf("  %-11s %s\n", "activation", hints.activation_text.c_str());
  for (const std::string& why : found.refused) {
    std::printf("  left out    %s\n", Printable(why).c_str());
  }
}

// A tensor's name without what the block's names start with.
std::string ShortName(const FoundBlock& block, const std::string& name) {
  const bool inside = name.compare(0, block.name.size(), block.name) == 0;
  return Printable(inside ? name.substr(block.name.size() + 1) : name);
}

void PrintList(const std::vector<FoundBlock>& blocks) {
  size_t width = sizeof("block") - 1;
  for (const FoundBlock& block : blocks) {
    width = std::max(width, block.name.size());
  }
  const int name_width = static_cast<int>(std::min<size_t>(width, 60));
  std::printf("\n  %-*s  d_model    d_ff  order    weights\n", name_width,
              "block");
  for (const FoundBlock& block : blocks) {
    std::printf("  %-*s  %7zu %7zu  %-7s  %s, %s\n", name_width,
                Printable(block.name).c_str(), block.d_model, block.d_ff,
                block.order ? OrderName(*block.order) : "?",
                ShortName(block, block.tensors.w1).c_str(),
                ShortName(block, block.tensors.w2).c_str());
  }
}

[[noreturn]] void FailNoBlocks(const Safetensors& file, const Found& found) {
  const std::string text = file.path() + ": no feed-forward block found ";
  if (!found.refused.empty())
    throw Failure(text + "(" + found.refused[0] + ")");
  throw Failure(text + "among " + std::to_string(file.tensors().size()) +
                " tensors (--names tells what they are called)");
}

// All that can be known before anything is written.
void Require(const Safetensors& file, const std::vector<FoundBlock>& blocks) {
  for (const FoundBlock& block : blocks) {
    for (const std::string* const setting :
         {&block.order_text, &block.layout_text}) {
      const bool order = setting == &block.order_text;
      if (order ? block.order.has_value() : block.layout.has_value()) continue;
      throw Failure(file.path() + ": the " + (order ? "order" : "layout") +
                        " of " + block.name + " is " + *setting,
                    kUsage);
    }
    const TensorNames& t = block.tensors;
    std::string error;
    for (const std::string& name :
         {t.w1, t.b1, t.w2, t.b2, t.scale, t.offset}) {
      if (!name.empty() && !file.CanRead(name, &error)) throw Failure(error);
    }
  }
}

ffnorm::PackedWeights PackBlock(const Safetensors& file,
                                const FoundBlock& block) {
  const auto read = [&](const std::string& name, std::vector<float>* values) {
    std::string error;
    if (name.empty()) return static_cast<const float*>(nullptr);
    if (!file.Read(name, file.Shape(name), values, &error)) {
      throw Failure(error);
    }
    return static_cast<const float*>(values->data());
  };
  std::vector<float> w1, b1, w2, b2, scale, offset;
  ffnorm::Params params = ffnorm::DefaultParams(block.d_model, block.d_ff);
  params.layout = *block.layout;
  params.epsilon = block.epsilon;
  params.w1 = read(block.tensors.w1, &w1);
  params.b1 = read(block.tensors.b1, &b1);
  params.w2 = read(block.tensors.w2, &w2);
  params.b2 = read(block.tensors.b2, &b2);
  params.scale = read(block.tensors.scale, &scale);
  params.offset = read(block.tensors.offset, &offset);
  ffnorm::PackedWeights packed;
  const ffnorm::Status status = ffnorm::PackedWeights::Pack(params, &packed);
  if (!Ok(status)) {
    throw Failure(file.path() + ": " + block.name + ": " + Message(status));
  }
  return packed;
}

void MakeFolder(const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw Failure(folder + ": cannot be made: " + error.message());
}

}  // namespace

void Pack(const PackOptions& options) {
  Safetensors file;
  std::string error;
  if (!Safetensors::Open(options.model, &file, &error)) throw Failure(error);
  const ModelHints hints = CollectHints(file, options.given);
  const Found found = FindBlocks(file, hints);
  const std::vector<FoundBlock>& blocks = found.blocks;
  if (blocks.empty()) FailNoBlocks(file, found);
  if (options.list) {
    PrintSettings(options.model, hints, found);
    PrintList(blocks);
    return;
  }
  Require(file, blocks);
  MakeFolder(options.folder);
  PrintSettings(options.model, hints, found);

  const std::vector<std::string> names = FileNames(blocks);
  Progress progress;
  for (size_t i = 0; i < blocks.size(); ++i) {
    const auto show = [&](double part) {
      progress.Show(
          (static_cast<double>(i) + part) / static_cast<double>(blocks.size()),
          names[i]);
    };
    show(0.0);
    const ffnorm::PackedWeights packed = PackBlock(file, blocks[i]);
    show(0.5);
    const std::string path = (std::filesystem::path(options.folder) / names[i])
                                 .lexically_normal()
                                 .string();
    OutputFile output(path);
    output.Write(packed.data(), packed.bytes());
    output.Commit();
    progress.Clear();
    std::printf("  wrote %s (d_model %zu, d_ff %zu, %s)\n", path.c_str(),
                blocks[i].d_model, blocks[i].d_ff,
                BytesText(static_cast<double>(packed.bytes())).c_str());
    std::fflush(stdout);
  }
}

}  // namespace ffnorm_cli
