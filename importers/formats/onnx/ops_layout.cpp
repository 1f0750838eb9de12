// Ops that move elements, and constants.
//
// Numbers that older opsets wrote as attributes become parameters, those that newer ones pass as
// inputs stay inputs: the engine's ops take both.
#include <cmath>

#include "engine/core/error.h"
#include "importers/formats/onnx/families.h"

namespace etalon::onnx_format {

void integers_or_input(OnnxNode& node, std::size_t i, std::string_view field, bool as_input,
                       Fields& fields, std::vector<ValueId>& inputs) {
  if (as_input) {
    if (!node.has(i)) return;
    while (inputs.size() < i) inputs.push_back(kAbsent);
    inputs.push_back(node.input(i));
  } else {
    fields.emplace_back(field, node.integers(field));
  }
}

namespace {

void constant(OnnxNode& n) {
  if (n.has_attribute("value")) return n.emit_constant(n.tensor("value"));
  if (n.has_attribute("value_float"))
    return n.emit_constant(Tensor::of<float>({}, {n.number("value_float", 0.0F)}));
  if (n.has_attribute("value_int"))
    return n.emit_constant(Tensor::of<std::int64_t>({}, {n.integer("value_int", 0)}));
  if (n.has_attribute("value_floats")) {
    const auto v = n.numbers("value_floats");
    return n.emit_constant(
        Tensor::of<float>({static_cast<std::int64_t>(v.size())}, std::span<const float>(v)));
  }
  if (n.has_attribute("value_ints")) {
    const auto v = n.integers("value_ints");
    return n.emit_constant(Tensor::of<std::int64_t>({static_cast<std::int64_t>(v.size())},
                                                    std::span<const std::int64_t>(v)));
  }
  throw bad_input("a constant that is neither tensor nor numbers; only those are supported");
}

void reshape(OnnxNode& n) {
  Fields f{{"allowzero", n.flag("allowzero", false)}};
  n.ignore("consumed_inputs");
  std::vector<ValueId> in{n.required(0)};
  if (n.opset() >= 5) n.required(1);
  integers_or_input(n, 1, "shape", n.opset() >= 5, f, in);
  n.emit("reshape", f, in, n.outputs());
}

void squeeze_like(OnnxNode& n, std::string_view op) {
  Fields f;
  std::vector<ValueId> in{n.required(0)};
  integers_or_input(n, 1, "axes", n.opset() >= 13, f, in);
  n.emit(op, f, in, n.outputs());
}

void concat(OnnxNode& n) {
  if (n.opset() >= 4 && !n.has_attribute("axis")) throw bad_input("attribute axis is missing");
  n.emit("concat", {{"axis", n.integer("axis", 1)}});
}

void split(OnnxNode& n) {
  Fields f{{"axis", n.integer("axis", 0)}};
  std::vector<ValueId> in{n.required(0)};
  const bool as_input = n.opset() >= 13 || (n.opset() < 2 && n.has(1));
  integers_or_input(n, 1, "split", as_input, f, in);
  const bool sized = in.size() > 1 || (!as_input && n.has_attribute("split"));
  const auto outputs = static_cast<std::int64_t>(n.output_count());
  if (n.has_attribute("num_outputs") && n.integer("num_outputs", outputs) != outputs)
    throw bad_input("num_outputs is {} and the node has {} outputs", n.integer("num_outputs", 0),
                    outputs);
  if (!sized) f.emplace_back("num_outputs", outputs);
  n.emit("split", f, in, n.outputs());
}

void slice(OnnxNode& n) {
  Fields f;
  std::vector<ValueId> in{n.required(0)};
  const bool as_input = n.opset() >= 10;
  if (as_input) {
    n.required(1);
    n.required(2);
  }
  constexpr std::string_view kFields[] = {"starts", "ends", "axes", "steps"};
  for (std::size_t i = 0; i < 4; ++i)
    if (as_input || i < 3) integers_or_input(n, i + 1, kFields[i], as_input, f, in);
  n.emit("slice", f, in, n.outputs());
}

void pad(OnnxNode& n) {
  const std::string mode = n.text("mode", "constant");
  if (mode != "constant" && mode != "reflect" && mode != "edge" && mode != "wrap")
    throw bad_input("mode is '{}', expected constant, reflect, edge or wrap", printable(mode));
  Fields f{{"mode", mode}};
  std::vector<ValueId> in{n.required(0)};
  if (n.opset() < 11) {
    f.emplace_back("pads", n.integers(n.opset() < 2 ? "paddings" : "pads"));
    f.emplace_back("value", n.number("value", 0.0F));
  } else {
    in = n.inputs();
    n.required(1);
  }
  n.emit("pad", f, in, n.outputs());
}

// Opset 1 passes these as elements of x's own type.
Ints whole_numbers(OnnxNode& n, std::size_t i, std::string_view what) {
  const Tensor* t = n.constant(i);
  if (t == nullptr || t->dtype() != DType::f32) return n.constant_integers(i, what);
  Ints values;
  for (const float v : t->data<float>()) {
    if (v != std::trunc(v) || std::abs(v) > 1e6F) throw bad_input("{} holds {}", what, v);
    values.push_back(static_cast<std::int64_t>(v));
  }
  return values;
}

// Opset 1 repeats along one axis: inputs x, tiles, axis.
void tile(OnnxNode& n) {
  if (n.opset() >= 6) return n.emit("tile");
  const Ints tiles = whole_numbers(n, 1, "tiles"), axis = whole_numbers(n, 2, "axis");
  if (tiles.size() != 1 || axis.size() != 1)
    throw bad_input("tiles and axis must be one number each");
  const int rank = n.rank_of(0, "how many axes `repeats` has");
  Ints repeats(static_cast<std::size_t>(rank), 1);
  repeats[static_cast<std::size_t>(normalize_axis(axis[0], rank))] = tiles[0];
  n.emit("tile", {{"repeats", repeats}}, {n.required(0)}, n.outputs());
}

void dropout(OnnxNode& n) {
  n.ignore("ratio");
  n.ignore("seed");
  n.ignore("is_test");
  n.ignore("consumed_inputs");
  if (n.has(2)) {
    const Tensor* training = n.constant(2);
    if (training == nullptr || training->dtype() != DType::boolean || training->numel() != 1 ||
        training->data<Bool>()[0].value != 0)
      throw bad_input("Dropout in training mode; export the model for inference");
  }
  if (n.is_read(1)) {
    if (n.opset() < 10)
      throw bad_input("the mask of a Dropout is read by another node; in inference there is none");
    const ValueId keep = n.constant_value("keep", Tensor::of<Bool>({1}, {Bool{1}}));
    n.emit("constant_of_shape", {}, {n.step("shape", {}, {n.required(0)}), keep}, {n.output(1)});
  }
  n.note("Dropout is the identity in inference");
  n.emit("identity", {}, {n.required(0)}, {n.output(0)});
}

void constant_of_shape(OnnxNode& n) {
  Tensor value = n.tensor("value");
  std::vector<ValueId> in{n.required(0)};
  if (value) {
    if (value.numel() != 1)
      throw bad_input("value must be one element, got {}", to_string(value.type()));
    in.push_back(n.constant_value("value", std::move(value)));
  }
  n.emit("constant_of_shape", {}, in, n.outputs());
}

constexpr TranslatorRow kRows[] = {
    {"Constant", constant},
    {"ConstantOfShape", constant_of_shape},
    {"Identity", [](OnnxNode& n) { n.emit("identity"); }},
    {"Dropout", dropout},
    {"Reshape", reshape},
    {"Flatten", [](OnnxNode& n) { n.emit("flatten", {{"axis", n.integer("axis", 1)}}); }},
    {"Squeeze", [](OnnxNode& n) { squeeze_like(n, "squeeze"); }},
    {"Unsqueeze", [](OnnxNode& n) { squeeze_like(n, "unsqueeze"); }},
    {"Transpose", [](OnnxNode& n) { n.emit("transpose", {{"perm", n.integers("perm")}}); }},
    {"Expand", [](OnnxNode& n) { n.emit("expand"); }},
    {"Tile", tile},
    {"Concat", concat},
    {"Split", split},
    {"Slice", slice},
    {"Pad", pad},
    {"DepthToSpace",
     [](OnnxNode& n) {
       n.emit("depth_to_space",
              {{"blocksize", n.integer("blocksize", 0)}, {"mode", n.text("mode", "DCR")}});
     }},
    {"SpaceToDepth",
     [](OnnxNode& n) {
       n.emit("space_to_depth",
              {{"blocksize", n.integer("blocksize", 0)}, {"mode", n.text("mode", "DCR")}});
     }},
    {"ReverseSequence",
     [](OnnxNode& n) {
       n.emit("reverse_sequence", {{"batch_axis", n.integer("batch_axis", 1)},
                                   {"time_axis", n.integer("time_axis", 0)}});
     }},
    {"Trilu", [](OnnxNode& n) { n.emit("trilu", {{"upper", n.flag("upper", true)}}); }},
};

}  // namespace

std::span<const TranslatorRow> layout_family() { return kRows; }

}  // namespace etalon::onnx_format
