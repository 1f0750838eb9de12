#include "kernels/pool/max_rows.h"

#include <algorithm>

namespace etalon {
namespace {

// Taps of output o that lie inside: columns or rows [begin, end).
std::int64_t inside_begin(const WindowAxis& a, std::int64_t o) {
  return std::max<std::int64_t>(a.at(o, 0), 0);
}
std::int64_t inside_end(const WindowAxis& a, std::int64_t o) {
  return std::min(a.at(o, a.kernel - 1) + 1, a.in);
}

// Every window has a tap inside.
bool all_inside(const WindowAxis& a) {
  for (std::int64_t o = 0; o < a.out; ++o)
    if (inside_begin(a, o) >= inside_end(a, o)) return false;
  return a.out > 0;
}

}  // namespace

MaxRows::MaxRows(const Window& window, int lanes) : window_(window) {
  const auto& [d, h, w] = window_.axes;
  if (d.in != 1 || d.out != 1 || d.kernel != 1 || (w.kernel != 2 && w.kernel != 3) ||
      w.dilation != 1 || h.dilation != 1 || w.pad_begin < 0 || !all_inside(d) || !all_inside(h) ||
      !all_inside(w))
    return;
  // Shorter rows leave most of a vector idle.
  const bool by_one = w.stride == 1 && h.stride == 1 && h.kernel == w.kernel && 4 * w.out > lanes;
  // What two vectors hold of a row is all that its outputs read.
  const bool by_three =
      w.stride == 3 && w.kernel == 3 && 4 * w.out > lanes && 3 * w.out <= 2 * lanes;
  if (w.stride != 2 && !by_one && !by_three) return;
  for (std::int64_t o = 0; o < h.out; ++o) {
    row_begin_.push_back(inside_begin(h, o));
    row_end_.push_back(inside_end(h, o));
  }
  for (std::int64_t o = 0; o < w.out; o += lanes) {
    RowLoads loads{.whole = true};
    for (int i = 0; i < 4; ++i) {
      const std::int64_t first = w.at(o, 0) + (by_one ? i : (i % 2) * lanes + (i / 2) * 2);
      for (int lane = 0; lane < lanes; ++lane)
        if (first + lane >= 0 && first + lane < w.in)
          loads.inside[i] = static_cast<std::uint16_t>(loads.inside[i] | 1U << lane);
      const bool read = i < 2 || (w.kernel == 3 && (i == 2 || !by_one));
      loads.whole = loads.whole && (!read || loads.inside[i] == (1U << lanes) - 1U);
    }
    loads_.push_back(loads);
  }
  kept_size_ = static_cast<std::int64_t>(loads_.size()) * lanes;
  serves_ = true;
  pairs_ = w.stride == 2 && 2 * w.out <= lanes;
}

MaxRowsCall MaxRows::call() const {
  const auto& [d, h, w] = window_.axes;
  return {.in_columns = w.in,
          .out_rows = h.out,
          .out_columns = w.out,
          .tap_columns = w.kernel,
          .pad = w.pad_begin,
          .step = w.stride,
          .pad_rows = h.pad_begin,
          .in_rows = h.in,
          .row_begin = row_begin_.data(),
          .row_end = row_end_.data(),
          .loads = loads_.data()};
}

}  // namespace etalon
