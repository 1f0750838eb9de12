// TensorFlow Lite's functions of 16-bit integers (tflite.h), one number at a time.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>

#include "engine/numerics/function.h"
#include "engine/ops/tflite.h"
#include "engine/ops/tflite_fixed_point.h"
#include "engine/ops/tflite_table.h"

namespace etalon::tflite {

inline double rounded_f64(Function f, double x) {
  return correctly_rounded_function(f, x, DType::f64);
}

// 2^16 sigmoid(i / 24), each raised by half of what the chord to the next lies below the curve in
// its middle; the last is 2^16 - 1.
inline const std::array<std::int64_t, 256>& sigmoids() {
  static const std::array<std::int64_t, 256> kTable = [] {
    std::array<std::int64_t, 256> out{};
    const auto at = [](double i) { return rounded_f64(Function::sigmoid, i / 24); };
    for (std::size_t i = 0; i < 255; ++i) {
      const auto x = static_cast<double>(i);
      const double below = at(x + 0.5) - (at(x) + at(x + 1)) / 2;
      out[i] = static_cast<std::int64_t>(std::round(0x1p16 * (at(x) + below / 2)));
    }
    out[255] = 65535;
    return out;
  }();
  return kTable;
}

// x on the scale 1 / 12288: a power of two near enough is taken for one.
class OnTwelfths {
 public:
  OnTwelfths(float scale, int most_shift) {
    constexpr float kLog2 = 0x1.62e43p-1F;  // of the reals' log(2), the nearest
    const float log2 = correctly_rounded_f32(Function::log, scale) * (1.0F / kLog2);
    const float whole = std::round(log2);
    const int power = 12 + static_cast<int>(whole);
    if (std::fabs(log2 - whole) < 1e-3F && power >= 0 && power <= most_shift) {
      factor_ = std::int64_t{3} << power;
      return;
    }
    double factor = static_cast<double>(scale) * 4096.0 * 3.0;
    for (; factor <= 32767.0 / 2.0 && shift_ <= 30; ++shift_) factor *= 2;
    factor_ = static_cast<std::int64_t>(std::min(factor, 0x1p31 - 1));
  }
  std::int32_t operator()(std::int32_t x) const {
    const std::int64_t half = shift_ > 0 ? std::int64_t{1} << (shift_ - 1) : 0;
    return wrapped(wrapped(x * factor_ + half) >> shift_);
  }

 private:
  std::int64_t factor_ = 0;
  int shift_ = 0;
};

// 2^16 sigmoid between two elements of the table that lie 2^bits apart, with `bits` more.
inline std::int64_t sigmoid_of(std::int64_t magnitude, int bits, std::int64_t most) {
  const std::int64_t i = magnitude >> bits;
  if (i >= 255) return most;
  const auto at = static_cast<std::size_t>(i);
  const std::int64_t rest = magnitude & ((std::int64_t{1} << bits) - 1);
  return (sigmoids()[at] << bits) + rest * (sigmoids()[at + 1] - sigmoids()[at]);
}

class SigmoidOf16Bits {
 public:
  explicit SigmoidOf16Bits(float scale) : scaled_(scale, 0) {}
  std::int64_t operator()(std::int32_t x) const {
    const std::int64_t v = scaled_(x);
    const std::int64_t y = sigmoid_of(v < 0 ? -v : v, 9, std::int64_t{0x7FFF} << 10);
    return (v >= 0 ? y + 512 : (1 << 25) - y + 511) >> 10;
  }

 private:
  OnTwelfths scaled_;
};

class TanhOf16Bits {
 public:
  explicit TanhOf16Bits(float scale) : scaled_(scale, 1) {}
  std::int64_t operator()(std::int32_t x) const {
    const std::int64_t v = scaled_(x);
    const std::int64_t y = sigmoid_of(v < 0 ? -v : v, 8, std::int64_t{0xFFFF} << 8) - (1 << 23);
    return wrapped<std::int16_t>((v >= 0 ? y + 128 : -y + 127) >> 8);
  }

 private:
  OnTwelfths scaled_;
};

// e^x of -10 .. 0, on a scale of 2 / 65535.
inline const InterpolatedTable<double>& exp_table() {
  static const InterpolatedTable<double> kTable(
      {10.0 / 65535, 32767, 2.0 / 65535, 0},
      [](double v) { return rounded_f64(Function::exp, v); });
  return kTable;
}
// 1 / (1 + x) of 0 .. 1, on the same.
inline const InterpolatedTable<double>& inverse_table() {
  static const InterpolatedTable<double> kTable({1.0 / 65535, -32768, 2.0 / 65535, 0},
                                                [](double v) { return 1 / (1 + v); });
  return kTable;
}
inline double softmax_factor(const TfliteUnaryParams& p) {
  return static_cast<double>(p.x_scale * p.beta) / (10.0 / 65535);
}

}  // namespace etalon::tflite
