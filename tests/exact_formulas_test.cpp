// Claim: as exact_ops_test, for ops of more than one row: losses with their reduction, Lp pools,
// linear and cubic resize, transposed convolution. Under `exact` each output is the real value of
// the formula rounded once, in four modes and three formats, on hostile rows. The oracle is the
// formula in MPFR at 3000 bits.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "engine/graph/executor.h"
#include "engine/numerics/element.h"
#include "kernels/kernels.h"
#include "tests/hostile_rows.h"
#include "tests/mpfr_number.h"
#include "tests/op_cases.h"

using namespace etalon;

namespace {

using Row = std::vector<Number>;
Number whole(std::int64_t n) { return {static_cast<double>(n)}; }
Number larger(const Number& a, const Number& b) { return a < b ? b : a; }
// Far below what any format can tell from zero; see exact_ops_test.
Number far_exp(const Number& d) { return exp(d < Number(-1200.0) ? Number(-1200.0) : d); }
Number log1p(const Number& a) { return Number::unary(mpfr_log1p, a); }

// How the second operand is made from a hostile row, and what becomes of the first.
enum class Second { same, signs, share, labels, weights };
enum class First { as_is, share };  // share: in (0, 1)

struct Claim {
  const char* op;
  const char* params;
  First first;
  Second second;
  std::function<Row(const Row& x, const Row& t)> formula;
};

Row mean(const Row& terms) {
  Number s;
  for (const Number& v : terms) s = s + v;
  return {s / whole(static_cast<std::int64_t>(terms.size()))};
}
Row total(const Row& terms) {
  Number s;
  for (const Number& v : terms) s = s + v;
  return {s};
}
Row each(const Row& x, const Row& t, const std::function<Number(const Number&, const Number&)>& f) {
  Row y;
  for (std::size_t i = 0; i < x.size(); ++i) y.push_back(f(x[i], t[i]));
  return y;
}
Number square(const Number& a) { return a * a; }
Number bounded_log(const Number& a) {
  return a.is_zero() ? Number(-100) : larger(log(a), Number(-100));
}

const std::vector<Claim>& claims() {
  static const auto mse = [](const Number& x, const Number& t) { return square(x - t); };
  static const auto huber = [](const Number& x, const Number& t) {
    const Number d = abs(x - t), delta(0.5);
    return delta < d ? delta * (d - delta / Number(2)) : d * d / Number(2);
  };
  static const auto smooth = [](const Number& x, const Number& t) {
    const Number d = abs(x - t), beta(0.25);
    return d < beta ? d * d / (Number(2) * beta) : d - beta / Number(2);
  };
  static const auto hinge = [](const Number& x, const Number& t) {
    return larger(Number(0), Number(1) - t * x);
  };
  static const auto bce = [](const Number& x, const Number& t) {
    return -(t * bounded_log(x) + (Number(1) - t) * bounded_log(Number(1) - x));
  };
  static const auto logits = [](const Number& x, const Number& t) {
    return larger(x, Number(0)) - x * t + log1p(far_exp(-abs(x)));
  };
  static const auto kl = [](const Number& x, const Number& t) {
    return t.is_zero() ? Number(0) : t * (log(t) - x);
  };
  static const std::vector<Claim> all = {
      {"mse_loss", "reduction=mean", First::as_is, Second::same,
       [](const Row& x, const Row& t) { return mean(each(x, t, mse)); }},
      {"mse_loss", "reduction=sum", First::as_is, Second::same,
       [](const Row& x, const Row& t) { return total(each(x, t, mse)); }},
      {"l1_loss", "reduction=mean", First::as_is, Second::same,
       [](const Row& x, const Row& t) {
         return mean(each(x, t, [](const Number& a, const Number& b) { return abs(a - b); }));
       }},
      {"huber_loss", "reduction=mean delta=0.5", First::as_is, Second::same,
       [](const Row& x, const Row& t) { return mean(each(x, t, huber)); }},
      {"smooth_l1_loss", "reduction=sum beta=0.25", First::as_is, Second::same,
       [](const Row& x, const Row& t) { return total(each(x, t, smooth)); }},
      {"hinge_loss", "reduction=mean", First::as_is, Second::signs,
       [](const Row& x, const Row& t) { return mean(each(x, t, hinge)); }},
      {"hinge_loss", "reduction=sum squared=true", First::as_is, Second::signs,
       [](const Row& x, const Row& t) {
         Row y = each(x, t, hinge);
         for (Number& v : y) v = v * v;
         return total(y);
       }},
      {"binary_cross_entropy", "reduction=none", First::share, Second::share,
       [](const Row& x, const Row& t) { return each(x, t, bce); }},
      {"binary_cross_entropy", "reduction=mean", First::share, Second::share,
       [](const Row& x, const Row& t) { return mean(each(x, t, bce)); }},
      {"binary_cross_entropy_with_logits", "reduction=none", First::as_is, Second::share,
       [](const Row& x, const Row& t) { return each(x, t, logits); }},
      {"kl_div_loss", "reduction=mean", First::as_is, Second::share,
       [](const Row& x, const Row& t) { return mean(each(x, t, kl)); }},
      {"nll_loss", "reduction=none", First::as_is, Second::labels,
       [](const Row& x, const Row& t) {
         return Row{-x[static_cast<std::size_t>(t[0].rounded(DType::f64))]};
       }},
      {"softmax_cross_entropy", "reduction=mean", First::as_is, Second::labels,
       [](const Row& x, const Row& t) {
         Number m = x[0];
         for (const Number& v : x) m = larger(m, v);
         Number rest;
         bool seen = false;
         for (const Number& v : x)
           if (!seen && !(v < m))
             seen = true;
           else
             rest = rest + far_exp(v - m);
         return Row{(m - x[static_cast<std::size_t>(t[0].rounded(DType::f64))]) + log1p(rest)};
       }},
      {"lp_pool", "kernel=[3] p=2 pads_begin=[1]", First::as_is, Second::same,
       [](const Row& x, const Row&) {
         Row y;
         for (std::size_t o = 0; o + 2 < x.size() + 1; ++o) {
           Number s;
           for (std::size_t k = 0; k < 3; ++k)
             if (o + k >= 1 && o + k - 1 < x.size()) s = s + square(x[o + k - 1]);
           y.push_back(sqrt(s));
         }
         return y;
       }},
      {"lp_pool", "kernel=[2] p=3", First::as_is, Second::same,
       [](const Row& x, const Row&) {
         Row y;
         for (std::size_t o = 0; o + 1 < x.size(); ++o) {
           const Number a = abs(x[o]), b = abs(x[o + 1]);
           y.push_back(Number::unary(mpfr_cbrt, a * a * a + b * b * b));
         }
         return y;
       }},
      {"resize", "mode=linear coordinate_transformation_mode=asymmetric scales=[1,1,4]",
       First::as_is, Second::same,
       [](const Row& x, const Row&) {
         Row y;
         for (std::size_t i = 0; i < 4 * x.size(); ++i) {
           const Number r(static_cast<double>(i % 4) / 4);
           const std::size_t f = i / 4, g = std::min(f + 1, x.size() - 1);
           y.push_back((Number(1) - r) * x[f] + r * x[g]);
         }
         return y;
       }},
      {"resize", "mode=cubic coordinate_transformation_mode=asymmetric scales=[1,1,2]",
       First::as_is, Second::same,
       [](const Row& x, const Row&) {
         // Keys' kernel with a = -3/4 at 1/2: -3/32, 19/32, 19/32, -3/32.
         const auto at = [&](std::int64_t i) {
           return x[static_cast<std::size_t>(
               std::clamp<std::int64_t>(i, 0, static_cast<std::int64_t>(x.size()) - 1))];
         };
         Row y;
         for (std::int64_t i = 0; i < 2 * static_cast<std::int64_t>(x.size()); ++i) {
           const std::int64_t f = i / 2;
           y.push_back(i % 2 == 0 ? at(f)
                                  : (Number(19) * (at(f) + at(f + 1)) -
                                     Number(3) * (at(f - 1) + at(f + 2))) /
                                        Number(32));
         }
         return y;
       }},
      {"conv_transpose", "strides=[1]", First::as_is, Second::weights,
       [](const Row& x, const Row& t) {  // x [1,1,n], w [1,1,n]
         const std::size_t n = x.size();
         Row y(2 * n - 1);
         for (std::size_t i = 0; i < n; ++i)
           for (std::size_t k = 0; k < n; ++k) y[i + k] = y[i + k] + x[i] * t[k];
         return y;
       }},
  };
  return all;
}

// In (0, 1), kept away from both ends and from what f16 and bf16 cannot hold.
float share(float v) { return 0.03125F + 0.9375F * std::fabs(v) / (1 + std::fabs(v)); }

bool compare(const Claim& claim, Hostile kind, std::int64_t n, std::uint64_t seed, DType store,
             Round mode) {
  std::vector<float> x = hostile_row(kind, n, seed), t = hostile_row(kind, n, seed + 100);
  const auto usable = [](float v) { return std::isfinite(v); };
  if (!std::ranges::all_of(x, usable) || !std::ranges::all_of(t, usable)) return false;
  if (claim.first == First::share)
    for (float& v : x) v = std::isfinite(v) && std::fabs(v) < 0x1p100F ? share(v) : 0.5F;
  for (std::size_t i = 0; i < t.size(); ++i) switch (claim.second) {
      case Second::signs:
        t[i] = i % 3 == 0 ? -1.0F : 1.0F;
        break;
      case Second::share:
        t[i] = std::fabs(t[i]) < 0x1p100F ? share(t[i]) : 0.25F;
        break;
      default:
        break;
    }
  const std::string_view op = claim.op;
  const bool labels = claim.second == Second::labels;
  const bool windows = op == "lp_pool" || op == "resize" || claim.second == Second::weights;
  const Shape shape = windows ? Shape{1, 1, n} : labels ? Shape{1, n} : Shape{n};
  // What is stored in the narrow formats is what the op is given.
  const auto stored = [&](std::vector<float>& v) {
    for (float& e : v) e = static_cast<float>(round_to(static_cast<double>(e), store));
  };
  stored(x);
  stored(t);
  if (!std::ranges::all_of(x, usable) || !std::ranges::all_of(t, usable)) return false;
  Row a, b;
  for (const float v : x) a.emplace_back(static_cast<double>(v));
  for (const float v : t) b.emplace_back(static_cast<double>(v));
  const std::vector<std::int64_t> label = {static_cast<std::int64_t>(seed) % n};
  if (labels) b = {Number(static_cast<double>(label[0]))};
  const Row want = claim.formula(a, b);
  if (want.empty()) return false;
  const std::string size = fmt::format("{}{}", windows ? "1,1," : labels ? "1," : "", n);
  const std::string second = windows && claim.second != Second::weights ? std::string()
                             : labels ? std::string(" i64[1]:0..0")
                                      : fmt::format(" f32[{}]", size);
  const OpCase c =
      parse_op_case(fmt::format("c | {} | {} | f32[{}]{}", claim.op, claim.params, size, second));
  const Tensor tx = Tensor::of<float>(shape, std::span<const float>(x)),
               tt = Tensor::of<float>(shape, std::span<const float>(t)),
               tl = Tensor::of<std::int64_t>({1}, std::span<const std::int64_t>(label));
  std::vector<const Tensor*> in = {&tx};
  if (!second.empty()) in.push_back(labels ? &tl : &tt);
  while (in.size() < c.inputs.size()) in.push_back(nullptr);
  const std::string contract = fmt::format("exact,store={},round={}", name(store), to_string(mode));
  const OpRun run =
      run_op(*c.op, c.params, in, all_kernels(), {.contract = Contract::parse(contract)});
  const Tensor& y = run.outputs[0];
  REQUIRE(y.numel() == static_cast<std::int64_t>(want.size()));
  bool spoken = false;
  for (std::size_t i = 0; i < want.size(); ++i) {
    const double expected = want[i].rounded(store, mode);
    const double got = load_as_double(y, static_cast<std::int64_t>(i));
    if (want[i].is_zero()) {
      CHECK(got == 0);
      continue;
    }
    spoken = true;
    CHECK_MESSAGE(bits_of(got) == bits_of(expected), std::string(claim.op), " ",
                  std::string(claim.params), " ", contract, " kind ", static_cast<int>(kind),
                  " n=", n, " seed ", seed, " element ", i);
  }
  return spoken;
}

}  // namespace

TEST_CASE("exact formulas: losses, Lp pools, resize, transposed convolution against MPFR") {
  for (const Claim& claim : claims()) {
    int cases = 0;
    for (const Hostile kind : kHostile)
      for (const std::int64_t n : {1, 2, 5, 9})
        for (const Round mode : kRounds) {
          cases += compare(claim, kind, n, 3, DType::f32, mode) ? 1 : 0;
          if (mode != Round::nearest_even) continue;
          for (const DType store : {DType::bf16, DType::f16})
            cases += compare(claim, kind, n, 4, store, mode) ? 1 : 0;
        }
    CHECK_MESSAGE(cases >= 50, std::string(claim.op), " ", std::string(claim.params), ": ", cases,
                  " cases");
  }
}
