#include "importers/containers/pickle.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "engine/core/error.h"

namespace etalon {

namespace {

constexpr int kMaxDepth = 200;

// What may stand before REDUCE, INST or OBJ. None of them does more than hold its arguments.
constexpr std::string_view kConstructors[] = {
    "__builtin__.bytearray",
    "__builtin__.bytes",
    "__builtin__.complex",
    "__builtin__.dict",
    "__builtin__.frozenset",
    "__builtin__.list",
    "__builtin__.object",
    "__builtin__.set",
    "__builtin__.slice",
    "__builtin__.tuple",
    "__builtin__.xrange",
    "_codecs.encode",
    "argparse.Namespace",
    "builtins.bytearray",
    "builtins.bytes",
    "builtins.complex",
    "builtins.dict",
    "builtins.frozenset",
    "builtins.list",
    "builtins.object",
    "builtins.range",
    "builtins.set",
    "builtins.slice",
    "builtins.tuple",
    "collections.Counter",
    "collections.OrderedDict",
    "collections.defaultdict",
    "collections.deque",
    "copy_reg.__newobj__",
    "copy_reg._reconstructor",
    "copyreg.__newobj__",
    "copyreg._reconstructor",
    "datetime.date",
    "datetime.datetime",
    "datetime.timedelta",
    "neon.backends.nervanacpu.CPUTensor",
    "numpy._core.multiarray._reconstruct",
    "numpy._core.multiarray.scalar",
    "numpy._core.numeric._frombuffer",
    "numpy.core.multiarray._reconstruct",
    "numpy.core.multiarray.scalar",
    "numpy.core.numeric._frombuffer",
    "numpy.dtype",
    "numpy.ndarray",
    "pathlib.PosixPath",
    "pathlib.PurePosixPath",
    "pathlib.WindowsPath",
    "theano.compile.sharedvalue._make_shared",
    "theano.sandbox.cuda.type.CudaNdarray_unpickler",
    "torch.Size",
    "torch._tensor._rebuild_from_type_v2",
    "torch._utils._rebuild_parameter",
    "torch._utils._rebuild_parameter_with_state",
    "torch._utils._rebuild_qtensor",
    "torch._utils._rebuild_sparse_tensor",
    "torch._utils._rebuild_tensor",
    "torch._utils._rebuild_tensor_v2",
    "torch._utils._rebuild_tensor_v3",
    "torch.device",
    "torch.jit._pickle.build_boollist",
    "torch.jit._pickle.build_doublelist",
    "torch.jit._pickle.build_intlist",
    "torch.jit._pickle.build_tensorlist",
    "torch.jit._pickle.restore_type_tag",
    "torch.nn.backends.thnn._get_thnn_function_backend",
    "torch.serialization._get_layout",
    "torch.storage._load_from_bytes",
    "torch.tensor._rebuild_from_type_v2",
};

bool is_constructor(std::string_view name) {
  return std::ranges::binary_search(kConstructors, name);
}

}  // namespace

class PickleMachine {
 public:
  explicit PickleMachine(Pickle& pickle) : p_(pickle), bytes_(pickle.file_.bytes) {
    none_ = make(PickleKind::none);
    for (std::int64_t i = 0; i < static_cast<std::int64_t>(small_.size()); ++i) {
      small_[static_cast<std::size_t>(i)] = make(PickleKind::integer);
      small_[static_cast<std::size_t>(i)]->integer = i;
    }
    true_ = make(PickleKind::boolean);
    true_->integer = 1;
    false_ = make(PickleKind::boolean);
  }

  void run() {
    for (;;) {
      at_op_ = at_;
      const auto op = static_cast<char>(take(1)[0]);
      if (op == '.') break;
      step(op);
    }
    p_.root_ = pop();
    p_.end_ = at_;
  }

 private:
  using Value = PickleValue;

