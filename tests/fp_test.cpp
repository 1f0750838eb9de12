// Rounding primitives against MPFR: every f16 and bf16 value, and doubles placed on and beside the
// midpoints and range ends of each format, where a wrong tie, sticky bit or subnormal shows.
#include "engine/numerics/fp.h"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "engine/core/philox.h"
#include "engine/numerics/element.h"
#include "tests/mpfr_oracle.h"

using namespace etalon;

namespace {

bool same_bits(double a, double b) { return bits_of(a) == bits_of(b); }

std::uint64_t word64(const Philox& random, std::uint64_t i) {
  return std::uint64_t{random.word(2 * i)} << 32 | random.word(2 * i + 1);
}

// Doubles on, just beside and far from the rounding boundaries of `to`.
std::vector<double> boundary_doubles(DType to, int count) {
  const FloatFormat f = format_of(to);
  const Philox random{.seed = 7, .stream = static_cast<std::uint64_t>(to)};
  std::vector<double> xs = {0.0,
                            -0.0,
                            kInfinity,
                            -kInfinity,
                            kNan,
                            double_of(1),
                            -double_of(1),
                            largest_finite(DType::f64),
                            smallest_normal(DType::f64)};
  for (int i = 0; i < count; ++i) {
    const std::uint64_t w = word64(random, static_cast<std::uint64_t>(i));
    const int span = f.max_exponent - f.min_exponent + f.precision + 8;
    int e = f.min_exponent - f.precision - 3 + static_cast<int>((w >> 40) % span);
    if (e < -1022) e = -1022;
    if (e > 1023) e = 1023;
    double x = double_of((w & 0x000fffffffffffffU) | static_cast<std::uint64_t>(e + 1023) << 52);
    if ((w >> 60 & 3) != 0 && to != DType::f64) {
      // Cut to the format's precision plus one bit (a midpoint half of the time), then a nudge.
      const int drop = 53 - f.precision - 1 - (e < f.min_exponent ? e - f.min_exponent : 0);
      if (drop < 53) x = double_of(bits_of(x) >> drop << drop);
      if ((w >> 60 & 3) == 2) x = next_up(x);
      if ((w >> 60 & 3) == 3) x = next_down(x);
    }
    xs.push_back((w >> 63) != 0 ? -x : x);
  }
  for (const double x : {largest_finite(to), smallest_normal(to), smallest_subnormal(to)})
    for (const double y : {x, x / 2, x + ulp_of(x, to) / 2, x - ulp_of(x, to) / 4})
      if (is_finite(y))
        for (const double z : {y, next_up(y), next_down(y)}) {
          xs.push_back(z);
          xs.push_back(-z);
        }
  return xs;
}

}  // namespace

TEST_CASE("round_to: every format and mode equals MPFR, boundaries included") {
  for (const DType to : kFloatTypes) {
    int midpoints = 0;
    for (const double x : boundary_doubles(to, 30000)) {
      Mpfr exact(53);
      mpfr_set_d(exact.v, x, MPFR_RNDN);
      for (const Round mode : kRounds) {
        const double expected =
            mpfr_rounded(to, mode, [&](mpfr_t r, mpfr_rnd_t m) { return mpfr_set(r, exact.v, m); });
        const double got = round_to(x, to, mode);
        if (!same_bits(got, expected)) {
          CAPTURE(x);
          CAPTURE(name(to));
          CAPTURE(to_string(mode));
          CHECK(bits_of(got) == bits_of(expected));
        }
        const double flushed = round_to(x, to, mode, Subnormals::flush);
        const bool small = abs_of(expected) < smallest_normal(to);
        if (!same_bits(flushed, small ? with_sign(0.0, sign_bit(x)) : expected))
          CHECK(bits_of(flushed) == bits_of(expected));
        midpoints += is_finite(x) && abs_of(x - round_to(x, to, Round::toward_zero)) ==
                                         ulp_of(round_to(x, to, Round::toward_zero), to) / 2;
      }
    }
    // The data can see a wrong tie.
    if (to != DType::f64) CHECK(midpoints > 1000);
  }
}

