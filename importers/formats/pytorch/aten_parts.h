// The families of ATen's calls, and what they share. A family is a table of signatures and one
// translation of all the ops in it; aten.cpp lists the families.
//   aten_views.cpp        views, cuts, joins, moves of elements
//   aten_indices.cpp      indices and windows written down as indices
//   aten_places.cpp       what is put in place: scatters, parts of a tensor written anew
//   aten_orders.cpp       sorting, counting, choosing; bags and distances
//   aten_creation.cpp     tensors made of numbers
//   aten_math.cpp         arithmetic, comparisons, logic, types
//   aten_activations.cpp  activation functions
//   aten_reductions.cpp   sums, extremes, moments, norms of vectors
//   aten_windows.cpp      convolutions, pools, resizing
//   aten_layers.cpp       products, normalisation, attention
//   aten_functions.cpp    functions that are several ops
//   aten_vectors.cpp      distances, products, images read at the points of a grid
//   aten_attention.cpp    attention with its projections, as fused calls have it
//   aten_recurrent.cpp    LSTM, GRU, RNN, and one step of each
#pragma once

#include <array>

#include "importers/formats/pytorch/aten.h"

namespace etalon::pytorch_format {

struct AtenSignature {
  std::string_view op;
  std::array<std::string_view, 14> arguments;
};
using AtenOutputs = std::vector<ValueId>;

struct AtenFamily {
  std::span<const AtenSignature> signatures;
  AtenOutputs (*translate)(GraphBuilder& b, const std::string& op, const std::string& name,
                           const AtenCall& c);
};
AtenFamily view_family();
AtenFamily index_family();
AtenFamily place_family();
AtenFamily order_family();
AtenFamily function_family();
AtenFamily vector_family();
AtenFamily attention_family();
// Those of _transformer_encoder_layer_fwd, more than a signature holds.
std::span<const std::string_view> encoder_layer_arguments();
AtenFamily creation_family();
AtenFamily math_family();
AtenFamily activation_family();
AtenFamily reduction_family();
AtenFamily window_family();
AtenFamily layer_family();
AtenFamily recurrent_family();

// translate_aten within a translation: what was read is looked at by the outer call.
AtenOutputs translate_inner(GraphBuilder& b, const std::string& op, const std::string& name,
                            const AtenCall& c);

// The first tensor of a call, which is `self` or `input`; AtenUnknown where there is none.
ValueId first_tensor(const AtenCall& c, const std::string& op);
// `axis` counted from the front; `more` axes beyond the rank are allowed.
std::int64_t aten_axis(GraphBuilder& b, ValueId x, std::int64_t axis, int more = 0);
// The axes of `dim`, an integer or a list; all of them where it is not given.
Ints aten_axes(GraphBuilder& b, ValueId x, const AtenCall& c);
// The extent of an axis; AtenUnknown where it is free.
std::int64_t extent_of(GraphBuilder& b, ValueId x, std::int64_t axis);
// A number as a constant of x's type; of f32 where it has a fraction and x is of integers.
ValueId aten_number(GraphBuilder& b, const std::string& name, ValueId x, const AtenValue& v);
// The second operand of a call: a tensor, or a number as a constant of x's kind.
ValueId aten_operand(GraphBuilder& b, const std::string& name, ValueId x, const AtenCall& c,
                     std::string_view key);
// Two operands of one type, as PyTorch promotes them; and an op of two.
std::pair<ValueId, ValueId> promoted(GraphBuilder& b, const std::string& name, ValueId x,
                                     ValueId y);
ValueId paired(GraphBuilder& b, std::string_view op, const std::string& name, ValueId x, ValueId y,
               const Fields& f = {});
ValueId aten_cast(GraphBuilder& b, const std::string& name, ValueId x, DType to);
// x under the type that the argument dtype names; x itself where it names none.
ValueId cast_as_told(GraphBuilder& b, const std::string& name, ValueId x, const AtenCall& c);
// An element type by PyTorch's number; AtenUnknown where the engine has none.
DType aten_dtype(std::int64_t number);
std::int64_t aten_number_of(DType dtype);
// Extents of a list argument; -1 where one is free.
Ints free_extents(const AtenCall& c, std::string_view name);
// Pads from the last axis backwards: (before, after) of each.
ValueId aten_pad(GraphBuilder& b, const std::string& name, ValueId x, const Ints& pads,
                 const std::string& mode, float value);

}  // namespace etalon::pytorch_format
