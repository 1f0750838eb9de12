// How frameworks lay out the weights of a layer, so that weights without a graph can be given to
// one: kernels of a correlation or, flipped, of a convolution; (out, in, spatial) or (spatial, in,
// out); matrices (out, in) or (in, out); rows behind a flatten in (c, h, w) or (h, w, c); batch
// norms by their variance or its inverse root.
//
// A file seldom says it: a row below is chosen by the format or producer where those do, else by
// the user. Moving elements keeps their bits.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "engine/graph/graph.h"

namespace etalon {

struct WeightLayout {
  std::string_view name;       // "lasagne"
  std::string_view formats;    // formats that are always its own, with blanks between them
  bool flipped = false;        // kernels are those of a true convolution
  bool kernels_last = false;   // (spatial, in, out); depthwise (spatial, in, multiplier)
  bool inner_first = false;    // (in, out)
  bool channels_last = false;  // a flatten counts channels fastest
  // Batch norms stand as beta, gamma, mean and 1 / sqrt(variance + epsilon).
  bool inverse_deviation = false;
};

std::span<const WeightLayout> weight_layouts();
// By name; a usage Error lists the names.
const WeightLayout& find_weight_layout(std::string_view name);
// What the file is known to have; nullptr where it does not say. A format with a graph has
// translated its weights already: nullptr too.
const WeightLayout* weight_layout_of(const Model& model);

// What a weight is to the node that reads it.
struct WeightRole {
  enum class Kind { plain, kernel, transposed_kernel, inner, recurrent, variance };
  Kind kind = Kind::plain;
  double eps = 0;            // of variance: what its batch norm adds
  bool inner_first = false;  // of inner: the node wants (in, out)
  std::int64_t groups = 1;
  Shape flattened;  // of inner: what the flatten before it has, without the batch; else rank 0
};
WeightRole role_of(const Graph& graph, ValueId weight);

struct LaidOut {
  Tensor tensor;
  std::string change;  // "", "flipped", "transposed", ...
};
// `tensor` of that layout as the node wants it; absent where it has not the type for it. A
// bad-input Error for weights whose translation no row knows.
std::optional<LaidOut> lay_out(const Tensor& tensor, const WeightLayout& layout,
                               const WeightRole& role, const TensorType& wanted);

}  // namespace etalon
