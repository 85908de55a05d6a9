// Arguments, sizes and strides of every function: any numbers, and pointers
// into one arena, so that overlaps are common. A plain model of what is allowed
// says which calls must be refused and which must not; whatever happens, only
// the elements of y, the workspace and the packed memory may change. Under ASan
// all of the arena is poisoned but the elements that the call names.
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "ffnorm/ffnorm.h"
#include "tests/fuzz/arguments_model.h"
#include "tests/fuzz/fuzz_input.h"

namespace ffnorm {
namespace fuzz {
namespace {

constexpr size_t kWorkspace = 1 << 18;
constexpr size_t kMostWork = 1 << 18;  // multiply-adds of one call
alignas(FFNORM_ALIGNMENT) unsigned char workspace[kWorkspace];

// ---- Drawing arguments

const float* Pointer(Input* input) {
  const uint8_t kind = input->Byte();
  if (kind == 255) return nullptr;
  size_t at = input->Below(kArena);
  if (kind % 16 != 1) at -= at % sizeof(float);
  if (kind % 4 == 0) at %= 256;
  return reinterpret_cast<const float*>(arena + at);
}

size_t Stride(Input* input, size_t columns) {
  return input->Rarely(8) ? input->Size() : columns + input->Byte() % 9;
}

float Epsilon(Input* input) {
  return input->Rarely() ? input->Next<float>() : FFNORM_DEFAULT_EPSILON;
}

bool IsEpsilon(float epsilon) { return std::isfinite(epsilon) && epsilon >= 0; }

template <typename Enum>
Enum AnyEnum(Input* input) {
  return static_cast<Enum>(input->Rarely() ? input->Next<uint32_t>()
                                           : input->Byte() % 2u);
}
template <typename Enum>
bool IsNamed(Enum value) {
  return static_cast<uint32_t>(value) < 2;
}

// Blocks that are packed once, and opened on each target.
struct Model {
  size_t d_model;
  size_t d_ff;
  unsigned char* packed;
  size_t bytes;
};

const Model& AnyModel(Input* input) {
  // Never destroyed, so that the packed blocks stay reachable.
  static const std::vector<Model>& models = *new std::vector<Model>([] {
    std::vector<Model> made;
    for (const auto& shape : {std::pair<size_t, size_t>{1, 1},
                              {6, 9},
                              {33, 40},
                              {40, 33},
                              {3, 270}}) {
      ffnorm_params params = ffnorm_default_params(shape.first, shape.second);
      const std::vector<float> w(shape.first * shape.second, 0.5f);
      params.w1 = params.w2 = w.data();
      Model model = {shape.first, shape.second, nullptr, 0};
      Require(ffnorm_packed_bytes(&params, &model.bytes) == FFNORM_OK,
              "packed_bytes");
      model.packed = static_cast<unsigned char*>(
          std::aligned_alloc(FFNORM_ALIGNMENT, model.bytes));
      Require(ffnorm_pack(&params, model.packed, model.bytes) == FFNORM_OK,
              "pack");
      made.push_back(model);
    }
    return made;
  }());
  return models[input->Byte() % models.size()];
}

const ffnorm_target* AnyTarget(Input* input) {
  static const std::vector<const ffnorm_target*> targets = Targets();
  return targets[input->Byte() % targets.size()];
}

// ---- The calls

void ForwardOrDense(Input* input, bool forward) {
  const Model& model = AnyModel(input);
  ffnorm_block block = {};
  Require(ffnorm_open(model.packed, model.bytes, AnyTarget(input), &block) ==
              FFNORM_OK,
          "open");
  const ffnorm_order order = AnyEnum<ffnorm_order>(input);
  const ffnorm_layer layer = AnyEnum<ffnorm_layer>(input);
  const ffnorm_activation activation = AnyEnum<ffnorm_activation>(input);
  const size_t D = model.d_model;
  const size_t H = model.d_ff;
  const bool first = layer == FFNORM_DENSE_1;
  const size_t in = forward || first ? D : H;
  const size_t out = forward || !first ? D : H;
  const size_t rows = input->Size();
  const float* x = Pointer(input);
  const size_t x_stride = Stride(input, in);
  const float* y = input->Rarely(3) ? x : Pointer(input);
  const size_t y_stride = input->Rarely(3) ? x_stride : Stride(input, out);

  ffnorm_exec exec = {};
  exec.threads = input->Size();
  if (!input->Rarely(3)) exec.parallel_for = &Reversed;
  size_t needed = 0;
  const size_t tasks = exec.parallel_for == nullptr ? 1 : exec.threads;
  const bool known =
      ffnorm_workspace_bytes(&block, rows, tasks, &needed) == FFNORM_OK;
  if (known && needed > kWorkspace) return;
  exec.workspace = input->Rarely() ? nullptr : workspace;
  exec.workspace_bytes =
      input->Rarely(8) ? input->Size()
                       : needed - (input->Rarely(8) && needed != 0 ? 1 : 0);
  const bool none = input->Rarely();
  const bool enums =
      forward ? IsNamed(order) : IsNamed(layer) && IsNamed(activation);
  const bool right = enums && known && !none && exec.workspace != nullptr &&
                     exec.workspace_bytes >= needed;
  const auto call = [&] {
    float* to = const_cast<float*>(y);
    const ffnorm_exec* with = none ? nullptr : &exec;
    return forward ? ffnorm_forward(&block, order, rows, x, x_stride, to,
                                    y_stride, with)
                   : ffnorm_dense(&block, layer, activation, rows, x, x_stride,
                                  to, y_stride, with);
  };
  if (rows == 0) {
    Make({}, enums ? Verdict::kMustRun : Verdict::kMustFail,
         "a call without rows", call);
    return;
  }
  const std::vector<Claim> claims = {{x, rows, in, x_stride, false},
                                     {y, rows, out, y_stride, true}};
  Verdict verdict = Judge(claims, forward);
  if (verdict != Verdict::kSkip && !right) verdict = Verdict::kMustFail;
  size_t work = 0;
  if (verdict < Verdict::kMustFail &&
      (!MulFits(rows, D * H, &work) || work > kMostWork)) {
    return;
  }
  Make(claims, verdict, forward ? "forward" : "dense", call);
}

void LayerNorm(Input* input) {
  const bool reference = input->Rarely(4);
  const ffnorm_target* target = AnyTarget(input);
  const size_t d_model = input->Size();
  const float epsilon = Epsilon(input);
  const float* scale = input->Rarely(2) ? nullptr : Pointer(input);
  const float* offset = input->Rarely(2) ? nullptr : Pointer(input);
  const size_t rows = input->Size();
  const float* x = Pointer(input);
  const size_t x_stride = Stride(input, d_model);
  const float* y = input->Rarely(3) ? x : Pointer(input);
  const size_t y_stride = input->Rarely(3) ? x_stride : Stride(input, d_model);
  const auto call = [&] {
    float* to = const_cast<float*>(y);
    return reference
               ? ffnorm_reference_layer_norm(d_model, epsilon, scale, offset,
                                             rows, x, x_stride, to, y_stride)
               : ffnorm_layer_norm(target, d_model, epsilon, scale, offset,
                                   rows, x, x_stride, to, y_stride);
  };
  bool right = d_model != 0 && IsEpsilon(epsilon);
  for (const float* vector : {scale, offset}) {
    if (reinterpret_cast<uintptr_t>(vector) % sizeof(float) != 0) right = false;
  }
  if (rows == 0 || !right) {
    Make({}, right ? Verdict::kMustRun : Verdict::kMustFail,
         "layer_norm without rows or sizes", call);
    return;
  }
  std::vector<Claim> claims = {{x, rows, d_model, x_stride, false},
                               {y, rows, d_model, y_stride, true}};
  Verdict verdict = Judge(claims, true);
  // A vector may not share anything with y, not even its gaps.
  for (const float* vector : {scale, offset}) {
    if (vector == nullptr || verdict >= Verdict::kMustFail) continue;
    const Claim claim = {vector, 1, d_model, d_model, false};
    if (FitOf(claim) != Fit::kInside) return;
    const Shared shared = SharedBy(claim, claims.back());
    if (shared == Shared::kSpan) verdict = Worse(verdict, Verdict::kMayRun);
    if (shared == Shared::kClash || shared == Shared::kSame) {
      verdict = Verdict::kMustFail;
    }
    claims.insert(claims.begin(), claim);
  }
  Make(claims, verdict, "layer_norm", call);
}

void ResidualAdd(Input* input) {
  const bool reference = input->Rarely(4);
  const ffnorm_target* target = AnyTarget(input);
  const size_t d_model = input->Size();
  const size_t rows = input->Size();
  const float* x = Pointer(input);
  const float* v = input->Rarely(3) ? x : Pointer(input);
  const float* y = input->Rarely(3) ? v : Pointer(input);
  const size_t x_stride = Stride(input, d_model);
  const size_t v_stride = input->Rarely(3) ? x_stride : Stride(input, d_model);
  const size_t y_stride = input->Rarely(3) ? v_stride : Stride(input, d_model);
  const auto call = [&] {
    float* to = const_cast<float*>(y);
    return reference ? ffnorm_reference_residual_add(d_model, rows, x, x_stride,
                                                     v, v_stride, to, y_stride)
                     : ffnorm_residual_add(target, d_model, rows, x, x_stride,
                                           v, v_stride, to, y_stride);
  };
  if (rows == 0 || d_model == 0) {
    Make({}, d_model != 0 ? Verdict::kMustRun : Verdict::kMustFail,
         "residual_add without rows or sizes", call);
    return;
  }
  const std::vector<Claim> claims = {{x, rows, d_model, x_stride, false},
                                     {v, rows, d_model, v_stride, false},
                                     {y, rows, d_model, y_stride, true}};
  Make(claims, Judge(claims, true), "residual_add", call);
}

void Pack(Input* input) {
  ffnorm_params params = ffnorm_default_params(input->Size(), input->Size());
  params.layout = AnyEnum<ffnorm_layout>(input);
  params.epsilon = Epsilon(input);
  const bool in_out = params.layout == FFNORM_IN_OUT;
  const size_t D = params.d_model;
  const size_t H = params.d_ff;
  params.w1 = Pointer(input);
  params.w2 = Pointer(input);
  if (input->Rarely(4)) params.w1_stride = Stride(input, in_out ? H : D);
  if (input->Rarely(4)) params.w2_stride = Stride(input, in_out ? D : H);
  for (const float** vector :
       {&params.b1, &params.b2, &params.scale, &params.offset}) {
    *vector = input->Rarely(2) ? nullptr : Pointer(input);
  }
  size_t at = input->Below(kArena);
  if (!input->Rarely()) at -= at % FFNORM_ALIGNMENT;
  void* memory = input->Rarely() ? nullptr : arena + at;
  size_t needed = 0;
  const bool known = ffnorm_packed_bytes(&params, &needed) == FFNORM_OK;
  const size_t bytes = input->Rarely(4) ? input->Size() : needed;
  const auto call = [&] { return ffnorm_pack(&params, memory, bytes); };
  if (D == 0 || H == 0 || !IsNamed(params.layout) || !known) {
    Make({}, Verdict::kMustFail, "pack of no or too large a size", call);
    return;
  }
  const Claim to = {static_cast<const float*>(memory), 1, needed / 4,
                    needed / 4, true};
  std::vector<Claim> claims = {
      {params.w1, in_out ? D : H, in_out ? H : D,
       params.w1_stride != 0 ? params.w1_stride : (in_out ? H : D), false},
      {params.w2, in_out ? H : D, in_out ? D : H,
       params.w2_stride != 0 ? params.w2_stride : (in_out ? D : H), false}};
  if (params.b1 != nullptr) claims.push_back({params.b1, 1, H, H, false});
  if (params.b2 != nullptr) claims.push_back({params.b2, 1, D, D, false});
  for (const float* vector : {params.scale, params.offset}) {
    if (vector != nullptr) claims.push_back({vector, 1, D, D, false});
  }
  claims.push_back(to);
  Verdict verdict = Judge(claims, false);
  if (verdict != Verdict::kSkip &&
      (!IsEpsilon(params.epsilon) || bytes < needed ||
       reinterpret_cast<uintptr_t>(memory) % FFNORM_ALIGNMENT != 0)) {
    verdict = Verdict::kMustFail;
  }
  Make(claims, verdict, "pack", call);
}

// Sizes alone, names, and numbers that are no status.
void Queries(Input* input) {
  const ffnorm_params params =
      ffnorm_default_params(input->Size(), input->Size());
  size_t packed = 0;
  size_t scratch = 0;
  const ffnorm_status status = ffnorm_packed_bytes(&params, &packed);
  const ffnorm_status reference =
      ffnorm_reference_workspace_bytes(&params, &scratch);
  size_t weights;
  if (status == FFNORM_OK) {
    Require(MulFits(params.d_model, params.d_ff, &weights) &&
                packed / 8 > weights && packed % FFNORM_ALIGNMENT == 0,
            "packed_bytes is too small");
    Require(reference == FFNORM_OK && scratch / 4 >= params.d_ff,
            "reference_workspace_bytes is too small");
  }
  const Model& model = AnyModel(input);
  ffnorm_block block = {};
  Require(ffnorm_open(model.packed, model.bytes, AnyTarget(input), &block) ==
              FFNORM_OK,
          "open");
  const size_t rows = input->Size();
  const size_t threads = input->Size();
  size_t one = 0;
  size_t many = 0;
  Require(ffnorm_workspace_bytes(&block, 1, 1, &one) == FFNORM_OK,
          "workspace_bytes for one row");
  if (ffnorm_workspace_bytes(&block, rows, threads, &many) == FFNORM_OK) {
    Require(many >= one, "workspace_bytes shrinks");
  }
  Require(ffnorm_status_string(input->Next<ffnorm_status>()) != nullptr,
          "a status without a text");
  const std::string name(reinterpret_cast<const char*>(input->rest()),
                         input->left());
  const ffnorm_target* found = nullptr;
  const bool is_found = ffnorm_find_target(name.c_str(), &found) == FFNORM_OK;
  Require(is_found == (found != nullptr), "find_target");
}

void RunArguments(Input input) {
  static const bool filled = [] {
    for (size_t i = 0; i < kArena; ++i) {
      before[i] = static_cast<unsigned char>(i * 7 + i / 251);
    }
    return true;
  }();
  Require(filled, "a pattern to compare with");
  memcpy(arena, before, kArena);
  switch (input.Byte() % 6) {
    case 0:
      return ForwardOrDense(&input, true);
    case 1:
      return ForwardOrDense(&input, false);
    case 2:
      return LayerNorm(&input);
    case 3:
      return ResidualAdd(&input);
    case 4:
      return Pack(&input);
    default:
      return Queries(&input);
  }
}

}  // namespace
}  // namespace fuzz
}  // namespace ffnorm

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  ffnorm::fuzz::RunArguments(ffnorm::fuzz::Input(data, size));
  return 0;
}
