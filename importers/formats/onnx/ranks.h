// The rank of what an op gives where extents are not known: files whose batch or length is open
// tell no shapes, and some operators mean another thing for another rank.
#pragma once

#include <functional>
#include <optional>

#include "engine/graph/graph.h"

namespace etalon::onnx_format {

struct KnownRanks {
  std::function<std::optional<int>(std::size_t)> rank;             // of input i
  std::function<std::optional<std::int64_t>(std::size_t)> length;  // of input i, a list
  // The last extent of input i; empty where none is known to the caller.
  std::function<std::optional<std::int64_t>(std::size_t)> last;
};

// Of all outputs alike; nullopt where this is not told.
std::optional<int> rank_of_result(const Node& node, const KnownRanks& known);

}  // namespace etalon::onnx_format
