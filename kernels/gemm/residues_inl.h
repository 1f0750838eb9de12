// Products of residues on a tile unit (residue_tile.h). Unit is the processor's, or a test's in
// software.
//
// Loops: parts of a block; plane; steps of k; strips of a, two and two, as many as fit beside two
// of b; strips of b; steps. Two by two tiles share each tile that is loaded: four loads for four
// products. Where sums are short a part is those four tiles, whose sums are joined before they
// leave the first cache; else it is the block, whose operands are then read from the first cache
// for all but one of their uses.
#pragma once

#include "kernels/gemm/residue_join_inl.h"

namespace etalon::amx {

// So many steps at a time that a strip's tiles stay in the first cache, of 48 KiB; so many tiles of
// a and of two strips of b beside each other there; and the most steps of a short sum: to store and
// load the sums of a tile through the second cache takes about as long as to load operands from it
// for so many steps.
inline constexpr std::int64_t kResidueSteps = 16, kResidueCached = 18, kResidueShort = 4;

constexpr TileShapes product_shapes() {
  TileShapes shapes;
  for (int t = 0; t < 8; ++t) {
    shapes.bytes[t] = 64;
    shapes.rows[t] = 16;
  }
  return shapes;
}
inline constexpr TileShapes kProductShapes = product_shapes();

template <class Unit>
struct ResidueProducts {
  // Two strips (or one) of a by two (or one) of b, over `steps` steps. All loads come before the
  // products; in turns with them is no faster.
  template <int R, int C>
  ETALON_INLINE static void tiles(const std::uint8_t* const* a, const std::int64_t* a_steps,
                                  std::int64_t a_row, const std::uint8_t* const* b,
                                  std::int64_t steps, std::int32_t* const* to, bool resume) {
    if (resume)
      simd::unroll<R * C>([&](auto t) ETALON_INLINE_LAMBDA { Unit::template load<t>(to[t], 64); });
    else
      simd::unroll<R * C>([&](auto t) ETALON_INLINE_LAMBDA { Unit::template zero<t>(); });
    for (std::int64_t s = 0; s < steps; ++s) {
      const std::int64_t at = s * kResidueTileBytes;
      Unit::template load<4>(a[0] + a_steps[s], a_row);
      Unit::template load<6>(b[0] + at, kResidueTileStep);
      if constexpr (C == 2) Unit::template load<7>(b[1] + at, kResidueTileStep);
      if constexpr (R == 2) Unit::template load<5>(a[1] + a_steps[s], a_row);
      Unit::template multiply<0, 4, 6>();
      if constexpr (C == 2) Unit::template multiply<1, 4, 7>();
      if constexpr (R == 2) Unit::template multiply<C, 5, 6>();
      if constexpr (R == 2 && C == 2) Unit::template multiply<3, 5, 7>();
    }
    simd::unroll<R * C>([&](auto t) ETALON_INLINE_LAMBDA { Unit::template store<t>(to[t]); });
  }

  // Strips [s0, s1) by [c0, c1) of a block.
  struct Part {
    int s0, s1, c0, c1;
    int tiles() const { return (s1 - s0) * (c1 - c0); }
    std::int32_t* sums(std::int32_t* all, int s, int c) const {
      return all + ((s - s0) * (c1 - c0) + c - c0) * (kResiduePlanes * kResidueTileSums);
    }
  };