  Error fault(std::string_view text) const {
    return bad_input("pickle, byte {}: {}; the file is damaged or cut short", at_op_, text);
  }

  std::span<const std::byte> take(std::size_t count) {
    if (count > bytes_.size() - at_)
      throw bad_input("pickle, byte {}: {} bytes expected, {} remain; the file is cut short",
                      at_op_, count, bytes_.size() - at_);
    const auto taken = bytes_.subspan(at_, count);
    at_ += count;
    return taken;
  }
  template <class T>
  T number() {
    return load_le<T>(take(sizeof(T)), 0);
  }
  std::size_t length8() {
    const auto n = number<std::uint64_t>();
    if (n > bytes_.size()) throw fault("a length beyond the file");
    return static_cast<std::size_t>(n);
  }
  std::string_view chars(std::size_t count) {
    const auto b = take(count);
    return {reinterpret_cast<const char*>(b.data()), b.size()};
  }
  std::string_view line() {
    const auto rest = bytes_.subspan(at_);
    const auto end = std::ranges::find(rest, std::byte{'\n'});
    if (end == rest.end()) throw fault("a line without an end");
    const std::string_view text = chars(static_cast<std::size_t>(end - rest.begin()));
    ++at_;
    return text;
  }

  Value* make(PickleKind kind) {
    p_.values_.emplace_back().kind = kind;
    return &p_.values_.back();
  }
  void push(Value* v) { stack_.push_back(v); }
  Value* pop() {
    const std::size_t floor = marks_.empty() ? 0 : marks_.back();
    if (stack_.size() <= floor) throw fault("the stack is empty");
    Value* v = stack_.back();
    stack_.pop_back();
    return v;
  }
  Value* top() {
    const std::size_t floor = marks_.empty() ? 0 : marks_.back();
    if (stack_.size() <= floor) throw fault("the stack is empty");
    return stack_.back();
  }
  std::vector<Value*> pop_mark() {
    if (marks_.empty()) throw fault("no mark on the stack");
    const auto first = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
    std::vector<Value*> items(first, stack_.end());
    stack_.erase(first, stack_.end());
    marks_.pop_back();
    return items;
  }
  void push_text(PickleKind kind, std::string_view text) {
    Value* v = make(kind);
    v->text = text;
    push(v);
  }
  std::string_view keep(std::string text) { return p_.decoded_.emplace_back(std::move(text)); }
  void push_integer(std::int64_t value) {
    if (value >= 0 && value < static_cast<std::int64_t>(small_.size()))
      return push(small_[static_cast<std::size_t>(value)]);
    Value* v = make(PickleKind::integer);
    v->integer = value;
    push(v);
  }

  void memo_put(std::size_t index, Value* value) {
    if (index > bytes_.size()) throw fault("a memo index beyond the file");
    if (index >= memo_.size()) memo_.resize(index + 1);
    memo_[index] = value;
  }
  Value* memo_get(std::size_t index) {
    if (index >= memo_.size() || memo_[index] == nullptr)
      throw fault("a memo entry that was never put");
    return memo_[index];
  }
  std::size_t decimal(std::string_view text) {
    std::size_t n = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
    if (error != std::errc() || end != text.data() + text.size()) throw fault("no decimal number");
    return n;
  }

