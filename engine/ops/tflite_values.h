// Values that TensorFlow Lite's integer kernels work with (tflite.h) and that a graph of simpler
// ops can hold as constants: ends of types, factors, tables of functions, places between elements.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "engine/numerics/function.h"
#include "engine/ops/tflite.h"
#include "engine/ops/tflite_fixed_point.h"

namespace etalon {

struct TfliteEnds {
  std::int64_t low, high;
  TfliteEnds(DType dtype, std::int64_t act_min, std::int64_t act_max) {
    if (dtype == DType::i32) {
      low = std::max(act_min, kActLowest);
      high = std::min(act_max, kActHighest);
      return;
    }
    const bool wide = dtype == DType::i16, is_unsigned = dtype == DType::u8;
    low = std::max<std::int64_t>(act_min, wide ? -32768 : is_unsigned ? 0 : -128);
    high = std::min<std::int64_t>(act_max, wide ? 32767 : is_unsigned ? 255 : 127);
  }
  std::int64_t held(std::int64_t v) const { return v < low ? low : v > high ? high : v; }
};

// Of a float to the nearest integer, halves away from zero; beyond 32 bits and NaN are held.
inline std::int64_t rounded_away(float x) {
  if (!(x == x)) return 0;
  return static_cast<std::int64_t>(std::clamp(std::round(static_cast<double>(x)), -0x1p31, 0x1p31));
}

// The same, cut.
inline std::int64_t cut(float x) {
  if (!(x == x)) return 0;
  return static_cast<std::int64_t>(std::clamp(static_cast<double>(x), -0x1p31, 0x1p31));
}

namespace tflite {

// The factor of each output channel.
inline std::vector<Multiplier> multipliers(const TfliteConvParams& p, std::int64_t channels,
                                           bool product_in_f32) {
  std::vector<Multiplier> list;
  for (std::int64_t o = 0; o < channels; ++o) {
    const float w = p.w_scales[p.w_scales.size() == 1 ? 0 : static_cast<std::size_t>(o)];
    const double product = product_in_f32 ? static_cast<double>(p.x_scale * w)
                                          : static_cast<double>(p.x_scale) * static_cast<double>(w);
    list.emplace_back(product / static_cast<double>(p.y_scale));
  }
  return list;
}

// What scales a sum of n elements: a sum's own factor, a mean's is divided by n.
inline Multiplier of_sums(const TfliteMeanParams& p, std::int64_t n, bool mean) {
  Multiplier m(static_cast<double>(p.x_scale) / static_cast<double>(p.y_scale));
  if (!mean) return m;
  const int halvings = std::min(
      {static_cast<int>(std::bit_width(static_cast<std::uint64_t>(n))) - 1, 32, 31 + m.shift});
  m.m = static_cast<std::int32_t>(std::int64_t{m.m} * (std::int64_t{1} << halvings) / n);
  m.shift -= halvings;
  return m;
}

// Where an element of the result lies between two of the input's.
template <class Number>
struct Between {
  std::int64_t lower, upper;
  Number to_lower, to_upper;  // their weights
};

inline Between<std::int64_t> between(std::int64_t o, std::int64_t in, std::int64_t out,
                                     const TfliteResizeParams& p) {
  const bool corners = p.align_corners && out > 1;
  const std::int64_t step =
      corners ? (1024 * (in - 1) + (out - 1) / 2) / (out - 1) : (1024 * in + out / 2) / out;
  const std::int64_t at = p.half_pixel ? step * o + step / 2 - 512 : step * o;
  // A step that was rounded up leads past the last element; the reference then reads beyond it.
  const std::int64_t lower = std::clamp<std::int64_t>(at / 1024, 0, in - 1),
                     upper = std::min((at + 1023) / 1024, in - 1);
  return {lower, upper, 1024 - (at - 1024 * lower), at - 1024 * lower};
}

inline Between<float> between_f32(std::int64_t o, std::int64_t in, std::int64_t out,
                                  const TfliteResizeParams& p) {
  const bool corners = p.align_corners && out > 1;
  const float step = corners ? static_cast<float>(in - 1) / static_cast<float>(out - 1)
                             : static_cast<float>(in) / static_cast<float>(out);
  const auto place = static_cast<float>(o);
  const float at = p.half_pixel ? (place + 0.5F) * step - 0.5F : place * step;
  const std::int64_t lower = std::clamp<std::int64_t>(static_cast<std::int64_t>(std::floor(at)), 0,
                                                      in - 1),
                     upper = std::min(static_cast<std::int64_t>(std::ceil(at)), in - 1);
  const float rest = at - static_cast<float>(lower);
  return {lower, upper, 1 - rest, rest};
}

// A function of 8-bit numbers, by their distance to the lowest.
inline std::array<std::int64_t, 256> function_table(Function f, const TfliteUnaryParams& p,
                                                    DType dtype) {
  const TfliteEnds ends(dtype, p.act_min, p.act_max);
  const std::int64_t lowest = dtype == DType::i8 ? -128 : 0;
  const float inverse = 1.0F / p.y_scale;
  std::array<std::int64_t, 256> table{};
  for (std::int64_t i = 0; i < 256; ++i) {
    const float real = p.x_scale * static_cast<float>(lowest + i - p.x_zero);
    table[static_cast<std::size_t>(i)] =
        ends.held(rounded_away(correctly_rounded_f32(f, real) * inverse) + p.y_zero);
  }
  return table;
}

// exp(beta * x) of what lies 0 .. 255 steps below the largest.
inline std::array<float, 256> softmax_table(const TfliteUnaryParams& p) {
  std::array<float, 256> table{};
  const float step = -p.x_scale * p.beta;
  for (std::size_t i = 0; i < table.size(); ++i)
    table[i] = correctly_rounded_f32(Function::exp, step * static_cast<float>(i));
  return table;
}

// What a log-softmax scales by, and each number's term of its sum; `below` is the distance to the
// largest, at most 0.
struct LogSoftmaxFactors {
  static constexpr int kBits = 5, kSumBits = 12;
  explicit LogSoftmaxFactors(const TfliteUnaryParams& p)
      : by(std::min(static_cast<double>(p.x_scale) * (1 << (31 - kBits)), 0x1p31 - 1)),
        back(static_cast<double>(std::int64_t{1} << (31 - by.shift)) / by.m),
        least(-static_cast<std::int32_t>(std::floor(
            31.0 * (1 << (31 - kBits)) / static_cast<double>(std::int64_t{1} << by.shift)))) {}
  std::int64_t term(std::int32_t below) const {
    return below < least ? 0 : moved(exp_of_negative(by.scaled(below), kBits), -kSumBits);
  }
  Multiplier by, back;
  std::int32_t least;
};

// A quotient of 8-bit numbers, which `m` scales.
inline std::int64_t quotient(std::int32_t above, std::int32_t below, const TfliteBinaryParams& p,
                             const Multiplier& m, const TfliteEnds& ends) {
  if (below == 0) return above > 0 ? ends.high : above < 0 ? ends.low : ends.held(p.y_zero);
  if (below < 0) {
    above = -above;
    below = -below;
  }
  // 1 / below = inverse * 2^-(bits + 31); above fills its 32 bits before the product.
  const int zeros = std::countl_zero(static_cast<std::uint32_t>(below)), bits = 31 - zeros;
  const std::int32_t inverse =
      reciprocal(wrapped((std::int64_t{below} << zeros) - (std::int64_t{1} << 31)));
  const auto magnitude = static_cast<std::uint32_t>(above < 0 ? ~above : above);
  const int room = above == 0 ? 31 : std::countl_zero(magnitude) - 1;
  const std::int32_t whole = product(wrapped(std::int64_t{above} << room), inverse);
  const int shift = std::clamp(m.shift - bits - room, -31, 31);
  return ends.held(std::int64_t{moved(product(whole, m.m), shift)} + p.y_zero);
}

}  // namespace tflite
}  // namespace etalon
