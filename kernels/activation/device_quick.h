// A GPU's first pass over elementary functions and activations: an f64 formula over one number, and
// the rounding test by bits (docs/rounding-test.md). Host and device.
//
// An element must take less than the time that its eight bytes need on an H200: some 40
// instructions, of which 18 may be f64's and 4 conversions or approximations. So
//   - tables are small: sixteen rows, one in each pair of banks of shared memory, are read by all
//     threads at once, whatever row each one wants (error functions have more of them);
//   - reciprocals and roots begin with the unit's approximation and have one step of third order;
//   - coefficients lie in constant memory, where an instruction finds them by itself (a number in
//     the code costs two more);
//   - what is exact in f32 (signs, clamps, choices of rows) is done there, and what usual data has
//     not (`regular`) is left open.
//
// Errors are relative, in units of u = 2^-53, u for each operation without a note; the test allows
// for four thirds of all and of the approximation of a formula's polynomial (`error`). The unit may
// err by 2^-18 in f64 (over all upper words an H200's worst are 2^-19.9 and 2^-20.0), by 2^-22 in
// f32 (2^-22.9), the seed of cbrt by 2^-17.6 (2^-19.0).
#pragma once

#include "kernels/activation/device_numbers.h"
#include "kernels/activation/device_unit.h"

