#include "importers/containers/pickle.h"

#include <algorithm>

#include "engine/core/error.h"
#include "importers/containers/pickle_machine.h"

namespace etalon {

namespace {

constexpr int kMaxDepth = 200;

}  // namespace

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
