#include "kernels/conv/plan.h"

#include <algorithm>
#include <cstring>

namespace etalon {
namespace {

// Coordinates of the padded input that some window reads.
std::int64_t extent(const WindowAxis& a) {
  return (a.out - 1) * a.stride + (a.kernel - 1) * a.dilation + 1;
}

bool touches_padding(const WindowAxis& a, std::int64_t o) {
  return a.at(o, 0) < 0 || a.at(o, a.kernel - 1) >= a.in;
}

std::vector<char> read_by_taps(const WindowAxis& a) {
  std::vector<char> read(static_cast<std::size_t>(std::max<std::int64_t>(0, extent(a))), 0);
  for (std::int64_t o = 0; o < a.out; ++o)
    for (std::int64_t r = 0; r < a.kernel; ++r)
      read[static_cast<std::size_t>(o * a.stride + r * a.dilation)] = 1;
  return read;
}

}  // namespace

ConvPlan::ConvPlan(const ConvGeometry& geometry)
    : g(geometry), k(g.k()), pixels(g.window.out_points()) {
  const auto& [d, h, w] = g.window.axes;
  for (const WindowAxis& a : g.window.axes)
    padded = padded || touches_padding(a, 0) || touches_padding(a, a.out - 1);
  copied = padded || w.stride != 1;
  if (copied) {
    for (std::int64_t r = 0; r < w.kernel; ++r) phases.push_back(r * w.dilation % w.stride);
    std::ranges::sort(phases);
    phases.erase(std::unique(phases.begin(), phases.end()), phases.end());
    phase_stride = (extent(w) + w.stride - 1) / w.stride;
    row_stride = phase_stride * static_cast<std::int64_t>(phases.size());
    plane_stride = row_stride * extent(h);
    channel_stride = plane_stride * extent(d);
    planes_read = read_by_taps(d);
    rows_read = read_by_taps(h);
    set_columns();
  } else {
    phases = {0};
    row_stride = w.in;
    plane_stride = h.in * w.in;
    channel_stride = d.in * plane_stride;
  }
  image_stride = channel_stride * g.in_channels;
  flat = !padded && (h.out == 1 || row_stride * h.stride == w.out) &&
         (d.out == 1 || plane_stride * d.stride == h.out * w.out);
  offset.reserve(static_cast<std::size_t>(k));
  for (std::int64_t c = 0; c < g.group_in(); ++c)
    for (std::int64_t rz = 0; rz < d.kernel; ++rz)
      for (std::int64_t ry = 0; ry < h.kernel; ++ry)
        for (std::int64_t rx = 0; rx < w.kernel; ++rx) {
          const std::int64_t column = rx * w.dilation;
          const std::int64_t phase =
              std::ranges::lower_bound(phases, column % w.stride) - phases.begin();
          offset.push_back(c * channel_stride + rz * d.dilation * plane_stride +
                           ry * h.dilation * row_stride + phase * phase_stride + column / w.stride);
        }
  // The first terms of a tile two vectors on, in the usual case that all terms are one block.
  for (std::int64_t i = 0; i < kAheadSteps; ++i)
    offset.push_back(k == 0 ? 0 : offset[static_cast<std::size_t>(i)] + kAheadPixels);
}

void ConvPlan::set_columns() {
  const WindowAxis& w = g.window.axes[2];
  // Of stride 2 and both remainders read: element 2i of the input is column i + e of one phase,
  // 2i + 1 column i + o of the other.
  if (w.stride == 2 && phases.size() == 2) {
    const std::int64_t e = (w.pad_begin + 1) / 2 - w.pad_begin % 2, o = (w.pad_begin + 1) / 2;
    const bool swapped = w.pad_begin % 2 != 0;  // then the odd ones are phase 0
    split_count = std::max<std::int64_t>(
        0, std::min({w.in, 2 * (phase_stride - e), 2 * (phase_stride - o) + 1}));
    split_even = (swapped ? phase_stride : 0) + e;
    split_odd = (swapped ? 0 : phase_stride) + o;
  }
  for (const std::int64_t phase : phases) {
    PhaseColumns c{.shift = phase - w.pad_begin};
    c.end = w.in > c.shift ? std::min((w.in - 1 - c.shift) / w.stride + 1, phase_stride) : 0;
    c.begin = std::min(c.shift >= 0 ? 0 : (-c.shift + w.stride - 1) / w.stride, c.end);
    c.rest = split_count > std::max<std::int64_t>(0, c.shift)
                 ? std::clamp((split_count - 1 - c.shift) / 2 + 1, c.begin, c.end)
                 : c.begin;
    columns.push_back(c);
  }
}

ConvPlan::Rows ConvPlan::all_rows() const {
  return {.end_plane = extent(g.window.axes[0]), .end = extent(g.window.axes[1])};
}

ConvPlan::Rows ConvPlan::rows_of(std::int64_t first, std::int64_t end) const {
  const auto& [d, h, w] = g.window.axes;
  const auto read = [](const WindowAxis& a, std::int64_t o) {
    return o * a.stride + (a.kernel - 1) * a.dilation + 1;
  };
  const std::int64_t row = first / w.out, last_row = (end - 1) / w.out;
  const std::int64_t plane = row / h.out, last_plane = last_row / h.out;
  Rows rows = all_rows();
  rows.first_plane = plane * d.stride;
  rows.end_plane = read(d, last_plane);
  if (plane == last_plane) {
    rows.first = row % h.out * h.stride;
    rows.end = read(h, last_row % h.out);
  }
  return rows;
}

void ConvPlan::copy_rows(const float* from, float* to, const Rows& rows,
                         void (*split)(const PairRows&)) const {
  const auto& [d, h, w] = g.window.axes;
  const bool splits = split != nullptr && split_count > 0;
  for (std::int64_t z = rows.first_plane; z < rows.end_plane; ++z) {
    if (planes_read[static_cast<std::size_t>(z)] == 0) continue;
    const std::int64_t iz = z - d.pad_begin;
    for (std::int64_t y = rows.first; y < rows.end; ++y) {
      if (rows_read[static_cast<std::size_t>(y)] == 0) continue;
      const std::int64_t iy = y - h.pad_begin;
      float* row = to + z * plane_stride + y * row_stride;
      if (iz < 0 || iz >= d.in || iy < 0 || iy >= h.in) {
        std::fill_n(row, row_stride, 0.0F);
        continue;
      }
      const float* source = from + (iz * h.in + iy) * w.in;
      if (splits)
        split({.from = source,
               .rows = 1,
               .count = split_count,
               .even = row + split_even,
               .odd = row + split_odd});
      for (const PhaseColumns& c : columns) {
        if (c.begin > 0) std::fill_n(row, c.begin, 0.0F);
        if (w.stride == 1)
          std::memcpy(row + c.begin, source + c.begin + c.shift,
                      static_cast<std::size_t>(c.end - c.begin) * sizeof(float));
        else
          for (std::int64_t j = splits ? c.rest : c.begin; j < c.end; ++j)
            row[j] = source[j * w.stride + c.shift];
        if (c.end < phase_stride) std::fill_n(row + c.end, phase_stride - c.end, 0.0F);
        row += phase_stride;
      }
    }
  }
}

int ConvPlan::pieces(const float* base, std::int64_t first, int count, TapPiece* to,
                     bool& border) const {
  border = false;
  if (flat && first + count <= pixels) {
    to[0] = {base + first, 0, count};
    return 1;
  }
  const auto& [d, h, w] = g.window.axes;
  int made = 0;
  for (int lane = 0; lane < count;) {
    const std::int64_t p = first + lane, q = p % pixels;
    const std::int64_t ox = q % w.out, oy = q / w.out % h.out, oz = q / (w.out * h.out);
    const std::int64_t run = flat ? pixels - q : w.out - ox;
    const int size = static_cast<int>(std::min<std::int64_t>(count - lane, run));
    to[made++] = {base + p / pixels * image_stride + oz * d.stride * plane_stride +
                      oy * h.stride * row_stride + ox,
                  lane, size};
    if (padded)
      border = border || touches_padding(d, oz) || touches_padding(h, oy) ||
               touches_padding(w, ox) || touches_padding(w, ox + size - 1);
    lane += size;
  }
  return made;
}

void ConvPlan::masks(std::int64_t first, int count, std::uint16_t* mask) const {
  const auto& [d, h, w] = g.window.axes;
  const std::int64_t taps = g.window.taps();
  std::fill_n(mask, k, std::uint16_t{0});
  for (int lane = 0; lane < count; ++lane) {
    const std::int64_t q = (first + lane) % pixels;
    const std::int64_t ox = q % w.out, oy = q / w.out % h.out, oz = q / (w.out * h.out);
    std::uint16_t* m = mask;
    for (std::int64_t rz = 0; rz < d.kernel; ++rz)
      for (std::int64_t ry = 0; ry < h.kernel; ++ry)
        for (std::int64_t rx = 0; rx < w.kernel; ++rx, ++m) {
          const std::int64_t z = d.at(oz, rz), y = h.at(oy, ry), x = w.at(ox, rx);
          if (z >= 0 && z < d.in && y >= 0 && y < h.in && x >= 0 && x < w.in)
            *m = static_cast<std::uint16_t>(*m | 1U << lane);
        }
  }
  for (std::int64_t i = taps; i < k; ++i) mask[i] = mask[i - taps];
}

}  // namespace etalon
