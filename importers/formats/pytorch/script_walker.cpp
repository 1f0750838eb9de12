#include "importers/formats/pytorch/script_walker.h"

#include <algorithm>
#include <charconv>
#include <limits>

#include "engine/core/error.h"
#include "engine/core/memory_budget.h"
#include "importers/formats/pytorch/aliases.h"

namespace etalon::pytorch_format {
namespace {

using Kind = AtenValue::Kind;

constexpr int kMaxCalls = 64;
constexpr std::size_t kMaxStatements = 200'000, kMaxValues = 1'000'000;
constexpr std::size_t kExpansion = 16;  // bytes of weights that calls may copy, by the file's

std::string dotted_name(const Expr& e) {
  if (e.kind == Expr::Kind::name) return e.text;
  if (e.kind != Expr::Kind::attribute) return "";
  const std::string base = dotted_name(e.items[0]);
  return base.empty() ? "" : base + "." + e.text;
}

class Walker {
 public:
  Walker(ScriptArchive& archive, GraphBuilder& graph, std::size_t file_bytes)
      : a_(archive), b_(graph), copies_(file_bytes * kExpansion) {}

  std::vector<ValueId> forward(const PickleValue& root, ValueId input) {
    const ScriptFunction* f = a_.method(root.text, "forward");
    if (f == nullptr) throw AtenUnknown{"a module without forward"};
    const ScriptValue module{.object = &root};
    std::vector<ValueId> out;
    tensors_of(call(*f, {module, plain(AtenValue::of(input))}, {"", ""}), out);
    if (out.empty()) throw AtenUnknown{"a forward that gives no tensor"};
    return out;
  }

 private:
  using Scope = std::map<std::string, ScriptValue, std::less<>>;

  void tensors_of(const ScriptValue& v, std::vector<ValueId>& out) const {
    if (v.plain.kind == Kind::tensor)
      out.push_back(aliases_.now(v.plain.tensor));
    else if (v.plain.kind == Kind::list)
      for (const ScriptValue& i : v.items) tensors_of(i, out);
    else
      throw AtenUnknown{"an output that is no tensor"};
  }

  ScriptValue call(const ScriptFunction& f, std::vector<ScriptValue> arguments,
                   const std::vector<std::string>& keywords) {
    if (++calls_ > kMaxCalls) throw AtenUnknown{"calls nested deeper than 64"};
    Scope scope;
    std::size_t place = 0;
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      if (keywords[i].empty() && place >= f.parameters.size())
        throw bad_input("a call with {} arguments of a function of {}", arguments.size(),
                        f.parameters.size());
      arguments[i].shared = true;  // with the caller, which would see an append
      scope.insert_or_assign(keywords[i].empty() ? f.parameters[place++] : keywords[i],
                             std::move(arguments[i]));
    }
    for (std::size_t i = 0; i < f.parameters.size(); ++i) {
      if (scope.contains(f.parameters[i])) continue;
      if (!f.has_default[i])
        throw AtenUnknown{"a function of several inputs (" + f.parameters[i] + ")"};
      Scope empty;
      scope.emplace(f.parameters[i], eval(f.defaults[i], empty));
    }
    ScriptValue result;
    block(f.body, scope, result);
    --calls_;
    return result;
  }

