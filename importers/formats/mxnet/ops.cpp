// What each operator of MXNet means.
#include <algorithm>
#include <limits>

#include "importers/containers/bytes.h"
#include "importers/formats/composed.h"
#include "importers/formats/mxnet/operators.h"

namespace etalon::mxnet {
namespace {

constexpr const char* kAlongTheLast =
    "softmax of more than two axes: along the last one, as MXNet 1.9 computes it on a CPU (its "
    "documentation takes all axes behind the first for one row)";

}  // namespace

ValueId Translator::convolution(bool transposed) {
  if (!attribute("layout").empty() && attribute("layout") != "None" &&
      !attribute("layout").starts_with("NC"))
    throw bad_input("layout {} is not supported", printable(attribute("layout")));
  Fields f{{"strides", integers("stride")},
           {"dilations", integers("dilate")},
           {"pads_begin", integers("pad")},
           {"pads_end", integers("pad")},
           {"groups", integer("num_group", 1)}};
  if (transposed) {
    f.emplace_back("output_padding", integers("adj"));
    if (!integers("target_shape").empty()) f.emplace_back("output_shape", integers("target_shape"));
  }
  std::vector<ValueId> in{x(0), x(1)};
  if (!flag("no_bias", transposed)) in.push_back(x(2));
  return op(transposed ? "conv_transpose" : "conv", in, f);
}

ValueId Translator::pooling() {
  const std::string kind = attribute("pool_type", "max"), layout = attribute("layout", "None");
  if (layout != "None" && !layout.starts_with("NC"))
    throw bad_input("layout {} is not supported", printable(layout));
  if (kind != "max" && kind != "avg" && kind != "sum" && kind != "lp")
    throw bad_input("{} pooling is not supported", printable(kind));
  const bool mean = kind == "max" || kind == "avg";
  if (flag("global_pool", false) && mean)
    return op(kind == "max" ? "global_max_pool" : "global_avg_pool", {x()});
  if (!mean) return pooled_sum(kind == "lp");
  const std::string convention = attribute("pooling_convention", "valid");
  Fields f{{"kernel", integers("kernel")},
           {"strides", integers("stride")},
           {"pads_begin", integers("pad")},
           {"pads_end", integers("pad")},
           {"ceil_mode", convention == "full"}};
  if (convention == "full") {
    check_rounding();
    g.note("pooling_convention full: the output extent is rounded up");
  }
  if (convention == "same") throw bad_input("pooling_convention same is not supported");
  if (kind == "max") return op("max_pool", {x()}, f);
  const bool count = flag("count_include_pad", true);
  f.emplace_back("count_include_pad", count);
  if (count) g.note("average pooling counts padding (count_include_pad, MXNet's default)");
  return op("avg_pool", {x()}, f);
}

// Over as many elements as the second operand says, 0 behind them.
ValueId Translator::softmax_with_lengths(ValueId in) {
  if (n_->op == "log_softmax") throw bad_input("log_softmax with lengths");
  const Parts p{*this};
  const std::int64_t axis = p.axis("axis", -1, g.rank(in));
  if (g.rank(x(1)) != g.rank(in) - 1)
    throw bad_input("lengths of rank {} for rank {}", g.rank(x(1)), g.rank(in));
  Ints behind;
  for (std::int64_t i = 1; i < g.rank(in) - axis; ++i) behind.push_back(i);
  ValueId each = p.steps(in, axis);
  if (!behind.empty()) each = p.unsqueeze("each", each, behind);
  const ValueId inside =
      p.op("less", "inside", {each, p.unsqueeze("lengths", p.as_ids(x(1)), {axis})});
  const ValueId held =
      p.op("where", "held", {inside, in, p.number(in, std::numeric_limits<float>::lowest())});
  const ValueId y = p.op("softmax", "shares", {held}, {{"axis", axis}});
  return op("where", {inside, y, p.number(y, 0)});
}

// With extents rounded up MXNet keeps a last window that lies in the padding alone.
void Translator::check_rounding() const {
  const Ints kernel = integers("kernel"), stride = integers("stride"), pad = integers("pad"),
             dims = g.dims(x());
  for (std::size_t i = 0; i < kernel.size() && i + 2 < dims.size(); ++i) {
    const std::int64_t s = i < stride.size() ? stride[i] : 1, p = i < pad.size() ? pad[i] : 0,
                       left = checked_add(dims[i + 2], 2 * p) - kernel[i];
    if (dims[i + 2] < 1 || s < 1 || left < 0) continue;
    if (checked_add(left, s - 1) / s * s >= checked_add(dims[i + 2], p))
      throw bad_input("pooling_convention full whose last window lies in the padding alone");
  }
}

// The sum of a window, or of its x^p the p-th root (of x itself, not of |x|).
ValueId Translator::pooled_sum(bool root) {
  const std::int64_t p = root ? integer("p_value", 2) : 1;
  if (p < 1 || p > 3) throw bad_input("lp pooling with p_value={}", p);
  ValueId in = x();
  for (std::int64_t i = 1; i < p; ++i) in = g.op("mul", n_->name + ".powers", {in, x()});
  const std::string role = p > 1 ? n_->name + ".sum" : n_->name;
  ValueId y = kAbsent;
  if (flag("global_pool", false)) {
    Ints axes;
    for (int i = 2; i < g.rank(in); ++i) axes.push_back(i);
    y = g.op("reduce_sum", role, {in}, {{"axes", axes}, {"keepdims", true}});
  } else {
    const std::string convention = attribute("pooling_convention", "valid");
    if (convention != "valid" && convention != "full")
      throw bad_input("pooling_convention {} is not supported", printable(convention));
    if (convention == "full") check_rounding();
    y = g.op("avg_pool", role, {in},
             {{"kernel", integers("kernel")},
              {"strides", integers("stride")},
              {"pads_begin", integers("pad")},
              {"pads_end", integers("pad")},
              {"ceil_mode", convention == "full"},
              {"divisor_override", std::int64_t{1}}});
  }
  return p == 1 ? y : op(p == 2 ? "sqrt" : "cbrt", {y});
}

ValueId Translator::batch_norm() {
  const float eps = number("eps", 1e-3F);
  const auto aux = [&](std::size_t i, const char* role) {
    if (i < in_.size()) return x(i);
    const auto at = weights_.find(n_->name + role);  // 0.x does not list auxiliary states
    if (at == weights_.end())
      throw bad_input("the parameters lack {}{}", printable(n_->name), role);
    return g.constant(at->first, at->second.share());
  };
  ValueId gamma = x(1);
  if (flag("fix_gamma", true)) {
    if (g.constant_of(gamma) == nullptr) throw bad_input("its scale is computed, not stored");
    gamma = g.constant(n_->name + ".ones", filled_f32(g.shape(gamma).numel(), 1));
    g.note("batch norm with fix_gamma: the scale is 1, whatever the file holds");
  }
  g.note(fmt::format("batch norm: eps {}", eps));
  return op("batch_norm", {x(), gamma, x(2), aux(3, "_moving_mean"), aux(4, "_moving_var")},
            {{"eps", eps}, {"axis", integer("axis", 1)}});
}

// Images at `scale` times the first one's size: each element repeated, or a transposed convolution
// of every channel by itself.
ValueId Translator::upsampled() {
  const std::int64_t scale = integer("scale", 1);
  if (scale < 1 || scale > 256) throw bad_input("UpSampling by {}", scale);
  const std::string kind = attribute("sample_type", "nearest");
  if (kind == "bilinear") {
    const std::int64_t kernel = 2 * scale - scale % 2, pad = scale / 2;
    if (g.rank(x(1)) != 4 || g.shape(x(1))[2] != kernel || g.shape(x(1))[3] != kernel)
      throw bad_input("bilinear UpSampling by {} with a kernel {}", scale,
                      to_string(g.shape(x(1))));
    return op("conv_transpose", {x(0), x(1)},
              {{"strides", Ints{scale, scale}},
               {"pads_begin", Ints{pad, pad}},
               {"pads_end", Ints{pad, pad}},
               {"groups", g.shape(x(0))[1]}});
  }
  if (kind != "nearest") throw bad_input("UpSampling with sample_type={}", printable(kind));
  std::vector<ValueId> parts;
  for (std::size_t i = 0; i < in_.size(); ++i) {
    auto by = static_cast<float>(scale);
    if (i > 0) {  // to the extents of the first
      const Ints first = g.dims(x(0)), own = g.dims(x(i));
      if (first.size() != 4 || own.size() != 4 || first[2] < 1 || own[2] < 1 ||
          checked_mul(first[2], scale) % own[2] != 0 ||
          checked_mul(first[2] * scale / own[2], own[3]) != checked_mul(first[3], scale))
        throw bad_input("UpSampling of images whose extents do not fit the first one's");
      const std::int64_t ratio = first[2] * scale / own[2];  // a whole number
      by = static_cast<float>(ratio);
    }
    parts.push_back(g.op("resize", in_.size() == 1 ? n_->name : n_->name + ".part", {x(i)},
                         {{"mode", std::string("nearest")},
                          {"coordinate_transformation_mode", std::string("asymmetric")},
                          {"nearest_mode", std::string("floor")},
                          {"axes", Ints{2, 3}},
                          {"scales", std::vector<float>{by, by}}}));
  }
  if (parts.size() == 1) return parts[0];
  const std::string mode = attribute("multi_input_mode", "concat");
  if (mode == "concat") return op("concat", parts, {{"axis", std::int64_t{1}}});
  if (mode != "sum") throw bad_input("UpSampling with multi_input_mode={}", printable(mode));
  return op("sum", parts);
}

// MXNet 1.x has a scale and a shift for each group.
ValueId Translator::group_norm() {
  const std::int64_t groups = integer("num_groups", 1), channels = g.shape(x())[1];
  constexpr std::int64_t kMostChannels = 1 << 20;
  if (groups < 1 || channels > kMostChannels || channels % groups != 0)
    throw bad_input("{} channels in {} groups", channels, groups);
  const auto by_channel = [&](std::size_t i) {
    const Tensor* t = g.constant_of(x(i));
    if (g.shape(x(i)).numel() != groups || groups == channels || t == nullptr ||
        t->dtype() != DType::f32)
      return x(i);
    std::vector<float> all;
    for (std::int64_t c = 0; c < channels; ++c)
      all.push_back(t->data<float>()[static_cast<std::size_t>(c / (channels / groups))]);
    return g.constant(n_->name + ".by_channel",
                      Tensor::of<float>({channels}, std::span<const float>(all)));
  };
  return op("group_norm", {x(0), by_channel(1), by_channel(2)},
            {{"groups", groups}, {"eps", number("eps", 1e-5F)}});
}

// Along an axis that is not the last, that axis is last for the while.
ValueId Translator::layer_norm() {
  const int rank = g.rank(x()), axis = normalize_axis(integer("axis", -1), rank);
  const Fields f{{"eps", number("eps", 1e-5F)}, {"axis", std::int64_t{-1}}};
  if (axis == rank - 1) return op("layer_norm", {x(0), x(1), x(2)}, f);
  Ints perm;
  for (int i = 0; i < rank; ++i) perm.push_back(i);
  std::swap(perm[static_cast<std::size_t>(axis)], perm.back());  // its own inverse
  const ValueId turned = g.transpose(n_->name + ".turned", x(), perm);
  const ValueId y = g.op("layer_norm", n_->name + ".rows", {turned, x(1), x(2)}, f);
  return g.transpose(n_->name, y, perm);
}

std::vector<ValueId> Translator::translate() {
  const std::string& t = n_->op;
  if (const auto y = value_of(*this)) return {*y};
  for (const auto& rows :
       {choice_rows(), extent_rows(), sequence_rows(), region_rows(), array_rows(), box_rows()})
    for (const OperatorRow& row : rows)
      if (row.name == t) return row.translate(*this);
  if (t == "Convolution" || t == "Convolution_v1") return {convolution(false)};
  if (t == "Deconvolution") return {convolution(true)};
  if (t == "Pooling" || t == "Pooling_v1") return {pooling()};
  if (t == "BatchNorm" || t == "BatchNorm_v1" || t == "CuDNNBatchNorm" ||
      t == "_contrib_SyncBatchNorm")
    return {batch_norm()};
  if (t == "RNN") return recurrent();
  if (t == "FullyConnected") {
    ValueId in = x();
    const bool flat = flag("flatten", true);
    const ValueId bias = flag("no_bias", false) ? kAbsent : x(2);
    if (!flat && g.rank(in) != 2) {
      ValueId y = op("matmul", {in, g.transpose(n_->name + ".weight", x(1), {1, 0})});
      if (bias != kAbsent) y = g.op("add", n_->name + ".bias", {y, bias});
      return {y};
    }
    if (g.rank(in) != 2) in = g.op("flatten", n_->name + ".flatten", {in});
    return {fully_connected(g, n_->name, in, x(1), bias)};
  }
  if (t == "Activation") {
    const std::string kind = attribute("act_type");
    const char* name = kind == "relu"          ? "relu"
                       : kind == "sigmoid"     ? "sigmoid"
                       : kind == "tanh"        ? "tanh"
                       : kind == "softrelu"    ? "softplus"
                       : kind == "softsign"    ? "softsign"
                       : kind == "mish"        ? "mish"
                       : kind == "log_sigmoid" ? "log_sigmoid"
                                               : nullptr;
    if (name == nullptr) throw bad_input("activation {} is not supported", printable(kind));
    return {op(name, {x()})};
  }
  if (t == "LeakyReLU") {
    const std::string kind = attribute("act_type", "leaky");
    const float slope = number("slope", 0.25F);
    if (kind == "leaky") return {op("leaky_relu", {x()}, {{"alpha", slope}})};
    if (kind == "elu") return {op("elu", {x()}, {{"alpha", slope}})};
    if (kind == "selu") return {op("selu", {x()})};
    if (kind == "gelu") return {op("gelu", {x()})};
    if (kind == "prelu") {
      Ints dims{g.shape(x(1)).numel()};
      if (dims[0] != 1) dims.resize(static_cast<std::size_t>(g.rank(x()) - 1), 1);
      return {op("prelu", {x(), g.reshape(n_->name + ".slope", x(1), dims)})};
    }
    if (kind == "rrelu")
      return {op("leaky_relu", {x()},
                 {{"alpha", (number("lower_bound", 0.125F) + number("upper_bound", 0.334F)) / 2}})};
    throw bad_input("activation {} is not supported", printable(kind));
  }
  if (t == "hard_sigmoid")
    return {op("hard_sigmoid", {x()},
               {{"alpha", number("alpha", 0.2F)}, {"beta", number("beta", 0.5F)}})};
  if (t == "SoftmaxOutput" || t == "Softmax") {
    g.note("SoftmaxOutput gives the softmax; its label and gradient are training's");
    const std::int64_t axis = flag("multi_output", false) ? 1 : -1;
    if (axis == -1 && g.rank(x()) > 2 && !flag("preserve_shape", false)) g.note(kAlongTheLast);
    return {op("softmax", {x()}, {{"axis", axis}})};
  }
  if (t == "softmax" || t == "log_softmax" || t == "softmin") {
    ValueId in = x();
    if (t == "softmin") in = g.op("neg", n_->name + ".negative", {in});
    const float temperature = number("temperature", 1);
    if (temperature != 1)
      in = g.op("div", n_->name + ".cooled",
                {in, g.constant(n_->name + ".temperature", scalar_f32(temperature))});
    if (flag("use_length", false)) return {softmax_with_lengths(in)};
    return {op(t == "log_softmax" ? t : "softmax", {in}, {{"axis", integer("axis", -1)}})};
  }
  if (t == "SoftmaxActivation") {
    const bool channel = attribute("mode", "instance") == "channel";
    if (!channel && g.rank(x()) > 2) g.note(kAlongTheLast);
    return {op("softmax", {x()}, {{"axis", std::int64_t{channel ? 1 : -1}}})};
  }
  if (t == "Flatten" || t == "flatten") return {op("flatten", {x()})};
  if (t == "Concat" || t == "concat") {
    for (std::size_t i = 0; i < in_.size(); ++i) x(i);
    return {op("concat", in_, {{"axis", integer("axis", integer("dim", numpy() ? 0 : 1))}})};
  }
  if (t == "ElementWiseSum" || t == "add_n") {
    ValueId y = x();
    for (std::size_t i = 1; i < in_.size(); ++i) y = op("add", {y, x(i)});
    return {y};
  }
  if (t == "LRN") {
    g.note("LRN: alpha is divided by the window's size");
    return {op("lrn", {x()},
               {{"size", integer("nsize", 5)},
                {"alpha", number("alpha", 1e-4F)},
                {"beta", number("beta", 0.75F)},
                {"bias", number("knorm", 2)}})};
  }
  if (t == "Reshape" || t == "reshape" || t == "_npx_reshape" || t == "_np_reshape")
    return {reshaped()};
  if (t == "_rnn_param_concat") return {parameters_of_rnn()};
  if (t == "_zeros" || t == "_ones" || t == "_full") {
    Ints shape = integers("shape");
    std::int64_t count = 1;
    for (std::int64_t& n : shape) {
      if (n == 0 && !numpy()) {  // a state that begins at zero, for as many as there are
        if (read_by("RNN")) return {kAbsent};
        n = 1;  // which broadcasts
        g.note("a state whose batch the file leaves open is one row, for all of the batch");
      }
      if (n < 1 || n > (1 << 24) / count) throw bad_input("{} of {}", t, attribute("shape"));
      count *= n;
    }
    const float v = t == "_zeros" ? 0 : t == "_ones" ? 1 : number("value", 0);
    return {g.reshape(n_->name, g.constant(n_->name, filled_f32(count, v)), shape)};
  }
  if (t == "SwapAxis" || t == "swapaxes") {
    Ints perm;
    for (int a = 0; a < g.rank(x()); ++a) perm.push_back(a);
    const auto place = [&](const char* key) {
      return static_cast<std::size_t>(normalize_axis(integer(key, 0), g.rank(x())));
    };
    std::swap(perm[place("dim1")], perm[place("dim2")]);
    return {g.transpose(n_->name, x(), perm)};
  }
  if (t == "slice") {
    Ints begin, end, step, axes;
    const auto texts = [&](const char* key) {
      std::vector<std::string> out(1);
      for (const char c : attribute(key))
        if (c == ',')
          out.emplace_back();
        else if (c != '(' && c != ')' && c != ' ' && c != '[' && c != ']')
          out.back() += c;
      return out;
    };
    const auto b = texts("begin"), e = texts("end"), by = texts("step");
    for (std::size_t a = 0; a < b.size(); ++a) {
      if (b[a].empty()) continue;
      const std::int64_t s =
          a < by.size() && !by[a].empty() && by[a] != "None" ? first_of(by[a]) : 1;
      axes.push_back(static_cast<std::int64_t>(a));
      step.push_back(s);
      begin.push_back(b[a] != "None" ? first_of(b[a]) : s > 0 ? 0 : INT64_MAX);
      end.push_back(a < e.size() && !e[a].empty() && e[a] != "None" ? first_of(e[a])
                    : s > 0                                         ? INT64_MAX
                                                                    : INT64_MIN);
    }
    return {
        op("slice", {x()}, {{"starts", begin}, {"ends", end}, {"axes", axes}, {"steps", step}})};
  }
  if (t == "stack") {
    std::vector<ValueId> parts;
    const std::int64_t axis = integer("axis", 0);
    for (std::size_t i = 0; i < in_.size(); ++i)
      parts.push_back(g.op("unsqueeze", n_->name + ".part", {x(i)}, {{"axes", Ints{axis}}}));
    return {op("concat", parts, {{"axis", axis}})};
  }
  if (t == "_contrib_AdaptiveAvgPooling2D") {
    Ints size = integers("output_size");
    if (size.empty()) size = {1};
    if (size.size() == 1) size.push_back(size[0]);
    if (size.size() != 2 || size[0] < 1 || size[1] < 1 || size[0] > 4096 || size[1] > 4096)
      throw bad_input("adaptive pooling to {}", printable(attribute("output_size")));
    if (size == Ints{1, 1}) return {op("global_avg_pool", {x()})};
    return {adaptive_pool(g, n_->name, x(), size, true)};
  }
  if (t == "GroupNorm") return {group_norm()};
  if (t == "transpose") {
    Ints axes = integers("axes");
    return {op("transpose", {x()}, {{"perm", axes}})};
  }
  if (t == "expand_dims") return {op("unsqueeze", {x()}, {{"axes", integers("axis")}})};
  if (t == "squeeze") return {op("squeeze", {x()}, {{"axes", integers("axis")}})};
  if (t == "clip")
    return {op("clip", {x()}, {{"min", number("a_min", 0)}, {"max", number("a_max", 0)}})};
  if (t == "SliceChannel" || t == "split") {
    const auto count = integer("num_outputs", 1);
    if (count < 1 || count > 4096) throw bad_input("{} pieces", count);
    const std::int64_t axis = integer("axis", 1);
    auto out = g.nodes("split", n_->name, {x()},
                       make_params(get_op("split"), {{"axis", axis}, {"num_outputs", count}}),
                       static_cast<std::size_t>(count));
    if (flag("squeeze_axis", false))
      for (ValueId& v : out)
        v = g.op("squeeze", n_->name + ".squeezed", {v}, {{"axes", Ints{axis}}});
    return out;
  }
  if (t == "slice_axis") {
    const std::string end = attribute("end", "None");
    return {op("slice", {x()},
               {{"starts", Ints{integer("begin", 0)}},
                {"ends", Ints{end == "None" ? INT64_MAX : integer("end", 0)}},
                {"axes", Ints{integer("axis", 0)}}})};
  }
  if (t == "UpSampling") return {upsampled()};
  if (t == "InstanceNorm")
    return {op("instance_norm", {x(0), x(1), x(2)}, {{"eps", number("eps", 1e-3F)}})};
  if (t == "LayerNorm") return {layer_norm()};
  if (t == "L2Normalization") {
    const std::string mode = attribute("mode", "instance");
    Ints axes;
    for (int i = mode == "spatial" ? 2 : 1; i < (mode == "channel" ? 2 : g.rank(x())); ++i)
      axes.push_back(i);
    return {op("lp_norm", {x()},
               {{"p", 2.0F},
                {"axes", axes},
                {"eps", number("eps", 1e-10F)},
                {"eps_in", std::string("sum_add")}})};
  }
  if (t == "dot" || t == "batch_dot") {
    ValueId a = x(0), b = x(1);
    const auto turn = [&](ValueId v) {
      Ints perm;
      for (int i = 0; i < g.rank(v); ++i) perm.push_back(i);
      if (perm.size() < 2) throw bad_input("a matrix of rank {}", perm.size());
      std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
      return g.transpose(n_->name + ".turned", v, perm);
    };
    // dot sums over the first axis of its second operand, which is no product of matrices beyond
    // them.
    if (t == "dot" && (g.rank(b) > 2 || (g.rank(a) > 2 && flag("transpose_a", false))))
      throw bad_input("dot of operands of rank {} and {}", g.rank(a), g.rank(b));
    if (flag("transpose_a", false)) a = turn(a);
    if (flag("transpose_b", false)) b = turn(b);
    return {op("matmul", {a, b})};
  }
  if (t == "Pad" || t == "pad") {
    const Ints width = integers("pad_width");
    Ints pads(width.size());
    for (std::size_t i = 0; i + 1 < width.size(); i += 2) {
      pads[i / 2] = width[i];
      pads[width.size() / 2 + i / 2] = width[i + 1];
    }
    const std::string mode = attribute("mode", "constant");
    if (mode != "constant" && mode != "edge" && mode != "reflect")
      throw bad_input("pad {}", printable(mode));
    return {
        op("pad", {x()}, {{"mode", mode}, {"pads", pads}, {"value", number("constant_value", 0)}})};
  }
  throw bad_input("{} is not supported", printable(t));
}

}  // namespace etalon::mxnet
