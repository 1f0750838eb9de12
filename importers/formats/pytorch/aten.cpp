#include "importers/formats/pytorch/aten.h"

#include <algorithm>

#include "engine/core/error.h"
#include "importers/formats/pytorch/aten_parts.h"

namespace etalon::pytorch_format {
namespace {

using Kind = AtenValue::Kind;

std::span<const AtenFamily> families() {
  static const AtenFamily kFamilies[] = {view_family(),   index_family(),      creation_family(),
                                         math_family(),   activation_family(), reduction_family(),
                                         window_family(), layer_family(),      recurrent_family(),
                                         place_family(),  order_family(),      function_family(),
                                         vector_family(), attention_family()};
  return kFamilies;
}

// An op that changes its operand in place (relu_) has the same name without the line.
std::string_view plain_op(std::string_view op) {
  return op.size() > 1 && op.ends_with('_') && !op.ends_with("__") ? op.substr(0, op.size() - 1)
                                                                   : op;
}

struct Found {
  const AtenFamily* family = nullptr;
  const AtenSignature* signature = nullptr;
};

Found found(std::string_view op) {
  for (const std::string_view name : {op, plain_op(op)})
    for (const AtenFamily& f : families())
      for (const AtenSignature& s : f.signatures)
        if (s.op == name) return {&f, &s};
  return {};
}

// Arguments that choose a device, a memory layout, an algorithm, or what only training does.
bool changes_nothing(std::string_view argument) {
  constexpr std::string_view kNames[] = {"momentum",
                                         "cudnn_enabled",
                                         "cudnn_enable",
                                         "benchmark",
                                         "deterministic",
                                         "allow_tf32",
                                         "memory_format",
                                         "device",
                                         "layout",
                                         "pin_memory",
                                         "non_blocking",
                                         "copy",
                                         "padding_idx",
                                         "scale_grad_by_freq",
                                         "sparse",
                                         "implicit",
                                         "generator",
                                         "sorted",
                                         "requires_grad",
                                         "path",
                                         "p",
                                         "N",
                                         "C",
                                         "HxW",
                                         "validate_indices"};
  return std::ranges::find(kNames, argument) != std::end(kNames);
}

// Nothing, false, zeros: what an argument that was not looked at has where it is not used.
bool is_nothing(const AtenValue& v) {
  switch (v.kind) {
    case Kind::none:
      return true;
    case Kind::boolean:
      return v.integer == 0;
    case Kind::integer:
      return v.integer == 0 && !v.free;
    case Kind::list:
      return std::ranges::all_of(v.items, is_nothing);
    default:
      return false;
  }
}

}  // namespace

AtenValue AtenValue::extent(const GraphBuilder& b, ValueId x, std::int64_t axis) {
  const auto rank = static_cast<std::int64_t>(b.rank(x));
  if (axis < -rank || axis >= rank) throw bad_input("axis {} of a tensor of rank {}", axis, rank);
  const std::int64_t a = axis < 0 ? axis + rank : axis;
  const std::int64_t n = b.dims(x)[static_cast<std::size_t>(a)];
  if (n >= 0) return of_integer(n);
  const auto [one, two] = b.extents(x, static_cast<int>(a));
  return {.kind = Kind::integer,
          .integer = -1,
          .free = true,
          .sizes = {one, two},
          .number = static_cast<double>(a)};
}

AtenValue AtenValue::computed(std::string_view arithmetic, const AtenValue& p, const AtenValue& q) {
  if (p.kind != Kind::integer || q.kind != Kind::integer)
    throw AtenUnknown{std::string(arithmetic) + " of what are no integers"};
  const auto of = [&](std::int64_t a, std::int64_t b) {
    if (arithmetic == "add") return checked_add(a, b);
    if (arithmetic == "sub") return checked_add(a, checked_mul(b, -1));
    if (arithmetic == "mul") return checked_mul(a, b);
    if ((arithmetic == "floordiv" || arithmetic == "floor_divide") && b > 0 && a >= 0) return a / b;
    if (arithmetic == "remainder" && b > 0 && a >= 0) return a % b;
    throw AtenUnknown{fmt::format("{} of {} and {}", arithmetic, a, b)};
  };
  if (!p.free && !q.free) return of_integer(of(p.integer, q.integer));
  const auto at = [](const AtenValue& v, int i) { return v.free ? v.sizes[i] : v.integer; };
  return {.kind = Kind::integer,
          .integer = -1,
          .free = true,
          .sizes = {of(at(p, 0), at(q, 0)), of(at(p, 1), at(q, 1))},
          .number = -1};
}

const AtenValue* AtenCall::find(std::string_view name) const {
  const auto at = args.find(name);
  if (at == args.end()) return nullptr;
  read_->emplace(name);
  return at->second.kind == Kind::none ? nullptr : &at->second;
}

std::string AtenCall::overlooked() const {
  for (const auto& [name, v] : args)
    if (!read_->contains(name) && !is_nothing(v) && !changes_nothing(name)) return name;
  return {};
}

ValueId AtenCall::tensor(std::string_view name) const {
  const AtenValue* v = find(name);
  return v == nullptr || v->kind != Kind::tensor ? kAbsent : v->tensor;
}

std::vector<ValueId> AtenCall::tensors(std::string_view name) const {
  const AtenValue* v = find(name);
  if (v == nullptr || v->kind != Kind::list)
    throw AtenUnknown{"an argument " + std::string(name) + " that is no list of tensors"};
  std::vector<ValueId> out;
  for (const AtenValue& i : v->items) {
    if (i.kind != Kind::tensor)
      throw AtenUnknown{"an argument " + std::string(name) + " that is no list of tensors"};
    out.push_back(i.tensor);
  }
  return out;
}

std::int64_t AtenCall::integer(std::string_view name, std::int64_t missing) const {
  const AtenValue* v = find(name);
  if (v == nullptr) return missing;
  if (v->kind != Kind::integer || v->free)
    throw AtenUnknown{"an argument " + std::string(name) + " that is no known integer"};
  return v->integer;
}

bool AtenCall::flag(std::string_view name, bool missing) const {
  const AtenValue* v = find(name);
  if (v == nullptr) return missing;
  if ((v->kind != Kind::boolean && v->kind != Kind::integer) || v->free)
    throw AtenUnknown{"an argument " + std::string(name) + " that is no bool"};
  return v->integer != 0;
}

float AtenCall::number(std::string_view name, float missing) const {
  const AtenValue* v = find(name);
  if (v == nullptr) return missing;
  if (v->kind == Kind::number) return static_cast<float>(v->number);
  if (v->kind != Kind::integer || v->free)
    throw AtenUnknown{"an argument " + std::string(name) + " that is no known number"};
  constexpr std::int64_t kExact = 1 << 24;
  if (v->integer < -kExact || v->integer > kExact)
    throw AtenUnknown{fmt::format("{} = {}, which f32 may not hold", name, v->integer)};
  return static_cast<float>(v->integer);
}

double AtenCall::real(std::string_view name, double missing) const {
  const AtenValue* v = find(name);
  if (v == nullptr) return missing;
  if (v->kind == Kind::number) return v->number;
  constexpr std::int64_t kExact = std::int64_t{1} << 53;
  if (v->kind == Kind::boolean || (v->kind == Kind::integer && !v->free && v->integer <= kExact &&
                                   (v->integer >= -kExact || v->integer == INT64_MIN)))
    return static_cast<double>(v->integer);
  throw AtenUnknown{"an argument " + std::string(name) + " that is no known number"};
}

Ints AtenCall::ints(std::string_view name, const Ints& missing) const {
  const AtenValue* v = find(name);
  if (v == nullptr) return missing;
  if (v->kind == Kind::integer && !v->free) return {v->integer};
  if (v->kind != Kind::list)
    throw AtenUnknown{"an argument " + std::string(name) + " that is no list of integers"};
  Ints out;
  for (const AtenValue& i : v->items) {
    if (i.kind != Kind::integer || i.free)
      throw AtenUnknown{"an argument " + std::string(name) + " that is no list of integers"};
    out.push_back(i.integer);
  }
  return out.empty() ? missing : out;
}

std::int64_t aten_axis(GraphBuilder& b, ValueId x, std::int64_t axis, int more) {
  const std::int64_t rank = b.rank(x) + more;
  if (axis < -rank || axis >= rank) throw bad_input("axis {} of a tensor of rank {}", axis, rank);
  return axis < 0 ? axis + rank : axis;
}

Ints aten_axes(GraphBuilder& b, ValueId x, const AtenCall& c) {
  Ints axes = c.ints("dim", {});
  for (std::int64_t& a : axes) a = aten_axis(b, x, a);
  if (axes.empty())
    for (int a = 0; a < b.rank(x); ++a) axes.push_back(a);
  return axes;
}

std::int64_t extent_of(GraphBuilder& b, ValueId x, std::int64_t axis) {
  if (axis < 0 || axis >= b.rank(x))
    throw bad_input("axis {} of a tensor of rank {}", axis, b.rank(x));
  const std::int64_t n = b.dims(x)[static_cast<std::size_t>(axis)];
  if (n < 0) throw AtenUnknown{"a cut of an axis whose extent is free"};
  return n;
}

Ints free_extents(const AtenCall& c, std::string_view name) {
  const AtenValue* v = c.find(name);
  if (v != nullptr && v->kind == Kind::zeros) throw AtenUnknown{"extents of another kind"};
  if (v == nullptr || (v->kind != Kind::list && v->kind != Kind::integer))
    throw AtenUnknown{"an argument " + std::string(name) + " that is no list of integers"};
  Ints out;
  const auto add = [&](const AtenValue& i) {
    if (i.kind != Kind::integer)
      throw AtenUnknown{"an argument " + std::string(name) + " that is no list of integers"};
    out.push_back(i.free ? -1 : i.integer);
  };
  if (v->kind == Kind::integer) add(*v);
  for (const AtenValue& i : v->items) add(i);
  return out;
}

ValueId first_tensor(const AtenCall& c, const std::string& op) {
  ValueId x = c.tensor("self");
  if (x == kAbsent) x = c.tensor("input");
  if (x == kAbsent) throw AtenUnknown{"a call of " + op + " without a tensor"};
  return x;
}

std::span<const std::string_view> aten_arguments(std::string_view op, std::size_t places) {
  static constexpr std::array<std::string_view, 3> kRange{"start", "end", "step"};
  if (op == "arange" && places > 1) return kRange;
  if (op == "_transformer_encoder_layer_fwd") return encoder_layer_arguments();
  const AtenSignature* s = found(op).signature;
  if (s == nullptr) return {};
  std::size_t n = 0;
  while (n < s->arguments.size() && !s->arguments[n].empty()) ++n;
  return std::span(s->arguments).first(n);
}

bool aten_gives_list(std::string_view op) {
  constexpr std::string_view kLists[] = {
      "chunk",        "unsafe_chunk",     "split",    "unsafe_split",     "unbind",
      "tensor_split", "split_with_sizes", "meshgrid", "broadcast_tensors"};
  return std::ranges::find(kLists, op) != std::end(kLists);
}

AtenOutputs translate_inner(GraphBuilder& b, const std::string& called, const std::string& name,
                            const AtenCall& c) {
  const Found f = found(called);
  if (f.family == nullptr) throw AtenUnknown{"torch.ops.aten." + called};
  return f.family->translate(b, std::string(f.signature->op), name, c);
}

AtenOutputs translate_aten(GraphBuilder& b, const std::string& called, const std::string& name,
                           const AtenCall& c) {
  AtenOutputs made = translate_inner(b, called, name, c);
  if (const std::string left = c.overlooked(); !left.empty())
    throw AtenUnknown{called + " with its argument " + left};
  return made;
}

}  // namespace etalon::pytorch_format
