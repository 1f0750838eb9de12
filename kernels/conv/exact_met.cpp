#include "kernels/conv/exact_met.h"

#include <algorithm>
#include <array>

namespace etalon {
namespace {

constexpr double kWorth = 1.15;  // of the work

bool is_met(const WindowAxis& a, std::int64_t r) {
  for (std::int64_t o = 0; o < a.out; ++o)
    if (a.at(o, r) >= 0 && a.at(o, r) < a.in) return true;
  return false;
}

double work(const ConvGeometry& g) {
  return static_cast<double>(g.window.taps()) * static_cast<double>(g.window.out_points());
}

}  // namespace

std::optional<MetLayer> met_layer(const ConvGeometry& g, const float* w) {
  MetLayer met{.outputs = MetOutputs(g, false), .g = g, .w = {}};
  met.g = met.outputs.geometry();
  std::array<std::int64_t, kMaxSpatial> first{};
  for (std::size_t i = 0; i < kMaxSpatial; ++i) {
    WindowAxis& a = met.g.window.axes[i];
    std::int64_t last = a.kernel;
    // The padding stays what it is, not less than none.
    while (first[i] + 1 < last && !is_met(a, first[i]) &&
           a.pad_begin >= (first[i] + 1) * a.dilation)
      ++first[i];
    while (last > first[i] + 1 && !is_met(a, last - 1)) --last;
    a.kernel = last - first[i];
    a.pad_begin -= first[i] * a.dilation;
    if (a.out > 0) a.pad_end = std::max<std::int64_t>(0, a.at(a.out - 1, a.kernel - 1) - a.in + 1);
  }
  if (work(met.g) * kWorth > work(g)) return std::nullopt;
  const auto& [d, h, k] = g.window.axes;
  const auto& [met_d, met_h, met_k] = met.g.window.axes;
  for (std::int64_t i = 0; i < g.out_channels * g.group_in(); ++i)
    for (std::int64_t z = 0; z < met_d.kernel; ++z)
      for (std::int64_t y = 0; y < met_h.kernel; ++y) {
        const float* row = w + ((i * d.kernel + first[0] + z) * h.kernel + first[1] + y) * k.kernel;
        met.w.insert(met.w.end(), row + first[2], row + first[2] + met_k.kernel);
      }
  return met;
}

}  // namespace etalon
