// gemm and matmul correctly rounded on Hopper's int8 tensor units: sums of 86 bits from what they
// leave modulo eleven numbers (residues.h: cut, bound, join and why they hold).
//
// Contract: exact. Kernels, for each panel of outputs in turn:
//   1  each row of a and column of b: norm, unit, eleven planes of bytes. Where neighbours in
//   memory
//      are neighbours along k a block takes a row; where they are rows, four kernels go by tiles
//   2  eleven products of planes (cuda_residues.cu): a block of two warpgroups owns 128 x 256 sums
//   of
//      one plane, in int32 registers; a warp brings slices of 128 k by TMA, four under way; each
//      sum leaves as one byte
//   3  join, bound and rounding test, sixteen outputs a thread
//   4  a warp for each output that is open: the integer sum itself and the rests that are kept; if
//      that does not decide, its sum in twice the precision of f64 (cuda_digits.h)
// What stays undecided after 4 (NaN, infinities, midpoints beside rests) the host settles.
//
// Same bits: an output is stored only where both ends of a proven interval round alike, so it is
// the correctly rounded one, whatever order made it. Which rests are kept is chance; what is
// decided with them is not.
//
// Memory: 11 bytes for an element of a panel's operands, 11 for an output. A panel has at most
// `bytes` of residues, twice that of a's planes, eight times of b's (ResidueFacts): 2.75 GiB, where
// 11 k of 128 rows and of 256 columns fit into that. Beyond that the call fails with the sentence
// of memory that is missing; other rows take it by name.
//
// Limit: eleven int8 products; 1599 of the 1979 TOPS of an H100 at 8192^3, bound by what the units
// draw. Not for sums of 2^17 terms or more, nor where little is to be done (ResidueFacts::least).
//
// Host and device. The host's form of 2 sums the same planes plainly: sums of int32 are exact in
// any order, so what it shares with the device is which sum a thread's register is and where it
// goes.
#pragma once

#include <algorithm>
#include <cstring>
#include <vector>

#include "kernels/backends/cuda/api.h"
#include "kernels/backends/cuda/tile_tasks.h"
#include "kernels/gemm/cuda_digits.h"
#include "kernels/gemm/residues.h"

