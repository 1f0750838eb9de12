// conv_transpose, gathered: each output sums the taps that meet it, in the contract's walk.
#pragma once

#include "engine/backend/definition.h"
#include "engine/ops/conv_transpose.h"

namespace etalon {
inline namespace ETALON_ISA_NAMESPACE {

struct ConvTransposeDefinition {
  static constexpr std::string_view op = "conv_transpose";
  static constexpr bool rounded_once = false;

  struct Plan {
    ConvTransposeGeometry g;
    Walk walk;
    Source x, w, b;
  };
  static Plan plan(const KernelCall& call) {
    return {conv_transpose_geometry(call.params<ConvTransposeParams>(), call.input(0).shape(),
                                    call.input(1).shape()),
            call.contract().walk, Source(call, 0), Source(call, 1), Source(call, 2)};
  }
  ETALON_HD static std::int64_t slices(const Plan& p) {
    return p.g.batch * p.g.out_channels * p.g.window.out_points();
  }

  template <class A, class Out>
  ETALON_HD static void slice(A& a, const Plan& p, std::int64_t i, Out& out) {
    const ConvTransposeGeometry& g = p.g;
    const WindowAxis &d = g.window.axes[0], &h = g.window.axes[1], &w = g.window.axes[2];
    const std::int64_t ox = i % w.out, oy = i / w.out % h.out, oz = i / (w.out * h.out) % d.out;
    const std::int64_t o = i / g.window.out_points() % g.out_channels;
    const std::int64_t n = i / (g.window.out_points() * g.out_channels);
    const std::int64_t first_channel = o / g.group_out() * g.group_in();

    typename A::Sum sum(a, g.k());
    const auto tap = [&](std::int64_t c, std::int64_t rz, std::int64_t ry, std::int64_t rx) {
      const std::int64_t z = met_input(d, oz, rz), y = met_input(h, oy, ry),
                         x = met_input(w, ox, rx);
      if (z < 0 || y < 0 || x < 0) {
        sum.skip(1);
        return;
      }
      const std::int64_t channel = first_channel + c;
      const std::int64_t xi = (((n * g.in_channels + channel) * d.in + z) * h.in + y) * w.in + x;
      const std::int64_t wi =
          (((channel * g.group_out() + o % g.group_out()) * d.kernel + rz) * h.kernel + ry) *
              w.kernel +
          rx;
      sum.add_product(a.input(p.x[xi]), a.input(p.w[wi]));
    };
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

}  // namespace ETALON_ISA_NAMESPACE
}  // namespace etalon
