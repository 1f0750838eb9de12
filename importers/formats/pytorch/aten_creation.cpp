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

AtenOutputs translate(GraphBuilder& b, const std::string& op, const std::string& name,
                      const AtenCall& c) {
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
  if (op == "ones" || op == "zeros")
    return {made(b, name, c, "size", type_of(c, DType::f32), op == "ones" ? 1 : 0)};
  if (op == "scalar_tensor")
    return {b.constant(name, scalar_of(type_of(c, DType::f32), c.real("s", 0)))};
  const ValueId x = first_tensor(c, op);
  const double value = op.find("zeros") != op.npos  ? 0
                       : op.find("ones") != op.npos ? 1
                                                    : c.real("fill_value", 0);
  const DType type = type_of(c, b.dtype(x));
  if (op.starts_with("new_")) return {made(b, name, c, "size", type, value)};
  return {filled_like(b, name, x, scalar_of(type, value))};
}

}  // namespace

AtenFamily creation_family() { return {kSignatures, translate}; }

}  // namespace etalon::pytorch_format
