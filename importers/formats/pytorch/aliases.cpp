#include "importers/formats/pytorch/aliases.h"

#include <algorithm>

namespace etalon::pytorch_format {
namespace {

// What gives a view of its operand, or may.
bool gives_view(std::string_view op) {
  constexpr std::string_view kViews[] = {"view",
                                         "_unsafe_view",
                                         "reshape",
                                         "flatten",
                                         "transpose",
                                         "t",
                                         "permute",
                                         "select",
                                         "slice",
                                         "narrow",
                                         "chunk",
                                         "unsafe_chunk",
                                         "split",
                                         "unsafe_split",
                                         "unbind",
                                         "expand",
                                         "expand_as",
                                         "view_as",
                                         "reshape_as",
                                         "unsqueeze",
                                         "squeeze",
                                         "unflatten",
                                         "movedim",
                                         "swapaxes",
                                         "swapdims",
                                         "numpy_T",
                                         "detach",
                                         "alias",
                                         "contiguous",
                                         "to",
                                         "type_as",
                                         "positive",
                                         "lift_fresh",
                                         "unfold",
                                         "resolve_conj",
                                         "resolve_neg",
                                         "split_with_sizes",
                                         "dropout",
                                         "feature_dropout",
                                         "alpha_dropout",
                                         "feature_alpha_dropout"};
  return std::ranges::find(kViews, op) != std::end(kViews);
}

// What gives the operand itself wherever our translation does.
bool gives_itself(std::string_view op) {
  return gives_view(op) && op != "contiguous" && op != "to" && op != "type_as" && op != "reshape" &&
         op != "reshape_as" && op != "flatten";
}

}  // namespace

ValueId Aliases::now(ValueId v) const {
  for (;;) {
    if (stale_.contains(v)) throw AtenUnknown{"a value that was changed through a view of it"};
    const auto at = changed_.find(v);
    if (at == changed_.end()) return v;
    v = at->second;
  }
}

void Aliases::resolve(AtenCall& call) const {
  for (auto& [name, v] : call.args) {
    if (v.kind == AtenValue::Kind::tensor && v.tensor != kAbsent) v.tensor = now(v.tensor);
    for (AtenValue& i : v.items)
      if (i.kind == AtenValue::Kind::tensor && i.tensor != kAbsent) i.tensor = now(i.tensor);
  }
}

void Aliases::called(const std::string& op, const AtenCall& call,
                     const std::vector<ValueId>& made) {
  ValueId x = kAbsent;
  for (const char* name : {"self", "input"})
    if (const auto at = call.args.find(name);
        at != call.args.end() && at->second.kind == AtenValue::Kind::tensor)
      x = at->second.tensor;
  if (x == kAbsent || made.empty()) return;
  const bool in_place = op.size() > 1 && op.ends_with('_') && !op.ends_with("__");
  if (!in_place) {
    for (const ValueId v : made) {
      if (v == x && !gives_itself(op)) copied_.insert(x);
      if (v == x || v == kAbsent || !gives_view(op)) continue;
      std::set<ValueId> all = views_[x];
      all.insert(x);
      for (const ValueId other : all) {
        views_[other].insert(v);
        views_[v].insert(other);
      }
    }
    return;
  }
  if (made[0] == x) return;  // nothing was changed: dropout_ at inference
  if (copied_.contains(x)) throw AtenUnknown{op + " of a value that was copied"};
  for (const ValueId other : views_[x]) stale_.insert(other);
  changed_[x] = made[0];
}

}  // namespace etalon::pytorch_format
