// Darknet: a .cfg of sections in sequence and a .weights of f32 in the same sequence, behind three
// i32 of version and a counter (i64 from 0.2 on). Either names the model.
//
// Conventions: `pad=1` pads a convolution by half its kernel; a max pool's padding (kernel - 1 by
// default) stands half before, the odd element behind; batch norm adds 1e-6 to the deviation, not
// to the variance; leaky is 0.1; what a [yolo] layer does to its input (logistic of all but the
// extents) is part of the network, boxes are not. Refused by name: recurrent sections, [region],
// [detection], local convolutions. Source: darknet's parser.c, as its documentation describes it.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <set>

#include "engine/core/error.h"
#include "importers/containers/bytes.h"
#include "importers/formats/companion.h"
#include "importers/formats/darknet.h"
#include "importers/formats/translate.h"

namespace etalon {
namespace darknet {
namespace {

struct Section {
  std::string type;
  std::map<std::string, std::string, std::less<>> options;

  mutable std::set<std::string, std::less<>> read;  // by a translation

  std::string text(std::string_view key, std::string_view otherwise) const {
    const auto at = options.find(key);
    read.emplace(key);
    return at == options.end() ? std::string(otherwise) : at->second;
  }
  std::int64_t integer(std::string_view key, std::int64_t otherwise) const {
    const Ints all = integers(key);
    return all.empty() ? otherwise : all[0];
  }
  float number(std::string_view key, float otherwise) const {
    const std::string all = text(key, "");
    float v = otherwise;
    if (all.empty()) return v;
    const auto r = std::from_chars(all.data(), all.data() + all.size(), v);
    if (r.ec != std::errc() || r.ptr != all.data() + all.size())
      throw bad_input("{} = '{}' is no number", key, printable(all));
    return v;
  }
  Ints integers(std::string_view key) const {
    Ints out;
    const std::string all = text(key, "");
    for (std::size_t at = 0; at < all.size();) {
      const std::size_t end = std::min(all.find(',', at), all.size());
      std::int64_t v = 0;
      const auto r = std::from_chars(all.data() + at, all.data() + end, v);
      if (r.ec != std::errc() || v > 1 << 24 || v < -(1 << 24))
        throw bad_input("{} = '{}' is no whole number", key, printable(all));
      out.push_back(v);
      at = end + 1;
    }
    return out;
  }
};

std::vector<Section> sections_of(std::string_view text) {
  std::vector<Section> out;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string line;
    for (const char c : text.substr(0, end))
      if (c != ' ' && c != '\t' && c != '\r') line.push_back(c);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty() || line[0] == '#' || line[0] == ';') continue;
    if (line[0] == '[') {
      out.push_back({line.substr(1, line.find(']') - 1), {}, {}});
      continue;
    }
    const std::size_t equals = line.find('=');
    if (equals == std::string::npos || out.empty())
      throw bad_input("the line '{}' is neither a section nor an option", printable(line));
    out.back().options[line.substr(0, equals)] = line.substr(equals + 1);
  }
  return out;
}

// Options that training reads, or what makes boxes of a [yolo] section's numbers.
constexpr std::string_view kSilent[] = {"absolute",
                                        "anchors",
                                        "beta_nms",
                                        "burnin_update",
                                        "classfix",
                                        "clip",
                                        "cls_normalizer",
                                        "counters_per_class",
                                        "delta_normalizer",
                                        "dontload",
                                        "dontloadscales",
                                        "dropblock",
                                        "dropblock_size_abs",
                                        "dropblock_size_rel",
                                        "focal_loss",
                                        "ignore_thresh",
                                        "iou_loss",
                                        "iou_normalizer",
                                        "iou_thresh",
                                        "iou_thresh_kind",
                                        "jitter",
                                        "label_smooth_eps",
                                        "learning_rate",
                                        "map",
                                        "max",
                                        "max_delta",
                                        "name",
                                        "nms_kind",
                                        "noadjust",
                                        "noloss",
                                        "num",
                                        "numload",
                                        "obj_normalizer",
                                        "objectness_smooth",
                                        "onlyforward",
                                        "probability",
                                        "random",
                                        "resize",
                                        "show_details",
                                        "smooth",
                                        "stopbackward",
                                        "thresh",
                                        "train_only_bn",
                                        "truth_thresh",
                                        "uc_normalizer"};

class Weights {
 public:
  explicit Weights(const Blob& file) : file_(file) {
    if (file.bytes.size() < 20)
      throw bad_input(
          "{} bytes, where Darknet's weights begin with a header of 20; the file is cut short, "
          "fetch it "
          "again",
          file.bytes.size());
    const auto major = load_le<std::int32_t>(file.bytes, 0),
               minor = load_le<std::int32_t>(file.bytes, 4);
    at_ = major * std::int64_t{10} + minor >= 2 && major < 1000 && minor < 1000 ? 20 : 16;
    transposed = major > 1000 || minor > 1000;
    version = fmt::format("{}.{}.{}", major, minor, load_le<std::int32_t>(file.bytes, 8));
  }
  Tensor take(const Shape& shape) {
    const TensorType type{DType::f32, shape};
    const std::size_t size = claimed_bytes(type);
    if (size > file_.bytes.size() - at_)
      throw bad_input("the weights end before its {} bytes; the files do not belong together",
                      size);
    Tensor t = tensor_from_bytes(type, {file_.bytes.subspan(at_, size), file_.keeper});
    at_ += size;
    return t;
  }
  std::size_t left() const { return file_.bytes.size() - at_; }
  bool transposed = false;
  std::string version;

