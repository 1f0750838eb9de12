// Ops in words: tensor types and parameters as a person types them on the command line or in a
// shape file.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/core/tensor.h"
#include "engine/ops/op.h"
#include "engine/ops/params.h"

namespace etalon {

// "f32[1,20,24,24]"; "[1,20]" and "1,20" mean f32. usage Error otherwise.
TensorType parse_tensor_type(std::string_view text);

// The op's defaults with fields changed: {"strides=[2,2]", "groups=4", "auto_pad=valid"}. A list
// may be written without brackets ("strides=2,2") or with x ("strides=2x2"). A usage Error names
// the field, or lists the op's fields.
Params parse_params(const OpRow& op, const std::vector<std::string>& assignments);

}  // namespace etalon
