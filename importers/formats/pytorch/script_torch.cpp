#include "importers/formats/pytorch/script_torch.h"

#include <algorithm>
#include <string_view>

#include "engine/core/error.h"
#include "importers/formats/scalar.h"

namespace etalon::pytorch_format {
namespace {

using Kind = AtenValue::Kind;

constexpr std::size_t kExpansion = 16;  // bytes of weights that calls may copy, by the file's

}  // namespace

TorchCalls::TorchCalls(GraphBuilder& graph, Aliases& aliases, QuantisedCalls& quantised,
                       ScriptWork& work, std::size_t file_bytes)
    : b_(graph),
      aliases_(aliases),
      quantised_(quantised),
      work_(work),
      copies_(file_bytes * kExpansion) {}

ScriptValue TorchCalls::now(ScriptValue v) const {
  if (v.is(Kind::tensor) && v.plain.tensor != kAbsent)
    v.plain.tensor = aliases_.now(v.plain.tensor);
  return v;
}

// A number where a call wants a tensor: traced code counts sizes in tensors of one number.
ValueId TorchCalls::tensor_of(const AtenValue& v) {
  if (v.free) throw AtenUnknown{"an extent that is free, as a tensor"};
  const bool real = v.kind == Kind::number;
  const DType type = real ? DType::f32 : v.kind == Kind::boolean ? DType::boolean : DType::i64;
  return b_.constant("number", scalar_of(type, real ? v.number : static_cast<double>(v.integer)));
}

void TorchCalls::make_tensors(const std::string& op, AtenCall& c) {
  const auto is_plain = [](const AtenValue& v) {
    return v.kind == Kind::integer || v.kind == Kind::number || v.kind == Kind::boolean;
  };
  for (const char* name : {"self", "input", "condition", "src"})
    if (const auto at = c.args.find(name); at != c.args.end() && is_plain(at->second))
      if ((std::string_view(name) != "self" || !c.args.contains("exponent")) &&
          (std::string_view(name) != "src" || !c.args.contains("dim")))
        at->second = AtenValue::of(tensor_of(at->second));
  if (!op.starts_with("select"))
    for (const char* name : {"index", "indices"})
      if (const auto at = c.args.find(name); at != c.args.end() && is_plain(at->second))
        at->second = AtenValue::of(tensor_of(at->second));
  if (const auto at = c.args.find("tensors"); at != c.args.end())
    for (AtenValue& v : at->second.items)
      if (is_plain(v)) v = AtenValue::of(tensor_of(v));
}

ScriptValue TorchCalls::call(const std::string& op, std::vector<ScriptValue> args,
                             const std::vector<std::string>& keywords) {
  for (ScriptValue& v : args) v = now(std::move(v));
  if (auto v = known_call(b_, op, args, work_)) return *v;
  const auto places = static_cast<std::size_t>(
      std::ranges::count_if(keywords, [](const std::string& k) { return k.empty(); }));
  const auto own = QuantisedCalls::arguments(op);
  const auto order = own.empty() ? aten_arguments(op, places) : own;
  if (order.empty()) throw AtenUnknown{"a call of torch." + op};
  const bool state = op == "lstm" || op == "gru" || op.starts_with("rnn_");
  AtenCall c;
  for (std::size_t i = 0; i < args.size(); ++i) {
    if (keywords[i].empty() && i >= order.size() && args[i].is_none()) continue;
    if (keywords[i].empty() && i >= order.size())
      throw AtenUnknown{fmt::format("torch.{} with {} arguments", op, args.size())};
    AtenValue v = as_aten(args[i], work_);
    if (v.kind == Kind::zeros && (!state || zeros_.contains(args[i].list))) v = zeros(args[i]);
    for (std::size_t k = 0; v.kind == Kind::list && k < v.items.size(); ++k)
      if (const ScriptValue& item = args[i].items()[k];
          item.is(Kind::zeros) && (!state || zeros_.contains(item.list)))
        v.items[k] = zeros(item);
    c.args.emplace(keywords[i].empty() ? std::string(order[i]) : keywords[i], std::move(v));
  }
  const ErrorScope scope("torch." + op);
  aliases_.resolve(c);
  make_tensors(op, c);
  count_copies(c);
  std::string name = op.starts_with("_") ? op.substr(1) : op;
  while (name.ends_with("_")) name.pop_back();
  const auto values = quantised_.aten(op, name, c);
  aliases_.called(op, c, values);
  if (op == "arange" || op == "full" || op == "ones" || op.starts_with("new_"))
    for (const ValueId v : values) count_bytes(v);
  if (values.size() == 1 && !aten_gives_list(op)) return plain(AtenValue::of(values[0]));
  ScriptItems items;
  for (const ValueId v : values) items.push_back(plain(AtenValue::of(v)));
  return list_of(std::move(items));
}

AtenValue TorchCalls::zeros(const ScriptValue& v) {
  if (const auto at = zeros_.find(v.list); at != zeros_.end())
    return AtenValue::of(aliases_.now(at->second));
  AtenCall c;
  c.args.emplace("size", as_aten(v, work_));
  c.args["size"].kind = Kind::list;
  const ValueId made = translate_aten(b_, "zeros", "zeros", c).at(0);
  zeros_.emplace(v.list, made);
  return AtenValue::of(made);
}

// Calls may lay weights out anew (transposed, joined): no more of that than the file justifies.
void TorchCalls::count_copies(const AtenCall& c) {
  for (const auto& [name, v] : c.args) {
    count_bytes(v.tensor);
    for (const AtenValue& i : v.items) count_bytes(i.tensor);
  }
}
void TorchCalls::count_bytes(ValueId v) {
  const Tensor* t = v == kAbsent ? nullptr : b_.constant_of(v);
  if (t == nullptr) return;
  if (t->size_bytes() > copies_) throw AtenUnknown{"calls that copy weights time and again"};
  copies_ -= t->size_bytes();
}

}  // namespace etalon::pytorch_format
