// The pixels under a convolution's taps as columns of a tile's operand (kernels/gemm/cuda_tile.h):
// column n is a window, k a channel's tap. A column is brought by one thread, or by a few that
// share its k.
//
// Where tap k lies, beside tap 0 of its channel, stands in a table in shared memory, which goes on
// behind the last tap with the next channels', so that a slice asks for no end of a channel. Taps
// inside the image are an interval of each axis; all three are compared at once, a byte each. What
// lies in the padding is brought as zero.
#pragma once

#include "kernels/gemm/copy_async.h"
#include "kernels/gemm/cuda_task.h"

namespace etalon {
inline namespace ETALON_ISA_NAMESPACE {

template <int Cols, int K, int Threads, int Pitch = Cols>
struct TileWindows {
  static constexpr int kPitch = Pitch, kFloats = K * Pitch;
  ETALON_HD static constexpr int at(int line, int k) { return k * kPitch + line; }
  static constexpr int kShares = Threads / Cols;  // threads of a column
  static constexpr int kCount = K / (kShares > 0 ? kShares : 1);

  struct Tap {
    std::int32_t at;     // elements
    std::uint32_t axes;  // a byte of each axis: its tap, and 128
  };
  struct Table {
    Tap taps[kTileMostTaps + K];
  };

  const float* from;        // tap 0 of the channel that the slice begins in
  std::uint32_t low, high;  // of the intervals: their first taps; their last ones and 256
  int tap;                  // of the channel

  ETALON_HD static void fill(const TileTask& t, Table& table, int tid) {
    const WindowAxis &d = t.window.axes[0], &h = t.window.axes[1], &w = t.window.axes[2];
    const auto of = [](std::int64_t v) { return static_cast<std::uint32_t>(v); };
    const std::uint32_t taps = of(t.window.taps()), wide = of(w.kernel), tall = of(h.kernel);
    for (std::uint32_t i = static_cast<std::uint32_t>(tid); i < taps + K; i += Threads) {
      const std::uint32_t r = i % taps, x = r % wide, y = r / wide % tall, z = r / wide / tall;
      const std::uint32_t at =
          ((z * of(d.dilation) * of(h.in) + y * of(h.dilation)) * of(w.in) + x * of(w.dilation)) +
          i / taps * of(t.window.in_points());
      table.taps[i] = {static_cast<std::int32_t>(at), 0x808080U | x | y << 8 | z << 16};
    }
  }

  ETALON_HD void begin(const TileTask& t, const float* image, std::int64_t col0, int tid) {
    static_assert(kShares * Cols == Threads && kCount * kShares == K);
    const WindowAxis &d = t.window.axes[0], &h = t.window.axes[1], &w = t.window.axes[2];
    const std::int64_t n = col0 + tid % Cols;
    const auto of = [](std::int64_t v) { return static_cast<std::uint32_t>(v); };
    const std::uint32_t pixel = of(n < t.n ? n : t.n - 1), points = of(t.window.out_points()),
                        wide = of(w.out), tall = of(h.out), o = pixel % points;
    low = 0, high = 0;
    const auto axis = [&](const WindowAxis& a, std::uint32_t out, int shift) {
      const auto at = static_cast<std::int32_t>(a.at(out, 0)),
                 step = static_cast<std::int32_t>(a.dilation),
                 all = static_cast<std::int32_t>(a.kernel);
      std::int32_t before = at < 0 ? -at : 0, inside = static_cast<std::int32_t>(a.in) - at;
      if (inside < 0) inside = 0;
      if (step > 1) before = (before + step - 1) / step, inside = (inside + step - 1) / step;
      if (inside > all) inside = all;
      // None: an interval that ends before it begins.
      if (before >= inside) before = 127, inside = 1;
      low += static_cast<std::uint32_t>(before) << shift;
      high += static_cast<std::uint32_t>(inside - 1 + 256) << shift;
      return at;
    };
    const std::int32_t x = axis(w, o % wide, 0), y = axis(h, o / wide % tall, 8),
                       z = axis(d, o / wide / tall, 16);
    const auto taps = static_cast<int>(t.window.taps());
    const int k = tid / Cols * kCount;
    tap = k % taps;
    from = image + pixel / points * t.image + (z * h.in + y) * w.in + x +
           k / taps * t.window.in_points();
  }

  // The slice of `ks` k or more.
  ETALON_HD void bring(const Table& table, float* slice, int ks, int tid) const {
    const int k = tid / Cols * kCount;
    float* const to = slice + k * kPitch + tid % Cols;
    Tap taps[kCount];
    ETALON_UNROLL
    for (int i = 0; i < kCount; ++i) taps[i] = table.taps[tap + i];
    ETALON_UNROLL
    for (int i = 0; i < kCount; ++i) {
      const bool on =
          (~((taps[i].axes - low) & (high - taps[i].axes)) & 0x808080U) == 0 && k + i < ks;
      copy_4(to + i * kPitch, from + taps[i].at, on ? 4 : 0);
    }
  }
  ETALON_HD void step(int taps, int channels, int rest, std::int64_t plane) {
    tap += rest;
    from += channels * plane;
    if (tap >= taps) {
      tap -= taps;
      from += plane;
    }
  }
};

}  // namespace ETALON_ISA_NAMESPACE
}  // namespace etalon
