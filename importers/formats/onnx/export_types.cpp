#include "importers/formats/onnx/export_types.h"

#include <algorithm>
#include <optional>

#include "engine/core/error.h"
#include "engine/numerics/element.h"
#include "engine/ops/control.h"
#include "engine/ops/layout.h"
#include "importers/formats/onnx/ranks.h"

namespace etalon::onnx_format {
namespace {

// Outputs of a node whose extents hang on elements that a run gives: as if these were all `free`,
// for their element types and ranks. Empty where that does not do.
std::vector<TensorType> as_if_free(const Node& n, std::vector<InferInput> in, std::int64_t free) {
  constexpr std::int64_t kMostProbed = 1 << 16;
  const std::int64_t rank = n.op->name == "slice"                      ? in[0].type.shape.rank()
                            : n.op->name == "reshape" && in.size() > 1 ? in[1].type.shape.numel()
                                                                       : kMaxRank + 1;
  if (rank <= kMaxRank)
    return {{in[0].type.dtype, Shape(Ints(static_cast<std::size_t>(rank), free))}};
  std::vector<Tensor> held(in.size());
  for (std::size_t i = 0; i < in.size(); ++i) {
    if (!in[i].given || in[i].value != nullptr || in[i].type.shape.numel() > kMostProbed) continue;
    held[i] = Tensor::uninitialized(in[i].type.dtype, in[i].type.shape);
    for (std::int64_t k = 0; k < held[i].numel(); ++k)
      store_from_double(held[i].dtype(), held[i].mutable_bytes().data(), k,
                        static_cast<double>(free));
    in[i].value = &held[i];
  }
  try {
    return infer(*n.op, n.params, InferInputs(in));
  } catch (const Error&) {
    return {};
  }
}

Shape with_axis(const Shape& shape, std::int64_t axis, std::int64_t extent) {
  Ints dims(shape.dims().begin(), shape.dims().end());
  const std::int64_t at = axis < 0 ? axis + shape.rank() + 1 : axis;
  if (at < 0 || at > shape.rank()) throw bad_input("axis {} of {}", axis, to_string(shape));
  dims.insert(dims.begin() + static_cast<std::ptrdiff_t>(at), extent);
  return Shape(dims);
}

// Outputs of a node that runs a body, as far as the body's own types tell: carried values keep
// theirs, scanned ones get an axis more. `around`: types of the graph that the node stands in.
std::vector<std::optional<TensorType>> of_body(const Graph& graph, const Node& n,
                                               const std::map<ValueId, TensorType>& around,
                                               std::int64_t free) {
  if (n.subgraphs.empty() || (n.op->name != "scan" && n.op->name != "loop")) return {};
  const Graph& body = *n.subgraphs[0];
  const auto type_of = [&](std::size_t i) -> std::optional<TensorType> {
    const auto at = around.find(n.inputs.at(i));
    return at == around.end() ? std::nullopt : std::optional(at->second);
  };
  std::map<ValueId, TensorType> types;
  for (const auto& [v, type] : around)
    if (const ValueId inner = body.find_value(graph.value_name(v)); inner != kAbsent)
      types.emplace(inner, type);
  const bool scans = n.op->name == "scan";
  const std::size_t before = scans ? 0 : 2;  // count and condition
  const ScanParams scan = scans ? n.params.as<ScanParams>() : ScanParams{};
  const auto sliced = static_cast<std::size_t>(scan.scan_inputs);
  const std::size_t carried = n.inputs.size() - before - std::min(sliced, n.inputs.size());
  std::int64_t steps = free;
  if (!scans && body.inputs.size() > 1) {
    types[body.inputs[0].value] = {DType::i64, {}};
    types[body.inputs[1].value] = {DType::boolean, {}};
  }
  for (std::size_t i = before; i < n.inputs.size() && i < body.inputs.size(); ++i) {
    std::optional<TensorType> type = type_of(i);
    if (!type) continue;
    if (const std::size_t k = i - before; k >= carried) {
      const std::int64_t axis =
          k - carried < scan.input_axes.size() ? scan.input_axes[k - carried] : 0;
      const std::int64_t at = axis < 0 ? axis + type->shape.rank() : axis;
      if (at < 0 || at >= type->shape.rank()) continue;
      Ints dims(type->shape.dims().begin(), type->shape.dims().end());
      steps = dims[static_cast<std::size_t>(at)];
      dims.erase(dims.begin() + static_cast<std::ptrdiff_t>(at));
      type->shape = Shape(dims);
    }
    types[body.inputs[i].value] = *type;
  }
  types = known_types(body, std::move(types), true, free);
  std::vector<std::optional<TensorType>> out;
  for (std::size_t i = 0; i < n.outputs.size(); ++i) {
    const std::size_t inner = i + (scans ? 0 : 1);  // a loop's body gives its condition first
    const auto at =
        inner < body.outputs.size() ? types.find(body.outputs[inner].value) : types.end();
    if (at == types.end()) {
      out.emplace_back();
    } else if (i < carried) {
      out.emplace_back(at->second);
    } else {
      const std::int64_t axis =
          i - carried < scan.output_axes.size() ? scan.output_axes[i - carried] : 0;
      out.emplace_back(TensorType{at->second.dtype, with_axis(at->second.shape, axis, steps)});
    }
  }
  return out;
}

// Outputs of a node some of whose inputs are not known, or do not fit each other at a trial size:
// by their rank alone (ranks.h).
std::vector<TensorType> of_rank(const Node& n, const std::map<ValueId, TensorType>& types,
                                std::int64_t free) {
  const auto type = [&](std::size_t i) -> const TensorType* {
    const auto at = i < n.inputs.size() ? types.find(n.inputs[i]) : types.end();
    return at == types.end() ? nullptr : &at->second;
  };
  const std::optional<int> rank = rank_of_result(
      n, {.rank = [&](std::size_t i) -> std::optional<int> {
            return type(i) == nullptr ? std::nullopt : std::optional(type(i)->shape.rank());
          },
          .length = [&](std::size_t i) -> std::optional<std::int64_t> {
            if (type(i) == nullptr || type(i)->shape.rank() != 1) return std::nullopt;
            return type(i)->shape[0];
          },
          .last = [&](std::size_t i) -> std::optional<std::int64_t> {
            if (type(i) == nullptr || type(i)->shape.rank() < 1) return std::nullopt;
            return type(i)->shape.dim(-1);
          }});
  if (!rank || n.outputs.size() != 1) return {};
  Ints extents(static_cast<std::size_t>(*rank), free);
  if (n.op->name == "unsqueeze")
    for (const std::int64_t axis : n.params.as<AxesParams>().axes)
      extents.at(static_cast<std::size_t>(normalize_axis(axis, *rank))) = 1;
  const Shape shape(extents);
  constexpr std::string_view kTruths[] = {"equal", "less", "less_or_equal", "greater",
                                          "greater_or_equal"};
  if (std::ranges::find(kTruths, n.op->name) != std::end(kTruths)) return {{DType::boolean, shape}};
  // Whose results have another type than their first input, by a parameter.
  constexpr std::string_view kOtherType[] = {"cast", "quantize_linear", "dequantize_linear"};
  const TensorType* carried = type(n.op->name == "where" ? 1 : 0);
  if (carried == nullptr || std::ranges::find(kOtherType, n.op->name) != std::end(kOtherType))
    return {};
  return {{carried->dtype, shape}};
}

}  // namespace

std::map<ValueId, TensorType> known_types(const Graph& graph, std::map<ValueId, TensorType> types,
                                          bool inside, std::int64_t free) {
  for (const auto& [v, t] : graph.initializers) types[v] = t.type();
  for (const Declaration& d : graph.inputs) {
    Ints dims = d.dims;
    if (free > 0) std::ranges::replace(dims, std::int64_t{-1}, free);
    if (d.ranked && std::ranges::find(dims, -1) == dims.end())
      types[d.value] = {d.dtype, Shape(dims)};
  }
  for (const Node& n : graph.nodes) {
    std::vector<InferInput> in;
    bool all = true;
    for (const ValueId v : n.inputs) {
      InferInput i;
      i.given = v != kAbsent;
      if (i.given) {
        const auto at = types.find(v);
        const auto constant = graph.initializers.find(v);
        all = all && at != types.end();
        if (at != types.end()) i.type = at->second;
        if (constant != graph.initializers.end()) i.value = &constant->second;
      }
      in.push_back(i);
    }
    const auto put = [&](const std::vector<TensorType>& out) {
      for (std::size_t i = 0; i < n.outputs.size() && i < out.size(); ++i)
        if (n.outputs[i] != kAbsent) types[n.outputs[i]] = out[i];
    };
    if (!all) {
      if (free > 0) put(of_rank(n, types, free));
      continue;
    }
    const ErrorScope scope(fmt::format("node {}", n.name));
    try {
      std::vector<TensorType> out;
      try {
        out = infer(*n.op, n.params, InferInputs(in));
      } catch (const NotConstant&) {
        if (free == 0) throw;
        const auto told = of_body(graph, n, types, free);
        for (std::size_t i = 0; i < n.outputs.size() && i < told.size(); ++i)
          if (n.outputs[i] != kAbsent && told[i]) types[n.outputs[i]] = *told[i];
        if (!told.empty()) continue;
        out = as_if_free(n, in, free);
      }
      put(out);
    } catch (const NotConstant&) {
      continue;  // the file then carries no shape for it either
    } catch (const Error&) {
      if (!inside) throw;  // a branch that never runs may not fit the shapes around it
      if (free > 0) put(of_rank(n, types, free));
    }
  }
  return types;
}

}  // namespace etalon::onnx_format
