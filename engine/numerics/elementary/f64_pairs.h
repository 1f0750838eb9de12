// Elementary functions correctly rounded to f64: a first pass in pairs of doubles over a vector (or
// scalar) type V, with a rounding test. What it leaves open (one value in 2^9 or fewer, and
// everything beyond the stated ranges) belongs to the ladder of real.h. V says the way of rounding,
// of the last addition alone: all others are to nearest, on whose exact errors pairs stand. Results
// that are f64 exactly, whose ends round apart, are open to directed roundings.
//
// V: Reg, Bits, Mask; c(x), add, sub, mul, div, fma (rounded once or twice), abs, min, copy_sign;
// product(a, b, p, e): p + e = a b; bits(a), low_bits(b, mask), entry(table, b); power(b): 2^n of
// 64 n + j, the low bits of b; split(x, m): x = 2^e m, m in [sqrt 1/2, sqrt 2), returns e;
// inside(low, x, high), both(a, b); open(inside, a, b): not inside, or a != b; take_where_below(x,
// limit, v, value, open); kNearest, and last(high, low): their sum rounded V's way, |low| at most
// an ulp of high or so. pow_three_quarters: sqrt, and sub(a, b, c), a - b c rounded once.
//
// A value is high + low, |low| at most an ulp of high, in error by less than the bound that is
// said; u = 2^-53 and an operation on `low` errs by u of it.
#pragma once

#include "engine/numerics/elementary/f64_pair_tables.h"
#include "engine/numerics/elementary/tables.h"
#include "engine/numerics/fp.h"

// Inlined, so that a vector's functions keep its instruction set.
#define ETALON_PAIRS [[gnu::always_inline]] inline

