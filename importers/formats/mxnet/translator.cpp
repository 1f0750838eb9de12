// A symbol node by node: its attributes, and the inputs whose shape nobody wrote down.
#include <algorithm>
#include <limits>

#include "importers/containers/bytes.h"
#include "importers/containers/decimal.h"
#include "importers/formats/mxnet/symbol.h"

namespace etalon::mxnet {

void Translator::run(std::int64_t extent, bool fixed) {
  std::vector<std::vector<ValueId>> made;
  for (const SymbolNode& n : symbol_.nodes) {
    const ErrorScope where(fmt::format("node {}", printable(n.name)));
    n_ = &n;
    in_.clear();
    if (n.op == "null") {
      made.push_back({variable(n, made.size(), extent, fixed)});
      continue;
    }
    for (const auto& [node, output] : n.inputs)
      in_.push_back(output < made[node].size() ? made[node][output] : kAbsent);
    read_.clear();
    made.push_back(translate());
    check_attributes();
  }
  for (const auto& [node, output] : symbol_.heads) {
    if (output >= made[node].size()) throw bad_input("an output that node {} lacks", node);
    if (made[node][output] == kAbsent)
      throw bad_input("node {} is an output of the network, and nothing tells its value",
                      printable(symbol_.nodes[node].name));
    g.output(made[node][output], symbol_.nodes[node].name);
  }
}

void Translator::check_attributes() const {
  // Of training, of memory and of algorithms; extents that the weights tell; what a choice that was
  // made makes void (the window of a global pooling, the bounds of a ramp that is none).
  constexpr std::string_view kSilent[] = {"axes",
                                          "cudnn_algo_verbose",
                                          "cudnn_off",
                                          "cudnn_tune",
                                          "ctx",
                                          "count_include_pad",
                                          "force_mirroring",
                                          "grad_scale",
                                          "ignore_label",
                                          "input_dim",
                                          "kernel",
                                          "lower_bound",
                                          "lr_mult",
                                          "momentum",
                                          "multi_input_mode",
                                          "name",
                                          "normalization",
                                          "num_args",
                                          "num_filter",
                                          "num_hidden",
                                          "num_weights",
                                          "out_grad",
                                          "output_dim",
                                          "p",
                                          "pad",
                                          "pooling_convention",
                                          "smooth_alpha",
                                          "sparse_grad",
                                          "stride",
                                          "upper_bound",
                                          "use_global_stats",
                                          "use_ignore",
                                          "valid_thresh",
                                          "wd_mult",
                                          "workspace",
                                          "is_int",
                                          "key",
                                          "ndev",
                                          "p_value",
                                          "num_parallel",
                                          "state_outputs"};
  // Of a weight beside the layer, as "weight_lr_mult"; where a layer runs.
  constexpr std::string_view kHidden[] = {"lr_mult",         "wd_mult",      "ctx_group",
                                          "force_mirroring", "mirror_stage", "init"};
  if (n_->op == "RNN" || n_->op == "_rnn_param_concat") return;  // recurrent.cpp looks at them
  for (const auto& [key, value] : n_->attributes) {
    if (std::ranges::any_of(kHidden, [&](std::string_view end) { return key.ends_with(end); }))
      continue;
    if (read_.contains(key) || key.starts_with("__") ||
        std::ranges::find(kSilent, key) != std::end(kSilent))
      continue;
    if (value.empty() || value == "None" || value == "False" || value == "false" || value == "0" ||
        (key == "dtype" && (value == "float32" || value == "0")))
      continue;
    throw bad_input("{} with {}={} has no translation", printable(n_->op), printable(key),
                    printable(value));
  }
}

std::vector<double> Translator::numbers_of(const std::string& text) {
  std::vector<double> out;
  for (std::size_t i = 0; i < text.size();) {
    const char c = text[i];
    if ((c >= '0' && c <= '9') || c == '-' || c == '+' || c == '.') {
      const Decimal d = read_decimal(std::string_view(text).substr(i));
      out.push_back(d.value);
      i += std::max<std::size_t>(1, d.used);
      if (i < text.size() && text[i] == 'L') ++i;
    } else {
      ++i;
    }
  }
  return out;
}

float Translator::number(std::string_view key, float otherwise) const {
  const std::string text = attribute(key);
  if (text.empty() || text == "None") return otherwise;
  if (text == "inf" || text == "Infinity") return std::numeric_limits<float>::infinity();
  const auto v = numbers_of(text);
  if (v.empty()) throw bad_input("'{}' of {} is no number", printable(text), key);
  return static_cast<float>(v[0]);
}

bool Translator::flag(std::string_view key, bool otherwise) const {
  const std::string v = attribute(key);
  if (v.empty() || v == "None") return otherwise;
  return v == "True" || v == "true" || v == "1";
}

void Translator::refuse(std::string_view key) const {
  const std::string v = attribute(key);
  if (!v.empty() && v != "None" && v != "False" && v != "false" && v != "0")
    throw bad_input("{} with {}={} is not supported", n_->op, key, printable(v));
}

ValueId Translator::variable(const SymbolNode& n, std::size_t index, std::int64_t extent,
                             bool fixed) {
  if (const auto at = weights_.find(n.name); at != weights_.end())
    return g.constant(n.name, at->second.share());
  if (n.name.ends_with("label")) return kAbsent;  // training's
  Ints dims = integers("__shape__"), nominal;
  if (!dims.empty()) {
    for (std::int64_t& d : dims)
      if (d == 0) d = -1;
    if (!keep_extents_) dims[0] = -1;
    return g.input(n.name, DType::f32, dims);
  }
  const Ints wanted = wanted_of(index, 0);
  if (std::ranges::find(wanted, kImage) != wanted.end()) {
    for (const std::int64_t d : wanted) {
      dims.push_back(d == kImage && fixed ? extent : std::max<std::int64_t>(d, -1));
      nominal.push_back(d == kImage ? extent : std::max<std::int64_t>(d, 1));
    }
    free_extent_ = !fixed;
    g.note(fmt::format(
        "the file does not say the shape of '{}': channels as the weights behind it have them, {}",
        n.name,
        fixed ? fmt::format("{} along each axis, which fits the weights after it", extent)
              : std::string("any extent")));
    return g.input(n.name, DType::f32, dims, nominal);
  }
  if (!wanted.empty()) {
    for (const std::int64_t d : wanted) {
      dims.push_back(std::max<std::int64_t>(d, -1));
      nominal.push_back(d == kSteps ? 8 : std::max<std::int64_t>(d, 1));
    }
    g.note(fmt::format("the file does not say the shape of '{}': as the weights behind it want it",
                       n.name));
    return g.input(n.name, DType::f32, dims, nominal);
  }
  throw bad_input("nothing tells the shape of the input; store __shape__ in the symbol");
}

}  // namespace etalon::mxnet
