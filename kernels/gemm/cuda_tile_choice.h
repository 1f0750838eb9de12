// Which tile of cuda_tile.h a call takes, and its task as that tile reads it. Only time depends on
// the choice, never a bit.
//
// A block on an SM of its own takes `alone` cycles a step of k, where it waits for its own reads;
// a full SM takes `full` a block. The estimate is what the busiest SM has: blocks over SMs, rounded
// up. Cycles are measured (docs/evidence, on an H100).
#pragma once

#include <algorithm>

#include "kernels/gemm/cuda_tile.h"

namespace etalon {
inline namespace ETALON_ISA_NAMESPACE {

// The shapes, the largest first: all of them do all that the contract says.
template <int I>
struct TileShapes;
template <>
struct TileShapes<0> : TileShape<4, 4, 2, 8, 16, 16, 3, 1> {};  // 128 x 256, 256 threads
template <>
struct TileShapes<1> : TileShape<4, 4, 2, 8, 8, 16, 3, 1> {};  // 128 x 128
template <>
struct TileShapes<2> : TileShape<4, 2, 2, 8, 4, 16, 4, 4> {};  // 64 x 64, 128 threads
template <>
struct TileShapes<3> : TileShape<4, 2, 2, 4, 4, 16, 4, 4> {};  // 32 x 64
template <>
struct TileShapes<4> : TileShape<4, 1, 1, 4, 4, 32, 4, 5> {};  // 16 x 32, a warp
template <>
struct TileShapes<5> : TileShape<1, 1, 1, 4, 1, 32, 8, 5, true> {};  // 4 x 32, a warp
inline constexpr int kTileShapes = 6;
// The one that computes fma=off.
inline constexpr int kTileUnfused = 2;

struct TileFacts {
  int rows, cols;
  double alone, full;
};
inline constexpr TileFacts kTileFacts[kTileShapes] = {{128, 256, 275, 270}, {128, 128, 150, 140},
                                                      {64, 64, 50, 38},     {32, 64, 34, 21},
                                                      {16, 32, 26, 6.5},    {4, 32, 10, 4}};

inline double tile_cycles(const TileTask& t, int shape, int processors) {
  const TileFacts& f = kTileFacts[shape];
  const auto up = [](std::int64_t a, std::int64_t b) { return (a + b - 1) / b; };
  const std::int64_t blocks = t.batch.numel() * up(t.m, f.rows) * up(t.n, f.cols);
  return std::max(f.alone, static_cast<double>(up(blocks, processors)) * f.full);
}

// y^T = b^T a^T: the same products, the same chains.
inline TileTask transposed(const TileTask& t) {
  TileTask s = t;
  std::swap(s.m, s.n);
  std::swap(s.a, s.b);
  std::swap(s.a_row, s.b_col);
  std::swap(s.a_col, s.b_row);
  std::swap(s.a_batch, s.b_batch);
  std::swap(s.c_row, s.c_col);
  std::swap(s.y_row, s.y_col);
  return s;
}

struct TileChoice {
  TileTask t;
  int shape = 0;
  bool along_a = false, along_b = false, windows = false, fused = true;
};

// `shape` of no negative number is taken as it is, for tests.
inline TileChoice tile_choice(TileTask t, bool conv, bool fused, int processors, int shape = -1) {
  TileChoice c;
  c.fused = fused;
  t.y_row = t.n;
  if (conv) {
    c.windows = true;
    t.bias_products = t.batch.numel();
    // Windows of one tap, side by side: each image is a matrix, where it has columns enough.
    const std::int64_t points = t.window.out_points(), images = points > 0 ? t.n / points : 0;
    const bool same = t.window.taps() == 1 && !t.padded && points == t.window.in_points() &&
                      (images == 1 || points >= 512);
    if (same) {
      c.windows = false;
      const std::int64_t groups = t.batch.numel(), a_group = t.a_batch[0], b_group = t.b_batch[0];
      t.batch = Shape{images, groups};
      t.a_batch = {}, t.b_batch = {};
      t.a_batch[1] = a_group;
      t.b_batch[0] = t.image, t.b_batch[1] = b_group;
      t.n = t.y_row = points;
      t.b_row = points, t.b_col = 1;
    }
  }
  const auto best = [&](const TileTask& of, double& least) {
    int found = 0;
    for (int i = 0; i < kTileShapes; ++i)
      if (const double cycles = tile_cycles(of, i, processors); i == 0 || cycles < least)
        least = cycles, found = i;
    return found;
  };
  double least = 0;
  c.shape = best(t, least);
  c.t = t;
  if (!c.windows && t.bias == nullptr) {
    const TileTask turned = transposed(t);
    double cycles = 0;
    const int other = best(turned, cycles);
    // Where it saves nothing, rows of y stay what threads write side by side.
    if (cycles < 0.95 * least) c.t = turned, c.shape = other;
  }
  if (shape >= 0) c.shape = shape;
  if (!fused) c.shape = kTileUnfused;
  c.along_a = c.t.a_col == 1;
  c.along_b = !c.windows && c.t.b_row == 1 && (c.t.b_col != 1 || c.t.n == 1);
  // `count` runs of neighbours, `other` apart.
  const auto fours = [&](const float* p, std::int64_t step, std::int64_t other, std::int64_t count,
                         const std::array<std::int64_t, kMaxRank>& batch) {
    bool all = step == 1 && (other % 4 == 0 || count == 1) &&
               reinterpret_cast<std::uintptr_t>(p) % 16 == 0;
    for (int i = 0; i < c.t.batch.rank(); ++i)
      all = all && batch[static_cast<std::size_t>(i)] % 4 == 0;
    return all;
  };
  c.t.a_fours = c.along_a ? fours(c.t.a, c.t.a_col, c.t.a_row, c.t.m, c.t.a_batch)
                          : fours(c.t.a, c.t.a_row, c.t.a_col, c.t.k, c.t.a_batch);
  c.t.b_fours = c.along_b ? fours(c.t.b, c.t.b_row, c.t.b_col, c.t.n, c.t.b_batch)
                          : fours(c.t.b, c.t.b_col, c.t.b_row, c.t.k, c.t.b_batch);
  return c;
}

// f<Tile>() of the tile that a choice names.
template <class F>
auto with_tile(const TileChoice& c, F&& f) {
  const auto of_shape = [&]<int I>() {
    using S = TileShapes<I>;
    if (c.windows) return f.template operator()<Tile<S, true, false, true, true>>();
    if (c.along_a)
      return c.along_b ? f.template operator()<Tile<S, true, true, false, true>>()
                       : f.template operator()<Tile<S, true, false, false, true>>();
    return c.along_b ? f.template operator()<Tile<S, false, true, false, true>>()
                     : f.template operator()<Tile<S, false, false, false, true>>();
  };
  if (!c.fused) {
    using S = TileShapes<kTileUnfused>;
    if (c.windows) return f.template operator()<Tile<S, true, false, true, false>>();
    if (c.along_a)
      return c.along_b ? f.template operator()<Tile<S, true, true, false, false>>()
                       : f.template operator()<Tile<S, true, false, false, false>>();
    return c.along_b ? f.template operator()<Tile<S, false, true, false, false>>()
                     : f.template operator()<Tile<S, false, false, false, false>>();
  }
  switch (c.shape) {
    case 0:
      return of_shape.template operator()<0>();
    case 1:
      return of_shape.template operator()<1>();
    case 2:
      return of_shape.template operator()<2>();
    case 3:
      return of_shape.template operator()<3>();
    case 4:
      return of_shape.template operator()<4>();
    default:
      return of_shape.template operator()<5>();
  }
}

}  // namespace ETALON_ISA_NAMESPACE
}  // namespace etalon
