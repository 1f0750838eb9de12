// Sums over windows as sums over runs of outputs (../gemm/order_reduce.h).
//
// A plane is padded and split by remainder of each coordinate and the stride. In such a part, the
// outputs of a plane lie at q = (z * height + y) * width + x, a tap at a constant distance from
// them: a window is a sum of shifted runs, whatever its stride and dilation. Between rows of
// outputs are a few that no one asked for. Padding holds the zero that changes no sum, +0 rounding
// down, else -0: a sum begins at +0, and what is added to it there is no term.
#include "kernels/pool/order_rows.h"

#include <algorithm>
#include <span>

#include "engine/core/threads.h"
#include "engine/numerics/contract_arithmetic.h"
#include "kernels/gemm/order_reduce.h"
#include "kernels/gemm/rounding_scope.h"
#include "kernels/pool/fast.h"

namespace etalon {
namespace {

constexpr std::int64_t kMostDivisor = std::int64_t{1} << 22;
constexpr std::int64_t kMostOfPlane = std::int64_t{1} << 24;
// Split planes that stay in the first cache beside what is made of them.
constexpr std::int64_t kAtOnce = std::int64_t{1} << 13;

// One axis: coordinate e * stride + p of the padded input is element e of part p.
struct SplitAxis {
  explicit SplitAxis(const WindowAxis& a)
      : axis(a),
        parts(std::min(a.stride, (a.kernel - 1) * a.dilation + 1)),
        extent(a.out + (a.kernel - 1) * a.dilation / a.stride) {}
  std::int64_t at(std::int64_t part, std::int64_t e) const {
    return e * axis.stride + part - axis.pad_begin;
  }
  bool inside(std::int64_t i) const { return i >= 0 && i < axis.in; }
  WindowAxis axis;
  std::int64_t parts, extent;
};

class SplitPlanes {
 public:
  explicit SplitPlanes(const Window& window)
      : d(window.axes[0]),
        h(window.axes[1]),
        w(window.axes[2]),
        plane(d.extent * h.extent * w.extent) {}

  std::int64_t parts() const { return d.parts * h.parts * w.parts; }
  std::int64_t size() const { return parts() * plane; }

  // Of tap k, row-major, in parts of `part` elements.
  std::vector<std::int64_t> taps(std::int64_t part) const {
    std::vector<std::int64_t> out;
    for (std::int64_t rz = 0; rz < d.axis.kernel; ++rz)
      for (std::int64_t ry = 0; ry < h.axis.kernel; ++ry)
        for (std::int64_t rx = 0; rx < w.axis.kernel; ++rx) {
          const std::int64_t z = rz * d.axis.dilation, y = ry * h.axis.dilation,
                             x = rx * w.axis.dilation;
          const std::int64_t p =
              (z % d.axis.stride * h.parts + y % h.axis.stride) * w.parts + x % w.axis.stride;
          out.push_back(p * part + (z / d.axis.stride * h.extent + y / h.axis.stride) * w.extent +
                        x / w.axis.stride);
        }
    return out;
  }

  // One plane of x into its place in parts of `part` elements.
  void split(const float* x, float zero, std::int64_t part, float* to) const {
    for (std::int64_t pz = 0; pz < d.parts; ++pz)
      for (std::int64_t py = 0; py < h.parts; ++py)
        for (std::int64_t px = 0; px < w.parts; ++px, to += part) {
          float* row = to;
          for (std::int64_t ez = 0; ez < d.extent; ++ez)
            for (std::int64_t ey = 0; ey < h.extent; ++ey, row += w.extent) {
              const std::int64_t z = d.at(pz, ez), y = h.at(py, ey);
              if (d.inside(z) && h.inside(y))
                split_row(x + (z * h.axis.in + y) * w.axis.in, px, zero, row);
              else
                std::fill_n(row, w.extent, zero);
            }
        }
  }

  SplitAxis d, h, w;
  std::int64_t plane;  // elements of one, in each part

