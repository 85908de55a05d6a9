// Which of the instruction sets that targets need this CPU has, and how it
// reads.
//
// The library asks the CPU itself, since the compilers' own detection leaves an
// undefined symbol in the archive (__cpu_model), lacks features that targets
// use (clang 14: f16c), and keeps global state.
#ifndef FFNORM_KERNELS_CPU_H_
#define FFNORM_KERNELS_CPU_H_

#include <stdint.h>
#include <string.h>

#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>
#define FFNORM_CPU_X86 1
#else
#define FFNORM_CPU_X86 0
#endif

namespace ffnorm {
namespace {

// Each level has all features of those before it.
enum CpuLevel : uint32_t {
  kCpuBaseline = 0,  // what the compiler was told to assume
  kCpuSsse3 = 1,
  kCpuSse4 = 2,
  kCpuAvx2 = 3,
  kCpuAvx3 = 4,
};

// The registers of CPUID and XGETBV that a level depends on.
struct CpuidLeaves {
  uint32_t leaf1_ecx;
  uint32_t leaf7_ebx;
  uint64_t xcr0;  // 0 without OSXSAVE
};

// Pure, so that a test can hide features as hypervisors do. The features are
// those that Highway's compiler attributes switch on for a target, since the
// compiler may use any of them anywhere in its code.
inline CpuLevel LevelOf(const CpuidLeaves& cpu) {
  const auto has = [](uint32_t reg, int bit) { return (reg >> bit & 1) != 0; };
  // SSE3, SSSE3
  if (!has(cpu.leaf1_ecx, 0) || !has(cpu.leaf1_ecx, 9)) return kCpuBaseline;
  // PCLMULQDQ, SSE4.1, SSE4.2, POPCNT, AES
  if (!has(cpu.leaf1_ecx, 1) || !has(cpu.leaf1_ecx, 19) ||
      !has(cpu.leaf1_ecx, 20) || !has(cpu.leaf1_ecx, 23) ||
      !has(cpu.leaf1_ecx, 25)) {
    return kCpuSsse3;
  }
  // FMA, AVX, F16C; BMI1, AVX2, BMI2; the system saves XMM and YMM.
  if (!has(cpu.leaf1_ecx, 12) || !has(cpu.leaf1_ecx, 28) ||
      !has(cpu.leaf1_ecx, 29) || !has(cpu.leaf7_ebx, 3) ||
      !has(cpu.leaf7_ebx, 5) || !has(cpu.leaf7_ebx, 8) ||
      (cpu.xcr0 & 0x6) != 0x6) {
    return kCpuSse4;
  }
  // AVX-512 F, DQ, CD, BW, VL; the system saves mask registers and ZMM.
  if (!has(cpu.leaf7_ebx, 16) || !has(cpu.leaf7_ebx, 17) ||
      !has(cpu.leaf7_ebx, 28) || !has(cpu.leaf7_ebx, 30) ||
      !has(cpu.leaf7_ebx, 31) || (cpu.xcr0 & 0xE6) != 0xE6) {
    return kCpuAvx2;
  }
  return kCpuAvx3;
}

// What else speed depends on, never a result: bits of ffnorm_block.cpu.
enum CpuTrait : uint32_t {
  // Keeps a few streams of weights going by its own prefetchers, which compete
  // with software's: AMD's, and Hygon's of the same make (figures in tuning.h).
  kCpuReadsAhead = 1,
};

// The vendor's twelve letters, as leaf 0 has them.
struct CpuVendor {
  uint32_t ebx, edx, ecx;
};

inline uint32_t TraitsOf(const CpuVendor& vendor) {
  const auto is = [&vendor](const char* name) {
    uint32_t words[3];
    memcpy(words, name, sizeof(words));
    return vendor.ebx == words[0] && vendor.edx == words[1] &&
           vendor.ecx == words[2];
  };
  return is("AuthenticAMD") || is("HygonGenuine") ? kCpuReadsAhead : CpuTrait{};
}

inline uint32_t TraitsOfThisCpu() {
#if FFNORM_CPU_X86
  CpuVendor vendor = {};
  uint32_t eax;
  if (!__get_cpuid(0, &eax, &vendor.ebx, &vendor.ecx, &vendor.edx)) return 0;
  return TraitsOf(vendor);
#else
  return 0;
#endif
}

inline CpuLevel ThisCpu() {
#if FFNORM_CPU_X86
  CpuidLeaves cpu = {};
  uint32_t eax, ebx, ecx, edx;
  if (__get_cpuid(1, &eax, &ebx, &ecx, &edx)) {
    cpu.leaf1_ecx = ecx;
    if ((ecx >> 27 & 1) != 0) {  // OSXSAVE: XGETBV exists
      uint32_t low, high;
      __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
      cpu.xcr0 = static_cast<uint64_t>(high) << 32 | low;
    }
  }
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx)) cpu.leaf7_ebx = ebx;
  return LevelOf(cpu);
#else
  return kCpuBaseline;
#endif
}

}  // namespace
}  // namespace ffnorm

#endif  // FFNORM_KERNELS_CPU_H_
