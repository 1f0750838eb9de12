#include "kernels/gemm/order_reduce.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/numerics/contract_arithmetic.h"

namespace etalon {
namespace {

// A panel of so many terms fills 8 MiB.
constexpr std::int64_t kMostTerms = std::int64_t{1} << 16;

template <class T>
void reduce(const KernelCall& call, const OrderTiles<T>& tiles, const OrderReduction& r) {
  const Contract& contract = call.contract();
  if (r.outputs == 0) return;
  const OrderOperand<T> x(call.input(0), contract, call.threads);
  const int width = tiles.width;
  AlignedBuffer buffer;
  T* ones = buffer.at_least<T>(std::max<std::int64_t>(1, r.k));
  std::fill_n(ones, r.k, T{1});
  std::vector<std::int64_t> terms(static_cast<std::size_t>(r.k));
  for (std::int64_t k = 0; k < r.k; ++k) terms[static_cast<std::size_t>(k)] = r.term(k);
  const auto divisor = static_cast<T>(SoftOps(contract).round(r.divisor));

  const auto pack = [&](std::int64_t, std::int64_t panel, T* to, std::uint32_t*) {
    const std::int64_t first = panel * width, from = r.first(first);
    const int lanes = static_cast<int>(std::min<std::int64_t>(width, r.outputs - first));
    std::int64_t far[64];
    std::int32_t near[64] = {};
    bool run = lanes == width, fits = true;
    for (int lane = 0; lane < lanes; ++lane) {
      far[lane] = r.first(first + lane) - from;
      run = run && far[lane] == lane;
      fits = fits && std::abs(far[lane]) <= std::numeric_limits<std::int32_t>::max();
      near[lane] = static_cast<std::int32_t>(fits ? far[lane] : 0);
    }
    const std::uint32_t mask = lanes >= 32 ? ~0U : (1U << lanes) - 1U;
    for (const std::int64_t term : terms) {
      const T* source = x.data() + from + term;
      if (run) {
        std::copy_n(source, width, to);
      } else if (fits) {
        tiles.gather(source, near, mask, to);
      } else {
        std::fill_n(to, width, T{0});
        for (int lane = 0; lane < lanes; ++lane) to[lane] = source[far[lane]];
      }
      if (r.absolute)
        for (int lane = 0; lane < width; ++lane) to[lane] = std::fabs(to[lane]);
      to += width;
    }
    return false;
  };
  const auto finish = [&](std::int64_t, std::int64_t panel, std::int64_t, int, T* tile) {
    const std::int64_t first = panel * width;
    const std::int64_t count = std::min<std::int64_t>(width, r.outputs - first);
    if (r.divisor >= 0) divide_order(contract, tile, &divisor, 0, count);
    store_order(call, first, tile, count);
  };
  const OrderProgram program = compile_order(contract.order, r.k);
  run_order(OrderTask<T>{.tiles = tiles,
                         .program = program,
                         .groups = 1,
                         .panels = (r.outputs + width - 1) / width,
                         .rows = 1,
                         .k = r.k,
                         .a = ones,
                         .pack = pack,
                         .finish = finish,
                         .threads = call.threads});
}

}  // namespace

Refusal refuse_order_reduction(const Contract& contract, std::int64_t k) {
  if (k > kMostTerms) return "sums at most 2^16 terms";
  return refuse_order(contract.order, k);
}

void run_order_reduction(const KernelCall& call, Isa isa, const OrderReduction& r) {
  const Contract& c = call.contract();
  if (c.acc == DType::f64)
    reduce<double>(call, order_tiles_f64(isa, c), r);
  else
    reduce<float>(call, order_tiles_f32(isa, c), r);
}

}  // namespace etalon
