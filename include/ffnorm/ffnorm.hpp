/// @file
/// A C++17 view over ffnorm.h, in this header alone: owners for the memory,
/// row views, a status that cannot be dropped by accident, and any callable as
/// a thread pool. It throws nothing and needs neither exceptions nor RTTI. What
/// the functions compute, and which arguments they take, is said in ffnorm.h.
///
///     ffnorm::Params params = ffnorm::DefaultParams(d_model, d_ff);
///     params.w1 = ...;  // and the others
///     ffnorm::PackedWeights weights;
///     ffnorm::Block block;
///     ffnorm::Workspace workspace;
///     ffnorm::Status status = ffnorm::PackedWeights::Pack(params, &weights);
///     if (Ok(status)) status = weights.Open(&block);
///     if (Ok(status)) {
///       status = ffnorm::Workspace::Allocate(block, rows, 1, &workspace);
///     }
///     if (Ok(status)) {
///       status = block.Forward(ffnorm::Order::kPreLn, {x, rows, d_model},
///                              {y, rows, d_model}, workspace.Serial());
///     }
///     if (!Ok(status)) std::puts(Message(status));
#ifndef FFNORM_FFNORM_HPP_
#define FFNORM_FFNORM_HPP_

#include <cstddef>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

#include "ffnorm/ffnorm.h"

