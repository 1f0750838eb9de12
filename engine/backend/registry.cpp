#include "engine/backend/registry.h"

#include <algorithm>
#include <set>

#include "engine/core/error.h"
#include "engine/numerics/algorithm.h"
#include "engine/numerics/tensor_core.h"
#include "engine/ops/conv.h"

namespace etalon {
namespace {

bool matches(std::string_view name, std::string_view wanted) {
  return name.starts_with(wanted) && (name.size() == wanted.size() || name[wanted.size()] == '.');
}

constexpr std::string_view kOtherAlgorithm = "computes algo=";

// Kind of the contract's algo: what stands before its parameters.
std::string_view algorithm_of(const Contract& contract) {
  return std::string_view(contract.algo).substr(0, contract.algo.find_first_of(":,"));
}

// The algorithm that a row computes stands in its name after the op: "conv.winograd.f32.avx512";
// where none does, it is direct.
std::string_view algorithm_of(const KernelRow& row) {
  std::string_view rest = row.name.substr(std::min(row.op.size() + 1, row.name.size()));
  rest = rest.substr(0, rest.find('.'));
  for (const auto kind : {Algorithm::Kind::im2col, Algorithm::Kind::winograd, Algorithm::Kind::fft})
    if (rest == name(kind)) return rest;
  return "direct";
}

// A tensor core multiplies two operands; other sums have no such order.
Refusal refuse_tensor_core(const Problem& problem) {
  const std::string_view op = problem.op->name;
  if (op != "gemm" && op != "matmul" && op != "conv") {
    if (problem.op->nature != OpNature::sum && problem.op->nature != OpNature::composite)
      return std::nullopt;  // no sum, no order
    return "order=tensorcore is of gemm, matmul and conv, the products that tensor cores compute";
  }
  const Contract& c = *problem.contract;
  if (!is_floating(problem.input(0).dtype)) return std::nullopt;
  if (c.order.format == TensorCoreFormat::of_input &&
      problem.input(0).dtype != problem.input(1).dtype)
    return fmt::format("multiplies one format, not {} by {}; name it: order=tensorcore:{}:FORMAT",
                       name(problem.input(0).dtype), name(problem.input(1).dtype),
                       name(c.order.arch));
  const TensorCoreFormat format = c.order.format == TensorCoreFormat::of_input
                                      ? tensor_core_format(problem.input(0).dtype)
                                      : c.order.format;
  if (TensorCoreModel::of(c.order.arch, format, c.acc).block == 0)
    return fmt::format("{}'s tensor cores do not multiply {} with acc={}", name(c.order.arch),
                       name(format), name(c.acc));
  return std::nullopt;
}

// Rows that say what an op's bits are, and ask for nothing.
bool defines(const KernelRow& row) {
  return row.promise == Promise::defined &&
         (row.name.ends_with(".definition") || row.name.ends_with(".bits"));
}

bool has_no_elements(const Problem& problem) {
  const auto empty = [](const TensorType& t) { return t.shape.numel() == 0; };
  return std::any_of(problem.inputs.begin(), problem.inputs.end(),
                     [&](const InferInput& i) { return i.given && empty(i.type); }) ||
         std::any_of(problem.outputs.begin(), problem.outputs.end(), empty);
}

// A negative pad leaves part of the image out. Fast rows lay images out with their padding around
// them and have no place for what lies before the first window; definitions ask where each tap is.
// Nor have they a tile of no terms.
Refusal refuse_windows(const KernelRow& row, const Problem& problem) {
  const std::string_view op = problem.op->name;
  if ((op != "conv" && op != "conv_channels_last") || defines(row)) return std::nullopt;
  const Shape& w = problem.input(1).shape;
  if (w.rank() > 1 && w[1] == 0) return "takes sums that have terms";
  const auto& p = problem.params->as<ConvParams>();
  if (p.auto_pad != AutoPad::explicit_pads) return std::nullopt;
  for (const Ints* pads : {&p.pads_begin, &p.pads_end})
    if (std::any_of(pads->begin(), pads->end(), [](std::int64_t n) { return n < 0; }))
      return "takes no negative padding";
  return std::nullopt;
}

Refusal common_refusal(const KernelRow& row, const Problem& problem, bool has_algorithms) {
  if (row.device != problem.device)
    return row.device == Device::cuda ? "runs on a CUDA device" : "runs on the CPU";
  if (row.isa > problem.isa)
    return fmt::format("needs {}; this machine or --isa allows {}", name(row.isa),
                       name(problem.isa));
  if (has_algorithms && row.promise == Promise::defined &&
      algorithm_of(row) != algorithm_of(*problem.contract))
    return fmt::format("{}{}", kOtherAlgorithm, algorithm_of(row));
  if (problem.contract->tensor_core() && row.promise == Promise::defined)
    if (Refusal reason = refuse_tensor_core(problem)) return reason;
  if (Refusal reason = refuse_windows(row, problem)) return reason;
  return row.refuse == nullptr ? std::nullopt : row.refuse(problem);
}

}  // namespace

void Registry::add(std::span<const KernelRow> rows) {
  for (const KernelRow& row : rows) rows_.push_back(&row);
}

std::vector<const KernelRow*> Registry::rows_of(std::string_view op) const {
  std::vector<const KernelRow*> found;
  for (const KernelRow* row : rows_)
    if (row->op == op) found.push_back(row);
  return found;
}

std::vector<const KernelRow*> Registry::all() const { return rows_; }

Selection Registry::select(const Problem& problem, std::string_view wanted) const {
  Selection selection;
  bool has_algorithms = false;
  for (const KernelRow* row : rows_)
    has_algorithms =
        has_algorithms || (row->op == problem.op->name && algorithm_of(*row) != "direct");
  // Nothing is gained on tensors without elements, and their other extents may be anything.
  if (wanted.empty() && has_no_elements(problem))
    for (const KernelRow* row : rows_)
      if (row->op == problem.op->name && defines(*row) &&
          !common_refusal(*row, problem, has_algorithms)) {
        selection.row = row;
        return selection;
      }
  for (const KernelRow* row : rows_) {
    if (row->op != problem.op->name) continue;
    if (wanted.empty() ? row->promise == Promise::vendor : !matches(row->name, wanted)) continue;
    if (Refusal reason = common_refusal(*row, problem, has_algorithms)) {
      selection.refused.push_back({row, std::move(*reason)});
      continue;
    }
    selection.row = row;
    break;
  }
  return selection;
}

const KernelRow& Registry::require(const Problem& problem, std::string_view wanted) const {
  Selection selection = select(problem, wanted);
  if (selection.row != nullptr) return *selection.row;
  // Each reason once, under the first row that has it; rows of other algorithms go without saying
  // where one of this algorithm speaks.
  std::string reasons;
  const bool own =
      std::any_of(selection.refused.begin(), selection.refused.end(),
                  [](const KernelRefusal& r) { return !r.reason.starts_with(kOtherAlgorithm); });
  std::set<std::string> said;
  for (const KernelRefusal& r : selection.refused) {
    if ((own && r.reason.starts_with(kOtherAlgorithm)) || !said.insert(r.reason).second) continue;
    reasons += fmt::format("{}{}: {}", reasons.empty() ? "" : "; ", r.row->name, r.reason);
  }
  if (reasons.empty())
    reasons =
        wanted.empty() ? "there is none for this op" : fmt::format("none is named '{}'", wanted);
  throw usage_error("no {} kernel promises {} here ({}); 'etalon kernels {}' lists each refusal",
                    problem.op->name, short_name(*problem.contract), reasons, problem.op->name);
}

}  // namespace etalon