  // True once a return was reached.
  bool block(const std::vector<Statement>& body, Scope& scope, ScriptValue& result) {
    for (const Statement& s : body) {
      if (++statements_ > kMaxStatements) throw AtenUnknown{"code of more than 200000 steps"};
      switch (s.kind) {
        case Statement::Kind::pass:
          break;
        case Statement::Kind::other:
          throw AtenUnknown{fmt::format("'{}' in line {}", s.targets.at(0), s.line)};
        case Statement::Kind::expression:
          eval(s.value, scope);
          break;
        case Statement::Kind::give_back:
          result = eval(s.value, scope);
          return true;
        case Statement::Kind::branch: {
          const ScriptValue condition = eval(s.value, scope);
          if (condition.plain.kind != Kind::boolean)
            throw AtenUnknown{fmt::format("a branch on data in line {}", s.line)};
          if (block(condition.plain.integer != 0 ? s.body : s.otherwise, scope, result))
            return true;
          break;
        }
        case Statement::Kind::assign: {
          ScriptValue v = eval(s.value, scope);
          if (s.value.kind == Expr::Kind::name)
            if (const auto other = scope.find(s.value.text); other != scope.end())
              v.shared = other->second.shared = true;
          if (s.targets.size() == 1) {
            scope.insert_or_assign(s.targets[0], std::move(v));
            break;
          }
          // The last target is empty: a tuple is unpacked.
          if (v.items.size() + 1 != s.targets.size())
            throw AtenUnknown{fmt::format("an assignment of {} values to {} names in line {}",
                                          v.items.size(), s.targets.size() - 1, s.line)};
          for (std::size_t i = 0; i + 1 < s.targets.size(); ++i)
            scope.insert_or_assign(s.targets[i], v.items[i]);
          break;
        }
      }
    }
    return false;
  }

  ScriptValue eval(const Expr& e, Scope& scope) {
    switch (e.kind) {
      case Expr::Kind::name:
        return named(e.text, scope);
      case Expr::Kind::integer:
        return integer(whole(e.text));
      case Expr::Kind::number:
        return plain({.kind = Kind::number, .number = real(e.text)});
      case Expr::Kind::text:
        return plain({.kind = Kind::text, .text = e.text});
      case Expr::Kind::negative: {
        ScriptValue v = eval(e.items[0], scope);
        if ((!v.is(Kind::integer) && !v.is(Kind::number)) || v.plain.free)
          throw AtenUnknown{"a sign before what is no known number"};
        v.plain.integer = negated(v.plain.integer);
        v.plain.number = -v.plain.number;
        return v;
      }
      case Expr::Kind::list:
      case Expr::Kind::tuple: {
        ScriptValue v = plain({.kind = Kind::list});
        for (const Expr& i : e.items) {
          v.items.push_back(eval(i, scope));
          v.items.back().shared = true;
        }
        return v;
      }
      case Expr::Kind::subscript: {
        if (e.items.size() != 2) throw AtenUnknown{"a slice of a list"};
        const ScriptValue v = eval(e.items[0], scope), i = eval(e.items[1], scope);
        const std::int64_t n = static_cast<std::int64_t>(v.items.size());
        const std::int64_t at = i.plain.integer < 0 ? i.plain.integer + n : i.plain.integer;
        if (v.plain.kind != Kind::list || i.plain.kind != Kind::integer || at < 0 || at >= n)
          throw AtenUnknown{"an index into what is no list"};
        return v.items[static_cast<std::size_t>(at)];
      }
      case Expr::Kind::attribute: {
        const std::string name = dotted_name(e);
        if (name.starts_with("CONSTANTS.c")) return constant(name.substr(11));
        if (is_global(name, scope)) return {.name = name, .is_function = true};
        return attribute(eval(e.items[0], scope), e.text);
      }
      case Expr::Kind::call:
        return called(e, scope);
    }
    return {};
  }

  static bool is_global(std::string_view name, const Scope& scope) {
    const std::string_view first = name.substr(0, name.find('.'));
    return !scope.contains(first) && (first == "torch" || first == "ops" || first == "__torch__");
  }

