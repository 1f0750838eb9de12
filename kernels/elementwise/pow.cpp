// pow on f32 by vectors of f64 lanes: e^(y log x) with a proven error and the rounding test of
// activation/lanes.h; zeros, negative bases, infinities, NaN and what the test leaves open go to
// the definition. x^2 is one product.
#include "engine/backend/strided.h"
#include "engine/numerics/real.h"
#include "engine/ops/elementwise.h"
#include "kernels/activation/lanes.h"
#include "kernels/elementwise/rows.h"
#include "kernels/gemm/refuse.h"

namespace etalon {
namespace {

float scalar(float x, float y) {
  return canonical(static_cast<float>(correctly_rounded(
      [&](auto& a) {
        return a.pow(a.input(static_cast<double>(x)), a.input(static_cast<double>(y)));
      },
      DType::f32)));
}

template <Isa kIsa>
void run(const KernelCall& call) {
  if (!call.truth.empty()) return run_elementwise_definition(call);
  const Tensor &a = call.input(0), &b = call.input(1);
  const float *x = a.data<float>().data(), *y = b.data<float>().data();
  float* out = call.output(0).mutable_data<float>().data();
  const PowKernel kernel = pow_kernel(kIsa);
  const auto loop = broadcast_loop<2>(call.output(0).shape(), {a.shape(), b.shape()});
  const auto step = loop.step();
  loop.run(call.threads, [&](const std::array<std::int64_t, 3>& at, std::int64_t n) {
    if (step[1] != 0 || n == 1) {
      kernel(x + at[1], y + at[2], step[2] != 0, out + at[0], n, {scalar});
      return;
    }
    constexpr std::int64_t kBlock = 256;  // one base for many exponents
    float base[kBlock];
    std::fill_n(base, kBlock, x[at[1]]);
    for (std::int64_t i = 0; i < n; i += kBlock)
      kernel(base, y + at[2] + i, true, out + at[0] + i, std::min(kBlock, n - i), {scalar});
  });
}

}  // namespace

std::span<const KernelRow> elementwise_pow_rows() {
#if defined(__x86_64__)
  static const KernelRow rows[] = {
      {.op = "pow",
       .name = "pow.f32.avx512",
       .isa = Isa::avx512,
       .contracts = "any with round=rn, subnormals=keep, store=f32",
       .refuse = refuse_unless_nearest_f32,
       .run = run<Isa::avx512>},
      {.op = "pow",
       .name = "pow.f32.avx2",
       .isa = Isa::avx2,
       .contracts = "any with round=rn, subnormals=keep, store=f32",
       .refuse = refuse_unless_nearest_f32,
       .run = run<Isa::avx2>},
  };
  return rows;
#else
  return {};
#endif
}

}  // namespace etalon