namespace ffnorm {
// Keeps the names of different releases apart in one program.
inline namespace view0 {

// ---- Status -----------------------------------------------------------------

/// What became of a call: the values of ffnorm_status, and one of this header.
enum class [[nodiscard]] Status : int{
    kOk = FFNORM_OK,
    kInvalidArgument = FFNORM_INVALID_ARGUMENT,
    kUnsupported = FFNORM_UNSUPPORTED,
    kCorrupt = FFNORM_CORRUPT,
    kSizeOverflow = FFNORM_SIZE_OVERFLOW,
    kMemoryTooSmall = FFNORM_MEMORY_TOO_SMALL,
    kWorkspaceTooSmall = FFNORM_WORKSPACE_TOO_SMALL,
    kOutOfMemory = 100,  ///< an owner of this header could not allocate
};

/// The same value in this header's type.
constexpr Status FromC(ffnorm_status status) noexcept {
  return static_cast<Status>(status);
}

/// Whether the call did what was asked.
[[nodiscard]] constexpr bool Ok(Status status) noexcept {
  return status == Status::kOk;
}

/// One line of English, never null.
[[nodiscard]] inline const char* Message(Status status) noexcept {
  if (status == Status::kOutOfMemory) return "out of memory";
  return ffnorm_status_string(static_cast<ffnorm_status>(status));
}

// ---- Choices ----------------------------------------------------------------

/// Where LayerNorm stands.
enum class Order : int {
  kPreLn = FFNORM_PRE_LN,    ///< y = x + FFN(LN(x))
  kPostLn = FFNORM_POST_LN,  ///< y = LN(x + FFN(x))
};

/// One of a block's two Dense layers.
enum class Layer : int {
  kDense1 = FFNORM_DENSE_1,  ///< d_model -> d_ff
  kDense2 = FFNORM_DENSE_2,  ///< d_ff -> d_model
};

/// What Block::Dense applies to its sums.
enum class Activation : int {
  kLinear = FFNORM_LINEAR,
  kRelu = FFNORM_RELU,
};

/// How a target rounds a multiply-add; one class gives the same bits
/// everywhere.
enum class Rounding : int {
  kUnfused = FFNORM_UNFUSED,
  kFused = FFNORM_FUSED,
};

// ---- Rows -------------------------------------------------------------------

/// `rows` rows to read, `stride` floats apart; how wide they are, the call
/// knows.
struct ConstRows {
  const float* data = nullptr;
  size_t rows = 0;
  size_t stride = 0;

  constexpr ConstRows() noexcept = default;
  constexpr ConstRows(const float* first, size_t count, size_t step) noexcept
      : data(first), rows(count), stride(step) {}

  /// Row i, of the `rows` there are.
  constexpr const float* operator[](size_t i) const noexcept {
    return data + i * stride;
  }
};

/// The same, to write.
struct Rows {
  float* data = nullptr;
  size_t rows = 0;
  size_t stride = 0;

  constexpr Rows() noexcept = default;
  constexpr Rows(float* first, size_t count, size_t step) noexcept
      : data(first), rows(count), stride(step) {}

  /// What may be written may be read.
  constexpr operator ConstRows() const noexcept {
    return ConstRows(data, rows, stride);
  }

  /// Row i, of the `rows` there are.
  constexpr float* operator[](size_t i) const noexcept {
    return data + i * stride;
  }
};

// ---- Targets ----------------------------------------------------------------

/// An instruction set to run on. A default-made one stands for the default (see
/// ffnorm_find_target), and is what every function takes unless told otherwise.
class Target {
 public:
  constexpr Target() noexcept = default;
  constexpr explicit Target(const ffnorm_target* target) noexcept
      : target_(target) {}

  /// Finds a target by name; a null name resolves the default.
  static Status Find(const char* name, Target* target) noexcept {
    if (target == nullptr) return Status::kInvalidArgument;
    return FromC(ffnorm_find_target(name, &target->target_));
  }

  /// Null for a default-made one.
  [[nodiscard]] const char* name() const noexcept {
    return ffnorm_target_name(target_);
  }
  [[nodiscard]] size_t vector_bytes() const noexcept {
    return ffnorm_target_vector_bytes(target_);
  }
  [[nodiscard]] Rounding rounding() const noexcept {
    return static_cast<Rounding>(ffnorm_target_class(target_));
  }

  /// What the C functions take.
  [[nodiscard]] constexpr const ffnorm_target* c() const noexcept {
    return target_;
  }

 private:
  const ffnorm_target* target_ = nullptr;
};

/// The targets that this build and this CPU have, the best one first. Asks the
/// CPU when it is made, so make it once.
class TargetList {
 public:
  TargetList() noexcept {
    const ffnorm_target* found[kCapacity];
    const size_t count = ffnorm_targets(found, kCapacity);
    size_ = count < kCapacity ? count : kCapacity;
    for (size_t i = 0; i < size_; ++i) targets_[i] = Target(found[i]);
  }

  [[nodiscard]] size_t size() const noexcept { return size_; }
  [[nodiscard]] const Target* begin() const noexcept { return targets_; }
  [[nodiscard]] const Target* end() const noexcept { return targets_ + size_; }
  [[nodiscard]] Target operator[](size_t i) const noexcept {
    return targets_[i];
  }

 private:
  /// More than any architecture has.
  static constexpr size_t kCapacity = 32;

  Target targets_[kCapacity];
  size_t size_ = 0;
};

// ---- Memory -----------------------------------------------------------------

/// Owns memory aligned for packed blocks and workspaces. Moves, never copies.
class AlignedMemory {
 public:
  AlignedMemory() noexcept = default;

  /// Uninitialized memory; an owner of nothing when there is none to have.
  [[nodiscard]] static AlignedMemory Allocate(size_t bytes) noexcept {
    AlignedMemory memory;
    memory.data_.reset(static_cast<unsigned char*>(::operator new (
        bytes, std::align_val_t{FFNORM_ALIGNMENT}, std::nothrow)));
    if (memory) memory.bytes_ = bytes;
    return memory;
  }

  AlignedMemory(AlignedMemory&& other) noexcept
      : data_(std::move(other.data_)), bytes_(std::exchange(other.bytes_, 0)) {}
  AlignedMemory& operator=(AlignedMemory&& other) noexcept {
    data_ = std::move(other.data_);
    bytes_ = std::exchange(other.bytes_, 0);
    return *this;
  }

  /// Whether it owns anything.
  [[nodiscard]] explicit operator bool() const noexcept {
    return data_ != nullptr;
  }
  [[nodiscard]] unsigned char* data() const noexcept { return data_.get(); }
  [[nodiscard]] size_t bytes() const noexcept { return bytes_; }

 private:
  struct Delete {
    void operator()(unsigned char* data) const noexcept {
      ::operator delete (data, std::align_val_t{FFNORM_ALIGNMENT});
    }
  };

  std::unique_ptr<unsigned char, Delete> data_;
  size_t bytes_ = 0;
};

// ---- Running on a pool ------------------------------------------------------

/// What a call may use: workspace, pool, threads. Workspace makes one.
using Exec = ffnorm_exec;

/// One piece of work as a pool gets it: two pointers, copied freely, called
/// with an index. It must not be called after the pool's own call has returned.
class Task {
 public:
  Task(ffnorm_task task, void* context) noexcept
      : task_(task), context_(context) {}
  void operator()(size_t index) const noexcept { task_(context_, index); }

 private:
  ffnorm_task task_;
  void* context_;
};

/// An ffnorm_parallel_for over a Pool: any object that pool(tasks, task) makes
/// call task(i) once for each i in [0, tasks), and return when all are done.
/// `pool` points to the Pool. Nothing is allocated here; a pool that throws
/// ends the program, as no exception may pass through the library.
template <typename Pool>
void ParallelFor(void* pool, size_t tasks, ffnorm_task task,
                 void* context) noexcept {
  static_assert(std::is_invocable_v<Pool&, size_t, Task>,
                "a pool is called as pool(size_t tasks, Task task)");
  (*static_cast<Pool*>(pool))(tasks, Task(task, context));
}

/// `exec` on `pool`, cut into `threads` tasks. Refers to `pool`.
template <typename Pool>
[[nodiscard]] Exec OnPool(Exec exec, Pool& pool, size_t threads) noexcept {
  static_assert(std::is_object_v<Pool>, "a pool is an object, not a function");
  exec.parallel_for = &ParallelFor<Pool>;
  exec.pool = const_cast<void*>(static_cast<const void*>(std::addressof(pool)));
  exec.threads = threads;
  return exec;
}

// ---- Blocks -----------------------------------------------------------------

/// The parameters of a block as a model has them.
using Params = ffnorm_params;

/// See ffnorm_default_params.
[[nodiscard]] inline Params DefaultParams(size_t d_model,
                                          size_t d_ff) noexcept {
  return ffnorm_default_params(d_model, d_ff);
}

/// A packed block opened for use: a small value that refers to packed memory,
/// its own or not, and is valid while that is. A default-made one is refused by
/// every call.
class Block {
 public:
  Block() noexcept = default;

  /// Opens the packed block at `memory`, say a file's mapping. Constant time.
  static Status Open(const void* memory, size_t bytes, Block* block,
                     Target target = Target()) noexcept {
    if (block == nullptr) return Status::kInvalidArgument;
    return FromC(ffnorm_open(memory, bytes, target.c(), &block->block_));
  }

  [[nodiscard]] size_t d_model() const noexcept { return block_.d_model; }
  [[nodiscard]] size_t d_ff() const noexcept { return block_.d_ff; }
  [[nodiscard]] float epsilon() const noexcept { return block_.epsilon; }
  [[nodiscard]] Target target() const noexcept { return Target(block_.target); }

  /// What the C functions take.
  [[nodiscard]] const ffnorm_block* c() const noexcept { return &block_; }

  /// The workspace that up to `rows` rows on `threads` threads need.
  Status WorkspaceBytes(size_t rows, size_t threads,
                        size_t* bytes) const noexcept {
    return FromC(ffnorm_workspace_bytes(&block_, rows, threads, bytes));
  }

  /// y = the block of x. As many rows in y as in x; y may be x.
  Status Forward(Order order, ConstRows x, Rows y,
                 const Exec& exec) const noexcept {
    if (x.rows != y.rows) return Status::kInvalidArgument;
    return FromC(ffnorm_forward(&block_, static_cast<ffnorm_order>(order),
                                x.rows, x.data, x.stride, y.data, y.stride,
                                &exec));
  }

  /// y = activation(x w + b), one layer alone. As many rows in y as in x.
  Status Dense(Layer layer, Activation activation, ConstRows x, Rows y,
               const Exec& exec) const noexcept {
    if (x.rows != y.rows) return Status::kInvalidArgument;
    return FromC(ffnorm_dense(&block_, static_cast<ffnorm_layer>(layer),
                              static_cast<ffnorm_activation>(activation),
                              x.rows, x.data, x.stride, y.data, y.stride,
                              &exec));
  }

 private:
  ffnorm_block block_ = {};
};

/// Owns a packed block. Blocks opened from it refer to its memory, which moving
/// does not move.
class PackedWeights {
 public:
  PackedWeights() noexcept = default;

  /// Copies the parameters into memory of its own. On any other status than kOk
  /// *weights is as it was.
  static Status Pack(const Params& params, PackedWeights* weights) noexcept {
    if (weights == nullptr) return Status::kInvalidArgument;
    size_t bytes = 0;
    Status status = FromC(ffnorm_packed_bytes(&params, &bytes));
    if (!Ok(status)) return status;
    AlignedMemory memory = AlignedMemory::Allocate(bytes);
    if (!memory) return Status::kOutOfMemory;
    status = FromC(ffnorm_pack(&params, memory.data(), memory.bytes()));
    if (Ok(status)) weights->memory_ = std::move(memory);
    return status;
  }

  /// Opens the block for use.
  Status Open(Block* block, Target target = Target()) const noexcept {
    return Block::Open(data(), bytes(), block, target);
  }

  /// The block as bytes, to be stored; see ffnorm_pack for what may be done.
  [[nodiscard]] const unsigned char* data() const noexcept {
    return memory_.data();
  }
  [[nodiscard]] size_t bytes() const noexcept { return memory_.bytes(); }

 private:
  AlignedMemory memory_;
};

/// Owns the workspace of one call at a time.
class Workspace {
 public:
  Workspace() noexcept = default;

  /// Enough for every call with up to `rows` rows and `threads` threads. On any
  /// other status than kOk *workspace is as it was.
  static Status Allocate(const Block& block, size_t rows, size_t threads,
                         Workspace* workspace) noexcept {
    if (workspace == nullptr) return Status::kInvalidArgument;
    size_t bytes = 0;
    const Status status = block.WorkspaceBytes(rows, threads, &bytes);
    if (!Ok(status)) return status;
    AlignedMemory memory = AlignedMemory::Allocate(bytes);
    if (!memory) return Status::kOutOfMemory;
    workspace->memory_ = std::move(memory);
    workspace->threads_ = threads;
    return status;
  }

  [[nodiscard]] size_t bytes() const noexcept { return memory_.bytes(); }
  /// The threads it was allocated for.
  [[nodiscard]] size_t threads() const noexcept { return threads_; }

  /// Runs in the calling thread.
  [[nodiscard]] Exec Serial() const noexcept {
    Exec exec = {};
    exec.workspace = memory_.data();
    exec.workspace_bytes = memory_.bytes();
    exec.threads = 1;
    return exec;
  }

  /// Runs on a pool (see ParallelFor), as wide as the workspace is for. Refers
  /// to `pool`.
  template <typename Pool>
  [[nodiscard]] Exec On(Pool& pool) const noexcept {
    return OnPool(Serial(), pool, threads_);
  }

 private:
  AlignedMemory memory_;
  size_t threads_ = 0;
};

// ---- The row stages alone ---------------------------------------------------

/// y = LN(x) on rows of d_model; scale and offset may be null. As many rows in
/// y as in x; y may be x.
inline Status LayerNorm(size_t d_model, float epsilon, const float* scale,
                        const float* offset, ConstRows x, Rows y,
                        Target target = Target()) noexcept {
  if (x.rows != y.rows) return Status::kInvalidArgument;
  return FromC(ffnorm_layer_norm(target.c(), d_model, epsilon, scale, offset,
                                 x.rows, x.data, x.stride, y.data, y.stride));
}

/// y = x + v on rows of d_model, as many in each. y may be x or v.
inline Status ResidualAdd(size_t d_model, ConstRows x, ConstRows v, Rows y,
                          Target target = Target()) noexcept {
  if (x.rows != v.rows || x.rows != y.rows) return Status::kInvalidArgument;
  return FromC(ffnorm_residual_add(target.c(), d_model, x.rows, x.data,
                                   x.stride, v.data, v.stride, y.data,
                                   y.stride));
}

}  // namespace view0
}  // namespace ffnorm

#endif  // FFNORM_FFNORM_HPP_
