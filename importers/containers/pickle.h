// Python pickles, protocols 0 to 5, read as data.
//
// A pickle is a program for a stack machine. This machine builds values and nothing else: it has no
// way to import a module or to call anything. A constructor (REDUCE, INST, OBJ) is taken from a
// closed list of names and becomes an object value that holds its arguments; any other is a
// bad-input Error that says the name it wanted. Objects made without a call (NEWOBJ, and
// copyreg._reconstructor) keep their class as a name and their state as a value, whatever the
// class.
//
// Values live in the Pickle; they may share parts and form cycles, so whoever walks them bounds
// the depth and counts the visits (PickleWalk). Each opcode makes at most one value, byte strings
// stay in the file: memory is bounded by a factor of the file's size. Source: Python's pickletools
// (the opcodes), PEP 307, 3154, 574.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/ops/params.h"
#include "importers/containers/bytes.h"

namespace etalon {

enum class PickleKind : std::uint8_t {
  none,
  boolean,
  integer,
  real,
  bytes,  // str of Python 2, bytes and bytearray of Python 3
  text,   // unicode, UTF-8
  tuple,
  list,
  dict,
  set,
  global,     // a name, "module.attribute"
  object,     // a name with args, state, and its own items or entries
  persistent  // args: what the file's own scheme finds it by
};

struct PickleValue {
  PickleKind kind = PickleKind::none;
  bool entries = false;  // of an object: items are keys and values
  std::int64_t integer = 0;
  double real = 0;
  std::string_view text;  // of bytes, text; of global and object the name
  // tuple, list, set: elements. dict: key, value, key, value, ...
  std::vector<const PickleValue*> items;
  const PickleValue* args = nullptr;   // object: a tuple; persistent: the id
  const PickleValue* state = nullptr;  // object: what BUILD gave

  bool is(PickleKind k) const { return kind == k; }
  bool is_text() const { return kind == PickleKind::text || kind == PickleKind::bytes; }
  bool is_object(std::string_view name) const { return kind == PickleKind::object && text == name; }
  // The value under a text key of a dict or of an object's entries; nullptr when there is none.
  const PickleValue* find(std::string_view key) const;
};

class Pickle {
 public:
  // Reads one pickle at the front of `file`; the bytes are kept alive.
  explicit Pickle(Blob file);
  const PickleValue& root() const { return *root_; }
  // How many bytes it took: another pickle or raw data may follow.
  std::size_t size_bytes() const { return end_; }
  std::size_t value_count() const { return values_.size(); }
  // In the order of the file.
  const std::deque<PickleValue>& values() const { return values_; }
  const std::shared_ptr<const void>& keeper() const { return file_.keeper; }

 private:
  friend class PickleMachine;
  Blob file_;
  std::deque<PickleValue> values_;
  std::deque<std::string> decoded_;  // texts that do not stand in the file as they are
  const PickleValue* root_ = nullptr;
  std::size_t end_ = 0;
};

// Bounds a walk over values that may share parts or hold themselves: enter() counts a visit and the
// depth, and refuses what no model needs.
class PickleWalk {
 public:
  explicit PickleWalk(const Pickle& pickle) : left_(4 * pickle.value_count() + 1024) {}
  struct Level {
    explicit Level(PickleWalk& walk);
    ~Level() { --walk.depth_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;
    PickleWalk& walk;
  };

 private:
  std::size_t left_;
  int depth_ = 0;
};

// Typed access: a bad-input Error says what was expected of `what`.
const PickleValue& pickle_item(const PickleValue& list, std::size_t index, std::string_view what);
std::int64_t pickle_integer(const PickleValue& value, std::string_view what);
std::string_view pickle_text(const PickleValue& value, std::string_view what);
bool pickle_bool(const PickleValue& value, std::string_view what);
Ints pickle_ints(const PickleValue& value, std::string_view what);

bool is_pickle(std::span<const std::byte> prefix);

}  // namespace etalon
