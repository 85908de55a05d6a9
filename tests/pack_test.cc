// The packed block: every byte of it as the format says, and nothing opened
// that is not one.
#include <cstddef>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "kernels/packed.h"
#include "kernels/shape.h"
#include "tests/buffers.h"
#include "tests/model.h"
#include "tests/random_data.h"
#include "tests/test_util.h"

namespace ffnorm {
namespace test {
namespace {

using Bytes = std::vector<unsigned char>;

Bytes PackedBytes(const ffnorm_params& params) {
  size_t bytes = 0;
  REQUIRE(ffnorm_packed_bytes(&params, &bytes) == FFNORM_OK);
  AlignedBuffer memory(bytes);
  REQUIRE(ffnorm_pack(&params, memory.data(), bytes) == FFNORM_OK);
  return Bytes(memory.data(), memory.data() + bytes);
}

PackedLayout Layout(const Model& model) {
  PackedLayout layout;
  REQUIRE(LayoutOf(model.d_model, model.d_ff, &layout));
  return layout;
}

// What the format says is in the block after the header, by the index formulas
// of kernels/shape.h. A missing vector is empty here.
std::vector<float> ExpectedFloats(const Model& model,
                                  const std::vector<float>& b1,
                                  const std::vector<float>& b2,
                                  const std::vector<float>& scale,
                                  const std::vector<float>& offset) {
  const PackedLayout layout = Layout(model);
  std::vector<float> floats(layout.total_bytes / sizeof(float), 0.0f);
  for (size_t i = 0; i < RoundUp(model.d_model, kPanelWidth); ++i) {
    floats[layout.scale + i] = i < scale.size() ? scale[i] : 1.0f;
    floats[layout.offset + i] = i < offset.size() ? offset[i] : -0.0f;
  }
  const auto pack = [&](size_t start, size_t inputs, size_t outputs,
                        const std::vector<float>& w,
                        const std::vector<float>& bias) {
    for (size_t n = 0; n < bias.size(); ++n) {
      floats[start + PanelBiasIndex(inputs, n)] = bias[n];
    }
    for (size_t k = 0; k < inputs; ++k) {
      for (size_t n = 0; n < outputs; ++n) {
        floats[start + PanelIndex(inputs, k, n)] = w[k * outputs + n];
      }
    }
  };
  pack(layout.w1, model.d_model, model.d_ff, model.w1, b1);
  pack(layout.w2, model.d_ff, model.d_model, model.w2, b2);
  return floats;
}

void CheckFloats(const Bytes& packed, const std::vector<float>& want) {
  REQUIRE(packed.size() == want.size() * sizeof(float));
  // By bytes: padding has a sign, and NaNs keep their payload.
  CHECK(memcmp(packed.data() + sizeof(PackedHeader),
               reinterpret_cast<const unsigned char*>(want.data()) +
                   sizeof(PackedHeader),
               packed.size() - sizeof(PackedHeader)) == 0);
}

ffnorm_status OpenStatus(const AlignedBuffer& memory, size_t bytes) {
  ffnorm_block block = {};
  return ffnorm_open(memory.data(), bytes, TargetsUnderTest().front(), &block);
}

// A copy of the model's block with one header field replaced.
template <class Value>
AlignedBuffer WithField(const Model& model, size_t offset, Value value) {
  AlignedBuffer copy(model.packed.bytes());
  memcpy(copy.data(), model.packed.data(), copy.bytes());
  memcpy(copy.data() + offset, &value, sizeof(value));
  return copy;
}

}  // namespace

TEST_SUITE_BEGIN("pack");

TEST_CASE("pack: the index formulas") {
  // By hand from the picture in kernels/shape.h: panels of 32 columns, bias
  // first, then one line for each k.
  CHECK(PanelBiasIndex(10, 0) == 0);
  CHECK(PanelBiasIndex(10, 31) == 31);
  CHECK(PanelIndex(10, 0, 0) == 32);
  CHECK(PanelIndex(10, 1, 2) == 66);
  CHECK(PanelBiasIndex(10, 32) == 11 * 32);
  CHECK(PanelIndex(10, 9, 33) == 11 * 32 + 10 * 32 + 1);
}

TEST_CASE("pack: every float is where the format says") {
  for (const size_t d_model : {1, 2, 31, 32, 33, 64, 65, 100}) {
    for (const size_t d_ff : {1, 5, 32, 63, 96, 257}) {
      CAPTURE(d_model);
      CAPTURE(d_ff);
      Model model(d_model, d_ff);
      model.w1[0] = FromBits(0xffc12345);  // a NaN with a payload
      model.w2.back() = -0.0f;
      CheckFloats(
          PackedBytes(model.Params()),
          ExpectedFloats(model, model.b1, model.b2, model.scale, model.offset));
      model.has_bias = false;
      model.has_affine = false;
      CheckFloats(PackedBytes(model.Params()),
                  ExpectedFloats(model, {}, {}, {}, {}));
    }
  }
}

TEST_CASE("pack: the header") {
  Model model(33, 70);
  model.epsilon = 1e-5f;
  model.Pack();
  PackedHeader header;
  memcpy(&header, model.packed.data(), sizeof(header));
  CHECK(memcmp(header.magic, "FFNORM\r\n", 8) == 0);
  CHECK(header.format_version == FFNORM_FORMAT_VERSION);
  CHECK(header.element_type == kElementFloat32);
  CHECK(header.block_k == kBlockK);
  CHECK(header.panel_width == kPanelWidth);
  CHECK(header.flags == (kFiniteW1 | kFiniteW2));
  CHECK(header.epsilon == 1e-5f);
  CHECK(header.d_model == 33);
  CHECK(header.d_ff == 70);
  CHECK(header.total_bytes == model.packed.bytes());
  const Bytes zeros(sizeof(header.reserved), 0);
  CHECK(memcmp(header.reserved, zeros.data(), zeros.size()) == 0);
}

// As the table in kernels/CONTRACT.md has them; blocks in files rely on it.
TEST_CASE("pack: the header's fields stay where they are") {
  CHECK(offsetof(PackedHeader, magic) == 0);
  CHECK(offsetof(PackedHeader, format_version) == 8);
  CHECK(offsetof(PackedHeader, element_type) == 12);
  CHECK(offsetof(PackedHeader, block_k) == 16);
  CHECK(offsetof(PackedHeader, panel_width) == 20);
  CHECK(offsetof(PackedHeader, flags) == 24);
  CHECK(offsetof(PackedHeader, epsilon) == 28);
  CHECK(offsetof(PackedHeader, d_model) == 32);
  CHECK(offsetof(PackedHeader, d_ff) == 40);
  CHECK(offsetof(PackedHeader, total_bytes) == 48);
  CHECK(offsetof(PackedHeader, checksum) == 56);
  CHECK(offsetof(PackedHeader, reserved) == 64);
  const PackedLayout layout = Layout(Model(33, 70));
  CHECK(layout.scale == 32);
  CHECK(layout.offset == 32 + 64);
  CHECK(layout.w1 == 32 + 2 * 64);
  CHECK(layout.w2 == 32 + 2 * 64 + 3 * 34 * 32);
  CHECK(layout.total_bytes == 4 * (32 + 2 * 64 + 3 * 34 * 32 + 2 * 71 * 32));
}

TEST_CASE("pack: the flags say which matrix is finite") {
  const float inf = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const float bad : {inf, -inf, nan}) {
    // Every column once: a flag must see the tail of a panel too.
    for (size_t column = 0; column < 35; ++column) {
      CAPTURE(bad);
      CAPTURE(column);
      Model model(3, 35);
      model.w1[35 + column] = bad;
      model.Pack();
      CHECK(model.Opened(TargetsUnderTest().front()).flags == kFiniteW2);
      model.w1[35 + column] = 3e38f;  // huge, but finite
      model.w2[column * 3] = bad;
      model.Pack();
      CHECK(model.Opened(TargetsUnderTest().front()).flags == kFiniteW1);
    }
  }
}

TEST_CASE("pack: little more than the plain weights") {
  for (const auto& shape : {std::pair<size_t, size_t>{512, 2048},
                            std::pair<size_t, size_t>{768, 3072},
                            std::pair<size_t, size_t>{1024, 4096}}) {
    const ffnorm_params params =
        ffnorm_default_params(shape.first, shape.second);
    size_t bytes = 0;
    REQUIRE(ffnorm_packed_bytes(&params, &bytes) == FFNORM_OK);
    const size_t plain =
        (2 * shape.first * shape.second + shape.second + 3 * shape.first) *
        sizeof(float);
    CHECK(bytes >= plain);
    CHECK(static_cast<double>(bytes) <= 1.02 * static_cast<double>(plain));
  }
}

TEST_CASE("pack: what was in the memory does not matter, what follows stays") {
  const Model model(33, 70);
  const ffnorm_params params = model.Params();
  const size_t bytes = model.packed.bytes();
  for (const int fill : {0x00, 0xff, 0xa5}) {
    AlignedBuffer memory(bytes + 192);
    memset(memory.data(), fill, memory.bytes());
    REQUIRE(ffnorm_pack(&params, memory.data(), memory.bytes()) == FFNORM_OK);
    CHECK(memcmp(memory.data(), model.packed.data(), bytes) == 0);
    size_t changed = 0;
    for (size_t i = bytes; i < memory.bytes(); ++i) {
      if (memory.data()[i] != fill) ++changed;
    }
    CHECK(changed == 0);
  }
}

TEST_CASE("pack: both layouts and any stride give the same bytes") {
  for (const size_t d_model : {1, 7, 32, 45}) {
    for (const size_t d_ff : {1, 33, 64, 100}) {
      for (const size_t gap : {0, 1, 13}) {
        CAPTURE(d_model);
        CAPTURE(d_ff);
        CAPTURE(gap);
        const Model model(d_model, d_ff);
        const Bytes want(model.packed.data(),
                         model.packed.data() + model.packed.bytes());

        ffnorm_params params = model.Params();
        StridedMatrix w1(d_model, d_ff, d_ff + gap, model.w1.data());
        StridedMatrix w2(d_ff, d_model, d_model + gap, model.w2.data());
        params.w1 = w1.data();
        params.w1_stride = w1.stride();
        params.w2 = w2.data();
        params.w2_stride = w2.stride();
        CHECK(PackedBytes(params) == want);

        const std::vector<float> w1_t = Transposed(d_model, d_ff, model.w1);
        const std::vector<float> w2_t = Transposed(d_ff, d_model, model.w2);
        StridedMatrix s1(d_ff, d_model, d_model + gap, w1_t.data());
        StridedMatrix s2(d_model, d_ff, d_ff + gap, w2_t.data());
        params.layout = FFNORM_OUT_IN;
        params.w1 = s1.data();
        params.w1_stride = gap == 0 ? 0 : s1.stride();
        params.w2 = s2.data();
        params.w2_stride = gap == 0 ? 0 : s2.stride();
        CHECK(PackedBytes(params) == want);
      }
    }
  }
}

TEST_CASE("pack: parameters are read inside their arrays only") {
  for (const size_t d_model : {1, 5, 32, 37}) {
    for (const size_t d_ff : {1, 31, 33, 64}) {
      const Model model(d_model, d_ff);
      for (const auto edge : {GuardedBuffer::kEnd, GuardedBuffer::kBegin}) {
        const GuardedBuffer w1(model.w1, edge);
        const GuardedBuffer b1(model.b1, edge);
        const GuardedBuffer w2(model.w2, edge);
        const GuardedBuffer b2(model.b2, edge);
        const GuardedBuffer scale(model.scale, edge);
        const GuardedBuffer offset(model.offset, edge);
        ffnorm_params params = model.Params();
        params.w1 = w1.data();
        params.b1 = b1.data();
        params.w2 = w2.data();
        params.b2 = b2.data();
        params.scale = scale.data();
        params.offset = offset.data();
        const Bytes got = PackedBytes(params);
        CHECK(memcmp(got.data(), model.packed.data(), got.size()) == 0);
      }
    }
  }
}

TEST_CASE("pack: a block may be moved, and keeps copies") {
  ForEachTarget([](const ffnorm_target* target) {
    Model model(40, 150);
    const std::vector<float> x = model.Input(6);
    const std::vector<float> want = model.Forward(target, FFNORM_PRE_LN, 6, x);

    const size_t bytes = model.packed.bytes();
    AlignedBuffer elsewhere(bytes + 64);
    memcpy(elsewhere.data() + 64, model.packed.data(), bytes);
    memmove(elsewhere.data(), elsewhere.data() + 64, bytes);
    model.packed.Poison();
    for (auto* values : {&model.w1, &model.b1, &model.w2, &model.b2,
                         &model.scale, &model.offset}) {
      FillNaN(values->data(), values->size());
    }

    const ffnorm_block block = OpenedOn(elsewhere.data(), bytes, target);
    CHECK(ffnorm_verify(elsewhere.data(), bytes) == FFNORM_OK);
    Workspace workspace(block, 6);
    std::vector<float> y(x.size());
    REQUIRE(ffnorm_forward(&block, FFNORM_PRE_LN, 6, x.data(), 40, y.data(), 40,
                           workspace.Exec()) == FFNORM_OK);
    CheckSameBits(y, want);
  });
}

TEST_CASE("pack: open tells what is in the block") {
  Model model(40, 150);
  model.epsilon = 0.5f;
  model.Pack();
  ForEachTarget([&](const ffnorm_target* target) {
    const ffnorm_block block = model.Opened(target);
    CHECK(block.packed == model.packed.data());
    CHECK(block.packed_bytes == model.packed.bytes());
    CHECK(block.d_model == 40);
    CHECK(block.d_ff == 150);
    CHECK(block.epsilon == 0.5f);
  });
}

// Only the header can be read here: reading a single weight would crash.
TEST_CASE("pack: open reads the header alone") {
  const Model model(64, 128);
  std::vector<float> header(sizeof(PackedHeader) / sizeof(float));
  memcpy(header.data(), model.packed.data(), sizeof(PackedHeader));
  const GuardedBuffer memory(header, GuardedBuffer::kEnd);
  ffnorm_block block = {};
  CHECK(ffnorm_open(memory.data(), model.packed.bytes(),
                    TargetsUnderTest().front(), &block) == FFNORM_OK);
}

TEST_CASE("pack: every flipped bit of the header is found") {
  const Model model(33, 70);
  AlignedBuffer copy(model.packed.bytes());
  memcpy(copy.data(), model.packed.data(), copy.bytes());
  for (size_t i = 0; i < sizeof(PackedHeader); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      CAPTURE(i);
      CAPTURE(bit);
      copy.data()[i] ^= static_cast<unsigned char>(1 << bit);
      CHECK(ffnorm_verify(copy.data(), copy.bytes()) != FFNORM_OK);
      // What open cannot tell from a right value, only verify finds.
      const bool plausible =
          (i >= offsetof(PackedHeader, epsilon) &&
           i < offsetof(PackedHeader, epsilon) + sizeof(float)) ||
          (i >= offsetof(PackedHeader, checksum) &&
           i < offsetof(PackedHeader, checksum) + sizeof(uint64_t)) ||
          (i == offsetof(PackedHeader, flags) && (1u << bit) <= kFiniteW2);
      if (!plausible) CHECK(OpenStatus(copy, copy.bytes()) != FFNORM_OK);
      copy.data()[i] ^= static_cast<unsigned char>(1 << bit);
    }
  }
  CHECK(ffnorm_verify(copy.data(), copy.bytes()) == FFNORM_OK);
  CHECK(OpenStatus(copy, copy.bytes()) == FFNORM_OK);
}

