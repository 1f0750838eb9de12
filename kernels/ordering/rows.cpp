// arg_max, arg_min, top_k: comparisons of stored values. cum_sum: its definition, and one running
// chain where the contract's order is one.
#include "kernels/ordering/rows.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "engine/backend/bits_row.h"
#include "engine/backend/definition.h"
#include "engine/ops/ordering.h"
#include "kernels/ordering/arg.h"
#include "kernels/ordering/cumulative_definition.h"

namespace etalon {
namespace {

template <class T>
auto key(T x) {
  if constexpr (std::is_same_v<T, Bool>)
    return x.value;
  else if constexpr (std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>)
    return to_float(x);
  else
    return x;
}

// NaN above everything.
template <class K>
bool below(K a, K b) {
  return a < b || (a == a && b != b);
}

// NaN wins for both directions; `better` says whether v replaces the best so far.
template <bool Largest>
void run_arg(const KernelCall& call) {
  const auto& p = call.params<ArgParams>();
  const Shape& x = call.input(0).shape();
  const AxisView view = axis_view(x, normalize_axis(p.axis, x.rank()));
  auto* y = reinterpret_cast<std::int64_t*>(output_bytes(call, 0));
  const bool last = p.select_last_index;
  visit_dtype(call.input(0).dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T* data = call.input(0).data<T>().data();
    parallel_for(
        view.outer * view.inner, call.threads, std::max<std::int64_t>(1, 16384 / view.extent),
        [&](std::int64_t begin, std::int64_t end) {
          // Columns side by side go on together: memory is read in runs.
          constexpr std::int64_t kTogether = 64;
          using Key = decltype(key(T{}));
          Key best[kTogether];
          std::int64_t place[kTogether];
          for (std::int64_t o = begin, n = 0; o < end; o += n) {
            n = std::min({kTogether, end - o, view.inner - o % view.inner});
            const T* column = data + o / view.inner * view.extent * view.inner + o % view.inner;
            for (std::int64_t c = 0; c < n; ++c) {
              best[c] = key(column[c]);
              place[c] = 0;
            }
            for (std::int64_t i = 1; i < view.extent; ++i)
              for (std::int64_t c = 0; c < n; ++c) {
                const Key v = key(column[i * view.inner + c]), b = best[c];
                const bool nan = v != v, best_nan = b != b;
                const bool better = nan || best_nan ? nan && (!best_nan || last)
                                    : v == b        ? last
                                                    : (Largest ? b < v : v < b);
                best[c] = better ? v : b;
                place[c] = better ? i : place[c];
              }
            std::copy_n(place, n, y + o);
          }
        });
  });
}

void run_top_k(const KernelCall& call) {
  const auto& p = call.params<TopKParams>();
  const Shape& x = call.input(0).shape();
  const int axis = normalize_axis(p.axis, x.rank());
  const AxisView view = axis_view(x, axis);
  const std::int64_t k = call.output(0).shape()[axis];
  auto* indices = reinterpret_cast<std::int64_t*>(output_bytes(call, 1));
  visit_dtype(call.input(0).dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T* data = call.input(0).data<T>().data();
    T* values = reinterpret_cast<T*>(output_bytes(call, 0));
    parallel_for(
        view.outer * view.inner, call.threads, 1, [&](std::int64_t begin, std::int64_t end) {
          std::vector<std::int64_t> order(static_cast<std::size_t>(view.extent));
          for (std::int64_t o = begin; o < end; ++o) {
            const T* column = data + o / view.inner * view.extent * view.inner + o % view.inner;
            for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::int64_t>(i);
            // The index breaks ties, so that the order is total and any algorithm gives the same.
            std::partial_sort(order.begin(), order.begin() + k, order.end(),
                              [&](std::int64_t i, std::int64_t j) {
                                const auto a = key(column[i * view.inner]);
                                const auto b = key(column[j * view.inner]);
                                if (below(a, b)) return !p.largest;
                                if (below(b, a)) return p.largest;
                                return i < j;
                              });
            for (std::int64_t i = 0; i < k; ++i) {
              const std::int64_t to = (o / view.inner * k + i) * view.inner + o % view.inner;
              indices[to] = order[static_cast<std::size_t>(i)];
              values[to] = column[indices[to] * view.inner];
            }
          }
        });
  });
}

