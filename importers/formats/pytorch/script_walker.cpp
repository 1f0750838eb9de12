#include "importers/formats/pytorch/script_walker.h"

#include <algorithm>
#include <charconv>
#include <limits>

#include "engine/core/error.h"
#include "engine/core/memory_budget.h"
#include "importers/formats/pytorch/aliases.h"
#include "importers/formats/pytorch/script_quantised.h"
#include "importers/formats/pytorch/script_torch.h"
#include "importers/formats/scalar.h"

namespace etalon::pytorch_format {
namespace {

using Kind = AtenValue::Kind;

constexpr int kMaxCalls = 64;
constexpr std::size_t kMaxStatements = 200'000, kMaxValues = 1'000'000;
constexpr std::size_t kTextOfOne = 256;  // bytes of a text that cost as much as one value
constexpr std::size_t kCall = 4;         // what a call costs, in values

std::string dotted_name(const Expr& e) {
  if (e.kind == Expr::Kind::name) return e.text;
  if (e.kind != Expr::Kind::attribute) return "";
  const std::string base = dotted_name(e.items[0]);
  return base.empty() ? "" : base + "." + e.text;
}

class Walker {
 public:
  Walker(ScriptArchive& archive, GraphBuilder& graph, std::size_t file_bytes)
      : a_(archive),
        b_(graph),
        aliases_(graph),
        quantised_(graph, archive.storages),
        torch_(graph, aliases_, quantised_, archive.work, file_bytes) {}

  std::vector<ScriptOutput> forward(const PickleValue& root, std::vector<ScriptValue> inputs) {
    const ScriptFunction* f = a_.method(root.text, "forward");
    if (f == nullptr) throw AtenUnknown{"a module without forward"};
    inputs.insert(inputs.begin(), {.object = &root});
    const std::vector<std::string> places(inputs.size());
    std::vector<ScriptOutput> out;
    tensors_of(call(*f, std::move(inputs), places), "", out);
    if (out.empty()) throw AtenUnknown{"a forward that gives no tensor"};
    return out;
  }

 private:
  using Scope = std::map<std::string, ScriptValue, std::less<>>;

  void tensors_of(const ScriptValue& v, const std::string& name, std::vector<ScriptOutput>& out) {
    count_step();
    if (v.is_none()) {
      b_.note("An output that is None is left out.");
    } else if (v.plain.kind == Kind::tensor) {
      if (v.plain.tensor == kAbsent) throw AtenUnknown{"an output that has no translation"};
      out.push_back({aliases_.now(v.plain.tensor), name});
    } else if (v.keyed) {
      for (std::size_t i = 0; i + 1 < v.items().size(); i += 2)
        tensors_of(v.items()[i + 1], v.items()[i].plain.text, out);
    } else if (v.plain.kind == Kind::list) {
      for (std::size_t i = 0; i < v.items().size(); ++i)
        tensors_of(v.items()[i], i < v.fields.size() ? v.fields[i] : "", out);
    } else if (v.plain.kind == Kind::zeros) {
      out.push_back({torch_.zeros(v).tensor, name});
    } else {
      throw AtenUnknown{"an output that is no tensor"};
    }
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
      count_step();
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
        case Statement::Kind::branch:
          if (block(holds(s, scope, "a branch") ? s.body : s.otherwise, scope, result)) return true;
          break;
        case Statement::Kind::counted:
          if (counted(s, scope, result)) return true;
          break;
        case Statement::Kind::repeated:
          while (holds(s, scope, "a loop")) {
            count_step();
            if (block(s.body, scope, result)) return true;
          }
          break;
        case Statement::Kind::assign:
          assign(s, scope);
          break;
      }
    }
    return false;
  }

  void count_step() {
    if (++statements_ > kMaxStatements) throw AtenUnknown{"code of more than 200000 steps"};
  }

  bool holds(const Statement& s, Scope& scope, const char* what) {
    const ScriptValue condition = converted(b_, "bool", torch_.now(eval(s.value, scope)));
    if (condition.plain.kind != Kind::boolean)
      throw AtenUnknown{fmt::format("{} on data in line {}", what, s.line)};
    return condition.plain.integer != 0;
  }

