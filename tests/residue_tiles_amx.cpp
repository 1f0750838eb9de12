#include <cstring>

#include "kernels/gemm/residues_inl.h"
#include "tests/residue_tiles.h"

namespace etalon::test {
namespace {

thread_local std::uint8_t tiles[8][16][64];
thread_local bool begun = false;

// What the instructions do, a row of sums at a time.
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
    const __m512i byte = _mm512_set1_epi32(255);
    for (int r = 0; r < 16; ++r) {
      __m512i sums = _mm512_loadu_si512(tiles[to][r]);
      for (int k = 0; k < 64; ++k)
        sums = _mm512_add_epi32(
            sums, _mm512_mullo_epi32(
                      _mm512_set1_epi32(tiles[a][r][k]),
                      _mm512_and_si512(byte, _mm512_srl_epi32(_mm512_loadu_si512(tiles[b][k / 4]),
                                                              _mm_cvtsi32_si128(k % 4 * 8)))));
      _mm512_storeu_si512(tiles[to][r], sums);
    }
  }
};

}  // namespace

const ResidueSet& software_residues() { return amx::residue_set_of<SoftwareUnit>(); }

}  // namespace etalon::test
