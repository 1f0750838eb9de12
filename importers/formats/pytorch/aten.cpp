#include "importers/formats/pytorch/aten.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "engine/core/error.h"
#include "importers/formats/pytorch/aten_parts.h"
#include "importers/formats/pytorch/aten_recurrent.h"
#include "importers/formats/translate.h"

namespace etalon::pytorch_format {
namespace {

using Kind = AtenValue::Kind;

constexpr AtenSignature kSignatures[] = {
    {"_convolution",
     {"input", "weight", "bias", "stride", "padding", "dilation", "transposed", "output_padding",
      "groups"}},
    {"conv1d", {"input", "weight", "bias", "stride", "padding", "dilation", "groups"}},
    {"conv2d", {"input", "weight", "bias", "stride", "padding", "dilation", "groups"}},
    {"conv3d", {"input", "weight", "bias", "stride", "padding", "dilation", "groups"}},
    {"conv_transpose1d",
     {"input", "weight", "bias", "stride", "padding", "output_padding", "groups", "dilation"}},
    {"conv_transpose2d",
     {"input", "weight", "bias", "stride", "padding", "output_padding", "groups", "dilation"}},
    {"max_pool1d", {"self", "kernel_size", "stride", "padding", "dilation", "ceil_mode"}},
    {"max_pool2d", {"self", "kernel_size", "stride", "padding", "dilation", "ceil_mode"}},
    {"avg_pool1d", {"self", "kernel_size", "stride", "padding", "ceil_mode", "count_include_pad"}},
    {"avg_pool2d",
     {"self", "kernel_size", "stride", "padding", "ceil_mode", "count_include_pad",
      "divisor_override"}},
    {"batch_norm",
     {"input", "weight", "bias", "running_mean", "running_var", "training", "momentum", "eps"}},
    {"layer_norm", {"input", "normalized_shape", "weight", "bias", "eps"}},
    {"group_norm", {"input", "num_groups", "weight", "bias", "eps"}},
    {"linear", {"input", "weight", "bias"}},
    {"addmm", {"self", "mat1", "mat2", "beta", "alpha"}},
    {"matmul", {"self", "other"}},
    {"mm", {"self", "other"}},
    {"bmm", {"self", "other"}},
    {"t", {"self"}},
    {"transpose", {"self", "dim0", "dim1"}},
    {"permute", {"self", "dims"}},
    {"flatten", {"self", "start_dim", "end_dim"}},
    {"view", {"self", "size"}},
    {"reshape", {"self", "size"}},
    {"unsqueeze", {"self", "dim"}},
    {"squeeze", {"self", "dim"}},
    {"softmax", {"self", "dim", "dtype"}},
    {"log_softmax", {"self", "dim", "dtype"}},
    {"dropout", {"input", "p", "train"}},
    {"feature_dropout", {"input", "p", "train"}},
    {"leaky_relu", {"self", "negative_slope"}},
    {"elu", {"self", "alpha"}},
    {"gelu", {"self", "approximate"}},
    {"hardtanh", {"self", "min_val", "max_val"}},
    {"relu6", {"self"}},
    {"hardsigmoid", {"self"}},
    {"hardswish", {"self"}},
    {"softplus", {"self", "beta", "threshold"}},
    {"prelu", {"self", "weight"}},
    {"add", {"self", "other", "alpha"}},
    {"sub", {"self", "other", "alpha"}},
    {"mul", {"self", "other"}},
    {"div", {"self", "other", "rounding_mode"}},
    {"cat", {"tensors", "dim"}},
    {"mean", {"self", "dim", "keepdim", "dtype"}},
    {"sum", {"self", "dim", "keepdim", "dtype"}},
    {"embedding", {"weight", "indices"}},
    {"select", {"self", "dim", "index"}},
    {"contiguous", {"self"}},
    {"clone", {"self"}},
    {"detach", {"self"}},
    {"lstm",
     {"input", "hx", "params", "has_biases", "num_layers", "dropout", "train", "bidirectional",
      "batch_first"}},
    {"gru",
     {"input", "hx", "params", "has_biases", "num_layers", "dropout", "train", "bidirectional",
      "batch_first"}},
    {"rnn_tanh",
     {"input", "hx", "params", "has_biases", "num_layers", "dropout", "train", "bidirectional",
      "batch_first"}},
    {"rnn_relu",
     {"input", "hx", "params", "has_biases", "num_layers", "dropout", "train", "bidirectional",
      "batch_first"}},
    {"relu", {"self"}},
    {"tanh", {"self"}},
    {"sigmoid", {"self"}},
    {"exp", {"self"}},
    {"log", {"self"}},
    {"sqrt", {"self"}},
    {"abs", {"self"}},
    {"neg", {"self"}},
    {"erf", {"self"}},
    {"silu", {"self"}},
};

std::string_view plain_op(std::string_view op) {
  return op.size() > 1 && op.ends_with('_') && !op.ends_with("__") ? op.substr(0, op.size() - 1)
                                                                   : op;
}

Ints spread(Ints v, std::size_t axes) {
  if (v.size() == 1) v.resize(axes, v[0]);
  return v;
}

ValueId filled(GraphBuilder& b, const std::string& name, std::int64_t length, float value) {
  return b.constant(name, filled_f32(length, value));
}

ValueId convolution(GraphBuilder& b, const std::string& op, const std::string& name, ValueId x,
                    const AtenCall& c) {
  const auto axes = static_cast<std::size_t>(b.rank(x) - 2);
  if (axes < 1 || axes > 3) throw bad_input("a convolution of an input of rank {}", b.rank(x));
  std::vector<ValueId> in{x, c.tensor("weight")};
  if (c.tensor("bias") != kAbsent) in.push_back(c.tensor("bias"));
  Fields fields{{"strides", spread(c.ints("stride", {1}), axes)},
                {"dilations", spread(c.ints("dilation", {1}), axes)},
                {"groups", c.integer("groups", 1)}};
  const AtenValue* padding = c.find("padding");
  if (padding != nullptr && padding->kind == Kind::text) {
    // "same" pads the odd element at the end; "valid" pads nothing.
    if (padding->text == "same") fields.emplace_back("auto_pad", std::string("same_upper"));
  } else {
    const Ints pad = spread(c.ints("padding", {0}), axes);
    fields.emplace_back("pads_begin", pad);
    fields.emplace_back("pads_end", pad);
  }
  const bool transposed = op.starts_with("conv_transpose") || c.flag("transposed", false);
  if (transposed)
    fields.emplace_back("output_padding", spread(c.ints("output_padding", {0}), axes));
  return b.op(transposed ? "conv_transpose" : "conv", name, in, fields);
}

ValueId pooling(GraphBuilder& b, const std::string& op, const std::string& name, ValueId x,
                const AtenCall& c) {
  const auto axes = static_cast<std::size_t>(b.rank(x) - 2);
  const Ints kernel = spread(c.ints("kernel_size", {1}), axes),
             pad = spread(c.ints("padding", {0}), axes);
  Fields fields{{"kernel", kernel},
                {"strides", spread(c.ints("stride", kernel), axes)},
                {"pads_begin", pad},
                {"pads_end", pad},
                {"ceil_mode", c.flag("ceil_mode", false)}};
  if (op.starts_with("max")) {
    fields.emplace_back("dilations", spread(c.ints("dilation", {1}), axes));
    return b.op("max_pool", name, {x}, fields);
  }
  fields.emplace_back("count_include_pad", c.flag("count_include_pad", true));
  fields.emplace_back("divisor_override", c.integer("divisor_override", 0));
  return b.op("avg_pool", name, {x}, fields);
}

ValueId batch_norm(GraphBuilder& b, const std::string& name, ValueId x, const AtenCall& c) {
  const ValueId mean = c.tensor("running_mean"), var = c.tensor("running_var");
  if (c.flag("training", false) || mean == kAbsent || var == kAbsent) {
    // Statistics of the input itself: of one sample they are those of an instance norm.
    if (b.rank(x) < 3 || b.dims(x)[0] != 1) throw AtenUnknown{"batch_norm in training"};
    b.note("a batch norm with the statistics of its one sample is an instance norm.");
    return translate_aten(b, "instance_norm", name, c).at(0);
  }
  const std::int64_t length = b.shape(mean).numel();
  ValueId weight = c.tensor("weight"), bias = c.tensor("bias");
  if (weight == kAbsent) weight = filled(b, name + ".weight", length, 1);
  if (bias == kAbsent) bias = filled(b, name + ".bias", length, 0);
  return b.op("batch_norm", name, {x, weight, bias, mean, var}, {{"eps", c.number("eps", 1e-5F)}});
}

ValueId affine_norm(GraphBuilder& b, const std::string& op, const std::string& name, ValueId x,
                    const AtenCall& c) {
  const bool layer = op == "layer_norm";
  const Ints shape = c.ints("normalized_shape", {});
  std::int64_t length = layer ? 1 : b.shape(x).dim(1);
  for (const std::int64_t n : shape) length = checked_mul(length, n);
  ValueId weight = c.tensor("weight"), bias = c.tensor("bias");
  if (weight == kAbsent) weight = filled(b, name + ".weight", length, 1);
  if (bias == kAbsent) bias = filled(b, name + ".bias", length, 0);
  if (shape.size() > 1) {
    weight = b.reshape(name + ".scale", weight, shape);
    bias = b.reshape(name + ".shift", bias, shape);
  }
  Fields fields{{"eps", c.number("eps", 1e-5F)}};
  if (layer)
    fields.emplace_back("axis", -static_cast<std::int64_t>(shape.size()));
  else
    fields.emplace_back("groups", c.integer("num_groups", 1));
  return b.op(op, name, {x, weight, bias}, fields);
}

ValueId linear(GraphBuilder& b, const std::string& name, ValueId x, const AtenCall& c) {
  const ValueId w = c.tensor("weight"), bias = c.tensor("bias");
  if (b.rank(x) == 2) {
    std::vector<ValueId> in{x, w};
    if (bias != kAbsent) in.push_back(bias);
    return b.op("gemm", name, in, {{"trans_b", true}});
  }
  const ValueId y = b.op("matmul", name, {x, b.transpose(name + ".weight", w, {1, 0})});
  return bias == kAbsent ? y : b.op("add", name + ".bias", {y, bias});
}

// Extents as PyTorch's view takes them; a free one is copied, or what is left.
ValueId viewed(GraphBuilder& b, const std::string& name, ValueId x, const AtenCall& c) {
  const AtenValue* size = c.find("size");
  if (size == nullptr || size->kind != Kind::list) throw AtenUnknown{"a view without extents"};
  const Ints dims = b.dims(x);
  Ints shape;
  bool left = std::ranges::any_of(size->items, [](const AtenValue& v) {
    return v.kind == Kind::integer && !v.free && v.integer == -1;
  });
  for (std::size_t i = 0; i < size->items.size(); ++i) {
    const AtenValue& v = size->items[i];
    if (v.kind != Kind::integer) throw AtenUnknown{"a view with an extent that is no integer"};
    if (!v.free) {
      shape.push_back(v.integer);
    } else if (v.number >= 0 && i < dims.size() && dims[i] < 0) {
      shape.push_back(0);
    } else if (!left) {
      shape.push_back(-1);
      left = true;
    } else {
      throw AtenUnknown{"a view with two free extents"};
    }
  }
  return b.reshape(name, x, shape);
}

ValueId binary(GraphBuilder& b, const std::string& op, const std::string& name, ValueId x,
               const AtenCall& c) {
  ValueId other = c.tensor("other");
  if (other == kAbsent) {
    const AtenValue* v = c.find("other");
    if (v == nullptr) throw AtenUnknown{op + " of one operand"};
    other = aten_number(b, name + ".other", x, *v);
  }
  if (const AtenValue* alpha = c.find("alpha"); alpha != nullptr && c.number("alpha", 1) != 1)
    other = b.op("mul", name + ".scaled", {other, aten_number(b, name + ".alpha", other, *alpha)});
  auto [left, right] = promoted(b, name, x, other);
  const AtenValue* mode = c.find("rounding_mode");
  if (op == "div" && mode == nullptr && !is_floating(b.dtype(left))) {
    left = aten_cast(b, name + ".dividend", left, DType::f32);
    right = aten_cast(b, name + ".divisor", right, DType::f32);
  }
  const ValueId y = b.op(op, name, {left, right});
  if (mode == nullptr || !is_floating(b.dtype(y))) return y;
  if (mode->text != "floor") throw AtenUnknown{"a quotient that is rounded by " + mode->text};
  return b.op("floor", name + ".floor", {y});
}

ValueId constant_cast(GraphBuilder& b, const std::string& name, ValueId x, const AtenCall& c) {
  const AtenValue* type = c.find("dtype");
  return type == nullptr || type->kind != Kind::integer
             ? x
             : aten_cast(b, name, x, aten_dtype(type->integer));
}

}  // namespace

const AtenValue* AtenCall::find(std::string_view name) const {
  const auto at = args.find(name);
  return at == args.end() || at->second.kind == Kind::none ? nullptr : &at->second;
}

ValueId AtenCall::tensor(std::string_view name) const {
  const AtenValue* v = find(name);
  return v == nullptr || v->kind != Kind::tensor ? kAbsent : v->tensor;
}

std::vector<ValueId> AtenCall::tensors(std::string_view name) const {
  const AtenValue* v = find(name);
  if (v == nullptr || v->kind != Kind::list)
    throw AtenUnknown{"an argument " + std::string(name) + " that is no list of tensors"};
  std::vector<ValueId> out;
  for (const AtenValue& i : v->items) {
    if (i.kind != Kind::tensor)
      throw AtenUnknown{"an argument " + std::string(name) + " that is no list of tensors"};
    out.push_back(i.tensor);
  }
  return out;
}

std::int64_t AtenCall::integer(std::string_view name, std::int64_t missing) const {
  const AtenValue* v = find(name);
  if (v == nullptr) return missing;
  if (v->kind != Kind::integer || v->free)
    throw AtenUnknown{"an argument " + std::string(name) + " that is no known integer"};
  return v->integer;
}

bool AtenCall::flag(std::string_view name, bool missing) const {
  const AtenValue* v = find(name);
  if (v == nullptr) return missing;
  if (v->kind != Kind::boolean && v->kind != Kind::integer)
    throw AtenUnknown{"an argument " + std::string(name) + " that is no bool"};
  return v->integer != 0;
}

float AtenCall::number(std::string_view name, float missing) const {
  const AtenValue* v = find(name);
  if (v == nullptr) return missing;
  if (v->kind == Kind::number) return static_cast<float>(v->number);
  if (v->kind == Kind::integer && !v->free) return static_cast<float>(v->integer);
  throw AtenUnknown{"an argument " + std::string(name) + " that is no known number"};
}

Ints AtenCall::ints(std::string_view name, const Ints& missing) const {
  const AtenValue* v = find(name);
  if (v == nullptr) return missing;
  if (v->kind == Kind::integer && !v->free) return {v->integer};
  if (v->kind != Kind::list)
    throw AtenUnknown{"an argument " + std::string(name) + " that is no list of integers"};
  Ints out;
  for (const AtenValue& i : v->items) {
    if (i.kind != Kind::integer || i.free)
      throw AtenUnknown{"an argument " + std::string(name) + " that is no list of integers"};
    out.push_back(i.integer);
  }
  return out.empty() ? missing : out;
}

std::int64_t aten_axis(GraphBuilder& b, ValueId x, std::int64_t axis, int more) {
  const std::int64_t rank = b.rank(x) + more;
  if (axis < -rank || axis >= rank) throw bad_input("axis {} of a tensor of rank {}", axis, rank);
  return axis < 0 ? axis + rank : axis;
}

Ints aten_axes(GraphBuilder& b, ValueId x, const AtenCall& c) {
  Ints axes = c.ints("dim", {});
  for (std::int64_t& a : axes) a = aten_axis(b, x, a);
  if (axes.empty())
    for (int a = 0; a < b.rank(x); ++a) axes.push_back(a);
  return axes;
}

Ints free_extents(const AtenCall& c, std::string_view name) {
  const AtenValue* v = c.find(name);
  if (v != nullptr && v->kind == Kind::zeros) throw AtenUnknown{"extents of another kind"};
  if (v == nullptr || (v->kind != Kind::list && v->kind != Kind::integer))
    throw AtenUnknown{"an argument " + std::string(name) + " that is no list of integers"};
  Ints out;
  const auto add = [&](const AtenValue& i) {
    if (i.kind != Kind::integer)
      throw AtenUnknown{"an argument " + std::string(name) + " that is no list of integers"};
    out.push_back(i.free ? -1 : i.integer);
  };
  if (v->kind == Kind::integer) add(*v);
  for (const AtenValue& i : v->items) add(i);
  return out;
}

ValueId first_tensor(const AtenCall& c, const std::string& op) {
  ValueId x = c.tensor("self");
  if (x == kAbsent) x = c.tensor("input");
  if (x == kAbsent) throw AtenUnknown{"a call of " + op + " without a tensor"};
  return x;
}

std::span<const std::string_view> aten_arguments(std::string_view op, std::size_t places) {
  static constexpr std::array<std::string_view, 3> kRange{"start", "end", "step"};
  if (op == "arange" && places > 1) return kRange;
  // An op that changes its operand in place (relu_) has the same name without the line.
  for (const std::string_view name : {op, plain_op(op)})
    for (const std::span<const AtenSignature> family :
         {std::span<const AtenSignature>(kSignatures), shape_signatures(), math_signatures(),
          layer_signatures()})
      for (const AtenSignature& s : family)
        if (s.op == name) {
          std::size_t n = 0;
          while (n < s.arguments.size() && !s.arguments[n].empty()) ++n;
          return std::span(s.arguments).first(n);
        }
  return {};
}

std::vector<ValueId> translate_aten(GraphBuilder& b, const std::string& called,
                                    const std::string& name, const AtenCall& c) {
  std::string op(plain_op(called));
  if (op == "true_divide" || op == "divide") op = "div";
  if (op == "multiply") op = "mul";
  if (op == "subtract") op = "sub";
  if (op == "lstm" || op == "gru" || op == "rnn_tanh" || op == "rnn_relu")
    return recurrent_aten(b, op, name, c);
  if (op == "embedding")
    return {b.op("gather", name, {c.tensor("weight"), c.tensor("indices")},
                 {{"axis", std::int64_t{0}}})};
  if (op == "cat") {
    const std::vector<ValueId> in = c.tensors("tensors");
    if (in.empty()) throw bad_input("a concatenation of nothing");
    return {b.op("concat", name, in, {{"axis", aten_axis(b, in[0], c.integer("dim", 0))}})};
  }
  for (const auto family : {translate_shapes, translate_math, translate_layers})
    if (auto made = family(b, op, name, c)) return *made;
  ValueId x = first_tensor(c, op);
  if (op.starts_with("conv") || op == "_convolution") return {convolution(b, op, name, x, c)};
  if (op.starts_with("max_pool") || op.starts_with("avg_pool")) return {pooling(b, op, name, x, c)};
  if (op == "batch_norm") return {batch_norm(b, name, x, c)};
  if (op == "layer_norm" || op == "group_norm") return {affine_norm(b, op, name, x, c)};
  if (op == "linear") return {linear(b, name, x, c)};
  if (op == "addmm") {
    if (c.number("alpha", 1) != 1 || c.number("beta", 1) != 1)
      throw AtenUnknown{"addmm with factors"};
    return {b.op("gemm", name, {c.tensor("mat1"), c.tensor("mat2"), x})};
  }
  if (op == "matmul" || op == "mm" || op == "bmm")
    return {b.op("matmul", name, {x, c.tensor("other")})};
  if (op == "t" || op == "transpose" || op == "permute") {
    Ints perm = c.ints("dims", {});
    if (op != "permute") {
      for (int a = 0; a < b.rank(x); ++a) perm.push_back(a);
      const bool matrix = op == "t";
      std::swap(
          perm.at(static_cast<std::size_t>(aten_axis(b, x, matrix ? 0 : c.integer("dim0", 0)))),
          perm.at(static_cast<std::size_t>(aten_axis(b, x, matrix ? -1 : c.integer("dim1", 1)))));
    }
    for (std::int64_t& p : perm) p = aten_axis(b, x, p);
    return {b.transpose(name, x, perm)};
  }
  if (op == "flatten") {
    const std::int64_t begin = aten_axis(b, x, c.integer("start_dim", 0)),
                       end = aten_axis(b, x, c.integer("end_dim", -1));
    if (begin == 1 && end == b.rank(x) - 1) return {b.op("flatten", name, {x})};
    if (begin >= end) return {x};
    const Ints dims = b.dims(x);
    Ints to;
    for (std::int64_t a = 0; a < b.rank(x); ++a)
      if (a < begin)
        to.push_back(0);
      else if (a == begin)
        to.push_back(-1);
      else if (a > end)
        to.push_back(dims[static_cast<std::size_t>(a)]);
    if (std::ranges::count(to, -1) > 1) throw AtenUnknown{"flatten with two free extents"};
    return {b.reshape(name, x, to)};
  }
  if (op == "view" || op == "reshape") return {viewed(b, name, x, c)};
  if (op == "squeeze" && c.find("dim") == nullptr) return {b.op(op, name, {x})};
  if (op == "squeeze") {
    // An axis of another extent than 1 stays.
    Ints axes;
    for (const std::int64_t a : aten_axes(b, x, c))
      if (b.dims(x)[static_cast<std::size_t>(a)] == 1) axes.push_back(a);
    return {axes.empty() ? x : b.op(op, name, {x}, {{"axes", axes}})};
  }
  if (op == "unsqueeze")
    return {b.op(op, name, {x}, {{"axes", Ints{aten_axis(b, x, c.integer("dim", 0), 1)}}})};
  if (op == "softmax" || op == "log_softmax") {
    x = constant_cast(b, name, x, c);
    return {b.op(op, name, {x}, {{"axis", c.integer("dim", -1)}})};
  }
  if (op == "dropout" || op == "feature_dropout") {
    if (c.flag("train", false)) throw AtenUnknown{op + " in training"};
    return {x};
  }
  if (op == "contiguous" || op == "clone" || op == "detach") return {x};
  if (op == "mean" || op == "sum") {
    // sum(x, dtype) has its type where the axes stand.
    x = constant_cast(b, name, x, c);
    if (op == "sum" && b.dtype(x) == DType::boolean) x = aten_cast(b, name, x, DType::i64);
    return {b.op("reduce_" + op, name, {x},
                 {{"axes", c.ints("dim", {})}, {"keepdims", c.flag("keepdim", false)}})};
  }
  if (op == "select")
    return {b.op(
        "gather", name,
        {x, b.constant(name + ".index", Tensor::of<std::int64_t>({}, {c.integer("index", 0)}))},
        {{"axis", aten_axis(b, x, c.integer("dim", 0))}})};
  if (op == "leaky_relu")
    return {b.op(op, name, {x}, {{"alpha", c.number("negative_slope", 0.01F)}})};
  if (op == "elu") return {b.op(op, name, {x}, {{"alpha", c.number("alpha", 1)}})};
  if (op == "gelu") {
    const AtenValue* how = c.find("approximate");
    return {b.op(op, name, {x}, {{"approximate", how == nullptr ? "none" : how->text}})};
  }
  if (op == "hardtanh" || op == "relu6")
    return {b.op("hard_tanh", name, {x},
                 {{"min", op == "relu6" ? 0.0F : c.number("min_val", -1)},
                  {"max", op == "relu6" ? 6.0F : c.number("max_val", 1)}})};
  if (op == "hardsigmoid" || op == "hardswish") {
    // relu6(x + 3) / 6; both frameworks and ours with a slope of f32 1/6.
    const ValueId y = b.op("hard_sigmoid", op == "hardswish" ? name + ".gate" : name, {x},
                           {{"alpha", 1.0F / 6.0F}, {"beta", 0.5F}});
    return {op == "hardswish" ? b.op("mul", name, {x, y}) : y};
  }
  if (op == "softplus")
    return {b.op(op, name, {x},
                 {{"beta", c.number("beta", 1)}, {"threshold", c.number("threshold", 20)}})};
  if (op == "prelu") {
    ValueId slope = c.tensor("weight");
    if (slope == kAbsent) throw AtenUnknown{"prelu without slopes"};
    if (b.shape(slope).numel() > 1) {
      Ints shape(static_cast<std::size_t>(b.rank(x)) - 1, 1);
      shape.at(0) = b.shape(slope).numel();
      slope = b.reshape(name + ".slopes", slope, shape);
    }
    return {b.op(op, name, {x, slope})};
  }
  if (op == "add" || op == "sub" || op == "mul" || op == "div") return {binary(b, op, name, x, c)};
  for (const char* unary :
       {"relu", "tanh", "sigmoid", "exp", "log", "sqrt", "abs", "neg", "erf", "silu"})
    if (op == unary) return {b.op(op, name, {x})};
  throw AtenUnknown{"torch.ops.aten." + op};
}

}  // namespace etalon::pytorch_format
