// Three ways to have a term's outputs side by side: they are so in memory; the terms are, and
// squares of both are turned; neither, and they are copied one by one. Of one output or two the
// terms lie side by side instead: each vector holds the next one in its first lane.
#include "kernels/gemm/order_reduce.h"

#include <algorithm>
#include <memory>
#include <numeric>

#include "engine/core/threads.h"
#include "engine/numerics/contract_arithmetic.h"
#include "kernels/activation/order_functions.h"
#include "kernels/gemm/order_steps.h"

namespace etalon {
namespace {

// A panel of so many terms fills 8 MiB.
constexpr std::int64_t kMostTerms = std::int64_t{1} << 16;
// Turned terms that stay in the second cache while they are summed.
constexpr std::int64_t kTurned = std::int64_t{1} << 15;

template <class T>
class Reduction {
 public:
  Reduction(const KernelCall& call, Isa isa, const OrderTiles<T>& tiles, const OrderReduction& r)
      : call_(call),
        isa_(isa),
        tiles_(tiles),
        r_(r),
        program_(prepared_order(call, r.k, own_)),
        x_(call.input(0), call.contract(), call.threads),
        terms_(static_cast<std::size_t>(r.k)),
        divisors_(static_cast<std::size_t>(kOrderRows * tiles.width),
                  static_cast<T>(SoftOps(call.contract()).round(r.divisor))) {
    for (std::int64_t k = 0; k < r.k; ++k) terms_[static_cast<std::size_t>(k)] = r.term(k);
  }

  void run() const {
    if (r_.outputs <= kFewOrderRows) return lines();
    if (r_.run >= tiles_.width && tiles_.settle == nullptr) return in_place();
    const int height = order_panel_height(tiles_.width, r_.k, r_.outputs);
    const std::int64_t panel = std::int64_t{tiles_.width} << height;
    std::vector<std::int64_t> rows(terms_.size());
    for (std::size_t k = 0; k < rows.size(); ++k) rows[k] = static_cast<std::int64_t>(k) * panel;
    parallel_for((r_.outputs + panel - 1) / panel, call_.threads, 1,
                 [&](std::int64_t begin, std::int64_t end) {
                   float* packed = packed_terms(panel);
                   for (std::int64_t i = begin; i < end; ++i) {
                     pack(i * panel, panel, packed);
                     settle_order(tiles_, packed, r_.k * panel);
                     sum(packed, rows.data(), height, i * panel,
                         std::min(panel, r_.outputs - i * panel));
                   }
                 });
  }

 private:
  float* packed_terms(std::int64_t panel) const {
    return thread_scratch<float>(ScratchSlot::vector, std::max<std::int64_t>(1, r_.k) * panel);
  }

  void sum(const float* from, const std::int64_t* terms, int height, std::int64_t to,
           std::int64_t count) const {
    T* stack = thread_scratch<T>(ScratchSlot::tile,
                                 program_.depth * kOrderRows * std::int64_t{tiles_.width});
    sum_order<T>(tiles_, program_, {.of = r_.of, .from = from, .terms = terms}, height, stack);
    const std::int64_t computed = std::int64_t{tiles_.width} << height;
    {
      const RoundingScope scope(tiles_.others);
      if (r_.divisor >= 0) tiles_.divide(stack, divisors_.data(), computed);
      if (r_.root) tiles_.root(stack, computed);
    }
    if (r_.logarithm) {
      call_order_function(call_.contract(), isa_, tiles_, Function::log, stack, count);
    }
    store_order(call_, tiles_, to, stack, count);
  }

  void lines() const {
    std::vector<std::int64_t> rows(terms_.size());
    std::iota(rows.begin(), rows.end(), std::int64_t{0});
    parallel_for(r_.outputs, call_.threads, 1, [&](std::int64_t begin, std::int64_t end) {
      float* line = thread_scratch<float>(ScratchSlot::vector, r_.k + tiles_.width);
      std::fill_n(line + r_.k, tiles_.width, 0.0F);
      for (std::int64_t i = begin; i < end; ++i) {
        const float* from = x_.data() + r_.first(i);
        for (std::int64_t k = 0; k < r_.k; k += r_.term_run)
          std::copy_n(from + terms_[static_cast<std::size_t>(k)], r_.term_run, line + k);
        settle_order(tiles_, line, r_.k);
        sum(line, rows.data(), 0, i, 1);
      }
    });
  }

  void in_place() const {
    const std::int64_t width = tiles_.width, tile = kOrderRows * width;
    const std::int64_t tiles_of_run = (r_.run + tile - 1) / tile;
    std::vector<std::int64_t> rows(terms_.size());
    for (std::size_t k = 0; k < rows.size(); ++k) rows[k] = static_cast<std::int64_t>(k) * width;
    parallel_for(r_.outputs / r_.run * tiles_of_run, call_.threads, 1,
                 [&](std::int64_t begin, std::int64_t end) {
                   float* rest = packed_terms(width);
                   for (std::int64_t item = begin; item < end; ++item) {
                     const std::int64_t first = item / tiles_of_run * r_.run;
                     const float* from = x_.data() + r_.first(first);
                     const std::int64_t stop = std::min((item % tiles_of_run + 1) * tile, r_.run);
                     for (std::int64_t i = item % tiles_of_run * tile; i < stop;) {
                       const std::int64_t left = stop - i;
                       if (left < width) {  // what is read past them may not be there
                         for (std::size_t k = 0; k < terms_.size(); ++k)
                           std::copy_n(from + i + terms_[k], left, rest + rows[k]);
                         sum(rest, rows.data(), 0, first + i, left);
                         break;
                       }
                       const int height = order_height(left / width);
                       sum(from + i, terms_.data(), height, first + i, width << height);
                       i += width << height;
                     }
                   }
                 });
  }

