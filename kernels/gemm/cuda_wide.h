// gemm, matmul and conv correctly rounded on a GPU's f64 tensor units: sums in f64 beside a bound,
// then sums in twice that precision for what the bound leaves open.
//
// Contract: exact. A block owns a tile of outputs, of 64 x 64 down to 16 x 16 (cuda_wide_choice.h).
// k goes through shared memory by slices, up to three of them on their way (cuda_slices.h); they
// stay f32 there and are widened as fragments. Warps of a small tile share the k of a slice: each
// has a whole tile's sums of its own, which are joined at the end. A fragment is fetched while the
// one before it is multiplied, the next slice's first one too. After kWideFold terms the sums of a
// large tile join those before, in shared memory. Then bound and rounding test; what is open the
// block sums once more, all its warps, by Dot2 of digit_cut.h; what even that leaves (midpoints,
// NaN, infinities) the host settles. Where outputs are few and k is long, blocks share an output's
// k and leave their sums in f64 to a second kernel.
//
// **Bound.** A product of two f32 is exact in f64. An addition in f64 is off by at most u = 2^-53
// of the partial sum that it makes, and that is at most |a'| |b'| of the euclidean norms of its
// terms (Cauchy-Schwarz). So L additions, in any sequence, are off by at most u L |a'| |b'|. Let a
// sum have segments j, of L terms or fewer each, that lie between two folds, in different warps, in
// different blocks. By Cauchy-Schwarz again all of them are off by at most
//
//     u L sum over j of |a(j)| |b(j)| <= u L |a| |b|,
//
// and joining P of them, in any sequence, by u P |a| |b|: `depth` is L + P. What partial sums were
// off by themselves is of second order: bounds have room for 2^-10 of it. Of uniform data 2^-12 of
// the outputs are open at k = 1024, those much smaller than |a| |b|.
//
// **Norms** come from the fragments: each warp that has a row (column) sums the squares of its
// share in f32 by fma, c of them in a register. Each addition is below the real one by at most
// 2^-24 of it and 2^-150, so that a real sum is at most (s + c 2^-149) (1 + c 2^-23) for c up to
// 2^22; wide_over() is that. That of zeros is 0, and then the sum is +0 and exact. A square above
// f32's range (|x| >= 2^64, infinity), and NaN, make the bound infinite or NaN, which decides
// nothing.
//
// Same bits: an output is stored only where both ends of a proven interval round alike, so it is
// the correctly rounded one, whatever order made it. A tap in the padding is here a product with
// zero: it changes no sum, but for a weight that is not finite, where nothing is decided.
//
// Limit: 128 fma of f64 a cycle and SM, the f32 units' own rate; on an H200 a quarter with two
// warps takes 32.3 cycles for a product of fragments, 33.7 with two words fetched and widened
// beside it, 35.4 with four, 55 with six. A warp of 32 x 32 outputs needs two.
//
// Host and device. The text is that of a block; `Block` runs a phase for its threads or its warps:
// on a device one thread is in it and the instruction, on the host they take their turns, and a
// warp multiplies the fragments of its 32 lanes as the PTX manual lays them out.
#pragma once

#include "kernels/conv/cuda_windows.h"
#include "kernels/gemm/cuda_digits.h"
#include "kernels/gemm/cuda_slices.h"

