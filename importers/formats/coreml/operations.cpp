// MIL's operations, as their documentation (coremltools, "MIL ops") defines them, opsets of iOS 15
// to 18. A type that is not listed here is refused by name.
#include <algorithm>

#include "engine/core/error.h"
#include "importers/containers/bytes.h"
#include "importers/formats/coreml/program.h"
#include "importers/formats/integer_quotient.h"
#include "importers/formats/scalar.h"

namespace etalon::coreml {
namespace {

using Names = std::pair<std::string_view, std::string_view>;
constexpr Names kBinary[] = {{"add", "add"},
                             {"sub", "sub"},
                             {"mul", "mul"},
                             {"real_div", "div"},
                             {"mod", "mod"},
                             {"pow", "pow"},
                             {"maximum", "max"},
                             {"minimum", "min"},
                             {"equal", "equal"},
                             {"less", "less"},
                             {"less_equal", "less_or_equal"},
                             {"greater", "greater"},
                             {"greater_equal", "greater_or_equal"},
                             {"logical_and", "and"},
                             {"logical_or", "or"},
                             {"logical_xor", "xor"}};
constexpr Names kUnary[] = {
    {"relu", "relu"},         {"sigmoid", "sigmoid"},  {"tanh", "tanh"},   {"softplus", "softplus"},
    {"softsign", "softsign"}, {"silu", "silu"},        {"abs", "abs"},     {"ceil", "ceil"},
    {"floor", "floor"},       {"round", "round"},      {"sign", "sign"},   {"exp", "exp"},
    {"exp2", "exp2"},         {"sqrt", "sqrt"},        {"sin", "sin"},     {"cos", "cos"},
    {"tan", "tan"},           {"asin", "asin"},        {"acos", "acos"},   {"atan", "atan"},
    {"sinh", "sinh"},         {"cosh", "cosh"},        {"atanh", "atanh"}, {"erf", "erf"},
    {"logical_not", "not"},   {"identity", "identity"}};
constexpr Names kReduce[] = {
    {"reduce_sum", "reduce_sum"},         {"reduce_mean", "reduce_mean"},
    {"reduce_max", "reduce_max"},         {"reduce_min", "reduce_min"},
    {"reduce_prod", "reduce_prod"},       {"reduce_l1_norm", "reduce_l1"},
    {"reduce_l2_norm", "reduce_l2"},      {"reduce_sum_square", "reduce_sum_square"},
    {"reduce_log_sum", "reduce_log_sum"}, {"reduce_log_sum_exp", "reduce_log_sum_exp"}};

template <class List>
std::string_view find(const List& list, std::string_view name) {
  for (const auto& [mil, op] : list)
    if (mil == name) return op;
  return {};
}

DType dtype_named(const std::string& name) {
  for (const auto& [mil, ours] : {Names{"fp16", "f16"},
                                  {"fp32", "f32"},
                                  {"int32", "i32"},
                                  {"int16", "i16"},
                                  {"uint16", "u16"},
                                  {"int8", "i8"},
                                  {"uint8", "u8"},
                                  {"bool", "bool"}})
    if (name == mil)
      if (const auto d = find_dtype(ours)) return *d;
  throw bad_input("the type {} is not supported", printable(name));
}

ValueId affine(Operation& o, ValueId x, double a, double b) {
  if (a != 1) x = o.g.op("mul", o.name + ".alpha", {x, o.scalar("number", x, a)});
  return o.g.op("add", o.name, {x, o.scalar("number", x, b)});
}

// pad is begin, end of each axis in turn.
Fields window(const Operation& o, int spatial) {
  const std::string kind = o.text("pad_type", "valid");
  Fields f{{"strides", o.integers("strides")}};
  if (o.has("dilations")) f.emplace_back("dilations", o.integers("dilations"));
  if (kind == "same" || kind == "same_lower") {
    f.emplace_back("auto_pad", std::string(kind == "same" ? "same_upper" : "same_lower"));
  } else if (kind == "custom") {
    const Ints pad = o.integers("pad");
    if (static_cast<int>(pad.size()) != 2 * spatial)
      throw bad_input("{} pads for {} axes", pad.size(), spatial);
    Ints begin, end;
    for (std::size_t i = 0; i < pad.size(); i += 2) {
      begin.push_back(pad[i]);
      end.push_back(pad[i + 1]);
    }
    f.emplace_back("pads_begin", begin);
    f.emplace_back("pads_end", end);
  } else if (kind != "valid") {
    throw bad_input("padding {} is not known", printable(kind));
  }
  return f;
}

ValueId convolution(Operation& o) {
  const bool up = o.type == "conv_transpose";
  const ValueId x = o.value("x"), w = o.value("weight");
  Fields f = window(o, o.g.rank(x) - 2);
  f.emplace_back("groups", o.integer("groups", 1));
  if (up && o.has("output_shape")) {
    const Ints shape = o.integers("output_shape");
    if (shape.size() < 3) throw bad_input("an output shape of rank {}", shape.size());
    f.emplace_back("output_shape", Ints(shape.begin() + 2, shape.end()));
  }
  std::vector<ValueId> in{x, w};
  if (o.has("bias")) in.push_back(o.value("bias"));
  return o.g.op(up ? "conv_transpose" : "conv", o.name, in, f);
}

ValueId pooling(Operation& o) {
  const ValueId x = o.value("x");
  Fields f = window(o, o.g.rank(x) - 2);
  f.emplace_back("kernel", o.integers("kernel_sizes"));
  f.emplace_back("ceil_mode", o.flag("ceil_mode", false));
  if (o.type == "max_pool") return o.g.op("max_pool", o.name, {x}, f);
  if (o.type == "l2_pool") return o.g.op("lp_pool", o.name, {x}, f);
  const bool excluded = o.flag("exclude_padding_from_average", false);
  f.emplace_back("count_include_pad", !excluded);
  o.g.note(fmt::format("average pooling {} padding", excluded ? "does not count" : "counts"));
  return o.g.op("avg_pool", o.name, {x}, f);
}

ValueId linear(Operation& o) {
  const ValueId x = o.value("x"), w = o.value("weight");
  if (o.g.rank(x) == 2)
    return fully_connected(o.g, o.name, x, w, o.has("bias") ? o.value("bias") : kAbsent);
  const ValueId y = o.g.op("matmul", o.has("bias") ? o.name + ".product" : o.name,
                           {x, o.g.transpose(o.name + ".weight", w, {1, 0})});
  return o.has("bias") ? o.g.op("add", o.name, {y, o.value("bias")}) : y;
}

ValueId matmul(Operation& o) {
  const auto turned = [&](const char* key, const char* flag) {
    const ValueId v = o.value(key);
    if (!o.flag(flag, false)) return v;
    const int r = o.g.rank(v);
    if (r < 2) return v;
    Ints perm;
    for (int i = 0; i < r; ++i) perm.push_back(i);
    std::swap(perm[static_cast<std::size_t>(r - 1)], perm[static_cast<std::size_t>(r - 2)]);
    return o.g.transpose(o.part(key), v, perm);
  };
  return o.g.op("matmul", o.name, {turned("x", "transpose_x"), turned("y", "transpose_y")});
}

// With scale and shift left out, 1 and 0.
ValueId weights_or(Operation& o, const char* key, ValueId x, std::int64_t n, double otherwise) {
  if (o.has(key)) return o.value(key);
  Tensor t = Tensor::uninitialized(o.g.dtype(x), {n});
  const auto bytes = t.mutable_bytes();
  for (std::int64_t i = 0; i < n; ++i) store_from_double(t.dtype(), bytes.data(), i, otherwise);
  return o.g.constant(o.part(key), std::move(t));
}

ValueId norm(Operation& o) {
  const ValueId x = o.value("x");
  const float eps = o.number("epsilon", 1e-5F);
  o.g.note(fmt::format("{}: epsilon {}", o.type, eps));
  if (o.type == "layer_norm") {
    const Ints axes = o.integers("axes");
    const int rank = o.g.rank(x);
    Ints sorted;
    for (const std::int64_t a : axes) sorted.push_back(normalize_axis(a, rank));
    std::sort(sorted.begin(), sorted.end());
    if (sorted.empty()) throw bad_input("a layer norm over no axis");
    // Axes that are not the last are brought there, and back.
    Ints front, back(static_cast<std::size_t>(rank));
    for (int a = 0; a < rank; ++a)
      if (std::ranges::find(sorted, a) == sorted.end()) front.push_back(a);
    front.insert(front.end(), sorted.begin(), sorted.end());
    if (front.size() != back.size()) throw bad_input("a layer norm over an axis twice");
    for (std::size_t a = 0; a < back.size(); ++a)
      back[static_cast<std::size_t>(front[a])] = static_cast<std::int64_t>(a);
    const ValueId turned = o.g.transpose(o.name + ".turned", x, front);
    const std::int64_t first = rank - static_cast<std::int64_t>(sorted.size());
    const Ints dims = o.g.dims(turned);
    const Shape inner{std::span<const std::int64_t>(dims).subspan(static_cast<std::size_t>(first))};
    ValueId scale = kAbsent, bias = kAbsent;
    const auto filled = [&](const char* key, double value) {
      Tensor t = Tensor::uninitialized(o.g.dtype(x), inner);
      const auto bytes = t.mutable_bytes();
      for (std::int64_t i = 0; i < t.numel(); ++i)
        store_from_double(t.dtype(), bytes.data(), i, value);
      return o.g.constant(o.part(key), std::move(t));
    };
    scale = o.has("gamma") ? o.value("gamma") : filled("gamma", 1);
    if (o.has("beta")) bias = o.value("beta");
    std::vector<ValueId> in{turned, scale};
    if (bias != kAbsent) in.push_back(bias);
    return o.g.transpose(o.name,
                         o.g.op("layer_norm", turned == x ? o.name : o.name + ".last", in,
                                {{"axis", first}, {"eps", eps}}),
                         back);
  }
  const std::int64_t c = o.g.shape(x)[1];
  const ValueId scale = weights_or(o, "gamma", x, c, 1), bias = weights_or(o, "beta", x, c, 0);
  if (o.type == "instance_norm")
    return o.g.op("instance_norm", o.name, {x, scale, bias}, {{"eps", eps}});
  return o.g.op("batch_norm", o.name, {x, scale, bias, o.value("mean"), o.value("variance")},
                {{"eps", eps}});
}

ValueId pad(Operation& o) {
  const ValueId x = o.value("x");
  const Ints pads = o.integers("pad");
  const std::string mode = o.text("mode", "constant");
  const int rank = o.g.rank(x), n = static_cast<int>(pads.size() / 2);
  if (pads.size() % 2 != 0 || n > rank) throw bad_input("{} pads for rank {}", pads.size(), rank);
  Ints begin, end, axes;  // of the last axes
  for (int i = 0; i < n; ++i) {
    begin.push_back(pads[static_cast<std::size_t>(2 * i)]);
    end.push_back(pads[static_cast<std::size_t>(2 * i + 1)]);
    axes.push_back(rank - n + i);
  }
  begin.insert(begin.end(), end.begin(), end.end());
  const std::string ours = mode == "constant"    ? "constant"
                           : mode == "reflect"   ? "reflect"
                           : mode == "replicate" ? "edge"
                                                 : "";
  if (ours.empty()) throw bad_input("padding {} is not known", printable(mode));
  return o.g.op(
      "pad", o.name, {x},
      {{"mode", ours}, {"pads", begin}, {"axes", axes}, {"value", o.number("constant_val", 0)}});
}

std::vector<ValueId> split(Operation& o) {
  Fields f{{"axis", o.integer("axis", 0)}};
  std::size_t pieces = 0;
  if (o.has("split_sizes")) {
    const Ints sizes = o.integers("split_sizes");
    pieces = sizes.size();
    f.emplace_back("split", sizes);
  } else {
    const std::int64_t n = o.integer("num_splits", 0);
    if (n < 1 || n > 1024) throw bad_input("{} pieces", n);
    pieces = static_cast<std::size_t>(n);
    f.emplace_back("num_outputs", n);
  }
  return o.g.nodes("split", o.name, {o.value("x")}, make_params(get_op("split"), f), pieces);
}

ValueId single(Operation& o) {
  const std::string& t = o.type;
  if (const auto op = find(kUnary, t); !op.empty()) return o.g.op(op, o.name, {o.value("x")});
  if (const auto op = find(kBinary, t); !op.empty())
    return o.g.op(op, o.name, {o.value("x"), o.value("y")});
  if (t == "not_equal")
    return o.g.op("not", o.name,
                  {o.g.op("equal", o.name + ".equal", {o.value("x"), o.value("y")})});
  if (t == "floor_div" && !is_floating(o.g.dtype(o.value("x"))))
    return floor_quotient(o.g, o.name, o.value("x"), o.value("y"));
  if (t == "floor_div")
    return o.g.op("floor", o.name, {o.g.op("div", o.name + ".div", {o.value("x"), o.value("y")})});
  if (const auto op = find(kReduce, t); !op.empty())
    return o.g.op(op, o.name, {o.value("x")},
                  {{"axes", o.integers("axes")}, {"keepdims", o.flag("keep_dims", false)}});
  if (t == "reduce_argmax" || t == "reduce_argmin") {
    const ValueId y =
        o.g.op(t == "reduce_argmax" ? "arg_max" : "arg_min", o.name + ".index", {o.value("x")},
               {{"axis", o.integer("axis", -1)}, {"keepdims", o.flag("keep_dims", false)}});
    return o.g.op("cast", o.name, {y}, {{"to", std::string("i32")}});
  }
  if (t == "conv" || t == "conv_transpose") return convolution(o);
  if (t == "max_pool" || t == "avg_pool" || t == "l2_pool") return pooling(o);
  if (t == "linear") return linear(o);
  if (t == "matmul") return matmul(o);
  if (t == "batch_norm" || t == "layer_norm" || t == "instance_norm") return norm(o);
  if (t == "pad") return pad(o);
  const ValueId x = t == "stack"            ? o.values("values").at(0)
                    : t == "select"         ? o.value("cond")
                    : t == "constexpr_cast" ? o.value("source_val")
                                            : o.value("x");
  const auto alpha = [&](float otherwise) { return o.number("alpha", otherwise); };
  if (t == "relu6") return o.g.op("clip", o.name, {x}, {{"min", 0.0F}, {"max", 6.0F}});
  if (t == "clip")
    return o.g.op("clip", o.name, {x}, {{"min", alpha(0)}, {"max", o.number("beta", 1)}});
  if (t == "clamped_relu") {
    const ValueId y = o.g.op("leaky_relu", o.name + ".leaky", {x}, {{"alpha", alpha(0)}});
    return o.g.op("min", o.name,
                  {y, o.scalar("number", x, static_cast<double>(o.number("beta", 0)))});
  }
  if (t == "leaky_relu") return o.g.op("leaky_relu", o.name, {x}, {{"alpha", alpha(0.01F)}});
  if (t == "elu") return o.g.op("elu", o.name, {x}, {{"alpha", alpha(1)}});
  if (t == "thresholded_relu") {
    const ValueId at_least = o.g.op("greater_or_equal", o.name + ".mask",
                                    {x, o.scalar("number", x, static_cast<double>(alpha(1)))});
    return o.g.op("where", o.name, {at_least, x, o.scalar("number", x, 0)});
  }
  if (t == "threshold")
    return o.g.op("max", o.name, {x, o.scalar("number", x, static_cast<double>(alpha(0)))});
  if (t == "sigmoid_hard")
    return o.g.op("hard_sigmoid", o.name, {x},
                  {{"alpha", alpha(0.2F)}, {"beta", o.number("beta", 0.5F)}});
  if (t == "linear_activation")
    return affine(o, x, static_cast<double>(alpha(1)), static_cast<double>(o.number("beta", 0)));
  if (t == "scaled_tanh") {
    const ValueId in = o.g.op("mul", o.name + ".beta",
                              {x, o.scalar("number", x, static_cast<double>(o.number("beta", 1)))});
    return o.g.op("mul", o.name,
                  {o.g.op("tanh", o.name + ".tanh", {in}),
                   o.scalar("number", x, static_cast<double>(alpha(1)))});
  }
  if (t == "gelu") {
    const std::string mode = o.text("mode", "EXACT");
    if (mode == "SIGMOID_APPROXIMATION") return o.g.op("silu", o.name, {x}, {{"alpha", 1.702F}});
    return o.g.op("gelu", o.name, {x},
                  {{"approximate", std::string(mode == "EXACT" ? "none" : "tanh")}});
  }
  if (t == "prelu") {
    Ints shape(static_cast<std::size_t>(std::max(o.g.rank(x) - 1, 1)), 1);
    shape[0] = -1;
    return o.g.op("prelu", o.name, {x, o.g.reshape(o.name + ".alpha", o.value("alpha"), shape)});
  }
  if (t == "flatten2d") return o.g.op("flatten", o.name, {x}, {{"axis", o.integer("axis", 1)}});
  if (t == "square") return o.g.op("mul", o.name, {x, x});
  if (t == "log" || t == "rsqrt" || t == "inverse") {
    const float eps = o.number("epsilon", t == "log" ? 1e-45F : t == "rsqrt" ? 1e-12F : 1e-4F);
    o.g.note(fmt::format("{}: epsilon {} is added first", t, eps));
    const ValueId y =
        o.g.op("add", o.name + ".epsilon", {x, o.scalar("number", x, static_cast<double>(eps))});
    return o.g.op(t == "inverse" ? "reciprocal" : t, o.name, {y});
  }
  if (t == "softmax") return o.g.op("softmax", o.name, {x}, {{"axis", o.integer("axis", -1)}});
  if (t == "local_response_norm") {
    o.g.note("LRN: alpha is divided by the window's size");
    return o.g.op("lrn", o.name, {x},
                  {{"size", o.integer("size", 5)},
                   {"alpha", alpha(1e-4F)},
                   {"beta", o.number("beta", 0.75F)},
                   {"bias", o.number("k", 1)}});
  }
  if (t == "stack") {
    std::vector<ValueId> in;
    for (const ValueId v : o.values("values"))
      in.push_back(
          o.g.op("unsqueeze", o.name + ".part", {v}, {{"axes", Ints{o.integer("axis", 0)}}}));
    return o.g.op("concat", o.name, in, {{"axis", o.integer("axis", 0)}});
  }
  if (t == "transpose") return o.g.transpose(o.name, x, o.integers("perm"));
  if (t == "expand_dims") return o.g.op("unsqueeze", o.name, {x}, {{"axes", o.integers("axes")}});
  if (t == "squeeze") return o.g.op("squeeze", o.name, {x}, {{"axes", o.integers("axes")}});
  if (t == "gather_along_axis")
    return o.g.op("gather_elements", o.name, {x, o.value("indices")},
                  {{"axis", o.integer("axis", 0)}});
  if (t == "gather_nd")
    return o.g.op("gather_nd", o.name, {x, o.value("indices")},
                  {{"batch_dims", o.integer("batch_dims", 0)}});
  if (t == "cast")
    return o.g.op("cast", o.name, {x},
                  {{"to", std::string(name(dtype_named(o.text("dtype", "fp32"))))}});
  if (t == "constexpr_cast")
    return o.g.op("cast", o.name, {x},
                  {{"to", std::string(name(dtype_named(o.text("output_dtype", "fp32"))))}});
  if (t == "select") return o.g.op("where", o.name, {x, o.value("a"), o.value("b")});
  if (t == "depth_to_space" || t == "pixel_shuffle" || t == "space_to_depth") {
    const bool back = t == "space_to_depth";
    return o.g.op(
        back ? "space_to_depth" : "depth_to_space", o.name, {x},
        {{"blocksize", o.integer(t == "pixel_shuffle" ? "upscale_factor" : "block_size", 2)},
         {"mode", std::string(t == "pixel_shuffle" ? "CRD" : "DCR")}});
  }
  if (t == "shape") {
    const ValueId y = o.g.op("shape", o.name + ".i64", {x});
    return o.g.op("cast", o.name, {y}, {{"to", std::string("i32")}});
  }
  if (t == "cumsum")
    return o.g.op("cum_sum", o.name, {x},
                  {{"axis", o.integer("axis", 0)},
                   {"exclusive", o.flag("exclusive", false)},
                   {"reverse", o.flag("reverse", false)}});
  throw bad_input("the operation {} is not supported", printable(t));
}

}  // namespace

std::vector<ValueId> translate_among(std::span<const OperationRow> rows, Operation& o) {
  for (const OperationRow& row : rows)
    if (row.type == o.type) return row.write(o);
  return {};
}

std::vector<ValueId> translate(Operation& o) {
  if (o.type == "split") return split(o);
  for (const auto family : {translate_compressed, translate_sequences, translate_places,
                            translate_sampling, translate_lists, translate_more})
    if (std::vector<ValueId> y = family(o); !y.empty()) return y;
  return {single(o)};
}

}  // namespace etalon::coreml
