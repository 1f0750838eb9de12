#include <algorithm>
#include <filesystem>
#include <limits>
#include <map>

#include "engine/core/error.h"
#include "engine/graph/control_flow.h"
#include "importers/containers/protobuf.h"
#include "importers/formats/check.h"
#include "importers/formats/onnx.h"
#include "importers/formats/onnx/assemble.h"
#include "importers/formats/onnx/export.h"
#include "importers/formats/onnx/functions.h"
#include "importers/input_hints.h"

namespace etalon {
namespace onnx_format {
namespace {

// Where an error is: a node without a name goes by its first output.
std::string name_of(const pb::NodeProto& node) {
  if (!node.name().empty()) return node.name();
  return node.output_size() > 0 ? node.output(0) : node.op_type();
}

ValueId value_of(Graph& graph, const std::string& value) {
  const ValueId known = graph.find_value(value);
  return known != kAbsent ? known : graph.add_value(value);
}

Declaration declaration(Graph& graph, const pb::ValueInfoProto& info) {
  const ErrorScope scope(fmt::format("value {}", printable(info.name())));
  if (info.name().empty()) throw bad_input("an input or output without a name");
  const pb::TypeProto& type = info.type();
  if (type.has_sequence_type()) throw bad_input("a sequence; only tensors are supported");
  if (type.has_map_type()) throw bad_input("a map; only tensors are supported");
  if (type.has_optional_type()) throw bad_input("an optional value; only tensors are supported");
  if (type.has_sparse_tensor_type())
    throw bad_input("a sparse tensor; only dense ones are supported");
  if (type.has_opaque_type()) throw bad_input("an opaque value; only tensors are supported");
  Declaration d;
  d.value = value_of(graph, info.name());
  // Outputs of old files may have no type at all; the executor infers it.
  d.ranked = type.tensor_type().has_shape();
  if (type.tensor_type().elem_type() != 0) d.dtype = dtype_of_onnx(type.tensor_type().elem_type());
  if (type.tensor_type().shape().dim_size() > kMaxRank)
    throw bad_input("rank {} is beyond the {} axes supported here",
                    type.tensor_type().shape().dim_size(), kMaxRank);
  for (const auto& dim : type.tensor_type().shape().dim()) {
    const bool fixed = dim.value_case() == pb::TensorShapeProto::Dimension::kDimValue;
    if (fixed && dim.dim_value() < 0 && dim.dim_value() != -1)
      throw bad_input("an axis has the negative extent {}", dim.dim_value());
    d.dims.push_back(fixed ? dim.dim_value() : -1);
    d.dim_names.push_back(dim.dim_param());
  }
  return d;
}

void learn(Importing& into, const Declaration& d) {
  into.dtypes[d.value] = d.dtype;
  if (!d.ranked) return;
  into.ranks[d.value] = static_cast<int>(d.dims.size());
  if (std::ranges::find(d.dims, -1) == d.dims.end()) into.types[d.value] = {d.dtype, Shape(d.dims)};
}

std::int64_t opset_of(const pb::ModelProto& model) {
  std::int64_t opset = 1;  // IR 1 and 2 named none
  std::map<std::string, std::int64_t> domains;
  for (const auto& entry : model.opset_import()) {
    const std::string domain = entry.domain() == "ai.onnx" ? "" : entry.domain();
    // sklearn-onnx writes the same one twice.
    const auto [at, fresh] = domains.emplace(domain, entry.version());
    if (!fresh && at->second != entry.version())
      throw bad_input("the opset of domain '{}' is given twice, as {} and as {}", printable(domain),
                      at->second, entry.version());
    if (domain.empty()) opset = entry.version();
  }
  if (opset < 1 || opset > kNewestOpset)
    throw bad_input("opset {} is not known; 1 to {} are", opset, kNewestOpset);
  return opset;
}

void read_node(Importing& into, pb::NodeProto& node) {
  const std::string name =
      into.owner.empty() ? name_of(node) : fmt::format("{}/{}", into.owner, name_of(node));
  const ErrorScope scope(fmt::format("node {}", printable(name)));
  const bool standard = node.domain().empty() || node.domain() == "ai.onnx";
  const std::string type =
      standard ? node.op_type() : fmt::format("{}.{}", node.domain(), node.op_type());
  const TranslatorRow* row = find_translator(type);
  if (row == nullptr) throw bad_input("{} is not supported{}", printable(type), refusal_of(type));
  OnnxNode reader(into, node, name);
  row->translate(reader);
  reader.refuse_unread();
}

// Inputs, weights, nodes and outputs of one graph; take(i, t) gives weight i.
template <class Take>
void read_graph(Importing& into, pb::GraphProto& from, const Take& take) {
  Graph& graph = into.graph();
  if (from.sparse_initializer_size() != 0)
    throw bad_input("a sparse initializer; only dense ones are supported");
  std::map<std::string_view, std::pair<int, std::string>> coded;  // how many, and the first
  for (int i = 0; i < from.initializer_size(); ++i) {
    pb::TensorProto& t = *from.mutable_initializer(i);
    const ErrorScope tensor(fmt::format("tensor {}", printable(t.name())));
    if (t.name().empty()) throw bad_input("initializer {} has no name", i);
    const ValueId v = graph.add_value(t.name());
    if (const auto code = code_of_onnx(t.data_type())) {
      into.codes[v] = *code;
      auto& [count, first] = coded[name(*code)];
      if (count++ == 0) first = t.name();
    }
    graph.initializers.emplace(v, take(i, t));
  }
  for (const auto& [code, held] : coded)
    into.model->notes.push_back(fmt::format("{} {} ({}{}): numbers of {}, a byte each.", held.first,
                                            held.first == 1 ? "tensor" : "tensors",
                                            printable(held.second), held.first == 1 ? "" : ", ...",
                                            code));
  for (const auto& info : from.input()) {
    const ValueId given = graph.find_value(info.name());
    // A weight that is an input too is that input's default: what the caller gives comes before it.
    if (into.outer == nullptr && InputHints::of(info.name()) != nullptr &&
        graph.initializers.erase(given) != 0)
      InputHints::took(info.name());
    if (given == kAbsent || !graph.initializers.contains(given))
      graph.inputs.push_back(declaration(graph, info));
  }
  // Types inside a subgraph are those of the tensors that arrive, whatever the file says.
  for (const Declaration& d : graph.inputs)
    if (into.outer == nullptr) learn(into, d);
  for (const auto& info : from.value_info())
    if (info.type().tensor_type().elem_type() != 0) learn(into, declaration(graph, info));
  const auto learn_codes = [&](const auto& infos) {
    for (const auto& info : infos)
      if (const auto code = code_of_onnx(info.type().tensor_type().elem_type())) {
        into.codes[graph.find_value(info.name())] = *code;
        into.model->notes.push_back(fmt::format("value {}: numbers of {}, a byte each.",
                                                printable(info.name()), name(*code)));
      }
  };
  learn_codes(from.input());
  learn_codes(from.value_info());
  for (const auto& node : from.node()) into.read.insert(node.input().begin(), node.input().end());
  for (const auto& info : from.output()) into.read.insert(info.name());
  for (pb::NodeProto& node : *from.mutable_node()) read_node(into, node);
  for (const auto& info : from.output()) {
    if (into.outer != nullptr) into.value(info.name());
    graph.outputs.push_back(declaration(graph, info));
  }
}

// A ZipMap hands a table of scores on as a list of maps from the classes' labels; here the table
// itself goes on, a column a class.
void unzip(pb::GraphProto& graph, std::vector<std::string>& notes) {
  for (pb::NodeProto& node : *graph.mutable_node()) {
    if (node.domain() != "ai.onnx.ml" || node.op_type() != "ZipMap") continue;
    notes.push_back(
        fmt::format("node {}: its maps from labels to scores are the table of scores, "
                    "a column a class.",
                    printable(name_of(node))));
    node.set_op_type("Identity");
    node.clear_domain();
    node.clear_attribute();
    for (pb::ValueInfoProto& out : *graph.mutable_output())
      if (node.output_size() > 0 && out.name() == node.output(0)) out.clear_type();
  }
}

// What the file says about itself beside the network: a note where there is any.
void note_unread(const Blob& file, const pb::ModelProto& onnx, std::vector<std::string>& notes) {
  std::string keys;
  WireReader reader(file.bytes, 0);
  for (WireField f; reader.next(f);) {
    constexpr std::uint32_t kMetadata = 14;
    if (f.number != kMetadata || f.type != 2) continue;
    std::string key = "?";
    WireReader entry(f.payload, f.offset);
    for (WireField e; entry.next(e);)
      if (e.number == 1 && e.type == 2)
        key.assign(reinterpret_cast<const char*>(e.payload.data()), e.payload.size());
    keys += (keys.empty() ? "" : ", ") + printable(key);
  }
  const bool described = !onnx.doc_string().empty() || !onnx.graph().doc_string().empty();
  if (!keys.empty())
    notes.push_back(fmt::format("Its metadata ({}){} is not read, and not kept by convert.",
                                printable(keys), described ? " and its description" : ""));
  else if (described)
    notes.push_back("Its description (doc_string) is not read, and not kept by convert.");
}

Model open(const std::string& path, std::span<const std::string>) {
  const Blob file = map_file(path);
  const ErrorScope scope(path);
  Message message = parse_model(file.bytes);
  std::vector<std::string> unread;
  note_unread(file, message.model, unread);
  Model model = assemble(message, file, path, "onnx");
  model.notes.insert(model.notes.begin(), unread.begin(), unread.end());
  return model;
}

}  // namespace

Model assemble(Message& message, const Blob& file, const std::string& path, std::string format) {
  pb::ModelProto& onnx = message.model;
  if (!onnx.has_graph()) throw bad_input("no graph in it; it is no ONNX model or damaged");
  inline_functions(onnx);
  Model model;
  model.path = path;
  model.format = std::move(format);
  model.producer = onnx.producer_name();
  if (!onnx.producer_version().empty()) model.producer += " " + onnx.producer_version();
  Importing into;
  into.model = &model;
  into.opset = opset_of(onnx);
  into.ir = onnx.ir_version();
  model.version = fmt::format("opset {}, ir {}", into.opset, into.ir);
  pb::GraphProto& from = *onnx.mutable_graph();
  model.graph->name = from.name();
  unzip(from, model.notes);
  ExternalFiles external(folder_of(path));
  read_graph(into, from, [&](int i, pb::TensorProto& t) {
    return take_tensor(t, message.raw[static_cast<std::size_t>(i)], file.keeper, &external);
  });
  if (model.graph->outputs.empty()) throw bad_input("the graph gives no output");
  finish_graph(*model.graph);
  return model;
}

// Depth is bounded by protobuf's own limit on messages that nest.
std::shared_ptr<const Graph> read_subgraph(Importing& outer, pb::GraphProto& from,
                                           const std::string& owner) {
  auto graph = std::make_shared<Graph>();
  graph->name = from.name();
  Importing into;
  into.model = outer.model;
  into.opset = outer.opset;
  into.ir = outer.ir;
  into.inner = graph.get();
  into.outer = &outer;
  into.owner = owner;
  read_graph(into, from, [](int, pb::TensorProto& t) {
    return take_tensor(t, std::nullopt, nullptr, nullptr);
  });
  graph->finish();
  // What it takes from around it is a value there, made there or further out.
  for (const std::string& name : captured_names(*graph)) outer.value(name);
  return graph;
}

namespace {

TensorList load_tensor(const std::string& path) {
  const Blob file = map_file(path);
  const ErrorScope scope(path);
  pb::TensorProto t;
  WireReader reader(file.bytes, 0);
  for (WireField f; reader.next(f);) {
  }
  if (!t.ParseFromArray(file.bytes.data(),
                        static_cast<int>(std::min<std::size_t>(file.bytes.size(),
                                                               std::numeric_limits<int>::max()))))
    throw bad_input("the file does not follow ONNX's TensorProto; it is damaged");
  TensorList tensors;
  const std::string name = t.name();
  tensors.push_back({name, take_tensor(t, std::nullopt, nullptr, nullptr)});
  return tensors;
}

bool match(const FileView& file) {
  const auto prefix = file.prefix;
  if (has_ending(file.path, ".onnx")) return !file.is_folder;
  // ir_version first, then a field of ModelProto.
  return prefix.size() > 4 && prefix[0] == std::byte{8} && prefix[1] > std::byte{0} &&
         prefix[1] < std::byte{32} &&
         (prefix[2] == std::byte{0x12} || prefix[2] == std::byte{0x3a} ||
          prefix[2] == std::byte{0x42});
}

// dims (one each, or packed) come first, then data_type; a GraphDef begins with a node (field 1 of
// type 2 too), so the fields are followed.
bool match_tensor(const FileView& file) {
  if (!has_ending(file.path, ".pb") || file.is_folder) return false;
  // The fingerprint of a SavedModel begins with two numbers too.
  if (std::filesystem::path(file.path).filename() == "fingerprint.pb") return false;
  try {
    WireReader reader(file.prefix, 0);
    for (WireField f; reader.next(f);) {
      if (f.number == 2) return f.type == 0;
      if (f.number != 1 || (f.type == 2 && f.payload.size() > 80)) return false;
    }
  } catch (const Error&) {
    // A prefix may end inside a field.
  }
  return false;
}

}  // namespace

}  // namespace onnx_format

const FormatRow& onnx_format_row() {
  static const FormatRow row{.name = "onnx",
                             .endings = ".onnx",
                             .summary = "ONNX model, opset 1 to 28; weights inside or beside it.",
                             .match = onnx_format::match,
                             .open = onnx_format::open,
                             .save = onnx_format::save};
  return row;
}

const FormatRow& onnx_tensor_format() {
  static const FormatRow row{.name = "onnx-tensor",
                             .endings = ".pb",
                             .summary = "One ONNX TensorProto, as ONNX's test data has them.",
                             .match = onnx_format::match_tensor,
                             .load = onnx_format::load_tensor};
  return row;
}

}  // namespace etalon