// The running chain of each column; columns that lie side by side go on together, so that one waits
// for none of the others.
template <class T, class Chain>
void run_columns(const KernelCall& call, const Chain& chain, T start = 0) {
  constexpr std::int64_t kTogether = 64;
  const CumSumGeometry g = cum_sum_geometry(call);
  const std::int64_t inner = g.view.inner, extent = g.view.extent;
  const T* x = call.input(0).data<T>().data();
  T* y = reinterpret_cast<T*>(output_bytes(call, 0));
  // N columns, whose first elements lie `apart` from each other.
  const auto run = [&](std::int64_t first, std::int64_t apart, auto columns) {
    constexpr std::int64_t kColumns = decltype(columns)::value;
    std::array<T, kColumns> sum;
    sum.fill(start);
    for (std::int64_t j = 0; j < extent; ++j) {
      const std::int64_t at = first + g.place(j) * inner;
      for (std::int64_t c = 0; c < kColumns; ++c) {
        T& s = sum[static_cast<std::size_t>(c)];
        const T next = chain(s, x[at + c * apart]);
        y[at + c * apart] = g.exclusive ? s : next;
        s = next;
      }
    }
  };
  const std::int64_t apart = inner == 1 ? extent : 1;
  const std::int64_t grain = std::max<std::int64_t>(1, 16384 / std::max<std::int64_t>(1, extent));
  parallel_for(
      g.view.outer * inner, call.threads, grain, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t o = begin; o < end;) {
          const std::int64_t first = o / inner * extent * inner + o % inner,
                             left = inner == 1 ? end - o : std::min(end - o, inner - o % inner);
          if (inner > 1 && left >= kTogether) {
            run(first, 1, std::integral_constant<std::int64_t, kTogether>{});
            o += kTogether;
          } else if (left >= 8) {
            run(first, apart, std::integral_constant<std::int64_t, 8>{});
            o += 8;
          } else {
            run(first, apart, std::integral_constant<std::int64_t, 1>{});
            ++o;
          }
        }
      });
}

void run_integers(const KernelCall& call) {
  visit_dtype(call.input(0).dtype(), [&](auto zero) {
    using T = decltype(zero);
    if constexpr (std::is_integral_v<T>)
      run_columns<T>(call, [](T a, T b) {
        return static_cast<T>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
      });
  });
}

void run_integer_products(const KernelCall& call) {
  visit_dtype(call.input(0).dtype(), [&](auto zero) {
    using T = decltype(zero);
    if constexpr (std::is_integral_v<T>)
      run_columns<T>(
          call,
          [](T a, T b) {
            return static_cast<T>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
          },
          T{1});
  });
}

// A NaN that was summed stays one, so the canonical one may enter the chain.
void run_chain(const KernelCall& call) {
  run_columns<float>(call, [](float a, float b) { return canonical(a + b); });
}

Refusal integers_only(const Problem& problem) {
  if (is_floating(problem.input(0).dtype)) return "computes on integers";
  return std::nullopt;
}

Refusal refuse_chain(const Problem& problem) {
  if (problem.input(0).dtype != DType::f32) return "computes on f32";
  if (!problem.contract->native_f32() || problem.contract->order.kind != OrderKind::seq)
    return "promises order=seq in plain f32";
  return std::nullopt;
}

template <class D>
KernelRow cumulative_definition(std::string_view name) {
  KernelRow row = definition_row<D>(name);
  row.refuse = [](const Problem& problem) -> Refusal {
    if (!is_floating(problem.input(0).dtype)) return "computes on floating types";
    return refuse_definition(problem);
  };
  return row;
}

}  // namespace

std::span<const KernelRow> ordering_rows() {
  static const KernelRow definitions[] = {
      bits_row<run_arg<true>>("arg_max", "arg_max.bits"),
      bits_row<run_arg<false>>("arg_min", "arg_min.bits"),
      bits_row<run_top_k>("top_k", "top_k.bits"),
      bits_row<run_integers>("cum_sum", "cum_sum.bits", integers_only),
      {.op = "cum_sum",
       .name = "cum_sum.f32.chain",
       .contracts = "seq",
       .refuse = refuse_chain,
       .run = run_chain},
      cumulative_definition<CumSumDefinition>("cum_sum.definition"),
      bits_row<run_integer_products>("cum_prod", "cum_prod.bits", integers_only),
      cumulative_definition<CumProdDefinition>("cum_prod.definition"),
  };
  static const std::vector<KernelRow> rows = [] {
    std::vector<KernelRow> all(arg_rows().begin(), arg_rows().end());
    all.insert(all.end(), std::begin(definitions), std::end(definitions));
    return all;
  }();
  return rows;
}

}  // namespace etalon
