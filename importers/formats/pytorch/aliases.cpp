#include "importers/formats/pytorch/aliases.h"

#include <algorithm>

#include "engine/core/error.h"
#include "importers/formats/pytorch/aten_parts.h"

namespace etalon::pytorch_format {
namespace {

constexpr int kMaxDepth = 64;    // views of views that a change reaches
constexpr int kMaxChain = 1024;  // and that are read alone
constexpr std::size_t kMaxMoves = 1 << 20;

template <std::size_t N>
bool among(const std::string_view (&names)[N], std::string_view op) {
  return std::ranges::find(names, op) != std::end(names);
}

// What gives a view of its operand.
bool gives_view(std::string_view op) {
  constexpr std::string_view kViews[] = {"view",
                                         "_unsafe_view",
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
                                         "unsqueeze",
                                         "squeeze",
                                         "unflatten",
                                         "movedim",
                                         "swapaxes",
                                         "swapdims",
                                         "numpy_T",
                                         "detach",
                                         "alias",
                                         "positive",
                                         "lift_fresh",
                                         "unfold",
                                         "diagonal",
                                         "resolve_conj",
                                         "resolve_neg",
                                         "split_with_sizes",
                                         "dropout",
                                         "dropout_",
                                         "feature_dropout",
                                         "alpha_dropout",
                                         "tensor_split",
                                         "feature_alpha_dropout"};
  return among(kViews, op);
}

// What gives a view or a copy, as the layout in memory has it, which is not known here.
bool may_give_view(std::string_view op) {
  constexpr std::string_view kEither[] = {"reshape",    "reshape_as", "flatten",
                                          "contiguous", "to",         "type_as"};
  return among(kEither, op);
}

bool can_put_back(std::string_view op) {
  constexpr std::string_view kNot[] = {"expand", "expand_as", "unfold", "diagonal"};
  return !may_give_view(op) && !among(kNot, op);
}

bool is_in_place(std::string_view op) {
  return op.size() > 1 && op.ends_with('_') && !op.ends_with("__");
}

}  // namespace

ValueId Aliases::now(ValueId v) {
  const ValueId named = v;
  for (auto at = changed_.find(v); at != changed_.end(); at = changed_.find(v)) v = at->second;
  // The next to ask finds it in one step: code may change a value thousands of times by one name.
  if (v != named) changed_[named] = v;
  if (lost_.contains(v))
    throw AtenUnknown{"a value that was changed through what may be a view of it"};
  if (!stale_.contains(v)) return v;
  View how = views_.at(v);
  if (may_give_view(how.op))
    throw AtenUnknown{"a value that was changed through what may be a view of it (" + how.op + ")"};
  how.base = now(how.base);
  // The base may have been cut anew itself, and this view been linked to it meanwhile.
  AtenCall call = *how.call;
  call.args["self"] = AtenValue::of(how.base);
  const AtenOutputs made = translate_inner(b_, how.op, b_.name_of(v), call);
  const ValueId fresh = made.at(how.output);
  stale_.erase(v);
  parts_[how.base].erase(v);
  views_.erase(v);
  if (fresh == v || fresh == how.base) throw AtenUnknown{"a view of all of a changed value"};
  change(v, fresh);
  move_parts(v, fresh);
  link(fresh, std::move(how));
  return fresh;
}

// What a change folds back into (a second t_) stands for itself again.
void Aliases::change(ValueId from, ValueId to) {
  changed_.erase(to);
  changed_[from] = to;
}

void Aliases::move_parts(ValueId from, ValueId to) {
  const auto at = parts_.find(from);
  if (at == parts_.end()) return;
  moves_ += at->second.size();
  if (moves_ > kMaxMoves) throw AtenUnknown{"changes of values with views, without end"};
  for (const ValueId part : at->second) views_.at(part).base = to;
  auto parts = std::move(at->second);
  parts_.erase(at);
  parts_[to].merge(parts);
}

void Aliases::resolve(AtenCall& call) {
  for (auto& [name, v] : call.args) {
    if (v.kind == AtenValue::Kind::tensor && v.tensor != kAbsent) v.tensor = now(v.tensor);
    for (AtenValue& i : v.items)
      if (i.kind == AtenValue::Kind::tensor && i.tensor != kAbsent) i.tensor = now(i.tensor);
  }
}

bool Aliases::comes_of(ValueId x, ValueId v) const {
  int depth = 0;
  for (auto at = views_.find(x); at != views_.end(); at = views_.find(at->second.base)) {
    if (at->second.base == v) return true;
    if (++depth > kMaxChain) throw AtenUnknown{"views of views, deeper than 1024"};
  }
  return false;
}

void Aliases::link(ValueId view, View how) {
  parts_[how.base].insert(view);
  views_.insert_or_assign(view, std::move(how));
}

void Aliases::mark_stale(ValueId x, int depth) {
  if (depth > kMaxDepth) throw AtenUnknown{"views of views, deeper than 64"};
  const auto at = parts_.find(x);
  if (at == parts_.end()) return;
  for (const ValueId part : at->second)
    if (stale_.insert(part).second) mark_stale(part, depth + 1);
}

void Aliases::replace(ValueId x, ValueId by) {
  for (int depth = 0; x != by; ++depth) {
    if (depth > kMaxDepth) throw AtenUnknown{"views of views, deeper than 64"};
    change(x, by);
    mark_stale(x, depth);
    move_parts(x, by);
    const auto at = views_.find(x);
    if (at == views_.end()) return;
    View how = std::move(at->second);
    views_.erase(at);
    const ValueId base = how.base;
    parts_[base].erase(x);
    if (copied_.contains(base)) throw AtenUnknown{"a change of a value that was copied"};
    if (!can_put_back(how.op)) return lose(base);
    const ValueId whole = put_back(how, by);
    how.base = whole;
    link(by, std::move(how));
    x = base;
    by = whole;
  }
}

// Nothing is known of x any more, nor of what it is a view of.
void Aliases::lose(ValueId x) {
  for (;;) {
    lost_.insert(x);
    mark_stale(x, 0);
    const auto at = views_.find(x);
    if (at == views_.end()) return;
    x = at->second.base;
  }
}

// What `view` was cut out of, with `part` in its place.
ValueId Aliases::put_back(const View& view, ValueId part) {
  const std::string& op = view.op;
  const std::string name = b_.name_of(part) + ".whole";
  const auto shaped = [&] {
    const Ints dims = b_.dims(view.base);
    if (std::ranges::any_of(dims, [](std::int64_t n) { return n < 1; }))
      return b_.op("reshape", name, {part, b_.op("shape", name + ".shape", {view.base})});
    return b_.reshape(name, part, dims);
  };
  AtenCall c = *view.call;
  constexpr std::string_view kShapes[] = {"view",      "_unsafe_view", "view_as",
                                          "unsqueeze", "squeeze",      "unflatten"};
  if (among(kShapes, op)) return shaped();
  constexpr std::string_view kSwaps[] = {"t", "transpose", "swapaxes", "swapdims", "numpy_T"};
  c.args["self"] = AtenValue::of(part);
  if (among(kSwaps, op)) return translate_inner(b_, op, name, c).at(0);
  if (op == "movedim") {
    std::swap(c.args["source"], c.args["destination"]);
    return translate_inner(b_, op, name, c).at(0);
  }
  if (op == "permute") {
    const Ints dims = c.ints("dims", {});
    Ints back(dims.size());
    for (std::size_t i = 0; i < dims.size(); ++i)
      back[static_cast<std::size_t>(aten_axis(b_, view.base, dims[i]))] =
          static_cast<std::int64_t>(i);
    return b_.transpose(name, part, back);
  }
  AtenCall put;
  put.args["self"] = AtenValue::of(view.base);
  put.args["src"] = AtenValue::of(part);
  const auto integer = [](std::int64_t v) { return AtenValue::of_integer(v); };
  put.args["dim"] = integer(c.integer("dim", 0));
  if (op == "select" || op == "unbind") {
    put.args["index"] =
        integer(op == "select" ? c.integer("index", 0) : static_cast<std::int64_t>(view.output));
    return translate_inner(b_, "select_scatter", name, put).at(0);
  }
  if (op == "slice") {
    for (const char* key : {"start", "end", "step"})
      if (const auto at = c.args.find(key); at != c.args.end()) put.args[key] = at->second;
    return translate_inner(b_, "slice_scatter", name, put).at(0);
  }
  if (op == "narrow" || op.find("split") != op.npos || op.find("chunk") != op.npos) {
    const std::int64_t begin = op == "narrow" ? c.integer("start", 0) : view.begin,
                       axis = aten_axis(b_, view.base, c.integer("dim", 0));
    put.args["start"] = integer(begin);
    put.args["end"] = integer(checked_add(begin, extent_of(b_, part, axis)));
    return translate_inner(b_, "slice_scatter", name, put).at(0);
  }
  throw AtenUnknown{"a change through " + op};
}

void Aliases::called(const std::string& op, const AtenCall& call,
                     const std::vector<ValueId>& made) {
  ValueId x = kAbsent;
  for (const char* name : {"self", "input"})
    if (const auto at = call.args.find(name);
        at != call.args.end() && at->second.kind == AtenValue::Kind::tensor)
      x = at->second.tensor;
  if (x == kAbsent || made.empty()) return;
  if (!is_in_place(op)) {
    const bool view = gives_view(op) || may_give_view(op);
    std::int64_t begin = 0;
    std::shared_ptr<AtenCall> cut;
    for (std::size_t i = 0; i < made.size(); ++i) {
      const ValueId v = made[i];
      if (v == x && !gives_view(op)) copied_.insert(x);
      if (v == x || v == kAbsent || !view || views_.contains(v) || comes_of(x, v)) continue;
      if (cut == nullptr) {
        cut = std::make_shared<AtenCall>(call);
        cut->args.erase("input");
        cut->args["self"] = AtenValue::of(x);
      }
      View how{.base = x, .op = op, .call = cut, .output = i, .begin = begin};
      if (made.size() > 1 && op != "unbind")
        begin += extent_of(b_, v, aten_axis(b_, v, call.integer("dim", 0)));
      link(v, std::move(how));
    }
    return;
  }
  if (made[0] == x) return;  // nothing was changed: dropout_ at inference
  if (copied_.contains(x)) throw AtenUnknown{op + " of a value that was copied"};
  if (gives_view(op.substr(0, op.size() - 1))) {
    // Its extents change, and those of nothing else.
    if (views_.contains(x) || !parts_[x].empty())
      throw AtenUnknown{op + " of a view, or of what has views"};
    change(x, made[0]);
    return;
  }
  const ValueId result = aten_cast(b_, b_.name_of(made[0]), made[0], b_.dtype(x));
  if (b_.dims(result) != b_.dims(x)) throw AtenUnknown{op + " that changes the extents"};
  replace(x, result);
}

}  // namespace etalon::pytorch_format
