#include "kernels/matmul/exact.h"

#include <mutex>

#include "engine/backend/strided.h"
#include "engine/ops/matmul.h"
#include "kernels/gemm/exact.h"
#include "kernels/gemm/exact_narrow.h"
#include "kernels/matmul/batches.h"
#include "kernels/matmul/rows.h"

namespace etalon {
namespace {

// A constant b that is one matrix is packed once.
Prepared pack_constant(const Problem& problem, const Problem& halves, Isa isa, int threads) {
  const Tensor* b = problem.inputs[1].value;
  const MatMulGeometry g = matmul_geometry(problem.input(0).shape, problem.input(1).shape);
  if (b == nullptr || b->numel() != g.k * g.n || b->numel() == 0) return nullptr;
  return pack_exact_constant(isa,
                             {.m = g.m,
                              .n = g.n,
                              .k = g.k,
                              .b_is_constant = true,
                              .b_halves = bf16_or_null(*halves.inputs[1].value)},
                             {b->data<float>().data(), g.b_col, g.b_row}, threads);
}

template <Isa isa>
Prepared prepare(const Problem& problem, int threads) {
  return prepare_exact_pass(problem, threads, [&](const Problem& wide) {
    return pack_constant(wide, problem, isa, threads);
  });
}

// `call` in f32; `halves`: the call as it was.
void matmul_pass(const KernelCall& call, const KernelCall& halves, Isa isa, const ExactSteps& steps,
                 std::vector<std::int64_t>& undecided) {
  const std::uint16_t *a_halves = bf16_or_null(halves.input(0)),
                      *b_halves = bf16_or_null(halves.input(1));
  const MatMulGeometry g = matmul_geometry(call.input(0).shape(), call.input(1).shape());
  const float* a = call.input(0).data<float>().data();
  const float* b = call.input(1).data<float>().data();
  float* y = call.output(0).mutable_data<float>().data();
  double* truth =
      call.truth.empty() || !call.truth[0] ? nullptr : call.truth[0].mutable_data<double>().data();
  std::mutex joining;
  const auto product = [&](std::int64_t batch, int threads) {
    const std::int64_t first = batch * g.m * g.n, a_at = strided_offset(batch, g.batch, g.a_batch),
                       b_at = strided_offset(batch, g.batch, g.b_batch);
    std::vector<std::int64_t> left;
    gemm_exact(isa,
               {.m = g.m,
                .n = g.n,
                .k = g.k,
                .a = {a + a_at, g.a_row, g.a_col},
                .b = {b + b_at, g.b_col, g.b_row},
                .packed_b = static_cast<const ExactOperand*>(call.prepared),
                .y = y + first,
                .truth = truth == nullptr ? nullptr : truth + first,
                .steps = steps,
                .a_halves = a_halves == nullptr ? nullptr : a_halves + a_at,
                .b_halves = b_halves == nullptr ? nullptr : b_halves + b_at},
               threads, left);
    const std::scoped_lock lock(joining);
    for (const std::int64_t i : left) undecided.push_back(first + i);
  };
  each_product(g.batch.numel(), call.threads, product);
}

template <Isa isa>
void run(const KernelCall& call) {
  run_exact_pass(
      call, {},
      [&](const KernelCall& wide, const ExactSteps& steps, std::vector<std::int64_t>& left) {
        matmul_pass(wide, call, isa, steps, left);
      },
      run_matmul_definition);
}

}  // namespace

template <Isa isa>
KernelRow matmul_exact_row(std::string_view name) {
  return {.op = "matmul",
          .name = name,
          .isa = isa,
          .contracts = "exact",
          .refuse = refuse_unless_exact_narrow,
          .run = run<isa>,
          .prepare = prepare<isa>};
}
template KernelRow matmul_exact_row<Isa::amx>(std::string_view name);
template KernelRow matmul_exact_row<Isa::avx512>(std::string_view name);
template KernelRow matmul_exact_row<Isa::avx2>(std::string_view name);

}  // namespace etalon
