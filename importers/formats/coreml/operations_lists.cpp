// MIL's lists: a list is a tensor, whose first axis counts its elements.
#include "engine/core/error.h"
#include "importers/formats/coreml/program.h"
#include "importers/formats/scalar.h"

namespace etalon::coreml {
namespace {

using Values = std::vector<ValueId>;

Values make_list(Operation& o) {
  DType type = DType::f32;
  const std::string named = o.text("dtype", "fp32");
  for (const auto& [mil, ours] : {std::pair{"fp32", DType::f32},
                                  {"fp16", DType::f16},
                                  {"int32", DType::i32},
                                  {"bool", DType::boolean}})
    if (named == mil) type = ours;
  if (const Value* shape = o.find("elem_shape"); shape == nullptr || !shape->texts.empty())
    throw bad_input("a list whose elements' extents are not in the file is not supported");
  const ValueId length =
      o.has("init_length")
          ? o.g.reshape(o.part("length"), o.i64("i64", o.value("init_length")), {1})
          : o.ints("length", {1});
  const ValueId shape =
      o.g.op("concat", o.part("shape"), {length, o.ints("extents", o.each_integer("elem_shape"))},
             {{"axis", std::int64_t{0}}});
  o.g.note("lists are tensors of their first length: to write behind it is an error");
  return {o.g.op("expand", o.name, {o.g.constant(o.part("zero"), scalar_of(type, 0)), shape})};
}

Values list_operation(Operation& o) {
  const ValueId list = o.value("ls");
  const Fields front{{"axis", std::int64_t{0}}};
  const auto index = [&](const Ints& shape) {
    return o.g.reshape(o.part("index"), o.i64("at", o.value("index")), shape);
  };
  if (o.type == "list_length")
    return {o.cast("length",
                   o.g.reshape(o.part("one"),
                               o.element("first", o.g.op("shape", o.part("shape"), {list}), 0), {}),
                   DType::i32)};
  if (o.type == "list_read") return {o.g.op("gather", o.name, {list, index({})}, front)};
  if (o.type == "list_gather")
    return {o.g.op("gather", o.name, {list, o.i64("at", o.value("indices"))}, front)};
  const bool one = o.type == "list_write";
  const ValueId at = one ? index({1, 1})
                         : o.g.op("unsqueeze", o.part("places"), {o.i64("at", o.value("indices"))},
                                  {{"axes", Ints{-1}}});
  ValueId value = o.value("value");
  if (one) value = o.g.op("unsqueeze", o.part("slice"), {value}, {{"axes", Ints{0}}});
  return {o.g.op("scatter_nd", o.name, {list, at, value})};
}

}  // namespace

std::vector<ValueId> translate_lists(Operation& o) {
  constexpr OperationRow kRows[] = {
      {"make_list", make_list},        {"list_length", list_operation},
      {"list_read", list_operation},   {"list_write", list_operation},
      {"list_gather", list_operation}, {"list_scatter", list_operation}};
  return translate_among(kRows, o);
}

}  // namespace etalon::coreml
