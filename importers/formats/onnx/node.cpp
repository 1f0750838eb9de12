#include "importers/formats/onnx/node.h"

#include <algorithm>

#include "engine/core/error.h"
#include "engine/graph/control_flow.h"
#include "engine/ops/indexing.h"
#include "importers/formats/onnx/ranks.h"

namespace etalon::onnx_format {
namespace {

enum : std::int32_t { kFloat = 1, kInt, kString, kTensor, kGraph, kFloats, kInts, kStrings };

}  // namespace

ValueId Importing::value(const std::string& name) {
  const ValueId known = graph().find_value(name);
  if (known != kAbsent) return known;
  const ValueId made = graph().add_value(name);
  if (outer == nullptr) return made;
  const ValueId around = outer->value(name);
  const Graph& g = outer->graph();
  if (const auto t = g.initializers.find(around); t != g.initializers.end())
    inner->initializers.emplace(made, t->second.share());
  if (const auto t = outer->types.find(around); t != outer->types.end()) types[made] = t->second;
  if (const auto t = outer->ranks.find(around); t != outer->ranks.end()) ranks[made] = t->second;
  if (const auto t = outer->dtypes.find(around); t != outer->dtypes.end()) dtypes[made] = t->second;
  if (const auto t = outer->codes.find(around); t != outer->codes.end()) codes[made] = t->second;
  return made;
}

const pb::AttributeProto* OnnxNode::find(std::string_view attribute, std::int32_t type) const {
  const pb::AttributeProto* found = nullptr;
  for (const auto& a : node_.attribute()) {
    if (a.name() != attribute) continue;
    if (found != nullptr) throw bad_input("attribute {} stands twice", attribute);
    found = &a;
  }
  if (found == nullptr) return nullptr;
  read_.emplace(attribute);
  if (!found->ref_attr_name().empty())
    throw bad_input("attribute {} refers to a function's attribute outside a function", attribute);
  // IR 1 and 2 did not write the type.
  if (type != 0 && found->type() != 0 && found->type() != type)
    throw bad_input("attribute {} has type number {}, expected {}", attribute, found->type(), type);
  return found;
}

bool OnnxNode::has_attribute(std::string_view attribute) const {
  return find(attribute, 0) != nullptr;
}
std::int64_t OnnxNode::integer(std::string_view attribute, std::int64_t otherwise) const {
  const auto* a = find(attribute, kInt);
  return a == nullptr ? otherwise : a->i();
}
bool OnnxNode::flag(std::string_view attribute, bool otherwise) const {
  const std::int64_t v = integer(attribute, otherwise ? 1 : 0);
  if (v != 0 && v != 1) throw bad_input("attribute {} is {}, expected 0 or 1", attribute, v);
  return v == 1;
}
float OnnxNode::number(std::string_view attribute, float otherwise) const {
  const auto* a = find(attribute, kFloat);
  return a == nullptr ? otherwise : a->f();
}
std::string OnnxNode::text(std::string_view attribute, std::string_view otherwise) const {
  const auto* a = find(attribute, kString);
  return a == nullptr ? std::string(otherwise) : a->s();
}
Ints OnnxNode::integers(std::string_view attribute) const {
  const auto* a = find(attribute, kInts);
  return a == nullptr ? Ints{} : Ints(a->ints().begin(), a->ints().end());
}
std::vector<float> OnnxNode::numbers(std::string_view attribute) const {
  const auto* a = find(attribute, kFloats);
  return a == nullptr ? std::vector<float>{}
                      : std::vector<float>(a->floats().begin(), a->floats().end());
}
std::vector<std::string> OnnxNode::texts(std::string_view attribute) const {
  const auto* a = find(attribute, kStrings);
  return a == nullptr ? std::vector<std::string>{}
                      : std::vector<std::string>(a->strings().begin(), a->strings().end());
}
Tensor OnnxNode::tensor(std::string_view attribute) {
  if (find(attribute, kTensor) == nullptr) return {};
  for (auto& a : *node_.mutable_attribute())
    if (a.name() == attribute) {
      const ErrorScope scope(fmt::format("attribute {}", attribute));
      return take_tensor(*a.mutable_t(), std::nullopt, nullptr, nullptr);
    }
  return {};
}
std::shared_ptr<const Graph> OnnxNode::subgraph(std::string_view attribute) {
  if (find(attribute, kGraph) == nullptr) throw bad_input("attribute {} is missing", attribute);
  for (auto& a : *node_.mutable_attribute())
    if (a.name() == attribute)
      return read_subgraph(into_, *a.mutable_g(), fmt::format("{}/{}", name_, attribute));
  return nullptr;
}
std::shared_ptr<const Graph> OnnxNode::make_graph(
    std::string_view name, const std::vector<DType>& inputs, const std::vector<DType>& outputs,
    const std::function<Values(OnnxNode&, const Values&)>& write) {
  auto graph = std::make_shared<Graph>();
  graph->name = name;
  Importing inside;
  inside.model = into_.model;
  inside.opset = into_.opset;
  inside.ir = into_.ir;
  inside.inner = graph.get();
  inside.outer = &into_;
  inside.owner = fmt::format("{}/{}", name_, name);
  const auto declare = [](ValueId v, DType dtype) {
    Declaration d;
    d.value = v;
    d.dtype = dtype;
    d.ranked = false;
    return d;
  };
  Values in;
  for (const DType dtype : inputs) {
    in.push_back(graph->add_value(fmt::format("{}/in{}", inside.owner, in.size())));
    graph->inputs.push_back(declare(in.back(), dtype));
  }
  OnnxNode node(inside, node_, inside.owner);
  const Values out = write(node, in);
  for (std::size_t i = 0; i < out.size(); ++i)
    graph->outputs.push_back(declare(out[i], outputs[i]));
  graph->finish();
  for (const std::string& value : captured_names(*graph)) into_.value(value);
  return graph;
}
void OnnxNode::emit_control(std::string_view op, const Fields& fields, std::vector<ValueId> inputs,
                            std::vector<std::shared_ptr<const Graph>> graphs) {
  const OpRow& row = get_op(op);
  into_.graph().nodes.push_back(
      {name_, &row, make_params(row, fields), std::move(inputs), outputs(), std::move(graphs)});
}
OnnxNode::Values OnnxNode::step_control(std::string_view op, const Fields& fields,
                                        std::vector<ValueId> inputs,
                                        std::vector<std::shared_ptr<const Graph>> graphs,
                                        std::size_t count) {
  const OpRow& row = get_op(op);
  Values made;
  for (std::size_t i = 0; i < count; ++i) made.push_back(new_value(op));
  into_.graph().nodes.push_back({fmt::format("{}/{}{}", name_, op, ++steps_), &row,
                                 make_params(row, fields), std::move(inputs), made,
                                 std::move(graphs)});
  return made;
}
void OnnxNode::ignore(std::string_view attribute) const { read_.emplace(attribute); }

void OnnxNode::refuse_unread() const {
  for (const auto& a : node_.attribute())
    if (!read_.contains(a.name()))
      throw bad_input("attribute {} is not one of {} in opset {}", printable(a.name()), type(),
                      opset());
}

ValueId OnnxNode::input(std::size_t i) const {
  if (i >= input_count() || node_.input(static_cast<int>(i)).empty()) return kAbsent;
  return into_.value(node_.input(static_cast<int>(i)));
}
ValueId OnnxNode::required(std::size_t i) const {
  const ValueId v = input(i);
  if (v == kAbsent) throw bad_input("input {} of {} is missing", i, type());
  return v;
}
std::vector<ValueId> OnnxNode::inputs() const {
  std::vector<ValueId> ids;
  for (std::size_t i = 0; i < input_count(); ++i) ids.push_back(input(i));
  while (!ids.empty() && ids.back() == kAbsent) ids.pop_back();
  return ids;
}
ValueId OnnxNode::output(std::size_t i) const {
  if (i >= output_count() || node_.output(static_cast<int>(i)).empty()) return kAbsent;
  const std::string& value = node_.output(static_cast<int>(i));
  const ValueId known = into_.graph().find_value(value);
  return known != kAbsent ? known : into_.graph().add_value(value);
}
bool OnnxNode::is_read(std::size_t i) const {
  return i < output_count() && !node_.output(static_cast<int>(i)).empty() &&
         into_.read.contains(node_.output(static_cast<int>(i)));
}
std::vector<ValueId> OnnxNode::outputs() const {
  std::vector<ValueId> ids;
  for (std::size_t i = 0; i < output_count(); ++i) ids.push_back(output(i));
  while (!ids.empty() && ids.back() == kAbsent) ids.pop_back();
  return ids;
}

const Tensor* OnnxNode::constant(std::size_t i) const {
  const auto& known = into_.graph().initializers;
  const auto at = known.find(input(i));
  return at == known.end() ? nullptr : &at->second;
}
Ints OnnxNode::constant_integers(std::size_t i, std::string_view what) const {
  required(i);
  const Tensor* t = constant(i);
  if (t == nullptr)
    throw bad_input("its {} come from a computation; only constant {} are supported", what, what);
  return to_int64_values(*t);
}
float OnnxNode::constant_number(std::size_t i, std::string_view what) const {
  required(i);
  const Tensor* t = constant(i);
  if (t == nullptr)
    throw bad_input("its {} comes from a computation; only a constant {} is supported", what, what);
  if (t->dtype() != DType::f32 || t->numel() != 1)
    throw bad_input("its {} must be one f32, got {}", what, to_string(t->type()));
  return t->data<float>()[0];
}

void OnnxNode::emit(std::string_view op, const Fields& fields, std::vector<ValueId> inputs,
                    std::vector<ValueId> outputs) {
  const OpRow* row = find_op(op);
  if (row == nullptr) throw bad_input("{} needs the op {}, which this build lacks", type(), op);
  if (static_cast<int>(inputs.size()) < row->min_inputs ||
      static_cast<int>(inputs.size()) > row->max_inputs)
    throw bad_input("{} has {} inputs, which its definition does not allow", type(), inputs.size());
  for (int i = 0; i < row->min_inputs; ++i)
    if (inputs[static_cast<std::size_t>(i)] == kAbsent)
      throw bad_input("input {} of {} is missing", i, type());
  if (static_cast<int>(outputs.size()) > row->max_outputs)
    throw bad_input("{} has {} outputs, and {} gives at most {}", type(), outputs.size(), op,
                    row->max_outputs);
  for (std::size_t i = 0; i < inputs.size() && !into_.codes.empty(); ++i) {
    const auto code = into_.codes.find(inputs[i]);
    if (code == into_.codes.end()) continue;
    const bool reads =
        op == "decode" || op == "shape" || op == "size" ||
        (is_integer_code(code->second) && (op == "cast" || op == "encode" || op == "clip" ||
                                           op == "dequantize_linear" || op == "quantize_linear"));
    if (row->nature == OpNature::movement && op != "decode") {
      for (const ValueId o : outputs)
        if (o != kAbsent) into_.codes[o] = code->second;
    } else if (!reads) {
      throw bad_input(
          "input {} of {} holds numbers of {}, which only casts, quantisation and ops "
          "that move elements take; cast it",
          i, type(), name(code->second));
    }
  }
  into_.graph().nodes.push_back(
      {name_, row, make_params(*row, fields), std::move(inputs), std::move(outputs), {}});
  learn(into_.graph().nodes.back());
}

void OnnxNode::emit_constant(Tensor tensor) {
  const ValueId v = output(0);
  if (v == kAbsent) return;
  for (const auto& a : node_.attribute())
    if (a.name() == "value" && a.has_t())
      if (const auto code = onnx_format::code_of_onnx(a.t().data_type())) into_.codes[v] = *code;
  into_.types[v] = tensor.type();
  if (!into_.graph().initializers.emplace(v, std::move(tensor)).second)
    throw bad_input("the value '{}' is made twice", printable(into_.graph().value_name(v)));
}

// Types of the outputs where those of the inputs are all known; what cannot be told here is told by
// the executor, with the reason, when it infers the whole graph.
void OnnxNode::learn(const Node& made) {
  std::vector<InferInput> in;
  for (const ValueId v : made.inputs) {
    InferInput i;
    i.given = v != kAbsent;
    if (i.given) {
      const auto constant = into_.graph().initializers.find(v);
      const auto known = into_.types.find(v);
      if (constant != into_.graph().initializers.end()) {
        i.type = constant->second.type();
        i.value = &constant->second;
      } else if (known != into_.types.end()) {
        i.type = known->second;
      } else {
        learn_rank(made);
        return;
      }
    }
    in.push_back(i);
  }
  try {
    const auto out = infer(*made.op, made.params, InferInputs(in));
    for (std::size_t i = 0; i < made.outputs.size() && i < out.size(); ++i)
      if (made.outputs[i] != kAbsent) into_.types[made.outputs[i]] = out[i];
  } catch (const NotConstant&) {
    learn_rank(made);
  } catch (const Error&) {
    // A branch that never runs may not fit the shapes that are known around it.
    if (into_.outer == nullptr) throw;
  }
}

// The rank of what it gives, where extents are open; and of a shape how many extents it lists.
void OnnxNode::learn_rank(const Node& made) {
  const auto constant = [&](std::size_t i) -> const Tensor* {
    const auto at = into_.graph().initializers.find(made.inputs[i]);
    return at == into_.graph().initializers.end() ? nullptr : &at->second;
  };
  const auto type = [&](std::size_t i) -> std::optional<TensorType> {
    if (const Tensor* t = constant(i)) return t->type();
    const auto at = into_.types.find(made.inputs[i]);
    return at == into_.types.end() ? std::nullopt : std::optional(at->second);
  };
  // How many inputs it has was not checked yet.
  const auto rank = [&](std::size_t i) -> std::optional<int> {
    if (i >= made.inputs.size()) return std::nullopt;
    if (const auto t = type(i)) return t->shape.rank();
    const auto at = into_.ranks.find(made.inputs[i]);
    return at == into_.ranks.end() ? std::nullopt : std::optional(at->second);
  };
  const auto length = [&](std::size_t i) -> std::optional<std::int64_t> {
    if (i >= made.inputs.size()) return std::nullopt;
    const auto t = type(i);
    return t && t->shape.rank() == 1 ? std::optional(t->shape[0]) : std::nullopt;
  };
  if (made.op->name == "shape") {
    const auto of = rank(0);
    if (!of || made.outputs.empty()) return;
    const auto& p = made.params.as<ShapeParams>();
    const auto at = [&](std::int64_t i) {
      return std::clamp<std::int64_t>(i < 0 ? i + *of : i, 0, *of);
    };
    into_.types[made.outputs[0]] = {DType::i64,
                                    Shape{std::max<std::int64_t>(0, at(p.end) - at(p.start))}};
    return;
  }
  if (const auto result = rank_of_result(made, {rank, length}))
    for (const ValueId v : made.outputs)
      if (v != kAbsent) into_.ranks.emplace(v, *result);
}

std::optional<TensorType> OnnxNode::type_of(std::size_t i) const {
  if (const Tensor* t = constant(i)) return t->type();
  const auto at = into_.types.find(input(i));
  return at == into_.types.end() ? std::nullopt : std::optional(at->second);
}
std::optional<DType> OnnxNode::dtype_of(std::size_t i) const {
  if (const auto type = type_of(i)) return type->dtype;
  const auto at = into_.dtypes.find(input(i));
  return at == into_.dtypes.end() ? std::nullopt : std::optional(at->second);
}
std::optional<Code> OnnxNode::code_of_input(std::size_t i) const {
  const auto at = into_.codes.find(input(i));
  return at == into_.codes.end() ? std::nullopt : std::optional(at->second);
}
std::optional<int> OnnxNode::rank_of(std::size_t i) const {
  if (const auto type = type_of(i)) return type->shape.rank();
  const auto at = into_.ranks.find(input(i));
  return at == into_.ranks.end() ? std::nullopt : std::optional(at->second);
}
int OnnxNode::rank_of(std::size_t i, std::string_view decides) const {
  required(i);
  if (const auto rank = rank_of(i)) return *rank;
  throw bad_input(
      "the rank of its input {} is not in the file, and it decides {}; run "
      "onnx.shape_inference on the file",
      i, decides);
}

ValueId OnnxNode::new_value(std::string_view role) {
  std::string base = fmt::format("{}/{}", name_, role);
  std::string value = base;
  for (int i = 2; into_.graph().find_value(value) != kAbsent; ++i)
    value = fmt::format("{}.{}", base, i);
  return into_.graph().add_value(value);
}

ValueId OnnxNode::step(std::string_view op, const Fields& fields, std::vector<ValueId> inputs) {
  const ValueId made = new_value(op);
  emit(op, fields, std::move(inputs), {made});
  into_.graph().nodes.back().name = fmt::format("{}/{}{}", name_, op, ++steps_);
  return made;
}

void OnnxNode::give(std::size_t i, ValueId value) {
  if (!wants(i)) return;
  emit("identity", {}, {value}, {output(i)});
  if (i != 0) into_.graph().nodes.back().name = fmt::format("{}/output{}", name_, i);
}

ValueId OnnxNode::constant_value(std::string_view role, Tensor tensor) {
  const ValueId v = new_value(role);
  into_.graph().initializers.emplace(v, std::move(tensor));
  return v;
}

void OnnxNode::note(std::string_view text) {
  into_.model->notes.push_back(fmt::format("node {}: {}.", printable(name_), text));
}

}  // namespace etalon::onnx_format
