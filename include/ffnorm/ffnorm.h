/** @file
 * ffnorm: SIMD kernels for the residual feed-forward block of a transformer.
 *
 *     FFN(z)  = relu(z W1 + b1) W2 + b2
 *     Pre-LN  : y = x + FFN(LN(x))
 *     Post-LN : y = LN(x + FFN(x))
 *     LN(v)   = (v - mean(v)) / sqrt(var(v) + epsilon) * scale + offset
 *
 * This header is the whole public surface, in C99. kernels/CONTRACT.md defines
 * every result bit for bit.
 *
 * In order:
 *
 *     ffnorm_default_params    then fill in the pointers
 *     ffnorm_packed_bytes
 *     ffnorm_pack              once for a set of weights, which may then be
 *                              freed
 *     ffnorm_open              once for each packed block
 *     ffnorm_workspace_bytes   once, for the largest rows and threads
 *     ffnorm_forward           as often as wanted
 *
 * Rules for every function here:
 *
 *   - Sizes and strides count floats, strides from one row to the next. Sizes
 *     that end in `_bytes` count bytes.
 *   - float pointers need the alignment of a float (4 bytes), workspaces and
 *     packed memory that of FFNORM_ALIGNMENT.
 *   - Memory belongs to the caller. Nothing is read or written outside the
 *     elements that shape and stride name, and nothing is kept after a call
 *     returns, but for the packed memory that an ffnorm_block points to.
 *   - Arguments are checked in every build, before anything is written: with
 *     any status but FFNORM_OK all outputs are as they were.
 *   - No call allocates, locks, creates a thread, throws, aborts, prints, or
 *     changes global state or the floating-point environment (exception flags
 *     may be raised). All that is read is the CPU and, where a target is left
 * to default, the environment variable FFNORM_TARGET.
 *   - Calls may run at the same time in any number of threads, provided that
 *     their outputs and workspaces do not overlap. Packed blocks are read only
 *     and may be shared.
 */
#ifndef FFNORM_FFNORM_H_
#define FFNORM_FFNORM_H_

#include <stddef.h>
#include <stdint.h>

/* A number that an enum does not name gets a status. C++ lets it be passed at
 * all only where the type behind the enum is fixed: here the one that C
 * compilers choose, so that both sides of a call agree. */
#if defined(__cplusplus) && __cplusplus >= 201103L
#define FFNORM_ENUM_TYPE : unsigned int
#else
#define FFNORM_ENUM_TYPE
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define FFNORM_VERSION_MAJOR 0
#define FFNORM_VERSION_MINOR 1
#define FFNORM_VERSION_PATCH 0
#define FFNORM_VERSION "0.1.0"

/** Version of the packed weight format that this release writes and opens. */
#define FFNORM_FORMAT_VERSION 1u

/** Alignment, in bytes, of packed memory and of workspaces. */
#define FFNORM_ALIGNMENT 64u

/** Flax Linen's default for nn.LayerNorm. PyTorch's is 1e-5f. */
#define FFNORM_DEFAULT_EPSILON 1e-6f

/** The version of the library that was linked, such as "0.1.0" (compare with
 * FFNORM_VERSION). */
const char* ffnorm_version(void);

/* ---- Status ------------------------------------------------------------- */

typedef enum ffnorm_status FFNORM_ENUM_TYPE {
  FFNORM_OK = 0,
  /** An argument is NULL, misaligned, overlapping, zero or out of range. */
  FFNORM_INVALID_ARGUMENT = 1,
  /** The target is unknown or not on this CPU; the packed block is of another
   * format version; or the machine is big-endian. */
  FFNORM_UNSUPPORTED = 2,
  /** The memory does not hold a whole, unchanged packed block. */
  FFNORM_CORRUPT = 3,
  /** A size does not fit in size_t. */
  FFNORM_SIZE_OVERFLOW = 4,
  /** Packed memory is smaller than ffnorm_packed_bytes. */
  FFNORM_MEMORY_TOO_SMALL = 5,
  /** The workspace is missing, or smaller than ffnorm_workspace_bytes. */
  FFNORM_WORKSPACE_TOO_SMALL = 6,
} ffnorm_status;

