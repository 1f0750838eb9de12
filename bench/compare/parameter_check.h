// A framework's parameters as it holds them, against the model's.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "bench/runners/runner.h"
#include "engine/graph/graph.h"

namespace etalon {

struct ParameterCheck {
  nlohmann::json record;
  std::map<std::string, std::string> cause;  // by parameter
};

// Equal by hash, or named: which parameter, which element, which bit. Parameters that the framework
// did not give are left out.
ParameterCheck check_parameters(const Graph& graph, const TensorMap& theirs);

}  // namespace etalon
