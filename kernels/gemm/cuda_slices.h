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
#include "kernels/gemm/cuda_tile.h"

namespace etalon {
inline namespace ETALON_ISA_NAMESPACE {

// The first `bytes` (of 16) from `from`, zeros behind them; without bytes nothing is read.
ETALON_HD inline void copy_some_16(void* to, const void* from, int bytes) {
#if defined(__CUDA_ARCH__)
  const auto place = static_cast<std::uint32_t>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
               :
               : "r"(place), "l"(from), "r"(bytes)
               : "memory");
#else
  std::memset(to, 0, 16);
  std::memcpy(to, from, static_cast<std::size_t>(bytes));
#endif
}
// An element, or zero.
ETALON_HD inline void copy_some_4(void* to, const void* from, bool there) {
#if defined(__CUDA_ARCH__)
  const auto place = static_cast<std::uint32_t>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;"
               :
               : "r"(place), "l"(from), "r"(there ? 4 : 0)
               : "memory");
#else
  std::memset(to, 0, 4);
  if (there) std::memcpy(to, from, 4);
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
// Whether a side whose neighbours are 1 apart, and whose other strides are these, goes by fours.
inline bool slices_by_fours(const float* from, std::int64_t lines, std::int64_t other_stride,
                            const Shape& batch, const std::array<std::int64_t, kMaxRank>& strides) {
  bool fours = reinterpret_cast<std::uintptr_t>(from) % 16 == 0;
  if (lines > 1) fours = fours && other_stride % 4 == 0;
  for (int axis = 0; axis < batch.rank(); ++axis)
    if (batch[axis] > 1) fours = fours && strides[static_cast<std::size_t>(axis)] % 4 == 0;
  return fours;
}

// What a thread keeps of one operand.
struct SliceThread {
  const float* from = nullptr;  // its first element of the next slice
  int left = 0;                 // lines that are there, from its first on
  // Of a window: taps inside the image; where the next slice begins.
  std::uint64_t inside_low = 0, inside_high = 0;
  int tap = 0;
  std::int64_t channel_at = 0;
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
  ETALON_HD static int along(bool fours, int tid) {
    return fours ? tid % (kRow / 4) * 4 : tid % kRow;
  }
  // By ones a thread of a window has neighbouring k.
  ETALON_HD static int row(bool fours, int tid) { return fours ? tid / (kRow / 4) : tid / kRow; }

  // `base` is the product's first element, k0 where the first slice begins.
  ETALON_HD static void begin(const SliceSide& s, const float* base, std::int64_t line0,
                              std::int64_t k0, int tid, SliceThread& r) {
    const int a = along(s.fours, tid), b = row(s.fours, tid);
    const std::int64_t line = line0 + (KMajor ? b : a), k = k0 + (KMajor ? a : b);
    r.left = static_cast<int>(s.lines - line);
    r.from = base + line * s.line_stride + k * s.k_stride;
  }
  // The slice of [k0, k0 + K), as far as k_end, into `to`; slices come one after the other.
  ETALON_HD static void load(const SliceSide& s, SliceThread& r, float* to, int k0, int k_end,
                             int tid) {
    const int a = along(s.fours, tid), b = row(s.fours, tid);
    const std::int64_t step = KMajor ? s.line_stride : s.k_stride;
    // Of shared memory's rows, from this thread's first on, and of elements in its row.
    const int rows = KMajor ? r.left : k_end - k0 - b, count = KMajor ? k_end - k0 - a : r.left;
    if (s.fours) {
      const int bytes = count <= 0 ? 0 : count < 4 ? 4 * count : 16;
      ETALON_UNROLL
      for (int i = 0; i < kFours; ++i) {
        const bool there = i * kFourRows < rows && bytes > 0;
        copy_some_16(to + (b + i * kFourRows) * kPitch + a,
                     there ? r.from + i * kFourRows * step : s.from, there ? bytes : 0);
      }
    } else {
      ETALON_UNROLL
      for (int i = 0; i < kOnes; ++i) {
        const bool there = i * kOneRows < rows && count > 0;
        copy_some_4(to + (b + i * kOneRows) * kPitch + a,
                    there ? r.from + i * kOneRows * step : s.from, there);
      }
    }
    r.from += K * s.k_stride;
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
    const auto line = static_cast<std::uint32_t>(line0 + along(s.fours, tid)),
               points = static_cast<std::uint32_t>(t.window.out_points()),
               plane = static_cast<std::uint32_t>(w.out * h.out),
               width = static_cast<std::uint32_t>(w.out);
    r.left = s.lines - static_cast<int>(line);
    const std::uint32_t n = r.left > 0 ? line : 0, p = n % points;
    const std::int64_t z0 = d.at(p / plane, 0), y0 = h.at(p / width % (plane / width), 0),
                       x0 = w.at(p % width, 0);
    r.from = base + n / points * t.image + (z0 * h.in + y0) * w.in + x0;
    if (s.fours) {  // of one tap, inside everywhere
      r.from += (k0 + row(true, tid)) * s.k_stride;
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
    const int k = k0 + row(false, tid) * kOnes, taps = static_cast<int>(t.window.taps());
    r.tap = k % taps;
    r.channel_at = k / taps * t.window.in_points();
  }
  ETALON_HD static void load_windows(const SliceSide& s, const TileTask& t, const int* tap_at,
                                     SliceThread& r, float* to, int k0, int k_end, int tid) {
    if (s.fours) {
      load(s, r, to, k0, k_end, tid);
      return;
    }
    const int line = along(false, tid), k = row(false, tid) * kOnes, left = k_end - k0 - k;
    const int taps = static_cast<int>(t.window.taps());
    const std::int64_t plane = t.window.in_points();
    ETALON_UNROLL
    for (int i = 0; i < kOnes; ++i) {
      const std::uint64_t inside = r.tap < 64 ? r.inside_low : r.inside_high;
      const bool there = i < left && (inside >> (r.tap % 64) & 1) != 0;
      copy_some_4(to + (k + i) * kPitch + line,
                  there ? r.from + r.channel_at + tap_at[r.tap] : s.from, there);
      if (++r.tap == taps) {
        r.tap = 0;
        r.channel_at += plane;
      }
    }
    // What is left of the slice other threads have.
    r.tap += (K - kOnes) % taps;
    r.channel_at += (K - kOnes) / taps * plane;
    if (r.tap >= taps) {
      r.tap -= taps;
      r.channel_at += plane;
    }
  }
};

}  // namespace ETALON_ISA_NAMESPACE
}  // namespace etalon
