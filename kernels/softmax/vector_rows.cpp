#include "kernels/softmax/vector_rows.h"

#include <algorithm>
#include <array>

#include "engine/core/threads.h"
#include "engine/numerics/elementary/f64_core.h"
#include "kernels/activation/lanes.h"
#include "kernels/gemm/halves_row.h"
#include "kernels/reduce/row_steps.h"
#include "kernels/simd/machine.h"
#include "kernels/softmax/definition.h"
#include "kernels/softmax/narrow.h"

namespace etalon {
namespace {

float scalar_exp(const void* /*context*/, float x) {
  return correctly_rounded_f32(Function::exp, x);
}
float scalar_log(const void* /*context*/, float x) {
  return correctly_rounded_f32(Function::log, x);
}

bool sums_in_lanes(const Order& order) {
  return order.kind == OrderKind::lanes && order.sizes[0] <= kMostLanes;
}

[[maybe_unused]] Refusal refuse(const Problem& problem) {
  if (problem.input(0).dtype != DType::f32)
    return "input 0 is " + std::string(name(problem.input(0).dtype)) + ", this kernel takes f32";
  Contract c = *problem.contract;
  if (c.exact() && c != Contract::exact_preset()) return "promises exact with its defaults only";
  c.fma = true;  // no product is summed
  if (!c.exact() && !c.native_f32())
    return "promises exact, and acc=f32,round=rn,subnormals=keep, only";
  const Order& order = c.order;
  if (!c.exact() && order.kind != OrderKind::seq && !sums_in_lanes(order))
    return "sums by seq and lanes:N up to " + std::to_string(kMostLanes);
  const Shape& shape = problem.input(0).shape;
  if (softmax_geometry(problem.params->as<SoftmaxParams>(), shape).stride != 1)
    return "takes the last axis only, where rows are contiguous";
  return std::nullopt;
}

template <Isa kIsa>
const RowSteps& row_steps() {
  return kIsa >= Isa::avx512 ? row_steps_avx512(is_amd()) : row_steps_avx2();
}

// Up to kRowsAtOnce rows, so that the sums of order=seq are as many chains side by side and, in any
// order, one row's sum goes on beside the next one's.
template <bool kLog, Isa kIsa>
void softmax_rows(const Contract& contract, const float* x, float* y, float* scratch,
                  std::int64_t rows, std::int64_t n) {
  const RowSteps& steps = row_steps<kIsa>();
  std::array<float, kRowsAtOnce> largest{}, sums{};
  float* e = kLog ? scratch : y;
  for (std::int64_t r = 0; r < rows; ++r)
    largest[static_cast<std::size_t>(r)] = steps.largest(x + r * n, n);
  const Order& order = contract.order;
  const auto finite = [&](std::int64_t r) {
    return is_finite(static_cast<double>(largest[static_cast<std::size_t>(r)]));
  };
  std::array<float, kRowsAtOnce> shift{};  // what becomes of the others is not looked at
  for (std::int64_t r = 0; r < rows; ++r)
    if (finite(r)) shift[static_cast<std::size_t>(r)] = largest[static_cast<std::size_t>(r)];
  const ExpRows exponentials{
      .x = x, .largest = shift.data(), .y = e, .stride = n, .n = n, .rows = static_cast<int>(rows)};
  if (order.kind == OrderKind::seq && rows <= kExpChains) {
    exp_lanes(kIsa)->summed(exponentials, sums.data(), {scalar_exp, nullptr});
  } else {
    exp_lanes(kIsa)->rounded(exponentials, {scalar_exp, nullptr});
    if (order.kind == OrderKind::seq)
      steps.chains(nullptr, e, n, rows, n, sums.data());
    else
      for (std::int64_t r = 0; r < rows; ++r)
        sums[static_cast<std::size_t>(r)] = steps.lanes(nullptr, e + r * n, n, order.sizes[0]);
  }
  if (kLog)
    lane_kernel(kIsa)(LaneFunction::log, {}, sums.data(), sums.data(), rows, {scalar_log, nullptr});
  for (std::int64_t r = 0; r < rows; ++r) {
    const float s = sums[static_cast<std::size_t>(r)];
    if (!finite(r))
      std::fill_n(y + r * n, n, float_of(kNanF32));
    else if constexpr (kLog)
      steps.subtract(x + r * n, largest[static_cast<std::size_t>(r)], s, y + r * n, n);
    else
      steps.affine({.x = y + r * n, .root = s, .y = y + r * n, .n = n});
  }
}

// How many rows are done at a time: under seq as many as there are chains, otherwise what the first
// cache holds.
std::int64_t rows_at_once(const Order& order, std::int64_t n) {
  return order.kind == OrderKind::seq ? kRowsAtOnce
                                      : std::clamp<std::int64_t>(4096 / n, 1, kRowsAtOnce);
}

// Sums of non-negative terms in eight chains: each term meets at most count/8 + 4 roundings.
double sum_of(const double* e, std::int64_t count) {
  double part[8] = {};
  std::int64_t k = 0;
  for (; k + 8 <= count; k += 8)
    for (int i = 0; i < 8; ++i) part[i] += e[k + i];
  for (; k < count; ++k) part[k % 8] += e[k];
  return ((part[0] + part[4]) + (part[2] + part[6])) + ((part[1] + part[5]) + (part[3] + part[7]));
}

// e_k and s err by 2^-45 each and s by (n/8 + 4) 2^-53 more; the quotient by 2^-53: below 2^-43.9 +
// n 2^-56. A term below e^-200 is taken as e^-200, which moves neither s, that is at least 1, nor a
// rounded output. The logarithm is log1p of the terms beside the largest, which is 1: its error is
// theirs and 2^-49, and x_k - m - log s does not cancel, both parts being at most 0; where all of
// them lie below e^-200, so does the output's distance from x_k - m.
template <bool kLog>
bool exact_row(const ExpLanes& lanes, const RowSteps& steps, const float* x, float* y, double* e,
               std::int64_t n) {
  const float m = steps.largest(x, n);
  if (!is_finite(static_cast<double>(m))) {
    for (std::int64_t k = 0; k < n; ++k) y[k] = float_of(kNanF32);
    return true;
  }
  const double error = 0x1p-43 + static_cast<double>(n) * 0x1p-54;
  lanes.exp(x, m, e, n);
  if constexpr (kLog) {
    for (std::int64_t k = 0; k < n; ++k)
      if (x[k] == m) {
        e[k] = 0;
        break;
      }
    const double rest = sum_of(e, n);
    return lanes.subtract(x, m, rest == 0 ? 0 : f64_core::log1p(rest), error, y, n);
  } else {
    return lanes.divide(e, sum_of(e, n), error, y, n);
  }
}

template <bool kLog, Isa kIsa>
void run_exact(const KernelCall& call, const SoftmaxGeometry& g, const float* x, float* y) {
  const ExpLanes& lanes = *exp_lanes(kIsa);
  parallel_for(g.rows, call.threads, 1, [&](std::int64_t begin, std::int64_t end) {
    std::vector<double> e(static_cast<std::size_t>(g.length));
    const auto plan = SoftmaxDefinition<kLog>::plan(call);
    for (std::int64_t r = begin; r < end; ++r)
      if (!exact_row<kLog>(lanes, row_steps<kIsa>(), x + r * g.length, y + r * g.length, e.data(),
                           g.length))
        correctly_rounded_slice<SoftmaxDefinition<kLog>>(call, plan, r);
  });
}

template <bool kLog, Isa kIsa>
void run(const KernelCall& call) {
  if (!call.truth.empty()) return run_definition<SoftmaxDefinition<kLog>>(call);
  const SoftmaxGeometry g = softmax_geometry(call.params<SoftmaxParams>(), call.input(0).shape());
  if (g.length == 0) return;
  const float* x = call.input(0).template data<float>().data();
  float* y = call.output(0).template mutable_data<float>().data();
  if (call.contract().exact()) return run_exact<kLog, kIsa>(call, g, x, y);
  const Order& order = call.contract().order;
  const bool lanes = sums_in_lanes(order);
  const bool narrow = g.length <= kNarrow && (lanes || order.kind == OrderKind::seq);
  const NarrowSoftmax& short_rows =
      kIsa >= Isa::avx512 ? narrow_softmax_avx512 : narrow_softmax_avx2;
  const std::int64_t group = narrow ? short_rows.rows : rows_at_once(order, g.length);
  const std::int64_t grain = std::clamp<std::int64_t>(g.rows / call.threads, 1, kRowsAtOnce);
  parallel_for(g.rows, call.threads, grain, [&](std::int64_t begin, std::int64_t end) {
    std::vector<float> scratch(kLog ? static_cast<std::size_t>(g.length * group) : 0);
    for (std::int64_t r = begin; r < end; r += group) {
      const std::int64_t rows = std::min(group, end - r);
      const float* from = x + r * g.length;
      float* to = y + r * g.length;
      if (narrow && short_rows.run({.x = from,
                                    .y = to,
                                    .rows = static_cast<int>(rows),
                                    .n = static_cast<int>(g.length),
                                    .log = kLog,
                                    .lanes = lanes ? order.sizes[0] : 0,
                                    .functions = lane_kernel(kIsa),
                                    .exp = {scalar_exp, nullptr},
                                    .logarithm = {scalar_log, nullptr}}))
        continue;
      softmax_rows<kLog, kIsa>(call.contract(), from, to, scratch.data(), rows, g.length);
    }
  });
}

template <bool kLog, Isa kIsa>
KernelRow f32_row(std::string_view name) {
  return {.op = kLog ? "log_softmax" : "softmax",
          .name = name,
          .isa = kIsa,
          .contracts = "exact; seq and lanes with acc=f32,round=rn,subnormals=keep",
          .refuse = refuse,
          .run = run<kLog, kIsa>};
}

}  // namespace

const std::vector<KernelRow>& softmax_vector_rows() {
  static const std::vector<KernelRow> rows = {
#if defined(__x86_64__)
      f32_row<false, Isa::avx512>("softmax.f32.avx512"),
      f32_row<false, Isa::avx2>("softmax.f32.avx2"),
      f32_row<true, Isa::avx512>("log_softmax.f32.avx512"),
      f32_row<true, Isa::avx2>("log_softmax.f32.avx2"),
      halves_row<f32_row<false, Isa::avx512>>("softmax.halves.avx512"),
      halves_row<f32_row<false, Isa::avx2>>("softmax.halves.avx2"),
      halves_row<f32_row<true, Isa::avx512>>("log_softmax.halves.avx512"),
      halves_row<f32_row<true, Isa::avx2>>("log_softmax.halves.avx2"),
#endif
  };
  return rows;
}

}  // namespace etalon
