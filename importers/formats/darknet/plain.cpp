// Sections without weights that keep places: activations, pools, softmax, and what only training
// reads.
#include "engine/core/error.h"
#include "importers/containers/bytes.h"
#include "importers/formats/darknet/layer.h"
#include "importers/formats/translate.h"

namespace etalon::darknet {

const Shape& Layer::image() const {
  if (g.rank(x) != 4) throw bad_input("an input of rank {}, where an image is wanted", g.rank(x));
  return g.shape(x);
}

ValueId Layer::flat() const { return g.rank(x) == 2 ? x : op("flatten", "flatten", {x}); }

ValueId Layer::earlier(std::int64_t index) const {
  if (index < 0) index += static_cast<std::int64_t>(made.size());
  if (index < 0 || index >= static_cast<std::int64_t>(made.size()))
    throw bad_input("layer {} does not stand before it", index);
  return made[static_cast<std::size_t>(index)];
}

ValueId Layer::as_image() const {
  return g.rank(x) == 4 ? x : op("reshape", "image", {x}, {{"shape", Ints{-1, elements(), 1, 1}}});
}

ValueId Layer::activated(ValueId v, std::string_view otherwise) const {
  return darknet::activated(g, name, s.text("activation", otherwise), v);
}

namespace {

// An average counts the pixels of the image alone.
ValueId pooled(const Layer& l, std::string_view op) {
  const Section& s = l.s;
  const std::int64_t stride = s.integer("stride", 1), k = s.integer("size", stride),
                     pad = s.integer("padding", k - 1);
  for (const char* key : {"maxpool_depth", "antialiasing"}) s.ordinary(key, 0);
  const std::int64_t rows = s.integer("stride_y", stride), columns = s.integer("stride_x", stride);
  if (k < 1 || rows < 1 || columns < 1 || pad < 0)
    throw bad_input("a window of {} by {} x {}, padded by {}", k, rows, columns, pad);
  const std::int64_t begin = pad / 2;
  l.g.note("pooling pads by its kernel less one, the odd element behind");
  return l.op(op, "", {l.x},
              window_fields({.kernel = {k, k},
                             .strides = {rows, columns},
                             .dilations = {},
                             .pads_begin = {begin, begin},
                             .pads_end = {pad - begin, pad - begin}},
                            true));
}

ValueId maxpool(const Layer& l) { return pooled(l, "max_pool"); }
ValueId local_avgpool(const Layer& l) { return pooled(l, "avg_pool"); }
ValueId avgpool(const Layer& l) { return l.op("global_avg_pool", "", {l.x}); }
ValueId dropout(const Layer& l) { return l.op("identity", "", {l.x}); }
ValueId activation(const Layer& l) { return l.activated(l.x, "linear"); }
ValueId logistic(const Layer& l) { return l.op("sigmoid", "", {l.x}); }

// Each of `groups` parts of an example by itself, of its values divided by the temperature.
ValueId softmax(const Layer& l) {
  const std::int64_t groups = l.s.integer("groups", 1), n = l.elements();
  const float temperature = l.s.number("temperature", 1);
  l.s.ordinary("spatial", 0);
  if (groups < 1 || n % groups != 0) throw bad_input("{} values in {} groups", n, groups);
  ValueId x = l.flat();
  if (temperature != 1)
    x = l.op("div", "cooled", {x, l.constant("temperature", scalar_f32(temperature))});
  if (const std::string tree = l.s.text("tree", ""); !tree.empty())
    return tree_softmax(l, x, 1, tree);
  if (groups == 1) return l.op("softmax", "", {x});
  const ValueId parts = l.op("reshape", "parts", {x}, {{"shape", Ints{-1, groups, n / groups}}});
  return l.op("reshape", "", {l.op("softmax", "softmax", {parts})}, {{"shape", Ints{-1, n}}});
}

ValueId cost(const Layer& l) {
  for (const char* key : {"type", "scale", "ratio", "noobj"}) l.s.text(key, "");
  l.g.note("the cost section serves training and is left out");
  return l.x;
}

ValueId empty(const Layer& l) { return l.x; }

// Compares embeddings while it trains, and makes nothing otherwise.
ValueId contrastive(const Layer& l) {
  for (const char* key : {"classes", "temperature", "yolo_layer", "contrastive_neg_max"})
    l.s.text(key, "");
  l.g.note("the contrastive section serves training and is left out");
  return l.x;
}

constexpr SectionRow kRows[] = {{"maxpool", "max", maxpool},
                                {"local_avgpool", "local_avg", local_avgpool},
                                {"contrastive", "contrastive", contrastive},
                                {"empty", "silence", empty},
                                {"avgpool", "avg", avgpool},
                                {"dropout", "dropout", dropout},
                                {"softmax", "soft", softmax},
                                {"activation", "activation", activation},
                                {"logistic", "logistic", logistic},
                                {"cost", "cost", cost}};

}  // namespace

std::span<const SectionRow> plain_sections() { return kRows; }

}  // namespace etalon::darknet
