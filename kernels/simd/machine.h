// Who made the processor, and what it has beside its instruction set (engine/core/cpu.h). Which
// tile is the faster one was measured on AMD's Zen 4 and on Intel's Sapphire Rapids, and differs.
// Choices that hang on these are of speed alone; no bit does.
#pragma once

namespace etalon {

inline bool is_amd() {
#if defined(__x86_64__)
  static const bool amd = [] {
    __builtin_cpu_init();
    return __builtin_cpu_is("amd") != 0;
  }();
  return amd;
#else
  return false;
#endif
}

inline bool has_avx512_bf16() {
#if defined(__x86_64__)
  static const bool has = [] {
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx512bf16") != 0;
  }();
  return has;
#else
  return false;
#endif
}

}  // namespace etalon
