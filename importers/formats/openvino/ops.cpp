// Elementwise layers, reductions, products and what moves elements.
#include <algorithm>
#include <cmath>

#include "engine/core/error.h"
#include "importers/containers/bytes.h"
#include "importers/formats/integer_quotient.h"
#include "importers/formats/openvino/layer.h"
#include "importers/formats/sampling.h"
#include "importers/formats/scalar.h"
#include "importers/formats/translate.h"

namespace etalon::openvino {
namespace {

struct Names {
  std::string_view theirs, ours;
};
constexpr Names kUnary[] = {{"Relu", "relu"},         {"ReLU", "relu"},
                            {"Sigmoid", "sigmoid"},   {"Tanh", "tanh"},
                            {"TanH", "tanh"},         {"Exp", "exp"},
                            {"Log", "log"},           {"Sqrt", "sqrt"},
                            {"Abs", "abs"},           {"Negative", "neg"},
                            {"Floor", "floor"},       {"Ceiling", "ceil"},
                            {"Sign", "sign"},         {"Sin", "sin"},
                            {"Cos", "cos"},           {"Tan", "tan"},
                            {"Asin", "asin"},         {"Acos", "acos"},
                            {"Atan", "atan"},         {"Sinh", "sinh"},
                            {"Cosh", "cosh"},         {"Asinh", "asinh"},
                            {"Acosh", "acosh"},       {"Atanh", "atanh"},
                            {"Erf", "erf"},           {"HSwish", "hard_swish"},
                            {"Mish", "mish"},         {"SoftPlus", "softplus"},
                            {"SoftSign", "softsign"}, {"LogicalNot", "not"},
                            {"IsNaN", "is_nan"},      {"BitwiseNot", "bitwise_not"}};
constexpr Names kBinary[] = {{"Add", "add"},
                             {"Subtract", "sub"},
                             {"Multiply", "mul"},
                             {"Divide", "div"},
                             {"Power", "pow"},
                             {"Maximum", "max"},
                             {"Minimum", "min"},
                             {"Equal", "equal"},
                             {"Less", "less"},
                             {"LessEqual", "less_or_equal"},
                             {"Greater", "greater"},
                             {"GreaterEqual", "greater_or_equal"},
                             {"LogicalAnd", "and"},
                             {"LogicalOr", "or"},
                             {"LogicalXor", "xor"},
                             {"BitwiseAnd", "bitwise_and"},
                             {"BitwiseOr", "bitwise_or"},
                             {"BitwiseXor", "bitwise_xor"}};
constexpr Names kReduce[] = {{"ReduceSum", "reduce_sum"},      {"ReduceMean", "reduce_mean"},
                             {"ReduceMax", "reduce_max"},      {"ReduceMin", "reduce_min"},
                             {"ReduceProd", "reduce_prod"},    {"ReduceL1", "reduce_l1"},
                             {"ReduceL2", "reduce_l2"},        {"ReduceLogicalAnd", "reduce_min"},
                             {"ReduceLogicalOr", "reduce_max"}};

template <class List>
std::string_view find(const List& list, std::string_view name) {
  for (const Names& n : list)
    if (n.theirs == name) return n.ours;
  return {};
}

ValueId scalar(const Layer& l, ValueId like, double value) {
  return l.g.constant(l.name + ".number", scalar_of(l.g.dtype(like), value));
}

ValueId matmul(const Layer& l) {
  const auto turned = [&](std::size_t i, const char* flag) {
    const ValueId v = l.input(i);
    const int r = l.g.rank(v);
    if (!l.flag(flag, false) || r < 2) return v;
    Ints perm;
    for (int k = 0; k < r; ++k) perm.push_back(k);
    std::swap(perm[static_cast<std::size_t>(r - 1)], perm[static_cast<std::size_t>(r - 2)]);
    return l.g.transpose(fmt::format("{}.{}", l.name, i), v, perm);
  };
  if (l.g.rank(l.input(0)) == 2 && l.g.rank(l.input(1)) == 2)
    return l.g.op(
        "gemm", l.name, {l.input(0), l.input(1)},
        {{"trans_a", l.flag("transpose_a", false)}, {"trans_b", l.flag("transpose_b", false)}});
  return l.g.op("matmul", l.name, {turned(0, "transpose_a"), turned(1, "transpose_b")});
}

bool mask(const Ints& m, std::size_t i) { return i < m.size() && m[i] != 0; }

ValueId strided_slice(const Layer& l) {
  const Ints begins = l.constant(1), ends = l.constant(2);
  const Ints steps = l.has(3) ? l.constant(3) : Ints{};
  const Ints begin_mask = l.integers("begin_mask"), end_mask = l.integers("end_mask"),
             fresh = l.integers("new_axis_mask"), shrink = l.integers("shrink_axis_mask"),
             ellipsis = l.integers("ellipsis_mask");
  const std::int64_t rank = l.g.rank(l.input(0));
  if (begins.size() != ends.size())
    throw bad_input("{} begins, {} ends", begins.size(), ends.size());
  std::int64_t named = 0;
  for (std::size_t i = 0; i < begins.size(); ++i)
    if (!mask(fresh, i) && !mask(ellipsis, i)) ++named;
  Ints from, to, axes, by, inserted, dropped;
  std::int64_t axis = 0, out = 0;
  for (std::size_t i = 0; i < begins.size(); ++i) {
    if (mask(ellipsis, i)) {
      axis += rank - named;
      out += rank - named;
      continue;
    }
    if (mask(fresh, i)) {
      inserted.push_back(out++);
      continue;
    }
    if (axis >= rank) throw bad_input("a slice of more than {} axes", rank);
    const std::int64_t step = i < steps.size() ? steps[i] : 1;
    axes.push_back(axis);
    if (mask(shrink, i)) {
      from.push_back(begins[i]);
      to.push_back(begins[i] == -1 ? 1LL << 40 : begins[i] + 1);
      by.push_back(1);
      dropped.push_back(axis);
    } else {
      // A mask of 1 says that the number does not count.
      const bool begin_counts = begin_mask.empty() || mask(begin_mask, i) == false;
      const bool end_counts = end_mask.empty() || mask(end_mask, i) == false;
      from.push_back(begin_counts ? begins[i] : step > 0 ? 0 : 1LL << 40);
      to.push_back(end_counts ? ends[i] : step > 0 ? 1LL << 40 : -(1LL << 40));
      by.push_back(step);
      ++out;
    }
    ++axis;
  }
  ValueId y = l.g.op("slice", l.name, {l.input(0)},
                     {{"starts", from}, {"ends", to}, {"axes", axes}, {"steps", by}});
  if (!dropped.empty()) y = l.g.op("squeeze", l.name + ".squeeze", {y}, {{"axes", dropped}});
  if (!inserted.empty()) y = l.g.op("unsqueeze", l.name + ".axes", {y}, {{"axes", inserted}});
  return y;
}

ValueId reshape(const Layer& l) {
  const Tensor* t = l.g.constant_of(l.input(1));
  const bool copies = l.flag("special_zero", false);
  if (t == nullptr)
    return l.g.op("reshape", l.name, {l.input(0), l.input(1)}, {{"allowzero", !copies}});
  Ints shape = l.constant(1);
  if (!copies && std::find(shape.begin(), shape.end(), 0) != shape.end())
    return l.g.op("reshape", l.name, {l.input(0)}, {{"shape", shape}, {"allowzero", true}});
  return l.g.reshape(l.name, l.input(0), shape);
}

ValueId pad(const Layer& l) {
  Ints begin = l.constant(1);
  const Ints end = l.constant(2);
  begin.insert(begin.end(), end.begin(), end.end());
  const std::string mode = l.text("pad_mode", "constant");
  if (mode != "constant" && mode != "reflect" && mode != "edge")
    throw bad_input("padding {} is not supported", printable(mode));
  return l.g.op("pad", l.name, {l.input(0)},
                {{"mode", mode},
                 {"pads", begin},
                 {"value", l.has(3) && mode == "constant" ? l.constant_number(3) : 0.0F}});
}

std::vector<ValueId> split(const Layer& l) {
  const Ints axis = l.constant(1);
  if (axis.size() != 1) throw bad_input("{} axes of a split", axis.size());
  Fields f{{"axis", axis[0]}};
  if (l.type == "Split") {
    f.emplace_back("num_outputs", static_cast<std::int64_t>(l.outputs));
  } else {
    Ints sizes = l.constant(2);
    if (sizes.size() != l.outputs) throw bad_input("{} sizes, {} outputs", sizes.size(), l.outputs);
    std::int64_t left = l.g.shape(l.input(0))[normalize_axis(axis[0], l.g.rank(l.input(0)))];
    for (const std::int64_t s : sizes) left -= std::max<std::int64_t>(s, 0);
    for (std::int64_t& s : sizes)
      if (s < 0) s = left;
    f.emplace_back("split", sizes);
  }
  return l.g.nodes("split", l.name, {l.input(0)}, make_params(get_op("split"), f), l.outputs);
}

// Written as its definition: clamp, scale to levels - 1 steps, round, scale back.
ValueId fake_quantise(const Layer& l) {
  const auto n = static_cast<double>(l.integer("levels", 256));
  if (n < 2) throw bad_input("{} levels", n);
  l.g.note("FakeQuantize is written step by step, each rounds; ties go to even");
  const ValueId x = l.input(0), il = l.input(1), ih = l.input(2), ol = l.input(3), oh = l.input(4);
  const auto op = [&](const char* what, const char* role, const std::vector<ValueId>& in) {
    return l.g.op(what, fmt::format("{}.{}", l.name, role), in);
  };
  const ValueId held = op("min", "high", {op("max", "low", {x, il}), ih});
  const ValueId in = op("sub", "in", {ih, il}), out = op("sub", "out", {oh, ol});
  const ValueId unit = op("div", "unit", {op("sub", "shift", {held, il}), in});
  const ValueId steps = op("round", "round", {op("mul", "steps", {unit, scalar(l, x, n - 1)})});
  const ValueId back = op("mul", "back", {op("div", "part", {steps, scalar(l, x, n - 1)}), out});
  return l.g.op("add", l.name, {back, ol});
}

ValueId interpolate(const Layer& l) {
  const bool old = l.version == "opset1";
  std::string mode = l.text("mode", "nearest");
  if (old) throw bad_input("Interpolate of opset 1");
  if (mode == "linear_onnx" || mode == "linear") mode = "linear";
  if (mode != "linear" && mode != "nearest" && mode != "cubic")
    throw bad_input("interpolation {} is not supported", printable(mode));
  for (const char* key : {"pads_begin", "pads_end"})
    for (const std::int64_t p : l.integers(key))
      if (p != 0) throw bad_input("an interpolation with pads");
  const bool newest = l.version == "opset11";
  const bool sizes = l.text("shape_calculation_mode", "sizes") == "sizes";
  const std::size_t axes_at = newest ? 2 : 3;
  Fields f{
      {"mode", mode},
      {"coordinate_transformation_mode", l.text("coordinate_transformation_mode", "half_pixel")},
      {"nearest_mode", l.text("nearest_mode", "round_prefer_floor")},
      {"cubic_coeff_a", l.number("cube_coeff", -0.75F)},
      {"antialias", l.flag("antialias", false)}};
  if (l.has(axes_at)) f.emplace_back("axes", l.constant(axes_at));
  if (sizes) {
    f.emplace_back("sizes", l.constant(1));
  } else {
    const std::size_t at = newest ? 1 : 2;
    const Tensor* t = l.g.constant_of(l.input(at));
    if (t == nullptr || t->dtype() != DType::f32) throw bad_input("scales that vary");
    const auto data = t->data<float>();
    f.emplace_back("scales", std::vector<float>(data.begin(), data.end()));
  }
  return l.g.op("resize", l.name, {l.input(0)}, f);
}

// Boxes of each image and class by falling score: rows (image, class, box), the same with scores,
// how many. OpenVINO drops what overlaps by no less than the limit.
std::vector<ValueId> non_max_suppression(const Layer& l) {
  if (l.version != "opset5" && l.version != "opset9")
    throw bad_input("NonMaxSuppression of {}, which pads its rows, is not supported",
                    printable(l.version));
  if (l.flag("sort_result_descending", true))
    throw bad_input("NonMaxSuppression sorted over images and classes is not supported");
  const std::string encoding = l.text("box_encoding", "corner");
  if (encoding != "corner" && encoding != "center")
    throw bad_input("the box encoding {}", printable(encoding));
  if (l.has(5) && l.constant_number(5) != 0)
    throw bad_input("NonMaxSuppression that lowers scores is not supported");
  GraphBuilder& g = l.g;
  const auto part = [&](const char* role) { return l.name + "." + role; };
  const auto number = [&](const char* role, float v) {
    return g.constant(part(role), scalar_f32(v));
  };
  const std::int64_t most = l.has(2) ? l.constant(2).at(0) : 0;
  const float limit = l.has(3) ? l.constant_number(3) : 0.0F;
  if (!(limit > 0)) throw bad_input("NonMaxSuppression whose overlap is no number above 0");
  const ValueId rows = g.op("non_max_suppression", part("rows"),
                            {l.input(0), l.input(1), g.constant(part("most"), ints_tensor({most})),
                             number("overlap", std::nextafter(limit, 0.0F)),
                             number("least", l.has(4) ? l.constant_number(4) : 0.0F)},
                            {{"center_point_box", encoding == "center"}});
  const auto column = [&](const char* role, ValueId v, std::int64_t from, std::int64_t to) {
    return g.op("slice", part(role), {v},
                {{"starts", Ints{from}}, {"ends", Ints{to}}, {"axes", Ints{1}}});
  };
  const ValueId found = g.op("gather_nd", part("found"), {l.input(1), rows});
  const ValueId scores = g.op("concat", part("scores"),
                              {g.op("cast", part("places"), {column("image_class", rows, 0, 2)},
                                    {{"to", std::string("f32")}}),
                               g.op("unsqueeze", part("column"), {found}, {{"axes", Ints{1}}})},
                              {{"axis", std::int64_t{1}}});
  const ValueId count =
      g.op("unsqueeze", part("count"), {g.op("size", part("size"), {found})}, {{"axes", Ints{0}}});
  const DType to = dtype_named(l.text("output_type", "i64"));
  const auto typed = [&](const char* role, ValueId v) {
    return to == DType::i64 ? v : g.op("cast", part(role), {v}, {{"to", std::string(name(to))}});
  };
  return {typed("indices", rows), scores, typed("valid", count)};
}

ValueId single(const Layer& l) {
  const std::string& t = l.type;
  // Bits of truth are the truth itself.
  constexpr std::string_view kBits = "bitwise_";
  const auto of_bits = [&](std::string_view op) {
    const bool truth = op.starts_with(kBits) && l.g.dtype(l.input(0)) == DType::boolean;
    return truth ? op.substr(kBits.size()) : op;
  };
  if (const auto op = find(kUnary, t); !op.empty())
    return l.g.op(of_bits(op), l.name, {l.input(0)});
  if (const auto op = of_bits(find(kBinary, t)); !op.empty()) {
    if (l.text("auto_broadcast", "numpy") == "pdpd") throw bad_input("PaddlePaddle's broadcasting");
    if (t == "Divide" && !is_floating(l.g.dtype(l.input(0))) && l.flag("m_pythondiv", true))
      return floor_quotient(l.g, l.name, l.input(0), l.input(1));
    return l.g.op(op, l.name, {l.input(0), l.input(1)});
  }
  const ValueId x = l.input(0);
  if (t == "NotEqual")
    return l.g.op("not", l.name, {l.g.op("equal", l.name + ".equal", {x, l.input(1)})});
  if (t == "Mod" || t == "FloorMod")
    return l.g.op("mod", l.name, {x, l.input(1)}, {{"fmod", t == "Mod"}});
  if (t == "SquaredDifference") {
    const ValueId d = l.g.op("sub", l.name + ".difference", {x, l.input(1)});
    return l.g.op("mul", l.name, {d, d});
  }
  if (const auto op = find(kReduce, t); !op.empty() && l.constant(1).empty()) {
    // Over no axes: each element alone.
    if (t == "ReduceL1" || t == "ReduceL2") return l.g.op("abs", l.name, {x});
    return x;
  }
  if (const auto op = find(kReduce, t); !op.empty())
    return l.g.op(op, l.name, {x},
                  {{"axes", l.constant(1)}, {"keepdims", l.flag("keep_dims", false)}});
  if (t == "MatMul") return matmul(l);
  if (t == "Reshape") return reshape(l);
  if (t == "StridedSlice") return strided_slice(l);
  if (t == "Pad") return pad(l);
  if (t == "FakeQuantize") return fake_quantise(l);
  if (t == "Interpolate") return interpolate(l);
  if (t == "Softmax" || t == "SoftMax" || t == "LogSoftmax")
    return l.g.op(t == "LogSoftmax" ? "log_softmax" : "softmax", l.name, {x},
                  {{"axis", l.integer("axis", 1)}});
  if (t == "Clamp")
    return l.g.op("clip", l.name, {x}, {{"min", l.number("min", 0)}, {"max", l.number("max", 0)}});
  if (t == "Elu") return l.g.op("elu", l.name, {x}, {{"alpha", l.number("alpha", 1)}});
  if (t == "HardSigmoid")
    return l.g.op("hard_sigmoid", l.name, {x},
                  {{"alpha", l.constant_number(1)}, {"beta", l.constant_number(2)}});
  if (t == "Selu")
    return l.g.op("selu", l.name, {x},
                  {{"alpha", l.constant_number(1)}, {"gamma", l.constant_number(2)}});
  if (t == "HSigmoid") {
    const ValueId three = l.g.op("add", l.name + ".shift", {x, scalar(l, x, 3)});
    const ValueId held = l.g.op("clip", l.name + ".clip", {three}, {{"min", 0.0F}, {"max", 6.0F}});
    return l.g.op("div", l.name, {held, scalar(l, x, 6)});
  }
  if (t == "Swish")
    return l.g.op("silu", l.name, {x}, {{"alpha", l.has(1) ? l.constant_number(1) : 1.0F}});
  if (t == "Gelu") {
    const bool erf = l.text("approximation_mode", "ERF") == "ERF" ||
                     l.text("approximation_mode", "erf") == "erf";
    return l.g.op("gelu", l.name, {x}, {{"approximate", std::string(erf ? "none" : "tanh")}});
  }
  if (t == "PRelu" || t == "PReLU") {
    ValueId slope = l.input(1);
    if (l.g.rank(slope) == 1 && l.g.rank(x) > 2) {
      Ints shape(static_cast<std::size_t>(l.g.rank(x) - 1), 1);
      shape[0] = -1;
      slope = l.g.reshape(l.name + ".slope", slope, shape);
    }
    return l.g.op("prelu", l.name, {x, slope});
  }
  if (t == "Round") {
    if (l.text("mode", "half_to_even") != "half_to_even") throw bad_input("halves away from zero");
    return l.g.op("round", l.name, {x});
  }
  if (t == "Convert")
    return l.g.op("cast", l.name, {x},
                  {{"to", std::string(name(dtype_named(l.text("destination_type", ""))))}});
  if (t == "ConvertLike") return l.g.op("cast_like", l.name, {x, l.input(1)});
  if (t == "Squeeze")
    return l.has(1) ? l.g.op("squeeze", l.name, {x}, {{"axes", l.constant(1)}})
                    : l.g.op("squeeze", l.name, {x});
  if (t == "Unsqueeze") return l.g.op("unsqueeze", l.name, {x}, {{"axes", l.constant(1)}});
  if (t == "Transpose") {
    Ints perm = l.constant(1);
    if (perm.empty())
      for (int i = l.g.rank(x) - 1; i >= 0; --i) perm.push_back(i);
    return l.g.transpose(l.name, x, perm);
  }
  if (t == "Concat") return l.g.op("concat", l.name, l.inputs, {{"axis", l.integer("axis", 0)}});
  if (t == "Slice" && !(l.known(1) && l.known(2) && l.known(3) && (!l.has(4) || l.known(4)))) {
    std::vector<ValueId> in{x, l.input(1), l.input(2)};
    if (l.has(4)) {
      in.push_back(l.input(4));
    } else {
      Ints axes;
      for (std::int64_t i = 0; i < l.g.shape(l.input(1)).numel(); ++i) axes.push_back(i);
      in.push_back(l.g.constant(l.name + ".axes", ints_tensor(axes)));
    }
    in.push_back(l.input(3));
    for (std::size_t i = 1; i < in.size(); ++i)
      if (l.g.dtype(in[i]) != DType::i64)
        in[i] = l.g.op("cast", l.name + ".bound", {in[i]}, {{"to", std::string("i64")}});
    return l.g.op("slice", l.name, in);
  }
  if (t == "Slice") {
    const Ints starts = l.constant(1);
    Ints axes;
    for (std::size_t i = 0; i < starts.size(); ++i) axes.push_back(static_cast<std::int64_t>(i));
    return l.g.op("slice", l.name, {x},
                  {{"starts", starts},
                   {"ends", l.constant(2)},
                   {"steps", l.constant(3)},
                   {"axes", l.has(4) ? l.constant(4) : axes}});
  }
  if (t == "Tile" && !l.known(1)) {
    ValueId by = l.input(1);
    if (l.g.dtype(by) != DType::i64)
      by = l.g.op("cast", l.name + ".by", {by}, {{"to", std::string("i64")}});
    return l.g.op("tile", l.name, {x, by});
  }
  if (t == "Tile") return l.g.op("tile", l.name, {x}, {{"repeats", l.constant(1)}});
  if (t == "Broadcast") {
    if (l.text("mode", "numpy") == "explicit") throw bad_input("an explicit broadcast");
    return l.g.op("expand", l.name, {x, l.input(1)});
  }
  if (t == "Gather") {
    if (l.integer("batch_dims", 0) != 0) throw bad_input("a gather with batch axes");
    const Ints axis = l.constant(2);
    if (axis.size() != 1) throw bad_input("{} axes of a gather", axis.size());
    return l.g.op("gather", l.name, {x, l.input(1)}, {{"axis", axis[0]}});
  }
  if (t == "GatherElements")
    return l.g.op("gather_elements", l.name, {x, l.input(1)}, {{"axis", l.integer("axis", 0)}});
  if (t == "GatherND")
    return l.g.op("gather_nd", l.name, {x, l.input(1)},
                  {{"batch_dims", l.integer("batch_dims", 0)}});
  if (t == "ShapeOf") {
    const ValueId y = l.g.op("shape", l.name, {x});
    const DType to = dtype_named(l.text("output_type", "i64"));
    return to == DType::i64
               ? y
               : l.g.op("cast", l.name + ".cast", {y}, {{"to", std::string(name(to))}});
  }
  if (t == "Select") return l.g.op("where", l.name, {x, l.input(1), l.input(2)});
  if (t == "DepthToSpace" || t == "SpaceToDepth")
    return l.g.op(
        t == "DepthToSpace" ? "depth_to_space" : "space_to_depth", l.name, {x},
        {{"blocksize", l.integer("block_size", 1)},
         {"mode", std::string(l.text("mode", "blocks_first") == "blocks_first" ? "DCR" : "CRD")}});
  if (t == "CumSum")
    return l.g.op(
        "cum_sum", l.name, {x, l.input(1)},
        {{"exclusive", l.flag("exclusive", false)}, {"reverse", l.flag("reverse", false)}});
  if (t == "Range") {
    // Its three numbers may be of several types; it counts in that of its output.
    const DType to = dtype_named(l.text("output_type", std::string(name(l.g.dtype(x)))));
    std::vector<ValueId> in{x, l.input(1), l.input(2)};
    for (ValueId& v : in)
      if (l.g.dtype(v) != to)
        v = l.g.op("cast", l.name + ".cast", {v}, {{"to", std::string(name(to))}});
    return l.g.op("range", l.name, in);
  }
  if (t == "NormalizeL2") {
    const bool add = l.text("eps_mode", "add") == "add";
    if (l.constant(1).empty()) throw bad_input("NormalizeL2 over no axes");
    l.g.note(fmt::format("NormalizeL2: epsilon {} is {} the sum of squares", l.number("eps", 0),
                         add ? "added to" : "the least of"));
    return l.g.op("lp_norm", l.name, {x},
                  {{"p", 2.0F},
                   {"axes", l.constant(1)},
                   {"eps", l.number("eps", 0)},
                   {"eps_in", std::string(add ? "sum_add" : "sum_max")}});
  }
  if (t == "GridSample") {
    const std::string mode = l.text("mode", "bilinear"), pad = l.text("padding_mode", "zeros");
    GridSampling how;
    how.corners = l.flag("align_corners", false);
    if (mode != "bilinear" && mode != "nearest" && mode != "bicubic")
      throw bad_input("GridSample's mode is '{}', expected bilinear, nearest or bicubic",
                      printable(mode));
    if (pad != "zeros" && pad != "border" && pad != "reflection")
      throw bad_input("GridSample's padding_mode is '{}', expected zeros, border or reflection",
                      printable(pad));
    how.mode = mode == "bilinear"  ? GridSampling::Mode::linear
               : mode == "nearest" ? GridSampling::Mode::nearest
                                   : GridSampling::Mode::cubic;
    how.outside = pad == "zeros"    ? GridSampling::Outside::zeros
                  : pad == "border" ? GridSampling::Outside::border
                                    : GridSampling::Outside::reflection;
    return grid_sample(l.g, l.name, x, l.input(1), how);
  }
  throw bad_input("the layer type {} ({}) is not supported", printable(t), printable(l.version));
}

// What a setting means is known, or it changes no number of the outputs that are read.
bool changes_nothing(const Layer& l, std::string_view key, std::string_view value) {
  if (value.empty() || value == "false") return true;
  if (key == "auto_broadcast") return value == "numpy" || value == "none";
  if (key == "axis") return l.type == "MaxPool";  // of its indices
  constexpr std::string_view kSilent[] = {"m_pythondiv", "num_splits", "index_element_type",
                                          "output_type", "hidden_size"};
  return std::ranges::find(kSilent, key) != std::end(kSilent);
}

std::vector<ValueId> translated(const Layer& l) {
  if (l.type == "Split" || l.type == "VariadicSplit") return split(l);
  if (l.type == "NonMaxSuppression") return non_max_suppression(l);
  if (auto made = translate_window(l); !made.empty()) return made;
  if (auto made = translate_recurrent(l); !made.empty()) return made;
  if (auto made = translate_selection(l); !made.empty()) return made;
  if (auto made = translate_image(l); !made.empty()) return made;
  return {single(l)};
}

}  // namespace

std::vector<ValueId> translate(const Layer& l) {
  auto made = translated(l);
  for (const auto& [key, value] : l.data)
    if (!l.read->contains(key) && !changes_nothing(l, key, value))
      throw bad_input("{} with {}={} has no translation", printable(l.type), printable(key),
                      printable(value));
  return made;
}

}  // namespace etalon::openvino
