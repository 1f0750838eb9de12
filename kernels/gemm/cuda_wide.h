// gemm, matmul and conv correctly rounded on a GPU's f64 tensor units: sums in f64 beside a bound,
// then sums in twice that precision for what the bound leaves open.
//
// Contract: exact. A block of four warps owns 64 x 64 outputs, or 32 x 32 where those would leave
// most of a device idle. k goes through shared memory by slices, up to three of them on their way
// (cuda_slices.h); they stay f32 there and are widened when a fragment is read. After kWideFold
// terms the sums join those before, in shared memory, where k is long. Then bound and rounding
// test; an output that is open its warp sums once more, by Dot2 of digit_cut.h; what even that
// leaves (midpoints, NaN, infinities) the host settles. Where outputs are few and k is long, blocks
// share an output's k and leave their sums in f64 to a second kernel.
//
// **Bound.** A product of two f32 is exact in f64. An addition in f64 is off by at most u = 2^-53
// of the partial sum s that it makes, and that is at most |a'| |b'| of the euclidean norms of the
// terms so far (Cauchy-Schwarz). Let slice j end S(j) terms' squares after the last fold; a slice
// has K additions, in any sequence, so that all of them are off by at most
//
//     u K sum over j of sqrt(Sa(j) Sb(j)) <= u K sqrt(sum of Sa(j)) sqrt(sum of Sb(j)),
//
// and joining P parts by u P |a| |b|. With vectors of even size the first is half of the well-known
// u k |a| |b|, or of u kWideFold |a| |b| with folds. What partial sums were off by themselves is of
// second order: bounds have room for 2^-10 of them. Of the tests' data 2^-14 of the outputs are
// open at k = 530 and 2^-12 at 2052: those much smaller than |a| |b|.
//
// **Norms** come from what lies in shared memory: squares are summed in f32 by fma, at most 512
// before f64 takes over, so that a partial sum is below the real one by at most 2^-15 of it and
// 2^-141 absolutely, a sum of up to 32 of those by 2^-14 and 2^-136; wide_over() is above either.
// That of zeros is 0, and then the sum is +0 and exact. A square above f32's range (|x| >= 2^64,
// infinity), and NaN, make the bound infinite or NaN, which decides nothing.
//
// Same bits: an output is stored only where both ends of a proven interval round alike, so it is
// the correctly rounded one, whatever order made it. A tap in the padding is here a product with
// zero: it changes no sum, but for a weight that is not finite, where nothing is decided.
//
// Limit: 128 fma of f64 a cycle and SM, the f32 units' own rate. For 1024 of them of a fragment's
// product a warp reads two words and widens two (16 a cycle and SM).
//
// Host and device. The text is that of a block; `Block` runs a phase for its threads or its warps:
// on a device one thread is in it and the instruction, on the host they take their turns, and a
// warp multiplies the fragments of its 32 lanes as the PTX manual lays them out.
#pragma once

#include "kernels/gemm/cuda_digits.h"
#include "kernels/gemm/cuda_slices.h"

