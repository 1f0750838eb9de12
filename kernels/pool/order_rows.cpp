// A plain sum is a sum of products with 1: fma(1, x, s) and s + 1 * x are s + x, rounded once. So a
// plane is a convolution of one channel by ones, and its sums are divided in the scalar arithmetic
// of the contract.
#include "kernels/pool/order_rows.h"

#include <algorithm>
#include <limits>

#include "engine/numerics/contract_arithmetic.h"
#include "kernels/gemm/order_reduce.h"
#include "kernels/gemm/window_lanes.h"
#include "kernels/pool/fast.h"

namespace etalon {
namespace {

// Offsets of all windows of a plane are kept while its like are summed.
constexpr std::int64_t kMostOffsets = std::int64_t{1} << 22;

template <class T>
void pool(const KernelCall& call, const OrderTiles<T>& tiles, const PoolGeometry& g,
          std::span<const float> divisors) {
  const Contract& contract = call.contract();
  const std::int64_t points = g.window.out_points(), taps = g.window.taps();
  if (g.points() == 0) return;
  const OrderOperand<T> x(call.input(0), contract, call.threads);
  const int width = tiles.width;
  const std::int64_t panels = (points + width - 1) / width;
  std::vector<WindowLanes> lanes;
  for (std::int64_t panel = 0; panel < panels; ++panel)
    lanes.emplace_back(g.window, 1, 0, panel * width, width);
  AlignedBuffer buffer;
  T* ones = buffer.at_least<T>(std::max<std::int64_t>(1, taps * g.planes()));
  std::fill_n(ones, taps * g.planes(), T{1});
  const SoftOps ops(contract);
  std::vector<T> divisor(divisors.size());
  std::ranges::transform(divisors, divisor.begin(), [&](float d) {
    return static_cast<T>(ops.round(static_cast<double>(d)));
  });

  const auto pack = [&](std::int64_t plane, std::int64_t panel, T* to, std::uint32_t* mask) {
    const WindowLanes& l = lanes[static_cast<std::size_t>(panel)];
    const T* from = x.data() + plane * g.window.in_points();
    for (std::size_t tap = 0; tap < static_cast<std::size_t>(taps); ++tap) {
      l.gather(tiles, from, tap, to + static_cast<std::int64_t>(tap) * width);
      mask[tap] = l.mask(tap);
    }
    return !l.whole();
  };
  const auto finish = [&](std::int64_t plane, std::int64_t panel, std::int64_t, int, T* tile) {
    const std::int64_t first = panel * width, count = std::min<std::int64_t>(width, points - first);
    divide_order(contract, tile, divisor.data() + first, 1, count);
    store_order(call, plane * points + first, tile, count);
  };
  const OrderProgram program = compile_order(contract.order, taps);
  run_order(OrderTask<T>{.tiles = tiles,
                         .program = program,
                         .groups = g.planes(),
                         .panels = panels,
                         .rows = 1,
                         .k = taps,
                         .a = ones,
                         .pack = pack,
                         .finish = finish,
                         .threads = call.threads});
}

template <Isa isa>
void run(const KernelCall& call, const PoolGeometry& g, std::span<const float> divisors) {
  const Contract& c = call.contract();
  if (c.acc == DType::f64)
    pool<double>(call, order_tiles_f64(isa, c), g, divisors);
  else
    pool<float>(call, order_tiles_f32(isa, c), g, divisors);
}

template <Isa isa>
Refusal refuse(const Problem& problem, const PoolGeometry& g) {
  if (g.window.in_points() > std::numeric_limits<std::int32_t>::max() ||
      (g.window.out_points() + 64) * g.window.taps() > kMostOffsets)
    return "holds at most 2^22 offsets of windows";
  return refuse_order(problem.contract->order, g.window.taps());
}

}  // namespace

template <Isa isa>
KernelRow average_pool_order_row(std::string_view name) {
  return {.op = "avg_pool",
          .name = name,
          .isa = isa,
          .contracts = kOrderContracts,
          .refuse = [](const Problem& problem) -> Refusal {
            if (Refusal r = refuse_order_contract(problem)) return r;
            if (problem.params->as<AvgPoolParams>().divisor_override > kMostOffsets)
              return "divides by at most 2^22";
            return refuse<isa>(problem, pool_geometry(problem.params->as<AvgPoolParams>(),
                                                      problem.input(0).shape));
          },
          .run =
              [](const KernelCall& call) {
                const auto& p = call.params<AvgPoolParams>();
                const PoolGeometry g = pool_geometry(p, call.input(0).shape());
                run<isa>(call, g, average_divisors(g, p));
              }};
}
template <Isa isa>
KernelRow global_average_pool_order_row(std::string_view name) {
  return {.op = "global_avg_pool",
          .name = name,
          .isa = isa,
          .contracts = kOrderContracts,
          .refuse = [](const Problem& problem) -> Refusal {
            if (Refusal r = refuse_order_contract(problem)) return r;
            const PoolGeometry g = global_pool_geometry(problem.input(0).shape);
            return refuse_order_reduction(*problem.contract, g.window.taps());
          },
          .run =
              [](const KernelCall& call) {
                const PoolGeometry g = global_pool_geometry(call.input(0).shape());
                const std::int64_t taps = g.window.taps();
                const auto first = [&](std::int64_t plane) { return plane * taps; };
                const auto term = [](std::int64_t k) { return k; };
                run_order_reduction(call, isa,
                                    {.outputs = g.planes(),
                                     .k = taps,
                                     .first = first,
                                     .term = term,
                                     .divisor = static_cast<double>(taps)});
              }};
}
template KernelRow average_pool_order_row<Isa::avx512>(std::string_view name);
template KernelRow average_pool_order_row<Isa::avx2>(std::string_view name);
template KernelRow global_average_pool_order_row<Isa::avx512>(std::string_view name);
template KernelRow global_average_pool_order_row<Isa::avx2>(std::string_view name);

}  // namespace etalon
