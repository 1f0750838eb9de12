#include "kernels/integer/rows.h"

#include "engine/backend/bits_row.h"
#include "engine/ops/integer.h"
#include "kernels/integer/taps.h"

namespace etalon {
namespace {

void run_conv_integer(const KernelCall& call) {
  const ConvGeometry g =
      conv_geometry(call.params<ConvParams>(), call.input(0).shape(), call.input(1).shape());
  const SmallIntegers x(call.input(0)), w(call.input(1));
  const auto zero = [&](std::size_t i, std::int64_t channel) {
    if (!call.has(i)) return 0;
    return SmallIntegers(call.input(i))[call.input(i).numel() == 1 ? 0 : channel];
  };
  auto* y = reinterpret_cast<std::uint32_t*>(output_bytes(call, 0));
  for_each_output(g, call.threads, [&](std::int64_t i, std::int64_t o, const auto& taps) {
    const std::int32_t x_zero = zero(2, 0), w_zero = zero(3, o);
    std::uint32_t sum = 0;  // modulo 2^32
    taps([&](std::int64_t xi, std::int64_t wi) {
      sum += static_cast<std::uint32_t>((x[xi] - x_zero) * (w[wi] - w_zero));
    });
    y[i] = sum;
  });
}

}  // namespace

std::span<const KernelRow> integer_rows() {
  static const KernelRow rows[] = {
      bits_row<run_conv_integer>("conv_integer", "conv_integer.definition"),
  };
  return rows;
}

}  // namespace etalon
