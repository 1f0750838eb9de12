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
// Of a convolution b is its windows: a thread has one window, whose taps inside the image are bits
// of a mask; a tap in the padding arrives as zero.
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
  // Of windows: taps and channels from a thread's last k of a slice to its first of the next.
  int turn_taps = 0, turn_channels = 0;
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
  // Of a window: taps inside the image; where the next slice begins: a tap, and the element under
  // tap 0, beside the operand's first.
  std::uint64_t inside_low = 0, inside_high = 0;
  int tap = 0, at = 0;
};

template <int Lines, int K, int Threads, bool KMajor>
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
  template <bool Fours>
  ETALON_HD static int along(int tid) {
    const auto id = static_cast<unsigned>(tid);
    return static_cast<int>(Fours ? id % (kRow / 4) * 4 : id % kRow);
  }
  // By ones a thread of a window has neighbouring rows.
  template <bool Fours>
  ETALON_HD static int row(int tid) {
    return static_cast<int>(static_cast<unsigned>(tid) / (Fours ? kRow / 4 : kRow));
  }

  // `base` is the product's first element, k0 where the first slice begins.
  ETALON_HD static void begin(const SliceSide& s, const float* base, std::int64_t line0,
                              std::int64_t k0, int tid, SliceThread& r) {
    const int a = s.fours ? along<true>(tid) : along<false>(tid);
    const int b = s.fours ? row<true>(tid) : row<false>(tid);
    const std::int64_t line = line0 + (KMajor ? b : a), k = k0 + (KMajor ? a : b);
    r.left = static_cast<int>(s.lines - line);
    r.from = base + line * s.line_stride + k * s.k_stride;
  }
  // The slice of [k0, k0 + K), as far as k_end, into `to`; slices come one after the other.
  ETALON_HD static void load(const SliceSide& s, SliceThread& r, float* to, int k0, int k_end,
                             int tid) {
    if (s.fours)
      load<true, kFours, kFourRows>(s, r, to, k0, k_end, tid);
    else
      load<false, kOnes, kOneRows>(s, r, to, k0, k_end, tid);
    r.from += K * s.k_stride;
  }
  template <bool Fours, int Times, int Rows>
  ETALON_HD static void load(const SliceSide& s, const SliceThread& r, float* to, int k0, int k_end,
                             int tid) {
    const int a = along<Fours>(tid), b = row<Fours>(tid);
    const std::int64_t step = KMajor ? s.line_stride : s.k_stride;
    // Of shared memory's rows, from this thread's first on, and of elements in its row.
    const int rows = KMajor ? r.left : k_end - k0 - b, count = KMajor ? k_end - k0 - a : r.left;
    ETALON_UNROLL
    for (int i = 0; i < Times; ++i) {
      const bool there = i * Rows < rows && count > 0;
      float* const place = to + (b + i * Rows) * kPitch + a;
      const float* const from = r.from + i * Rows * step;
      if constexpr (Fours)
        copy_16_or_zeros(there, place, from);
      else
        copy_4_or_zero(there, place, from);
    }
  }

  // ---- windows: lines are the pixels of all images' outputs; never KMajor ----------------------

  // Element of each tap beside that of tap 0; a barrier follows.
  ETALON_HD static void begin_taps(const Window& window, int* tap_at, int tid) {
    const WindowAxis &d = window.axes[0], &h = window.axes[1], &w = window.axes[2];
    const int width = static_cast<int>(w.kernel), height = static_cast<int>(h.kernel);
    for (int tap = tid; tap < static_cast<int>(window.taps()); tap += Threads)
      tap_at[tap] = static_cast<int>(
          (tap / (width * height) * d.dilation * h.in + tap / width % height * h.dilation) * w.in +
          tap % width * w.dilation);
  }
  ETALON_HD static void begin_windows(const SliceSide& s, const TileTask& t, const float* base,
                                      std::int64_t line0, int k0, int tid, SliceThread& r) {
    static_assert(!KMajor);
    const WindowAxis &d = t.window.axes[0], &h = t.window.axes[1], &w = t.window.axes[2];
    const auto line = static_cast<std::uint32_t>(line0 +
                                                 (s.fours ? along<true>(tid) : along<false>(tid))),
               points = static_cast<std::uint32_t>(t.window.out_points()),
               plane = static_cast<std::uint32_t>(w.out * h.out),
               width = static_cast<std::uint32_t>(w.out);
    r.left = s.lines - static_cast<int>(line);
    const std::uint32_t n = r.left > 0 ? line : 0, p = n % points;
    const std::int64_t z0 = d.at(p / plane, 0), y0 = h.at(p / width % (plane / width), 0),
                       x0 = w.at(p % width, 0);
    const std::int64_t at = base - s.from + n / points * t.image + (z0 * h.in + y0) * w.in + x0;
    if (s.fours) {  // of one tap, inside everywhere
      r.from = s.from + at + (k0 + row<true>(tid)) * s.k_stride;
      return;
    }
    const auto whole = [](const WindowAxis& axis, std::int64_t first) {
      return first >= 0 && first + (axis.kernel - 1) * axis.dilation < axis.in;
    };
    const bool everywhere = r.left > 0 && whole(d, z0) && whole(h, y0) && whole(w, x0);
    r.inside_low = r.inside_high = everywhere ? ~std::uint64_t{0} : 0;
    int tap = 0;
    for (std::int64_t z = z0; !everywhere && z < z0 + d.kernel * d.dilation; z += d.dilation)
      for (std::int64_t y = y0; y < y0 + h.kernel * h.dilation; y += h.dilation)
        for (std::int64_t x = x0; x < x0 + w.kernel * w.dilation; x += w.dilation, ++tap)
          if (r.left > 0 && z >= 0 && z < d.in && y >= 0 && y < h.in && x >= 0 && x < w.in)
            (tap < 64 ? r.inside_low : r.inside_high) |= std::uint64_t{1} << (tap % 64);
    const int k = k0 + row<false>(tid) * kOnes, taps = static_cast<int>(t.window.taps());
    r.tap = k % taps;
    r.at = static_cast<int>(at + k / taps * s.k_stride);
  }
  ETALON_HD static void load_windows(const SliceSide& s, const TileTask& t, const int* tap_at,
                                     SliceThread& r, float* to, int k0, int k_end, int tid) {
    if (s.fours) {
      load(s, r, to, k0, k_end, tid);
      return;
    }
    const int line = along<false>(tid), k = row<false>(tid) * kOnes, left = k_end - k0 - k;
    const int taps = static_cast<int>(t.window.taps()), plane = static_cast<int>(s.k_stride);
    ETALON_UNROLL
    for (int i = 0; i < kOnes; ++i) {
      const std::uint64_t inside = r.tap < 64 ? r.inside_low : r.inside_high;
      const bool there = i < left && (inside >> (r.tap % 64) & 1) != 0;
      copy_4_or_zero(there, to + (k + i) * kPitch + line, s.from + (r.at + tap_at[r.tap]));
      if (++r.tap == taps) {
        r.tap = 0;
        r.at += plane;
      }
    }
    // What is left of the slice other threads have.
    r.tap += s.turn_taps;
    r.at += s.turn_channels * plane;
    if (r.tap >= taps) {
      r.tap -= taps;
      r.at += plane;
    }
  }
};

}  // namespace ETALON_ISA_NAMESPACE
}  // namespace etalon
