// How a block of threads brings slices of k of one operand of a product from global to shared
// memory, by copies that pass no register (copy_async.h): `Lines` rows of a (columns of b) by `K`
// neighbouring k. Shared memory keeps the sequence that global memory has, so that nothing is
// turned on the way: KMajor, k of a line side by side; else lines of a k side by side.
//
// Four elements go at a time where all fours lie at multiples of 16 bytes, else one; a warp's
// copies are neighbours either way. What lies beyond the lines or behind the last k arrives as
// zeros. Rows of shared memory are padded so that the eight lines by four k that a tensor unit's
// fragment holds lie in different banks, whichever of the two is the row.
//
// A convolution's windows come by kernels/conv/cuda_windows.h, but for those of one tap.
//
// Host and device; a call is one thread's share.
#pragma once

#include "kernels/gemm/copy_async.h"
#include "kernels/gemm/cuda_task.h"

namespace etalon {
inline namespace ETALON_ISA_NAMESPACE {

// Four elements, or zeros: then `from` is not read, and may lie anywhere.
ETALON_HD inline void copy_16_or_zeros(bool there, void* to, const float* from) {
#if defined(__CUDA_ARCH__)
  const auto place = static_cast<std::uint32_t>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
               :
               : "r"(place), "l"(from), "r"(there ? 16 : 0)
               : "memory");
#else
  if (there)
    copy_16(to, from);
  else
    clear_16(to);
#endif
}
// An element, or zero.
ETALON_HD inline void copy_4_or_zero(bool there, void* to, const float* from) {
#if defined(__CUDA_ARCH__)
  const auto place = static_cast<std::uint32_t>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;"
               :
               : "r"(place), "l"(from), "r"(there ? 4 : 0)
               : "memory");
#else
  const float x = there ? *from : 0.0F;
  std::memcpy(to, &x, 4);
#endif
}

// One operand of all products.
struct SliceSide {
  const float* from = nullptr;
  int lines = 0;
  std::int64_t line_stride = 0, k_stride = 0;  // KMajor: k_stride is 1
  std::array<std::int64_t, kMaxRank> batch{};
  bool fours = false;  // neighbours in shared memory are so in global memory, at multiples of 16 B
};
// Whether a side goes by fours that has `count` neighbours 1 apart, `others` rows of them this far
// apart.
inline bool slices_by_fours(const float* from, std::int64_t count, std::int64_t others,
                            std::int64_t stride, const Shape& batch,
                            const std::array<std::int64_t, kMaxRank>& strides) {
  bool fours = reinterpret_cast<std::uintptr_t>(from) % 16 == 0 && count % 4 == 0;
  if (others > 1) fours = fours && stride % 4 == 0;
  for (int axis = 0; axis < batch.rank(); ++axis)
    if (batch[axis] > 1) fours = fours && strides[static_cast<std::size_t>(axis)] % 4 == 0;
  return fours;
}

// What a thread keeps of one operand.
struct SliceThread {
  const float* from = nullptr;  // its first element of the next slice
  int left = 0;                 // lines that are there, from its first on
};

// Fours: SliceSide::fours.
template <int Lines, int K, int Threads, bool KMajor, bool Fours>
struct Slices {
  static constexpr int kPitch = KMajor ? K + 4 : Lines + 8;
  static constexpr int kFloats = kPitch * (KMajor ? Lines : K);
  static_assert(kPitch % 4 == 0 && kPitch % 32 != 0);
  ETALON_HD static constexpr int at(int line, int k) {
    return KMajor ? line * kPitch + k : k * kPitch + line;
  }

  // By fours and by ones: how many threads lie along shared memory's rows, how many rows they have
  // at a time, how often.
  static constexpr int kRow = KMajor ? K : Lines, kRows = KMajor ? Lines : K;
  static constexpr int kFourRows = Threads / (kRow / 4), kOneRows = Threads / kRow;
  static constexpr int kFours = kRows / kFourRows, kOnes = kRows / kOneRows;
  static_assert(kFours * kFourRows == kRows && kOnes * kOneRows == kRows);
  static_assert(kFourRows * (kRow / 4) == Threads && kOneRows * kRow == Threads);
  template <bool By4>
  ETALON_HD static int along(int tid) {
    const auto id = static_cast<unsigned>(tid);
    return static_cast<int>(By4 ? id % (kRow / 4) * 4 : id % kRow);
  }
  // By ones a thread of a window has neighbouring rows.
  template <bool By4>
  ETALON_HD static int row(int tid) {
    return static_cast<int>(static_cast<unsigned>(tid) / (By4 ? kRow / 4 : kRow));
  }

  // `base` is the product's first element, k0 where the first slice begins.
  ETALON_HD static void begin(const SliceSide& s, const float* base, std::int64_t line0,
                              std::int64_t k0, int tid, SliceThread& r) {
    const int a = along<Fours>(tid), b = row<Fours>(tid);
    const std::int64_t line = line0 + (KMajor ? b : a), k = k0 + (KMajor ? a : b);
    r.left = static_cast<int>(s.lines - line);
    r.from = base + line * s.line_stride + k * s.k_stride;
  }
  // The slice of [k0, k0 + K), as far as k_end, into `to`; slices come one after the other.
  ETALON_HD static void load(const SliceSide& s, SliceThread& r, float* to, int k0, int k_end,
                             int tid) {
    constexpr int kTimes = Fours ? kFours : kOnes, kStep = Fours ? kFourRows : kOneRows;
    const int a = along<Fours>(tid), b = row<Fours>(tid);
    const std::int64_t step = KMajor ? s.line_stride : s.k_stride;
    // Of shared memory's rows, from this thread's first on, and of elements in its row.
    const int rows = KMajor ? r.left : k_end - k0 - b, count = KMajor ? k_end - k0 - a : r.left;
    ETALON_UNROLL
    for (int i = 0; i < kTimes; ++i) {
      const bool there = i * kStep < rows && count > 0;
      float* const place = to + (b + i * kStep) * kPitch + a;
      const float* const from = r.from + i * kStep * step;
      if constexpr (Fours)
        copy_16_or_zeros(there, place, from);
      else
        copy_4_or_zero(there, place, from);
    }
    r.from += K * s.k_stride;
  }
  // Of a convolution's windows of one tap that go from pixel to pixel, inside everywhere: lines are
  // the pixels of all images. `base` is the group's first element.
  ETALON_HD static void begin_pixels(const SliceSide& s, const TileTask& t, const float* base,
                                     std::int64_t line0, std::int64_t k0, int tid, SliceThread& r) {
    static_assert(!KMajor);
    const auto points = static_cast<std::uint32_t>(t.window.out_points()),
               line = static_cast<std::uint32_t>(line0 + along<Fours>(tid));
    r.left = s.lines - static_cast<int>(line);
    const std::uint32_t n = r.left > 0 ? line : 0;
    r.from = base + n / points * t.image + n % points + (k0 + row<Fours>(tid)) * s.k_stride;
  }
};

}  // namespace ETALON_ISA_NAMESPACE
}  // namespace etalon