namespace etalon {
inline namespace ETALON_ISA_NAMESPACE {

inline constexpr int kWideThreads = 128, kWideFold = 256, kWideUnfolded = 512;
ETALON_HD constexpr int wide_slice(int tile) { return tile == 64 ? 16 : 32; }  // k of one

// Of a row of a or a column of b: the squares' sum, and the sum of what it is at the end of each
// slice, from fold to fold. No initialisers: shared memory of a block has none.
struct WideLine {
  double squares, partial;
};

struct WideTask {
  TileTask t;
  SliceSide a, b;
  bool a_k_major = false, b_k_major = false;
  int tile = 64;  // rows and columns of a block
  int share = 0;  // k of a block; less than k: splits of them
  std::int64_t splits = 1;
  // Of splits: [split][output], and [split][product][rows, then columns]
  double* sums = nullptr;
  WideLine* lines = nullptr;

  ETALON_HD std::int64_t tiles_m() const { return (t.m + tile - 1) / tile; }
  ETALON_HD std::int64_t tiles_n() const { return (t.n + tile - 1) / tile; }
  ETALON_HD std::int64_t products() const { return t.batch.numel(); }
  ETALON_HD std::int64_t blocks() const { return splits * products() * tiles_m() * tiles_n(); }
  ETALON_HD std::int64_t outputs() const { return products() * t.m * t.n; }
  ETALON_HD bool folds() const { return share > kWideUnfolded; }
  ETALON_HD WideLine* lines_of(std::int64_t split, std::int64_t product) const {
    return lines + (split * products() + product) * (t.m + t.n);
  }
};

// ---- bound --------------------------------------------------------------------------------------

// No less than a sum that was made in f32 as `sum`; of zeros zero.
ETALON_HD inline double wide_over(float sum, bool zeros) {
  return fma_f64(static_cast<double>(sum), 1 + 0x1p-13, zeros ? 0 : 0x1p-135);
}
ETALON_HD inline WideLine wide_roots(const WideLine& line) {
  return {sqrt_f64(line.squares), sqrt_f64(line.partial)};
}
// What a sum may be off by, of a row and a column whose roots are these.
ETALON_HD inline double wide_bound(const WideTask& t, const WideLine& a, const WideLine& b) {
  constexpr double kUnit = 0x1p-53 * (1 + 0x1p-10);
  const int parts = (t.share + kWideFold - 1) / kWideFold;
  const double slice = kUnit * wide_slice(t.tile),
               joins = kUnit * (static_cast<double>(parts) + static_cast<double>(t.splits));
  return fma_f64(slice * a.partial, b.partial, joins * a.squares * b.squares);
}

// Rounds an output, which is y[at]; false: it is open.
template <class Products>
ETALON_HD bool wide_decide(const WideTask& task, const DigitOutput& o, std::int64_t at, double sum,
                           const WideLine& a, const WideLine& b) {
  const TileTask& t = task.t;
  const bool adds = Products::adds(t);
  float y;
  const bool decided = digit_decide(sum, wide_bound(task, a, b), static_cast<double>(t.alpha),
                                    adds ? Products::added(t, o) : 0, adds, y);
  if (decided) t.y[at] = y;
  return decided;
}

// A warp's: sums once more, in twice the precision, what its lanes left open: output at(lane) of
// those in `lanes`.
template <class Products, class Warp, class At, class Open, class Undecided>
ETALON_HD void wide_settle(const WideTask& task, std::uint32_t lanes, Warp& w, At&& output,
                           Open&& open, Undecided&& undecided) {
  for (; lanes != 0; lanes &= lanes - 1) {
    int lane = 0;
    while ((lanes >> lane & 1) == 0) ++lane;
    const std::int64_t at = output(lane);
    open(at);
    const DigitDot dot = w.dot([&](int share) { return Products::dot(task.t, at, share); });
    if (w.leads() && !digit_settle<Products>(task.t, at, dot)) undecided(at);
  }
}

// ---- a block ------------------------------------------------------------------------------------

// Folded: there is memory for the sums before the last fold.
template <int Tile, bool Folded, bool AKMajor, bool BKMajor>
struct WideShape {
  static constexpr int kTile = Tile, kK = wide_slice(Tile), kStages = Tile == 64 && Folded ? 3 : 4;
  static constexpr int kWarp = Tile / 2;                          // rows and columns of a warp
  static constexpr int kRows = kWarp / 16, kColumns = kWarp / 8;  // fragments of it
  static constexpr bool kFolded = Folded, kBothKMajor = AKMajor && BKMajor;
  using A = Slices<Tile, kK, kWideThreads, AKMajor>;
  using B = Slices<Tile, kK, kWideThreads, BKMajor>;
  static_assert(kWideFold % kK == 0 && kWideThreads % (2 * Tile) == 0);

  // After the products; a row of sums is padded so that the pairs that a warp's quarter puts there
  // lie in different banks.
  struct alignas(16) Pair {
    double sum[2];
  };
  struct Ending {
    Pair sums[Tile][(Tile + 8) / 2];
    WideLine lines[2 * Tile];  // roots
    WideLine parts[kWideThreads];
  };
  struct Slice {
    float a[A::kFloats], b[B::kFloats];
  };
  struct alignas(16) Shared {
    union {
      Slice slices[kStages];
      Ending ending;
    };
    double before[Folded ? kRows * kColumns * 4 : 1][Folded ? kWideThreads : 1];
    int tap_at[kTileMostTaps];
  };
  static_assert(sizeof(Slice) % 16 == 0 && sizeof(float) * A::kFloats % 16 == 0);

  struct Thread {
    double sum[kRows][kColumns][4];
    WideLine line;           // that this thread looks after
    float squares, partial;  // since the last fold
    std::uint32_t any;       // its elements' bits
    SliceThread a, b;
  };
};

struct WidePlace {
  int split = 0, product = 0, row0 = 0, col0 = 0, k0 = 0, k_end = 0;
};
// Blocks go down kTilePanel tiles of rows before they step to the right.
ETALON_HD inline WidePlace wide_place(const WideTask& t, std::uint32_t block) {
  const auto tiles_m = static_cast<std::uint32_t>(t.tiles_m()),
             tiles_n = static_cast<std::uint32_t>(t.tiles_n()),
             products = static_cast<std::uint32_t>(t.products());
  const std::uint32_t product = block / (tiles_m * tiles_n), rest = block % (tiles_m * tiles_n);
  const std::uint32_t first = rest / (kTilePanel * tiles_n) * kTilePanel,
                      at = rest % (kTilePanel * tiles_n);
  const std::uint32_t left = tiles_m - first, height = left < kTilePanel ? left : kTilePanel;
  WidePlace p;
  p.split = static_cast<int>(product / products);
  p.product = static_cast<int>(product % products);
  p.row0 = static_cast<int>(first + at % height) * t.tile;
  p.col0 = static_cast<int>(at / height) * t.tile;
  p.k0 = p.split * t.share;
  const int rest_k = static_cast<int>(t.t.k) - p.k0;
  p.k_end = p.k0 + (rest_k < t.share ? rest_k : t.share);
  return p;
}

// Where a column's outputs lie: the place() of MatrixProducts and WindowProducts, of all rows.
struct WideColumn {
  std::int64_t at = 0, step = 0;  // of row 0; from a row to the next
};
template <bool Conv>
ETALON_HD WideColumn wide_column(const TileTask& t, std::int64_t product, std::int64_t n) {
  if constexpr (Conv) {
    const auto points = static_cast<std::uint32_t>(t.window.out_points()),
               column = static_cast<std::uint32_t>(n);
    return {column / points * t.out_image + product * t.m * points + column % points, points};
  } else {
    return {product * t.y_batch + n, t.n};
  }
}

template <class Shape, class Products, bool Conv>
struct WideBlock {
  using A = typename Shape::A;
  using B = typename Shape::B;
  using Shared = typename Shape::Shared;
  using Thread = typename Shape::Thread;
  static constexpr int kTile = Shape::kTile, kK = Shape::kK, kStages = Shape::kStages;

  ETALON_HD static void load(const WideTask& task, const WidePlace& p, Shared& s, Thread& r,
                             int stage, int k0, int tid) {
    if (k0 < p.k_end) {
      A::load(task.a, r.a, s.slices[stage].a, k0, p.k_end, tid);
      if constexpr (Conv)
        B::load_windows(task.b, task.t, s.tap_at, r.b, s.slices[stage].b, k0, p.k_end, tid);
      else
        B::load(task.b, r.b, s.slices[stage].b, k0, p.k_end, tid);
    }
    close_copies();
  }

  ETALON_HD static void begin(const WideTask& task, const WidePlace& p, Thread& r, int tid) {
    const TileTask& t = task.t;
    ETALON_UNROLL
    for (auto& row : r.sum) ETALON_UNROLL
    for (auto& fragment : row) ETALON_UNROLL
    for (double& v : fragment) v = 0;
    r.squares = r.partial = 0;
    r.any = 0;
    const float* const a = t.a + strided_offset(p.product, t.batch, task.a.batch);
    const float* const b = t.b + strided_offset(p.product, t.batch, task.b.batch);
    A::begin(task.a, a, p.row0, p.k0, tid, r.a);
    if constexpr (Conv)
      B::begin_windows(task.b, t, b, p.col0, p.k0, tid, r.b);
    else
      B::begin(task.b, b, p.col0, p.k0, tid, r.b);
  }

  // Fragments of 16 x 8 of a, of 8 x 8 of b: with g = lane / 4 and t = lane % 4, a register holds
  // row g (or g + 8), column g, of k = t (or t + 4).
  template <class Warp>
  ETALON_HD static void multiply(const typename Shape::Slice& s, int warp, Warp& w) {
    const int row0 = warp / 2 * Shape::kWarp, col0 = warp % 2 * Shape::kWarp;
    ETALON_UNROLL
    for (int k = 0; k < kK; k += 8) {
      double a[Warp::kLanes][Shape::kRows][4], b[Warp::kLanes][Shape::kColumns][2];
      ETALON_UNROLL
      for (int l = 0; l < Warp::kLanes; ++l) {
        const int g = w.lane(l) / 4, t = w.lane(l) % 4;
        ETALON_UNROLL
        for (int i = 0; i < Shape::kRows; ++i) ETALON_UNROLL
        for (int e = 0; e < 4; ++e)
          a[l][i][e] =
              static_cast<double>(s.a[A::at(row0 + i * 16 + g + e % 2 * 8, k + e / 2 * 4 + t)]);
        ETALON_UNROLL
        for (int j = 0; j < Shape::kColumns; ++j) ETALON_UNROLL
        for (int e = 0; e < 2; ++e)
          b[l][j][e] = static_cast<double>(s.b[B::at(col0 + j * 8 + g, k + e * 4 + t)]);
      }
      ETALON_UNROLL
      for (int i = 0; i < Shape::kRows; ++i) ETALON_UNROLL
      for (int j = 0; j < Shape::kColumns; ++j) w.mma(i, j, a, b);
    }
  }
  // Thread tid looks after line tid % (2 Tile) of a's, then of b's lines, alone or with another
  // that has the other half of a slice.
  template <class S>
  ETALON_HD static void square_line(const float* s, int line, int k0, Thread& r) {
    constexpr int kShare = kK * 2 * kTile / kWideThreads;
    ETALON_UNROLL
    for (int k = 0; k < kShare; k += 4) {
      float x[4];
      if constexpr (S::at(0, 1) == 1) {
        load_four(s + S::at(line, k0 + k), x);
      } else {
        ETALON_UNROLL
        for (int i = 0; i < 4; ++i) x[i] = s[S::at(line, k0 + k + i)];
      }
      ETALON_UNROLL
      for (const float v : x) {
        r.squares = fma_f32(v, v, r.squares);
        r.any |= bits_of(v);
      }
    }
  }
  ETALON_HD static void square(const typename Shape::Slice& s, Thread& r, int tid) {
    const int line = tid % (2 * kTile), k0 = tid / (2 * kTile) * (kK * 2 * kTile / kWideThreads);
    if (line < kTile)
      square_line<A>(s.a, line, k0, r);
    else
      square_line<B>(s.b, line - kTile, k0, r);
    r.partial = r.partial + r.squares;
  }
  ETALON_HD static void close_line(Thread& r, bool first) {
    const bool zeros = (r.any & 0x7fffffffU) == 0;
    const double squares = wide_over(r.squares, zeros), partial = wide_over(r.partial, zeros);
    r.line.squares = first ? squares : r.line.squares + squares;
    r.line.partial = first ? partial : r.line.partial + partial;
    r.squares = r.partial = 0;
  }

  // The sums join those before; `last`: and are whole.
  ETALON_HD static void fold(Shared& s, Thread& r, int tid, bool first, bool last) {
    ETALON_UNROLL
    for (int i = 0; i < Shape::kRows; ++i) ETALON_UNROLL
    for (int j = 0; j < Shape::kColumns; ++j) ETALON_UNROLL
    for (int e = 0; e < 4; ++e) {
      double& before = s.before[(i * Shape::kColumns + j) * 4 + e][tid];
      double& sum = r.sum[i][j][e];
      if (!first) sum = before + sum;
      if (last) continue;
      before = sum;
      sum = 0;
    }
  }

  // A thread's sums, to where outputs that are neighbours in a row are a warp's.
  ETALON_HD static void put(typename Shape::Ending& end, const Thread& r, int tid) {
    const int row0 = tid / 64 * Shape::kWarp + tid % 32 / 4,
              col0 = tid / 32 % 2 * Shape::kWarp + tid % 4 * 2;
    ETALON_UNROLL
    for (int i = 0; i < Shape::kRows; ++i) ETALON_UNROLL
    for (int half = 0; half < 2; ++half) ETALON_UNROLL
    for (int j = 0; j < Shape::kColumns; ++j)
      end.sums[row0 + i * 16 + half * 8][(col0 + j * 8) / 2] = {
          {r.sum[i][j][half * 2], r.sum[i][j][half * 2 + 1]}};
  }
  ETALON_HD static double sum_of(const typename Shape::Ending& end, int row, int col) {
    return end.sums[row][col / 2].sum[col % 2];
  }

  // One block. undecided(at) takes what the host must settle, open(at) is told of outputs that the
  // bound leaves open.
  template <class Block, class Open, class Undecided>
  ETALON_HD static void run(const WideTask& task, std::uint32_t block_id, Shared& s,
                            const Block& block, Open&& open, Undecided&& undecided) {
    const WidePlace p = wide_place(task, block_id);
    if constexpr (Conv) {
      block.threads([&](Thread&, int tid) { B::begin_taps(task.t.window, s.tap_at, tid); });
      block.barrier();
    }
    block.threads([&](Thread& r, int tid) {
      begin(task, p, r, tid);
      ETALON_UNROLL
      for (int i = 0; i < kStages - 1; ++i) load(task, p, s, r, i, p.k0 + i * kK, tid);
    });
    int stage = 0;
    bool first = true;  // nothing was folded yet
    for (int k0 = p.k0; k0 < p.k_end; k0 += kK) {
      block.template arrived<kStages - 2>();
      block.threads([&](Thread& r, int tid) {
        // The stage that all had multiplied before the barrier.
        load(task, p, s, r, stage == 0 ? kStages - 1 : stage - 1, k0 + (kStages - 1) * kK, tid);
        square(s.slices[stage], r, tid);
      });
      block.warps([&](int warp, auto& w) { multiply(s.slices[stage], warp, w); });
      if constexpr (Shape::kFolded)
        if ((k0 + kK - p.k0) % kWideFold == 0 && k0 + kK < p.k_end) {
          block.threads([&](Thread& r, int tid) {
            fold(s, r, tid, first, false);
            close_line(r, first);
          });
          first = false;
        }
      stage = stage + 1 == kStages ? 0 : stage + 1;
    }
    block.template arrived<0>();  // slices are nobody's any more
    auto& end = s.ending;
    block.threads([&](Thread& r, int tid) {
      if constexpr (Shape::kFolded)
        if (!first) fold(s, r, tid, false, true);
      put(end, r, tid);
      close_line(r, first);
      end.parts[tid] = r.line;
    });
    block.barrier();
    block.threads([&](Thread&, int tid) {
      if (tid >= 2 * kTile) return;
      WideLine line = end.parts[tid];
      ETALON_UNROLL
      for (int other = 2 * kTile; other < kWideThreads; other += 2 * kTile) {
        line.squares += end.parts[tid + other].squares;
        line.partial += end.parts[tid + other].partial;
      }
      if (task.splits > 1)
        leave_line(task, p, tid, line);
      else
        end.lines[tid] = wide_roots(line);
    });
    block.barrier();
    block.warps([&](int warp, auto& w) {
      constexpr int kRowsAtATime = kWideThreads / kTile;
      const auto col_of = [&](int lane) { return (warp * 32 + lane) % kTile; };
      const int row0 = warp * 32 / kTile;
      const auto at = [&](int row, int lane) {
        const WideColumn column = wide_column<Conv>(task.t, p.product, p.col0 + col_of(lane));
        return column.at + (p.row0 + row) * column.step;
      };
#if defined(__CUDACC__)
#pragma unroll 1
#endif
      for (int row = row0; row < kTile && p.row0 + row < task.t.m; row += kRowsAtATime) {
        const std::uint32_t lanes = w.where([&](int lane) {
          const int col = col_of(lane);
          if (p.col0 + col >= task.t.n) return false;
          const double sum = sum_of(end, row, col);
          if (task.splits > 1) {
            task.sums[p.split * task.outputs() + at(row, lane)] = sum;
            return false;
          }
          return !wide_decide<Products>(task, {p.product, p.row0 + row, p.col0 + col},
                                        at(row, lane), sum, end.lines[row], end.lines[kTile + col]);
        });
        wide_settle<Products>(
            task, lanes, w, [&](int lane) { return at(row, lane); }, open, undecided);
      }
    });
  }

  // Of a split, for wide_finish(): those of rows by the first tile to the right, of columns by the
  // first from above.
  ETALON_HD static void leave_line(const WideTask& task, const WidePlace& p, int tid,
                                   const WideLine& own) {
    const std::int64_t line = tid < kTile ? p.row0 + tid : p.col0 + tid - kTile;
    WideLine* const to = task.lines_of(p.split, p.product);
    if (tid < kTile ? p.col0 == 0 && line < task.t.m : p.row0 == 0 && line < task.t.n)
      to[tid < kTile ? line : task.t.m + line] = own;
  }
};

// Where blocks shared an output's k: a warp joins the sums of 32 outputs, in their sequence.
template <class Products, class Warp, class Open, class Undecided>
ETALON_HD void wide_finish(const WideTask& task, std::int64_t first, Warp& w, Open&& open,
                           Undecided&& undecided) {
  const std::uint32_t lanes = w.where([&](int lane) {
    const std::int64_t at = first + lane;
    if (at >= task.outputs()) return false;
    const DigitOutput o = Products::output(task.t, at);
    double sum = 0;
    WideLine a = {}, b = {};
    const auto join = [](WideLine& to, const WideLine& part) {
      to.squares += part.squares;
      to.partial += part.partial;
    };
    for (std::int64_t split = 0; split < task.splits; ++split) {
      const WideLine* const lines = task.lines_of(split, o.product);
      sum += task.sums[split * task.outputs() + at];
      join(a, lines[o.m]);
      join(b, lines[task.t.m + o.n]);
    }
    return !wide_decide<Products>(task, o, at, sum, wide_roots(a), wide_roots(b));
  });
  wide_settle<Products>(task, lanes, w, [&](int lane) { return first + lane; }, open, undecided);
}

// ---- a call -------------------------------------------------------------------------------------

// Which tile, and how many blocks share an output's k. The bits are the correctly rounded ones with
// any: this is a choice of speed alone, for some 132 SMs that take two blocks or more each. Blocks
// of 64 x 64 read half the words a product that those of 32 x 32 do.
inline void choose_wide_tile(WideTask& task) {
  constexpr std::int64_t kFull = 264, kEnough = 200, kLeastShare = 128;
  constexpr std::int64_t kShortK = 512, kFew = 64, kLeastShortShare = 64;
  const TileTask& t = task.t;
  const auto tiles = [&](int tile) {
    task.tile = tile;
    return std::max<std::int64_t>(1, task.products() * task.tiles_m() * task.tiles_n());
  };
  std::int64_t splits = 1;
  if (t.k <= kShortK && tiles(64) < kEnough) {
    // The second launch takes longer than a block's few slices, but for few outputs.
    if (tiles(32) < kFew) splits = std::min(kFull / tiles(32), t.k / kLeastShortShare);
  } else if (t.m <= 32 || t.n <= 32 ||
             (tiles(64) < kEnough && tiles(64) * (t.k / kWideUnfolded) < kFull)) {
    splits = std::min((kFull + tiles(32) - 1) / tiles(32), t.k / kLeastShare);
  } else if (tiles(64) < kEnough) {
    splits = (kFull + tiles(64) - 1) / tiles(64);
  }
  splits = std::max<std::int64_t>(1, splits);
  // Whole slices; kK of either tile divides 32.
  task.share =
      static_cast<int>(std::max<std::int64_t>(32, ((t.k + splits - 1) / splits + 31) / 32 * 32));
  task.splits = std::max<std::int64_t>(1, (t.k + task.share - 1) / task.share);
}

inline WideTask wide_task(const KernelCall& call, const cuda::WideMemory& memory) {
  WideTask task;
  task.t = tile_task(
      call, reinterpret_cast<float*>(const_cast<std::byte*>(call.output(0).bytes().data())));
  const TileTask& t = task.t;
  const auto side = [&](const float* from, std::int64_t lines, std::int64_t line_stride,
                        std::int64_t k_stride, const std::array<std::int64_t, kMaxRank>& batch,
                        bool& k_major) {
    k_major = k_stride == 1;
    return SliceSide{.from = from,
                     .lines = static_cast<int>(lines),
                     .line_stride = line_stride,
                     .k_stride = k_stride,
                     .batch = batch,
                     .fours = (k_major || line_stride == 1) &&
                              slices_by_fours(from, k_major ? t.k : lines, k_major ? lines : t.k,
                                              k_major ? line_stride : k_stride, t.batch, batch)};
  };
  task.a = side(t.a, t.m, t.a_row, t.a_col, t.a_batch, task.a_k_major);
  if (call.problem->op->name == "conv") {
    // Windows of one tap that go from pixel to pixel are the columns of a matrix.
    const Window& w = t.window;
    const std::int64_t points = w.in_points();
    task.b = {.from = t.b,
              .lines = static_cast<int>(t.n),
              .line_stride = 1,
              .k_stride = points,
              .batch = t.b_batch};
    task.b.fours = w.taps() == 1 && !t.padded && points == w.out_points() && points % 4 == 0 &&
                   t.image % 4 == 0 &&
                   slices_by_fours(t.b, points, t.k, points, t.batch, t.b_batch);
    for (const WindowAxis& axis : w.axes)
      task.b.fours = task.b.fours && axis.pad_begin == 0 && (axis.stride == 1 || axis.out == 1);
  } else {
    task.b = side(t.b, t.n, t.b_col, t.b_row, t.b_batch, task.b_k_major);
  }
  choose_wide_tile(task);
  if (t.window.taps() > 0) {
    const int slice = wide_slice(task.tile), turn = slice - slice * task.tile / kWideThreads;
    task.b.turn_taps = turn % static_cast<int>(t.window.taps());
    task.b.turn_channels = turn / static_cast<int>(t.window.taps());
  }
  if (memory.sums == nullptr) return task;  // for its extents, which say how much memory it needs
  task.sums = static_cast<double*>(memory.sums);
  task.lines = reinterpret_cast<WideLine*>(task.sums + task.splits * task.outputs());
  return task;
}
inline std::int64_t wide_sum_bytes(const WideTask& t) {
  return t.splits == 1 ? 0
                       : t.splits * (t.outputs() + 2 * t.products() * (t.t.m + t.t.n)) *
                             static_cast<std::int64_t>(sizeof(double));
}

inline Refusal refuse_wide(const Problem& problem) {
  if (Refusal r = refuse_digits(problem)) return r;
  constexpr std::int64_t kMost = std::int64_t{1} << 30;
  for (std::size_t i = 0; i < 2; ++i)
    if (problem.input(i).shape.numel() > kMost) return "takes operands of up to 2^30 elements";
  return std::nullopt;
}

// f.template operator()<Shape, Products, Conv>() for the block that a task takes.
template <class Products, bool Conv, class F>
auto with_wide_shape(const WideTask& task, F&& f) {
  const auto with_sides = [&]<bool A, bool B>() {
    if (task.tile == 32) return f.template operator()<WideShape<32, true, A, B>>();
    if (task.folds()) return f.template operator()<WideShape<64, true, A, B>>();
    return f.template operator()<WideShape<64, false, A, B>>();
  };
  if constexpr (Conv)
    return with_sides.template operator()<true, false>();
  else {
    if (task.a_k_major && task.b_k_major) return with_sides.template operator()<true, true>();
    if (task.a_k_major) return with_sides.template operator()<true, false>();
    if (task.b_k_major) return with_sides.template operator()<false, true>();
    return with_sides.template operator()<false, false>();
  }
}

// ---- the host's form ----------------------------------------------------------------------------

#if !defined(__CUDACC__)
template <class Thread>
struct HostWideWarp {
  static constexpr int kLanes = 32;
  Thread* threads;
  int lane(int i) const { return i; }
  bool leads() const { return true; }
  template <class F>
  std::uint32_t where(F&& f) const {
    std::uint32_t lanes = 0;
    for (int lane = 32; lane-- > 0;)
      if (f(lane)) lanes |= std::uint32_t{1} << lane;
    return lanes;
  }
  // mma.sync.m16n8k8 of f64: fragments to matrices, product, fragments.
  template <class A, class B>
  void mma(int i, int j, const A& a, const B& b) const {
    double left[16][8], right[8][8];
    for (int lane = 0; lane < 32; ++lane) {
      const int g = lane / 4, t = lane % 4;
      for (int e = 0; e < 4; ++e) left[g + e % 2 * 8][t + e / 2 * 4] = a[lane][i][e];
      for (int e = 0; e < 2; ++e) right[t + e * 4][g] = b[lane][j][e];
    }
    for (int lane = 0; lane < 32; ++lane)
      for (int e = 0; e < 4; ++e) {
        double& sum = threads[lane].sum[i][j][e];
        // The product is exact: this is an fma.
        for (int k = 0; k < 8; ++k)
          sum = sum + left[lane / 4 + e / 2 * 8][k] * right[k][lane % 4 * 2 + e % 2];
      }
  }
  template <class F>
  DigitDot dot(F&& share) const {
    DigitDot lanes[32];
    for (int lane = 0; lane < 32; ++lane) lanes[lane] = share(lane);
    for (int step = 16; step > 0; step /= 2)
      for (int lane = 0; lane < step; ++lane) lanes[lane].merge(lanes[lane + step]);
    return lanes[0];
  }
};

// Threads and warps backwards: a phase may lean on none before it.
template <class Thread>
struct HostWideBlock {
  Thread* r;
  template <class F>
  void threads(F&& f) const {
    for (int tid = kWideThreads; tid-- > 0;) f(r[tid], tid);
  }
  template <class F>
  void warps(F&& f) const {
    for (int warp = kWideThreads / 32; warp-- > 0;) {
      HostWideWarp<Thread> w{r + warp * 32};
      f(warp, w);
    }
  }
  void barrier() const {}
  template <int>
  void arrived() const {}
};

// What the launches do. open(at) is told of what the bound left open, undecided(at) takes what is
// the host's.
template <class Products, bool Conv, class Open, class Undecided>
void run_wide_on_host(const WideTask& task, Open&& open, Undecided&& undecided) {
  with_wide_shape<Products, Conv>(task, [&]<class Shape>() {
    using Thread = typename Shape::Thread;
    const auto shared = std::make_unique<typename Shape::Shared>();
    std::vector<Thread> threads(kWideThreads);
    for (std::int64_t block = task.blocks(); block-- > 0;) {
      std::memset(static_cast<void*>(shared.get()), 0xA5, sizeof *shared);
      WideBlock<Shape, Products, Conv>::run(task, static_cast<std::uint32_t>(block), *shared,
                                            HostWideBlock<Thread>{threads.data()}, open, undecided);
    }
    if (task.splits == 1) return;
    HostWideWarp<Thread> w{nullptr};
    for (std::int64_t first = (task.outputs() - 1) / 32 * 32; first >= 0; first -= 32)
      wide_finish<Products>(task, first, w, open, undecided);
  });
}
#endif

}  // namespace ETALON_ISA_NAMESPACE
}  // namespace etalon
