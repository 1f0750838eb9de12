#include "importers/formats/cntk/ops.h"

#include <algorithm>

#include "importers/containers/bytes.h"
#include "importers/formats/scalar.h"

namespace etalon::cntk {
namespace {

// Indices that stand for sets of axes are at the upper end of int.
constexpr std::int64_t kSpecialAxis = 2147483000;

struct Same {
  std::string_view cntk, op;
};
constexpr Same kUnary[] = {{"Negate", "neg"},  {"Sigmoid", "sigmoid"}, {"StableSigmoid", "sigmoid"},
                           {"Tanh", "tanh"},   {"ReLU", "relu"},       {"RectifiedLinear", "relu"},
                           {"Exp", "exp"},     {"Log", "log"},         {"Sqrt", "sqrt"},
                           {"Floor", "floor"}, {"Abs", "abs"},         {"Reciprocal", "reciprocal"},
                           {"Sin", "sin"},     {"Cos", "cos"},         {"Cosine", "cos"},
                           {"Tan", "tan"},     {"Asin", "asin"},       {"Acos", "acos"},
                           {"Atan", "atan"},   {"Sinh", "sinh"},       {"Cosh", "cosh"},
                           {"Asinh", "asinh"}, {"Atanh", "atanh"}};
constexpr Same kBinary[] = {{"Plus", "add"},         {"Minus", "sub"},        {"Pow", "pow"},
                            {"ElementTimes", "mul"}, {"RowElementTimes", ""}, {"DiagTimes", ""}};
constexpr Same kCompare[] = {{"Equal", "equal"},
                             {"Less", "less"},
                             {"LessEqual", "less_or_equal"},
                             {"Greater", "greater"},
                             {"GreaterEqual", "greater_or_equal"}};
constexpr std::string_view kSameValue[] = {"Dropout", "Pass", "NoOp",     "StopGradient",
                                           "Combine", "Cast", "BarrierOp"};

template <class List>
std::string_view find(const List& list, std::string_view name) {
  for (const Same& s : list)
    if (s.cntk == name) return s.op;
  return {};
}

}  // namespace

Sample Ops::input(const std::string& name, DType dtype, Ints shape, int dynamic) {
  Ints dims = reversed(std::move(shape));
  for (std::int64_t& d : dims) {
    if (d < 0) d = -1;
    if (d == 0) throw bad_input("an input with an extent of 0");
  }
  dims.insert(dims.begin(), static_cast<std::size_t>(dynamic), -1);
  return {g.input(name, dtype, dims), dynamic};
}

Sample Ops::constant(const std::string& name, const Tensor& value, const Ints& shape) {
  return {g.constant(name, value.reshaped(Shape(reversed(shape)))), 0};
}

std::int64_t Ops::axis(Sample s, std::int64_t a) const {
  const int r = rank(s);
  if (a < 0) a += r;
  if (a < 0 || a >= r) throw bad_input("axis {} of a sample of rank {}", a, r);
  return s.dynamic + r - 1 - a;
}

Ints Ops::shape(Sample s) const {
  const Ints dims = g.dims(s.value);
  return reversed(Ints(dims.begin() + s.dynamic, dims.end()));
}

std::vector<Sample> Ops::aligned(const std::vector<Sample>& in) {
  int dynamic = 0, most = 0;
  for (const Sample s : in) {
    dynamic = std::max(dynamic, s.dynamic);
    most = std::max(most, rank(s));
  }
  std::vector<Sample> out;
  for (Sample s : in) {
    Ints axes;
    for (int a = s.dynamic; s.dynamic > 0 && a < dynamic; ++a) axes.push_back(a);
    const int missing = s.dynamic > 0 ? most - rank(s) : 0;
    for (int a = 0; a < missing; ++a) axes.push_back(dynamic + a);
    if (!axes.empty())
      s = {g.op("unsqueeze", g.name_of(s.value) + ".axes", {s.value}, {{"axes", axes}}),
           s.dynamic > 0 ? dynamic : 0};
    out.push_back(s);
  }
  return out;
}

Sample Ops::elementwise(std::string_view op, const std::string& name, const std::vector<Sample>& in,
                        const Fields& fields) {
  std::vector<ValueId> values;
  int dynamic = 0;
  for (const Sample s : aligned(in)) {
    values.push_back(s.value);
    dynamic = std::max(dynamic, s.dynamic);
  }
  return {g.op(op, name, values, fields), dynamic};
}

Sample Ops::reduce(const Function& f, Sample x) {
  const std::string& name = f.name.empty() ? f.uid : f.name;
  Ints axes = f.list("axisVec");
  if (axes.empty()) axes = f.list("axis");
  const std::string kind = f.text("reductionOpName");
  Ints at_axes;
  bool every = axes.empty();
  for (const std::int64_t a : axes)
    if (a > kSpecialAxis) every = true;
  if (every) {
    if (!axes.empty() && axes[0] != 2147483646)
      throw Unsupported("a reduction over the batch or the sequence");
    for (int a = 0; a < rank(x); ++a) at_axes.push_back(x.dynamic + a);
  } else {
    for (const std::int64_t a : axes) at_axes.push_back(axis(x, a));
  }
  const bool keep = every ? f.integer("reductionKeepDimensions", 0) != 0
                          : f.integer("reductionKeepDimensions", 1) != 0;
  for (const auto& [from, op] : {std::pair{"Sum", "reduce_sum"},
                                 {"Mean", "reduce_mean"},
                                 {"Max", "reduce_max"},
                                 {"Min", "reduce_min"},
                                 {"Prod", "reduce_prod"},
                                 {"LogSum", "reduce_log_sum_exp"}})
    if (kind == from)
      return {g.op(op, name, {x.value}, {{"axes", at_axes}, {"keepdims", keep}}), x.dynamic};
  if ((kind == "Argmax" || kind == "Argmin") && at_axes.size() == 1) {
    const ValueId y = g.op(kind == "Argmax" ? "arg_max" : "arg_min", name + ".index", {x.value},
                           {{"axis", at_axes[0]}, {"keepdims", keep}});
    return {g.op("cast", name, {y}, {{"to", std::string("f32")}}), x.dynamic};
  }
  throw Unsupported(fmt::format("the reduction {}", printable(kind)));
}

Sample Ops::slice(const Function& f, Sample x) {
  const std::string& name = f.name.empty() ? f.uid : f.name;
  Ints axes = f.list("axisVec"), begins = f.list("beginIndexVec"), ends = f.list("endIndexVec"),
       steps = f.list("sliceStridesVec");
  if (axes.empty()) axes = f.list("axis");
  if (begins.empty()) begins = f.list("beginIndex");
  if (ends.empty()) ends = f.list("endIndex");
  if (axes.empty() || axes.size() != begins.size() || axes.size() != ends.size())
    throw bad_input("a slice of {} axes, {} begins, {} ends", axes.size(), begins.size(),
                    ends.size());
  if (steps.empty()) steps = f.list("sliceStrides");
  steps.resize(axes.size(), 1);
  for (std::size_t i = 0; i < axes.size(); ++i) {
    if (axes[i] > kSpecialAxis) throw Unsupported("a slice of a dynamic axis");
    axes[i] = axis(x, axes[i]);
    if (ends[i] == 0) ends[i] = 1LL << 40;
    if (steps[i] < 1) throw Unsupported(fmt::format("a slice by steps of {}", steps[i]));
  }
  return {g.op("slice", name, {x.value},
               {{"starts", begins}, {"ends", ends}, {"axes", axes}, {"steps", steps}}),
          x.dynamic};
}

Sample Ops::reshape(const Function& f, Sample x) {
  const std::string& name = f.name.empty() ? f.uid : f.name;
  const Ints from = shape(x);
  const auto r = static_cast<std::int64_t>(from.size());
  Ints part = f.list("newShape");
  std::int64_t begin = f.integer("beginAxis", 0), end = f.integer("endAxis", r);
  if (begin > kSpecialAxis) begin = r;  // a new slowest axis
  if (begin < 0) begin += r;
  if (end > kSpecialAxis) end = r;
  if (end < 0) end += r;
  if (begin < 0 || begin > end || end > r) throw bad_input("axes {} to {} of {}", begin, end, r);
  Ints to(from.begin(), from.begin() + begin);
  for (const std::int64_t d : part) to.push_back(d < 0 ? -1 : d);
  to.insert(to.end(), from.begin() + end, from.end());
  to = reversed(to);
  // The dynamic axes stay where they are, by 0.
  to.insert(to.begin(), static_cast<std::size_t>(x.dynamic), 0);
  if (std::count(to.begin(), to.end(), -1) > 1) throw Unsupported("a reshape of free extents");
  return {g.reshape(name, x.value, to), x.dynamic};
}

Sample Ops::transposed(const Function& f, Sample x) {
  const std::string& name = f.name.empty() ? f.uid : f.name;
  const int r = g.rank(x.value);
  Ints perm(static_cast<std::size_t>(r));
  for (int i = 0; i < r; ++i) perm[static_cast<std::size_t>(i)] = i;
  const Ints axes = f.list("axisVec");
  if (!axes.empty()) {
    if (static_cast<int>(axes.size()) != rank(x)) throw bad_input("{} axes of {}", axes.size(), r);
    for (std::size_t i = 0; i < axes.size(); ++i)
      perm[static_cast<std::size_t>(axis(x, static_cast<std::int64_t>(i)))] = axis(x, axes[i]);
  } else {
    const Ints one = f.list("axis1"), two = f.list("axis2");
    if (one.empty() || two.empty() || one[0] > kSpecialAxis || two[0] > kSpecialAxis)
      throw Unsupported("a transpose of dynamic axes");
    std::swap(perm[static_cast<std::size_t>(axis(x, one[0]))],
              perm[static_cast<std::size_t>(axis(x, two[0]))]);
  }
  return {g.transpose(name, x.value, perm), x.dynamic};
}

Sample Ops::one_hot(const Function& f, Sample x) {
  const std::string& name = f.name.empty() ? f.uid : f.name;
  const std::int64_t classes = f.integer("numClass", 0);
  if (classes < 1 || classes > 1 << 24) throw bad_input("one of {} classes", classes);
  const Ints at = f.list("onehotAxis");
  std::int64_t behind = at.empty() ? 0 : at[0];  // the new axis, counted from the fastest one
  if (behind < 0) behind += rank(x) + 1;
  if (behind < 0 || behind > rank(x))
    throw bad_input("axis {} of one more than {}", at[0], rank(x));
  return {g.op("one_hot", name,
               {x.value,
                g.constant(name + ".classes", scalar_of(DType::i64, static_cast<double>(classes))),
                g.constant(name + ".values", Tensor::of<float>({2}, {0, 1}))},
               {{"axis", -1 - behind}}),
          x.dynamic};
}

Sample Ops::pad(const Function& f, Sample x) {
  const std::string& name = f.name.empty() ? f.uid : f.name;
  Ints pads(static_cast<std::size_t>(x.dynamic), 0);
  Ints head = reversed(f.list("paddingHead")), foot = reversed(f.list("paddingFoot"));
  const auto r = static_cast<std::size_t>(rank(x));
  const std::int64_t mode = f.integer("paddingMode", 0);
  if (head.size() != r || foot.size() != r) throw bad_input("{} pads of {} axes", head.size(), r);
  if (mode != 0 && mode != 1) throw Unsupported("symmetric padding");
  const Ints none = pads;
  pads.insert(pads.end(), head.begin(), head.end());
  pads.insert(pads.end(), none.begin(), none.end());
  pads.insert(pads.end(), foot.begin(), foot.end());
  for (const std::int64_t p : pads)
    if (p < 0 || p > 1 << 24) throw bad_input("a pad of {}", p);
  return {g.op("pad", name, {x.value},
               {{"pads", pads},
                {"mode", std::string(mode == 0 ? "constant" : "reflect")},
                {"value", static_cast<float>(f.number("paddingConstantValue", 0))}}),
          x.dynamic};
}

// The product of two samples over the product of their lengths.
Sample Ops::cosine(const std::string& name, Sample a, Sample b) {
  if (rank(a) != rank(b) || rank(a) < 1) throw Unsupported("a cosine of samples of other ranks");
  Ints axes;
  for (int i = 1; i <= rank(a); ++i) axes.push_back(-i);
  const auto product = [&](const char* role, Sample x, Sample y) {
    const Sample all = elementwise("mul", fmt::format("{}.{}", name, role), {x, y});
    return g.op("reduce_sum", fmt::format("{}.{}.sum", name, role), {all.value},
                {{"axes", axes}, {"keepdims", false}});
  };
  const ValueId lengths = g.op("mul", name + ".lengths",
                               {g.op("sqrt", name + ".a", {product("aa", a, a)}),
                                g.op("sqrt", name + ".b", {product("bb", b, b)})});
  return {g.op("div", name, {product("ab", a, b), lengths}), std::max(a.dynamic, b.dynamic)};
}

// The two fastest axes from an offset on, as far as those of another sample reach.
Sample Ops::crop(const Function& f, Sample x, Sample like) {
  const Ints offset = f.list("offset"), size = shape(like), whole = shape(x);
  if (offset.size() != 2 || size.size() < 2 || whole.size() < 2)
    throw Unsupported("a crop whose offset is not given");
  Ints ends, axes;
  for (std::size_t i = 0; i < 2; ++i) {
    if (size[i] < 1 || whole[i] < 1) throw Unsupported("a crop of free extents");
    if (offset[i] < 0 || offset[i] > whole[i] - size[i])
      throw bad_input("a crop of {} from {} of {}", size[i], offset[i], whole[i]);
    ends.push_back(offset[i] + size[i]);
    axes.push_back(axis(x, static_cast<std::int64_t>(i)));
  }
  return {g.op("slice", f.name.empty() ? f.uid : f.name, {x.value},
               {{"starts", offset}, {"ends", ends}, {"axes", axes}}),
          x.dynamic};
}

Sample Ops::translate(const Function& f, const std::vector<Sample>& in) {
  const std::string& name = f.name.empty() ? f.uid : f.name;
  const auto need = [&](std::size_t n) {
    if (in.size() < n) throw bad_input("{} inputs, expected {}", in.size(), n);
  };
  need(1);
  const Sample x = in[0];
  if (const auto op = find(kUnary, f.op); !op.empty())
    return {g.op(op, name, {x.value}), x.dynamic};
  if (std::find(std::begin(kSameValue), std::end(kSameValue), f.op) != std::end(kSameValue)) {
    if (f.op == "Dropout") g.note("dropout does nothing at inference");
    return x;
  }
  if (const auto op = find(kBinary, f.op); !op.empty()) {
    need(2);
    return elementwise(op, name, {in[0], in[1]});
  }
  if (f.op == "LogPlus") {  // log(exp(x) + exp(y)), from the larger of the two
    need(2);
    const Sample most = elementwise("max", name + ".max", {in[0], in[1]});
    Sample apart = elementwise("sub", name + ".apart", {in[0], in[1]});
    apart.value = g.op("neg", name + ".below", {g.op("abs", name + ".distance", {apart.value})});
    apart.value = g.op("log1p", name + ".log1p", {g.op("exp", name + ".exp", {apart.value})});
    return elementwise("add", name, {most, apart});
  }
  if (f.op == "NotEqual" || !find(kCompare, f.op).empty()) {
    need(2);
    const bool differs = f.op == "NotEqual";
    Sample y =
        elementwise(differs ? "equal" : find(kCompare, f.op), name + ".bool", {in[0], in[1]});
    if (differs) y.value = g.op("not", name + ".not", {y.value});
    return {g.op("cast", name, {y.value}, {{"to", std::string("f32")}}), y.dynamic};
  }
  if (f.op == "Times" || f.op == "TransposeTimes") {
    need(2);
    return times(f, in[0], in[1], f.op == "TransposeTimes");
  }
  if (f.op == "Convolution") {
    need(2);
    return window(f, in, true);
  }
  if (f.op == "Pooling") return window(f, in, false);
  if (f.op == "BatchNormalization") return batch_norm(f, in);
  if (f.op == "ReduceElements") return reduce(f, x);
  if (f.op == "Slice") return slice(f, x);
  if (f.op == "Reshape") return reshape(f, x);
  if (f.op == "TransposeAxes") return transposed(f, x);
  if (f.op == "Softmax" || f.op == "LogSoftmax") {
    const std::string_view op = f.op == "Softmax" ? "softmax" : "log_softmax";
    const Ints given = f.list("axis");
    if (!given.empty() && given[0] < kSpecialAxis)
      return {g.op(op, name, {x.value}, {{"axis", axis(x, given[0])}}), x.dynamic};
    if (rank(x) > 1) throw Unsupported("a softmax over a whole tensor");
    return {g.op(op, name, {x.value}, {{"axis", std::int64_t{-1}}}), x.dynamic};
  }
  if (f.op == "Hardmax") {
    if (rank(x) != 1) throw Unsupported("a hardmax over a whole tensor");
    return {g.op("hardmax", name, {x.value}, {{"axis", std::int64_t{-1}}}), x.dynamic};
  }
  if (f.op == "OneHot") return one_hot(f, x);
  if (f.op == "Gather") {
    need(2);
    if (f.has("axis") || in[1].dynamic != 0) throw Unsupported("a gather along another axis");
    const ValueId at = g.op("cast", name + ".at", {x.value}, {{"to", std::string("i64")}});
    return {g.op("gather", name, {in[1].value, at}, {{"axis", std::int64_t{0}}}), x.dynamic};
  }
  if (f.op == "Pad") return pad(f, x);
  if (f.op == "ConstantOp")
    return {g.op("constant_of_shape", name,
                 {g.op("shape", name + ".shape", {x.value}),
                  g.constant(name + ".value",
                             filled_f32(1, static_cast<float>(f.number("fillValue", 0))))}),
            x.dynamic};
  if (f.op == "StraightThrough") {  // -1 or 1; 0 is not above itself
    const Sample above =
        elementwise("greater", name + ".above", {x, {g.constant("zero", scalar_f32(0)), 0}});
    return {g.op("where", name,
                 {above.value, g.constant(name + ".one", scalar_f32(1)),
                  g.constant(name + ".minus_one", scalar_f32(-1))}),
            x.dynamic};
  }
  if (f.op == "Crop") {
    need(2);
    return crop(f, x, in[1]);
  }
  if (f.op == "CosDistance") {
    need(2);
    return cosine(name, in[0], in[1]);
  }
  if (f.op == "ELU")
    return {g.op("elu", name, {x.value}, {{"alpha", static_cast<float>(f.number("alpha", 1))}}),
            x.dynamic};
  if (f.op == "Clip") {
    need(3);
    return elementwise("min", name, {elementwise("max", name + ".max", {x, in[1]}), in[2]});
  }
  if (f.op == "Select") {
    need(3);
    const Sample zero{g.constant("zero", scalar_f32(0)), 0};
    Sample when = elementwise("equal", name + ".none", {x, zero});
    return elementwise("where", name, {when, in[2], in[1]});
  }
  if (f.op == "Splice" || f.op == "RowStack") {
    auto same = aligned(in);
    // Along an axis that the samples lack, which is then their slowest.
    for (Sample& s : same)
      if (const std::int64_t a = f.integer("axis", 0); a == rank(s))
        s.value = g.op("unsqueeze", name + ".axis", {s.value},
                       {{"axes", Ints{static_cast<std::int64_t>(s.dynamic)}}});
    std::vector<ValueId> values;
    for (const Sample s : same) {
      if (s.dynamic != same[0].dynamic) throw Unsupported("a splice of samples and constants");
      values.push_back(s.value);
    }
    const std::int64_t a = f.integer("axis", 0);
    if (a > kSpecialAxis) throw Unsupported("a splice along a dynamic axis");
    return {g.op("concat", name, values, {{"axis", axis(same[0], a)}}), same[0].dynamic};
  }
  if (f.op == "Squeeze") {
    Ints axes;
    for (const std::int64_t a : f.list("axisVec")) axes.push_back(axis(x, a));
    if (axes.empty())
      for (int a = 0; a < rank(x); ++a)
        if (g.dims(x.value)[static_cast<std::size_t>(x.dynamic + a)] == 1)
          axes.push_back(x.dynamic + a);
    return {g.op("squeeze", name, {x.value}, {{"axes", axes}}), x.dynamic};
  }
  if (f.op == "OptimizedRNNStack") {
    need(2);
    return rnn_stack(f, x, in[1]);
  }
  if (const auto made = sequence(f, in)) return *made;
  throw Unsupported(fmt::format("the function {}", printable(f.op)));
}

}  // namespace etalon::cntk
