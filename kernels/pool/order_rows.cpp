// Average and Lp pools as sums over windows (../gemm/order_windows.h).
#include "kernels/pool/order_rows.h"

#include <algorithm>
#include <span>

#include "engine/numerics/contract_arithmetic.h"
#include "kernels/gemm/order_windows.h"
#include "kernels/gemm/rounding_scope.h"
#include "kernels/pool/fast.h"

namespace etalon {
namespace {

constexpr std::int64_t kMostDivisor = std::int64_t{1} << 22;
// What is summed, and what becomes of a sum: divided by its output's divisor where there are some,
// or its root.
struct Pooled {
  OrderTerm of = OrderTerm::value;
  std::span<const double> divisors;  // values of acc
  bool root = false;
};

template <class T>
void pool(const KernelCall& call, const OrderTiles<T>& tiles, const PoolGeometry& g,
          const Pooled& pooled) {
  const auto finish = [&](std::int64_t, std::int64_t output, std::int64_t lanes, T* sums) {
    const RoundingScope scope(tiles.others);
    if (pooled.root) tiles.root(sums, lanes);
    if (pooled.divisors.empty()) return;
    T by[kOrderRows * 64];
    std::fill_n(by, lanes, static_cast<T>(pooled.divisors[static_cast<std::size_t>(output)]));
    tiles.divide(sums, by, lanes);
  };
  const OrderProgram program = compile_order(call.contract().order, g.window.taps());
  run_order_windows<T>(call, {.tiles = tiles,
                              .program = program,
                              .window = g.window,
                              .planes = g.planes(),
                              .plane = [](std::int64_t i) { return i; },
                              .of = pooled.of,
                              .weights = [](std::int64_t, std::int64_t, T*) {},
                              .finish = finish});
}

template <Isa isa>
void run(const KernelCall& call, const PoolGeometry& g, const Pooled& pooled) {
  const Contract& c = call.contract();
  if (c.acc == DType::f64)
    pool<double>(call, order_tiles_f64(isa, c), g, pooled);
  else
    pool<float>(call, order_tiles_f32(isa, c), g, pooled);
}

Refusal refuse_window(const Problem& problem, const PoolGeometry& g) {
  if (Refusal r = refuse_order_contract(problem)) return r;
  if (Refusal r = refuse_order_windows(g.window)) return r;
  return refuse_order(problem.contract->order, g.window.taps());
}

Refusal refuse_global(const Problem& problem) {
  if (Refusal r = refuse_order_contract(problem)) return r;
  return refuse_order_reduction(*problem.contract,
                                global_pool_geometry(problem.input(0).shape).window.taps());
}

Refusal refuse_power(float p) {
  if (p != 1 && p != 2) return "sums magnitudes or squares";
  return std::nullopt;
}

template <Isa isa>
void run_global(const KernelCall& call, OrderTerm of, bool mean) {
  const PoolGeometry g = global_pool_geometry(call.input(0).shape());
  const std::int64_t taps = g.window.taps();
  const auto first = [&](std::int64_t plane) { return plane * taps; };
  const auto term = [](std::int64_t k) { return k; };
  run_order_reduction(call, isa,
                      {.outputs = g.planes(),
                       .k = taps,
                       .first = first,
                       .term = term,
                       .term_run = std::max<std::int64_t>(1, taps),
                       .of = of,
                       .divisor = mean ? static_cast<double>(taps) : -1,
                       .root = of == OrderTerm::square});
}

OrderTerm term_of_power(float p) { return p == 2 ? OrderTerm::square : OrderTerm::magnitude; }

}  // namespace

template <Isa isa>
KernelRow average_pool_order_row(std::string_view name) {
  return {.op = "avg_pool",
          .name = name,
          .isa = isa,
          .contracts = kOrderContracts,
          .refuse = [](const Problem& problem) -> Refusal {
            const auto& p = problem.params->as<AvgPoolParams>();
            if (p.divisor_override > kMostDivisor) return "divides by at most 2^22";
            const PoolGeometry g = pool_geometry(p, problem.input(0).shape);
            if (p.divisor_override == 0 && g.window.taps() > kMostDivisor)
              return "divides by at most 2^22";
            return refuse_window(problem, g);
          },
          .run =
              [](const KernelCall& call) {
                if (call.output(0).numel() == 0) return;
                const auto& p = call.params<AvgPoolParams>();
                const PoolGeometry g = pool_geometry(p, call.input(0).shape());
                const SoftOps ops(call.contract());
                std::vector<double> divisors;
                for (const float d : average_divisors(g, p))
                  divisors.push_back(ops.round(static_cast<double>(d)));
                run<isa>(call, g, {.divisors = divisors});
              }};
}
template <Isa isa>
KernelRow global_average_pool_order_row(std::string_view name) {
  return {.op = "global_avg_pool",
          .name = name,
          .isa = isa,
          .contracts = kOrderContracts,
          .refuse = refuse_global,
          .run = [](const KernelCall& call) { run_global<isa>(call, OrderTerm::value, true); }};
}
template <Isa isa>
KernelRow lp_pool_order_row(std::string_view name) {
  return {.op = "lp_pool",
          .name = name,
          .isa = isa,
          .contracts = kOrderContracts,
          .refuse = [](const Problem& problem) -> Refusal {
            const auto& p = problem.params->as<LpPoolParams>();
            if (Refusal r = refuse_power(p.p)) return r;
            return refuse_window(problem, pool_geometry(p, problem.input(0).shape));
          },
          .run =
              [](const KernelCall& call) {
                const auto& p = call.params<LpPoolParams>();
                run<isa>(call, pool_geometry(p, call.input(0).shape()),
                         {.of = term_of_power(p.p), .divisors = {}, .root = p.p == 2});
              }};
}
template <Isa isa>
KernelRow global_lp_pool_order_row(std::string_view name) {
  return {.op = "global_lp_pool",
          .name = name,
          .isa = isa,
          .contracts = kOrderContracts,
          .refuse = [](const Problem& problem) -> Refusal {
            if (Refusal r = refuse_power(problem.params->as<GlobalLpPoolParams>().p)) return r;
            return refuse_global(problem);
          },
          .run =
              [](const KernelCall& call) {
                run_global<isa>(call, term_of_power(call.params<GlobalLpPoolParams>().p), false);
              }};
}
template KernelRow average_pool_order_row<Isa::avx512>(std::string_view name);
template KernelRow average_pool_order_row<Isa::avx2>(std::string_view name);
template KernelRow global_average_pool_order_row<Isa::avx512>(std::string_view name);
template KernelRow global_average_pool_order_row<Isa::avx2>(std::string_view name);
template KernelRow lp_pool_order_row<Isa::avx512>(std::string_view name);
template KernelRow lp_pool_order_row<Isa::avx2>(std::string_view name);
template KernelRow global_lp_pool_order_row<Isa::avx512>(std::string_view name);
template KernelRow global_lp_pool_order_row<Isa::avx2>(std::string_view name);

}  // namespace etalon
