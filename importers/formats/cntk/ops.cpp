#include "importers/formats/cntk/ops.h"

#include <algorithm>

#include "importers/containers/bytes.h"

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

std::int64_t at(const Ints& list, std::size_t i, std::int64_t otherwise) {
  if (list.empty()) return otherwise;
  return list.size() == 1 ? list[0] : i < list.size() ? list[i] : otherwise;
}

Ints reversed(Ints v) {
  std::reverse(v.begin(), v.end());
  return v;
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

// Convolution (kernel first, then x) and pooling. Where a window pads by itself, its centres are
// laid evenly: CNTK's own rule, which differs from SAME where a stride leaves something over.
Sample Ops::window(const Function& f, const std::vector<Sample>& in, bool convolution) {
  const std::string& name = f.name.empty() ? f.uid : f.name;
  Sample x = in[convolution ? 1 : 0];
  if (x.dynamic > 1) throw Unsupported("a window over a sequence");
  const int spatial = rank(x) - 1;
  if (spatial < 1 || spatial > 3)
    throw Unsupported(fmt::format("a window over a sample of rank {}", spatial + 1));
  if (x.dynamic == 0) x.value = g.op("unsqueeze", name + ".batch", {x.value}, {{"axes", Ints{0}}});
  const Ints extents = shape({x.value, 1});
  const bool up = convolution && f.integer("transpose", 0) != 0;
  Ints kernel;
  if (convolution) {
    const Ints w = shape(in[0]);
    if (static_cast<int>(w.size()) != spatial + 2)
      throw Unsupported(
          fmt::format("a kernel of rank {} over a sample of rank {}", w.size(), spatial + 1));
    kernel.assign(w.begin(), w.begin() + spatial);
  } else {
    kernel = f.list("poolingWindowShape");
    const bool unknown =
        std::any_of(kernel.begin(), kernel.end(), [](std::int64_t k) { return k <= 0; });
    const std::int64_t type = f.integer("poolingType", 0);
    if (type > 1) throw Unsupported(fmt::format("pooling of type {}", type));
    if (unknown || kernel.empty())
      return {g.op(type == 0 ? "global_max_pool" : "global_avg_pool", name, {x.value}), 1};
    if (kernel.size() == 1 && spatial > 1)
      kernel.resize(static_cast<std::size_t>(spatial), kernel[0]);
    if (static_cast<int>(kernel.size()) > spatial + 1 ||
        (static_cast<int>(kernel.size()) == spatial + 1 && kernel.back() != 1))
      throw Unsupported("a pooling over channels");
    kernel.resize(static_cast<std::size_t>(spatial), 1);
  }
  const Ints strides = f.list("strides"), automatic = f.list("autoPadding"),
             lower = f.list("lowerPad"), upper = f.list("upperPad"), dilations = f.list("dilation"),
             wanted = f.list("outputShape");
  for (const std::int64_t shared : f.list("sharing"))
    if (shared == 0) throw Unsupported("a convolution that does not share its weights");
  WindowFields w;
  Ints crop_begin(static_cast<std::size_t>(spatial), 0);
  Ints output_padding;
  bool crops = false, even = false;
  for (std::size_t i = 0; i < static_cast<std::size_t>(spatial); ++i) {
    const std::int64_t s = at(strides, i, 1), d = at(dilations, i, 1), n = extents[i];
    if (s < 1 || d < 1 || s > (1 << 20) || d > (1 << 20) || kernel[i] < 1 || kernel[i] > (1 << 20))
      throw bad_input("a window of {} with stride {} and dilation {}", kernel[i], s, d);
    const std::int64_t reach = (kernel[i] - 1) * d + 1;
    std::int64_t lo = at(lower, i, 0), hi = at(upper, i, 0);
    const std::int64_t out = up && wanted.size() > i ? wanted[i] : 0;
    if (at(automatic, i, 0) != 0) {
      even = true;
      if (n < 0) throw Unsupported("automatic padding of a free extent");
      const std::int64_t whole = up ? (out > 0 ? out : (n - 1) * s + 1) : n;
      const std::int64_t steps = up ? n : (n - 1) / s + 1;
      const std::int64_t extra = whole - ((steps - 1) * s + 1);
      lo = (reach - 1) / 2 - extra / 2;
      hi = (reach - 1) - (reach - 1) / 2 - (extra - extra / 2);
    }
    if (lo < 0 && !up) {  // a first centre behind the first element
      crop_begin[i] = -lo;
      crops = true;
    }
    w.kernel.push_back(kernel[i]);
    w.strides.push_back(s);
    w.dilations.push_back(d);
    w.pads_begin.push_back(std::max<std::int64_t>(lo, 0));
    w.pads_end.push_back(std::max<std::int64_t>(hi, 0));
    std::int64_t more = 0;
    if (up) {
      if (lo < 0) throw Unsupported("a transposed convolution that is padded at its begin");
      more = std::max<std::int64_t>(-hi, 0);
      if (out > 0 && n > 0 && at(automatic, i, 0) == 0)
        more = out - ((n - 1) * s + reach - lo - hi);
      if (more < 0 || more >= s) throw Unsupported("an output shape that its strides do not give");
    }
    output_padding.push_back(more);
  }
  if (even)
    g.note(
        "automatic padding lays the windows' centres evenly, CNTK's own rule: it is written as "
        "explicit pads");
  for (Ints* v : {&w.kernel, &w.strides, &w.dilations, &w.pads_begin, &w.pads_end, &crop_begin,
                  &output_padding})
    *v = reversed(*v);
  if (crops) {
    Ints axes, ends(static_cast<std::size_t>(spatial), 1LL << 40);
    for (int a = 0; a < spatial; ++a) axes.push_back(2 + a);
    x.value = g.op("slice", name + ".crop", {x.value},
                   {{"starts", crop_begin}, {"ends", ends}, {"axes", axes}});
  }
  Fields fields = window_fields(w, !convolution);
  if (convolution) {
    fields.emplace_back("groups", std::max<std::int64_t>(1, f.integer("groups", 1)));
    if (up) fields.emplace_back("output_padding", output_padding);
    return {g.op(up ? "conv_transpose" : "conv", name, {x.value, in[0].value}, fields), 1};
  }
  const bool ceil = f.integer("ceilOutDim", 0) != 0;
  fields.emplace_back("ceil_mode", ceil);
  if (ceil) g.note("ceilOutDim: the output extent is rounded up");
  if (f.integer("poolingType", 0) == 0) return {g.op("max_pool", name, {x.value}, fields), 1};
  const bool counted = f.integer("includePad", 0) != 0;
  fields.emplace_back("count_include_pad", counted);
  g.note(fmt::format("average pooling {} padding", counted ? "counts" : "does not count"));
  return {g.op("avg_pool", name, {x.value}, fields), 1};
}

// a [K.., M..] times b [K..]: both reversed, so b's flat sample times a as a matrix.
Sample Ops::times(const Function& f, Sample a, Sample b, bool transposed) {
  const std::string& name = f.name.empty() ? f.uid : f.name;
  const std::int64_t out_rank = f.integer("outputRank", 1);
  const int a_rank = rank(a);
  if (a.dynamic != 0) throw Unsupported("a product whose left operand changes with the sample");
  if (out_rank < 0 || out_rank > a_rank) throw bad_input("{} output axes of {}", out_rank, a_rank);
  const Ints dims = g.dims(a.value);
  if (transposed && (a_rank != 2 || out_rank != 1))
    throw Unsupported("a transposed product of tensors");
  const auto inner_axes = static_cast<std::size_t>(a_rank - static_cast<int>(out_rank));
  std::int64_t k = 1, m = 1;
  Ints tail;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    const bool inner = transposed ? i == 1 : i < inner_axes;
    (inner ? k : m) *= dims[i];
    if (!inner) tail.push_back(dims[i]);
  }
  if (rank(b) < static_cast<int>(inner_axes))
    throw Unsupported("a product that maps fewer axes than its left operand has");
  const int kept = rank(b) - static_cast<int>(inner_axes);  // axes of b that are not summed
  ValueId w = g.reshape(name + ".matrix", a.value, transposed ? Ints{m, k} : Ints{k, m});
  if (transposed) w = g.transpose(name + ".transposed", w, {1, 0});
  Ints flat(static_cast<std::size_t>(b.dynamic + kept), 0);
  flat.push_back(k);
  ValueId x = b.value;
  if (inner_axes != 1) x = g.reshape(name + ".flat", x, flat);
  const bool plain = g.rank(x) == 2;
  ValueId y = g.op(plain ? "gemm" : "matmul", name, {x, w});
  if (tail.size() != 1) {
    Ints to(static_cast<std::size_t>(b.dynamic + kept), 0);
    to.insert(to.end(), tail.begin(), tail.end());
    y = g.reshape(name + ".shape", y, to);
  }
  return {y, b.dynamic};
}

