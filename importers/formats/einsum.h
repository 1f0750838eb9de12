// Einsum of two operands as one product of matrices.
//
// Letters that both operands and the result have go along, those of both alone are summed, those of
// one and the result are its rows or columns; "..." are letters of its own. No letter stands twice
// in a term, none of one operand is summed alone: nullopt of those.
#pragma once

#include <optional>
#include <string_view>

#include "engine/graph/builder.h"

namespace etalon {

std::optional<ValueId> einsum_of_two(GraphBuilder& graph, const std::string& name,
                                     std::string_view equation, ValueId x, ValueId y);

}  // namespace etalon
