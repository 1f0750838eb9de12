#include "importers/formats/pytorch/script.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <memory>
#include <set>

#include "engine/core/error.h"
#include "engine/core/memory_budget.h"
#include "importers/formats/pytorch/aten.h"
#include "importers/formats/pytorch/input_guess.h"
#include "importers/formats/pytorch/script_syntax.h"

namespace etalon::pytorch_format {
namespace {

using Kind = AtenValue::Kind;

constexpr int kMaxCalls = 64;
constexpr std::size_t kMaxStatements = 200'000, kMaxValues = 1'000'000;
constexpr std::size_t kExpansion = 16;  // bytes of weights that calls may copy, by the file's

// What is the same for every extent that is tried.
struct Archive {
  const ZipReader& zip;
  std::string folder;
  Storages& storages;
  std::optional<Pickle> constants;
  std::unique_ptr<ZipStorages> constant_storages;
  std::map<std::string, ScriptFile, std::less<>> files;
  std::map<const PickleValue*, Tensor> tensors;

  // "__torch__.a.b.Class.method" stands in code/__torch__/a/b.py; `name` is the last part or two.
  const ScriptFunction* function(std::string_view module, std::string_view name) {
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
  const ScriptFunction* method(std::string_view type, std::string_view name) {
    const std::size_t dot = type.rfind('.');
    if (dot == std::string_view::npos) return nullptr;
    return function(type.substr(0, dot),
                    std::string(type.substr(dot + 1)) + "." + std::string(name));
  }
};

struct Value {
  AtenValue plain;
  const PickleValue* object = nullptr;  // a module
  std::string name;                     // of a module its path, of a function its dotted name
  bool is_function = false;
  std::vector<Value> items;  // of a list or tuple
};

Value plain(AtenValue v) { return {.plain = std::move(v)}; }
Value integer(std::int64_t v) { return plain(AtenValue::of_integer(v)); }
Value flag(bool v) { return plain(AtenValue::of_flag(v)); }
bool is_none(const Value& v) {
  return v.plain.kind == Kind::none && v.object == nullptr && !v.is_function;
}

AtenValue aten(const Value& v) {
  if (v.object != nullptr || v.is_function) throw AtenUnknown{"a module as an argument"};
  AtenValue out = v.plain;
  for (const Value& i : v.items) out.items.push_back(aten(i));
  return out;
}

std::string dotted_name(const Expr& e) {
  if (e.kind == Expr::Kind::name) return e.text;
  if (e.kind != Expr::Kind::attribute) return "";
  const std::string base = dotted_name(e.items[0]);
  return base.empty() ? "" : base + "." + e.text;
}

class Walker {
 public:
  Walker(Archive& archive, GraphBuilder& graph, std::size_t file_bytes)
      : a_(archive), b_(graph), copies_(file_bytes * kExpansion) {}

  std::vector<ValueId> forward(const PickleValue& root, ValueId input) {
    const ScriptFunction* f = a_.method(root.text, "forward");
    if (f == nullptr) throw AtenUnknown{"a module without forward"};
    const Value module{.object = &root};
    std::vector<ValueId> out;
    tensors_of(call(*f, {module, plain(AtenValue::of(input))}, {"", ""}), out);
    if (out.empty()) throw AtenUnknown{"a forward that gives no tensor"};
    return out;
  }

 private:
  using Scope = std::map<std::string, Value, std::less<>>;

  static void tensors_of(const Value& v, std::vector<ValueId>& out) {
    if (v.plain.kind == Kind::tensor)
      out.push_back(v.plain.tensor);
    else if (v.plain.kind == Kind::list)
      for (const Value& i : v.items) tensors_of(i, out);
    else
      throw AtenUnknown{"an output that is no tensor"};
  }

  Value call(const ScriptFunction& f, std::vector<Value> arguments,
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
    Value result;
    block(f.body, scope, result);
    --calls_;
    return result;
  }