  // LONG1, LONG4: two's complement, little-endian. One beyond 64 bits becomes a real value (hash
  // seeds and magic numbers; PyTorch's magic is compared as such).
  void push_long(std::span<const std::byte> b) {
    if (b.size() > 8) {
      Value* v = make(PickleKind::real);
      double value = 0;
      const std::size_t n = std::min<std::size_t>(b.size(), 128);
      for (std::size_t i = n; i-- > 0;) value = value * 256 + std::to_integer<int>(b[i]);
      if ((b.back() & std::byte{0x80}) != std::byte{0})
        value -= std::ldexp(1.0, static_cast<int>(8 * n));
      v->real = value;
      v->text = {reinterpret_cast<const char*>(b.data()), b.size()};
      return push(v);
    }
    std::uint64_t bits = 0;
    for (std::size_t i = 0; i < b.size(); ++i)
      bits |= std::to_integer<std::uint64_t>(b[i]) << (8 * i);
    if (!b.empty() && b.size() < 8 && (b.back() & std::byte{0x80}) != std::byte{0})
      bits |= ~std::uint64_t{0} << (8 * b.size());
    push_integer(static_cast<std::int64_t>(bits));
  }
  void push_decimal(std::string_view text) {
    if (text.ends_with('L')) text.remove_suffix(1);
    std::int64_t n = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
    if (error == std::errc::result_out_of_range) {
      Value* v = make(PickleKind::real);
      v->real = std::strtod(std::string(text.substr(0, 400)).c_str(), nullptr);
      return push(v);
    }
    if (error != std::errc() || end != text.data() + text.size()) throw fault("no whole number");
    push_integer(n);
  }

  // Protocol 0: a Python string literal, quotes included.
  std::string unquoted(std::string_view text) {
    while (!text.empty() && (text.back() == ' ' || text.back() == '\r')) text.remove_suffix(1);
    if (text.size() < 2 || text.front() != text.back() || (text[0] != '\'' && text[0] != '"'))
      throw fault("a string without its quotes");
    text = text.substr(1, text.size() - 2);
    std::string out;
    out.reserve(text.size());
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (text[i] != '\\') {
        out += text[i];
        continue;
      }
      if (++i == text.size()) throw fault("a string that ends in a backslash");
      const std::size_t plain = std::string_view("abfnrtv").find(text[i]);
      if (plain != std::string_view::npos) {
        out += "\a\b\f\n\r\t\v"[plain];
      } else if (text[i] == 'x') {
        unsigned value = 0;
        if (i + 2 >= text.size() ||
            std::from_chars(text.data() + i + 1, text.data() + i + 3, value, 16).ptr !=
                text.data() + i + 3)
          throw fault("a damaged \\x in a string");
        out += static_cast<char>(value);
        i += 2;
      } else if (text[i] >= '0' && text[i] <= '7') {
        unsigned value = 0;
        std::size_t n = 0;
        for (; n < 3 && i + n < text.size() && text[i + n] >= '0' && text[i + n] <= '7'; ++n)
          value = value * 8 + static_cast<unsigned>(text[i + n] - '0');
        out += static_cast<char>(value & 0xff);
        i += n - 1;
      } else {
        out += text[i];  // \\, \', \"
      }
    }
    return out;
  }
  // Protocol 0 unicode: raw-unicode-escape, that is Latin-1 with \uXXXX.
  std::string from_raw_unicode(std::string_view text) {
    std::string out;
    for (std::size_t i = 0; i < text.size(); ++i) {
      unsigned code = static_cast<unsigned char>(text[i]);
      if (text[i] == '\\' && i + 5 < text.size() && text[i + 1] == 'u' &&
          std::from_chars(text.data() + i + 2, text.data() + i + 6, code, 16).ptr ==
              text.data() + i + 6)
        i += 5;
      if (code < 0x80) {
        out += static_cast<char>(code);
      } else if (code < 0x800) {
        out += static_cast<char>(0xc0 | code >> 6);
        out += static_cast<char>(0x80 | (code & 0x3f));
      } else {
        out += static_cast<char>(0xe0 | code >> 12);
        out += static_cast<char>(0x80 | (code >> 6 & 0x3f));
        out += static_cast<char>(0x80 | (code & 0x3f));
      }
    }
    return out;
  }

  // "module.attribute", one text for each pair of a file.
  Value* global(std::string_view module, std::string_view attribute) {
    Value* v = make(PickleKind::global);
    v->text = keep(std::string(module) + "." + std::string(attribute));
    return v;
  }

