// Sections with weights of their own that are no sequence: convolutions, local and full
// connections, batch norm.
#include "engine/core/error.h"
#include "importers/formats/darknet/layer.h"
#include "importers/formats/translate.h"

namespace etalon::darknet {
namespace {

ValueId convolutional(const Layer& l) {
  const Section& s = l.s;
  const ValueId x = l.as_image();
  for (const char* key : {"binary", "antialiasing"}) s.ordinary(key, 0);
  if (s.integer("bin_output", 0) != 0)
    l.g.note("bin_output: the next section takes the signs itself, so that the values stay here");
  const std::string activation = s.text("activation", "logistic");
  const Window k = window_of(s, s.integer("filters", 1), 1);
  const std::int64_t channels = l.g.shape(x)[1];
  if (!s.has("share_index")) {
    l.parts.emplace(l.made.size(), convolution(l, k, channels, activation));
    return l.parts.at(l.made.size()).write(l.g, l.name, x);
  }
  // The weights of an earlier section with strides, padding and activation of its own.
  std::int64_t from = s.integer("share_index", 0);
  if (from < 0) from += static_cast<std::int64_t>(l.made.size());
  const auto other = l.parts.find(static_cast<std::size_t>(from));
  if (from < 0 || other == l.parts.end())
    throw bad_input("shares the weights of layer {}, which is no convolution before it", from);
  s.ordinary("batch_normalize", other->second.norm ? 1 : 0);
  for (const char* key : {"xnor", "groups"}) s.text(key, "");
  l.g.note("share_index: a convolution with the weights of an earlier one");
  return other->second.like(k, activation, channels).write(l.g, l.name, x);
}

ValueId connected(const Layer& l) {
  const std::int64_t out = l.s.integer("output", 1);
  const ValueId x = l.flat();
  return connection(l, l.elements(), out, l.s.text("activation", "logistic")).write(l.g, l.name, x);
}

// Filters of their own at every place: the windows are gathered, [N, places, terms], and each is
// multiplied by its place's matrix.
ValueId local(const Layer& l) {
  const std::int64_t filters = l.s.integer("filters", 1), size = l.s.integer("size", 1),
                     stride = l.s.integer("stride", 1);
  if (filters < 1 || size < 1 || stride < 1)
    throw bad_input("{} filters of {} by {}", filters, size, stride);
  const Shape& shape = l.image();
  // Its extents count every pixel, or with any padding all but one; windows begin `pad` before.
  const std::int64_t c = shape[1], h = shape[2], w = shape[3], pad = l.s.integer("pad", 0);
  if (pad < 0 || pad > size) throw bad_input("windows of {} padded by {}", size, pad);
  const auto extent = [&](std::int64_t of) { return (pad != 0 ? of - 1 : of - size) / stride + 1; };
  if (extent(h) != (h + 2 * pad - size) / stride + 1 ||
      extent(w) != (w + 2 * pad - size) / stride + 1)
    throw bad_input("windows of {} padded by {} do not fit the extents that Darknet counts", size,
                    pad);
  const std::int64_t oh = extent(h), ow = extent(w), terms = c * size * size;
  if (oh < 1 || ow < 1 || h < size || w < size || oh * ow > 1 << 16 ||
      terms > (1 << 24) / (oh * ow))
    throw bad_input("windows of {} over {}", size, to_string(shape));
  const Tensor bias = l.w.take({filters, oh * ow});
  const Tensor weight = l.w.take({oh * ow, filters, terms});
  Tensor places = Tensor::uninitialized(DType::i64, {oh * ow, terms});
  auto at = places.mutable_data<std::int64_t>().begin();
  const std::int64_t none = c * h * w;  // a zero behind the image
  for (std::int64_t y = 0; y < oh; ++y)
    for (std::int64_t x = 0; x < ow; ++x)
      for (std::int64_t i = 0; i < c; ++i)
        for (std::int64_t a = 0; a < size; ++a)
          for (std::int64_t b = 0; b < size; ++b) {
            const std::int64_t row = y * stride + a - pad, column = x * stride + b - pad;
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
  const ValueId rows = l.op("reshape", "rows", {sums}, {{"shape", Ints{-1, oh * ow, filters}}});
  const ValueId turned = l.op("transpose", "channels", {rows}, {{"perm", Ints{0, 2, 1}}});
  const ValueId y = l.op("add", "biased", {turned, l.constant("bias", bias.share())});
  l.g.note("a local section has filters of its own at every place: [places, filters, terms]");
  return l.activated(l.op("reshape", "", {y}, {{"shape", Ints{-1, filters, oh, ow}}}), "logistic");
}

ValueId batchnorm(const Layer& l) {
  const std::int64_t c = l.g.shape(l.x)[1];
  const Tensor bias = l.w.take({c});
  return normalised(l.g, l.name, l.x, norm_of(l, c), bias);
}

constexpr SectionRow kRows[] = {{"convolutional", "conv", convolutional},
                                {"connected", "conn", connected},
                                {"local", "local", local},
                                {"batchnorm", "batchnorm", batchnorm}};

}  // namespace

std::span<const SectionRow> weighted_sections() { return kRows; }

}  // namespace etalon::darknet
