// Convolutions, poolings, norms and recurrent sequences.
#include <algorithm>

#include "engine/core/error.h"
#include "importers/containers/bytes.h"
#include "importers/formats/openvino/layer.h"
#include "importers/formats/scalar.h"

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
  const Ints dims = l.g.dims(w);
  if (dims.size() < 4 || dims[0] < 1) throw bad_input("grouped weights of rank {}", dims.size());
  groups = dims[0];
  Ints to(dims.begin() + 1, dims.end());
  to[0] *= groups;
  return l.g.reshape(l.name + ".weights", w, to);
}

ValueId convolution(const Layer& l) {
  Fields f = window(l);
  std::int64_t groups = 1;
  const bool up = l.type.ends_with("BackpropData");
  const ValueId w = l.type.starts_with("Group") ? grouped(l, groups) : l.input(1);
  f.emplace_back("groups", groups);
  if (up) {
    if (const Ints more = l.integers("output_padding"); !more.empty())
      f.emplace_back("output_padding", more);
    if (l.has(2)) f.emplace_back("output_shape", l.constant(2));
  }
  return l.g.op(up ? "conv_transpose" : "conv", l.name, {l.input(0), w}, f);
}

// rounding_type=ceil keeps a last window that begins in the padding, which ceil_mode leaves out: as
// so much padding behind the input that rounding down gives that extent.
void round_up_wholly(const Layer& l, Fields& f) {
  if (l.text("auto_pad", "explicit") != "explicit" && l.text("auto_pad", "") != "notset") return;
  const Ints x = l.g.dims(l.input(0)), kernel = l.integers("kernel"),
             strides = l.integers("strides"), begin = l.integers("pads_begin");
  Ints end = l.integers("pads_end");
  Ints dilations = l.data.contains("dilations") ? l.integers("dilations") : Ints{};
  dilations.resize(kernel.size(), 1);
  if (x.size() != kernel.size() + 2 || strides.size() != kernel.size() ||
      begin.size() != kernel.size() || end.size() != kernel.size())
    throw bad_input("a window of {} axes over an input of rank {}", kernel.size(), x.size());
  bool free = false, behind = false;  // an extent; a window that begins behind the input
  for (std::size_t i = 0; i < kernel.size(); ++i) {
    const std::int64_t in = x[i + 2], step = strides[i];
    if (step < 1 || kernel[i] < 1 || dilations[i] < 1)
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

ValueId pooling(const Layer& l) {
  Fields f = window(l);
  f.emplace_back("kernel", l.integers("kernel"));
  const std::string rounding = l.text("rounding_type", "floor");
  f.emplace_back("ceil_mode", rounding != "floor");
  if (rounding == "ceil") round_up_wholly(l, f);
  if (rounding != "floor") l.g.note(fmt::format("pooling rounds its extent by {}", rounding));
  if (l.type == "MaxPool") return l.g.op("max_pool", l.name, {l.input(0)}, f);
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
  return l.g.op("avg_pool", l.name, {l.input(0)}, f);
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
  const bool inside = l.text("eps_mode", "inside_sqrt") == "inside_sqrt" ||
                      l.text("eps_mode", "INSIDE_SQRT") == "INSIDE_SQRT";
  const float eps = l.number("eps", 0);
  const Ints axes = l.constant(1);
  if (!variance || !inside)
    return l.g.op("mean_variance_normalization", l.name, {l.input(0)},
                  {{"axes", axes}, {"normalize_variance", variance}, {"eps", eps}});
  l.g.note("MVN with epsilon inside the root is written step by step, each rounds");
  const ValueId x = l.input(0);
  const auto mean = [&](ValueId v, const char* role) {
    return l.g.op("reduce_mean", fmt::format("{}.{}", l.name, role), {v},
                  {{"axes", axes}, {"keepdims", true}});
  };
  const ValueId d = l.g.op("sub", l.name + ".centred", {x, mean(x, "mean")});
  const ValueId v = mean(l.g.op("mul", l.name + ".square", {d, d}), "variance");
  const ValueId e =
      l.g.constant(l.name + ".eps", scalar_of(l.g.dtype(x), static_cast<double>(eps)));
  const ValueId r = l.g.op("sqrt", l.name + ".root", {l.g.op("add", l.name + ".sum", {v, e})});
  return l.g.op("div", l.name, {d, r});
}

ValueId lrn(const Layer& l) {
  if (l.constant(1) != Ints{1}) throw bad_input("LRN over axes that are not the channels");
  l.g.note("LRN: alpha is divided by the window's size");
  return l.g.op("lrn", l.name, {l.input(0)},
                {{"size", l.integer("size", 5)},
                 {"alpha", l.number("alpha", 1e-4F)},
                 {"beta", l.number("beta", 0.75F)},
                 {"bias", l.number("bias", 1)}});
}

}  // namespace

std::vector<ValueId> translate_window(const Layer& l) {
  if (l.type == "Convolution" || l.type == "GroupConvolution" ||
      l.type == "ConvolutionBackpropData" || l.type == "GroupConvolutionBackpropData")
    return {convolution(l)};
  if (l.type == "MaxPool" || l.type == "AvgPool") return {pooling(l)};
  if (l.type == "BatchNormInference") return {batch_norm(l)};
  if (l.type == "GroupNormalization") return {group_norm(l)};
  if (l.type == "RMS") return {rms(l)};
  if (l.type == "MVN") return {mvn(l)};
  if (l.type == "LRN") return {lrn(l)};
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

// [B,T,I], states [B,D,H], lengths [B]; gates f i c o (LSTM), z r h (GRU); one bias, which here is
// the first of two.
std::vector<ValueId> translate_recurrent(const Layer& l) {
  const bool lstm = l.type == "LSTMSequence", gru = l.type == "GRUSequence",
             rnn = l.type == "RNNSequence";
  if (l.type == "LSTMCell" || l.type == "GRUCell" || l.type == "RNNCell") return cell(l);
  if (!lstm && !gru && !rnn) return {};
  const std::size_t base = lstm ? 3 : 2;  // of the lengths
  const ValueId w = l.input(base + 1), r = l.input(base + 2);
  const Tensor* b = l.g.constant_of(l.input(base + 3));
  if (b == nullptr || b->dtype() != DType::f32 || b->shape().rank() != 2)
    throw bad_input("a bias that is no constant of f32");
  const std::int64_t h = l.integer("hidden_size", 0),
                     gates = lstm  ? 4
                             : gru ? 3
                                   : 1,
                     directions = b->shape()[0];
  const bool before = gru && l.flag("linear_before_reset", false);
  const std::int64_t own = (before ? 4 : gates) * h;
  if (h < 1 || b->shape()[1] != own) throw bad_input("{} biases, expected {}", b->shape()[1], own);
  Tensor both = Tensor::zeros(DType::f32, {directions, 2 * gates * h});
  auto to = both.mutable_data<float>();
  const auto from = b->data<float>();
  for (std::int64_t d = 0; d < directions; ++d)
    for (std::int64_t i = 0; i < own; ++i) {
      // With linear_before_reset the fourth part is R's bias of h.
      const std::int64_t at = i < gates * h ? i : gates * h + 2 * h + (i - gates * h);
      to[static_cast<std::size_t>(d * 2 * gates * h + at)] =
          from[static_cast<std::size_t>(d * own + i)];
    }
  for (const char* key :
       {"activations_alpha", "activations_beta", "activation_alpha", "activation_beta"})
    if (!l.text(key, "").empty()) throw bad_input("{} with {} is not supported", l.type, key);
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
  std::vector<ValueId> in{
      l.input(0), w, r, l.g.constant(l.name + ".bias", std::move(both)), l.input(base), l.input(1)};
  if (lstm) in.push_back(l.input(2));
  const std::string_view op = lstm ? "lstm" : gru ? "gru" : "rnn";
  auto made = l.g.nodes(op, l.name, in, make_params(get_op(op), f), lstm ? 3 : 2);
  made[0] = l.g.transpose(l.name + ".directions", made[0], {0, 2, 1, 3});
  return made;
}

}  // namespace etalon::openvino
