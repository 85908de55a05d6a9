#include "bench/plain_layer_norm.h"

#include <math.h>
#include <string.h>

#include "bench/target_list.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "bench/plain_layer_norm.cc"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace ffnorm {
namespace bench {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// Four accumulators hide the latency of the sums: the row comes from L1 or L2,
// and one or two loads a cycle are the limit.
void LayerNorm(size_t width, float epsilon, const float* scale,
               const float* offset, size_t rows, const float* x, float* y) {
  const hn::ScalableTag<float> d;
  const size_t N = hn::Lanes(d);
  const float inverse_width = 1.0f / static_cast<float>(width);
  for (size_t row = 0; row < rows; ++row, x += width, y += width) {
    auto s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
    for (size_t i = 0; i < width; i += 4 * N) {
      s0 = hn::Add(s0, hn::LoadU(d, x + i));
      s1 = hn::Add(s1, hn::LoadU(d, x + i + N));
      s2 = hn::Add(s2, hn::LoadU(d, x + i + 2 * N));
      s3 = hn::Add(s3, hn::LoadU(d, x + i + 3 * N));
    }
    s0 = hn::Add(hn::Add(s0, s1), hn::Add(s2, s3));
    const auto mean = hn::Mul(hn::SumOfLanes(d, s0), hn::Set(d, inverse_width));

    auto q0 = hn::Zero(d), q1 = q0, q2 = q0, q3 = q0;
    for (size_t i = 0; i < width; i += 4 * N) {
      const auto e0 = hn::Sub(hn::LoadU(d, x + i), mean);
      const auto e1 = hn::Sub(hn::LoadU(d, x + i + N), mean);
      const auto e2 = hn::Sub(hn::LoadU(d, x + i + 2 * N), mean);
      const auto e3 = hn::Sub(hn::LoadU(d, x + i + 3 * N), mean);
      q0 = hn::MulAdd(e0, e0, q0);
      q1 = hn::MulAdd(e1, e1, q1);
      q2 = hn::MulAdd(e2, e2, q2);
      q3 = hn::MulAdd(e3, e3, q3);
    }
    q0 = hn::Add(hn::Add(q0, q1), hn::Add(q2, q3));
    const float variance = hn::GetLane(hn::SumOfLanes(d, q0)) * inverse_width;
    const auto rstd = hn::Set(d, 1.0f / sqrtf(variance + epsilon));

    for (size_t i = 0; i < width; i += N) {
      const auto e = hn::Mul(hn::Sub(hn::LoadU(d, x + i), mean), rstd);
      hn::StoreU(
          hn::MulAdd(e, hn::LoadU(d, scale + i), hn::LoadU(d, offset + i)), d,
          y + i);
    }
  }
}

}  // namespace

const PlainLayerNorm kPlainLayerNorm = {FFNORM_TARGET_NAME, &LayerNorm};

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace HWY_NAMESPACE
}  // namespace bench
}  // namespace ffnorm
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ffnorm {
namespace bench {
namespace {

const PlainLayerNorm* const kAll[] = {FFNORM_EACH_TARGET(kPlainLayerNorm)};

}  // namespace

PlainLayerNormFunction FindPlainLayerNorm(const ffnorm_target* target) {
  const char* const name = ffnorm_target_name(target);
  for (const PlainLayerNorm* const entry : kAll) {
    if (entry != nullptr && strcmp(entry->target, name) == 0) {
      return entry->run;
    }
  }
  return nullptr;
}

}  // namespace bench
}  // namespace ffnorm
#endif  // HWY_ONCE
