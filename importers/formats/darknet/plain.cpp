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

ValueId Layer::activated(ValueId v, std::string_view otherwise) const {
  const std::string kind = s.text("activation", otherwise);
  if (kind == "linear") return v;
  struct Same {
    std::string_view kind, op;
  };
  static constexpr Same kSame[] = {{"relu", "relu"},  {"logistic", "sigmoid"}, {"tanh", "tanh"},
                                   {"elu", "elu"},    {"selu", "selu"},        {"mish", "mish"},
                                   {"swish", "silu"}, {"hardtan", "hard_tanh"}};
  for (const Same& same : kSame)
    if (same.kind == kind) return op(same.op, kind, {v});
  struct Leaky {
    std::string_view kind;
    float alpha;
  };
  static constexpr Leaky kLeaky[] = {{"leaky", 0.1F}, {"relie", 0.01F}};
  for (const Leaky& leaky : kLeaky)
    if (leaky.kind == kind) {
      g.note(fmt::format("{} multiplies negatives by {}", kind, leaky.alpha));
      return op("leaky_relu", kind, {v}, {{"alpha", leaky.alpha}});
    }
  if (kind == "relu6") return op("clip", kind, {v}, {{"min", 0.0F}, {"max", 6.0F}});
  if (kind == "ramp")  // x where it is positive, and a tenth of x everywhere
    return op(
        "add", kind,
        {op("relu", "positive", {v}), op("mul", "tenth", {v, constant("by", scalar_f32(.1F))})});
  if (kind == "loggy")  // 2 / (1 + exp(-x)) - 1
    return op("sub", kind,
              {op("mul", "twice", {op("sigmoid", "logistic", {v}), constant("by", scalar_f32(2))}),
               constant("one", scalar_f32(1))});
  throw bad_input("the activation {} is not supported", printable(kind));
}

namespace {

ValueId maxpool(const Layer& l) {
  const Section& s = l.s;
  const std::int64_t stride = s.integer("stride", 1), k = s.integer("size", stride),
                     pad = s.integer("padding", k - 1);
  for (const char* key : {"maxpool_depth", "antialiasing"}) s.ordinary(key, 0);
  for (const char* key : {"stride_x", "stride_y"}) s.ordinary(key, stride);
  if (k < 1 || stride < 1 || pad < 0) throw bad_input("a window of {} by {}", k, stride);
  const std::int64_t begin = pad / 2;
  l.g.note("max pooling pads by its kernel less one, the odd element behind");
  return l.op("max_pool", "", {l.x},
              window_fields({.kernel = {k, k},
                             .strides = {stride, stride},
                             .dilations = {},
                             .pads_begin = {begin, begin},
                             .pads_end = {pad - begin, pad - begin}},
                            true));
}

ValueId avgpool(const Layer& l) { return l.op("global_avg_pool", "", {l.x}); }
ValueId dropout(const Layer& l) { return l.op("identity", "", {l.x}); }
ValueId activation(const Layer& l) { return l.activated(l.x, "linear"); }
ValueId logistic(const Layer& l) { return l.op("sigmoid", "", {l.x}); }

// Each of `groups` parts of an example by itself, of its values divided by the temperature.
ValueId softmax(const Layer& l) {
  const std::int64_t groups = l.s.integer("groups", 1), n = l.elements();
  const float temperature = l.s.number("temperature", 1);
  l.s.ordinary("spatial", 0);
  if (const std::string tree = l.s.text("tree", ""); !tree.empty())
    throw bad_input("a softmax over the tree of classes {} is not supported", printable(tree));
  if (groups < 1 || n % groups != 0) throw bad_input("{} values in {} groups", n, groups);
  ValueId x = l.flat();
  if (temperature != 1)
    x = l.op("div", "cooled", {x, l.constant("temperature", scalar_f32(temperature))});
  if (groups == 1) return l.op("softmax", "", {x});
  const ValueId parts = l.op("reshape", "parts", {x}, {{"shape", Ints{-1, groups, n / groups}}});
  return l.op("reshape", "", {l.op("softmax", "softmax", {parts})}, {{"shape", Ints{-1, n}}});
}

ValueId cost(const Layer& l) {
  for (const char* key : {"type", "scale", "ratio", "noobj"}) l.s.text(key, "");
  l.g.note("the cost section serves training and is left out");
  return l.x;
}

constexpr SectionRow kRows[] = {{"maxpool", "max", maxpool},
                                {"avgpool", "avg", avgpool},
                                {"dropout", "dropout", dropout},
                                {"softmax", "soft", softmax},
                                {"activation", "activation", activation},
                                {"logistic", "logistic", logistic},
                                {"cost", "cost", cost}};

}  // namespace

std::span<const SectionRow> plain_sections() { return kRows; }

}  // namespace etalon::darknet
