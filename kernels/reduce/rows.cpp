#include "kernels/reduce/rows.h"

#include <limits>
#include <vector>

#include "kernels/reduce/definition.h"
#include "kernels/reduce/exact.h"
#include "kernels/reduce/order_rows.h"

namespace etalon {
namespace {

Refusal refuse_integers(const Problem& problem) {
  if (!is_floating(problem.input(0).dtype)) return "computes on floating types";
  return refuse_definition(problem);
}

template <bool RoundedOnce>
KernelRow floating_row(std::string_view op, std::string_view name) {
  KernelRow row = definition_row<ReduceDefinition<RoundedOnce>>(name);
  row.op = op;
  row.refuse = refuse_integers;
  return row;
}

Refusal integers_only(const Problem& problem) {
  if (is_floating(problem.input(0).dtype)) return "computes on integers";
  return std::nullopt;
}

enum class Integer { sum, mean, max, min, prod, l1, sum_square };

// Sums are exact in 128 bits (2^64 elements of 2^64), products modulo 2^64.
template <Integer Op>
void run_integer(const KernelCall& call) {
  const std::vector<InferInput> known = known_inputs(call);
  const ReduceGeometry g = reduce_geometry(call.params<ReduceParams>(), InferInputs(known));
  visit_dtype(call.input(0).dtype(), [&](auto zero) {
    using Stored = decltype(zero);
    using T = std::conditional_t<std::is_same_v<Stored, Bool>, std::uint8_t, Stored>;
    if constexpr (std::is_integral_v<T>) {
      using Limits = std::numeric_limits<T>;
      const T* x = reinterpret_cast<const T*>(call.input(0).bytes().data());
      T* y = reinterpret_cast<T*>(output_bytes(call, 0));
      const std::int64_t count = g.reduced.numel();
      parallel_for(g.kept.numel(), call.threads, 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t o = begin; o < end; ++o) {
          const std::int64_t first = strided_offset(o, g.kept, g.kept_strides);
          __extension__ __int128 sum = 0;
          std::uint64_t product = 1;
          T low = std::is_same_v<Stored, Bool> ? T{1} : Limits::max(), high = Limits::min();
          for (std::int64_t k = 0; k < count; ++k) {
            const T v = x[first + strided_offset(k, g.reduced, g.reduced_strides)];
            const auto w = static_cast<std::uint64_t>(v);
            if constexpr (Op == Integer::sum_square)
              product += w * w;
            else if constexpr (Op == Integer::l1)
              product += v < T{0} ? ~w + 1 : w;
            else
              product *= w;
            sum += v;
            low = v < low ? v : low;
            high = high < v ? v : high;
          }
          switch (Op) {
            case Integer::sum:
              y[o] = static_cast<T>(sum);
              break;
            case Integer::mean:
              y[o] = count == 0 ? T{0} : static_cast<T>(sum / count);
              break;
            case Integer::max:
              y[o] = high;
              break;
            case Integer::min:
              y[o] = low;
              break;
            case Integer::prod:
              y[o] = static_cast<T>(product);
              break;
            case Integer::l1:
            case Integer::sum_square:
              y[o] = static_cast<T>(product - 1);  // it began at 1
              break;
          }
        }
      });
    }
  });
}

}  // namespace

void run_extremum_definition(const KernelCall& call) {
  run_definition<ReduceDefinition<true>>(call);
}

std::span<const KernelRow> reduce_rows() {
  static const KernelRow own[] = {
      bits_row<run_integer<Integer::sum>>("reduce_sum", "reduce_sum.bits", integers_only),
      bits_row<run_integer<Integer::mean>>("reduce_mean", "reduce_mean.bits", integers_only),
      bits_row<run_integer<Integer::max>>("reduce_max", "reduce_max.bits", integers_only),
      bits_row<run_integer<Integer::min>>("reduce_min", "reduce_min.bits", integers_only),
      bits_row<run_integer<Integer::prod>>("reduce_prod", "reduce_prod.bits", integers_only),
      bits_row<run_integer<Integer::l1>>("reduce_l1", "reduce_l1.bits", integers_only),
      bits_row<run_integer<Integer::sum_square>>("reduce_sum_square", "reduce_sum_square.bits",
                                                 integers_only),
      floating_row<false>("reduce_sum", "reduce_sum.definition"),
      floating_row<false>("reduce_mean", "reduce_mean.definition"),
      floating_row<false>("reduce_l1", "reduce_l1.definition"),
      floating_row<false>("reduce_l2", "reduce_l2.definition"),
      floating_row<false>("reduce_sum_square", "reduce_sum_square.definition"),
      floating_row<false>("reduce_prod", "reduce_prod.definition"),
      floating_row<false>("reduce_log_sum", "reduce_log_sum.definition"),
      floating_row<false>("reduce_log_sum_exp", "reduce_log_sum_exp.definition"),
      floating_row<true>("reduce_max", "reduce_max.definition"),
      floating_row<true>("reduce_min", "reduce_min.definition"),
  };
  static const std::vector<KernelRow> rows = [] {
    std::vector<KernelRow> all(reduce_f32_rows().begin(), reduce_f32_rows().end());
    all.insert(all.end(), reduce_exact_rows().begin(), reduce_exact_rows().end());
    all.insert(all.end(), reduce_order_rows().begin(), reduce_order_rows().end());
    all.insert(all.end(), std::begin(own), std::end(own));
    return all;
  }();
  return rows;
}

}  // namespace etalon
