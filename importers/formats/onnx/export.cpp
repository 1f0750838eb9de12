// A graph as an ONNX model of opset 21, or of the first that has what it needs. Weights of more
// than 1 GiB together go into <path>.data beside it (protobuf ends at 2 GiB).
#include "importers/formats/onnx/export.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "engine/core/error.h"
#include "engine/core/file.h"
#include "engine/numerics/element.h"
#include "importers/formats/onnx.h"
#include "importers/formats/onnx/export_types.h"

namespace etalon::onnx_format {
namespace {

// IR 10 came with opset 21, 11 with 23, 12 with 24, 13 with 25, 14 with 28.
std::int64_t ir_of_opset(std::int64_t opset) {
  return opset < 23 ? 10 : opset < 24 ? 11 : opset < 25 ? 12 : opset < 28 ? 13 : 14;
}
constexpr std::size_t kExternalBytes = std::size_t{1} << 30;

// Collects the parameters by name.
class FieldReader final : public ParamVisitor {
 public:
  void field(std::string_view name, std::int64_t& v) override { out.emplace_back(name, v); }
  void field(std::string_view name, float& v) override { out.emplace_back(name, v); }
  void field(std::string_view name, bool& v) override { out.emplace_back(name, v); }
  void field(std::string_view name, std::string& v) override { out.emplace_back(name, v); }
  void field(std::string_view name, Ints& v) override { out.emplace_back(name, v); }
  void field(std::string_view name, std::vector<float>& v) override { out.emplace_back(name, v); }
  void field(std::string_view name, std::vector<std::string>& v) override {
    out.emplace_back(name, v);
  }
  Fields out;
};

Fields fields_of(const Params& params) {
  FieldReader reader;
  params.visit(reader);
  return std::move(reader.out);
}

pb::AttributeProto& attribute(pb::NodeProto& node, std::string_view name, std::int32_t type) {
  pb::AttributeProto& a = *node.add_attribute();
  a.set_name(std::string(name));
  a.set_type(type);
  return a;
}

void declare(const Graph& graph, const Declaration& d, pb::ValueInfoProto& out) {
  out.set_name(graph.value_name(d.value));
  auto& type = *out.mutable_type()->mutable_tensor_type();
  type.set_elem_type(onnx_of_dtype(d.dtype));
  if (!d.ranked) return;
  auto& shape = *type.mutable_shape();
  for (std::size_t i = 0; i < d.dims.size(); ++i) {
    auto& dim = *shape.add_dim();
    if (d.dims[i] >= 0)
      dim.set_dim_value(d.dims[i]);
    else if (i < d.dim_names.size() && !d.dim_names[i].empty())
      dim.set_dim_param(d.dim_names[i]);
  }
}

void put_external(const Tensor& tensor, const std::string& name, const std::string& location,
                  FileWriter& data, pb::TensorProto& out) {
  const std::string padding((4096 - data.position() % 4096) % 4096, '\0');
  data.write(padding);
  for (const std::int64_t d : tensor.shape().dims()) out.add_dims(d);
  out.set_data_type(onnx_of_dtype(tensor.dtype()));
  out.set_name(name);
  out.set_data_location(1);
  const auto entry = [&](const char* key, const std::string& value) {
    auto& e = *out.add_external_data();
    e.set_key(key);
    e.set_value(value);
  };
  entry("location", location);
  entry("offset", fmt::to_string(data.position()));
  entry("length", fmt::to_string(tensor.size_bytes()));
  data.write(tensor.bytes());
}

}  // namespace

NodeWriter::NodeWriter(const Graph& graph, const Node& node, std::map<ValueId, TensorType>& types,
                       const FreeTypes& free, Writing& file, pb::GraphProto& out)
    : graph_(graph),
      node_(node),
      types_(types),
      free_(free),
      file_(file),
      out_(out),
      params_(fields_of(node.params)) {}

std::string NodeWriter::input(std::size_t i) const {
  return has(i) ? graph_.value_name(node_.inputs[i]) : "";
}
std::vector<std::string> NodeWriter::inputs() const {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < node_.inputs.size(); ++i) names.push_back(input(i));
  return names;
}
std::string NodeWriter::output(std::size_t i) const {
  return i < node_.outputs.size() ? graph_.value_name(node_.outputs[i]) : "";
}
std::vector<std::string> NodeWriter::outputs() const {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < node_.outputs.size(); ++i) names.push_back(output(i));
  return names;
}
DType NodeWriter::dtype(std::size_t i) const {
  const auto at = has(i) ? types_.find(node_.inputs[i]) : types_.end();
  if (at != types_.end()) return at->second.dtype;
  const auto free = has(i) ? free_.find(node_.inputs[i]) : free_.end();
  if (free != free_.end()) return free->second.dtype;
  for (const Declaration& d : graph_.inputs)
    if (has(i) && d.value == node_.inputs[i]) return d.dtype;
  return DType::f32;
}
std::int64_t NodeWriter::dtype_of(std::string_view field) const {
  const auto dtype = find_dtype(text(field));
  if (!dtype) throw internal_error("op {}: {} names no element type", node_.op->name, field);
  return onnx_of_dtype(*dtype);
}
std::optional<Shape> NodeWriter::shape(std::size_t i) const {
  const auto at = has(i) ? types_.find(node_.inputs[i]) : types_.end();
  return at == types_.end() ? std::nullopt : std::optional(at->second.shape);
}

