// The measuring loops, once for each target.
#include <string.h>

#include "bench/peak.h"
#include "bench/target_list.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "bench/peak_loops.cc"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

// Chains must cover latency x throughput of a multiply-add. Latency 4 on 2
// ports asks for 8 fused chains, a product and a sum (3 cycles each, 2 of each
// a cycle) for 12: 14 fill 16 registers together with the two operands. With 32
// registers there may be 4 ports.
#ifndef FFNORM_CHAINS
#define FFNORM_CHAINS_14(X) \
  X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13)
#define FFNORM_CHAINS_10_MORE(X) \
  X(14) X(15) X(16) X(17) X(18) X(19) X(20) X(21) X(22) X(23)
#if HWY_ARCH_X86 || HWY_ARCH_ARM_V7
#define FFNORM_CHAINS 14
#define FFNORM_EACH_CHAIN(X) FFNORM_CHAINS_14(X)
#else
#define FFNORM_CHAINS 24
#define FFNORM_EACH_CHAIN(X) FFNORM_CHAINS_14(X) FFNORM_CHAINS_10_MORE(X)
#endif
#endif

HWY_BEFORE_NAMESPACE();
namespace ffnorm {
namespace bench {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

size_t FlopsPerStep() {
  return 2 * FFNORM_CHAINS * hn::Lanes(hn::ScalableTag<float>());
}

float MultiplyAdd(size_t steps, float a, float b) {
  const hn::ScalableTag<float> d;
  const auto va = hn::Set(d, a);
  const auto vb = hn::Set(d, b);
#define FFNORM_START(i) auto c##i = hn::Set(d, static_cast<float>(i));
  FFNORM_EACH_CHAIN(FFNORM_START)
#undef FFNORM_START
  for (size_t step = 0; step < steps; ++step) {
#if HWY_NATIVE_FMA
#define FFNORM_STEP(i) c##i = hn::MulAdd(va, vb, c##i);
#else
// The chain runs through the product too, else it would leave the loop.
#define FFNORM_STEP(i) c##i = hn::Add(hn::Mul(c##i, va), vb);
#endif
    FFNORM_EACH_CHAIN(FFNORM_STEP)
#undef FFNORM_STEP
  }
  auto sum = hn::Zero(d);
#define FFNORM_SUM(i) sum = hn::Add(sum, c##i);
  FFNORM_EACH_CHAIN(FFNORM_SUM)
#undef FFNORM_SUM
  return hn::GetLane(sum);
}

// Eight accumulators, so that neither the latency of the sums nor the number
// of loads in flight is the limit.
uint32_t ReadOneStream(const uint32_t* from, size_t words) {
  const hn::ScalableTag<uint32_t> d;
  const size_t N = hn::Lanes(d);
  auto s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
  auto s4 = s0, s5 = s0, s6 = s0, s7 = s0;
  for (size_t i = 0; i < words; i += 8 * N) {
    s0 = hn::Add(s0, hn::Load(d, from + i));
    s1 = hn::Add(s1, hn::Load(d, from + i + N));
    s2 = hn::Add(s2, hn::Load(d, from + i + 2 * N));
    s3 = hn::Add(s3, hn::Load(d, from + i + 3 * N));
    s4 = hn::Add(s4, hn::Load(d, from + i + 4 * N));
    s5 = hn::Add(s5, hn::Load(d, from + i + 5 * N));
    s6 = hn::Add(s6, hn::Load(d, from + i + 6 * N));
    s7 = hn::Add(s7, hn::Load(d, from + i + 7 * N));
  }
  s0 = hn::Add(hn::Add(s0, s1), hn::Add(s2, s3));
  s4 = hn::Add(hn::Add(s4, s5), hn::Add(s6, s7));
  return hn::GetLane(hn::Add(s0, s4));
}

uint32_t ReadFourStreams(const uint32_t* from, size_t words) {
  const hn::ScalableTag<uint32_t> d;
  const size_t N = hn::Lanes(d);
  const size_t part = words / 4;
  const uint32_t* const from1 = from + part;
  const uint32_t* const from2 = from1 + part;
  const uint32_t* const from3 = from2 + part;
  auto s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
  auto s4 = s0, s5 = s0, s6 = s0, s7 = s0;
  for (size_t i = 0; i < part; i += 2 * N) {
    s0 = hn::Add(s0, hn::Load(d, from + i));
    s1 = hn::Add(s1, hn::Load(d, from + i + N));
    s2 = hn::Add(s2, hn::Load(d, from1 + i));
    s3 = hn::Add(s3, hn::Load(d, from1 + i + N));
    s4 = hn::Add(s4, hn::Load(d, from2 + i));
    s5 = hn::Add(s5, hn::Load(d, from2 + i + N));
    s6 = hn::Add(s6, hn::Load(d, from3 + i));
    s7 = hn::Add(s7, hn::Load(d, from3 + i + N));
  }
  s0 = hn::Add(hn::Add(s0, s1), hn::Add(s2, s3));
  s4 = hn::Add(hn::Add(s4, s5), hn::Add(s6, s7));
  return hn::GetLane(hn::Add(s0, s4));
}

}  // namespace

const PeakLoops kPeakLoops = {FFNORM_TARGET_NAME, HWY_TARGET != HWY_EMU128,
                              &FlopsPerStep,      &MultiplyAdd,
                              &ReadOneStream,     &ReadFourStreams};

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace HWY_NAMESPACE
}  // namespace bench
}  // namespace ffnorm
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ffnorm {
namespace bench {
namespace {

const PeakLoops* const kAllPeakLoops[] = {FFNORM_EACH_TARGET(kPeakLoops)};

}  // namespace

const PeakLoops* FindPeakLoops(const ffnorm_target* target) {
  const char* const name = ffnorm_target_name(target);
  for (const PeakLoops* const loops : kAllPeakLoops) {
    if (loops != nullptr && strcmp(loops->target, name) == 0) return loops;
  }
  return nullptr;
}

}  // namespace bench
}  // namespace ffnorm
#endif  // HWY_ONCE
