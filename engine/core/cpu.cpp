#include "engine/core/cpu.h"

#include <array>
#include <fstream>

#include "engine/core/error.h"

#if defined(__x86_64__) && defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace etalon {
namespace {

constexpr std::array<std::string_view, 4> kNames{"sse2", "avx2", "avx512", "amx"};

#if defined(__x86_64__)
// Linux hands out the 8 KiB of tile state only on request (arch_prctl, XFEATURE_XTILEDATA).
bool request_amx_state() {
#if defined(__linux__)
  constexpr int kArchReqXcompPerm = 0x1023, kXTileData = 18;
  return syscall(SYS_arch_prctl, kArchReqXcompPerm, kXTileData) == 0;
#else
  return false;
#endif
}

// AMX-TILE and AMX-INT8, and what the files compiled for amx use beside them.
bool cpu_has_amx_int8() {
  if (!__builtin_cpu_supports("avx512vbmi") || !__builtin_cpu_supports("avx512vnni") ||
      !__builtin_cpu_supports("avx512ifma"))
    return false;
  unsigned a = 7, b = 0, c = 0, d = 0;
  asm volatile("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
  return (d >> 24 & 1U) != 0 && (d >> 25 & 1U) != 0;
}
#endif

Isa detect() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") ||
      !__builtin_cpu_supports("f16c"))
    return Isa::sse2;
  if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw") ||
      !__builtin_cpu_supports("avx512dq") || !__builtin_cpu_supports("avx512vl"))
    return Isa::avx2;
  return cpu_has_amx_int8() && request_amx_state() ? Isa::amx : Isa::avx512;
#else
  return Isa::sse2;
#endif
}

}  // namespace

std::string_view name(Isa isa) { return kNames[static_cast<std::size_t>(isa)]; }

Isa parse_isa(std::string_view text) {
  for (std::size_t i = 0; i < kNames.size(); ++i)
    if (kNames[i] == text) return static_cast<Isa>(i);
  throw usage_error("unknown instruction set '{}'; the names are sse2, avx2, avx512, amx", text);
}

Isa detect_isa() {
  static const Isa isa = detect();
  return isa;
}

std::string cpu_model() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);)
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  return "unknown";
}

}  // namespace etalon