namespace etalon {
inline namespace ETALON_ISA_NAMESPACE {

template <LaneFunction F, template <LaneFunction> class AllRows = RowsInPlace>
struct DeviceQuick : DeviceUnit {
  using L = LaneFunction;
  using Rows = AllRows<F>;

  ETALON_HD static double fma(double a, double b, double c) { return fma_f64(a, b, c); }
  template <int N>
  ETALON_HD static double horner(const double (&p)[N], double x) {
    double r = p[N - 1];
    for (int i = N - 2; i >= 0; --i) r = fma(r, x, p[i]);
    return r;
  }
  // r (1 + e + e^2): e^3, 2^-54 of it.
  ETALON_HD static double quotient(double a, double b) {
    const double r = reciprocal(b), e = fma(-b, r, 1), q = a * r;
    return fma(q, fma(e, e, e), q);
  }
  // g (1 + e/2 + 3/8 e^2), g = a r, e = 1 - g r: 5/16 e^3, 2^-52.7. 0 and infinity give NaN.
  ETALON_HD static double root(double a) {
    const double r = root_reciprocal(a), g = a * r, e = fma(-g, r, 1);
    return fma(g * e, fma(e, 0.375, 0.5), g);
  }

  // ---- e^w = 2^(n/16) e^r, |r| <= ln2/32: 250 u and 2^-38.49 (lanes_exp_inl.h); e^w - 1 2^-41.
  static constexpr double kInteger = 0x1.8p52;
  ETALON_HD static double power_sixteenth(std::uint32_t n) {
    const double row = Rows::at(n & 15U);
    return joined(high(row) + (n << 16), low(row));
  }
  template <int N>
  ETALON_HD static double exp(double w, const double (&terms)[N]) {
    const auto& n = numbers().exp;
    const double shifted = fma(w, n.scale, kInteger);
    const double r = fma(shifted - kInteger, n.step, w);
    return horner(terms, r) * power_sixteenth(low(shifted));
  }
  ETALON_HD static double exp(double w) { return exp(w, numbers().exp.p); }
  // Six terms, 2^-46.5: where much else is to be done, so that a block waits less often for what
  // one of its elements leaves open.
  ETALON_HD static double exp_long(double w) { return exp(w, numbers().exp_long); }
  ETALON_HD static double expm1(double w, const DeviceNumbers::Exp& n) {
    const double shifted = fma(w, n.scale, kInteger);
    const double r = fma(shifted - kInteger, n.step, w);
    const double power = power_sixteenth(low(shifted));
    return fma(power, horner(n.p, r) * r, power - 1);
  }

  // ---- log u = k ln2 + log c + log(1 + r), u = 2^k m, r = m/c - 1 with u of 1. k unit + log c
  // rounds once, and its sum with the rest, which does not cancel: 3 u, and 2^-44. Where c = 1 and
  // k = 0 log c is 0, r exact, or w, which the caller knows better than u - 1.
  struct LogParts {
    double m, inverse, base;
    bool near_1;
  };
  ETALON_HD static LogParts log_parts(double u, double unit) {
    constexpr std::uint32_t kFirst = 0x3fe66000U, kOne = (0x3ff00000U - kFirst) >> 16;
    const std::uint32_t from_first = high(u) - kFirst, whole = from_first & 0xfff00000U;
    const std::uint32_t row = (from_first >> 16) & 15U;
    const double k = static_cast<double>(static_cast<std::int32_t>(whole));  // 2^20 times it
    return {joined(high(u) - whole, low(u)), Rows::at(row), fma(k, unit, Rows::at(16 + row)),
            (from_first >> 16) == kOne};
  }
  ETALON_HD static double log(double x, const double (&p)[7], double unit) {
    const LogParts t = log_parts(x, unit);
    const double r = fma(t.m, t.inverse, -1);
    return fma(r, horner(p, r), t.base);
  }
  ETALON_HD static double log1p(double w) {
    const LogParts t = log_parts(1 + w, numbers().ln2);
    const double r = t.near_1 ? w : fma(t.m, t.inverse, -1);
    return fma(r, horner(numbers().log, r), t.base);
  }
  // log(1 + e), 0 <= e <= 1, by its nearest 32nd c - 1: r = e/c + (1/c - 1); 2^-43.7.
  ETALON_HD static double log_unit(double e) {
    const std::uint32_t row = low(e + 0x1.8p47) & 63U;
    const double inverse = Rows::at(16 + row);
    const double r = fma(e, inverse, inverse - 1);
    return fma(r, horner(numbers().unit, r), Rows::at(49 + row));
  }

  // ---- x = n pi/16 + r as in lanes_circular_inl.h, |x| < 2^27: 6 u of r.
  struct Turn {
    double s, c;  // sin and cos of x but for half turns
  };
  struct Angle {
    double sin_row, cos_row, sin_r, cos_r;
  };
  ETALON_HD static Angle angle(double x) {
    const auto& n = numbers();
    const double shifted = fma(x, n.turns, kInteger), k = shifted - kInteger;
    const double r = fma(k, n.turn_rest, fma(k, n.turn, x)), z = r * r;
    const std::uint32_t row = low(shifted) & 31U;
    return {Rows::at(row), Rows::at(row + 8), r * fma(z, horner(n.sin, z), 1),
            fma(z, horner(n.cos, z), 1)};
  }

  // ---- f(b) = value +- part, part = h(c) d E of the nearest row's c (generate_error_rows.py,
  // which has the errors: 2^-40.5 for erf, 2^-39.8 for erfc, 2^-41.9 for the normal distribution).
  // d = b - c is exact in f32, and what of E is made in f32 is small. To w = d (c + d/3) = d (b -
  // 2/3 d) f64 brings 3 u, to part 8 u.
  struct Rest {
    double value, part;
  };
  static constexpr float kRowStep = F == L::erf ? 0x1p-4F : 0x1p-5F;
  static constexpr float kRowEnd = F == L::erf ? 4 : F == L::erfc ? 10.4F : 14.75F;
  // b from 0 on; `held`, which it is up to kRowEnd, kRowEnd beyond.
  template <int First, int Cross>
  ETALON_HD static Rest rest(float held, double b, const DeviceNumbers::Mean<First, Cross>& n) {
    constexpr float kMagic = 0x1.8p23F * kRowStep;
    const float shifted = held + kMagic, d = held - (shifted - kMagic);
    const auto row = Rows::template pair<bits_of(kMagic)>(bits_of(shifted));
    const float w = d * fma_f32(d, -2.0F / 3, held), z = d * d;
    float cross = n.cross[Cross - 1];
    for (int i = Cross - 2; i >= 0; --i) cross = fma_f32(cross, w, n.cross[i]);
    const auto small = static_cast<double>(z * fma_f32(w, cross, z * n.square)),
               wide = static_cast<double>(d);
    const double v = wide * fma(wide, numbers().less_third, b), hd = row.b * wide;
    return {row.a, fma(hd, fma(v, horner(n.first, v), small), hd)};
  }

  // Of the formulas below, with what the test allows for: four thirds of it and more.
  static constexpr double error() {
    switch (F) {
      case L::exp:
      case L::exp2:
      case L::cosh:
      case L::sigmoid:
      case L::silu:
        return 0x1.4p-38;
      case L::log_sigmoid:
      case L::softplus:
      case L::mish:
      case L::gelu_tanh:
        return 0x1.4p-43;
      case L::erf:
        return 0x1.0p-40;
      case L::erfc:
        return 0x1.9p-40;
      case L::gelu:
        return 0x1.7p-42;
      case L::log:
      case L::log2:
      case L::log10:
      case L::log1p:
      case L::sin:  // a row's part counts three times at most
      case L::cos:
      case L::tan:
        return 0x1p-43;
      case L::rsqrt:
      case L::cbrt:
        return 0x1p-46;
      case L::asin:
      case L::acos:
        return 0x1.2p-37;
      case L::asinh:
        return 0x1.8p-39;
      default:
        return 0x1p-39;
    }
  }
  // f(x), or for atanh twice that (kFactor). What is not `regular` may be anything.
  static constexpr float kTanhEnd = 14.6F;
  static constexpr float kFactor = F == L::atanh ? 0.5F : 1.0F;
  ETALON_HD static double value(float x, const LaneParams& p) {
    const auto wide = [](float a) { return static_cast<double>(a); };
    const auto& n = numbers();
    const float a = size(x);
    if constexpr (F == L::exp) return exp(wide(clamped(x, -200, 200)));
    if constexpr (F == L::exp2) {
      const double w = wide(clamped(x, -200, 200)), shifted = w + 0x1.8p48;
      return horner(n.exp2, w - (shifted - 0x1.8p48)) * power_sixteenth(low(shifted));
    }
    if constexpr (F == L::expm1) return expm1(wide(clamped(x, -200, 200)), n.expm1);
    if constexpr (F == L::log) return log(wide(x), n.log, n.ln2);
    if constexpr (F == L::log2) return log(wide(x), n.log2, 0x1p-20);
    if constexpr (F == L::log10) return log(wide(x), n.log10, n.log10_of_2);
    if constexpr (F == L::log1p) return log1p(wide(x));
    if constexpr (F == L::rsqrt) {
      const double w = wide(x), r = root_reciprocal(w), e = fma(-(w * r), r, 1);
      return fma(r * e, fma(e, 0.375, 0.5), r);
    }
    // x r^2 (1 - h)^(-2/3), h = 1 - x r^3, |h| < 2^-16: 40/81 h^3.
    if constexpr (F == L::cbrt) {
      const double w = wide(x), r = wide(cube_root_reciprocal(a)), t = w * (r * r);
      const double h = fma(-abs_of(t), r, 1);
      return fma(t * h, fma(h, n.cbrt[1], n.cbrt[0]), t);
    }
    if constexpr (F == L::sin) {
      const Angle t = angle(wide(x));
      return fma(t.sin_row, t.cos_r, t.cos_row * t.sin_r);
    }
    if constexpr (F == L::cos) {
      const Angle t = angle(wide(x));
      return fma(t.cos_row, t.cos_r, -(t.sin_row * t.sin_r));
    }
    if constexpr (F == L::tan) {
      const Angle t = angle(wide(x));
      return quotient(fma(t.sin_row, t.cos_r, t.cos_row * t.sin_r),
                      fma(t.cos_row, t.cos_r, -(t.sin_row * t.sin_r)));
    }
    // angle + atan((a cosine - sine)/(cosine + a sine)).
    if constexpr (F == L::atan) {
      const float q = a > 1 ? 2 - reciprocal(a) : a;
      const std::uint32_t row = bits_of(q + 0x1.8p20F) & 31U;
      const double w = wide(a), sine = Rows::at(row), cosine = Rows::at(17 + row);
      const double t = quotient(fma(w, cosine, -sine), fma(w, sine, cosine)), z = t * t;
      return fma(t, fma(z, horner(n.atan, z), 1), Rows::at(34 + row));
    }
    // With b = sqrt(1 - a^2), angle + asin(a cosine - b sine).
    if constexpr (F == L::asin || F == L::acos) {
      const float part = fma_f32(-a, a, 1), near = root_reciprocal(part);
      const float q = a > 0x1.6a09e6p-1F ? 2 - part * near : a;
      const std::uint32_t row = bits_of(q + 0x1.8p20F) & 31U;
      const double w = wide(a), r = wide(near), s = fma(-w, w, 1), g = s * r;
      const double b = fma(g * fma(-g, r, 1), 0.5, g);
      const double t = fma(w, Rows::at(17 + row), -(b * Rows::at(row))), z = t * t;
      const double y = fma(z, horner(n.asin, z), 1);
      if constexpr (F == L::asin) return fma(t, y, Rows::at(34 + row));
      const double turned = fma(-t, y, Rows::at(51 + row));
      return x < 0 ? n.pi - turned : turned;
    }
    if constexpr (F == L::sinh) {
      const double e = expm1(wide(at_most(a, 100)), n.expm1);
      return 0.5 * (e + quotient(e, e + 1));
    }
    if constexpr (F == L::cosh) {
      const double e = exp(wide(at_most(a, 100)));
      return 0.5 * (e + quotient(1, e));
    }
    if constexpr (F == L::tanh) {
      const double e = expm1(wide(at_most(a, 20)), n.expm1_twice);
      return quotient(e, e + 2);
    }
    // The logarithm of a + sqrt(a^2 + 1), of x + sqrt(x^2 - 1) and twice that of (1 + a)/(1 - a).
    // The root's 3 u and the sum's one count most where the result is small: 2^-39 of 2^-12, where
    // `regular` ends; acosh is 2^-11 at least, and there its root has no part in that.
    if constexpr (F == L::asinh) {
      const double w = wide(a);
      return log(w + root(fma(w, w, 1)), n.log, n.ln2);
    }
    if constexpr (F == L::acosh) {
      const double w = wide(x);
      return log(w + root(fma(w, w, -1)), n.log, n.ln2);
    }
    if constexpr (F == L::atanh) {
      const double w = wide(a + a);
      return log(1 + quotient(w, fma(w, -0.5, 1)), n.log, n.ln2);
    }
    if constexpr (F == L::erf) {
      const float b = least(a, kRowEnd);
      const Rest t = rest(b, wide(b), n.erf);
      return t.value + t.part;
    }
    if constexpr (F == L::erfc) {
      const float b = least(a, kRowEnd);
      const Rest t = rest(b, wide(b), n.erfc);
      const double y = t.value - t.part;
      return x < 0 ? 2 - y : y;
    }
    // max(x, 0) - b Phi(-b), b = |x|, or less for x < 0 beyond the last row: the result is 0 there,
    // for x > 0 x. Of 0 this keeps the sign.
    if constexpr (F == L::gelu) {
      const float held = size(at_least(x, -kRowEnd));
      const double b = wide(held);
      const Rest t = rest(least(held, kRowEnd), b, n.phi);
      return fma(-b, t.value - t.part, (bits_of(x) >> 31) != 0 ? -0.0 : b);
    }
    if constexpr (F == L::sigmoid) {
      const double e = 1 + exp(-wide(clamped(x, -200, 200)));
      const double r = reciprocal(e), rest = fma(-e, r, 1);
      return fma(r, fma(rest, rest, rest), r);
    }
    if constexpr (F == L::silu) return quotient(wide(x), 1 + exp(-wide(clamped(x, -200, 200))));
    // v/(1 + 2^-z), z = v (slope + cube v^2): by 2^-43 at z = 353, for n z is no number of its own.
    // Beyond the clamp x > 0 is the result (`decided`).
    if constexpr (F == L::gelu_tanh) {
      constexpr double kMagic = 0x1.8p48;
      const double v = wide(clamped(x, -kTanhEnd, kTanhEnd));
      const double t = fma(v * v, n.gelu_cube, n.gelu_slope), shifted = fma(t, v, kMagic);
      const double r = fma(t, v, -(shifted - kMagic));
      return quotient(v, fma(horner(n.exp2_long, r), power_sixteenth(low(shifted)), 1));
    }
    if constexpr (F == L::mish) {
      const double e = exp_long(wide(clamped(x, -200, 200))), t = e * (e + 2);
      return wide(x) * quotient(t, t + 2);
    }
    if constexpr (F == L::softplus) return wide(at_least(x, 0)) + log_unit(exp_long(-wide(a)));
    if constexpr (F == L::log_sigmoid) return wide(least(x, 0)) - log_unit(exp_long(-wide(a)));
    if constexpr (F == L::softsign) return quotient(wide(x), 1 + wide(a));
    if constexpr (F == L::elu) return p.alpha * expm1(wide(at_least(x, -200)), n.expm1);
    if constexpr (F == L::selu)
      return p.gamma * (p.alpha * expm1(wide(at_least(x, -200)), n.expm1));
    // x/alpha errs by 2 u, e^z by |z| times that.
    if constexpr (F == L::celu)
      return p.alpha *
             expm1(wide(at_least(x, static_cast<float>(-200 * p.alpha))) * (1 / p.alpha), n.expm1);
    if constexpr (F == L::hard_sigmoid) {
      const double y = fma(p.alpha, wide(x), p.beta);
      return y > 1 ? 1 : y;
    }
    // x (x + 3)/6
    if constexpr (F == L::hard_swish) return wide(x) * (wide(x) + 3) * n.sixth;
  }

  // ---- What the test does not decide.
  // x outside the domain, or NaN: NaN is the result.
  static constexpr bool kDomain = F == L::log || F == L::log2 || F == L::log10 || F == L::log1p ||
                                  F == L::rsqrt || F == L::asin || F == L::acos || F == L::acosh ||
                                  F == L::atanh;
  ETALON_HD static bool outside(float x) {
    if constexpr (F == L::asin || F == L::acos || F == L::atanh) return !(size(x) <= 1);
    if constexpr (F == L::acosh) return !(x >= 1);
    if constexpr (F == L::log1p) return !(x >= -1);
    return !(x >= 0);
  }
  // An x that the formula is not for; NaN, too, where the formula would not hand it on.
  ETALON_HD static bool regular(const LaneParams& p, float x) {
    constexpr float kMost = 0x1.fffffep127F;
    const float a = size(x);
    if constexpr (F == L::log || F == L::log2 || F == L::log10) return (x > 0) & (x <= kMost);
    if constexpr (F == L::log1p) return (x > -1) & (x <= kMost);
    if constexpr (F == L::acosh) return (x > 1) & (x <= kMost);
    if constexpr (F == L::atanh) return (a >= 0x1p-12F) & (a < 1);
    if constexpr (F == L::asinh) return (a >= 0x1p-12F) & (a <= kMost);
    if constexpr (F == L::cbrt) return a >= 0x1p-126F;
    if constexpr (F == L::sin || F == L::cos || F == L::tan) return a < 0x1p27F;
    if constexpr (F == L::silu || F == L::mish) return x >= -kMost;
    if constexpr (F == L::softplus) return (a < 87) & (x <= static_cast<float>(p.threshold));
    if constexpr (F == L::log_sigmoid) return a < 87;
    if constexpr (F == L::erf || F == L::erfc) return x == x;
    if constexpr (F == L::gelu || F == L::gelu_tanh || F == L::softsign || F == L::hard_swish)
      return a <= kMost;
    return true;
  }
  // A result of 0 is one: v is 0 or smaller than 2^-150, to which no value comes near.
  static constexpr bool kZeros = F == L::exp || F == L::exp2 || F == L::expm1 || F == L::log1p ||
                                 F == L::sin || F == L::tan || F == L::atan || F == L::sinh ||
                                 F == L::tanh || F == L::erf || F == L::sigmoid || F == L::mish ||
                                 F == L::softsign;
  // Near 0 the result is x/2 and more: that of 2^-149 comes near to 2^-150.
  static constexpr bool kHalf = F == L::silu || F == L::gelu || F == L::gelu_tanh;
  // Results at usual x are subnormal often: |v| + 2^-126 has f32's last place there, 2^-149, and so
  // v's midpoints, that of 0 and 2^-149 too.
  static constexpr bool kSubnormals = F == L::erfc || F == L::gelu || F == L::gelu_tanh;
  // No result is smaller than 2^-125, but 0 is of log.
  static constexpr bool kNeverTiny = F == L::log || F == L::log2 || F == L::log10 ||
                                     F == L::asinh || F == L::acosh || F == L::atanh ||
                                     F == L::softplus || F == L::log_sigmoid;
  // The result has x's sign.
  static constexpr bool kOdd = F == L::expm1 || F == L::log1p || F == L::atan || F == L::asin ||
                               F == L::sinh || F == L::tanh || F == L::asinh || F == L::atanh ||
                               F == L::erf;
  // One f32 operation instead. elu's sign of zero is that of alpha x.
  static constexpr bool kDirect =
      F == L::elu || F == L::selu || F == L::celu || F == L::hard_sigmoid || F == L::hard_swish;
  ETALON_HD static bool direct(const LaneParams& p, float x, float& y) {
    if constexpr (F == L::elu || F == L::selu || F == L::celu) {
      const float above = p.alpha > 0 ? -0x1p-149F : 0.0F;
      const bool is = x > above;
      if constexpr (F == L::selu)
        y = is ? static_cast<float>(p.gamma) * x : y;
      else
        y = is ? x : y;
      return is;
    } else if constexpr (F == L::hard_sigmoid) {
      const bool is = y < 0;
      y = is ? 0.0F : y;
      return is;
    } else {
      const bool whole = (x >= 3) | (x == 0), none = x <= -3;
      y = whole ? x : none ? -0.0F : y;
      return whole | (none & (x >= -0x1.fffffep127F));
    }
  }

  // v is far from a midpoint: the 29 bits that f32 lacks say how far, in units of v's last place,
  // of which the error is 2^53 `error` at most.
  ETALON_HD static bool far_from_midpoint(double v) {
    constexpr auto kEdge = static_cast<std::uint32_t>(error() * 0x1p53) + 1;
    constexpr std::uint32_t kMidpoint = 1U << 28;
    return (low(v) << 3) - ((kMidpoint - kEdge) << 3) > (2 * kEdge << 3 | 7U);
  }
  // False: not decided, y means nothing. Above f32's largest number y is infinity. Below its
  // smallest normal one a midpoint is other bits: of those, and of NaN, this says nothing.
  ETALON_HD static bool decided(const LaneParams& p, double v, float x, float& y) {
    const float narrow = static_cast<float>(v);
    y = kFactor == 1 ? narrow : kFactor * narrow;
    const bool normal = size(y) > 0x1p-126F;
    bool is;
    if constexpr (kSubnormals) {
      is = far_from_midpoint(size(v) + (normal ? 0 : 0x1p-126));
    } else {
      is = far_from_midpoint(v);
      if constexpr (F == L::silu)
        is &= normal | ((narrow == 0) & (x <= 0));
      else if constexpr (kZeros)
        is &= normal | (narrow == 0);
      else if constexpr (!kNeverTiny)
        is &= normal;
    }
    is &= regular(p, x);
    if constexpr (kOdd) y = signed_as(y, x);
    if constexpr (F == L::gelu_tanh) y = x > kTanhEnd ? x : y;
    if constexpr (kDirect) is |= direct(p, x, y);
    if constexpr (kDomain) {
      const bool not_a_number = outside(x);
      y = not_a_number ? float_of(kNanF32) : y;
      is |= not_a_number;
    }
    return is;
  }
  ETALON_HD static bool function(const LaneParams& p, float x, float& y) {
    return decided(p, value(x, p), x, y);
  }
};

}  // namespace ETALON_ISA_NAMESPACE
}  // namespace etalon
