#include "importers/formats/tf/inputs.h"

#include <algorithm>
#include <array>

#include "engine/core/error.h"
#include "importers/containers/bytes.h"
#include "importers/formats/tf/importer.h"
#include "importers/formats/tf/schema.h"
#include "importers/formats/tf/training.h"

namespace etalon::tf {
namespace {

constexpr std::array<std::string_view, 26> kSameChannels{
    "Identity",      "Cast",    "Sub",     "Mul",       "Add",
    "AddV2",         "RealDiv", "Div",     "BiasAdd",   "Relu",
    "Relu6",         "Pad",     "PadV2",   "MirrorPad", "ResizeBilinear",
    "ResizeBicubic", "LRN",     "MaxPool", "AvgPool",   "ResizeNearestNeighbor",
    "Minimum",       "Maximum", "Switch",  "Merge",     "StopGradient",
    "CheckNumerics"};

bool is_picture(const std::string& op) {
  return op == "DecodeJpeg" || op == "DecodePng" || op == "DecodeImage" || op == "DecodeBmp" ||
         op == "DecodeAndCropJpeg";
}
bool is_queue(const std::string& op) {
  return op.starts_with("QueueDequeue") || op.starts_with("ReaderRead");
}

// Extents of a weight that the file holds.
std::optional<Ints> weight_dims(const Body& body, std::string text) {
  for (int step = 0; step < 16; ++step) {
    const auto at = body.by_name.find(reference(text).node);
    if (at == body.by_name.end()) return std::nullopt;
    const PbMessage& n = body.nodes[at->second];
    const std::string op = n.text("op");
    if (op == "Const")
      return dims_of(attribute(n, "value").message("tensor").message("tensor_shape"));
    if (op == "VariableV2" || op == "Variable" || op == "VarHandleOp")
      return dims_of(attribute(n, "shape").message("shape"));
    if ((op != "Identity" && op != "ReadVariableOp" && op != "Enter") || n.count("input") < 1)
      return std::nullopt;
    text = n.texts("input")[0];
  }
  return std::nullopt;
}

bool draws(const Body& body, const std::string& text) {
  std::vector<std::string> open{text};
  for (std::size_t at = 0; at < open.size() && at < 16; ++at) {
    const auto found = body.by_name.find(reference(open[at]).node);
    if (found == body.by_name.end()) continue;
    const PbMessage& n = body.nodes[found->second];
    if (n.text("op") == "RandomUniform") return dropout_of(body, found->second) == Dropout::given;
    for (const std::string& in : n.texts("input"))
      if (!reference(in).control) open.push_back(in);
  }
  return false;
}

// What the dense features of a parsed example are called, as far as constants say it.
std::vector<std::string> dense_keys(const Body& main, const PbMessage& node, std::size_t sparse,
                                    std::size_t dense) {
  const std::string op = node.text("op");
  if (op == "ParseSingleExample") return attribute(node, "dense_keys").message("list").texts("s");
  const auto inputs = node.texts("input");
  std::vector<std::string> keys;
  const auto read = [&](std::size_t i) {
    const auto at =
        i < inputs.size() ? main.by_name.find(reference(inputs[i]).node) : main.by_name.end();
    if (at == main.by_name.end()) return;
    const PbMessage constant = attribute(main.nodes[at->second], "value").message("tensor");
    for (std::string& key : constant.texts("string_val")) keys.push_back(std::move(key));
  };
  if (op == "ParseExampleV2")
    read(3);
  else
    for (std::size_t i = 0; i < dense; ++i) read(2 + sparse + i);
  return keys.size() == dense ? keys : std::vector<std::string>{};
}

}  // namespace

std::map<std::string, std::set<std::size_t>> reached_from(const Body& main,
                                                          const std::vector<std::string>& wanted,
                                                          const std::set<std::string>& known) {
  std::map<std::string, std::set<std::size_t>> reached;
  std::vector<std::string> open = wanted;
  while (!open.empty()) {
    const Reference r = reference(open.back());
    open.pop_back();
    if (r.control) continue;
    const bool is_new = !reached.contains(r.node);
    reached[r.node].insert(r.output);
    const auto at = main.by_name.find(r.node);
    if (!is_new || at == main.by_name.end() || known.contains(r.node)) continue;
    const PbMessage& n = main.nodes[at->second];
    if (brings_data(n.text("op"))) continue;
    for (std::string& in : n.texts("input")) open.push_back(std::move(in));
  }
  return reached;
}

std::optional<Ints> dims_from_readers(const Body& main, const std::string& placeholder, bool truth,
                                      bool as_first, std::size_t& looked_at) {
  if (truth) return Ints{};
  std::vector<std::string> open{placeholder};
  std::set<std::string> seen{placeholder};
  constexpr std::size_t kMostSteps = 256;
  for (std::size_t at = 0; at < open.size() && at < kMostSteps; ++at)
    for (const std::size_t i : main.readers(open[at])) {
      ++looked_at;
      const PbMessage& n = main.nodes[i];
      const std::string op = n.text("op"), name = n.text("name");
      const auto inputs = n.texts("input");
      const bool first = reference(inputs[0]).node == open[at];
      if (inputs.size() > 1 && first && (op == "Conv2D" || op == "DepthwiseConv2dNative")) {
        const auto w = weight_dims(main, inputs[1]);
        if (!w || w->size() != 4) continue;
        if (attribute(n, "data_format").text("s").starts_with("NC"))
          return Ints{-1, (*w)[2], -1, -1};
        return Ints{-1, -1, -1, (*w)[2]};
      }
      if (inputs.size() > 1 && first && op == "MatMul" &&
          attribute(n, "transpose_a").integer("b") == 0) {
        const auto w = weight_dims(main, inputs[1]);
        const bool turned = attribute(n, "transpose_b").integer("b") != 0;
        if (!w || w->size() != 2) continue;
        return Ints{-1, (*w)[turned ? 1 : 0]};
      }
      // What a dropout keeps is one number.
      if (inputs.size() > 1 && (op == "Add" || op == "AddV2" || op == "GreaterEqual") &&
          draws(main, inputs[first && op != "GreaterEqual" ? 1 : 0]))
        return Ints{};
      if (inputs.size() > 1 && op == "Sub" && !first) {
        for (const std::size_t k : main.readers(name)) {
          ++looked_at;
          const auto behind = main.nodes[k].texts("input");
          if (main.nodes[k].text("op") == "GreaterEqual" && behind.size() > 1 &&
              draws(main, behind[0]))
            return Ints{};
        }
      }
      if ((first || !as_first) && std::ranges::find(kSameChannels, op) != kSameChannels.end() &&
          seen.insert(name).second)
        open.push_back(name);
    }
  return std::nullopt;
}

bool brings_data(const std::string& op) {
  return is_picture(op) || is_queue(op) || op.starts_with("IteratorGetNext") ||
         op == "ParseExample" || op == "ParseExampleV2" || op == "ParseSingleExample" ||
         op == "DecodeWav";
}

std::vector<DataOutput> data_outputs(const Body& main, const PbMessage& node) {
  const std::string op = node.text("op"), name = node.text("name");
  std::vector<DataOutput> out;
  const auto add = [&](std::int64_t type, const Ints& dims) {
    out.push_back({out.empty() ? name : fmt::format("{}:{}", name, out.size()), type, dims});
  };
  const auto types = [&](const PbMessage& n, std::string_view key) {
    return attribute(n, key).message("list").integers("type");
  };
  const auto shapes = [&](const PbMessage& n, std::string_view key) {
    return attribute(n, key).message("list").messages("shape");
  };
  if (is_picture(op)) {
    const std::int64_t channels = attribute(node, "channels").integer("i"),
                       type = attribute(node, "dtype").integer("type");
    add(type == 0 ? 4 : type, {-1, -1, channels == 0 ? 3 : channels});
    return out;
  }
  if (op == "DecodeWav") {
    const std::int64_t channels = attribute(node, "desired_channels").integer("i", -1),
                       samples = attribute(node, "desired_samples").integer("i", -1);
    add(1, {samples, channels});
    add(3, {});
    return out;
  }
  if (op.starts_with("Parse")) {
    const bool second = op == "ParseExampleV2", single = op == "ParseSingleExample";
    const auto sparse = static_cast<std::size_t>(
        attribute(node, second || single ? "num_sparse" : "Nsparse").integer("i"));
    const auto dense = types(node, "Tdense");
    const auto extents = shapes(node, "dense_shapes");
    if (sparse > 4096 || dense.size() != extents.size())
      throw bad_input("{} dense features of {} shapes", dense.size(), extents.size());
    for (std::size_t i = 0; i < 3 * sparse; ++i) add(0, {});  // refused where they are read
    const std::vector<std::string> keys = dense_keys(main, node, sparse, dense.size());
    for (std::size_t i = 0; i < dense.size(); ++i) {
      Ints dims = dims_of(extents[i]);
      if (!single) dims.insert(dims.begin(), -1);
      add(dense[i], dims);
      if (i < keys.size()) out.back().name = keys[i];
    }
    return out;
  }
  PbMessage where = node;
  const bool iterator = op.starts_with("IteratorGetNext");
  if (!iterator) {  // the queue says it
    const auto inputs = node.texts("input");
    const auto at =
        inputs.empty() ? main.by_name.end() : main.by_name.find(reference(inputs[0]).node);
    if (at == main.by_name.end()) throw bad_input("{} of no queue", op);
    where = main.nodes[at->second];
  }
  const auto kinds = types(where, iterator ? "output_types" : "component_types");
  const auto extents = shapes(where, iterator ? "output_shapes" : "shapes");
  if (kinds.empty() || kinds.size() != extents.size())
    throw bad_input(
        "{} does not say the shapes of its {} tensors; export the network with "
        "placeholders as inputs",
        op, kinds.size());
  const bool many = op.find("Many") != std::string::npos || op.find("UpTo") != std::string::npos;
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    if (extents[i].flag("unknown_rank"))
      throw bad_input(
          "{} does not say the rank of tensor {}; export the network with "
          "placeholders as inputs",
          op, i);
    Ints dims = dims_of(extents[i]);
    if (many) dims.insert(dims.begin(), -1);
    add(kinds[i], dims);
  }
  return out;
}

}  // namespace etalon::tf
