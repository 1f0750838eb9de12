// The fields of any op's parameters as a list, and copies with one field changed: what hypotheses
// about a misread attribute are made from, and what `judge --params name=value` sets.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "engine/ops/params.h"

namespace etalon {

using FieldValue = std::variant<std::int64_t, float, bool, std::string, Ints, std::vector<float>,
                                std::vector<std::string>>;

struct ParamField {
  std::string name;
  FieldValue value;
};

std::vector<ParamField> fields_of(const Params& params);
const ParamField* find_field(const std::vector<ParamField>& fields, std::string_view name);

// A usage Error names the field when there is none of this name, or when its kind is another.
Params with_field(const Params& params, std::string_view name, FieldValue value);

}  // namespace etalon
