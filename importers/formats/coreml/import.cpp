// Core ML's neural network (Model fields 303, 403, 500): layers over named values. Weights are f32,
// f16 or quantised (1 to 8 bits, linear by channel or a table of values) and read as f32. With the
// exact mapping of shapes a value is what its description says; with the old one (rank 5) it lacks
// the batch, which is put before it. Pipelines of networks are one graph. Refused by name: trees
// and other models, layers whose type is Refused in schema.cpp, normalised variances (mvn).
#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "engine/core/error.h"
#include "importers/containers/json.h"
#include "importers/containers/pbtree.h"
#include "importers/formats/coreml.h"
#include "importers/formats/coreml/layers.h"
#include "importers/formats/coreml/program.h"
#include "importers/formats/coreml/schema.h"
#include "importers/formats/translate.h"

namespace etalon {
namespace coreml {
namespace {

class Translator {
 public:
  explicit Translator(const std::string& name) : g(name) {}
  GraphBuilder g;

  // `lead` is the extent in front: 1 of a state of a recurrent layer, otherwise free, or 0 for that
  // of the file.
  void input(const PbMessage& feature, bool exact, std::int64_t lead) {
    const std::string name = feature.text("name");
    const ErrorScope where(fmt::format("value {}", printable(name)));
    const PbMessage type = feature.message("type");
    Ints dims;
    if (type.has("multiArrayType")) {
      dims = type.message("multiArrayType").integers("shape");
      // Five extents are all there are, under either mapping.
      if (!exact && dims.size() != 5)
        dims.insert(dims.begin(), lead == 0 ? 1 : lead);
      else if (dims.size() > 1 && lead != 0)
        dims[0] = lead;
    } else if (type.has("imageType")) {
      const PbMessage image = type.message("imageType");
      dims = {-1, image.integer("colorSpace") == 10 ? 1 : 3, image.integer("height"),
              image.integer("width")};
      g.note(fmt::format(
          "input {} is an image: feed its channels as f32, as preprocessing gives them", name));
    } else {
      throw bad_input("an input that is neither an array nor an image");
    }
    for (const std::int64_t d : dims)
      if (d == 0 || d < -1) throw bad_input("an extent of {}", d);
    values_[name] = g.input(name, DType::f32, dims);
  }
  void layer(const PbMessage& l);
  // One network of a pipeline: of its values, only its outputs are seen outside.
  void begin() { outside_ = values_; }
  void end(const std::vector<std::string>& outputs) {
    for (const std::string& name : outputs)
      if (const auto at = values_.find(name); at != values_.end()) outside_[name] = at->second;
    values_ = outside_;
  }
  ValueId value(const std::string& name) const {
    const auto at = values_.find(name);
    if (at == values_.end()) throw bad_input("nothing makes the value {}", printable(name));
    return at->second;
  }

