#include "kernels/conv/tap_rows.h"

#include <algorithm>

namespace etalon {
namespace {

// A channel of more bytes goes through the first cache in bands, each with so many of the input:
// they, the next band's and what is written stay there.
constexpr std::int64_t kNearBytes = 16 << 10, kBandBytes = 8 << 10;

bool is_near(const Window& window) {
  return window.in_points() * std::int64_t{sizeof(float)} <= kNearBytes;
}

// Step one: the last output lies under a row of the input, the first too.
bool fits(const WindowAxis& h) {
  return h.in > 0 && h.pad_begin >= 0 && h.pad_begin <= 2 && h.out - 1 <= h.in + h.pad_begin - 1;
}

}  // namespace

TapRows::TapRows(const Window& window, int lanes) : window_(window) {
  const auto& [d, h, w] = window_.axes;
  if (d.in != 1 || d.out != 1 || d.kernel != 1 || h.out <= 0 || w.out <= 0) return;
  if (h.kernel != w.kernel || h.stride != w.stride || h.dilation != 1 || w.dilation != 1 ||
      w.pad_begin < 0)
    return;
  const bool by_one = w.stride == 1 && w.kernel == 3 && fits(h) && (lanes == 8 || is_near(window_));
  if (!by_one && (w.stride != 2 || (w.kernel != 3 && w.kernel != 5))) return;
  narrow_ = lanes == 16 && 2 * w.out <= lanes;
  if (narrow_) lanes /= 2;
  // With the last lane idle a vector's third taps need no load of their own (tap_rows_inl.h); where
  // that takes no more vectors it is the quicker way.
  const auto vectors = [&](std::int64_t column) { return (w.out + column - 1) / column; };
  const bool idle = w.stride == 2 && w.kernel == 3 && vectors(lanes - 1) == vectors(lanes);
  column_ = idle ? lanes - 1 : lanes;
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
  // Without AVX-512 part of a vector is dear to store: the last vector of a row rather starts
  // earlier and gives some outputs a second time.
  const std::int64_t last = lanes == 8 && w.out >= column_ ? w.out - column_ : w.out;
  for (std::int64_t begin = 0; begin < w.out; begin += column_) {
    const std::int64_t first = std::min(begin, last);
    TapColumn c{.first = first};
    const std::int64_t from = w.at(first, 0);
    c.whole = true;
    for (int lane = 0; lane < lanes; ++lane) {
      for (int i = 0; i < (taps + 1) / 2 * 2; ++i)
        if (inside(from + i / 2 * 2 + i % 2 * lanes + lane)) with_lane(c.inside[i], lane);
      const bool is_output = lane < column_ && first + lane < w.out;
      c.whole = c.whole && is_output;
      if (!is_output) continue;
      with_lane(c.outputs, lane);
      for (int s = 0; s < taps; ++s) {
        const bool is_term = inside(w.at(first + lane, s));
        c.whole = c.whole && is_term;
        if (is_term) with_lane(c.taps[s], lane);
      }
    }
    columns_.push_back(c);
  }
  serves_ = true;
}

TapRowsCall TapRows::call() const {
  const auto& [d, h, w] = window_.axes;
  const std::int64_t row_bytes = w.in * std::int64_t{sizeof(float)};
  const std::int64_t band =
      is_near(window_)
          ? h.out
          : std::min(h.out, std::max<std::int64_t>(4, kBandBytes / (h.stride * row_bytes)));
  return {.in_rows = h.in,
          .in_columns = w.in,
          .out_rows = h.out,
          .out_columns = w.out,
          .pad = w.pad_begin,
          .pad_rows = h.pad_begin,
          .step = static_cast<int>(w.stride),
          .taps = static_cast<int>(w.kernel),
          .column = column_,
          .narrow = narrow_,
          .band = band,
          .x_ahead = band * h.stride * w.in,
          .y_ahead = band * w.out,
          .rows = rows_.data(),
          .columns = columns_.data()};
}

}  // namespace etalon
