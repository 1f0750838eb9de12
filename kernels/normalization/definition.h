// Normalisations. Over the reals the formulas are taken fraction-free, by one root of a number that
// is exact and one division: with D = n x - sum x and Q = sum of D^2 + n^3 eps,
//   (x - mean) / sqrt(v + eps) = D n / sqrt(n Q).
// A root that is rational and a quotient that is a midpoint between two floats are then found
// exactly (root and quotient of exact values know when they are exact); the textbook form would
// hold them in a ball that never shrinks away from the midpoint.
#pragma once

#include <cmath>

#include "engine/backend/definition.h"
#include "engine/backend/is_real.h"
#include "engine/backend/strided.h"
#include "engine/numerics/lp_norm.h"
#include "engine/ops/normalization.h"

namespace etalon {
inline namespace ETALON_ISA_NAMESPACE {

struct BatchNormDefinition {
  static constexpr std::string_view op = "batch_norm";
  static constexpr bool rounded_once = false;

  struct Plan {
    Source x, scale, bias, mean, var;
    std::int64_t count, channels, inner;
    double eps;
  };
  static Plan plan(const KernelCall& call) {
    const auto& p = call.params<BatchNormParams>();
    const Shape& x = call.input(0).shape();
    Plan plan{Source(call, 0),           Source(call, 1), Source(call, 2),       Source(call, 3),
              Source(call, 4),           x.numel(),       call.input(1).numel(), 1,
              static_cast<double>(p.eps)};
    if (p.spatial && !(x.rank() == 1 && p.axis == 1))
      plan.inner = x.product(normalize_axis(p.axis, x.rank()) + 1, x.rank());
    return plan;
  }
  ETALON_HD static std::int64_t slices(const Plan& p) { return p.count; }

  template <class A, class Out>
  ETALON_HD static void slice(A& a, const Plan& p, std::int64_t i, Out& out) {
    const std::int64_t c = i / p.inner % p.channels;
    const auto root = a.sqrt(a.add(a.input(p.var[c]), a.constant(p.eps)));
    const auto d = a.sub(a.input(p.x[i]), a.input(p.mean[c]));
    const auto scale = a.input(p.scale[c]), bias = a.input(p.bias[c]);
    if constexpr (is_real<A>)
      out(0, i, a.add(a.div(a.mul(d, scale), root), bias));
    else
      out(0, i, a.fma(d, a.div(scale, root), bias));
  }
};

// What layer, instance, group, mean-variance and RMS normalisation share.
struct RowNormPlan {
  NormRows rows;
  Source x, scale, bias;
  double eps = 0;
  bool centre = true;       // subtract the mean
  bool divide = true;       // by the root
  bool eps_inside = true;   // sqrt(v + eps), else sqrt(v) + eps
  bool statistics = false;  // outputs 1 and 2
  // Index of scale and bias for the element at `at`.
  Shape shape;
  std::array<std::int64_t, kMaxRank> scale_strides{}, bias_strides{};
  std::int64_t by_row = 0;  // > 0: index = row % by_row
  // The elements of the row that are wanted; empty: all.
  std::vector<std::int64_t> only;

  std::int64_t length() const { return rows.length(); }
  std::int64_t first(std::int64_t row) const { return rows.firsts[static_cast<std::size_t>(row)]; }
  std::int64_t offset(std::int64_t k) const { return rows.offsets[static_cast<std::size_t>(k)]; }
  std::int64_t wanted() const {
    return only.empty() ? length() : static_cast<std::int64_t>(only.size());
  }
  std::int64_t wanted_at(std::int64_t w) const {
    return only.empty() ? w : only[static_cast<std::size_t>(w)];
  }
};

// P is RowNormPlan, or what a GPU can take of it (kernels/backends/cuda/device_plans.h).
template <class A, class P, class Out>
ETALON_HD void row_norm_slice(A& a, const P& p, std::int64_t row, Out& out) {
  using V = typename A::V;
  const std::int64_t n = p.length(), first = p.first(row);
  const auto at = [&](std::int64_t k) { return first + p.offset(k); };
  const auto x = [&](std::int64_t k) { return a.input(p.x[at(k)]); };
  const V count = a.constant(static_cast<double>(n));
  const V eps = a.constant(p.eps);

  V total = a.constant(0);
  if (p.centre) {
    typename A::Sum sum(a, n);
    for (std::int64_t k = 0; k < n; ++k) sum.add(x(k));
    total = sum.result();
  }
  V mean = p.centre ? a.div(total, count) : a.constant(0);
  if constexpr (requires { a.closed(mean); }) mean = a.closed(mean);
  // Over the reals n times the distance from the mean.
  const auto distance = [&](std::int64_t k) {
    if constexpr (is_real<A>)
      return p.centre ? a.sub(a.mul(count, x(k)), total) : a.mul(count, x(k));
    else
      return p.centre ? a.sub(x(k), mean) : x(k);
  };
  V root = a.constant(1);
  if (p.divide) {
    V square_sum = a.constant(0);
    // A number system may know what the distances from one mean share.
    constexpr bool kShared = requires { typename A::SquaredDistances; };
    if constexpr (kShared) {
      if (p.centre) {
        typename A::SquaredDistances squares(a, mean);
        for (std::int64_t k = 0; k < n; ++k) squares.add(x(k));
        square_sum = squares.result();
      }
    }
    if (!kShared || !p.centre) {
      typename A::Sum squares(a, n);
      for (std::int64_t k = 0; k < n; ++k) {
        const V d = distance(k);
        squares.add_product(d, d);
      }
      square_sum = squares.result();
    }
    if constexpr (is_real<A>) {
      // n^2 times the root of the definition.
      const V n2 = a.mul(count, count);
      const V inside = p.eps_inside ? a.add(square_sum, a.mul(a.mul(n2, count), eps)) : square_sum;
      root = a.sqrt(a.mul(count, inside));
      if (!p.eps_inside) root = a.add(root, a.mul(n2, eps));
    } else {
      const V v = a.div(square_sum, count);
      root = p.eps_inside ? a.sqrt(a.add(v, eps)) : a.add(a.sqrt(v), eps);
    }
  }
  const auto affine = [&](const Source& s, const std::array<std::int64_t, kMaxRank>& strides,
                          std::int64_t index) {
    return a.input(s[p.by_row > 0 ? row % p.by_row : strided_offset(index, p.shape, strides)]);
  };
  for (std::int64_t w = 0; w < p.wanted(); ++w) {
    const std::int64_t k = p.wanted_at(w), i = at(k);
    V y = distance(k);
    const V scale = p.scale ? affine(p.scale, p.scale_strides, i) : a.constant(1);
    if constexpr (is_real<A>) {
      y = p.divide ? a.div(a.mul(a.mul(y, count), scale), root) : a.div(a.mul(y, scale), count);
      if (p.bias) y = a.add(y, affine(p.bias, p.bias_strides, i));
    } else {
      if (p.divide) y = a.div(y, root);
      if (p.bias)
        y = a.fma(y, scale, affine(p.bias, p.bias_strides, i));
      else if (p.scale)
        y = a.mul(y, scale);
    }
    out(0, i, y);
  }
  if (p.statistics) {
    out(1, row, mean);
    if constexpr (is_real<A>)
      out(2, row, a.div(a.mul(count, count), root));
    else
      out(2, row, a.div(a.constant(1), root));
  }
}

template <class F>
struct RowNormDefinition {
  static constexpr std::string_view op = F::op;
  static constexpr bool rounded_once = false;
  using Plan = RowNormPlan;
  static Plan plan(const KernelCall& call) {
    Plan p = F::plan(call);
    p.x = Source(call, 0);
    p.scale = Source(call, 1);
    p.bias = Source(call, 2);
    p.shape = call.input(0).shape();
    return p;
  }
  static std::int64_t slices(const Plan& p) { return p.rows.length() == 0 ? 0 : p.rows.rows; }
  template <class A, class P, class Out>
  ETALON_HD static void slice(A& a, const P& p, std::int64_t row, Out& out) {
    row_norm_slice(a, p, row, out);
  }
};

// Strides of a [C] operand over x [N,C,...].
inline std::array<std::int64_t, kMaxRank> channel_strides() { return {0, 1}; }
inline std::array<std::int64_t, kMaxRank> affine_strides(const KernelCall& call, std::size_t i) {
  return call.has(i) ? broadcast_strides(call.input(i).shape(), call.input(0).shape())
                     : std::array<std::int64_t, kMaxRank>{};
}

struct LayerNorm {
  static constexpr std::string_view op = "layer_norm";
  static RowNormPlan plan(const KernelCall& call) {
    const auto& p = call.params<LayerNormParams>();
    RowNormPlan plan{.rows = norm_rows_from(call.input(0).shape(), p.axis)};
    plan.eps = static_cast<double>(p.eps);
    plan.statistics = p.statistics;
    plan.scale_strides = affine_strides(call, 1);
    plan.bias_strides = affine_strides(call, 2);
    return plan;
  }
};

struct InstanceNorm {
  static constexpr std::string_view op = "instance_norm";
  static RowNormPlan plan(const KernelCall& call) {
    const Shape& x = call.input(0).shape();
    RowNormPlan plan{.rows = norm_rows_of_groups(x, x[1])};
    plan.eps = static_cast<double>(call.params<InstanceNormParams>().eps);
    plan.by_row = x[1];
    return plan;
  }
};

struct GroupNorm {
  static constexpr std::string_view op = "group_norm";
  static RowNormPlan plan(const KernelCall& call) {
    const auto& p = call.params<GroupNormParams>();
    RowNormPlan plan{.rows = norm_rows_of_groups(call.input(0).shape(), p.groups)};
    plan.eps = static_cast<double>(p.eps);
    if (p.scale_per_group) plan.by_row = p.groups;
    plan.scale_strides = plan.bias_strides = channel_strides();
    return plan;
  }
};

struct MeanVariance {
  static constexpr std::string_view op = "mean_variance_normalization";
  static RowNormPlan plan(const KernelCall& call) {
    const auto& p = call.params<MeanVarianceParams>();
    RowNormPlan plan{.rows = norm_rows_over(call.input(0).shape(), p.axes)};
    plan.eps = static_cast<double>(p.eps);
    plan.eps_inside = false;
    plan.divide = p.normalize_variance;
    return plan;
  }
};

struct RmsNorm {
  static constexpr std::string_view op = "rms_norm";
  static RowNormPlan plan(const KernelCall& call) {
    const auto& p = call.params<RmsNormParams>();
    RowNormPlan plan{.rows = norm_rows_from(call.input(0).shape(), p.axis)};
    plan.eps = static_cast<double>(p.eps);
    plan.centre = false;
    plan.scale_strides = affine_strides(call, 1);
    return plan;
  }
};

struct LpNormDefinition {
  static constexpr std::string_view op = "lp_norm";
  static constexpr bool rounded_once = false;

  struct Plan {
    NormRows rows;
    Source x;
    double p, eps;
    NormEps eps_in;
  };
  static Plan plan(const KernelCall& call) {
    const auto& p = call.params<LpNormParams>();
    return {norm_rows_over(call.input(0).shape(), p.axes), Source(call, 0),
            static_cast<double>(p.p), static_cast<double>(p.eps), p.eps_in};
  }
  static std::int64_t slices(const Plan& p) { return p.rows.length() == 0 ? 0 : p.rows.rows; }

  // A row whose largest element says all of its norm, over the reals; false of other rows.
  template <class A, class At, class Out>
  static bool by_largest(A& a, const Plan& p, std::int64_t n, const At& at, Out& out) {
    LpElements elements;
    for (std::int64_t k = 0; k < n; ++k) elements.take(p.x[at(k)]);
    const bool sum_is_larger = p.eps_in == NormEps::sum_max &&
                               p.p * (std::log2(elements.largest()) - 1e-12) > std::log2(p.eps) + 1;
    if (p.eps != 0 && p.eps_in != NormEps::norm_max && !sum_is_larger) return false;
    const bool single = elements.single();
    if (!single && !elements.outweighed(p.p)) return false;
    // The norm lies nearer to the largest than the next double does.
    const bool by_eps = p.eps_in == NormEps::norm_max && p.eps > elements.largest();
    const typename A::V divisor = a.input(by_eps ? p.eps : elements.largest());
    for (std::int64_t k = 0; k < n; ++k) {
      const typename A::V q = a.div(a.input(p.x[at(k)]), divisor);
      out(0, at(k), single || by_eps ? q : LpBeside<A>::of(a, q, -1));
    }
    return true;
  }

  template <class A, class Out>
  static void slice(A& a, const Plan& p, std::int64_t row, Out& out) {
    using V = typename A::V;
    const std::int64_t n = p.rows.length(), first = p.rows.firsts[static_cast<std::size_t>(row)];
    const auto at = [&](std::int64_t k) {
      return first + p.rows.offsets[static_cast<std::size_t>(k)];
    };
    double divisor = 1;
    if constexpr (is_real<A>) {
      if (by_largest(a, p, n, at, out)) return;
      if (LpScale::matters(p.p) && p.eps == 0) {
        LpScale scale;
        for (std::int64_t k = 0; k < n; ++k) scale.take(p.x[at(k)]);
        divisor = scale.divisor();
      }
    }
    typename A::Sum sum(a, n);
    bool all_zero = true;
    for (std::int64_t k = 0; k < n; ++k) {
      const double element = p.x[at(k)];
      all_zero = all_zero && element == 0;
      const V x = a.input(element / divisor);  // exact
      if (p.p == 2)
        sum.add_product(x, x);
      else if (p.p == 1)
        sum.add(a.abs(x));
      else
        sum.add(lp_power(a, a.abs(x), p.p));
    }
    V norm = sum.result();
    const V eps = a.constant(p.eps);
    if (p.eps_in == NormEps::sum_max) norm = a.max(norm, eps);
    if (p.eps_in == NormEps::sum_add) norm = a.add(norm, eps);
    if (p.p == 2)
      norm = a.sqrt(norm);
    else if (p.p != 1)
      norm = lp_root(a, norm, p.p);
    if (p.eps_in == NormEps::norm_max) norm = a.max(norm, eps);
    bool zero = all_zero && p.eps == 0;
    if constexpr (!is_real<A>) zero = a.equal(norm, a.constant(0));
    for (std::int64_t k = 0; k < n; ++k) {
      const double x = p.x[at(k)];
      out(0, at(k),
          zero ? a.constant(with_sign(0, sign_bit(x))) : a.div(a.input(x / divisor), norm));
    }
  }
};

struct LrnDefinition {
  static constexpr std::string_view op = "lrn";
  static constexpr bool rounded_once = false;

  struct Plan {
    Source x;
    std::int64_t count, channels, inner, below, above;
    LrnParams params;
  };
  static Plan plan(const KernelCall& call) {
    const auto& p = call.params<LrnParams>();
    const Shape& x = call.input(0).shape();
    std::int64_t below = (p.size - 1) / 2, above = p.size / 2;
    if (p.longer_below) std::swap(below, above);
    return {Source(call, 0), x.numel(), x[1], x.product(2, x.rank()), below, above, p};
  }
  ETALON_HD static std::int64_t slices(const Plan& p) { return p.count; }

  template <class A, class Out>
  ETALON_HD static void slice(A& a, const Plan& p, std::int64_t i, Out& out) {
    using V = typename A::V;
    const std::int64_t c = i / p.inner % p.channels;
    typename A::Sum sum(a, p.params.size);
    for (std::int64_t d = -p.below; d <= p.above; ++d) {
      if (c + d < 0 || c + d >= p.channels) {
        sum.skip(1);
        continue;
      }
      const V x = a.input(p.x[i + d * p.inner]);
      sum.add_product(x, x);
    }
    const V s = sum.result(), x = a.input(p.x[i]);
    const V alpha = a.constant(static_cast<double>(p.params.alpha));
    const V bias = a.constant(static_cast<double>(p.params.bias));
    const V beta = a.constant(static_cast<double>(p.params.beta));
    const V size = a.constant(static_cast<double>(p.params.alpha_divided ? p.params.size : 1));
    if constexpr (is_real<A>) {
      // N = size * base, exact. A power of small k / 2^s can meet a midpoint and goes by roots of
      // exact numbers: with c the ceiling of beta and m = c 2^s - k,
      //   x / (N/size)^beta = x size^c / (size^m N^k)^(1/2^s).
      // A square root of exact values knows when it is exact; of 2^s-th roots either all steps are,
      // or the result is irrational and no midpoint.
      const V n = a.fma(alpha, s, a.mul(bias, size));
      const auto power = [&](const V& of, int exponent) {
        V y = a.constant(1);
        for (int k = 0; k < exponent; ++k) y = a.mul(y, of);
        return y;
      };
      constexpr int kMostSquareRoots = 4;
      constexpr double kMostFactors = 16;
      double k = static_cast<double>(p.params.beta);
      int roots = 0;
      while (roots < kMostSquareRoots && k != floor_f64(k)) {
        k *= 2;
        ++roots;
      }
      if (k > 0 && k <= kMostFactors && k == floor_f64(k)) {
        const int factors = static_cast<int>(k), unit = 1 << roots;
        const int whole = (factors + unit - 1) / unit;
        V divisor = a.mul(power(size, whole * unit - factors), power(n, factors));
        for (int i_root = 0; i_root < roots; ++i_root) divisor = a.sqrt(divisor);
        out(0, i, a.div(a.mul(x, power(size, whole)), divisor));
      } else {
        out(0, i, a.div(x, a.pow(a.div(n, size), beta)));
      }
    } else {
      const V base = a.fma(p.params.alpha_divided ? a.div(alpha, size) : alpha, s, bias);
      out(0, i, a.div(x, a.pow(base, beta)));
    }
  }
};

}  // namespace ETALON_ISA_NAMESPACE
}  // namespace etalon
