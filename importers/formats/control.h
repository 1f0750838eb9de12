// Branches and loops on data, for translators whose bodies are made of calls: every body is a graph
// that reads nothing but its inputs.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "engine/graph/builder.h"

namespace etalon {

// Writes a body into a graph, which need not be the one around it: results from arguments.
using BodyWriter =
    std::function<std::vector<ValueId>(GraphBuilder& graph, const std::vector<ValueId>& arguments)>;

// while (condition(values)) values = body(values). Where `fixed`, the body gives the value back as
// it is: constants stay constants in it. A value must keep its type; one whose type is not known
// behind the body is taken to keep it.
std::vector<ValueId> write_while(GraphBuilder& graph, const std::string& name,
                                 const std::vector<ValueId>& values, const std::vector<bool>& fixed,
                                 const BodyWriter& condition, const BodyWriter& body);

// The results of one of the two: each is a loop of no iteration or one, so that only one is run.
std::vector<ValueId> write_if(GraphBuilder& graph, const std::string& name, ValueId condition,
                              const std::vector<ValueId>& arguments, const BodyWriter& yes,
                              const BodyWriter& no);

// A loop over the steps of sequences: what it carries, the sequences and the axis of their steps,
// and values that every step reads, of which constants stand in the body.
struct ScanInputs {
  std::vector<ValueId> carried, sequences, read;
  int axis = 0;
  bool backwards = false;  // from the last step
};
struct ScanOutputs {
  std::vector<ValueId> carried, stacked;  // behind the last step; of every step, along the axis
};
// Its body gets the carried values, a step of each sequence and what it reads; it gives the carried
// values, which keep their types, then what is stacked.
ScanOutputs write_scan(GraphBuilder& graph, const std::string& name, const ScanInputs& in,
                       const BodyWriter& body);

}  // namespace etalon