  Value* object(std::string_view name, const Value* args) {
    Value* v = make(PickleKind::object);
    v->text = name;
    v->args = args;
    return v;
  }
  Value* empty_tuple() {
    if (empty_ == nullptr) empty_ = make(PickleKind::tuple);
    return empty_;
  }

  // The one place where something would be called.
  void construct(const Value* callable, Value* args) {
    if (callable->kind != PickleKind::global) throw fault("something is called that is not a name");
    const std::string_view name = callable->text;
    if (!is_constructor(name))
      throw bad_input(
          "pickle, byte {}: wants to call {}, which is not on the list of known constructors; "
          "nothing was run, and a file that asks for this should not be trusted",
          at_op_, printable(name));
    if (args->kind != PickleKind::tuple) throw fault("a constructor without a tuple of arguments");
    if (name.ends_with("._reconstructor") || name.ends_with(".__newobj__")) {
      if (args->items.empty() || args->items[0]->kind != PickleKind::global)
        throw fault("an object without a class");
      return push(object(args->items[0]->text, args));
    }
    if (name.ends_with("builtin__.set") || name.ends_with("frozenset") || name == "builtins.set") {
      Value* v = make(PickleKind::set);
      if (!args->items.empty()) v->items = args->items[0]->items;
      return push(v);
    }
    if (name == "_codecs.encode" && args->items.size() == 2 && args->items[0]->is_text())
      return push(encoded(args->items[0]->text, pickle_text(*args->items[1], "the encoding")));
    if ((name.ends_with(".bytes") || name.ends_with(".bytearray")) && args->items.empty())
      return push(make(PickleKind::bytes));
    Value* v = object(name, args);
    v->entries = name == "collections.OrderedDict" || name == "collections.defaultdict" ||
                 name == "collections.Counter" || name.ends_with(".dict");
    push(v);
  }

  // Protocol 2 of Python 3 writes bytes as the text that Latin-1 turns into them.
  Value* encoded(std::string_view text, std::string_view encoding) {
    if (encoding != "latin1" && encoding != "latin-1" && encoding != "iso-8859-1")
      throw fault("bytes in an encoding other than latin1");
    Value* v = make(PickleKind::bytes);
    std::string out;
    out.reserve(text.size());
    for (std::size_t i = 0; i < text.size(); ++i) {
      const auto c = static_cast<unsigned char>(text[i]);
      if (c < 0x80) {
        out += text[i];
      } else if ((c == 0xc2 || c == 0xc3) && i + 1 < text.size()) {
        out += static_cast<char>((c & 3U) << 6 | (static_cast<unsigned char>(text[++i]) & 0x3fU));
      } else {
        throw fault("a character beyond latin1 in bytes");
      }
    }
    v->text = keep(std::move(out));
    return v;
  }

  void append(Value* to, Value* item) {
    if (to->kind != PickleKind::list && to->kind != PickleKind::object)
      throw fault("an element for something that is no list");
    to->items.push_back(item);
  }
  void set_items(Value* to, std::span<Value* const> pairs) {
    if (to->kind == PickleKind::object && (to->entries || to->items.empty()))
      to->entries = true;
    else if (to->kind != PickleKind::dict)
      throw fault("an entry for something that is no dict");
    if (pairs.size() % 2 != 0) throw fault("a key without a value");
    to->items.insert(to->items.end(), pairs.begin(), pairs.end());
  }
  Value* tuple_of(std::size_t count) {
    Value* v = make(PickleKind::tuple);
    v->items.resize(count);
    for (std::size_t i = count; i-- > 0;) v->items[i] = pop();
    return v;
  }
  Value* collected(PickleKind kind) {
    const std::vector<Value*> items = pop_mark();
    Value* v = make(kind);
    if (kind == PickleKind::dict)
      set_items(v, items);
    else
      v->items.assign(items.begin(), items.end());
    return v;
  }

