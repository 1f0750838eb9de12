#include "importers/formats/check.h"

#include <vector>

#include "engine/core/error.h"
#include "engine/graph/control_flow.h"
#include "importers/containers/bytes.h"

namespace etalon {

void finish_graph(Graph& graph) {
  std::vector<bool> made(graph.value_names.size(), false);
  const auto make = [&](ValueId v) {
    if (v != kAbsent) made[static_cast<std::size_t>(v)] = true;
  };
  for (const auto& [v, tensor] : graph.initializers) make(v);
  for (const Declaration& d : graph.inputs) make(d.value);
  for (const Node& n : graph.nodes)
    for (const ValueId v : n.outputs) make(v);
  for (const Node& n : graph.nodes)
    for (const ValueId v : n.inputs)
      if (v != kAbsent && !made[static_cast<std::size_t>(v)])
        throw bad_input("node {} reads the value '{}', which nothing makes", printable(n.name),
                        printable(graph.value_name(v)));
  for (const Node& n : graph.nodes)
    for (const auto& inner : n.subgraphs)
      for (const std::string& name : captured_names(*inner)) {
        const ValueId v = graph.find_value(name);
        if (v == kAbsent || !made[static_cast<std::size_t>(v)])
          throw bad_input("a graph inside node {} reads the value '{}', which nothing makes",
                          printable(n.name), printable(name));
      }
  for (const Declaration& d : graph.outputs)
    if (d.value == kAbsent || !made[static_cast<std::size_t>(d.value)])
      throw bad_input("nothing makes the output '{}'", printable(graph.value_name(d.value)));
  graph.finish();
}

}  // namespace etalon
