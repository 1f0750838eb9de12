// Bodies of if, loop and scan, run with pairs of a midpoint and its bound. run_control knows
// nothing of pairs: it is given every carried and scanned value twice, first as it is, then as its
// bound, so that slices of a bound are cut and stacked as those of its value are.
#include <algorithm>

#include "bench/compare/carried.h"
#include "engine/core/threads.h"
#include "engine/graph/control_flow.h"
#include "engine/ops/control.h"

namespace etalon {
namespace {

// What a body needs for a statement is not certain, or not known.
struct NoStatement {};

// How the values of a control node and of its bodies lie: `head` that are not carried (a count, a
// condition), then carried ones, then scanned ones.
struct Places {
  explicit Places(const Node& node) {
    const bool loop = node.op->name == "loop", scan = node.op->name == "scan";
    head = loop ? 2 : scan ? 0 : 1;
    const std::size_t slices =
        scan ? static_cast<std::size_t>(node.params.as<ScanParams>().scan_inputs) : 0;
    if (node.inputs.size() < head + slices) throw NoStatement();
    loops = node.inputs.size() - head - slices;
    tested = loop;
  }
  std::size_t head = 0, loops = 0;
  bool tested = false;  // a body's first output is a condition
};

// The first `count` of both lists from place `at` on.
void append_pairs(std::vector<Tensor>& to, const std::vector<Tensor>& values,
                  const std::vector<Tensor>& errors, std::size_t at, std::size_t count) {
  for (const auto* list : {&values, &errors})
    for (std::size_t i = at; i < at + count; ++i) to.push_back((*list)[i].share());
}

std::vector<Tensor> in_pairs(const std::vector<Tensor>& values, const std::vector<Tensor>& errors,
                             std::size_t head, std::size_t loops) {
  std::vector<Tensor> all;
  for (std::size_t i = 0; i < head; ++i) all.push_back(values[i] ? values[i].share() : Tensor());
  append_pairs(all, values, errors, head, loops);
  append_pairs(all, values, errors, head + loops, values.size() - head - loops);
  return all;
}

// The inverse: pairs from `head` on, `loops` carried ones first.
void out_of_pairs(std::vector<Tensor> all, std::size_t head, std::size_t loops,
                  std::vector<Tensor>& values, std::vector<Tensor>& errors) {
  const std::size_t slices = (all.size() - head) / 2 - loops;
  const auto take = [&](std::size_t at, std::size_t count, std::vector<Tensor>& to) {
    for (std::size_t i = at; i < at + count; ++i) to.push_back(std::move(all[i]));
  };
  take(0, head, values);
  for (std::size_t i = 0; i < head; ++i) errors.emplace_back();
  take(head, loops, values);
  take(head + loops, loops, errors);
  take(head + 2 * loops, slices, values);
  take(head + 2 * loops + slices, slices, errors);
}

bool is_certain(const Tensor& error) {
  return !error || std::ranges::all_of(error.data<float>(), [](float e) { return e == 0; });
}

// A list of ScanParams for `first` values, given for their bounds once more.
Ints twice(const Ints& list, std::size_t first) {
  Ints all(2 * first, 0);
  for (std::size_t i = 0; i < std::min(first, list.size()); ++i) all[i] = all[first + i] = list[i];
  return all;
}

// The node as run_control is to see it: declarations in pairs, no nodes.
Node paired(const Node& node, const Places& places) {
  Node twin;
  twin.name = node.name;
  twin.op = node.op;
  twin.params = node.params;
  const std::size_t head = places.tested ? 1 : 0;
  for (const auto& graph : node.subgraphs) {
    const std::vector<Declaration>& from = graph->outputs;
    if (from.size() < head + places.loops) throw NoStatement();
    const auto twin_graph = std::make_shared<Graph>();
    std::vector<Declaration>& to = twin_graph->outputs;
    const auto add = [&](std::size_t begin, std::size_t end) {
      for (const bool error : {false, true})
        for (std::size_t i = begin; i < end; ++i) {
          to.push_back(from[i]);
          if (error) to.back().dtype = DType::f32;
        }
    };
    to.insert(to.end(), from.begin(), from.begin() + static_cast<std::ptrdiff_t>(head));
    add(head, head + places.loops);
    add(head + places.loops, from.size());
    twin.subgraphs.push_back(twin_graph);
  }
  if (node.op->name == "scan") {
    auto p = node.params.as<ScanParams>();
    const auto in = static_cast<std::size_t>(p.scan_inputs);
    const std::size_t out = node.subgraphs.at(0)->outputs.size() - places.loops;
    p.scan_inputs *= 2;
    p.input_axes = twice(p.input_axes, in);
    p.input_directions = twice(p.input_directions, in);
    p.output_axes = twice(p.output_axes, out);
    p.output_directions = twice(p.output_directions, out);
    twin.params = Params(p);
  }
  return twin;
}

}  // namespace

std::vector<Tensor> CarriedValues::run_body(const Graph& body,
                                            const std::map<std::string, Value>& around,
                                            std::vector<Tensor> inputs, std::size_t loops,
                                            bool tested) const {
  check_interrupt();
  CarriedValues inner(body, *this);
  std::vector<Tensor> values, errors;
  out_of_pairs(std::move(inputs), tested ? 2 : 0, loops, values, errors);
  const auto place = [&](ValueId v, const Tensor& mid, const Tensor& error) {
    inner.values_[v] = {mid.share(), is_certain(error) ? Tensor() : error.share(), true};
  };
  for (const auto& [name, value] : around)
    if (const ValueId v = body.find_value(name); v != kAbsent) place(v, value.mid, value.error);
  for (std::size_t i = 0; i < body.inputs.size() && i < values.size(); ++i)
    place(body.inputs[i].value, values[i], errors[i]);
  const auto own = [&](ValueId v) -> const Tensor* {
    const auto at = body.initializers.find(v);
    return at == body.initializers.end() ? nullptr : &at->second;
  };
  for (const Node& node : body.nodes) inner.step(node, own);
  values.clear();
  errors.clear();
  for (const Declaration& d : body.outputs) {
    Value v = inner.value_of(d.value, own);
    if (!v.known) throw NoStatement();
    errors.push_back(v.error ? std::move(v.error) : Tensor::zeros(DType::f32, v.mid.shape()));
    values.push_back(std::move(v.mid));
  }
  if (tested && (errors.empty() || !is_certain(errors[0]))) throw NoStatement();
  return in_pairs(values, errors, tested ? 1 : 0, loops);
}

void CarriedValues::control(const Node& node, const Theirs& theirs) {
  try {
    const Places places(node);
    std::vector<Tensor> values, errors;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      Value in = node.inputs[i] == kAbsent ? Value{} : value_of(node.inputs[i], theirs);
      if (node.inputs[i] != kAbsent ? !in.known : i >= places.head) return;
      if (i < places.head && !is_certain(in.error)) return;
      errors.push_back(in.error || !in.known ? std::move(in.error)
                                             : Tensor::zeros(DType::f32, in.mid.shape()));
      values.push_back(std::move(in.mid));
    }
    std::map<std::string, Value> around;
    for (const auto& body : node.subgraphs)
      for (const std::string& name : captured_names(*body)) {
        const ValueId v = graph_.find_value(name);
        Value value = v == kAbsent ? Value{} : value_of(v, theirs);
        if (!value.known) return;
        around.emplace(name, std::move(value));
      }
    const std::vector<Tensor> all = in_pairs(values, errors, places.head, places.loops);
    std::vector<const Tensor*> inputs;
    for (const Tensor& t : all) inputs.push_back(t ? &t : nullptr);
    std::vector<Tensor> out = run_control(
        paired(node, places), inputs, [&](std::size_t which, std::vector<Tensor> given) {
          return run_body(*node.subgraphs[which], around, std::move(given), places.loops,
                          places.tested);
        });
    values.clear();
    errors.clear();
    out_of_pairs(std::move(out), 0, places.loops, values, errors);
    for (std::size_t o = 0; o < node.outputs.size() && o < values.size(); ++o)
      if (node.outputs[o] != kAbsent)
        values_[node.outputs[o]] = {std::move(values[o]),
                                    is_certain(errors[o]) ? Tensor() : std::move(errors[o]), true};
  } catch (const NoStatement&) {
    // The values stay unknown: what depends on them is undecided.
  } catch (const Error& e) {
    if (e.kind() == ErrorKind::interrupted) throw;
  }
}

}  // namespace etalon