TEST_CASE("round_sum_to: a double-double rounds once") {
  const Philox random{.seed = 8};
  for (const DType to : kFloatTypes) {
    int checked = 0;
    std::uint64_t i = 0;
    for (const double hi : boundary_doubles(to, 5000)) {
      if (!is_finite(hi) || abs_of(hi) > 0x1p1000) continue;
      const std::uint64_t w = word64(random, i++);
      // A low part of any size below half an ulp of the double, often tiny, sometimes none.
      const double lo = (w & 3) == 0 ? 0.0
                                     : ulp_of(hi, DType::f64) * 0.5 *
                                           power_of_two(-static_cast<int>(w >> 4 & 63)) *
                                           ((w & 8) != 0 ? 1 : -1);
      Mpfr exact(2200), low(53);
      mpfr_set_d(exact.v, hi, MPFR_RNDN);
      mpfr_set_d(low.v, lo, MPFR_RNDN);
      mpfr_add(exact.v, exact.v, low.v, MPFR_RNDN);
      if (mpfr_zero_p(exact.v)) continue;
      for (const Round mode : kRounds) {
        const double expected =
            mpfr_rounded(to, mode, [&](mpfr_t r, mpfr_rnd_t m) { return mpfr_set(r, exact.v, m); });
        const double got = round_sum_to(hi, lo, to, mode);
        ++checked;
        if (!same_bits(got, expected)) {
          CAPTURE(hi);
          CAPTURE(lo);
          CAPTURE(name(to));
          CAPTURE(to_string(mode));
          CHECK(bits_of(got) == bits_of(expected));
        }
      }
    }
    CHECK(checked > 10000);
  }
  CHECK(bits_of(round_sum_to(1.0, -1.0, DType::f32, Round::downward)) == bits_of(-0.0));
  CHECK(bits_of(round_sum_to(1.0, -1.0, DType::f32)) == bits_of(0.0));
  CHECK(bits_of(round_sum_to(0.0, 0.0, DType::f32, Round::downward)) == bits_of(0.0));
}

