// conv as a product of matrices, contract algo=im2col: what its bits are.
//
// The matrix of inputs has a row for each k = (c, r), walked as the contract says, and a column for
// each output pixel; an element that lies in the padding is +0. Each output is the sum of row times
// column in the contract's order, then the bias. So it is direct convolution but for one thing:
// padding is a term. A weight that is not finite over padding makes NaN, a sum of -0 becomes +0
// there, and in orders of lanes or blocks nothing is left out (which changes no other value).
#pragma once

#include "kernels/conv/definition.h"

namespace etalon {
inline namespace ETALON_ISA_NAMESPACE {

struct Im2colDefinition {
  static constexpr std::string_view op = "conv";
  static constexpr bool rounded_once = false;
  using Plan = ConvDefinition::Plan;

  static Plan plan(const KernelCall& call) { return ConvDefinition::plan(call); }
  ETALON_HD static std::int64_t slices(const Plan& p) { return ConvDefinition::slices(p); }

  template <class A, class Out>
  ETALON_HD static void slice(A& a, const Plan& p, std::int64_t i, Out& out) {
    const ConvGeometry& g = p.g;
    const auto& [d, h, w] = g.window.axes;
    const std::int64_t ox = i % w.out, oy = i / w.out % h.out, oz = i / (w.out * h.out) % d.out;
    const std::int64_t o = i / g.window.out_points() % g.out_channels;
    const std::int64_t n = i / (g.window.out_points() * g.out_channels);
    const std::int64_t first_channel = o / g.group_out() * g.group_in();
    const std::int64_t channels = g.group_in();
    const std::int64_t block = p.walk.kind == Walk::Kind::crs   ? 1
                               : p.walk.kind == Walk::Kind::rsc ? (channels < 1 ? 1 : channels)
                                                                : p.walk.channels;
    typename A::Sum sum(a, g.k());
    for (std::int64_t c0 = 0; c0 < channels; c0 += block)
      for (std::int64_t tap = 0; tap < g.window.taps(); ++tap)
        for (std::int64_t c = c0; c < c0 + block && c < channels; ++c) {
          const std::int64_t z = d.at(oz, tap / (h.kernel * w.kernel)),
                             y = h.at(oy, tap / w.kernel % h.kernel), x = w.at(ox, tap % w.kernel);
          const bool inside = z >= 0 && z < d.in && y >= 0 && y < h.in && x >= 0 && x < w.in;
          const std::int64_t xi =
              (((n * g.in_channels + first_channel + c) * d.in + z) * h.in + y) * w.in + x;
          sum.add_product(a.input(inside ? p.x[xi] : 0),
                          a.input(p.w[(o * channels + c) * g.window.taps() + tap]));
        }
    typename A::V y = sum.result();
    if (p.b) y = a.add(y, a.input(p.b[o]));
    out(0, i, y);
  }
};

}  // namespace ETALON_ISA_NAMESPACE
}  // namespace etalon