namespace etalon {
inline namespace ETALON_ISA_NAMESPACE {

template <class V>
struct F64Pairs {
  using R = typename V::Reg;
  struct Pair {
    R high, low;
  };

  // Exact for |a| >= |b|, and for a zero.
  ETALON_PAIRS static Pair fast_sum(R a, R b) {
    const R s = V::add(a, b);
    return {s, V::sub(b, V::sub(s, a))};
  }
  ETALON_PAIRS static Pair sum(R a, R b) {
    const R s = V::add(a, b), t = V::sub(s, a);
    return {s, V::add(V::sub(a, V::sub(s, t)), V::sub(b, t))};
  }
  ETALON_PAIRS static Pair product(R a, R b) {
    Pair p;
    V::product(a, b, p.high, p.low);
    return p;
  }
  ETALON_PAIRS static R c(double x) { return V::c(x); }
  // c[0] + x (c[1] + ...)
  template <int N>
  ETALON_PAIRS static R polynomial(R x, const double (&k)[N]) {
    R y = c(k[N - 1]);
    for (int i = N - 2; i >= 0; --i) y = V::fma(x, y, c(k[i]));
    return y;
  }

  // e^(x + rest) = 2^n (high + low), 1/2 < high < 4, |x| <= 745, |rest| <= 2^-40: error below
  // 2^-71.
  //   x = k ln2/64 + r. |k| < 2^17, so that k times the first two parts of ln2/64 are exact; the
  //   first difference is (both are multiples of 2^-42 beyond x's own last place, or k = 0), the
  //   second's error is kept. r + r' < 2^-7.5 in size, r' below 2^-40.
  //   e^(r + r') - 1 = r + r^2/2 + (r' + r' (e^r - 1) + q), q = r^3 (1/6 + ... + r^5/8!): what is
  //   left out is below 2^-85 and r'^2/2; q, below 2^-25, errs by 8 u of it: 2^-75. T (1 + s), T
  //   the power in two parts, T s a product without error: |T| < 2, the low part below 2^-22 in
  //   five operations: 2^-73.
  ETALON_PAIRS static Pair exp_parts(R x, R rest, typename V::Bits& n) {
    namespace t = f64_pair_tables;
    constexpr double kShift = 0x1.8p52;
    const R shifted = V::add(V::mul(x, c(tables::kExpInverse)), c(kShift));
    n = V::bits(shifted);
    const R k = V::sub(shifted, c(kShift));
    const Pair r = sum(V::sub(x, V::mul(k, c(t::kStep[0]))), V::mul(k, c(-t::kStep[1])));
    const R r_low = V::add(V::sub(r.low, V::mul(k, c(t::kStep[2]))), rest);
    static constexpr double kSeries[] = {1.0 / 6,   1.0 / 24,   1.0 / 120,
                                         1.0 / 720, 1.0 / 5040, 1.0 / 40320};
    const Pair square = product(r.high, r.high);
    const R q = V::mul(V::mul(square.high, r.high), polynomial(r.high, kSeries));
    const Pair s = fast_sum(r.high, V::mul(square.high, c(0.5)));
    const R of_rest = V::mul(V::add(s.high, q), r_low);
    const R low =
        V::add(V::add(s.low, V::mul(square.low, c(0.5))), V::add(V::add(r_low, of_rest), q));
    const auto j = V::low_bits(n, 63);
    const R power = V::entry(tables::kExp2Table, j), power_rest = V::entry(t::kPowerRest, j);
    const Pair p = product(power, s.high), y = fast_sum(power, p.high);
    const R more =
        V::add(V::add(p.low, V::mul(power, low)), V::add(power_rest, V::mul(power_rest, s.high)));
    return fast_sum(y.high, V::add(y.low, more));
  }
  ETALON_PAIRS static Pair exp(R x, R rest) {
    typename V::Bits n;
    const Pair e = exp_parts(x, rest, n);
    const R scale = V::power(n);
    return {V::mul(e.high, scale), V::mul(e.low, scale)};
  }

  // log(x + rest), x normal, |rest| <= u x: error below 2^-73, and below 2^-64 of the result.
  //   x = 2^e m; c is 128/m rounded, over 128, so c = 1 for |m - 1| < 2^-8; z = c m - 1, |z| <
  //   2^-7.4. log x = e ln2 - log c + z - z^2/2 + z^3 (1/3 - ... - z^7/10): e ln2 and log c of
  //   multiples of 2^-42 are added exactly. What is left out is below 2^-84, the last part, below
  //   2^-23, errs by 6 u of it, and as much in sums: 2^-74. Where e ln2 - log c is 0 all of this is
  //   below z^3/3 8 u; elsewhere the result is above 2^-8.1.
  template <bool kRest = false>
  ETALON_PAIRS static Pair log(R x, [[maybe_unused]] R rest) {
    namespace t = f64_pair_tables;
    constexpr double kShift = 0x1.8p52;
    R m;
    const R e = V::split(x, m);
    const R shifted = V::add(V::div(c(128), m), c(kShift));
    const R factor = V::mul(V::sub(shifted, c(kShift)), c(1.0 / 128));
    const auto i = V::low_bits(V::bits(shifted), 255);
    const Pair scaled = product(factor, m);
    R z_rest = scaled.low;
    if constexpr (kRest) z_rest = V::add(z_rest, V::mul(factor, V::mul(rest, V::div(m, x))));
    const Pair z = fast_sum(V::sub(scaled.high, c(1)), z_rest);
    static constexpr double kSeries[] = {1.0 / 3, -1.0 / 4, 1.0 / 5, -1.0 / 6,
                                         1.0 / 7, -1.0 / 8, 1.0 / 9, -1.0 / 10};
    const Pair square = product(z.high, z.high);
    const R q = V::mul(V::mul(square.high, z.high), polynomial(z.high, kSeries));
    const Pair s = fast_sum(z.high, V::mul(square.high, c(-0.5)));
    const R low = V::add(V::sub(V::add(s.low, z.low), V::mul(z.high, z.low)),
                         V::add(V::mul(square.low, c(-0.5)), q));
    const R whole = V::add(V::mul(e, c(tables::kLn2High)), V::entry(t::kLog, i));
    const R whole_rest = V::add(V::mul(e, c(tables::kLn2Low)), V::entry(t::kLogRest, i));
    const Pair y = sum(whole, s.high);
    return fast_sum(y.high, V::add(y.low, V::add(low, whole_rest)));
  }

  // a / b: error below 2^-100 of the quotient beside those of a and b.
  ETALON_PAIRS static Pair quotient(Pair a, Pair b) {
    const R q = V::div(a.high, b.high);
    const Pair p = product(q, b.high);
    const R left = V::sub(V::add(V::sub(V::sub(a.high, p.high), p.low), a.low), V::mul(q, b.low));
    return fast_sum(q, V::div(left, b.high));
  }
  ETALON_PAIRS static Pair plus(double one, Pair a) {
    const Pair s = sum(c(one), a.high);
    return fast_sum(s.high, V::add(s.low, a.low));
  }

  // Twice what tanh_result takes for its own error, of alpha times that.
  ETALON_PAIRS static R scaled_error(R y, double alpha) {
    const R size = V::abs(y);
    return V::add(V::mul(size, c(0x1p-65)),
                  V::min(c((alpha < 0 ? -alpha : alpha) * 0x1p-70), V::mul(size, c(0x1p-61))));
  }

  // Results, and which lanes are open: the ends of the interval high + (low +- error high) differ.
  struct Result {
    R value;
    typename V::Mask open;
  };
  ETALON_PAIRS static Result tested_within(Pair y, R error, typename V::Mask inside) {
    const R above = V::last(y.high, V::add(y.low, error));
    return {above, V::open(inside, above, V::last(y.high, V::sub(y.low, error)))};
  }
  ETALON_PAIRS static Result tested(Pair y, double error, typename V::Mask inside) {
    return tested_within(y, V::mul(y.high, c(error)), inside);
  }

  // Below -746 the result is +0, to nearest: less than half of the least subnormal.
  ETALON_PAIRS static Result exp_result(R x) {
    Result r = tested(exp(x, c(0)), 0x1p-70, V::inside(c(-660), x, c(709)));
    if constexpr (V::kNearest) V::take_where_below(x, c(-746), c(0), r.value, r.open);
    return r;
  }
  ETALON_PAIRS static Result log_result(R x) {
    return tested(log(x, c(0)), 0x1p-64, V::inside(c(0x1p-1022), x, c(0x1.fffffffffffffp1023)));
  }
  // 1 + x = s + s' exactly. For |x| < 2^-40 the result is x but for x^2/2 and left open.
  ETALON_PAIRS static Result log1p_result(R x) {
    const Pair s = sum(c(1), x);
    return tested(log<true>(s.high, s.low), 0x1p-62,
                  V::both(V::inside(c(-0.999), x, c(0x1p1000)),
                          V::inside(c(0x1p-40), V::abs(x), c(0x1p1000))));
  }
  // 1/(1 + e^-x)
  ETALON_PAIRS static Result sigmoid_result(R x) {
    const Pair one{c(1), c(0)};
    return tested(quotient(one, plus(1, exp(V::sub(c(0), x), c(0)))), 0x1p-68,
                  V::inside(c(-600), x, c(600)));
  }
  // -N/(2 + N), N = e^(-2|x|) - 1, |x| >= 2^-20. Where the power in e^(-2|x|) is 1, N errs by 2^-67
  // of it; elsewhere by 2^-72, the result by twice that, and is above 2^-8.6.
  ETALON_PAIRS static Result tanh_result(R x) {
    const R size = V::min(V::abs(x), c(30));
    const Pair n = plus(-1, exp(V::mul(size, c(-2)), c(0)));
    const Pair y = quotient({V::sub(c(0), n.high), V::sub(c(0), n.low)}, plus(2, n));
    const R error =
        V::add(V::mul(y.high, c(0x1p-66)), V::min(c(0x1p-71), V::mul(y.high, c(0x1p-62))));
    const R sign = V::copy_sign(c(1), x);
    return tested_within({V::mul(y.high, sign), V::mul(y.low, sign)}, error,
                         V::inside(c(0x1p-20), V::abs(x), c(0x1p1000)));
  }
  // alpha (e^x - 1) of x < 0: e^x - 1 errs as N does above, and the product by twice that.
  ETALON_PAIRS static Result elu_result(R x, double alpha) {
    const Pair n = plus(-1, exp(x, c(0)));
    const Pair p = product(c(alpha), n.high);
    Result r = tested_within(fast_sum(p.high, V::add(p.low, V::mul(c(alpha), n.low))),
                             scaled_error(p.high, alpha), V::inside(c(-600), x, c(-0x1p-19)));
    V::take_where_below(V::sub(c(0), x), c(0), x, r.value, r.open);
    return r;
  }
  // alpha tanh(beta x), beta an f32: beta x is a pair, whose low part is below 2^-48.
  ETALON_PAIRS static Result scaled_tanh_result(R x, double alpha, double beta) {
    const Pair z = product(c(beta), x);
    const R size = V::abs(z.high), sign = V::copy_sign(c(1), z.high);
    const Pair n =
        plus(-1, exp(V::mul(V::min(size, c(31)), c(-2)), V::mul(V::mul(z.low, sign), c(-2))));
    const Pair y = quotient({V::sub(c(0), n.high), V::sub(c(0), n.low)}, plus(2, n));
    const R factor = V::mul(c(alpha), sign);
    const Pair p = product(factor, y.high);
    return tested_within(fast_sum(p.high, V::add(p.low, V::mul(factor, y.low))),
                         scaled_error(p.high, alpha), V::inside(c(0x1p-19), size, c(30)));
  }
  // log(1 + e^x). Of x >= -20, 1 + e^x errs by 2^-70 e^x, its logarithm by as much of itself,
  // beside that as log does, and by 2^-105, which is 2^-76 of it. Below, e = e^x < 2^-28, the
  // result is e - e^2/2 + e^3/3 but for 2^-86 of it, what is subtracted errs by 2^-81. From 60 on
  // it is x, to nearest.
  ETALON_PAIRS static Result softplus_result(R x) {
    const Pair e = exp(V::min(x, c(61)), c(0)), s = plus(1, e);
    const Pair y = log<true>(s.high, s.low);
    const R square = V::mul(V::mul(e.high, e.high), c(-0.5));
    const Pair t = fast_sum(e.high, V::add(square, V::mul(V::mul(square, e.high), c(-2.0 / 3))));
    const R error = V::mul(y.high, c(0x1p-63)), t_error = V::mul(t.high, c(0x1p-68));
    const R t_low = V::add(t.low, e.low);
    R above = V::last(y.high, V::add(y.low, error)), below = V::last(y.high, V::sub(y.low, error));
    const auto inside = V::inside(c(-600), x, c(60));
    auto unused = inside;
    V::take_where_below(x, c(-20), V::last(t.high, V::add(t_low, t_error)), above, unused);
    V::take_where_below(x, c(-20), V::last(t.high, V::sub(t_low, t_error)), below, unused);
    Result r{above, V::open(inside, above, below)};
    if constexpr (V::kNearest) {
      V::take_where_below(V::sub(c(0), x), c(-60), x, r.value, r.open);
      V::take_where_below(x, c(-746), c(0), r.value, r.open);
    }
    return r;
  }
  // x^y, x > 0: the exponent errs by |y| 2^-73.
  ETALON_PAIRS static Result pow_result(R x, double y) {
    const Pair l = log(x, c(0)), p = product(l.high, c(y));
    const Pair z = fast_sum(p.high, V::add(p.low, V::mul(l.low, c(y))));
    const double size = y < 0 ? -y : y;
    const auto inside = V::both(V::inside(c(0x1p-1022), x, c(0x1.fffffffffffffp1023)),
                                V::inside(c(-660), z.high, c(700)));
    return tested(exp(z.high, z.low), 0x1p-69 + size * 0x1p-72, inside);
  }
  // x^(3/4) = r s, r = sqrt x, s = sqrt r, of a V with sqrt. A root h of x errs by d / (2 h), d = x
  // - h^2 exact and below 2 u h^2, but for u^2 h / 2; with the roundings of that r errs by 5 u^2 of
  // it, s likewise and by half of r's error, by 10 u^2, and what is rounded in the product's low
  // part by as much: below 64 u^2.
  ETALON_PAIRS static Result pow_three_quarters(R x) {
    const R r = V::sqrt(x), s = V::sqrt(r), half = V::div(c(0.5), r);
    const R r_low = V::mul(V::sub(x, r, r), half);
    const R s_low = V::mul(V::add(V::sub(r, s, s), r_low), V::mul(s, half));
    const Pair p = product(r, s);
    const R low = V::add(p.low, V::add(V::mul(r, s_low), V::mul(s, r_low)));
    return tested(fast_sum(p.high, low), 0x1p-99, V::inside(c(0x1p-500), x, c(0x1p500)));
  }
};

// V of one double, to nearest.
struct OneDouble {
  static constexpr bool kNearest = true;
  ETALON_PAIRS static double last(double high, double low) { return high + low; }
  using Reg = double;
  using Bits = std::uint64_t;
  using Mask = bool;
  ETALON_PAIRS static Reg c(double x) { return x; }
  ETALON_PAIRS static Reg add(Reg a, Reg b) { return a + b; }
  ETALON_PAIRS static Reg sub(Reg a, Reg b) { return a - b; }
  ETALON_PAIRS static Reg mul(Reg a, Reg b) { return a * b; }
  ETALON_PAIRS static Reg div(Reg a, Reg b) { return a / b; }
  ETALON_PAIRS static Reg fma(Reg a, Reg b, Reg c) { return a * b + c; }
  ETALON_PAIRS static Reg abs(Reg a) { return abs_of(a); }
  ETALON_PAIRS static Reg min(Reg a, Reg b) { return a < b ? a : b; }
  ETALON_PAIRS static Reg copy_sign(Reg size, Reg sign) { return with_sign(size, sign_bit(sign)); }
  ETALON_PAIRS static void product(Reg a, Reg b, Reg& p, Reg& e) {
    const TwoDoubles t = two_prod(a, b);
    p = t.value;
    e = t.error;
  }
  ETALON_PAIRS static Bits bits(Reg a) { return bits_of(a); }
  ETALON_PAIRS static Bits low_bits(Bits b, std::uint64_t mask) { return b & mask; }
  ETALON_PAIRS static Reg entry(const double* table, Bits b) { return table[b]; }
  ETALON_PAIRS static Reg power(Bits b) {
    return double_of(((b << 46) & 0xfff0000000000000U) + 0x3ff0000000000000U);
  }
  ETALON_PAIRS static Reg split(Reg x, Reg& m) {
    const auto biased = (bits_of(x) - 0x3fe6a09e667f3bcdU + 0x3ff0000000000000U) >> 52;
    m = double_of(bits_of(x) - (biased << 52) + 0x3ff0000000000000U);
    return static_cast<double>(static_cast<std::int64_t>(biased) - 1023);
  }
  ETALON_PAIRS static Mask inside(Reg low, Reg x, Reg high) { return low <= x && x <= high; }
  ETALON_PAIRS static Mask both(Mask a, Mask b) { return a && b; }
  ETALON_PAIRS static Mask open(Mask inside, Reg a, Reg b) { return !inside || a != b; }
  ETALON_PAIRS static void take_where_below(Reg x, Reg limit, Reg v, Reg& value, Mask& open) {
    if (!(x < limit)) return;
    value = v;
    open = false;
  }
};

}  // namespace ETALON_ISA_NAMESPACE
}  // namespace etalon
