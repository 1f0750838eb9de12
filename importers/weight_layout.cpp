#include "importers/weight_layout.h"

#include <cstring>
#include <numeric>

#include "engine/core/error.h"
#include "engine/ops/conv.h"
#include "engine/ops/conv_transpose.h"
#include "engine/ops/gemm.h"
#include "engine/ops/layout.h"
#include "engine/ops/normalization.h"

namespace etalon {
namespace {

// Sources: what each framework's own layers do; docs/formats/weights.md lists a fixture for each.
constexpr WeightLayout kLayouts[] = {
    {.name = "pytorch", .formats = "pytorch"},
    {.name = "chainer"},
    {.name = "caffe", .formats = "caffe"},
    {.name = "mxnet", .formats = "mxnet-params"},
    {.name = "torch7", .formats = "torch7"},
    {.name = "theano", .formats = "theano theano-zip", .flipped = true, .inner_first = true},
    {.name = "lasagne", .flipped = true, .inner_first = true, .inverse_deviation = true},
    // Layers with flip_filters=False, as those of its recipes that come of Caffe.
    {.name = "lasagne-unflipped", .inner_first = true, .inverse_deviation = true},
    {.name = "tensorflow",
     .formats = "tensorflow-checkpoint",
     .kernels_last = true,
     .inner_first = true,
     .channels_last = true},
    {.name = "keras",
     .formats = "keras",
     .kernels_last = true,
     .inner_first = true,
     .channels_last = true},
    {.name = "flax",
     .formats = "flax",
     .kernels_last = true,
     .inner_first = true,
     .channels_last = true},
};

// Element i of the result is element index[i] of the source.
template <class Index>
Tensor moved(const Tensor& from, const Shape& shape, Index&& index) {
  Tensor out = Tensor::uninitialized(from.dtype(), shape);
  const std::size_t bytes =
      from.numel() == 0 ? 0 : from.size_bytes() / static_cast<std::size_t>(from.numel());
  std::byte* to = out.mutable_bytes().data();
  const std::byte* source = from.bytes().data();
  for (std::int64_t i = 0; i < shape.numel(); ++i, to += bytes)
    std::memcpy(to, source + static_cast<std::size_t>(index(i)) * bytes, bytes);
  return out;
}

Tensor permuted(const Tensor& from, const Ints& perm) {
  Ints dims, steps(perm.size(), 1), step;
  const auto& shape = from.shape();
  for (int a = shape.rank() - 2; a >= 0; --a)
    steps[static_cast<std::size_t>(a)] = steps[static_cast<std::size_t>(a) + 1] * shape[a + 1];
  for (const std::int64_t p : perm) {
    dims.push_back(shape[static_cast<int>(p)]);
    step.push_back(steps[static_cast<std::size_t>(p)]);
  }
  return moved(from, Shape(dims), [&](std::int64_t i) {
    std::int64_t at = 0;
    for (std::size_t a = dims.size(); a-- > 0; i /= dims[a]) at += i % dims[a] * step[a];
    return at;
  });
}

// Every spatial axis turned round: the kernel of a convolution as that of a correlation.
Tensor turned(const Tensor& from) {
  const Shape& shape = from.shape();
  const std::int64_t taps = shape.numel() / std::max<std::int64_t>(1, shape[0] * shape[1]);
  return moved(from, shape, [&](std::int64_t i) { return i - i % taps + taps - 1 - i % taps; });
}

// Of a matrix (in, out): rows from (spatial, c) to (c, spatial).
Tensor rows_channels_first(const Tensor& from, const Shape& flattened) {
  const std::int64_t channels = flattened[0], area = flattened.numel() / channels,
                     columns = from.shape()[1];
  return moved(from, from.shape(), [&](std::int64_t i) {
    const std::int64_t row = i / columns, c = row / area, place = row % area;
    return (place * channels + c) * columns + i % columns;
  });
}

Shape flattened_extents(const Graph& graph, ValueId flat) {
  // Types up to the flatten, a free extent as 1.
  std::map<ValueId, TensorType> types;
  for (const auto& [v, t] : graph.initializers) types[v] = t.type();
  for (const Declaration& d : graph.inputs) {
    if (!d.ranked) continue;
    Ints dims = d.dims;
    for (std::int64_t& extent : dims) extent = extent < 0 ? 1 : extent;
    types[d.value] = {d.dtype, Shape(dims)};
  }
  for (const Node& n : graph.nodes) {
    if (!n.outputs.empty() && n.outputs[0] == flat) {
      const bool flattens = n.op->name == "flatten" || n.op->name == "reshape";
      const auto at = types.find(n.inputs.at(0));
      if (!flattens || at == types.end() || at->second.shape.rank() < 3) return {};
      const auto dims = at->second.shape.dims();
      return Shape(Ints(dims.begin() + 1, dims.end()));
    }
    std::vector<InferInput> in;
    bool all = true;
    for (const ValueId v : n.inputs) {
      InferInput i;
      i.given = v != kAbsent;
      const auto at = types.find(v);
      all = all && (!i.given || at != types.end());
      if (at != types.end()) i.type = at->second;
      if (const auto c = graph.initializers.find(v); c != graph.initializers.end())
        i.value = &c->second;
      in.push_back(i);
    }
    if (!all) continue;
    try {
      const auto out = infer(*n.op, n.params, InferInputs(in));
      for (std::size_t i = 0; i < n.outputs.size() && i < out.size(); ++i)
        if (n.outputs[i] != kAbsent) types[n.outputs[i]] = out[i];
    } catch (const NotConstant&) {
      continue;
    }
  }
  return {};
}

}  // namespace

std::span<const WeightLayout> weight_layouts() { return kLayouts; }

const WeightLayout& find_weight_layout(std::string_view name) {
  std::string known;
  for (const WeightLayout& l : kLayouts) {
    if (l.name == name) return l;
    known.append(known.empty() ? "" : ", ").append(l.name);
  }
  throw usage_error("--weights-of {}: no such framework; use one of {}", name, known);
}

const WeightLayout* weight_layout_of(const Model& model) {
  if (!model.graph->nodes.empty()) return nullptr;
  // Keras on Theano flips, and may count channels either way: the user says which.
  if (model.producer.find(" on theano") != std::string::npos) return nullptr;
  const std::string_view producer =
      std::string_view(model.producer).substr(0, model.producer.find(' '));
  for (const WeightLayout& l : kLayouts)
    for (std::string_view rest = l.formats; !rest.empty();) {
      const std::size_t end = std::min(rest.find(' '), rest.size());
      const std::string_view word = rest.substr(0, end);
      if (word == model.format || word == producer) return &l;
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
  // Chainer's serializers write paths of links, and a parameter is W or b there and nowhere else.
  bool slashes = !model.graph->initializers.empty();
  for (const auto& [id, tensor] : model.graph->initializers) {
    const std::string& name = model.graph->value_name(id);
    slashes = slashes && (name.ends_with("/W") || name.ends_with("/b"));
  }
  return slashes && (model.format == "npz" || model.format == "hdf5")
             ? &find_weight_layout("chainer")
             : nullptr;
}

WeightRole role_of(const Graph& graph, ValueId weight) {
  for (const Node& n : graph.nodes) {
    for (std::size_t i = 0; i < n.inputs.size(); ++i) {
      if (n.inputs[i] != weight) continue;
      const std::string_view op = n.op->name;
      WeightRole role;
      if (op == "lstm" || op == "gru" || op == "rnn") role.kind = WeightRole::Kind::recurrent;
      if (op == "batch_norm" && i == 4) {
        role.kind = WeightRole::Kind::variance;
        role.eps = static_cast<double>(n.params.as<BatchNormParams>().eps);
      }
      if (i != 1) return role;
      if (op == "conv") {
        role.kind = WeightRole::Kind::kernel;
        role.groups = n.params.as<ConvParams>().groups;
      } else if (op == "conv_transpose") {
        role.kind = WeightRole::Kind::transposed_kernel;
        role.groups = n.params.as<ConvTransposeParams>().groups;
      } else if (op == "gemm" || op == "matmul") {
        role.kind = WeightRole::Kind::inner;
        role.inner_first = op == "matmul" || !n.params.as<GemmParams>().trans_b;
        role.flattened = flattened_extents(graph, n.inputs[0]);
      }
      return role;
    }
  }
  return {};
}

std::optional<LaidOut> lay_out(const Tensor& tensor, const WeightLayout& layout,
                               const WeightRole& role, const TensorType& wanted) {
  using Kind = WeightRole::Kind;
  if (tensor.dtype() != wanted.dtype || tensor.numel() != wanted.shape.numel()) return std::nullopt;
  LaidOut out{tensor.share(), ""};
  const auto changed = [&](Tensor t, std::string_view how) {
    out.tensor = std::move(t);
    out.change.append(out.change.empty() ? "" : ", ").append(how);
  };
  const int rank = tensor.shape().rank();
  if (role.kind == Kind::variance && layout.inverse_deviation && tensor.dtype() == DType::f32) {
    Tensor variance = tensor.clone();
    for (float& v : variance.mutable_data<float>()) {
      const auto root = static_cast<double>(v);
      v = static_cast<float>(1 / (root * root) - role.eps);
    }
    changed(std::move(variance), "1/v^2 - eps");
  }
  const bool kernel = role.kind == Kind::kernel || role.kind == Kind::transposed_kernel;
  if (kernel && rank == 2 && wanted.shape.rank() > 2 && !layout.kernels_last &&
      tensor.shape()[0] == wanted.shape[0] && tensor.numel() == wanted.shape.numel())
    changed(tensor.reshaped(wanted.shape), "rows as kernels");
  else if (kernel && rank != wanted.shape.rank())
    return std::nullopt;
  if (kernel && layout.kernels_last) {
    // (spatial, in, out); a transposed convolution's is (spatial, out, in), ours (in, out,
    // spatial).
    Ints perm{rank - 1, rank - 2};
    for (int a = 0; a + 2 < rank; ++a) perm.push_back(a);
    Tensor turned_first = permuted(tensor, perm);
    if (turned_first.shape() != wanted.shape && role.groups > 1) {
      std::swap(perm[0], perm[1]);  // depthwise: (spatial, in, multiplier)
      turned_first = permuted(tensor, perm);
      if (turned_first.numel() == wanted.shape.numel() && turned_first.shape()[0] == role.groups)
        turned_first = turned_first.reshaped(wanted.shape);
    }
    changed(std::move(turned_first), "(spatial, in, out) to (out, in, spatial)");
  }
  if (kernel && layout.flipped && out.tensor.shape() == wanted.shape && wanted.shape.rank() > 2) {
    if (role.kind == Kind::transposed_kernel)
      throw bad_input(
          "the kernel of a transposed convolution by {}: its flip depends on the layer; "
          "save the network in a format that holds its graph",
          layout.name);
    changed(turned(out.tensor), "flipped");
  }
  if (role.kind == Kind::inner && rank == 2) {
    const bool hwc = layout.channels_last && role.flattened.rank() > 1 &&
                     tensor.shape()[layout.inner_first ? 0 : 1] == role.flattened.numel();
    if (hwc && layout.inner_first)
      changed(rows_channels_first(out.tensor, role.flattened), "rows (h, w, c) to (c, h, w)");
    if (layout.inner_first != role.inner_first) changed(permuted(out.tensor, {1, 0}), "transposed");
  }
  if (out.tensor.type() != wanted) return std::nullopt;
  if (role.kind == Kind::recurrent && rank > 1)
    throw bad_input(
        "a recurrent layer's weights by {}: gate orders differ between frameworks; save "
        "the network in a format that holds its graph",
        layout.name);
  return out;
}

}  // namespace etalon
