#include "kernels/recurrent/rows.h"

#include "engine/backend/bits_row.h"
#include "kernels/recurrent/definition.h"
#include "kernels/recurrent/lstm.h"

namespace etalon {
namespace {

template <CellKind Kind, class P>
RecurrentPlan plan_of(const KernelCall& call) {
  const P& params = call.params<P>();
  const std::vector<InferInput> known = known_inputs(call);
  RecurrentPlan plan{recurrent_geometry(Kind, params, InferInputs(known)),
                     static_cast<double>(params.clip)};
  if constexpr (Kind == CellKind::gru) plan.linear_before_reset = params.linear_before_reset;
  if constexpr (Kind == CellKind::lstm) plan.input_forget = params.input_forget;
  plan.x = Source(call, 0);
  plan.w = Source(call, 1);
  plan.r = Source(call, 2);
  plan.b = Source(call, 3);
  plan.lengths = call.has(4) ? &call.input(4) : nullptr;
  plan.initial_h = Source(call, 5);
  plan.initial_c = Source(call, 6);
  plan.p = Source(call, 7);
  return plan;
}

template <CellKind Kind, class P>
KernelRow row(std::string_view op, std::string_view name) {
  return {.op = op,
          .name = name,
          .contracts = "all",
          .refuse = refuse_definition,
          .run = [](const KernelCall& call) { run_recurrent(call, plan_of<Kind, P>(call)); },
          .slices = [](const KernelCall& call) { return recurrent_slices(plan_of<Kind, P>(call)); },
          .run_slices =
              [](const KernelCall& call, std::span<const std::int64_t> slices) {
                run_recurrent(call, plan_of<Kind, P>(call), slices);
              },
          .bound =
              [](const KernelCall& call, const AnyOrderModel& model,
                 std::span<const std::int64_t> slices, std::vector<OutputBound>& found) {
                bound_recurrent(call, plan_of<Kind, P>(call), model, slices, found);
              }};
}

}  // namespace

std::span<const KernelRow> recurrent_rows() {
  static const KernelRow rows[] = {
      row<CellKind::rnn, RnnParams>("rnn", "rnn.definition"),
      row<CellKind::gru, GruParams>("gru", "gru.definition"),
#if defined(__x86_64__)
      lstm_f32_row<Isa::avx512>("lstm.f32.avx512"),
      lstm_f32_row<Isa::avx2>("lstm.f32.avx2"),
#endif
      row<CellKind::lstm, LstmParams>("lstm", "lstm.definition"),
  };
  return rows;
}

}  // namespace etalon