namespace etalon {
inline namespace ETALON_ISA_NAMESPACE {

inline constexpr int kWideFold = 256;           // terms of a sum before it joins those before
inline constexpr int kWideMostShare = 1 << 20;  // k of a block

struct WideTask {
  TileTask t;
  SliceSide a, b;
  bool a_k_major = false, b_k_major = false;
  int shape = 0, rows = 0, cols = 0;  // WideShapes; of a block's tile
  int down = 0, across = 0;           // tiles of a product
  int thin = 0;                       // warps that share a column (cuda_wide_thin.h); 0: tiles
  int taps = 1, slice_channels = 0, slice_taps = 0;  // of a window; k of a slice in them
  int depth = 0;                                     // additions that a product may pass
  int chain = 0;                                     // squares in one f32 sum
  int share = 0;                                     // k of a block; less than k: splits of them
  std::int64_t splits = 1;
  // Of splits: [split][output], and [split][product][rows, then columns]
  double* sums = nullptr;
  double* lines = nullptr;
  // cuda::WideMemory
  const std::uint32_t* forecast = nullptr;
  std::uint32_t most_foreseen = 0;
  ETALON_HD bool left_to_residues() const {
    return forecast != nullptr && *forecast <= most_foreseen;
  }

  ETALON_HD std::int64_t products() const { return t.batch.numel(); }
  ETALON_HD std::int64_t blocks() const { return splits * products() * down * across; }
  ETALON_HD std::int64_t outputs() const { return products() * t.m * t.n; }
  ETALON_HD double* lines_of(std::int64_t split, std::int64_t product) const {
    return lines + (split * products() + product) * (t.m + t.n);
  }
};

// ---- bound --------------------------------------------------------------------------------------

// No less than the sum of `chain` squares that was made in f32 as `sum`; of zeros zero.
ETALON_HD inline double wide_over(const WideTask& t, float sum, bool zeros) {
  const auto chain = static_cast<double>(t.chain);
  return zeros ? 0
               : fma_f64(static_cast<double>(sum) + chain * 0x1p-149, chain * 0x1p-23,
                         static_cast<double>(sum) + chain * 0x1p-149);
}
// What a sum may be off by, of a row and a column whose norms are these.
ETALON_HD inline double wide_bound(const WideTask& t, double a, double b) {
  constexpr double kUnit = 0x1p-53 * (1 + 0x1p-10);
  return kUnit * static_cast<double>(t.depth) * a * b;
}

// Rounds an output, which is y[at]; false: it is open.
template <class Products>
ETALON_HD bool wide_decide(const WideTask& task, const DigitOutput& o, std::int64_t at, double sum,
                           double a, double b) {
  const TileTask& t = task.t;
  const bool adds = Products::adds(t);
  float y;
  const bool decided = digit_decide(sum, wide_bound(task, a, b), static_cast<double>(t.alpha),
                                    adds ? Products::added(t, o) : 0, adds, y);
  if (decided) t.y[at] = y;
  return decided;
}

// What a block's outputs that are open need: places, of outputs that the block knows by number; and
// parts of their sums.
template <int Outputs>
struct WideOpen {
  static constexpr int kDots = 16, kAtATime = 16;
  struct Dot {  // a DigitDot; no initialisers
    double sum, errors, magnitudes;
  };
  int count;
  Dot dots[kDots];
  std::uint16_t numbers[Outputs];
};
// A block sums once more, in twice the precision, what it left open: all its warps share the terms
// of some outputs at a time. at(number) is where one lies.
template <class Products, class Open, class Block, class At, class Undecided>
ETALON_HD void wide_settle(const WideTask& task, Open& open, const Block& block, At&& at,
                           Undecided&& undecided) {
  constexpr std::int64_t kLeastTerms = 256;
  const auto most = static_cast<int>(task.t.k / kLeastTerms) + 1;
  static_assert(2 * Block::kWarps <= Open::kDots && Open::kAtATime <= Open::kDots);
  for (int first = 0; first < open.count; first += Open::kAtATime) {
    const int left = open.count - first, n = left < Open::kAtATime ? left : Open::kAtATime;
    // All warps have something, and not much more than twice.
    const int room = 2 * Block::kWarps / n, parts = room < 1 ? 1 : room < most ? room : most;
    block.warps([&](int warp, auto& w) {
      for (int item = warp; item < n * parts; item += Block::kWarps) {
        const std::int64_t output = at(open.numbers[first + item / parts]);
        const DigitDot dot = w.template join<DigitDot>([&](int lane) {
          return Products::dot(task.t, output, item % parts * 32 + lane, parts * 32);
        });
        if (w.leads()) open.dots[item] = {dot.sum, dot.errors, dot.magnitudes};
      }
    });
    block.barrier();
    block.threads([&](auto&, int tid) {
      if (tid >= n) return;
      DigitDot dot;
      for (int part = 0; part < parts; ++part) {
        const auto& share = open.dots[tid * parts + part];
        DigitDot more;
        more.sum = share.sum, more.errors = share.errors, more.magnitudes = share.magnitudes;
        dot.merge(more);
      }
      const std::int64_t output = at(open.numbers[first + tid]);
      if (!digit_settle<Products>(task.t, output, dot)) undecided(output);
    });
    block.barrier();
  }
}

// ---- a block ------------------------------------------------------------------------------------

// Warps lie Down by Across over a tile, and Groups of them share k; a warp has Rows fragments of 16
// and Cols of 8. K of a slice, Stages of them; an SM takes Blocks.
template <int Down, int Across, int Groups, int Rows, int Cols, int K, int Stages, int Blocks,
          bool Folded>
struct WideTile {
  static constexpr bool kFolded = Folded;
  static constexpr int kDown = Down, kAcross = Across, kGroups = Groups, kK = K, kStages = Stages,
                       kBlocks = Blocks;
  static constexpr int kFragRows = Rows, kFragCols = Cols;  // of a warp
  static constexpr int kRows = Down * Rows * 16, kCols = Across * Cols * 8;
  static constexpr int kWarps = Down * Across * Groups, kThreads = 32 * kWarps;
  static constexpr int kSteps = K / 8 / Groups;  // of a warp in a slice
  static constexpr int kFoldSlices = kWideFold / 8 / kSteps;
  static_assert(kSteps * 8 * Groups == K && kFoldSlices * kSteps * 8 == kWideFold);
  // Warps that have the same rows (columns) share their squares; fragments of one.
  static constexpr int kRowWarps = Rows % Across == 0 ? Across : 1,
                       kColWarps = Cols % Down == 0 ? Down : 1;
  static constexpr int kNoteRows = Rows / kRowWarps, kNoteCols = Cols / kColWarps;
};

// Windows: b is a convolution's, by TileWindows.
template <class Tile, bool AKMajor, bool BKMajor, bool AFours, bool BFours, bool Windows = false>
struct WideShape : Tile {
  static constexpr bool kWindows = Windows;
  using Tile::kRows, Tile::kCols, Tile::kThreads, Tile::kGroups, Tile::kStages;
  using A = Slices<kRows, Tile::kK, kThreads, AKMajor, AFours>;
  using Matrix = Slices<kCols, Tile::kK, kThreads, BKMajor, BFours>;
  using Pixels = TileWindows<kCols, Tile::kK, kThreads, kCols + 8>;
  using B = std::conditional_t<Windows, Pixels, Matrix>;
  static constexpr int kLines = kRows + kCols;
  static constexpr int kAtATime = kThreads / kCols;  // rows of outputs that a block decides
  static_assert(kAtATime * kCols == kThreads);

  // A row of sums is padded so that the pairs that a warp's quarter puts there lie in different
  // banks.
  struct alignas(16) Pair {
    double sum[2];
  };
  struct Part {
    float squares;
    std::uint32_t any;
  };
  struct Ending {
    Pair sums[kGroups][kRows][(kCols + 8) / 2];
    Part parts[kGroups][kLines][4];
    double norms[kLines];
    WideOpen<kRows * kCols> open;
  };
  struct Slice {
    float a[A::kFloats], b[B::kFloats];
  };
  static constexpr int kSums = Tile::kFragRows * Tile::kFragCols * 4;  // of a thread
  struct Products {
    Slice slices[kStages];
    double before[Tile::kFolded ? kSums : 1][Tile::kFolded ? kThreads : 1];
    std::conditional_t<Windows, typename Pixels::Table, int> taps;
  };
  struct alignas(16) Shared {
    union {
      Products products;
      Ending ending;
    };
  };
  static_assert(sizeof(Slice) % 16 == 0 && sizeof(float) * A::kFloats % 16 == 0);

  struct Thread {
    double sum[Tile::kFragRows][Tile::kFragCols][4];
    float next_a[Tile::kFragRows][4], next_b[Tile::kFragCols][2];
    double a[Tile::kFragRows][4], b[Tile::kFragCols][2];
    Part rows[Tile::kNoteRows][2], cols[Tile::kNoteCols];
    SliceThread from_a;
    std::conditional_t<Windows, Pixels, SliceThread> from_b;
  };
};

struct WidePlace {
  int split = 0, product = 0, row0 = 0, col0 = 0, k0 = 0, k_end = 0;
};
// Blocks go down kTilePanel tiles of rows before they step to the right.
ETALON_HD inline WidePlace wide_place(const WideTask& t, std::uint32_t block) {
  const auto tiles_m = static_cast<std::uint32_t>(t.down),
             tiles_n = static_cast<std::uint32_t>(t.across),
             products = static_cast<std::uint32_t>(t.products());
  const std::uint32_t product = block / (tiles_m * tiles_n), rest = block % (tiles_m * tiles_n);
  const std::uint32_t first = rest / (kTilePanel * tiles_n) * kTilePanel,
                      at = rest % (kTilePanel * tiles_n);
  const std::uint32_t left = tiles_m - first, height = left < kTilePanel ? left : kTilePanel;
  WidePlace p;
  p.split = static_cast<int>(product / products);
  p.product = static_cast<int>(product % products);
  p.row0 = static_cast<int>(first + at % height) * t.rows;
  p.col0 = static_cast<int>(at / height) * t.cols;
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
  using Part = typename Shape::Part;
  static constexpr int kRows = Shape::kRows, kCols = Shape::kCols, kK = Shape::kK,
                       kStages = Shape::kStages, kThreads = Shape::kThreads;

  ETALON_HD static void load(const WideTask& task, const WidePlace& p, Shared& s, Thread& r,
                             int stage, int k0, int tid) {
    if (k0 < p.k_end) {
      A::load(task.a, r.from_a, s.products.slices[stage].a, k0, p.k_end, tid);
      if constexpr (Shape::kWindows) {
        r.from_b.bring(s.products.taps, s.products.slices[stage].b, p.k_end - k0, tid);
        r.from_b.step(task.taps, task.slice_channels, task.slice_taps, task.b.k_stride);
      } else
        B::load(task.b, r.from_b, s.products.slices[stage].b, k0, p.k_end, tid);
    }
    close_copies();
  }

  ETALON_HD static void begin(const WideTask& task, const WidePlace& p, Thread& r, int tid) {
    const TileTask& t = task.t;
    ETALON_UNROLL
    for (auto& row : r.sum) ETALON_UNROLL
    for (auto& fragment : row) ETALON_UNROLL
    for (double& v : fragment) v = 0;
    ETALON_UNROLL
    for (auto& fragment : r.rows) ETALON_UNROLL
    for (Part& line : fragment) line = {};
    ETALON_UNROLL
    for (Part& line : r.cols) line = {};
    const float *a = t.a, *b = t.b;
    if (p.product > 0) {
      a += strided_offset(p.product, t.batch, task.a.batch);
      b += strided_offset(p.product, t.batch, task.b.batch);
    }
    A::begin(task.a, a, p.row0, p.k0, tid, r.from_a);
    if constexpr (Shape::kWindows) {
      r.from_b.begin(t, b, p.col0, tid);
      r.from_b.step(task.taps, p.k0 / task.taps, p.k0 % task.taps, task.b.k_stride);
    } else if constexpr (Conv)
      B::begin_pixels(task.b, t, b, p.col0, p.k0, tid, r.from_b);
    else
      B::begin(task.b, b, p.col0, p.k0, tid, r.from_b);
  }

  // Where a warp is: its group, its first row and column.
  struct Where {
    int group, down, across, row0, col0;
  };
  ETALON_HD static Where where(int warp) {
    constexpr int kOfGroup = Shape::kDown * Shape::kAcross;
    const int down = warp % kOfGroup / Shape::kAcross, across = warp % Shape::kAcross;
    return {warp / kOfGroup, down, across, down * Shape::kFragRows * 16,
            across * Shape::kFragCols * 8};
  }

  // Fragments of 16 x 8 of a, of 8 x 8 of b: with g = lane / 4 and t = lane % 4, a register holds
  // row g (or g + 8), column g, of k = t (or t + 4).
  ETALON_HD static void fetch_a(const typename Shape::Slice& s, int step, Thread& r, int tid) {
    const Where w = where(tid / 32);
    const int g = tid % 32 / 4, k = (step * Shape::kGroups + w.group) * 8 + tid % 4;
    ETALON_UNROLL
    for (int i = 0; i < Shape::kFragRows; ++i) ETALON_UNROLL
    for (int e = 0; e < 4; ++e)
      r.next_a[i][e] = s.a[A::at(w.row0 + i * 16 + g + e % 2 * 8, k + e / 2 * 4)];
  }
  ETALON_HD static void fetch_b(const typename Shape::Slice& s, int step, int j, Thread& r,
                                int tid) {
    const Where w = where(tid / 32);
    const int g = tid % 32 / 4, k = (step * Shape::kGroups + w.group) * 8 + tid % 4;
    ETALON_UNROLL
    for (int e = 0; e < 2; ++e) r.next_b[j][e] = s.b[B::at(w.col0 + j * 8 + g, k + e * 4)];
  }
  ETALON_HD static void note(Part& line, float v) {
    line.squares = fma_f32(v, v, line.squares);
    line.any |= bits_of(v);
  }
  ETALON_HD static void note(Thread& r, int tid) {
    const Where w = where(tid / 32);
    ETALON_UNROLL
    for (int i = 0; i < Shape::kNoteRows; ++i) ETALON_UNROLL
    for (int e = 0; e < 4; ++e) {
      float v = r.next_a[i * Shape::kRowWarps][e];
      ETALON_UNROLL
      for (int other = 1; other < Shape::kRowWarps; ++other)
        v = w.across == other ? r.next_a[i * Shape::kRowWarps + other][e] : v;
      note(r.rows[i][e % 2], v);
    }
    ETALON_UNROLL
    for (int j = 0; j < Shape::kNoteCols; ++j) ETALON_UNROLL
    for (int e = 0; e < 2; ++e) {
      float v = r.next_b[j * Shape::kColWarps][e];
      ETALON_UNROLL
      for (int other = 1; other < Shape::kColWarps; ++other)
        v = w.down == other ? r.next_b[j * Shape::kColWarps + other][e] : v;
      note(r.cols[j], v);
    }
  }
  ETALON_HD static void widen_a(Thread& r) {
    ETALON_UNROLL
    for (int i = 0; i < Shape::kFragRows; ++i) ETALON_UNROLL
    for (int e = 0; e < 4; ++e) r.a[i][e] = static_cast<double>(r.next_a[i][e]);
  }
  ETALON_HD static void widen_b(Thread& r, int j) {
    ETALON_UNROLL
    for (int e = 0; e < 2; ++e) r.b[j][e] = static_cast<double>(r.next_b[j][e]);
  }
  ETALON_HD static void fetch(const typename Shape::Slice& s, int step, Thread& r, int tid) {
    fetch_a(s, step, r, tid);
    ETALON_UNROLL
    for (int j = 0; j < Shape::kFragCols; ++j) fetch_b(s, step, j, r, tid);
  }
  ETALON_HD static void widen(Thread& r, int tid) {
    note(r, tid);
    widen_a(r);
    ETALON_UNROLL
    for (int j = 0; j < Shape::kFragCols; ++j) widen_b(r, j);
  }

  // The sums join those before; `last`: and are whole.
  ETALON_HD static void fold(Shared& s, Thread& r, int tid, bool first, bool last) {
    ETALON_UNROLL
    for (int i = 0; i < Shape::kFragRows; ++i) ETALON_UNROLL
    for (int j = 0; j < Shape::kFragCols; ++j) ETALON_UNROLL
    for (int e = 0; e < 4; ++e) {
      double& before = s.products.before[(i * Shape::kFragCols + j) * 4 + e][tid];
      double& sum = r.sum[i][j][e];
      if (!first) sum = before + sum;
      if (last) continue;
      before = sum;
      sum = 0;
    }
  }

  // A thread's sums, to where outputs that are neighbours in a row are a warp's; its squares.
  ETALON_HD static void put(typename Shape::Ending& end, const Thread& r, int tid) {
    const Where w = where(tid / 32);
    const int g = tid % 32 / 4, t = tid % 4;
    ETALON_UNROLL
    for (int i = 0; i < Shape::kFragRows; ++i) ETALON_UNROLL
    for (int half = 0; half < 2; ++half) ETALON_UNROLL
    for (int j = 0; j < Shape::kFragCols; ++j)
      end.sums[w.group][w.row0 + i * 16 + half * 8 + g][(w.col0 + j * 8) / 2 + t] = {
          {r.sum[i][j][half * 2], r.sum[i][j][half * 2 + 1]}};
    auto& parts = end.parts[w.group];
    if (w.across < Shape::kRowWarps) ETALON_UNROLL
    for (int i = 0; i < Shape::kNoteRows; ++i) ETALON_UNROLL
    for (int half = 0; half < 2; ++half)
      parts[w.row0 + (i * Shape::kRowWarps + w.across) * 16 + half * 8 + g][t] = r.rows[i][half];
    if (w.down < Shape::kColWarps) ETALON_UNROLL
    for (int j = 0; j < Shape::kNoteCols; ++j)
      parts[kRows + w.col0 + (j * Shape::kColWarps + w.down) * 8 + g][t] = r.cols[j];
  }
  ETALON_HD static double squares_of(const WideTask& task, const typename Shape::Ending& end,
                                     int line) {
    double squares = 0;
    ETALON_UNROLL
    for (const auto& group : end.parts) ETALON_UNROLL
    for (const Part& part : group[line])
      squares += wide_over(task, part.squares, (part.any & 0x7fffffffU) == 0);
    return squares;
  }
  ETALON_HD static double sum_of(const typename Shape::Ending& end, int row, int col) {
    double sum = 0;
    ETALON_UNROLL
    for (const auto& group : end.sums) sum += group[row][col / 2].sum[col % 2];
    return sum;
  }

  // One block. undecided(at) takes what the host must settle, open(at) is told of outputs that the
  // bound leaves open.
  template <class Block, class Open, class Undecided>
  ETALON_HD static void run(const WideTask& task, std::uint32_t block_id, Shared& s,
                            const Block& block, Open&& open, Undecided&& undecided) {
    const WidePlace p = wide_place(task, block_id);
    if constexpr (Shape::kWindows) {
      block.threads([&](Thread&, int tid) { B::fill(task.t, s.products.taps, tid); });
      block.barrier();
    }
    block.begin();
    block.threads([&](Thread& r, int tid) {
      begin(task, p, r, tid);
      ETALON_UNROLL
      for (int i = 0; i < kStages; ++i) load(task, p, s, r, i, p.k0 + i * kK, tid);
    });
    const auto multiply = [&](int first, int behind) {
      block.warps([&](int, auto& w) {
        ETALON_UNROLL
        for (int i = 0; i < Shape::kFragRows; ++i) ETALON_UNROLL
        for (int j = 0; j < Shape::kFragCols; ++j)
          if (i >= first && i < behind) w.mma(i, j);
      });
    };
    int stage = 0, k0 = p.k0, unfolded = 0;
    bool first = true;  // nothing was folded yet
    const auto fold_now = [&] {
      if constexpr (Shape::kFolded)
        if (++unfolded == Shape::kFoldSlices) {
          block.threads([&](Thread& r, int tid) { fold(s, r, tid, first, false); });
          unfolded = 0;
          first = false;
        }
    };
    block.template arrived<kStages - 1>();
    if (k0 < p.k_end)
      block.threads([&](Thread& r, int tid) { fetch(s.products.slices[0], 0, r, tid); });
    while (k0 < p.k_end) {
      ETALON_UNROLL
      for (int step = 0; step + 1 < Shape::kSteps; ++step) {
        block.threads([&](Thread& r, int tid) {
          widen(r, tid);
          fetch(s.products.slices[stage], step + 1, r, tid);
        });
        multiply(0, Shape::kFragRows);
      }
      block.threads([&](Thread& r, int tid) { widen(r, tid); });
      k0 += kK;
      if (k0 >= p.k_end) {
        multiply(0, Shape::kFragRows);
        break;
      }
      // This slice is in all threads' registers; the next one is there.
      const int before = stage;
      stage = stage + 1 == kStages ? 0 : stage + 1;
      block.template arrived<kStages - 2>();
      block.threads([&](Thread& r, int tid) { fetch(s.products.slices[stage], 0, r, tid); });
      multiply(0, 1);
      block.threads(
          [&](Thread& r, int tid) { load(task, p, s, r, before, k0 + (kStages - 1) * kK, tid); });
      multiply(1, Shape::kFragRows);
      fold_now();
    }
    block.template arrived<0>();  // slices are nobody's any more
    auto& end = s.ending;
    if constexpr (Shape::kFolded)
      if (!first) {
        block.threads([&](Thread& r, int tid) { fold(s, r, tid, false, true); });
        block.barrier();
      }
    block.threads([&](Thread& r, int tid) { put(end, r, tid); });
    block.barrier();
    block.threads([&](Thread&, int tid) {
      if (tid == 0) end.open.count = 0;
      for (int line = tid; line < Shape::kLines; line += kThreads) {
        const double squares = squares_of(task, end, line);
        if (task.splits > 1)
          leave_line(task, p, line, squares);
        else
          end.norms[line] = sqrt_f64(squares);
      }
    });
    block.barrier();
    const auto at = [&](int number) {
      const WideColumn column = wide_column<Conv>(task.t, p.product, p.col0 + number % kCols);
      return column.at + (p.row0 + number / kCols) * column.step;
    };
    block.threads([&](Thread&, int tid) {
      const int col = tid % kCols;
      const std::int64_t rows = task.t.m - p.row0;
      if (p.col0 + col >= task.t.n) return;
      const WideColumn column = wide_column<Conv>(task.t, p.product, p.col0 + col);
#if defined(__CUDACC__)
#pragma unroll 2
#endif
      for (int row = tid / kCols; row < kRows; row += Shape::kAtATime) {
        if (row >= rows) break;
        const double sum = sum_of(end, row, col);
        const std::int64_t place = column.at + (p.row0 + row) * column.step;
        if (task.splits > 1) {
          task.sums[p.split * task.outputs() + place] = sum;
        } else if (!wide_decide<Products>(task, {p.product, p.row0 + row, p.col0 + col}, place, sum,
                                          end.norms[row], end.norms[kRows + col])) {
          open(place);
          end.open.numbers[block.take(end.open.count)] =
              static_cast<std::uint16_t>(row * kCols + col);
        }
      }
    });
    block.barrier();
    wide_settle<Products>(task, end.open, block, at, undecided);
  }

  // Of a split, for wide_finish(): those of rows by the first tile to the right, of columns by the
  // first from above.
  ETALON_HD static void leave_line(const WideTask& task, const WidePlace& p, int tid,
                                   double squares) {
    const std::int64_t line = tid < kRows ? p.row0 + tid : p.col0 + tid - kRows;
    double* const to = task.lines_of(p.split, p.product);
    if (tid < kRows ? p.col0 == 0 && line < task.t.m : p.row0 == 0 && line < task.t.n)
      to[tid < kRows ? line : task.t.m + line] = squares;
  }
};

// Where blocks shared an output's k: a block of kWideFinish threads joins the sums of as many
// outputs, from `first` on.
inline constexpr int kWideFinish = 256;
using WideFinishShared = WideOpen<kWideFinish>;
template <class Products, class Block, class Open, class Undecided>
ETALON_HD void wide_finish(const WideTask& task, std::int64_t first, WideFinishShared& s,
                           const Block& block, Open&& open, Undecided&& undecided) {
  block.begin();
  block.threads([&](auto&, int tid) {
    if (tid == 0) s.count = 0;
  });
  block.barrier();
  block.threads([&](auto&, int tid) {
    const std::int64_t at = first + tid;
    if (at >= task.outputs()) return;
    const DigitOutput o = Products::output(task.t, at);
    double sum = 0, a = 0, b = 0;
    for (std::int64_t split = 0; split < task.splits; ++split) {
      const double* const lines = task.lines_of(split, o.product);
      sum += task.sums[split * task.outputs() + at];
      a += lines[o.m];
      b += lines[task.t.m + o.n];
    }
    if (wide_decide<Products>(task, o, at, sum, sqrt_f64(a), sqrt_f64(b))) return;
    open(at);
    s.numbers[block.take(s.count)] = static_cast<std::uint16_t>(tid);
  });
  block.barrier();
  wide_settle<Products>(task, s, block, [&](int number) { return first + number; }, undecided);
}

}  // namespace ETALON_ISA_NAMESPACE
}  // namespace etalon