  void step(char op) {
    switch (op) {
      case '\x80': {
        const int protocol = number<std::uint8_t>();
        if (protocol > 5)
          throw bad_input("pickle protocol {}; protocols 0 to 5 are known", protocol);
        return;
      }
      case '\x95':
        static_cast<void>(length8());  // a frame: how much may be read at once
        return;
      // numbers
      case 'N':
        return push(none_);
      case '\x88':
        return push(true_);
      case '\x89':
        return push(false_);
      case 'I': {
        const std::string_view text = line();
        if (text == "01") return push(true_);
        if (text == "00") return push(false_);
        return push_decimal(text);
      }
      case 'L':
        return push_decimal(line());
      case 'J':
        return push_integer(number<std::int32_t>());
      case 'K':
        return push_integer(number<std::uint8_t>());
      case 'M':
        return push_integer(number<std::uint16_t>());
      case '\x8a':
        return push_long(take(number<std::uint8_t>()));
      case '\x8b': {
        const auto n = number<std::int32_t>();
        if (n < 0) throw fault("a negative length");
        return push_long(take(static_cast<std::size_t>(n)));
      }
      case 'F':
      case 'G': {
        Value* v = make(PickleKind::real);
        if (op == 'F') {
          v->real = std::strtod(std::string(line().substr(0, 400)).c_str(), nullptr);
        } else {
          const auto big_endian = number<std::uint64_t>();
          const std::uint64_t bits = __builtin_bswap64(big_endian);
          std::memcpy(&v->real, &bits, sizeof bits);
        }
        return push(v);
      }
      // texts and bytes
      case 'S':
        return push_text(PickleKind::bytes, keep(unquoted(line())));
      case 'T': {
        const auto n = number<std::int32_t>();
        if (n < 0) throw fault("a negative length");
        return push_text(PickleKind::bytes, chars(static_cast<std::size_t>(n)));
      }
      case 'U':
      case 'C':
        return push_text(PickleKind::bytes, chars(number<std::uint8_t>()));
      case 'B':
        return push_text(PickleKind::bytes, chars(number<std::uint32_t>()));
      case '\x8e':
      case '\x96':
        return push_text(PickleKind::bytes, chars(length8()));
      case 'V':
        return push_text(PickleKind::text, keep(from_raw_unicode(line())));
      case 'X':
        return push_text(PickleKind::text, chars(number<std::uint32_t>()));
      case '\x8c':
        return push_text(PickleKind::text, chars(number<std::uint8_t>()));
      case '\x8d':
        return push_text(PickleKind::text, chars(length8()));
      // containers
      case '(':
        return marks_.push_back(stack_.size());
      case ')':
        return push(empty_tuple());
      case 't':
        return push(collected(PickleKind::tuple));
      case '\x85':
        return push(tuple_of(1));
      case '\x86':
        return push(tuple_of(2));
      case '\x87':
        return push(tuple_of(3));
      case ']':
        return push(make(PickleKind::list));
      case 'l':
        return push(collected(PickleKind::list));
      case '}':
        return push(make(PickleKind::dict));
      case 'd':
        return push(collected(PickleKind::dict));
      case '\x8f':
        return push(make(PickleKind::set));
      case '\x91':
        return push(collected(PickleKind::set));
      case '\x90': {
        const std::vector<Value*> items = pop_mark();
        if (top()->kind != PickleKind::set) throw fault("an element for something that is no set");
        top()->items.insert(top()->items.end(), items.begin(), items.end());
        return;
      }
      case 'a': {
        Value* item = pop();
        return append(top(), item);
      }
      case 'e': {
        const std::vector<Value*> items = pop_mark();
        for (Value* item : items) append(top(), item);
        return;
      }
      case 's': {
        const std::array<Value*, 2> pair_reversed{pop(), pop()};
        const std::array<Value*, 2> pair{pair_reversed[1], pair_reversed[0]};
        return set_items(top(), pair);
      }
      case 'u': {
        const std::vector<Value*> pairs = pop_mark();
        return set_items(top(), pairs);
      }
      // stack and memo
      case '0':
        if (!marks_.empty() && marks_.back() == stack_.size())
          marks_.pop_back();
        else
          pop();
        return;
      case '1':
        static_cast<void>(pop_mark());
        return;
      case '2':
        return push(top());
      case 'p':
        return memo_put(decimal(line()), top());
      case 'q':
        return memo_put(number<std::uint8_t>(), top());
      case 'r':
        return memo_put(number<std::uint32_t>(), top());
      case '\x94':
        return memo_put(memo_.size(), top());
      case 'g':
        return push(memo_get(decimal(line())));
      case 'h':
        return push(memo_get(number<std::uint8_t>()));
      case 'j':
        return push(memo_get(number<std::uint32_t>()));
      // names and objects
      case 'c': {
        const std::string_view module = line();
        return push(global(module, line()));
      }
      case '\x93': {
        const Value* attribute = pop();
        const Value* module = pop();
        return push(global(pickle_text(*module, "a module's name"),
                           pickle_text(*attribute, "a class's name")));
      }
      case 'R': {
        Value* args = pop();
        return construct(pop(), args);
      }
      case 'i': {
        const std::string_view module = line();
        const Value* callable = global(module, line());
        return construct_without_call(callable, pop_mark());
      }
      case 'o': {
        std::vector<Value*> items = pop_mark();
        if (items.empty()) throw fault("an object without a class");
        const Value* callable = items.front();
        items.erase(items.begin());
        return construct_without_call(callable, items);
      }
      case '\x81': {
        Value* args = pop();
        return new_object(pop(), args);
      }
      case '\x92': {
        static_cast<void>(pop());  // keyword arguments
        Value* args = pop();
        return new_object(pop(), args);
      }
      case 'b': {
        const Value* state = pop();
        Value* to = top();
        if (to->kind != PickleKind::object) throw fault("a state for something that is no object");
        to->state = state;
        return;
      }
      case 'P': {
        Value* v = make(PickleKind::persistent);
        Value* id = make(PickleKind::text);
        id->text = line();
        v->args = id;
        return push(v);
      }
      case 'Q': {
        const Value* id = pop();
        Value* v = make(PickleKind::persistent);
        v->args = id;
        return push(v);
      }
      case '\x82':
      case '\x83':
      case '\x84':
        throw bad_input("pickle, byte {}: a class by its number in a registry, which no file holds",
                        at_op_);
      case '\x97':
      case '\x98':
        if (op == '\x98') return;
        throw bad_input(
            "pickle, byte {}: a buffer outside the file; save it without buffer callbacks", at_op_);
      default:
        throw bad_input("pickle, byte {}: no opcode {:#04x}; not a pickle, or damaged", at_op_,
                        static_cast<unsigned char>(op));
    }
  }

