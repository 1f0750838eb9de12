// conv correctly rounded on a GPU's int8 tensor units: the products of kernels/gemm/cuda_digits.h,
// with the weights of a group as rows and the windows of all images as columns. The image is cut
// into digits once, not once for each window that holds an element.
//
// Contract: exact. Kernels:
//   1  the largest magnitude of each image's channels of a group, and so its unit
//   2  its pixels cut: five planes, a pixel's channels side by side, padded to 16; of each pixel
//   the
//      sums of squares that the bound takes
//   3  the weights cut, a row for each output channel, k in the same sequence: taps, then channels
//   4  of each window the sums of squares of its pixels inside the image: its norms
//   5  the products. 16 bytes of k are 16 channels of one tap: of a window they are fetched from
//   its
//      pixel, or are zeros in the padding
//   6  a warp for each output that is open, over its taps inside the image
// What stays undecided the host settles.
//
// Same bits, bound: those of gemm. A window has the unit of its image, which is the largest there:
// the digits of a window of small values are fewer, its norms say so, and its outputs are more
// often left to 6. A sum of integers is exact in any sequence of k; zeros behind the channels and
// in the padding add nothing, and a tap in the padding meets no weight here.
//
// Limit: as of gemm, times channels over channels padded to 16. Behind f64 units in selection, as
// gemm's.
#pragma once

#include "kernels/gemm/cuda_digits.h"

