// ONNX Runtime keeps an ONNX model in FlatBuffers (identifier ORTM) after its own optimisations:
// the tables are turned into ONNX's messages and read as ONNX is; weights stay in the mapped file.
// Nodes of its own domain are read as they are from .onnx (importers/formats/onnx/ops_fused.cpp and
// its kin). What a file of style Runtime records of optimisations to come is left alone: the graph
// is whole without it. Source: the public schema ort.fbs (field positions; MIT licence).
#include <map>
#include <set>

#include "engine/core/error.h"
#include "importers/containers/flatbuffers.h"
#include "importers/formats/onnx/assemble.h"
#include "importers/formats/ort.h"

namespace etalon {
namespace ort {
namespace {

namespace pb = onnx_format::pb;
using onnx_format::Message;

constexpr int kMaxDepth = 20;  // of graphs in attributes

class Converter {
 public:
  explicit Converter(Message& message) : message_(message) {}

  // Of the outermost graph, weights are left in the file.
  void graph(const FlatTable& from, pb::GraphProto& to, int depth) {
    if (depth > kMaxDepth) throw bad_input("graphs nest deeper than {} levels", kMaxDepth);
    if (!from.tables(7).empty()) throw bad_input("a sparse initializer");
    std::set<std::string> constants;
    for (const FlatTable& t : from.tables(0)) {
      tensor(t, *to.add_initializer(), depth == 0);
      constants.insert(t.text(0));
    }
    std::map<std::string, FlatTable> args;
    for (const FlatTable& a : from.tables(1)) args[a.text(0)] = a;
    const auto declare = [&](const std::string& name, pb::ValueInfoProto& info) {
      info.set_name(name);
      const auto at = args.find(name);
      if (at != args.end()) type(at->second, info);
    };
    for (const std::string& name : from.texts(5)) declare(name, *to.add_input());
    const auto outputs = from.texts(6);
    for (const std::string& name : outputs) declare(name, *to.add_output());
    const std::set<std::string> ends(outputs.begin(), outputs.end());
    for (const auto& [name, arg] : args)
      if (!ends.contains(name) && !constants.contains(name) && arg.table(2).get<std::uint8_t>(1, 0))
        declare(name, *to.add_value_info());
    for (const FlatTable& n : from.tables(2)) node(n, to, depth);
  }

 private:
  void tensor(const FlatTable& from, pb::TensorProto& to, bool in_place) {
    to.set_name(from.text(0));
    for (const std::int64_t d : from.list<std::int64_t>(2)) to.add_dims(d);
    to.set_data_type(from.get<std::int32_t>(3, 0));
    if (from.has(5)) throw bad_input("tensor {}: strings", printable(to.name()));
    if (from.get<std::int64_t>(6, -1) >= 0)
      throw bad_input("tensor {}: its data lies in another file, which is not read",
                      printable(to.name()));
    const Blob raw = from.blob(4);
    if (in_place) {
      message_.raw.emplace_back(raw.bytes);
    } else {
      to.set_raw_data(raw.bytes.data(), raw.bytes.size());
    }
  }

  static void type(const FlatTable& arg, pb::ValueInfoProto& info) {
    const FlatTable t = arg.table(2);
    const auto kind = t.get<std::uint8_t>(1, 0);
    if (kind == 0) return;
    if (kind == 2) {
      info.mutable_type()->mutable_sequence_type();
      return;
    }
    if (kind != 1) {
      info.mutable_type()->mutable_map_type();
      return;
    }
    const FlatTable value = t.table(2);
    auto& tensor_type = *info.mutable_type()->mutable_tensor_type();
    tensor_type.set_elem_type(value.get<std::int32_t>(0, 0));
    const FlatTable shape = value.table(1);
    if (!shape) return;
    tensor_type.mutable_shape();
    for (const FlatTable& d : shape.tables(0)) {
      auto& dim = *tensor_type.mutable_shape()->add_dim();
      const FlatTable v = d.table(0);
      if (!v) continue;
      const auto what = v.get<std::int8_t>(0, 0);
      if (what == 1) dim.set_dim_value(v.get<std::int64_t>(1, 0));
      if (what == 2) dim.set_dim_param(v.text(2));
    }
  }

  void attribute(const FlatTable& from, pb::AttributeProto& to, int depth) {
    to.set_name(from.text(0));
    const auto kind = from.get<std::int32_t>(2, 0);
    to.set_type(kind);
    switch (kind) {
      case 1:
        to.set_f(from.get<float>(3, 0));
        break;
      case 2:
        to.set_i(from.get<std::int64_t>(4, 0));
        break;
      case 3:
        to.set_s(from.text(5));
        break;
      case 4:
        tensor(from.table(6), *to.mutable_t(), false);
        break;
      case 5:
        graph(from.table(7), *to.mutable_g(), depth + 1);
        break;
      case 6:
        for (const float v : from.list<float>(8)) to.add_floats(v);
        break;
      case 7:
        for (const std::int64_t v : from.list<std::int64_t>(9)) to.add_ints(v);
        break;
      case 8:
        for (const std::string& v : from.texts(10)) to.add_strings(v);
        break;
      default:
        throw bad_input("attribute {} is of kind {}, which is not supported", printable(to.name()),
                        kind);
    }
  }

  void node(const FlatTable& from, pb::GraphProto& graph, int depth) {
    const std::string label =
        from.text(0).empty() ? fmt::format("#{}", from.get<std::uint32_t>(4, 0)) : from.text(0);
    const ErrorScope where(fmt::format("node {}", printable(label)));
    if (from.get<std::int32_t>(6, 0) != 0)
      throw bad_input("it was compiled for one device and holds no operation");
    pb::NodeProto& to = *graph.add_node();
    to.set_name(label);
    to.set_op_type(from.text(5));
    to.set_domain(from.text(2));
    for (const std::string& v : from.texts(8)) to.add_input(v);
    for (const std::string& v : from.texts(9)) to.add_output(v);
    for (const FlatTable& a : from.tables(10)) attribute(a, *to.add_attribute(), depth);
  }

  Message& message_;
};

Model open(const std::string& path, std::span<const std::string>) {
  const Blob file = map_file(path);
  const ErrorScope scope(path);
  const FlatTable session = FlatTable::root(file), from = session.table(1), graph = from.table(7);
  if (!graph) throw bad_input("no graph in it; it is no ONNX Runtime model or damaged");
  Message message;
  message.model.set_ir_version(from.get<std::int64_t>(0, 0));
  for (const FlatTable& o : from.tables(1)) {
    auto& to = *message.model.add_opset_import();
    to.set_domain(o.text(0));
    to.set_version(o.get<std::int64_t>(1, 0));
  }
  Converter(message).graph(graph, *message.model.mutable_graph(), 0);
  Model model = onnx_format::assemble(message, file, path, "ort");
  model.version += ", ort " + session.text(0);
  model.producer = from.text(2).empty() ? "ONNX Runtime" : from.text(2);
  if (!from.text(3).empty()) model.producer += " " + from.text(3);
  return model;
}

bool match(const FileView& file) {
  return file.prefix.size() >= 8 && file.text().substr(4, 4) == "ORTM";
}

}  // namespace
}  // namespace ort

const FormatRow& ort_format() {
  static const FormatRow row{.name = "ort",
                             .endings = ".ort",
                             .summary = "ONNX Runtime model.",
                             .match = ort::match,
                             .open = ort::open};
  return row;
}

}  // namespace etalon