/** One line of English, without a line end; never NULL, also for values that
 * are no status. */
const char* ffnorm_status_string(ffnorm_status status);

/* ---- Targets: the instruction sets that the library was built for -------- */

/** One instruction set's kernels. Immutable; lives as long as the program. */
typedef struct ffnorm_target ffnorm_target;

/** Writes up to `capacity` targets that both this build and this CPU have, the
 * best one first, and returns how many there are. targets may be NULL when
 * capacity is 0. Asks the CPU anew each time: some virtual machines take
 * microseconds to answer, so keep what it returns. */
size_t ffnorm_targets(const ffnorm_target** targets, size_t capacity);

/** Finds a target by name ("AVX3", "AVX2", "SSE4", "SSSE3", "NEON", ...; case
 * matters). A NULL name means the one that the environment variable
 * FFNORM_TARGET names or, where that is unset or empty, the best one.
 *
 * FFNORM_UNSUPPORTED: this build has no such target, or this CPU cannot run it.
 */
ffnorm_status ffnorm_find_target(const char* name,
                                 const ffnorm_target** target);

/** The target's name; NULL for NULL. */
const char* ffnorm_target_name(const ffnorm_target* target);

/** The width of its vectors in bytes; 0 for NULL. */
size_t ffnorm_target_vector_bytes(const ffnorm_target* target);

/** How a target's matmuls round a multiply-add. All targets of one class give
 * the same bits. */
typedef enum ffnorm_class FFNORM_ENUM_TYPE {
  /** a * w is rounded, then the sum is: SSE4 and below. */
  FFNORM_UNFUSED = 0,
  /** One rounding, fma: AVX2 and up, NEON, SVE, RVV. */
  FFNORM_FUSED = 1,
} ffnorm_class;

/** FFNORM_UNFUSED for NULL. */
ffnorm_class ffnorm_target_class(const ffnorm_target* target);

/* ---- Weights ------------------------------------------------------------ */

typedef enum ffnorm_layout FFNORM_ENUM_TYPE {
  /** Flax, JAX: w1 is (d_model, d_ff), w2 is (d_ff, d_model). */
  FFNORM_IN_OUT = 0,
  /** PyTorch nn.Linear: w1 is (d_ff, d_model), w2 is (d_model, d_ff). */
  FFNORM_OUT_IN = 1,
} ffnorm_layout;

/** The parameters of one block as a model has them; start from
 * ffnorm_default_params. */
typedef struct ffnorm_params {
  size_t d_model;       /**< >= 1 */
  size_t d_ff;          /**< >= 1 */
  ffnorm_layout layout; /**< of w1 and w2 */
  float epsilon;        /**< added to the variance: finite, >= 0 */
  const float* w1;      /**< required */
  size_t w1_stride;     /**< from one row of w1 to the next; 0: contiguous */
  const float* b1;      /**< (d_ff), or NULL: no bias */
  const float* w2;      /**< required */
  size_t w2_stride;     /**< as w1_stride */
  const float* b2;      /**< (d_model), or NULL: no bias */
  const float* scale;   /**< of LayerNorm (gamma): (d_model), or NULL: none */
  const float* offset;  /**< of LayerNorm (beta): (d_model), or NULL: none */
} ffnorm_params;

/** These sizes, FFNORM_IN_OUT, FFNORM_DEFAULT_EPSILON, contiguous rows, all
 * pointers NULL. */
ffnorm_params ffnorm_default_params(size_t d_model, size_t d_ff);

/** How many bytes ffnorm_pack writes for these sizes; pointers in params are
 * not read.
 *
 * FFNORM_INVALID_ARGUMENT, FFNORM_SIZE_OVERFLOW. */
ffnorm_status ffnorm_packed_bytes(const ffnorm_params* params, size_t* bytes);

/** Writes the parameters as a packed block to `memory`, of `bytes` bytes (at
 * least ffnorm_packed_bytes; what is over stays untouched). The block is
 * position independent and the same on every target, so it may be stored,
 * moved, memory-mapped and shared between processes and machines (little-endian
 * ones). It holds copies: later changes of the originals do not show. The
 * memory must not overlap a parameter.
 *
 * FFNORM_INVALID_ARGUMENT, FFNORM_UNSUPPORTED, FFNORM_SIZE_OVERFLOW,
 * FFNORM_MEMORY_TOO_SMALL. */
