// Weights into a packed block, and a packed block opened: ffnorm_packed_bytes,
// ffnorm_pack, ffnorm_open, ffnorm_verify. Copies only, so no SIMD: the copies
// of 32 floats compile to vector moves, and packing runs at the speed of
// memory.
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "ffnorm/ffnorm.h"
#include "kernels/check.h"
#include "kernels/cpu.h"
#include "kernels/dense_ref.h"
#include "kernels/layer_norm_ref.h"
#include "kernels/packed.h"
#include "kernels/shape.h"
#include "kernels/target.h"

namespace ffnorm {
namespace {

// Four independent multiply chains, since one alone waits for its latency: 3.4
// against 11 GB/s. Each multiplier is odd, so a step loses no information.
uint64_t Checksum(const unsigned char* bytes, size_t size) {
  constexpr uint64_t kMultiplier = 0x9E3779B97F4A7C15u;
  uint64_t lanes[4] = {1, 2, 3, 4};
  for (size_t i = 0; i < size; i += sizeof(lanes)) {
    uint64_t words[4];
    memcpy(words, bytes + i, sizeof(words));
    for (size_t j = 0; j < 4; ++j) {
      const uint64_t mixed = (lanes[j] ^ words[j]) * kMultiplier;
      lanes[j] = mixed ^ (mixed >> 32);
    }
  }
  uint64_t sum = size;
  for (const uint64_t lane : lanes) {
    const uint64_t mixed = (sum ^ lane) * kMultiplier;
    sum = mixed ^ (mixed >> 29);
  }
  return sum;
}

// The block's checksum as the header should state it.
uint64_t BlockChecksum(const unsigned char* block, const PackedHeader& header) {
  PackedHeader unsealed = header;
  unsealed.checksum = 0;
  unsigned char head[sizeof(PackedHeader)];
  memcpy(head, &unsealed, sizeof(head));
  const uint64_t body = Checksum(block + sizeof(PackedHeader),
                                 header.total_bytes - sizeof(PackedHeader));
  memcpy(head + offsetof(PackedHeader, checksum), &body, sizeof(body));
  return Checksum(head, sizeof(head));
}

// 1 for Inf and NaN, else 0; on the bits, so that a loop of it vectorizes.
uint32_t IsNotFinite(float v) {
  uint32_t bits;
  memcpy(&bits, &v, sizeof(bits));
  return (bits & 0x7F800000u) == 0x7F800000u ? 1u : 0u;
}

// All panels of one matrix. Returns whether every weight is finite.
bool PackPanels(const DenseWeights& dense, float* panels) {
  uint32_t not_finite = 0;
  for (size_t n0 = 0; n0 < dense.outputs; n0 += kPanelWidth) {
    const size_t left = dense.outputs - n0;
    const size_t columns = left < kPanelWidth ? left : kPanelWidth;
    float* panel = panels + n0 / kPanelWidth * PanelFloats(dense.inputs);
    memset(panel, 0, kPanelWidth * sizeof(float));
    if (dense.bias != nullptr) {
      memcpy(panel, dense.bias + n0, columns * sizeof(float));
    }
    for (size_t k = 0; k < dense.inputs; ++k) {
      float* to = panel + (k + 1) * kPanelWidth;
      const float* from =
          dense.w + k * dense.input_stride + n0 * dense.output_stride;
      if (columns == kPanelWidth && dense.output_stride == 1) {
        memcpy(to, from, kPanelWidth * sizeof(float));
      } else {
        memset(to, 0, kPanelWidth * sizeof(float));
        for (size_t j = 0; j < columns; ++j) {
          to[j] = from[j * dense.output_stride];
        }
      }
      for (size_t j = 0; j < kPanelWidth; ++j) not_finite |= IsNotFinite(to[j]);
    }
  }
  return not_finite == 0;
}

void PackVector(const float* from, size_t n, float missing, float* to) {
  for (size_t i = 0; i < RoundUp(n, kPanelWidth); ++i) {
    to[i] = from != nullptr && i < n ? from[i] : missing;
  }
}

// The header and sizes of a packed block; the values are taken on trust.
ffnorm_status ReadHeader(const void* memory, size_t bytes,
                         PackedHeader* header) {
  if (memory == nullptr || !IsAligned(memory, kAlignment)) {
    return FFNORM_INVALID_ARGUMENT;
  }
  if (!IsLittleEndian()) return FFNORM_UNSUPPORTED;
  if (bytes < sizeof(PackedHeader)) return FFNORM_CORRUPT;
  memcpy(header, memory, sizeof(PackedHeader));
  if (memcmp(header->magic, kPackedMagic, sizeof(kPackedMagic)) != 0) {
    return FFNORM_CORRUPT;
  }
  if (header->format_version != FFNORM_FORMAT_VERSION ||
      header->element_type != kElementFloat32) {
    return FFNORM_UNSUPPORTED;
  }
  for (const uint8_t byte : header->reserved) {
    if (byte != 0) return FFNORM_CORRUPT;
  }
  if (header->block_k != kBlockK || header->panel_width != kPanelWidth ||
      (header->flags & ~kKnownFlags) != 0 || !IsEpsilon(header->epsilon) ||
      header->d_model == 0 || header->d_ff == 0) {
    return FFNORM_CORRUPT;
  }
  const size_t d_model = static_cast<size_t>(header->d_model);
  const size_t d_ff = static_cast<size_t>(header->d_ff);
  PackedLayout layout;
  if (d_model != header->d_model || d_ff != header->d_ff ||
      !LayoutOf(d_model, d_ff, &layout) ||
      header->total_bytes != layout.total_bytes || bytes < layout.total_bytes) {
    return FFNORM_CORRUPT;
  }
  return FFNORM_OK;
}

}  // namespace
}  // namespace ffnorm

