#include "kernels/matmul/fast.h"

#include "engine/backend/strided.h"
#include "engine/ops/matmul.h"
#include "kernels/gemm/fast.h"
#include "kernels/gemm/refuse.h"
#include "kernels/matmul/batches.h"

namespace etalon {
namespace {

struct PreparedMatMul {
  AlignedBuffer b;
};

// A constant b that is one matrix is packed once.
template <Isa isa>
Prepared prepare(const Problem& problem, int threads) {
  const Tensor* b = problem.inputs[1].value;
  const MatMulGeometry g = matmul_geometry(problem.input(0).shape, problem.input(1).shape);
  if (b == nullptr || b->numel() != g.k * g.n || b->numel() == 0) return nullptr;
  const TileSet& set = *tile_set_f32(isa);
  auto prepared = std::make_shared<PreparedMatMul>();
  pack_vector(set, {b->data<float>().data(), g.b_col, g.b_row}, g.n, g.k, threads,
              prepared->b.at_least<float>(vector_strips(g.n, set.lanes) * set.lanes * g.k));
  return prepared;
}

template <Isa isa>
void run(const KernelCall& call) {
  const MatMulGeometry g = matmul_geometry(call.input(0).shape(), call.input(1).shape());
  const float* a = call.input(0).data<float>().data();
  const float* b = call.input(1).data<float>().data();
  float* y = call.output(0).mutable_data<float>().data();
  const auto* prepared = static_cast<const PreparedMatMul*>(call.prepared);
  const auto product = [&](std::int64_t batch, int threads) {
    gemm_f32(*tile_set_f32(isa),
             {.m = g.m,
              .n = g.n,
              .k = g.k,
              .a = {a + strided_offset(batch, g.batch, g.a_batch), g.a_row, g.a_col},
              .b = {b + strided_offset(batch, g.batch, g.b_batch), g.b_col, g.b_row},
              .packed_b = prepared == nullptr ? nullptr : prepared->b.template data<float>(),
              .y = y + batch * g.m * g.n},
             threads);
  };
  each_product(g.batch.numel(), call.threads, product);
}

}  // namespace

template <Isa isa>
KernelRow matmul_f32_row(std::string_view name) {
  return {.op = "matmul",
          .name = name,
          .isa = isa,
          .contracts = "seq",
          .refuse = refuse_unless_seq_f32,
          .run = run<isa>,
          .prepare = prepare<isa>};
}
template KernelRow matmul_f32_row<Isa::avx512>(std::string_view name);
template KernelRow matmul_f32_row<Isa::avx2>(std::string_view name);

}  // namespace etalon
