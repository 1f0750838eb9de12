// Data layers of a training, in whose place an input stands. What one does not tell of its blobs
// (their channels, without a crop their extents) is taken from the weights that read them.
#include <algorithm>

#include "importers/formats/caffe/translator.h"

namespace etalon::caffe {
namespace {

constexpr std::size_t kMostBlobs = 64;  // between the data and the weights

// The elements stay where they are.
bool passes(std::string_view type) {
  return type == "Split" || type == "Power" || type == "Dropout" || type == "ReLU" ||
         type == "BatchNorm" || type == "Scale" || type == "Bias" || type == "Flatten" ||
         type == "Eltwise" || type == "Pooling" || type == "LRN" || type == "MVN";
}

std::int64_t crop_of(const PbMessage& m) {
  for (const char* key : {"transform_param", "data_param", "image_data_param", "window_data_param"})
    if (m.message(key).has("crop_size")) return m.message(key).integer("crop_size");
  return 0;
}

}  // namespace

Translator::Reader Translator::reader_of(const std::string& blob,
                                         std::set<std::string>& seen) const {
  if (seen.size() >= kMostBlobs || !seen.insert(blob).second) return {};
  const auto readers = readers_.find(blob);
  if (readers == readers_.end()) return {};
  for (const Layer* reader : readers->second) {
    const Layer& l = *reader;
    const auto at = weights_.find(l.name);
    const Shape* w = at == weights_.end() || at->second.empty() ? nullptr : &at->second[0].shape();
    if (w != nullptr && w->rank() >= 2 && l.type == "Convolution") {
      const std::int64_t groups = l.params.message("convolution_param").integer("group", 1);
      return {checked_mul((*w)[1], std::max<std::int64_t>(groups, 1)), 0};
    }
    if (w != nullptr && w->rank() >= 2 && l.type == "InnerProduct") {
      const bool turned = l.params.message("inner_product_param").flag("transpose");
      return {0, (*w)[w->rank() - (turned ? 2 : 1)]};
    }
    if (l.type == "Slice" && !l.tops.empty()) {
      const Reader part = reader_of(l.tops.back(), seen);
      const Ints points = l.params.message("slice_param").integers("slice_point");
      if (part.channels > 0)
        return {points.empty()
                    ? checked_mul(part.channels, static_cast<std::int64_t>(l.tops.size()))
                    : checked_add(points.back(), part.channels),
                0};
    }
    if (passes(l.type) && !l.tops.empty() && l.tops[0] != blob)
      if (const Reader behind = reader_of(l.tops[0], seen); behind.known()) return behind;
  }
  return {};
}

// An image; its extents are known, or what is tried.
Ints Translator::image_of(const Layer& l, std::int64_t height, std::int64_t width) {
  std::set<std::string> seen;
  const Reader reader = reader_of(l.tops[0], seen);
  if (height < 1 || width < 1) {
    if (!reader.known())
      throw bad_input("{} does not say how large its data are; give the deploy prototxt", l.type);
    if (reader.features > 0) {
      g.note(
          fmt::format("{} {} does not say how large its data are: {} features, as the inner "
                      "product behind it has them",
                      l.type, l.name, reader.features));
      return {1, reader.features};
    }
    extents_tried_ = true;
    g.note(
        fmt::format("{} {} does not say how large its images are: {} channels as the "
                    "convolution behind it has them, {} along each axis, which fits the weights",
                    l.type, l.name, reader.channels, extent_));
    return {1, reader.channels, extent_, extent_};
  }
  std::int64_t channels = reader.channels;
  const std::int64_t area = checked_mul(height, width);
  if (reader.features > 0 && reader.features % area == 0) channels = reader.features / area;
  if (channels < 1) {
    channels = 3;
    g.note("the data layer does not say how many channels its images have; 3 are assumed");
  }
  return {1, channels, height, width};
}

void Translator::data(const Layer& l) {
  const PbMessage& m = l.params;
  if (l.tops.empty()) throw bad_input("a data layer without a top");
  // What lies beside an image serves training.
  if (l.type != "DummyData" && l.type != "HDF5Data")
    labels_.insert(l.tops.begin() + 1, l.tops.end());
  const PbMessage transform = m.message("transform_param");
  if (transform.has("scale") || transform.has("mean_value") || transform.has("mean_file"))
    g.note("the data layer subtracts the mean and scales before the network: feed what it makes");
  if (l.type == "DummyData") {
    const PbMessage p = m.message("dummy_data_param");
    const auto shapes = p.messages("shape");
    const Ints old[] = {p.integers("num"), p.integers("channels"), p.integers("height"),
                        p.integers("width")};
    for (std::size_t i = 0; i < l.tops.size(); ++i) {
      if (!readers_.contains(l.tops[i])) continue;
      Ints dims;
      if (!shapes.empty())
        dims = shapes[std::min(i, shapes.size() - 1)].integers("dim");
      else
        for (const Ints& values : old)
          if (!values.empty()) dims.push_back(values[std::min(i, values.size() - 1)]);
      if (dims.empty()) throw bad_input("DummyData without a shape");
      input(l.tops[i], dims);
    }
    g.note("DummyData is an input here: what it would fill the blob with is to be fed");
    return;
  }
  const std::int64_t crop = crop_of(m);
  if (l.type == "MemoryData") {
    const PbMessage p = m.message("memory_data_param");
    input(l.tops[0], {1, p.integer("channels"), p.integer("height"), p.integer("width")});
  } else if (l.type == "ImageData" && crop == 0) {
    const PbMessage p = m.message("image_data_param");
    input(l.tops[0], image_of(l, p.integer("new_height"), p.integer("new_width")));
  } else {
    input(l.tops[0], image_of(l, crop, crop));
  }
}

}  // namespace etalon::caffe
