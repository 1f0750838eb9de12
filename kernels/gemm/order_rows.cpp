// Packing: rows of a become strips, columns of b panels of two vectors; terms as the op counts
// them.
#include "kernels/gemm/order_rows.h"

#include <algorithm>

#include "engine/backend/strided.h"
#include "engine/core/threads.h"
#include "engine/numerics/fp.h"
#include "engine/ops/gemm.h"
#include "engine/ops/matmul.h"
#include "kernels/gemm/rounding_scope.h"

namespace etalon {
namespace {

// One product or a batch of them, y = alpha * (a b) + beta * c.
struct Products {
  std::int64_t batches = 1, m = 0, n = 0, k = 0;
  std::int64_t a_row = 0, a_k = 0, b_k = 0, b_col = 0;
  FunctionRef<std::int64_t(std::int64_t)> a_first, b_first;
  float alpha = 1.0F, beta = 1.0F;
  std::int64_t c_row = 0, c_col = 0;
};

// Columns of b as f32, [k][width] from element 0 of `to` on; past the last one anything.
template <class T>
void lay_columns(const OrderTiles<T>& tiles, const float* from, std::int64_t b_k,
                 std::int64_t b_col, std::int64_t terms, std::int64_t count, float* to) {
  const std::int64_t width = tiles.width;
  if (b_k == 1) {
    std::int64_t first[64];
    for (std::int64_t j = 0; j < width; ++j) first[j] = std::min(j, count - 1) * b_col;
    for (std::int64_t j = 0; j < width; j += tiles.block)
      tiles.turn(from, first + j, terms, to + j, width);
    return;
  }
  std::fill_n(to, terms * width, 0.0F);
  for (std::int64_t k = 0; k < terms; ++k)
    for (std::int64_t j = 0; j < count; ++j) to[k * width + j] = from[j * b_col + k * b_k];
}

// Of a constant b: [panel][k][width], as OrderTask::b has them.
struct PackedColumns {
  AlignedBuffer panels;
};

template <class T>
Prepared pack_columns(const Tensor& b, const GemmGeometry& g, const OrderTiles<T>& tiles,
                      const Contract& contract, int threads) {
  const std::int64_t width = tiles.width, panels = (g.n + width - 1) / width;
  auto packed = std::make_shared<PackedColumns>();
  float* all = packed->panels.at_least<float>(std::max<std::int64_t>(1, panels * g.k * width));
  const OrderSource source(b, contract, threads);
  parallel_for(panels, threads, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t panel = begin; panel < end; ++panel) {
      float* to = all + panel * g.k * width;
      const std::int64_t first = panel * width;
      lay_columns(tiles, source.data() + first * g.b_col, g.b_row, g.b_col, g.k,
                  std::min(width, g.n - first), to);
      if constexpr (std::is_same_v<T, float>) {
        const RoundingScope scope(tiles.others);
        tiles.enter(to, to, g.k * width);
      }
    }
  });
  return packed;
}

template <class T>
void multiply(const KernelCall& call, const OrderTiles<T>& tiles, const Products& p) {
  const Contract& contract = call.contract();
  if (p.batches * p.m * p.n == 0) return;
  const OrderOperand<T> a(call.input(0), tiles, contract, call.threads);
  // Converted panel by panel, where it was not packed beforehand: one row of a leaves no time for a
  // converted copy of b.
  const OrderSource b =
      call.prepared != nullptr ? OrderSource() : OrderSource(call.input(1), contract, call.threads);
  std::optional<OrderOperand<T>> c;
  if (call.has(2)) c.emplace(call.input(2), tiles, contract, call.threads);
  const auto in_acc = [&](float x) {
    return static_cast<T>(
        round_to(static_cast<double>(x), contract.acc, contract.round, contract.subnormals));
  };
  const T alpha = in_acc(p.alpha), beta = in_acc(p.beta);
  AlignedBuffer strips;
  T* packed_a = strips.at_least<T>(std::max<std::int64_t>(1, p.batches * p.m * p.k));
  parallel_for(p.batches, call.threads, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      pack_order_rows(a.data() + p.a_first(i), p.m, p.k, p.a_row, p.a_k, nullptr,
                      packed_a + i * p.m * p.k);
  });
  const std::int64_t width = tiles.width;
  const auto columns = [&](std::int64_t panel) { return std::min(width, p.n - panel * width); };
  const auto pack = [&](std::int64_t batch, std::int64_t panel, T* to, std::uint32_t*) {
    const float* from = b.data() + p.b_first(batch) + panel * width * p.b_col;
    const std::int64_t count = columns(panel);
    const RoundingScope scope(tiles.others);
    if (p.b_col == 1) {
      for (std::int64_t k = 0; k < p.k; ++k, to += width) {
        tiles.enter(from + k * p.b_k, to, count);
        std::fill_n(to + count, width - count, T{0});
      }
      return false;
    }
    auto* turned = thread_scratch<float>(ScratchSlot::turned, p.k * width);
    lay_columns(tiles, from, p.b_k, p.b_col, p.k, count, turned);
    tiles.enter(turned, to, p.k * width);
    return false;
  };
  const auto finish = [&](std::int64_t batch, std::int64_t panel, std::int64_t row, int height,
                          T* tile) {
    const std::int64_t count = columns(panel), first = panel * width;
    if (p.alpha != 1.0F) {
      const RoundingScope scope(tiles.chains);
      tiles.scale(tile, alpha, height * width);
    }
    if (c) {
      T added[kOrderRows * 64] = {};
      for (int r = 0; r < height; ++r)
        for (std::int64_t j = 0; j < count; ++j)
          added[r * width + j] = c->data()[(row + r) * p.c_row + (first + j) * p.c_col];
      const RoundingScope scope(tiles.chains);
      tiles.scale_add(tile, beta, added, height * width);
    }
    for (int r = 0; r < height; ++r)
      store_order(call, tiles, (batch * p.m + row + r) * p.n + first, tile + r * width, count);
  };
  const OrderProgram program = compile_order(contract.order, p.k);
  OrderTask<T> task{.tiles = tiles,
                    .program = program,
                    .groups = p.batches,
                    .columns = p.n,
                    .rows = p.m,
                    .k = p.k,
                    .a = packed_a,
                    .pack = pack,
                    .finish = finish,
                    .threads = call.threads};
  if (const auto* constant = static_cast<const PackedColumns*>(call.prepared)) {
    task.b = constant->panels.data<float>();
    task.b_panels = task.panels();
    task.b_panel = p.k * width;
    task.b_step = width;
  } else if (p.batches == 1 && p.m <= (std::is_same_v<T, double> ? kOrderRows : 1) &&
             p.b_col == 1) {
    task.b = b.data() + p.b_first(0);  // read once, as it lies
    task.b_panels = p.n / width;
    task.b_panel = width;
    task.b_step = p.b_k;
    task.b_raw = true;
  }
  run_order(task);
}
template <Isa isa>
void multiply(const KernelCall& call, const Products& p) {
  const Contract& c = call.contract();
  if (c.acc == DType::f64)
    multiply<double>(call, order_tiles_f64(isa, c), p);
  else
    multiply<float>(call, order_tiles_f32(isa, c), p);
}