 private:
  const Blob& file_;
  std::size_t at_ = 0;
};

// An option that has a translation for this value alone.
void ordinary(const Section& s, std::string_view key, std::int64_t value) {
  if (const float v = s.number(key, static_cast<float>(value)); v != static_cast<float>(value))
    throw bad_input("the option {}={} is not supported; only {} is", key, v, value);
}

class Translator {
 public:
  Translator(const std::string& name, Weights& weights) : g(name), w_(weights) {}
  GraphBuilder g;

  void run(const std::vector<Section>& sections) {
    if (sections.empty() || (sections[0].type != "net" && sections[0].type != "network"))
      throw bad_input("the first section must be [net]");
    const std::int64_t c = sections[0].integer("channels", 0), h = sections[0].integer("height", 0),
                       width = sections[0].integer("width", 0);
    if (h > 0 && width > 0 && c > 0)
      x_ = g.input("data", DType::f32, {-1, c, h, width});
    else
      x_ = g.input("data", DType::f32, {-1, sections[0].integer("inputs", 1)});
    for (std::size_t i = 1; i < sections.size(); ++i) {
      const ErrorScope where(fmt::format("node {} [{}]", i - 1, printable(sections[i].type)));
      name_ = fmt::format("{}_{}", sections[i].type, i - 1);
      layer(sections[i]);
      for (const auto& [key, value] : sections[i].options)
        if (!sections[i].read.contains(key) && std::ranges::find(kSilent, key) == std::end(kSilent))
          throw bad_input(
              "the option {}={} has no translation; take it out if it serves training alone",
              printable(key), printable(value));
      made_.push_back(x_);
    }
    for (const ValueId v : detections_) g.output(v);
    if (detections_.empty()) g.output(x_);
    if (w_.left() != 0)
      g.note(fmt::format("{} bytes of weights behind those of the last layer are not read",
                         w_.left()));
  }

 private:
  ValueId constant(const char* role, Tensor t) {
    return g.constant(name_ + "." + role, std::move(t));
  }
  ValueId earlier(std::int64_t index) const {
    if (index < 0) index += static_cast<std::int64_t>(made_.size());
    if (index < 0 || index >= static_cast<std::int64_t>(made_.size()))
      throw bad_input("layer {} does not stand before it", index);
    return made_[static_cast<std::size_t>(index)];
  }
  ValueId activated(ValueId x, const std::string& kind) {
    const std::string name = name_ + "." + kind;
    if (kind == "linear") return x;
    if (kind == "relu") return g.op("relu", name, {x});
    if (kind == "logistic") return g.op("sigmoid", name, {x});
    if (kind == "tanh") return g.op("tanh", name, {x});
    if (kind == "elu") return g.op("elu", name, {x});
    if (kind == "selu") return g.op("selu", name, {x});
    if (kind == "mish") return g.op("mish", name, {x});
    if (kind == "swish") return g.op("silu", name, {x});
    if (kind == "leaky") {
      g.note("leaky multiplies negatives by 0.1");
      return g.op("leaky_relu", name, {x}, {{"alpha", 0.1F}});
    }
    if (kind == "hardtan") return g.op("hard_tanh", name, {x});
    throw bad_input("the activation {} is not supported", printable(kind));
  }
  // Biases, then scales, means and variances: what stands before the weights of a convolution.
  struct Norm {
    Tensor scale, mean, var;
  };
  Norm norm(std::int64_t n) {
    Norm out{w_.take({n}), w_.take({n}), w_.take({n})};
    Tensor var = out.var.clone();
    for (float& v : var.mutable_data<float>()) {
      const float deviation = std::sqrt(v) + 0.000001F;
      v = deviation * deviation;
    }
    out.var = std::move(var);
    return out;
  }
  ValueId normalised(ValueId y, const Norm& n, Tensor bias) {
    g.note(
        "batch norm divides by sqrt(variance) + 1e-6: the variance is stored here as the square "
        "of that, eps is 0");
    return g.op("batch_norm", name_ + ".norm",
                {y, constant("scale", n.scale.share()), constant("bias", std::move(bias)),
                 constant("mean", n.mean.share()), constant("var", n.var.share())},
                {{"eps", 0.0F}});
  }
  void layer(const Section& s);

