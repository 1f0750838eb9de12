// gemm and matmul correctly rounded on Hopper's int8 tensor units: sums of 86 bits from what they
// leave modulo eleven numbers (residues.h: cut, bound, join and why they hold).
//
// Contract: exact. First a few outputs foretell how many would stay open
// (cuda_residue_forecast.h); if too many, all launches below return at once, and those of the f64
// tiles, which stand behind them, do the call. Kernels, for each panel of outputs in turn:
//   1  each row of a and column of b: unit, norms, eleven planes of bytes (cuda_residue_planes.h)
//   2  eleven products of planes (cuda_residues.cu): a block of two warpgroups owns 128 x 256 sums
//      of a plane in int32 registers; a thread fetches slices of 128 k by TMA, four under way; each
//      sum leaves as one byte
//   3  join, bound and rounding test, sixteen outputs a thread
//   4  a warp for each output that is open: the integer sum itself and the rests that are kept; if
//      that does not decide, its sum in twice the precision of f64 (cuda_digits.h)
// What stays undecided after 4 (NaN, infinities, midpoints beside rests) the host settles.
//
// Same bits: an output is stored only where both ends of a proven interval round alike, so it is
// the correctly rounded one, whatever order made it.
//
// Memory: 11 bytes for an element of a panel's operands, 11 for an output. A panel has at most 256
// MiB of residues, twice that of a's planes, eight times of b's (ResidueFacts::panel_bytes): 2.75
// GiB in all, more only where 128 rows or 256 columns alone need it. Without that memory the call
// fails in the sentence of an allocation; gemm.exact.cuda.int8, by name, takes less.
//
// Limit: eleven int8 products. At 8192^3 an H100 took 7.57 ms for them (1599 TOPS): its loads alone
// take 7.70, its products alone 6.49. On an H200 clusters of two blocks that share b's loads took
// as long (1.00 of the time at 4096 cubed, 1.01 at 8192), and joining in the same launch, by warps
// that do not multiply, more (1.10 at 4096: eleven bytes an output are joined no faster there, and
// the last tiles' join stands alone). Not for sums of 2^17 terms or more, nor where little is to be
// done (ResidueFacts::least: on an H100 f64 units take 0.80 of its time at 1024 cubed, 1.47 at
// 2048).
//
// Host and device. The host's form of 2 sums the same planes plainly, for sums of int32 are exact
// in any order: what it has of the device is which sum a thread's register is and where it goes.
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "kernels/backends/cuda/api.h"
#include "kernels/backends/cuda/tile_tasks.h"
#include "kernels/gemm/cuda_digits.h"
#include "kernels/gemm/cuda_residue_planes.h"

