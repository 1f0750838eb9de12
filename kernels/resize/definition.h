// resize, linear and cubic: per axis a few taps, their weights functions of r; axes nested, the
// last innermost. The coordinates themselves are those of engine/ops/resize.h.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "engine/backend/bits_row.h"
#include "engine/backend/definition.h"
#include "engine/backend/is_real.h"
#include "engine/ops/resize.h"

namespace etalon {
inline namespace ETALON_ISA_NAMESPACE {

// Where one output of one axis is taken.
struct ResizePlace {
  std::int64_t floor = 0;
  double r = 0;
  bool outside = false;  // extrapolated
  double spread = 0;     // how far a coordinate computed in f32 may lie from it
  double at = 0;         // the coordinate, floor + r: r itself is rounded where floor is -1
};

// The bound for any evaluation (any_order.h) has to allow for coordinates taken in f32, as most
// frameworks do, by whichever of the usual formulas: with the scale or its rounded reciprocal, the
// scale itself a rounded quotient of the sizes. With u = 2^-24 each formula of resize.h has at most
// eight roundings between the integers and c, each relative to a term of size |c| and the constants
// that are added and taken away again (1/2; half the extent; the region's begin), so that
//   |c' - c| <= gamma(8) * (|c| + those).
// A scale that is a power of two, and c = 0 where nothing is added, are exact in every formula.
inline double coordinate_spread(const ResizeParams& params, const ResizeAxis& axis, double c) {
  using enum ResizeCoordinates;
  const auto mode = params.coordinate_transformation_mode;
  const auto extent = static_cast<double>(axis.in);
  const auto two_power = [](double x) { return x > 0 && (bits_of(x) & 0x000fffffffffffffU) == 0; };
  double constants = 0;
  switch (mode) {
    case half_pixel:
    case pytorch_half_pixel:
    case tf_half_pixel_for_nn:
      if (two_power(axis.scale)) return 0;
      constants = 1;
      break;
    case asymmetric:
      if (two_power(axis.scale)) return 0;
      break;
    case align_corners:
      break;
    case half_pixel_symmetric:
      constants = 1 + 2 * extent;
      break;
    case tf_crop_and_resize:
      constants = 2 * (abs_of(axis.roi_begin) + abs_of(axis.roi_end)) * extent;
  }
  return 8.001 * 0x1p-24 * (abs_of(c) + constants);
}

// A number that is known to within e where the number system keeps errors.
template <class A>
typename A::V known_within(A& a, double x, double e) {
  typename A::V v = a.input(x);
  if constexpr (std::is_same_v<A, AnyOrder>) v.err += e;
  return v;
}

inline ResizePlace resize_place(const ResizeParams& params, const ResizeAxis& axis,
                                std::int64_t i) {
  if (!axis.changes) return {.floor = i, .at = static_cast<double>(i)};
  const double c = resize_coordinate(params, axis, i);
  // A coordinate beyond 2^52 has no fraction; the ends hold it anyway.
  const double held = c < -0x1p52 ? -0x1p52 : c > 0x1p52 ? 0x1p52 : is_nan(c) ? 0 : c;
  auto f = static_cast<std::int64_t>(held);
  if (static_cast<double>(f) > held) --f;
  const bool outside =
      params.coordinate_transformation_mode == ResizeCoordinates::tf_crop_and_resize &&
      !(c >= 0 && c <= static_cast<double>(axis.in - 1));
  return {f, held - static_cast<double>(f), outside, coordinate_spread(params, axis, held), held};
}

struct ResizeDefinition {
  static constexpr std::string_view op = "resize";
  static constexpr bool rounded_once = false;

  struct Plan {
    const ResizeParams* params;
    std::array<ResizeAxis, kMaxRank> axes;
    Shape x, y;
    std::array<std::int64_t, kMaxRank> strides;
    Source source;
    std::vector<int> moving;                       // the axes that change, outermost first
    std::vector<std::vector<ResizePlace>> places;  // by axis, for each output
  };
  static Plan plan(const KernelCall& call) {
    const auto& params = call.params<ResizeParams>();
    const std::vector<InferInput> known = known_inputs(call);
    const Shape& x = call.input(0).shape();
    Plan p{&params,
           resize_axes(params, InferInputs(known)),
           x,
           call.output(0).shape(),
           strides_of(x),
           Source(call, 0),
           {},
           {}};
    p.places.resize(static_cast<std::size_t>(x.rank()));
    if (p.y.numel() == 0) return p;  // though an axis may have any extent
    for (int i = 0; i < x.rank(); ++i) {
      const auto a = static_cast<std::size_t>(i);
      if (p.axes[a].changes) p.moving.push_back(i);
      for (std::int64_t o = 0; o < p.axes[a].out; ++o)
        p.places[a].push_back(resize_place(params, p.axes[a], o));
    }
    return p;
  }
  static std::int64_t slices(const Plan& p) { return p.y.numel(); }

  template <class A>
  static typename A::V keys_near(A& a, typename A::V t, typename A::V coeff) {  // |x| = t <= 1
    // ((c + 2) t - (c + 3)) t t + 1
    const auto two = a.constant(2.0), three = a.constant(3.0), one = a.constant(1.0);
    auto w = a.sub(a.mul(a.add(coeff, two), t), a.add(coeff, three));
    w = a.mul(a.mul(w, t), t);
    return a.add(w, one);
  }
  template <class A>
  static typename A::V keys_far(A& a, typename A::V t, typename A::V coeff) {  // 1 <= |x| = t <= 2
    // ((c t - 5 c) t + 8 c) t - 4 c
    auto w = a.sub(a.mul(coeff, t), a.mul(a.constant(5.0), coeff));
    w = a.add(a.mul(w, t), a.mul(a.constant(8.0), coeff));
    return a.sub(a.mul(w, t), a.mul(a.constant(4.0), coeff));
  }

  // Whether an output is one element, as it is.
  static bool copies(const Plan& p, int axis, const ResizePlace& place) {
    return place.r == 0 &&
           !(p.params->antialias && p.axes[static_cast<std::size_t>(axis)].scale < 1);
  }
  // The number of taps is bounded by the stretched kernel's.
  template <class A>
  struct Taps {
    std::vector<std::pair<std::int64_t, typename A::V>> all;
    void operator()(std::int64_t i, const typename A::V& w) { all.emplace_back(i, w); }
  };
  // Calls f(index, share) for each tap that takes part, index within the axis; returns what the
  // shares are to be divided by, which is their sum; nothing for 1.
  template <class A, class F>
  static std::optional<typename A::V> shares(A& a, const Plan& p, int axis,
                                             const ResizePlace& place, F&& f) {
    using V = typename A::V;
    const ResizeAxis& axis_of = p.axes[static_cast<std::size_t>(axis)];
    const bool cubic = p.params->mode == ResizeMode::cubic;
    const bool stretched = p.params->antialias && axis_of.scale < 1;
    const auto clamp = [&](std::int64_t i) {
      return i < 0 ? 0 : i >= axis_of.in ? axis_of.in - 1 : i;
    };
    if (copies(p, axis, place)) {
      f(clamp(place.floor), a.constant(1.0));
      return std::nullopt;
    }
    // Plain taps carry the coordinate's spread in sample(); here it would count each tap for
    // itself.
    const bool plain = !stretched && !p.params->exclude_outside;
    const V one = a.constant(1.0);
    V r = known_within(a, place.r, plain ? 0 : place.spread);
    if constexpr (is_real<A>) r = a.sub(a.input(place.at), a.integer(place.floor));
    const V coeff = a.constant(static_cast<double>(p.params->cubic_coeff_a));
    const double reach = cubic ? 2.0 : 1.0;
    std::int64_t first = cubic ? -1 : 0;
    if (stretched) {  // floor(-reach / scale) + 1
      const double q = reach / axis_of.scale;
      first = 1 - static_cast<std::int64_t>(q) -
              (static_cast<double>(static_cast<std::int64_t>(q)) < q ? 1 : 0);
    }
    const auto weight = [&](std::int64_t j) -> V {
      if (stretched) {
        const double distance = static_cast<double>(j) - place.r;  // exact enough to tell the sides
        V t = a.abs(a.sub(a.constant(static_cast<double>(j)), r));
        t = a.mul(t, a.constant(axis_of.scale));
        if constexpr (is_real<A>) {
          // On which piece of the kernel a tap lies is asked of the real numbers too: in f64 the
          // distance may round to a knot.
          if (!a.less(t, a.constant(reach))) return a.constant(0.0);
          if (!cubic) return a.sub(one, t);
          return a.less(one, t) ? keys_far(a, t, coeff) : keys_near(a, t, coeff);
        }
        const double size = abs_of(distance) * axis_of.scale;
        if (!cubic) return size >= 1 ? a.constant(0.0) : a.sub(one, t);
        return size <= 1  ? keys_near(a, t, coeff)
               : size < 2 ? keys_far(a, t, coeff)
                          : a.constant(0.0);
      }
      if (!cubic) return j == 0 ? a.sub(one, r) : r;
      switch (j) {
        case -1:
          return keys_far(a, a.add(r, one), coeff);
        case 0:
          return keys_near(a, r, coeff);
        case 1:
          return keys_near(a, a.sub(one, r), coeff);
        default:
          return keys_far(a, a.add(a.sub(one, r), one), coeff);
      }
    };
    const auto takes_part = [&](std::int64_t j) {
      const std::int64_t i = place.floor + j;
      return !p.params->exclude_outside || (i >= 0 && i < axis_of.in);
    };
    std::int64_t last = 1 - first;
    if (plain) {
      for (std::int64_t j = first; j <= last; ++j) f(clamp(place.floor + j), weight(j));
      return std::nullopt;
    }
    if constexpr (is_real<A>)
      if (stretched) {
        // reach / scale may have been rounded up to a whole number: a tap more, if it has a weight.
        const auto reached = [&](std::int64_t j) {
          const V t = a.abs(a.sub(a.integer(j), r));
          return a.less(a.mul(t, a.constant(axis_of.scale)), a.constant(reach));
        };
        if (reached(first - 1)) --first;
        if (reached(last + 1)) ++last;
      }
    typename A::Sum sum(a, last - first + 1);
    for (std::int64_t j = first; j <= last; ++j) {
      if (!takes_part(j)) {
        sum.skip(1);
        continue;
      }
      const V share = weight(j);
      sum.add(share);
      f(clamp(place.floor + j), share);
    }
    return sum.result();
  }
  // Calls f(index, weight) for each tap that takes part.
  template <class A, class F>
  static void taps(A& a, const Plan& p, int axis, const ResizePlace& place, F&& f) {
    Taps<A> found;
    const auto total = shares(a, p, axis, place, found);
    for (const auto& [i, share] : found.all) f(i, total ? a.div(share, *total) : share);
  }

  template <class A>
  static typename A::V sample(A& a, const Plan& p, const std::array<std::int64_t, kMaxRank>& index,
                              std::size_t level, std::int64_t at) {
    if (level == p.moving.size()) return a.input(p.source[at]);
    const int axis = p.moving[level];
    const auto i = static_cast<std::size_t>(axis);
    const ResizePlace& place = p.places[i][static_cast<std::size_t>(index[i])];
    const std::int64_t stride = p.strides[i];
    const auto spread = [&](typename A::V v) {
      if constexpr (std::is_same_v<A, AnyOrder>)
        if (place.spread > 0) v.err += slope(a, p, index, level, at) * place.spread;
      return v;
    };
    if (copies(p, axis, place)) {
      const std::int64_t in = p.axes[i].in;
      const std::int64_t f = place.floor < 0 ? 0 : place.floor >= in ? in - 1 : place.floor;
      return spread(sample(a, p, index, level + 1, at + f * stride));
    }
    Taps<A> found;
    if constexpr (is_real<A>)
      shares(a, p, axis, place, found);
    else
      taps(a, p, axis, place, found);
    typename A::Sum sum(a, static_cast<std::int64_t>(found.all.size()));
    for (const auto& [f, w] : found.all)
      sum.add_product(w, sample(a, p, index, level + 1, at + f * stride));
    return spread(sum.result());
  }

  // The largest slope of the interpolant, along the axis of this level, within the coordinate's
  // spread: linear by its differences, over the next piece too where the spread reaches it; Keys'
  // kernel by its own slope, at most 3|a + 2| + 2|a + 3|, times every element near.
  static double slope(AnyOrder& a, const Plan& p, const std::array<std::int64_t, kMaxRank>& index,
                      std::size_t level, std::int64_t at) {
    const auto i = static_cast<std::size_t>(p.moving[level]);
    const ResizePlace& place = p.places[i][static_cast<std::size_t>(index[i])];
    const std::int64_t in = p.axes[i].in;
    if ((p.params->antialias && p.axes[i].scale < 1) || p.params->exclude_outside) return 0;
    const auto element = [&](std::int64_t j) {
      j += place.floor;
      j = j < 0 ? 0 : j >= in ? in - 1 : j;
      const AnyOrder::V v = sample(a, p, index, level + 1, at + j * p.strides[i]);
      return AnyOrder::V{v.mid, a.error(v)};
    };
    const bool below = place.r <= place.spread, above = place.r >= 1 - place.spread;
    double steepest = 0;
    if (p.params->mode == ResizeMode::linear) {
      AnyOrder::V left = element(below ? -1 : 0);
      for (std::int64_t j = below ? 0 : 1; j <= (above ? 2 : 1); ++j) {
        const AnyOrder::V right = element(j);
        const double rise = abs_of(right.mid - left.mid) + right.err + left.err;
        if (!(rise <= steepest)) steepest = is_nan(rise) ? kInfinity : rise;
        left = right;
      }
      return steepest * (1 + 0x1p-18);  // the weights' own roundings, a spread farther on
    }
    const double c = static_cast<double>(p.params->cubic_coeff_a);
    for (std::int64_t j = below ? -2 : -1; j <= (above ? 3 : 2); ++j) {
      const AnyOrder::V v = element(j);
      const double size = abs_of(v.mid) + v.err;
      steepest += is_nan(size) ? kInfinity : size;
    }
    return steepest * (3 * abs_of(c + 2) + 2 * abs_of(c + 3)) * (1 + 0x1p-16);
  }

  template <class A, class Out>
  static void slice(A& a, const Plan& p, std::int64_t i, Out& out) {
    std::array<std::int64_t, kMaxRank> index{};
    std::int64_t rest = i, at = 0;
    bool outside = false;
    for (int axis = p.y.rank() - 1; axis >= 0; --axis) {
      const auto d = static_cast<std::size_t>(axis);
      index[d] = rest % p.y[axis];
      rest /= p.y[axis];
      if (!p.axes[d].changes)
        at += index[d] * p.strides[d];
      else
        outside |= p.places[d][static_cast<std::size_t>(index[d])].outside;
    }
    if (outside) {
      out(0, i, a.constant(static_cast<double>(p.params->extrapolation_value)));
      return;
    }
    typename A::V y = sample(a, p, index, 0, at);
    // Real sums take the shares and are divided once, at the end: a quotient before that is no
    // finite fraction, and a sum of such that hits a rounding boundary would be undecided forever.
    if constexpr (is_real<A>)
      for (const int axis : p.moving) {
        const auto d = static_cast<std::size_t>(axis);
        const auto total = shares(a, p, axis, p.places[d][static_cast<std::size_t>(index[d])],
                                  [](std::int64_t, const typename A::V&) {});
        if (total) y = a.div(y, *total);
      }
    out(0, i, y);
  }
};

}  // namespace ETALON_ISA_NAMESPACE
}  // namespace etalon
