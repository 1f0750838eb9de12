#include "engine/graph/control_flow.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "engine/ops/control.h"

namespace etalon {
namespace {

using Tensors = std::vector<Tensor>;

bool truth_of(const Tensor& t, std::string_view what) {
  if (t.dtype() != DType::boolean || t.numel() != 1)
    throw bad_input("{} must be one bool, got {}", what, to_string(t.type()));
  return t.data<Bool>()[0].value != 0;
}

std::int64_t bytes_of(const TensorType& type) {
  return checked_mul(type.shape.numel(), size_bytes(type.dtype));
}

// The bytes that a node holds between runs of its body.
class Held {
 public:
  explicit Held(const Holding& holding) : holding_(holding) {}
  void add(const TensorType& type) {
    bytes_ = checked_add(bytes_, bytes_of(type));
    if (holding_) holding_(type, bytes_);
  }
  void drop(const TensorType& type) { bytes_ -= bytes_of(type); }
  // The values that go into the next iteration: those before it are let go.
  void carry(const Tensors& values) {
    for (const TensorType& type : carried_) drop(type);
    carried_.clear();
    for (const Tensor& t : values) {
      add(t.type());
      carried_.push_back(t.type());
    }
  }

 private:
  const Holding& holding_;
  std::int64_t bytes_ = 0;
  std::vector<TensorType> carried_;
};

// The values that one output of a body took, stacked along a new axis.
class Scanned {
 public:
  void add(Tensor value, Held& held) {
    held.add(value.type());
    if (!values_.empty() && values_.front().type() != value.type())
      throw bad_input(
          "a scanned value is {} in one iteration and {} in another; it must be one "
          "type and shape",
          to_string(values_.front().type()), to_string(value.type()));
    values_.push_back(std::move(value));
  }
  // The values are let go.
  Tensor stacked(std::int64_t axis, bool from_end, const Declaration& declared, Held& held) {
    TensorType one{declared.dtype, {}};
    if (!values_.empty()) {
      one = values_.front().type();
    } else {
      Ints dims;
      for (const std::int64_t d : declared.dims) dims.push_back(std::max<std::int64_t>(d, 0));
      one.shape = Shape(dims);
    }
    const auto count = static_cast<std::int64_t>(values_.size());
    const int at = normalize_axis(axis, one.shape.rank() + 1);
    Ints dims(one.shape.dims().begin(), one.shape.dims().end());
    dims.insert(dims.begin() + at, count);
    held.add({one.dtype, Shape(dims)});
    Tensor out = Tensor::uninitialized(one.dtype, Shape(dims));
    const auto bytes = out.mutable_bytes();
    const auto inner = static_cast<std::size_t>(
        checked_mul(one.shape.product(at, one.shape.rank()), size_bytes(one.dtype)));
    const auto outer = static_cast<std::size_t>(one.shape.product(0, at));
    for (std::size_t i = 0; i < values_.size() && inner != 0; ++i) {
      const std::size_t place = from_end ? values_.size() - 1 - i : i;
      for (std::size_t o = 0; o < outer; ++o)
        std::memcpy(bytes.data() + (o * values_.size() + place) * inner,
                    values_[i].bytes().data() + o * inner, inner);
    }
    for (const Tensor& t : values_) held.drop(t.type());
    values_.clear();
    return out;
  }

