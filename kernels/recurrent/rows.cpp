#include "kernels/recurrent/rows.h"

#include <vector>

#include "kernels/recurrent/definition.h"
#include "kernels/recurrent/gru.h"
#include "kernels/recurrent/lstm.h"
#include "kernels/recurrent/order_cells.h"

namespace etalon {
namespace {

template <CellKind Kind, class P>
KernelRow row(std::string_view op, std::string_view name) {
  return {
      .op = op,
      .name = name,
      .contracts = "all",
      .refuse = refuse_definition,
      .run = [](const KernelCall& call) { run_recurrent(call, recurrent_plan<Kind, P>(call)); },
      .slices =
          [](const KernelCall& call) { return recurrent_slices(recurrent_plan<Kind, P>(call)); },
      .run_slices =
          [](const KernelCall& call, std::span<const std::int64_t> slices) {
            run_recurrent(call, recurrent_plan<Kind, P>(call), slices);
          },
      .bound =
          [](const KernelCall& call, const AnyOrderModel& model,
             std::span<const std::int64_t> slices, std::vector<OutputBound>& found) {
            bound_recurrent(call, recurrent_plan<Kind, P>(call), model, slices, found);
          }};
}

}  // namespace

std::span<const KernelRow> recurrent_rows() {
  static const std::vector<KernelRow> f32 = {
#if defined(__x86_64__)
      rnn_f32_row<Isa::avx512>("rnn.f32.avx512"),   rnn_f32_row<Isa::avx2>("rnn.f32.avx2"),
      gru_f32_row<Isa::avx512>("gru.f32.avx512"),   gru_f32_row<Isa::avx2>("gru.f32.avx2"),
      lstm_f32_row<Isa::avx512>("lstm.f32.avx512"), lstm_f32_row<Isa::avx2>("lstm.f32.avx2"),
#endif
  };
  static const KernelRow definitions[] = {
      row<CellKind::rnn, RnnParams>("rnn", "rnn.definition"),
      row<CellKind::gru, GruParams>("gru", "gru.definition"),
      row<CellKind::lstm, LstmParams>("lstm", "lstm.definition"),
  };
  static const std::vector<KernelRow> rows = [] {
    std::vector<KernelRow> all = f32;
    all.insert(all.end(), cell_order_rows().begin(), cell_order_rows().end());
    all.insert(all.end(), std::begin(definitions), std::end(definitions));
    return all;
  }();
  return rows;
}

}  // namespace etalon
