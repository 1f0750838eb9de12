// Graphs that a node owns (if, loop, scan), each run by an executor of its own.
#include <algorithm>
#include <iterator>

#include "engine/graph/executor_state.h"

namespace etalon {

std::vector<Tensor> Executor::State::run_body(std::size_t i, std::size_t which,
                                              std::vector<Tensor> inputs,
                                              const std::vector<Tensor>& values,
                                              std::int64_t live_bytes) {
  const Node& node = graph->nodes[i];
  const Graph& inner = *node.subgraphs[which];
  Body& body = bodies[i][which];
  if (inputs.size() != inner.inputs.size())
    throw bad_input("its body takes {} inputs, {} are given", inner.inputs.size(), inputs.size());
  for (const std::string& name : body.captured) {
    const ValueId v = graph->find_value(name);
    if (v == kAbsent || !values[static_cast<std::size_t>(v)])
      throw bad_input("its body reads the value '{}', which nothing around it makes", name);
    inputs.push_back(values[static_cast<std::size_t>(v)].share());
  }
  std::vector<DType> dtypes;
  for (const Tensor& t : inputs) dtypes.push_back(t.dtype());
  if (body.executor == nullptr || dtypes != body.dtypes) {
    // The types of the tensors count, not those the file declares for them.
    auto own = std::make_shared<Graph>();
    own->name = inner.name;
    for (const std::string& name : inner.value_names) own->add_value(name);
    own->inputs = inner.inputs;
    own->outputs = inner.outputs;
    own->nodes = inner.nodes;
    for (const auto& [v, t] : inner.initializers) own->initializers.emplace(v, t.share());
    for (const std::string& name : body.captured) {
      const ValueId v = own->find_value(name);
      own->inputs.emplace_back().value = v == kAbsent ? own->add_value(name) : v;
    }
    for (std::size_t k = 0; k < own->inputs.size(); ++k) {
      own->inputs[k].dtype = dtypes[k];
      own->inputs[k].ranked = false;
    }
    RunOptions inside = options;
    inside.progress = nullptr;
    inside.keep_values = false;
    body.executor = std::make_unique<Executor>(std::move(own), registry, inside);
    body.dtypes = dtypes;
  }
  State& state = *body.executor->state_;
  state.around_bytes = live_bytes;
  NamedTensors named;
  for (std::size_t k = 0; k < inputs.size(); ++k)
    named.emplace(state.graph->value_name(state.graph->inputs[k].value), std::move(inputs[k]));
  Trace trace = body.executor->run(named);
  if (body.records.empty()) {
    body.records = std::move(trace.nodes);
    for (NodeRecord& r : body.records) r.name = node.name + "/" + r.name;
  } else {
    for (std::size_t k = 0; k < trace.nodes.size() && k < body.records.size(); ++k)
      body.records[k].seconds += trace.nodes[k].seconds;
  }
  std::vector<Tensor> out;
  for (auto& [name, tensor] : trace.outputs) out.push_back(std::move(tensor));
  return out;
}

std::vector<NodeRecord> Executor::State::take_records(std::size_t i) {
  std::vector<NodeRecord> all;
  for (Body& body : bodies[i]) {
    std::move(body.records.begin(), body.records.end(), std::back_inserter(all));
    body.records.clear();
  }
  return all;
}

}  // namespace etalon