  // True once a return was reached.
  bool block(const std::vector<Statement>& body, Scope& scope, Value& result) {
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
          const Value condition = eval(s.value, scope);
          if (condition.plain.kind != Kind::boolean)
            throw AtenUnknown{fmt::format("a branch on data in line {}", s.line)};
          if (block(condition.plain.integer != 0 ? s.body : s.otherwise, scope, result))
            return true;
          break;
        }
        case Statement::Kind::assign: {
          Value v = eval(s.value, scope);
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

  Value eval(const Expr& e, Scope& scope) {
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
        Value v = eval(e.items[0], scope);
        v.plain.integer = negated(v.plain.integer);
        v.plain.number = -v.plain.number;
        return v;
      }
      case Expr::Kind::list:
      case Expr::Kind::tuple: {
        Value v = plain({.kind = Kind::list});
        for (const Expr& i : e.items) v.items.push_back(eval(i, scope));
        return v;
      }
      case Expr::Kind::subscript: {
        if (e.items.size() != 2) throw AtenUnknown{"a slice of a list"};
        const Value v = eval(e.items[0], scope), i = eval(e.items[1], scope);
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

  Value named(const std::string& name, const Scope& scope) const {
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

  Value constant(std::string_view index) {
    if (!a_.constants) throw bad_input("code reads CONSTANTS, and there is no constants.pkl");
    const PickleValue& root = a_.constants->root();
    const std::int64_t i = whole(index);
    if (i < 0 || i >= static_cast<std::int64_t>(root.items.size()))
      throw bad_input("no constant c{}", i);
    return held(*root.items[static_cast<std::size_t>(i)], fmt::format("constant{}", i), true);
  }

  static std::size_t weight(const Value& v, int depth) {
    if (depth > kMaxCalls) throw AtenUnknown{"lists nested deeper than 64"};
    std::size_t bytes = sizeof(Value) + v.plain.text.size() + v.name.size();
    for (const Value& i : v.items) bytes += weight(i, depth + 1);
    return bytes;
  }

  static const PickleValue* state_of(const PickleValue& object) {
    return object.state != nullptr && object.state->is(PickleKind::dict) ? object.state : nullptr;
  }

  Value attribute(const Value& of, const std::string& name) {
    const PickleValue* state = of.object == nullptr ? nullptr : state_of(*of.object);
    const PickleValue* found = state == nullptr ? nullptr : state->find(name);
    if (found == nullptr) throw AtenUnknown{"an attribute ." + name + " that is not in the pickle"};
    return held(*found, of.name.empty() ? name : of.name + "." + name, false);
  }

  // Where values are shared, so may their parts be: visits are counted.
  Value held(const PickleValue& v, const std::string& name, bool constant) {
    if (++values_ > kMaxValues) throw AtenUnknown{"more than 1000000 values"};
    MemoryBudget::charge(sizeof(Value) + v.text.size());
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
        Value list = plain({.kind = Kind::list});
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

  Value called(const Expr& e, Scope& scope) {
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
    std::vector<Value> args;
    for (std::size_t i = 1; i < e.items.size(); ++i) args.push_back(eval(e.items[i], scope));
    if (dotted == "torch.append" && args.size() == 2 && e.items[1].kind == Expr::Kind::name) {
      const auto list = scope.find(e.items[1].text);
      if (list == scope.end() || list->second.plain.kind != Kind::list)
        throw AtenUnknown{"an append to what is no list"};
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
      return args[0];
    }
    if (callee.kind == Expr::Kind::attribute && !is_global(dotted, scope)) {
      const Value object = eval(callee.items[0], scope);
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
    const Value function = eval(callee, scope);
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

  static Value primitive(const std::string& name, const std::vector<Value>& args) {
    if ((name == "NumToTensor" || name == "data") && args.size() == 1) return args[0];
    if (name == "dtype" || name == "device" || name == "layout") return {};
    if (name == "unchecked_cast" && !args.empty()) return args.back();
    if (name == "RaiseException") throw AtenUnknown{"code that raises an error for this input"};
    throw AtenUnknown{"a call of ops.prim." + name};
  }

  // Equal, different, or not to be known: free extents are equal to themselves alone.
  static bool same(const Value& a, const Value& b) {
    if (a.plain.free != b.plain.free ||
        (a.plain.free && (a.plain.number < 0 || a.plain.number != b.plain.number)) ||
        a.plain.kind == Kind::tensor || b.plain.kind == Kind::tensor)
      throw AtenUnknown{"a comparison with an extent that is free"};
    if (a.items.size() != b.items.size()) return false;
    for (std::size_t i = 0; i < a.items.size(); ++i)
      if (!same(a.items[i], b.items[i])) return false;
    return a.plain.kind == b.plain.kind && a.plain.integer == b.plain.integer &&
           a.plain.number == b.plain.number && a.plain.text == b.plain.text;
  }

  Value extent(ValueId x, std::int64_t axis) {
    const Ints dims = b_.dims(x);
    const auto rank = static_cast<std::int64_t>(dims.size());
    if (axis < -rank || axis >= rank) throw bad_input("axis {} of rank {}", axis, rank);
    const std::int64_t d = dims[static_cast<std::size_t>(axis < 0 ? axis + rank : axis)];
    // A free one keeps its axis: it equals that one alone.
    return plain({.kind = Kind::integer,
                  .integer = d,
                  .free = d < 0,
                  .number = d < 0 ? static_cast<double>(axis < 0 ? axis + rank : axis) : 0});
  }

  // What needs no tensor's elements; none where it is an op on tensors.
  std::optional<Value> known(const std::string& op, const std::vector<Value>& v) {
    const auto count = v.size();
    if (std::ranges::any_of(v, [](const Value& i) { return i.plain.kind == Kind::integer; })) {
      // Traced code counts sizes in tensors of one number.
      std::vector<Value> plain_numbers = v;
      bool tensors = false, all = true;
      for (Value& i : plain_numbers) {
        if (i.plain.kind != Kind::tensor) continue;
        tensors = true;
        const Tensor* t = b_.constant_of(i.plain.tensor);
        all = all && t != nullptr && t->shape().rank() == 0 && t->dtype() == DType::i64;
        if (all) i = integer(t->data<std::int64_t>()[0]);
      }
      if (tensors && all) return known(op, plain_numbers);
    }
    if (op == "__is__" && count == 2) return flag(is_none(v[0]) && is_none(v[1]));
    if (op == "__isnot__" && count == 2) return flag(!(is_none(v[0]) && is_none(v[1])));
    if (op == "warn") return Value{};
    if (op == "format") return plain({.kind = Kind::text});
    if (op == "device") return Value{};
    if (op == "dim" && count == 1 && v[0].plain.kind == Kind::tensor)
      return integer(b_.rank(v[0].plain.tensor));
    if (op == "size" && count >= 1 && v[0].plain.kind == Kind::tensor) {
      if (count == 2) return extent(v[0].plain.tensor, v[1].plain.integer);
      Value list = plain({.kind = Kind::list});
      for (int a = 0; a < b_.rank(v[0].plain.tensor); ++a)
        list.items.push_back(extent(v[0].plain.tensor, a));
      return list;
    }
    if (op == "numel" && count == 1 && v[0].plain.kind == Kind::tensor) {
      std::int64_t n = 1;
      for (const std::int64_t d : b_.dims(v[0].plain.tensor)) {
        if (d < 0) return plain(AtenValue::computed());
        n = checked_mul(n, d);
      }
      return integer(n);
    }
    if (op == "len" && count == 1 && v[0].plain.kind == Kind::list)
      return integer(static_cast<std::int64_t>(v[0].items.size()));
    // A state that begins at zero; its elements are its extents.
    if (op == "zeros" && count >= 1 && !v[0].items.empty()) {
      Value zeros = v[0];
      zeros.plain.kind = Kind::zeros;
      return zeros;
    }
    if (count == 1 && v[0].plain.kind == Kind::zeros) {
      if (op == "dim") return integer(static_cast<std::int64_t>(v[0].items.size()));
      if (op == "size") {
        Value list = v[0];
        list.plain.kind = Kind::list;
        return list;
      }
    }
    if (std::ranges::any_of(
            v, [](const Value& i) { return i.plain.kind == Kind::tensor || i.object != nullptr; }))
      return std::nullopt;
    if (op == "__not__" && count == 1) return flag(v[0].plain.integer == 0);
    if (op == "list" && count == 1) return v[0];
    if (op == "__getitem__" && count == 2 && v[1].plain.integer >= 0 &&
        v[1].plain.integer < static_cast<std::int64_t>(v[0].items.size()))
      return v[0].items[static_cast<std::size_t>(v[1].plain.integer)];
    if (op == "eq" && count == 2) return flag(same(v[0], v[1]));
    if (op == "ne" && count == 2) return flag(!same(v[0], v[1]));
    if (count == 2 && v[0].plain.kind == Kind::integer && v[1].plain.kind == Kind::integer &&
        !v[0].plain.free && !v[1].plain.free) {
      const std::int64_t a = v[0].plain.integer, b = v[1].plain.integer;
      if (op == "lt") return flag(a < b);
      if (op == "le") return flag(a <= b);
      if (op == "gt") return flag(a > b);
      if (op == "ge") return flag(a >= b);
      if (op == "add") return integer(checked_add(a, b));
      if (op == "mul") return integer(checked_mul(a, b));
      if (op == "sub" || op == "rsub")
        return integer(op == "sub" ? checked_add(a, checked_mul(b, -1))
                                   : checked_add(b, checked_mul(a, -1)));
      if ((op == "floordiv" || op == "floor_divide") && b > 0 && a >= 0) return integer(a / b);
      if (op == "remainder" && b > 0 && a >= 0) return integer(a % b);
    }
    if (count >= 2 && v[0].plain.kind == Kind::integer && v[1].plain.kind == Kind::integer &&
        (v[0].plain.free || v[1].plain.free))
      for (const char* arithmetic : {"add", "sub", "mul", "floordiv", "floor_divide"})
        if (op == arithmetic) return plain(AtenValue::computed());
    const auto is_number = [](const Value& n) {
      return n.plain.kind == Kind::number || (n.plain.kind == Kind::integer && !n.plain.free);
    };
    if (count == 2 && is_number(v[0]) && is_number(v[1])) {
      const auto number = [](const Value& n) {
        return n.plain.kind == Kind::number ? n.plain.number : static_cast<double>(n.plain.integer);
      };
      const double a = number(v[0]), b = number(v[1]);
      if (op == "lt") return flag(a < b);
      if (op == "le") return flag(a <= b);
      if (op == "gt") return flag(a > b);
      if (op == "ge") return flag(a >= b);
    }
    if (op == "neg" && count == 1 && v[0].plain.kind == Kind::integer && !v[0].plain.free)
      return integer(negated(v[0].plain.integer));
    return std::nullopt;
  }

  static std::int64_t negated(std::int64_t a) {
    std::int64_t out = 0;
    if (__builtin_sub_overflow(std::int64_t{0}, a, &out)) throw bad_input("-({}) does not fit", a);
    return out;
  }

  static std::int64_t checked_add(std::int64_t a, std::int64_t b) {
    std::int64_t sum = 0;
    if (__builtin_add_overflow(a, b, &sum)) throw bad_input("{} + {} does not fit", a, b);
    return sum;
  }

  Value torch(const std::string& op, const std::vector<Value>& args,
              const std::vector<std::string>& keywords) {
    if (auto v = known(op, args)) return *v;
    const auto places = static_cast<std::size_t>(
        std::ranges::count_if(keywords, [](const std::string& k) { return k.empty(); }));
    const auto order = aten_arguments(op, places);
    if (order.empty()) throw AtenUnknown{"a call of torch." + op};
    const bool state = op == "lstm" || op == "gru" || op.starts_with("rnn_");
    AtenCall c;
    for (std::size_t i = 0; i < args.size(); ++i) {
      if (keywords[i].empty() && i >= order.size()) break;  // switches of cuDNN and the like
      AtenValue v = aten(args[i]);
      if (v.kind == Kind::zeros && !state) v = zeros(v);
      c.args.emplace(keywords[i].empty() ? std::string(order[i]) : keywords[i], std::move(v));
    }
    const ErrorScope scope("torch." + op);
    count_copies(c);
    std::string name = op.starts_with("_") ? op.substr(1) : op;
    while (name.ends_with("_")) name.pop_back();
    const auto values = translate_aten(b_, op, name, c);
    if (op == "arange" || op == "full" || op == "ones" || op.starts_with("new_"))
      for (const ValueId v : values) count_bytes(v);
    if (values.size() == 1) return plain(AtenValue::of(values[0]));
    Value list = plain({.kind = Kind::list});
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

  Archive& a_;
  GraphBuilder& b_;
  std::map<const PickleValue*, ValueId> tensors_;
  int calls_ = 0, depth_ = 0;
  std::size_t statements_ = 0, values_ = 0, copies_;
};

// The first weight in the order in which modules were made, and its module's class.
bool first_weight(const PickleValue& v, Archive& a, int depth, std::set<const PickleValue*>& seen,
                  Shape& shape, FirstModule& module) {
  const PickleValue* state = v.state;
  if (!seen.insert(&v).second) return false;
  if (depth > kMaxCalls || state == nullptr || !state->is(PickleKind::dict)) return false;
  for (const char* name : {"weight", "weight_ih_l0"})
    if (const PickleValue* w = state->find(name); w != nullptr && w->is(PickleKind::object)) {
      auto t = a.storages.tensor(*w);
      if (t && t->shape().rank() >= 2) {
        shape = t->shape();
        module = name[6] == '_'                                        ? FirstModule::recurrent
                 : v.text.find(".Embedding") != std::string_view::npos ? FirstModule::embedding
                                                                       : FirstModule::other;
        return true;
      }
    }
  for (std::size_t i = 0; i + 1 < state->items.size(); i += 2)
    if (state->items[i + 1]->is(PickleKind::object) &&
        first_weight(*state->items[i + 1], a, depth + 1, seen, shape, module))
      return true;
  return false;
}

}  // namespace

bool open_script(const ZipReader& zip, const std::string& folder, const Pickle& pickle,
                 Storages& storages, std::size_t file_bytes, Model& model) {
  Archive archive{.zip = zip, .folder = folder, .storages = storages};
  std::string why;
  try {
    if (const ZipMember* m = zip.find(folder + "constants.pkl")) {
      archive.constants.emplace(zip.read(*m));
      archive.constant_storages =
          std::make_unique<ZipStorages>(zip, folder + "constants/", file_bytes);
    }
    Shape w;
    FirstModule first = FirstModule::other;
    std::set<const PickleValue*> seen;
    if (!first_weight(pickle.root(), archive, 0, seen, w, first))
      throw AtenUnknown{"a network whose first weight does not tell its input"};
    for (const InputGuess& in : input_guesses(w, first)) {
      try {
        GraphBuilder b("script");
        const ValueId x = b.input("input", in.dtype, in.dims, in.nominal);
        Walker walker(archive, b, file_bytes);
        const std::vector<ValueId> out = walker.forward(pickle.root(), x);
        for (std::size_t i = 0; i < out.size(); ++i)
          b.output(out[i], out.size() == 1 ? "output" : fmt::format("output{}", i));
        *model.graph = b.finish();
        model.notes = b.take_notes();
        model.notes.push_back(in.said);
        return true;
      } catch (const Error& e) {
        if (why.empty()) why = e.what();  // of the freest extents
      } catch (const AtenUnknown& unknown) {
        if (why.empty()) why = unknown.what;
      }
    }
  } catch (const AtenUnknown& unknown) {
    why = unknown.what;
  }
  model.notes.push_back("TorchScript, weights alone: no graph, for " + printable(why) +
                        "; --arch names their network.");
  return false;
}

}  // namespace etalon::pytorch_format
