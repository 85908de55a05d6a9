// Version, status texts, targets by name, and bad arguments to the functions
// around a packed block: the right status from each, outputs untouched, nothing
// printed. With and without NDEBUG.
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <functional>
#include <iterator>
#include <limits>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/buffers.h"
#include "tests/model.h"
#include "tests/outcome.h"
#include "tests/test_util.h"

namespace ffnorm {
namespace test {
namespace {

constexpr ffnorm_status kAllStatuses[] = {FFNORM_OK,
                                          FFNORM_INVALID_ARGUMENT,
                                          FFNORM_UNSUPPORTED,
                                          FFNORM_CORRUPT,
                                          FFNORM_SIZE_OVERFLOW,
                                          FFNORM_MEMORY_TOO_SMALL,
                                          FFNORM_WORKSPACE_TOO_SMALL};

constexpr size_t kModel = 6;
constexpr size_t kHidden = 9;
constexpr size_t kUntouched = 4711;

template <typename T>
T* Shifted(T* pointer, size_t bytes) {
  return reinterpret_cast<T*>(reinterpret_cast<uintptr_t>(pointer) + bytes);
}

// Arguments of ffnorm_pack, good ones to begin with.
struct Pack {
  ffnorm_params params;
  const ffnorm_params* pointer = &params;
  void* memory;
  size_t bytes;
};

struct BadPack {
  std::string what;
  ffnorm_status want;
  std::function<void(Pack&)> spoil;
};

// Wrong in the parameters themselves: for the reference as well.
std::vector<BadPack> BadParams() {
  constexpr ffnorm_status kInvalid = FFNORM_INVALID_ARGUMENT;
  constexpr ffnorm_status kOverflow = FFNORM_SIZE_OVERFLOW;
  std::vector<BadPack> bad = {
      {"params NULL", kInvalid, [](Pack& p) { p.pointer = nullptr; }},
      {"d_model 0", kInvalid, [](Pack& p) { p.params.d_model = 0; }},
      {"d_ff 0", kInvalid, [](Pack& p) { p.params.d_ff = 0; }},
      {"w1 NULL", kInvalid, [](Pack& p) { p.params.w1 = nullptr; }},
      {"w2 NULL", kInvalid, [](Pack& p) { p.params.w2 = nullptr; }},
      {"w1 stride", kInvalid,
       [](Pack& p) { p.params.w1_stride = kHidden - 1; }},
      {"w2 stride", kInvalid, [](Pack& p) { p.params.w2_stride = kModel - 1; }},
      {"w1 stride in the other layout", kInvalid,
       [](Pack& p) {
         p.params.layout = FFNORM_OUT_IN;
         p.params.w1_stride = kModel - 1;
       }},
      {"w1 stride SIZE_MAX", kOverflow,
       [](Pack& p) { p.params.w1_stride = SIZE_MAX; }},
      {"w2 stride overflows in bytes", kOverflow,
       [](Pack& p) { p.params.w2_stride = SIZE_MAX / kHidden; }},
      {"d_model SIZE_MAX", kOverflow,
       [](Pack& p) { p.params.d_model = SIZE_MAX; }},
      {"d_ff SIZE_MAX", kOverflow, [](Pack& p) { p.params.d_ff = SIZE_MAX; }},
  };
  const float kInf = std::numeric_limits<float>::infinity();
  for (const float epsilon :
       {std::numeric_limits<float>::quiet_NaN(), -1.0f, -1e-45f, kInf, -kInf}) {
    bad.push_back({"epsilon " + Describe(epsilon), kInvalid,
                   [epsilon](Pack& p) { p.params.epsilon = epsilon; }});
  }
  for (const int layout : {-1, 2, 1000}) {
    bad.push_back(
        {"layout " + std::to_string(layout), kInvalid, [layout](Pack& p) {
           p.params.layout = Enumerator<ffnorm_layout>(layout);
         }});
  }
  for (const auto field :
       {&ffnorm_params::w1, &ffnorm_params::b1, &ffnorm_params::w2,
        &ffnorm_params::b2, &ffnorm_params::scale, &ffnorm_params::offset}) {
    for (const size_t bytes : {1, 2, 3}) {
      bad.push_back({"a parameter misaligned by " + std::to_string(bytes),
                     kInvalid, [field, bytes](Pack& p) {
                       p.params.*field = Shifted(p.params.*field, bytes);
                     }});
    }
  }
  return bad;
}

// Wrong in the memory to pack to.
std::vector<BadPack> BadMemories() {
  constexpr ffnorm_status kInvalid = FFNORM_INVALID_ARGUMENT;
  constexpr ffnorm_status kSmall = FFNORM_MEMORY_TOO_SMALL;
  std::vector<BadPack> bad = {
      {"memory NULL", kInvalid, [](Pack& p) { p.memory = nullptr; }},
      {"one byte too small", kSmall, [](Pack& p) { --p.bytes; }},
      {"no bytes", kSmall, [](Pack& p) { p.bytes = 0; }},
      {"memory over w1", kInvalid,
       [](Pack& p) { p.params.w1 = static_cast<const float*>(p.memory) + 1; }},
      {"memory's last float in w2", kInvalid,
       [](Pack& p) {
         p.params.w2 =
             static_cast<const float*>(p.memory) + p.bytes / sizeof(float) - 1;
       }},
  };
  for (const auto field : {&ffnorm_params::b1, &ffnorm_params::b2,
                           &ffnorm_params::scale, &ffnorm_params::offset}) {
    bad.push_back({"memory over a vector", kInvalid, [field](Pack& p) {
                     p.params.*field = static_cast<const float*>(p.memory) + 7;
                   }});
  }
  for (const size_t bytes : {1, 4, 16, 32}) {
    bad.push_back({"memory misaligned by " + std::to_string(bytes), kInvalid,
                   [bytes](Pack& p) {
                     p.memory =
                         Shifted(static_cast<unsigned char*>(p.memory), bytes);
                   }});
  }
  return bad;
}

Outcomes PackOutcomes() {
  const Model model(kModel, kHidden);
  Outcomes outcomes;
  std::vector<BadPack> all = BadParams();
  for (const BadPack& bad : BadMemories()) all.push_back(bad);
  for (const BadPack& bad : all) {
    Pack pack;
    pack.params = model.Params();
    pack.bytes = model.packed.bytes();
    AlignedBuffer memory(pack.bytes + FFNORM_ALIGNMENT);
    pack.memory = memory.data();
    bad.spoil(pack);
    const Snapshot before(memory.data(), memory.bytes());
    const ffnorm_status got =
        ffnorm_pack(pack.pointer, pack.memory, pack.bytes);
    outcomes.push_back({bad.what, bad.want, got, before.Unchanged()});
  }
  return outcomes;
}

// ffnorm_packed_bytes, ffnorm_workspace_bytes and their reference.
Outcomes SizeOutcomes() {
  Outcomes outcomes;
  const auto size = [&](const std::string& what, ffnorm_status want,
                        const std::function<ffnorm_status(size_t*)>& query) {
    size_t bytes = kUntouched;
    const ffnorm_status got = query(&bytes);
    outcomes.push_back({what, want, got, bytes == kUntouched});
  };
  const ffnorm_params good = ffnorm_default_params(kModel, kHidden);
  const ffnorm_status null_bytes[] = {
      ffnorm_packed_bytes(&good, nullptr),
      ffnorm_reference_workspace_bytes(&good, nullptr)};
  for (const ffnorm_status got : null_bytes) {
    outcomes.push_back({"bytes NULL", FFNORM_INVALID_ARGUMENT, got, true});
  }
  const auto both = [&](const std::string& what, ffnorm_status want,
                        const ffnorm_params* params) {
    size("packed_bytes: " + what, want,
         [=](size_t* bytes) { return ffnorm_packed_bytes(params, bytes); });
    size("reference_workspace_bytes: " + what, want, [=](size_t* bytes) {
      return ffnorm_reference_workspace_bytes(params, bytes);
    });
  };
  both("NULL", FFNORM_INVALID_ARGUMENT, nullptr);
  for (const auto& sizes : {std::pair<size_t, size_t>{0, 1}, {1, 0}, {0, 0}}) {
    const ffnorm_params params =
        ffnorm_default_params(sizes.first, sizes.second);
    both("no columns", FFNORM_INVALID_ARGUMENT, &params);
  }
  constexpr size_t kHalf = size_t{1}
                           << (sizeof(size_t) * 4);  // its square is 0
  for (const size_t huge : {SIZE_MAX, SIZE_MAX - 1, SIZE_MAX - 31, SIZE_MAX / 2,
                            SIZE_MAX / 4 + 1}) {
    const ffnorm_params wide = ffnorm_default_params(huge, 1);
    const ffnorm_params deep = ffnorm_default_params(1, huge);
    const ffnorm_params most = ffnorm_default_params(huge, huge);
    both("d_model", FFNORM_SIZE_OVERFLOW, &wide);
    both("d_ff", FFNORM_SIZE_OVERFLOW, &deep);
    both("both", FFNORM_SIZE_OVERFLOW, &most);
  }
  for (const size_t huge : {kHalf, kHalf / 2, kHalf * 2, kHalf / 2 + 1}) {
    const ffnorm_params square = ffnorm_default_params(huge, huge);
    size("packed_bytes: square", FFNORM_SIZE_OVERFLOW,
         [&](size_t* bytes) { return ffnorm_packed_bytes(&square, bytes); });
  }
  return outcomes;
}

Outcomes WorkspaceOutcomes(const ffnorm_target* target) {
  const Model model(kModel, kHidden);
  const ffnorm_block good = model.Opened(target);
  Outcomes outcomes;
  outcomes.push_back({"bytes NULL", FFNORM_INVALID_ARGUMENT,
                      ffnorm_workspace_bytes(&good, 1, 1, nullptr), true});
  const auto check = [&](const std::string& what, ffnorm_status want,
                         const ffnorm_block* block, size_t rows,
                         size_t threads) {
    size_t bytes = kUntouched;
    const ffnorm_status got =
        ffnorm_workspace_bytes(block, rows, threads, &bytes);
    outcomes.push_back({what, want, got, bytes == kUntouched});
  };
  check("block NULL", FFNORM_INVALID_ARGUMENT, nullptr, 1, 1);
  const ffnorm_block zero = {};
  check("block all zero", FFNORM_INVALID_ARGUMENT, &zero, 1, 1);
  for (const auto field : {&ffnorm_block::d_model, &ffnorm_block::d_ff}) {
    ffnorm_block huge = good;
    huge.*field = SIZE_MAX / 4;
    check("a huge block", FFNORM_SIZE_OVERFLOW, &huge, 1, 1);
    check("a huge block", FFNORM_SIZE_OVERFLOW, &huge, SIZE_MAX, SIZE_MAX);
  }
  // As many of either as there are numbers.
  check("rows and threads", FFNORM_SIZE_OVERFLOW, &good, SIZE_MAX, SIZE_MAX);
  check("threads", FFNORM_SIZE_OVERFLOW, &good, SIZE_MAX / 2, SIZE_MAX / 4);
  return outcomes;
}

Outcomes OpenOutcomes(const ffnorm_target* target) {
  const Model model(kModel, kHidden);
  const size_t size = model.packed.bytes();
  Outcomes outcomes;
  const auto open = [&](const std::string& what, ffnorm_status want,
                        const void* memory, size_t bytes) {
    ffnorm_block block;
    memset(&block, 0x5a, sizeof(block));
    const Snapshot before(&block, sizeof(block));
    const ffnorm_status got = ffnorm_open(memory, bytes, target, &block);
    outcomes.push_back({"open: " + what, want, got, before.Unchanged()});
    outcomes.push_back(
        {"verify: " + what, want, ffnorm_verify(memory, bytes), true});
  };
  const unsigned char* memory = model.packed.data();
  open("memory NULL", FFNORM_INVALID_ARGUMENT, nullptr, size);
  open("no bytes", FFNORM_CORRUPT, memory, 0);
  open("half a header", FFNORM_CORRUPT, memory, 64);
  open("one byte short", FFNORM_CORRUPT, memory, size - 1);
  AlignedBuffer moved(size + FFNORM_ALIGNMENT);
  for (const size_t bytes : {1, 4, 16, 32}) {
    memcpy(moved.data() + bytes, memory, size);
    open("misaligned", FFNORM_INVALID_ARGUMENT, moved.data() + bytes, size);
  }
  memset(moved.data(), 0xff, size);
  open("all NaN", FFNORM_CORRUPT, moved.data(), size);
  memset(moved.data(), 0, size);
  open("all 0", FFNORM_CORRUPT, moved.data(), size);
  outcomes.push_back({"open: block NULL", FFNORM_INVALID_ARGUMENT,
                      ffnorm_open(memory, size, target, nullptr), true});
  return outcomes;
}

// ---- The reference of dense and forward

Outcomes ReferenceOutcomes() {
  Outcomes outcomes;
  for (const BadPack& bad : BadParams()) {
    const Model model(kModel, kHidden);
    Pack pack;
    pack.params = model.Params();
    AlignedBuffer memory(4096);
    bad.spoil(pack);
    std::vector<float> x(200, 1.0f);
    std::vector<float> y(200, 2.0f);
    const Snapshot before(y.data(), 200 * sizeof(float));
    const ffnorm_status forward = ffnorm_reference_forward(
        pack.pointer, FFNORM_FUSED, FFNORM_PRE_LN, 4, x.data(), 10, y.data(),
        10, memory.data(), memory.bytes());
    const ffnorm_status dense =
        ffnorm_reference_dense(pack.pointer, FFNORM_UNFUSED, FFNORM_DENSE_2,
                               FFNORM_LINEAR, 4, x.data(), 10, y.data(), 10);
    outcomes.push_back({bad.what, bad.want, forward, before.Unchanged()});
    outcomes.push_back({bad.what, bad.want, dense, before.Unchanged()});
  }

  const Model model(kModel, kHidden);
  const ffnorm_params params = model.Params();
  size_t bytes = 0;
  ffnorm_reference_workspace_bytes(&params, &bytes);
  std::vector<float> x(100, 1.0f);
  std::vector<float> y(100, 2.0f);
  std::vector<float> workspace(bytes / sizeof(float), 3.0f);
  const Snapshot before(y.data(), 100 * sizeof(float));
  const auto forward = [&](const std::string& what, ffnorm_status want,
                           const float* from, size_t x_stride, float* to,
                           size_t y_stride, void* work, size_t work_bytes) {
    const ffnorm_status got =
        ffnorm_reference_forward(&params, FFNORM_FUSED, FFNORM_POST_LN, 4, from,
                                 x_stride, to, y_stride, work, work_bytes);
    outcomes.push_back({what, want, got, before.Unchanged()});
  };
  constexpr ffnorm_status kInvalid = FFNORM_INVALID_ARGUMENT;
  float* w = workspace.data();
  forward("x NULL", kInvalid, nullptr, 6, y.data(), 6, w, bytes);
  forward("y NULL", kInvalid, x.data(), 6, nullptr, 6, w, bytes);
  forward("x stride", kInvalid, x.data(), 5, y.data(), 6, w, bytes);
  forward("y stride", kInvalid, x.data(), 6, y.data(), 5, w, bytes);
  forward("x misaligned", kInvalid, Shifted(x.data(), 2), 6, y.data(), 6, w,
          bytes);
  forward("y a row after x", kInvalid, y.data(), 6, y.data() + 6, 6, w, bytes);
  forward("y stride SIZE_MAX", FFNORM_SIZE_OVERFLOW, x.data(), 6, y.data(),
          SIZE_MAX, w, bytes);
  forward("workspace NULL", FFNORM_WORKSPACE_TOO_SMALL, x.data(), 6, y.data(),
          6, nullptr, bytes);
  forward("workspace too small", FFNORM_WORKSPACE_TOO_SMALL, x.data(), 6,
          y.data(), 6, w, bytes - 1);
  forward("workspace misaligned", kInvalid, x.data(), 6, y.data(), 6,
          Shifted(w, 1), bytes);
  forward("workspace over x", kInvalid, w, 6, y.data(), 6, w, bytes);
  forward("workspace over y", kInvalid, x.data(), 6, y.data(), 6, y.data() + 23,
          bytes);
  outcomes.push_back({"class", kInvalid,
                      ffnorm_reference_forward(
                          &params, Enumerator<ffnorm_class>(2), FFNORM_PRE_LN,
                          4, x.data(), 6, y.data(), 6, w, bytes),
                      before.Unchanged()});
  outcomes.push_back({"order", kInvalid,
                      ffnorm_reference_forward(
                          &params, FFNORM_FUSED, Enumerator<ffnorm_order>(2), 4,
                          x.data(), 6, y.data(), 6, w, bytes),
                      before.Unchanged()});
  const auto dense = [&](const std::string& what, ffnorm_class rounding,
                         ffnorm_layer layer, ffnorm_activation activation) {
    const ffnorm_status got = ffnorm_reference_dense(
        &params, rounding, layer, activation, 4, x.data(), 10, y.data(), 10);
    outcomes.push_back({what, kInvalid, got, before.Unchanged()});
  };
  dense("dense: class", Enumerator<ffnorm_class>(2), FFNORM_DENSE_1,
        FFNORM_RELU);
  dense("dense: layer", FFNORM_FUSED, Enumerator<ffnorm_layer>(-1),
        FFNORM_RELU);
  dense("dense: activation", FFNORM_FUSED, FFNORM_DENSE_1,
        Enumerator<ffnorm_activation>(2));
  outcomes.push_back(
      {"dense in place", kInvalid,
       ffnorm_reference_dense(&params, FFNORM_FUSED, FFNORM_DENSE_1,
                              FFNORM_RELU, 4, y.data(), 10, y.data(), 10),
       before.Unchanged()});
  return outcomes;
}

}  // namespace

TEST_SUITE("status") {
  TEST_CASE("version") {
    CHECK(std::string(ffnorm_version()) == std::string(FFNORM_VERSION));
    CHECK(std::string(FFNORM_VERSION) ==
          std::to_string(FFNORM_VERSION_MAJOR) + "." +
              std::to_string(FFNORM_VERSION_MINOR) + "." +
              std::to_string(FFNORM_VERSION_PATCH));
  }

  TEST_CASE("every status has its own line of text, and so has none") {
    std::set<std::string> texts;
    for (const ffnorm_status status : kAllStatuses) {
      const char* text = ffnorm_status_string(status);
      REQUIRE(text != nullptr);
      CHECK(std::string(text) != "");
      CHECK(std::string(text).find('\n') == std::string::npos);
      texts.insert(text);
    }
    CHECK(texts.size() == std::size(kAllStatuses));
    for (const int value : {-1, 7, 8, 1000000}) {
      const char* text = ffnorm_status_string(Enumerator<ffnorm_status>(value));
      REQUIRE(text != nullptr);
      CHECK(std::string(text) != "");
      CHECK(texts.count(text) == 0);
    }
  }

  TEST_CASE("pack") { CheckOutcomes(PackOutcomes()); }

  TEST_CASE("size queries") { CheckOutcomes(SizeOutcomes()); }

  TEST_CASE("reference") { CheckOutcomes(ReferenceOutcomes()); }

  TEST_CASE("workspace_bytes, open and verify") {
    ForEachTarget([](const ffnorm_target* target) {
      CheckOutcomes(WorkspaceOutcomes(target));
      CheckOutcomes(OpenOutcomes(target));
    });
  }

  TEST_CASE("no rows and no threads count as one") {
    const Model model(kModel, kHidden);
    ForEachTarget([&](const ffnorm_target* target) {
      const ffnorm_block block = model.Opened(target);
      const size_t one = Workspace::Bytes(block, 1, 1);
      CHECK(Workspace::Bytes(block, 0, 1) == one);
      CHECK(Workspace::Bytes(block, 1, 0) == one);
    });
  }

#if FFNORM_TESTS_HAVE_DUP
  TEST_CASE("no bad call prints") {
    size_t calls = 0;
    const long bytes = BytesPrinted([&] {
      calls += PackOutcomes().size();
      calls += SizeOutcomes().size();
      calls += ReferenceOutcomes().size();
      for (const ffnorm_target* target : TargetsUnderTest()) {
        calls += WorkspaceOutcomes(target).size();
        calls += OpenOutcomes(target).size();
      }
      const ffnorm_target* found = nullptr;
      ffnorm_find_target("NO_SUCH_TARGET", &found);
    });
    CHECK(bytes == 0);
    CHECK(calls > 100);
  }
#endif
}

}  // namespace test
}  // namespace ffnorm