Ints NodeWriter::extents(std::size_t i) const {
  const auto at = has(i) ? free_.find(node_.inputs[i]) : free_.end();
  if (at != free_.end()) return at->second.extents;
  throw usage_error("the rank of input {} cannot be told, and its form in ONNX hangs on it", i);
}

std::optional<Ints> NodeWriter::integers_of(std::size_t i) const {
  const auto at = has(i) ? graph_.initializers.find(node_.inputs[i]) : graph_.initializers.end();
  return at == graph_.initializers.end() ? std::nullopt
                                         : std::optional(to_int64_values(at->second));
}

pb::NodeProto& NodeWriter::write(std::string_view type, const std::vector<std::string>& inputs,
                                 const std::vector<std::string>& outputs) {
  pb::NodeProto& n = *out_.add_node();
  n.set_op_type(std::string(type));
  n.set_name(inner_            ? fresh("node")
             : written_++ == 0 ? node_.name
                               : fmt::format("{}/{}", node_.name, written_));
  std::size_t count = inputs.size();
  while (count > 0 && inputs[count - 1].empty()) --count;
  for (std::size_t i = 0; i < count; ++i) n.add_input(inputs[i]);
  for (const std::string& o : outputs) n.add_output(o);
  return n;
}

std::string NodeWriter::fresh(std::string_view role) {
  std::string base = fmt::format("{}/{}", node_.name, role), name = base;
  for (int i = 2; !file_.names.insert(name).second; ++i) name = fmt::format("{}.{}", base, i);
  return name;
}

std::string NodeWriter::step(std::string_view type, const std::vector<std::string>& inputs,
                             std::string_view attribute, std::int64_t value) {
  std::string name = fresh(type);
  pb::NodeProto& n = write(type, inputs, {name});
  if (!attribute.empty()) set(n, attribute, value);
  return name;
}

std::string NodeWriter::constant(std::string_view role, const Tensor& tensor) {
  std::string name = fresh(role);
  put_tensor(tensor, name, *out_.add_initializer());
  return name;
}
std::string NodeWriter::constant(std::string_view role, const Ints& values) {
  return constant(role, Tensor::of<std::int64_t>({static_cast<std::int64_t>(values.size())},
                                                 std::span<const std::int64_t>(values)));
}
std::string NodeWriter::number_constant(std::string_view role, float value) {
  const Tensor f32 = Tensor::of<float>({}, {value});
  const DType want = dtype();
  if (want == DType::f32) return constant(role, f32);
  const std::string wide = constant(role, f32);
  return step("Cast", {wide}, "to", onnx_of_dtype(want));
}
std::string NodeWriter::input_or(std::size_t i, std::string_view field) {
  // Extents, places and axes are i64 there.
  if (has(i) && dtype(i) == DType::i32)
    return step("Cast", {input(i)}, "to", onnx_of_dtype(DType::i64));
  if (has(i)) return input(i);
  const Ints& values = integers(field);
  return values.empty() ? "" : constant(field, values);
}

void set(pb::NodeProto& node, std::string_view name, std::int64_t value) {
  attribute(node, name, 2).set_i(value);
}
void set(pb::NodeProto& node, std::string_view name, float value) {
  attribute(node, name, 1).set_f(value);
}
void set(pb::NodeProto& node, std::string_view name, std::string_view value) {
  attribute(node, name, 3).set_s(std::string(value));
}
void set(pb::NodeProto& node, std::string_view name, const Ints& values) {
  auto& a = attribute(node, name, 7);
  for (const std::int64_t v : values) a.add_ints(v);
}
void set(pb::NodeProto& node, std::string_view name, const std::vector<float>& values) {
  auto& a = attribute(node, name, 6);
  for (const float v : values) a.add_floats(v);
}
void set(pb::NodeProto& node, std::string_view name, const std::vector<std::string>& values) {
  auto& a = attribute(node, name, 8);
  for (const std::string& v : values) a.add_strings(v);
}

