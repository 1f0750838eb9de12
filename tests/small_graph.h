// Graphs written node by node, values by name: declared() and node() make those that are new.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/graph/graph.h"

namespace etalon::test {

inline Declaration declared(Graph& g, const char* name, DType dtype = DType::f32) {
  Declaration d;
  const ValueId known = g.find_value(name);
  d.value = known == kAbsent ? g.add_value(name) : known;
  d.dtype = dtype;
  d.ranked = false;
  return d;
}

inline void node(Graph& g, const char* op, const std::vector<const char*>& in,
                 const std::vector<const char*>& out, Params params = {},
                 std::vector<std::shared_ptr<const Graph>> graphs = {}) {
  const auto ids = [&](const std::vector<const char*>& names) {
    std::vector<ValueId> list;
    for (const char* n : names) {
      const ValueId known = g.find_value(n);
      list.push_back(*n == '\0' ? kAbsent : known == kAbsent ? g.add_value(n) : known);
    }
    return list;
  };
  const OpRow& row = get_op(op);
  const bool plain = to_string(params).empty();
  g.nodes.push_back({std::string(op) + "_" + out[0], &row, plain ? row.defaults() : params, ids(in),
                     ids(out), std::move(graphs)});
}

}  // namespace etalon::test
