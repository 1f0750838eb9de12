// Functions of keras.ops and NumPy's operators, as functional models of Keras 3 have them: each is
// a class of one call. Operands broadcast as NumPy's. Source: keras/src/ops (3.15).
#include <limits>
#include <nlohmann/json.hpp>
#include <span>

#include "engine/core/error.h"
#include "importers/formats/einsum.h"
#include "importers/formats/keras/translator.h"
#include "importers/formats/tf/ops.h"
#include "importers/formats/translate.h"

namespace etalon::keras_format {
namespace {

struct Row {
  std::string_view theirs, ours;
};
constexpr Row kUnary[] = {{"Relu", "relu"},         {"Exp", "exp"},
                          {"Log", "log"},           {"Sqrt", "sqrt"},
                          {"Rsqrt", "rsqrt"},       {"Tanh", "tanh"},
                          {"Sigmoid", "sigmoid"},   {"Absolute", "abs"},
                          {"Abs", "abs"},           {"Negative", "neg"},
                          {"Sin", "sin"},           {"Cos", "cos"},
                          {"Tan", "tan"},           {"Arctan", "atan"},
                          {"Softplus", "softplus"}, {"Softsign", "softsign"},
                          {"Silu", "silu"},         {"Selu", "selu"},
                          {"Floor", "floor"},       {"Ceil", "ceil"},
                          {"Round", "round"},       {"Sign", "sign"},
                          {"Erf", "erf"},           {"Log1p", "log1p"},
                          {"Expm1", "expm1"},       {"Sinh", "sinh"},
                          {"Cosh", "cosh"},         {"LogicalNot", "not"},
                          {"Isnan", "isnan"},       {"LogSigmoid", "log_sigmoid"},
                          {"Mish", "mish"},         {"Reciprocal", "reciprocal"}};
constexpr Row kBinary[] = {{"Add", "add"},         {"Subtract", "sub"},
                           {"Multiply", "mul"},    {"Maximum", "max"},
                           {"Minimum", "min"},     {"Equal", "equal"},
                           {"Greater", "greater"}, {"GreaterEqual", "greater_or_equal"},
                           {"Less", "less"},       {"LessEqual", "less_or_equal"},
                           {"LogicalAnd", "and"},  {"LogicalOr", "or"},
                           {"LogicalXor", "xor"},  {"Matmul", "matmul"},
                           {"NotEqual", "equal"},  {"Divide", "div"},
                           {"TrueDivide", "div"},  {"Power", "pow"}};
constexpr Row kReduce[] = {{"Sum", "reduce_sum"}, {"Mean", "reduce_mean"}, {"Max", "reduce_max"},
                           {"Min", "reduce_min"}, {"Prod", "reduce_prod"}, {"Any", "reduce_max"},
                           {"All", "reduce_min"}};

std::string_view ours_of(std::span<const Row> rows, std::string_view theirs) {
  for (const Row& r : rows)
    if (r.theirs == theirs) return r.ours;
  return {};
}

}  // namespace

bool takes_numbers(std::string_view operation) {
  return !ours_of(kBinary, operation).empty() || operation == "Where";
}

ValueId Translator::operation() {
  const std::string& t = c_.type;
  const auto need = [&](std::size_t n) {
    if (c_.inputs.size() != n) throw bad_input("{} operands of keras.ops {}", c_.inputs.size(), t);
  };
  if (const auto op = ours_of(kUnary, t); !op.empty()) {
    need(1);
    return b_.op(op, name_, {x()});
  }
  if (const auto op = ours_of(kBinary, t); !op.empty()) {
    need(2);
    if (op == "div" || op == "pow")
      for (const ValueId v : c_.inputs)
        if (!is_floating(b_.dtype(v))) throw UnknownLayer{"keras.ops " + t + " of integers"};
    const ValueId y = b_.op(op, t == "NotEqual" ? name_ + ".equal" : name_, c_.inputs);
    return t == "NotEqual" ? b_.op("not", name_, {y}) : y;
  }
  if (const auto op = ours_of(kReduce, t); !op.empty()) {
    need(1);
    Fields fields{{"keepdims", flag("keepdims", false)}};
    Ints axes;
    if (const json* axis = find("axis")) {
      if (axis->is_array())
        for (const json& a : *axis) axes.push_back(json_integer(a, "an axis"));
      else
        axes.push_back(json_integer(*axis, "an axis"));
      fields.emplace_back("axes", axes);
    }
    return b_.op(op, name_, {x()}, fields);
  }
  if (t == "Square") return b_.op("mul", name_, {x(), x()});
  if (t == "Relu6") return b_.op("clip", name_, {x()}, {{"min", 0.0F}, {"max", 6.0F}});
  if (t == "LeakyRelu")
    return b_.op("leaky_relu", name_, {x()}, {{"alpha", number("negative_slope", 0.2F)}});
  if (t == "Elu") return b_.op("elu", name_, {x()}, {{"alpha", number("alpha", 1)}});
  if (t == "Gelu")
    return b_.op("gelu", name_, {x()},
                 {{"approximate", std::string(flag("approximate", true) ? "tanh" : "none")}});
  if (t == "Softmax") return b_.op("softmax", name_, {x()}, {{"axis", integer("axis", -1)}});
  if (t == "LogSoftmax") return b_.op("log_softmax", name_, {x()}, {{"axis", integer("axis", -1)}});
  if (t == "Where") {
    need(3);
    return b_.op("where", name_, c_.inputs);
  }
  if (t == "Clip") {
    need(1);
    return b_.op("clip", name_, {x()}, {{"min", number("x_min", 0)}, {"max", number("x_max", 0)}});
  }
  if (t == "Cast") {
    const DType to = tensor_type(text("dtype", "float32"));
    return b_.op("cast", name_, {x()}, {{"to", std::string(name(to))}});
  }
  if (t == "Concatenate") return b_.op("concat", name_, c_.inputs, {{"axis", integer("axis", -1)}});
  if (t == "Transpose") {
    Ints perm;
    if (find("axes") != nullptr)
      for (const json& a : list("axes")) perm.push_back(json_integer(a, "an axis"));
    else
      for (int i = b_.rank(x()) - 1; i >= 0; --i) perm.push_back(i);
    return b_.transpose(name_, x(), perm);
  }
  if (t == "Reshape") {
    Ints shape;
    for (const json& d : list("newshape")) shape.push_back(json_integer(d, "newshape"));
    return b_.reshape(name_, x(), shape);
  }
  if (t == "ExpandDims")
    return b_.op("unsqueeze", name_, {x()}, {{"axes", Ints{integer("axis", 0)}}});
  if (t == "Squeeze" && find("axis") != nullptr)
    return b_.op("squeeze", name_, {x()}, {{"axes", Ints{integer("axis", 0)}}});
  if (t == "Flip" && find("axis") != nullptr)
    return b_.op("slice", name_, {x()},
                 {{"starts", Ints{-1}},
                  {"ends", Ints{std::numeric_limits<std::int64_t>::min() + 1}},
                  {"axes", Ints{integer("axis", 0)}},
                  {"steps", Ints{-1}}});
  if (const auto y = moved()) return *y;
  if (t == "Einsum" && c_.inputs.size() == 2)
    if (const auto y = einsum_of_two(b_, name_, text("subscripts", ""), x(), c_.inputs[1]))
      return *y;
  if (t == "GetItem") {
    if (c_.arguments == nullptr || !c_.arguments->is_array() || c_.arguments->size() != 2)
      throw bad_input("an element of {} arguments", c_.arguments == nullptr ? 0 : 1);
    return get_item((*c_.arguments)[1]);
  }
  throw UnknownLayer{"the operation keras.ops " + t};
}

// Functions that cut, join and repeat, and those that count along an axis.
std::optional<ValueId> Translator::moved() {
  const std::string& t = c_.type;
  const int rank = b_.rank(x());
  const auto make = [&](std::string_view op, std::vector<ValueId> in,
                        std::map<std::string, tf::Attribute, std::less<>> attributes = {}) {
    return tf::Ops(b_).translate({name_, std::string(op), std::move(in), std::move(attributes)});
  };
  const auto along = [&](const Ints& values) {
    return b_.constant(name_ + ".along", ints_tensor(values));
  };
  if (t == "Split") {
    const json& parts = config("indices_or_sections");
    const std::int64_t axis = normalize_axis(integer("axis", 0), rank);
    if (parts.is_number())
      return several(make("Split", {along({axis}), x()}, {{"num_split", json_integer(parts, t)}}));
    Ints sizes;
    std::int64_t from = 0;
    for (const json& at : list("indices_or_sections")) {
      sizes.push_back(json_integer(at, t) - from);
      from += sizes.back();
    }
    sizes.push_back(b_.shape(x())[static_cast<int>(axis)] - from);
    for (const std::int64_t n : sizes)
      if (n < 0) throw UnknownLayer{"keras.ops Split at places that do not rise"};
    return several(make("SplitV", {x(), along(sizes), along({axis})},
                        {{"num_split", static_cast<std::int64_t>(sizes.size())}}));
  }
  if (t == "Stack")
    return make("Pack", c_.inputs, {{"axis", normalize_axis(integer("axis", 0), rank + 1)}})[0];
  if (t == "Pad" && text("mode", "constant") == "constant") {
    const json& width = list("pad_width");
    Ints pads(static_cast<std::size_t>(2 * rank), 0);
    if (width.size() != static_cast<std::size_t>(rank))
      throw UnknownLayer{"keras.ops Pad of one width for all axes"};
    for (std::size_t i = 0; i < width.size(); ++i) {
      if (!width[i].is_array() || width[i].size() != 2) throw bad_input("a pad_width");
      pads[i] = json_integer(width[i][0], "a pad_width");
      pads[width.size() + i] = json_integer(width[i][1], "a pad_width");
    }
    return b_.op("pad", name_, {x()}, {{"pads", pads}});
  }
  if (t == "Tile") {
    Ints repeats;
    for (const json& n : list("repeats")) repeats.push_back(json_integer(n, "repeats"));
    if (repeats.size() > static_cast<std::size_t>(rank))
      throw UnknownLayer{"keras.ops Tile to more axes"};
    repeats.insert(repeats.begin(), static_cast<std::size_t>(rank) - repeats.size(), 1);
    return b_.op("tile", name_, {x()}, {{"repeats", repeats}});
  }
  if (t == "Repeat" && find("axis") != nullptr && config("repeats").is_number()) {
    const auto axis = static_cast<std::size_t>(normalize_axis(integer("axis", 0), rank));
    const std::int64_t n = integer("repeats", 1);
    Ints dims = b_.dims(x()), times(dims.size() + 1, 1);
    for (std::size_t i = 0; i < dims.size(); ++i)
      if (dims[i] < 0 && i >= axis) throw UnknownLayer{"keras.ops Repeat of free extents"};
    for (std::size_t i = 0; i < axis; ++i) dims[i] = 0;
    if (n < 1 || n > 1 << 20 || dims[axis] > 1 << 30)
      throw bad_input("{} repeats of {} elements", n, dims[axis]);
    dims[axis] *= n;
    times[axis + 1] = n;
    const ValueId each = b_.op("unsqueeze", name_ + ".axis", {x()},
                               {{"axes", Ints{static_cast<std::int64_t>(axis) + 1}}});
    return b_.reshape(name_, b_.op("tile", name_ + ".each", {each}, {{"repeats", times}}), dims);
  }
  if ((t == "Argmax" || t == "Argmin") && find("axis") != nullptr && !flag("keepdims", false))
    return make(t == "Argmax" ? "ArgMax" : "ArgMin", {x(), along({integer("axis", 0)})},
                {{"output_type", std::string("i32")}})[0];
  if (t == "Cumsum" && find("axis") != nullptr && find("dtype") == nullptr)
    return make("Cumsum", {x(), along({integer("axis", 0)})})[0];
  if (t == "OneHot" && integer("axis", -1) == -1 && !flag("sparse", false) &&
      text("dtype", "float32") == "float32")
    return one_hot(x(), integer("num_classes", 0));
  if (t == "Norm" && find("ord") == nullptr && find("axis") != nullptr &&
      !config("axis").is_array()) {
    const ValueId squares = b_.op("mul", name_ + ".squares", {x(), x()});
    return b_.op(
        "sqrt", name_,
        {b_.op("reduce_sum", name_ + ".sum", {squares},
               {{"axes", Ints{integer("axis", 0)}}, {"keepdims", flag("keepdims", false)}})});
  }
  return std::nullopt;
}

// x[...] of whole numbers, slices, None and one ellipsis.
ValueId Translator::get_item(const json& how) {
  const json items = how.is_array() ? how : json::array({how});
  const auto is = [](const json& v, const char* what) {
    return v.is_object() && v.contains("class_name") && v["class_name"] == what;
  };
  std::int64_t taken = 0;
  for (const json& v : items) taken += v.is_null() || is(v, "__ellipsis__") ? 0 : 1;
  Ints starts, ends, axes, steps, gone, fresh;
  std::int64_t axis = 0, place = 0;  // of x; of what stays before axes vanish
  for (const json& v : items) {
    if (v.is_null()) {
      fresh.push_back(place++);
    } else if (is(v, "__ellipsis__")) {
      axis += b_.rank(x()) - taken;
      place += b_.rank(x()) - taken;
    } else if (v.is_number_integer()) {
      const std::int64_t at = json_integer(v, "an index");
      starts.push_back(at);
      ends.push_back(at == -1 ? std::numeric_limits<std::int64_t>::max() : at + 1);
      steps.push_back(1);
      axes.push_back(axis);
      gone.push_back(axis++);
    } else if (is(v, "__slice__") || (v.is_object() && v.contains("start"))) {
      const json& s = v.contains("start") ? v : json_member(v, "config");
      const auto bound = [&](const char* key, std::int64_t missing) {
        const auto at = s.find(key);
        return at == s.end() || at->is_null() ? missing : json_integer(*at, key);
      };
      const std::int64_t step = bound("step", 1);
      if (step == 0) throw bad_input("a slice of step 0");
      constexpr std::int64_t kFar = std::numeric_limits<std::int64_t>::max();
      const std::int64_t first = bound("start", step > 0 ? 0 : kFar);
      const std::int64_t end = bound("stop", step > 0 ? kFar : -kFar);
      if (first != 0 || end != kFar || step != 1) {
        starts.push_back(first);
        ends.push_back(end);
        steps.push_back(step);
        axes.push_back(axis);
      }
      ++axis;
      ++place;
    } else {
      throw UnknownLayer{"an index that is a tensor"};
    }
  }
  ValueId y = x();
  if (!axes.empty())
    y = b_.op("slice", name_ + ".slice", {y},
              {{"starts", starts}, {"ends", ends}, {"axes", axes}, {"steps", steps}});
  if (!gone.empty()) y = b_.op("squeeze", name_ + ".axes", {y}, {{"axes", gone}});
  if (!fresh.empty()) y = b_.op("unsqueeze", name_ + ".fresh", {y}, {{"axes", fresh}});
  return y;
}

}  // namespace etalon::keras_format
