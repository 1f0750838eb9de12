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

// Of the type of the first input.
ValueId scalar(const Layer& l, double value) {
  return l.g.constant(l.name + ".number", scalar_of(l.dtype(0), value));
}

ValueId matmul(const Layer& l) {
  const auto turned = [&](std::size_t i, const char* flag) {
    const ValueId v = l.input(i);
    const int r = l.rank(i);
    if (!l.flag(flag, false) || r < 2) return v;
    Ints perm;
    for (int k = 0; k < r; ++k) perm.push_back(k);
    std::swap(perm[static_cast<std::size_t>(r - 1)], perm[static_cast<std::size_t>(r - 2)]);
    return l.g.transpose(fmt::format("{}.{}", l.name, i), v, perm);
  };
  if (l.rank(0) == 2 && l.rank(1) == 2)
    return l.g.op(
        "gemm", l.name, {l.input(0), l.input(1)},
        {{"trans_a", l.flag("transpose_a", false)}, {"trans_b", l.flag("transpose_b", false)}});
  return l.g.op("matmul", l.name, {turned(0, "transpose_a"), turned(1, "transpose_b")});
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

// Whether each lower end of the input is known to lie below the upper one.
bool ascending(const Layer& l) {
  const Tensor *low = l.g.constant_of(l.input(1)), *high = l.g.constant_of(l.input(2));
  if (low == nullptr || high == nullptr || low->shape() != high->shape()) return false;
  for (std::int64_t i = 0; i < low->numel(); ++i)
    if (!(load_as_double(*low, i) < load_as_double(*high, i))) return false;
  return true;
}

// Written as its definition: clamp, scale to levels - 1 steps, round, scale back. Where the ends of
// the input may meet (a channel of zeros), what lies beyond them is told by comparisons.
ValueId fake_quantise(const Layer& l) {
  const auto n = static_cast<double>(l.integer("levels", 256));
  if (n < 2) throw bad_input("{} levels", n);
  l.g.note("FakeQuantize is written step by step, each rounds; ties go to even");
  const ValueId x = l.input(0), il = l.input(1), ih = l.input(2), ol = l.input(3), oh = l.input(4);
  const auto op = [&](const char* what, const char* role, const std::vector<ValueId>& in) {
    return l.g.op(what, fmt::format("{}.{}", l.name, role), in);
  };
  const ValueId steps_of = l.g.constant(l.name + ".levels", scalar_of(l.dtype(0), n - 1));
  const bool clamps = ascending(l);
  const ValueId held = clamps ? op("min", "high", {op("max", "low", {x, il}), ih}) : x;
  const ValueId in = op("sub", "in", {ih, il}), out = op("sub", "out", {oh, ol});
  const ValueId unit = op("div", "unit", {op("sub", "shift", {held, il}), in});
  const ValueId steps = op("round", "round", {op("mul", "steps", {unit, steps_of})});
  const ValueId back = op("mul", "back", {op("div", "part", {steps, steps_of}), out});
  if (clamps) return l.g.op("add", l.name, {back, ol});
  const ValueId inside = op("add", "inside", {back, ol});
  const ValueId below = op("less_or_equal", "below", {x, op("min", "first", {il, ih})}),
                above = op("greater", "above", {x, op("max", "last", {il, ih})});
  return l.g.op("where", l.name, {below, ol, op("where", "upper", {above, oh, inside})});
}

// Halves away from zero: floor(|x| + 1/2), where the sum is exact or x is whole.
ValueId round_away(const Layer& l) {
  const auto op = [&](const char* what, const std::vector<ValueId>& in) {
    return l.g.op(what, fmt::format("{}.{}", l.name, what), in);
  };
  const ValueId x = l.input(0), size = op("abs", {x}), down = op("floor", {size});
  const ValueId up = op("greater_or_equal", {op("sub", {size, down}), scalar(l, 0.5)});
  const ValueId whole = op("where", {up, op("add", {down, scalar(l, 1)}), down});
  // Infinities, whose distance from themselves is no number, are their own.
  return l.g.op("where", l.name, {op("less", {x, scalar(l, 0)}), op("neg", {whole}), whole});
}

// The axes named by input 2 are those of x, the others are new.
ValueId broadcast(const Layer& l) {
  const std::string mode = l.text("mode", "numpy");
  if (mode == "numpy" || mode == "bidirectional")
    return l.g.op("expand", l.name, {l.input(0), l.integers_of(1)});
  if (mode != "explicit" && mode != "none") throw bad_input("a broadcast by {}", printable(mode));
  const Ints axes = l.constant(2);
  const std::int64_t rank =
      l.known(1) ? static_cast<std::int64_t>(l.constant(1).size()) : l.extent(1, 0);
  if (!std::ranges::is_sorted(axes)) throw bad_input("an explicit broadcast that turns axes");
  Ints fresh;
  for (std::int64_t a = 0; a < rank; ++a)
    if (std::ranges::find(axes, a) == axes.end()) fresh.push_back(a);
  ValueId x = l.input(0);
  if (static_cast<std::int64_t>(l.rank(0) + fresh.size()) != rank)
    throw bad_input("{} axes of a broadcast to {}", axes.size(), rank);
  if (!fresh.empty()) x = l.g.op("unsqueeze", l.name + ".axes", {x}, {{"axes", fresh}});
  return l.g.op("expand", l.name, {x, l.integers_of(1)});
}

// Along an axis; with batch axes, each batch by its own indices.
ValueId gather(const Layer& l) {
  const Ints given = l.constant(2);
  if (given.size() != 1) throw bad_input("{} axes of a gather", given.size());
  std::int64_t batch = l.integer("batch_dims", 0);
  if (batch == 0) return l.g.op("gather", l.name, {l.input(0), l.input(1)}, {{"axis", given[0]}});
  const int rank = l.rank(0), among = l.rank(1);
  const int axis = normalize_axis(given[0], rank);
  if (batch < 0) batch += among;
  if (batch < 0 || batch > axis || batch > among)
    throw bad_input("a gather with {} batch axes along axis {}", batch, axis);
  // The axis moves behind the batch, what gather_nd gives moves back.
  Ints front;
  for (int i = 0; i < rank; ++i)
    if (i != axis) front.push_back(i);
  front.insert(front.begin() + batch, axis);
  const ValueId x = l.g.transpose(l.name + ".front", l.input(0), front);
  const ValueId at =
      l.g.op("unsqueeze", l.name + ".indices", {l.integers_of(1)}, {{"axes", Ints{-1}}});
  const ValueId y = l.g.op("gather_nd", l.name + ".rows", {x, at}, {{"batch_dims", batch}});
  // [batch, indices, between, behind] to [batch, between, indices, behind].
  const std::int64_t own = among - batch, between = axis - batch;
  Ints back;
  for (std::int64_t i = 0; i < batch; ++i) back.push_back(i);
  for (std::int64_t i = 0; i < between; ++i) back.push_back(batch + own + i);
  for (std::int64_t i = 0; i < own; ++i) back.push_back(batch + i);
  for (std::int64_t i = axis + 1; i < rank; ++i) back.push_back(own - 1 + i);
  return l.g.transpose(l.name, y, back);
}

// Its three numbers may be of several types; it counts in that of its output. A few known ones are
// a constant: axes and places are made so.
ValueId range(const Layer& l) {
  const DType to = dtype_named(l.text("output_type", std::string(name(l.dtype(0)))));
  if (to == DType::i64 && l.known(0) && l.known(1) && l.known(2)) {
    const Ints from = l.constant(0), end = l.constant(1), by = l.constant(2);
    if (from.size() == 1 && end.size() == 1 && by.size() == 1 && by[0] == 1 &&
        from[0] > -(1 << 30) && end[0] < 1 << 30 && end[0] - from[0] <= 64) {
      Ints all;
      for (std::int64_t v = from[0]; v < end[0]; ++v) all.push_back(v);
      return l.g.constant(l.name, ints_tensor(all));
    }
  }
  std::vector<ValueId> in{l.input(0), l.input(1), l.input(2)};
  for (std::size_t i = 0; i < in.size(); ++i)
    if (l.dtype(i) != to)
      in[i] = l.g.op("cast", l.name + ".cast", {in[i]}, {{"to", std::string(name(to))}});
  return l.g.op("range", l.name, in);
}

// Opset 5 gives the batch axes as one.
ValueId gather_nd(const Layer& l) {
  const std::int64_t batch = l.integer("batch_dims", 0);
  const bool joins = l.version == "opset5" && batch > 1;
  const ValueId y = l.g.op("gather_nd", joins ? l.name + ".rows" : l.name, {l.input(0), l.input(1)},
                           {{"batch_dims", batch}});
  if (!joins) return y;
  const ValueId rest = l.g.op("shape", l.name + ".extents", {y}, {{"start", batch}});
  const ValueId to = l.g.op("concat", l.name + ".shape",
                            {l.g.constant(l.name + ".batch", ints_tensor({-1})), rest},
                            {{"axis", std::int64_t{0}}});
  return l.g.op("reshape", l.name, {y, to});
}

// Blocks of any number of spatial axes: [N, blocks, C, spatial] or [N, C, blocks, spatial].
ValueId blocks(const Layer& l) {
  const bool down = l.type == "SpaceToDepth",
             first = l.text("mode", "blocks_first") == "blocks_first";
  const std::int64_t b = l.integer("block_size", 1);
  const int rank = l.rank(0);
  if (!first && l.text("mode", "") != "depth_first")
    throw bad_input("{} by {}", l.type, printable(l.text("mode", "")));
  if (!down && rank == 4)
    return l.g.op("depth_to_space", l.name, {l.input(0)},
                  {{"blocksize", b}, {"mode", std::string(first ? "DCR" : "CRD")}});
  const int k = rank - 2;
  if (k < 1 || k > 3 || b < 1 || b > 1 << 10) throw bad_input("blocks of {} of rank {}", b, rank);
  std::int64_t all = 1;
  for (int i = 0; i < k; ++i) all *= b;
  Ints split{0}, perm{0}, whole{0};
  const std::int64_t c = l.extent(0, 1);
  if (down) {
    split.push_back(c);
    whole.push_back(c * all);
    Ints kept, parts;
    for (int i = 0; i < k; ++i) {
      const std::int64_t n = l.extent(0, i + 2);
      if (n % b != 0) throw bad_input("{} elements in blocks of {}", n, b);
      split.insert(split.end(), {n / b, b});
      whole.push_back(n / b);
      kept.push_back(2 + 2 * i);
      parts.push_back(3 + 2 * i);
    }
    if (!first) perm.push_back(1);
    perm.insert(perm.end(), parts.begin(), parts.end());
    if (first) perm.push_back(1);
    perm.insert(perm.end(), kept.begin(), kept.end());
  } else {
    if (c % all != 0) throw bad_input("{} channels in blocks of {}", c, all);
    if (!first) split.push_back(c / all);
    for (int i = 0; i < k; ++i) split.push_back(b);
    if (first) split.push_back(c / all);
    const std::int64_t part = first ? 1 : 2, channel = first ? k + 1 : 1;
    perm.push_back(channel);
    whole.push_back(c / all);
    for (int i = 0; i < k; ++i) {
      const std::int64_t n = l.extent(0, i + 2);
      split.push_back(n);
      perm.insert(perm.end(), {k + 2 + i, part + i});
      whole.push_back(checked_mul(n, b));
    }
  }
  const ValueId apart = l.g.reshape(l.name + ".blocks", l.input(0), split);
  return l.g.reshape(l.name, l.g.transpose(l.name + ".turned", apart, perm), whole);
}

ValueId single(const Layer& l) {
  const std::string& t = l.type;
  // Bits of truth are the truth itself.
  constexpr std::string_view kBits = "bitwise_";
  const auto of_bits = [&](std::string_view op) {
    const bool truth = op.starts_with(kBits) && l.dtype(0) == DType::boolean;
    return truth ? op.substr(kBits.size()) : op;
  };
  if (const auto op = find(kUnary, t); !op.empty())
    return l.g.op(of_bits(op), l.name, {l.input(0)});
  if (const auto op = of_bits(find(kBinary, t)); !op.empty()) {
    if (l.text("auto_broadcast", "numpy") == "pdpd") throw bad_input("PaddlePaddle's broadcasting");
    if (t == "Divide" && !is_floating(l.dtype(0)) && l.flag("m_pythondiv", true)) {
      l.g.note(
          "Divide of integers is rounded down, as its definition says; OpenVINO's CPU plugin cuts "
          "toward zero");
      return floor_quotient(l.g, l.name, l.input(0), l.input(1));
    }
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
  if (const auto op = find(kReduce, t); !op.empty() && !l.known(1))
    return l.g.op(op, l.name, {x, l.integers_of(1)},
                  {{"keepdims", l.flag("keep_dims", false)}, {"noop_with_empty_axes", true}});
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
  if (t == "FakeQuantize") return fake_quantise(l);
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
    const ValueId three = l.g.op("add", l.name + ".shift", {x, scalar(l, 3)});
    const ValueId held = l.g.op("clip", l.name + ".clip", {three}, {{"min", 0.0F}, {"max", 6.0F}});
    return l.g.op("div", l.name, {held, scalar(l, 6)});
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
    if (l.rank(1) == 1 && l.rank(0) > 2) {
      Ints shape(static_cast<std::size_t>(l.rank(0) - 1), 1);
      shape[0] = -1;
      slope = l.g.reshape(l.name + ".slope", slope, shape);
    }
    return l.g.op("prelu", l.name, {x, slope});
  }
  if (t == "Round") {
    if (l.text("mode", "half_to_even") != "half_to_even") return round_away(l);
    return l.g.op("round", l.name, {x});
  }
  if (t == "Convert")
    return l.g.op("cast", l.name, {x},
                  {{"to", std::string(name(dtype_named(l.text("destination_type", ""))))}});
  if (t == "ConvertLike") return l.g.op("cast_like", l.name, {x, l.input(1)});
  if (t == "Squeeze" && l.has(1) && l.flag("allow_axis_skip", false)) {
    Ints axes;
    for (const std::int64_t a : l.constant(1))
      if (l.extent(0, static_cast<int>(a)) == 1) axes.push_back(a);
    return axes.empty() ? x : l.g.op("squeeze", l.name, {x}, {{"axes", axes}});
  }
  if (t == "Squeeze")
    return l.has(1) ? l.g.op("squeeze", l.name, {x}, {{"axes", l.constant(1)}})
                    : l.g.op("squeeze", l.name, {x});
  if (t == "Unsqueeze") return l.g.op("unsqueeze", l.name, {x}, {{"axes", l.constant(1)}});
  if (t == "Transpose") {
    Ints perm = l.constant(1);
    if (perm.empty())
      for (int i = l.rank(0) - 1; i >= 0; --i) perm.push_back(i);
    return l.g.transpose(l.name, x, perm);
  }
  if (t == "Concat") return l.g.op("concat", l.name, l.inputs, {{"axis", l.integer("axis", 0)}});
  if (t == "Broadcast") return broadcast(l);
  if (t == "Gather") return gather(l);
  if (t == "GatherElements")
    return l.g.op("gather_elements", l.name, {x, l.input(1)}, {{"axis", l.integer("axis", 0)}});
  if (t == "GatherND") return gather_nd(l);
  if (t == "ShapeOf") {
    const ValueId y = l.g.op("shape", l.name, {x});
    const DType to = dtype_named(l.text("output_type", "i64"));
    return to == DType::i64
               ? y
               : l.g.op("cast", l.name + ".cast", {y}, {{"to", std::string(name(to))}});
  }
  if (t == "Select") return l.g.op("where", l.name, {x, l.input(1), l.input(2)});
  if (t == "DepthToSpace" || t == "SpaceToDepth") return blocks(l);
  if (t == "CumSum")
    return l.g.op(
        "cum_sum", l.name, {x, l.input(1)},
        {{"exclusive", l.flag("exclusive", false)}, {"reverse", l.flag("reverse", false)}});
  if (t == "Range") return range(l);
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

// What a state holds before the first run, with which every run begins here.
ValueId state(const Layer& l) {
  const std::string which = l.text("variable_id", "");
  l.g.note(
      fmt::format("the state {} begins every run as the file says; what is assigned to it is not "
                  "kept",
                  printable(which)));
  const std::string shape_text = l.text("variable_shape", ""),
                    type = l.text("variable_type", "f32");
  if (l.has(0)) return l.g.op("identity", l.name, {l.input(0)});
  if (shape_text.find_first_of("?.") != std::string::npos)
    throw bad_input("a state of free extents that nothing begins");
  const Ints shape = l.integers("variable_shape");
  for (const std::int64_t n : shape)
    if (n < 0) throw bad_input("a state of free extents that nothing begins");
  return l.g.op("expand", l.name, {l.g.constant(l.name + ".zero", scalar_of(dtype_named(type), 0))},
                {{"shape", shape}});
}

std::vector<ValueId> translated(const Layer& l) {
  if (l.type == "ReadValue") return {state(l)};
  if (l.type == "Assign") {
    l.text("variable_id", "");
    return {l.input(0)};
  }
  if (auto made = translate_part(l); !made.empty()) return made;
  if (auto made = translate_resize(l); !made.empty()) return made;
  if (auto made = translate_boxes(l); !made.empty()) return made;
  if (auto made = translate_regions(l); !made.empty()) return made;
  if (auto made = translate_spectrum(l); !made.empty()) return made;
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
