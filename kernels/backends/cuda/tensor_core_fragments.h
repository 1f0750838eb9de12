// Where a tile of tensor_core_check.h lies when `mma` and `wgmma` get it, host and device: what
// each lane holds, as the PTX manual lays out mma.m16n8k16 (f16, bf16), m16n8k8 (tf32) and m16n8k32
// (f8), and wgmma.m64n8 of the same k, whose four warps hold 16 rows of A each in mma's layout.
// With g = lane / 4 and t = lane % 4, a register of A holds neighbouring k of row g or g + 8, one
// of B neighbouring k of column g, C and D rows g and g + 8, columns 2 t and 2 t + 1.
//
// wgmma reads B from shared memory, by a descriptor. Without swizzling, and K major, B is made of
// matrices of 8 columns by 16 bytes of k, each 128 bytes in sequence; a tile has two of them, one
// behind the other along k.
#pragma once

#include "kernels/backends/cuda/tensor_core_check.h"

namespace etalon {
inline namespace ETALON_ISA_NAMESPACE {

inline constexpr int kWgmmaRows = 64, kWgmmaWords = 64, kWgmmaMatrixBytes = 128;

// Codes in 32 bits.
ETALON_HD inline int codes_in_word(TensorCoreFormat format) {
  return format == TensorCoreFormat::tf32                                      ? 1
         : format == TensorCoreFormat::f16 || format == TensorCoreFormat::bf16 ? 2
                                                                               : 4;
}
// Word `at` of row (which = 0) or column (which = 1) `line`, k ascending from its lowest bits.
ETALON_HD inline std::uint32_t tile_word(const TensorCoreCheck& c, std::uint64_t tile, int which,
                                         int line, int at) {
  const int count = codes_in_word(c.format);
  std::uint32_t word = 0;
  for (int i = 0; i < count; ++i)
    word |= c.code(tile, which, line, at * count + i) << (i * (32 / count));
  return word;
}
// Register r of a lane, of A's rows from row0 on and of mma's B.
ETALON_HD inline std::uint32_t tile_a(const TensorCoreCheck& c, std::uint64_t tile, int row0,
                                      int lane, int r) {
  return tile_word(c, tile, 0, row0 + lane / 4 + r % 2 * 8, lane % 4 + r / 2 * 4);
}
ETALON_HD inline std::uint32_t tile_b(const TensorCoreCheck& c, std::uint64_t tile, int lane,
                                      int r) {
  return tile_word(c, tile, 1, lane / 4, lane % 4 + r * 4);
}
// Output i of a lane.
ETALON_HD inline int tile_row(int row0, int lane, int i) { return row0 + lane / 4 + i / 2 * 8; }
ETALON_HD inline int tile_col(int lane, int i) { return lane % 4 * 2 + i % 2; }

// Word i of wgmma's B in shared memory.
ETALON_HD inline std::uint32_t wgmma_b_word(const TensorCoreCheck& c, std::uint64_t tile, int i) {
  constexpr int kWordsOfMatrix = kWgmmaMatrixBytes / 4;
  return tile_word(c, tile, 1, i % kWordsOfMatrix / 4, i / kWordsOfMatrix * 4 + i % 4);
}
// The descriptor of B at an address of shared memory, a multiple of 16: offsets in units of 16
// bytes, of the next matrix along k and of the next 8 columns, of which there are none.
ETALON_HD inline std::uint64_t wgmma_descriptor(std::uint32_t address) {
  return std::uint64_t{(address & 0x3ffffU) >> 4} | (std::uint64_t{kWgmmaMatrixBytes / 16} << 16) |
         (std::uint64_t{2 * kWgmmaMatrixBytes / 16} << 32);
}

}  // namespace ETALON_ISA_NAMESPACE
}  // namespace etalon
