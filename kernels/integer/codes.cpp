// encode, decode (engine/ops/codes.h).
#include "engine/ops/codes.h"

#include <array>

#include "engine/backend/bits_row.h"
#include "engine/core/threads.h"
#include "kernels/integer/rows.h"

namespace etalon {
namespace {

std::uint8_t code_of_real(const EncodeParams& p, double x) {
  if (!is_integer_code(p.format)) {
    if (p.format == Code::f4e2m1 && is_nan(x)) return 0x8;
    return code_of(p.format, x, p.saturate, p.round_mode);
  }
  if (!(abs_of(x) < 0x1p63)) return 0;
  const auto whole = static_cast<std::uint64_t>(static_cast<std::int64_t>(x));
  return code_of(p.format, code_value(p.format, static_cast<std::uint8_t>(whole)));
}

void run_encode(const KernelCall& call) {
  const auto& p = call.params<EncodeParams>();
  const Tensor& x = call.input(0);
  std::byte* y = output_bytes(call, 0);
  parallel_for(x.numel(), call.threads, 4096, [&](std::int64_t begin, std::int64_t end) {
    visit_dtype(x.dtype(), [&](auto zero) {
      using T = decltype(zero);
      const T* in = reinterpret_cast<const T*>(x.bytes().data());
      for (std::int64_t i = begin; i < end; ++i) {
        std::uint8_t code = 0;
        if constexpr (std::is_integral_v<T>)
          // The low bits of an integer; a floating format rounds it once: beyond 2^53 all saturate.
          code = is_integer_code(p.format)
                     ? code_of(p.format, code_value(p.format, static_cast<std::uint8_t>(in[i])))
                     : code_of(p.format, static_cast<double>(in[i]), p.saturate, p.round_mode);
        else
          code = code_of_real(p, element_as_double(in[i]));
        y[i] = static_cast<std::byte>(code);
      }
    });
  });
}

void run_decode(const KernelCall& call) {
  const Code format = call.params<DecodeParams>().format;
  std::array<float, 256> values;
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = canonical(static_cast<float>(code_value(format, static_cast<std::uint8_t>(i))));
  const auto x = call.input(0).data<std::uint8_t>();
  auto* y = reinterpret_cast<float*>(output_bytes(call, 0));
  parallel_for(call.input(0).numel(), call.threads, 16384,
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t i = begin; i < end; ++i)
                   y[i] = values[x[static_cast<std::size_t>(i)]];
               });
}

}  // namespace

std::span<const KernelRow> code_rows() {
  static const KernelRow rows[] = {
      bits_row<run_encode>("encode", "encode.definition"),
      bits_row<run_decode>("decode", "decode.definition"),
  };
  return rows;
}

}  // namespace etalon
