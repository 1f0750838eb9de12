// Sections with weights: convolutions (binary ones too), local and full connections, batch norm.
#include <cmath>

#include "engine/core/error.h"
#include "engine/ops/conv.h"
#include "importers/formats/darknet/layer.h"
#include "importers/formats/translate.h"

namespace etalon::darknet {
namespace {

struct Norm {
  Tensor scale, mean, var;
};
Norm norm_of(const Layer& l, std::int64_t n) {
  Norm out{l.w.take({n}), l.w.take({n}), l.w.take({n})};
  Tensor var = out.var.clone();
  for (float& v : var.mutable_data<float>()) {
    const float deviation = std::sqrt(v) + 0.000001F;
    v = deviation * deviation;
  }
  out.var = std::move(var);
  return out;
}

ValueId normalised(const Layer& l, ValueId y, const Norm& n, const Tensor& bias) {
  l.g.note(
      "batch norm divides by sqrt(variance) + 1e-6: the variance is stored here as the square of "
      "that, eps is 0");
  return l.op("batch_norm", "norm",
              {y, l.constant("scale", n.scale.share()), l.constant("bias", bias.share()),
               l.constant("mean", n.mean.share()), l.constant("var", n.var.share())},
              {{"eps", 0.0F}});
}

// Each weight of a filter becomes plus or minus the mean magnitude of the filter.
Tensor binary(const Tensor& w, std::int64_t filters) {
  Tensor out = w.clone();
  const auto values = out.mutable_data<float>();
  const std::size_t size = filters == 0 ? 0 : values.size() / static_cast<std::size_t>(filters);
  for (std::size_t first = 0; first < values.size(); first += size) {
    float mean = 0;
    for (std::size_t i = 0; i < size; ++i) mean += std::abs(values[first + i]);
    mean /= static_cast<float>(size);
    for (std::size_t i = 0; i < size; ++i) values[first + i] = values[first + i] > 0 ? mean : -mean;
  }
  return out;
}

struct Window {
  std::int64_t filters, size, stride, pad;
};
Window window_of(const Section& s, bool pads_by_size) {
  Window w{.filters = s.integer("filters", 1),
           .size = s.integer("size", 1),
           .stride = s.integer("stride", 1),
           .pad = s.integer("pad", 0)};
  if (pads_by_size) {
    const std::int64_t padding = s.integer("padding", 0);
    w.pad = w.pad != 0 ? w.size / 2 : padding;
  }
  if (w.filters < 1 || w.size < 1 || w.stride < 1 || w.pad < 0)
    throw bad_input("{} filters of {} by {}, padded by {}", w.filters, w.size, w.stride, w.pad);
  return w;
}

ValueId convolutional(const Layer& l) {
  const Section& s = l.s;
  const Window k = window_of(s, true);
  const std::int64_t groups = s.integer("groups", 1), c = l.image()[1];
  s.ordinary("dilation", 1);
  for (const char* key : {"binary", "bin_output", "antialiasing", "share_index"})
    s.ordinary(key, 0);
  for (const char* key : {"stride_x", "stride_y"}) s.ordinary(key, k.stride);
  if (groups < 1 || c % groups != 0)
    throw bad_input("{} filters of {} over {} channels in {} groups", k.filters, k.size, c, groups);
  const bool bn = s.integer("batch_normalize", 0) != 0, xnor = s.integer("xnor", 0) != 0;
  const Tensor bias = l.w.take({k.filters});
  Norm n;
  if (bn) n = norm_of(l, k.filters);
  Tensor w = l.w.take({k.filters, c / groups, k.size, k.size});
  ValueId x = l.x;
  if (xnor) {
    w = binary(w, k.filters);
    x = l.op("where", "binary",
             {l.op("greater", "positive", {x, l.constant("zero", scalar_f32(0))}),
              l.constant("plus", scalar_f32(1)), l.constant("minus", scalar_f32(-1))});
    l.g.note(
        "xnor: weights become plus or minus the mean magnitude of their filter, inputs plus or "
        "minus one");
  }
  std::vector<ValueId> in{x, l.constant("weight", std::move(w))};
  if (!bn) in.push_back(l.constant("bias", bias.share()));
  Fields f = window_fields({.kernel = {},
                            .strides = {k.stride, k.stride},
                            .dilations = {},
                            .pads_begin = {k.pad, k.pad},
                            .pads_end = {k.pad, k.pad}},
                           false);
  f.emplace_back("groups", groups);
  ValueId y = l.op("conv", "", in, f);
  if (bn) y = normalised(l, y, n, bias);
  return l.activated(y, "logistic");
}

ValueId connected(const Layer& l) {
  const std::int64_t in = l.elements(), out = l.s.integer("output", 1);
  const ValueId x = l.flat();
  const Tensor bias = l.w.take({out});
  const bool bn = l.s.integer("batch_normalize", 0) != 0;
  const ValueId weight =
      l.constant("weight", l.w.take(l.w.transposed ? Shape{in, out} : Shape{out, in}));
  Norm n;
  if (bn) n = norm_of(l, out);
  ValueId y = fully_connected(l.g, l.name, x, weight,
                              bn ? kAbsent : l.constant("bias", bias.share()), l.w.transposed);
  if (bn) y = normalised(l, y, n, bias);
  return l.activated(y, "logistic");
}

// Filters of their own at every place: the windows are gathered, [N, places, terms], and each is
// multiplied by its place's matrix.
ValueId local(const Layer& l) {
  const Window k = window_of(l.s, false);
  const Shape& shape = l.image();
  // Its extents count every pixel, or with any padding all but one; windows begin `pad` before.
  const std::int64_t c = shape[1], h = shape[2], w = shape[3], pad = k.pad;
  const auto extent = [&](std::int64_t of) {
    return (pad != 0 ? of - 1 : of - k.size) / k.stride + 1;
  };
  if (extent(h) != (h + 2 * pad - k.size) / k.stride + 1 ||
      extent(w) != (w + 2 * pad - k.size) / k.stride + 1)
    throw bad_input("windows of {} padded by {} do not fit the extents that Darknet counts", k.size,
                    pad);
  const std::int64_t oh = extent(h), ow = extent(w), terms = c * k.size * k.size;
  if (oh < 1 || ow < 1 || h < k.size || w < k.size || oh * ow > 1 << 16 ||
      terms > (1 << 24) / (oh * ow))
    throw bad_input("windows of {} over {}", k.size, to_string(shape));
  const Tensor bias = l.w.take({k.filters, oh * ow});
  const Tensor weight = l.w.take({oh * ow, k.filters, terms});
  Tensor places = Tensor::uninitialized(DType::i64, {oh * ow, terms});
  auto at = places.mutable_data<std::int64_t>().begin();
  const std::int64_t none = c * h * w;  // a zero behind the image
  for (std::int64_t y = 0; y < oh; ++y)
    for (std::int64_t x = 0; x < ow; ++x)
      for (std::int64_t i = 0; i < c; ++i)
        for (std::int64_t a = 0; a < k.size; ++a)
          for (std::int64_t b = 0; b < k.size; ++b) {
            const std::int64_t row = y * k.stride + a - pad, column = x * k.stride + b - pad;
            const bool inside = row >= 0 && row < h && column >= 0 && column < w;
            *at++ = inside ? (i * h + row) * w + column : none;
          }
  const ValueId padded = l.op("pad", "padded", {l.flat()}, {{"pads", Ints{0, 0, 0, 1}}});
  const ValueId windows =
      l.op("gather", "windows", {padded, l.constant("places", std::move(places))},
           {{"axis", std::int64_t{1}}});
  const ValueId columns =
      l.op("reshape", "columns", {windows}, {{"shape", Ints{-1, oh * ow, terms, 1}}});
  const ValueId sums = l.op("matmul", "sums", {l.constant("weight", weight.share()), columns});
  const ValueId rows = l.op("reshape", "rows", {sums}, {{"shape", Ints{-1, oh * ow, k.filters}}});
  const ValueId turned = l.op("transpose", "channels", {rows}, {{"perm", Ints{0, 2, 1}}});
  const ValueId y = l.op("add", "biased", {turned, l.constant("bias", bias.share())});
  l.g.note("a local section has filters of its own at every place: [places, filters, terms]");
  return l.activated(l.op("reshape", "", {y}, {{"shape", Ints{-1, k.filters, oh, ow}}}),
                     "logistic");
}

ValueId batchnorm(const Layer& l) {
  const std::int64_t c = l.g.shape(l.x)[1];
  const Tensor bias = l.w.take({c});
  const Norm n = norm_of(l, c);
  return normalised(l, l.x, n, bias);
}

constexpr SectionRow kRows[] = {{"convolutional", "conv", convolutional},
                                {"connected", "conn", connected},
                                {"local", "local", local},
                                {"batchnorm", "batchnorm", batchnorm}};

}  // namespace

std::span<const SectionRow> weighted_sections() { return kRows; }

}  // namespace etalon::darknet
