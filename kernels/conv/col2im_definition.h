// col2im, gathered: each point of the image sums the taps that meet it, row-major.
#pragma once

#include "engine/backend/bits_row.h"
#include "engine/backend/definition.h"
#include "engine/ops/col2im.h"

namespace etalon {
inline namespace ETALON_ISA_NAMESPACE {

struct Col2ImDefinition {
  static constexpr std::string_view op = "col2im";
  static constexpr bool rounded_once = false;

  struct Plan {
    Col2ImGeometry g;
    Source x;
  };
  static Plan plan(const KernelCall& call) {
    const std::vector<InferInput> known = known_inputs(call);
    return {col2im_geometry(call.params<Col2ImParams>(), InferInputs(known)), Source(call, 0)};
  }

  // A slice is one point, row-major over [N, C, image].
  ETALON_HD static std::int64_t slices(const Plan& p) {
    return p.g.batch * p.g.channels * p.g.window.in_points();
  }

  // The window that has point p under its tap r, or -1.
  ETALON_HD static std::int64_t window_over(const WindowAxis& a, std::int64_t p, std::int64_t r) {
    const std::int64_t at = p + a.pad_begin - r * a.dilation;
    return at < 0 || at % a.stride != 0 || at / a.stride >= a.out ? -1 : at / a.stride;
  }

  template <class A, class Out>
  ETALON_HD static void slice(A& a, const Plan& p, std::int64_t i, Out& out) {
    const auto& [d, h, w] = p.g.window.axes;
    const std::int64_t px = i % w.in, py = i / w.in % h.in, pz = i / (w.in * h.in) % d.in;
    const std::int64_t channel = i / p.g.window.in_points();  // of all samples
    typename A::Sum sum(a, p.g.window.taps());
    for (std::int64_t rz = 0; rz < d.kernel; ++rz)
      for (std::int64_t ry = 0; ry < h.kernel; ++ry)
        for (std::int64_t rx = 0; rx < w.kernel; ++rx) {
          const std::int64_t z = window_over(d, pz, rz), y = window_over(h, py, ry),
                             x = window_over(w, px, rx);
          if (z < 0 || y < 0 || x < 0) {
            sum.skip(1);
            continue;
          }
          const std::int64_t tap = (rz * h.kernel + ry) * w.kernel + rx;
          const std::int64_t row = channel * p.g.window.taps() + tap;
          sum.add(a.input(p.x[row * p.g.window.out_points() + (z * h.out + y) * w.out + x]));
        }
    out(0, i, sum.result());
  }
};

}  // namespace ETALON_ISA_NAMESPACE
}  // namespace etalon