  bool counted(const Statement& s, Scope& scope, ScriptValue& result) {
    const Expr& range = s.value;
    if (range.kind != Expr::Kind::call || range.items.size() != 2 ||
        dotted_name(range.items[0]) != "range")
      throw AtenUnknown{fmt::format("a loop over what is no range in line {}", s.line)};
    const ScriptValue count = converted(b_, "int", torch_.now(eval(range.items[1], scope)));
    if (!count.is(Kind::integer) || count.plain.free)
      throw AtenUnknown{fmt::format("a loop whose count hangs on data in line {}", s.line)};
    for (std::int64_t i = 0; i < count.plain.integer; ++i) {
      count_step();
      scope.insert_or_assign(s.targets[0], integer(i));
      if (block(s.body, scope, result)) return true;
    }
    return false;
  }

  void assign(const Statement& s, Scope& scope) {
    ScriptValue v = eval(s.value, scope);
    if (s.targets.size() == 1) {
      scope.insert_or_assign(s.targets[0], std::move(v));
      return;
    }
    // The last target is empty: a tuple is unpacked.
    if (v.items().size() + 1 != s.targets.size())
      throw AtenUnknown{fmt::format("an assignment of {} values to {} names in line {}",
                                    v.items().size(), s.targets.size() - 1, s.line)};
    for (std::size_t i = 0; i + 1 < s.targets.size(); ++i)
      scope.insert_or_assign(s.targets[i], v.items()[i]);
  }

