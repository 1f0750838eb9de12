// gemm and matmul correctly rounded on a GPU's int8 tensor units: the CPU's first pass in digits
// (digit_tile.h: digits, bound and join; 19 products of planes), then sums in twice the precision
// of f64 for what it left open.
//
// Contract: exact. Kernels:
//   1  each row of a and column of b: largest magnitude, unit, five planes of digits, norms
//   2  a block of 8 warps owns 64 x 64 outputs; a warp 16 x 32 of them, six levels each in int32
//      registers. k goes by steps of 64 through shared memory, the next step on its way (cp.async)
//      meanwhile; mma.sync m16n8k32 of s8, whose sums of int32 are exact. After 2^14 terms, where a
//      level of five products is still below 2^31, the levels are joined and begin anew. Then join,
//      bound and rounding test, an output a thread
//   3  a warp for each output that is open: its sum with the errors of all additions summed too
// What stays undecided after 3 (midpoints, NaN, infinities) the host settles.
//
// Same bits: an output is stored only where both ends of a proven interval round alike, so it is
// the correctly rounded one, whatever order made it.
//
// Limit: int8 tensor units, 19 products of a plane for one of f32. For each step of 32 k a warp
// reads 60 words from shared memory for 76 mma. Twice SGEMM's time on an H100.
//
// Host and device. `Warp` is a warp as the text sees it: on a device one lane and the instruction,
// in the host shim all 32 lanes and the product of their fragments as the PTX manual lays them out.
// `Products` says where operands and outputs lie: MatrixProducts here, WindowProducts for conv
// (kernels/conv/cuda_digits.h).
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "kernels/backends/cuda/api.h"
#include "kernels/backends/cuda/tile_tasks.h"
#include "kernels/gemm/copy_async.h"
#include "kernels/gemm/digit_cut.h"

