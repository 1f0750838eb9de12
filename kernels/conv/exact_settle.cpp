#include "kernels/conv/exact_settle.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <span>

#include "engine/core/threads.h"
#include "kernels/gemm/exact_lanes.h"
#include "kernels/gemm/exact_settle.h"

namespace etalon {
namespace {

// Outputs that are settled together, by their terms, which are to stay in the second cache.
constexpr std::int64_t kSettledTerms = 64 << 10, kMostSettled = 64;
constexpr std::int64_t kLineFloats = 16;  // of a cache line

// The inputs under outputs, in the order of w; zeros in the padding.
class Windows {
 public:
  explicit Windows(const ConvGeometry& g) : g_(g) {
    const auto& [d, h, w] = g.window.axes;
    for (std::int64_t rz = 0; rz < d.kernel; ++rz)
      for (std::int64_t ry = 0; ry < h.kernel; ++ry)
        for (std::int64_t rx = 0; rx < w.kernel; ++rx)
          offset_.push_back((rz * d.dilation * h.in + ry * h.dilation) * w.in + rx * w.dilation);
  }
  struct One {
    const float* x = nullptr;  // the group's
    std::int64_t pixel = 0;
    float* to = nullptr;
  };
  // Channel after channel for all of them: what neighbours share is then read once.
  void copy(const std::vector<One>& windows) const {
    const auto& [d, h, w] = g_.window.axes;
    const std::int64_t channels = g_.group_in(), points = g_.window.in_points(),
                       taps = g_.window.taps();
    const auto inside = [](const WindowAxis& a, std::int64_t o) {
      return a.at(o, 0) >= 0 && a.at(o, a.kernel - 1) < a.in;
    };
    std::vector<std::pair<const float*, float*>> whole;
    for (const auto& [x, pixel, to] : windows) {
      const std::int64_t ox = pixel % w.out, oy = pixel / w.out % h.out,
                         oz = pixel / (w.out * h.out);
      if (inside(d, oz) && inside(h, oy) && inside(w, ox)) {
        whole.emplace_back(x + (d.at(oz, 0) * h.in + h.at(oy, 0)) * w.in + w.at(ox, 0), to);
        continue;
      }
      float* at = to;
      for (std::int64_t c = 0; c < channels; ++c)
        for (std::int64_t rz = 0; rz < d.kernel; ++rz)
          for (std::int64_t ry = 0; ry < h.kernel; ++ry)
            for (std::int64_t rx = 0; rx < w.kernel; ++rx) {
              const std::int64_t z = d.at(oz, rz), y = h.at(oy, ry), i = w.at(ox, rx);
              const bool there = z >= 0 && z < d.in && y >= 0 && y < h.in && i >= 0 && i < w.in;
              *at++ = there ? x[((c * d.in + z) * h.in + y) * w.in + i] : 0.0F;
            }
    }
    if (w.dilation == 1 && w.kernel == 3)
      copy_runs<3>(whole, channels, points, taps);
    else if (w.dilation == 1 && w.kernel == 5)
      copy_runs<5>(whole, channels, points, taps);
    else
      copy_runs<1>(whole, channels, points, taps);
  }

 private:
  // Taps side by side in both.
  template <int run>
  void copy_runs(const std::vector<std::pair<const float*, float*>>& windows, std::int64_t channels,
                 std::int64_t points, std::int64_t taps) const {
    const std::int64_t* offset = offset_.data();
    for (std::int64_t c = 0; c < channels; ++c)
      for (const auto& [from, to] : windows)
        for (std::int64_t t = 0; t < taps; t += run)
          std::memcpy(to + c * taps + t, from + c * points + offset[t], run * sizeof(float));
  }

  const ConvGeometry& g_;
  std::vector<std::int64_t> offset_;  // of the taps
};

}  // namespace

void settle_conv(Isa isa, const ExactConv& conv, std::vector<std::int64_t>& left) {
  if (left.empty()) return;
  const auto& [g, x, w, bias, y, truth, steps, threads] = conv;
  const std::int64_t points = g.window.out_points(), k = g.k(), image = g.out_channels * points;
  // Image, group, pixel: what has one window.
  const auto key = [&](std::int64_t i) {
    return (i / image * g.groups + i / points % g.out_channels / g.group_out()) * points +
           i % points;
  };
  std::vector<std::pair<std::int64_t, std::int64_t>> keyed;  // a key is divisions: made once
  keyed.reserve(left.size());
  for (const std::int64_t i : left) keyed.emplace_back(key(i), i);
  std::ranges::sort(keyed);
  const Windows windows(g);
  std::vector<std::int64_t> rest;
  std::mutex joining;
  const auto count = static_cast<std::int64_t>(keyed.size()),
             together = std::clamp<std::int64_t>(kSettledTerms / std::max<std::int64_t>(1, k), 1,
                                                 kMostSettled);
  parallel_for(
      (count + together - 1) / together, threads, 1, [&](std::int64_t begin, std::int64_t end) {
        std::vector<float> taps(static_cast<std::size_t>(k * together));
        std::vector<Windows::One> wanted;
        std::vector<std::int64_t> mine;
        for (std::int64_t first = begin * together; first < std::min(count, end * together);
             first += together) {
          const std::span some =
              std::span(keyed).subspan(static_cast<std::size_t>(first),
                                       static_cast<std::size_t>(std::min(together, count - first)));
          wanted.clear();
          for (std::size_t i = 0; i < some.size(); ++i) {
            if (i > 0 && some[i].first == some[i - 1].first) continue;
            const std::int64_t at = some[i].second,
                               group = at / points % g.out_channels / g.group_out();
            wanted.push_back({.x = x + (at / image * g.in_channels + group * g.group_in()) *
                                           g.window.in_points(),
                              .pixel = at % points,
                              .to = taps.data() + static_cast<std::int64_t>(wanted.size()) * k});
          }
          windows.copy(wanted);
          const float* window = taps.data();
          for (std::size_t i = 0; i < some.size(); ++i) {
            if (i > 0 && some[i].first != some[i - 1].first) window += k;
            const std::int64_t at = some[i].second, o = at / points % g.out_channels;
            if (i + 1 < some.size()) {  // of any channel: the next one's weights
              const float* next = w + some[i + 1].second / points % g.out_channels * k;
              for (std::int64_t j = 0; j < k; j += kLineFloats) __builtin_prefetch(next + j);
            }
            if (!exact_settle(*exact_lanes(isa),
                              {.a = window,
                               .b = w + o * k,
                               .k = k,
                               .added = bias == nullptr ? 0.0 : static_cast<double>(bias[o]),
                               .adds = bias != nullptr,
                               .cells = steps.cells},
                              y[at], truth == nullptr ? nullptr : truth + at))
              mine.push_back(at);
          }
        }
        const std::scoped_lock lock(joining);
        rest.insert(rest.end(), mine.begin(), mine.end());
      });
  left = std::move(rest);
}

}  // namespace etalon
