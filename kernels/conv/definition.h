// conv: y[n,o,p] = round(sum over k of x * w) + b; the walk of k is the contract's. And
// conv_channels_last, the same sums of elements that lie elsewhere.
#pragma once

#include "engine/backend/definition.h"
#include "engine/ops/conv_channels_last.h"

namespace etalon {
inline namespace ETALON_ISA_NAMESPACE {

template <bool kChannelsLast>
struct ConvDefinitionOf {
  static constexpr std::string_view op = kChannelsLast ? "conv_channels_last" : "conv";
  static constexpr bool rounded_once = false;

  struct Plan {
    ConvGeometry g;
    Walk walk;
    Source x, w, b;
  };

  static Plan plan(const KernelCall& call) {
    constexpr auto kGeometry = kChannelsLast ? conv_channels_last_geometry : conv_geometry;
    return {kGeometry(call.params<ConvParams>(), call.input(0).shape(), call.input(1).shape()),
            call.contract().walk, Source(call, 0), Source(call, 1), Source(call, 2)};
  }

  // A slice is one output element, row-major over [N, O, out] or [N, out, O].
  ETALON_HD static std::int64_t slices(const Plan& p) {
    return p.g.batch * p.g.out_channels * p.g.window.out_points();
  }

  template <class A, class Out>
  ETALON_HD static void slice(A& a, const Plan& p, std::int64_t i, Out& out) {
    const ConvGeometry& g = p.g;
    const WindowAxis &d = g.window.axes[0], &h = g.window.axes[1], &w = g.window.axes[2];
    const std::int64_t at = kChannelsLast ? i / g.out_channels : i;
    const std::int64_t ox = at % w.out, oy = at / w.out % h.out, oz = at / (w.out * h.out) % d.out;
    const std::int64_t o =
        kChannelsLast ? i % g.out_channels : i / g.window.out_points() % g.out_channels;
    const std::int64_t n = i / (g.window.out_points() * g.out_channels);
    const std::int64_t first_channel = o / g.group_out() * g.group_in();

    typename A::Sum sum(a, g.k());
    const auto tap = [&](std::int64_t c, std::int64_t rz, std::int64_t ry, std::int64_t rx) {
      const std::int64_t z = d.at(oz, rz), y = h.at(oy, ry), x = w.at(ox, rx);
      if (z < 0 || z >= d.in || y < 0 || y >= h.in || x < 0 || x >= w.in) {
        sum.skip(1);
        return;
      }
      const std::int64_t channel = first_channel + c;
      const std::int64_t xi =
          kChannelsLast ? (((n * d.in + z) * h.in + y) * w.in + x) * g.in_channels + channel
                        : (((n * g.in_channels + channel) * d.in + z) * h.in + y) * w.in + x;
      const std::int64_t wi =
          (((o * g.group_in() + c) * d.kernel + rz) * h.kernel + ry) * w.kernel + rx;
      sum.add_product(a.input(p.x[xi]), a.input(p.w[wi]));
    };
    // All walks are one: blocks of channels, taps, channels of the block. crs is blocks of one
    // channel, rsc a single block of all.
    const std::int64_t block = p.walk.kind == Walk::Kind::crs ? 1
                               : p.walk.kind == Walk::Kind::rsc
                                   ? std::max<std::int64_t>(1, g.group_in())
                                   : p.walk.channels;
    for (std::int64_t c0 = 0; c0 < g.group_in(); c0 += block)
      for (std::int64_t rz = 0; rz < d.kernel; ++rz)
        for (std::int64_t ry = 0; ry < h.kernel; ++ry)
          for (std::int64_t rx = 0; rx < w.kernel; ++rx)
            for (std::int64_t c = c0; c < std::min(c0 + block, g.group_in()); ++c)
              tap(c, rz, ry, rx);
    typename A::V y = sum.result();
    if (p.b) y = a.add(y, a.input(p.b[o]));
    out(0, i, y);
  }
};

using ConvDefinition = ConvDefinitionOf<false>;
using ConvChannelsLastDefinition = ConvDefinitionOf<true>;

}  // namespace ETALON_ISA_NAMESPACE
}  // namespace etalon
