// The tile unit of AMX: eight registers of at most 16 rows of 64 bytes. For files compiled for AMX.
#pragma once

#include <cstdint>

#include "kernels/simd/unroll.h"

namespace etalon::amx {

// Rows and bytes a row of each register, as the processor reads them.
struct alignas(64) TileShapes {
  std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
  std::uint16_t bytes[16] = {};
  std::uint8_t rows[16] = {};
};

struct TileUnit {
  // Registers are zero afterwards.
  ETALON_INLINE static void configure(const TileShapes& shapes) {
    asm volatile("ldtilecfg %0" : : "m"(shapes));
  }
  static void end() { asm volatile("tilerelease"); }
  // Instructions by hand: GCC's intrinsics take digits only, not a template's argument.
  template <int t>
  ETALON_INLINE static void zero() {
    asm volatile("tilezero %%tmm%c0" : : "i"(t));
  }
  template <int t>
  ETALON_INLINE static void load(const void* from, std::int64_t row) {
    asm volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(from), "r"(row), "i"(t));
  }
  template <int t>
  ETALON_INLINE static void store(void* to) {
    asm volatile("tilestored %%tmm%c2, (%0,%1,1)"
                 :
                 : "r"(to), "r"(std::int64_t{64}), "i"(t)
                 : "memory");
  }
  // to += a b, of unsigned bytes.
  template <int to, int a, int b>
  ETALON_INLINE static void multiply() {
    asm volatile("tdpbuud %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(to), "i"(a), "i"(b));
  }
};

}  // namespace etalon::amx