TEST_CASE("fma emulation: midpoints, cancellation, range ends equal MPFR") {
  const Philox random{.seed = 9};
  // Witness: the f64 sum of product and addend is a midpoint of f32 only after its own rounding.
  const float a0 = 0x1.000002p0F, b0 = 0x1.000002p0F, c0 = 0x1p-30F;
  CHECK(fma_f32_emulated(a0, b0, c0) == std::fma(a0, b0, c0));
  CHECK(fma_f32_emulated(1.0F + 0x1p-12F, 1.0F + 0x1p-12F, 0x1p-77F) == 0x1.002002p0F);
  int double_rounding_seen = 0;
  for (std::uint64_t i = 0; i < 60000; ++i) {
    const std::uint64_t w = word64(random, 4 * i), v = word64(random, 4 * i + 1),
                        u = word64(random, 4 * i + 2), t = word64(random, 4 * i + 3);
    float a = float_of(static_cast<std::uint32_t>(w)), b = float_of(static_cast<std::uint32_t>(v));
    float c = float_of(static_cast<std::uint32_t>(u));
    if (i % 4 == 1) {  // few-bit factors, an addend that leaves a product bit at the midpoint
      a = static_cast<float>((w & 0xfff) | 0x1001);
      b = static_cast<float>((v & 0xfff) | 0x1001);
      c = static_cast<float>(1 << (u % 5)) * 0x1p23F + static_cast<float>(u >> 60);
      a *= 0x1p-3F;
    } else if (i % 4 == 2) {  // c near -a*b
      a = static_cast<float>(1 + static_cast<double>(w >> 40) * 0x1p-24);
      b = static_cast<float>(1 + static_cast<double>(v >> 40) * 0x1p-24);
      c = -static_cast<float>(static_cast<double>(a) * b *
                              (1 + static_cast<double>(u % 3) * 0x1p-24));
    } else if (i % 4 == 3) {  // a midpoint of f32 as product, a tiny addend: f64 addition loses it
      a = static_cast<float>((w & 0x7ff) * 2 + 1 + 0x1000);
      b = static_cast<float>((v & 0x7ff) * 2 + 1 + 0x1000);
      c = static_cast<float>((u & 1) != 0 ? 0x1p-60 : -0x1p-60);
    }
    Mpfr x(53), y(53), z(53);
    mpfr_set_d(x.v, a, MPFR_RNDN);
    mpfr_set_d(y.v, b, MPFR_RNDN);
    mpfr_set_d(z.v, c, MPFR_RNDN);
    const double expected =
        mpfr_rounded(DType::f32, Round::nearest_even,
                     [&](mpfr_t r, mpfr_rnd_t m) { return mpfr_fma(r, x.v, y.v, z.v, m); });
    const double got = canonical(static_cast<double>(fma_f32_emulated(a, b, c)));
    if (!same_bits(got, expected)) {
      CAPTURE(a);
      CAPTURE(b);
      CAPTURE(c);
      CHECK(bits_of(got) == bits_of(expected));
    }
    const double twice = static_cast<double>(static_cast<float>(static_cast<double>(a) * b + c));
    double_rounding_seen += is_finite(twice) && twice != expected;

    double p = double_of(w), q = double_of(v), s = double_of(u);
    switch (i % 6) {
      case 0:
        break;
      case 1:
        s = -p * q * (1 + static_cast<double>(t % 5) * 0x1p-52);
        break;
      case 2:
        p = 1 + static_cast<double>(w >> 12) * 0x1p-52;
        q = 1 + static_cast<double>(v >> 12) * 0x1p-52;
        s = -(p * q) * (1 + static_cast<double>(t % 3) * 0x1p-52);
        break;
      case 3:  // subnormal results
        p = (1 + static_cast<double>(w >> 12) * 0x1p-52) * 0x1p-520;
        q = (1 + static_cast<double>(v >> 12) * 0x1p-52) * 0x1p-520;
        s = double_of(u & 0x001fffffffffffffU) * ((u >> 63) != 0 ? 1 : -1);
        break;
      case 4:  // a midpoint of f64 as product: 27-bit odd factors
        p = static_cast<double>((w & 0x3ffffff) | 0x4000001);
        q = static_cast<double>((v & 0x3ffffff) | 0x4000001);
        s = ((u & 1) != 0 ? 1 : -1) * power_of_two(-static_cast<int>(u >> 8 & 127));
        break;
      default:
        p = (1 + static_cast<double>(w >> 12) * 0x1p-52) * 0x1p300;
        q = (1 + static_cast<double>(v >> 12) * 0x1p-52) * 0x1p-290;
        s = (1 + static_cast<double>(u >> 12) * 0x1p-52) *
            power_of_two(static_cast<int>(t % 240) - 110);
        break;
    }
    mpfr_set_d(x.v, p, MPFR_RNDN);
    mpfr_set_d(y.v, q, MPFR_RNDN);
    mpfr_set_d(z.v, s, MPFR_RNDN);
    const double expected64 =
        mpfr_rounded(DType::f64, Round::nearest_even,
                     [&](mpfr_t r, mpfr_rnd_t m) { return mpfr_fma(r, x.v, y.v, z.v, m); });
    for (const double got64 : {fma_f64_emulated(p, q, s), fma_f64(p, q, s)})
      if (!same_bits(canonical(got64), expected64)) {
        CAPTURE(p);
        CAPTURE(q);
        CAPTURE(s);
        CHECK(bits_of(got64) == bits_of(expected64));
      }
  }
  CHECK(double_rounding_seen > 20);  // else the data could not see the fault the emulation avoids
  CHECK(bits_of(fma_f64_emulated(1, 1, -1)) == bits_of(0.0));
  CHECK(bits_of(fma_f64_emulated(1, 1, -1, Round::downward)) == bits_of(-0.0));
  CHECK(bits_of(fma_f64_emulated(0, 1, -0.0, Round::downward)) == bits_of(-0.0));
  CHECK(bits_of(fma_f64_emulated(0, 1, 0.0, Round::downward)) == bits_of(0.0));
  CHECK(bits_of(fma_f64_emulated(-0.0, 1, -0.0)) == bits_of(-0.0));
  CHECK(bits_of(fma_f64_emulated(-0x1p-1000, 0x1p-1000, 0.0)) == bits_of(-0.0));
  CHECK(is_nan(fma_f64_emulated(kInfinity, 1, -kInfinity)));
}

