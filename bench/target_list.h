// Compiles a file of the benchmarks for the targets of the library
// (kernels/targets.cc). To be included before any header of Highway.
#ifndef FFNORM_BENCH_TARGET_LIST_H_
#define FFNORM_BENCH_TARGET_LIST_H_

#define HWY_DISABLED_TARGETS (HWY_AVX3 - 1)

// All addresses of `symbol`, which each per-target namespace defines; nullptr
// for targets that were not compiled.
#if defined(__x86_64__) || defined(__i386__)
#define FFNORM_EACH_TARGET(symbol) \
  HWY_CHOOSE_TARGET_LIST(symbol), HWY_CHOOSE_FALLBACK(symbol)
#else
#define HWY_COMPILE_ONLY_STATIC
#define FFNORM_EACH_TARGET(symbol) &HWY_NAMESPACE::symbol
#endif

// A target's name: AVX2 for the namespace N_AVX2.
#define FFNORM_TARGET_NAME &HWY_STR(HWY_NAMESPACE)[2]

#endif  // FFNORM_BENCH_TARGET_LIST_H_
