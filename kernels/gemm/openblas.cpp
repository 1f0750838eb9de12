// gemm and matmul of two matrices by OpenBLAS's sgemm, f32. Nothing is promised about bits. The
// interface has no packed operands: each run packs both, as every caller of a BLAS does.
#include "kernels/gemm/openblas.h"

#include <cstring>

#include "engine/ops/gemm.h"
#include "engine/ops/matmul.h"
#include "kernels/backends/openblas/openblas.h"

namespace etalon {
namespace {

// c is broadcast into the output, then the product is added onto it.
void run_gemm(const KernelCall& call) {
  const auto& params = call.params<GemmParams>();
  const Shape &a = call.input(0).shape(), &b = call.input(1).shape();
  const GemmGeometry g = gemm_geometry(params, a, b);
  float* y = call.output(0).mutable_data<float>().data();
  const bool add = call.has(2) && params.beta != 0.0F;
  if (add) {
    const Tensor& c = call.input(2);
    const float* from = c.data<float>().data();
    const std::int64_t rank = c.shape().rank();
    const std::int64_t row = rank == 2 && c.shape()[0] > 1 ? c.shape()[1] : 0;
    const bool wide = rank >= 1 && c.shape().dim(-1) > 1;
    for (std::int64_t m = 0; m < g.m; ++m)
      for (std::int64_t n = 0; n < g.n; ++n) y[m * g.n + n] = from[m * row + (wide ? n : 0)];
  }
  openblas::sgemm({.m = g.m,
                   .n = g.n,
                   .k = g.k,
                   .alpha = params.alpha,
                   .beta = add ? params.beta : 0.0F,
                   .a = call.input(0).data<float>().data(),
                   .lda = a[1],
                   .trans_a = params.trans_a,
                   .b = call.input(1).data<float>().data(),
                   .ldb = b[1],
                   .trans_b = params.trans_b,
                   .c = y,
                   .ldc = g.n},
                  call.threads);
}

void run_matmul(const KernelCall& call) {
  const Shape &a = call.input(0).shape(), &b = call.input(1).shape();
  openblas::sgemm({.m = a[0],
                   .n = b[1],
                   .k = a[1],
                   .a = call.input(0).data<float>().data(),
                   .lda = a[1],
                   .b = call.input(1).data<float>().data(),
                   .ldb = b[1],
                   .c = call.output(0).mutable_data<float>().data(),
                   .ldc = b[1]},
                  call.threads);
}

}  // namespace

std::span<const KernelRow> openblas_gemm_rows() {
  static const KernelRow rows[] = {
      {.op = "gemm",
       .name = "openblas.gemm",
       .promise = Promise::vendor,
       .contracts = "none",
       .refuse = openblas::refuse,
       .run = run_gemm,
       .version = openblas::version},
      {.op = "matmul",
       .name = "openblas.matmul",
       .promise = Promise::vendor,
       .contracts = "none",
       .refuse = [](const Problem& problem) -> Refusal {
         if (problem.input(0).shape.rank() != 2 || problem.input(1).shape.rank() != 2)
           return "takes two matrices";
         return openblas::refuse(problem);
       },
       .run = run_matmul,
       .version = openblas::version},
  };
  return rows;
}

}  // namespace etalon
