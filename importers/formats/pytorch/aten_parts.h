// The families of ATen's calls beside those of aten.cpp, and what they share.
//   aten_shapes.cpp   views, cuts, joins, indices, tensors made of numbers
//   aten_math.cpp     elementwise functions, comparisons, reductions, types
//   aten_layers.cpp   products, norms, attention, pools, resizing
#pragma once

#include <array>
#include <optional>

#include "importers/formats/pytorch/aten.h"

namespace etalon::pytorch_format {

struct AtenSignature {
  std::string_view op;
  std::array<std::string_view, 14> arguments;
};
using AtenOutputs = std::optional<std::vector<ValueId>>;  // nullopt: not of the family

std::span<const AtenSignature> shape_signatures();
std::span<const AtenSignature> math_signatures();
std::span<const AtenSignature> layer_signatures();
AtenOutputs translate_shapes(GraphBuilder& b, const std::string& op, const std::string& name,
                             const AtenCall& c);
AtenOutputs translate_math(GraphBuilder& b, const std::string& op, const std::string& name,
                           const AtenCall& c);
AtenOutputs translate_layers(GraphBuilder& b, const std::string& op, const std::string& name,
                             const AtenCall& c);

// The first tensor of a call, which is `self` or `input`; AtenUnknown where there is none.
ValueId first_tensor(const AtenCall& c, const std::string& op);
// `axis` counted from the front; `more` axes beyond the rank are allowed.
std::int64_t aten_axis(GraphBuilder& b, ValueId x, std::int64_t axis, int more = 0);
// The axes of `dim`, an integer or a list; all of them where it is not given.
Ints aten_axes(GraphBuilder& b, ValueId x, const AtenCall& c);
// A number as a constant of x's type; of f32 where it has a fraction and x is of integers.
ValueId aten_number(GraphBuilder& b, const std::string& name, ValueId x, const AtenValue& v);
// Two operands of one type, as PyTorch promotes them.
std::pair<ValueId, ValueId> promoted(GraphBuilder& b, const std::string& name, ValueId x,
                                     ValueId y);
ValueId aten_cast(GraphBuilder& b, const std::string& name, ValueId x, DType to);
// An element type by PyTorch's number; AtenUnknown where the engine has none.
DType aten_dtype(std::int64_t number);
// Extents of a list argument; -1 where one is free.
Ints free_extents(const AtenCall& c, std::string_view name);

}  // namespace etalon::pytorch_format
