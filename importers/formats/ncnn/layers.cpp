// Layers and their settings, by the numbers that ncnn's documentation of its operators gives.
#include <algorithm>

#include "engine/core/error.h"
#include "importers/formats/ncnn/layer.h"

namespace etalon::ncnn {
namespace {

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

// Windows of an axis that overlap where they do not divide its extent: from floor(i * in / out) to
// ceil((i + 1) * in / out).
ValueId uneven_pooling(const Layer& l, ValueId x, std::int64_t axis, std::int64_t out,
                       bool average) {
  const std::int64_t in = l.g.shape(x)[static_cast<int>(axis)];
  std::vector<ValueId> parts;
  for (std::int64_t i = 0; i < out; ++i) {
    const std::string name = fmt::format("{}.window{}.{}", l.name, axis, i);
    const ValueId part = l.g.op("slice", name, {x},
                                {{"starts", Ints{i * in / out}},
                                 {"ends", Ints{((i + 1) * in + out - 1) / out}},
                                 {"axes", Ints{axis}}});
    parts.push_back(l.g.op(average ? "reduce_mean" : "reduce_max", name + ".cell", {part},
                           {{"axes", Ints{axis}}, {"keepdims", true}}));
  }
  return l.g.op("concat", fmt::format("{}.axis{}", l.name, axis), parts, {{"axis", axis}});
}

ValueId adaptive_pooling(const Layer& l, int axes, bool average) {
  static constexpr int kExtents[] = {8, 18, 28};  // w, h, d
  constexpr std::int64_t kMostCells = 256;
  const Ints dims = l.g.dims(l.input());
  Ints kernel, wanted;
  for (int i = 0; i < axes; ++i)
    wanted.insert(wanted.begin(), l.integer(kExtents[i], i == 0 ? 0 : wanted.back()));
  if (std::count(wanted.begin(), wanted.end(), 1) == axes)
    return l.g.op(average ? "global_avg_pool" : "global_max_pool", l.name, {l.input()});
  bool even = true;
  for (int i = 0; i < axes; ++i) {
    const std::int64_t in = dims[static_cast<std::size_t>(i) + 2];
    std::int64_t& out = wanted[static_cast<std::size_t>(i)];
    if (out == -233) {  // as it is
      kernel.push_back(1);
      continue;
    }
    if (in < 1 || out < 1 || (in % out != 0 && out > kMostCells))
      throw bad_input("adaptive pooling of {} elements into {}", in, out);
    even = even && in % out == 0;
    kernel.push_back(in / out);
  }
  if (even)
    return l.g.op(average ? "avg_pool" : "max_pool", l.name, {l.input()},
                  {{"kernel", kernel}, {"strides", kernel}});
  l.g.note("adaptive pooling whose windows overlap is written window by window, axis by axis");
  ValueId y = l.input();
  for (int i = axes; i-- > 0;)
    if (const std::int64_t out = wanted[static_cast<std::size_t>(i)]; out != -233)
      y = uneven_pooling(l, y, i + 2, out, average);
  return y;
}

ValueId pooling(const Layer& l) {
  struct AxisIds {
    int kernel, stride, before, behind;
  };
  static constexpr AxisIds kAxes[] = {{1, 2, 3, 14}, {11, 12, 13, 15}, {21, 22, 23, 16}};
  const int axes = l.type.ends_with("1D") ? 1 : l.type.ends_with("3D") ? 3 : 2;
  const bool average = l.integer(0, 0) == 1;
  const ValueId x = l.input();
  if (l.g.rank(x) != axes + 2) throw bad_input("pooling of a sample of rank {}", l.g.rank(x) - 1);
  const bool global = l.integer(4, 0) != 0, adaptive = l.integer(7, 0) != 0;
  if (global || adaptive)
    for (const int id : {1, 2, 3, 5, 6, 8, 11, 12, 13, 14, 15, 16, 18, 21, 22, 23, 28})
      l.find(id);  // no window
  if (global) {
    const ValueId y = l.g.op(average ? "global_avg_pool" : "global_max_pool", l.name, {x});
    return l.g.op("flatten", l.name + ".flat", {y});
  }
  if (adaptive) return adaptive_pooling(l, axes, average);
  const std::int64_t mode = l.integer(5, 0);
  Ints kernel, strides, before, behind;
  const auto outermost = [](Ints& to, std::int64_t n) { to.insert(to.begin(), n); };
  for (int i = 0; i < axes; ++i) {
    const AxisIds& ids = kAxes[i];
    outermost(kernel, l.integer(ids.kernel, i == 0 ? 0 : kernel.back()));
    outermost(strides, l.integer(ids.stride, i == 0 ? 1 : strides.back()));
    outermost(before, l.integer(ids.before, i == 0 ? 0 : before.back()));
    outermost(behind, l.integer(ids.behind, before.front()));
  }
  Fields f{{"kernel", kernel}, {"strides", strides}};
  if (mode == 2 || mode == 3) {
    f.emplace_back("auto_pad", std::string(mode == 2 ? "same_upper" : "same_lower"));
  } else {
    for (const Ints* pads : {&before, &behind})
      for (const std::int64_t p : *pads)
        if (p < 0 || p > 1 << 20) throw bad_input("a pad of {}", p);
    f.emplace_back("pads_begin", before);
    f.emplace_back("pads_end", behind);
  }
  f.emplace_back("ceil_mode", mode == 0);
  if (mode == 0) l.g.note("pooling of mode 0: the output extent is rounded up");
  const bool counted = l.integer(6, 0) != 0;
  if (!average) return l.g.op("max_pool", l.name, {x}, f);
  // What rounding up adds would be counted, too.
  if (counted && mode == 0 && std::count(strides.begin(), strides.end(), 1) != axes)
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
  const bool by_reference = l.integer(5, 0) != 0;
  if (l.inputs.size() != (by_reference ? 2 : 1)) throw bad_input("{} inputs", l.inputs.size());
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
  if (by_reference) {  // to the height and width of the second input
    const ValueId to = l.input(1);
    if (l.g.rank(to) != 4) throw bad_input("a size of a sample of rank {}", l.g.rank(to) - 1);
    const Ints dims = l.g.dims(to);
    if (dims[2] < 0 || dims[3] < 0) {
      const ValueId extents = l.g.op("shape", l.name + ".extents", {to},
                                     {{"start", std::int64_t{2}}, {"end", std::int64_t{4}}});
      return l.g.op("resize", l.name, {l.input(), kAbsent, kAbsent, extents}, f);
    }
    f.emplace_back("sizes", Ints{dims[2], dims[3]});
  } else if (h > 0 && w > 0)
    f.emplace_back("sizes", Ints{h, w});
  else
    f.emplace_back("scales", scales);
  return l.g.op("resize", l.name, {l.input()}, f);
}

std::vector<ValueId> slice(const Layer& l) {
  const Ints sizes = l.integers(0);
  const std::int64_t axis = l.axis(l.integer(1, 0));
  Fields f{{"axis", axis}};
  const std::int64_t extent = l.g.shape(l.input())[static_cast<int>(axis)];
  if (const Ints cuts = l.integers(2); !cuts.empty()) {
    if (cuts.size() + 1 != l.outputs)
      throw bad_input("{} cuts, {} outputs", cuts.size(), l.outputs);
    Ints pieces;
    std::int64_t from = 0;
    for (const std::int64_t c : cuts) {
      const std::int64_t to = c < 0 ? c + extent : c;
      if (to < from || to > extent) throw bad_input("a cut at {} of {}", c, extent);
      pieces.push_back(to - from);
      from = to;
    }
    pieces.push_back(extent - from);
    f.emplace_back("split", pieces);
  } else if (sizes.empty() || std::count(sizes.begin(), sizes.end(), -233) ==
                                  static_cast<std::ptrdiff_t>(sizes.size())) {
    f.emplace_back("num_outputs", static_cast<std::int64_t>(l.outputs));
  } else {
    Ints pieces = sizes;
    if (pieces.size() != l.outputs)
      throw bad_input("{} pieces, {} outputs", pieces.size(), l.outputs);
    std::int64_t left = extent;
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
  if (t == "Pooling" || t == "Pooling1D" || t == "Pooling3D") return pooling(l);
  if (t == "Eltwise") return eltwise(l);
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
    // Of channels, rows and columns; a sample of lower rank has the last of them.
    Ints before{l.integer(7, 0), l.integer(0, 0), l.integer(2, 0)},
        behind{l.integer(8, 0), l.integer(1, 0), l.integer(3, 0)}, axes{1, 2, 3};
    for (int r = l.g.rank(l.input()); r < 4; ++r) {
      if (axes.empty() || before[0] != 0 || behind[0] != 0)
        throw bad_input("padding of an axis that is not there");
      before.erase(before.begin()), behind.erase(behind.begin()), axes.pop_back();
    }
    before.insert(before.end(), behind.begin(), behind.end());
    return l.g.op(
        "pad", l.name, {l.input()},
        {{"mode", std::string(modes[kind])}, {"pads", before}, {"axes", axes}, {"value", value}});
  }
  throw bad_input("the layer type {} is not supported", t);
}

}  // namespace

ValueId translate_weighted(const Layer& l, Weights& weights) {
  const std::string& t = l.type;
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
    std::vector<ValueId> in{l.input()};
    if (l.integer(2, 1) != 0)
      for (const char* role : {"scale", "bias"})
        in.push_back(l.g.constant(fmt::format("{}.{}", l.name, role), weights.plain(c)));
    return l.g.op("instance_norm", l.name, in, {{"eps", l.number(1, 0.001F)}});
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
  for (const auto rows : {convolution_rows(), arithmetic_rows(), arrangement_rows(), product_rows(),
                          region_rows(), sampling_rows(), signal_rows(), detection_rows()})
    for (const LayerRow& row : rows)
      if (row.type == l.type) return {row.make(l, weights)};
  if (const ValueId y = translate_weighted(l, weights); y != kAbsent) return {y};
  return {plain(l)};
}

}  // namespace etalon::ncnn