  Weights& w_;
  std::string name_;
  ValueId x_ = kAbsent;
  std::vector<ValueId> made_, detections_;
};

void Translator::layer(const Section& s) {
  const std::string& t = s.type;
  if (t == "convolutional" || t == "conv") {
    const std::int64_t out = s.integer("filters", 1), k = s.integer("size", 1),
                       stride = s.integer("stride", 1), groups = s.integer("groups", 1),
                       c = g.shape(x_)[1];
    const std::int64_t padding = s.integer("padding", 0),
                       pad = s.integer("pad", 0) != 0 ? k / 2 : padding;
    ordinary(s, "dilation", 1);
    for (const char* key : {"binary", "xnor", "bin_output", "antialiasing", "share_index"})
      ordinary(s, key, 0);
    for (const char* key : {"stride_x", "stride_y"}) ordinary(s, key, stride);
    if (out < 1 || k < 1 || groups < 1 || c % groups != 0)
      throw bad_input("{} filters of {} over {} channels in {} groups", out, k, c, groups);
    const bool bn = s.integer("batch_normalize", 0) != 0;
    Tensor bias = w_.take({out});
    Norm n;
    if (bn) n = norm(out);
    const ValueId weight = constant("weight", w_.take({out, c / groups, k, k}));
    std::vector<ValueId> in{x_, weight};
    if (!bn) in.push_back(constant("bias", bias.share()));
    Fields f = window_fields({.kernel = {},
                              .strides = {stride, stride},
                              .dilations = {},
                              .pads_begin = {pad, pad},
                              .pads_end = {pad, pad}},
                             false);
    f.emplace_back("groups", groups);
    x_ = g.op("conv", name_, in, f);
    if (bn) x_ = normalised(x_, n, bias.share());
    x_ = activated(x_, s.text("activation", "logistic"));
  } else if (t == "connected" || t == "conn") {
    const Shape& shape = g.shape(x_);
    const std::int64_t in = shape.product(1, shape.rank()), out = s.integer("output", 1);
    if (shape.rank() != 2) x_ = g.op("flatten", name_ + ".flatten", {x_});
    Tensor bias = w_.take({out});
    const bool bn = s.integer("batch_normalize", 0) != 0;
    const ValueId weight =
        constant("weight", w_.take(w_.transposed ? Shape{in, out} : Shape{out, in}));
    Norm n;
    if (bn) n = norm(out);
    x_ = fully_connected(g, name_, x_, weight, bn ? kAbsent : constant("bias", bias.share()),
                         w_.transposed);
    if (bn) x_ = normalised(x_, n, bias.share());
    x_ = activated(x_, s.text("activation", "logistic"));
  } else if (t == "maxpool" || t == "max") {
    const std::int64_t stride = s.integer("stride", 1), k = s.integer("size", stride),
                       pad = s.integer("padding", k - 1);
    for (const char* key : {"maxpool_depth", "antialiasing"}) ordinary(s, key, 0);
    for (const char* key : {"stride_x", "stride_y"}) ordinary(s, key, stride);
    if (k < 1 || stride < 1 || pad < 0) throw bad_input("a window of {} by {}", k, stride);
    const std::int64_t begin = pad / 2;
    x_ = g.op("max_pool", name_, {x_},
              window_fields({.kernel = {k, k},
                             .strides = {stride, stride},
                             .dilations = {},
                             .pads_begin = {begin, begin},
                             .pads_end = {pad - begin, pad - begin}},
                            true));
    g.note("max pooling pads by its kernel less one, the odd element behind");
  } else if (t == "avgpool" || t == "avg") {
    x_ = g.op("global_avg_pool", name_, {x_});
  } else if (t == "dropout") {
    x_ = g.op("identity", name_, {x_});
  } else if (t == "softmax" || t == "soft") {
    for (const char* key : {"groups", "temperature"}) ordinary(s, key, 1);
    for (const char* key : {"spatial", "tree"}) ordinary(s, key, 0);
    if (g.rank(x_) != 2) x_ = g.op("flatten", name_ + ".flatten", {x_});
    x_ = g.op("softmax", name_, {x_});
  } else if (t == "route") {
    std::vector<ValueId> in;
    for (const std::int64_t i : s.integers("layers")) in.push_back(earlier(i));
    if (in.empty()) throw bad_input("a route without layers");
    x_ = in.size() == 1 ? in[0] : g.op("concat", name_, in, {{"axis", std::int64_t{1}}});
    if (const std::int64_t groups = s.integer("groups", 1); groups > 1) {
      const std::int64_t part = g.shape(x_)[1] / groups, id = s.integer("group_id", 0);
      x_ = g.op("slice", name_ + ".group", {x_},
                {{"starts", Ints{id * part}}, {"ends", Ints{(id + 1) * part}}, {"axes", Ints{1}}});
    }
  } else if (t == "shortcut") {
    const Ints from = s.integers("from");
    if (from.size() > 1)
      throw bad_input("a shortcut from {} layers; one is known here", from.size());
    if (const std::string kind = s.text("weights_type", "none"); kind != "none")
      throw bad_input("a shortcut whose parts are weighed (weights_type={})", printable(kind));
    const ValueId other = earlier(from.empty() ? -1 : from[0]);
    if (g.shape(other) != g.shape(x_)) throw bad_input("a shortcut between different shapes");
    x_ = activated(g.op("add", name_, {x_, other}), s.text("activation", "linear"));
  } else if (t == "upsample") {
    const auto scale = static_cast<float>(s.integer("stride", 2));
    ordinary(s, "reverse", 0);
    ordinary(s, "scale", 1);
    x_ = g.op("resize", name_, {x_},
              {{"mode", std::string("nearest")},
               {"coordinate_transformation_mode", std::string("asymmetric")},
               {"nearest_mode", std::string("floor")},
               {"axes", Ints{2, 3}},
               {"scales", std::vector<float>{scale, scale}}});
  } else if (t == "reorg") {
    for (const char* key : {"reverse", "flatten", "extra"}) ordinary(s, key, 0);
    // out[i] = in[place(i)]: Darknet reads [C,H,W] as [C/b^2, H*b, W*b], C/b^2 cut to a whole
    // number even where it is none. Then channels past the last whole block read on behind it.
    const std::int64_t b = s.integer("stride", 1);
    if (g.rank(x_) != 4) throw bad_input("an input of rank {}", g.rank(x_));
    const std::int64_t c = g.shape(x_)[1], h = g.shape(x_)[2], w = g.shape(x_)[3];
    const std::int64_t inner = b < 1 ? 0 : c / (b * b), n = g.shape(x_).product(1, 4);
    if (inner < 1 || h % b != 0 || w % b != 0 || n > 1 << 22)
      throw bad_input("{} in blocks of {}", to_string(g.shape(x_)), b);
    Tensor places = Tensor::uninitialized(DType::i64, {n});
    auto at = places.mutable_data<std::int64_t>();
    for (std::int64_t k = 0; k < c; ++k)
      for (std::int64_t j = 0; j < h; ++j)
        for (std::int64_t i = 0; i < w; ++i) {
          const std::int64_t block = k / inner, row = j * b + block / b, column = i * b + block % b;
          const std::int64_t place = column + w * b * (row + h * b * (k % inner));
          if (place >= n)
            throw bad_input("{} channels in blocks of {} read behind the input", c, b);
          at[static_cast<std::size_t>(i + w * (j + h * k))] = place;
        }
    const ValueId flat = g.op("reshape", name_ + ".flat", {x_}, {{"shape", Ints{-1, n}}});
    const ValueId y =
        g.op("gather", name_ + ".places", {flat, constant("index", std::move(places))},
             {{"axis", std::int64_t{1}}});
    x_ = g.op("reshape", name_, {y}, {{"shape", Ints{-1, c * b * b, h / b, w / b}}});
    g.note("reorg reads [C,H,W] as [C/b^2,H*b,W*b], as Darknet does");
  } else if (t == "yolo") {
    const auto mask = static_cast<std::int64_t>(s.integers("mask").size());
    const std::int64_t classes = s.integer("classes", 20),
                       n = mask > 0 ? mask : s.integer("num", 1);
    const Shape shape = g.shape(x_);
    if (shape.rank() != 4 || shape[1] != n * (classes + 5))
      throw bad_input("{} channels for {} boxes of {} classes", shape.rank() > 1 ? shape[1] : 0, n,
                      classes);
    const ValueId boxes = g.op("reshape", name_ + ".boxes", {x_},
                               {{"shape", Ints{-1, n, classes + 5, shape[2], shape[3]}}});
    const auto parts = g.nodes("split", name_ + ".parts", {boxes},
                               make_params(get_op("split"), {{"axis", std::int64_t{2}},
                                                             {"split", Ints{2, 2, classes + 1}}}),
                               3);
    // With new_coords the convolution before it has taken the logistic of everything.
    const bool logistic = s.integer("new_coords", 0) == 0;
    ValueId xy = logistic ? g.op("sigmoid", name_ + ".xy", {parts[0]}) : parts[0];
    const ValueId rest = logistic ? g.op("sigmoid", name_ + ".scores", {parts[2]}) : parts[2];
    if (const float by = s.number("scale_x_y", 1); by != 1) {
      g.note("[yolo] stretches places around the middle of their cell (scale_x_y)");
      xy = g.op("mul", name_ + ".stretched", {xy, constant("by", scalar_f32(by))});
      xy = g.op("add", name_ + ".centred", {xy, constant("shift", scalar_f32(-0.5F * (by - 1)))});
    }
    const ValueId all =
        g.op("concat", name_ + ".all", {xy, parts[1], rest}, {{"axis", std::int64_t{2}}});
    x_ = g.op("reshape", name_, {all}, {{"shape", Ints{-1, shape[1], shape[2], shape[3]}}});
    g.note(
        "a [yolo] section takes the logistic of places, objectness and classes (with new_coords as "
        "they come); boxes are not made");
    detections_.push_back(x_);
  } else if (t == "cost") {
    g.note("the cost section serves training and is left out");
  } else if (t == "batchnorm") {
    const std::int64_t c = g.shape(x_)[1];
    Tensor bias = w_.take({c});
    const Norm n = norm(c);
    x_ = normalised(x_, n, std::move(bias));
  } else if (t == "activation") {
    x_ = activated(x_, s.text("activation", "linear"));
  } else {
    throw bad_input("the section [{}] is not supported", printable(t));
  }
}

Model open(const std::string& path, std::span<const std::string> with) {
  const std::string cfg = companion(path, with, {".cfg"}),
                    weights = companion(path, with, {".weights"});
  if (cfg.empty()) throw bad_input("{}: no .cfg lies beside it; name it with --with", path);
  if (weights.empty())
    throw bad_input("{}: no .weights lie beside it; name them with --with", path);
  const Blob text = map_file(cfg), numbers = map_file(weights);
  const ErrorScope scope(path);
  Weights w(numbers);
  Translator t(stem_of(cfg), w);
  t.run(sections_of(text.text()));
  return finish_model(t.g, path, "darknet", "weights " + w.version, "darknet");
}

}  // namespace
}  // namespace darknet

const FormatRow& darknet_format() {
  static const FormatRow row{.name = "darknet",
                             .endings = ".cfg .weights",
                             .summary = "Darknet: .cfg and .weights.",
                             .match =
                                 [](const FileView& f) {
                                   if (f.is_folder) return false;
                                   if (has_ending(f.path, ".weights")) return true;
                                   return f.text().starts_with("[net]") ||
                                          f.text().find("\n[net]") != std::string_view::npos;
                                 },
                             .open = darknet::open};
  return row;
}

}  // namespace etalon