  static std::int64_t whole(std::string_view text) {
    std::int64_t v = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), v);
    if (error != std::errc() || end != text.data() + text.size())
      throw bad_input("'{}' is no integer", printable(text));
    return v;
  }
  static double real(std::string_view text) {
    double v = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), v);
    if (error != std::errc() || (end != text.data() + text.size() && *end != '.'))
      throw bad_input("'{}' is no number", printable(text));
    return v;
  }

  ScriptValue named(const std::string& name, const Scope& scope) const {
    if (const auto at = scope.find(name); at != scope.end()) {
      // A line may name a list twice, and the next that one: x = [x, x].
      if (!at->second.items.empty() || !at->second.plain.text.empty())
        MemoryBudget::charge(weight(at->second, 0));
      return at->second;
    }
    if (name == "None") return {};
    if (name == "True" || name == "False") return flag(name == "True");
    if (name == "inf")
      return plain({.kind = Kind::number, .number = std::numeric_limits<double>::infinity()});
    return {.name = name, .is_function = true};
  }

  ScriptValue constant(std::string_view index) {
    if (!a_.constants) throw bad_input("code reads CONSTANTS, and there is no constants.pkl");
    const PickleValue& root = a_.constants->root();
    const std::int64_t i = whole(index);
    if (i < 0 || i >= static_cast<std::int64_t>(root.items.size()))
      throw bad_input("no constant c{}", i);
    return held(*root.items[static_cast<std::size_t>(i)], fmt::format("constant{}", i), true);
  }

  static std::size_t weight(const ScriptValue& v, int depth) {
    if (depth > kMaxCalls) throw AtenUnknown{"lists nested deeper than 64"};
    std::size_t bytes = sizeof(ScriptValue) + v.plain.text.size() + v.name.size();
    for (const ScriptValue& i : v.items) bytes += weight(i, depth + 1);
    return bytes;
  }

  static const PickleValue* state_of(const PickleValue& object) {
    return object.state != nullptr && object.state->is(PickleKind::dict) ? object.state : nullptr;
  }

  ScriptValue attribute(const ScriptValue& of, const std::string& name) {
    const PickleValue* state = of.object == nullptr ? nullptr : state_of(*of.object);
    const PickleValue* found = state == nullptr ? nullptr : state->find(name);
    if (found == nullptr) throw AtenUnknown{"an attribute ." + name + " that is not in the pickle"};
    return held(*found, of.name.empty() ? name : of.name + "." + name, false);
  }

  // Where values are shared, so may their parts be: visits are counted.
  ScriptValue held(const PickleValue& v, const std::string& name, bool constant) {
    if (++values_ > kMaxValues) throw AtenUnknown{"more than 1000000 values"};
    MemoryBudget::charge(sizeof(ScriptValue) + v.text.size());
    switch (v.kind) {
      case PickleKind::none:
        return {};
      case PickleKind::boolean:
        return flag(v.integer != 0);
      case PickleKind::integer:
        return integer(v.integer);
      case PickleKind::real:
        return plain({.kind = Kind::number, .number = v.real});
      case PickleKind::text:
      case PickleKind::bytes:
        return plain({.kind = Kind::text, .text = std::string(v.text)});
      case PickleKind::tuple:
      case PickleKind::list: {
        if (++depth_ > kMaxCalls) throw AtenUnknown{"lists nested deeper than 64"};
        ScriptValue list = plain({.kind = Kind::list});
        for (std::size_t i = 0; i < v.items.size(); ++i)
          list.items.push_back(held(*v.items[i], fmt::format("{}.{}", name, i), constant));
        --depth_;
        return list;
      }
      case PickleKind::object:
        break;
      default:
        throw AtenUnknown{"an attribute " + name + " of a kind that is not known"};
    }
    if (const auto at = tensors_.find(&v); at != tensors_.end())
      return plain(AtenValue::of(at->second));
    auto kept = a_.tensors.find(&v);
    if (kept == a_.tensors.end()) {
      Storages& storages = constant ? *a_.constant_storages : a_.storages;
      if (auto t = storages.tensor(v)) kept = a_.tensors.emplace(&v, std::move(*t)).first;
    }
    if (kept != a_.tensors.end()) {
      const ValueId id = b_.constant(name, kept->second.share());
      tensors_.emplace(&v, id);
      return plain(AtenValue::of(id));
    }
    // torch.jit._pickle.build_tensorlist and kin hold one list.
    if (v.text.starts_with("torch.jit._pickle.") && v.args != nullptr && v.args->items.size() == 1)
      return held(*v.args->items[0], name, constant);
    return {.object = &v, .name = name};
  }

  ScriptValue called(const Expr& e, Scope& scope) {
    const Expr& callee = e.items[0];
    const std::string dotted = dotted_name(callee);
    if (dotted == "uninitialized") return {};
    const auto needs = [&](std::size_t count) {
      if (e.items.size() != count + 1)
        throw bad_input("{} takes {} arguments, got {}", dotted, count, e.items.size() - 1);
    };
    if (dotted == "annotate" || dotted == "unchecked_cast") {
      needs(2);
      return eval(e.items[2], scope);
    }
    std::vector<ScriptValue> args;
    for (std::size_t i = 1; i < e.items.size(); ++i) args.push_back(eval(e.items[i], scope));
    if (dotted == "torch.append" && args.size() == 2 && e.items[1].kind == Expr::Kind::name) {
      const auto list = scope.find(e.items[1].text);
      if (list == scope.end() || list->second.plain.kind != Kind::list)
        throw AtenUnknown{"an append to what is no list"};
      if (list->second.shared) throw AtenUnknown{"an append to a list that has another name, too"};
      if (list->second.items.size() >= kMaxValues / 16) throw AtenUnknown{"a list without end"};
      list->second.items.push_back(args[1]);
      return list->second;
    }
    if (dotted == "getattr") {
      needs(2);
      return attribute(args[0], args[1].plain.text);
    }
    if (dotted == "int" || dotted == "float" || dotted == "bool") {
      needs(1);
      if (dotted == "int" && args[0].is(Kind::tensor) &&
          is_floating(b_.dtype(args[0].plain.tensor)))
        throw AtenUnknown{"int of a tensor that is no whole number"};
      return converted(dotted, args[0]);
    }
    if (callee.kind == Expr::Kind::attribute && !is_global(dotted, scope)) {
      const ScriptValue object = eval(callee.items[0], scope);
      if (object.object == nullptr) throw AtenUnknown{"a method ." + callee.text};
      const ScriptFunction* f = a_.method(object.object->text, callee.text);
      if (f == nullptr)
        throw AtenUnknown{
            fmt::format("the method {} of {}", callee.text, printable(object.object->text))};
      std::vector<std::string> keywords = e.keywords;
      keywords.insert(keywords.begin(), "");
      args.insert(args.begin(), object);
      return call(*f, std::move(args), keywords);
    }
    const ScriptValue function = eval(callee, scope);
    if (!function.is_function) throw AtenUnknown{"a call of what is no function"};
    const std::string& name = function.name;
    if (name.starts_with("__torch__.")) {
      const std::size_t dot = name.rfind('.');
      const ScriptFunction* f = a_.function(name.substr(0, dot), name.substr(dot + 1));
      if (f == nullptr) throw AtenUnknown{"a call of " + name};
      return call(*f, std::move(args), e.keywords);
    }
    if (name.starts_with("ops.prim.")) return primitive(name.substr(9), args);
    if (!name.starts_with("torch.")) throw AtenUnknown{"a call of " + name};
    return torch(name.substr(6), args, e.keywords);
  }

  ScriptValue primitive(const std::string& name, const std::vector<ScriptValue>& args) const {
    if ((name == "NumToTensor" || name == "data") && args.size() == 1) return args[0];
    if (name == "dtype" && args.size() == 1 && args[0].is(Kind::tensor))
      if (auto known = known_call(b_, name, args)) return *std::move(known);
    if (name == "device" || name == "layout") return {};
    if (name == "unchecked_cast" && !args.empty()) return args.back();
    if (name == "RaiseException") throw AtenUnknown{"code that raises an error for this input"};
    throw AtenUnknown{"a call of ops.prim." + name};
  }

  ScriptValue torch(const std::string& op, const std::vector<ScriptValue>& args,
                    const std::vector<std::string>& keywords) {
    if (auto v = known_call(b_, op, args)) return *v;
    const auto places = static_cast<std::size_t>(
        std::ranges::count_if(keywords, [](const std::string& k) { return k.empty(); }));
    const auto order = aten_arguments(op, places);
    if (order.empty()) throw AtenUnknown{"a call of torch." + op};
    const bool state = op == "lstm" || op == "gru" || op.starts_with("rnn_");
    AtenCall c;
    for (std::size_t i = 0; i < args.size(); ++i) {
      if (keywords[i].empty() && i >= order.size() && args[i].is_none()) continue;
      if (keywords[i].empty() && i >= order.size())
        throw AtenUnknown{fmt::format("torch.{} with {} arguments", op, args.size())};
      AtenValue v = as_aten(args[i]);
      if (v.kind == Kind::zeros && !state) v = zeros(v);
      c.args.emplace(keywords[i].empty() ? std::string(order[i]) : keywords[i], std::move(v));
    }
    const ErrorScope scope("torch." + op);
    aliases_.resolve(c);
    count_copies(c);
    std::string name = op.starts_with("_") ? op.substr(1) : op;
    while (name.ends_with("_")) name.pop_back();
    const auto values = translate_aten(b_, op, name, c);
    aliases_.called(op, c, values);
    if (op == "arange" || op == "full" || op == "ones" || op.starts_with("new_"))
      for (const ValueId v : values) count_bytes(v);
    if (values.size() == 1) return plain(AtenValue::of(values[0]));
    ScriptValue list = plain({.kind = Kind::list});
    for (const ValueId v : values) list.items.push_back(plain(AtenValue::of(v)));
    return list;
  }

  // Zeros that are no state, as a tensor.
  AtenValue zeros(const AtenValue& v) {
    AtenCall c;
    c.args.emplace("size", v);
    c.args["size"].kind = Kind::list;
    return AtenValue::of(translate_aten(b_, "zeros", "zeros", c).at(0));
  }

  // Calls may lay weights out anew (transposed, joined): no more of that than the file justifies.
  void count_copies(const AtenCall& c) {
    for (const auto& [name, v] : c.args) {
      count_bytes(v.tensor);
      for (const AtenValue& i : v.items) count_bytes(i.tensor);
    }
  }
  void count_bytes(ValueId v) {
    const Tensor* t = v == kAbsent ? nullptr : b_.constant_of(v);
    if (t == nullptr) return;
    if (t->size_bytes() > copies_) throw AtenUnknown{"calls that copy weights time and again"};
    copies_ -= t->size_bytes();
  }

  ScriptArchive& a_;
  GraphBuilder& b_;
  Aliases aliases_;
  std::map<const PickleValue*, ValueId> tensors_;
  int calls_ = 0, depth_ = 0;
  std::size_t statements_ = 0, values_ = 0, copies_;
};

}  // namespace