namespace etalon {
inline namespace ETALON_ISA_NAMESPACE {

inline constexpr int kResidueThreads = 256;  // of a block of 1, 3 and 4
inline constexpr int kResidueRows = 128, kResidueColumns = 256, kResidueSlice = 128;
inline constexpr int kResidueGroup = 16;  // tiles of rows that blocks go down at a time
inline constexpr int kResidueLines = 64, kResidueDeep = 128;  // a tile of 1, by lines
inline constexpr int kResidueStatLines = 128, kResidueStatDeep = 256;

struct ResidueRests {
  std::int32_t count = 0, at[kResidueKept] = {};
};

// One operand: lines are rows of a, columns of b.
struct ResidueSide {
  const float* from = nullptr;
  std::int64_t lines = 0, line_stride = 0, k_stride = 0;  // of one product
  std::array<std::int64_t, kMaxRank> batch{};
  bool fours = false;  // neighbours begin at multiples of 16 bytes by fours
  // Of the panel: its first line, how many, how many with padding; what lies by line lies
  // [product][line], planes [product][plane][line][k].
  std::int64_t first = 0, count = 0, padded = 0;
  std::uint8_t* planes = nullptr;
  ResidueNorm* norms = nullptr;
  ResidueRests* rests = nullptr;
  double* parts = nullptr;  // by lines: sums of squares, [product][part of k][line][2]
  ETALON_HD bool along_k() const { return k_stride == 1; }
};

struct ResidueTask {
  TileTask t;
  ResidueSide a, b;
  ResidueForm form;
  std::int64_t k_bytes = 0;
  // The panel: products [first, first + products), residues [product][plane][row][row_bytes].
  std::int64_t first = 0, products = 0, row_bytes = 0;
  std::uint8_t* residues = nullptr;
  bool cuts_b = false;  // the panel before had others

  ETALON_HD std::int64_t parts() const { return (t.k + kResidueDeep - 1) / kResidueDeep; }
  ETALON_HD std::int64_t stat_parts() const {
    return (t.k + kResidueStatDeep - 1) / kResidueStatDeep;
  }
  ETALON_HD std::int64_t outputs() const { return products * a.count * b.count; }
  ETALON_HD std::int64_t tiles_m() const { return (a.count + kResidueRows - 1) / kResidueRows; }
  ETALON_HD std::int64_t tiles_n() const {
    return (b.count + kResidueColumns - 1) / kResidueColumns;
  }
  ETALON_HD std::int64_t tiles() const { return products * kResidues * tiles_m() * tiles_n(); }
};

// Column c of b is row residue_place(c) of its plane, so that the sums a thread has are neighbours
// in a row of residues: sum 8 i + j of a thread is column 2 (lane % 4) + 8 i + j of the tile.
ETALON_HD inline std::int64_t residue_place(std::int64_t c) {
  return c / 64 * 64 + c % 16 / 2 * 8 + c % 64 / 16 * 2 + c % 2;
}

template <class Word>
ETALON_HD void store_bytes(std::uint8_t* to, const Word& word) {
  std::memcpy(__builtin_assume_aligned(to, sizeof word), &word, sizeof word);
}
ETALON_HD inline int take_place(std::int32_t* count) {
#if defined(__CUDA_ARCH__)
  return atomicAdd(count, 1);
#else
  return (*count)++;
#endif
}
struct ResidueSquares {
  double rests, left;  // no initialisers: shared memory of a block has none
};

// ---- 1: planes ----------------------------------------------------------------------------------

ETALON_HD inline const float* residue_line(const ResidueTask& task, const ResidueSide& s,
                                           std::int64_t product, std::int64_t line) {
  return s.from + strided_offset(task.first + product, task.t.batch, s.batch) +
         (s.first + line) * s.line_stride;
}
// Four neighbours of p, zeros from `left` on.
ETALON_HD inline void residue_four(const float* p, std::int64_t left, bool fours, float* x) {
  if (fours && left >= 4) {
    load_four(p, x);
    return;
  }
  ETALON_UNROLL
  for (int j = 0; j < 4; ++j) x[j] = j < left ? p[j] : 0;
}
// Cuts element k of a line; a rest that is not zero takes a place, if there is one.
ETALON_HD inline std::uint64_t residue_cut_element(double x, double over, std::int64_t k,
                                                   std::int32_t* count, ResidueRests& kept,
                                                   ResidueSquares& squares) {
  const ResidueCut cut = residue_cut(over == 0 ? 0 : x * over);
  if (cut.rest != 0) {
    squares.rests = fma_f64(cut.rest, cut.rest, squares.rests);
    const int place = take_place(count);
    if (place < kResidueKept)
      kept.at[place] = static_cast<std::int32_t>(k);
    else
      squares.left = fma_f64(cut.rest, cut.rest, squares.left);
  }
  return cut.bits;
}
// Four elements' bytes of plane i.
template <bool right>
ETALON_HD std::uint32_t residue_word(const ResidueForm& f, int i, const std::uint64_t (&bits)[4]) {
  std::uint32_t word = 0;
  ETALON_UNROLL
  for (int j = 0; j < 4; ++j)
    word |= residue_byte(bits[j], right ? f.b[i] : f.a[i], f.m[i], f.over[i]) << (8 * j);
  return word ^ 0x80808080U;
}

struct ResidueLineShared {
  ResidueSquares part[kResidueThreads], few[16];
  std::int32_t count;
};
// The sums of all threads' parts, for every thread of the phase after it.
template <class Threads>
ETALON_HD void residue_add_parts(ResidueLineShared& shared, const Threads& threads) {
  threads([&](int tid) {
    if (tid >= 16) return;
    ResidueSquares sum{};
    for (int i = tid * 16; i < tid * 16 + 16; ++i) {
      sum.rests += shared.part[i].rests;
      sum.left += shared.part[i].left;
    }
    shared.few[tid] = sum;
  });
}
ETALON_HD inline ResidueSquares residue_parts(const ResidueLineShared& shared) {
  ResidueSquares sum{};
  for (const ResidueSquares& s : shared.few) {
    sum.rests += s.rests;
    sum.left += s.left;
  }
  return sum;
}

// A block takes line block % padded of product block / padded, every 256th four of it a thread.
template <bool right, class Threads>
ETALON_HD void residue_cut_line(const ResidueTask& task, std::int64_t block,
                                ResidueLineShared& shared, const Threads& threads) {
  const ResidueSide& s = right ? task.b : task.a;
  const std::int64_t product = block / s.padded, line = block % s.padded, k = task.t.k;
  const bool there = line < s.count;
  const float* const from = there ? residue_line(task, s, product, line) : nullptr;
  constexpr int kStep = kResidueThreads * 4;
  threads([&](int tid) {
    double sum = 0;
    for (std::int64_t i = tid * 4; there && i < k; i += kStep) {
      float x[4];
      residue_four(from + i, k - i, s.fours, x);
      ETALON_UNROLL
      for (int j = 0; j < 4; ++j)
        sum = fma_f64(static_cast<double>(x[j]), static_cast<double>(x[j]), sum);
    }
    shared.part[tid] = {sum, 0};
    if (tid == 0) shared.count = 0;
  });
  residue_add_parts(shared, threads);
  double squares = 0;
  threads([&](int) { squares = residue_parts(shared).rests; });
  ResidueRests* const kept = s.rests + block;
  threads([&](int tid) {
    const double over = residue_inverse(residue_unit(squares));
    ResidueSquares own{};
    std::uint8_t* const to =
        s.planes +
        (product * kResidues * s.padded + (right ? residue_place(line) : line)) * task.k_bytes;
    for (std::int64_t i = tid * 4; i < k; i += kStep) {
      float x[4] = {};
      if (there) residue_four(from + i, k - i, s.fours, x);
      std::uint64_t bits[4];
      ETALON_UNROLL
      for (int j = 0; j < 4; ++j)
        bits[j] =
            residue_cut_element(static_cast<double>(x[j]), over, i + j, &shared.count, *kept, own);
      ETALON_UNROLL
      for (int p = 0; p < kResidues; ++p)
        store_bytes(to + p * s.padded * task.k_bytes + i, residue_word<right>(task.form, p, bits));
    }
    shared.part[tid] = own;
  });
  residue_add_parts(shared, threads);
  threads([&](int tid) {
    if (tid != 0) return;
    const ResidueSquares rests = residue_parts(shared);
    s.norms[block] = residue_norm(squares, rests.rests, rests.left);
    kept->count = shared.count < kResidueKept ? shared.count : kResidueKept;
  });
}

// By lines, where those are neighbours in memory. First the squares of 128 lines and 256 k.
ETALON_HD inline std::int64_t residue_stat_blocks(const ResidueTask& task, const ResidueSide& s) {
  return task.products * task.stat_parts() *
         ((s.count + kResidueStatLines - 1) / kResidueStatLines);
}
template <class Threads>
ETALON_HD void residue_stat_lines(const ResidueTask& task, const ResidueSide& s, std::int64_t block,
                                  ResidueLineShared& shared, const Threads& threads) {
  const std::int64_t groups = (s.count + kResidueStatLines - 1) / kResidueStatLines;
  const std::int64_t line0 = block % groups * kResidueStatLines, part = block / groups;
  const std::int64_t product = part / task.stat_parts(),
                     k0 = part % task.stat_parts() * kResidueStatDeep;
  const std::int64_t end = k0 + kResidueStatDeep < task.t.k ? k0 + kResidueStatDeep : task.t.k;
  threads([&](int tid) {
    const std::int64_t line = line0 + tid % kResidueStatLines;
    double sum = 0;
    if (line < s.count) {
      const float* const from = residue_line(task, s, product, line);
#if defined(__CUDACC__)
#pragma unroll 16
#endif
      for (std::int64_t i = k0 + tid / kResidueStatLines; i < end; i += 2) {
        const auto x = static_cast<double>(from[i * s.k_stride]);
        sum = fma_f64(x, x, sum);
      }
    }
    shared.part[tid].rests = sum;
  });
  threads([&](int tid) {
    const std::int64_t line = line0 + tid;
    if (tid < kResidueStatLines && line < s.count)
      s.parts[2 * (part * s.padded + line)] =
          shared.part[tid].rests + shared.part[tid + kResidueStatLines].rests;
  });
}
// Then line i % padded of product i / padded: its unit, and no rest so far. The sum of squares
// waits where the norm will be.
ETALON_HD inline void residue_unit_line(const ResidueTask& task, const ResidueSide& s,
                                        std::int64_t i) {
  const std::int64_t product = i / s.padded, line = i % s.padded;
  double squares = 0;
  for (std::int64_t part = 0; line < s.count && part < task.stat_parts(); ++part)
    squares += s.parts[2 * ((product * task.stat_parts() + part) * s.padded + line)];
  s.norms[i].unit = residue_unit(squares);
  s.norms[i].norm = squares;
  s.rests[i].count = 0;
}
// Then bytes, of 64 lines and 128 k a block.
struct alignas(16) ResidueTileShared {
  float tile[kResidueDeep][kResidueLines];  // columns move on by four with each 16 k: banks
  ResidueSquares part[kResidueLines][8];
};
template <bool right, class Threads>
ETALON_HD void residue_cut_lines(const ResidueTask& task, std::int64_t block,
                                 ResidueTileShared& shared, const Threads& threads) {
  const ResidueSide& s = right ? task.b : task.a;
  const std::int64_t groups = (s.padded + kResidueLines - 1) / kResidueLines;
  const std::int64_t line0 = block % groups * kResidueLines, part = block / groups;
  const std::int64_t product = part / task.parts(), k0 = part % task.parts() * kResidueDeep;
  threads([&](int tid) {
    const std::int64_t line = line0 + tid % 16 * 4;
    const float* const from = residue_line(task, s, product, line) + k0 * s.k_stride;
    ETALON_UNROLL
    for (int i = 0; i < 8; ++i) {
      const int deep = i * 16 + tid / 16;
      float x[4] = {};
      if (k0 + deep < task.t.k && line < s.count)
        residue_four(from + deep * s.k_stride, s.count - line, s.fours, x);
      float* const to = &shared.tile[deep][(tid % 16 * 4 + 4 * i) % kResidueLines];
      ETALON_UNROLL
      for (int j = 0; j < 4; ++j) to[j] = x[j];
    }
  });
  threads([&](int tid) {
    const int deep = tid % 8;  // of 16 k each
#if defined(__CUDACC__)
#pragma unroll 1
#endif
    for (int pass = 0; pass < 2; ++pass) {
      const int at = pass * 32 + tid / 8;
      const std::int64_t line = line0 + at, of = product * s.padded + line;
      const bool there = line < s.count;
      const double over = there ? residue_inverse(s.norms[of].unit) : 0;
      ResidueSquares own{};
      std::uint32_t words[kResidues][4];
      ETALON_UNROLL
      for (int q = 0; q < 4; ++q) {
        std::uint64_t bits[4];
        ETALON_UNROLL
        for (int j = 0; j < 4; ++j) {
          const int k = deep * 16 + q * 4 + j;
          const auto x = static_cast<double>(shared.tile[k][(at + 4 * deep) % kResidueLines]);
          bits[j] = residue_cut_element(x, over, k0 + k, &s.rests[of].count, s.rests[of], own);
        }
        ETALON_UNROLL
        for (int p = 0; p < kResidues; ++p) words[p][q] = residue_word<right>(task.form, p, bits);
      }
      if (line < s.padded && k0 + deep * 16 < task.k_bytes) {
        std::uint8_t* const to =
            s.planes +
            (product * kResidues * s.padded + (right ? residue_place(line) : line)) * task.k_bytes +
            k0 + deep * 16;
        ETALON_UNROLL
        for (int p = 0; p < kResidues; ++p) {
          struct alignas(16) {
            std::uint32_t w[4];
          } sixteen = {{words[p][0], words[p][1], words[p][2], words[p][3]}};
          store_bytes(to + p * s.padded * task.k_bytes, sixteen);
        }
      }
      shared.part[at][deep] = own;
    }
  });
  threads([&](int tid) {
    const std::int64_t line = line0 + tid;
    if (tid >= kResidueLines || line >= s.count) return;
    ResidueSquares sum{};
    for (const ResidueSquares& own : shared.part[tid]) {
      sum.rests += own.rests;
      sum.left += own.left;
    }
    double* const to = s.parts + 2 * (part * s.padded + line);
    to[0] = sum.rests;
    to[1] = sum.left;
  });
}
ETALON_HD inline std::int64_t residue_cut_blocks(const ResidueTask& task, const ResidueSide& s) {
  return task.products * task.parts() * ((s.padded + kResidueLines - 1) / kResidueLines);
}
// And norms.
ETALON_HD inline void residue_norm_line(const ResidueTask& task, const ResidueSide& s,
                                        std::int64_t i) {
  const std::int64_t product = i / s.padded, line = i % s.padded;
  ResidueSquares sum{};
  for (std::int64_t part = 0; line < s.count && part < task.parts(); ++part) {
    const double* const from = s.parts + 2 * ((product * task.parts() + part) * s.padded + line);
    sum.rests += from[0];
    sum.left += from[1];
  }
  s.norms[i] = residue_norm(s.norms[i].norm, sum.rests, sum.left);
  if (s.rests[i].count > kResidueKept) s.rests[i].count = kResidueKept;
}

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
  const std::uint32_t m = task.form.m[plane], over = task.form.over_sum[plane];
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
        const auto byte = [&](int j) { return residue_of_sum(sum(j), m, over); };
        v[q] = byte(at) | byte(at + 1) << 8 | byte(at + 4) << 16 | byte(at + 5) << 24;
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
ETALON_HD void residue_join_block(const ResidueTask& task, std::int64_t block, int tid,
                                  Open&& open) {
  const std::int64_t wide = (task.b.count + kResidueJoinColumns - 1) / kResidueJoinColumns,
                     tall = (task.a.count + kResidueJoinRows - 1) / kResidueJoinRows;
  const std::int64_t product = block / (wide * tall), n = task.b.count;
  const std::int64_t col = block % wide * kResidueJoinColumns + tid % 64 * 4,
                     row0 = block / wide % tall * kResidueJoinRows + tid / 64 * 4;
  if (col >= n) return;
  const TileTask& t = task.t;
  const bool adds = MatrixProducts::adds(t), fours = t.n % 4 == 0 && task.b.first % 4 == 0;
  ResidueNorm b[4];
  ETALON_UNROLL
  for (int j = 0; j < 4; ++j)
    b[j] = task.b.norms[product * task.b.padded + (col + j < n ? col + j : n - 1)];
#if defined(__CUDACC__)
#pragma unroll 1
#endif
  for (std::int64_t row = row0; row < row0 + 4 && row < task.a.count; ++row) {
    const ResidueNorm a = task.a.norms[product * task.a.padded + row];
    std::uint32_t words[kResidues];
    ETALON_UNROLL
    for (int p = 0; p < kResidues; ++p) {
      const std::uint8_t* const from =
          task.residues + ((product * kResidues + p) * task.a.count + row) * task.row_bytes + col;
#if defined(__CUDA_ARCH__)
      words[p] = __ldcs(reinterpret_cast<const unsigned*>(from));
#else
      std::memcpy(&words[p], from, 4);
#endif
    }
    float y[4];
    ETALON_UNROLL
    for (int j = 0; j < 4; ++j) {
      if (col + j >= n) continue;
      const double sum =
          residue_join(task.form, [&](int p) { return (words[p] >> (8 * j)) & 255; }) *
          (a.unit * b[j].unit);
      const double added =
          adds ? MatrixProducts::added(t, residue_output(task, product, row, col + j)) : 0;
      if (!digit_decide(sum, residue_bound(task.form, a, b[j], sum), static_cast<double>(t.alpha),
                        added, adds, y[j]))
        open((product * task.a.count + row) * n + col + j);
    }
    float* const to = t.y + MatrixProducts::place(t, residue_output(task, product, row, col));
    if (fours && col + 3 < n) {
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
  std::int64_t planes_a = 0, planes_b = 0, residues = 0, lines_a = 0, lines_b = 0, parts = 0;
  static std::int64_t up(std::int64_t n, std::int64_t to) { return (n + to - 1) / to * to; }
  static constexpr std::int64_t kLineBytes = sizeof(ResidueNorm) + sizeof(ResidueRests);
  std::int64_t bytes() const {
    return up(planes_a, 256) + up(planes_b, 256) + up(residues, 256) +
           up((lines_a + lines_b) * kLineBytes, 256) + 2 * up(parts, 256);
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
    for (std::int64_t i = residue_stat_blocks(task, s); i-- > 0;)
      residue_stat_lines(task, s, i, *shared, threads);
    for (std::int64_t i = task.products * s.padded; i-- > 0;) residue_unit_line(task, s, i);
    for (std::int64_t i = residue_cut_blocks(task, s); i-- > 0;)
      residue_cut_lines<right>(task, i, *tile, threads);
    for (std::int64_t i = task.products * s.padded; i-- > 0;) residue_norm_line(task, s, i);
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
    for (int tid = kResidueThreads; tid-- > 0;) residue_join_block(task, i, tid, open);
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