 private:
  // Weights as f32; `count` elements, the first axis of which is scaled by channel.
  ValueId weights(const PbMessage& w, const char* role, const Shape& shape) {
    Tensor t;
    if (w.has("floatValue")) {
      t = w.tensor("floatValue");
    } else if (w.has("float16Value")) {
      const Blob raw = w.blob("float16Value");
      t = as_f32(
          tensor_from_bytes({DType::f16, {static_cast<std::int64_t>(raw.bytes.size() / 2)}}, raw));
      g.note("f16 weights are widened to f32, which is exact");
    } else if (w.has("rawValue")) {
      t = dequantised(w, shape);
    } else {
      throw bad_input("{} is empty", role);
    }
    if (t.numel() != shape.numel())
      throw bad_input("{} has {} elements, expected {}", role, t.numel(), to_string(shape));
    return g.constant(name_ + "." + role, t.reshaped(shape));
  }
  Tensor dequantised(const PbMessage& w, const Shape& shape) {
    const PbMessage q = w.message("quantization");
    const auto bits = q.integer("numberOfBits", 8);
    const Blob raw = w.blob("rawValue");
    if (bits < 1 || bits > 8) throw bad_input("weights of {} bits", bits);
    const auto n = static_cast<std::uint64_t>(shape.numel());
    if (shape.numel() > static_cast<std::int64_t>(raw.bytes.size()) * 8 ||
        raw.bytes.size() < (n * static_cast<std::uint64_t>(bits) + 7) / 8)
      throw bad_input("{} bytes for {} weights of {} bits", raw.bytes.size(), n, bits);
    const std::vector<float> scale = q.message("linearQuantization").numbers("scale"),
                             bias = q.message("linearQuantization").numbers("bias"),
                             table = q.message("lookupTableQuantization").numbers("floatValue");
    Tensor out = Tensor::uninitialized(DType::f32, {shape.numel()});
    auto to = out.mutable_data<float>();
    const std::size_t per = to.size() / static_cast<std::size_t>(std::max<std::int64_t>(
                                            1, shape.rank() > 0 ? shape[0] : 1));
    for (std::size_t i = 0; i < to.size(); ++i) {
      unsigned v = 0;  // most significant bit first
      for (std::size_t b = 0; b < static_cast<std::size_t>(bits); ++b) {
        const std::size_t at = i * static_cast<std::size_t>(bits) + b;
        v = v << 1 | (std::to_integer<unsigned>(raw.bytes[at / 8]) >> (7 - at % 8) & 1U);
      }
      if (!table.empty()) {
        if (v >= table.size())
          throw bad_input("a table of {} values is asked for value {}", table.size(), v);
        to[i] = table[v];
        continue;
      }
      const std::size_t c = per == 0 ? 0 : i / per;
      if (scale.empty()) throw bad_input("quantised weights without a scale");
      const float s = scale[scale.size() == 1 ? 0 : std::min(c, scale.size() - 1)];
      const float o = bias.empty() ? 0 : bias[bias.size() == 1 ? 0 : std::min(c, bias.size() - 1)];
      to[i] = s * static_cast<float>(v) + o;
    }
    g.note(
        "quantised weights are read as scale * q + bias by output channel, or from their table, in "
        "f32");
    return out;
  }
  void padding(const PbMessage& p, Fields& f) {
    if (p.has("same")) {
      f.emplace_back("auto_pad",
                     std::string(p.message("same").integer("asymmetryMode") == 1 ? "same_lower"
                                                                                 : "same_upper"));
      g.note("SAME padding: the odd element stands where asymmetryMode says");
      return;
    }
    Ints begin, end;
    for (const PbMessage& b :
         p.message("valid").message("paddingAmounts").messages("borderAmounts")) {
      begin.push_back(b.integer("startEdgeSize"));
      end.push_back(b.integer("endEdgeSize"));
    }
    f.emplace_back("pads_begin", begin);
    f.emplace_back("pads_end", end);
  }
  ValueId activation(const PbMessage& a, ValueId x);

