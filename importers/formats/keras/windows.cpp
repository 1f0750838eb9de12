#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "engine/core/error.h"
#include "importers/containers/json.h"
#include "importers/formats/keras/translator.h"
#include "importers/formats/scalar.h"

namespace etalon::keras_format {

// ---- windows ----
// Our kernel [out, in, spatial] of Keras' (spatial, in, out).
ValueId Translator::turned_kernel(ValueId w, int axes) {
  if (origin_.version == 1 && axes == 1 && b_.rank(w) == 4 && b_.shape(w)[1] == 1) {
    const Shape& s = b_.shape(w);  // (length, 1, in, out)
    w = b_.reshape(name_ + ".line", w, {s[0], s[2], s[3]});
  }
  if (b_.rank(w) != axes + 2)
    throw bad_input("a kernel {} for {} spatial axes", to_string(b_.type(w)), axes);
  const std::string name = name_ + ".weight";
  if (origin_.unsaid && b_.shape(w).numel() != b_.shape(w).product(axes, axes + 2))
    b_.note(
        "The file does not say its backend: kernels are taken as TensorFlow's, which correlate; "
        "Theano's would have to be flipped.");
  if (origin_.version == 1 && !channels_last()) return flipped(w, axes, 2);  // already OIHW
  if (origin_.theano) w = flipped(w, axes, 0);
  Ints perm{axes + 1, axes};
  for (int i = 0; i < axes; ++i) perm.push_back(i);
  b_.note("Kernels are stored (spatial, in, out) and transposed to (out, in, spatial).");
  return b_.transpose(name, w, perm);
}

// Reverses `axes` axes from `first` on: Theano convolves, it does not correlate.
ValueId Translator::flipped(ValueId w, int axes, int first) {
  if (!origin_.theano) return w;
  const Tensor* t = b_.constant_of(w);
  if (t == nullptr || t->dtype() != DType::f32) throw UnknownLayer{"a kernel that is not f32"};
  Tensor out = Tensor::uninitialized(DType::f32, t->shape());
  const auto strides = strides_of(t->shape());
  const auto from = t->data<float>();
  auto to = out.mutable_data<float>();
  for (std::int64_t i = 0; i < t->numel(); ++i) {
    std::int64_t j = 0;
    for (int a = 0; a < t->shape().rank(); ++a) {
      const auto k = static_cast<std::size_t>(a);
      std::int64_t at = i / strides[k] % t->shape()[a];
      if (a >= first && a < first + axes) at = t->shape()[a] - 1 - at;
      j += at * strides[k];
    }
    to[static_cast<std::size_t>(j)] = from[static_cast<std::size_t>(i)];
  }
  b_.note("Written on Theano, which convolves: kernels are flipped back to correlate.");
  return b_.constant(name_ + ".flipped", std::move(out));
}

void Translator::pad(Fields& fields, int axes, const Ints& extent, const Ints& dilation) {
  std::string how = text("padding", text("border_mode", "valid"));
  if (how == "valid") return;
  if (how == "causal") {
    if (axes != 1) throw UnknownLayer{"causal padding of more than one axis"};
    b_.note("causal padding: all of it before the sequence.");
    fields.emplace_back("pads_begin", Ints{dilation[0] * (extent[0] - 1)});
    fields.emplace_back("pads_end", Ints{0});
    return;
  }
  if (how != "same") throw UnknownLayer{"padding " + how};
  if (!origin_.theano && !origin_.cntk) {
    b_.note("padding 'same': what is odd is padded at the end (TensorFlow).");
    fields.emplace_back("auto_pad", std::string("same_upper"));
    return;
  }
  b_.note("padding 'same' on Theano or CNTK: both sides alike, whatever the stride.");
  Ints begin, end;
  for (std::size_t i = 0; i < extent.size(); ++i) {
    const std::int64_t reach = dilation[i] * (extent[i] - 1);
    begin.push_back((reach + 1) / 2);
    end.push_back(reach / 2);
  }
  fields.emplace_back("pads_begin", begin);
  fields.emplace_back("pads_end", end);
}

Ints Translator::strides(int axes) const {
  if (find("strides") != nullptr) return window("strides", axes, 1);
  if (find("subsample") != nullptr) return window("subsample", axes, 1);
  return Ints(static_cast<std::size_t>(axes), integer("subsample_length", 1));
}

ValueId Translator::conv(int axes) {
  const ValueId w = kernel(0, axes);
  const Shape& s = b_.shape(w);
  const Ints extent(s.dims().begin() + 2, s.dims().end());
  Ints dilation =
      window(find("dilation_rate") != nullptr ? "dilation_rate" : "atrous_rate", axes, 1);
  Fields fields{
      {"strides", strides(axes)}, {"dilations", dilation}, {"groups", integer("groups", 1)}};
  pad(fields, axes, extent, dilation);
  std::vector<ValueId> inputs{first(x()), w};
  if (has_bias()) inputs.push_back(weight(1));
  return finish(last(b_.op("conv", name_, inputs, fields)));
}

// (spatial, in, multiplier) is in groups of one channel: output c*multiplier + m.
ValueId Translator::depthwise_kernel(std::size_t index, int axes) {
  const ValueId w = weight(index);
  if (b_.rank(w) != axes + 2) throw bad_input("a kernel {}", to_string(b_.type(w)));
  const Shape s = b_.shape(w);
  Ints perm{axes, axes + 1};
  for (int i = 0; i < axes; ++i) perm.push_back(i);
  Ints shape{s[axes] * s[axes + 1], 1};
  for (int i = 0; i < axes; ++i) shape.push_back(s[i]);
  b_.note("Depthwise kernels (spatial, in, multiplier) are convolutions of one group a channel.");
  return b_.reshape(name_ + ".depthwise", b_.transpose(name_ + ".depthwise_order", w, perm), shape);
}

ValueId Translator::depthwise_conv(int axes, const std::string& name, std::size_t bias) {
  const ValueId w = depthwise_kernel(0, axes);
  const Shape s = b_.shape(w);
  const Ints extent(s.dims().begin() + 2, s.dims().end());
  const Ints dilation = window("dilation_rate", axes, 1);
  const ValueId v = first(x());
  Fields fields{
      {"strides", strides(axes)}, {"dilations", dilation}, {"groups", b_.shape(v).dim(1)}};
  pad(fields, axes, extent, dilation);
  std::vector<ValueId> inputs{v, w};
  if (bias != 0 && has_bias()) inputs.push_back(weight(bias));
  return b_.op("conv", name, inputs, fields);
}

ValueId Translator::separable(int axes) {
  const ValueId d = depthwise_conv(axes, name_ + ".depthwise", 0);
  std::vector<ValueId> inputs{d, kernel(1, axes)};
  if (has_bias()) inputs.push_back(weight(2));
  return finish(last(b_.op("conv", name_, inputs)));
}

ValueId Translator::conv_transpose(int axes) {
  const ValueId w = kernel(0, axes);
  const Shape s = b_.shape(w);
  const ValueId v = first(x());
  const Ints stride = strides(axes), dilation = window("dilation_rate", axes, 1);
  const bool same = text("padding", text("border_mode", "valid")) == "same";
  if (same && (origin_.theano || origin_.cntk))
    throw UnknownLayer{"a transposed convolution with padding 'same' on Theano or CNTK"};
  if (find("output_padding") != nullptr) throw UnknownLayer{"output_padding"};
  Fields fields{{"strides", stride}, {"dilations", dilation}};
  Ints begin, end, extra;
  for (int i = 0; i < axes; ++i) {
    const auto a = static_cast<std::size_t>(i);
    const std::int64_t reach = dilation[a] * (s[i + 2] - 1) + 1;
    if (same) {  // out = in * stride: the pads of the convolution that it is the gradient of
      const std::int64_t total = std::max<std::int64_t>(reach - stride[a], 0);
      begin.push_back(total / 2);
      end.push_back(total - total / 2);
      extra.push_back(std::max<std::int64_t>(stride[a] - reach, 0));
    } else {
      begin.push_back(0);
      end.push_back(0);
      extra.push_back(std::max<std::int64_t>(stride[a] - reach, 0));
    }
  }
  fields.emplace_back("pads_begin", begin);
  fields.emplace_back("pads_end", end);
  if (std::ranges::any_of(extra, [](std::int64_t e) { return e != 0; }))
    fields.emplace_back("output_padding", extra);
  std::vector<ValueId> inputs{v, w};
  if (has_bias()) inputs.push_back(weight(1));
  return finish(last(b_.op("conv_transpose", name_, inputs, fields)));
}

ValueId Translator::pool(const std::string& op, int axes) {
  const bool length = find("pool_length") != nullptr;  // Keras 1
  const Ints extent = window(length ? "pool_length" : "pool_size", axes, 2);
  Ints stride = extent;
  if (find("strides") != nullptr) stride = window("strides", axes, 1);
  if (find("stride") != nullptr) stride = window("stride", axes, 1);
  if (origin_.theano && text("padding", text("border_mode", "valid")) == "same" &&
      std::ranges::any_of(extent, [](std::int64_t n) { return n > 3; }))
    throw UnknownLayer{"pooling with padding 'same' over more than 3 on Theano"};
  Fields fields{{"kernel", extent}, {"strides", stride}};
  pad(fields, axes, extent, Ints(static_cast<std::size_t>(axes), 1));
  if (op == "avg_pool")
    b_.note("Average pooling divides by the elements inside the input (TensorFlow).");
  return last(b_.op(op, name_, {first(x())}, fields));
}

ValueId Translator::global_pool(const std::string& op) {
  if (mask(0) != kAbsent) return masked_mean();
  const ValueId v = first(x());
  const ValueId y = b_.op(op, name_, {v});
  if (flag("keepdims", false)) return last(y);
  Ints axes;
  for (int i = 2; i < b_.rank(v); ++i) axes.push_back(i);
  return b_.op("squeeze", name_ + ".flat", {y}, {{"axes", axes}});
}

// GlobalAveragePooling1D behind a mask: the sum of the steps that count by their number.
ValueId Translator::masked_mean() {
  if (!channels_last()) throw UnknownLayer{"a masked mean of channels_first"};
  const Fields along{{"axes", Ints{1}}, {"keepdims", flag("keepdims", false)}};
  const ValueId counts = b_.op("unsqueeze", name_ + ".counts", {mask(0)}, {{"axes", Ints{2}}});
  const ValueId zero = b_.constant(name_ + ".zero", scalar_of(DType::f32, 0));
  const ValueId sum = b_.op("reduce_sum", name_ + ".sum",
                            {b_.op("where", name_ + ".kept", {counts, x(), zero})}, along);
  const ValueId number = b_.op("cast", name_ + ".ones", {counts}, {{"to", std::string("f32")}});
  b_.note("GlobalAveragePooling1D divides by the steps that the mask leaves.");
  return b_.op("div", name_, {sum, b_.op("reduce_sum", name_ + ".number", {number}, along)});
}

ValueId Translator::flatten() {
  ValueId v = x();
  if (find("data_format") != nullptr && !channels_last() && b_.rank(v) > 2) {
    b_.note("Flatten with channels_first: channels are moved last before it, as Keras does.");
    v = b_.channels_last(v);
  } else if (b_.rank(v) > 2) {
    b_.note("Flatten follows the layout of the file, row-major.");
  }
  return b_.op("flatten", name_, {v});
}

// [[begin, end], ...], [n, n] or n; of spatial axes.
std::vector<std::pair<std::int64_t, std::int64_t>> Translator::margins(std::string_view key,
                                                                       int axes) const {
  std::vector<std::pair<std::int64_t, std::int64_t>> out;
  const json* v = find(key);
  for (int i = 0; i < axes; ++i) {
    if (v == nullptr) {
      out.emplace_back(1, 1);
    } else if (v->is_object()) {  // Keras 1
      const auto side = [&](const char* name) {
        return v->contains(name) ? json_integer((*v)[name], name) : 0;
      };
      if (axes == 2 && i == 0)
        out.emplace_back(side("top_pad"), side("bottom_pad"));
      else
        out.emplace_back(side("left_pad"), side("right_pad"));
    } else if (v->is_array() && axes == 2 && v->size() == 4) {  // Keras 1
      const auto at = static_cast<std::size_t>(2 * i);
      out.emplace_back(json_integer((*v)[at], key), json_integer((*v)[at + 1], key));
    } else if (v->is_number()) {
      out.emplace_back(json_integer(*v, key), json_integer(*v, key));
    } else if (axes == 1 && v->is_array() && v->size() == 2) {
      out.emplace_back(json_integer((*v)[0], key), json_integer((*v)[1], key));
    } else if (v->is_array() && v->size() == static_cast<std::size_t>(axes)) {
      const json& d = (*v)[static_cast<std::size_t>(i)];
      if (d.is_array() && d.size() == 2)
        out.emplace_back(json_integer(d[0], key), json_integer(d[1], key));
      else
        out.emplace_back(json_integer(d, key), json_integer(d, key));
    } else {
      throw bad_input("'{}' does not fit {} axes", key, axes);
    }
  }
  return out;
}

ValueId Translator::zero_padding(int axes) {
  const ValueId v = first(x());
  Ints pads(static_cast<std::size_t>(2 * b_.rank(v)), 0);
  const auto m = margins("padding", axes);
  for (std::size_t i = 0; i < m.size(); ++i) {
    pads[2 + i] = m[i].first;
    pads[static_cast<std::size_t>(b_.rank(v)) + 2 + i] = m[i].second;
  }
  return last(b_.op("pad", name_, {v}, {{"pads", pads}}));
}

ValueId Translator::cropping(int axes) {
  const ValueId v = first(x());
  Ints starts, ends, which;
  const auto m = margins("cropping", axes);
  for (std::size_t i = 0; i < m.size(); ++i) {
    which.push_back(static_cast<std::int64_t>(i) + 2);
    starts.push_back(m[i].first);
    ends.push_back(m[i].second == 0 ? std::numeric_limits<std::int64_t>::max() : -m[i].second);
  }
  return last(b_.op("slice", name_, {v}, {{"starts", starts}, {"ends", ends}, {"axes", which}}));
}

ValueId Translator::up_sampling(int axes) {
  const Ints size = window(find("size") != nullptr ? "size" : "length", axes, 2);
  const std::string how = text("interpolation", "nearest");
  if (how != "nearest" && how != "bilinear") throw UnknownLayer{"interpolation " + how};
  if (how == "bilinear" && !origin_.half_pixels && !origin_.corners)
    throw UnknownLayer{
        "bilinear upsampling of a version before TensorFlow 2.2, which did not take "
        "the centres of pixels"};
  std::vector<float> scales{1, 1};
  for (const std::int64_t n : size) scales.push_back(static_cast<float>(n));
  Fields fields{{"scales", scales}};
  if (how == "nearest") {
    fields.emplace_back("mode", std::string("nearest"));
    fields.emplace_back("coordinate_transformation_mode", std::string("asymmetric"));
    fields.emplace_back("nearest_mode", std::string("floor"));
  } else {
    fields.emplace_back("mode", std::string("linear"));
    if (origin_.corners) {
      fields.emplace_back("coordinate_transformation_mode", std::string("asymmetric"));
      b_.note(
          "Bilinear upsampling takes the corners of pixels (Keras 2.2 on TensorFlow, "
          "TensorFlow.js).");
      return last(b_.op("resize", name_, {first(x())}, fields));
    }
    b_.note("Bilinear upsampling takes half-pixel centres (TensorFlow 2).");
  }
  return last(b_.op("resize", name_, {first(x())}, fields));
}

}  // namespace etalon::keras_format
