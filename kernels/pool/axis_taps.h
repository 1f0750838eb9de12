// The taps of a pool's windows along one axis, found without walking the padding: a window may be
// far larger than its image.
#pragma once

#include <algorithm>
#include <vector>

#include "engine/ops/window.h"

namespace etalon {

struct AxisTaps {
  // Of one output: the taps that lie inside, which are consecutive, the coordinate under the first
  // of them, and how many lie before the end of the declared padding, and inside as well.
  struct Run {
    std::int64_t first = 0, count = 0;
    std::int64_t declared = 0, both = 0;
  };
  std::vector<Run> runs;
  std::int64_t step = 1;

  AxisTaps() = default;
  explicit AxisTaps(const WindowAxis& a) : step(a.dilation) {
    runs.reserve(static_cast<std::size_t>(a.out));
    for (std::int64_t o = 0; o < a.out; ++o) {
      const std::int64_t at = a.at(o, 0);
      const auto below = [&](std::int64_t end) {  // taps under which a coordinate before it lies
        return at >= end ? 0 : std::min(a.kernel, (end - 1 - at) / a.dilation + 1);
      };
      const std::int64_t before = below(0), inside = below(a.in),
                         declared = below(a.in + a.pad_end);
      runs.push_back({.first = at + before * a.dilation,
                      .count = std::max<std::int64_t>(0, inside - before),
                      .declared = declared,
                      .both = std::max<std::int64_t>(0, std::min(inside, declared) - before)});
    }
  }
  const Run& operator[](std::int64_t o) const { return runs[static_cast<std::size_t>(o)]; }
  std::int64_t inside() const {
    std::int64_t all = 0;
    for (const Run& r : runs) all += r.count;
    return all;
  }
};

// What the sum over three such runs is divided by: the taps inside the image and, with
// count_include_pad, those in the declared padding.
inline std::int64_t taps_counted(const AxisTaps::Run& z, const AxisTaps::Run& y,
                                 const AxisTaps::Run& x, bool count_include_pad) {
  const std::int64_t inside = z.count * y.count * x.count;
  if (!count_include_pad) return inside;
  return inside + z.declared * y.declared * x.declared - z.both * y.both * x.both;
}

}  // namespace etalon