ffnorm_status ffnorm_pack(const ffnorm_params* params, void* memory,
                          size_t bytes);

/** A packed block opened for use: a small value, copied freely, valid while the
 * memory is. One block serves both orders. Fields are for reading. */
typedef struct ffnorm_block {
  const ffnorm_target* target;
  const unsigned char* packed;
  size_t packed_bytes;
  size_t d_model;
  size_t d_ff;
  float epsilon;
  uint32_t flags;
  uint32_t cpu; /**< what speed depends on beside the target; no result does */
} ffnorm_block;

/** Opens the packed block at `memory`, of which `bytes` bytes may be read, for
 * `target` (NULL: the default, see ffnorm_find_target). Checks each header
 * field and all sizes, in constant time; values are taken on trust
 * (ffnorm_verify reads them all). Asks the CPU anew each time, as ffnorm_targets
 * does.
 *
 * FFNORM_INVALID_ARGUMENT (also: memory not aligned), FFNORM_UNSUPPORTED,
 * FFNORM_CORRUPT. */
ffnorm_status ffnorm_open(const void* memory, size_t bytes,
                          const ffnorm_target* target, ffnorm_block* block);

/** What ffnorm_open checks, and the checksum over the whole block: one pass
 * over it. */
ffnorm_status ffnorm_verify(const void* memory, size_t bytes);

/* ---- Running ------------------------------------------------------------ */

/** One task of a parallel_for: does part `index` of the work that `context`
 * describes. */
typedef void (*ffnorm_task)(void* context, size_t index);

/** The caller's pool: calls task(context, i) exactly once for each i from 0 to
 * tasks - 1, in any order, in any threads, at the same time or one after
 * another, and returns when all have returned; what they wrote is then visible
 * to the thread that called. One forward may call it several times, and so may
 * a task of the same pool. It is fastest when the same i runs in the same thread
 * every time, whose caches still have the weights of task i. */
typedef void (*ffnorm_parallel_for)(void* pool, size_t tasks, ffnorm_task task,
                                    void* context);

/** What a call may use. The same bits come out whatever is in it. */
typedef struct ffnorm_exec {
  /** At least ffnorm_workspace_bytes, aligned to FFNORM_ALIGNMENT. Contents
   * need not be initialized, and mean nothing after the call. */
  void* workspace;
  size_t workspace_bytes;
  /** NULL: the calling thread does everything. */
  ffnorm_parallel_for parallel_for;
  void* pool; /**< handed to parallel_for */
  /** How many tasks to cut the work into. 0 is taken as 1, and so is every
   * number without a parallel_for. */
  size_t threads;
} ffnorm_exec;

/** The workspace that forward and dense need for up to `rows` rows and
 * `threads` tasks (0 is taken as 1). It never shrinks as either grows, and past
 * a few hundred rows a task it no longer grows.
 *
 * FFNORM_INVALID_ARGUMENT, FFNORM_SIZE_OVERFLOW. */
ffnorm_status ffnorm_workspace_bytes(const ffnorm_block* block, size_t rows,
                                     size_t threads, size_t* bytes);

typedef enum ffnorm_order FFNORM_ENUM_TYPE {
  FFNORM_PRE_LN = 0,  /**< y = x + FFN(LN(x)) */
  FFNORM_POST_LN = 1, /**< y = LN(x + FFN(x)) */
} ffnorm_order;

/** y = the block of x, in the given order. x and y are (rows, d_model), their
 * strides at least d_model.
 *
 * y == x with the same stride is allowed. It is an error if an element of y
 * overlaps another one of x, or if the workspace overlaps x, y or the packed
 * block, or y the packed block. rows == 0 does nothing, and then x, y and exec
 * may be NULL.
 *
 * Row i of y depends on row i of x and on the block alone: a row with a NaN or
 * an Inf leaves the others as they are.
 *
 * FFNORM_INVALID_ARGUMENT, FFNORM_SIZE_OVERFLOW, FFNORM_WORKSPACE_TOO_SMALL. */