const WriterRow* find_writer(std::string_view op) {
  for (const auto family :
       {plain_writers(), function_writers(), window_writers(), recurrent_writers(), loss_writers(),
        integer_writers(), tflite_writers(), tflite_fixed_writers(), hybrid_writers(),
        tflite_recurrent_writers(), control_writers()})
    for (const WriterRow& row : family)
      if (row.op == op) return &row;
  return nullptr;
}

// Whether the forms of these families compute the same bits, whatever their steps.
bool is_exact_form(const WriterRow& row) {
  const auto in = [&](std::span<const WriterRow> family) {
    return &row >= family.data() && &row < family.data() + family.size();
  };
  return in(integer_writers()) || in(tflite_writers()) || in(tflite_fixed_writers()) ||
         in(hybrid_writers()) || in(tflite_recurrent_writers()) || in(control_writers());
}

// A node of floats that became several which round is another function in its last bits.
void note_steps(const Node& node, const pb::GraphProto& g, int before, Writing& file) {
  static const std::set<std::string, std::less<>> kRounding{
      "Add",        "Sub",        "Mul",
      "Div",        "Sqrt",       "Reciprocal",
      "Sigmoid",    "Softplus",   "Exp",
      "Log",        "Pow",        "Tanh",
      "Erf",        "ReduceMean", "ReduceSum",
      "Sin",        "Cos",        "MatMul",
      "Gemm",       "Conv",       "ReduceSumSquare",
      "ReduceProd", "Sinh",       "Cosh",
      "LogSoftmax", "Softmax",    "ReduceLogSumExp",
      "Atan"};
  std::string steps;
  int rounding = 0;
  for (int i = before; i < g.node_size(); ++i) {
    const std::string& type = g.node(i).op_type();
    if (!kRounding.contains(type)) continue;
    ++rounding;
    steps += (steps.empty() ? "" : ", ") + type;
  }
  if (rounding > 1)
    ++file
          .forms[fmt::format("{} is written as its steps ({}), each of which rounds; outputs may "
                             "differ in their last bits.",
                             node.op->name, steps)];
}

// Steps in f64, which the default contract has no kernels for.
void note_wide(const Node& node, const pb::GraphProto& g, int before, Writing& file) {
  if (node.op->name == "cast" || node.op->name == "cast_like") return;
  const auto widens = [](const pb::NodeProto& n) {
    return n.op_type() == "Cast" && n.attribute_size() == 1 &&
           n.attribute(0).i() == onnx_of_dtype(DType::f64);
  };
  if (std::any_of(g.node().begin() + before, g.node().end(), widens))
    ++file
          .forms[fmt::format("{} computes in f64 there, which the contract seq is not for; run the "
                             "file under --contract exact, or store=f64,acc=f64.",
                             node.op->name)];
}

// Nodes, inputs and outputs; the weights are the caller's affair. The opset that they need.
std::int64_t write_graph(const Graph& graph, std::map<ValueId, TensorType> types, Writing& file,
                         pb::GraphProto& g, bool inside) {
  g.set_name(graph.name.empty() ? "graph" : graph.name);
  file.names.insert(graph.value_names.begin(), graph.value_names.end());
  std::vector<const WriterRow*> rows;  // found before anything is worked out for the nodes
  for (const Node& node : graph.nodes) {
    const ErrorScope where(fmt::format("node {}", node.name));
    rows.push_back(find_writer(node.op->name));
    if (rows.back() == nullptr) throw usage_error("the op {} has no form in ONNX", node.op->name);
  }
  // Element types do not hang on free extents: they are those at extents of 1.
  FreeTypes free;
  for (const auto& [v, type] : known_types(graph, types, true, 1))
    free.emplace(v, FreeType{type.dtype, Ints(type.shape.dims().begin(), type.shape.dims().end())});
  // An extent that a second size of what is free changes, or leaves untold, is free.
  const auto second = known_types(graph, types, true, 3);
  for (auto& [v, type] : free) {
    const auto other = second.find(v);
    const bool same_rank = other != second.end() &&
                           other->second.shape.rank() == static_cast<int>(type.extents.size());
    for (std::size_t i = 0; i < type.extents.size(); ++i)
      if (!same_rank || other->second.shape[static_cast<int>(i)] != type.extents[i])
        type.extents[i] = -1;
  }
  types = known_types(graph, std::move(types), inside, 0);
  std::int64_t version = kWrittenOpset;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Node& node = graph.nodes[i];
    const ErrorScope where(fmt::format("node {}", node.name));
    NodeWriter writer(graph, node, types, free, file, g);
    const int before = g.node_size();
    rows[i]->write(writer);
    if (!is_exact_form(*rows[i])) note_steps(node, g, before, file);
    note_wide(node, g, before, file);
    version = std::max(version, writer.opset());
  }
  for (const Declaration& d : graph.inputs) declare(graph, d, *g.add_input());
  for (Declaration d : graph.outputs) {
    const auto known = free.find(d.value);
    if (known != free.end()) d.dtype = known->second.dtype;
    // The checker wants a shape, if only of extents that are free.
    if (!d.ranked && known != free.end()) {
      d.ranked = true;
      d.dims.assign(known->second.extents.size(), -1);
    }
    declare(graph, d, *g.add_output());
  }
  return version;
}

