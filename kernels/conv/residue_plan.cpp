#include "kernels/conv/residue_plan.h"

#include <algorithm>

namespace etalon {
namespace {

// Of one tile's time: copying a step of 16 windows together takes as long as this many products of
// a step (1300 to 2300 cycles against 11 times 21).
constexpr std::int64_t kGatherCost = 8;

std::int64_t up(std::int64_t n, std::int64_t to) { return (n + to - 1) / to * to; }

ResidueAxis axis_of(const WindowAxis& a) {
  if (a.kernel == 1)  // only what is read
    return {.in = a.in, .extent = a.out, .step = a.stride, .pad_begin = a.pad_begin, .out = a.out};
  return {.in = a.in,
          .extent = (a.out - 1) * a.stride + (a.kernel - 1) * a.dilation + 1,
          .pad_begin = a.pad_begin,
          .kernel = a.kernel,
          .dilation = a.dilation,
          .stride = a.stride,
          .out = a.out};
}

bool is_whole(const ResidueAxis& a) {
  return a.kernel == 1 && a.step == 1 && a.pad_begin == 0 && a.extent == a.in;
}

}  // namespace

ResidueWindowSteps residue_window_steps(const ConvGeometry& g) {
  const auto& [d, h, w] = g.window.axes;
  const std::int64_t channels = g.group_in(), tap_rows = d.kernel * h.kernel,
                     columns = (g.group_out() + kResidueTileRows - 1) / kResidueTileRows;
  const std::int64_t alone =
                         tap_rows * w.kernel * up(channels, kResidueTileStep) / kResidueTileStep,
                     joined = w.dilation == 1 || w.kernel == 1
                                  ? tap_rows * up(w.kernel * channels, kResidueTileStep) /
                                        kResidueTileStep
                                  : alone,
                     together =
                         up(tap_rows * w.kernel * channels, kResidueTileStep) / kResidueTileStep;
  ResidueWindowSteps s;
  // Rows of a run that is no multiple of a line's 64 bytes cross lines.
  s.as_runs = joined * 9 < alone * 8;
  const std::int64_t direct = s.as_runs ? joined : alone;
  s.gathered = together * (columns + kGatherCost) < direct * columns;
  s.count = s.gathered ? together : direct;
  // Outputs behind the end of a row: of the image, where rows are `extent` apart.
  const ResidueAxis y = axis_of(h), x = axis_of(w);
  const bool point = is_whole(axis_of(d)) && is_whole(y) && is_whole(x);
  const std::int64_t by_image = up((y.out - 1) * x.extent + x.out, kResidueTileRows),
                     by_row = y.out * up(x.out, kResidueTileRows);
  s.flat = !s.gathered && (point || (x.stride == 1 && y.stride == 1 && by_image <= by_row));
  s.strips = point        ? up(g.window.out_points(), kResidueTileRows)
             : s.gathered ? d.out * up(y.out * x.out, kResidueTileRows)
                          : d.out * (s.flat ? by_image : by_row);
  s.strips /= kResidueTileRows;
  return s;
}

ResiduePlan::ResiduePlan(const ConvGeometry& g)
    : d(axis_of(g.window.axes[0])), h(axis_of(g.window.axes[1])), w(axis_of(g.window.axes[2])) {
  channels = g.group_in();
  out = g.group_out();
  groups = g.groups;
  columns = (out + kResidueTileRows - 1) / kResidueTileRows;
  if (is_whole(d) && is_whole(h) && is_whole(w)) {
    // One tap and all pixels read: the image is one row.
    w.in = w.extent = w.out = d.in * h.in * w.in;
    d = h = {};
  }
  const ResidueWindowSteps cut = residue_window_steps(g);
  gathered = cut.gathered;
  const bool as_runs = cut.as_runs;
  const std::int64_t together = cut.count;
  if (gathered || as_runs) {
    pitch = channels;
  } else {
    // An odd number of lines, so that rows of a tile do not meet in the same sets of a cache.
    pitch = up(channels, kResidueTileStep);
    if (pitch / kResidueTileStep % 2 == 0) pitch += kResidueTileStep;
  }
  const bool whole_rows = w.dilation == 1 && (gathered || as_runs);
  run = whole_rows ? w.kernel * channels : channels;
  row = w.extent * pitch;
  group_rows = d.extent * h.extent;
  rows = groups * group_rows;
  // Behind the last row: outputs that are dropped read up to 15 further. Planes that lie a multiple
  // of 4096 bytes apart would share their sets of a cache.
  plane = up(rows * row + kResidueTileRows * w.stride * pitch + 2 * kResidueTileStep, 4096) +
          13 * kResidueTileStep;
  for (std::int64_t rz = 0; rz < d.kernel; ++rz)
    for (std::int64_t ry = 0; ry < h.kernel; ++ry)
      for (std::int64_t rx = 0; rx < (whole_rows ? 1 : w.kernel); ++rx)
        offset.push_back((rz * d.dilation * h.extent + ry * h.dilation) * row +
                         rx * w.dilation * pitch);
  if (!gathered)
    for (const std::int64_t from : offset)
      for (std::int64_t at = 0; at < run; at += kResidueTileStep) steps.push_back(from + at);
  for (std::int64_t t = 0; gathered && t < together; ++t) steps.push_back(t * kResidueTileBytes);
  step_count = static_cast<std::int64_t>(steps.size());

  const std::int64_t apart = w.extent, by_image = (h.out - 1) * apart + w.out;
  const auto add = [&](std::int64_t base, std::int64_t first_row) {
    strips.push_back({.base = base,
                      .first_run = static_cast<int>(runs.size()),
                      .first_row = first_row,
                      .last_row = first_row});
  };
  const auto extend = [&](int lane, std::int64_t count, std::int64_t at, std::int64_t last_row) {
    ResidueStrip& strip = strips.back();
    runs.push_back({.first = lane, .count = static_cast<int>(count), .at = at});
    strip.rows = lane + static_cast<int>(count);
    ++strip.runs;
    strip.last_row = last_row;
  };
  for (std::int64_t oz = 0; oz < d.out; ++oz) {
    const std::int64_t plane_base = oz * d.stride * h.extent * row, pixel = oz * h.out * w.out;
    if (gathered || (cut.flat && apart == w.out)) {
      // No output is dropped.
      for (std::int64_t p = 0; p < h.out * w.out; p += kResidueTileRows) {
        const std::int64_t count = std::min<std::int64_t>(kResidueTileRows, h.out * w.out - p);
        add(plane_base + p * pitch, oz * h.out + p / w.out);
        extend(0, count, pixel + p, oz * h.out + (p + count - 1) / w.out);
      }
    } else if (cut.flat) {
      for (std::int64_t v = 0; v < by_image; v += kResidueTileRows) {
        bool begun = false;
        for (std::int64_t i = v; i < std::min(by_image, v + kResidueTileRows);) {
          const std::int64_t y = i / apart, x = i % apart;
          if (x >= w.out) {
            i += apart - x;
            continue;
          }
          if (!begun) add(plane_base + v * pitch, oz * h.out + y);
          begun = true;
          const std::int64_t count = std::min(v + kResidueTileRows - i, w.out - x);
          extend(static_cast<int>(i - v), count, pixel + y * w.out + x, oz * h.out + y);
          i += count;
        }
      }
    } else {
      for (std::int64_t y = 0; y < h.out; ++y)
        for (std::int64_t x = 0; x < w.out; x += kResidueTileRows) {
          add(plane_base + y * h.stride * row + x * w.stride * pitch, oz * h.out + y);
          extend(0, std::min<std::int64_t>(kResidueTileRows, w.out - x), pixel + y * w.out + x,
                 oz * h.out + y);
        }
    }
  }
}

std::int64_t ResiduePlan::weight_at(std::int64_t channel, std::int64_t tap) const {
  if (gathered) return tap * channels + channel;
  // Runs are whole steps.
  const std::int64_t taps_of_run = run / channels;
  return tap / taps_of_run * up(run, kResidueTileStep) + tap % taps_of_run * channels + channel;
}

ResidueWindowBlocks::ResidueWindowBlocks(std::int64_t row_strips, std::int64_t column_strips,
                                         std::int64_t steps, bool overlaps, int threads)
    : row_strips_(row_strips), column_strips_(column_strips), steps_(steps), overlaps_(overlaps) {
  constexpr std::int64_t kPanelBytes = 1 << 20;
  const std::int64_t strip_bytes =
      std::max<std::int64_t>(1, steps) * kResiduePlanes * kResidueTileBytes;
  std::int64_t most_columns = 8, most_rows = kResidueBlockTiles / most_columns;
  if (most_columns * strip_bytes <= kPanelBytes) {
    most_rows = 4;
    panel_stays_ = true;
  } else if (overlaps) {
    most_columns = 4;
    panel_stays_ = most_columns * strip_bytes <= kPanelBytes;
    most_rows = panel_stays_ ? 8 : kResidueBlockRows;
  }
  // Nearly equal parts, of pairs.
  const auto even = [](std::int64_t count, std::int64_t most) {
    const std::int64_t pieces = std::max<std::int64_t>(1, (count + most - 1) / most);
    return std::max<std::int64_t>(2, std::min(most, ((count + pieces - 1) / pieces + 1) / 2 * 2));
  };
  columns = even(column_strips, most_columns);
  wide = (column_strips + columns - 1) / columns;
  // All threads are to have blocks.
  most_rows = std::min(most_rows, (row_strips * wide + threads - 1) / threads);
  rows = even(row_strips, std::max<std::int64_t>(2, most_rows / 2 * 2));
  tall = (row_strips + rows - 1) / rows;
}

double ResidueWindowBlocks::cycles() const {
  // Windows that overlap are read from the third cache a fifth as often.
  const double tiles = static_cast<double>(row_strips_ * column_strips_),
               steps = static_cast<double>(steps_);
  const double bytes =
      kResiduePlanes * kResidueTileBytes * steps *
      (static_cast<double>(row_strips_ * wide) * (overlaps_ ? 0.2 : 1) +
       static_cast<double>(column_strips_) * (panel_stays_ ? 1 : static_cast<double>(tall)));
  return std::max(tiles * kResiduePlanes * (kResidueProductCycles * steps + kResidueStoreCycles),
                  bytes / kThirdCacheBytes) +
         tiles * kResidueTileSums * kResidueJoinCycles;
}

}  // namespace etalon
