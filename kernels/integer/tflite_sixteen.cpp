// TensorFlow Lite's functions of 16-bit integers by tables between whose elements a line runs
// (engine/ops/tflite.h).
#include <array>
#include <bit>

#include "engine/numerics/function.h"
#include "engine/ops/tflite.h"
#include "engine/ops/tflite_fixed_point.h"
#include "engine/ops/tflite_table.h"
#include "kernels/integer/rows.h"
#include "kernels/integer/tflite_parts.h"

namespace etalon {
namespace {

using tflite::held;
using tflite::InterpolatedTable;
using tflite::Multiplier;

double rounded_f64(Function f, double x) { return correctly_rounded_function(f, x, DType::f64); }

// 2^16 sigmoid(i / 24), each raised by half of what the chord to the next lies below the curve in
// its middle; the last is 2^16 - 1.
const std::array<std::int64_t, 256>& sigmoids() {
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
    const float log2 = std::log(scale) * (1.0F / std::log(2.0F));
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
    return tflite::wrapped(tflite::wrapped(x * factor_ + half) >> shift_);
  }

 private:
  std::int64_t factor_ = 0;
  int shift_ = 0;
};

// 2^16 sigmoid between two elements of the table that lie 2^bits apart, with `bits` more.
std::int64_t sigmoid_of(std::int64_t magnitude, int bits, std::int64_t most) {
  const std::int64_t i = magnitude >> bits;
  if (i >= 255) return most;
  const auto at = static_cast<std::size_t>(i);
  const std::int64_t rest = magnitude & ((std::int64_t{1} << bits) - 1);
  return (sigmoids()[at] << bits) + rest * (sigmoids()[at + 1] - sigmoids()[at]);
}

}  // namespace

void run_logistic_sixteen(const KernelCall& call) {
  const OnTwelfths scaled(call.params<TfliteUnaryParams>().x_scale, 0);
  const SmallIntegers x(call.input(0));
  for_each_element(call, [&](std::int64_t i) {
    const std::int64_t v = scaled(x[i]);
    const std::int64_t y = sigmoid_of(v < 0 ? -v : v, 9, std::int64_t{0x7FFF} << 10);
    return (v >= 0 ? y + 512 : (1 << 25) - y + 511) >> 10;
  });
}

void run_tanh_sixteen(const KernelCall& call) {
  const OnTwelfths scaled(call.params<TfliteUnaryParams>().x_scale, 1);
  const SmallIntegers x(call.input(0));
  for_each_element(call, [&](std::int64_t i) {
    const std::int64_t v = scaled(x[i]);
    const std::int64_t y = sigmoid_of(v < 0 ? -v : v, 8, std::int64_t{0xFFFF} << 8) - (1 << 23);
    return std::int64_t{tflite::wrapped<std::int16_t>((v >= 0 ? y + 128 : -y + 127) >> 8)};
  });
}

void run_softmax_sixteen(const KernelCall& call) {
  const auto& p = call.params<TfliteUnaryParams>();
  constexpr double kRange = 65535;
  // e^x of -10..0 and 1/(1 + x) of 0..1, both on a scale of 2 / 65535.
  static const InterpolatedTable<double> kExp(
      {10 / kRange, 32767, 2 / kRange, 0}, [](double v) { return rounded_f64(Function::exp, v); });
  static const InterpolatedTable<double> kInverse({1 / kRange, -32768, 2 / kRange, 0},
                                                  [](double v) { return 1 / (1 + v); });
  const Multiplier m(static_cast<double>(p.x_scale * p.beta) / (10 / kRange));
  const SmallIntegers x(call.input(0));
  const Shape& shape = call.input(0).shape();
  const std::int64_t k = shape.rank() == 0 ? 1 : shape[shape.rank() - 1];
  const std::int64_t rows = k == 0 ? 0 : call.input(0).numel() / k;
  auto* y = reinterpret_cast<std::int16_t*>(output_bytes(call, 0));
  parallel_for(rows, call.threads, 16, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      std::int32_t most = x[r * k];
      for (std::int64_t j = 1; j < k; ++j) most = std::max(most, x[r * k + j]);
      std::int64_t sum = 0;
      for (std::int64_t j = 0; j < k; ++j) {
        const std::int64_t below = m.scaled(x[r * k + j] - most);
        y[r * k + j] = kExp(held<std::int16_t>(below + 32767));
        sum += y[r * k + j];
      }
      // The sum is 2^(31 - zeros) times 1 to 2, of which 16 bits are kept.
      const int zeros = std::countl_zero(static_cast<std::uint32_t>(sum));
      const std::int64_t kept = ((sum << (zeros - 1)) + (1 << 13)) >> 14;
      const std::int64_t inverse = kInverse(held<std::int16_t>(kept - (1 << 15) - (1 << 16)));
      const int shift = 31 - zeros;
      for (std::int64_t j = 0; j < k; ++j) {
        const std::int64_t share =
            (y[r * k + j] * inverse + (std::int64_t{1} << (shift - 1))) >> shift;
        y[r * k + j] = static_cast<std::int16_t>(std::clamp<std::int64_t>(share, 0, 32767));
      }
    }
  });
}

namespace {

void run_interpolate(const KernelCall& call) {
  const auto x = call.input(0).data<std::int16_t>(), table = call.input(1).data<std::int16_t>();
  for_each_element(call, [&](std::int64_t i) {
    return std::int64_t{tflite::interpolated(table, x[static_cast<std::size_t>(i)])};
  });
}

}  // namespace

std::span<const KernelRow> tflite_sixteen_rows() {
  static const KernelRow rows[] = {
      bits_row<run_interpolate>("tflite_interpolate", "tflite_interpolate.definition")};
  return rows;
}

}  // namespace etalon
