// The machine behind Pickle: opcodes push, pop and put together; nothing is ever called.
//   pickle_machine.cpp   one case for each opcode
//   pickle_literals.cpp  numbers and texts as the protocols write them
//   pickle_objects.cpp   containers and objects; the closed list of constructors
#pragma once

#include <algorithm>
#include <array>
#include <charconv>
#include <string>
#include <string_view>
#include <vector>

#include "engine/core/error.h"
#include "importers/containers/pickle.h"

namespace etalon {

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

  void run();

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
  // What an opcode copies instead of referring to it: a text decoded once is below the file's size,
  // one that the memo gives again and again need not be.
  void copies(std::size_t bytes) {
    copied_ += bytes;
    if (copied_ > 16 * bytes_.size() + 4096)
      throw fault("the same text or elements are copied over and over");
  }
  std::string_view keep(std::string text) {
    copies(text.size());
    return p_.decoded_.emplace_back(std::move(text));
  }
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

  void push_long(std::span<const std::byte> b);
  void push_decimal(std::string_view text);

  std::string unquoted(std::string_view text);
  std::string from_raw_unicode(std::string_view text);

  Value* global(std::string_view module, std::string_view attribute);

  Value* object(std::string_view name, const Value* args);
  Value* empty_tuple() {
    if (empty_ == nullptr) empty_ = make(PickleKind::tuple);
    return empty_;
  }

  void construct(const Value* callable, Value* args);

  Value* encoded(std::string_view text, std::string_view encoding);

  void append(Value* to, Value* item);
  void set_items(Value* to, std::span<Value* const> pairs);
  Value* tuple_of(std::size_t count);
  Value* collected(PickleKind kind);

  void step(char op);

  void construct_without_call(const Value* callable, const std::vector<Value*>& items);
  void new_object(const Value* cls, const Value* args);

  Pickle& p_;
  std::span<const std::byte> bytes_;
  std::size_t at_ = 0, at_op_ = 0, copied_ = 0;
  std::vector<Value*> stack_;
  std::vector<std::size_t> marks_;
  std::vector<Value*> memo_;
  std::array<Value*, 256> small_{};
  Value *none_ = nullptr, *true_ = nullptr, *false_ = nullptr, *empty_ = nullptr;
};

}  // namespace etalon
