#include <cstring>

#include "kernels/gemm/residues_inl.h"
#include "tests/residue_tiles.h"

namespace etalon::test {
namespace {

struct Tile {
  std::uint8_t of[16][64];
  int rows = 0, bytes = 0;
};
thread_local Tile tiles[8];
thread_local bool begun = false;

void need(bool so) {
  if (!so) __builtin_trap();
}

// What the instructions do, a row of sums at a time.
struct SoftwareUnit {
  static void configure(const amx::TileShapes& shapes) {
    begun = true;
    for (int t = 0; t < 8; ++t) {
      tiles[t].rows = shapes.rows[t];
      tiles[t].bytes = shapes.bytes[t];
      need(tiles[t].rows <= 16 && tiles[t].bytes <= 64);
      std::memset(tiles[t].of, 0xa5, sizeof tiles[t].of);
    }
  }
  static void end() { begun = false; }
  template <int t>
  static void zero() {
    std::memset(tiles[t].of, 0, sizeof tiles[t].of);
  }
  template <int t>
  static void load(const void* from, std::int64_t row) {
    need(begun);
    for (int r = 0; r < tiles[t].rows; ++r)
      std::memcpy(tiles[t].of[r], static_cast<const std::uint8_t*>(from) + r * row,
                  static_cast<std::size_t>(tiles[t].bytes));
  }
  template <int t>
  static void store(void* to) {
    for (int r = 0; r < tiles[t].rows; ++r)
      std::memcpy(static_cast<std::uint8_t*>(to) + r * 64, tiles[t].of[r],
                  static_cast<std::size_t>(tiles[t].bytes));
  }
  template <int to, int a, int b>
  static void multiply() {
    need(tiles[to].rows == tiles[a].rows && tiles[to].bytes == tiles[b].bytes &&
         tiles[a].bytes == 4 * tiles[b].rows && tiles[to].bytes == 64);
    const __m512i byte = _mm512_set1_epi32(255);
    for (int r = 0; r < tiles[to].rows; ++r) {
      __m512i sums = _mm512_loadu_si512(tiles[to].of[r]);
      for (int k = 0; k < tiles[a].bytes; ++k)
        sums = _mm512_add_epi32(
            sums,
            _mm512_mullo_epi32(
                _mm512_set1_epi32(tiles[a].of[r][k]),
                _mm512_and_si512(byte, _mm512_srl_epi32(_mm512_loadu_si512(tiles[b].of[k / 4]),
                                                        _mm_cvtsi32_si128(k % 4 * 8)))));
      _mm512_storeu_si512(tiles[to].of[r], sums);
    }
  }
};

}  // namespace

const ResidueSet& software_residues() { return amx::residue_set_of<SoftwareUnit>(); }

}  // namespace etalon::test
