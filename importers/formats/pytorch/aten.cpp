#include "importers/formats/pytorch/aten.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "engine/core/error.h"
#include "importers/formats/pytorch/aten_recurrent.h"
#include "importers/formats/translate.h"

namespace etalon::pytorch_format {
namespace {

using Kind = AtenValue::Kind;

// An op that changes its operand in place (relu_) has the same name without the line.
constexpr std::size_t kMost = 14;
struct Signature {
  std::string_view op;
  std::array<std::string_view, kMost> arguments;
};
constexpr Signature kSignatures[] = {
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
    {"adaptive_avg_pool1d", {"self", "output_size"}},
    {"adaptive_avg_pool2d", {"self", "output_size"}},
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
    {"div", {"self", "other"}},
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
  return op.size() > 1 && op.ends_with('_') ? op.substr(0, op.size() - 1) : op;
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

ValueId adaptive(GraphBuilder& b, const std::string& name, ValueId x, const AtenCall& c) {
  const auto axes = static_cast<std::size_t>(b.rank(x) - 2);
  const Ints out = spread(c.ints("output_size", {1}), axes);
  if (std::ranges::all_of(out, [](std::int64_t o) { return o == 1; }))
    return b.op("global_avg_pool", name, {x});
  const Ints dims = b.dims(x);
  Ints kernel;
  for (std::size_t a = 0; a < axes; ++a) {
    const std::int64_t in = dims[a + 2];
    if (in < 1 || out.size() != axes || out[a] < 1 || in % out[a] != 0)
      throw AtenUnknown{"an adaptive pool whose windows are not all alike"};
    kernel.push_back(in / out[a]);
  }
  return b.op("avg_pool", name, {x},
              {{"kernel", kernel}, {"strides", kernel}, {"count_include_pad", true}});
}

ValueId batch_norm(GraphBuilder& b, const std::string& name, ValueId x, const AtenCall& c) {
  if (c.flag("training", false)) throw AtenUnknown{"batch_norm in training"};
  const ValueId mean = c.tensor("running_mean"), var = c.tensor("running_var");
  if (mean == kAbsent || var == kAbsent) throw AtenUnknown{"batch_norm without statistics"};
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
  if (layer && shape.size() != 1) throw AtenUnknown{"layer_norm over several axes"};
  const std::int64_t length = layer ? shape[0] : b.shape(x).dim(1);
  ValueId weight = c.tensor("weight"), bias = c.tensor("bias");
  if (weight == kAbsent) weight = filled(b, name + ".weight", length, 1);
  if (bias == kAbsent) bias = filled(b, name + ".bias", length, 0);
  Fields fields{{"eps", c.number("eps", 1e-5F)}};
  if (layer)
    fields.emplace_back("axis", std::int64_t{-1});
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

std::int64_t axis_of(GraphBuilder& b, ValueId x, std::int64_t axis, int more = 0) {
  const std::int64_t rank = b.rank(x) + more;
  if (axis < -rank || axis >= rank) throw bad_input("axis {} of a tensor of rank {}", axis, rank);
  return axis < 0 ? axis + rank : axis;
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
    } else if (i < dims.size() && dims[i] < 0) {
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
  if (c.number("alpha", 1) != 1) throw AtenUnknown{op + " with a factor"};
  ValueId other = c.tensor("other");
  // A number of Python's that tracing made a tensor: it takes the type of the other operand.
  if (const Tensor* t = other == kAbsent ? nullptr : b.constant_of(other);
      t != nullptr && t->shape().rank() == 0 && t->dtype() != b.dtype(x) &&
      b.dtype(x) == DType::f32)
    other = b.constant(name + ".other", as_f32(*t));
  if (other == kAbsent) {
    const AtenValue* v = c.find("other");
    if (v == nullptr || b.dtype(x) != DType::f32) throw AtenUnknown{op + " of other than f32"};
    other = b.constant(name + ".other", Tensor::of<float>({}, {c.number("other", 0)}));
  }
  return b.op(op, name, {x, other});
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

std::span<const std::string_view> aten_arguments(std::string_view op) {
  for (const Signature& s : kSignatures)
    if (s.op == plain_op(op)) {
      std::size_t n = 0;
      while (n < kMost && !s.arguments[n].empty()) ++n;
      return std::span(s.arguments).first(n);
    }
  return {};
}

std::vector<ValueId> translate_aten(GraphBuilder& b, const std::string& called,
                                    const std::string& name, const AtenCall& c) {
  const std::string op(plain_op(called));
  if (op == "lstm" || op == "gru" || op == "rnn_tanh" || op == "rnn_relu")
    return recurrent_aten(b, op, name, c);
  if (op == "embedding")
    return {b.op("gather", name, {c.tensor("weight"), c.tensor("indices")},
                 {{"axis", std::int64_t{0}}})};
  if (op == "cat") {
    const std::vector<ValueId> in = c.tensors("tensors");
    if (in.empty()) throw bad_input("a concatenation of nothing");
    return {b.op("concat", name, in, {{"axis", axis_of(b, in[0], c.integer("dim", 0))}})};
  }
  ValueId x = c.tensor("self");
  if (x == kAbsent) x = c.tensor("input");
  if (x == kAbsent) throw AtenUnknown{"a call of " + op + " without a tensor"};
  if (op.starts_with("conv") || op == "_convolution") return {convolution(b, op, name, x, c)};
  if (op.starts_with("max_pool") || op.starts_with("avg_pool")) return {pooling(b, op, name, x, c)};
  if (op.starts_with("adaptive_avg_pool")) return {adaptive(b, name, x, c)};
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
          perm.at(static_cast<std::size_t>(axis_of(b, x, matrix ? 0 : c.integer("dim0", 0)))),
          perm.at(static_cast<std::size_t>(axis_of(b, x, matrix ? -1 : c.integer("dim1", 1)))));
    }
    for (std::int64_t& p : perm) p = axis_of(b, x, p);
    return {b.transpose(name, x, perm)};
  }
  if (op == "flatten") {
    const std::int64_t begin = axis_of(b, x, c.integer("start_dim", 0)),
                       end = axis_of(b, x, c.integer("end_dim", -1));
    if (begin != 1 || end != b.rank(x) - 1)
      throw AtenUnknown{"flatten of other axes than those behind the batch"};
    return {b.op("flatten", name, {x})};
  }
  if (op == "view" || op == "reshape") return {viewed(b, name, x, c)};
  if (op == "unsqueeze" || (op == "squeeze" && c.find("dim") != nullptr))
    return {b.op(op, name, {x},
                 {{"axes", Ints{axis_of(b, x, c.integer("dim", 0), op == "unsqueeze" ? 1 : 0)}}})};
  if (op == "softmax" || op == "log_softmax") {
    if (c.find("dtype") != nullptr && c.integer("dtype", 6) != 6)
      throw AtenUnknown{op + " in another type"};
    return {b.op(op, name, {x}, {{"axis", c.integer("dim", -1)}})};
  }
  if (op == "dropout" || op == "feature_dropout") {
    if (c.flag("train", false)) throw AtenUnknown{op + " in training"};
    return {x};
  }
  if (op == "contiguous" || op == "clone" || op == "detach") return {x};
  if (op == "mean" || op == "sum") {
    if (c.find("dtype") != nullptr && c.integer("dtype", 6) != 6)
      throw AtenUnknown{op + " in another type"};
    return {b.op("reduce_" + op, name, {x},
                 {{"axes", c.ints("dim", {})}, {"keepdims", c.flag("keepdim", false)}})};
  }
  if (op == "select")
    return {b.op(
        "gather", name,
        {x, b.constant(name + ".index", Tensor::of<std::int64_t>({}, {c.integer("index", 0)}))},
        {{"axis", axis_of(b, x, c.integer("dim", 0))}})};
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
