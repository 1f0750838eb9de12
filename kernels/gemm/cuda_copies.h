// What a thread brings of every slice of one operand of a tile (cuda_tile.h): Lines x K elements by
// all threads, a line being a row of a, a column of b.
//
// A slice lies in shared memory as [k][line], whichever way it lies in global memory, or, Kept, as
// [line][k]. Copies are of 16 bytes where neighbours stay neighbours and the operand's addresses
// allow it (Fours: neighbours come in fours, at multiples of 16 bytes), else of 4.
//
// Lines that are not there take the last one's elements, which meet no output that is there; k that
// is not there is not brought, and not multiplied.
#pragma once

#include "kernels/gemm/copy_async.h"
#include "kernels/gemm/cuda_task.h"

namespace etalon {
inline namespace ETALON_ISA_NAMESPACE {

template <int Lines, int K, int Threads, bool AlongK, bool Kept, bool Fours>
struct TileCopies {
  static_assert(AlongK || !Kept);
  // Elements a copy.
  static constexpr int kEach = Fours && (Kept || (!AlongK && Lines >= 4)) ? 4 : 1;
  static constexpr int kPitch = Kept ? K + 4 : AlongK ? Lines + 4 : Lines;
  static constexpr int kFloats = (Kept ? Lines : K) * kPitch;
  static constexpr int kAll = Lines * K / kEach, kActive = kAll < Threads ? kAll : Threads;
  static constexpr int kCount = kAll / kActive;
  // Copies that lie side by side; from one of a thread's to its next: lines, or k.
  static constexpr int kPer = (AlongK ? K : Lines) / kEach, kNext = kActive / kPer;
  static_assert(kCount * kActive == kAll && kNext * kPer == kActive);
  static constexpr int kToNext = AlongK && !Kept ? kNext : kNext * kPitch;

  const float* from;             // where the next slice begins
  std::uint32_t offset[kCount];  // elements
  int place;                     // in the slice
  int first;                     // the copies' k (along k); the first one's

  ETALON_HD void begin(const float* at, std::int64_t line_stride, std::int64_t k_stride,
                       std::int64_t lines, int tid) {
    const int outer = tid / kPer, inner = tid % kPer * kEach;
    from = at;
    place = AlongK && !Kept ? inner * kPitch + outer : outer * kPitch + inner;
    // A thread without copies is behind every k.
    first = kActive < Threads && tid >= kActive ? 1 << 30 : AlongK ? inner : outer;
    const auto last = static_cast<int>(lines < Lines ? lines : Lines) - (AlongK ? 1 : kEach);
    ETALON_UNROLL
    for (int i = 0; i < kCount; ++i) {
      const int line = AlongK ? outer + i * kNext : inner, k = AlongK ? inner : outer + i * kNext;
      offset[i] =
          static_cast<std::uint32_t>((line < last ? line : last) * line_stride + k * k_stride);
    }
  }
  // The slice of `ks` k or more.
  ETALON_HD void bring(float* slice, int ks) const {
    float* const to = slice + place;
    ETALON_UNROLL
    for (int i = 0; i < kCount; ++i) {
      const bool on = (AlongK ? first : first + i * kNext) < ks;
      if constexpr (kEach == 4)
        copy_16_if(on, to + i * kToNext, from + offset[i]);
      else
        copy_4_if(on, to + i * kToNext, from + offset[i]);
    }
  }
};

}  // namespace ETALON_ISA_NAMESPACE
}  // namespace etalon