  // An old-style instance has no arguments; with some it is a call like REDUCE.
  void construct_without_call(const Value* callable, const std::vector<Value*>& items) {
    if (callable->kind != PickleKind::global) throw fault("something is called that is not a name");
    if (items.empty()) return push(object(callable->text, empty_tuple()));
    Value* args = make(PickleKind::tuple);
    args->items.assign(items.begin(), items.end());
    construct(callable, args);
  }
  void new_object(const Value* cls, const Value* args) {
    // PyTorch's old files hold a class beside its source text, under a persistent id.
    if (cls->kind == PickleKind::persistent && cls->args->kind == PickleKind::tuple &&
        cls->args->items.size() > 1)
      cls = cls->args->items[1];
    if (cls->kind != PickleKind::global || args->kind != PickleKind::tuple)
      throw fault("an object without a class or arguments");
    Value* v = object(cls->text, args);
    v->entries = cls->text == "collections.OrderedDict";
    push(v);
  }

  Pickle& p_;
  std::span<const std::byte> bytes_;
  std::size_t at_ = 0, at_op_ = 0;
  std::vector<Value*> stack_;
  std::vector<std::size_t> marks_;
  std::vector<Value*> memo_;
  std::array<Value*, 256> small_{};
  Value *none_ = nullptr, *true_ = nullptr, *false_ = nullptr, *empty_ = nullptr;
};

