// TensorFlow Lite's functions of 16-bit integers by tables between whose elements a line runs
// (engine/ops/tflite.h).
#include "engine/ops/tflite_sixteen.h"

#include <bit>

#include "engine/ops/tflite.h"
#include "kernels/integer/rows.h"
#include "kernels/integer/tflite_parts.h"

namespace etalon {
using tflite::held;
using tflite::Multiplier;

void run_logistic_sixteen(const KernelCall& call) {
  const tflite::SigmoidOf16Bits sigmoid(call.params<TfliteUnaryParams>().x_scale);
  const SmallIntegers x(call.input(0));
  for_each_element(call, [&](std::int64_t i) { return sigmoid(x[i]); });
}

void run_tanh_sixteen(const KernelCall& call) {
  const tflite::TanhOf16Bits tanh(call.params<TfliteUnaryParams>().x_scale);
  const SmallIntegers x(call.input(0));
  for_each_element(call, [&](std::int64_t i) { return tanh(x[i]); });
}

void run_softmax_sixteen(const KernelCall& call) {
  const auto& p = call.params<TfliteUnaryParams>();
  const auto &kept_exp = tflite::exp_table(), &kept_inverse = tflite::inverse_table();
  const Multiplier m(tflite::softmax_factor(p));
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
        y[r * k + j] = kept_exp(held<std::int16_t>(below + 32767));
        sum += y[r * k + j];
      }
      // The sum is 2^(31 - zeros) times 1 to 2, of which 16 bits are kept.
      const int zeros = std::countl_zero(static_cast<std::uint32_t>(sum));
      const std::int64_t kept = ((sum << (zeros - 1)) + (1 << 13)) >> 14;
      const std::int64_t inverse = kept_inverse(held<std::int16_t>(kept - (1 << 15) - (1 << 16)));
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
