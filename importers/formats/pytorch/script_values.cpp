#include "importers/formats/pytorch/script_values.h"

#include <algorithm>
#include <cmath>

#include "engine/core/error.h"
#include "importers/formats/pytorch/aten_parts.h"

namespace etalon::pytorch_format {
namespace {

using Kind = AtenValue::Kind;
using Values = std::vector<ScriptValue>;

bool is_number(const ScriptValue& n) {
  return n.is(Kind::number) || (n.is(Kind::integer) && !n.plain.free);
}

double number_of(const ScriptValue& n) {
  return n.is(Kind::number) ? n.plain.number : static_cast<double>(n.plain.integer);
}

// Equal, different, or not to be known. Free extents are equal where they are of one axis and agree
// at both sizes that are tried, and different where they differ at both.
bool same(const ScriptValue& a, const ScriptValue& b) {
  const AtenValue &p = a.plain, &q = b.plain;
  if (p.kind == Kind::tensor || q.kind == Kind::tensor || a.object != nullptr ||
      b.object != nullptr || a.is_function || b.is_function)
    throw AtenUnknown{"a comparison of what are no numbers"};
  if (p.free && q.free) {
    const bool one = p.sizes[0] == q.sizes[0], two = p.sizes[1] == q.sizes[1];
    if (one && two && p.number >= 0 && p.number == q.number) return true;
    if (!one && !two) return false;
    throw AtenUnknown{"a comparison of extents that are free"};
  }
  if (p.free || q.free) throw AtenUnknown{"a comparison with an extent that is free"};
  if (a.items.size() != b.items.size()) return false;
  for (std::size_t i = 0; i < a.items.size(); ++i)
    if (!same(a.items[i], b.items[i])) return false;
  if (p.kind != q.kind && is_number(a) && is_number(b)) return number_of(a) == number_of(b);
  if (p.kind != q.kind && (p.kind == Kind::boolean || q.kind == Kind::boolean))
    throw AtenUnknown{"a comparison of truth with a number"};
  return p.kind == q.kind && p.integer == q.integer && p.number == q.number && p.text == q.text;
}

std::optional<ScriptValue> of_tensor(const GraphBuilder& b, const std::string& op,
                                     const Values& v) {
  const ValueId x = v[0].plain.tensor;
  const auto extent = [&](std::int64_t axis) { return plain(AtenValue::extent(b, x, axis)); };
  if (op == "dim" && v.size() == 1) return integer(b.rank(x));
  if (op == "size") {
    if (v.size() == 2) {
      if (!v[1].is(Kind::integer) || v[1].plain.free) throw AtenUnknown{"a size of a free axis"};
      return extent(v[1].plain.integer);
    }
    ScriptValue list = plain({.kind = Kind::list});
    for (int a = 0; a < b.rank(x); ++a) list.items.push_back(extent(a));
    return list;
  }
  if (op == "numel" && v.size() == 1) {
    AtenValue n = AtenValue::of_integer(1);
    for (int a = 0; a < b.rank(x); ++a)
      n = AtenValue::computed("mul", n, AtenValue::extent(b, x, a));
    return plain(n);
  }
  if (op == "dtype") return integer(aten_number_of(b.dtype(x)));
  return std::nullopt;
}

// A state that begins at zero; its elements are its extents. Of another type than f32 it is a
// tensor like others.
std::optional<ScriptValue> of_zeros(const std::string& op, const Values& v) {
  if (op == "zeros" && !v[0].items.empty() &&
      (v.size() < 2 || v[1].is_none() || (v[1].is(Kind::integer) && v[1].plain.integer == 6))) {
    ScriptValue zeros = v[0];
    zeros.plain.kind = Kind::zeros;
    return zeros;
  }
  if (v.size() != 1 || !v[0].is(Kind::zeros)) return std::nullopt;
  if (op == "dim") return integer(static_cast<std::int64_t>(v[0].items.size()));
  if (op != "size") return std::nullopt;
  ScriptValue list = v[0];
  list.plain.kind = Kind::list;
  return list;
}

std::optional<ScriptValue> of_two(const std::string& op, const ScriptValue& p,
                                  const ScriptValue& q) {
  if (op == "__getitem__" && p.is(Kind::list) && q.is(Kind::integer) && !q.plain.free) {
    const auto n = static_cast<std::int64_t>(p.items.size());
    const std::int64_t at = q.plain.integer < 0 ? q.plain.integer + n : q.plain.integer;
    if (at < 0 || at >= n) throw bad_input("element {} of a list of {}", q.plain.integer, n);
    return p.items[static_cast<std::size_t>(at)];
  }
  if (op == "eq") return flag(same(p, q));
  if (op == "ne") return flag(!same(p, q));
  if (p.is(Kind::integer) && q.is(Kind::integer)) {
    for (const char* arithmetic : {"add", "sub", "mul", "floordiv", "floor_divide", "remainder"})
      if (op == arithmetic) return plain(AtenValue::computed(op, p.plain, q.plain));
    if (op == "rsub") return plain(AtenValue::computed("sub", q.plain, p.plain));
  }
  if (!is_number(p) || !is_number(q)) return std::nullopt;
  // Of two integers exact, else as doubles.
  const bool whole = p.is(Kind::integer) && q.is(Kind::integer);
  const std::int64_t a = p.plain.integer, b = q.plain.integer;
  const double c = number_of(p), d = number_of(q);
  if (op == "lt") return flag(whole ? a < b : c < d);
  if (op == "le") return flag(whole ? a <= b : c <= d);
  if (op == "gt") return flag(whole ? a > b : c > d);
  if (op == "ge") return flag(whole ? a >= b : c >= d);
  return std::nullopt;
}

}  // namespace

ScriptValue plain(AtenValue v) { return {.plain = std::move(v)}; }
ScriptValue integer(std::int64_t v) { return plain(AtenValue::of_integer(v)); }
ScriptValue flag(bool v) { return plain(AtenValue::of_flag(v)); }

AtenValue as_aten(const ScriptValue& v) {
  if (v.object != nullptr || v.is_function) throw AtenUnknown{"a module as an argument"};
  AtenValue out = v.plain;
  for (const ScriptValue& i : v.items) out.items.push_back(as_aten(i));
  return out;
}

std::int64_t negated(std::int64_t a) {
  std::int64_t out = 0;
  if (__builtin_sub_overflow(std::int64_t{0}, a, &out)) throw bad_input("-({}) does not fit", a);
  return out;
}

ScriptValue converted(std::string_view to, const ScriptValue& v) {
  if (v.is(Kind::tensor) || v.plain.free) return v;  // a size that was counted in a tensor
  if (!is_number(v) && !v.is(Kind::boolean))
    throw AtenUnknown{std::string(to) + " of what is no number"};
  const double n = v.is(Kind::boolean) ? static_cast<double>(v.plain.integer) : number_of(v);
  if (to == "bool") return flag(v.is(Kind::number) ? n != 0 : v.plain.integer != 0);
  if (to == "float") return plain({.kind = Kind::number, .number = n});
  if (!v.is(Kind::number)) return integer(v.plain.integer);
  if (!(std::abs(n) < 9e15)) throw AtenUnknown{"an integer of a number that none holds"};
  return integer(static_cast<std::int64_t>(n));  // cut toward zero
}

std::optional<ScriptValue> known_call(const GraphBuilder& b, const std::string& op,
                                      const Values& v) {
  const auto count = v.size();
  if (std::ranges::any_of(v, [](const ScriptValue& i) { return i.is(Kind::integer); })) {
    // Traced code counts sizes in tensors of one number.
    Values numbers = v;
    bool tensors = false, all = true;
    for (ScriptValue& i : numbers) {
      if (!i.is(Kind::tensor)) continue;
      tensors = true;
      const Tensor* t = b.constant_of(i.plain.tensor);
      all = all && t != nullptr && t->shape().rank() == 0 && t->dtype() == DType::i64;
      if (all) i = integer(t->data<std::int64_t>()[0]);
    }
    if (tensors && all) return known_call(b, op, numbers);
  }
  if (op == "__is__" && count == 2) return flag(v[0].is_none() && v[1].is_none());
  if (op == "__isnot__" && count == 2) return flag(!(v[0].is_none() && v[1].is_none()));
  if (op == "warn" || op == "device") return ScriptValue{};
  if (op == "format") return plain({.kind = Kind::text});
  if (count == 0) return std::nullopt;
  if (v[0].is(Kind::tensor))
    if (auto known = of_tensor(b, op, v)) return known;
  if (op == "len" && count == 1 && v[0].is(Kind::list))
    return integer(static_cast<std::int64_t>(v[0].items.size()));
  if (auto known = of_zeros(op, v)) return known;
  if (std::ranges::any_of(
          v, [](const ScriptValue& i) { return i.is(Kind::tensor) || i.object != nullptr; })) {
    // An element of a list of tensors.
    if (op == "__getitem__" && count == 2 && v[0].is(Kind::list)) return of_two(op, v[0], v[1]);
    return std::nullopt;
  }
  if (op == "__not__" && count == 1) {
    if (!v[0].is(Kind::boolean)) throw AtenUnknown{"not of what is no truth value"};
    return flag(v[0].plain.integer == 0);
  }
  if (op == "list" && count == 1) return v[0];
  if (op == "neg" && count == 1 && v[0].is(Kind::integer) && !v[0].plain.free)
    return integer(negated(v[0].plain.integer));
  return count == 2 ? of_two(op, v[0], v[1]) : std::nullopt;
}

}  // namespace etalon::pytorch_format
