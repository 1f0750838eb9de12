// nngraph's nn.gModule: a graph of nodes, each with a module or none, that read one another.
//
// A node's table `data` has `mapindex`, the data of the nodes it reads, in order; `module`, and
// without one its inputs pass through; `selectindex`, which of a split value it is. `outnode` gives
// the network's values; a node that reads none is the input, which several nodes select from where
// the network takes several. Source: nngraph's gmodule.lua and node.lua.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "engine/graph/graph.h"
#include "importers/containers/t7.h"
#include "importers/formats/torch7/nested.h"

namespace etalon::torch7 {

class GModule {
 public:
  using Values = std::vector<ValueId>;
  // A module on its inputs; `number` names its node.
  using Apply = std::function<Values(const T7Object& module, const Values& in, int number)>;
  // Input `index` of several, from 0: `reader` is the first module with weights behind it, or
  // nullptr, and then `like` is a value that it is added to.
  using Input = std::function<ValueId(std::size_t index, const T7Object* reader, ValueId like)>;

  GModule(const T7Object& module, Apply apply, Tables& tables);
  // One that is a table counts as its values.
  std::size_t input_count() const;
  Values run(const Values& in);
  Values run(const Input& input);

 private:
  Values outputs();
  const Values& values_of(const T7Object& data, int depth);
  ValueId find_input(const T7Object& data, std::size_t index, int depth);

  const T7Object& module_;
  Apply apply_;
  Tables& tables_;
  double split_ = 1;  // values that the input is split into
  Values given_;
  const Input* input_ = nullptr;
  std::map<const T7Object*, Values> made_;
  std::set<const T7Object*> open_;
  std::map<const T7Object*, std::vector<const T7Object*>> readers_;
};

}  // namespace etalon::torch7
