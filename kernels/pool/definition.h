// Pools: one output is one slice; the window's taps are walked row-major.
#pragma once

#include "engine/backend/definition.h"
#include "engine/numerics/lp_norm.h"
#include "engine/ops/pool.h"

namespace etalon {
inline namespace ETALON_ISA_NAMESPACE {

struct PoolPoint {
  std::int64_t plane, z, y, x;  // of the output
};

ETALON_HD inline PoolPoint pool_point(const PoolGeometry& g, std::int64_t i) {
  const auto& [d, h, w] = g.window.axes;
  return {i / g.window.out_points(), i / (w.out * h.out) % d.out, i / w.out % h.out, i % w.out};
}

// inside(index of the element in x, its coordinates) or outside(is the tap within the declared
// padding), tap by tap.
template <class Inside, class Outside>
ETALON_HD void walk_taps(const PoolGeometry& g, const PoolPoint& o, const Inside& inside,
                         const Outside& outside) {
  const auto& [d, h, w] = g.window.axes;
  const auto declared = [](const WindowAxis& a, std::int64_t at) { return at < a.in + a.pad_end; };
  for (std::int64_t rz = 0; rz < d.kernel; ++rz)
    for (std::int64_t ry = 0; ry < h.kernel; ++ry)
      for (std::int64_t rx = 0; rx < w.kernel; ++rx) {
        const std::int64_t z = d.at(o.z, rz), y = h.at(o.y, ry), x = w.at(o.x, rx);
        if (z >= 0 && z < d.in && y >= 0 && y < h.in && x >= 0 && x < w.in)
          inside(((o.plane * d.in + z) * h.in + y) * w.in + x);
        else
          outside(declared(d, z) && declared(h, y) && declared(w, x));
      }
}

// Max pooling compares the stored elements, so that any format of the output finds the same one.
template <bool Global>
struct MaxPoolDefinition {
  static constexpr std::string_view op = Global ? "global_max_pool" : "max_pool";
  static constexpr bool rounded_once = true;

  struct Plan {
    PoolGeometry g;
    Source x;
    DType dtype;
    PoolIndices indices = PoolIndices::none;
    bool column_major = false;
    std::int64_t lowest = 0;  // of an integer type
  };
  static Plan plan(const KernelCall& call) {
    const Tensor& x = call.input(0);
    if constexpr (Global) {
      return {.g = global_pool_geometry(x.shape()),
              .x = Source(call, 0),
              .dtype = x.dtype(),
              .lowest = lowest(x.dtype())};
    } else {
      const auto& p = call.params<MaxPoolParams>();
      return {pool_geometry(p, x.shape()),
              Source(call, 0),
              x.dtype(),
              p.indices,
              p.column_major,
              lowest(x.dtype())};
    }
  }
  ETALON_HD static std::int64_t slices(const Plan& p) { return p.g.points(); }

  template <class A, class Out>
  ETALON_HD static void slice(A& a, const Plan& p, std::int64_t i, Out& out) {
    std::int64_t best = -1;
    double value = -kInfinity;
    walk_taps(
        p.g, pool_point(p.g, i),
        [&](std::int64_t at) {
          const double x = p.x[at];
          if (best >= 0 && (is_nan(value) || (!is_nan(x) && !(x > value)))) return;
          best = at;
          value = x;
        },
        [](bool) {});
    if (is_floating(p.dtype))
      out(0, i, a.input(value));
    else
      out.integer(0, i, best < 0 ? p.lowest : static_cast<std::int64_t>(value));
    if (p.indices != PoolIndices::none) out.integer(1, i, best < 0 ? -1 : position(p, best));
  }

 private:
  static std::int64_t lowest(DType dtype) {
    if (is_floating(dtype)) return 0;
    const int bits = size_bytes(dtype) * 8;
    return info(dtype).kind == DTypeClass::signed_integer
               ? std::numeric_limits<std::int64_t>::min() >> (64 - bits)
               : 0;
  }
  ETALON_HD static std::int64_t position(const Plan& p, std::int64_t at) {
    const auto& [d, h, w] = p.g.window.axes;
    const std::int64_t plane = at / p.g.window.in_points();
    std::int64_t local = at % p.g.window.in_points();
    if (p.column_major) {
      const std::int64_t x = local % w.in, y = local / w.in % h.in, z = local / (w.in * h.in);
      local = (x * h.in + y) * d.in + z;
    }
    return p.indices == PoolIndices::plane ? local : plane * p.g.window.in_points() + local;
  }
};

template <bool Global>
struct AvgPoolDefinition {
  static constexpr std::string_view op = Global ? "global_avg_pool" : "avg_pool";
  static constexpr bool rounded_once = false;

  struct Plan {
    PoolGeometry g;
    Source x;
    bool count_include_pad = false;
    std::int64_t divisor_override = 0;
  };
  static Plan plan(const KernelCall& call) {
    const Shape& x = call.input(0).shape();
    if constexpr (Global) {
      return {global_pool_geometry(x), Source(call, 0)};
    } else {
      const auto& p = call.params<AvgPoolParams>();
      return {pool_geometry(p, x), Source(call, 0), p.count_include_pad, p.divisor_override};
    }
  }
  ETALON_HD static std::int64_t slices(const Plan& p) { return p.g.points(); }

  template <class A, class Out>
  ETALON_HD static void slice(A& a, const Plan& p, std::int64_t i, Out& out) {
    typename A::Sum sum(a, p.g.window.taps());
    std::int64_t count = 0;
    walk_taps(
        p.g, pool_point(p.g, i),
        [&](std::int64_t at) {
          sum.add(a.input(p.x[at]));
          ++count;
        },
        [&](bool declared) {
          sum.skip(1);
          if (p.count_include_pad && declared) ++count;
        });
    if (p.divisor_override != 0) count = p.divisor_override;
    out(0, i, a.div(sum.result(), a.constant(static_cast<double>(count))));
  }
};

template <bool Global>
struct LpPoolDefinition {
  static constexpr std::string_view op = Global ? "global_lp_pool" : "lp_pool";
  static constexpr bool rounded_once = false;

  struct Plan {
    PoolGeometry g;
    Source x;
    double p;
  };
  static Plan plan(const KernelCall& call) {
    const Shape& x = call.input(0).shape();
    if constexpr (Global) {
      return {global_pool_geometry(x), Source(call, 0),
              static_cast<double>(call.params<GlobalLpPoolParams>().p)};
    } else {
      const auto& p = call.params<LpPoolParams>();
      return {pool_geometry(p, x), Source(call, 0), static_cast<double>(p.p)};
    }
  }
  ETALON_HD static std::int64_t slices(const Plan& p) { return p.g.points(); }

  template <class A, class Out>
  ETALON_HD static void slice(A& a, const Plan& p, std::int64_t i, Out& out) {
    double divisor = 1;
    if constexpr (is_real<A>) {
      LpScale scale;
      LpElements elements;
      walk_taps(
          p.g, pool_point(p.g, i),
          [&](std::int64_t at) {
            scale.take(p.x[at]);
            elements.take(p.x[at]);
          },
          [](bool) {});
      if (LpScale::matters(p.p)) divisor = scale.divisor();
      const bool single = elements.single();
      if (single || elements.outweighed(p.p)) {
        const typename A::V largest = a.input(elements.largest());
        out(0, i, single ? largest : LpBeside<A>::of(a, largest, 1));
        return;
      }
    }
    typename A::Sum sum(a, p.g.window.taps());
    walk_taps(
        p.g, pool_point(p.g, i),
        [&](std::int64_t at) {
          const typename A::V x = a.input(p.x[at] / divisor);  // exact
          if (p.p == 2)
            sum.add_product(x, x);
          else if (p.p == 1)
            sum.add(a.abs(x));
          else
            sum.add(lp_power(a, a.abs(x), p.p));
        },
        [&](bool) { sum.skip(1); });
    typename A::V y = sum.result();
    if (p.p == 2)
      y = a.sqrt(y);
    else if (p.p != 1)
      y = lp_root(a, y, p.p);
    if (divisor != 1) y = a.mul(y, a.constant(divisor));
    out(0, i, y);
  }
};

}  // namespace ETALON_ISA_NAMESPACE
}  // namespace etalon