void NodeWriter::set_graph(pb::NodeProto& node, std::string_view name, const Graph& inner) {
  pb::AttributeProto& a = attribute(node, name, 5);
  std::map<ValueId, TensorType> around;
  for (const auto& [v, type] : types_) {
    const ValueId i = inner.find_value(graph_.value_name(v));
    if (i != kAbsent) around.emplace(i, type);
  }
  need_opset(write_graph(inner, std::move(around), file_, *a.mutable_g(), true));
  // A weight that stands in the graph around it too is read from there.
  for (const auto& [v, t] : inner.initializers) {
    const ValueId outer = graph_.find_value(inner.value_name(v));
    if (outer == kAbsent || !graph_.initializers.contains(outer))
      put_tensor(t, inner.value_name(v), *a.mutable_g()->add_initializer());
  }
}

NodeWriter NodeWriter::inside(pb::NodeProto& node, std::string_view name) {
  pb::GraphProto& body = *attribute(node, name, 5).mutable_g();
  body.set_name(fresh("body"));
  NodeWriter writer(graph_, node_, types_, free_, file_, body);
  writer.inner_ = true;
  return writer;
}
void NodeWriter::take(const std::string& name, DType dtype) {
  pb::ValueInfoProto& v = *out_.add_input();
  v.set_name(name);
  v.mutable_type()->mutable_tensor_type()->set_elem_type(onnx_of_dtype(dtype));
}
void NodeWriter::yield(const std::string& name, DType dtype) {
  pb::ValueInfoProto& v = *out_.add_output();
  v.set_name(name);
  v.mutable_type()->mutable_tensor_type()->set_elem_type(onnx_of_dtype(dtype));
}

Saved save(const Model& model, const std::string& path) {
  const ErrorScope scope(path);
  const Graph& graph = *model.graph;
  if (graph.nodes.empty() && graph.outputs.empty())
    throw usage_error("there is no graph to write, only tensors; save as .safetensors or .npz");
  pb::ModelProto out;
  out.set_producer_name("etalon");
  pb::GraphProto& g = *out.mutable_graph();
  Writing writing;
  if (model.format == "onnx" && model.version.starts_with("opset "))
    writing.from_opset = std::atoll(model.version.c_str() + 6);
  const std::int64_t version = write_graph(graph, {}, writing, g, false);
  auto& opset = *out.add_opset_import();
  opset.set_domain("");
  opset.set_version(version);
  out.set_ir_version(ir_of_opset(version));
  std::size_t total = 0;
  for (const auto& [v, t] : graph.initializers) total += t.size_bytes();
  std::optional<FileWriter> data;
  if (total > kExternalBytes) data.emplace(path + ".data");
  const std::string location = std::filesystem::path(path).filename().string() + ".data";
  for (const auto& [v, t] : graph.initializers) {
    if (data)
      put_external(t, graph.value_name(v), location, *data, *g.add_initializer());
    else
      put_tensor(t, graph.value_name(v), *g.add_initializer());
  }
  std::string bytes;
  if (!out.SerializeToString(&bytes)) throw usage_error("the model is beyond protobuf's 2 GiB");
  FileWriter file(path);
  file.write(bytes);
  if (data) data->commit();
  file.commit();
  Saved saved{.files = {path}};
  if (data) saved.files.push_back(path + ".data");
  for (const auto& [form, count] : writing.forms)
    saved.notes.push_back(fmt::format("{} {}: {}", count, count == 1 ? "node" : "nodes", form));
  return saved;
}

}  // namespace etalon::onnx_format
