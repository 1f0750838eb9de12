// Layers that Keras no longer has: Highway and MaxoutDense of version 1, LocallyConnected up to 2.
// Source: keras/layers/core.py (1.2), keras/layers/local.py (2.2).
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

// A convolution whose kernel differs from place to place: [places, window * in, out], and a bias
// for each place.
ValueId Translator::locally_connected(int axes) {
  if (!channels_last()) throw UnknownLayer{c_.type + " of channels_first"};
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
  const Ints dims = b_.dims(x());
  const ValueId kernel = weight(0);
  if (static_cast<int>(dims.size()) != axes + 2 || b_.rank(kernel) != 3)
    throw bad_input("{} of {} by {}", c_.type, to_string(b_.type(x())), to_string(b_.type(kernel)));
  Ints out;
  std::int64_t taps = 1, places = 1;
  for (std::size_t a = 0; a < extent.size(); ++a) {
    if (dims[a + 1] < extent[a] || extent[a] < 1 || stride[a] < 1)
      throw bad_input("windows of {} over {} in steps of {}", extent[a], dims[a + 1], stride[a]);
    out.push_back((dims[a + 1] - extent[a]) / stride[a] + 1);
    taps *= extent[a];
    places *= out[a];
  }
  constexpr std::int64_t kMostTaps = 1024;
  const Shape& k = b_.shape(kernel);
  if (taps > kMostTaps || k[0] != places || k[1] != taps * dims.back())
    throw bad_input("a kernel {} for {} places of {} by {}", to_string(b_.type(kernel)), places,
                    taps, dims.back());
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
    parts.push_back(b_.op("slice", name_ + ".tap", {x()},
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
  if (has_bias()) y = b_.op("add", name_ + ".bias", {y, weight(1)});
  return finish(y);
}

}  // namespace etalon::keras_format
