// Convolutions, poolings, norms and recurrent sequences.
#include <algorithm>
#include <cctype>

#include "engine/core/error.h"
#include "importers/containers/bytes.h"
#include "importers/formats/openvino/layer.h"
#include "importers/formats/scalar.h"
#include "importers/formats/translate.h"

namespace etalon::openvino {
namespace {

Fields window(const Layer& l) {
  const std::string pad = l.text("auto_pad", "explicit");
  Fields f{{"strides", l.integers("strides")}};
  if (l.data.contains("dilations")) f.emplace_back("dilations", l.integers("dilations"));
  if (pad == "explicit" || pad == "notset") {
    f.emplace_back("pads_begin", l.integers("pads_begin"));
    f.emplace_back("pads_end", l.integers("pads_end"));
  } else if (pad == "same_upper" || pad == "same_lower" || pad == "valid") {
    l.integers("pads_begin");  // the file's own reckoning of them
    l.integers("pads_end");
    f.emplace_back("auto_pad", pad);
    if (pad != "valid") l.g.note(fmt::format("auto_pad {}: where the odd element stands", pad));
  } else {
    throw bad_input("auto_pad {} is not known", printable(pad));
  }
  return f;
}

// Grouped weights [G, O, C, k] are [G*O, C, k] here.
ValueId grouped(const Layer& l, std::int64_t& groups) {
  const ValueId w = l.input(1);
  const Ints dims = l.dims(1);
  if (dims.size() < 4 || dims[0] < 1) throw bad_input("grouped weights of rank {}", dims.size());
  groups = dims[0];
  Ints to(dims.begin() + 1, dims.end());
  to[0] *= groups;
  return l.g.reshape(l.name + ".weights", w, to);
}

// The extents that a layer asks for: explicit padding stands as it is at the front, what is over is
// cut off behind; else auto_pad shares out what is over.
void give_output_shape(const Layer& l, Fields& f, ValueId weights) {
  const Ints out = l.constant(2);
  const std::string pad = l.text("auto_pad", "explicit");
  if (pad.starts_with("same")) {
    f.emplace_back("output_shape", out);
    return;
  }
  const Ints x = l.dims(0), kernel = l.g.dims(weights), strides = l.integers("strides");
  Ints begin = l.integers("pads_begin");
  if (pad == "valid") begin.assign(out.size(), 0);
  Ints dilations = l.integers("dilations"), more = l.integers("output_padding"), end;
  dilations.resize(out.size(), 1);
  more.resize(out.size(), 0);
  if (x.size() != out.size() + 2 || kernel.size() != x.size() || strides.size() != out.size() ||
      begin.size() != out.size())
    throw bad_input("an output of {} extents of an input of rank {}", out.size(), x.size());
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (x[i + 2] < 0)
      throw bad_input("what is cut off hangs on the input's extents; say them by --input-shape");
    const std::int64_t whole =
        checked_add(checked_add(checked_mul(x[i + 2] - 1, strides[i]),
                                checked_mul(kernel[i + 2] - 1, dilations[i])),
                    1 + more[i]);
    const std::int64_t over = whole - begin[i] - out[i];
    // Where less than the asked-for is there, elements follow behind.
    if (over < 0) more[i] -= over;
    end.push_back(std::max<std::int64_t>(over, 0));
  }
  std::erase_if(f, [](const auto& field) {
    return field.first == "auto_pad" || field.first.starts_with("pads_") ||
           field.first == "output_padding";
  });
  f.insert(f.end(), {{"pads_begin", begin}, {"pads_end", end}, {"output_padding", more}});
}

ValueId convolution(const Layer& l) {
  Fields f = window(l);
  std::int64_t groups = 1;
  const bool up = l.type.ends_with("BackpropData");
  const ValueId w = l.type.starts_with("Group") ? grouped(l, groups) : l.input(1);
  f.emplace_back("groups", groups);
  if (up) {
    Ints more = l.integers("output_padding");
    more.resize(l.integers("strides").size(), 0);
    f.emplace_back("output_padding", more);
    if (l.has(2))
      give_output_shape(l, f, w);
    else  // a rule shares out what is over, and nothing is
      std::erase_if(f, [](const auto& field) { return field.first == "auto_pad"; });
  }
  return l.g.op(up ? "conv_transpose" : "conv", l.name, {l.input(0), w}, f);
}

// rounding_type=ceil keeps a last window that begins in the padding, which ceil_mode leaves out: as
// so much padding behind the input that rounding down gives that extent.
void round_up_wholly(const Layer& l, Fields& f) {
  if (l.text("auto_pad", "explicit") != "explicit" && l.text("auto_pad", "") != "notset") return;
  const Ints x = l.dims(0), kernel = l.integers("kernel"), strides = l.integers("strides"),
             begin = l.integers("pads_begin");
  Ints end = l.integers("pads_end");
  Ints dilations = l.data.contains("dilations") ? l.integers("dilations") : Ints{};
  dilations.resize(kernel.size(), 1);
  if (x.size() != kernel.size() + 2 || strides.size() != kernel.size() ||
      begin.size() != kernel.size() || end.size() != kernel.size())
    throw bad_input("a window of {} axes over an input of rank {}", kernel.size(), x.size());
  bool free = false, behind = false;  // an extent; a window that begins behind the input
  for (std::size_t i = 0; i < kernel.size(); ++i) {
    const std::int64_t in = x[i + 2], step = strides[i];
    constexpr std::int64_t kMost = std::int64_t{1} << 30;
    for (const std::int64_t v : {step, kernel[i], dilations[i], begin[i], end[i]})
      if (v < -kMost || v > kMost) throw bad_input("a window that reaches over {}", v);
    if (step < 1 || kernel[i] < 1 || dilations[i] < 1 || in > kMost * kMost)
      throw bad_input("a window of {} in steps of {}", kernel[i], step);
    const std::int64_t span = checked_add(checked_mul(kernel[i] - 1, dilations[i]), 1);
    if (in < 0) {
      free = true;
      behind = behind || end[i] > 0 || step > span;
      continue;
    }
    const std::int64_t room = checked_add(checked_add(in, begin[i]), end[i]) - span;
    if (room < 0) continue;
    const std::int64_t last = checked_mul((room + step - 1) / step, step);
    behind = behind || last >= checked_add(in, begin[i]);
    end[i] = last + span - in - begin[i];
  }
  if (free && behind)
    throw bad_input(
        "pooling rounds its extent up, and whether a window begins in the padding hangs on the "
        "input's extents; say them by --input-shape");
  if (!behind) return;
  for (auto& [name, value] : f) {
    if (name == "pads_end") value = end;
    if (name == "ceil_mode") value = false;
  }
}

// The indices count over all axes from `axis` on.
std::vector<ValueId> max_pool(const Layer& l, Fields f) {
  const std::string type = l.text("index_element_type", "i64");
  const int axis = normalize_axis(l.integer("axis", 0), l.rank(0));
  if (l.outputs < 2) return {l.g.op("max_pool", l.name, {l.input(0)}, f)};
  f.emplace_back("indices", std::string("tensor"));
  auto y = l.g.nodes("max_pool", l.name, {l.input(0)}, make_params(get_op("max_pool"), f), 2);
  if (axis > 0) {
    const ValueId within =
        l.g.op("shape", l.name + ".extents", {l.input(0)}, {{"start", std::int64_t{axis}}});
    const ValueId count = l.g.op("reduce_prod", l.name + ".count", {within},
                                 {{"axes", Ints{0}}, {"keepdims", false}});
    y[1] = l.g.op("mod", l.name + ".index", {y[1], count});
  }
  y[1] = l.g.op("cast", l.name + ".index_type", {y[1]},
                {{"to", std::string(name(dtype_named(type)))}});
  return y;
}

// Padding by a rule leaves nothing to round, where windows reach to the next.
void no_gaps(const Layer& l) {
  const Ints kernel = l.integers("kernel"), strides = l.integers("strides");
  Ints dilations = l.data.contains("dilations") ? l.integers("dilations") : Ints{};
  dilations.resize(kernel.size(), 1);
  for (std::size_t i = 0; i < std::min(kernel.size(), strides.size()); ++i)
    if (checked_mul(kernel[i] - 1, dilations[i]) < strides[i] - 1)
      throw bad_input("windows with gaps between them, padded by a rule and rounded up");
}

std::vector<ValueId> pooling(const Layer& l) {
  Fields f = window(l);
  f.emplace_back("kernel", l.integers("kernel"));
  const std::string rounding = l.text("rounding_type", "floor");
  f.emplace_back("ceil_mode", rounding != "floor");
  if (rounding == "ceil") round_up_wholly(l, f);
  if (rounding != "floor" && l.text("auto_pad", "").starts_with("same")) no_gaps(l);
  if (rounding != "floor") l.g.note(fmt::format("pooling rounds its extent by {}", rounding));
  if (l.type == "MaxPool") return max_pool(l, f);
  const bool excluded = l.flag("exclude-pad", l.flag("exclude_pad", true));
  // Its plugin divides by all places of a window as soon as the layer pads at all, also by those
  // that rounding up puts behind the padding; where nothing is padded, by those inside.
  const auto pads = [&](std::string_view field) {
    const Ints values = l.integers(field);
    return std::ranges::any_of(values, [](std::int64_t v) { return v != 0; });
  };
  const std::string pad = l.text("auto_pad", "explicit");
  const bool same = pad == "same_upper" || pad == "same_lower";
  const bool whole = !excluded && (same || pads("pads_begin") || pads("pads_end"));
  f.emplace_back("count_include_pad", whole);
  std::int64_t places = 1;
  for (const std::int64_t k : l.integers("kernel")) places = checked_mul(places, k);
  if (whole) f.emplace_back("divisor_override", places);
  l.g.note(fmt::format("average pooling {}",
                       whole ? "divides by all places of a window" : "does not count padding"));
  return {l.g.op("avg_pool", l.name, {l.input(0)}, f)};
}

ValueId batch_norm(const Layer& l) {
  const bool old = l.version == "opset1";
  const float eps = l.number("epsilon", l.number("eps", 1e-5F));
  l.g.note(fmt::format("batch norm: epsilon {}", eps));
  const ValueId x = l.input(old ? 2 : 0), gamma = l.input(old ? 0 : 1), beta = l.input(old ? 1 : 2);
  return l.g.op("batch_norm", l.name, {x, gamma, beta, l.input(3), l.input(4)}, {{"eps", eps}});
}

ValueId group_norm(const Layer& l) {
  return l.g.op("group_norm", l.name, {l.input(0), l.input(1), l.input(2)},
                {{"groups", l.integer("num_groups", 1)}, {"eps", l.number("epsilon", 0)}});
}

// Over the last axis; of a narrower type on request.
ValueId rms(const Layer& l) {
  std::vector<ValueId> in{l.input(0)};
  if (l.has(1)) in.push_back(l.input(1));
  const ValueId y =
      l.g.op("rms_norm", l.name, in, {{"axis", std::int64_t{-1}}, {"eps", l.number("epsilon", 0)}});
  const std::string to = l.text("output_type", "undefined");
  if (to == "undefined" || to == "dynamic") return y;
  return l.g.op("cast", l.name + ".type", {y}, {{"to", std::string(name(dtype_named(to)))}});
}

ValueId mvn(const Layer& l) {
  const bool variance = l.flag("normalize_variance", true);
  std::string mode = l.text("eps_mode", "inside_sqrt");
  std::ranges::transform(mode, mode.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (mode != "inside_sqrt" && mode != "outside_sqrt")
    throw bad_input("eps_mode {} is not known", printable(mode));
  const float eps = l.number("eps", 0);
  Ints axes = l.has(1) ? l.constant(1) : l.integers("reduction_axes");
  if (l.has(1) || !axes.empty())
    l.flag("across_channels", false);
  else  // opset 2: of each sample, or of each of its channels
    for (int a = l.flag("across_channels", false) ? 1 : 2; a < l.rank(0); ++a) axes.push_back(a);
  const ValueId x = l.input(0);
  const auto mean = [&](ValueId v, const char* role) {
    return l.g.op("reduce_mean", fmt::format("{}.{}", l.name, role), {v},
                  {{"axes", axes}, {"keepdims", true}});
  };
  if (!variance) return l.g.op("sub", l.name, {x, mean(x, "mean")});
  const bool inside = mode == "inside_sqrt";
  l.g.note(fmt::format("MVN with epsilon {} the root is written step by step, each rounds",
                       inside ? "inside" : "outside"));
  const ValueId d = l.g.op("sub", l.name + ".centred", {x, mean(x, "mean")});
  const ValueId v = mean(l.g.op("mul", l.name + ".square", {d, d}), "variance");
  const ValueId e = l.g.constant(l.name + ".eps", scalar_of(l.dtype(0), static_cast<double>(eps)));
  const auto more = [&](ValueId to) { return l.g.op("add", l.name + ".sum", {to, e}); };
  const auto root = [&](ValueId of) { return l.g.op("sqrt", l.name + ".root", {of}); };
  return l.g.op("div", l.name, {d, inside ? root(more(v)) : more(root(v))});
}

// Over the root of the mean square of the channels and a bias.
ValueId grn(const Layer& l) {
  l.g.note("GRN: x over the root of the sum of squares of the channels and a bias");
  return l.g.op("lp_norm", l.name, {l.input(0)},
                {{"p", 2.0F},
                 {"axes", Ints{1}},
                 {"eps", l.number("bias", 1)},
                 {"eps_in", std::string("sum_add")}});
}

// (bias + alpha / size^n * the sum of squares over a window of n axes)^beta divides x.
ValueId lrn(const Layer& l) {
  const Ints axes = l.constant(1);
  const std::int64_t size = l.integer("size", 5);
  const float alpha = l.number("alpha", 1e-4F), beta = l.number("beta", 0.75F),
              bias = l.number("bias", 1);
  if (size % 2 == 0) throw bad_input("LRN over {}, which has no middle", size);
  if (axes == Ints{1}) {
    l.g.note("LRN: alpha is divided by the window's size");
    return l.g.op("lrn", l.name, {l.input(0)},
                  {{"size", size}, {"alpha", alpha}, {"beta", beta}, {"bias", bias}});
  }
  // The spatial axes: a mean over windows with zeros around.
  const int rank = l.rank(0);
  Ints spatial;
  for (int a = 2; a < rank; ++a) spatial.push_back(a);
  if (axes != spatial || axes.empty())
    throw bad_input("LRN over axes that are neither the channels nor the spatial ones");
  if (size < 1 || size > 1 << 16) throw bad_input("LRN over windows of {}", size);
  const auto n = axes.size();
  const auto op = [&](const char* what, const std::vector<ValueId>& in, const Fields& f = {}) {
    return l.g.op(what, fmt::format("{}.{}", l.name, what), in, f);
  };
  const auto number = [&](float v) { return l.g.constant(l.name + ".number", scalar_f32(v)); };
  const ValueId x = l.input(0);
  const ValueId mean = op("avg_pool", {op("mul", {x, x})},
                          {{"kernel", Ints(n, size)},
                           {"strides", Ints(n, 1)},
                           {"pads_begin", Ints(n, (size - 1) / 2)},
                           {"pads_end", Ints(n, size / 2)},
                           {"count_include_pad", true}});
  l.g.note("LRN over the spatial axes is written step by step, each rounds");
  const ValueId base = op("add", {op("mul", {mean, number(alpha)}), number(bias)});
  return l.g.op("div", l.name, {x, op("pow", {base, number(beta)})});
}

}  // namespace

std::vector<ValueId> translate_window(const Layer& l) {
  if (l.type == "Convolution" || l.type == "GroupConvolution" ||
      l.type == "ConvolutionBackpropData" || l.type == "GroupConvolutionBackpropData")
    return {convolution(l)};
  if (l.type == "MaxPool" || l.type == "AvgPool") return pooling(l);
  if (l.type == "BatchNormInference") return {batch_norm(l)};
  if (l.type == "GroupNormalization") return {group_norm(l)};
  if (l.type == "RMS") return {rms(l)};
  if (l.type == "MVN") return {mvn(l)};
  if (l.type == "LRN") return {lrn(l)};
  if (l.type == "GRN") return {grn(l)};
  return {};
}

namespace {

// A cell is a sequence of one step: [B,I] is [B,1,I], a state [B,H] is [B,1,H], weights and biases
// are those of one direction.
std::vector<ValueId> cell(const Layer& l) {
  const bool lstm = l.type == "LSTMCell";
  const std::size_t states = lstm ? 2 : 1;
  const auto with_axis = [&](ValueId v, std::int64_t axis, const char* role) {
    if (l.g.constant_of(v) != nullptr) {
      Ints dims = l.g.dims(v);
      dims.insert(dims.begin() + axis, 1);
      return l.g.reshape(l.name + role, v, dims);
    }
    return l.g.op("unsqueeze", l.name + role, {v}, {{"axes", Ints{axis}}});
  };
  Layer one = l;
  one.type = lstm ? "LSTMSequence" : l.type == "GRUCell" ? "GRUSequence" : "RNNSequence";
  one.inputs.clear();
  one.said.clear();
  for (std::size_t i = 0; i <= states; ++i)
    one.inputs.push_back(with_axis(l.input(i), 1, i == 0 ? ".x" : ".first"));
  one.inputs.push_back(kAbsent);  // every row has its one step
  for (std::size_t i = 1; i <= 3; ++i)
    one.inputs.push_back(with_axis(l.input(states + i), 0, ".weights"));
  const auto made = translate_recurrent(one);
  std::vector<ValueId> out;
  for (std::size_t i = 1; i <= states; ++i)
    out.push_back(l.g.op("squeeze", l.name + ".state", {made.at(i)}, {{"axes", Ints{1}}}));
  return out;
}

}  // namespace

namespace {

// The pair of biases of each direction, of which the file has the first. One of more than the
// gates (linear_before_reset) ends in R's bias of h, which is the last part of the second.
ValueId both_biases(const Layer& l, std::size_t at, std::int64_t directions, std::int64_t gates,
                    std::int64_t h) {
  const std::int64_t own = l.dims(at)[1];
  const Tensor* b = l.g.constant_of(l.input(at));
  if (b != nullptr && b->dtype() == DType::f32) {
    Tensor both = Tensor::zeros(DType::f32, {directions, 2 * gates * h});
    auto to = both.mutable_data<float>();
    const auto from = b->data<float>();
    for (std::int64_t d = 0; d < directions; ++d)
      for (std::int64_t i = 0; i < own; ++i) {
        const std::int64_t place = i < gates * h ? i : i + gates * h - h;
        to[static_cast<std::size_t>(d * 2 * gates * h + place)] =
            from[static_cast<std::size_t>(d * own + i)];
      }
    return l.g.constant(l.name + ".bias", std::move(both));
  }
  const auto zeros = [&](std::int64_t parts) {
    return l.g.constant(l.name + ".none", Tensor::zeros(DType::f32, {directions, parts * h}));
  };
  const auto cut = [&](const char* role, std::int64_t from, std::int64_t to) {
    return l.g.op("slice", l.name + role, {l.input(at)},
                  {{"starts", Ints{from * h}}, {"ends", Ints{to * h}}, {"axes", Ints{1}}});
  };
  const std::vector<ValueId> parts =
      own > gates * h ? std::vector<ValueId>{cut(".own", 0, gates), zeros(gates - 1),
                                             cut(".of_state", gates, gates + 1)}
                      : std::vector<ValueId>{l.input(at), zeros(gates)};
  return l.g.op("concat", l.name + ".bias", parts, {{"axis", std::int64_t{1}}});
}

}  // namespace

// [B,T,I], states [B,D,H], lengths [B]; gates f i c o (LSTM), z r h (GRU); one bias, which here is
// the first of two.
std::vector<ValueId> translate_recurrent(const Layer& l) {
  const bool lstm = l.type == "LSTMSequence", gru = l.type == "GRUSequence",
             rnn = l.type == "RNNSequence";
  if (l.type == "LSTMCell" || l.type == "GRUCell" || l.type == "RNNCell") return cell(l);
  if (!lstm && !gru && !rnn) return {};
  const std::size_t base = lstm ? 3 : 2;  // of the lengths
  const ValueId w = l.input(base + 1), r = l.input(base + 2);
  const Ints biases = l.dims(base + 3);
  if (biases.size() != 2 || l.dtype(base + 3) != DType::f32 || biases[0] < 1)
    throw bad_input("a bias that is no matrix of f32");
  const std::int64_t h = l.integer("hidden_size", 0),
                     gates = lstm  ? 4
                             : gru ? 3
                                   : 1,
                     directions = biases[0];
  const bool before = gru && l.flag("linear_before_reset", false);
  if (h < 1 || h > biases[1] || biases[1] != (before ? 4 : gates) * h)
    throw bad_input("{} biases of {} gates of {}", biases[1], gates, h);
  const ValueId bias = both_biases(l, base + 3, directions, gates, h);
  for (const char* key :
       {"activations_alpha", "activations_beta", "activation_alpha", "activation_beta"})
    if (!l.text(key, "").empty()) throw bad_input("{} with {} is not supported", l.type, key);
  if (lstm && l.number("clip", 0) != 0)
    throw bad_input("LSTM with a clip, of which the state between is left out");
  Fields f{{"hidden_size", h},
           {"direction", l.text("direction", "forward")},
           {"batch_first", true},
           {"clip", l.number("clip", 0)}};
  if (lstm) f.emplace_back("gates", std::string("fico"));
  if (gru) {
    f.emplace_back("gates", std::string("zrh"));
    f.emplace_back("linear_before_reset", before);
  }
  std::vector<std::string> activations;
  const std::string names = l.text("activations", "");
  for (std::string_view rest = names; !rest.empty();) {
    const std::size_t cut = std::min(rest.find(','), rest.size());
    std::string one(rest.substr(0, cut));
    std::erase(one, ' ');
    if (!one.empty()) activations.push_back(one);
    rest.remove_prefix(std::min(cut + 1, rest.size()));
  }
  if (!activations.empty()) {
    const std::size_t n = activations.size();
    if (directions == 2)
      for (std::size_t i = 0; i < n; ++i) activations.push_back(activations[i]);
    f.emplace_back("activations", activations);
  }
  l.g.note(fmt::format("{}: gates {}; one bias, the other of the pair is 0", l.type,
                       lstm  ? "f, i, c, o"
                       : gru ? "z, r, h"
                             : "h"));
  std::vector<ValueId> in{l.input(0), w, r, bias, l.input(base), l.input(1)};
  if (lstm) in.push_back(l.input(2));
  const std::string_view op = lstm ? "lstm" : gru ? "gru" : "rnn";
  auto made = l.g.nodes(op, l.name, in, make_params(get_op(op), f), lstm ? 3 : 2);
  made[0] = l.g.transpose(l.name + ".directions", made[0], {0, 2, 1, 3});
  return made;
}

}  // namespace etalon::openvino
