// Parameters by name: what a translator writes when it makes a node of some op.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "engine/ops/op.h"

namespace etalon {

using FieldValue = std::variant<std::int64_t, float, bool, std::string, Ints, std::vector<float>,
                                std::vector<std::string>>;
using Fields = std::vector<std::pair<std::string_view, FieldValue>>;

// The op's parameters with these fields set; a field the op does not have is an internal Error.
Params make_params(const OpRow& op, const Fields& fields);

}  // namespace etalon
