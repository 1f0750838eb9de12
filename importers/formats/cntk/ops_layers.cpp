// CNTK's layers: windows, products, batch norm, stacks of recurrent layers.
#include <algorithm>

#include "importers/formats/cntk/ops.h"

namespace etalon::cntk {
namespace {

std::int64_t at(const Ints& list, std::size_t i, std::int64_t otherwise) {
  if (list.empty()) return otherwise;
  return list.size() == 1 ? list[0] : i < list.size() ? list[i] : otherwise;
}

}  // namespace

// The steps of all sequences as one batch of samples.
Sample Ops::all_steps(const std::string& name, Sample x) {
  Ints to{-1};
  const Ints dims = g.dims(x.value);
  for (auto a = static_cast<std::size_t>(x.dynamic); a < dims.size(); ++a) {
    if (dims[a] < 0) throw Unsupported("a layer over a sequence of samples of free extents");
    to.push_back(dims[a]);
  }
  return {g.reshape(name + ".all_steps", x.value, to), 1};
}

// And back: the sequences that `like` has.
Sample Ops::as_sequence(const std::string& name, Sample y, Sample like) {
  Ints own = g.dims(y.value);
  own.erase(own.begin());
  for (const std::int64_t d : own)
    if (d < 0) throw Unsupported("a layer over a sequence that gives free extents");
  std::vector<ValueId> to{
      g.op("shape", name + ".sequences", {like.value},
           {{"start", std::int64_t{0}}, {"end", static_cast<std::int64_t>(like.dynamic)}})};
  if (!own.empty()) to.push_back(g.constant(name + ".sample", ints_tensor(own)));
  const ValueId shape =
      own.empty() ? to[0] : g.op("concat", name + ".shape", to, {{"axis", std::int64_t{0}}});
  return {g.op("reshape", name + ".by_step", {y.value, shape}), like.dynamic};
}

// Convolution (kernel first, then x) and pooling. Where a window pads by itself, its centres are
// laid evenly: CNTK's own rule, which differs from SAME where a stride leaves something over.
Sample Ops::window(const Function& f, const std::vector<Sample>& in, bool convolution) {
  const std::string& name = f.name.empty() ? f.uid : f.name;
  Sample x = in[convolution ? 1 : 0];
  if (x.dynamic > 1) {
    std::vector<Sample> by_step = in;
    by_step[convolution ? 1 : 0] = all_steps(name, x);
    return as_sequence(name, window(f, by_step, convolution), x);
  }
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
  if (a.dynamic != 0 && transposed && a_rank == 1 && rank(b) == 1) {  // of two vectors, [1]
    const Sample all = elementwise("mul", name + ".products", {a, b});
    return {g.op("reduce_sum", name, {all.value}, {{"axes", Ints{-1}}, {"keepdims", true}}),
            all.dynamic};
  }
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
  if (in[0].dynamic > 1) {
    std::vector<Sample> by_step = in;
    by_step[0] = all_steps(name, in[0]);
    return as_sequence(name, batch_norm(f, by_step), in[0]);
  }
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

}  // namespace etalon::cntk
