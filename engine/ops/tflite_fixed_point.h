// Functions of TensorFlow Lite's fixed-point numbers: Raw is 32 or 16 bits wide, of which b stand
// before the point, the value being raw * 2^(b + 1 - width). A product is the doubled high half
// (tflite.h) and adds the bits before the point; `moved` multiplies by a power of two, held to the
// type, or divides by one to nearest, halves away from zero. Sums wrap. Each function is a fixed
// number of such steps, so its value is defined to the last bit. Constants are those of 32 bits,
// rounded to 16.
//
//   exp_of_negative   e^x of x <= 0 with b bits: the quarter below x by a polynomial of degree 4
//                     about -1/8, times e^-(2^i) for each bit of what remains, i = -2 .. b - 1
//   reciprocal        1 / (1 + x) of 0 <= x < 1, no bits: three steps of Newton's from 48/17 -
//                     32/17 d for d = (1 + x) / 2; complement is (1 - x) / (1 + x) by the same
//   sigmoid, tanh     of x with b bits by these, from |x|
//   logarithm         of x with 12 bits, result 5: x is a power of two times r near 2^-1/4, whose
//                     logarithm is a quotient of polynomials
//   inverse_root      1 / sqrt(v) of an integer as multiplier and shift: five steps of Newton's
// Source: gemmlowp fixedpoint.h; tensorflow/lite/kernels/internal/common.h.
#pragma once

#include <algorithm>
#include <bit>

#include "engine/ops/tflite_multiplier.h"

