// The first kernels of cuda_residues.h: an operand's rows, each cut into eleven planes of bytes,
// with its unit and norms (residues.h). Host and device, in phases of a block.
//
// Where neighbours in memory are neighbours along k a block takes a row: squares, unit, bytes.
// Where they are rows, blocks take tiles: squares of 128 rows and 256 k, units, bytes of 64 rows
// and 128 k, norms. Elements beyond a matrix's edges are zeros; so are their bytes.
//
// Same bits: integers and rests of an element are exact; sums of squares only bound, so their order
// shows in no output. Which rests are kept is chance; what is decided with them is not.
#pragma once

#include <cstring>

#include "kernels/backends/cuda/tile_tasks.h"
#include "kernels/gemm/residues.h"

namespace etalon {
inline namespace ETALON_ISA_NAMESPACE {

inline constexpr int kResidueThreads = 256;  // of a block, but of the products'
inline constexpr int kResidueRows = 128, kResidueColumns = 256, kResidueSlice = 128;
inline constexpr int kResidueGroup = 16;  // tiles of rows that blocks go down at a time
inline constexpr int kResidueLines = 64, kResidueDeep = 128;  // a tile of the cut by lines
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
  // By lines: sums of squares, [product][part of k][line][2], and of each group of lines how many
  // blocks are done.
  double* parts = nullptr;
  std::int32_t* arrived = nullptr;
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
  // cuda_residue_forecast.h; none: no other row would take the call.
  const std::uint32_t* forecast = nullptr;
  std::uint32_t most_foreseen = 0;
  // Nothing is to be done: another row does it.
  ETALON_HD bool left_to_f64() const { return forecast != nullptr && *forecast > most_foreseen; }

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

// Column c of b is row residue_place(c) of its plane. A thread's sums are pairs of a fragment's
// columns, eight apart (residue_fragment_column); so they are sixteen neighbours in each 64 of y.
ETALON_HD inline std::int64_t residue_place(std::int64_t c) {
  return c / 64 * 64 + c % 16 / 2 * 8 + c % 64 / 16 * 2 + c % 2;
}

template <class Word>
ETALON_HD void store_bytes(std::uint8_t* to, const Word& word) {
  std::memcpy(__builtin_assume_aligned(to, sizeof word), &word, sizeof word);
}
// What a thread has written, others of the device see before what it writes from now on.
ETALON_HD inline void residue_fence() {
#if defined(__CUDA_ARCH__)
  __threadfence();
#endif
}
ETALON_HD inline int take_place(std::int32_t* count) {
#if defined(__CUDA_ARCH__)
  return atomicAdd(count, 1);
#else
  return (*count)++;
#endif
}
// Whether all parts of what this is the counter of are written, this one the last; then it is 0
// again. By one thread, behind a barrier that follows a fence of all.
ETALON_HD inline bool residue_last(std::int32_t* arrived, std::int64_t parts) {
  if (take_place(arrived) + 1 != parts) return false;
  *arrived = 0;
  residue_fence();
  return true;
}
struct ResidueSquares {
  double rests, left;  // no initialisers: shared memory of a block has none
};

// ---- cut -------------------------------------------------------------------------------------

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
ETALON_HD std::uint32_t residue_word(const ResidueForm& f, int i, const std::uint64_t* bits) {
  const auto of = [&](int j) {
    return residue_bits(bits[j], right ? f.b[i] : f.a[i], f.size[i], f.over[i]);
  };
  return residue_pack(of(0), of(1), of(2), of(3));
}

struct ResidueLineShared {
  ResidueSquares part[kResidueThreads], few[16];
  std::int32_t count;
  bool last;
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
    residue_fence();
  });
  threads([&](int tid) {
    if (tid == 0)
      shared.last = residue_last(s.arrived + product * groups + block % groups, task.stat_parts());
  });
  // The last gives units, and no rest so far. The sum of squares waits where the norm will be.
  threads([&](int tid) {
    const std::int64_t line = line0 + tid, of = product * s.padded + line;
    if (!shared.last || tid >= kResidueStatLines || line >= s.padded) return;
    double squares = 0;
    for (std::int64_t i = 0; line < s.count && i < task.stat_parts(); ++i)
      squares += s.parts[2 * ((product * task.stat_parts() + i) * s.padded + line)];
    s.norms[of].unit = residue_unit(squares);
    s.norms[of].norm = squares;
    s.rests[of].count = 0;
  });
}
// Then bytes, of 64 lines and 128 k a block; the last of a group of lines gives their norms.
struct alignas(16) ResidueTileShared {
  float tile[kResidueDeep][kResidueLines];  // columns move on by two with each eight k: banks
  ResidueSquares part[kResidueLines][kResidueDeep / 8];
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
      ETALON_UNROLL
      for (int j = 0; j < 4; ++j)
        shared.tile[deep][(tid % 16 * 4 + j + deep / 8 * 2) % kResidueLines] = x[j];
    }
  });
  threads([&](int tid) {
    const int deep = tid % 16;  // of 8 k each
#if defined(__CUDACC__)
#pragma unroll 1
#endif
    for (int pass = 0; pass < 4; ++pass) {
      const int at = pass * 16 + tid / 16;
      const std::int64_t line = line0 + at, of = product * s.padded + line;
      const bool there = line < s.count;
      const double over = there ? residue_inverse(s.norms[of].unit) : 0;
      ResidueSquares own{};
      std::uint64_t bits[8];
      ETALON_UNROLL
      for (int j = 0; j < 8; ++j) {
        const int k = deep * 8 + j;
        const auto x = static_cast<double>(shared.tile[k][(at + 2 * deep) % kResidueLines]);
        bits[j] = residue_cut_element(x, over, k0 + k, &s.rests[of].count, s.rests[of], own);
      }
      if (line < s.padded && k0 + deep * 8 < task.k_bytes) {
        std::uint8_t* to =
            s.planes +
            (product * kResidues * s.padded + (right ? residue_place(line) : line)) * task.k_bytes +
            k0 + deep * 8;
        ETALON_UNROLL
        for (int p = 0; p < kResidues; ++p, to += s.padded * task.k_bytes) {
          struct alignas(8) {
            std::uint32_t w[2];
          } const eight = {{residue_word<right>(task.form, p, bits),
                            residue_word<right>(task.form, p, bits + 4)}};
          store_bytes(to, eight);
        }
      }
      shared.part[at][deep] = own;
    }
  });
  threads([&](int tid) {
    const std::int64_t line = line0 + tid;
    if (tid < kResidueLines && line < s.count) {
      ResidueSquares sum{};
      for (const ResidueSquares& own : shared.part[tid]) {
        sum.rests += own.rests;
        sum.left += own.left;
      }
      double* const to = s.parts + 2 * (part * s.padded + line);
      to[0] = sum.rests;
      to[1] = sum.left;
    }
    residue_fence();
  });
  auto* const last = reinterpret_cast<std::int32_t*>(&shared.tile);
  threads([&](int tid) {
    if (tid == 0)
      *last = residue_last(s.arrived + product * groups + block % groups, task.parts()) ? 1 : 0;
  });
  threads([&](int tid) {
    const std::int64_t line = line0 + tid, of = product * s.padded + line;
    if (*last == 0 || tid >= kResidueLines || line >= s.padded) return;
    ResidueSquares sum{};
    for (std::int64_t i = 0; line < s.count && i < task.parts(); ++i) {
      const double* const from = s.parts + 2 * ((product * task.parts() + i) * s.padded + line);
      sum.rests += from[0];
      sum.left += from[1];
    }
    s.norms[of] = residue_norm(s.norms[of].norm, sum.rests, sum.left);
    if (s.rests[of].count > kResidueKept) s.rests[of].count = kResidueKept;
  });
}
ETALON_HD inline std::int64_t residue_cut_blocks(const ResidueTask& task, const ResidueSide& s) {
  return task.products * task.parts() * ((s.padded + kResidueLines - 1) / kResidueLines);
}

}  // namespace ETALON_ISA_NAMESPACE
}  // namespace etalon