Sample Ops::batch_norm(const Function& f, const std::vector<Sample>& in) {
  if (in.size() < 5) throw bad_input("{} inputs of a batch norm", in.size());
  const std::string& name = f.name.empty() ? f.uid : f.name;
  const bool spatial = f.integer("spatial", 1) != 0;
  const auto eps = static_cast<float>(f.number("epsilon", 1e-5));
  g.note(fmt::format("batch norm: {}, eps {} (a double in the file, rounded to f32)",
                     spatial ? "by channel" : "by element", eps));
  if (in[0].dynamic > 1) throw Unsupported("a batch norm over a sequence");
  std::vector<ValueId> values{in[0].value};
  ValueId x = in[0].value;
  Ints back;
  if (!spatial && rank(in[0]) > 1) {
    for (const std::int64_t d : g.dims(x)) back.push_back(d);
    back[0] = 0;
    x = g.op("flatten", name + ".flat", {x});
    values[0] = x;
  }
  const Shape channels{g.shape(x)[1]};
  for (std::size_t i = 1; i < 5; ++i) {
    const Tensor* t = g.constant_of(in[i].value);
    if (t == nullptr) throw Unsupported("a batch norm whose statistics are computed");
    if (t->numel() != channels.numel())
      throw bad_input("input {} has {} elements for {} channels", i, t->numel(), channels.numel());
    values.push_back(g.reshape(name + ".channels", in[i].value, {channels[0]}));
  }
  ValueId y = g.op("batch_norm", name, values, {{"eps", eps}});
  if (!back.empty()) y = g.reshape(name + ".shape", y, back);
  return {y, in[0].dynamic};
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
  steps.resize(axes.size(), 1);
  for (std::size_t i = 0; i < axes.size(); ++i) {
    if (axes[i] > kSpecialAxis) throw Unsupported("a slice of a dynamic axis");
    axes[i] = axis(x, axes[i]);
    if (ends[i] == 0) ends[i] = 1LL << 40;
    if (steps[i] != 1) throw Unsupported("a slice with steps");
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
  if (begin < 0) begin += r;
  if (end > kSpecialAxis || end == 0) end = r;
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

// Layers of cuDNN's flat block: for each layer and direction W and R, gates i f c o (LSTM) or
// r z h (GRU); behind all of them, in the same sequence, the two biases.
Sample Ops::rnn_stack(const Function& f, Sample x, Sample weights) {
  const std::string& name = f.name.empty() ? f.uid : f.name;
  const std::string kind = f.text("recurrentOp");
  const std::int64_t h = f.integer("hiddenSize", 0), layers = f.integer("numLayers", 1),
                     directions = f.integer("bidirectional", 0) != 0 ? 2 : 1;
  const std::string op = kind == "lstm" ? "lstm" : kind == "gru" ? "gru" : "rnn";
  const std::int64_t gates = op == "lstm" ? 4 : op == "gru" ? 3 : 1;
  const Tensor* all = g.constant_of(weights.value);
  if (all == nullptr || all->dtype() != DType::f32)
    throw Unsupported("recurrent weights that vary");
  if (x.dynamic != 2 || rank(x) != 1) throw Unsupported("a recurrent stack over no sequence");
  if (h < 1 || layers < 1 || h > all->numel() || layers > all->numel())
    throw bad_input("{} layers of {} units for {} weights", layers, h, all->numel());
  std::int64_t in = shape(x)[0], at = 0, matrices = 0;
  const auto in_of = [&](std::int64_t layer) { return layer == 0 ? in : directions * h; };
  for (std::int64_t l = 0; l < layers; ++l) matrices += directions * gates * h * (in_of(l) + h);
  const std::int64_t biases = layers * directions * gates * h * 2;
  if (in < 1 || matrices + biases != all->numel())
    throw bad_input("{} recurrent weights, expected {}", all->numel(), matrices + biases);
  g.note(fmt::format("recurrent stack: cuDNN's layout, gates {}, two biases, the state starts at 0",
                     op == "lstm"  ? "i, f, c, o"
                     : op == "gru" ? "r, z, h; the reset stands behind the product"
                                   : "h"));
  const auto data = all->data<float>();
  const auto take = [&](std::vector<float>& to, std::int64_t from, std::int64_t n) {
    to.insert(to.end(), data.begin() + from, data.begin() + from + n);
  };
  ValueId y = x.value;
  std::int64_t bias_at = matrices;
  for (std::int64_t l = 0; l < layers; ++l) {
    std::vector<float> w, r, b;
    const std::int64_t k = in_of(l);
    for (std::int64_t d = 0; d < directions; ++d) {
      take(w, at, gates * h * k);
      at += gates * h * k;
      take(r, at, gates * h * h);
      at += gates * h * h;
      take(b, bias_at, 2 * gates * h);
      bias_at += 2 * gates * h;
    }
    const std::string base = layers == 1 ? name : fmt::format("{}.{}", name, l);
    Fields fields{{"hidden_size", h},
                  {"batch_first", true},
                  {"direction", std::string(directions == 2 ? "bidirectional" : "forward")}};
    if (op == "lstm") fields.emplace_back("gates", std::string("ifco"));
    if (op == "gru") {
      fields.emplace_back("gates", std::string("rzh"));
      fields.emplace_back("linear_before_reset", true);
    }
    if (kind == "rnnReLU")
      fields.emplace_back("activations",
                          std::vector<std::string>(static_cast<std::size_t>(directions), "Relu"));
    const std::span<const float> ws(w), rs(r), bs(b);
    y = g.op(op, base,
             {y, g.constant(base + ".w", Tensor::of<float>({directions, gates * h, k}, ws)),
              g.constant(base + ".r", Tensor::of<float>({directions, gates * h, h}, rs)),
              g.constant(base + ".b", Tensor::of<float>({directions, 2 * gates * h}, bs))},
             fields);
    y = g.reshape(base + ".rows", y, {0, 0, directions * h});
  }
  return {y, 2};
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
    const auto same = aligned(in);
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
  if (f.op == "SequenceLast" || f.op == "SequenceFirst") {
    if (x.dynamic != 2) throw Unsupported("a step of what is no sequence");
    const bool last = f.op == "SequenceLast";
    const ValueId y = g.op(
        "slice", name + ".step", {x.value},
        {{"starts", Ints{last ? -1 : 0}}, {"ends", Ints{last ? 1LL << 40 : 1}}, {"axes", Ints{1}}});
    return {g.op("squeeze", name, {y}, {{"axes", Ints{1}}}), 1};
  }
  throw Unsupported(fmt::format("the function {}", printable(f.op)));
}

}  // namespace etalon::cntk
