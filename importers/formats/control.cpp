#include "importers/formats/control.h"

#include <algorithm>

#include "engine/core/error.h"
#include "engine/core/memory_budget.h"
#include "importers/formats/scalar.h"

namespace etalon {
namespace {

// A condition as the loop takes it: one truth value, of rank 0.
ValueId truth(GraphBuilder& g, const std::string& name, ValueId v) {
  if (g.known(v) && g.dtype(v) != DType::boolean)
    v = g.op("cast", name + "/condition", {v}, {{"to", std::string("bool")}});
  return g.reshape(name + "/goes_on", v, {});
}

// The graph with a prefix before every name: no name of a body stands for a value around it.
Graph prefixed(const Graph& from, const std::string& prefix) {
  Graph to;
  to.name = from.name;
  for (const std::string& name : from.value_names) {
    MemoryBudget::charge(2 * (prefix.size() + name.size()));
    to.add_value(prefix + name);
  }
  to.inputs = from.inputs;
  to.outputs = from.outputs;
  for (const Node& n : from.nodes) {
    to.nodes.push_back({prefix + n.name, n.op, n.params, n.inputs, n.outputs, {}});
    for (const auto& body : n.subgraphs)
      to.nodes.back().subgraphs.push_back(std::make_shared<Graph>(prefixed(*body, prefix)));
  }
  for (const auto& [v, tensor] : from.initializers) to.initializers.emplace(v, tensor.share());
  to.finish();
  return to;
}

// The body of a loop: its arguments, of which constants stand in it and others come from outside.
struct Inner {
  Inner(GraphBuilder& outer, const std::string& name) : around(outer), g(name) {}
  // What a loop that runs as long as a condition holds hands in first.
  void add_condition() {
    g.input("iteration", DType::i64, {});
    g.input("goes_on", DType::boolean, {});
  }
  ValueId argument(ValueId v, bool fixed) {
    const std::string name = fmt::format("value{}", values.size());
    if (const Tensor* c = fixed ? around.constant_of(v) : nullptr; c != nullptr) {
      values.push_back(g.constant(name, c->share()));
    } else {
      values.push_back(g.input(name, around.sizes(v)));
      carried.push_back(v);
    }
    return values.back();
  }
  std::vector<Graph> finish(std::string_view name) {
    for (std::string& note : g.take_notes()) around.note(std::move(note));
    std::vector<Graph> bodies;
    bodies.push_back(prefixed(g.finish(), std::string(name) + "/body/"));
    return bodies;
  }
  // The loop; its outputs are those of the graph around it.
  std::vector<ValueId> close(std::string_view name, ValueId first,
                             const std::vector<GraphBuilder::Sizes>& types) {
    std::vector<ValueId> in{kAbsent, first};
    in.insert(in.end(), carried.begin(), carried.end());
    return around.control("loop", std::string(name), in, finish(name), types);
  }