  ScriptValue eval(const Expr& e, Scope& scope) {
    a_.work.take((e.kind == Expr::Kind::call ? kCall : 1) + e.text.size() / kTextOfOne);
    switch (e.kind) {
      case Expr::Kind::name:
        return named(e.text, scope);
      case Expr::Kind::integer:
        return integer(whole(e.text));
      case Expr::Kind::number:
        return number(real(e.text));
      case Expr::Kind::text:
        return text(e.text);
      case Expr::Kind::negative: {
        ScriptValue v = eval(e.items[0], scope);
        if ((!v.is(Kind::integer) && !v.is(Kind::number)) || v.plain.free)
          throw AtenUnknown{"a sign before what is no known number"};
        v.plain.integer = negated(v.plain.integer);
        v.plain.number = -v.plain.number;
        return v;
      }
      case Expr::Kind::list:
      case Expr::Kind::tuple:
      case Expr::Kind::dict: {
        ScriptItems items;
        for (const Expr& i : e.items) items.push_back(eval(i, scope));
        ScriptValue v = list_of(std::move(items));
        v.keyed = e.kind == Expr::Kind::dict;
        return v;
      }
      case Expr::Kind::subscript: {
        if (e.items.size() != 2) throw AtenUnknown{"a slice of a list"};
        const ScriptValue v = eval(e.items[0], scope), i = eval(e.items[1], scope);
        const auto at = v.plain.kind == Kind::list ? place_in(v, i, a_.work) : std::nullopt;
        if (!at) throw AtenUnknown{"an index into what is no list, or beyond it"};
        return v.items()[*at];
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
      MemoryBudget::charge(at->second.plain.text.size());
      a_.work.take(at->second.fields.size());
      return at->second;
    }
    if (name == "None") return {};
    if (name == "True" || name == "False") return flag(name == "True");
    if (name == "nan") return number(std::numeric_limits<double>::quiet_NaN());
    if (name == "inf") return number(std::numeric_limits<double>::infinity());
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

  static const PickleValue* state_of(const PickleValue& object) {
    return object.state != nullptr && object.state->is(PickleKind::dict) ? object.state : nullptr;
  }

  ScriptValue attribute(const ScriptValue& of, const std::string& name) {
    if (const auto at = std::ranges::find(of.fields, name); at != of.fields.end())
      return of.items().at(static_cast<std::size_t>(at - of.fields.begin()));
    const PickleValue* state = of.object == nullptr ? nullptr : state_of(*of.object);
    const PickleValue* found = state == nullptr ? nullptr : state->find(name);
    if (found == nullptr && of.object != nullptr) found = QuantisedCalls::kept(*of.object, name);
    if (found == of.object && found != nullptr) return of;
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
        return number(v.real);
      case PickleKind::text:
      case PickleKind::bytes:
        return text(std::string(v.text));
      case PickleKind::tuple:
      case PickleKind::list:
      case PickleKind::dict: {
        if (++depth_ > kMaxCalls) throw AtenUnknown{"lists nested deeper than 64"};
        // One list, however often it is read: code may change it.
        if (const auto at = lists_.find(&v); at != lists_.end()) {
          --depth_;
          return at->second;
        }
        ScriptItems items;
        for (std::size_t i = 0; i < v.items.size(); ++i)
          items.push_back(held(*v.items[i], fmt::format("{}.{}", name, i), constant));
        --depth_;
        ScriptValue list = list_of(std::move(items));
        list.keyed = v.is(PickleKind::dict);
        return lists_.emplace(&v, std::move(list)).first->second;
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
    // torch.jit._pickle.build_tensorlist and kin hold one list, restore_type_tag a value and its
    // type.
    if (v.text.starts_with("torch.jit._pickle.") && v.args != nullptr && !v.args->items.empty() &&
        v.args->items.size() <= 2) {
      if (++depth_ > kMaxCalls) throw AtenUnknown{"lists nested deeper than 64"};
      ScriptValue inner = held(*v.args->items[0], name, constant);
      --depth_;
      return inner;
    }
    return {.object = &v, .name = name};
  }

  // Calls that change a list or a dictionary; none where it is another call.
  std::optional<ScriptValue> change_of(const std::string& op,
                                       const std::vector<ScriptValue>& args) {
    constexpr std::string_view kChanges[] = {"append",    "extend", "insert", "pop",
                                             "_set_item", "clear",  "reverse"};
    if (std::ranges::find(kChanges, op) == std::end(kChanges) || args.empty() ||
        !args[0].is(Kind::list))
      return std::nullopt;
    const ScriptValue& list = args[0];
    ScriptItems& items = list.list->items;
    const auto needs = [&](std::size_t count) {
      if (args.size() != count)
        throw bad_input("{} takes {} arguments, got {}", op, count, args.size());
    };
    if (op != "append" && op != "extend") a_.work.take(items.size());  // what stands behind moves
    if (op == "_set_item") {
      needs(3);
      if (const auto place = place_in(list, args[1], a_.work)) {
        items.erase(items.begin() + static_cast<std::ptrdiff_t>(*place));
        insert_into(list, *place, args[2]);
      } else {
        if (!list.keyed) throw bad_input("element {} of a list", args[1].plain.integer);
        insert_into(list, items.size(), args[1]);
        insert_into(list, items.size(), args[2]);
      }
    } else if (list.keyed) {
      throw AtenUnknown{op + " of a dictionary"};
    } else if (op == "append") {
      needs(2);
      insert_into(list, items.size(), args[1]);
    } else if (op == "extend") {
      needs(2);
      const ScriptItems more = args[1].items();
      for (const ScriptValue& i : more) insert_into(list, items.size(), i);
    } else if (op == "insert") {
      needs(3);
      const auto n = static_cast<std::int64_t>(items.size());
      if (!args[1].is(Kind::integer) || args[1].plain.free)
        throw AtenUnknown{"a place in a list that is no number"};
      const std::int64_t i = args[1].plain.integer;
      insert_into(list, static_cast<std::size_t>(std::clamp<std::int64_t>(i < 0 ? i + n : i, 0, n)),
                  args[2]);
    } else if (op == "pop") {
      const auto place = place_in(list, args.size() > 1 ? args[1] : integer(-1), a_.work);
      if (!place) throw bad_input("a pop of a list of {}", items.size());
      ScriptValue taken = items[*place];
      items.erase(items.begin() + static_cast<std::ptrdiff_t>(*place));
      return taken;
    } else if (op == "clear") {
      items.clear();
    } else {
      std::ranges::reverse(items);
    }
    return list;
  }

  // Where the type is told by what the value is; AtenUnknown otherwise.
  static ScriptValue is_instance(const ScriptValue& v, const Expr& type) {
    const std::string name = dotted_name(type);
    if (v.is_none()) return flag(name == "NoneType");
    if (name == "Tensor") return flag(v.is(Kind::tensor));
    if (name == "int") return flag(v.is(Kind::integer));
    if (name == "float") return flag(v.is(Kind::number));
    if (name == "bool") return flag(v.is(Kind::boolean));
    if (name == "str") return flag(v.is(Kind::text));
    throw AtenUnknown{"isinstance of another type"};
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
    if (dotted == "isinstance") {
      needs(2);
      return is_instance(eval(e.items[1], scope), e.items[2]);
    }
    std::vector<ScriptValue> args;
    for (std::size_t i = 1; i < e.items.size(); ++i) args.push_back(eval(e.items[i], scope));
    if (dotted.starts_with("torch."))
      if (auto changed = change_of(dotted.substr(6), args)) return *std::move(changed);
    if (dotted == "getattr") {
      needs(2);
      return attribute(args[0], args[1].plain.text);
    }
    if (dotted == "int" || dotted == "float" || dotted == "bool") {
      needs(1);
      const ScriptValue v = converted(b_, dotted, torch_.now(args[0]));
      if (dotted == "int" && v.is(Kind::tensor) && is_floating(b_.dtype(v.plain.tensor)))
        throw AtenUnknown{"int of a tensor that is no whole number"};
      return v;
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
    if (name.starts_with("__torch__.")) return own_function(name, std::move(args), e.keywords);
    if (name.starts_with("ops.prim.")) return primitive(name.substr(9), args);
    if (name.starts_with("ops.quantized.")) {
      for (ScriptValue& v : args) v = torch_.now(std::move(v));
      return quantised_.call(name.substr(14), args);
    }
    if (!name.starts_with("torch.")) throw AtenUnknown{"a call of " + name};
    return torch_.call(name.substr(6), std::move(args), e.keywords);
  }

  ScriptValue own_function(const std::string& name, std::vector<ScriptValue> args,
                           const std::vector<std::string>& keywords) {
    const std::size_t dot = name.rfind('.');
    if (const ScriptFunction* f = a_.function(name.substr(0, dot), name.substr(dot + 1)))
      return call(*f, std::move(args), keywords);
    const auto* fields = a_.tuple(name.substr(0, dot), name.substr(dot + 1));
    if (fields == nullptr) throw AtenUnknown{"a call of " + name};
    if (args.size() != fields->size())
      throw bad_input("{} of {} fields, got {}", name, fields->size(), args.size());
    ScriptValue tuple = list_of(std::move(args));
    tuple.fields = *fields;
    return tuple;
  }

  ScriptValue primitive(const std::string& name, const std::vector<ScriptValue>& args) {
    if ((name == "NumToTensor" || name == "data") && args.size() == 1) return args[0];
    if (name == "device" || name == "layout" || name == "type") return {};
    if ((name == "unchecked_cast" || name == "unchecked_unwrap_optional") && !args.empty())
      return args.back();
    if (name == "RaiseException") {
      const std::string said = args.empty() ? "" : printable(args[0].plain.text).substr(0, 120);
      throw AtenUnknown{"code that raises an error for this input" +
                        (said.empty() ? "" : " (" + said + ")")};
    }
    if (name == "rangelist" && args.size() == 1 && args[0].is(Kind::integer) &&
        !args[0].plain.free) {
      ScriptItems numbers;
      for (std::int64_t i = 0; i < args[0].plain.integer; ++i) {
        count_step();
        numbers.push_back(integer(i));
      }
      return list_of(std::move(numbers));
    }
    std::vector<ScriptValue> values;
    for (const ScriptValue& v : args) values.push_back(torch_.now(v));
    if (!values.empty() && !values[0].is_none())
      if (auto known = known_call(b_, name, values, a_.work)) return *std::move(known);
    throw AtenUnknown{"a call of ops.prim." + name};
  }

  ScriptArchive& a_;
  GraphBuilder& b_;
  Aliases aliases_;
  QuantisedCalls quantised_;
  TorchCalls torch_;
  std::map<const PickleValue*, ValueId> tensors_;
  std::map<const PickleValue*, ScriptValue> lists_;
  int calls_ = 0, depth_ = 0;
  std::size_t statements_ = 0, values_ = 0;
};

}  // namespace

std::vector<ScriptParameter> forward_parameters(ScriptArchive& archive, const PickleValue& root) {
  const ScriptFunction* f = archive.method(root.text, "forward");
  if (f == nullptr || f->parameters.empty()) throw AtenUnknown{"a module without forward"};
  std::vector<ScriptParameter> out;
  for (std::size_t i = 1; i < f->parameters.size(); ++i)
    out.push_back({f->parameters[i], f->types[i], f->has_default[i]});
  return out;
}

std::vector<ScriptOutput> walk_script(ScriptArchive& archive, GraphBuilder& graph,
                                      std::size_t file_bytes, const PickleValue& root,
                                      std::vector<ScriptValue> arguments) {
  return Walker(archive, graph, file_bytes).forward(root, std::move(arguments));
}

}  // namespace etalon::pytorch_format
