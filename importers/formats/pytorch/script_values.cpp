#include "importers/formats/pytorch/script_values.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "engine/core/error.h"
#include "engine/core/memory_budget.h"
#include "engine/numerics/element.h"
#include "importers/formats/pytorch/aten_parts.h"

namespace etalon::pytorch_format {
namespace {

using Kind = AtenValue::Kind;
using Values = std::vector<ScriptValue>;

constexpr std::size_t kMaxItems = 1 << 16;  // of a list that is made of others
constexpr std::size_t kMaxParts = 1 << 17;  // of lists in lists, however often one stands there

bool is_number(const ScriptValue& n) {
  return n.is(Kind::number) || (n.is(Kind::integer) && !n.plain.free);
}

double number_of(const ScriptValue& n) {
  return n.is(Kind::number) ? n.plain.number : static_cast<double>(n.plain.integer);
}

// Equal, different, or not to be known. Free extents are equal where they are of one axis and agree
// at both sizes that are tried, and different where they differ at both.
bool same(const ScriptValue& a, const ScriptValue& b, ScriptWork& work) {
  work.take();
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
  if (a.items().size() != b.items().size()) return false;
  for (std::size_t i = 0; i < a.items().size(); ++i)
    if (!same(a.items()[i], b.items()[i], work)) return false;
  if (p.kind != q.kind && is_number(a) && is_number(b)) return number_of(a) == number_of(b);
  if (p.kind != q.kind && (p.kind == Kind::boolean || q.kind == Kind::boolean))
    throw AtenUnknown{"a comparison of truth with a number"};
  return p.kind == q.kind && p.integer == q.integer && p.number == q.number && p.text == q.text;
}

bool equal_kinds(const ScriptValue& a, const ScriptValue& b) {
  return a.is(b.plain.kind) || (is_number(a) && is_number(b));
}

// The one element of a tensor, where a constant or extents say it before a run.
std::optional<ScriptValue> element(const GraphBuilder& b, ValueId x) {
  const Tensor* one = b.constant_of(x);
  const Tensor* other = one;
  if (one == nullptr) std::tie(one, other) = b.known_elements(x);
  if (one == nullptr || other == nullptr || one->numel() != 1 || other->numel() != 1)
    return std::nullopt;
  const double v = load_as_double(*one, 0), w = load_as_double(*other, 0);
  if (one->dtype() == DType::boolean && v == w) return flag(v != 0);
  if (is_floating(one->dtype())) return v == w ? std::optional(number(v)) : std::nullopt;
  constexpr double kExact = 9e15;
  if (!(std::abs(v) < kExact) || !(std::abs(w) < kExact)) return std::nullopt;
  const auto n = static_cast<std::int64_t>(v), m = static_cast<std::int64_t>(w);
  if (n == m) return integer(n);
  return plain({.kind = Kind::integer, .integer = -1, .free = true, .sizes = {n, m}, .number = -1});
}

std::optional<ScriptValue> of_tensor(const GraphBuilder& b, const std::string& op,
                                     const Values& v) {
  const ValueId x = v[0].plain.tensor;
  const auto extent = [&](std::int64_t axis) { return plain(AtenValue::extent(b, x, axis)); };
  if ((op == "dim" || op == "ndim") && v.size() == 1) return integer(b.rank(x));
  if (op == "size" || op == "shape") {
    if (v.size() == 2) {
      if (!v[1].is(Kind::integer) || v[1].plain.free) throw AtenUnknown{"a size of a free axis"};
      return extent(v[1].plain.integer);
    }
    ScriptItems extents;
    for (int a = 0; a < b.rank(x); ++a) extents.push_back(extent(a));
    return list_of(std::move(extents));
  }
  if (op == "len" && v.size() == 1) return extent(0);
  if (op == "numel" && v.size() == 1) {
    AtenValue n = AtenValue::of_integer(1);
    for (int a = 0; a < b.rank(x); ++a)
      n = AtenValue::computed("mul", n, AtenValue::extent(b, x, a));
    return plain(n);
  }
  if (op == "dtype") return integer(aten_number_of(b.dtype(x)));
  if (op == "is_floating_point") return flag(is_floating(b.dtype(x)));
  for (const char* never : {"is_complex", "is_cuda", "is_nested", "is_sparse", "is_quantized",
                            "is_mkldnn", "requires_grad", "is_mps", "is_meta", "is_xla"})
    if (op == never) return flag(false);
  if (op == "item" || op == "ScalarImplicit" || op == "IntImplicit" || op == "FloatImplicit") {
    auto known = element(b, x);
    return known ? known : std::optional(v[0]);
  }
  return std::nullopt;
}

// A state that begins at zero; its elements are its extents. Of another type than f32 it is a
// tensor like others.
std::optional<ScriptValue> of_zeros(const std::string& op, const Values& v) {
  if (op == "zeros" && !v[0].items().empty() &&
      (v.size() < 2 || v[1].is_none() || (v[1].is(Kind::integer) && v[1].plain.integer == 6))) {
    ScriptValue zeros = copied(v[0]);  // a tensor of its own, whose extents the list gave
    zeros.plain.kind = Kind::zeros;
    return zeros;
  }
  if (v.size() != 1 || !v[0].is(Kind::zeros)) return std::nullopt;
  if (op == "dim") return integer(static_cast<std::int64_t>(v[0].items().size()));
  if (op != "size") return std::nullopt;
  ScriptValue list = v[0];
  list.plain.kind = Kind::list;
  return list;
}

// Of two numbers, as Python computes them; integers may be free.
std::optional<ScriptValue> of_numbers(const std::string& op, const ScriptValue& p,
                                      const ScriptValue& q) {
  const bool whole = p.is(Kind::integer) && q.is(Kind::integer);
  if (whole) {
    for (const char* arithmetic : {"add", "sub", "mul"})
      if (op == arithmetic) return plain(AtenValue::computed(op, p.plain, q.plain));
    const bool negative =
        (!p.plain.free && p.plain.integer < 0) || (!q.plain.free && q.plain.integer <= 0);
    if (!negative && (op == "floordiv" || op == "floor_divide" || op == "remainder"))
      return plain(AtenValue::computed(op, p.plain, q.plain));
    if (op == "rsub") return plain(AtenValue::computed("sub", q.plain, p.plain));
  }
  if (!is_number(p) || !is_number(q)) return std::nullopt;
  const std::int64_t a = p.plain.integer, b = q.plain.integer;
  const double c = number_of(p), d = number_of(q);
  if (op == "lt") return flag(whole ? a < b : c < d);
  if (op == "le") return flag(whole ? a <= b : c <= d);
  if (op == "gt") return flag(whole ? a > b : c > d);
  if (op == "ge") return flag(whole ? a >= b : c >= d);
  if (op == "min") return (whole ? a <= b : c <= d) ? p : q;
  if (op == "max") return (whole ? a >= b : c >= d) ? p : q;
  const auto result = [&](double v) {
    if (!whole) return number(v);
    if (!(std::abs(v) < 9e15)) throw AtenUnknown{op + " of numbers that are too large"};
    return integer(static_cast<std::int64_t>(v));
  };
  if (op == "add") return number(c + d);
  if (op == "sub") return number(c - d);
  if (op == "rsub") return number(d - c);
  if (op == "mul") return number(c * d);
  if (op == "pow") return d >= 0 ? result(std::pow(c, d)) : number(std::pow(c, d));
  const bool divides = op == "div" || op == "truediv" || op == "true_divide" || op == "divide";
  const bool floors = op == "floordiv" || op == "floor_divide", rests = op == "remainder";
  if (!divides && !floors && !rests) return std::nullopt;
  if (d == 0) throw AtenUnknown{"a division by zero"};
  if (divides) return number(c / d);
  return result(floors ? std::floor(c / d) : c - std::floor(c / d) * d);
}

std::optional<ScriptValue> of_one_number(const std::string& op, const ScriptValue& n) {
  if (op == "Int" || op == "IntImplicit" || op == "item" || op == "ScalarImplicit" ||
      op == "detach" || op == "clone" || op == "contiguous" || op == "FloatImplicit")
    return n;
  if (n.plain.free) return std::nullopt;
  if (op == "neg") {
    if (n.is(Kind::integer)) return integer(negated(n.plain.integer));
    return number(-n.plain.number);
  }
  const double v = number_of(n);
  const auto rounded = [&](double w) {
    if (!(std::abs(w) < 9e15)) throw AtenUnknown{op + " of a number that is too large"};
    return integer(static_cast<std::int64_t>(w));
  };
  if (op == "Float") return number(v);
  if (op == "floor") return rounded(std::floor(v));
  if (op == "ceil") return rounded(std::ceil(v));
  if (op == "trunc") return rounded(std::trunc(v));
  if (op == "round") return rounded(std::nearbyint(v));
  if (op == "sqrt" && v >= 0) return number(std::sqrt(v));
  if (op == "abs" && n.is(Kind::integer))
    return n.plain.integer < 0 ? integer(negated(n.plain.integer)) : n;
  if (op == "abs") return number(std::abs(v));
  if (op == "log" && v > 0) return number(std::log(v));
  if (op == "exp") return number(std::exp(v));
  return std::nullopt;
}

// to(number, dtype, ..): the same number, whole or not.
std::optional<ScriptValue> retyped(const Values& v) {
  if (v.size() < 2 || !v[1].is(Kind::integer)) return v[0];
  const DType to = aten_dtype(v[1].plain.integer);
  if (v[0].plain.free) return is_floating(to) ? std::nullopt : std::optional(v[0]);
  if (is_floating(to)) return number(number_of(v[0]));
  if (to == DType::boolean) return flag(number_of(v[0]) != 0);
  if (v[0].is(Kind::integer)) return v[0];
  if (!(std::abs(v[0].plain.number) < 9e15)) throw AtenUnknown{"an integer that none holds"};
  return integer(static_cast<std::int64_t>(v[0].plain.number));
}

// A list's part from `start` to `end`, as Python cuts it.
ScriptValue sliced(const Values& v) {
  const auto n = static_cast<std::int64_t>(v[0].items().size());
  const auto bound = [&](std::size_t i, std::int64_t missing) {
    if (i >= v.size() || v[i].is_none()) return missing;
    if (!v[i].is(Kind::integer) || v[i].plain.free) throw AtenUnknown{"a slice of a list"};
    const std::int64_t at = v[i].plain.integer;
    return std::clamp<std::int64_t>(at < 0 ? at + n : at, 0, n);
  };
  const std::int64_t start = bound(1, 0), end = bound(2, n),
                     step = v.size() > 3 && v[3].is(Kind::integer) ? v[3].plain.integer : 1;
  if (step < 1) throw AtenUnknown{"a slice of a list backwards"};
  ScriptItems out;
  for (std::int64_t i = start; i < end; i += std::min(step, n))
    out.push_back(v[0].items()[static_cast<std::size_t>(i)]);
  return list_of(std::move(out));
}

// Of lists and dictionaries, whose elements may be tensors.
std::optional<ScriptValue> of_list(const std::string& op, const Values& v, ScriptWork& work) {
  const ScriptValue& list = v[0];
  const std::size_t step = list.keyed ? 2 : 1;
  if (op == "len" && v.size() == 1)
    return integer(static_cast<std::int64_t>(list.items().size() / step));
  if (op != "__getitem__") work.take(list.items().size());
  if ((op == "list" || op == "copy") && v.size() == 1) return copied(list);
  if (op == "__contains__" && v.size() == 2) {
    if (list.keyed) return flag(place_in(list, v[1], work).has_value());
    return flag(std::ranges::any_of(list.items(), [&](const ScriptValue& i) {
      return equal_kinds(i, v[1]) && same(i, v[1], work);
    }));
  }
  if (op == "__getitem__" && v.size() == 2) {
    if (!list.keyed && (!v[1].is(Kind::integer) || v[1].plain.free)) return std::nullopt;
    if (const auto at = place_in(list, v[1], work)) return list.items()[*at];
    if (list.keyed) throw AtenUnknown{"a key that the dictionary lacks"};
    throw bad_input("element {} of a list of {}", v[1].plain.integer, list.items().size());
  }
  if (op == "get" && list.keyed && v.size() >= 2) {
    if (const auto at = place_in(list, v[1], work)) return list.items()[*at];
    return v.size() > 2 ? v[2] : ScriptValue{};
  }
  if (list.keyed && (op == "keys" || op == "values" || op == "items")) {
    ScriptItems out;
    for (std::size_t i = 0; i + 1 < list.items().size(); i += 2)
      out.push_back(op == "items" ? list_of({list.items()[i], list.items()[i + 1]})
                                  : list.items()[op == "keys" ? i : i + 1]);
    return list_of(std::move(out));
  }
  if (list.keyed) return std::nullopt;
  if (op == "slice") return sliced(v);
  if (op == "add" && v.size() == 2 && v[1].is(Kind::list)) {
    ScriptItems out = list.items();
    out.insert(out.end(), v[1].items().begin(), v[1].items().end());
    if (out.size() > kMaxItems) throw AtenUnknown{"a list without end"};
    return list_of(std::move(out));
  }
  if (op == "mul" && v.size() == 2 && v[1].is(Kind::integer) && !v[1].plain.free) {
    ScriptItems out;
    for (std::int64_t i = 0; i < v[1].plain.integer; ++i) {
      out.insert(out.end(), list.items().begin(), list.items().end());
      if (out.size() > kMaxItems || list.items().empty()) break;
    }
    if (out.size() > kMaxItems) throw AtenUnknown{"a list without end"};
    return list_of(std::move(out));
  }
  if ((op == "any" || op == "all") && v.size() == 1) {
    const auto truth = [](const ScriptValue& i) {
      if (!i.is(Kind::boolean) && !is_number(i)) throw AtenUnknown{"truth of what is no number"};
      return i.is(Kind::boolean) ? i.plain.integer != 0 : number_of(i) != 0;
    };
    return flag(op == "any" ? std::ranges::any_of(list.items(), truth)
                            : std::ranges::all_of(list.items(), truth));
  }
  if (op == "sum" && v.size() == 1) {
    ScriptValue sum = integer(0);
    for (const ScriptValue& i : list.items()) {
      const auto next = of_numbers("add", sum, i);
      if (!next) return std::nullopt;
      sum = *next;
    }
    return sum;
  }
  if ((op == "min" || op == "max") && v.size() == 1 && !list.items().empty()) {
    ScriptValue most = list.items()[0];
    for (const ScriptValue& i : list.items()) {
      const auto better = of_numbers(op, most, i);
      if (!better) return std::nullopt;
      most = *better;
    }
    return most;
  }
  return std::nullopt;
}

// A size that traced code made a number of f32, times a constant tensor of one: the product,
// rounded as the tensor's would be.
std::optional<ScriptValue> of_single_floats(const GraphBuilder& b, const std::string& op,
                                            const Values& v) {
  if (v.size() != 2 || v[0].is(v[1].plain.kind) || (op != "mul" && op != "div"))
    return std::nullopt;
  Values numbers = v;
  for (ScriptValue& i : numbers) {
    if (i.is(Kind::number)) continue;
    const Tensor* t = i.is(Kind::tensor) ? b.constant_of(i.plain.tensor) : nullptr;
    if (t == nullptr || t->shape().rank() != 0 || t->dtype() != DType::f32) return std::nullopt;
    i = number(load_as_double(*t, 0));
  }
  const auto exact = of_numbers(op, numbers[0], numbers[1]);
  return exact ? std::optional(number(static_cast<double>(static_cast<float>(exact->plain.number))))
               : std::nullopt;
}

// Of pairs, or a copy of a dictionary.
ScriptValue dictionary(const Values& v) {
  if (!v.empty() && v[0].keyed) return copied(v[0]);
  ScriptValue out = list_of({});
  out.keyed = true;
  if (v.empty()) return out;
  for (const ScriptValue& pair : v[0].items()) {
    if (!pair.is(Kind::list) || pair.items().size() != 2)
      throw AtenUnknown{"a dictionary of what are no pairs"};
    for (const ScriptValue& i : pair.items()) insert_into(out, out.items().size(), i);
  }
  return out;
}

// What stands in the places {} of a text.
ScriptValue formatted(const Values& v) {
  if (v.empty()) return text("");
  std::string out;
  std::size_t next = 1;
  const std::string& form = v[0].plain.text;
  for (std::size_t i = 0; i < form.size(); ++i) {
    if (form.compare(i, 2, "{}") != 0) {
      out += form[i];
      continue;
    }
    ++i;
    if (next >= v.size()) continue;
    const ScriptValue& n = v[next++];
    out += n.is(Kind::text)                       ? n.plain.text
           : n.is(Kind::integer) && !n.plain.free ? std::to_string(n.plain.integer)
                                                  : "?";
    if (out.size() > kMaxItems) throw AtenUnknown{"a text without end"};
  }
  return text(std::move(out));
}

std::optional<ScriptValue> of_truth(const std::string& op, const Values& v) {
  if (op == "__not__" && v.size() == 1) {
    if (!v[0].is(Kind::boolean)) throw AtenUnknown{"not of what is no truth value"};
    return flag(v[0].plain.integer == 0);
  }
  if (v.size() != 2 || !v[0].is(Kind::boolean) || !v[1].is(Kind::boolean)) return std::nullopt;
  const bool p = v[0].plain.integer != 0, q = v[1].plain.integer != 0;
  if (op == "__and__") return flag(p && q);
  if (op == "__or__") return flag(p || q);
  if (op == "__xor__") return flag(p != q);
  return std::nullopt;
}

// How many numbers a range of Python has, and its i-th.
std::optional<ScriptValue> of_range(const std::string& op, const Values& v) {
  if (v.size() != 3 || !std::ranges::all_of(v, [](const ScriptValue& n) {
        return n.is(Kind::integer) && !n.plain.free;
      }))
    return std::nullopt;
  const std::int64_t a = v[0].plain.integer, b = v[1].plain.integer, c = v[2].plain.integer;
  if (op == "__derive_index") return integer(checked_add(b, checked_mul(a, c)));
  if (op != "__range_length" || c == 0) return std::nullopt;
  const std::int64_t way = c > 0 ? checked_add(b, checked_mul(a, -1))
                                 : checked_add(a, checked_mul(b, -1)),
                     by = c > 0 ? c : negated(c);
  return integer(way <= 0 ? 0 : (way - 1) / by + 1);
}

}  // namespace

ScriptValue plain(AtenValue v) { return {.plain = std::move(v)}; }
ScriptValue integer(std::int64_t v) { return plain(AtenValue::of_integer(v)); }
ScriptValue number(double v) { return plain({.kind = Kind::number, .number = v}); }
ScriptValue flag(bool v) { return plain(AtenValue::of_flag(v)); }
ScriptValue text(std::string v) { return plain({.kind = Kind::text, .text = std::move(v)}); }

const ScriptItems& ScriptValue::items() const {
  static const ScriptItems kNone;
  return list == nullptr ? kNone : list->items;
}

namespace {

// `item` comes to stand in `list`.
void nest(ScriptList& list, const ScriptValue& item) {
  constexpr int kMaxDepth = 64;
  if (item.list == nullptr) return;
  if (list.nested) throw AtenUnknown{"a list that is put into one that stands in another"};
  if (item.list->depth >= kMaxDepth) throw AtenUnknown{"lists nested deeper than 64"};
  item.list->nested = true;
  list.depth = std::max(list.depth, item.list->depth + 1);
}

}  // namespace

ScriptValue list_of(ScriptItems items) {
  MemoryBudget::charge(sizeof(ScriptList) + items.size() * sizeof(ScriptValue));
  ScriptValue v = plain({.kind = Kind::list});
  v.list = std::make_shared<ScriptList>();
  for (const ScriptValue& i : items) nest(*v.list, i);
  v.list->items = std::move(items);
  return v;
}

ScriptValue copied(const ScriptValue& list) {
  ScriptValue v = list_of(list.items());
  v.keyed = list.keyed;
  return v;
}

void insert_into(const ScriptValue& list, std::size_t at, ScriptValue item) {
  if (item.list == list.list) throw AtenUnknown{"a list that is put into itself"};
  MemoryBudget::charge(sizeof(ScriptValue));
  nest(*list.list, item);
  ScriptItems& items = list.list->items;
  items.insert(items.begin() + static_cast<std::ptrdiff_t>(at), std::move(item));
  if (items.size() > kMaxItems) throw AtenUnknown{"a list without end"};
}

namespace {

AtenValue as_aten(const ScriptValue& v, std::size_t& left, ScriptWork& work) {
  work.take();
  if (left-- == 0) throw AtenUnknown{"lists without end as an argument"};
  if (v.object != nullptr || v.is_function) throw AtenUnknown{"a module as an argument"};
  if (v.keyed) throw AtenUnknown{"a dictionary as an argument"};
  AtenValue out = v.plain;
  for (const ScriptValue& i : v.items()) out.items.push_back(as_aten(i, left, work));
  return out;
}

}  // namespace

AtenValue as_aten(const ScriptValue& v, ScriptWork& work) {
  std::size_t left = kMaxParts;
  return as_aten(v, left, work);
}

std::int64_t negated(std::int64_t a) {
  std::int64_t out = 0;
  if (__builtin_sub_overflow(std::int64_t{0}, a, &out)) throw bad_input("-({}) does not fit", a);
  return out;
}

std::optional<std::size_t> place_in(const ScriptValue& list, const ScriptValue& key,
                                    ScriptWork& work) {
  if (list.keyed) {
    for (std::size_t i = 0; i + 1 < list.items().size(); i += 2)
      if (equal_kinds(list.items()[i], key) && same(list.items()[i], key, work)) return i + 1;
    return std::nullopt;
  }
  const auto n = static_cast<std::int64_t>(list.items().size());
  if (!key.is(Kind::integer) || key.plain.free) throw AtenUnknown{"an index that is no number"};
  const std::int64_t at = key.plain.integer < 0 ? key.plain.integer + n : key.plain.integer;
  if (at < 0 || at >= n) return std::nullopt;
  return static_cast<std::size_t>(at);
}

ScriptValue converted(const GraphBuilder& b, std::string_view to, const ScriptValue& given) {
  ScriptValue v = given;
  if (v.is(Kind::tensor)) {
    const auto known = element(b, v.plain.tensor);
    if (!known) return given;
    v = *known;
  }
  if (v.plain.free) return v;  // a size that was counted in a tensor
  if (!is_number(v) && !v.is(Kind::boolean))
    throw AtenUnknown{std::string(to) + " of what is no number"};
  const double n = v.is(Kind::boolean) ? static_cast<double>(v.plain.integer) : number_of(v);
  if (to == "bool") return flag(v.is(Kind::number) ? n != 0 : v.plain.integer != 0);
  if (to == "float") return number(n);
  if (!v.is(Kind::number)) return integer(v.plain.integer);
  if (!(std::abs(n) < 9e15)) throw AtenUnknown{"an integer of a number that none holds"};
  return integer(static_cast<std::int64_t>(n));  // cut toward zero
}

std::optional<ScriptValue> known_call(const GraphBuilder& b, const std::string& op, const Values& v,
                                      ScriptWork& work) {
  const auto count = v.size();
  constexpr std::string_view kCounts[] = {"add",          "sub",       "rsub", "mul",
                                          "floor_divide", "remainder", "div",  "neg"};
  if (std::ranges::any_of(v, [](const ScriptValue& i) { return i.is(Kind::integer); }) ||
      std::ranges::find(kCounts, op) != std::end(kCounts)) {
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
    if (tensors && all) return known_call(b, op, numbers, work);
  }
  if (op == "__is__" && count == 2) return flag(v[0].is_none() && v[1].is_none());
  if (op == "__isnot__" && count == 2) return flag(!(v[0].is_none() && v[1].is_none()));
  if (op == "warn" || op == "device") return ScriptValue{};
  if (op == "format") return formatted(v);
  // What an inference has: no gradients, no conversions behind the code's back.
  for (const char* never : {"is_grad_enabled", "is_autocast_enabled", "is_autocast_cpu_enabled"})
    if (op == never) return flag(false);
  if (auto known = of_single_floats(b, op, v)) return known;
  if (op == "dict" && (count == 0 || v[0].is(Kind::list))) return dictionary(v);
  if (count == 0) return std::nullopt;
  if (op == "_unwrap_optional" && count == 1) return v[0];
  if (v[0].is(Kind::tensor))
    if (auto known = of_tensor(b, op, v)) return known;
  if (op == "len" && count == 1 && v[0].is(Kind::text))
    return integer(static_cast<std::int64_t>(v[0].plain.text.size()));
  if (v[0].is(Kind::list))
    if (auto known = of_list(op, v, work)) return known;
  if (auto known = of_zeros(op, v)) return known;
  if (std::ranges::any_of(
          v, [](const ScriptValue& i) { return i.is(Kind::tensor) || i.object != nullptr; }))
    return std::nullopt;
  if (auto known = of_truth(op, v)) return known;
  if (auto known = of_range(op, v)) return known;
  if (v[0].is(Kind::integer) || v[0].is(Kind::number)) {
    if (op == "to" || op == "type_as") return retyped(v);
    if (count == 1)
      if (auto known = of_one_number(op, v[0])) return known;
    // div(a, b, rounding_mode), add(a, b, alpha)
    if (count == 3 && v[2].is(Kind::text) && (op == "div" || op == "divide"))
      if (v[2].plain.text == "floor" ||
          (is_number(v[0]) && is_number(v[1]) && number_of(v[0]) >= 0 && number_of(v[1]) > 0))
        return of_numbers("floordiv", v[0], v[1]);
    if (count == 3 && v[2].is(Kind::integer) && !v[2].plain.free && v[2].plain.integer == 1 &&
        (op == "add" || op == "sub"))
      return of_numbers(op, v[0], v[1]);
  }
  if (count != 2) return std::nullopt;
  if (op == "eq") return flag(same(v[0], v[1], work));
  if (op == "ne") return flag(!same(v[0], v[1], work));
  if (op == "add" && v[0].is(Kind::text) && v[1].is(Kind::text)) {
    if (v[0].plain.text.size() + v[1].plain.text.size() > kMaxItems)
      throw AtenUnknown{"a text without end"};
    return text(v[0].plain.text + v[1].plain.text);
  }
  return of_numbers(op, v[0], v[1]);
}

}  // namespace etalon::pytorch_format