ffnorm_status ffnorm_forward(const ffnorm_block* block, ffnorm_order order,
                             size_t rows, const float* x, size_t x_stride,
                             float* y, size_t y_stride,
                             const ffnorm_exec* exec);

/* ---- The stages alone --------------------------------------------------- */

/** y = LN(x), row by row. x and y are (rows, d_model), y == x with the same
 * stride allowed; scale and offset (d_model) or NULL, apart from y. target
 * NULL: the default. To share rows among threads, call it on parts. From 24
 * MiB on y is written past the caches, which takes whole lines: y aligned to 64
 * bytes, d_model and y_stride multiples of 16. */
ffnorm_status ffnorm_layer_norm(const ffnorm_target* target, size_t d_model,
                                float epsilon, const float* scale,
                                const float* offset, size_t rows,
                                const float* x, size_t x_stride, float* y,
                                size_t y_stride);

typedef enum ffnorm_layer FFNORM_ENUM_TYPE {
  FFNORM_DENSE_1 = 0, /**< w1, b1: (rows, d_model) -> (rows, d_ff) */
  FFNORM_DENSE_2 = 1, /**< w2, b2: (rows, d_ff) -> (rows, d_model) */
} ffnorm_layer;

typedef enum ffnorm_activation FFNORM_ENUM_TYPE {
  FFNORM_LINEAR = 0,
  FFNORM_RELU = 1, /**< v < 0 ? 0 : v, so NaN stays NaN and -0 stays -0 */
} ffnorm_activation;

/** y = activation(x w + b) with one of the block's two Dense layers. x and y
 * must not overlap. */
ffnorm_status ffnorm_dense(const ffnorm_block* block, ffnorm_layer layer,
                           ffnorm_activation activation, size_t rows,
                           const float* x, size_t x_stride, float* y,
                           size_t y_stride, const ffnorm_exec* exec);

/** y = x + v, (rows, d_model) each. y may be x or v (same stride). target NULL:
 * the default. Written past the caches as by ffnorm_layer_norm. */
ffnorm_status ffnorm_residual_add(const ffnorm_target* target, size_t d_model,
                                  size_t rows, const float* x, size_t x_stride,
                                  const float* v, size_t v_stride, float* y,
                                  size_t y_stride);

/* ---- The scalar reference: the definition of every result, bit for bit --- */

/* Plain loops over the caller's own arrays, in the order that
 * kernels/CONTRACT.md fixes. A target's results equal those of its class
 * (ffnorm_target_class); only the sign and payload of a NaN may differ. Slow,
 * and meant to be tested against. Arguments and errors are those of the
 * functions without `reference_`. */

ffnorm_status ffnorm_reference_layer_norm(size_t d_model, float epsilon,
                                          const float* scale,
                                          const float* offset, size_t rows,
                                          const float* x, size_t x_stride,
                                          float* y, size_t y_stride);

ffnorm_status ffnorm_reference_dense(const ffnorm_params* params,
                                     ffnorm_class rounding, ffnorm_layer layer,
                                     ffnorm_activation activation, size_t rows,
                                     const float* x, size_t x_stride, float* y,
                                     size_t y_stride);

ffnorm_status ffnorm_reference_residual_add(size_t d_model, size_t rows,
                                            const float* x, size_t x_stride,
                                            const float* v, size_t v_stride,
                                            float* y, size_t y_stride);

/** Bytes of workspace (float-aligned) that ffnorm_reference_forward needs, for
 * any number of rows. */
ffnorm_status ffnorm_reference_workspace_bytes(const ffnorm_params* params,
                                               size_t* bytes);

ffnorm_status ffnorm_reference_forward(const ffnorm_params* params,
                                       ffnorm_class rounding,
                                       ffnorm_order order, size_t rows,
                                       const float* x, size_t x_stride,
                                       float* y, size_t y_stride,
                                       void* workspace, size_t workspace_bytes);

#undef FFNORM_ENUM_TYPE

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* FFNORM_FFNORM_H_ */
