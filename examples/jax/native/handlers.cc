// What a compiled JAX program calls: one XLA FFI handler for each function of
// ffnorm that ffnorm_jax uses. A status other than kOk becomes an FFI error.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "ffnorm/ffnorm.hpp"
#include "native/xla_pool.h"
#include "xla/ffi/api/ffi.h"

namespace ffnorm_jax {
namespace {

namespace ffi = xla::ffi;

using Floats = ffi::Buffer<ffi::F32>;
using FloatsOut = ffi::ResultBuffer<ffi::F32>;
using Bytes = ffi::Buffer<ffi::U8>;
using BytesOut = ffi::ResultBuffer<ffi::U8>;

ffi::Error ToError(ffnorm::Status status) {
  if (Ok(status)) return ffi::Error::Success();
  const ffi::ErrorCode code =
      status == ffnorm::Status::kOutOfMemory
          ? ffi::ErrorCode::kResourceExhausted
      : status == ffnorm::Status::kUnsupported ? ffi::ErrorCode::kUnimplemented
      : status == ffnorm::Status::kCorrupt     ? ffi::ErrorCode::kDataLoss
                                           : ffi::ErrorCode::kInvalidArgument;
  return ffi::Error(code, std::string("ffnorm: ") + ffnorm::Message(status));
}

ffi::Error SizesDiffer() {
  return ffi::Error::InvalidArgument("ffnorm: sizes do not fit each other");
}

// The best target, or the one that FFNORM_TARGET names. Asks the CPU once.
ffnorm::Status FindTarget(ffnorm::Target* target) {
  static ffnorm::Target found;
  static const ffnorm::Status status = ffnorm::Target::Find(nullptr, &found);
  *target = found;
  return status;
}

template <typename Buffer>
size_t Width(const Buffer& buffer) {
  const auto dims = buffer.dimensions();
  return dims.size() == 0 ? 0 : static_cast<size_t>(dims.back());
}

// The first `axes` axes of an array: what vmap's method "expand_dims" put in
// front of each argument, of length 1 where that argument is the same for all.
using Dims = ffi::AnyBuffer::Dimensions;

size_t Product(Dims dims, size_t axes) {
  size_t product = 1;
  for (size_t axis = 0; axis < axes; ++axis) {
    product *= static_cast<size_t>(dims[axis]);
  }
  return product;
}

// Which element along the axes of `dims` belongs to element `index` of `full`.
size_t BatchIndex(Dims dims, Dims full, size_t axes, size_t index) {
  size_t result = 0;
  size_t step = 1;
  for (size_t axis = axes; axis-- > 0;) {
    const size_t length = static_cast<size_t>(full[axis]);
    if (dims[axis] != 1) result += index % length * step;
    step *= static_cast<size_t>(dims[axis]);
    index /= length;
  }
  return result;
}

// Calls run(block, x rows, y rows, exec) for each packed block: one, unless
// vmap was over the weights. Other leading axes of x and y are rows. `tasks` to
// cut the work into; 0: as many as XLA has threads.
template <typename Run>
ffi::Error ForEachBlock(ffi::ThreadPool pool, int64_t tasks, const Floats& x,
                        const Bytes& packed, FloatsOut y, Run run) {
  if (y->element_count() == 0) return ffi::Error::Success();
  ffnorm::Target target;
  ffnorm::Status status = FindTarget(&target);
  if (!Ok(status)) return ToError(status);
  if (tasks <= 0) tasks = std::max<int64_t>(pool.num_threads(), 1);

  const size_t bytes = Width(packed);
  const size_t axes = packed.element_count() == bytes
                          ? 0  // one block for all
                          : packed.dimensions().size() - 1;
  if (x.dimensions().size() != y->dimensions().size() ||
      axes >= y->dimensions().size()) {
    return SizesDiffer();
  }
  const size_t blocks = Product(y->dimensions(), axes);
  const size_t rows = y->element_count() / Width(*y) / blocks;
  const size_t x_size = rows * Width(x);
  const size_t y_size = rows * Width(*y);
  if (x.element_count() != Product(x.dimensions(), axes) * x_size) {
    return SizesDiffer();
  }
  for (size_t i = 0; i < blocks && Ok(status); ++i) {
    const auto index = [&](Dims dims) {
      return BatchIndex(dims, y->dimensions(), axes, i);
    };
    ffnorm::Block block;
    status = ffnorm::Block::Open(
        packed.typed_data() + index(packed.dimensions()) * bytes, bytes, &block,
        target);
    if (!Ok(status)) break;
    ffnorm::Workspace workspace;
    status = ffnorm::Workspace::Allocate(
        block, rows, static_cast<size_t>(tasks), &workspace);
    if (!Ok(status)) break;
    XlaPool xla_pool(pool, workspace.threads());
    status =
        run(block,
            ffnorm::ConstRows(x.typed_data() + index(x.dimensions()) * x_size,
                              rows, Width(x)),
            ffnorm::Rows(y->typed_data() + i * y_size, rows, Width(*y)),
            workspace.On(xla_pool));
  }
  return ToError(status);
}

// ---- Handlers ---------------------------------------------------------------

ffi::Error Forward(ffi::ThreadPool pool, int32_t order, int64_t tasks, Floats x,
                   Bytes packed, FloatsOut y) {
  return ForEachBlock(
      pool, tasks, x, packed, y,
      [order](const ffnorm::Block& block, ffnorm::ConstRows from,
              ffnorm::Rows to, const ffnorm::Exec& exec) {
        if (from.stride != block.d_model() || to.stride != block.d_model()) {
          return ffnorm::Status::kInvalidArgument;
        }
        return block.Forward(static_cast<ffnorm::Order>(order), from, to, exec);
      });
}

// The first Dense layer of a packed block alone.
ffi::Error Dense(ffi::ThreadPool pool, int32_t activation, int64_t tasks,
                 Floats x, Bytes packed, FloatsOut y) {
  return ForEachBlock(
      pool, tasks, x, packed, y,
      [activation](const ffnorm::Block& block, ffnorm::ConstRows from,
                   ffnorm::Rows to, const ffnorm::Exec& exec) {
        if (from.stride != block.d_model() || to.stride != block.d_ff()) {
          return ffnorm::Status::kInvalidArgument;
        }
        return block.Dense(ffnorm::Layer::kDense1,
                           static_cast<ffnorm::Activation>(activation), from,
                           to, exec);
      });
}

// An array of no elements stands for a parameter that a model does not have.
bool Optional(const Floats& array, size_t size, const float** values) {
  *values = array.element_count() == 0 ? nullptr : array.typed_data();
  return *values == nullptr || array.element_count() == size;
}

ffi::Error LayerNorm(float epsilon, Floats x, Floats scale, Floats offset,
                     FloatsOut y) {
  const size_t width = Width(x);
  const float* scale_values;
  const float* offset_values;
  if (!Optional(scale, width, &scale_values) ||
      !Optional(offset, width, &offset_values) ||
      y->element_count() != x.element_count()) {
    return SizesDiffer();
  }
  if (x.element_count() == 0) return ffi::Error::Success();
  ffnorm::Target target;
  ffnorm::Status status = FindTarget(&target);
  const size_t rows = x.element_count() / width;
  if (Ok(status)) {
    status = ffnorm::LayerNorm(width, epsilon, scale_values, offset_values,
                               {x.typed_data(), rows, width},
                               {y->typed_data(), rows, width}, target);
  }
  return ToError(status);
}

ffi::Error ResidualAdd(Floats x, Floats v, FloatsOut y) {
  const size_t size = x.element_count();
  if (v.element_count() != size || y->element_count() != size) {
    return SizesDiffer();
  }
  if (size == 0) return ffi::Error::Success();
  ffnorm::Target target;
  ffnorm::Status status = FindTarget(&target);
  if (Ok(status)) {
    status = ffnorm::ResidualAdd(size, {x.typed_data(), 1, size},
                                 {v.typed_data(), 1, size},
                                 {y->typed_data(), 1, size}, target);
  }
  return ToError(status);
}

ffi::Error Pack(float epsilon, Floats w1, Floats b1, Floats w2, Floats b2,
                Floats scale, Floats offset, BytesOut packed) {
  const size_t d_ff = Width(w1);
  const size_t d_model = Width(w2);
  ffnorm::Params params = ffnorm::DefaultParams(d_model, d_ff);
  params.epsilon = epsilon;
  params.w1 = w1.typed_data();
  params.w2 = w2.typed_data();
  if (w1.element_count() != d_model * d_ff ||
      w2.element_count() != d_model * d_ff || !Optional(b1, d_ff, &params.b1) ||
      !Optional(b2, d_model, &params.b2) ||
      !Optional(scale, d_model, &params.scale) ||
      !Optional(offset, d_model, &params.offset)) {
    return SizesDiffer();
  }
  return ToError(ffnorm::FromC(
      ffnorm_pack(&params, packed->untyped_data(), packed->element_count())));
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(ffnorm_jax_forward, Forward,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::ThreadPool>()
                                  .Attr<int32_t>("order")
                                  .Attr<int64_t>("tasks")
                                  .Arg<Floats>()
                                  .Arg<Bytes>()
                                  .Ret<ffi::Buffer<ffi::F32>>());

XLA_FFI_DEFINE_HANDLER_SYMBOL(ffnorm_jax_dense, Dense,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::ThreadPool>()
                                  .Attr<int32_t>("activation")
                                  .Attr<int64_t>("tasks")
                                  .Arg<Floats>()
                                  .Arg<Bytes>()
                                  .Ret<ffi::Buffer<ffi::F32>>());

XLA_FFI_DEFINE_HANDLER_SYMBOL(ffnorm_jax_layer_norm, LayerNorm,
                              ffi::Ffi::Bind()
                                  .Attr<float>("epsilon")
                                  .Arg<Floats>()
                                  .Arg<Floats>()
                                  .Arg<Floats>()
                                  .Ret<ffi::Buffer<ffi::F32>>());

XLA_FFI_DEFINE_HANDLER_SYMBOL(
    ffnorm_jax_residual_add, ResidualAdd,
    ffi::Ffi::Bind().Arg<Floats>().Arg<Floats>().Ret<ffi::Buffer<ffi::F32>>());

XLA_FFI_DEFINE_HANDLER_SYMBOL(ffnorm_jax_pack, Pack,
                              ffi::Ffi::Bind()
                                  .Attr<float>("epsilon")
                                  .Arg<Floats>()
                                  .Arg<Floats>()
                                  .Arg<Floats>()
                                  .Arg<Floats>()
                                  .Arg<Floats>()
                                  .Arg<Floats>()
                                  .Ret<ffi::Buffer<ffi::U8>>());

// Not a handler: the size of what ffnorm_jax_pack writes, 0 where there is none
// (_native.py asks before it makes the call).
extern "C" size_t ffnorm_jax_packed_bytes(size_t d_model, size_t d_ff) {
  const ffnorm::Params params = ffnorm::DefaultParams(d_model, d_ff);
  size_t bytes = 0;
  return ffnorm_packed_bytes(&params, &bytes) == FFNORM_OK ? bytes : 0;
}

}  // namespace ffnorm_jax
