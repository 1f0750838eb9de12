// A judgement as a field of a record (docs/records.md).
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "bench/compare/verdict.h"

namespace etalon {

// `got` is the judged tensor; absent: the fields that need it are left out.
nlohmann::json judgement_json(const Judgement& j, const std::string& value, const Tensor& got);

// A number as JSON: one that is not finite becomes a text.
nlohmann::json number_json(double x);

}  // namespace etalon