TEST_CASE("pack: every flipped bit of the values is found by verify") {
  const Model model(3, 5);
  AlignedBuffer copy(model.packed.bytes());
  memcpy(copy.data(), model.packed.data(), copy.bytes());
  size_t unnoticed = 0;
  for (size_t i = sizeof(PackedHeader); i < copy.bytes(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      copy.data()[i] ^= static_cast<unsigned char>(1 << bit);
      if (ffnorm_verify(copy.data(), copy.bytes()) != FFNORM_CORRUPT) {
        ++unnoticed;
      }
      copy.data()[i] ^= static_cast<unsigned char>(1 << bit);
    }
  }
  CHECK(unnoticed == 0);
  CHECK(ffnorm_verify(copy.data(), copy.bytes()) == FFNORM_OK);
}

TEST_CASE("pack: exchanged values are found by verify") {
  // Two floats a lane of the checksum apart, and far apart.
  for (const size_t distance : {1, 2, 8, 32, 64, 96}) {
    CAPTURE(distance);
    const Model model(33, 70);
    AlignedBuffer copy(model.packed.bytes());
    memcpy(copy.data(), model.packed.data(), copy.bytes());
    float* w1 = copy.floats() + Layout(model).w1 + kPanelWidth;
    REQUIRE(Bits(w1[0]) != Bits(w1[distance]));
    std::swap(w1[0], w1[distance]);
    CHECK(ffnorm_verify(copy.data(), copy.bytes()) == FFNORM_CORRUPT);
  }
}

