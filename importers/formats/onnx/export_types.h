// What can be told of values' types before a run: for the declarations of a file, and for forms
// that hang on ranks.
#pragma once

#include <map>

#include "engine/graph/graph.h"

namespace etalon::onnx_format {

// The types of all values that follow from what is declared; an extent that is free is `free`, or
// where that is 0 leaves what follows from it unknown; elsewhere what hangs on elements is taken as
// if these were `free` too. `types` holds those of values that the graph takes from around it.
std::map<ValueId, TensorType> known_types(const Graph& graph, std::map<ValueId, TensorType> types,
                                          bool inside, std::int64_t free);

}  // namespace etalon::onnx_format