TEST_CASE("f16 and bf16: every value goes to float and back, every float-to-16 boundary is right") {
  for (std::uint32_t i = 0; i < 65536; ++i) {
    const Float16 h{static_cast<std::uint16_t>(i)};
    const BFloat16 b{static_cast<std::uint16_t>(i)};
    const float fh = to_float(h), fb = to_float(b);
    const std::uint32_t e = i >> 10 & 31, m = i & 1023;
    const double sign = (i >> 15) != 0 ? -1 : 1;
    if (e == 31 && m != 0) {
      REQUIRE(std::isnan(fh));
      REQUIRE(to_float16(fh).bits == kNanF16);
      REQUIRE((bits_of(fh) & 0x7fffff) == m << 13);
    } else {
      const double expected = e == 31  ? sign * kInfinity
                              : e == 0 ? sign * m * 0x1p-24
                                       : sign * std::ldexp(1024 + m, static_cast<int>(e) - 25);
      REQUIRE(bits_of(static_cast<double>(fh)) == bits_of(expected));
      REQUIRE(to_float16(fh) == h);
      REQUIRE(encode_float16(expected) == h);
    }
    REQUIRE(bits_of(fb) == i << 16);
    REQUIRE(to_bfloat16(fb).bits == (std::isnan(fb) ? kNanBF16 : i));
    REQUIRE(encode_bfloat16(static_cast<double>(fb)).bits == (std::isnan(fb) ? kNanBF16 : i));
    // The float midway to the next value, and its two neighbours.
    if (!std::isnan(fb) && !std::isinf(fb))
      for (const std::uint32_t low : {0x7fffU, 0x8000U, 0x8001U}) {
        const float x = float_of(i << 16 | low);
        REQUIRE(to_bfloat16(x) == encode_bfloat16(round_to(static_cast<double>(x), DType::bf16)));
      }
  }
}

TEST_CASE("ulp_of and ulp_distance") {
  CHECK(ulp_of(1.0, DType::f32) == 0x1p-23);
  CHECK(ulp_of(-1.999, DType::f16) == 0x1p-10);
  CHECK(ulp_of(0.0, DType::f32) == 0x1p-149);
  CHECK(ulp_of(0.0, DType::f64) == 0x1p-1074);
  CHECK(ulp_of(kInfinity, DType::f32) == 0x1p104);
  CHECK(is_nan(ulp_of(kNan, DType::f32)));
  CHECK(ulp_distance(0.0F, -0.0F) == 0);
  CHECK(ulp_distance(0x1p-149F, -0x1p-149F) == 2);
  CHECK(ulp_distance(1.0F, 0x1.000002p0F) == 1);
  CHECK(ulp_distance(largest_finite(DType::f64), kInfinity) == 1);
  CHECK(ulp_distance(-kInfinity, kInfinity) == 2 * 0x7ff0000000000000U);
  CHECK(ulp_distance(kNan, 1.0) == kUlpDistanceNan);
  CHECK(ulp_distance(float_of(kNanF32), float_of(0x7f800001U)) == 0);
  CHECK(ulp_distance(Float16{0x3c00}, Float16{0x3bff}) == 1);
  CHECK(ulp_distance(BFloat16{0x8001}, BFloat16{0x0001}) == 2);
}

TEST_CASE("load_as_double and store_from_double: all element types") {
  for (int d = 0; d < kDTypeCount; ++d) {
    const DType dtype = static_cast<DType>(d);
    Tensor t = Tensor::zeros(dtype, {4});
    const double values[] = {1.0, 0.0, 100.5, kNan};
    for (int i = 0; i < 4; ++i) store_from_double(dtype, t.mutable_bytes().data(), i, values[i]);
    CHECK(load_as_double(t, 0) == 1.0);
    CHECK(load_as_double(t, 1) == 0.0);
    const double third = load_as_double(t, 2);
    if (dtype == DType::bf16 || is_floating(dtype))
      CHECK(third == 100.5);
    else
      CHECK(third == (dtype == DType::boolean ? 1.0 : 100.0));
    if (is_floating(dtype))
      CHECK(is_nan(load_as_double(t, 3)));
    else
      CHECK(load_as_double(t, 3) == (dtype == DType::boolean ? 1.0 : 0.0));
  }
  Tensor i8 = Tensor::zeros(DType::i8, {2});
  store_from_double(DType::i8, i8.mutable_bytes().data(), 0, -1e30);
  store_from_double(DType::i8, i8.mutable_bytes().data(), 1, 128.0);
  CHECK(i8.data<std::int8_t>()[0] == -128);
  CHECK(i8.data<std::int8_t>()[1] == 127);
  Tensor f = Tensor::zeros(DType::f32, {1});
  store_from_double(DType::f32, f.mutable_bytes().data(), 0, -double_of(0x7ff4000000000001U));
  CHECK(bits_of(f.data<float>()[0]) == kNanF32);
}