TEST_CASE("pack: a truncated block is corrupt") {
  const Model model(3, 5);
  const size_t total = model.packed.bytes();
  size_t accepted = 0;
  for (size_t bytes = 0; bytes < total; ++bytes) {
    if (OpenStatus(model.packed, bytes) != FFNORM_CORRUPT) ++accepted;
    if (ffnorm_verify(model.packed.data(), bytes) != FFNORM_CORRUPT) {
      ++accepted;
    }
  }
  CHECK(accepted == 0);
  // Nothing past the given bytes is read, not even of the header.
  for (const size_t bytes : {size_t{0}, size_t{64}, size_t{128}, total - 64}) {
    std::vector<float> values(bytes / sizeof(float));
    if (bytes != 0) memcpy(values.data(), model.packed.data(), bytes);
    const GuardedBuffer memory(values, GuardedBuffer::kEnd);
    CHECK(ffnorm_verify(memory.data(), bytes) == FFNORM_CORRUPT);
  }
}

TEST_CASE("pack: what is no block, or a newer one") {
  const Model model(33, 70);
  const auto status = [](const AlignedBuffer& memory) {
    const ffnorm_status opened = OpenStatus(memory, memory.bytes());
    CHECK(ffnorm_verify(memory.data(), memory.bytes()) == opened);
    return opened;
  };
  AlignedBuffer zeros(model.packed.bytes());
  memset(zeros.data(), 0, zeros.bytes());
  CHECK(status(zeros) == FFNORM_CORRUPT);
  AlignedBuffer ones(model.packed.bytes());
  memset(ones.data(), 0xff, ones.bytes());
  CHECK(status(ones) == FFNORM_CORRUPT);

  using Header = PackedHeader;
  CHECK(status(WithField(model, offsetof(Header, format_version),
                         uint32_t{FFNORM_FORMAT_VERSION + 1})) ==
        FFNORM_UNSUPPORTED);
  CHECK(status(WithField(model, offsetof(Header, element_type),
                         uint32_t{kElementFloat32 + 1})) == FFNORM_UNSUPPORTED);
  CHECK(status(WithField(model, offsetof(Header, block_k), uint32_t{512})) ==
        FFNORM_CORRUPT);
  for (const float epsilon : {-1e-6f, std::numeric_limits<float>::infinity(),
                              std::numeric_limits<float>::quiet_NaN()}) {
    CHECK(status(WithField(model, offsetof(Header, epsilon), epsilon)) ==
          FFNORM_CORRUPT);
  }
  // Sizes whose products wrap around, some to the size that is really there.
  for (const uint64_t size :
       {uint64_t{0}, uint64_t{1} << 32, uint64_t{1} << 62,
        (uint64_t{1} << 62) + 33, ~uint64_t{0}, ~uint64_t{0} - 31}) {
    CAPTURE(size);
    CHECK(status(WithField(model, offsetof(Header, d_model), size)) ==
          FFNORM_CORRUPT);
    CHECK(status(WithField(model, offsetof(Header, d_ff), size)) ==
          FFNORM_CORRUPT);
    CHECK(status(WithField(model, offsetof(Header, total_bytes), size)) ==
          FFNORM_CORRUPT);
  }
}

TEST_SUITE_END();

}  // namespace test
}  // namespace ffnorm
