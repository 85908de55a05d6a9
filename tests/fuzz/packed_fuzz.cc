// Bytes that claim to be a packed block. Whatever they are, verify and open
// return a status; and what open accepts runs, with any values, without a step
// outside its memory and in bounded time. Meant to be built with ASan, kernels
// included.
//
// Input: one byte of options, one of rows, one of tasks, then the block. With
// option kRepair the header is made right around the sizes that it has, so that
// the fuzzer need not find a total size. Two more bits choose what is run.
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmath>
#include <limits>
#include <memory>
#include <new>
#include <vector>

#include "ffnorm/ffnorm.h"
#include "kernels/packed.h"
#include "tests/fuzz/fuzz_input.h"

namespace ffnorm {
namespace fuzz {
namespace {

constexpr uint8_t kRepair = 1;
constexpr uint8_t kShorten = 2;
constexpr int kCallShift = 2;

// What a run may cost: larger blocks are opened, but not run.
constexpr size_t kMostBlockBytes = 1 << 20;
constexpr size_t kMostWorkspaceBytes = 1 << 22;
constexpr size_t kMostMultiplyAdds = 1 << 17;

// Exactly sized, so that ASan sees one byte too many.
class Aligned {
 public:
  explicit Aligned(size_t bytes)
      : data_(static_cast<unsigned char*>(
            ::operator new (bytes, std::align_val_t{FFNORM_ALIGNMENT}))) {}
  unsigned char* get() { return data_.get(); }

 private:
  struct Delete {
    void operator()(unsigned char* p) const {
      ::operator delete (p, std::align_val_t{FFNORM_ALIGNMENT});
    }
  };
  std::unique_ptr<unsigned char, Delete> data_;
};

// The block with a right header around its own sizes, which are cut to what may
// be run; its values are those of the input, again and again.
std::vector<uint8_t> Repaired(const uint8_t* bytes, size_t size) {
  PackedHeader header = {};
  if (size != 0) {
    memcpy(&header, bytes, size < sizeof(header) ? size : sizeof(header));
  }
  memcpy(header.magic, kPackedMagic, sizeof(header.magic));
  header.format_version = FFNORM_FORMAT_VERSION;
  header.element_type = kElementFloat32;
  header.block_k = kBlockK;
  header.panel_width = kPanelWidth;
  header.flags &= kKnownFlags;
  if (!(header.epsilon >= 0.0f && std::isfinite(header.epsilon))) {
    header.epsilon = FFNORM_DEFAULT_EPSILON;
  }
  header.d_model = header.d_model % 300 + 1;
  header.d_ff = header.d_ff % 300 + 1;
  memset(header.reserved, 0, sizeof(header.reserved));
  PackedLayout layout;
  Require(LayoutOf(header.d_model, header.d_ff, &layout), "small sizes fit");
  header.total_bytes = layout.total_bytes;
  std::vector<uint8_t> block(layout.total_bytes);
  memcpy(block.data(), &header, sizeof(header));
  for (size_t i = sizeof(header); i < block.size(); ++i) {
    block[i] = size == 0 ? 0 : bytes[i % size];
  }
  return block;
}

// One of both orders and both layers.
ffnorm_status Run(const ffnorm_block& block, unsigned call, size_t rows,
                  size_t tasks) {
  size_t bytes = 0;
  if (ffnorm_workspace_bytes(&block, rows, tasks, &bytes) != FFNORM_OK ||
      bytes > kMostWorkspaceBytes ||
      block.d_model * block.d_ff * rows > kMostMultiplyAdds) {
    return FFNORM_OK;
  }
  Aligned workspace(bytes);
  const ffnorm_exec exec = {workspace.get(), bytes, &Reversed, nullptr, tasks};
  const size_t in = call == 3 ? block.d_ff : block.d_model;
  const size_t out = call == 2 ? block.d_ff : block.d_model;
  const std::vector<float> x(rows * in, 0.5f);
  std::vector<float> y(rows * out);
  if (call < 2) {
    return ffnorm_forward(&block, call == 0 ? FFNORM_PRE_LN : FFNORM_POST_LN,
                          rows, x.data(), in, y.data(), out, &exec);
  }
  return ffnorm_dense(&block, call == 2 ? FFNORM_DENSE_1 : FFNORM_DENSE_2,
                      FFNORM_RELU, rows, x.data(), in, y.data(), out, &exec);
}

void RunPacked(Input input) {
  static const std::vector<const ffnorm_target*> targets = Targets();
  const uint8_t options = input.Byte();
  const size_t rows = input.Byte() % 8 + 1;
  const size_t tasks = input.Byte() % 4;
  std::vector<uint8_t> bytes(input.rest(), input.rest() + input.left());
  if ((options & kRepair) != 0) bytes = Repaired(bytes.data(), bytes.size());
  if ((options & kShorten) != 0 && !bytes.empty()) bytes.pop_back();

  Aligned memory(bytes.size());
  if (!bytes.empty()) memcpy(memory.get(), bytes.data(), bytes.size());
  const ffnorm_status verified = ffnorm_verify(memory.get(), bytes.size());
  for (const ffnorm_target* target : targets) {
    ffnorm_block block = {};
    const ffnorm_status opened =
        ffnorm_open(memory.get(), bytes.size(), target, &block);
    if (opened != FFNORM_OK) {
      Require(verified == opened, "verify and open disagree on the header");
      Require(block.packed == nullptr, "a failed open wrote the block");
      continue;
    }
    Require(verified == FFNORM_OK || verified == FFNORM_CORRUPT,
            "verify's status for an opened block");
    Require((options & (kRepair | kShorten)) != (kRepair | kShorten),
            "a block that is too short was opened");
    if (block.packed_bytes > kMostBlockBytes) continue;
    Require(Run(block, options >> kCallShift & 3, rows, tasks) == FFNORM_OK,
            "an opened block does not run");
  }
  Require(
      bytes.empty() || memcmp(memory.get(), bytes.data(), bytes.size()) == 0,
      "the packed block was written to");
}

}  // namespace
}  // namespace fuzz
}  // namespace ffnorm

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  ffnorm::fuzz::RunPacked(ffnorm::fuzz::Input(data, size));
  return 0;
}
