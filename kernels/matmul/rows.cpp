#include "kernels/matmul/rows.h"

#include "engine/backend/bits_row.h"
#include "kernels/gemm/halves_row.h"
#include "kernels/gemm/order_rows.h"
#include "kernels/matmul/definition.h"
#include "kernels/matmul/exact.h"
#include "kernels/matmul/fast.h"

namespace etalon {
namespace {

Refusal refuse_floats(const Problem& problem) {
  if (is_floating(problem.input(0).dtype)) return "computes on integers";
  if (problem.input(0).dtype == DType::boolean) return "bool has no sum; cast to an integer";
  return std::nullopt;
}

// Products and sums modulo 2^bits: unsigned 64-bit arithmetic, cut on storing.
void run_integers(const KernelCall& call) {
  const MatMulGeometry g = matmul_geometry(call.input(0).shape(), call.input(1).shape());
  visit_dtype(call.input(0).dtype(), [&](auto zero) {
    using T = decltype(zero);
    if constexpr (std::is_integral_v<T>) {
      const T* a = call.input(0).data<T>().data();
      const T* b = call.input(1).data<T>().data();
      T* y = reinterpret_cast<T*>(output_bytes(call, 0));
      parallel_for(
          g.batch.numel() * g.m, call.threads, 1, [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t r = begin; r < end; ++r) {
              const std::int64_t batch = r / g.m;
              const T* ar = a + strided_offset(batch, g.batch, g.a_batch) + r % g.m * g.a_row;
              const T* bm = b + strided_offset(batch, g.batch, g.b_batch);
              for (std::int64_t n = 0; n < g.n; ++n) {
                std::uint64_t s = 0;
                for (std::int64_t k = 0; k < g.k; ++k)
                  s += static_cast<std::uint64_t>(ar[k * g.a_col]) *
                       static_cast<std::uint64_t>(bm[k * g.b_row + n * g.b_col]);
                y[r * g.n + n] = static_cast<T>(s);
              }
            }
          });
    }
  });
}

}  // namespace

void run_matmul_definition(const KernelCall& call, std::span<const std::int64_t> outputs) {
  run_definition<MatMulDefinition>(call, outputs);
}

std::span<const KernelRow> matmul_rows() {
  static const KernelRow rows[] = {
      bits_row<run_integers>("matmul", "matmul.bits", refuse_floats),
#if defined(__x86_64__)
      matmul_f32_row<Isa::avx512>("matmul.f32.avx512.14x32"),
      matmul_f32_row<Isa::avx2>("matmul.f32.avx2.6x16"),
      halves_row<matmul_f32_row<Isa::avx512>>("matmul.halves.avx512.14x32"),
      halves_row<matmul_f32_row<Isa::avx2>>("matmul.halves.avx2.6x16"),
      matmul_exact_row<Isa::amx>("matmul.exact.amx"),
      matmul_exact_row<Isa::avx512>("matmul.exact.avx512.14x16"),
      matmul_exact_row<Isa::avx2>("matmul.exact.avx2.6x8"),
      matmul_order_row<Isa::avx512>("matmul.order.avx512"),
      matmul_order_row<Isa::avx2>("matmul.order.avx2"),
#endif
      [] {
        KernelRow row = definition_row<MatMulDefinition>("matmul.definition");
        row.refuse = [](const Problem& problem) -> Refusal {
          if (!is_floating(problem.input(0).dtype)) return "computes on floating types";
          return refuse_definition(problem);
        };
        return row;
      }(),
  };
  return rows;
}

}  // namespace etalon