extern "C" {

ffnorm_params ffnorm_default_params(size_t d_model, size_t d_ff) {
  ffnorm_params params = {};
  params.d_model = d_model;
  params.d_ff = d_ff;
  params.layout = FFNORM_IN_OUT;
  params.epsilon = FFNORM_DEFAULT_EPSILON;
  return params;
}

ffnorm_status ffnorm_packed_bytes(const ffnorm_params* params, size_t* bytes) {
  if (bytes == nullptr) return FFNORM_INVALID_ARGUMENT;
  const ffnorm_status status = ffnorm::CheckSizes(params);
  if (status != FFNORM_OK) return status;
  ffnorm::PackedLayout layout;
  if (!ffnorm::LayoutOf(params->d_model, params->d_ff, &layout)) {
    return FFNORM_SIZE_OVERFLOW;
  }
  *bytes = layout.total_bytes;
  return FFNORM_OK;
}

ffnorm_status ffnorm_pack(const ffnorm_params* params, void* memory,
                          size_t bytes) {
  using namespace ffnorm;
  const ffnorm_status status = CheckParams(params);
  if (status != FFNORM_OK) return status;
  if (memory == nullptr || !IsAligned(memory, kAlignment)) {
    return FFNORM_INVALID_ARGUMENT;
  }
  PackedLayout layout;
  if (!LayoutOf(params->d_model, params->d_ff, &layout)) {
    return FFNORM_SIZE_OVERFLOW;
  }
  if (!IsLittleEndian()) return FFNORM_UNSUPPORTED;
  if (bytes < layout.total_bytes) return FFNORM_MEMORY_TOO_SMALL;
  if (ParamsOverlap(*params, memory, layout.total_bytes)) {
    return FFNORM_INVALID_ARGUMENT;
  }

  float* floats = static_cast<float*>(memory);
  PackVector(params->scale, params->d_model, kNoScale.values[0],
             floats + layout.scale);
  PackVector(params->offset, params->d_model, kNoOffset.values[0],
             floats + layout.offset);
  const bool finite1 =
      PackPanels(LayerWeights(*params, FFNORM_DENSE_1), floats + layout.w1);
  const bool finite2 =
      PackPanels(LayerWeights(*params, FFNORM_DENSE_2), floats + layout.w2);

  PackedHeader header = {};
  memcpy(header.magic, kPackedMagic, sizeof(kPackedMagic));
  header.format_version = FFNORM_FORMAT_VERSION;
  header.element_type = kElementFloat32;
  header.block_k = kBlockK;
  header.panel_width = kPanelWidth;
  header.flags = (finite1 ? kFiniteW1 : 0) | (finite2 ? kFiniteW2 : 0);
  header.epsilon = params->epsilon;
  header.d_model = params->d_model;
  header.d_ff = params->d_ff;
  header.total_bytes = layout.total_bytes;
  header.checksum =
      BlockChecksum(static_cast<const unsigned char*>(memory), header);
  memcpy(memory, &header, sizeof(header));
  return FFNORM_OK;
}

ffnorm_status ffnorm_open(const void* memory, size_t bytes,
                          const ffnorm_target* target, ffnorm_block* block) {
  if (block == nullptr) return FFNORM_INVALID_ARGUMENT;
  ffnorm::PackedHeader header;
  ffnorm_status status = ffnorm::ReadHeader(memory, bytes, &header);
  if (status == FFNORM_OK) status = ffnorm::DefaultTarget(&target);
  if (status != FFNORM_OK) return status;
  block->target = target;
  block->packed = static_cast<const unsigned char*>(memory);
  block->packed_bytes = static_cast<size_t>(header.total_bytes);
  block->d_model = static_cast<size_t>(header.d_model);
  block->d_ff = static_cast<size_t>(header.d_ff);
  block->epsilon = header.epsilon;
  block->flags = header.flags;
  block->cpu = ffnorm::TraitsOfThisCpu();
  return FFNORM_OK;
}

ffnorm_status ffnorm_verify(const void* memory, size_t bytes) {
  ffnorm::PackedHeader header;
  const ffnorm_status status = ffnorm::ReadHeader(memory, bytes, &header);
  if (status != FFNORM_OK) return status;
  const uint64_t checksum =
      ffnorm::BlockChecksum(static_cast<const unsigned char*>(memory), header);
  return checksum == header.checksum ? FFNORM_OK : FFNORM_CORRUPT;
}

}  // extern "C"
