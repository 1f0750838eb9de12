#include "tests/residue_tiles.h"

#include <cstring>

#include "kernels/gemm/residues_inl.h"

namespace etalon::test {
namespace {

thread_local std::uint8_t tiles[8][16][64];
thread_local bool begun = false;

// What the instructions do, one number after the other.
struct SoftwareUnit {
  static void begin() {
    begun = true;
    std::memset(tiles, 0xa5, sizeof tiles);
  }
  static void end() { begun = false; }
  template <int t>
  static void zero() {
    std::memset(tiles[t], 0, sizeof tiles[t]);
  }
  template <int t>
  static void load(const void* from, std::int64_t row) {
    if (!begun) __builtin_trap();
    for (int r = 0; r < 16; ++r)
      std::memcpy(tiles[t][r], static_cast<const std::uint8_t*>(from) + r * row, 64);
  }
  template <int t>
  static void store(void* to) {
    std::memcpy(to, tiles[t], sizeof tiles[t]);
  }
  template <int to, int a, int b>
  static void multiply() {
    for (int r = 0; r < 16; ++r)
      for (int c = 0; c < 16; ++c) {
        std::uint32_t sum;
        std::memcpy(&sum, &tiles[to][r][4 * c], 4);
        for (int k = 0; k < 64; ++k)
          sum += static_cast<std::uint32_t>(tiles[a][r][k]) * tiles[b][k / 4][4 * c + k % 4];
        std::memcpy(&tiles[to][r][4 * c], &sum, 4);
      }
  }
};

}  // namespace

const ResidueSet& software_residues() { return amx::residue_set_of<SoftwareUnit>(); }

}  // namespace etalon::test