  static void multiply(const ResidueBlock& block, const Part& part, std::int32_t* sums) {
    asm volatile("" : : : "memory");  // tile loads do not say that they read memory
    const std::int64_t pieces = block.steps > 0 ? (block.steps - 1) / kResidueSteps + 1 : 1;
    const std::int64_t each = (block.steps + pieces - 1) / pieces;
    const auto group = static_cast<int>(
        each == 0 ? 2 : 2 * (kResidueCached / each > 2 ? kResidueCached / each - 1 : 1));
    for (int i = 0; i < kResiduePlanes; ++i)
      for (std::int64_t piece = 0; piece < pieces; ++piece) {
        const std::int64_t first = piece * each,
                           steps = block.steps - first < each ? block.steps - first : each;
        for (int g = part.s0; g < part.s1; g += group)
          for (int c = part.c0; c < part.c1; c += 2)
            for (int s = g; s < part.s1 && s < g + group; s += 2) {
              const int r_count = part.s1 - s >= 2 ? 2 : 1, c_count = part.c1 - c >= 2 ? 2 : 1;
              const std::uint8_t *a[2], *b[2];
              std::int32_t* to[4];
              for (int r = 0; r < r_count; ++r) a[r] = block.rows[s + r].a + i * block.a_plane;
              for (int q = 0; q < c_count; ++q)
                b[q] = block.columns[c + q].b + i * block.b_plane + first * kResidueTileBytes;
              for (int r = 0; r < r_count; ++r)
                for (int q = 0; q < c_count; ++q)
                  to[r * c_count + q] = part.sums(sums, s + r, c + q) + i * kResidueTileSums;
              const std::int64_t* a_steps = block.a_steps + first;
              const bool resume = piece > 0;
              if (r_count == 2 && c_count == 2)
                tiles<2, 2>(a, a_steps, block.a_row, b, steps, to, resume);
              else if (r_count == 2)
                tiles<2, 1>(a, a_steps, block.a_row, b, steps, to, resume);
              else if (c_count == 2)
                tiles<1, 2>(a, a_steps, block.a_row, b, steps, to, resume);
              else
                tiles<1, 1>(a, a_steps, block.a_row, b, steps, to, resume);
            }
      }
    asm volatile("" : : : "memory");
  }

  // A tile's digits are made while those of the one before are rounded.
  static void round(const ResidueBlock& block, const Part& part, std::int32_t* sums) {
    using Join = ResidueJoin<Unit>;
    JoinDigits digits[2];
    Join::begin();
    const int wide = part.c1 - part.c0, count = part.tiles();
    for (int t = 0; t <= count; ++t) {
      if (t < count) {
        const int s = part.s0 + t / wide;
        Join::digits(part.sums(sums, s, part.c0 + t % wide), block.rows[s].rows, digits[t % 2]);
      }
      if (t > 0)
        Join::round(block, digits[(t - 1) % 2], part.s0 + (t - 1) / wide, part.c0 + (t - 1) % wide);
    }
    Unit::configure(kProductShapes);
  }

  static int least(int a, int b) { return a < b ? a : b; }
  static void begin() { Unit::configure(kProductShapes); }
  static void run(const ResidueBlock& block, std::int32_t* sums) {
    const bool is_short = block.steps <= kResidueShort;
    const int tall = is_short ? 2 : block.row_strips, wide = is_short ? 2 : block.column_strips;
    for (int c = 0; c < block.column_strips; c += wide)
      for (int s = 0; s < block.row_strips; s += tall) {
        const Part part{s, least(block.row_strips, s + tall), c,
                        least(block.column_strips, c + wide)};
        multiply(block, part, sums);
        round(block, part, sums);
      }
  }
};

// residue_pack_amx.cpp
void pack_residues(const float* const* rows, std::int64_t k, bool right, std::uint8_t* to,
                   std::int64_t plane, ResidueNorms& norms);
void pack_residues_across(const float* from, std::int64_t stride, int columns, std::int64_t k,
                          std::uint8_t* to, std::int64_t plane, ResidueNorms& norms);
double cut_residues_turned(const ResidueTurn& block, double unit, std::uint8_t* to,
                           std::int64_t pitch, std::int64_t plane);
void gather_residues(const std::uint8_t* from, std::int64_t plane, const std::int64_t* offset,
                     int runs, std::int64_t bytes, std::uint8_t* to, std::int64_t to_plane);
void transpose(const float* from, std::int64_t from_stride, int lanes, std::int64_t k, float* to,
               std::int64_t to_stride);
void add_squares(const float* x, std::int64_t stride, std::int64_t channels, std::int64_t count,
                 double* sums);

template <class Unit>
const ResidueSet& residue_set_of() {
  static const ResidueSet set{.transpose = transpose,
                              .pack = pack_residues,
                              .pack_across = pack_residues_across,
                              .cut_turned = cut_residues_turned,
                              .gather = gather_residues,
                              .add_squares = add_squares,
                              .begin = ResidueProducts<Unit>::begin,
                              .end = Unit::end,
                              .run = ResidueProducts<Unit>::run};
  return set;
}

}  // namespace etalon::amx
