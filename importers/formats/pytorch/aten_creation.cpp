// Tensors made of numbers.
#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/core/error.h"
#include "importers/formats/pytorch/aten_parts.h"
#include "importers/formats/scalar.h"

namespace etalon::pytorch_format {
namespace {

using Kind = AtenValue::Kind;

constexpr AtenSignature kSignatures[] = {
    {"arange", {"end"}},
    {"full", {"size", "fill_value", "dtype"}},
    {"ones", {"size", "dtype"}},
    {"zeros", {"size", "dtype"}},
    {"new_zeros", {"self", "size", "dtype"}},
    {"new_ones", {"self", "size", "dtype"}},
    {"new_full", {"self", "size", "fill_value", "dtype"}},
    {"full_like", {"self", "fill_value", "dtype"}},
    {"zeros_like", {"self", "dtype"}},
    {"ones_like", {"self", "dtype"}},
    {"scalar_tensor", {"s", "dtype"}},
    {"tensor", {"data", "dtype", "device", "requires_grad"}},
    {"as_tensor", {"data", "dtype", "device"}},
    {"linspace", {"start", "end", "steps", "dtype"}},
    {"eye", {"n", "m", "dtype"}},
    {"empty", {"size", "dtype"}},
    {"empty_like", {"self", "dtype"}},
    {"new_empty", {"self", "size", "dtype"}},
    {"zero", {"self"}},
    {"tril_indices", {"row", "col", "offset", "dtype"}},
    {"triu_indices", {"row", "col", "offset", "dtype"}},
};

// A tensor of one value; a large one is made when the network runs.
ValueId made(GraphBuilder& b, const std::string& name, const AtenCall& c, std::string_view sizes,
             DType type, double value) {
  constexpr std::int64_t kHeld = 4096;
  const Ints dims = free_extents(c, sizes);
  std::int64_t n = 1;
  for (const std::int64_t d : dims) {
    if (d < 0) throw AtenUnknown{"a tensor that is made with a free extent"};
    n = checked_mul(n, d);
  }
  if (n > kHeld)
    return b.op("expand", name, {b.constant(name + ".value", scalar_of(type, value))},
                {{"shape", dims}});
  Tensor t = Tensor::uninitialized(type, Shape(std::span(dims)));
  for (std::int64_t i = 0; i < t.numel(); ++i)
    store_from_double(type, t.mutable_bytes().data(), i, value);
  return b.constant(name, std::move(t));
}

DType type_of(const AtenCall& c, DType missing) {
  const AtenValue* v = c.find("dtype");
  return v == nullptr || v->kind != Kind::integer ? missing : aten_dtype(v->integer);
}

ValueId arange(GraphBuilder& b, const std::string& name, const AtenCall& c) {
  const AtenValue* values[] = {c.find("start"), c.find("end"), c.find("step")};
  bool whole = true;
  for (const AtenValue* v : values) whole = whole && (v == nullptr || v->kind == Kind::integer);
  const double start = values[0] == nullptr ? 0 : c.real("start", 0), end = c.real("end", 0),
               step = values[2] == nullptr ? 1 : c.real("step", 1);
  if (step == 0) throw bad_input("arange with a step of 0");
  const DType type = type_of(c, whole ? DType::i64 : DType::f32);
  const double count = std::max(0.0, std::ceil((end - start) / step));
  if (!(count <= 1 << 17)) throw AtenUnknown{"arange of more than 2^17 numbers"};
  Tensor t = Tensor::uninitialized(type, {static_cast<std::int64_t>(count)});
  for (std::int64_t i = 0; i < t.numel(); ++i)
    store_from_double(type, t.mutable_bytes().data(), i, start + static_cast<double>(i) * step);
  return b.constant(name, std::move(t));
}

ValueId filled_like(GraphBuilder& b, const std::string& name, ValueId x, const Tensor& one) {
  const ValueId v = b.constant(name + ".value", one.share());
  const Ints dims = b.dims(x);
  if (std::ranges::none_of(dims, [](std::int64_t n) { return n < 0; }))
    return b.op("expand", name, {v}, {{"shape", dims}});
  return b.op("expand", name, {v, b.op("shape", name + ".shape", {x})});
}

// Numbers in lists of lists, row by row, and the extents that all of them share.
void listed(const AtenValue& v, std::size_t depth, Ints& dims, std::vector<double>& out) {
  if (v.kind == Kind::list) {
    const auto n = static_cast<std::int64_t>(v.items.size());
    // How deep the first number stands is how deep all of them do.
    if (depth == dims.size() && out.empty()) dims.push_back(n);
    if (depth >= dims.size() || dims[depth] != n) throw AtenUnknown{"a tensor of uneven lists"};
    for (const AtenValue& i : v.items) listed(i, depth + 1, dims, out);
    return;
  }
  if (v.free || depth != dims.size() ||
      (v.kind != Kind::integer && v.kind != Kind::number && v.kind != Kind::boolean))
    throw AtenUnknown{"a tensor of what are no known numbers"};
  out.push_back(v.kind == Kind::number ? v.number : static_cast<double>(v.integer));
}

ValueId of_numbers(GraphBuilder& b, const std::string& name, const AtenCall& c) {
  const AtenValue* data = c.find("data");
  if (data == nullptr) throw AtenUnknown{"a tensor of nothing"};
  if (data->kind == Kind::tensor) return cast_as_told(b, name, data->tensor, c);
  const AtenValue* first = data;
  while (first->kind == Kind::list && !first->items.empty()) first = &first->items[0];
  const DType type = type_of(c, first->kind == Kind::integer   ? DType::i64
                                : first->kind == Kind::boolean ? DType::boolean
                                                               : DType::f32);
  Ints dims;
  std::vector<double> values;
  // The depth of the first number is that of all.
  std::size_t depth = 0;
  for (const AtenValue* v = data; v->kind == Kind::list && !v->items.empty(); v = &v->items[0]) {
    dims.push_back(static_cast<std::int64_t>(v->items.size()));
    if (++depth > 8) throw AtenUnknown{"a tensor of lists nested deeper than 8"};
  }
  listed(*data, 0, dims, values);
  Tensor t = Tensor::uninitialized(type, Shape(std::span<const std::int64_t>(dims)));
  for (std::size_t i = 0; i < values.size(); ++i)
    store_from_double(type, t.mutable_bytes().data(), static_cast<std::int64_t>(i), values[i]);
  return b.constant(name, std::move(t));
}

// As PyTorch computes it: from both ends to the middle.
ValueId linspace(GraphBuilder& b, const std::string& name, const AtenCall& c) {
  const std::int64_t n = c.integer("steps", 100);
  const double start = c.real("start", 0), end = c.real("end", 1);
  if (n < 0 || n > 1 << 17) throw AtenUnknown{"linspace of more than 2^17 numbers"};
  const DType type = type_of(c, DType::f32);
  Tensor t = Tensor::uninitialized(type, {n});
  const bool single = type == DType::f32;
  const auto first = static_cast<float>(start), last = static_cast<float>(end);
  const float step = n > 1 ? (last - first) / static_cast<float>(n - 1) : 0.0F;
  const double wide = n > 1 ? (end - start) / static_cast<double>(n - 1) : 0.0;
  for (std::int64_t i = 0; i < n; ++i) {
    const std::int64_t back = n - 1 - i;
    const double v = single
                         ? static_cast<double>(i < n / 2 ? first + step * static_cast<float>(i)
                                                         : last - step * static_cast<float>(back))
                     : i < n / 2 ? start + wide * static_cast<double>(i)
                                 : end - wide * static_cast<double>(back);
    store_from_double(type, t.mutable_bytes().data(), i, v);
  }
  return b.constant(name, std::move(t));
}

ValueId eye(GraphBuilder& b, const std::string& name, const AtenCall& c) {
  const std::int64_t n = c.integer("n", 1), m = c.integer("m", n);
  if (n < 0 || m < 0 || n > 1 << 12 || m > 1 << 12)
    throw AtenUnknown{"an identity of more than 4096 rows"};
  Tensor t = Tensor::zeros(type_of(c, DType::f32), {n, m});
  for (std::int64_t i = 0; i < std::min(n, m); ++i)
    store_from_double(t.dtype(), t.mutable_bytes().data(), i * m + i, 1);
  return b.constant(name, std::move(t));
}

// [2, count]: rows and columns of one side of the diagonal, row by row.
ValueId triangle(GraphBuilder& b, const std::string& name, const AtenCall& c, bool upper) {
  const std::int64_t rows = c.integer("row", 0), columns = c.integer("col", 0),
                     offset = c.integer("offset", 0);
  if (rows < 0 || columns < 0 || rows > 1 << 10 || columns > 1 << 10)
    throw AtenUnknown{"a triangle of more than 1024 rows"};
  Ints at, across;
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t k = 0; k < columns; ++k)
      if (upper ? k - r >= offset : k - r <= offset) {
        at.push_back(r);
        across.push_back(k);
      }
  const auto n = static_cast<std::int64_t>(at.size());
  at.insert(at.end(), across.begin(), across.end());
  return aten_cast(
      b, name,
      b.constant(name, Tensor::of<std::int64_t>({2, n}, std::span<const std::int64_t>(at))),
      type_of(c, DType::i64));
}

AtenOutputs translate(GraphBuilder& b, const std::string& op, const std::string& name,
                      const AtenCall& c) {
  if (op == "tensor" || op == "as_tensor") return {of_numbers(b, name, c)};
  if (op == "linspace") return {linspace(b, name, c)};
  if (op == "eye") return {eye(b, name, c)};
  if (op == "tril_indices" || op == "triu_indices")
    return {triangle(b, name, c, op == "triu_indices")};
  // What a value without a dtype makes: floats f32, truth bool, whole numbers i64.
  const auto missing = [&](const char* key) {
    const AtenValue* v = c.find(key);
    return v == nullptr || v->kind == Kind::number ? DType::f32
           : v->kind == Kind::boolean              ? DType::boolean
                                                   : DType::i64;
  };
  if (op == "arange") return {arange(b, name, c)};
  if (op == "full")
    return {made(b, name, c, "size", type_of(c, missing("fill_value")), c.real("fill_value", 0))};
  if (op == "ones" || op == "zeros" || op == "empty")
    return {made(b, name, c, "size", type_of(c, DType::f32), op == "ones" ? 1 : 0)};
  if (op == "scalar_tensor")
    return {b.constant(name, scalar_of(type_of(c, DType::f32), c.real("s", 0)))};
  const ValueId x = first_tensor(c, op);
  // What is empty holds anything; zeros are as good, and the same on every run.
  const double value = op.find("zero") != op.npos || op.find("empty") != op.npos ? 0
                       : op.find("ones") != op.npos                              ? 1
                                                    : c.real("fill_value", 0);
  const DType type = type_of(c, b.dtype(x));
  if (op.starts_with("new_")) return {made(b, name, c, "size", type, value)};
  return {filled_like(b, name, x, scalar_of(type, value))};
}

}  // namespace

AtenFamily creation_family() { return {kSignatures, translate}; }

}  // namespace etalon::pytorch_format