 private:
  Tensors values_;
};

Tensor slice_of(const Tensor& x, int axis, std::int64_t index) {
  const Shape& s = x.shape();
  Ints dims(s.dims().begin(), s.dims().end());
  dims.erase(dims.begin() + axis);
  Tensor out = Tensor::uninitialized(x.dtype(), Shape(dims));
  const auto inner =
      static_cast<std::size_t>(s.product(axis + 1, s.rank()) * size_bytes(x.dtype()));
  const auto outer = static_cast<std::size_t>(s.product(0, axis));
  const auto extent = static_cast<std::size_t>(s[axis]);
  const auto bytes = out.mutable_bytes();
  for (std::size_t o = 0; o < outer && inner != 0; ++o)
    std::memcpy(bytes.data() + o * inner,
                x.bytes().data() + (o * extent + static_cast<std::size_t>(index)) * inner, inner);
  return out;
}

std::int64_t element(const Ints& list, std::size_t i) { return i < list.size() ? list[i] : 0; }

void check_iterations(std::int64_t done) {
  if (done >= kIterationLimit)
    throw bad_input("ran {} iterations, the most that one loop may; its condition stays true",
                    kIterationLimit);
}

void check_outputs(const Tensors& got, std::size_t want) {
  if (got.size() != want)
    throw bad_input("its body gives {} values, expected {}", got.size(), want);
}

Tensors run_if(const Node& node, std::span<const Tensor* const> inputs, const RunBody& body) {
  if (node.subgraphs.size() != 2) throw bad_input("an if must own two graphs");
  if (inputs.empty() || inputs[0] == nullptr) throw bad_input("the condition is missing");
  return body(truth_of(*inputs[0], "the condition") ? 0 : 1, {});
}

Tensors run_loop(const Node& node, std::span<const Tensor* const> inputs, const RunBody& body,
                 const Holding& holding) {
  if (node.subgraphs.size() != 1) throw bad_input("a loop must own one graph");
  const Graph& graph = *node.subgraphs[0];
  Tensors carried;
  for (std::size_t i = 2; i < inputs.size(); ++i) {
    if (inputs[i] == nullptr) throw bad_input("carried value {} is missing", i - 2);
    carried.push_back(inputs[i]->share());
  }
  std::optional<std::int64_t> count;
  if (!inputs.empty() && inputs[0] != nullptr) {
    const Ints values = to_int64_values(*inputs[0]);
    if (values.size() != 1) throw bad_input("the count must be one number");
    count = values[0];
  }
  bool goes_on = inputs.size() < 2 || inputs[1] == nullptr || truth_of(*inputs[1], "the condition");
  const std::size_t loops = carried.size();
  if (graph.outputs.size() < loops + 1)
    throw bad_input("its body gives {} values and carries {}", graph.outputs.size(), loops);
  Held held(holding);
  std::vector<Scanned> scanned(graph.outputs.size() - loops - 1);
  for (std::int64_t i = 0; goes_on && (!count || i < *count); ++i) {
    check_iterations(i);
    Tensors in;
    in.push_back(Tensor::of<std::int64_t>({}, {i}));
    in.push_back(Tensor::of<Bool>({}, {Bool{1}}));
    for (Tensor& t : carried) in.push_back(std::move(t));
    Tensors out = body(0, std::move(in));
    check_outputs(out, graph.outputs.size());
    goes_on = truth_of(out[0], "the body's condition");
    for (std::size_t k = 0; k < loops; ++k) carried[k] = std::move(out[1 + k]);
    held.carry(carried);
    for (std::size_t k = 0; k < scanned.size(); ++k)
      scanned[k].add(std::move(out[1 + loops + k]), held);
  }
  Tensors result = std::move(carried);
  for (std::size_t k = 0; k < scanned.size(); ++k)
    result.push_back(scanned[k].stacked(0, false, graph.outputs[1 + loops + k], held));
  return result;
}

Tensors run_scan(const Node& node, std::span<const Tensor* const> inputs, const RunBody& body,
                 const Holding& holding) {
  if (node.subgraphs.size() != 1) throw bad_input("a scan must own one graph");
  const Graph& graph = *node.subgraphs[0];
  const auto& p = node.params.as<ScanParams>();
  if (p.scan_inputs < 1 || p.scan_inputs > static_cast<std::int64_t>(inputs.size()))
    throw bad_input("scan_inputs is {} and the node has {} inputs", p.scan_inputs, inputs.size());
  for (const Tensor* t : inputs)
    if (t == nullptr) throw bad_input("a scan has no optional inputs");
  const std::size_t slices = static_cast<std::size_t>(p.scan_inputs),
                    loops = inputs.size() - slices;
  if (graph.outputs.size() < loops)
    throw bad_input("its body gives {} values and carries {}", graph.outputs.size(), loops);
  Tensors carried;
  for (std::size_t i = 0; i < loops; ++i) carried.push_back(inputs[i]->share());
  std::vector<int> axes;
  std::int64_t count = 0;
  for (std::size_t k = 0; k < slices; ++k) {
    const Shape& s = inputs[loops + k]->shape();
    axes.push_back(normalize_axis(element(p.input_axes, k), s.rank()));
    if (k == 0) count = s[axes[0]];
    if (s[axes[k]] != count)
      throw bad_input("scanned input {} has {} slices and the first {}", k, s[axes[k]], count);
  }
  Held held(holding);
  std::vector<Scanned> scanned(graph.outputs.size() - loops);
  for (std::int64_t i = 0; i < count; ++i) {
    check_iterations(i);
    Tensors in = std::move(carried);
    carried.clear();
    for (std::size_t k = 0; k < slices; ++k)
      in.push_back(slice_of(*inputs[loops + k], axes[k],
                            element(p.input_directions, k) != 0 ? count - 1 - i : i));
    Tensors out = body(0, std::move(in));
    check_outputs(out, graph.outputs.size());
    for (std::size_t k = 0; k < loops; ++k) carried.push_back(std::move(out[k]));
    held.carry(carried);
    for (std::size_t k = 0; k < scanned.size(); ++k)
      scanned[k].add(std::move(out[loops + k]), held);
  }
  Tensors result = std::move(carried);
  for (std::size_t k = 0; k < scanned.size(); ++k)
    result.push_back(scanned[k].stacked(element(p.output_axes, k),
                                        element(p.output_directions, k) != 0,
                                        graph.outputs[loops + k], held));
  return result;
}

}  // namespace

std::vector<std::string> captured_names(const Graph& graph) {
  std::vector<bool> made(graph.value_names.size(), false);
  for (const auto& [v, tensor] : graph.initializers) made[static_cast<std::size_t>(v)] = true;
  for (const Declaration& d : graph.inputs) made[static_cast<std::size_t>(d.value)] = true;
  for (const Node& n : graph.nodes)
    for (const ValueId v : n.outputs)
      if (v != kAbsent) made[static_cast<std::size_t>(v)] = true;
  std::vector<std::string> names;
  std::set<std::string> seen;
  const auto read = [&](const std::string& name) {
    const ValueId v = graph.find_value(name);
    if ((v == kAbsent || !made[static_cast<std::size_t>(v)]) && seen.insert(name).second)
      names.push_back(name);
  };
  for (const Node& n : graph.nodes) {
    for (const ValueId v : n.inputs)
      if (v != kAbsent) read(graph.value_name(v));
    for (const auto& g : n.subgraphs)
      for (const std::string& name : captured_names(*g)) read(name);
  }
  for (const Declaration& d : graph.outputs) read(graph.value_name(d.value));
  return names;
}

std::vector<Tensor> run_control(const Node& node, std::span<const Tensor* const> inputs,
                                const RunBody& body, const Holding& holding) {
  if (node.op->name == "if") return run_if(node, inputs, body);
  if (node.op->name == "loop") return run_loop(node, inputs, body, holding);
  return run_scan(node, inputs, body, holding);
}

}  // namespace etalon
