// Which tile of cuda_tile.h a call takes, and its task as that tile reads it. Only time depends on
// the choice, never a bit.
//
// A step of k takes a block that has its SM to itself `alone` ns, where it waits for its own reads,
// and `full` where the SM has others to go on with; a convolution's block, whose k is often short,
// takes `ends` steps besides to begin and to end, and two together, which hide little of one
// another's waiting, `two` at least where that was seen. The estimate is what the busiest SM has:
// blocks over SMs, rounded up. Measured on an H200 at 1980 MHz; the shapes of a warp on an H100.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "kernels/gemm/cuda_tile.h"

namespace etalon {
inline namespace ETALON_ISA_NAMESPACE {

// The shapes, the largest first: each does all that the contract says.
template <int I>
struct TileShapes;
template <>
struct TileShapes<0> : TileShape<8, 2, 4, 8, 16, 8, 4, 1> {};  // 128 x 256, 256 threads
template <>
struct TileShapes<1> : TileShape<4, 2, 2, 8, 8, 8, 4, 3> {};  // 64 x 128, 128 threads
template <>
struct TileShapes<2> : TileShape<4, 4, 2, 4, 8, 16, 4, 2> {};  // 64 x 128, 256 threads
template <>
struct TileShapes<3> : TileShape<4, 4, 1, 8, 8, 16, 4, 3> {};  // 128 x 64
template <>
struct TileShapes<4> : TileShape<4, 3, 1, 8, 12, 8, 4, 3> {};  // 96 x 96, 96 threads
template <>
struct TileShapes<5> : TileShape<4, 2, 2, 8, 4, 16, 4, 4> {};  // 64 x 64, 128 threads
template <>
struct TileShapes<6> : TileShape<4, 2, 2, 4, 4, 32, 3, 4, true> {};  // 32 x 64
template <>
struct TileShapes<7> : TileShape<4, 2, 2, 4, 4, 16, 4, 4> {};  // 32 x 64
template <>
struct TileShapes<8> : TileShape<4, 1, 4, 6, 4, 16, 3, 4> {};  // 24 x 128
template <>
struct TileShapes<9> : TileShape<4, 1, 1, 2, 2, 64, 4, 2, true, 1> {};  // 8 x 16, a warp
template <>
struct TileShapes<10> : TileShape<1, 1, 1, 4, 1, 64, 4, 2, true, 3> {};  // 4 x 32, a warp
template <>
struct TileShapes<11> : TileShape<1, 1, 1, 1, 1, 64, 6, 2, true, 1> {};  // 1 x 32, a warp
// Few outputs of a convolution.
template <>
struct TileShapes<12> : TileShape<4, 4, 2, 4, 4, 16, 4, 2, true> {};  // 64 x 64, 256 threads
template <>
struct TileShapes<13> : TileShape<4, 2, 2, 4, 2, 16, 4, 3, true> {};  // 32 x 32
template <>
struct TileShapes<14> : TileShape<4, 1, 4, 4, 1, 16, 4, 4, true> {};  // 16 x 32
inline constexpr int kTileShapes = 15;
// Those that take operands whose neighbours cannot be brought by fours; the first of them computes
// fma=off too.
inline constexpr int kTileAny = 5, kTileAnySmall = 10;

struct TileTimes {
  double alone = 0, full = 0, ends = 0, two = 0;
  constexpr bool any() const { return full > 0; }
};
// Of matrices, of a convolution's windows; none where another shape is faster, and no code.
struct TileFacts {
  int rows, cols;
  bool keep;
  TileTimes matrices, windows;
};
template <int I>
constexpr TileFacts tile_facts(const TileTimes& matrices, const TileTimes& windows) {
  using S = TileShapes<I>;
  return {S::kRows, S::kCols, S::kKeep, matrices, windows};
}
inline constexpr TileFacts kTileFacts[kTileShapes] = {
    tile_facts<0>({0.163, 0.157}, {}),
    tile_facts<1>({0.0535, 0.0435}, {0.0585, 0.0540, 27}),
    tile_facts<2>({0.0515, 0.0465}, {}),
    tile_facts<3>({}, {0.0575, 0.0487, 33}),
    tile_facts<4>({}, {0.0950, 0.0680, 30}),
    tile_facts<5>({0.0365, 0.0270}, {0.0425, 0.0303, 35}),
    tile_facts<6>({0.0200, 0.0132}, {}),
    tile_facts<7>({}, {0.0270, 0.0178, 48, 0.0475}),
    tile_facts<8>({}, {0.0430, 0.0310, 24}),
    tile_facts<9>({0.0075, 0.0028}, {0.0075, 0.0045, 150, 0.0150}),
    tile_facts<10>({0.0080, 0.0030}, {0.0080, 0.0050, 150, 0.0160}),
    tile_facts<11>({0.0049, 0.0024}, {0.0049, 0.0040, 150}),
    tile_facts<12>({}, {0.0385, 0.0312, 40, 0.0620}),
    tile_facts<13>({}, {0.0202, 0.0130, 40, 0.0290}),
    tile_facts<14>({}, {0.0180, 0.0105, 60, 0.0265})};

inline double tile_ns(const TileTask& t, bool windows, int shape, int processors) {
  const TileFacts& f = kTileFacts[shape];
  const TileTimes& times = windows ? f.windows : f.matrices;
  const auto up = [](std::int64_t a, std::int64_t b) { return (a + b - 1) / b; };
  const std::int64_t blocks = t.batch.numel() * up(t.m, f.rows) * up(t.n, f.cols);
  const auto busiest = static_cast<double>(up(blocks, processors)), k = static_cast<double>(t.k);
  const double ns = std::max(times.alone, busiest * times.full) * (k + times.ends);
  return busiest > 1 ? std::max(ns, times.two * k) : ns;
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
  bool along_a = false, along_b = false, windows = false, fused = true, fours = false;
};

// `shape` of no negative number is taken as it is, for tests.
inline TileChoice tile_choice(TileTask t, bool conv, bool fused, int processors, int shape = -1) {
  TileChoice c;
  c.fused = fused;
  t.y_row = t.n;
  if (conv) {
    c.windows = true;
    t.y_row = t.window.out_points();
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
  const auto along_b = [&](const TileTask& of) {
    return !c.windows && of.b_row == 1 && (of.b_col != 1 || of.n == 1);
  };
  // By fours: `lines` runs of neighbours, `other` apart, of `length` each.
  const auto fours = [](const float* p, std::int64_t step, std::int64_t other, std::int64_t lines,
                        std::int64_t length, const TileTask& of,
                        const std::array<std::int64_t, kMaxRank>& batch) {
    bool all = step == 1 && length % 4 == 0 && (other % 4 == 0 || lines == 1) &&
               reinterpret_cast<std::uintptr_t>(p) % 16 == 0;
    for (int i = 0; i < of.batch.rank(); ++i)
      all = all && batch[static_cast<std::size_t>(i)] % 4 == 0;
    return all;
  };
  // Whether shape i can bring by fours what it would: what lies along k, and is not kept so, it
  // brings one by one however it lies.
  const auto by_fours = [&](const TileTask& of, int i) {
    const bool keep = kTileFacts[i].keep;
    const bool a = of.a_col == 1
                       ? !keep || fours(of.a, of.a_col, of.a_row, of.m, of.k, of, of.a_batch)
                       : fours(of.a, of.a_row, of.a_col, of.k, of.m, of, of.a_batch);
    if (c.windows) return a;
    const bool b = along_b(of)
                       ? !keep || fours(of.b, of.b_row, of.b_col, of.n, of.k, of, of.b_batch)
                       : fours(of.b, of.b_col, of.b_row, of.k, of.n, of, of.b_batch);
    return a && b;
  };
  const auto takes = [&](const TileTask& of, int i) {
    const TileFacts& f = kTileFacts[i];
    return (c.windows ? f.windows : f.matrices).any() &&
           (i == kTileAny || i == kTileAnySmall || by_fours(of, i));
  };
  const auto best = [&](const TileTask& of, double& least) {
    int found = kTileAny;
    least = tile_ns(of, c.windows, found, processors);
    for (int i = 0; i < kTileShapes; ++i)
      if (takes(of, i))
        if (const double ns = tile_ns(of, c.windows, i, processors); ns < least)
          least = ns, found = i;
    return found;
  };
  double least = 0;
  c.shape = best(t, least);
  c.t = t;
  if (!c.windows && t.bias == nullptr) {
    const TileTask turned = transposed(t);
    double ns = 0;
    const int other = best(turned, ns);
    // Where it saves nothing, rows of y stay what threads write side by side.
    if (ns < 0.95 * least) c.t = turned, c.shape = other;
  }
  c.t.y_fours = c.windows || c.t.y_col == 1
                    ? c.t.y_row % 4 == 0
                    : c.t.y_row == 1 && c.t.y_col % 4 == 0 && c.t.m % 4 == 0;
  c.t.y_fours = c.t.y_fours && c.t.y_batch % 4 == 0 && c.t.out_image % 4 == 0 &&
                reinterpret_cast<std::uintptr_t>(c.t.y) % 16 == 0;
  if (shape >= 0 && takes(c.t, shape)) c.shape = shape;
  if (!fused) c.shape = kTileAny;
  c.fours = by_fours(c.t, c.shape);
  c.along_a = c.t.a_col == 1;
  c.along_b = along_b(c.t);
  return c;
}

// f<Tile>() of the tile that a choice names.
template <class F>
auto with_tile(const TileChoice& c, F&& f) {
  using Result =
      decltype(f.template operator()<Tile<TileShapes<kTileAny>, true, true, false, true, true>>());
  const auto of = [&]<int I, bool Fused, bool Fours>() -> Result {
    using S = TileShapes<I>;
    if constexpr (kTileFacts[I].windows.any())
      if (c.windows) return f.template operator()<Tile<S, true, false, true, Fused, Fours>>();
    if constexpr (kTileFacts[I].matrices.any()) {
      if (c.along_a)
        return c.along_b ? f.template operator()<Tile<S, true, true, false, Fused, Fours>>()
                         : f.template operator()<Tile<S, true, false, false, Fused, Fours>>();
      return c.along_b ? f.template operator()<Tile<S, false, true, false, Fused, Fours>>()
                       : f.template operator()<Tile<S, false, false, false, Fused, Fours>>();
    } else {
      std::abort();  // tile_choice() names no shape that has no times
    }
  };
  if (!c.fused) return of.template operator()<kTileAny, false, false>();
  if (c.shape == kTileAny && !c.fours) return of.template operator()<kTileAny, true, false>();
  if (c.shape == kTileAnySmall && !c.fours)
    return of.template operator()<kTileAnySmall, true, false>();
  const auto find = [&]<int I>(const auto& self) -> Result {
    if constexpr (I + 1 < kTileShapes)
      if (c.shape != I) return self.template operator()<I + 1>(self);
    return of.template operator()<I, true, true>();
  };
  return find.template operator()<0>(find);
}

#if !defined(__CUDACC__)
// All threads of a block, backwards, phase by phase.
template <class T>
struct TileThreads {
  std::vector<typename T::Thread>& r;
  template <class F>
  void phase(F&& f) const {
    for (std::size_t tid = r.size(); tid-- > 0;) f(r[tid], static_cast<int>(tid));
  }
  void together() const {}
  void arrived() const {}
};
// The launch's form here: blocks backwards, each in memory that holds nothing yet.
inline void run_tiles_on_host(const TileChoice& c) {
  with_tile(c, [&]<class T>() {
    auto shared = std::make_unique<typename T::Shared>();
    std::vector<typename T::Thread> threads(T::kThreads);
    for (std::int64_t block = T::blocks(c.t); block-- > 0;) {
      std::memset(static_cast<void*>(shared.get()), 0xA5, sizeof *shared);
      T::run(c.t, static_cast<std::uint32_t>(block), *shared, TileThreads<T>{threads});
    }
  });
}
#endif

}  // namespace ETALON_ISA_NAMESPACE
}  // namespace etalon