  void pack(std::int64_t first, std::int64_t panel, float* to) const {
    pack_order_terms(tiles_, x_.data(),
                     {.rows = r_.outputs,
                      .first = r_.first,
                      .terms = terms_,
                      .run = r_.run,
                      .term_run = r_.term_run},
                     first, panel, to);
  }

  const KernelCall& call_;
  const Isa isa_;
  const OrderTiles<T>& tiles_;
  const OrderReduction& r_;
  OrderProgram own_;
  const OrderProgram& program_;
  OrderSource x_;
  std::vector<std::int64_t> terms_;
  std::vector<T> divisors_;
};

}  // namespace

template <class T>
void pack_order_terms(const OrderTiles<T>& tiles, const float* x, const OrderPlaces& p,
                      std::int64_t first, std::int64_t panel, float* to) {
  std::int64_t offset[kMostOrderPanel];
  for (std::int64_t lane = 0; lane < panel; ++lane)
    offset[lane] = p.first(std::min(first + lane, p.rows - 1));
  const std::int64_t there = std::min(panel, p.rows - first);
  const auto k = static_cast<std::int64_t>(p.terms.size());
  if (first / p.run == (first + there - 1) / p.run) {
    for (const std::int64_t term : p.terms) {
      std::copy_n(x + offset[0] + term, there, to);
      std::fill_n(to + there, panel - there, 0.0F);
      to += panel;
    }
    return;
  }
  if (p.term_run >= tiles.block) {
    for (std::int64_t i = 0; i < k; i += p.term_run)
      for (std::int64_t lane = 0; lane < panel; lane += tiles.block)
        tiles.turn(x + p.terms[static_cast<std::size_t>(i)], offset + lane, p.term_run,
                   to + i * panel + lane, panel);
    return;
  }
  for (const std::int64_t term : p.terms) {
    for (std::int64_t lane = 0; lane < panel; ++lane) to[lane] = x[offset[lane] + term];
    to += panel;
  }
}
template void pack_order_terms<float>(const OrderTiles<float>&, const float*, const OrderPlaces&,
                                      std::int64_t, std::int64_t, float*);
template void pack_order_terms<double>(const OrderTiles<double>&, const float*, const OrderPlaces&,
                                       std::int64_t, std::int64_t, float*);

int order_panel_height(int width, std::int64_t k, std::int64_t rows) {
  int height = 0;
  while (height + 1 < kOrderHeights && (std::int64_t{width} << (height + 1)) * k <= kTurned &&
         (std::int64_t{width} << height) < rows)
    ++height;
  return height;
}

template <class T>
void sum_order(const OrderTiles<T>& tiles, const OrderProgram& program, const OrderRuns<T>& runs,
               int height, T* stack) {
  const auto chain = tiles.sums[static_cast<int>(runs.of)][height];
  const auto& pairs = tiles.sum_pairs[static_cast<int>(runs.of)];
  run_order_steps(tiles, program, order_mode(tiles, program, sums_products(runs.of)),
                  std::int64_t{tiles.width} << height, stack,
                  std::int64_t{kOrderRows} * tiles.width,
                  [&](const OrderStep& s, T* tile, const OrderStep* join) {
                    const auto compute = s.pairs == 0 ? chain : pairs[s.pairs - 1];
                    compute({.count = s.count,
                             .from = runs.from,
                             .term = runs.terms == nullptr ? nullptr : runs.terms + s.first,
                             .weights = runs.weights,
                             .weight = runs.at == nullptr ? nullptr : runs.at + s.first,
                             .step = s.stride,
                             .tile = tile,
                             .rows = 1 << height,
                             .zeros = s.zeros,
                             .resume = s.kind == OrderStep::Kind::extend,
                             .join = join != nullptr,
                             .join_zero = join != nullptr && join->zeros != 0});
                  });
}
template void sum_order<float>(const OrderTiles<float>&, const OrderProgram&,
                               const OrderRuns<float>&, int, float*);
template void sum_order<double>(const OrderTiles<double>&, const OrderProgram&,
                                const OrderRuns<double>&, int, double*);

template <class T>
void settle_order(const OrderTiles<T>& tiles, float* x, std::int64_t n) {
  if (tiles.settle == nullptr) return;
  const RoundingScope scope(tiles.others);
  tiles.settle(x, n);
}
template void settle_order<float>(const OrderTiles<float>&, float*, std::int64_t);
template void settle_order<double>(const OrderTiles<double>&, float*, std::int64_t);

Prepared prepare_order(const Contract& contract, std::int64_t n) {
  return std::make_shared<OrderProgram>(compile_order(contract.order, n));
}

const OrderProgram& prepared_order(const KernelCall& call, std::int64_t n, OrderProgram& own) {
  if (call.prepared != nullptr) return *static_cast<const OrderProgram*>(call.prepared);
  own = compile_order(call.contract().order, n);
  return own;
}

Refusal refuse_order_reduction(const Contract& contract, std::int64_t k) {
  if (k > kMostTerms) return "sums at most 2^16 terms";
  return refuse_order(contract.order, k);
}

void run_order_reduction(const KernelCall& call, Isa isa, const OrderReduction& r) {
  const Contract& c = call.contract();
  if (r.outputs == 0) return;
  if (c.acc == DType::f64)
    Reduction<double>(call, isa, order_tiles_f64(isa, c), r).run();
  else
    Reduction<float>(call, isa, order_tiles_f32(isa, c), r).run();
}

}  // namespace etalon
