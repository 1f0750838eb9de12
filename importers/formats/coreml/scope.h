// The values of a function or block of an ML program, and the operations that make them.
#pragma once

#include <optional>
#include <set>

#include "importers/formats/control.h"
#include "importers/formats/coreml/program_values.h"

namespace etalon::coreml {

class Scope {
 public:
  Scope(GraphBuilder& graph, Constants& constants) : g(graph), constants_(constants) {}
  GraphBuilder& g;

  void define(const std::string& name, Value v);
  // A state: what stands in it is an input, and what was written last an output.
  void define_state(const std::string& name, ValueId first);
  Value& look(const std::string& name);
  ValueId tensor(const std::string& name);
  void run(const PbMessage& block);
  const std::map<std::string, ValueId>& states() const { return states_; }

 private:
  void operation(const PbMessage& m);
  Arguments arguments(const PbMessage& m);
  // Where it is one of control flow, lists, states or classifiers.
  std::optional<std::vector<Value>> special(const PbMessage& m, Operation& op);
  std::vector<Value> branch(const PbMessage& m, Operation& op);
  std::vector<Value> loop(const PbMessage& m, Operation& op);
  // What blocks read of the values here.
  struct Captured {
    std::vector<std::string> names;  // of `values`
    std::vector<ValueId> values;
    std::vector<std::pair<std::string, Value>> constants;
  };
  Captured capture(const std::vector<PbMessage>& blocks);
  // The outputs of a block in another graph, its inputs first among the values.
  std::vector<ValueId> inside(GraphBuilder& graph, const PbMessage& block, const Captured& read,
                              const std::vector<ValueId>& values) const;

  Constants& constants_;
  std::map<std::string, Value> values_;
  std::map<std::string, ValueId> states_;  // what was written last
};

}  // namespace etalon::coreml
