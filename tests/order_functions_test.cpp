// Claim: powers of a narrow accumulator have the bits of ContractArithmetic::pow for every number
// of f16 and of bf16: the 3/4 of LRN by roots in f32, and another exponent by the f32 kernel.
#include "kernels/activation/order_functions.h"

#include <doctest/doctest.h>

#include <bit>
#include <vector>

#include "engine/numerics/contract_arithmetic.h"
#include "kernels/gemm/order_panel.h"

using namespace etalon;

namespace {

float of_bits(DType type, std::uint32_t bits) {
  if (type == DType::bf16) return std::bit_cast<float>(bits << 16U);
  return to_float(std::bit_cast<Float16>(static_cast<std::uint16_t>(bits)));
}

bool same(float a, float b) {
  return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
}

}  // namespace

TEST_CASE("order functions: powers of f16 and bf16, every number") {
  std::int64_t compared = 0, differ = 0;
  for (const char* text : {"acc=f16", "acc=f16,subnormals=flush", "acc=bf16",
                           "acc=bf16,subnormals=flush", "acc=f16,fma=off,round=rz"}) {
    const Contract c = Contract::parse(text);
    // Values of `acc` in the sequence of their bits, so that few blocks have one that is negative
    // or not finite, and then from one end and the other in turn.
    std::vector<float> values;
    for (std::uint32_t b = 0; b < 0x10000; ++b) values.push_back(of_bits(c.acc, b));
    for (std::uint32_t b = 0; b < 0x10000; b += 64)
      values.push_back(of_bits(c.acc, b % 128 == 0 ? b : 0xffff - b));
    const ContractArithmetic<SoftOps> a(c);
    for (const double exponent : {0.75, 0.625}) {
      std::vector<float> wanted;
      for (const float v : values)
        wanted.push_back(static_cast<float>(a.pow(static_cast<double>(v), exponent)));
      for (const Isa isa : {Isa::avx2, Isa::avx512}) {
        if (detect_isa() < isa) continue;
        std::vector<float> got = values;
        call_order_power(c, isa, order_tiles<float>(isa, c), exponent, got.data(),
                         static_cast<std::int64_t>(got.size()));
        for (std::size_t i = 0; i < got.size(); ++i) differ += same(got[i], wanted[i]) ? 0 : 1;
        compared += static_cast<std::int64_t>(got.size());
      }
    }
  }
  CHECK(differ == 0);
  CHECK((compared > 600'000 || detect_isa() < Isa::avx2));
}
