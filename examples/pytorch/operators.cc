// The operators torch.ops.ffnorm.*, for float32 tensors on the CPU:
//
//   pack(w1, b1, w2, b2, scale, offset, epsilon)
//       One block's parameters, weights (out, in) as nn.Linear has them, as a
//       tensor of bytes: the same on every CPU, to be kept, saved, shared.
//   forward(x, packed, norm_first)
//       x + FFN(LN(x)) when norm_first, else LN(x + FFN(x)), on the last
//       dimension of x. Has no gradient.
//   reference_forward(x, w1, b1, w2, b2, scale, offset, epsilon, norm_first)
//       The same bits from plain loops over the parameters: slow, to test with.
#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <torch/library.h>

#include <array>
#include <cstddef>
#include <cstdint>

#include "ffnorm/ffnorm.hpp"

namespace {

using at::Tensor;
using OptionalTensor = c10::optional<Tensor>;

void Require(ffnorm::Status status, const char* call) {
  TORCH_CHECK(ffnorm::Ok(status), "ffnorm.", call, ": ",
              ffnorm::Message(status));
}

void RequireFloat(const Tensor& tensor, const char* name) {
  TORCH_CHECK(tensor.device().is_cpu() && tensor.layout() == at::kStrided &&
                  tensor.scalar_type() == at::kFloat,
              "ffnorm: ", name, " must be a float32 tensor on the CPU, not ",
              tensor.toString());
}

// The CPU is asked once, as that may take a while.
ffnorm::Target BestTarget() {
  static const ffnorm::Target target = [] {
    ffnorm::Target found;
    Require(ffnorm::Target::Find(nullptr, &found), "find_target");
    return found;
  }();
  return target;
}

// ---- Parameters -------------------------------------------------------------

// One block's parameters in ffnorm's terms, valid as long as this lives.
class Weights {
 public:
  Weights(const Tensor& w1, const OptionalTensor& b1, const Tensor& w2,
          const OptionalTensor& b2, const OptionalTensor& scale,
          const OptionalTensor& offset, double epsilon) {
    TORCH_CHECK(w1.dim() == 2, "ffnorm: w1 must be (d_ff, d_model)");
    const int64_t d_ff = w1.size(0);
    const int64_t d_model = w1.size(1);
    params_ = ffnorm::DefaultParams(d_model, d_ff);
    params_.layout = FFNORM_OUT_IN;
    params_.epsilon = static_cast<float>(epsilon);
    params_.w1 = Values("w1", w1, {d_ff, d_model});
    params_.b1 = Values("b1", b1, {d_ff});
    params_.w2 = Values("w2", w2, {d_model, d_ff});
    params_.b2 = Values("b2", b2, {d_model});
    params_.scale = Values("scale", scale, {d_model});
    params_.offset = Values("offset", offset, {d_model});
  }

  const ffnorm::Params& params() const { return params_; }

 private:
  const float* Values(const char* name, const OptionalTensor& tensor,
                      at::IntArrayRef shape) {
    if (!tensor.has_value()) return nullptr;
    RequireFloat(*tensor, name);
    TORCH_CHECK(tensor->sizes() == shape, "ffnorm: ", name, " must be ", shape,
                ", not ", tensor->sizes());
    Tensor& owner = owners_[owned_++];
    owner = tensor->contiguous();
    return owner.data_ptr<float>();
  }

  ffnorm::Params params_;
  std::array<Tensor, 6> owners_;
  size_t owned_ = 0;
};

Tensor Pack(const Tensor& w1, const OptionalTensor& b1, const Tensor& w2,
            const OptionalTensor& b2, const OptionalTensor& scale,
            const OptionalTensor& offset, double epsilon) {
  const Weights weights(w1, b1, w2, b2, scale, offset, epsilon);
  size_t bytes = 0;
  Require(ffnorm::FromC(ffnorm_packed_bytes(&weights.params(), &bytes)),
          "pack");
  // torch aligns what it allocates as ffnorm wants it, and ffnorm checks that.
  Tensor packed = at::empty({static_cast<int64_t>(bytes)}, at::kByte);
  Require(ffnorm::FromC(ffnorm_pack(&weights.params(),
                                    packed.data_ptr<uint8_t>(), bytes)),
          "pack");
  return packed;
}

// ---- Rows -------------------------------------------------------------------

// A tensor as rows of its last dimension. They are copied only where strides
// cannot tell how they lie.
class InputRows {
 public:
  InputRows(const Tensor& x, size_t d_model) {
    RequireFloat(x, "x");
    const int64_t width = static_cast<int64_t>(d_model);
    TORCH_CHECK(x.dim() > 0 && x.size(-1) == width,
                "ffnorm: the last dimension of x must be d_model, ", d_model,
                ", but x is ", x.sizes());
    rows_ = x.reshape({-1, width});
    stride_ = width;
    if (rows_.is_contiguous()) return;
    if (rows_.stride(1) == 1 && rows_.stride(0) >= width) {
      stride_ = rows_.stride(0);
    } else {
      rows_ = rows_.contiguous();
    }
  }

  ffnorm::ConstRows view() const {
    return {rows_.data_ptr<float>(), static_cast<size_t>(rows_.size(0)),
            static_cast<size_t>(stride_)};
  }

