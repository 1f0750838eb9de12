// A sum of integers has no order, so k may walk (row, column, channel) here: an image whose digits
// lie channels last has a window as one run of bytes per row of taps, for any stride.
//
// One image, one group: rows of x are turned to channels last with their padding as zeros and cut
// into digits in one unit for the whole image. 16 pixels are the rows of a tile; their windows are
// copied together, then all channels of the group pass by. Bounds (digit_tile.h) take digits of x
// as 128 and |z| as 2^39 where they were not worth measuring (below the first two digits they are
// as good as uniform: rms 74); what rounding left of x is measured, by rows of the padded image,
// for it is zero almost everywhere.
#include "kernels/conv/digits.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <mutex>

namespace etalon {
namespace {

constexpr std::int64_t kPixelBytes = 768 << 10;  // of packed pixels, half of a second cache

struct Layout {
  std::int64_t channels = 0, padded_w = 0, padded_h = 0, padded_d = 0;
  std::int64_t row = 0;              // bytes of a padded row of one group, with room behind
  std::int64_t rows = 0;             // of all groups
  std::int64_t plane = 0;            // bytes of a plane of digits
  std::int64_t run = 0;              // digits of a run
  std::vector<std::int64_t> offset;  // of each run of a window
};

std::int64_t extent(const WindowAxis& a) {
  return (a.out - 1) * a.stride + (a.kernel - 1) * a.dilation + 1;
}

Layout layout_of(const ConvGeometry& g) {
  const auto& [d, h, w] = g.window.axes;
  Layout l;
  l.channels = g.group_in();
  l.padded_w = extent(w);
  l.padded_h = extent(h);
  l.padded_d = extent(d);
  l.row = (l.padded_w * l.channels + kDigitStep - 1) / kDigitStep * kDigitStep;
  l.rows = g.groups * l.padded_d * l.padded_h;
  l.plane = l.rows * l.row + kDigitStep;
  const bool joined = w.dilation == 1;
  l.run = joined ? w.kernel * l.channels : l.channels;
  for (std::int64_t rz = 0; rz < d.kernel; ++rz)
    for (std::int64_t ry = 0; ry < h.kernel; ++ry)
      for (std::int64_t rx = 0; rx < (joined ? 1 : w.kernel); ++rx)
        l.offset.push_back((rz * d.dilation * l.padded_h + ry * h.dilation) * l.row +
                           rx * w.dilation * l.channels);
  return l;
}

// Row (group, z, y) of the padded image, channels last, as digits. Returns the sum of the squares
// of what rounding left.
double cut_row(const DigitSet& set, const ConvGeometry& g, const Layout& l, const float* x,
               std::int64_t index, double unit, float* turned, std::uint8_t* planes) {
  const auto& [d, h, w] = g.window.axes;
  const std::int64_t group = index / (l.padded_d * l.padded_h);
  const std::int64_t z = index / l.padded_h % l.padded_d - d.pad_begin,
                     y = index % l.padded_h - h.pad_begin;
  const std::int64_t values = l.padded_w * l.channels;
  if (z < 0 || z >= d.in || y < 0 || y >= h.in) {
    std::fill_n(turned, values, 0.0F);
  } else {
    const std::int64_t points = g.window.in_points();
    const float* from = x + group * l.channels * points + (z * h.in + y) * w.in;
    const std::int64_t first = w.pad_begin,
                       count = std::clamp<std::int64_t>(l.padded_w - first, 0, w.in);
    // Blocks of 16 channels downwards: each writes 16 values for a pixel, also where fewer are
    // left, and the blocks below put right what that spilt into the next pixel.
    for (std::int64_t i = 0; i < count; i += kDigitRows)
      for (std::int64_t c = (l.channels - 1) / 16 * 16; c >= 0; c -= 16)
        set.transpose(from + c * points + i, points,
                      static_cast<int>(std::min<std::int64_t>(kDigitRows, count - i)),
                      std::min<std::int64_t>(16, l.channels - c),
                      turned + (first + i) * l.channels + c, l.channels);
    std::fill_n(turned, first * l.channels, 0.0F);
    std::fill_n(turned + (first + count) * l.channels, (l.padded_w - first - count) * l.channels,
                0.0F);
  }
  return set.cut(turned, values, unit, planes + index * l.row, l.plane);
}

}  // namespace

Refusal refuse_conv_digits(const ConvGeometry& g) {
  if (g.group_out() < 8) return "a group has fewer than 8 output channels, half of a tile's";
  if (g.k() < 32) return "sums of fewer than 32 terms fill less than half of a tile";
  // Turning and cutting an element of x took as long as 100 f32 products of the f64 pass.
  if (g.group_out() * g.k() * g.window.out_points() < 96 * g.group_in() * g.window.in_points())
    return "each element of x meets fewer than 96 weights, cutting it into digits does not pay";
  return std::nullopt;
}

void pack_conv_digits(const DigitSet& set, const ConvGeometry& g, const float* w, int threads,
                      ConvDigits& to) {
  const std::int64_t out = g.group_out(), in = g.group_in(), taps = g.window.taps(), k = g.k();
  to.finite = set.largest(w, g.out_channels * k) < 0x7f800000;
  if (!to.finite) return;
  std::vector<float> turned(static_cast<std::size_t>(out * k));
  to.groups.resize(static_cast<std::size_t>(g.groups));
  for (std::int64_t group = 0; group < g.groups; ++group) {
    for (std::int64_t o = 0; o < out; ++o)
      for (std::int64_t c = 0; c < in; ++c)
        for (std::int64_t t = 0; t < taps; ++t)
          turned[static_cast<std::size_t>(o * k + t * in + c)] =
              w[((group * out + o) * in + c) * taps + t];
    pack_digits(set, {turned.data(), k, 1}, out, k, true, threads,
                to.groups[static_cast<std::size_t>(group)]);
  }
}

bool conv_digits(const DigitSet& set, const ExactLanes& lanes, const ConvGeometry& g,
                 const ConvDigitsTask& task, int threads, std::vector<std::int64_t>& undecided) {
  const auto& [d, h, w] = g.window.axes;
  const Layout l = layout_of(g);
  const std::int64_t k = g.k(), out = g.group_out(), pixels = g.window.out_points();
  const std::int64_t steps = (k + kDigitStep - 1) / kDigitStep,
                     columns = vector_strips(out, kDigitRows),
                     strips = vector_strips(pixels, kDigitRows);
  const std::int64_t image_size = g.in_channels * g.window.in_points();
  const std::int64_t block = std::clamp<std::int64_t>(kPixelBytes / (steps * kStepBytes), 1,
                                                      (strips + threads - 1) / threads);
  const std::int64_t blocks = (strips + block - 1) / block;
  thread_local AlignedBuffer buffer;
  auto* planes = buffer.at_least<std::uint8_t>(kDigits * l.plane);
  std::vector<double> rest(static_cast<std::size_t>(l.rows));
  std::mutex joining;
  for (std::int64_t image = 0; image < g.batch; ++image) {
    const float* x = task.x + image * image_size;
    std::atomic<std::int32_t> top{0};
    parallel_for(image_size, threads, 1 << 14, [&](std::int64_t begin, std::int64_t end) {
      const std::int32_t mine = set.largest(x + begin, end - begin);
      std::int32_t seen = top.load();
      while (seen < mine && !top.compare_exchange_weak(seen, mine)) {
      }
    });
    if (top >= 0x7f800000) return false;
    const double unit = top == 0 ? 1.0 : set.unit_for(top);
    parallel_for(l.rows, threads, 1, [&](std::int64_t begin, std::int64_t end) {
      // Whole blocks of 16 pixels and of 16 channels are written.
      float* turned =
          thread_scratch<float>(ScratchSlot::turned, l.row + 2 * kDigitRows * (l.channels + 1));
      for (std::int64_t r = begin; r < end; ++r)
        rest[static_cast<std::size_t>(r)] = cut_row(set, g, l, x, r, unit, turned, planes);
    });
    parallel_for(g.groups * blocks, threads, 1, [&](std::int64_t begin, std::int64_t end) {
      auto* packed =
          thread_scratch<std::uint8_t>(ScratchSlot::broadcast, block * steps * kStepBytes);
      std::vector<DigitNorms> norms(static_cast<std::size_t>(block));
      DigitSums square;
      double added[kDigitRows] = {};
      std::uint16_t open[kDigitRows];
      std::vector<std::int64_t> mine;
      DigitChoice choice;
      int configured = 0;
      for (std::int64_t item = begin; item < end; ++item) {
        const std::int64_t group = item / blocks, first = item % blocks * block;
        const std::int64_t count = std::min(block, strips - first);
        const DigitOperand& weights = task.w->groups[static_cast<std::size_t>(group)];
        const std::int64_t group_row = group * l.padded_d * l.padded_h;
        for (std::int64_t s = 0; s < count; ++s) {
          DigitNorms& n = norms[static_cast<std::size_t>(s)];
          double row_rest = 0;
          std::int64_t row_of = -1;
          for (int r = 0; r < kDigitRows; ++r) {
            const std::int64_t p = (first + s) * kDigitRows + r;
            if (p >= pixels) break;
            const std::int64_t ox = p % w.out, oy = p / w.out % h.out, oz = p / (w.out * h.out);
            const std::int64_t row = group_row + oz * d.stride * l.padded_h + oy * h.stride;
            if (row != row_of) {
              row_of = row;
              row_rest = 0;
              for (std::int64_t rz = 0; rz < d.kernel; ++rz)
                for (std::int64_t ry = 0; ry < h.kernel; ++ry)
                  row_rest += rest[static_cast<std::size_t>(row + rz * d.dilation * l.padded_h +
                                                            ry * h.dilation)];
            }
            set.gather(planes + row * l.row + ox * w.stride * l.channels, l.plane, l.offset.data(),
                       static_cast<int>(l.offset.size()), l.run,
                       packed + s * steps * kStepBytes + r * kDigitStep);
            constexpr double room = 1 + 0x1p-10;
            const double root = std::sqrt(static_cast<double>(k)) * unit * room;
            n.unit[r] = unit;
            n.rest[r] = std::sqrt(row_rest) * unit * room;
            n.norm[r] = 0x1p39 * root + n.rest[r];
            n.high[0][r] = 128 * std::sqrt(3.0) * root;
            n.high[1][r] = 128 * std::sqrt(4.0) * root;
          }
        }
        for (std::int64_t c = 0; c < columns; ++c) {
          const int channels =
              static_cast<int>(std::min<std::int64_t>(kDigitRows, out - c * kDigitRows));
          const std::int64_t o = group * out + c * kDigitRows;
          if (task.bias != nullptr)
            for (int i = 0; i < channels; ++i) added[i] = static_cast<double>(task.bias[o + i]);
          for (std::int64_t s = 0; s < count; ++s) {
            const std::int64_t pixel = (first + s) * kDigitRows;
            const int height = static_cast<int>(std::min<std::int64_t>(kDigitRows, pixels - pixel));
            if (height != configured) set.begin(configured = height);
            const std::int64_t corner = (image * g.out_channels + o) * pixels + pixel;
            const std::size_t before = mine.size();
            const DigitTile tile{.a = packed + s * steps * kStepBytes,
                                 .b = weights.strip(c),
                                 .steps = steps,
                                 .a_norms = &norms[static_cast<std::size_t>(s)],
                                 .b_norms = &weights.norms_of(c),
                                 .rows = height,
                                 .columns = channels,
                                 .dropped = choice.dropped(),
                                 .added = task.bias == nullptr ? nullptr : added,
                                 .y = task.y + corner,
                                 .y_row = pixels,
                                 .turned = true};
            if (task.truth == nullptr) {
              if (set.round(tile, open) != 0 && task.steps.rounding_test)
                for (int r = 0; r < height; ++r)
                  for (std::uint32_t u = open[r]; u != 0; u &= u - 1)
                    mine.push_back(corner + __builtin_ctz(u) * pixels + r);
            } else {
              set.product(tile, square);
              for (int r = 0; r < height; ++r)
                for (int i = 0; i < channels; ++i)
                  exact_row(lanes, square.sums + r * kDigitRows + i,
                            {.bound = 1,
                             .norms = square.bounds + r * kDigitRows + i,
                             .added = tile.added == nullptr ? nullptr : added + i},
                            {.y = task.y + corner + i * pixels + r,
                             .truth = task.truth + corner + i * pixels + r,
                             .at = corner + i * pixels + r,
                             .count = 1},
                            task.steps, mine);
            }
            choice.saw(tile.dropped, std::int64_t{height} * channels,
                       static_cast<std::int64_t>(mine.size() - before));
          }
        }
      }
      set.end();
      const std::scoped_lock lock(joining);
      undecided.insert(undecided.end(), mine.begin(), mine.end());
    });
  }
  return true;
}

}  // namespace etalon
