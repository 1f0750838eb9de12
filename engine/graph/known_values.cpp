#include "engine/graph/known_values.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <string_view>

#include "engine/core/error.h"
#include "engine/numerics/element.h"
#include "engine/ops/indexing.h"
#include "engine/ops/layout.h"

namespace etalon {
namespace {

constexpr std::int64_t kMostElements = 64;  // a few shapes side by side

// Every format counts in i64 or i32; Core ML in narrower integers too, and its networks in f32.
bool counts(DType dtype) {
  switch (dtype) {
    case DType::i8:
    case DType::u8:
    case DType::i16:
    case DType::u16:
    case DType::i32:
    case DType::u32:
    case DType::i64:
    case DType::f32:
      return true;
    default:
      return false;
  }
}
bool is_count(const TensorType& t) {
  return counts(t.dtype) && t.shape.rank() <= 1 && t.shape.numel() <= kMostElements;
}

// Whole numbers; of f32 those that its sums and products hold exactly.
std::optional<Ints> whole(const Tensor& t) {
  if (t.dtype() == DType::i64) return to_int64_values(t);
  Ints out;
  for (std::int64_t i = 0; i < t.numel(); ++i) {
    const double v = load_as_double(t, i);
    if (t.dtype() == DType::f32 && !(std::fabs(v) <= 0x1p24 && v == std::trunc(v))) return {};
    out.push_back(static_cast<std::int64_t>(v));
  }
  return out;
}

// Of operands of one extent, or one of them a number.
template <class F>
std::optional<Ints> by_element(const Ints& a, const Ints& b, std::size_t count, F f) {
  if ((a.size() != count && a.size() != 1) || (b.size() != count && b.size() != 1)) return {};
  Ints out;
  for (std::size_t i = 0; i < count; ++i) {
    std::int64_t v = 0;
    if (!f(a[a.size() == 1 ? 0 : i], b[b.size() == 1 ? 0 : i], v)) return {};
    out.push_back(v);
  }
  return out;
}
std::optional<Ints> arithmetic(std::string_view op, const Ints& a, const Ints& b,
                               std::size_t count) {
  using I = std::int64_t;
  if (op == "add")
    return by_element(a, b, count,
                      [](I x, I y, I& z) { return !__builtin_add_overflow(x, y, &z); });
  if (op == "sub")
    return by_element(a, b, count,
                      [](I x, I y, I& z) { return !__builtin_sub_overflow(x, y, &z); });
  if (op == "mul")
    return by_element(a, b, count,
                      [](I x, I y, I& z) { return !__builtin_mul_overflow(x, y, &z); });
  if (op == "div")  // toward zero, as the op cuts
    return by_element(a, b, count, [](I x, I y, I& z) {
      if (y == 0 || y == -1) return false;
      z = x / y;
      return true;
    });
  if (op == "max")
    return by_element(a, b, count, [](I x, I y, I& z) { return z = std::max(x, y), true; });
  if (op == "min")
    return by_element(a, b, count, [](I x, I y, I& z) { return z = std::min(x, y), true; });
  return {};
}

bool divides(const Ints& a, const Ints& b) {
  if (a.empty() || b.empty() || (a.size() != b.size() && a.size() != 1 && b.size() != 1))
    return false;
  for (std::size_t i = 0; i < std::max(a.size(), b.size()); ++i) {
    const std::int64_t x = a[a.size() == 1 ? 0 : i], y = b[b.size() == 1 ? 0 : i];
    if (y < 1 || x % y != 0) return false;
  }
  return true;
}

std::optional<Ints> reduced(std::string_view op, const Ints& x) {
  if (x.empty()) return {};
  Ints y{x[0]};
  const std::string_view step = op == "reduce_prod"  ? "mul"
                                : op == "reduce_sum" ? "add"
                                : op == "reduce_max" ? "max"
                                : op == "reduce_min" ? "min"
                                                     : "";
  for (std::size_t i = 1; i < x.size(); ++i) {
    const auto next = arithmetic(step, y, {x[i]}, 1);
    if (!next) return {};
    y = *next;
  }
  return step.empty() ? std::nullopt : std::optional(y);
}

std::optional<Ints> elements(const OpRow& op, const Params& params, std::span<const InferInput> in,
                             std::size_t count) {
  if (op.name == "shape" || op.name == "size") {
    const Shape& x = in[0].type.shape;
    if (op.name == "size") return Ints{x.numel()};
    Ints all(x.dims().begin(), x.dims().end());
    const std::int64_t rank = x.rank();
    const auto& p = params.as<ShapeParams>();
    const auto end = [&](std::int64_t i) {
      return std::clamp<std::int64_t>(i < 0 ? i + rank : i, 0, rank);
    };
    const std::int64_t first = end(p.start), last = std::max(first, end(p.end));
    return Ints(all.begin() + first, all.begin() + last);
  }
  std::vector<Ints> values;
  for (const InferInput& i : in) {
    if (!i.given) break;
    if (i.value == nullptr || !is_count(i.type)) return {};
    auto v = whole(*i.value);
    if (!v) return {};
    values.push_back(std::move(*v));
  }
  if (values.empty()) return {};
  const Ints& x = values[0];
  constexpr std::string_view kSame[] = {"identity",  "cast",  "reshape", "squeeze",
                                        "unsqueeze", "floor", "ceil",    "round"};
  if (std::ranges::find(kSame, op.name) != std::end(kSame)) return x;
  if (op.name.starts_with("reduce_") && count == 1) return reduced(op.name, x);
  if (op.name == "concat") {
    Ints all;
    for (const Ints& v : values) all.insert(all.end(), v.begin(), v.end());
    return all;
  }
  if (op.name == "slice" && in[0].type.shape.rank() == 1) {
    const SliceAxis a = slice_axes(params.as<SliceParams>(), InferInputs(in))[0];
    Ints out;
    for (std::int64_t i = 0; i < a.count; ++i)
      out.push_back(x[static_cast<std::size_t>(a.begin + i * a.step)]);
    return out;
  }
  if (op.name == "gather" && in[0].type.shape.rank() == 1 && values.size() == 2) {
    Ints out;
    for (std::int64_t i : values[1]) {
      if (i < 0) i += static_cast<std::int64_t>(x.size());
      if (i < 0 || i >= static_cast<std::int64_t>(x.size())) return {};
      out.push_back(x[static_cast<std::size_t>(i)]);
    }
    return out;
  }
  if (op.name == "expand" || op.name == "constant_of_shape") {
    const Ints& v = op.name == "expand" ? x : values.back();
    if (v.size() == 1 && values.size() == 2) return Ints(count, v[0]);
    return {};
  }
  if (values.size() == 2) {
    // A quotient of f32 is not cut: only one without a rest is known.
    if (op.name == "div" && in[0].type.dtype == DType::f32 && !divides(x, values[1])) return {};
    return arithmetic(op.name, x, values[1], count);
  }
  return {};
}

}  // namespace

std::optional<Tensor> known_value(const OpRow& op, const Params& params,
                                  std::span<const InferInput> inputs, const TensorType& out) {
  if (!is_count(out) || inputs.empty() || !inputs[0].given) return {};
  const auto count = static_cast<std::size_t>(out.shape.numel());
  const std::optional<Ints> values = elements(op, params, inputs, count);
  if (!values || values->size() != count) return {};
  Tensor t = Tensor::uninitialized(out.dtype, out.shape);
  const auto bytes = t.mutable_bytes();
  for (std::size_t i = 0; i < count; ++i) {
    const std::int64_t v = (*values)[i];
    if (out.dtype == DType::i64) {
      t.mutable_data<std::int64_t>()[i] = v;
      continue;
    }
    if (v < -(std::int64_t{1} << 31) || v >= std::int64_t{1} << 32) return {};
    const auto at = static_cast<std::int64_t>(i);
    store_from_double(out.dtype, bytes.data(), at, static_cast<double>(v));
    if (load_as_double(t, at) != static_cast<double>(v)) return {};
  }
  return t;
}

}  // namespace etalon
