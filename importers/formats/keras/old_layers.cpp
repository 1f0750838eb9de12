// Layers that Keras no longer has: those of version 1, and LocallyConnected up to 2. Source:
// keras/layers/core.py, advanced_activations.py, convolutional.py, engine/topology.py (1.2),
// keras/layers/local.py (2.2).
#include <algorithm>

#include "engine/core/error.h"
#include "importers/formats/keras/translator.h"
#include "importers/formats/scalar.h"

namespace etalon::keras_format {

// t * f(x W + b) + (1 - t) * x with t = sigmoid(x W' + b'); weights W, W', b, b'.
ValueId Translator::highway() {
  const bool bias = has_bias();
  const auto product = [&](const char* role, std::size_t w) {
    const ValueId y = b_.op("matmul", name_ + role, {x(), weight(w)});
    return bias ? b_.op("add", name_ + role, {y, weight(w + 2)}) : y;
  };
  const ValueId taken = b_.op("sigmoid", name_ + ".transform", {product(".carry", 1)});
  const ValueId made = finish(product(".product", 0));
  const ValueId one = b_.constant(name_ + ".one", scalar_of(DType::f32, 1));
  const ValueId rest = b_.op("sub", name_ + ".rest", {one, taken});
  return b_.op("add", name_,
               {b_.op("mul", name_ + ".taken", {made, taken}),
                b_.op("mul", name_ + ".carried", {rest, x()})});
}

// The largest of several products: weights [features, in, out] and [features, out].
ValueId Translator::maxout() {
  if (b_.rank(x()) != 2 || b_.rank(weight(0)) != 3)
    throw bad_input("MaxoutDense of {} by {}", to_string(b_.type(x())),
                    to_string(b_.type(weight(0))));
  const ValueId rows =  // [N, 1, 1, in]
      b_.op("unsqueeze", name_ + ".rows", {x()}, {{"axes", Ints{1, 2}}});
  ValueId y = b_.op("matmul", name_ + ".products", {rows, weight(0)});  // [N, features, 1, out]
  y = b_.op("squeeze", name_ + ".features", {y}, {{"axes", Ints{2}}});
  if (has_bias()) y = b_.op("add", name_ + ".bias", {y, weight(1)});
  return b_.op("reduce_max", name_, {y}, {{"axes", Ints{1}}, {"keepdims", false}});
}

// The products of two vectors by the root of each with itself; [N, 1, 1].
ValueId Translator::cosine() {
  const json& axes = config("dot_axes");
  if (b_.rank(x()) != 2) throw UnknownLayer{"Merge of mode cos of other than vectors"};
  const auto product = [&](std::size_t i, std::size_t k) {
    return product_along(c_.inputs[i], c_.inputs[k], axes, false);
  };
  const ValueId square = b_.op("mul", name_ + ".squares", {product(0, 0), product(1, 1)});
  const ValueId length = b_.op("max", name_ + ".length",
                               {b_.op("sqrt", name_ + ".root", {square}),
                                b_.constant(name_ + ".least", scalar_of(DType::f32, 1e-7F))});
  return b_.op("unsqueeze", name_ + ".axis", {b_.op("div", name_, {product(0, 1), length})},
               {{"axes", Ints{1}}});
}

// x between two thresholds, lines of two slopes outside; the right one stands |t_right| behind the
// left. Weights t_left, a_left, t_right, a_right.
ValueId Translator::s_relu() {
  const ValueId left = weight(0), a_left = weight(1), a_right = weight(3);
  const ValueId width = b_.op("abs", name_ + ".width", {weight(2)});
  const ValueId right = b_.op("add", name_ + ".right", {left, width});
  const ValueId above = b_.op("sub", name_ + ".above", {x(), left});
  const ValueId between = b_.op(
      "min", name_ + ".between",
      {b_.op("relu", name_ + ".passes", {above}), b_.op("sub", name_ + ".most", {right, left})});
  const ValueId below =
      b_.op("mul", name_ + ".below",
            {a_left, b_.op("relu", name_ + ".under", {b_.op("neg", name_ + ".turned", {above})})});
  const ValueId centre =
      b_.op("add", name_ + ".centre", {left, b_.op("sub", name_ + ".line", {between, below})});
  const ValueId beyond = b_.op(
      "mul", name_ + ".beyond",
      {b_.op("relu", name_ + ".over", {b_.op("sub", name_ + ".far", {x(), right})}), a_right});
  return b_.op("add", name_, {centre, beyond});
}

ValueId Translator::parametric_softplus() {
  const ValueId wide = b_.op("mul", name_ + ".wide", {weight(1), x()});
  return b_.op("mul", name_, {b_.op("softplus", name_ + ".softplus", {wide}), weight(0)});
}

// Deconvolution2D: the configuration says the extents of the output; pads are those of the
// convolution that it is the gradient of. Its kernel is (rows, columns, in, out).
ValueId Translator::deconvolution() {
  if (origin_.theano || !channels_last())
    throw UnknownLayer{"Deconvolution2D of Theano or channels first"};
  const Ints stride = strides(2), in = b_.dims(x());
  const bool same = text("border_mode", "valid") == "same";
  const json& shape = list("output_shape");
  if (in.size() != 4 || shape.size() != 4 || b_.rank(weight(0)) != 4)
    throw bad_input("Deconvolution2D of {} to {} extents", to_string(b_.type(x())), shape.size());
  const ValueId w = b_.transpose(name_ + ".weight", weight(0), {2, 3, 0, 1});
  Ints begin, end, extra;
  for (std::size_t a = 0; a < 2; ++a) {
    const std::int64_t out = json_integer(shape[a + 1], "output_shape");
    if (in[a + 1] < 1 || out < 1 || out > 1 << 20 || in[a + 1] > 1 << 20 || stride[a] < 1 ||
        stride[a] > 1 << 16)
      throw UnknownLayer{"Deconvolution2D of free extents"};
    const std::int64_t whole = (in[a + 1] - 1) * stride[a] + b_.shape(w)[static_cast<int>(a) + 2];
    const std::int64_t total = same ? std::max<std::int64_t>(whole - out, 0) : 0;
    begin.push_back(total / 2);
    end.push_back(total - total / 2);
    extra.push_back(out - (whole - total));
    if (extra[a] < 0 || extra[a] >= stride[a])
      throw bad_input("Deconvolution2D of {} to {} in steps of {}", in[a + 1], out, stride[a]);
  }
  std::vector<ValueId> inputs{first(x()), w};
  if (has_bias()) inputs.push_back(weight(1));
  return finish(last(b_.op(
      "conv_transpose", name_, inputs,
      {{"strides", stride}, {"pads_begin", begin}, {"pads_end", end}, {"output_padding", extra}})));
}

// A convolution whose kernel differs from place to place: [places, window * in, out], and a bias
// for each place.
ValueId Translator::locally_connected(int axes) {
  const bool turned = !channels_last();
  if (turned && (axes != 2 || origin_.version < 2))
    throw UnknownLayer{c_.type + " of channels_first"};
  const ValueId v = turned ? b_.channels_last(x()) : x();
  if (integer("implementation", 1) != 1) throw UnknownLayer{c_.type + " of implementation 2 or 3"};
  if (text("padding", text("border_mode", "valid")) != "valid")
    throw UnknownLayer{c_.type + " with padding"};
  Ints extent, stride = strides(axes);
  if (find("kernel_size") != nullptr)
    extent = window("kernel_size", axes, 1);
  else if (axes == 1)
    extent = {integer("filter_length", 1)};
  else
    extent = {integer("nb_row", 1), integer("nb_col", 1)};
  const Ints dims = b_.dims(v);
  ValueId kernel = weight(0);
  if (static_cast<int>(dims.size()) != axes + 2 || b_.rank(kernel) != 3)
    throw bad_input("{} of {} by {}", c_.type, to_string(b_.type(x())), to_string(b_.type(kernel)));
  Ints out;
  std::int64_t taps = 1, places = 1;
  for (std::size_t a = 0; a < extent.size(); ++a) {
    if (dims[a + 1] < extent[a] || extent[a] < 1 || stride[a] < 1)
      throw bad_input("windows of {} over {} in steps of {}", extent[a], dims[a + 1], stride[a]);
    out.push_back((dims[a + 1] - extent[a]) / stride[a] + 1);
    taps = checked_mul(taps, extent[a]);
    places = checked_mul(places, out[a]);
  }
  constexpr std::int64_t kMostTaps = 1024;
  const Shape k = b_.shape(kernel);
  if (taps > kMostTaps || k[0] != places || k[1] != checked_mul(taps, dims.back()))
    throw bad_input("a kernel {} for {} places of {} by {}", to_string(b_.type(kernel)), places,
                    taps, dims.back());
  if (turned)  // its rows are (channel, tap), ours (tap, channel)
    kernel = b_.reshape(
        name_ + ".kernel",
        b_.transpose(name_ + ".kernel_order",
                     b_.reshape(name_ + ".kernel_parts", kernel, {k[0], dims.back(), taps, k[2]}),
                     {0, 2, 1, 3}),
        {k[0], k[1], k[2]});
  std::vector<ValueId> parts;
  for (std::int64_t t = 0; t < taps; ++t) {
    Ints from, to, which;
    const std::int64_t row = axes == 1 ? t : t / extent[1], column = axes == 1 ? 0 : t % extent[1];
    for (int a = 0; a < axes; ++a) {
      const auto i = static_cast<std::size_t>(a);
      from.push_back(a == 0 ? row : column);
      to.push_back(from[i] + (out[i] - 1) * stride[i] + 1);
      which.push_back(a + 1);
    }
    parts.push_back(b_.op("slice", name_ + ".tap", {v},
                          {{"starts", from}, {"ends", to}, {"axes", which}, {"steps", stride}}));
  }
  const ValueId all = b_.op("concat", name_ + ".taps", parts, {{"axis", std::int64_t{axes + 1}}});
  const ValueId rows = b_.reshape(name_ + ".rows", all, {-1, places, k[1]});
  const ValueId made = b_.op("matmul", name_ + ".products",
                             {b_.transpose(name_ + ".by_place", rows, {1, 0, 2}), kernel});
  Ints shape{-1};
  shape.insert(shape.end(), out.begin(), out.end());
  shape.push_back(k[2]);
  ValueId y = b_.reshape(name_ + ".places", b_.transpose(name_ + ".back", made, {1, 0, 2}), shape);
  if (turned) y = b_.channels_first(y);
  if (has_bias()) {
    ValueId bias = weight(1);
    // (rows, columns, out), which Keras reshapes and does not transpose.
    if (turned) bias = b_.reshape(name_ + ".bias_shape", bias, {k[2], out[0], out[1]});
    y = b_.op("add", name_ + ".bias", {y, bias});
  }
  return finish(y);
}

}  // namespace etalon::keras_format