 private:
  Tensor rows_;
  int64_t stride_;
};

// A contiguous tensor for the result, shaped like x.
Tensor ResultLike(const Tensor& x) {
  return at::empty_like(x, x.options(), at::MemoryFormat::Contiguous);
}

ffnorm::Rows ResultRows(const Tensor& y, const ffnorm::ConstRows& x,
                        size_t d_model) {
  return {y.data_ptr<float>(), x.rows, d_model};
}

ffnorm::Order OrderOf(bool norm_first) {
  return norm_first ? ffnorm::Order::kPreLn : ffnorm::Order::kPostLn;
}

// ---- Running ----------------------------------------------------------------

// torch's own threads, as many as torch.set_num_threads says.
struct TorchPool {
  void operator()(size_t tasks, ffnorm::Task task) const {
    at::parallel_for(0, static_cast<int64_t>(tasks), 1,
                     [&](int64_t begin, int64_t end) {
                       for (int64_t i = begin; i < end; ++i) task(i);
                     });
  }
};

// A workspace for this call. Each thread that calls keeps its own: to fetch
// fresh pages from the system each time would cost more than a few rows do.
ffnorm::Exec Workspace(const ffnorm::Block& block, size_t rows,
                       size_t threads) {
  thread_local ffnorm::Workspace workspace;
  size_t bytes = 0;
  Require(block.WorkspaceBytes(rows, threads, &bytes), "forward");
  if (workspace.bytes() < bytes) {
    Require(ffnorm::Workspace::Allocate(block, rows, threads, &workspace),
            "forward");
  }
  return workspace.Serial();
}

Tensor Forward(const Tensor& x, const Tensor& packed, bool norm_first) {
  TORCH_CHECK(packed.device().is_cpu() && packed.scalar_type() == at::kByte &&
                  packed.dim() == 1 && packed.is_contiguous(),
              "ffnorm: packed must be what ffnorm.pack returned");
  ffnorm::Block block;
  Require(ffnorm::Block::Open(packed.data_ptr<uint8_t>(),
                              static_cast<size_t>(packed.numel()), &block,
                              BestTarget()),
          "forward");
  const InputRows input(x, block.d_model());
  Tensor y = ResultLike(x);
  if (y.numel() == 0) return y;

  const size_t threads =
      at::in_parallel_region() ? 1 : static_cast<size_t>(at::get_num_threads());
  const ffnorm::ConstRows rows = input.view();
  TorchPool pool;
  const ffnorm::Exec exec =
      ffnorm::OnPool(Workspace(block, rows.rows, threads), pool, threads);
  Require(block.Forward(OrderOf(norm_first), rows,
                        ResultRows(y, rows, block.d_model()), exec),
          "forward");
  return y;
}

Tensor ReferenceForward(const Tensor& x, const Tensor& w1,
                        const OptionalTensor& b1, const Tensor& w2,
                        const OptionalTensor& b2, const OptionalTensor& scale,
                        const OptionalTensor& offset, double epsilon,
                        bool norm_first) {
  const Weights weights(w1, b1, w2, b2, scale, offset, epsilon);
  const size_t d_model = weights.params().d_model;
  const InputRows input(x, d_model);
  Tensor y = ResultLike(x);
  if (y.numel() == 0) return y;

  size_t bytes = 0;
  Require(ffnorm::FromC(
              ffnorm_reference_workspace_bytes(&weights.params(), &bytes)),
          "reference_forward");
  const Tensor workspace = at::empty({static_cast<int64_t>(bytes)}, at::kByte);
  const ffnorm::ConstRows from = input.view();
  const ffnorm::Rows to = ResultRows(y, from, d_model);
  Require(
      ffnorm::FromC(ffnorm_reference_forward(
          &weights.params(), ffnorm_target_class(BestTarget().c()),
          static_cast<ffnorm_order>(OrderOf(norm_first)), from.rows, from.data,
          from.stride, to.data, to.stride, workspace.data_ptr(), bytes)),
      "reference_forward");
  return y;
}

// ---- What torch has to know besides -----------------------------------------

// Without this, backward would go past the block as if it were a constant.
Tensor ForwardAutograd(const Tensor& x, const Tensor& packed, bool norm_first) {
  TORCH_CHECK(!(at::GradMode::is_enabled() && x.requires_grad()),
              "ffnorm.forward has no gradient: call it under torch.no_grad() "
              "or torch.inference_mode()");
  static const auto forward =
      c10::Dispatcher::singleton()
          .findSchemaOrThrow("ffnorm::forward", "")
          .typed<Tensor(const Tensor&, const Tensor&, bool)>();
  const at::AutoDispatchBelowAutograd guard;
  return forward.call(x, packed, norm_first);
}

// The shape of the result, for tensors without values.
Tensor ForwardMeta(const Tensor& x, const Tensor&, bool) {
  return ResultLike(x);
}

}  // namespace

TORCH_LIBRARY(ffnorm, library) {
  library.def(
      "pack(Tensor w1, Tensor? b1, Tensor w2, Tensor? b2, Tensor? scale, "
      "Tensor? offset, float epsilon) -> Tensor");
  library.def("forward(Tensor x, Tensor packed, bool norm_first) -> Tensor");
  library.def(
      "reference_forward(Tensor x, Tensor w1, Tensor? b1, Tensor w2, "
      "Tensor? b2, Tensor? scale, Tensor? offset, float epsilon, "
      "bool norm_first) -> Tensor");
}

TORCH_LIBRARY_IMPL(ffnorm, CPU, library) {
  library.impl("pack", &Pack);
  library.impl("forward", &Forward);
  library.impl("reference_forward", &ReferenceForward);
}

TORCH_LIBRARY_IMPL(ffnorm, Autograd, library) {
  library.impl("forward", &ForwardAutograd);
}

TORCH_LIBRARY_IMPL(ffnorm, Meta, library) {
  library.impl("forward", &ForwardMeta);
}
