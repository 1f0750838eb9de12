// Functions become the operators that TensorFlow itself makes of them (importers/formats/tf). A
// call is [layer, node, tensor, {other arguments by name}], of a list of tensors one such for each;
// a constant in the first place is ["_CONSTANT_VALUE", -1, value, {...}]. Source:
// keras/layers/core/tf_op_layer.py (2.13), tensorflow/python/keras/engine/base_layer.py (2.3).
#include "importers/formats/keras/tensorflow_calls.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <span>

#include "engine/core/error.h"
#include "importers/containers/bytes.h"
#include "importers/containers/pbjson.h"
#include "importers/formats/keras/translator.h"
#include "importers/formats/keras/weights.h"
#include "importers/formats/scalar.h"
#include "importers/formats/tf/graph.h"
#include "importers/formats/translate.h"

namespace etalon::keras_format {
namespace {

// A function of one operator. `arguments` stand behind the first one: "y" is a tensor, "axis:i" one
// of integers, "alpha=alpha" an attribute; what a call leaves out is left out.
struct Function {
  std::string_view name, op, arguments = {};
};
constexpr Function kFunctions[] = {
    {"__operators__.add", "AddV2", "y"},
    {"math.add", "AddV2", "y"},
    {"math.subtract", "Sub", "y"},
    {"math.multiply", "Mul", "y"},
    {"math.truediv", "RealDiv", "y"},
    {"math.divide", "RealDiv", "y"},
    {"math.divide_no_nan", "DivNoNan", "y"},
    {"math.floordiv", "FloorDiv", "y"},
    {"math.floormod", "FloorMod", "y"},
    {"math.mod", "FloorMod", "y"},
    {"math.pow", "Pow", "y"},
    {"math.maximum", "Maximum", "y"},
    {"math.minimum", "Minimum", "y"},
    {"math.squared_difference", "SquaredDifference", "y"},
    {"math.greater", "Greater", "y"},
    {"math.greater_equal", "GreaterEqual", "y"},
    {"math.less", "Less", "y"},
    {"math.less_equal", "LessEqual", "y"},
    {"math.equal", "Equal", "y"},
    {"math.not_equal", "NotEqual", "y"},
    {"__operators__.eq", "Equal", "other"},
    {"__operators__.ne", "NotEqual", "other"},
    {"math.logical_and", "LogicalAnd", "y"},
    {"math.logical_or", "LogicalOr", "y"},
    {"math.logical_not", "LogicalNot"},
    {"math.add_n", "AddN"},
    {"math.abs", "Abs"},
    {"math.negative", "Neg"},
    {"math.sign", "Sign"},
    {"math.square", "Square"},
    {"math.sqrt", "Sqrt"},
    {"math.rsqrt", "Rsqrt"},
    {"math.reciprocal", "Reciprocal"},
    {"math.exp", "Exp"},
    {"math.expm1", "Expm1"},
    {"math.log", "Log"},
    {"math.log1p", "Log1p"},
    {"math.sin", "Sin"},
    {"math.cos", "Cos"},
    {"math.tan", "Tan"},
    {"math.atan", "Atan"},
    {"math.erf", "Erf"},
    {"math.floor", "Floor"},
    {"math.ceil", "Ceil"},
    {"math.round", "Round"},
    {"math.sigmoid", "Sigmoid"},
    {"math.tanh", "Tanh"},
    {"math.softplus", "Softplus"},
    {"math.is_nan", "IsNan"},
    {"nn.relu", "Relu"},
    {"nn.relu6", "Relu6"},
    {"nn.elu", "Elu"},
    {"nn.selu", "Selu"},
    {"nn.softsign", "Softsign"},
    {"nn.sigmoid", "Sigmoid"},
    {"nn.tanh", "Tanh"},
    {"nn.leaky_relu", "LeakyRelu", "alpha=alpha"},
    {"nn.gelu", "Gelu", "approximate=approximate"},
    {"nn.softmax", "Softmax"},
    {"nn.log_softmax", "LogSoftmax"},
    {"nn.bias_add", "BiasAdd", "bias data_format=data_format"},
    {"nn.depth_to_space", "DepthToSpace", "block_size=block_size data_format=data_format"},
    {"nn.space_to_depth", "SpaceToDepth", "block_size=block_size data_format=data_format"},
    {"linalg.matmul", "BatchMatMulV2", "b transpose_a=adj_x transpose_b=adj_y"},
    {"math.reduce_mean", "Mean", "axis:i keepdims=keep_dims"},
    {"math.reduce_sum", "Sum", "axis:i keepdims=keep_dims"},
    {"math.reduce_max", "Max", "axis:i keepdims=keep_dims"},
    {"math.reduce_min", "Min", "axis:i keepdims=keep_dims"},
    {"math.reduce_prod", "Prod", "axis:i keepdims=keep_dims"},
    {"math.reduce_any", "Any", "axis:i keepdims=keep_dims"},
    {"math.reduce_all", "All", "axis:i keepdims=keep_dims"},
    {"math.argmax", "ArgMax", "axis:i"},
    {"math.argmin", "ArgMin", "axis:i"},
    {"reshape", "Reshape", "shape:i"},
    {"transpose", "Transpose", "perm:i"},
    {"expand_dims", "ExpandDims", "axis:i"},
    {"squeeze", "Squeeze", "axis=squeeze_dims"},
    {"concat", "ConcatV2", "axis:i"},
    {"stack", "Pack", "axis=axis"},
    {"tile", "Tile", "multiples:i"},
    {"broadcast_to", "BroadcastTo", "shape:i"},
    {"gather", "GatherV2", "indices:i axis:i"},
    {"zeros_like", "ZerosLike"},
    {"ones_like", "OnesLike"},
    {"identity", "Identity"},
    {"stop_gradient", "Identity"},
    {"shape", "Shape"},
    {"clip_by_value", "ClipByValue", "clip_value_min clip_value_max"},
    {"where", "SelectV2", "x y"}};

bool is_constant(const json& v) {
  return v.is_array() && v.size() >= 3 && v[0].is_string() && v[0] == "_CONSTANT_VALUE";
}

// The first argument, item by item, and the object of the others.
std::vector<const json*> first_of(const json& node) {
  std::vector<const json*> out;
  if (is_tensor(node) || is_constant(node)) return {&node};
  if (node.is_array())
    for (const json& item : node) out.push_back(&item);
  return out;
}
const json* others_of(const json& node) {
  const std::vector<const json*> first = first_of(node);
  if (first.empty() || !first[0]->is_array() || first[0]->size() < 4 ||
      !first[0]->back().is_object())
    return nullptr;
  return &first[0]->back();
}

void collect(const json& v, std::vector<const json*>& out, int depth) {
  if (depth > kMaxNesting) throw bad_input("a call nests too deep");
  if (is_tensor(v)) {
    out.push_back(&v);
  } else if (v.is_structured() && !is_constant(v)) {
    for (const json& inner : v) collect(inner, out, depth + 1);
  }
}

bool has_tensor(const json& v) {
  std::vector<const json*> found;
  collect(v, found, 0);
  return !found.empty();
}

// Nested lists of numbers, or an array as later versions write one.
const json& plain(const json& v) {
  return v.is_object() && v.contains("config") && v["config"].is_object() &&
                 v["config"].contains("value")
             ? v["config"]["value"]
             : v;
}
Tensor tensor_of(const json& given, DType dtype) {
  const json& v = plain(given);
  Ints extents;
  for (const json* at = &v; at->is_array(); at = &(*at)[0]) {
    extents.push_back(static_cast<std::int64_t>(at->size()));
    if (at->empty()) break;
  }
  std::vector<double> all;
  const auto read = [&](auto&& self, const json& part, std::size_t axis) -> void {
    if (axis == extents.size()) {
      if (!part.is_number() && !part.is_boolean()) throw UnknownLayer{"a constant without numbers"};
      all.push_back(part.is_boolean() ? (part.get<bool>() ? 1.0 : 0.0) : part.get<double>());
      return;
    }
    if (!part.is_array() || static_cast<std::int64_t>(part.size()) != extents[axis])
      throw bad_input("a constant whose rows differ in length");
    for (const json& row : part) self(self, row, axis + 1);
  };
  read(read, v, 0);
  Tensor t = Tensor::uninitialized(dtype, Shape(extents));
  for (std::size_t i = 0; i < all.size(); ++i)
    store_from_double(dtype, t.mutable_bytes().data(), static_cast<std::int64_t>(i), all[i]);
  return t;
}

}  // namespace

bool is_function(std::string_view type) {
  return type == "TFOpLambda" || type == "SlicingOpLambda";
}

bool is_tensor(const json& v) {
  return v.is_array() && v.size() >= 3 && v[0].is_string() && v[1].is_number() &&
         v[2].is_number() && v[0] != "_CONSTANT_VALUE";
}

std::vector<const json*> tensors_of_call(const json& node) {
  std::vector<const json*> out;
  for (const json* item : first_of(node))
    if (is_tensor(*item)) out.push_back(item);
  if (const json* others = others_of(node))
    for (const auto& [name, value] : others->items()) collect(value, out, 0);
  return out;
}

// What a call gives: the first argument's values, then the others by name; each with tensors is
// made a value, in the order in which tensors_of_call lists them.
struct Translator::Given {
  std::vector<ValueId> first;
  std::map<std::string, ValueId, std::less<>> values;
  std::map<std::string, const json*, std::less<>> plain;
};

Translator::Given Translator::given_to(const std::string& function) {
  if (c_.arguments == nullptr) throw bad_input("a call of {} without arguments", function);
  const json& node = *c_.arguments;
  const DType dtype = b_.dtype(x());
  tf::Ops ops(b_);
  Given out;
  std::size_t taken = 0;
  const auto next = [&] {
    if (taken >= c_.inputs.size())
      throw bad_input("a call of tf.{} with too few tensors", function);
    return c_.inputs[taken++];
  };
  for (const json* item : first_of(node))
    out.first.push_back(is_constant(*item)
                            ? b_.constant(name_ + ".constant", tensor_of((*item)[2], dtype))
                            : next());
  if (out.first.empty()) throw bad_input("a call of tf.{} without arguments", function);
  const json* others = others_of(node);
  if (others == nullptr) return out;
  for (const auto& [name, value] : others->items()) {
    if (value.is_null() || name == "name") continue;
    if (!has_tensor(value)) {
      out.plain.emplace(name, &value);
    } else if (is_tensor(value)) {
      out.values.emplace(name, next());
    } else if (value.is_array()) {  // extents of which some are computed
      tf::OpNode pack{name_ + "." + name, "Pack", {}, {{"axis", std::int64_t{0}}}};
      for (const json& item : value)
        pack.inputs.push_back(
            is_tensor(item) ? next() : b_.constant(name_ + ".number", tensor_of(item, DType::i32)));
      out.values.emplace(name, ops.translate(pack).at(0));
    } else {
      throw UnknownLayer{"tf." + function + " called with tensors in an object"};
    }
  }
  return out;
}

ValueId Translator::several(std::vector<ValueId> all) {
  if (all.empty()) throw bad_input("a call that gives nothing");
  states_.insert(states_.end(), all.begin() + 1, all.end());
  return all[0];
}

ValueId Translator::tensorflow_function() {
  std::string function = text("function", "");
  // Functions that have two versions; the old one of resizing means another thing.
  if (constexpr std::string_view kOld = "compat.v1.";
      function.starts_with(kOld) && function.find("image.") == std::string::npos)
    function.erase(0, kOld.size());
  Given given = given_to(function);
  if (function == "__operators__.getitem") {
    const auto how = given.plain.find("slice_spec");
    if (how == given.plain.end()) throw UnknownLayer{"an index that is a tensor"};
    return get_item(*how->second);
  }
  const UnknownLayer unknown{"tf." + function};
  const auto option = [&](std::string_view name) {
    const auto at = given.plain.find(name);
    return at == given.plain.end() ? nullptr : at->second;
  };
  const auto is = [&](std::string_view name, const json& value) {
    const json* v = option(name);
    return v == nullptr || *v == value;
  };
  const auto make = [&](std::string_view op, std::vector<ValueId> in,
                        std::map<std::string, tf::Attribute, std::less<>> attributes = {}) {
    return tf::Ops(b_).translate({name_, std::string(op), std::move(in), std::move(attributes)});
  };
  const auto integers = [&](const json& v) {
    return b_.constant(name_ + ".integers", tensor_of(v, DType::i32));
  };
  const int rank = b_.rank(x());
  const auto last_axis = [&] { return is("axis", -1) || is("axis", rank - 1); };
  if (function == "nn.silu" || function == "nn.swish") {
    if (!is("beta", 1.0)) throw unknown;
    return b_.elementwise("silu", name_, {x()});
  }
  if (function == "cast") {
    const json* to = option("dtype");
    if (to == nullptr || !to->is_string()) throw unknown;
    return make("Cast", given.first,
                {{"DstT", std::string(name(tensor_type(to->get<std::string>())))}})[0];
  }
  if (function == "split") {
    const json *parts = option("num_or_size_splits"), *axis = option("axis");
    if (parts == nullptr) throw unknown;
    const ValueId along = integers(axis == nullptr ? json(0) : *axis);
    if (parts->is_number())
      return several(make("Split", {along, x()}, {{"num_split", json_integer(*parts, "parts")}}));
    return several(make("SplitV", {x(), integers(*parts), along},
                        {{"num_split", static_cast<std::int64_t>(parts->size())}}));
  }
  if (function == "unstack") {
    const json* axis = option("axis");
    const std::int64_t along =
        normalize_axis(axis == nullptr ? 0 : json_integer(*axis, "axis"), rank);
    return several(
        make("Unpack", {x()}, {{"axis", along}, {"num", b_.shape(x())[static_cast<int>(along)]}}));
  }
  if (function == "pad") {
    const json *pads = option("paddings"), *value = option("constant_values");
    if (pads == nullptr) throw unknown;
    if (option("mode") != nullptr && !option("mode")->is_string()) throw unknown;
    if (!is("mode", "CONSTANT"))
      return make("MirrorPad", {x(), integers(*pads)},
                  {{"mode", option("mode")->get<std::string>()}})[0];
    return make("PadV2",
                {x(), integers(*pads),
                 b_.constant(name_ + ".fill",
                             tensor_of(value == nullptr ? json(0) : *value, b_.dtype(x())))})[0];
  }
  if (function == "image.resize") {
    const json* size = option("size");
    if (size == nullptr || !is("preserve_aspect_ratio", false) || !is("antialias", false) ||
        (!is("method", "bilinear") && !is("method", "nearest")))
      throw unknown;
    return make(is("method", "bilinear") ? "ResizeBilinear" : "ResizeNearestNeighbor",
                {x(), integers(*size)}, {{"half_pixel_centers", std::int64_t{1}}})[0];
  }
  if (function.ends_with("l2_normalize")) {  // x / sqrt(max(sum of squares, epsilon))
    const json *axis = option("axis"), *least = option("epsilon");
    if (axis == nullptr) throw unknown;
    const ValueId squares = b_.op("mul", name_ + ".squares", {x(), x()});
    const ValueId sum =
        make("Sum", {squares, integers(*axis)}, {{"keep_dims", std::int64_t{1}}})[0];
    const ValueId bound = b_.constant(
        name_ + ".least", tensor_of(least == nullptr ? json(1e-12) : *least, b_.dtype(x())));
    const ValueId length =
        b_.op("rsqrt", name_ + ".length", {b_.op("max", name_ + ".bound", {sum, bound})});
    return b_.op("mul", name_, {x(), length});
  }
  if ((function == "nn.softmax" || function == "nn.log_softmax") && !last_axis()) throw unknown;
  const auto row = std::ranges::find(kFunctions, function, &Function::name);
  if (row == std::end(kFunctions)) throw unknown;
  // Of whole numbers TensorFlow makes doubles first.
  if (row->op == "RealDiv" && !is_floating(b_.dtype(x()))) throw unknown;
  tf::OpNode node{name_, std::string(row->op), given.first, {}};
  for (std::string_view rest = row->arguments; !rest.empty();) {
    const std::size_t end = std::min(rest.find(' '), rest.size());
    const std::string_view word = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    const std::size_t mark = word.find_first_of("=:");
    const std::string argument(word.substr(0, mark));
    const json* v = option(argument);
    const auto value = given.values.find(argument);
    if (mark == word.npos || word[mark] == ':') {
      const bool whole = mark != word.npos;
      if (value != given.values.end()) {
        node.inputs.push_back(value->second);
      } else if (v != nullptr) {
        node.inputs.push_back(whole ? integers(*v)
                                    : b_.constant(name_ + "." + argument,
                                                  tensor_of(*v, b_.dtype(given.first.at(0)))));
      } else if (argument == "axis" || argument == "perm") {
        // All of them: a reduction's in order, a transposition's the other way round.
        Ints axes(static_cast<std::size_t>(rank));
        std::iota(axes.begin(), axes.end(), 0);
        if (argument == "perm") std::ranges::reverse(axes);
        const bool one =
            row->op == "ConcatV2" || row->op == "GatherV2" || row->op.starts_with("Arg");
        node.inputs.push_back(integers(one ? json(0) : json(axes)));
      } else {
        throw unknown;
      }
      continue;
    }
    const std::string attribute(word.substr(mark + 1));
    if (v == nullptr) continue;
    if (v->is_boolean() || v->is_number_integer())
      node.attributes[attribute] =
          v->is_boolean() ? std::int64_t{v->get<bool>()} : json_integer(*v, argument);
    else if (v->is_number())
      node.attributes[attribute] = v->get<float>();
    else if (v->is_string())
      node.attributes[attribute] = v->get<std::string>();
    else
      throw unknown;
    if (attribute == "squeeze_dims") node.attributes[attribute] = Ints{json_integer(*v, argument)};
  }
  // What else a call says would change its meaning.
  constexpr std::string_view kSilent[] = {"axis", "out_type", "batch_dims"};
  for (const auto& [argument, v] : given.plain) {
    const bool listed = row->arguments.find(argument) != row->arguments.npos;
    const bool silent = std::ranges::find(kSilent, argument) != std::end(kSilent);
    if (!listed && !silent && *v != false) throw unknown;
    if (argument == "batch_dims" && *v != 0) throw unknown;
  }
  if (row->op == "Shape") {
    const json* to = option("out_type");
    node.attributes["out_type"] = std::string(
        name(tensor_type(to != nullptr && to->is_string() ? to->get<std::string>() : "int32")));
  }
  if (row->op.starts_with("Arg")) {
    const json* to = option("output_type");
    if (to != nullptr && *to != "int64") throw unknown;
    node.attributes["output_type"] = std::string("i64");
  }
  return several(tf::Ops(b_).translate(node));
}

// A node of TensorFlow's graph, whose constants stand between its inputs.
ValueId Translator::tensorflow_node() {
  const json& node = config("node_def");
  if (!node.is_object()) throw UnknownLayer{"a TensorFlowOpLayer whose node is bytes"};
  const auto is_bytes = [](std::string_view type, std::string_view field) {
    return (type == "AttrValue" || type == "ListValue") && field == "s";
  };
  const PbType& type = tf::schema().type("NodeDef");
  tf::OpNode made = tf::op_node(PbMessage::from_text(type, text_of_json(type, node, is_bytes)));
  made.name = name_;
  made.inputs = c_.inputs;
  std::map<std::size_t, const json*> constants;
  if (const json* all = find("constants"); all != nullptr && all->is_object())
    for (const auto& [place, value] : all->items()) {
      if (place.empty() || place.size() > 4 || place.find_first_not_of("0123456789") != place.npos)
        throw bad_input("a constant at place '{}'", printable(place));
      constants.emplace(std::stoul(place), &value);
    }
  for (const auto& [place, value] : constants) {
    if (place > made.inputs.size()) throw bad_input("a constant at place {}", place);
    const json* number = &plain(*value);
    while (number->is_array() && !number->empty()) number = &(*number)[0];
    const DType dtype = number->is_number_float() ? DType::f32
                        : number->is_boolean()    ? DType::boolean
                                                  : DType::i32;
    made.inputs.insert(made.inputs.begin() + static_cast<std::ptrdiff_t>(place),
                       b_.constant(name_ + ".constant", tensor_of(*value, dtype)));
  }
  return several(tf::Ops(b_).translate(made));
}

}  // namespace etalon::keras_format
