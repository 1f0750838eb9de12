#include "kernels/quantize/rows.h"

#include <algorithm>
#include <vector>

#include "engine/backend/bits_row.h"
#include "engine/backend/definition.h"
#include "engine/ops/quantize.h"

namespace etalon {
namespace {

// The nearest integer to x, halves to even, for |x| < 2^51: adding 1.5 * 2^52 leaves no room for a
// fraction.
double round_half_even(double x) { return (x + 0x1.8p52) - 0x1.8p52; }

}  // namespace

// n from the f64 quotient, and where that lies near a half, the side told by x against
// (n +- 1/2) * scale, whose error fma shows.
double round_quotient(double x, double scale) {
  const double q = x / scale;
  if (!is_finite(q) || abs_of(q) >= 0x1p40) return q;
  double n = round_half_even(q);
  for (const double half : {0.5, -0.5}) {
    // Of the sign of x - (n + half) * scale, turned to a positive scale.
    double beyond = fma_f64(-(n + half), scale, x);
    if (scale < 0) beyond = -beyond;
    const bool odd = n - 2 * round_half_even(n / 2 - 0.25) == 1;
    if (half > 0 && (beyond > 0 || (beyond == 0 && odd))) n += 1;
    if (half < 0 && (beyond < 0 || (beyond == 0 && odd))) n -= 1;
  }
  return n;
}

void run_quantize_definition(const KernelCall& call) {
  const std::vector<InferInput> known = known_inputs(call);
  const QuantizeGeometry g = quantize_geometry(call.params<QuantizeParams>(), InferInputs(known));
  const Contract& c = call.contract();
  const Source x(call, 0), scale(call, 1), zero(call, 2);
  const SoftOps ops(c);
  const DType to = call.output(0).dtype();
  parallel_for(call.output(0).numel(), call.threads, 4096,
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t i = begin; i < end; ++i) {
                   const std::int64_t s = g.scale_index(i);
                   double q = c.exact() ? round_quotient(x[i], scale[s])
                                        : ops.div(ops.input(x[i]), ops.input(scale[s]));
                   if (is_nan(q)) q = 0;
                   if (abs_of(q) < 0x1p40) q = round_half_even(q);
                   store_from_double(to, output_bytes(call, 0), i, q + (zero ? zero[s] : 0.0));
                 }
               });
}

namespace {

struct DequantizeDefinition {
  static constexpr std::string_view op = "dequantize_linear";
  static constexpr bool rounded_once = true;
  struct Plan {
    QuantizeGeometry g;
    Source x, scale, zero;
    std::int64_t count;
  };
  static Plan plan(const KernelCall& call) {
    const std::vector<InferInput> known = known_inputs(call);
    return {quantize_geometry(call.params<QuantizeParams>(), InferInputs(known)), Source(call, 0),
            Source(call, 1), Source(call, 2), call.output(0).numel()};
  }
  static std::int64_t slices(const Plan& p) { return p.count; }
  template <class A, class Out>
  static void slice(A& a, const Plan& p, std::int64_t i, Out& out) {
    const std::int64_t s = p.g.scale_index(i);
    // Integers of 32 bits: their difference is exact here. A program that converts them first, or
    // converts the difference, rounds those beyond 2^24.
    const double x = p.x[i], zero = p.zero ? p.zero[s] : 0.0;
    auto difference = a.input(x - zero);
    if constexpr (std::is_same_v<A, AnyOrder>)
      for (const double n : {x, zero, x - zero})
        if (abs_of(n) > 0x1p24) difference.err += abs_of(n) * 0x1p-24;
    out(0, i, a.mul(difference, a.input(p.scale[s])));
  }
};

Refusal refuse_mode(const Problem& problem) {
  return problem.contract->exact() ? std::nullopt : refuse_definition(problem);
}

}  // namespace

void run_dequantize_definition(const KernelCall& call) {
  run_definition<DequantizeDefinition>(call);
}

std::span<const KernelRow> quantize_rows() {
  static const KernelRow definitions[] = {
      {.op = "quantize_linear",
       .name = "quantize_linear.definition",
       .contracts = "all",
       .refuse = refuse_mode,
       .run = run_quantize_definition},
      definition_row<DequantizeDefinition>("dequantize_linear.definition"),
  };
  static const std::vector<KernelRow> rows = [] {
    const std::span<const KernelRow> fast = quantize_vector_rows();
    std::vector<KernelRow> all(fast.begin(), fast.end());
    all.insert(all.end(), std::begin(definitions), std::end(definitions));
    return all;
  }();
  return rows;
}

}  // namespace etalon