Pickle::Pickle(Blob file) : file_(std::move(file)) { PickleMachine(*this).run(); }

const PickleValue* PickleValue::find(std::string_view key) const {
  if (kind != PickleKind::dict && !(kind == PickleKind::object && entries)) return nullptr;
  for (std::size_t i = 0; i + 1 < items.size(); i += 2)
    if (items[i]->is_text() && items[i]->text == key) return items[i + 1];
  return nullptr;
}

PickleWalk::Level::Level(PickleWalk& w) : walk(w) {
  if (w.left_-- == 0)
    throw bad_input("the pickle refers to the same parts over and over; no model file does");
  if (w.depth_ == kMaxDepth)
    throw bad_input("the pickle nests deeper than {} levels, or holds itself", kMaxDepth);
  ++w.depth_;
}

const PickleValue& pickle_item(const PickleValue& list, std::size_t index, std::string_view what) {
  if (list.kind != PickleKind::tuple && list.kind != PickleKind::list)
    throw bad_input("{}: a tuple or list was expected in the pickle", what);
  if (index >= list.items.size())
    throw bad_input("{}: {} elements in the pickle, at least {} expected", what, list.items.size(),
                    index + 1);
  return *list.items[index];
}
std::int64_t pickle_integer(const PickleValue& value, std::string_view what) {
  if (value.kind != PickleKind::integer && value.kind != PickleKind::boolean)
    throw bad_input("{}: a whole number was expected in the pickle", what);
  return value.integer;
}
std::string_view pickle_text(const PickleValue& value, std::string_view what) {
  if (!value.is_text()) throw bad_input("{}: a text was expected in the pickle", what);
  return value.text;
}
bool pickle_bool(const PickleValue& value, std::string_view what) {
  return pickle_integer(value, what) != 0;
}
Ints pickle_ints(const PickleValue& value, std::string_view what) {
  if (value.is_object("torch.Size") && value.args != nullptr)
    return pickle_ints(pickle_item(*value.args, 0, what), what);
  if (value.kind != PickleKind::tuple && value.kind != PickleKind::list)
    throw bad_input("{}: a tuple of whole numbers was expected in the pickle", what);
  if (value.items.size() > static_cast<std::size_t>(kMaxRank))
    throw bad_input("{}: {} numbers, at most {} axes are held", what, value.items.size(), kMaxRank);
  Ints out;
  for (const PickleValue* item : value.items) out.push_back(pickle_integer(*item, what));
  return out;
}

bool is_pickle(std::span<const std::byte> prefix) {
  if (prefix.size() < 2) return false;
  const auto first = std::to_integer<unsigned char>(prefix[0]);
  const auto second = std::to_integer<unsigned char>(prefix[1]);
  if (first == 0x80) return second >= 1 && second <= 5;
  // Protocol 0 and 1 begin with a mark, an empty container or a global, each followed by an opcode.
  if (first == '(') return second == 'd' || second == 'l' || second == 'i' || second == 'S';
  if (first == '}' || first == ']') return second == 'q' || second == '(' || second == 'p';
  if (first == 'c') {
    const std::string_view text(reinterpret_cast<const char*>(prefix.data()),
                                std::min<std::size_t>(prefix.size(), 200));
    return text.starts_with("ccopy_reg\n") || text.starts_with("cnumpy") ||
           text.starts_with("c__builtin__\n") || text.starts_with("ccollections\n") ||
           text.starts_with("cposix\n") || text.starts_with("cos\n") || text.starts_with("ctheano");
  }
  return false;
}

}  // namespace etalon
