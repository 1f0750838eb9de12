#include "kernels/conv/tap_rows.h"

namespace etalon {

TapRows::TapRows(const Window& window, int lanes) : window_(window) {
  const auto& [d, h, w] = window_.axes;
  if (d.in != 1 || d.out != 1 || d.kernel != 1 || h.out <= 0 || w.out <= 0) return;
  if (h.kernel != w.kernel || (w.kernel != 3 && w.kernel != 5) || h.stride != 2 || w.stride != 2 ||
      h.dilation != 1 || w.dilation != 1 || w.pad_begin < 0)
    return;
  for (std::int64_t o = 0; o < h.out; ++o) {
    TapRow row{.first = h.at(o, 0)};
    while (row.begin < h.kernel && h.at(o, row.begin) < 0) ++row.begin;
    row.end = row.begin;
    while (row.end < h.kernel && h.at(o, row.end) < h.in) ++row.end;
    rows_.push_back(row);
  }
  const auto with_lane = [](std::uint16_t& mask, int lane) {
    mask = static_cast<std::uint16_t>(mask | 1U << lane);
  };
  const auto inside = [&](std::int64_t column) { return column >= 0 && column < w.in; };
  const auto taps = static_cast<int>(w.kernel);
  for (std::int64_t first = 0; first < w.out; first += lanes) {
    TapColumn c;
    const std::int64_t from = w.at(first, 0);
    for (int lane = 0; lane < lanes; ++lane) {
      for (int i = 0; i < (taps + 1) / 2 * 2; ++i)
        if (inside(from + i / 2 * 2 + i % 2 * lanes + lane)) with_lane(c.inside[i], lane);
      if (first + lane >= w.out) continue;
      with_lane(c.outputs, lane);
      for (int s = 0; s < taps; ++s)
        if (inside(w.at(first + lane, s))) with_lane(c.taps[s], lane);
    }
    columns_.push_back(c);
  }
  serves_ = true;
}

TapRowsCall TapRows::call() const {
  const auto& [d, h, w] = window_.axes;
  return {.in_rows = h.in,
          .in_columns = w.in,
          .out_rows = h.out,
          .out_columns = w.out,
          .pad = w.pad_begin,
          .taps = static_cast<int>(w.kernel),
          .rows = rows_.data(),
          .columns = columns_.data()};
}

}  // namespace etalon
