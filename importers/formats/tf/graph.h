// A GraphDef as ops: calls inlined, variables given their values, from the outputs backwards.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "importers/formats/tf/ops.h"
#include "importers/formats/tf/schema.h"

namespace etalon::tf {

struct Port {
  std::string name;        // what the graph's input or output is called
  std::string tensor;      // "node:1"
  std::int64_t dtype = 0;  // as a signature declares it; 0: as the node does
  PbMessage shape;
};

struct GraphSource {
  PbMessage graph;  // GraphDef
  // The value of a variable by its name, and of a Const that keeps its bytes elsewhere (TF.js);
  // an absent tensor where there is none.
  std::function<Tensor(const std::string&)> variable, constant;
  std::vector<Port> inputs, outputs;  // empty: Placeholders, and nodes that nobody reads
  std::size_t fill_budget = 0;
};

void translate_graph(GraphBuilder& graph, GraphSource source);
OpNode op_node(const PbMessage& node);  // a NodeDef without its inputs

}  // namespace etalon::tf
