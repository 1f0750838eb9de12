// Source: the public specification NeuralNetwork.proto. Layers of the first version count axes of
// [sequence, batch, C, H, W]; the later ones (..ND, ..Broadcastable, ..Static) those of the value.
#include "importers/formats/coreml/layers.h"

#include <algorithm>

#include "engine/core/error.h"
#include "importers/containers/bytes.h"

namespace etalon::coreml {
namespace {

using Names = std::pair<const char*, const char*>;
constexpr Names kUnary[] = {
    {"ceil", "ceil"},   {"floor", "floor"}, {"sign", "sign"},    {"round", "round"},
    {"exp2", "exp2"},   {"sin", "sin"},     {"cos", "cos"},      {"tan", "tan"},
    {"asin", "asin"},   {"acos", "acos"},   {"atan", "atan"},    {"sinh", "sinh"},
    {"cosh", "cosh"},   {"tanh", "tanh"},   {"asinh", "asinh"},  {"acosh", "acosh"},
    {"atanh", "atanh"}, {"erf", "erf"},     {"copy", "identity"}};
constexpr Names kBroadcast[] = {{"addBroadcastable", "add"},
                                {"subtractBroadcastable", "sub"},
                                {"multiplyBroadcastable", "mul"},
                                {"divideBroadcastable", "div"},
                                {"powBroadcastable", "pow"},
                                {"maxBroadcastable", "max"},
                                {"minBroadcastable", "min"},
                                {"modBroadcastable", "mod"},
                                {"max", "max"},
                                {"min", "min"},
                                {"average", "mean"}};
constexpr Names kReduce[] = {{"reduceL1", "reduce_l1"},
                             {"reduceL2", "reduce_l2"},
                             {"reduceMax", "reduce_max"},
                             {"reduceMin", "reduce_min"},
                             {"reduceSum", "reduce_sum"},
                             {"reduceProd", "reduce_prod"},
                             {"reduceMean", "reduce_mean"},
                             {"reduceLogSum", "reduce_log_sum"},
                             {"reduceSumSquare", "reduce_sum_square"},
                             {"reduceLogSumExp", "reduce_log_sum_exp"}};

ValueId unary(const NetworkLayer& n, const PbMessage& p) {
  const ValueId x = n.inputs[0];
  const float scale = p.number("scale", 1), shift = p.number("shift", 0);
  ValueId y = x;
  if (scale != 1) y = n.g.op("mul", n.name + ".scale", {y, n.number(scale)});
  if (shift != 0) y = n.g.op("add", n.name + ".shift", {y, n.number(shift)});
  const auto with_epsilon = [&] {
    const float eps = p.number("epsilon", 1e-6F);
    n.g.note(fmt::format("unary: epsilon {} is added first", eps));
    return n.g.op("add", n.name + ".epsilon", {y, n.number(eps)});
  };
  switch (p.integer("type")) {
    case 0:
      return n.g.op("sqrt", n.name, {y});
    case 1:
      return n.g.op("rsqrt", n.name, {with_epsilon()});
    case 2:
      return n.g.op("reciprocal", n.name, {with_epsilon()});
    case 3:
      return n.g.op("pow", n.name, {y, n.number(p.number("alpha"))});
    case 4:
      return n.g.op("exp", n.name, {y});
    case 5:
      return n.g.op("log", n.name, {with_epsilon()});
    case 6:
      return n.g.op("abs", n.name, {y});
    case 7:
      return n.g.op("max", n.name, {y, n.number(p.number("alpha"))});
    default:
      throw bad_input("the unary function {}", p.integer("type"));
  }
}

// A weight of shape [C] or [C,H,W] beside images.
ValueId beside(const NetworkLayer& n, const PbMessage& w, const char* role, Ints dims) {
  if (dims.size() == 1 && n.g.rank(n.inputs[0]) >= 3) dims.insert(dims.end(), {1, 1});
  return n.weights(w, role, Shape(std::span(dims)));
}

ValueId upsample(const NetworkLayer& n, const PbMessage& p) {
  std::vector<float> by = p.numbers("fractionalScalingFactor");
  if (by.empty())
    for (const std::int64_t times : p.integers("scalingFactor"))
      by.push_back(static_cast<float>(times));
  if (by.size() != 2 || n.g.rank(n.inputs[0]) != 4)
    throw bad_input("an upsampling without factors");
  const bool linear = p.integer("mode") == 1;
  const std::int64_t kind = p.integer("linearUpsampleMode");
  if (kind > 2) throw bad_input("the upsampling {}", kind);
  Fields f{{"mode", std::string(linear ? "linear" : "nearest")},
           {"axes", Ints{2, 3}},
           {"coordinate_transformation_mode", std::string(!linear     ? "asymmetric"
                                                          : kind == 1 ? "align_corners"
                                                          : kind == 2 ? "half_pixel"
                                                                      : "asymmetric")}};
  const Ints dims = n.g.dims(n.inputs[0]);
  // Linear: the scales are those of the extents, which are rounded down.
  if (linear && dims[2] > 0 && dims[3] > 0)
    f.emplace_back("sizes", Ints{static_cast<std::int64_t>(by[0] * static_cast<float>(dims[2])),
                                 static_cast<std::int64_t>(by[1] * static_cast<float>(dims[3]))});
  else
    f.emplace_back("scales", by);
  if (!linear) f.emplace_back("nearest_mode", std::string("floor"));
  n.g.note("upsampling: coordinates as its mode says, written out");
  return n.g.op("resize", n.name, {n.inputs[0]}, f);
}

ValueId padding(const NetworkLayer& n, const PbMessage& p) {
  Ints begin, end;
  for (const PbMessage& b : p.message("paddingAmounts").messages("borderAmounts")) {
    begin.push_back(b.integer("startEdgeSize"));
    end.push_back(b.integer("endEdgeSize"));
  }
  begin.insert(begin.end(), end.begin(), end.end());
  const std::int64_t rank = n.g.rank(n.inputs[0]);
  const char* mode = p.has("reflection") ? "reflect" : p.has("replication") ? "edge" : "constant";
  return n.g.op("pad", n.name, {n.inputs[0]},
                {{"mode", std::string(mode)},
                 {"pads", begin},
                 {"axes", Ints{rank - 2, rank - 1}},
                 {"value", p.message("constant").number("value")}});
}

ValueId slice(const NetworkLayer& n, const PbMessage& p) {
  Ints begin = p.integers("beginIds"), end = p.integers("endIds"), steps = p.integers("strides"),
       axes, squeezed;
  const Ints begin_mask = p.integers("beginMasks"), end_mask = p.integers("endMasks"),
             squeeze = p.integers("squeezeMasks");
  if (begin.size() != end.size() || static_cast<int>(begin.size()) != n.g.rank(n.inputs[0]))
    throw bad_input("{} begins, {} ends", begin.size(), end.size());
  steps.resize(begin.size(), 1);
  const auto is = [](const Ints& m, std::size_t i) { return i < m.size() && m[i] != 0; };
  for (std::size_t i = 0; i < begin.size(); ++i) {
    axes.push_back(static_cast<std::int64_t>(i));
    if (is(squeeze, i)) {
      squeezed.push_back(static_cast<std::int64_t>(i));
      end[i] = begin[i] == -1 ? 1LL << 40 : begin[i] + 1;
      continue;
    }
    if (is(begin_mask, i)) begin[i] = steps[i] > 0 ? 0 : 1LL << 40;
    if (is(end_mask, i)) end[i] = steps[i] > 0 ? 1LL << 40 : -(1LL << 40);
  }
  const ValueId y = n.g.op("slice", n.name, {n.inputs[0]},
                           {{"starts", begin}, {"ends", end}, {"axes", axes}, {"steps", steps}});
  return squeezed.empty() ? y : n.g.op("squeeze", n.name + ".squeeze", {y}, {{"axes", squeezed}});
}

ValueId product(const NetworkLayer& n, const PbMessage& p) {
  const auto turned = [&](ValueId v, const char* flag) {
    const int r = n.g.rank(v);
    if (!p.flag(flag) || r < 2) return v;
    Ints perm;
    for (int i = 0; i < r; ++i) perm.push_back(i);
    std::swap(perm[static_cast<std::size_t>(r - 1)], perm[static_cast<std::size_t>(r - 2)]);
    return n.g.transpose(n.name + ".turned", v, perm);
  };
  const ValueId a = turned(n.inputs[0], "transposeA");
  if (n.inputs.size() > 1) return n.g.op("matmul", n.name, {a, turned(n.inputs[1], "transposeB")});
  const std::int64_t k = p.integer("weightMatrixFirstDimension"),
                     m = p.integer("weightMatrixSecondDimension");
  // Column-major there: [m,k] of ours, turned.
  const ValueId w =
      n.g.transpose(n.name + ".matrix", n.weights(p.message("weights"), "weights", {m, k}), {1, 0});
  ValueId y = n.g.op("matmul", n.name, {a, w});
  if (p.flag("hasBias"))
    y = n.g.op("add", n.name + ".sum", {y, n.weights(p.message("bias"), "bias", {m})});
  return y;
}

ValueId single(const NetworkLayer& n) {
  const PbMessage& l = n.message;
  const auto part = [&](const char* field) { return l.message(field); };
  if (l.has("loadConstantND") || l.has("loadConstant")) {
    const PbMessage p = part(l.has("loadConstantND") ? "loadConstantND" : "loadConstant");
    const Ints dims = p.integers("shape");
    return n.weights(p.message("data"), "data", Shape(std::span(dims)));
  }
  if (n.inputs.empty()) return kAbsent;
  const ValueId x = n.inputs[0];
  for (const auto& [field, op] : kUnary)
    if (l.has(field)) return n.g.op(op, n.name, {x});
  for (const auto& [field, op] : kBroadcast)
    if (l.has(field)) return n.g.op(op, n.name, n.inputs);
  for (const auto& [field, op] : kReduce)
    if (l.has(field)) {
      Ints axes = part(field).integers("axes");
      if (part(field).flag("reduceAll") || axes.empty()) {
        axes.clear();
        for (int i = 0; i < n.g.rank(x); ++i) axes.push_back(i);
      }
      return n.g.op(op, n.name, {x}, {{"axes", axes}, {"keepdims", part(field).flag("keepDims")}});
    }
  if (l.has("unary")) return unary(n, part("unary"));
  if (l.has("scale")) {
    const PbMessage p = part("scale");
    const ValueId y = n.g.op("mul", n.name,
                             {x, beside(n, p.message("scale"), "scale", p.integers("shapeScale"))});
    if (!p.flag("hasBias")) return y;
    return n.g.op("add", n.name + ".sum",
                  {y, beside(n, p.message("bias"), "bias", p.integers("shapeBias"))});
  }
  if (l.has("upsample")) return upsample(n, part("upsample"));
  if (l.has("padding")) return padding(n, part("padding"));
  if (l.has("sliceStatic")) return slice(n, part("sliceStatic"));
  if (l.has("batchedMatmul")) return product(n, part("batchedMatmul"));
  if (l.has("permute")) {
    Ints axes = part("permute").integers("axis");  // of [sequence, C, H, W]
    if (axes.size() == 4 && n.g.rank(x) == 5) {
      for (std::int64_t& a : axes)
        if (a > 0) ++a;
      axes.insert(axes.begin() + 1, 1);  // the batch stays
      return n.g.transpose(n.name, x, axes);
    }
    if (axes.size() != 4 || axes[0] != 0 || n.g.rank(x) != 4)
      throw bad_input("a permutation of the sequence");
    return n.g.transpose(n.name, x, axes);
  }
  if (l.has("transpose")) return n.g.transpose(n.name, x, part("transpose").integers("axes"));
  if (l.has("reshape")) {
    const PbMessage p = part("reshape");
    Ints to = p.integers("targetShape");
    if (to.size() == 4) to.erase(to.begin());  // the sequence
    if (p.integer("mode") == 0) {
      to.insert(to.begin(), 0);
      return n.g.reshape(n.name, x, to);
    }
    if (to.size() != 3 || n.g.rank(x) != 4)
      throw bad_input("a reshape of channels last of rank {} is not supported", n.g.rank(x));
    n.g.note("reshape: channels last, written with transposes");
    const ValueId y =
        n.g.reshape(n.name + ".reshape", n.g.transpose(n.name + ".last", x, {0, 2, 3, 1}),
                    {0, to[1], to[2], to[0]});
    return n.g.transpose(n.name, y, {0, 3, 1, 2});
  }
  if (l.has("concatND")) {
    if (part("concatND").flag("interleave")) throw bad_input("an interleaved concat");
    return n.g.op("concat", n.name, n.inputs, {{"axis", part("concatND").integer("axis")}});
  }
  if (l.has("stack")) {
    std::vector<ValueId> in;
    const std::int64_t axis = part("stack").integer("axis");
    for (const ValueId v : n.inputs)
      in.push_back(n.g.op("unsqueeze", n.name + ".part", {v}, {{"axes", Ints{axis}}}));
    return n.g.op("concat", n.name, in, {{"axis", axis}});
  }
  if (l.has("flattenTo2D"))
    return n.g.op("flatten", n.name, {x}, {{"axis", part("flattenTo2D").integer("axis")}});
  if (l.has("expandDims"))
    return n.g.op("unsqueeze", n.name, {x}, {{"axes", part("expandDims").integers("axes")}});
  if (l.has("squeeze"))
    return part("squeeze").flag("squeezeAll")
               ? n.g.op("squeeze", n.name, {x})
               : n.g.op("squeeze", n.name, {x}, {{"axes", part("squeeze").integers("axes")}});
  if (l.has("tile"))
    return n.g.op("tile", n.name, {x}, {{"repeats", part("tile").integers("reps")}});
  if (l.has("gather") && n.inputs.size() == 2)
    return n.g.op(
        "gather", n.name,
        {x, n.g.op("cast", n.name + ".indices", {n.inputs[1]}, {{"to", std::string("i32")}})},
        {{"axis", part("gather").integer("axis")}});
  if (l.has("clip"))
    return n.g.op("clip", n.name, {x},
                  {{"min", part("clip").number("minVal")}, {"max", part("clip").number("maxVal")}});
  if (l.has("clampedReLU")) {
    const ValueId y = n.g.op("leaky_relu", n.name + ".leaky", {x},
                             {{"alpha", part("clampedReLU").number("alpha")}});
    return n.g.op("min", n.name, {y, n.number(part("clampedReLU").number("beta"))});
  }
  if (l.has("gelu")) {
    const std::int64_t mode = part("gelu").integer("mode");
    if (mode == 2) return n.g.op("silu", n.name, {x}, {{"alpha", 1.702F}});
    return n.g.op("gelu", n.name, {x}, {{"approximate", std::string(mode == 0 ? "none" : "tanh")}});
  }
  if (l.has("layerNormalization")) {
    const PbMessage p = part("layerNormalization");
    const Ints dims = p.integers("normalizedShape");
    const Shape shape{std::span<const std::int64_t>(dims)};
    return n.g.op(
        "layer_norm", n.name,
        {x, n.weights(p.message("gamma"), "gamma", shape),
         n.weights(p.message("beta"), "beta", shape)},
        {{"axis", static_cast<std::int64_t>(n.g.rank(x)) - static_cast<std::int64_t>(dims.size())},
         {"eps", p.number("eps", 1e-5F)}});
  }
  return kAbsent;
}

}  // namespace

ValueId NetworkLayer::input(std::size_t i) const {
  if (i >= inputs.size()) throw bad_input("{} inputs, expected more", inputs.size());
  return inputs[i];
}

std::vector<ValueId> translate_layer(const NetworkLayer& n) {
  for (const char* field : {"split", "splitND"})
    if (n.message.has(field)) {
      if (n.inputs.empty()) throw bad_input("a split of nothing");
      const PbMessage p = n.message.message(field);
      const bool nd = field[5] != '\0';
      Fields f{
          {"axis", nd ? p.integer("axis") : std::max<std::int64_t>(n.g.rank(n.inputs[0]) - 3, 0)}};
      const Ints sizes = nd ? p.integers("splitSizes") : Ints{};
      if (sizes.empty())
        f.emplace_back("num_outputs", static_cast<std::int64_t>(n.outputs));
      else
        f.emplace_back("split", sizes);
      if (!sizes.empty() && sizes.size() != n.outputs) throw bad_input("{} sizes", sizes.size());
      return n.g.nodes("split", n.name, {n.inputs[0]}, make_params(get_op("split"), f), n.outputs);
    }
  if (std::vector<ValueId> y = translate_recurrent(n); !y.empty()) return y;
  if (std::vector<ValueId> y = translate_selection(n); !y.empty()) return y;
  for (const auto family : {translate_extents, translate_features, single})
    if (const ValueId y = family(n); y != kAbsent) return {y};
  return {};
}

}  // namespace etalon::coreml
