// How ops that ONNX itself defines by simpler ones are written here: each line of their definition
// is one step, so the engine needs no second text of what they mean.
#pragma once

#include <limits>
#include <string_view>
#include <utility>
#include <vector>

#include "importers/formats/onnx/families.h"

namespace etalon::onnx_format {

class Body {
 public:
  explicit Body(OnnxNode& node) : n(node) {}
  OnnxNode& n;

  ValueId op(std::string_view name, std::vector<ValueId> in, const Fields& fields = {}) {
    return n.step(name, fields, std::move(in));
  }
  ValueId ints(Ints values) {
    return n.constant_value("ints",
                            Tensor::of<std::int64_t>({static_cast<std::int64_t>(values.size())},
                                                     std::span<const std::int64_t>(values)));
  }
  ValueId number(float value) { return n.constant_value("number", Tensor::of<float>({}, {value})); }
  ValueId integer(std::int64_t value) {
    return n.constant_value("integer", Tensor::of<std::int64_t>({}, {value}));
  }
  ValueId number_like(float value, ValueId like) { return op("cast_like", {number(value), like}); }
  ValueId cast(ValueId x, DType to) { return op("cast", {x}, {{"to", std::string(name(to))}}); }
  ValueId like(ValueId x, ValueId type) { return op("cast_like", {x, type}); }
  ValueId shape(ValueId x) { return op("shape", {x}); }
  // Extents [from, to) of x, as i64.
  ValueId extents(ValueId x, std::int64_t from, std::int64_t to) {
    return op("shape", {x}, {{"start", from}, {"end", to}});
  }
  ValueId concat(std::vector<ValueId> in, std::int64_t axis) {
    return op("concat", std::move(in), {{"axis", axis}});
  }
  ValueId reshape(ValueId x, Ints to) { return op("reshape", {x}, {{"shape", std::move(to)}}); }
  ValueId transpose(ValueId x, Ints perm) {
    return op("transpose", {x}, {{"perm", std::move(perm)}});
  }
  ValueId squeeze(ValueId x, Ints axes) { return op("squeeze", {x}, {{"axes", std::move(axes)}}); }
  ValueId unsqueeze(ValueId x, Ints axes) {
    return op("unsqueeze", {x}, {{"axes", std::move(axes)}});
  }
  // [batch, length, heads * size] as [batch, heads, length, size], and back.
  ValueId split_heads(ValueId x, std::int64_t heads) {
    return transpose(reshape(x, {0, 0, heads, -1}), {0, 2, 1, 3});
  }
  ValueId join_heads(ValueId x) { return reshape(transpose(x, {0, 2, 1, 3}), {0, 0, -1}); }
  // [batch, spatial, channels] as [batch, channels, spatial]; the move back.
  ValueId channels_first(ValueId x, int rank) {
    Ints perm{0, rank - 1};
    for (int i = 1; i + 1 < rank; ++i) perm.push_back(i);
    return transpose(x, perm);
  }
  static Ints to_channels_last(int rank) {
    Ints perm{0};
    for (int i = 2; i < rank; ++i) perm.push_back(i);
    perm.push_back(1);
    return perm;
  }
  ValueId add(ValueId a, ValueId b) { return op("add", {a, b}); }
  ValueId sub(ValueId a, ValueId b) { return op("sub", {a, b}); }
  ValueId mul(ValueId a, ValueId b) { return op("mul", {a, b}); }
  ValueId div(ValueId a, ValueId b) { return op("div", {a, b}); }
  ValueId where(ValueId condition, ValueId a, ValueId b) { return op("where", {condition, a, b}); }
  // 0 .. count - 1; count is one element.
  ValueId range(ValueId count) { return op("range", {integer(0), reshape(count, {}), integer(1)}); }
  // Entries [from, to) along an axis.
  ValueId part(ValueId x, std::int64_t axis, std::int64_t from, std::int64_t to) {
    return op("slice", {x}, {{"starts", Ints{from}}, {"ends", Ints{to}}, {"axes", Ints{axis}}});
  }
  ValueId reduce(std::string_view name, ValueId x, Ints axes, bool keepdims) {
    return op(name, {x}, {{"axes", std::move(axes)}, {"keepdims", keepdims}});
  }
};

inline constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

}  // namespace etalon::onnx_format
