#include "filter.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "filter.cc"
#include <hwy/foreach_target.h>
// foreach_target goes first.
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace filter {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

void Scale(const float* in, float factor, size_t count, float* out) {
  const hn::ScalableTag<float> d;
  const auto f = hn::Set(d, factor);
  size_t i = 0;
  for (; i + hn::Lanes(d) <= count; i += hn::Lanes(d)) {
    hn::StoreU(hn::Mul(hn::LoadU(d, in + i), f), d, out + i);
  }
  for (; i < count; ++i) out[i] = in[i] * factor;
}

const char* Target() { return hwy::TargetName(HWY_TARGET); }

}  // namespace HWY_NAMESPACE
}  // namespace filter
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace filter {

HWY_EXPORT(Scale);
HWY_EXPORT(Target);

void Scale(const float* in, float factor, size_t count, float* out) {
  HWY_DYNAMIC_DISPATCH(Scale)(in, factor, count, out);
}

const char* Target() { return HWY_DYNAMIC_DISPATCH(Target)(); }

size_t NumTargets() { return hwy::SupportedAndGeneratedTargets().size(); }

void UsePlainest() {
  hwy::SetSupportedTargetsForTest(hwy::SupportedAndGeneratedTargets().back());
  hwy::GetChosenTarget().DeInit();
}

}  // namespace filter
#endif  // HWY_ONCE
