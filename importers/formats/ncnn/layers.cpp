// Layers and their settings, by the numbers that ncnn's documentation of its operators gives.
#include <algorithm>
#include <tuple>

#include "engine/core/error.h"
#include "importers/formats/ncnn/layer.h"

namespace etalon::ncnn {
namespace {

constexpr std::int64_t kSameUpper = -233, kSameLower = -234;

ValueId activated(const Layer& l, ValueId y, int kind_id, int params_id) {
  const std::int64_t kind = l.integer(kind_id, 0);
  const std::vector<float> p = l.numbers(params_id);
  const auto param = [&](std::size_t i) {
    if (i >= p.size()) throw bad_input("an activation without its numbers");
    return p[i];
  };
  const std::string name = l.name + ".activation";
  switch (kind) {
    case 0:
      return y;
    case 1:
      return l.g.op("relu", name, {y});
    case 2:
      return l.g.op("leaky_relu", name, {y}, {{"alpha", param(0)}});
    case 3:
      return l.g.op("clip", name, {y}, {{"min", param(0)}, {"max", param(1)}});
    case 4:
      return l.g.op("sigmoid", name, {y});
    case 5:
      return l.g.op("mish", name, {y});
    case 6:
      return l.g.op("mul", name,
                    {y, l.g.op("hard_sigmoid", name + ".gate", {y},
                               {{"alpha", param(0)}, {"beta", param(1)}})});
    default:
      throw bad_input("the activation {} is not known", kind);
  }
}

// Pads of height and width from the ids of left, top, right, bottom.
void pads(const Layer& l, Fields& f, int left, int top, int right, int bottom) {
  const std::int64_t a = l.integer(left, 0), t = l.integer(top, a), r = l.integer(right, a),
                     b = l.integer(bottom, t);
  if (a == kSameUpper || a == kSameLower) {
    f.emplace_back("auto_pad", std::string(a == kSameUpper ? "same_upper" : "same_lower"));
    l.g.note("SAME padding: the odd element stands where the file says");
    return;
  }
  for (const std::int64_t p : {a, t, r, b})
    if (p < 0 || p > 1 << 20) throw bad_input("a pad of {}", p);
  f.emplace_back("pads_begin", Ints{t, a});
  f.emplace_back("pads_end", Ints{b, r});
}

ValueId convolution(const Layer& l, Weights& weights) {
  const bool up = l.type.starts_with("Deconvolution");
  const std::int64_t out = l.integer(0, 0), kw = l.integer(1, 0), kh = l.integer(11, kw),
                     size = l.integer(6, 0), groups = l.integer(7, 1);
  if (l.integer(8, 0) != 0) throw bad_input("int8 convolutions are not supported");
  if (l.integer(up ? 28 : 19, 0) != 0) throw bad_input("weights that come as an input");
  if (!up && l.number(18, 0) != 0) throw bad_input("padding with another value than 0");
  if (out < 1 || kw < 1 || kh < 1 || kw > 1 << 16 || kh > 1 << 16 || groups < 1 ||
      out % groups != 0 || out > 1 << 24 || size < 1 || size % (out * kw * kh) != 0)
    throw bad_input("{} weights for {} maps of {} x {} in {} groups", size, out, kh, kw, groups);
  const std::int64_t in = size / (out * kw * kh);  // channels of a group
  Tensor w = weights.tagged(size, {out, in, kh, kw});
  Fields f{{"strides", Ints{l.integer(13, l.integer(3, 1)), l.integer(3, 1)}},
           {"dilations", Ints{l.integer(12, l.integer(2, 1)), l.integer(2, 1)}},
           {"groups", groups}};
  pads(l, f, 4, 14, 15, 16);
  ValueId kernel = l.g.constant(l.name + ".weight", std::move(w));
  if (up) {  // [G][O/G][C/G] there, [C][O/G] here
    f.emplace_back("output_padding", Ints{l.integer(19, l.integer(18, 0)), l.integer(18, 0)});
    // Its extents cut the output where the padding is SAME, and there alone.
    const std::int64_t ow = l.integer(20, 0), oh = l.integer(21, ow), side = l.integer(4, 0);
    const bool same = side == kSameUpper || side == kSameLower;
    if (same != (ow > 0))
      throw bad_input("a transposed convolution of SAME padding or of an extent alone");
    if (ow > 0) f.emplace_back("output_shape", Ints{oh, ow});
    kernel = l.g.reshape(l.name + ".groups", kernel, {groups, out / groups, in, kh, kw});
    kernel = l.g.transpose(l.name + ".turned", kernel, {0, 2, 1, 3, 4});
    kernel = l.g.reshape(l.name + ".kernel", kernel, {groups * in, out / groups, kh, kw});
  }
  std::vector<ValueId> inputs{l.input(), kernel};
  if (l.integer(5, 0) != 0) inputs.push_back(l.g.constant(l.name + ".bias", weights.plain(out)));
  return activated(l, l.g.op(up ? "conv_transpose" : "conv", l.name, inputs, f), 9, 10);
}

ValueId inner_product(const Layer& l, Weights& weights) {
  const std::int64_t out = l.integer(0, 0), size = l.integer(2, 0);
  if (l.integer(8, 0) != 0) throw bad_input("int8 products are not supported");
  if (out < 1 || size < 1 || size % out != 0) throw bad_input("{} weights for {}", size, out);
  const ValueId w = l.g.constant(l.name + ".weight", weights.tagged(size, {out, size / out}));
  const ValueId b =
      l.integer(1, 0) != 0 ? l.g.constant(l.name + ".bias", weights.plain(out)) : kAbsent;
  ValueId x = l.input();
  if (l.g.rank(x) > 2 && l.g.shape(x)[l.g.rank(x) - 1] != size / out)
    x = l.g.op("flatten", l.name + ".flat", {x});
  if (l.g.rank(x) == 2) return activated(l, fully_connected(l.g, l.name, x, w, b), 9, 10);
  ValueId y = l.g.op("matmul", l.name, {x, l.g.transpose(l.name + ".turned", w, {1, 0})});
  if (b != kAbsent) y = l.g.op("add", l.name + ".sum", {y, b});
  return activated(l, y, 9, 10);
}

// A weight by channel: [C] as [C,1,1] where the sample is an image.
ValueId by_channel(const Layer& l, Tensor t, const char* role) {
  Ints dims(static_cast<std::size_t>(std::max(l.g.rank(l.input()) - 1, 1)), 1);
  dims[0] = t.numel();
  return l.g.constant(fmt::format("{}.{}", l.name, role), t.reshaped(Shape(std::span(dims))));
}

// LSTM: gates i, f, o, g and one bias of each. GRU: r, u, n with biases of r, u, of the input's n
// and of the state's n, the reset behind the product. RNN: tanh. In the file: weights of the input,
// biases, weights of the state, each behind a tag.
ValueId recurrent(const Layer& l, Weights& weights) {
  const bool is_lstm = l.type == "LSTM", gru = l.type == "GRU";
  const std::int64_t h = l.integer(0, 0), size = l.integer(1, 0), direction = l.integer(2, 0),
                     d = direction == 2 ? 2 : 1,
                     gates = is_lstm ? 4
                             : gru   ? 3
                                     : 1,
                     biases = gru ? 4 : gates;
  if (is_lstm && l.integer(3, h) != h) throw bad_input("a projected LSTM");
  if (l.integer(8, 0) != 0) throw bad_input("{} of int8 is not supported", l.type);
  if (l.inputs.size() > 1 || l.outputs > 1) throw bad_input("{} with states of its own", l.type);
  if (direction < 0 || direction > 2) throw bad_input("direction {}", direction);
  if (h < 1 || size < 1 || h > 1 << 20 || size % (d * gates * h) != 0)
    throw bad_input("{} weights for {} units", size, h);
  const std::int64_t in = size / (d * gates * h);
  const ValueId w = l.g.constant(l.name + ".w", weights.tagged(size, {d, gates * h, in}));
  const Tensor bias = weights.tagged(d * biases * h, {d, biases * h});
  const ValueId r =
      l.g.constant(l.name + ".r", weights.tagged(d * gates * h * h, {d, gates * h, h}));
  Tensor both = Tensor::zeros(DType::f32, {d, 2 * gates * h});
  auto to = both.mutable_data<float>();
  const auto from = bias.data<float>();
  for (std::int64_t k = 0; k < d; ++k) {
    std::copy_n(from.begin() + k * biases * h, gates * h, to.begin() + k * 2 * gates * h);
    if (gru) std::copy_n(from.begin() + (k * 4 + 3) * h, h, to.begin() + (k * 6 + 5) * h);
  }
  l.g.note(is_lstm ? "LSTM: gates i, f, o, g; one bias, the other of the pair is 0"
           : gru ? "GRU: gates r, u, n; the reset comes behind the product, with a bias of its own"
                 : "RNN: tanh; one bias, the other of the pair is 0");
  const char* names[] = {"forward", "reverse", "bidirectional"};
  Fields f{{"hidden_size", h}, {"direction", std::string(names[direction])}, {"batch_first", true}};
  if (is_lstm) f.emplace_back("gates", std::string("ifoc"));
  if (gru) {
    f.emplace_back("gates", std::string("rzh"));
    f.emplace_back("linear_before_reset", true);
  }
  const ValueId y =
      l.g.op(is_lstm ? "lstm"
             : gru   ? "gru"
                     : "rnn",
             l.name, {l.input(), w, r, l.g.constant(l.name + ".b", std::move(both))}, f);
  return l.g.reshape(l.name + ".rows", y, {0, 0, d * h});
}

ValueId pooling(const Layer& l) {
  const bool average = l.integer(0, 0) == 1;
  const ValueId x = l.input();
  if (l.integer(4, 0) != 0) {
    for (const int id : {1, 2, 3, 5, 6, 7, 8, 11, 12, 13, 14, 15, 18})
      l.integer(id, 0);  // no window
    const ValueId y = l.g.op(average ? "global_avg_pool" : "global_max_pool", l.name, {x});
    return l.g.op("flatten", l.name + ".flat", {y});
  }
  if (l.integer(7, 0) != 0) throw bad_input("adaptive pooling is not supported");
  const std::int64_t kw = l.integer(1, 0), mode = l.integer(5, 0);
  Fields f{{"kernel", Ints{l.integer(11, kw), kw}},
           {"strides", Ints{l.integer(12, l.integer(2, 1)), l.integer(2, 1)}}};
  if (mode == 2 || mode == 3)
    f.emplace_back("auto_pad", std::string(mode == 2 ? "same_upper" : "same_lower"));
  else
    pads(l, f, 3, 13, 14, 15);
  f.emplace_back("ceil_mode", mode == 0);
  if (mode == 0) l.g.note("pooling of mode 0: the output extent is rounded up");
  const bool counted = l.integer(6, 0) != 0;
  if (!average) return l.g.op("max_pool", l.name, {x}, f);
  // What rounding up adds would be counted, too.
  if (counted && mode == 0 && (l.integer(2, 1) != 1 || l.integer(12, l.integer(2, 1)) != 1))
    throw bad_input("average pooling of mode 0 that counts padding");
  f.emplace_back("count_include_pad", counted);
  l.g.note(fmt::format("average pooling {} padding", counted ? "counts" : "does not count"));
  return l.g.op("avg_pool", l.name, {x}, f);
}

ValueId eltwise(const Layer& l) {
  const std::int64_t kind = l.integer(0, 0);
  const std::vector<float> by = l.numbers(1);
  if (kind < 0 || kind > 2) throw bad_input("the operation {}", kind);
  ValueId y = kAbsent;
  for (std::size_t i = 0; i < l.inputs.size(); ++i) {
    ValueId x = l.input(i);
    if (kind == 1 && i < by.size() && by[i] != 1)
      x = l.g.op("mul", l.name + ".scaled", {x, l.g.constant(l.name + ".by", scalar_f32(by[i]))});
    y = i == 0 ? x : l.g.op(kind == 0 ? "mul" : kind == 1 ? "add" : "max", l.name, {y, x});
  }
  if (y == kAbsent) throw bad_input("no input");
  return y;
}

ValueId binary(const Layer& l) {
  static constexpr const char* kOps[] = {"add", "sub", "mul", "div", "max",
                                         "min", "pow", "sub", "div", "pow"};
  const std::int64_t kind = l.integer(0, 0);
  if (kind < 0 || kind > 9) throw bad_input("the operation {}", kind);
  const bool turned = kind >= 7;
  ValueId a = l.input(), b = kAbsent;
  if (l.integer(1, 0) != 0)
    b = l.g.constant(l.name + ".b", scalar_f32(l.number(2, 0)));
  else
    std::tie(a, b) = of_one_rank(l, a, l.input(1));
  return turned ? l.g.op(kOps[kind], l.name, {b, a}) : l.g.op(kOps[kind], l.name, {a, b});
}

ValueId unary(const Layer& l) {
  static constexpr const char* kOps[] = {"abs",   "neg",  "floor", "ceil",       "",    "sqrt",
                                         "rsqrt", "exp",  "log",   "sin",        "cos", "tan",
                                         "asin",  "acos", "atan",  "reciprocal", "tanh"};
  const std::int64_t kind = l.integer(0, 0);
  if (kind < 0 || kind > 16) throw bad_input("the operation {}", kind);
  if (kind == 4) return l.g.op("mul", l.name, {l.input(), l.input()});
  return l.g.op(kOps[kind], l.name, {l.input()});
}

ValueId reshape(const Layer& l) {
  constexpr std::int64_t kNone = -233;
  if (l.integer(3, 0) != 0) throw bad_input("a reshape of permuted elements");
  const std::int64_t w = l.integer(0, kNone), h = l.integer(1, kNone), d = l.integer(11, kNone),
                     c = l.integer(2, kNone);
  Ints to{0};
  for (const std::int64_t n : {c, d, h, w})
    if (n != kNone) to.push_back(n);
  for (std::size_t i = 1; i < to.size(); ++i)
    if (to[i] < -1 || to[i] > (1LL << 40)) throw bad_input("an extent of {}", to[i]);
  if (std::count(to.begin() + 1, to.end(), 0) != 0 &&
      static_cast<int>(to.size()) != l.g.rank(l.input()))
    throw bad_input("an extent copied from a sample of another rank");
  return l.g.reshape(l.name, l.input(), to);
}

ValueId permute(const Layer& l) {
  // [c,h,w] of the result from [C,H,W], by kind.
  static constexpr int kThree[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                       {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
  const std::int64_t kind = l.integer(0, 0);
  const int r = l.g.rank(l.input()) - 1;
  Ints perm{0};
  if (r == 2 && (kind == 0 || kind == 1)) {
    perm = kind == 0 ? Ints{0, 1, 2} : Ints{0, 2, 1};
  } else if (r == 3 && kind >= 0 && kind <= 5) {
    for (const int a : kThree[kind]) perm.push_back(a + 1);
  } else if (kind != 0) {
    throw bad_input("the permutation {} of a sample of rank {}", kind, r);
  } else {
    return l.input();
  }
  return l.g.transpose(l.name, l.input(), perm);
}

ValueId interp(const Layer& l) {
  const std::int64_t kind = l.integer(0, 0), h = l.integer(3, 0), w = l.integer(4, 0);
  const bool corners = l.integer(6, 0) != 0;
  if (kind < 1 || kind > 3) throw bad_input("the interpolation {}", kind);
  if (l.inputs.size() > 1 || l.integer(5, 0) != 0) throw bad_input("a size that comes as an input");
  Fields f{{"mode", std::string(kind == 1   ? "nearest"
                                : kind == 2 ? "linear"
                                            : "cubic")},
           {"coordinate_transformation_mode", std::string(kind == 1 ? "asymmetric"
                                                          : corners ? "align_corners"
                                                                    : "half_pixel")}};
  if (kind == 1) f.emplace_back("nearest_mode", std::string("floor"));
  const std::vector<float> scales{l.number(1, 1), l.number(2, 1)};  // sizes go before them
  l.g.note(fmt::format("interpolation: corners are {}aligned", corners ? "" : "not "));
  f.emplace_back("axes", Ints{2, 3});
  if (h > 0 && w > 0)
    f.emplace_back("sizes", Ints{h, w});
  else
    f.emplace_back("scales", scales);
  return l.g.op("resize", l.name, {l.input()}, f);
}

std::vector<ValueId> slice(const Layer& l) {
  const Ints sizes = l.integers(0);
  const std::int64_t axis = l.axis(l.integer(1, 0));
  Fields f{{"axis", axis}};
  if (sizes.empty() ||
      std::count(sizes.begin(), sizes.end(), -233) == static_cast<std::ptrdiff_t>(sizes.size())) {
    f.emplace_back("num_outputs", static_cast<std::int64_t>(l.outputs));
  } else {
    Ints pieces = sizes;
    if (pieces.size() != l.outputs)
      throw bad_input("{} pieces, {} outputs", pieces.size(), l.outputs);
    std::int64_t left = l.g.shape(l.input())[static_cast<int>(axis)];
    for (const std::int64_t p : pieces) left -= std::max<std::int64_t>(p, 0);
    for (std::int64_t& p : pieces)
      if (p == -233) p = left;
    f.emplace_back("split", pieces);
  }
  return l.g.nodes("split", l.name, {l.input()}, make_params(get_op("split"), f), l.outputs);
}

ValueId plain(const Layer& l) {
  const std::string& t = l.type;
  for (const auto& [theirs, op] : {std::pair{"Sigmoid", "sigmoid"},
                                   {"TanH", "tanh"},
                                   {"Swish", "silu"},
                                   {"Mish", "mish"},
                                   {"AbsVal", "abs"},
                                   {"Softplus", "softplus"}})
    if (t == theirs) return l.g.op(op, l.name, {l.input()});
  if (t == "Noop" || t == "Dropout") {
    if (t == "Dropout" && l.number(0, 1) != 1) throw bad_input("a dropout that scales");
    return l.input();
  }
  if (t == "ReLU")
    return l.number(0, 0) == 0
               ? l.g.op("relu", l.name, {l.input()})
               : l.g.op("leaky_relu", l.name, {l.input()}, {{"alpha", l.number(0, 0)}});
  if (t == "Clip")
    return l.g.op("clip", l.name, {l.input()},
                  {{"min", l.number(0, -3.402823466e38F)}, {"max", l.number(1, 3.402823466e38F)}});
  if (t == "ELU") return l.g.op("elu", l.name, {l.input()}, {{"alpha", l.number(0, 0.1F)}});
  if (t == "SELU")
    return l.g.op("selu", l.name, {l.input()},
                  {{"alpha", l.number(0, 1.67326324F)}, {"gamma", l.number(1, 1.050700987F)}});
  if (t == "GELU")
    return l.g.op("gelu", l.name, {l.input()},
                  {{"approximate", std::string(l.integer(0, 0) != 0 ? "tanh" : "none")}});
  if (t == "HardSigmoid" || t == "HardSwish") {
    const ValueId y = l.g.op("hard_sigmoid", l.name, {l.input()},
                             {{"alpha", l.number(0, 0.2F)}, {"beta", l.number(1, 0.5F)}});
    return t == "HardSigmoid" ? y : l.g.op("mul", l.name + ".product", {l.input(), y});
  }
  if (t == "Pooling") return pooling(l);
  if (t == "Eltwise") return eltwise(l);
  if (t == "BinaryOp") return binary(l);
  if (t == "UnaryOp") return unary(l);
  if (t == "Concat") return l.g.op("concat", l.name, l.inputs, {{"axis", l.axis(l.integer(0, 0))}});
  if (t == "Softmax") l.integer(1, 0);  // says that the axis is meant as it stands
  if (t == "Softmax")
    return l.g.op("softmax", l.name, {l.input()}, {{"axis", l.axis(l.integer(0, 0))}});
  if (t == "Reshape") return reshape(l);
  if (t == "Flatten") return l.g.op("flatten", l.name, {l.input()});
  if (t == "Permute") return permute(l);
  if (t == "Interp") return interp(l);
  if (t == "Crop") return crop(l);
  if (t == "LRN") {
    if (l.integer(0, 0) != 0) throw bad_input("LRN within channels");
    l.g.note("LRN: alpha is divided by the window's size");
    return l.g.op("lrn", l.name, {l.input()},
                  {{"size", l.integer(1, 5)},
                   {"alpha", l.number(2, 1)},
                   {"beta", l.number(3, 0.75F)},
                   {"bias", l.number(4, 1)}});
  }
  if (t == "PixelShuffle")
    return l.g.op("depth_to_space", l.name, {l.input()},
                  {{"blocksize", l.integer(0, 1)},
                   {"mode", std::string(l.integer(1, 0) == 0 ? "CRD" : "DCR")}});
  if (t == "Padding") {
    const std::int64_t kind = l.integer(4, 0);
    if (kind < 0 || kind > 2) throw bad_input("padding of kind {}", kind);
    if (l.integer(6, 0) != 0) throw bad_input("padding by values of each channel");
    const float value = l.number(5, 0);
    const char* modes[] = {"constant", "edge", "reflect"};
    return l.g.op("pad", l.name, {l.input()},
                  {{"mode", std::string(modes[kind])},
                   {"pads", Ints{l.integer(7, 0), l.integer(0, 0), l.integer(2, 0), l.integer(8, 0),
                                 l.integer(1, 0), l.integer(3, 0)}},
                   {"axes", Ints{1, 2, 3}},
                   {"value", value}});
  }
  throw bad_input("the layer type {} is not supported", t);
}

}  // namespace

ValueId translate_weighted(const Layer& l, Weights& weights) {
  const std::string& t = l.type;
  if (t == "Convolution" || t == "ConvolutionDepthWise" || t == "Deconvolution" ||
      t == "DeconvolutionDepthWise")
    return convolution(l, weights);
  if (t == "InnerProduct") return inner_product(l, weights);
  if (t == "LSTM" || t == "GRU" || t == "RNN") return recurrent(l, weights);
  if (t == "BatchNorm") {
    const std::int64_t c = l.integer(0, 0);
    const float eps = l.number(1, 0);
    l.g.note(fmt::format("batch norm: epsilon {}", eps));
    std::vector<ValueId> in;
    for (const char* role : {"slope", "mean", "variance", "bias"})
      in.push_back(l.g.constant(fmt::format("{}.{}", l.name, role), weights.plain(c)));
    return l.g.op("batch_norm", l.name, {l.input(), in[0], in[3], in[1], in[2]}, {{"eps", eps}});
  }
  if (t == "PReLU")
    return l.g.op("prelu", l.name,
                  {l.input(), by_channel(l, weights.plain(l.integer(0, 0)), "slope")});
  if (t == "Scale") {
    const std::int64_t c = l.integer(0, 0);
    if (c == -233) {
      const auto [x, scale] = of_one_rank(l, l.input(), l.input(1));
      return l.g.op("mul", l.name, {x, scale});
    }
    ValueId y = l.g.op("mul", l.name, {l.input(), by_channel(l, weights.plain(c), "scale")});
    if (l.integer(1, 0) != 0)
      y = l.g.op("add", l.name + ".sum", {y, by_channel(l, weights.plain(c), "bias")});
    return y;
  }
  if (t == "Bias")
    return l.g.op("add", l.name,
                  {l.input(), by_channel(l, weights.plain(l.integer(0, 0)), "bias")});
  if (t == "InstanceNorm") {
    const std::int64_t c = l.integer(0, 0);
    if (l.integer(2, 1) == 0) throw bad_input("an instance norm without weights");
    const ValueId scale = l.g.constant(l.name + ".scale", weights.plain(c));
    const ValueId bias = l.g.constant(l.name + ".bias", weights.plain(c));
    return l.g.op("instance_norm", l.name, {l.input(), scale, bias},
                  {{"eps", l.number(1, 0.001F)}});
  }
  if (t == "MemoryData") {
    if (l.integer(21, 1) != 1) throw bad_input("data that is kept behind a tag");
    Ints dims{1};
    for (const int id : {2, 11, 1, 0})
      if (const std::int64_t n = l.integer(id, 0); n > 0) dims.push_back(n);
    std::int64_t n = 1;
    for (const std::int64_t d : dims) {
      if (d > 1 << 28 || n > (1LL << 40) / d) throw bad_input("an extent of {}", d);
      n *= d;
    }
    return l.g.constant(l.name, weights.plain(n).reshaped(Shape(std::span(dims))));
  }
  return kAbsent;
}

std::vector<ValueId> translate(const Layer& l, Weights& weights) {
  if (l.type == "Split") return std::vector<ValueId>(l.outputs, l.input());
  if (l.type == "Slice") return slice(l);
  if (const ValueId y = translate_weighted(l, weights); y != kAbsent) return {y};
  return {plain(l)};
}

}  // namespace etalon::ncnn
