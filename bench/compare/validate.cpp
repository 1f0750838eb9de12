#include "bench/compare/validate.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "bench/compare/judgement_json.h"
#include "bench/compare/target_validation.h"
#include "kernels/kernels.h"

namespace etalon {

using nlohmann::json;

namespace {

json shape_json(const Shape& shape) {
  return std::vector<std::int64_t>(shape.dims().begin(), shape.dims().end());
}

json graph_json(const Graph& graph) {
  const auto values = [&](const std::vector<ValueId>& ids) {
    json list = json::array();
    for (const ValueId v : ids)
      if (v != kAbsent && !graph.initializers.contains(v)) list.push_back(graph.value_name(v));
    return list;
  };
  json inputs = json::array(), outputs = json::array(), nodes = json::array();
  for (const Declaration& d : graph.inputs)
    inputs.push_back(
        {{"name", graph.value_name(d.value)}, {"dtype", name(d.dtype)}, {"dims", d.dims}});
  for (const Declaration& d : graph.outputs) outputs.push_back(graph.value_name(d.value));
  for (const Node& n : graph.nodes)
    nodes.push_back({{"name", n.name},
                     {"op", n.op->name},
                     {"params", to_string(n.params)},
                     {"inputs", values(n.inputs)},
                     {"outputs", values(n.outputs)}});
  return {{"inputs", inputs}, {"outputs", outputs}, {"nodes", nodes}};
}

}  // namespace

json validate(const Model& model, const TensorMap& inputs, const ValidateOptions& options) {
  const Graph& graph = *model.graph;
  NamedTensors in;
  json shapes = json::object();
  std::int64_t samples = 0;
  for (const auto& [n, tensor] : inputs) {
    in.emplace(n, tensor.share());
    shapes[n] = shape_json(tensor.shape());
    if (tensor.shape().rank() > 0) samples = tensor.shape()[0];
  }
  const RunOptions base{
      .contract = options.contract, .isa = options.isa, .threads = options.threads};
  RunOptions keep = base;
  keep.keep_values = true;
  const Trace reference = Executor(model.graph, all_kernels(), keep).run(in);
  Executor executor(model.graph, all_kernels(), base);
  std::vector<double> seconds;
  for (int i = 0; i <= options.timing_runs; ++i) {
    const double begin = now_s();
    executor.run(in);
    if (i > 0) seconds.push_back(now_s() - begin);
  }

  json record = {
      {"model",
       {{"path", model.path},
        {"format", model.format},
        {"producer", model.producer},
        {"version", model.version},
        {"notes", model.notes}}},
      {"input", {{"source", options.input_source}, {"samples", samples}, {"shapes", shapes}}},
      {"reference",
       {{"contract", short_name(options.contract)},
        {"truth", "the exact value of each operation on its own inputs"},
        {"threads", options.threads}}},
      {"graph", graph_json(graph)}};
  if (!seconds.empty()) record["reference"]["time"] = times_json(seconds, options.threads);
  json targets = json::array();
  std::vector<TensorMap> finals(options.targets.size());
  bool holds = true;
  for (std::size_t i = 0; i < options.targets.size(); ++i) {
    json t = TargetValidation(model, inputs, options, reference, executor)
                 .run(options.targets[i], finals[i]);
    if (t.contains("verdict") &&
        !(parse_verdict(t["verdict"].get<std::string>()) < options.fail_on))
      holds = false;
    targets.push_back(std::move(t));
  }
  record["targets"] = targets;
  json pairs = json::array();
  for (std::size_t a = 0; a < finals.size(); ++a)
    for (std::size_t b = a + 1; b < finals.size(); ++b)
      for (const auto& [value, x] : finals[a]) {
        const auto at = finals[b].find(value);
        if (at == finals[b].end() || !(at->second.type() == x.type())) continue;
        const ErrorStats s = error_stats(at->second, x, Tensor());
        pairs.push_back({{"a", options.targets[a]},
                         {"b", options.targets[b]},
                         {"name", value},
                         {"bits_equal", static_cast<double>(bits_equal(x, at->second)) /
                                            std::max<double>(1, static_cast<double>(x.numel()))},
                         {"max_ulp", number_json(s.max_ulp)},
                         {"mean_ulp", number_json(s.mean_ulp)}});
      }
  if (!pairs.empty()) record["pairs"] = pairs;
  record["holds"] = holds;
  return record;
}

}  // namespace etalon