namespace etalon {
inline namespace ETALON_ISA_NAMESPACE {

inline constexpr int kDigitThreads = 256, kDigitTile = 64, kDigitPackThreads = 128;

// One operand: rows (of a; columns of b) of all products, padded to tiles, k padded to steps.
struct DigitSide {
  const float* from = nullptr;
  std::int64_t rows = 0, padded = 0;  // of one product
  std::int64_t row_stride = 0, k_stride = 0;
  std::array<std::int64_t, kMaxRank> batch{};
  std::uint8_t* planes = nullptr;  // [product][digit][row][k]
  DigitNorm* norms = nullptr;      // [product][row]
  int together = 1;                // rows that a block cuts: neighbours in memory, or one
};

struct DigitTask {
  TileTask t;
  DigitSide a, b;
  std::int64_t k_padded = 0, products = 0;
  ETALON_HD std::int64_t tiles_m() const { return a.padded / kDigitTile; }
  ETALON_HD std::int64_t tiles_n() const { return b.padded / kDigitTile; }
  ETALON_HD std::int64_t blocks() const { return products * tiles_m() * tiles_n(); }
  ETALON_HD std::int64_t pack_blocks(const DigitSide& s) const {
    return products * s.padded / s.together;
  }
};

// ---- 1: digits ----------------------------------------------------------------------------------

struct DigitPackShared {
  std::int32_t top[kDigitPackThreads];
  DigitSquares squares[kDigitPackThreads];
};

// Elements x(i), i < count, cut into planes `plane` bytes apart: fours of them from `first` on,
// `step` apart, up to `bytes`; zeros from count on. Sums of squares of what was cut.
template <class X>
ETALON_HD DigitSquares digit_cut(X&& x, std::int64_t count, double scale, std::int64_t first,
                                 std::int64_t step, std::int64_t bytes, std::uint8_t* to,
                                 std::int64_t plane) {
  DigitSquares squares{};
  std::int64_t digit_squares[4] = {};
  for (std::int64_t i = first; i < bytes; i += step) {
    std::uint32_t word[kDigits] = {};
    for (int j = 0; j < 4; ++j) {
      if (i + j >= count) continue;
      const double z = static_cast<double>(x(i + j)) * scale, integer = digit_integer(z),
                   rest = z - integer;
      squares.norm = fma_f64(z, z, squares.norm);
      squares.rest = fma_f64(rest, rest, squares.rest);
      const std::uint64_t digits = digits_of(integer);
      for (int d = 0; d < kDigits; ++d)
        word[d] |= (static_cast<std::uint32_t>(digits >> (8 * d)) & 0xffU) << (8 * j);
      for (int d = 0; d < 4; ++d) {
        const int v = digit(digits, d);
        digit_squares[d] += v * v;
      }
    }
    for (int d = 0; d < kDigits; ++d) std::memcpy(to + d * plane + i, &word[d], 4);
  }
  for (int d = 0; d < 4; ++d) squares.digit[d] = static_cast<double>(digit_squares[d]);
  return squares;
}
ETALON_HD inline bool digit_can_cut(std::int32_t top) { return top != 0 && top < 0x7f800000; }
ETALON_HD inline std::int32_t digit_size(float x) {
  return static_cast<std::int32_t>(bits_of(x) & 0x7fffffffU);
}
// What the bound takes of a row, of which `top` is the largest magnitude.
ETALON_HD inline DigitNorm digit_norm_under(const DigitSquares& sum, std::int32_t top,
                                            std::int64_t k) {
  DigitNorm n = digit_norm(sum, digit_can_cut(top) ? digit_unit(top) : 1, k);
  if (top >= 0x7f800000) n.norm = n.high = n.rest = kNan;  // a bound that decides nothing
  return n;
}

// Thread tid has row tid % together of the block, and every (threads / together)-th four of its k
// elements; rows(product, row)(i) is one of them.
template <class Rows, class Threads>
ETALON_HD void digit_pack_rows(const DigitTask& task, const DigitSide& side, std::int64_t k,
                               std::int64_t block, DigitPackShared& shared, const Threads& threads,
                               Rows&& rows) {
  const std::int64_t line0 = block * side.together, product = line0 / side.padded;
  const int shares = kDigitPackThreads / side.together;
  const auto row_of = [&](int tid) { return line0 % side.padded + tid % side.together; };
  threads([&](int tid) {
    std::int32_t top = 0;
    if (row_of(tid) < side.rows) {
      const auto row = rows(product, row_of(tid));
      for (std::int64_t i = tid / side.together * 4; i < k; i += shares * 4)
        for (std::int64_t j = i; j < i + 4 && j < k; ++j) {
          const std::int32_t size = digit_size(row(j));
          top = size > top ? size : top;
        }
    }
    shared.top[tid] = top;
  });
  // The largest of a row, bits of NaN and infinity the largest of all.
  const auto top_of = [&](int tid) {
    std::int32_t top = 0;
    for (int i = tid % side.together; i < kDigitPackThreads; i += side.together)
      top = shared.top[i] > top ? shared.top[i] : top;
    return top;
  };
  threads([&](int tid) {
    const std::int32_t top = top_of(tid);
    const std::int64_t row_bytes = task.k_padded, plane_bytes = side.padded * row_bytes;
    std::uint8_t* const to =
        side.planes + product * kDigits * plane_bytes + row_of(tid) * row_bytes;
    const auto cut = [&](auto&& row, double scale) {
      return digit_cut(row, k, scale, tid / side.together * 4, shares * 4, row_bytes, to,
                       plane_bytes);
    };
    shared.squares[tid] = digit_can_cut(top) ? cut(rows(product, row_of(tid)), 1 / digit_unit(top))
                                             : cut([](std::int64_t) { return 0.0F; }, 0);
  });
  threads([&](int tid) {
    if (tid >= side.together) return;
    DigitSquares sum{};
    for (int i = tid; i < kDigitPackThreads; i += side.together) sum.add(shared.squares[i]);
    side.norms[product * side.padded + row_of(tid)] = digit_norm_under(sum, top_of(tid), k);
  });
}
template <class Threads>
ETALON_HD void digit_pack(const DigitTask& task, const DigitSide& side, std::int64_t block,
                          DigitPackShared& shared, const Threads& threads) {
  digit_pack_rows(
      task, side, task.t.k, block, shared, threads, [&](std::int64_t product, std::int64_t row) {
        const float* const from =
            side.from + strided_offset(product, task.t.batch, side.batch) + row * side.row_stride;
        return [from, step = side.k_stride](std::int64_t i) { return from[i * step]; };
      });
}

// ---- 2: products --------------------------------------------------------------------------------

// Words of 16 bytes of a row change places with the row, so that the 8 rows of a fragment lie in
// different banks.
struct alignas(16) DigitShared {
  std::uint8_t data[2][2][kDigits][kDigitTile][kDigitStep];  // [buffer][a, b]
  ETALON_HD std::uint8_t* at(int buffer, int side, int plane, int row, int byte) {
    return &data[buffer][side][plane][row][(byte / 16 ^ (row / 2 % 4)) * 16 + byte % 16];
  }
  ETALON_HD std::uint32_t word(int buffer, int side, int plane, int row, int byte) {
    std::uint32_t w;
    std::memcpy(&w, __builtin_assume_aligned(at(buffer, side, plane, row, byte), 4), 4);
    return w;
  }
};

struct DigitThread {
  std::int32_t sum[kMaxLevels][4][4];
  double joined[4][4];  // of the blocks of k that are done, where there is more than one
};

struct DigitPlace {
  std::int64_t product = 0, row0 = 0, col0 = 0;
};
// Blocks go down eight tiles of rows before they step to the right.
ETALON_HD inline DigitPlace digit_place(const DigitTask& t, std::int64_t block) {
  const std::int64_t tiles_m = t.tiles_m(), tiles_n = t.tiles_n();
  const std::int64_t rest = block % (tiles_m * tiles_n);
  const std::int64_t first = rest / (kTilePanel * tiles_n) * kTilePanel,
                     place = rest % (kTilePanel * tiles_n);
  const std::int64_t left = tiles_m - first, height = left < kTilePanel ? left : kTilePanel;
  return {block / (tiles_m * tiles_n), (first + place % height) * kDigitTile,
          place / height * kDigitTile};
}

// A thread's share of one operand's rows [row0, row0 + 64) of the step that starts at k0: 16 bytes
// of each plane, always of the same row.
ETALON_HD inline int digit_row_of(int tid) { return tid / (kDigitStep / 16); }
ETALON_HD inline int digit_chunk_of(int tid) { return tid % (kDigitStep / 16); }
ETALON_HD inline void digit_load(const DigitTask& t, const DigitSide& side, std::int64_t product,
                                 std::int64_t row0, DigitShared& shared, int buffer, int which,
                                 std::int64_t k0, int tid) {
  static_assert(kDigitTile * (kDigitStep / 16) == kDigitThreads);
  const int row = digit_row_of(tid), byte = digit_chunk_of(tid) * 16;
  ETALON_UNROLL
  for (int plane = 0; plane < kDigits; ++plane) {
    const std::int64_t at = (product * kDigits + plane) * side.padded + row0 + row;
    copy_16(shared.at(buffer, which, plane, row, byte), side.planes + at * t.k_padded + k0 + byte);
  }
}

// Fragments of 16 x 32 of a plane of a, of 8 columns of b: with g = lane / 4 and t = lane % 4, a
// register holds four neighbouring k of row g (or g + 8), of column g.
template <class Warp>
ETALON_HD void digit_multiply(DigitShared& shared, int buffer, int warp, Warp& w) {
  const int row0 = warp / 2 * 16, col0 = warp % 2 * 32;
  ETALON_UNROLL
  for (int k = 0; k < kDigitStep; k += 32) {
    std::uint32_t a[Warp::kLanes][kDigits][4];
    ETALON_UNROLL
    for (int i = 0; i < Warp::kLanes; ++i) {
      const int g = w.lane(i) / 4, t = w.lane(i) % 4;
      ETALON_UNROLL
      for (int d = 0; d < kDigits; ++d) ETALON_UNROLL
      for (int r = 0; r < 4; ++r)
        a[i][d][r] = shared.word(buffer, 0, d, row0 + g + r % 2 * 8, k + r / 2 * 16 + t * 4);
    }
    ETALON_UNROLL
    for (int f = 0; f < 4; ++f) {
      std::uint32_t b[Warp::kLanes][kDigits][2];
      ETALON_UNROLL
      for (int i = 0; i < Warp::kLanes; ++i) {
        const int g = w.lane(i) / 4, t = w.lane(i) % 4;
        ETALON_UNROLL
        for (int d = 0; d < kDigits; ++d) ETALON_UNROLL
        for (int r = 0; r < 2; ++r)
          b[i][d][r] = shared.word(buffer, 1, d, col0 + f * 8 + g, k + r * 16 + t * 4);
      }
      ETALON_UNROLL
      for (int i = 0; i < kDigits; ++i) ETALON_UNROLL
      for (int j = 0; j < kDigits; ++j)
        if (i + j >= 3) w.mma(i + j - 3, f, a, i, b, j);
    }
  }
}

// The levels of a block of k join those before.
ETALON_HD inline void digit_fold(DigitThread& r) {
  ETALON_UNROLL
  for (int f = 0; f < 4; ++f) ETALON_UNROLL
  for (int c = 0; c < 4; ++c) {
    r.joined[f][c] += digit_join([&](int l) { return r.sum[l][f][c]; });
    ETALON_UNROLL
    for (auto& level : r.sum) level[f][c] = 0;
  }
}
ETALON_HD inline bool digit_folds(const DigitTask& t, std::int64_t k) {
  return k % kDigitBlock == 0 && k < t.k_padded;
}

// Which output a product's element is.
struct DigitOutput {
  std::int64_t product = 0, m = 0, n = 0;
};

// Rounds a thread's outputs; open(index) takes those that are not decided. Long: k has blocks.
template <class Products, bool Long, class Open>
ETALON_HD void digit_store(const DigitTask& task, const DigitPlace& p, const DigitThread& r,
                           int tid, Open&& open) {
  const TileTask& t = task.t;
  const int warp = tid / 32, g = tid % 32 / 4, q = tid % 4;
  ETALON_UNROLL
  for (int f = 0; f < 4; ++f) ETALON_UNROLL
  for (int c = 0; c < 4; ++c) {
    const DigitOutput o{p.product, p.row0 + warp / 2 * 16 + g + c / 2 * 8,
                        p.col0 + warp % 2 * 32 + f * 8 + 2 * q + c % 2};
    if (o.m >= t.m || o.n >= t.n) continue;
    const DigitNorm &a = task.a.norms[o.product * task.a.padded + o.m],
                    &b = task.b.norms[o.product * task.b.padded + o.n];
    double sum = digit_join([&](int l) { return r.sum[l][f][c]; });
    if constexpr (Long) sum = r.joined[f][c] + sum;
    const bool adds = Products::adds(t);
    const std::int64_t at = Products::place(t, o);
    float y;
    if (!digit_decide(sum * (a.unit * b.unit), digit_bound(a, b), static_cast<double>(t.alpha),
                      adds ? Products::added(t, o) : 0, adds, y))
      open(at);
    t.y[at] = y;
  }
}

// ---- 3: what is open ----------------------------------------------------------------------------

// Dot2 of Ogita, Rump, Oishi (2005), products exact: as exact_dot (exact_lanes_inl.h), a lane's
// share of k or of lanes.
struct DigitDot {
  double sum = 0, errors = 0, magnitudes = 0;
  ETALON_HD void add(double x) {
    const TwoDoubles s = two_sum(sum, x);
    sum = s.value;
    errors += s.error;
    magnitudes += abs_of(s.error);
  }
  ETALON_HD void merge(const DigitDot& o) {
    add(o.sum);
    errors += o.errors;
    magnitudes += o.magnitudes;
  }
  ETALON_HD WideSum result(std::int64_t k) const {
    return {sum, errors, static_cast<double>(k + 100) * 0x1p-53 * magnitudes * (1 + 0x1p-8)};
  }
};
// True: y of output `at` is now the correctly rounded one. k: the terms of its sum.
template <class Products>
ETALON_HD bool digit_settle(const TileTask& t, std::int64_t at, const DigitDot& dot) {
  const bool adds = Products::adds(t);
  const double added = adds ? Products::added(t, Products::output(t, at)) : 0;
  float y;
  if (!settle_sum(dot.result(t.k), static_cast<double>(t.alpha), added, adds, y)) return false;
  t.y[at] = y;
  return true;
}

// gemm and matmul: how the text above finds operands and outputs.
struct MatrixProducts {
  using Task = DigitTask;
  ETALON_HD static const DigitTask& products(const Task& task) { return task; }
  static const DigitTask& products(const Task&&) = delete;  // it would be gone
  ETALON_HD static std::int64_t outputs(const Task& task) { return task.products * task.t.y_batch; }
  ETALON_HD static std::int64_t place(const TileTask& t, const DigitOutput& o) {
    return o.product * t.y_batch + o.m * t.n + o.n;
  }
  ETALON_HD static DigitOutput output(const TileTask& t, std::int64_t at) {
    return {at / t.y_batch, at % t.y_batch / t.n, at % t.n};
  }
  ETALON_HD static bool adds(const TileTask& t) { return t.c != nullptr; }
  ETALON_HD static double added(const TileTask& t, const DigitOutput& o) {
    return static_cast<double>(t.beta) * static_cast<double>(t.c[o.m * t.c_row + o.n * t.c_col]);
  }
  // A lane's share of an output's sum, one of `shares`.
  ETALON_HD static DigitDot dot(const TileTask& t, std::int64_t at, int lane, int shares = 32) {
    const DigitOutput o = output(t, at);
    const float* a = t.a + strided_offset(o.product, t.batch, t.a_batch) + o.m * t.a_row;
    const float* b = t.b + strided_offset(o.product, t.batch, t.b_batch) + o.n * t.b_col;
    DigitDot dot;
#if defined(__CUDACC__)
#pragma unroll 8  // loads of b meet far apart: many on their way
#endif
    for (std::int64_t k = lane; k < t.k; k += shares)
      dot.add(static_cast<double>(a[k * t.a_col]) * static_cast<double>(b[k * t.b_row]));
    return dot;
  }
  // Fetches a thread's share of each step, one after the other.
  struct Loader {
    ETALON_HD Loader(const Task& task, const DigitPlace& place, int tid)
        : t(task), p(place), id(tid) {}
    ETALON_HD void load(DigitShared& shared, int buffer, std::int64_t k0) const {
      digit_load(t, t.a, p.product, p.row0, shared, buffer, 0, k0, id);
      digit_load(t, t.b, p.product, p.col0, shared, buffer, 1, k0, id);
    }
    const Task& t;
    DigitPlace p;
    int id;
  };
};

// Outputs that the first pass left open: as of a function (device_lanes.h).
inline std::int64_t digit_open_places(std::int64_t outputs) {
  return std::min(outputs, std::max<std::int64_t>(4096, outputs / 64));
}
ETALON_HD inline std::int64_t digit_open_count(std::int64_t outputs,
                                               const cuda::UndecidedList& open) {
  return *open.count > open.capacity ? outputs : *open.count;
}
ETALON_HD inline std::int64_t digit_open_at(const cuda::UndecidedList& open, std::int64_t i) {
  return *open.count > open.capacity ? i : open.places[i];
}

// ---- a call -------------------------------------------------------------------------------------

inline DigitTask digit_task(const KernelCall& call, const cuda::DigitMemory& memory) {
  DigitTask task;
  task.t = tile_task(
      call, reinterpret_cast<float*>(const_cast<std::byte*>(call.output(0).bytes().data())));
  const TileTask& t = task.t;
  const auto padded = [](std::int64_t n) { return (n + kDigitTile - 1) / kDigitTile * kDigitTile; };
  task.k_padded = (t.k + kDigitStep - 1) / kDigitStep * kDigitStep;
  task.products = t.batch.numel();
  const auto together = [](std::int64_t row_stride, std::int64_t k_stride) {
    return k_stride == 1 || row_stride != 1 ? 1 : 32;
  };
  task.a = {.from = t.a,
            .rows = t.m,
            .padded = padded(t.m),
            .row_stride = t.a_row,
            .k_stride = t.a_col,
            .batch = t.a_batch,
            .together = together(t.a_row, t.a_col)};
  task.b = {.from = t.b,
            .rows = t.n,
            .padded = padded(t.n),
            .row_stride = t.b_col,
            .k_stride = t.b_row,
            .batch = t.b_batch,
            .together = together(t.b_col, t.b_row)};
  if (memory.planes == nullptr) return task;  // for its extents, which say how much memory it needs
  const std::int64_t a_rows = task.products * task.a.padded;
  task.a.norms = static_cast<DigitNorm*>(memory.norms);
  task.b.norms = task.a.norms + a_rows;
  task.a.planes = static_cast<std::uint8_t*>(memory.planes);
  task.b.planes = task.a.planes + a_rows * kDigits * task.k_padded;
  return task;
}
inline std::int64_t digit_norm_bytes(const DigitTask& t) {
  return t.products * (t.a.padded + t.b.padded) * static_cast<std::int64_t>(sizeof(DigitNorm));
}
inline std::int64_t digit_plane_bytes(const DigitTask& t) {
  return t.products * (t.a.padded + t.b.padded) * kDigits * t.k_padded;
}

inline Refusal refuse_digits(const Problem& problem) {
  if (*problem.contract != Contract::exact_preset()) return "promises exact only";
  // Of the shape, what the tiles refuse: 32-bit numbers of rows and columns.
  const Contract seq = Contract::seq();
  Problem shapes = problem;
  shapes.contract = &seq;
  if (Refusal r = refuse_tiles(shapes)) return r;
  return std::nullopt;
}

// ---- the host's warp ----------------------------------------------------------------------------

#if !defined(__CUDACC__)
struct HostWarp {
  static constexpr int kLanes = 32;
  DigitThread* threads;
  int lane(int i) const { return i; }
  // mma.sync.m16n8k32: fragments to matrices, product, fragments.
  void mma(int level, int f, const std::uint32_t (&a)[32][kDigits][4], int i,
           const std::uint32_t (&b)[32][kDigits][2], int j) const {
    std::int8_t left[16][32], right[8][32];
    for (int lane = 0; lane < 32; ++lane) {
      const int g = lane / 4, t = lane % 4;
      for (int r = 0; r < 4; ++r)
        std::memcpy(&left[g + r % 2 * 8][r / 2 * 16 + t * 4], &a[lane][i][r], 4);
      for (int r = 0; r < 2; ++r) std::memcpy(&right[g][r * 16 + t * 4], &b[lane][j][r], 4);
    }
    for (int lane = 0; lane < 32; ++lane)
      for (int c = 0; c < 4; ++c) {
        std::int32_t& sum = threads[lane].sum[level][f][c];
        for (int k = 0; k < 32; ++k)
          sum += left[lane / 4 + c / 2 * 8][k] * right[lane % 4 * 2 + c % 2][k];
      }
  }
};

template <class Products, bool Long, class Open>
void run_digits_on_host(const typename Products::Task& task, std::int64_t block,
                        DigitShared& shared, DigitThread* threads, Open&& open) {
  const DigitTask& t = Products::products(task);
  const DigitPlace p = digit_place(t, block);
  std::memset(static_cast<void*>(threads), 0, sizeof(DigitThread) * kDigitThreads);
  std::vector<typename Products::Loader> loaders;
  for (int tid = 0; tid < kDigitThreads; ++tid) loaders.emplace_back(task, p, tid);
  const auto load = [&](int buffer, std::int64_t k0) {
    for (std::size_t tid = kDigitThreads; tid-- > 0;) loaders[tid].load(shared, buffer, k0);
  };
  int current = 0;
  if (t.k_padded > 0) load(0, 0);
  for (std::int64_t k0 = 0; k0 < t.k_padded; k0 += kDigitStep) {
    if (k0 + kDigitStep < t.k_padded) load(1 - current, k0 + kDigitStep);
    for (int warp = 0; warp < kDigitThreads / 32; ++warp) {
      HostWarp w{threads + warp * 32};
      digit_multiply(shared, current, warp, w);
    }
    if (Long && digit_folds(t, k0 + kDigitStep))
      for (int tid = 0; tid < kDigitThreads; ++tid) digit_fold(threads[tid]);
    current = 1 - current;
  }
  for (int tid = 0; tid < kDigitThreads; ++tid)
    digit_store<Products, Long>(t, p, threads[tid], tid, open);
}

// What the first pass left open; what is not decided then goes to undecided(index).
template <class Products, class Undecided>
void settle_digits_on_host(const typename Products::Task& task, const cuda::UndecidedList& list,
                           Undecided&& undecided) {
  const DigitTask& t = Products::products(task);
  for (std::int64_t i = digit_open_count(Products::outputs(task), list); i-- > 0;) {
    const std::int64_t at = digit_open_at(list, i);
    DigitDot lanes[32];
    for (int lane = 0; lane < 32; ++lane) lanes[lane] = Products::dot(t.t, at, lane);
    for (int step = 16; step > 0; step /= 2)
      for (int lane = 0; lane < step; ++lane) lanes[lane].merge(lanes[lane + step]);
    if (!digit_settle<Products>(t.t, at, lanes[0])) undecided(at);
  }
}

// Both passes, as the launches have them.
template <class Products, class Open, class Undecided>
void multiply_digits_on_host(const typename Products::Task& task, const cuda::UndecidedList& list,
                             Open&& open, Undecided&& undecided) {
  const DigitTask& t = Products::products(task);
  const auto shared = std::make_unique<DigitShared>();
  std::vector<DigitThread> threads(kDigitThreads);
  for (std::int64_t block = t.blocks(); block-- > 0;)
    if (t.k_padded > kDigitBlock)
      run_digits_on_host<Products, true>(task, block, *shared, threads.data(), open);
    else
      run_digits_on_host<Products, false>(task, block, *shared, threads.data(), open);
  settle_digits_on_host<Products>(task, list, undecided);
}
#endif

}  // namespace ETALON_ISA_NAMESPACE
}  // namespace etalon
