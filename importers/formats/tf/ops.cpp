#include "importers/formats/tf/ops.h"

#include <algorithm>
#include <numeric>

#include "engine/core/error.h"
#include "importers/containers/bytes.h"
#include "importers/formats/translate.h"

namespace etalon::tf {
namespace {

template <class T>
const T* find(const OpNode& n, std::string_view a) {
  const auto at = n.attributes.find(a);
  return at == n.attributes.end() ? nullptr : std::get_if<T>(&at->second);
}

const std::map<std::string_view, std::string_view> kUnary{{"Relu", "relu"},
                                                          {"Elu", "elu"},
                                                          {"Selu", "selu"},
                                                          {"Sigmoid", "sigmoid"},
                                                          {"Tanh", "tanh"},
                                                          {"Softplus", "softplus"},
                                                          {"Softsign", "softsign"},
                                                          {"Exp", "exp"},
                                                          {"Log", "log"},
                                                          {"Sqrt", "sqrt"},
                                                          {"Rsqrt", "rsqrt"},
                                                          {"Neg", "neg"},
                                                          {"Abs", "abs"},
                                                          {"Floor", "floor"},
                                                          {"Ceil", "ceil"},
                                                          {"Round", "round"},
                                                          {"Rint", "round"},
                                                          {"Sin", "sin"},
                                                          {"Cos", "cos"},
                                                          {"Tan", "tan"},
                                                          {"Asin", "asin"},
                                                          {"Acos", "acos"},
                                                          {"Atan", "atan"},
                                                          {"Sinh", "sinh"},
                                                          {"Cosh", "cosh"},
                                                          {"Asinh", "asinh"},
                                                          {"Acosh", "acosh"},
                                                          {"Atanh", "atanh"},
                                                          {"Erf", "erf"},
                                                          {"Reciprocal", "reciprocal"},
                                                          {"Inv", "reciprocal"},
                                                          {"Sign", "sign"},
                                                          {"LogicalNot", "not"},
                                                          {"IsNan", "is_nan"},
                                                          {"IsInf", "is_inf"},
                                                          {"Identity", "identity"},
                                                          {"StopGradient", "identity"},
                                                          {"Snapshot", "identity"},
                                                          {"PreventGradient", "identity"},
                                                          {"CheckNumerics", "identity"},
                                                          {"PlaceholderWithDefault", "identity"},
                                                          {"ReadVariableOp", "identity"},
                                                          {"EnsureShape", "identity"}};

const std::map<std::string_view, std::string_view> kBinary{
    {"Add", "add"},         {"AddV2", "add"},
    {"Sub", "sub"},         {"Mul", "mul"},
    {"Div", "div"},         {"RealDiv", "div"},
    {"Maximum", "max"},     {"Minimum", "min"},
    {"Pow", "pow"},         {"BiasAdd", "add"},
    {"Less", "less"},       {"LessEqual", "less_or_equal"},
    {"Greater", "greater"}, {"GreaterEqual", "greater_or_equal"},
    {"Equal", "equal"},     {"LogicalAnd", "and"},
    {"LogicalOr", "or"},    {"FloorMod", "mod"}};

const std::map<std::string_view, std::string_view> kReduce{{"Mean", "reduce_mean"},
                                                           {"Sum", "reduce_sum"},
                                                           {"Max", "reduce_max"},
                                                           {"Min", "reduce_min"},
                                                           {"Prod", "reduce_prod"}};

}  // namespace

std::int64_t OpNode::integer(std::string_view a, std::int64_t otherwise) const {
  const auto* v = find<std::int64_t>(*this, a);
  return v == nullptr ? otherwise : *v;
}
float OpNode::number(std::string_view a, float otherwise) const {
  const auto* v = find<float>(*this, a);
  return v == nullptr ? otherwise : *v;
}
std::string OpNode::text(std::string_view a, std::string_view otherwise) const {
  const auto* v = find<std::string>(*this, a);
  return v == nullptr ? std::string(otherwise) : *v;
}
Ints OpNode::integers(std::string_view a) const {
  const auto* v = find<Ints>(*this, a);
  return v == nullptr ? Ints{} : *v;
}
std::vector<std::string> OpNode::texts(std::string_view a) const {
  const auto* v = find<std::vector<std::string>>(*this, a);
  return v == nullptr ? std::vector<std::string>{} : *v;
}
ValueId OpNode::in(std::size_t i) const {
  if (i >= inputs.size() || inputs[i] == kAbsent) throw bad_input("{} needs input {}", op, i);
  return inputs[i];
}

ValueId Ops::emit(std::string_view op, const Fields& fields) {
  return g.op(op, n_->name, n_->inputs, fields);
}

ValueId Ops::number(float value) { return g.constant(part("constant"), scalar_f32(value)); }

std::optional<Ints> Ops::elements(ValueId v) const {
  if (const auto at = partial_.find(v); at != partial_.end()) return at->second;
  const Tensor* c = g.constant_of(v);
  if (c == nullptr || (c->dtype() != DType::i32 && c->dtype() != DType::i64) || c->numel() > 64)
    return std::nullopt;
  return to_int64_values(*c);
}

Ints Ops::constant_ints(std::size_t i, std::string_view what) const {
  const auto known = elements(n_->in(i));
  if (!known)
    throw bad_input("its {} are computed while the network runs; they must be constant", what);
  return *known;
}

std::int64_t Ops::constant_int(std::size_t i, std::string_view what) const {
  const Ints all = constant_ints(i, what);
  if (all.size() != 1) throw bad_input("{} {} where one is wanted", all.size(), what);
  return all[0];
}

bool Ops::first() const { return n_->text("data_format", "NHWC").starts_with("NC"); }

// Of an attribute with an entry for every axis.
Ints Ops::spatial(std::string_view attribute, int rank) const {
  const Ints all = n_->integers(attribute);
  if (all.empty()) return {};
  if (all.size() != static_cast<std::size_t>(rank))
    throw bad_input("{} has {} entries for rank {}", attribute, all.size(), rank);
  const auto from = first() ? 2 : 1;
  return {all.begin() + from, all.begin() + from + rank - 2};
}

void Ops::padding(Fields& f, int rank, bool dilated) {
  const std::string kind = n_->text("padding", "VALID");
  f.emplace_back("strides", spatial("strides", rank));
  if (dilated) f.emplace_back("dilations", spatial("dilations", rank));
  if (kind == "SAME") {
    f.emplace_back("auto_pad", std::string("same_upper"));
    g.note(
        "SAME padding: the output is ceil(input / stride), the odd element of the padding "
        "stands at the end (right, bottom)");
  } else if (kind == "EXPLICIT") {
    const Ints pads = n_->integers("explicit_paddings");
    if (pads.size() != 2 * static_cast<std::size_t>(rank)) throw bad_input("explicit_paddings");
    Ints begin, end;
    for (int i = 0; i < rank - 2; ++i) {
      const auto at = 2 * static_cast<std::size_t>(i + (first() ? 2 : 1));
      begin.push_back(pads[at]);
      end.push_back(pads[at + 1]);
    }
    f.emplace_back("pads_begin", begin);
    f.emplace_back("pads_end", end);
  } else if (kind != "VALID") {
    throw bad_input("padding '{}' is none that TensorFlow has", kind);
  }
}

ValueId Ops::conv() {
  const ValueId x = n_->in(0), w = n_->in(1);
  const int rank = g.rank(x);
  if (rank < 3 || g.rank(w) != rank) throw bad_input("x of rank {}, w of rank {}", rank, g.rank(w));
  Fields f;
  padding(f, rank, true);
  const ValueId in = to_first(x);
  // [spatial, in, out] to [out, in, spatial]
  Ints perm{rank - 1, rank - 2};
  for (int i = 0; i < rank - 2; ++i) perm.push_back(i);
  const ValueId weight = g.transpose(part("weight"), w, perm);
  const std::int64_t channels = g.shape(in)[1], per_group = g.shape(weight)[1];
  if (per_group < 1 || channels % per_group != 0)
    throw bad_input("{} channels for weights of {}", channels, per_group);
  f.emplace_back("groups", channels / per_group);
  g.note(
      "images are NHWC in the file; a convolution's weights [h,w,in,out] are turned to "
      "[out,in,h,w] once, the numbers stay");
  return from_first(g.op("conv", n_->name, {in, weight}, f));
}

ValueId Ops::depthwise() {
  const ValueId x = n_->in(0), w = n_->in(1);
  if (g.rank(x) != 4 || g.rank(w) != 4) throw bad_input("a depthwise convolution wants rank 4");
  Fields f;
  padding(f, 4, true);
  const ValueId in = to_first(x);
  // [h, w, in, multiplier] to [in * multiplier, 1, h, w]
  const Shape& s = g.shape(w);
  const std::int64_t c = s[2], out = s[2] * s[3];
  const Ints shape{out, 1, s[0], s[1]};
  const ValueId weight =
      g.reshape(part("weight"), g.transpose(part("turned"), w, {2, 3, 0, 1}), shape);
  f.emplace_back("groups", c);
  return from_first(g.op("conv", n_->name, {in, weight}, f));
}

ValueId Ops::conv_transpose() {
  // input_sizes, filter [h, w, out, in], out_backprop
  const ValueId x = n_->in(2), w = n_->in(1);
  const int rank = g.rank(x);
  Fields f;
  padding(f, rank, true);
  const Ints sizes = constant_ints(0, "output sizes");
  if (sizes.size() != static_cast<std::size_t>(rank) &&
      sizes.size() + 2 != static_cast<std::size_t>(rank))
    throw bad_input("{} output sizes for rank {}", sizes.size(), rank);
  Ints out = sizes;
  if (sizes.size() == static_cast<std::size_t>(rank)) {
    const auto from = first() ? 2 : 1;
    out = Ints(sizes.begin() + from, sizes.begin() + from + rank - 2);
  }
  f.emplace_back("output_shape", out);
  Ints perm{rank - 1, rank - 2};
  for (int i = 0; i < rank - 2; ++i) perm.push_back(i);
  return from_first(
      g.op("conv_transpose", n_->name, {to_first(x), g.transpose(part("weight"), w, perm)}, f));
}

ValueId Ops::pool() {
  const ValueId x = n_->in(0);
  const int rank = g.rank(x);
  Fields f;
  padding(f, rank, false);
  f.emplace_back("kernel", spatial("ksize", rank));
  const bool max = n_->op.starts_with("Max");
  if (!max && n_->text("padding") == "SAME")
    g.note("average pooling divides by the elements inside the input, padding does not count");
  return from_first(g.op(max ? "max_pool" : "avg_pool", n_->name, {to_first(x)}, f));
}

ValueId Ops::batch_norm() {
  if (n_->flag("is_training", true))
    throw bad_input("batch norm in training mode; export the network for inference");
  const float eps = n_->number("epsilon", 1e-4F);
  g.note(fmt::format("batch norm: eps {}", eps));
  return from_first(g.op("batch_norm", n_->name,
                         {to_first(n_->in(0)), n_->in(1), n_->in(2), n_->in(3), n_->in(4)},
                         {{"eps", eps}}));
}

ValueId Ops::matmul() {
  ValueId a = n_->in(0), b = n_->in(1);
  const auto turned = [&](ValueId v, std::string_view role) {
    const int rank = g.rank(v);
    Ints perm(static_cast<std::size_t>(rank));
    std::iota(perm.begin(), perm.end(), 0);
    if (rank < 2) throw bad_input("a matrix of rank {}", rank);
    std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
    return g.transpose(part(role), v, perm);
  };
  if (n_->flag("transpose_a") || n_->flag("adj_x")) a = turned(a, "a");
  if (n_->flag("transpose_b") || n_->flag("adj_y")) b = turned(b, "b");
  return emit("matmul", {a, b});
}

ValueId Ops::activation(ValueId x, const std::string& kind) {
  if (kind.empty() || kind == "NONE" || kind == "BiasAdd") return x;
  if (kind == "Relu6")
    return g.elementwise("clip", part(kind), {x}, {{"min", 0.0F}, {"max", 6.0F}});
  if (kind == "ReluN1To1")
    return g.elementwise("clip", part(kind), {x}, {{"min", -1.0F}, {"max", 1.0F}});
  if (kind == "LeakyRelu")
    return g.elementwise("leaky_relu", part(kind), {x},
                         {{"alpha", n_->number("leakyrelu_alpha", 0.2F)}});
  const auto at = kUnary.find(kind);
  if (at == kUnary.end()) throw bad_input("the fused activation {} is not supported", kind);
  return g.elementwise(at->second, part(kind), {x});
}

// _FusedConv2D, _FusedMatMul and kin: an op, then those that fused_ops names, in sequence.
ValueId Ops::fused() {
  const std::vector<std::string> steps = n_->texts("fused_ops");
  ValueId y = n_->op.find("MatMul") != std::string::npos      ? matmul()
              : n_->op.find("Depthwise") != std::string::npos ? depthwise()
                                                              : conv();
  std::size_t next = 2;
  for (const std::string& step : steps) {
    if (step == "BiasAdd") {
      y = g.elementwise("add", part(step), {y, n_->in(next++)});
    } else if (step == "Prelu") {
      y = g.elementwise("prelu", part(step), {y, n_->in(next++)});
    } else if (step == "FusedBatchNorm") {
      const float eps = n_->number("epsilon", 1e-4F);
      y = from_first(
          g.op("batch_norm", part(step),
               {to_first(y), n_->in(next), n_->in(next + 1), n_->in(next + 2), n_->in(next + 3)},
               {{"eps", eps}}));
      next += 4;
    } else {
      y = activation(y, step);
    }
  }
  g.note("fused nodes are written step by step: each step rounds");
  return y;
}

std::optional<ValueId> Ops::layers() {
  const std::string& op = n_->op;
  if (op == "Conv2D" || op == "Conv3D" || op == "Conv1D") return conv();
  if (op == "DepthwiseConv2dNative") return depthwise();
  if (op == "Conv2DBackpropInput" || op == "Conv3DBackpropInputV2") return conv_transpose();
  if (op == "MaxPool" || op == "AvgPool" || op == "MaxPool3D" || op == "AvgPool3D") return pool();
  if (op == "FusedBatchNorm" || op == "FusedBatchNormV2" || op == "FusedBatchNormV3")
    return batch_norm();
  if (op == "MatMul" || op == "BatchMatMul" || op == "BatchMatMulV2") return matmul();
  if (op.starts_with("_Fused") || op.starts_with("Fused")) return fused();
  if (op == "Softmax") return emit("softmax");
  if (op == "LogSoftmax") return emit("log_softmax");
  if (op == "LRN") {
    g.note("LRN: alpha is not divided by the window's size (2 * depth_radius + 1)");
    return g.channels_last(g.op("lrn", n_->name, {g.channels_first(n_->in(0))},
                                {{"size", 2 * n_->integer("depth_radius", 5) + 1},
                                 {"alpha", n_->number("alpha", 1)},
                                 {"beta", n_->number("beta", 0.5F)},
                                 {"bias", n_->number("bias", 1)},
                                 {"alpha_divided", false}}));
  }
  if (op == "ResizeBilinear" || op == "ResizeNearestNeighbor") return resize();
  if (op == "DepthToSpace" || op == "SpaceToDepth")
    return from_first(g.op(op == "DepthToSpace" ? "depth_to_space" : "space_to_depth", n_->name,
                           {to_first(n_->in(0))}, {{"blocksize", n_->integer("block_size", 2)}}));
  if (op == "SpaceToBatchND") return space_to_batch();
  if (op == "BatchToSpaceND") return batch_to_space();
  return std::nullopt;
}

std::optional<ValueId> Ops::elementwise() {
  const std::string& op = n_->op;
  if (const auto at = kUnary.find(op); at != kUnary.end()) {
    const ValueId y =
        at->second == "identity" ? n_->in(0) : g.elementwise(at->second, n_->name, {n_->in(0)});
    return y;
  }
  if (const auto at = kBinary.find(op); at != kBinary.end()) {
    ValueId b = n_->in(1);
    if (op == "BiasAdd" && first()) {
      Ints dims{g.shape(b).numel()};
      dims.resize(static_cast<std::size_t>(g.rank(n_->in(0)) - 1), 1);
      b = g.reshape(part("bias"), b, dims);
    }
    return g.elementwise(at->second, n_->name, {n_->in(0), b});
  }
  if (op == "NotEqual")
    return g.elementwise("not", n_->name,
                         {g.elementwise("equal", part("equal"), {n_->in(0), n_->in(1)})});
  if (op == "Relu6")
    return g.elementwise("clip", n_->name, {n_->in(0)}, {{"min", 0.0F}, {"max", 6.0F}});
  if (op == "ReluN1To1")
    return g.elementwise("clip", n_->name, {n_->in(0)}, {{"min", -1.0F}, {"max", 1.0F}});
  if (op == "LeakyRelu")
    return g.elementwise("leaky_relu", n_->name, {n_->in(0)},
                         {{"alpha", n_->number("alpha", 0.2F)}});
  if (op == "Prelu") return g.elementwise("prelu", n_->name, {n_->in(0), n_->in(1)});
  if (op == "HardSwish") return g.elementwise("hard_swish", n_->name, {n_->in(0)});
  if (op == "Gelu")
    return g.elementwise("gelu", n_->name, {n_->in(0)},
                         {{"approximate", std::string(n_->flag("approximate") ? "tanh" : "none")}});
  if (op == "Square") return g.elementwise("mul", n_->name, {n_->in(0), n_->in(0)});
  if (op == "SquaredDifference") {
    const ValueId d = g.elementwise("sub", part("difference"), {n_->in(0), n_->in(1)});
    return g.elementwise("mul", n_->name, {d, d});
  }
  if (op == "FloorDiv")
    return g.elementwise("floor", n_->name,
                         {g.elementwise("div", part("quotient"), {n_->in(0), n_->in(1)})});
  if (op == "AddN" || op == "AccumulateNV2") {
    ValueId sum = n_->in(0);
    for (std::size_t i = 1; i < n_->inputs.size(); ++i)
      sum = g.elementwise("add", n_->name, {sum, n_->in(i)});
    return sum;
  }
  if (op == "ClipByValue") return g.op("clip", n_->name, {n_->in(0), n_->in(1), n_->in(2)});
  if (op == "SelectV2" || op == "Select") {
    if (op == "Select" && g.known(n_->in(0)) && g.known(n_->in(1)) && g.rank(n_->in(0)) == 1 &&
        g.rank(n_->in(1)) > 1) {
      Ints dims(static_cast<std::size_t>(g.rank(n_->in(1))), 1);
      dims[0] = -1;
      return emit("where", {g.reshape(part("condition"), n_->in(0), dims), n_->in(1), n_->in(2)});
    }
    return emit("where");
  }
  if (op == "Cast") {
    const std::string to = n_->text("DstT");
    if (!find_dtype(to)) throw bad_input("a cast to no element type");
    const ValueId y = g.elementwise("cast", n_->name, {n_->in(0)}, {{"to", to}});
    if (const auto known = elements(n_->in(0))) partial_[y] = *known;
    return y;
  }
  return std::nullopt;
}

ValueId Ops::resize() {
  const ValueId x = n_->in(0);
  const Ints sizes = constant_ints(1, "sizes");
  if (sizes.size() != 2 || sizes[0] < 1 || sizes[1] < 1) throw bad_input("sizes must be two");
  const bool linear = n_->op == "ResizeBilinear", corners = n_->flag("align_corners"),
             half = n_->flag("half_pixel_centers");
  const std::string how = corners          ? "align_corners"
                          : half && linear ? "half_pixel"
                          : half           ? "tf_half_pixel_for_nn"
                                           : "asymmetric";
  g.note(fmt::format("resize: coordinates {} in f32", how));
  Fields f{{"mode", std::string(linear ? "linear" : "nearest")},
           {"coordinate_transformation_mode", how},
           {"nearest_mode", std::string(corners ? "round_prefer_ceil" : "floor")},
           {"coordinates", std::string("f32")},
           {"axes", Ints{2, 3}},
           {"sizes", sizes}};
  return g.channels_last(g.op("resize", n_->name, {g.channels_first(x)}, f));
}

ValueId Ops::space_to_batch() {
  const Ints block = constant_ints(1, "block sizes"), pads = constant_ints(2, "paddings");
  const ValueId x = n_->in(0);
  const auto m = block.size();
  const int rank = g.rank(x);
  if (pads.size() != 2 * m || static_cast<int>(m) >= rank)
    throw bad_input("{} blocks for rank {}", m, rank);
  Ints pad(2 * static_cast<std::size_t>(rank), 0);
  for (std::size_t i = 0; i < m; ++i) {
    pad[1 + i] = pads[2 * i];
    pad[static_cast<std::size_t>(rank) + 1 + i] = pads[2 * i + 1];
  }
  const ValueId padded = g.op("pad", part("pad"), {x}, {{"pads", pad}});
  Ints split{-1}, perm, merged{-1};
  for (std::size_t i = 0; i < m; ++i) {
    const std::int64_t extent = g.shape(padded)[static_cast<int>(i) + 1];
    if (block[i] < 1 || extent % block[i] != 0)
      throw bad_input("{} in blocks of {}", extent, block[i]);
    split.insert(split.end(), {extent / block[i], block[i]});
    perm.push_back(static_cast<std::int64_t>(2 + 2 * i));
    merged.push_back(extent / block[i]);
  }
  perm.push_back(0);
  for (std::size_t i = 0; i < m; ++i) perm.push_back(static_cast<std::int64_t>(1 + 2 * i));
  for (int i = static_cast<int>(m) + 1; i < rank; ++i) {
    split.push_back(g.shape(padded)[i]);
    perm.push_back(static_cast<std::int64_t>(m) + i);
    merged.push_back(g.shape(padded)[i]);
  }
  const ValueId cut = g.op("reshape", part("blocks"), {padded}, {{"shape", split}});
  return g.op("reshape", n_->name, {g.transpose(part("turned"), cut, perm)}, {{"shape", merged}});
}

ValueId Ops::batch_to_space() {
  const Ints block = constant_ints(1, "block sizes"), crops = constant_ints(2, "crops");
  const ValueId x = n_->in(0);
  const auto m = block.size();
  const int rank = g.rank(x);
  if (crops.size() != 2 * m || static_cast<int>(m) >= rank)
    throw bad_input("{} blocks for rank {}", m, rank);
  Ints split = block, perm{static_cast<std::int64_t>(m)}, merged{-1};
  split.push_back(-1);
  Ints starts, ends, axes;
  for (std::size_t i = 0; i < m; ++i) {
    const std::int64_t extent = g.shape(x)[static_cast<int>(i) + 1];
    split.push_back(extent);
    perm.push_back(static_cast<std::int64_t>(m + 1 + i));
    perm.push_back(static_cast<std::int64_t>(i));
    merged.push_back(extent * block[i]);
    starts.push_back(crops[2 * i]);
    ends.push_back(extent * block[i] - crops[2 * i + 1]);
    axes.push_back(static_cast<std::int64_t>(i) + 1);
  }
  for (int i = static_cast<int>(m) + 1; i < rank; ++i) {
    split.push_back(g.shape(x)[i]);
    perm.push_back(static_cast<std::int64_t>(m) + i);
    merged.push_back(g.shape(x)[i]);
  }
  const ValueId cut = g.op("reshape", part("blocks"), {x}, {{"shape", split}});
  const ValueId whole = g.op("reshape", part("merged"), {g.transpose(part("turned"), cut, perm)},
                             {{"shape", merged}});
  return g.op("slice", n_->name, {whole}, {{"starts", starts}, {"ends", ends}, {"axes", axes}});
}

ValueId Ops::strided_slice() {
  const Ints begin = constant_ints(1, "begins"), end = constant_ints(2, "ends"),
             stride = constant_ints(3, "strides");
  const std::int64_t begin_mask = n_->integer("begin_mask"), end_mask = n_->integer("end_mask"),
                     ellipsis = n_->integer("ellipsis_mask"), added = n_->integer("new_axis_mask"),
                     shrink = n_->integer("shrink_axis_mask");
  if (begin.size() != end.size() || begin.size() != stride.size())
    throw bad_input("{} begins, {} ends, {} strides", begin.size(), end.size(), stride.size());
  const ValueId x = n_->in(0);
  const auto rank = static_cast<std::int64_t>(g.rank(x));
  const auto bit = [](std::int64_t mask, std::size_t i) { return i < 63 && (mask >> i & 1) != 0; };
  std::int64_t real = 0;
  for (std::size_t i = 0; i < begin.size(); ++i) real += bit(added, i) || bit(ellipsis, i) ? 0 : 1;
  Ints starts, ends, axes, steps, gone, fresh;
  std::int64_t axis = 0, out = 0;
  for (std::size_t i = 0; i < begin.size(); ++i) {
    if (bit(ellipsis, i)) {
      axis += rank - real;
      out += rank - real;
    } else if (bit(added, i)) {
      fresh.push_back(out++);
    } else {
      if (axis >= rank) throw bad_input("{} axes are cut of {}", real, rank);
      const bool drop = bit(shrink, i);
      starts.push_back(bit(begin_mask, i) && !drop ? (stride[i] > 0 ? 0 : INT64_MAX) : begin[i]);
      std::int64_t to = bit(end_mask, i) ? (stride[i] > 0 ? INT64_MAX : INT64_MIN) : end[i];
      if (drop) to = begin[i] == -1 ? INT64_MAX : begin[i] + 1;
      ends.push_back(to);
      steps.push_back(drop ? 1 : stride[i]);
      axes.push_back(axis);
      if (drop)
        gone.push_back(axis);
      else
        ++out;
      ++axis;
    }
  }
  ValueId y = g.op("slice", n_->name, {x},
                   {{"starts", starts}, {"ends", ends}, {"axes", axes}, {"steps", steps}});
  if (!gone.empty()) y = g.op("squeeze", part("dropped"), {y}, {{"axes", gone}});
  if (!fresh.empty()) y = g.op("unsqueeze", part("new"), {y}, {{"axes", fresh}});
  // Of a vector of known elements: what is left is known too.
  if (const auto known = elements(x); known && rank == 1 && fresh.empty() && starts.size() == 1) {
    const auto n = static_cast<std::int64_t>(known->size());
    const auto clip = [&](std::int64_t v) {
      return std::clamp<std::int64_t>(v < 0 && v > INT64_MIN ? v + n : v, 0, n);
    };
    Ints part_of;
    if (steps[0] == 1)
      for (std::int64_t i = clip(starts[0]); i < clip(ends[0]); ++i)
        part_of.push_back((*known)[static_cast<std::size_t>(i)]);
    if (steps[0] == 1) partial_[y] = part_of;
  }
  return y;
}

std::optional<ValueId> Ops::shapes() {
  const std::string& op = n_->op;
  if (op == "Reshape") {
    Ints shape;
    if (n_->inputs.size() > 1) {
      const auto known = elements(n_->in(1));
      if (!known || std::ranges::count(*known, -1) > 1)
        return emit("reshape", {n_->in(0), n_->in(1)}, {{"allowzero", true}});
      shape = *known;
    } else {
      shape = n_->integers("new_shape");
    }
    const bool zero = std::ranges::count(shape, 0) != 0;
    if (g.constant_of(n_->in(0)) != nullptr && !zero) return g.reshape(n_->name, n_->in(0), shape);
    const ValueId y =
        g.op("reshape", n_->name, {n_->in(0)}, {{"shape", shape}, {"allowzero", zero}});
    if (const auto known = elements(n_->in(0))) partial_[y] = *known;
    return y;
  }
  if (op == "Squeeze") {
    Ints axes = n_->integers("squeeze_dims");
    if (axes.empty()) axes = n_->integers("axis");
    const ValueId y = g.op("squeeze", n_->name, {n_->in(0)}, {{"axes", axes}});
    if (const auto known = elements(n_->in(0))) partial_[y] = *known;
    return y;
  }
  if (op == "ExpandDims") {
    const ValueId y =
        g.op("unsqueeze", n_->name, {n_->in(0)}, {{"axes", constant_ints(1, "axes")}});
    if (const auto known = elements(n_->in(0))) partial_[y] = *known;
    return y;
  }
  if (op == "Transpose") return g.transpose(n_->name, n_->in(0), constant_ints(1, "axes"));
  if (op == "ConcatV2" || op == "Concat") {
    std::vector<ValueId> in = n_->inputs;
    if (in.size() < 2) throw bad_input("a concatenation of nothing");
    const std::size_t where = op == "Concat" ? 0 : in.size() - 1;
    const Ints axis_value = constant_ints(where, "axes");
    if (axis_value.size() != 1) throw bad_input("the axis has {} elements", axis_value.size());
    in.erase(in.begin() + static_cast<std::ptrdiff_t>(where));
    if (g.known(in[0]) && g.rank(in[0]) == 4) {
      const int axis = normalize_axis(axis_value[0], 4);
      for (ValueId& v : in) v = g.channels_first(v);
      constexpr int kMoved[] = {0, 2, 3, 1};
      return g.channels_last(g.op("concat", n_->name, in, {{"axis", std::int64_t{kMoved[axis]}}}));
    }
    const ValueId y = g.op("concat", n_->name, in, {{"axis", axis_value[0]}});
    Ints all;
    for (const ValueId v : in) {
      const auto known = elements(v);
      if (!known) return y;
      all.insert(all.end(), known->begin(), known->end());
    }
    partial_[y] = all;
    return y;
  }
  if (op == "Pack" || op == "Stack") {
    std::vector<ValueId> in;
    const std::int64_t axis = n_->integer("axis");
    Ints all;
    bool known = axis == 0;
    for (std::size_t i = 0; i < n_->inputs.size(); ++i) {
      in.push_back(g.op("unsqueeze", part("item"), {n_->in(i)}, {{"axes", Ints{axis}}}));
      const auto e = elements(n_->in(i));
      known = known && e && e->size() == 1;
      if (known) all.push_back((*e)[0]);
    }
    const ValueId y = g.op("concat", n_->name, in, {{"axis", axis}});
    if (known) partial_[y] = all;
    return y;
  }
  if (op == "Slice") {
    const Ints begin = constant_ints(1, "begins"), size = constant_ints(2, "sizes");
    if (begin.size() != size.size()) throw bad_input("begins and sizes differ");
    Ints ends, axes;
    for (std::size_t i = 0; i < begin.size(); ++i) {
      ends.push_back(size[i] < 0 ? INT64_MAX : begin[i] + size[i]);
      axes.push_back(static_cast<std::int64_t>(i));
    }
    return g.op("slice", n_->name, {n_->in(0)},
                {{"starts", begin}, {"ends", ends}, {"axes", axes}});
  }
  if (op == "StridedSlice") return strided_slice();
  if (op == "Tile")
    return g.op("tile", n_->name, {n_->in(0)}, {{"repeats", constant_ints(1, "multiples")}});
  if (op == "BroadcastTo")
    return g.op("expand", n_->name, {n_->in(0)}, {{"shape", constant_ints(1, "extents")}});
  if (op == "Pad" || op == "PadV2" || op == "MirrorPad") {
    const Ints pairs = constant_ints(1, "paddings");
    Ints pads(pairs.size());
    const std::size_t rank = pairs.size() / 2;
    for (std::size_t i = 0; i < rank; ++i) {
      pads[i] = pairs[2 * i];
      pads[rank + i] = pairs[2 * i + 1];
    }
    if (op == "MirrorPad" && n_->text("mode", "REFLECT") != "REFLECT")
      throw bad_input("MirrorPad {} is not supported", n_->text("mode"));
    float value = 0;
    if (op == "PadV2") {
      const Tensor* c = g.constant_of(n_->in(2));
      if (c == nullptr || c->numel() != 1)
        throw bad_input("the value of the padding is not constant");
      value = as_f32(*c).data<float>()[0];
    }
    const bool image = rank == 4 && op != "MirrorPad";
    if (image) {
      const Ints perm{0, 3, 1, 2};
      Ints turned(8);
      for (std::size_t i = 0; i < 4; ++i) {
        turned[i] = pads[static_cast<std::size_t>(perm[i])];
        turned[4 + i] = pads[4 + static_cast<std::size_t>(perm[i])];
      }
      pads = turned;
    }
    const Fields f{{"mode", std::string(op == "MirrorPad" ? "reflect" : "constant")},
                   {"pads", pads},
                   {"value", value}};
    if (image) return g.channels_last(g.op("pad", n_->name, {g.channels_first(n_->in(0))}, f));
    return g.op("pad", n_->name, {n_->in(0)}, f);
  }
  if (op == "Shape") {
    ValueId y = g.op("shape", n_->name, {n_->in(0)});
    if (n_->text("out_type", "i32") == "i32")
      y = g.op("cast", part("i32"), {y}, {{"to", std::string("i32")}});
    if (g.known(n_->in(0))) partial_[y] = g.dims(n_->in(0));
    return y;
  }
  if (const auto at = kReduce.find(op); at != kReduce.end()) {
    const bool keep = n_->flag("keep_dims");
    if (n_->inputs.size() < 2) return g.op(at->second, n_->name, {n_->in(0)}, {{"keepdims", keep}});
    const Ints axes = constant_ints(1, "axes");
    if (axes.empty()) return n_->in(0);
    const ValueId y = g.op(at->second, n_->name, {n_->in(0)}, {{"axes", axes}, {"keepdims", keep}});
    if (const auto known = elements(n_->in(0));
        known && op == "Prod" && std::ranges::count(*known, -1) == 0) {
      std::int64_t product = 1;
      for (const std::int64_t v : *known) product = checked_mul(product, v);
      partial_[y] = {product};
    }
    return y;
  }
  return std::nullopt;
}

std::optional<ValueId> Ops::indices() {
  const std::string& op = n_->op;
  if (op == "Gather" || op == "GatherV2" || op == "ResourceGather") {
    const std::int64_t axis = n_->inputs.size() > 2 ? constant_int(2, "axes") : n_->integer("axis");
    if (n_->integer("batch_dims") != 0) throw bad_input("a gather with batch_dims");
    const ValueId y = g.op("gather", n_->name, {n_->in(0), n_->in(1)}, {{"axis", axis}});
    const auto known = elements(n_->in(0)), at = elements(n_->in(1));
    if (known && at && at->size() == 1 && (*at)[0] >= 0 &&
        static_cast<std::size_t>((*at)[0]) < known->size())
      partial_[y] = {(*known)[static_cast<std::size_t>((*at)[0])]};
    return y;
  }
  if (op == "GatherNd") return emit("gather_nd");
  if (op == "ArgMax" || op == "ArgMin") {
    const std::int64_t axis = n_->inputs.size() > 1 ? constant_int(1, "axes") : 0;
    ValueId y = g.op(op == "ArgMax" ? "arg_max" : "arg_min", n_->name, {n_->in(0)},
                     {{"axis", axis}, {"keepdims", false}});
    if (n_->text("output_type", "i64") == "i32")
      y = g.op("cast", part("i32"), {y}, {{"to", std::string("i32")}});
    return y;
  }
  if (op == "Fill") return emit("expand", {n_->in(1), n_->in(0)});
  if (op == "ZerosLike") return g.op("sub", n_->name, {n_->in(0), n_->in(0)});
  if (op == "Range") return emit("range");
  if (op == "Rank") {
    const auto rank = static_cast<std::int32_t>(g.rank(n_->in(0)));
    return g.constant(n_->name, Tensor::of<std::int32_t>({}, {rank}));
  }
  if (op == "Cumsum")
    return g.op("cum_sum", n_->name, {n_->in(0)},
                {{"axis", constant_int(1, "axes")},
                 {"exclusive", n_->flag("exclusive")},
                 {"reverse", n_->flag("reverse")}});
  if (op == "OneHot") {
    const ValueId values =
        g.op("concat", part("values"),
             {g.reshape(part("off"), n_->in(3), {1}), g.reshape(part("on"), n_->in(2), {1})},
             {{"axis", std::int64_t{0}}});
    return emit("one_hot", {n_->in(0), n_->in(1), values}, {{"axis", n_->integer("axis", -1)}});
  }
  return std::nullopt;
}

std::vector<ValueId> Ops::translate(const OpNode& node) {
  n_ = &node;
  const std::string& op = node.op;
  if (op == "IdentityN") return node.inputs;
  if (op == "Split" || op == "SplitV" || op == "Unpack") {
    const bool v = op == "SplitV", u = op == "Unpack";
    const ValueId x = node.in(op == "Split" ? 1 : 0);
    const std::int64_t axis =
        u ? node.integer("axis") : constant_int(op == "Split" ? 0 : 2, "axes");
    const auto pieces = static_cast<std::size_t>(node.integer(u ? "num" : "num_split", 1));
    if (pieces < 1 || pieces > 4096) throw bad_input("{} pieces", pieces);
    Ints sizes;
    if (v) {
      sizes = constant_ints(1, "sizes");
      const int a = normalize_axis(axis, g.rank(x));
      std::int64_t left = g.shape(x)[a];
      for (const std::int64_t s : sizes) left -= s < 0 ? 0 : s;
      for (std::int64_t& s : sizes)
        if (s < 0) s = left;
    } else {
      const std::int64_t extent = g.shape(x)[normalize_axis(axis, g.rank(x))];
      sizes.assign(pieces, extent / static_cast<std::int64_t>(pieces));
    }
    std::vector<ValueId> out =
        g.nodes("split", node.name, {x},
                make_params(get_op("split"), {{"axis", axis}, {"split", sizes}}), sizes.size());
    if (u)
      for (ValueId& y : out) y = g.op("squeeze", part("item"), {y}, {{"axes", Ints{axis}}});
    return out;
  }
  if (op == "TopKV2") {
    const std::int64_t k = constant_int(1, "counts");
    auto out =
        g.nodes("top_k", node.name, {node.in(0)}, make_params(get_op("top_k"), {{"k", k}}), 2);
    out[1] = g.op("cast", part("i32"), {out[1]}, {{"to", std::string("i32")}});
    return out;
  }
  for (const auto family : {&Ops::layers, &Ops::elementwise, &Ops::shapes, &Ops::indices})
    if (const auto y = (this->*family)()) return {*y};
  throw bad_input("{} is not supported", op);
}

}  // namespace etalon::tf