namespace etalon {
inline namespace ETALON_ISA_NAMESPACE {

// ---- 2: products --------------------------------------------------------------------------------

struct ResiduePlace {
  std::int64_t plane, row, col;  // of all products' planes; tiles
};
// Blocks go down sixteen tiles of rows before they step to the right.
ETALON_HD inline ResiduePlace residue_tile(const ResidueTask& task, std::int64_t tile) {
  const std::int64_t tall = task.tiles_m(), wide = task.tiles_n(), place = tile % (tall * wide);
  const std::int64_t first = place / (kResidueGroup * wide) * kResidueGroup,
                     at = place % (kResidueGroup * wide);
  const std::int64_t left = tall - first, height = left < kResidueGroup ? left : kResidueGroup;
  return {tile / (tall * wide), first + at % height, at / height};
}
// Sum i of thread tid of a warpgroup, of the fragment of wgmma m64n256: its row among 64, and its
// row of b's planes among 256.
ETALON_HD inline int residue_fragment_row(int tid, int i) {
  return tid / 32 * 16 + tid % 32 / 4 + i % 4 / 2 * 8;
}
ETALON_HD inline int residue_fragment_column(int tid, int i) {
  return i / 4 * 8 + tid % 4 * 2 + i % 2;
}
// A thread's 128 sums, as bytes, sixteen neighbours at a time.
template <class Sum>
ETALON_HD void residue_store(const ResidueTask& task, const ResiduePlace& p, int group, int tid,
                             Sum&& sum) {
  const auto plane = static_cast<int>(p.plane % kResidues);
  const std::uint32_t minus_m = task.form.minus_m[plane], over = task.form.over_sum[plane];
  const std::int64_t row = p.row * kResidueRows + group * 64 + residue_fragment_row(tid, 0),
                     col = p.col * kResidueColumns + tid % 4 * 16;
  std::uint8_t* const to = task.residues + (p.plane * task.a.count + row) * task.row_bytes + col;
  ETALON_UNROLL
  for (int r = 0; r < 2; ++r) {
    if (row + 8 * r >= task.a.count) continue;
    ETALON_UNROLL
    for (int i = 0; i < kResidueColumns / 64; ++i) {
      if (col + i * 64 >= task.row_bytes) continue;
      std::uint32_t v[4];
      ETALON_UNROLL
      for (int q = 0; q < 4; ++q) {
        const int at = (i * 8 + q * 2) * 4 + r * 2;
        const auto byte = [&](int j) { return residue_of_sum(sum(j), minus_m, over); };
        v[q] = residue_pack(byte(at), byte(at + 1), byte(at + 4), byte(at + 5));
      }
#if defined(__CUDA_ARCH__)
      __stcs(reinterpret_cast<uint4*>(to + r * 8 * task.row_bytes + i * 64),
             make_uint4(v[0], v[1], v[2], v[3]));
#else
      std::memcpy(to + r * 8 * task.row_bytes + i * 64, v, 16);
#endif
    }
  }
}

// ---- 3: join ------------------------------------------------------------------------------------

inline constexpr int kResidueJoinRows = 16, kResidueJoinColumns = 256;  // of a block

ETALON_HD inline std::int64_t residue_join_blocks(const ResidueTask& task) {
  return task.products * ((task.a.count + kResidueJoinRows - 1) / kResidueJoinRows) *
         ((task.b.count + kResidueJoinColumns - 1) / kResidueJoinColumns);
}
// Of an output of the panel: what a product's element it is, and where that is in y.
ETALON_HD inline DigitOutput residue_output(const ResidueTask& task, std::int64_t product,
                                            std::int64_t row, std::int64_t col) {
  return {task.first + product, task.a.first + row, task.b.first + col};
}
// Four columns and four rows a thread; open(index in the panel) takes what is not decided.
template <class Open>
ETALON_HD void residue_join_block(const ResidueTask& task, std::uint32_t block, int tid,
                                  Open&& open) {
  const TileTask& t = task.t;
  const auto n = static_cast<int>(task.b.count), m = static_cast<int>(task.a.count);
  const auto wide = static_cast<std::uint32_t>((n + kResidueJoinColumns - 1) / kResidueJoinColumns),
             tall = static_cast<std::uint32_t>((m + kResidueJoinRows - 1) / kResidueJoinRows);
  const std::int64_t product = block / wide / tall;
  const int col = static_cast<int>(block % wide) * kResidueJoinColumns + tid % 64 * 4,
            row0 = static_cast<int>(block / wide % tall) * kResidueJoinRows + tid / 64 * 4;
  if (col >= n || row0 >= m) return;
  const bool adds = MatrixProducts::adds(t),
             fours = t.n % 4 == 0 && task.b.first % 4 == 0 && col + 3 < n;
  const std::int64_t plane = task.a.count * task.row_bytes;
  const std::uint8_t* from =
      task.residues + product * kResidues * plane + row0 * task.row_bytes + col;
  float* to = t.y + MatrixProducts::place(t, residue_output(task, product, row0, col));
  const ResidueNorm* a = task.a.norms + product * task.a.padded + row0;
  ResidueNorm b[4];
  ETALON_UNROLL
  for (int j = 0; j < 4; ++j)
    b[j] = task.b.norms[product * task.b.padded + (col + j < n ? col + j : n - 1)];
  const int end = row0 + 4 < m ? row0 + 4 : m;
  const auto read = [&](std::uint32_t(&to_words)[kResidues]) {
    ETALON_UNROLL
    for (int p = 0; p < kResidues; ++p) {
#if defined(__CUDA_ARCH__)
      to_words[p] = __ldcs(reinterpret_cast<const unsigned*>(from + p * plane));
#else
      std::memcpy(&to_words[p], from + p * plane, 4);
#endif
    }
  };
  const bool plain = !adds && t.alpha == 1;
  std::uint32_t next[kResidues];
  read(next);
#if defined(__CUDACC__)
#pragma unroll 1
#endif
  for (int row = row0; row < end; ++row, ++a, to += t.n) {
    std::uint32_t words[kResidues];
    ETALON_UNROLL
    for (int p = 0; p < kResidues; ++p) words[p] = next[p];
    from += task.row_bytes;
    if (row + 1 < end) read(next);  // while these are joined
    // Four side by side, without a branch between them: each is a long chain of operations.
    const ResidueNorm of = *a;
    double sum[4], bound[4];
    ETALON_UNROLL
    for (int j = 0; j < 4; ++j) {
      sum[j] = residue_join(task.form, [&](int p) { return byte_of_word(words[p], j); }) *
               (of.unit * b[j].unit);
      bound[j] = residue_bound(task.form, of, b[j], sum[j]);
    }
    float y[4];
    bool decided[4];
    if (plain) {
      ETALON_UNROLL
      for (int j = 0; j < 4; ++j) decided[j] = digit_decide(sum[j], bound[j], 1, 0, false, y[j]);
    } else {
      ETALON_UNROLL
      for (int j = 0; j < 4; ++j) {
        const double added =
            adds && col + j < n
                ? MatrixProducts::added(t, residue_output(task, product, row, col + j))
                : 0;
        decided[j] =
            digit_decide(sum[j], bound[j], static_cast<double>(t.alpha), added, adds, y[j]);
      }
    }
    if (!(decided[0] && decided[1] && decided[2] && decided[3])) {
      ETALON_UNROLL
      for (int j = 0; j < 4; ++j)
        if (!decided[j] && col + j < n) open((product * m + row) * n + col + j);
    }
    if (fours) {
#if defined(__CUDA_ARCH__)
      __stcs(reinterpret_cast<float4*>(to), make_float4(y[0], y[1], y[2], y[3]));
#else
      std::memcpy(to, y, 16);
#endif
    } else {
      ETALON_UNROLL
      for (int j = 0; j < 4; ++j)
        if (col + j < n) to[j] = y[j];
    }
  }
}

// ---- 4: what is open ----------------------------------------------------------------------------

// Output i of the panel, by a warp.
struct ResidueOpen {
  const ResidueTask& task;
  std::int64_t row, col;  // of all products' lines with padding
  DigitOutput o;
  std::int64_t product, panel_row;
  const float *a, *b;

  ETALON_HD ResidueOpen(const ResidueTask& of, std::int64_t i) : task(of) {
    const std::int64_t n = task.b.count;
    product = i / (task.a.count * n);
    panel_row = i / n % task.a.count;
    o = residue_output(task, product, panel_row, i % n);
    row = product * task.a.padded + panel_row;
    col = product * task.b.padded + i % n;
    a = residue_line(task, task.a, product, panel_row);
    b = residue_line(task, task.b, product, i % n);
  }
  ETALON_HD double element_a(std::int64_t k) const {
    return static_cast<double>(a[k * task.a.k_stride]) * residue_inverse(task.a.norms[row].unit);
  }
  ETALON_HD double element_b(std::int64_t k) const {
    return static_cast<double>(b[k * task.b.k_stride]) * residue_inverse(task.b.norms[col].unit);
  }
  // Lanes below 16 have a's rests, the others b's.
  ETALON_HD ResidueFix fix(int lane) const {
    static_assert(2 * kResidueKept == 32);
    const ResidueRests& kept = lane < kResidueKept ? task.a.rests[row] : task.b.rests[col];
    ResidueFix own;
    if (lane % kResidueKept >= kept.count) return own;
    const std::int64_t k = kept.at[lane % kResidueKept];
    const double x = element_a(k), z = element_b(k);
    own.add(lane < kResidueKept ? residue_cut(x).rest * z
                                : residue_cut(x).whole * residue_cut(z).rest);
    return own;
  }
  ETALON_HD DigitDot dot(int lane) const {
    DigitDot own;
    for (std::int64_t k = lane; k < task.t.k; k += 32)
      own.add(static_cast<double>(a[k * task.a.k_stride]) *
              static_cast<double>(b[k * task.b.k_stride]));
    return own;
  }
  ETALON_HD bool settle(const WideSum& sum) const {
    const TileTask& t = task.t;
    const bool adds = MatrixProducts::adds(t);
    float y;
    if (!settle_sum(sum, static_cast<double>(t.alpha), adds ? MatrixProducts::added(t, o) : 0, adds,
                    y))
      return false;
    t.y[MatrixProducts::place(t, o)] = y;
    return true;
  }
  ETALON_HD bool settle(const ResidueFix& fixes) const {
    const std::int64_t c = col - product * task.b.padded;
    const TwoDoubles whole = residue_sum(task.form, [&](int p) {
      return static_cast<std::uint32_t>(
          task.residues[((product * kResidues + p) * task.a.count + panel_row) * task.row_bytes +
                        c]);
    });
    return settle(residue_wide(whole, fixes, task.a.norms[row], task.b.norms[col]));
  }
};

// ---- a call -------------------------------------------------------------------------------------

// Batches that share b, and whose rows of a follow one another, are one product of more rows.
inline void residue_fold_batch(TileTask& t) {
  std::int64_t step = t.m * t.a_row;
  for (int i = t.batch.rank(); i-- > 0;) {
    if (t.batch[i] == 1) continue;
    const auto at = static_cast<std::size_t>(i);
    if (t.b_batch[at] != 0 || t.a_batch[at] != step || t.c != nullptr) return;
    step *= t.batch[i];
  }
  t.m *= t.batch.numel();
  t.y_batch = t.m * t.n;
  t.batch = Shape{};
}
inline ResidueTask residue_task(const KernelCall& call) {
  ResidueTask task;
  task.t = tile_task(
      call, reinterpret_cast<float*>(const_cast<std::byte*>(call.output(0).bytes().data())));
  TileTask& t = task.t;
  residue_fold_batch(t);
  task.form = kResidueForm;
  task.k_bytes = (t.k + 15) / 16 * 16;
  const auto side = [&](const float* from, std::int64_t lines, std::int64_t line_stride,
                        std::int64_t k_stride, const auto& batch) {
    bool fours = reinterpret_cast<std::uintptr_t>(from) % 16 == 0 &&
                 (k_stride == 1 ? line_stride : k_stride) % 4 == 0;
    for (int i = 0; i < t.batch.rank(); ++i)
      fours = fours && batch[static_cast<std::size_t>(i)] % 4 == 0;
    return ResidueSide{.from = from,
                       .lines = lines,
                       .line_stride = line_stride,
                       .k_stride = k_stride,
                       .batch = batch,
                       .fours = fours};
  };
  task.a = side(t.a, t.m, t.a_row, t.a_col, t.a_batch);
  task.b = side(t.b, t.n, t.b_col, t.b_row, t.b_batch);
  return task;
}

// How a call is cut into panels, and the memory of the largest.
struct ResiduePanels {
  std::int64_t rows = 0, columns = 0, products = 0;
  std::int64_t planes_a = 0, planes_b = 0, residues = 0, lines_a = 0, lines_b = 0, parts = 0,
               counts = 0;
  static std::int64_t up(std::int64_t n, std::int64_t to) { return (n + to - 1) / to * to; }
  std::int64_t groups_a() const { return products * up(rows, kResidueLines) / kResidueLines; }
  std::int64_t groups_b() const { return products * up(columns, kResidueLines) / kResidueLines; }
  static constexpr std::int64_t kLineBytes = sizeof(ResidueNorm) + sizeof(ResidueRests);
  std::int64_t bytes() const {
    return up(planes_a, 256) + up(planes_b, 256) + up(residues, 256) +
           up((lines_a + lines_b) * kLineBytes, 256) + 2 * up(parts, 256) + up(counts * 4, 256);
  }
};
inline ResiduePanels residue_panels(const ResidueTask& task, std::int64_t bytes) {
  const TileTask& t = task.t;
  ResiduePanels p;
  const auto most = [](std::int64_t room, std::int64_t each, std::int64_t step) {
    return std::max(step, room / std::max<std::int64_t>(1, each) / step * step);
  };
  const std::int64_t line = kResidues * task.k_bytes;
  p.columns = std::min(t.n, most(8 * bytes, line, kResidueColumns));
  const std::int64_t row = kResidues * p.up(p.columns, 64);
  p.rows = std::min(most(2 * bytes, line, kResidueRows), most(bytes, row, kResidueRows));
  constexpr std::int64_t kGroup = std::int64_t{kResidueGroup} * kResidueRows;
  if (p.rows > kGroup) p.rows -= p.rows % kGroup;
  p.rows = std::min(p.rows, t.m);
  p.products = 1;
  if (p.rows == t.m && p.columns == t.n)
    p.products =
        std::min({t.batch.numel(), most(bytes, row * t.m, 1), most(2 * bytes, line * t.m, 1),
                  most(8 * bytes, line * p.up(t.n, 64), 1)});
  p.lines_a = p.products * p.rows;
  p.lines_b = p.products * p.up(p.columns, 64);
  p.planes_a = p.lines_a * line;
  p.planes_b = p.lines_b * line;
  p.residues = p.products * p.rows * row;
  p.parts = std::max(p.lines_a, p.lines_b) * task.parts() * 16;
  p.counts = p.groups_a() + p.groups_b();
  return p;
}
// f(task) for each panel in turn.
template <class F>
void for_each_residue_panel(ResidueTask task, const ResiduePanels& p, void* memory, F&& f) {
  auto* next = static_cast<std::uint8_t*>(memory);
  const auto take = [&](std::int64_t bytes) {
    std::uint8_t* const at = next;
    next += p.up(bytes, 256);
    return at;
  };
  task.a.planes = take(p.planes_a);
  task.b.planes = take(p.planes_b);
  task.residues = take(p.residues);
  task.a.parts = reinterpret_cast<double*>(take(p.parts));
  task.b.parts = reinterpret_cast<double*>(take(p.parts));
  task.a.arrived = reinterpret_cast<std::int32_t*>(take(p.counts * 4));
  task.b.arrived = task.a.arrived + p.groups_a();
  task.a.norms = reinterpret_cast<ResidueNorm*>(next);
  task.b.norms = task.a.norms + p.lines_a;
  task.a.rests = reinterpret_cast<ResidueRests*>(task.b.norms + p.lines_b);
  task.b.rests = task.a.rests + p.lines_a;
  const TileTask& t = task.t;
  for (task.first = 0; task.first < t.batch.numel(); task.first += p.products)
    for (std::int64_t col = 0; col < t.n; col += p.columns)
      for (std::int64_t row = 0; row < t.m; row += p.rows) {
        task.products = std::min(p.products, t.batch.numel() - task.first);
        task.a.first = row;
        task.a.padded = task.a.count = std::min(p.rows, t.m - row);
        task.b.first = col;
        task.b.count = std::min(p.columns, t.n - col);
        task.b.padded = task.row_bytes = p.up(task.b.count, 64);
        task.cuts_b = row == 0;
        f(std::as_const(task));
      }
}

// What the shape has to be; the device: rows.cpp.
inline Refusal refuse_residues(const Problem& problem, std::int64_t least) {
  if (Refusal r = refuse_digits(problem)) return r;
  TileTask t;
  const auto place = [&t](const auto& g) { t.m = g.m, t.n = g.n, t.k = g.k, t.a_row = g.a_row; };
  if (problem.op->name == "gemm") {
    place(gemm_geometry(problem.params->as<GemmParams>(), problem.input(0).shape,
                        problem.input(1).shape));
  } else {
    const MatMulGeometry g = matmul_geometry(problem.input(0).shape, problem.input(1).shape);
    place(g);
    t.batch = g.batch;
    t.a_batch = g.a_batch;
    t.b_batch = g.b_batch;
  }
  residue_fold_batch(t);
  if (t.k > kResidueMostK)
    return "sums at most " + std::to_string(kResidueMostK) + " products, where int32 holds them";
  if (t.m < least || t.n < least || t.k < least)
    return "pays from " + std::to_string(least) + " rows, columns and terms of a sum on";
  return std::nullopt;
}

// ---- the host's launches ------------------------------------------------------------------------

#if !defined(__CUDACC__)
// Threads as the .cu file has them; open and undecided take an output.
template <class Threads, class Open, class Undecided>
void run_residues_on_host(const ResidueTask& task, const Threads& threads,
                          const cuda::UndecidedList& list, Open&& open, Undecided&& undecided) {
  const auto shared = std::make_unique<ResidueLineShared>();
  const auto tile = std::make_unique<ResidueTileShared>();
  const auto cut = [&]<bool right>() {
    const ResidueSide& s = right ? task.b : task.a;
    if (s.along_k()) {
      for (std::int64_t i = task.products * s.padded; i-- > 0;)
        residue_cut_line<right>(task, i, *shared, threads);
      return;
    }
    const std::int64_t groups = (s.padded + kResidueLines - 1) / kResidueLines;
    for (std::int64_t i = 0; i < task.products * groups; ++i) s.arrived[i] = 0;
    for (std::int64_t i = residue_stat_blocks(task, s); i-- > 0;)
      residue_stat_lines(task, s, i, *shared, threads);
    for (std::int64_t i = residue_cut_blocks(task, s); i-- > 0;)
      residue_cut_lines<right>(task, i, *tile, threads);
  };
  if (task.cuts_b) cut.template operator()<true>();
  cut.template operator()<false>();
  for (std::int64_t i = task.tiles(); i-- > 0;) {
    const ResiduePlace p = residue_tile(task, i);
    // Beyond its edges TMA reads zeros.
    const auto row_of = [&](const ResidueSide& s, std::int64_t row) {
      return row < s.padded ? reinterpret_cast<const std::int8_t*>(s.planes) +
                                  (p.plane * s.padded + row) * task.k_bytes
                            : nullptr;
    };
    for (int group = 0; group < 2; ++group)
      for (int tid = 128; tid-- > 0;)
        residue_store(task, p, group, tid, [&](int sum) {
          const auto* const a =
              row_of(task.a, p.row * kResidueRows + group * 64 + residue_fragment_row(tid, sum));
          const auto* const b =
              row_of(task.b, p.col * kResidueColumns + residue_fragment_column(tid, sum));
          std::int32_t s = 0;
          for (std::int64_t k = 0; a != nullptr && b != nullptr && k < task.t.k; ++k)
            s += a[k] * b[k];
          return s;
        });
  }
  *list.count = 0;
  for (std::int64_t i = residue_join_blocks(task); i-- > 0;)
    for (int tid = kResidueThreads; tid-- > 0;)
      residue_join_block(task, static_cast<std::uint32_t>(i), tid, open);
  for (std::int64_t i = digit_open_count(task.outputs(), list); i-- > 0;) {
    const ResidueOpen one(task, digit_open_at(list, i));
    ResidueFix fixes[32];
    DigitDot dots[32];
    for (int lane = 0; lane < 32; ++lane) fixes[lane] = one.fix(lane);
    for (int step = 16; step > 0; step /= 2)
      for (int lane = 0; lane < step; ++lane) fixes[lane].merge(fixes[lane + step]);
    if (one.settle(fixes[0])) continue;
    for (int lane = 0; lane < 32; ++lane) dots[lane] = one.dot(lane);
    for (int step = 16; step > 0; step /= 2)
      for (int lane = 0; lane < step; ++lane) dots[lane].merge(dots[lane + step]);
    if (!one.settle(dots[0].result(task.t.k))) undecided(MatrixProducts::place(task.t, one.o));
  }
}
#endif

}  // namespace ETALON_ISA_NAMESPACE
}  // namespace etalon