 private:
  void split_row(const float* x, std::int64_t part, float zero, float* to) const {
    const std::int64_t s = w.axis.stride, first = w.at(part, 0);
    const std::int64_t begin = std::min(w.extent, first >= 0 ? 0 : (-first + s - 1) / s);
    const std::int64_t end =
        std::clamp<std::int64_t>((w.axis.in - first + s - 1) / s, begin, w.extent);
    std::fill_n(to, begin, zero);
    if (s == 1) {
      std::copy_n(x + first + begin, end - begin, to + begin);
    } else {
      const float* from = x + first;
      for (std::int64_t e = begin; e < end; ++e) to[e] = from[e * s];
    }
    std::fill_n(to + end, w.extent - end, zero);
  }
};

// What is summed, and what becomes of a sum: divided by its output's divisor where there are some,
// or its root.
struct Pooled {
  OrderTerm of = OrderTerm::value;
  std::span<const float> divisors;
  bool root = false;
};

template <class T>
void pool(const KernelCall& call, const OrderTiles<T>& tiles, const PoolGeometry& g,
          const Pooled& pooled) {
  const Contract& contract = call.contract();
  const std::int64_t points = g.window.out_points();
  if (g.points() == 0) return;
  const SplitPlanes split(g.window);
  const std::int64_t plane = split.plane, tile = std::int64_t{kOrderRows} * tiles.width;
  const std::int64_t at_once =
      std::clamp<std::int64_t>(kAtOnce / std::max<std::int64_t>(1, split.size()), 1, g.planes());
  const std::int64_t part = at_once * plane + tile;  // runs are read past their end
  const std::vector<std::int64_t> taps = split.taps(part);
  const OrderSource x(call.input(0), contract, call.threads);
  const float zero = contract.round == Round::downward ? 0.0F : -0.0F;
  const OrderProgram program =
      compile_order(contract.order, static_cast<std::int64_t>(taps.size()));
  const WindowAxis &d = split.d.axis, &h = split.h.axis, &w = split.w.axis;
  const std::int64_t out_rows = d.out * h.out;
  // Where row i of a plane's outputs begins.
  const auto row_at = [&](std::int64_t i) {
    return (i / h.out * split.h.extent + i % h.out) * split.w.extent;
  };
  const SoftOps ops(contract);
  std::vector<T> divisors;  // of as many planes as are summed at once
  if (!pooled.divisors.empty()) {
    divisors.assign(static_cast<std::size_t>(at_once * plane + tile), T{1});
    for (std::int64_t i = 0; i < points; ++i) {
      const auto by = static_cast<T>(
          ops.round(static_cast<double>(pooled.divisors[static_cast<std::size_t>(i)])));
      for (std::int64_t p = 0; p < at_once; ++p)
        divisors[static_cast<std::size_t>(p * plane + row_at(i / w.out) + i % w.out)] = by;
    }
  }

  parallel_for(
      (g.planes() + at_once - 1) / at_once, call.threads, 1,
      [&](std::int64_t begin, std::int64_t end) {
        float* parts = thread_scratch<float>(ScratchSlot::vector, split.parts() * part);
        T* stack = thread_scratch<T>(
            ScratchSlot::tile, (program.depth + 1) * tile + at_once * (plane + points) + tile);
        T* sums = stack + program.depth * tile;
        T* dense = sums + at_once * plane + tile;
        std::fill_n(parts, split.parts() * part, 0.0F);
        for (std::int64_t item = begin; item < end; ++item) {
          const std::int64_t first = item * at_once, count = std::min(at_once, g.planes() - first);
          for (std::int64_t i = 0; i < count; ++i)
            split.split(x.data() + (first + i) * g.window.in_points(), zero, part,
                        parts + i * plane);
          // Past the last output of the last plane nothing is asked for.
          const std::int64_t stop = (count - 1) * plane + row_at(out_rows - 1) + w.out;
          for (std::int64_t q = 0; q < stop;) {
            const int height =
                order_height(std::max<std::int64_t>(1, (stop - q + tiles.width - 1) / tiles.width));
            const std::int64_t computed = std::int64_t{tiles.width} << height;
            sum_order(tiles, program, pooled.of, parts + q, taps.data(), height, stack);
            std::copy_n(stack, computed, sums + q);
            q += computed;
          }
          {
            const std::int64_t vectors = (stop + tiles.width - 1) / tiles.width * tiles.width;
            const RoundingScope scope(tiles.contracted);
            if (!divisors.empty()) tiles.divide(sums, divisors.data(), vectors);
            if (pooled.root) tiles.root(sums, vectors);
          }
          for (std::int64_t i = 0; i < count; ++i) {
            T* of_plane = sums + i * plane;
            for (std::int64_t row = 0; row < out_rows; ++row)
              std::copy_n(of_plane + row_at(row), w.out, dense + i * points + row * w.out);
          }
          store_order(call, tiles, first * points, dense, count * points);
        }
      });
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
  if (SplitPlanes(g.window).size() > kMostOfPlane) return "splits planes of at most 2^24 elements";
  return refuse_order(problem.contract->order, g.window.taps());
}

Refusal refuse_global(const Problem& problem) {
  if (Refusal r = refuse_order_contract(problem)) return r;
  return refuse_order_reduction(*problem.contract,
                                global_pool_geometry(problem.input(0).shape).window.taps());
}

Refusal refuse_power(const Problem& problem, float p) {
  if (p != 1 && p != 2) return "sums magnitudes or squares";
  return p == 2 ? refuse_order_products(problem) : std::nullopt;
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
            return refuse_window(problem, pool_geometry(p, problem.input(0).shape));
          },
          .run =
              [](const KernelCall& call) {
                const auto& p = call.params<AvgPoolParams>();
                const PoolGeometry g = pool_geometry(p, call.input(0).shape());
                const std::vector<float> divisors = average_divisors(g, p);
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
            if (Refusal r = refuse_power(problem, p.p)) return r;
            return refuse_window(problem, pool_geometry(p, problem.input(0).shape));
          },
          .run =
              [](const KernelCall& call) {
                const auto& p = call.params<LpPoolParams>();
                run<isa>(call, pool_geometry(p, call.input(0).shape()),
                         {.of = term_of_power(p.p), .root = p.p == 2});
              }};
}
template <Isa isa>
KernelRow global_lp_pool_order_row(std::string_view name) {
  return {.op = "global_lp_pool",
          .name = name,
          .isa = isa,
          .contracts = kOrderContracts,
          .refuse = [](const Problem& problem) -> Refusal {
            if (Refusal r = refuse_power(problem, problem.params->as<GlobalLpPoolParams>().p))
              return r;
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
