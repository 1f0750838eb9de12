#include "engine/ops/control.h"

namespace etalon {
namespace {

// What comes out depends on the bodies, which are not known here.
std::vector<TensorType> unknown(const Params&, const InferInputs&) { throw NotConstant{0}; }

OpRow row(std::string_view name, std::string_view summary, int min_inputs, int max_inputs) {
  return {.name = name,
          .summary = summary,
          .nature = OpNature::movement,
          .min_inputs = min_inputs,
          .max_inputs = max_inputs,
          .min_outputs = 0,
          .max_outputs = kVariadic,
          .per_sample = false,
          .infer = unknown};
}

OpRow scan_row() {
  OpRow op = row("scan", "A body over the slices of its inputs.", 1, kVariadic);
  op.defaults = [] { return Params(ScanParams{}); };
  return op;
}

}  // namespace

std::span<const OpRow> control_ops() {
  static const OpRow rows[] = {
      row("if", "One of two bodies.", 1, 1),
      row("loop", "A body again and again.", 0, kVariadic),
      scan_row(),
  };
  return rows;
}

bool is_control(const OpRow& op) {
  const auto rows = control_ops();
  return &op >= rows.data() && &op < rows.data() + rows.size();
}

}  // namespace etalon