namespace etalon::tflite {

template <class Raw = std::int32_t>
Raw wrapped(std::int64_t v) {
  return static_cast<Raw>(static_cast<std::uint64_t>(v));
}

// By 2^exponent.
template <class Raw>
Raw moved(Raw x, int exponent) {
  if (exponent <= 0) return static_cast<Raw>(Multiplier::divided_by_power(x, -exponent));
  const std::int64_t most = (std::int64_t{1} << (kWidth<Raw> - 1 - exponent)) - 1;
  if (x > most) return std::numeric_limits<Raw>::max();
  if (x < -most) return std::numeric_limits<Raw>::min();
  return wrapped<Raw>(std::int64_t{x} << exponent);
}

template <class Raw>
Raw half_sum(Raw a, Raw b) {
  const std::int64_t sum = std::int64_t{a} + b;
  return static_cast<Raw>((sum + (sum >= 0 ? 1 : -1)) / 2);
}

template <class Raw>
Raw held(std::int64_t v) {
  return static_cast<Raw>(std::clamp<std::int64_t>(v, std::numeric_limits<Raw>::min(),
                                                   std::numeric_limits<Raw>::max()));
}

template <class Raw>
Raw fixed_constant(std::int32_t of_32_bits) {
  return static_cast<Raw>(moved(of_32_bits, kWidth<Raw> - 32));
}

template <class Raw>
Raw exp_of_negative(Raw a, int bits) {
  if (a == 0) return std::numeric_limits<Raw>::max();
  const int fraction = kWidth<Raw> - 1 - bits;
  const std::int64_t quarter = std::int64_t{1} << (fraction - 2);
  const auto in_quarter = static_cast<Raw>((a & (quarter - 1)) - quarter);
  const Raw x = wrapped<Raw>(std::int64_t{moved(in_quarter, bits)} + (1LL << (kWidth<Raw> - 4)));
  const Raw x2 = product(x, x), x3 = product(x2, x), x4 = product(x2, x2);
  const Raw third = fixed_constant<Raw>(715827883), exp_eighth = fixed_constant<Raw>(1895147668);
  const Raw cubes = wrapped<Raw>(std::int64_t{moved(x4, -2)} + x3);
  const Raw higher = moved(wrapped<Raw>(std::int64_t{product(cubes, third)} + x2), -1);
  Raw y = held<Raw>(std::int64_t{exp_eighth} +
                    product(exp_eighth, wrapped<Raw>(std::int64_t{x} + higher)));
  // e^-(1/4), e^-(1/2) .. e^-16
  constexpr std::int32_t kPowers[] = {1672461947, 1302514674, 790015084, 290630308,
                                      39332535,   720401,     242};
  const std::int64_t rest = std::int64_t{in_quarter} - a;
  for (int i = 0; i < 7 && i - 2 < bits; ++i)
    if ((rest >> (fraction + i - 2) & 1) != 0) y = product(y, fixed_constant<Raw>(kPowers[i]));
  return bits > 5 && a < -(std::int64_t{1} << (4 + kWidth<Raw> - bits)) ? Raw{0} : y;
}

// Newton's steps for 1 / d; two bits before the point.
template <class Raw>
Raw newton_reciprocal(Raw half) {
  const Raw from = fixed_constant<Raw>(1515870810), slope = fixed_constant<Raw>(-1010580540);
  constexpr std::int64_t kOne = std::int64_t{1} << (kWidth<Raw> - 3);
  Raw x = wrapped<Raw>(std::int64_t{from} + product(half, slope));
  for (int i = 0; i < 3; ++i)
    x = wrapped<Raw>(std::int64_t{x} + moved(product(x, wrapped<Raw>(kOne - product(half, x))), 2));
  return x;
}

template <class Raw>
Raw reciprocal(Raw a) {
  return moved(newton_reciprocal(half_sum(a, std::numeric_limits<Raw>::max())), 1);
}

template <class Raw>
Raw complement(Raw a) {
  const Raw x = newton_reciprocal(half_sum(a, std::numeric_limits<Raw>::max()));
  return moved(wrapped<Raw>(std::int64_t{x} - (std::int64_t{1} << (kWidth<Raw> - 3))), 2);
}

template <class Raw>
Raw sigmoid(Raw a, int bits) {
  if (a == 0) return wrapped<Raw>(std::int64_t{1} << (kWidth<Raw> - 2));
  const Raw y = reciprocal(exp_of_negative(a > 0 ? wrapped<Raw>(-std::int64_t{a}) : a, bits));
  return a > 0 ? y : wrapped<Raw>(std::int64_t{std::numeric_limits<Raw>::max()} - y);
}

template <class Raw>
Raw tanh(Raw a, int bits) {
  if (a == 0) return 0;
  const Raw y = complement(exp_of_negative(a > 0 ? wrapped<Raw>(-std::int64_t{a}) : a, bits + 1));
  return a > 0 ? y : wrapped<Raw>(-std::int64_t{y});
}

// What makes a positive v, read as having no bits before the point, at least a half.
inline int headroom(std::int32_t v) { return std::countl_zero(static_cast<std::uint32_t>(v)) - 1; }

inline std::int32_t logarithm(std::int32_t x) {
  constexpr int kBits = 12, kSumBits = 6;
  constexpr std::int32_t kLog2 = 1488522236, kRootRootHalf = 1805811301, kRootHalf = 1518500250,
                         kAlphaN = 117049297, kAlphaD = 127690142, kAlphaI = 1057819769,
                         kAlphaF = 638450708;
  const std::int32_t quarter = moved(1 << 29, -kSumBits);
  const auto whole = [](int n) { return moved(n, 31 - kSumBits); };
  // Twice: of x and of x / sqrt(2), whichever lies nearer to 2^-1/4.
  const int room_a = headroom(x);
  const std::int32_t r_a = moved(product(moved(x, room_a), kRootHalf), 1),
                     power_a =
                         held<std::int32_t>(std::int64_t{whole(kBits - room_a - 1)} + quarter);
  const int room_b = headroom(product(x, kRootHalf));
  const std::int32_t r_b = moved(x, room_b),
                     power_b = held<std::int32_t>(std::int64_t{whole(kBits - room_b)} - quarter);
  const std::int32_t r = std::min(r_a, r_b), power = std::max(power_a, power_b);
  const std::int32_t p = half_sum(r, kRootRootHalf),
                     q = wrapped(2 * (std::int64_t{r} - kRootRootHalf)), q2 = product(q, q);
  const std::int32_t above =
      wrapped(std::int64_t{product(q, r)} + product(product(q, q2), kAlphaN));
  const std::int32_t below =
      wrapped(std::int64_t{product(p, wrapped(std::int64_t{kAlphaI} + q + product(kAlphaD, q2)))} +
              product(kAlphaF, q));
  return moved(wrapped(std::int64_t{product(power, kLog2)} +
                       product(moved(above, -kSumBits), reciprocal(below))),
               1);
}

inline Multiplier inverse_root(std::int32_t v) {
  Multiplier out;
  if (v <= 1) {
    out.m = std::numeric_limits<std::int32_t>::max();
    return out;
  }
  int right = 11;
  while (v >= 1 << 29) {
    v /= 4;
    ++right;
  }
  const int pairs = headroom(v) / 2 - 1;
  right -= pairs;
  v <<= 2 * pairs;
  // Three bits before the point.
  const std::int32_t half = moved(v >> 1, -1);
  std::int32_t x = 1 << 28;
  for (int i = 0; i < 5; ++i) {
    const std::int32_t cube = moved(product(product(x, x), x), 6);
    x = moved(product((1 << 28) + (1 << 27), x) - product(half, cube), 3);
  }
  constexpr std::int32_t kHalfRoot2 = 1518500250;
  out.m = product(x, kHalfRoot2);
  if (right < 0) {
    out.m = wrapped(std::int64_t{out.m} << -right);
    right = 0;
  }
  out.shift = -right;
  return out;
}

}  // namespace etalon::tflite
