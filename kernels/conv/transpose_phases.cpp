// Limit: the convolutions' own, and three passes over memory (turned input, a phase's outputs,
// their places) that a phase of few terms feels; README.md.
#include "kernels/conv/transpose_phases.h"

#include <algorithm>
#include <array>
#include <limits>
#include <vector>

#include "engine/backend/definition.h"
#include "engine/numerics/contract_arithmetic.h"
#include "engine/ops/conv.h"
#include "kernels/conv/depthwise.h"
#include "kernels/conv/exact.h"
#include "kernels/conv/fast.h"
#include "kernels/conv/order_rows.h"
#include "kernels/conv/transpose_phase.h"
#include "kernels/gemm/refuse.h"

namespace etalon {
namespace {

ConvTransposeGeometry geometry_of(const Problem& problem) {
  return conv_transpose_geometry(problem.params->as<ConvTransposeParams>(), problem.input(0).shape,
                                 problem.input(1).shape);
}

// Outputs that no tap meets: a sum of no terms, and the bias.
void fill_unmet(const KernelCall& call, const ConvTransposeGeometry& g) {
  const Contract& c = call.contract();
  const std::int64_t points = g.window.out_points();
  if (points == 0) return;
  const Source bias(call, 2);
  const SoftOps ops(c);
  double* truth =
      call.truth.empty() || !call.truth[0] ? nullptr : call.truth[0].mutable_data<double>().data();
  std::byte* y = call.output(0).mutable_bytes().data();
  const auto size = static_cast<std::int64_t>(size_bytes(call.output(0).dtype()));
  for (std::int64_t i = 0; i < g.batch * g.out_channels; ++i) {
    const double b = bias ? bias[i % g.out_channels] : 0.0;
    const double value = c.exact() ? 0.0 + b : ops.add(0.0, bias ? ops.input(b) : 0.0);
    store_element(call, 0, i * points, value);
    std::byte* first = y + i * points * size;
    for (std::int64_t at = 1; at < points; ++at) std::copy_n(first, size, first + at * size);
    if (truth != nullptr) std::fill_n(truth + i * points, points, canonical(value));
  }
}

struct PreparedPhases {
  explicit PreparedPhases(const ConvTransposeGeometry& geometry) : g(geometry) {}
  ConvTransposeGeometry g;
  std::vector<TransposePhase> phases;
  std::int64_t met = 0;  // outputs of one channel that a phase computes
  bool packed = false;
};

// How a row's phases are computed: by the first of some rows of conv that takes it, or by a
// program.
struct Ways {
  std::span<const KernelRow> rows;
  void (*order)(const KernelCall&, const OrderProgram&) = nullptr;
  Prepared (*prepare_order)(const Problem&, int threads) = nullptr;
};

const KernelRow* row_of(const Ways& ways, const Problem& problem, Refusal& why) {
  for (const KernelRow& row : ways.rows) {
    why = row.refuse(problem);
    if (!why) return &row;
  }
  return nullptr;
}

Refusal refuse_empty(const ConvTransposeGeometry& g) {
  if (g.k() == 0 || g.window.in_points() == 0) return "takes sums that have terms";
  return std::nullopt;
}

Refusal refuse(const Ways& ways, const Problem& problem) {
  const ConvTransposeGeometry g = geometry_of(problem);
  if (Refusal reason = refuse_unless_f32(problem)) return reason;
  if (Refusal reason = refuse_empty(g)) return reason;
  // A phase of one tap would take every walk; of the op's taps the walk is asked.
  if (problem.contract->walk != Walk{} && g.group_in() != 1 && g.window.taps() != 1)
    return "promises walk=crs only";
  Refusal why;
  for (const TransposePhase& p : transpose_phases(problem, g))
    if (row_of(ways, p.problem(problem), why) == nullptr) return why;
  return std::nullopt;
}

std::shared_ptr<PreparedPhases> make_phases(const Ways& ways, const Problem& problem) {
  auto out = std::make_shared<PreparedPhases>(geometry_of(problem));
  out->phases = transpose_phases(problem, out->g);
  const OrderProgram whole =
      ways.order == nullptr ? OrderProgram{} : compile_order(problem.contract->order, out->g.k());
  Refusal why;
  for (TransposePhase& p : out->phases) {
    if (ways.order == nullptr)
      p.row = row_of(ways, p.problem(problem), why);
    else
      p.program = of_present_terms(whole, present_terms(p, out->g, problem.contract->walk));
    out->met += p.outputs();
  }
  return out;
}

void pack(const Ways& ways, PreparedPhases& all, const Problem& problem, const Tensor& w,
          int threads) {
  for (TransposePhase& p : all.phases) {
    p.weights = phase_weights(p, all.g, w);
    p.inputs[1].value = &p.weights;
    const auto prepare = p.row != nullptr ? p.row->prepare : ways.prepare_order;
    if (prepare != nullptr) p.prepared = prepare(p.problem(problem), threads);
  }
  all.packed = true;
}

Prepared prepare(const Ways& ways, const Problem& problem, int threads) {
  auto out = make_phases(ways, problem);
  if (const Tensor* w = problem.inputs[1].value) pack(ways, *out, problem, *w, threads);
  return out;
}

void run(const Ways& ways, const KernelCall& call) {
  const auto* prepared = static_cast<const PreparedPhases*>(call.prepared);
  std::shared_ptr<PreparedPhases> fresh;
  if (prepared == nullptr || !prepared->packed) {
    fresh = make_phases(ways, *call.problem);
    pack(ways, *fresh, *call.problem, call.input(1), call.threads);
    prepared = fresh.get();
  }
  const ConvTransposeGeometry& g = prepared->g;
  Tensor& y = call.output(0);
  Tensor* truth = call.truth.empty() || !call.truth[0] ? nullptr : call.truth.data();
  const Tensor* bias = call.has(2) ? &call.input(2) : nullptr;
  if (prepared->met < g.window.out_points()) fill_unmet(call, g);
  Tensor x;  // kept from phase to phase while they read the same
  const TransposePhase* before = nullptr;
  for (const TransposePhase& p : prepared->phases) {
    if (before == nullptr || !reads_as(p, *before))
      x = phase_input(p, g, call.input(0), call.threads);
    before = &p;
    const Problem problem = p.problem(*call.problem);
    const Tensor* inputs[] = {&x, &p.weights, bias};
    std::array<Tensor, 1> part{Tensor::uninitialized(y.dtype(), p.output[0].shape)}, true_part;
    KernelCall conv{.problem = &problem,
                    .inputs = std::span(inputs).first(bias == nullptr ? 2 : 3),
                    .outputs = part,
                    .truth = {},
                    .threads = call.threads,
                    .prepared = p.prepared.get(),
                    .finished = nullptr};
    if (truth != nullptr) {
      true_part[0] = Tensor::uninitialized(DType::f64, p.output[0].shape);
      conv.truth = true_part;
    }
    if (ways.order == nullptr)
      p.row->run(conv);
    else
      ways.order(conv, p.program);
    place_phase(p, g, part[0], y, call.threads);
    if (truth != nullptr) place_phase(p, g, true_part[0], *truth, call.threads);
  }
}

template <Isa isa>
Ways seq_ways() {
  static const KernelRow rows[] = {depthwise_f32_row<isa>("conv.f32.depthwise"),
                                   conv_f32_row<isa>("conv.f32")};
  return {.rows = rows};
}
template <Isa isa>
Ways exact_ways() {
  static const KernelRow rows[] = {conv_exact_row<isa>("conv.exact")};
  return {.rows = rows};
}
template <Isa isa>
Ways order_ways() {
  return {.order = run_conv_order<isa>, .prepare_order = prepare_conv_order<isa>};
}

template <Isa isa>
Refusal refuse_orders(const Problem& problem) {
  if (Refusal reason = refuse_order_contract(problem)) return reason;
  if (problem.input(0).shape.numel() > std::numeric_limits<std::int32_t>::max())
    return "reaches 2^31 elements of the input";
  const ConvTransposeGeometry g = geometry_of(problem);
  if (Refusal reason = refuse_empty(g)) return reason;
  return refuse_order(problem.contract->order, g.k());
}

template <Ways (*ways)()>
KernelRow phases_row(std::string_view name, std::string_view contracts, Isa isa) {
  return {.op = "conv_transpose",
          .name = name,
          .isa = isa,
          .contracts = contracts,
          .refuse = [](const Problem& p) { return refuse(ways(), p); },
          .run = [](const KernelCall& call) { run(ways(), call); },
          .prepare = [](const Problem& p, int threads) { return prepare(ways(), p, threads); }};
}

}  // namespace

template <Isa isa>
KernelRow conv_transpose_seq_row(std::string_view name) {
  return phases_row<seq_ways<isa>>(name, "seq", isa);
}
template <Isa isa>
KernelRow conv_transpose_exact_row(std::string_view name) {
  return phases_row<exact_ways<isa>>(name, "exact", isa);
}
template <Isa isa>
KernelRow conv_transpose_order_row(std::string_view name) {
  KernelRow row = phases_row<order_ways<isa>>(name, kOrderContracts, isa);
  row.refuse = refuse_orders<isa>;
  return row;
}
template KernelRow conv_transpose_seq_row<Isa::avx512>(std::string_view name);
template KernelRow conv_transpose_seq_row<Isa::avx2>(std::string_view name);
template KernelRow conv_transpose_exact_row<Isa::avx512>(std::string_view name);
template KernelRow conv_transpose_exact_row<Isa::avx2>(std::string_view name);
template KernelRow conv_transpose_order_row<Isa::avx512>(std::string_view name);
template KernelRow conv_transpose_order_row<Isa::avx2>(std::string_view name);

}  // namespace etalon
