// Elements that hang on extents alone: what Shape gives, and what arithmetic of shapes makes of it.
//
// Exporters that keep the batch free write `reshape(x, concat(shape(x)[:3], [n]))`, a dozen nodes
// of it. While a graph is built (builder.h) such elements are known at either size of the free
// extents, and with them the types behind.
#pragma once

#include <optional>
#include <span>

#include "engine/ops/op.h"

namespace etalon {

// The elements of a node's output of type `out`, where it is a vector or a number of integers and
// its inputs' values are given (of shape and size their types alone); nothing otherwise.
std::optional<Tensor> known_value(const OpRow& op, const Params& params,
                                  std::span<const InferInput> inputs, const TensorType& out);

}  // namespace etalon
