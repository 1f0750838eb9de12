#include "engine/backend/registry.h"

#include "engine/core/error.h"

namespace etalon {
namespace {

bool matches(std::string_view name, std::string_view wanted) {
  return name.starts_with(wanted) && (name.size() == wanted.size() || name[wanted.size()] == '.');
}

Refusal common_refusal(const KernelRow& row, const Problem& problem) {
  if (row.device != problem.device)
    return row.device == Device::cuda ? "runs on a CUDA device" : "runs on the CPU";
  if (row.isa > problem.isa)
    return fmt::format("needs {}; this machine or --isa allows {}", name(row.isa),
                       name(problem.isa));
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
  for (const KernelRow* row : rows_) {
    if (row->op != problem.op->name) continue;
    if (wanted.empty() ? row->promise == Promise::vendor : !matches(row->name, wanted)) continue;
    if (Refusal reason = common_refusal(*row, problem)) {
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
  std::string reasons;
  for (const KernelRefusal& r : selection.refused)
    reasons += fmt::format("{}{}: {}", reasons.empty() ? "" : "; ", r.row->name, r.reason);
  if (reasons.empty())
    reasons =
        wanted.empty() ? "there is none for this op" : fmt::format("none is named '{}'", wanted);
  throw usage_error("no {} kernel promises {} here ({}); 'etalon kernels {}' lists each refusal",
                    problem.op->name, short_name(*problem.contract), reasons, problem.op->name);
}

}  // namespace etalon