  std::string name_;
  std::map<std::string, ValueId> values_, outside_;
};

ValueId Translator::activation(const PbMessage& a, ValueId x) {
  for (const auto& [field, op] : {std::pair{"ReLU", "relu"},
                                  {"tanh", "tanh"},
                                  {"sigmoid", "sigmoid"},
                                  {"softsign", "softsign"},
                                  {"softplus", "softplus"}})
    if (a.has(field)) return g.op(op, name_, {x});
  if (a.has("leakyReLU"))
    return g.op("leaky_relu", name_, {x}, {{"alpha", a.message("leakyReLU").number("alpha")}});
  if (a.has("ELU")) return g.op("elu", name_, {x}, {{"alpha", a.message("ELU").number("alpha")}});
  if (a.has("sigmoidHard")) {
    const PbMessage h = a.message("sigmoidHard");
    return g.op("hard_sigmoid", name_, {x},
                {{"alpha", h.number("alpha")}, {"beta", h.number("beta")}});
  }
  if (a.has("thresholdedReLU"))
    return g.op("thresholded_relu", name_, {x},
                {{"alpha", a.message("thresholdedReLU").number("alpha")}});
  if (a.has("scaledTanh")) {
    const PbMessage h = a.message("scaledTanh");
    const ValueId y =
        g.op("mul", name_ + ".beta", {x, g.constant("beta", scalar_f32(h.number("beta")))});
    return g.op(
        "mul", name_,
        {g.op("tanh", name_ + ".tanh", {y}), g.constant("alpha", scalar_f32(h.number("alpha")))});
  }
  if (a.has("parametricSoftplus")) {
    const PbMessage h = a.message("parametricSoftplus");
    const auto by_channel = [&](const char* field) {
      const PbMessage w = h.message(field);
      const auto at = static_cast<std::size_t>(std::max(g.rank(x) - 3, 0));
      const std::int64_t channels = g.rank(x) < 3 ? -1 : g.dims(x)[at];
      // One number, or one for each channel.
      return weights(w, field,
                     w.numbers("floatValue").size() == 1 ? Shape{} : Shape{channels, 1, 1});
    };
    const ValueId y = g.op("mul", name_ + ".beta", {x, by_channel("beta")});
    return g.op("mul", name_, {g.op("softplus", name_ + ".softplus", {y}), by_channel("alpha")});
  }
  if (a.has("linear")) {
    const PbMessage h = a.message("linear");
    const ValueId y =
        g.op("mul", name_ + ".alpha", {x, g.constant("alpha", scalar_f32(h.number("alpha")))});
    return g.op("add", name_, {y, g.constant("beta", scalar_f32(h.number("beta")))});
  }
  for (const PbField& f : schema().type("Activation").fields)
    if (a.has(f.name)) throw bad_input("the activation {} is not supported", f.name);
  throw bad_input("an activation without a kind");
}

void Translator::layer(const PbMessage& l) {
  name_ = l.text("name");
  const ErrorScope where(fmt::format("node {}", printable(name_)));
  std::vector<ValueId> in;
  for (const std::string& name : l.texts("input")) in.push_back(value(name));
  const auto outputs = l.texts("output");
  const auto more = translate_layer({g, l, name_, in, outputs.size(),
                                     [&](const PbMessage& w, const char* role, const Shape& shape) {
                                       return weights(w, role, shape);
                                     }});
  if (!more.empty()) {
    if (more.size() < outputs.size()) throw bad_input("{} outputs", outputs.size());
    for (std::size_t i = 0; i < outputs.size(); ++i) values_[outputs[i]] = more[i];
    return;
  }
  for (const PbField& f : schema().type("Layer").fields)
    if (f.type == &schema().type("Refused") && l.has(f.name))
      throw bad_input("a layer {} is not supported", f.name);
  if (in.empty() || outputs.size() != 1)
    throw bad_input("{} inputs and {} outputs", in.size(), outputs.size());
  const ValueId x = in[0];
  ValueId y = kAbsent;
  if (l.has("convolution")) {
    const PbMessage p = l.message("convolution");
    const std::int64_t out = p.integer("outputChannels"), in_channels = p.integer("kernelChannels"),
                       groups = std::max<std::int64_t>(1, p.integer("nGroups", 1));
    Ints kernel = p.integers("kernelSize");
    if (kernel.empty()) kernel = {3, 3};
    const bool transposed = p.flag("isDeconvolution");
    Ints dims = transposed ? Ints{in_channels, out / groups} : Ints{out, in_channels};
    dims.insert(dims.end(), kernel.begin(), kernel.end());
    Fields f{{"strides", p.integers("stride")},
             {"dilations", p.integers("dilationFactor")},
             {"groups", groups}};
    padding(p, f);
    if (transposed && p.has("outputShape"))
      f.emplace_back("output_shape", p.integers("outputShape"));
    std::vector<ValueId> inputs{x, weights(p.message("weights"), "weights", Shape(dims))};
    if (p.flag("hasBias")) inputs.push_back(weights(p.message("bias"), "bias", {out}));
    y = g.op(transposed ? "conv_transpose" : "conv", name_, inputs, f);
  } else if (l.has("pooling")) {
    const PbMessage p = l.message("pooling");
    const auto kind = p.integer("type");
    if (kind > 1) throw bad_input("L2 pooling is not supported");
    if (p.flag("globalPooling")) {
      y = g.op(kind == 0 ? "global_max_pool" : "global_avg_pool", name_, {x});
    } else {
      Ints kernel = p.integers("kernelSize");
      if (kernel.empty()) kernel = {3, 3};
      Fields f{{"kernel", kernel}, {"strides", p.integers("stride")}};
      if (p.has("includeLastPixel")) {
        const Ints pads = p.message("includeLastPixel").integers("paddingAmounts");
        f.emplace_back("pads_begin", pads);
        f.emplace_back("pads_end", pads);
        f.emplace_back("ceil_mode", true);
        g.note("includeLastPixel: the output extent is rounded up, as Caffe's is");
      } else {
        padding(p, f);
      }
      if (kind == 1) f.emplace_back("count_include_pad", !p.flag("avgPoolExcludePadding"));
      y = g.op(kind == 0 ? "max_pool" : "avg_pool", name_, {x}, f);
    }
  } else if (l.has("activation")) {
    y = activation(l.message("activation"), x);
  } else if (l.has("innerProduct")) {
    const PbMessage p = l.message("innerProduct");
    const std::int64_t c = p.integer("inputChannels"), out = p.integer("outputChannels");
    ValueId flat = x;
    if (g.rank(x) != 2) flat = g.op("flatten", name_ + ".flatten", {x});
    const ValueId w = weights(p.message("weights"), "weights", {out, c});
    y = fully_connected(g, name_, flat, w,
                        p.flag("hasBias") ? weights(p.message("bias"), "bias", {out}) : kAbsent);
  } else if (l.has("batchnorm")) {
    const PbMessage p = l.message("batchnorm");
    const bool instance = p.flag("computeMeanVar") && p.flag("instanceNormalization");
    if (p.flag("computeMeanVar") && !instance)
      throw bad_input("statistics of the whole batch are not supported");
    const Shape c{p.integer("channels")};
    const float eps = p.number("epsilon", 1e-5F);
    g.note(fmt::format("{} norm: eps {}", instance ? "instance" : "batch", eps));
    std::vector<ValueId> all{x, weights(p.message("gamma"), "gamma", c),
                             weights(p.message("beta"), "beta", c)};
    if (!instance) {
      all.push_back(weights(p.message("mean"), "mean", c));
      all.push_back(weights(p.message("variance"), "variance", c));
    }
    y = g.op(instance ? "instance_norm" : "batch_norm", name_, all, {{"eps", eps}});
  } else if (l.has("softmax")) {
    y = g.op("softmax", name_, {x},
             {{"axis", std::int64_t{g.rank(x) >= 3 ? g.rank(x) - 3 : g.rank(x) - 1}}});
  } else if (l.has("bias")) {
    const PbMessage p = l.message("bias");
    Ints dims = p.integers("shape");
    if (dims.size() == 1 && g.rank(x) >= 3) dims.insert(dims.end(), {1, 1});
    y = g.op("add", name_, {x, weights(p.message("bias"), "bias", Shape(dims))});
  } else if (l.has("softmaxND")) {
    y = g.op("softmax", name_, {x}, {{"axis", l.message("softmaxND").integer("axis")}});
  } else if (l.has("lrn")) {
    const PbMessage p = l.message("lrn");
    g.note("LRN: alpha is divided by the window's size");
    y = g.op("lrn", name_, {x},
             {{"size", p.integer("localSize", 5)},
              {"alpha", p.number("alpha")},
              {"beta", p.number("beta")},
              {"bias", p.number("k", 1)}});
  } else if (l.has("add") || l.has("multiply")) {
    const bool add = l.has("add");
    y = x;
    for (std::size_t i = 1; i < in.size(); ++i) y = g.op(add ? "add" : "mul", name_, {y, in[i]});
    if (in.size() == 1) {
      const float alpha = l.message(add ? "add" : "multiply").number("alpha");
      y = g.op(add ? "add" : "mul", name_, {x, g.constant(name_ + ".alpha", scalar_f32(alpha))});
    }
  } else if (l.has("concat")) {
    const int back = l.message("concat").flag("sequenceConcat") ? 5 : 3;
    if (g.rank(x) < back) throw bad_input("a concatenation of rank {}", g.rank(x));
    y = g.op("concat", name_, in, {{"axis", std::int64_t{g.rank(x) - back}}});
  } else if (l.has("flatten")) {
    const bool last = l.message("flatten").integer("mode") == 1;
    if (last && g.rank(x) != 4)
      throw bad_input("a flatten of channels last of rank {} is not supported", g.rank(x));
    if (last) g.note("flatten: channels last, written as a transpose");
    y = g.op("flatten", name_, {last ? g.transpose(name_ + ".last", x, {0, 2, 3, 1}) : x});
  } else if (l.has("reshapeStatic")) {
    Ints shape = l.message("reshapeStatic").integers("targetShape");
    // The shape was traced at the batch of the file; the batch stays free where it leads.
    if (!shape.empty() && g.known(x) && g.rank(x) > 0 && g.dims(x)[0] == -1 && shape[0] > 0)
      shape[0] = -1;
    y = g.op("reshape", name_, {x}, {{"shape", shape}});
  } else {
    throw bad_input("a layer of a kind that this specification does not have is not supported");
  }
  values_[outputs[0]] = y;
}

struct Part {
  PbMessage net;
  std::vector<std::string> outputs;  // what the next one may read
};

// The networks of a model, one behind the other.
std::vector<Part> networks(const PbMessage& m, int depth) {
  if (depth > 4) throw bad_input("pipelines nest deeper than 4 levels");
  for (const char* kind : {"neuralNetwork", "neuralNetworkClassifier", "neuralNetworkRegressor"})
    if (m.has(kind) && m.message(kind).has("layers")) {
      Part part{m.message(kind), {}};
      for (const PbMessage& f : m.message("description").messages("output"))
        part.outputs.push_back(f.text("name"));
      return {std::move(part)};
    }
  PbMessage pipeline = m.message("pipeline");
  for (const char* kind : {"pipelineClassifier", "pipelineRegressor"})
    if (m.has(kind)) pipeline = m.message(kind).message("pipeline");
  std::vector<Part> out;
  for (const PbMessage& inner :
       pipeline.count("models") != 0 ? pipeline.messages("models") : std::vector<PbMessage>{})
    for (Part& part : networks(inner, depth + 1)) out.push_back(std::move(part));
  if (out.empty())
    throw bad_input("no neural network in it (another kind of model); convert it to one");
  return out;
}

void translate(Translator& t, const std::vector<Part>& parts, const PbMessage& description,
               std::int64_t lead) {
  const bool exact = parts[0].net.integer("arrayInputShapeMapping") == 1;
  std::set<std::string> states;
  for (const Part& part : parts)
    for (const PbMessage& l : part.net.messages("layers"))
      if (is_recurrent(l)) {
        const std::vector<std::string> names = l.texts("input");
        for (std::size_t i = 1; i < names.size(); ++i) states.insert(names[i]);
      }
  if (!states.empty())
    t.g.note("states of recurrent layers are inputs and outputs of their own: feed zeros first");
  for (const PbMessage& f : description.messages("input"))
    t.input(f, exact, states.contains(f.text("name")) ? 1 : lead);
  if (parts.size() > 1)
    t.g.note(fmt::format("a pipeline of {} networks is read as one graph", parts.size()));
  for (const Part& part : parts) {
    if (part.net.has("preprocessing"))
      t.g.note(
          "the file's preprocessing of images (scale, bias by channel) is no part of the network: "
          "feed what it makes");
    t.begin();
    for (const PbMessage& l : part.net.messages("layers")) t.layer(l);
    t.end(part.outputs);
  }
  for (const PbMessage& f : description.messages("output")) {
    const std::string name = f.text("name");
    // A classifier's label is chosen from its probabilities, outside the network.
    if (f.message("type").has("multiArrayType") || description.count("output") == 1)
      t.g.output(t.value(name), name);
  }
}

Model open_model_file(const std::string& path) {
  const Blob file = map_file(path);
  const ErrorScope scope(path);
  const PbMessage m = PbMessage::from_wire(schema().type("Model"), file);
  if (m.has("mlProgram")) return open_program(file, path, folder_of(path));
  const PbMessage description = m.message("description");
  const auto parts = networks(m, 0);
  Translator t(stem_of(path));
  try {
    translate(t, parts, description, -1);
  } catch (const Error&) {
    // The extent in front is no batch: as it stands in the file.
    t = Translator(stem_of(path));
    translate(t, parts, description, 0);
    t.g.note("the first extents of inputs are fixed, as in the file: the network asks for them");
  }
  std::string producer;
  for (const PbMessage& e : description.message("metadata").messages("userDefined"))
    if (e.text("key").ends_with("coremltools.version")) producer = "coremltools " + e.text("value");
  return finish_model(t.g, path, "coreml",
                      fmt::format("specification {}", m.integer("specificationVersion")), producer);
}

// A package is a folder: its manifest names the model under Data/.
Model open(const std::string& path, std::span<const std::string>) {
  std::error_code failed;
  if (!std::filesystem::is_directory(path, failed)) return open_model_file(path);
  const std::string manifest = path + "/Manifest.json";
  std::string item;
  {
    const Blob blob = map_file(manifest);
    const ErrorScope scope(manifest);
    const nlohmann::json json = parse_json(blob.text());
    const std::string root = json_string(json, "rootModelIdentifier");
    item = json_string(json_member(json_member(json, "itemInfoEntries"), root), "path");
  }
  const ErrorScope scope(path);
  Model model = open_model_file(resolve_inside(path, "Data/" + item));
  model.path = path;
  return model;
}

bool match_package(const std::string& folder) {
  std::error_code failed;
  const std::string manifest = folder + "/Manifest.json";
  if (!std::filesystem::is_regular_file(manifest, failed) ||
      std::filesystem::file_size(manifest, failed) > 1 << 20)
    return false;
  return map_file(manifest).text().find("rootModelIdentifier") != std::string_view::npos;
}

// A version of 1 to 20, then the description, whose first field is an input.
bool match(const FileView& file) {
  if (file.is_folder) return match_package(file.path);
  if (has_ending(file.path, ".mlmodel")) return true;
  const auto f = peek_fields(file.prefix, 2);
  if (f.size() < 2 || f[0].number != 1 || f[0].wire != 0 || f[0].value < 1 || f[0].value > 20 ||
      f[1].number != 2 || f[1].wire != 2)
    return false;
  const auto description = peek_fields(f[1].payload, 1);
  return !description.empty() && description[0].number == 1 && description[0].wire == 2;
}

}  // namespace
}  // namespace coreml

const FormatRow& coreml_format() {
  static const FormatRow row{.name = "coreml",
                             .endings = ".mlmodel .mlpackage",
                             .summary = "Core ML neural network, pipeline or ML program.",
                             .match = coreml::match,
                             .open = coreml::open};
  return row;
}

}  // namespace etalon