  GraphBuilder& around;
  GraphBuilder g;
  std::vector<ValueId> values, carried;
};

// A type without one of its axes, or with another one.
GraphBuilder::Sizes without_axis(const GraphBuilder::Sizes& from, int axis) {
  const auto less = [&](const std::optional<TensorType>& t) -> std::optional<TensorType> {
    if (!t) return {};
    if (t->shape.rank() <= axis) throw bad_input("a sequence of rank {}", t->shape.rank());
    Ints dims(t->shape.dims().begin(), t->shape.dims().end());
    dims.erase(dims.begin() + axis);
    return TensorType{t->dtype, Shape(dims)};
  };
  return {less(from.one), less(from.other)};
}
GraphBuilder::Sizes with_axis(const GraphBuilder::Sizes& from, int axis,
                              const GraphBuilder::Sizes& like) {
  const auto more = [&](const std::optional<TensorType>& t,
                        const std::optional<TensorType>& steps) -> std::optional<TensorType> {
    if (!t || !steps || t->shape.rank() < axis) return {};
    Ints dims(t->shape.dims().begin(), t->shape.dims().end());
    dims.insert(dims.begin() + axis, steps->shape[axis]);
    return TensorType{t->dtype, Shape(dims)};
  };
  return {more(from.one, like.one), more(from.other, like.other)};
}

}  // namespace

std::vector<ValueId> write_while(GraphBuilder& graph, const std::string& name,
                                 const std::vector<ValueId>& values, const std::vector<bool>& fixed,
                                 const BodyWriter& condition, const BodyWriter& body) {
  const auto goes_on = [&](GraphBuilder& g, const std::vector<ValueId>& v) {
    const std::vector<ValueId> one = condition(g, v);
    if (one.size() != 1) throw bad_input("a loop with {} conditions", one.size());
    return truth(g, name, one[0]);
  };
  const ValueId first = goes_on(graph, values);
  Inner inner(graph, name);
  inner.add_condition();
  for (std::size_t i = 0; i < values.size(); ++i) inner.argument(values[i], fixed[i]);
  std::vector<ValueId> next = body(inner.g, inner.values);
  if (next.size() != values.size())
    throw bad_input("a loop over {} values gives {}", values.size(), next.size());
  for (std::size_t i = 0; i < next.size(); ++i)
    if (fixed[i]) next[i] = inner.values[i];
  inner.g.output(goes_on(inner.g, next));
  std::vector<GraphBuilder::Sizes> types;
  std::vector<std::size_t> made;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (fixed[i] && graph.constant_of(values[i]) != nullptr) continue;
    const GraphBuilder::Sizes before = graph.sizes(values[i]), after = inner.g.sizes(next[i]);
    if (after.one && before.one && *after.one != *before.one)
      throw bad_input("a loop whose value {} is {} before an iteration and {} behind it", i,
                      to_string(*before.one), to_string(*after.one));
    inner.g.output(next[i]);
    types.push_back(before);
    made.push_back(i);
  }
  const std::vector<ValueId> out = inner.close(name, first, types);
  std::vector<ValueId> result = values;
  for (std::size_t i = 0; i < out.size(); ++i)
    if (!fixed[made[i]]) result[made[i]] = out[i];
  graph.note("a loop on data runs as long as its condition holds");
  return result;
}

std::vector<ValueId> write_if(GraphBuilder& graph, const std::string& name, ValueId condition,
                              const std::vector<ValueId>& arguments, const BodyWriter& yes,
                              const BodyWriter& no) {
  const ValueId holds = truth(graph, name, condition);
  const ValueId fails = graph.op("not", name + "/otherwise", {holds});
  std::vector<ValueId> result;
  std::vector<GraphBuilder::Sizes> types;
  std::vector<DType> kinds;
  for (const bool first : {true, false}) {
    Inner inner(graph, name);
    inner.add_condition();
    for (const ValueId v : arguments) inner.argument(v, true);
    const std::vector<ValueId> out = (first ? yes : no)(inner.g, inner.values);
    if (!first && out.size() != result.size())
      throw bad_input("branches of {} and {} results", result.size(), out.size());
    inner.g.output(inner.g.constant("once", scalar_of(DType::boolean, 0)));
    const std::size_t kept = inner.carried.size();
    std::vector<GraphBuilder::Sizes> all;
    for (const ValueId v : inner.carried) all.push_back(graph.sizes(v));
    for (std::size_t i = 0, k = 0; i < inner.values.size(); ++i)
      if (inner.g.constant_of(inner.values[i]) == nullptr && k++ < kept)
        inner.g.output(inner.values[i]);
    for (std::size_t i = 0; i < out.size(); ++i) {
      const GraphBuilder::Sizes type = inner.g.sizes(out[i]);
      // Where it is not run, a branch leaves what is there: of the first one a scalar of that kind.
      if (first) {
        types.push_back(type);
        kinds.push_back(type.one ? type.one->dtype : DType::f32);
        result.push_back(graph.constant(name + "/nothing", scalar_of(kinds[i], 0)));
      } else {
        const std::optional<TensorType>&here = type.one, &there = types[i].one;
        if (here && there && here->dtype != there->dtype)
          throw bad_input("branches whose results {} are {} and {}", i, to_string(*there),
                          to_string(*here));
        if (type != types[i]) types[i] = {};
      }
      inner.g.input(fmt::format("result{}", i), kinds[i], {});
      inner.carried.push_back(result[i]);
      inner.g.output(out[i]);
      all.push_back(first ? GraphBuilder::Sizes{} : types[i]);
    }
    const std::vector<ValueId> made =
        inner.close(name + (first ? "/then" : "/else"), first ? holds : fails, all);
    result.assign(made.begin() + static_cast<std::ptrdiff_t>(kept), made.end());
  }
  graph.note("a branch on data: only the one that its condition names is run");
  return result;
}