template <Isa isa>
void run_gemm(const KernelCall& call) {
  const auto& params = call.params<GemmParams>();
  const GemmGeometry g = gemm_geometry(params, call.input(0).shape(), call.input(1).shape());
  const auto zero = [](std::int64_t) { return std::int64_t{0}; };
  Products p{.m = g.m,
             .n = g.n,
             .k = g.k,
             .a_row = g.a_row,
             .a_k = g.a_col,
             .b_k = g.b_row,
             .b_col = g.b_col,
             .a_first = zero,
             .b_first = zero,
             .alpha = params.alpha,
             .beta = params.beta};
  if (call.has(2)) {
    const auto strides = broadcast_strides(call.input(2).shape(), Shape{g.m, g.n});
    p.c_row = strides[0];
    p.c_col = strides[1];
  }
  multiply<isa>(call, p);
}

template <Isa isa>
Prepared prepare_gemm(const Problem& problem, int threads) {
  const Tensor* b = problem.inputs[1].value;
  if (b == nullptr) return nullptr;
  const Contract& c = *problem.contract;
  const GemmGeometry g = gemm_geometry(problem.params->as<GemmParams>(), problem.input(0).shape,
                                       problem.input(1).shape);
  if (c.acc == DType::f64) return pack_columns(*b, g, order_tiles_f64(isa, c), c, threads);
  return pack_columns(*b, g, order_tiles_f32(isa, c), c, threads);
}

template <Isa isa>
void run_matmul(const KernelCall& call) {
  const MatMulGeometry g = matmul_geometry(call.input(0).shape(), call.input(1).shape());
  const auto a_first = [&](std::int64_t i) { return strided_offset(i, g.batch, g.a_batch); };
  const auto b_first = [&](std::int64_t i) { return strided_offset(i, g.batch, g.b_batch); };
  multiply<isa>(call, {.batches = g.batch.numel(),
                       .m = g.m,
                       .n = g.n,
                       .k = g.k,
                       .a_row = g.a_row,
                       .a_k = g.a_col,
                       .b_k = g.b_row,
                       .b_col = g.b_col,
                       .a_first = a_first,
                       .b_first = b_first});
}

template <Isa isa>
Refusal refuse_gemm(const Problem& problem) {
  if (Refusal r = refuse_order_contract(problem)) return r;
  const GemmGeometry g = gemm_geometry(problem.params->as<GemmParams>(), problem.input(0).shape,
                                       problem.input(1).shape);
  return refuse_order(problem.contract->order, g.k);
}

template <Isa isa>
Refusal refuse_matmul(const Problem& problem) {
  if (Refusal r = refuse_order_contract(problem)) return r;
  return refuse_order(problem.contract->order,
                      matmul_geometry(problem.input(0).shape, problem.input(1).shape).k);
}

}  // namespace

template <Isa isa>
KernelRow gemm_order_row(std::string_view name) {
  return {.op = "gemm",
          .name = name,
          .isa = isa,
          .contracts = kOrderContracts,
          .refuse = refuse_gemm<isa>,
          .run = run_gemm<isa>,
          .prepare = prepare_gemm<isa>};
}
template <Isa isa>
KernelRow matmul_order_row(std::string_view name) {
  return {.op = "matmul",
          .name = name,
          .isa = isa,
          .contracts = kOrderContracts,
          .refuse = refuse_matmul<isa>,
          .run = run_matmul<isa>};
}
template KernelRow gemm_order_row<Isa::avx512>(std::string_view name);
template KernelRow gemm_order_row<Isa::avx2>(std::string_view name);
template KernelRow matmul_order_row<Isa::avx512>(std::string_view name);
template KernelRow matmul_order_row<Isa::avx2>(std::string_view name);

}  // namespace etalon
