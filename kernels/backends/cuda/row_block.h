// Rows by blocks of threads, for ops whose slice is a row (kernels/softmax/cuda_rows.h,
// kernels/normalization/cuda_rows.h), contract seq.
//
// What each element has of its own all threads compute, neighbours in memory side by side, and put
// into shared memory, a chunk of the row at a time. The row's chain is one thread's, k ascending,
// which walks the last chunk while the others fill the next. A block takes one row, or 32 short or
// interleaved ones, whose chains lie in one warp.
//
// Same bits: an addition is never moved, only what it reads is computed elsewhere.
// Limit: an addition has a latency of 4 cycles, so a row of n takes 4 n cycles however wide the
// device; rows enough for 8 blocks a multiprocessor are limited by memory.
//
// Host and device: a phase is a function of the thread's number, `Threads` runs it for all threads
// of a block with a barrier behind.
#pragma once

#include <cstdint>

#include "engine/numerics/seq_f32.h"
#include "kernels/gemm/cuda_task.h"

namespace etalon {
inline namespace ETALON_ISA_NAMESPACE {

inline constexpr int kRowThreads = 128, kMostRowThreads = 512;
inline constexpr int kRowsOfBlock = 32;   // where it is not one
inline constexpr int kRowBuffer = 2048;   // floats of a chunk
inline constexpr int kChainThreads = 32;  // the warp of the chains, which fills nothing meanwhile

struct RowShared {
  alignas(16) float buffer[2][kRowBuffer];
  float part[kMostRowThreads];
  float chain[kRowsOfBlock], a[kRowsOfBlock], b[kRowsOfBlock];
  std::int64_t first[kRowsOfBlock];
  int open[kRowsOfBlock];  // a rounding was left undecided
};

// kRows: 1 or kRowsOfBlock.
template <int kRows>
struct RowBlock {
  // Odd, so that the chains of a warp read from different banks.
  static constexpr int kChunk = kRows == 1 ? kRowBuffer : kRowBuffer / kRows - 1;
  static_assert(kRows == 1 || kChunk % 2 == 1);

  RowShared& s;
  int rows;            // that there are, <= kRows
  std::int64_t n;      // elements of each
  int width;           // threads of the block
  bool along_the_row;  // where neighbours in memory lie

  ETALON_HD std::int64_t chunks() const { return (n + kChunk - 1) / kChunk; }
  ETALON_HD int length(std::int64_t chunk) const {
    const std::int64_t left = n - chunk * kChunk;
    return static_cast<int>(left < kChunk ? left : kChunk);
  }
  // f(row, k, place in a buffer) for what thread `tid` of `threads` has of a chunk.
  template <class F>
  ETALON_HD void each(std::int64_t chunk, int tid, int threads, F&& f) const {
    const int of_row = length(chunk);
    if constexpr (kRows == 1) {
      for (int k = tid; k < of_row; k += threads) f(0, chunk * kChunk + k, k);
    } else if (along_the_row) {
      for (int i = tid; i < rows * of_row; i += threads) {
        const int r = i / of_row, k = i % of_row;
        f(r, chunk * kChunk + k, r * kChunk + k);
      }
    } else {
      for (int i = tid; i < kRows * of_row; i += threads) {
        const int r = i % kRows, k = i / kRows;
        if (r < rows) f(r, chunk * kChunk + k, r * kChunk + k);
      }
    }
  }
  // f(row) for each, a thread each.
  template <class Threads, class F>
  ETALON_HD void rows_each(const Threads& threads, F&& f) const {
    threads([&](int tid) {
      if (tid < rows) f(tid);
    });
  }

  // s.a[r] = the largest of a row's x(r, k), NaN where one is; which of two zeros is not said.
  template <class Threads, class X>
  ETALON_HD void largest(const Threads& threads, const X& x) const {
    threads([&](int tid) {
      const int r = tid % kRows;
      float m = -__builtin_inff();
      if (r < rows)
        for (std::int64_t k = tid / kRows; k < n; k += width / kRows) m = larger(m, x(r, k));
      s.part[tid] = m;
    });
    // Eight parts become one, until each row has one.
    for (int left = width, next = 0; left > kRows; left = next) {
      next = left / 8 > kRows ? left / 8 : kRows;
      threads([&](int tid) {
        if (tid >= next) return;
        float m = s.part[tid];
        for (int i = tid + next; i < left; i += next) m = larger(m, s.part[i]);
        s.part[tid] = m;
      });
    }
    rows_each(threads, [&](int r) { s.a[r] = s.part[r]; });
  }

  // s.chain[r] = the chain of add(chain, element(r, k)) from 0, k ascending. Elements of the last
  // chunk stay in its buffer.
  template <class Threads, class Element, class Add>
  ETALON_HD void chains(const Threads& threads, const Element& element, const Add& add) const {
    const auto fill = [&](std::int64_t chunk, int tid, int count) {
      float* const to = s.buffer[chunk & 1];
      each(chunk, tid, count, [&](int r, std::int64_t k, int place) { to[place] = element(r, k); });
    };
    threads([&](int tid) {
      if (tid < kRows) s.chain[tid] = 0;
      fill(0, tid, width);
    });
    for (std::int64_t chunk = 0; chunk < chunks(); ++chunk)
      threads([&](int tid) {
        if (tid < rows)
          s.chain[tid] = walk(s.buffer[chunk & 1] + (kRows == 1 ? 0 : tid * kChunk), length(chunk),
                              s.chain[tid], add);
        else if (tid >= kChainThreads && chunk + 1 < chunks())
          fill(chunk + 1, tid - kChainThreads, width - kChainThreads);
      });
  }

  // What is added next is read meanwhile: 16 elements, by fours where they are aligned.
  template <class Add>
  ETALON_HD static float walk(const float* from, int count, float chain, const Add& add) {
    constexpr int kAhead = 16;
    constexpr int kEach = kRows == 1 ? 4 : 1, kPieces = kAhead / kEach;
    struct Piece {
      float v[kEach];
    };
    int k = 0;
    if (count >= kAhead) {
      Piece next[kPieces];
      const auto read = [&](int at) {
        for (int i = 0; i < kPieces; ++i)
          if constexpr (kEach == 4)
            load_four(from + at + i * kEach, next[i].v);
          else
            next[i].v[0] = from[at + i];
      };
      read(0);
      for (; k + kAhead <= count; k += kAhead) {
        Piece now[kPieces];
        for (int i = 0; i < kPieces; ++i) now[i] = next[i];
        if (k + 2 * kAhead <= count) read(k + kAhead);
        for (int i = 0; i < kPieces; ++i)
          for (int j = 0; j < kEach; ++j) chain = add(chain, now[i].v[j]);
      }
    }
    for (; k < count; ++k) chain = add(chain, from[k]);
    return chain;
  }

 private:
  ETALON_HD static float larger(float a, float b) {
#if defined(__CUDA_ARCH__)
    float m;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(m) : "f"(a), "f"(b));
    return m;
#else
    return SeqF32{}.max(a, b);
#endif
  }
};

// How rows become blocks.
struct RowShape {
  std::int64_t rows = 0, length = 0;
  bool along_the_row = true;

  // Many rows in a block where a row is short or its neighbours in memory are other rows.
  bool many() const {
    return length <= RowBlock<kRowsOfBlock>::kChunk || (!along_the_row && rows >= kRowsOfBlock);
  }
  std::int64_t blocks() const {
    const std::int64_t each = many() ? kRowsOfBlock : 1;
    return length == 0 ? 0 : (rows + each - 1) / each;
  }
  // Where blocks do not fill a device, threads of one do: two blocks of the many run on each
  // multiprocessor, eight of the few.
  int width() const {
    constexpr std::int64_t kFewBlocks = 256;
    const std::int64_t elements = many() ? kRowsOfBlock * length : length;
    return blocks() <= kFewBlocks && elements > 4 * kRowThreads ? kMostRowThreads : kRowThreads;
  }
};

}  // namespace ETALON_ISA_NAMESPACE
}  // namespace etalon