ScanOutputs write_scan(GraphBuilder& graph, const std::string& name, const ScanInputs& in,
                       const BodyWriter& body) {
  if (in.sequences.empty()) throw bad_input("a loop over no sequence");
  Inner inner(graph, name);
  for (const ValueId v : in.carried) inner.argument(v, false);
  std::vector<ValueId> read;
  for (const ValueId v : in.read) {
    inner.argument(v, true);
    read.push_back(inner.values.back());
  }
  const std::size_t handed = inner.carried.size() - in.carried.size();
  std::vector<ValueId> given(inner.values.begin(),
                             inner.values.begin() + static_cast<std::ptrdiff_t>(in.carried.size()));
  for (const ValueId v : in.sequences) {
    const auto type = without_axis(graph.sizes(v), in.axis);
    given.push_back(inner.g.input(fmt::format("step{}", given.size()), type));
    inner.carried.push_back(v);
  }
  given.insert(given.end(), read.begin(), read.end());
  std::vector<ValueId> out = body(inner.g, given);
  // What is handed through gets a node: ONNX Runtime's Scan mixes steps up where there is none.
  const auto through = [&](ValueId v) {
    return std::ranges::find(given, v) == given.end()
               ? v
               : inner.g.op("identity", inner.g.name_of(v) + ".kept", {v});
  };
  std::ranges::transform(out, out.begin(), through);
  if (out.size() < in.carried.size())
    throw bad_input("a loop over {} values gives {}", in.carried.size(), out.size());
  std::vector<GraphBuilder::Sizes> types;
  for (std::size_t i = 0; i < in.carried.size(); ++i) {
    types.push_back(graph.sizes(in.carried[i]));
    if (inner.g.sizes(out[i]) != types[i])
      throw bad_input("a loop whose value {} changes its type from step to step", i);
    inner.g.output(out[i]);
  }
  for (const ValueId v : read) {
    if (inner.g.constant_of(v) != nullptr) continue;
    inner.g.output(through(v));
    types.push_back(inner.g.sizes(v));
  }
  for (std::size_t i = in.carried.size(); i < out.size(); ++i) {
    inner.g.output(out[i]);
    types.push_back(with_axis(inner.g.sizes(out[i]), in.axis, graph.sizes(in.sequences[0])));
  }
  const std::size_t stacked = out.size() - in.carried.size();
  const auto turned = static_cast<std::int64_t>(in.backwards);
  const std::vector<ValueId> made =
      graph.control("scan", name, inner.carried, inner.finish(name), types,
                    {{"scan_inputs", static_cast<std::int64_t>(in.sequences.size())},
                     {"input_axes", Ints(in.sequences.size(), in.axis)},
                     {"input_directions", Ints(in.sequences.size(), turned)},
                     {"output_axes", Ints(stacked, in.axis)},
                     {"output_directions", Ints(stacked, turned)}});
  const auto at = made.begin();
  return {{at, at + static_cast<std::ptrdiff_t>(in.carried.size())},
          {at + static_cast<std::ptrdiff_t>(in.carried.size() + handed), made.end()}};
}

}  // namespace etalon