const ScriptFunction* ScriptArchive::function(std::string_view module, std::string_view name) {
  auto at = files.find(module);
  if (at == files.end()) {
    std::string path = folder + "code/" + std::string(module);
    std::replace(path.begin() + static_cast<std::ptrdiff_t>(folder.size()), path.end(), '.', '/');
    const ZipMember* member = zip.find(path + ".py");
    ScriptFile file;
    if (member != nullptr) {
      const ErrorScope scope("member " + printable(member->name));
      file = parse_script(zip.read(*member).text());
    }
    at = files.emplace(module, std::move(file)).first;
  }
  const auto found = at->second.functions.find(name);
  return found == at->second.functions.end() ? nullptr : &found->second;
}

const ScriptFunction* ScriptArchive::method(std::string_view type, std::string_view name) {
  const std::size_t dot = type.rfind('.');
  if (dot == std::string_view::npos) return nullptr;
  return function(type.substr(0, dot), std::string(type.substr(dot + 1)) + "." + std::string(name));
}

std::vector<ValueId> walk_script(ScriptArchive& archive, GraphBuilder& graph,
                                 std::size_t file_bytes, const PickleValue& root, ValueId input) {
  return Walker(archive, graph, file_bytes).forward(root, input);
}

}  // namespace etalon::pytorch_format
