// Einsum as products of matrices, one for two operands.
//
// Letters that both operands and the result have go along, those of both alone are summed, those of
// one and the result are its rows or columns; "..." are letters of its own. No letter stands twice
// in a term, none of one operand is summed alone: nullopt of those.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "engine/graph/builder.h"

namespace etalon {

std::optional<ValueId> einsum_of_two(GraphBuilder& graph, const std::string& name,
                                     std::string_view equation, ValueId x, ValueId y);

// Of any number of operands: of one, its axes are summed and turned; of more than two, from the
// left, each product keeping the letters that stand behind it. nullopt of what the above leaves
// out.
std::optional<ValueId> einsum_of(GraphBuilder& graph, const std::string& name,
                                 std::string_view equation, const std::vector<ValueId>& operands);

}  // namespace etalon