namespace etalon {
inline namespace ETALON_ISA_NAMESPACE {

inline constexpr int kDigitChunk = 16;  // bytes of k that are fetched together
inline constexpr int kDigitPixels = 32,
                     kDigitTopElements = 4096;  // of a block that cuts, that looks

struct ConvDigitTask {
  DigitTask p;  // of p.b the norms alone
  const float* x = nullptr;
  std::int64_t channels = 0, pitch = 0, taps = 0;  // of a group; a pixel's bytes
  std::int64_t images = 0, groups = 0, pixels = 0;
  std::uint8_t* planes = nullptr;   // [group][image][digit][pixel][pitch]
  std::int32_t* tops = nullptr;     // [group][image], bits; zeros before
  DigitSquares* squares = nullptr;  // [group][image][pixel]

  ETALON_HD std::int64_t lines() const { return groups * images; }
  ETALON_HD const float* line(std::int64_t l) const {
    return x + (l % images * groups + l / images) * channels * pixels;
  }
  ETALON_HD std::uint8_t* planes_of(std::int64_t l) const {
    return planes + l * kDigits * pixels * pitch;
  }
  ETALON_HD std::int64_t top_parts() const {
    return (channels * pixels + kDigitTopElements - 1) / kDigitTopElements;
  }
  ETALON_HD std::int64_t cut_parts() const { return (pixels + kDigitPixels - 1) / kDigitPixels; }
};

// ---- 1 ------------------------------------------------------------------------------------------

// A block's part; raise(line, bits) makes the line's top at least that.
template <class Threads, class Raise>
ETALON_HD void conv_digit_top(const ConvDigitTask& t, std::int64_t block, DigitPackShared& shared,
                              const Threads& threads, Raise&& raise) {
  const std::int64_t line = block / t.top_parts(),
                     first = block % t.top_parts() * kDigitTopElements,
                     rest = t.channels * t.pixels - first,
                     count = rest < kDigitTopElements ? rest : kDigitTopElements;
  threads([&](int tid) {
    const float* const from = t.line(line) + first;
    std::int32_t top = 0;
    for (std::int64_t i = tid; i < count; i += kDigitPackThreads) {
      const std::int32_t size = digit_size(from[i]);
      top = size > top ? size : top;
    }
    shared.top[tid] = top;
  });
  threads([&](int tid) {
    if (tid != 0) return;
    std::int32_t top = 0;
    for (const std::int32_t other : shared.top) top = other > top ? other : top;
    raise(line, top);
  });
}

// ---- 2 ------------------------------------------------------------------------------------------

// Thread tid has pixel tid % 32 of the block, and every fourth four of its channels.
template <class Threads>
ETALON_HD void conv_digit_cut(const ConvDigitTask& t, std::int64_t block, DigitPackShared& shared,
                              const Threads& threads) {
  constexpr int kShares = kDigitPackThreads / kDigitPixels;
  const std::int64_t line = block / t.cut_parts(), first = block % t.cut_parts() * kDigitPixels;
  threads([&](int tid) {
    const std::int64_t pixel = first + tid % kDigitPixels;
    if (pixel >= t.pixels) return;
    const std::int32_t top = t.tops[line];
    const auto cut = [&](auto&& channel, double scale) {
      return digit_cut(channel, t.channels, scale, tid / kDigitPixels * 4, kShares * 4, t.pitch,
                       t.planes_of(line) + pixel * t.pitch, t.pixels * t.pitch);
    };
    const float* const from = t.line(line) + pixel;
    shared.squares[tid] =
        digit_can_cut(top) ? cut([from, step = t.pixels](std::int64_t c) { return from[c * step]; },
                                 1 / digit_unit(top))
                           : cut([](std::int64_t) { return 0.0F; }, 0);
  });
  threads([&](int tid) {
    if (tid >= kDigitPixels || first + tid >= t.pixels) return;
    DigitSquares sum{};
    for (int i = tid; i < kDigitPackThreads; i += kDigitPixels) sum.add(shared.squares[i]);
    t.squares[line * t.pixels + first + tid] = sum;
  });
}

// ---- 3 ------------------------------------------------------------------------------------------

template <class Threads>
ETALON_HD void conv_digit_weights(const ConvDigitTask& t, std::int64_t block,
                                  DigitPackShared& shared, const Threads& threads) {
  digit_pack_rows(t.p, t.p.a, t.taps * t.pitch, block, shared, threads,
                  [&](std::int64_t product, std::int64_t row) {
                    const float* const from = t.p.t.a + (product * t.p.t.m + row) * t.p.t.k;
                    return [from, &t](std::int64_t i) {
                      const std::int64_t tap = i / t.pitch, channel = i % t.pitch;
                      return channel < t.channels ? from[channel * t.taps + tap] : 0.0F;
                    };
                  });
}

// ---- 4 ------------------------------------------------------------------------------------------

// Where a window begins; its tap (rz, ry, rx) lies at the pixel that is `dilation` times it
// further.
struct DigitWindow {
  std::int64_t image = 0, z = 0, y = 0, x = 0;
};
ETALON_HD inline DigitWindow digit_window(const Window& window, std::int64_t n) {
  const WindowAxis &d = window.axes[0], &h = window.axes[1], &w = window.axes[2];
  const std::int64_t points = window.out_points(), p = n % points;
  return {n / points, d.at(p / (w.out * h.out), 0), h.at(p / w.out % h.out, 0), w.at(p % w.out, 0)};
}
// The pixel at a place; -1 in the padding.
ETALON_HD inline std::int64_t digit_pixel(const Window& w, std::int64_t z, std::int64_t y,
                                          std::int64_t x) {
  const bool inside =
      z >= 0 && z < w.axes[0].in && y >= 0 && y < w.axes[1].in && x >= 0 && x < w.axes[2].in;
  return inside ? (z * w.axes[1].in + y) * w.axes[2].in + x : -1;
}
// A window's taps one after the other, without a division.
struct DigitTaps {
  std::int64_t z, y, x;
  int tap = 0, ry = 0, rx = 0;
  ETALON_HD explicit DigitTaps(const DigitWindow& at) : z(at.z), y(at.y), x(at.x) {}
  ETALON_HD void next(const Window& w) {
    const WindowAxis &ay = w.axes[1], &ax = w.axes[2];
    ++tap;
    x += ax.dilation;
    if (++rx < ax.kernel) return;
    rx = 0;
    x -= ax.kernel * ax.dilation;
    y += ay.dilation;
    if (++ry < ay.kernel) return;
    ry = 0;
    y -= ay.kernel * ay.dilation;
    z += w.axes[0].dilation;
  }
  ETALON_HD std::int64_t pixel(const Window& w) const { return digit_pixel(w, z, y, x); }
};

// Window `i` of all groups.
ETALON_HD inline void conv_digit_norm(const ConvDigitTask& t, std::int64_t i) {
  const std::int64_t group = i / t.p.t.n, n = i % t.p.t.n;
  const DigitWindow at = digit_window(t.p.t.window, n);
  const std::int64_t line = group * t.images + at.image;
  DigitSquares sum{};
  for (DigitTaps taps(at); taps.tap < t.taps; taps.next(t.p.t.window))
    if (const std::int64_t pixel = taps.pixel(t.p.t.window); pixel >= 0)
      sum.add(t.squares[line * t.pixels + pixel]);
  t.p.b.norms[group * t.p.b.padded + n] = digit_norm_under(sum, t.tops[line], t.taps * t.pitch);
}

// ---- 5 and 6 ------------------------------------------------------------------------------------

struct WindowProducts {
  using Task = ConvDigitTask;
  ETALON_HD static const DigitTask& products(const Task& task) { return task.p; }
  ETALON_HD static std::int64_t outputs(const Task& task) {
    return task.groups * task.p.t.m * task.p.t.n;
  }
  ETALON_HD static std::int64_t place(const TileTask& t, const DigitOutput& o) {
    const std::int64_t points = t.window.out_points();
    return o.n / points * t.out_image + (o.product * t.m + o.m) * points + o.n % points;
  }
  ETALON_HD static DigitOutput output(const TileTask& t, std::int64_t at) {
    const std::int64_t points = t.window.out_points(), channel = at % t.out_image / points;
    return {channel / t.m, channel % t.m, at / t.out_image * points + at % points};
  }
  ETALON_HD static bool adds(const TileTask& t) { return t.bias != nullptr; }
  ETALON_HD static double added(const TileTask& t, const DigitOutput& o) {
    return static_cast<double>(t.bias[o.product * t.m + o.m]);
  }
  ETALON_HD static DigitDot dot(const TileTask& t, std::int64_t at, int lane, int shares = 32) {
    const DigitOutput o = output(t, at);
    const WindowAxis &d = t.window.axes[0], &h = t.window.axes[1], &w = t.window.axes[2];
    const DigitWindow from = digit_window(t.window, o.n);
    const auto taps = static_cast<std::uint32_t>(t.window.taps()),
               width = static_cast<std::uint32_t>(w.kernel),
               plane = static_cast<std::uint32_t>(w.kernel * h.kernel);
    const float* const weights = t.a + (o.product * t.m + o.m) * t.k;
    const float* const image = t.b + o.product * t.b_batch[0] + from.image * t.image;
    DigitDot dot;
    // k goes by steps of channels and taps; taps are few enough to be divided by a product.
    const auto first = static_cast<std::uint32_t>(lane), step = static_cast<std::uint32_t>(shares);
    const auto of = [](std::uint32_t by) { return (65536 + by - 1) / by; };
    const std::uint32_t channels = step / taps, rest = step % taps, by_plane = of(plane),
                        by_width = of(width);
    std::uint32_t channel = first / taps, tap = first % taps;
#if defined(__CUDACC__)
#pragma unroll 8  // loads: many on their way
#endif
    for (std::uint32_t k = first; k < t.k; k += step) {
      const std::uint32_t z = tap * by_plane >> 16, in_plane = tap - z * plane,
                          y = in_plane * by_width >> 16;
      const std::int64_t pixel =
          digit_pixel(t.window, from.z + z * d.dilation, from.y + y * h.dilation,
                      from.x + (in_plane - y * width) * w.dilation);
      if (pixel >= 0)
        dot.add(static_cast<double>(weights[k]) *
                static_cast<double>(image[channel * t.window.in_points() + pixel]));
      channel += channels;
      tap += rest;
      if (tap >= taps) {
        tap -= taps;
        ++channel;
      }
    }
    return dot;
  }
  // The weights lie as a matrix; of the windows a thread always fetches the same one's bytes, step
  // after step.
  struct Loader {
    ETALON_HD Loader(const Task& task, const DigitPlace& place, int tid)
        : t(task),
          p(place),
          id(tid),
          there(p.col0 + digit_row_of(tid) < t.p.t.n),
          at(digit_window(t.p.t.window, there ? p.col0 + digit_row_of(tid) : 0)),
          taps(at),
          channel(digit_chunk_of(tid) * kDigitChunk),
          from(t.planes_of(p.product * t.images + at.image)) {
      settle();
    }
    ETALON_HD void load(DigitShared& shared, int buffer, std::int64_t k0) {
      digit_load(t.p, t.p.a, p.product, p.row0, shared, buffer, 0, k0, id);
      const int row = digit_row_of(id), byte = digit_chunk_of(id) * kDigitChunk;
      const std::int64_t pixel = there && taps.tap < t.taps ? taps.pixel(t.p.t.window) : -1;
      ETALON_UNROLL
      for (int plane = 0; plane < kDigits; ++plane) {
        std::uint8_t* const to = shared.at(buffer, 1, plane, row, byte);
        if (pixel < 0)
          clear_16(to);
        else
          copy_16(to, from + (plane * t.pixels + pixel) * t.pitch + channel);
      }
      channel += kDigitStep;
      settle();
    }
    ETALON_HD void settle() {
      for (; channel >= t.pitch; channel -= t.pitch) taps.next(t.p.t.window);
    }
    const Task& t;
    DigitPlace p;
    int id;
    bool there;
    DigitWindow at;
    DigitTaps taps;
    std::int64_t channel;  // of the tap, where the next fetch begins
    const std::uint8_t* from;
  };
};

// ---- a call -------------------------------------------------------------------------------------

inline ConvDigitTask conv_digit_task(const KernelCall& call, const cuda::ConvDigitMemory& memory) {
  const ConvGeometry g =
      conv_geometry(call.params<ConvParams>(), call.input(0).shape(), call.input(1).shape());
  ConvDigitTask task;
  task.channels = g.group_in();
  task.pitch = (task.channels + kDigitChunk - 1) / kDigitChunk * kDigitChunk;
  task.taps = g.window.taps();
  task.images = g.batch;
  task.groups = g.groups;
  task.pixels = g.window.in_points();
  task.x = reinterpret_cast<const float*>(call.input(0).bytes().data());
  DigitTask& p = task.p;
  p.t = tile_task(call,
                  reinterpret_cast<float*>(const_cast<std::byte*>(call.output(0).bytes().data())));
  p.k_padded = (task.taps * task.pitch + kDigitStep - 1) / kDigitStep * kDigitStep;
  p.products = g.groups;
  const auto padded = [](std::int64_t n) { return (n + kDigitTile - 1) / kDigitTile * kDigitTile; };
  p.a.rows = p.t.m;
  p.a.padded = padded(p.t.m);
  p.b.rows = p.t.n;
  p.b.padded = padded(p.t.n);
  p.a.planes = static_cast<std::uint8_t*>(memory.weights);
  p.a.norms = static_cast<DigitNorm*>(memory.norms);
  p.b.norms = p.a.norms + (p.a.norms == nullptr ? 0 : p.products * p.a.padded);
  task.planes = static_cast<std::uint8_t*>(memory.planes);
  task.squares = static_cast<DigitSquares*>(memory.squares);
  task.tops = static_cast<std::int32_t*>(memory.tops);
  return task;
}
// Of a task without memory, how much each part takes.
inline std::int64_t conv_digit_weight_bytes(const ConvDigitTask& t) {
  return t.groups * t.p.a.padded * kDigits * t.p.k_padded;
}
inline std::int64_t conv_digit_plane_bytes(const ConvDigitTask& t) {
  return t.lines() * kDigits * t.pixels * t.pitch;
}
inline std::int64_t conv_digit_norm_bytes(const ConvDigitTask& t) { return digit_norm_bytes(t.p); }
inline std::int64_t conv_digit_square_bytes(const ConvDigitTask& t) {
  return t.lines() * t.pixels * static_cast<std::int64_t>(sizeof(DigitSquares));
}
inline std::int64_t conv_digit_top_bytes(const ConvDigitTask& t) {
  return t.lines() * static_cast<std::int64_t>(sizeof(std::int32_t));
}

inline Refusal refuse_conv_digits_on_device(const Problem& problem) {
  if (*problem.contract != Contract::exact_preset()) return "promises exact only";
  // Of the shape, what the tiles refuse: 32-bit numbers of rows and columns.
  const Contract seq = Contract::seq();
  Problem shapes = problem;
  shapes.contract = &seq;
  if (Refusal r = refuse_tiles(shapes)) return r;
  const ConvGeometry g = conv_geometry(problem.params->as<ConvParams>(), problem.input(0).shape,
                                       problem.input(1).shape);
  // Of what a tile multiplies: rows that are channels, bytes of k that are not padding. At an
  // eighth the 19 products of an output's term cost as many of the tensor units' steps as the
  // definition's f64 takes of its own (a rate of 64 to 1; not measured).
  const std::int64_t rows = std::min<std::int64_t>(g.group_out(), kDigitTile),
                     pitch = (g.group_in() + kDigitChunk - 1) / kDigitChunk * kDigitChunk;
  if (g.group_in() == 0 || 8 * rows * g.group_in() < kDigitTile * pitch)
    return "fills less than an eighth of its tiles: rows of 64 output channels, k of 16 channels a "
           "tap";
  return std::nullopt;
}

// ---- the host's form ----------------------------------------------------------------------------

#if !defined(__CUDACC__)
template <class Threads, class Open, class Undecided>
void run_conv_digits_on_host(const ConvDigitTask& t, const Threads& threads,
                             const cuda::UndecidedList& list, Open&& open, Undecided&& undecided) {
  DigitPackShared shared;
  std::fill_n(t.tops, t.lines(), 0);
  for (std::int64_t block = t.lines() * t.top_parts(); block-- > 0;)
    conv_digit_top(t, block, shared, threads, [&](std::int64_t line, std::int32_t top) {
      t.tops[line] = std::max(t.tops[line], top);
    });
  for (std::int64_t block = t.lines() * t.cut_parts(); block-- > 0;)
    conv_digit_cut(t, block, shared, threads);
  for (std::int64_t block = t.p.pack_blocks(t.p.a); block-- > 0;)
    conv_digit_weights(t, block, shared, threads);
  for (std::int64_t i = t.groups * t.p.t.n; i-- > 0;) conv_digit_norm(t, i);
  multiply_digits_on_host<WindowProducts>(t, list, open, undecided);
}
#endif

}  // namespace ETALON_ISA_NAMESPACE
}  // namespace etalon
