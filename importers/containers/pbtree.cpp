#include "importers/containers/pbtree.h"

#include <charconv>
#include <cmath>
#include <limits>

#include "engine/core/error.h"
#include "importers/containers/protobuf.h"

namespace etalon {
namespace {

constexpr int kMaxDepth = 64;

std::uint64_t varint_at(std::span<const std::byte> bytes, std::size_t& at) {
  std::uint64_t value = 0;
  for (int shift = 0; shift < 64 && at < bytes.size(); shift += 7) {
    const auto b = std::to_integer<std::uint64_t>(bytes[at++]);
    value |= (b & 0x7f) << shift;
    if (b < 0x80) return value;
  }
  throw bad_input("a list of numbers ends inside one, at its byte {}; the file is damaged", at);
}

std::vector<std::string> words_of(std::string_view line) {
  std::vector<std::string> words;
  for (std::size_t at = 0; at < line.size();) {
    const std::size_t begin = line.find_first_not_of(' ', at);
    if (begin == std::string_view::npos) break;
    at = std::min(line.find(' ', begin), line.size());
    words.emplace_back(line.substr(begin, at - begin));
  }
  return words;
}

}  // namespace

PbSchema::PbSchema(std::string_view text) {
  struct Pending {
    std::string type;
    std::size_t field;
    std::string kind;
  };
  std::vector<Pending> pending;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::vector<std::string> w = words_of(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (w.empty()) continue;
    const bool is_enum = w[0] == "enum";
    const bool strict = w[0].starts_with('!');
    const std::string name = is_enum ? w[1] : w[0].substr(strict ? 1 : 0);
    PbType& type = types_[name];
    type.name = name;
    type.strict = strict;
    for (std::size_t i = is_enum ? 2 : 1; i + 1 < w.size(); i += is_enum ? 2 : 3) {
      if (is_enum) {
        type.values.emplace_back(w[i], std::stoll(w[i + 1]));
        continue;
      }
      const auto number = static_cast<std::uint32_t>(std::stoul(w[i + 1]));
      type.by_number[number] = type.by_name[w[i]] = type.fields.size();
      if (w[i + 2].size() > 1) pending.push_back({type.name, type.fields.size(), w[i + 2]});
      type.fields.push_back({w[i], number, w[i + 2][0], nullptr});
    }
  }
  for (const Pending& p : pending) {
    const auto at = types_.find(p.kind);
    if (at == types_.end()) throw internal_error("the schema lacks the type {}", p.kind);
    PbField& f = types_.at(p.type).fields[p.field];
    f.type = &at->second;
    f.kind = at->second.values.empty() ? 'm' : 'e';
  }
}

const PbType& PbSchema::type(std::string_view name) const {
  const auto at = types_.find(name);
  if (at == types_.end()) throw internal_error("the schema lacks the type {}", name);
  return at->second;
}

PbMessage PbMessage::from_wire(const PbType& type, const Blob& blob, std::size_t offset) {
  PbMessage m;
  m.type_ = &type;
  m.keeper_ = blob.keeper;
  m.offset_ = offset;
  WireReader reader(blob.bytes, offset);
  for (WireField f; reader.next(f);) {
    const auto known = type.by_number.find(f.number);
    if (known == type.by_number.end() && type.strict)
      throw bad_input(
          "byte {}: the settings {} have a field {} whose meaning is not known here, and without "
          "it the "
          "network would mean something else; write the file again without it",
          f.offset, type.name, f.number);
    if (known == type.by_number.end()) continue;
    Item item;
    item.field = static_cast<std::uint32_t>(known->second);
    item.wire = f.type;
    item.payload = f.payload;
    item.bits = f.offset;
    if (f.type == 0) {
      std::size_t at = 0;
      varint_at(f.whole, at);
      item.bits = varint_at(f.whole, at);
    }
    m.items_.push_back(std::move(item));
  }
  return m;
}

// One pass over the text, messages as nested items.
class PbMessage::TextReader {
 public:
  explicit TextReader(std::string_view text) : text_(text) {}

  PbMessage message(const PbType* type, int depth, char close) {
    if (depth > kMaxDepth) fail("messages nest deeper than any model needs");
    PbMessage m;
    m.type_ = type;
    m.depth_ = depth;
    for (;;) {
      skip();
      if (at_ == text_.size()) {
        if (close != 0) fail("the text ends inside a message");
        return m;
      }
      if (text_[at_] == close && close != 0) {
        ++at_;
        return m;
      }
      if (text_[at_] == ',' || text_[at_] == ';') {
        ++at_;
        continue;
      }
      const std::string name = word();
      const PbField* field = nullptr;
      std::uint32_t index = 0;
      if (type != nullptr)
        if (const auto known = type->by_name.find(name); known != type->by_name.end()) {
          index = static_cast<std::uint32_t>(known->second);
          field = &type->fields[index];
        }
      if (field == nullptr && type != nullptr && type->strict)
        fail(fmt::format(
            "the settings {} have a field '{}' whose meaning is not known here, and without it the "
            "network would mean something else; take it out if it serves training alone",
            type->name, printable(name)));
      skip();
      if (at_ < text_.size() && text_[at_] == ':') ++at_;
      skip();
      const bool list = at_ < text_.size() && text_[at_] == '[';
      if (list) ++at_;
      for (;;) {
        skip();
        if (at_ == text_.size()) fail("the text ends where a value must stand");
        if (list && text_[at_] == ']') {
          ++at_;
          break;
        }
        if (list && text_[at_] == ',') {
          ++at_;
          continue;
        }
        Item item;
        item.field = index;
        if (text_[at_] == '{' || text_[at_] == '<') {
          const char end = text_[at_++] == '{' ? '}' : '>';
          const PbType* inner = field != nullptr && field->kind == 'm' ? field->type : nullptr;
          item.wire = 4;
          PbMessage child = message(inner, depth + 1, end);
          if (field != nullptr && field->kind != 'm')
            fail(fmt::format("{} is no message", printable(name)));
          item.child = std::make_shared<const PbMessage>(std::move(child));
        } else {
          if (field != nullptr && field->kind == 'm')
            fail(fmt::format("{} is a message; expected {{", printable(name)));
          item.wire = 3;
          item.words = std::make_shared<const std::string>(scalar());
        }
        if (field != nullptr) m.items_.push_back(std::move(item));
        if (!list) break;
      }
    }
  }

 private:
  [[noreturn]] void fail(std::string_view what) const {
    std::size_t line = 1;
    for (const char c : text_.substr(0, at_)) line += c == '\n' ? 1 : 0;
    throw bad_input("line {}: {}", line, what);
  }
  void skip() {
    for (; at_ < text_.size(); ++at_) {
      if (text_[at_] == '#')
        at_ = std::min(text_.find('\n', at_), text_.size() - 1);
      else if (text_[at_] != ' ' && text_[at_] != '\t' && text_[at_] != '\n' && text_[at_] != '\r')
        return;
    }
  }
  static bool in_word(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '.' || c == '-' || c == '+';
  }
  std::string word() {
    const std::size_t begin = at_;
    while (at_ < text_.size() && in_word(text_[at_])) ++at_;
    if (at_ == begin)
      fail(fmt::format("'{}' cannot stand here; the text is damaged or of another format",
                       printable(text_.substr(at_, 1))));
    return std::string(text_.substr(begin, at_ - begin));
  }
  std::string scalar() {
    if (text_[at_] != '"' && text_[at_] != '\'') return word();
    std::string out;
    while (at_ < text_.size() && (text_[at_] == '"' || text_[at_] == '\'')) {
      const char quote = text_[at_++];
      for (;; ++at_) {
        if (at_ >= text_.size() || text_[at_] == '\n') fail("a text in quotes does not end");
        if (text_[at_] == quote) break;
        if (text_[at_] == '\\') {
          escape(out);
          continue;
        }
        out.push_back(text_[at_]);
      }
      ++at_;
      skip();
    }
    return out;
  }
  // At a backslash; leaves at the last character of the escape.
  void escape(std::string& out) {
    if (++at_ >= text_.size()) fail("a text in quotes does not end");
    const char c = text_[at_];
    constexpr std::string_view kFrom = "abfnrtv\\'\"?", kTo = "\a\b\f\n\r\t\v\\'\"?";
    if (const std::size_t i = kFrom.find(c); i != std::string_view::npos) {
      out.push_back(kTo[i]);
      return;
    }
    const int base = c == 'x' || c == 'X' ? 16 : 8;
    if (base == 16) ++at_;
    const std::size_t most = base == 16 ? 2 : 3;
    std::size_t n = 0;
    int value = 0;
    for (; n < most && at_ < text_.size(); ++n, ++at_) {
      const auto digit =
          std::string_view("0123456789abcdef")
              .find(static_cast<char>(text_[at_] >= 'A' && text_[at_] <= 'F' ? text_[at_] + 32
                                                                             : text_[at_]));
      if (digit >= static_cast<std::size_t>(base)) break;
      value = value * base + static_cast<int>(digit);
    }
    if (n == 0) fail("an escape that is none");
    out.push_back(static_cast<char>(value));
    --at_;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

PbMessage PbMessage::from_text(const PbType& type, std::string_view text) {
  return TextReader(text).message(&type, 0, 0);
}

std::uint32_t PbMessage::index_of(std::string_view field) const {
  const auto at = type_->by_name.find(field);
  if (at == type_->by_name.end()) throw bad_input("a {} has no {}", type_->name, field);
  return static_cast<std::uint32_t>(at->second);
}

template <class F>
void PbMessage::each(std::string_view field, F&& f) const {
  if (type_ == nullptr) return;
  const std::uint32_t index = index_of(field);
  for (const Item& item : items_)
    if (item.field == index) f(item);
}

std::size_t PbMessage::count(std::string_view field) const {
  std::size_t n = 0;
  each(field, [&](const Item&) { ++n; });
  return n;
}

const PbMessage::Item* PbMessage::last(std::string_view field) const {
  const Item* found = nullptr;
  each(field, [&](const Item& item) { found = &item; });
  return found;
}

template <class T>
void PbMessage::append(std::vector<T>& out, const Item& item) const {
  const PbField& f = field_of(item);
  const auto push = [&](auto value) { out.push_back(static_cast<T>(value)); };
  const auto real = [&](std::span<const std::byte> bytes, std::size_t at) {
    if (f.kind == 'f')
      push(load_le<float>(bytes, at));
    else if (f.kind == 'd')
      push(load_le<double>(bytes, at));
    else
      push(load_le<std::int64_t>(bytes, at));
  };
  if (item.wire == 3) {
    std::string text = *item.words;
    if (f.kind == 'e') {
      for (const auto& [name, value] : f.type->values)
        if (name == text) return push(value);
    }
    if (f.kind == 'i' && (text == "true" || text == "false")) return push(text == "true" ? 1 : 0);
    if (!text.empty() && text[0] == '+') text.erase(0, 1);
    if constexpr (std::is_floating_point_v<T>) {
      if (!text.empty() && (text.back() == 'f' || text.back() == 'F') && text != "inf" &&
          text != "-inf")
        text.pop_back();
      double value = 0;
      const auto r = std::from_chars(text.data(), text.data() + text.size(), value);
      if (r.ec != std::errc() || r.ptr != text.data() + text.size())
        throw bad_input("{} must be a number, got '{}'", f.name, printable(text));
      return push(value);
    } else {
      std::int64_t value = 0;
      const auto r = std::from_chars(text.data(), text.data() + text.size(), value);
      if (r.ec != std::errc() || r.ptr != text.data() + text.size())
        throw bad_input("{} must be a whole number, got '{}'", f.name, printable(text));
      return push(value);
    }
  }
  if (f.kind == 'i' || f.kind == 'e') {
    if (item.wire == 0) return push(static_cast<std::int64_t>(item.bits));
    if (item.wire != 2) throw ill_written(item);
    for (std::size_t at = 0; at < item.payload.size();)
      push(static_cast<std::int64_t>(varint_at(item.payload, at)));
    return;
  }
  const std::size_t size = f.kind == 'f' ? 4 : 8;
  if (item.wire != 2 && item.wire != (size == 4 ? 5 : 1)) throw ill_written(item);
  if ((f.kind != 'f' && f.kind != 'd' && f.kind != 'I') || item.payload.size() % size != 0)
    throw ill_written(item);
  for (std::size_t at = 0; at < item.payload.size(); at += size) real(item.payload, at);
}

std::int64_t PbMessage::integer(std::string_view field, std::int64_t otherwise) const {
  const Item* item = last(field);
  if (item == nullptr) return otherwise;
  Ints one;
  append(one, *item);
  return one.empty() ? otherwise : one.back();
}

float PbMessage::number(std::string_view field, float otherwise) const {
  const Item* item = last(field);
  if (item == nullptr) return otherwise;
  std::vector<double> one;
  append(one, *item);
  return one.empty() ? otherwise : static_cast<float>(one.back());
}

bool PbMessage::flag(std::string_view field, bool otherwise) const {
  return integer(field, otherwise ? 1 : 0) != 0;
}

std::string PbMessage::text_of(const Item& item) const {
  const PbField& f = field_of(item);
  if (item.wire == 3) {
    if (f.kind == 'e' && !item.words->empty() && (*item.words)[0] >= '0' && (*item.words)[0] <= '9')
      for (const auto& [name, value] : f.type->values)
        if (std::to_string(value) == *item.words) return name;
    return *item.words;
  }
  if (f.kind == 'e') {
    const auto number = static_cast<std::int64_t>(item.bits);
    for (const auto& [name, value] : f.type->values)
      if (value == number) return name;
    return fmt::format("#{}", number);
  }
  if (item.wire != 2) throw ill_written(item);
  return {reinterpret_cast<const char*>(item.payload.data()), item.payload.size()};
}

std::string PbMessage::text(std::string_view field, std::string_view otherwise) const {
  const Item* item = last(field);
  return item == nullptr ? std::string(otherwise) : text_of(*item);
}

std::string_view PbMessage::bytes(std::string_view field) const {
  const Item* item = last(field);
  if (item == nullptr) return {};
  if (item->wire == 3) return *item->words;
  return {reinterpret_cast<const char*>(item->payload.data()), item->payload.size()};
}

Blob PbMessage::blob(std::string_view field) const {
  const Item* item = last(field);
  if (item == nullptr) return {};
  if (item->wire == 3) {
    const std::string_view view = *item->words;
    return {std::as_bytes(std::span(view.data(), view.size())), item->words};
  }
  return {item->payload, keeper_};
}

Ints PbMessage::integers(std::string_view field) const {
  Ints out;
  each(field, [&](const Item& item) { append(out, item); });
  return out;
}

std::vector<float> PbMessage::numbers(std::string_view field) const {
  std::vector<float> out;
  each(field, [&](const Item& item) { append(out, item); });
  return out;
}

std::vector<std::string> PbMessage::texts(std::string_view field) const {
  std::vector<std::string> out;
  each(field, [&](const Item& item) { out.push_back(text_of(item)); });
  return out;
}

Error PbMessage::ill_written(const Item& item) const {
  const PbField& f = field_of(item);
  if (item.wire == 3)
    return bad_input("{}.{} is '{}', which is not written as its type is; the file is damaged",
                     type_->name, f.name, printable(*item.words));
  return bad_input(
      "{}.{} is not written as its type is, in the message at byte {}; the file is damaged",
      type_->name, f.name, offset_);
}

PbMessage PbMessage::child_of(const Item& item) const {
  const PbField& f = field_of(item);
  if (f.kind != 'm') throw internal_error("{}.{} is no message", type_->name, f.name);
  if (item.wire == 4) return *item.child;
  if (item.wire != 2) throw ill_written(item);
  if (depth_ >= kMaxDepth)
    throw bad_input("{}.{}: messages nest deeper than any model needs", type_->name, f.name);
  PbMessage m = from_wire(*f.type, {item.payload, keeper_}, item.bits);
  m.depth_ = depth_ + 1;
  return m;
}

PbMessage PbMessage::message(std::string_view field) const {
  const Item* item = last(field);
  if (item != nullptr) return child_of(*item);
  PbMessage none;
  if (type_ != nullptr) none.type_ = type_->fields[index_of(field)].type;
  return none;
}

std::vector<PbMessage> PbMessage::messages(std::string_view field) const {
  std::vector<PbMessage> out;
  each(field, [&](const Item& item) { out.push_back(child_of(item)); });
  return out;
}

Tensor PbMessage::tensor(std::string_view field) const {
  const Item* first = last(field);
  if (first == nullptr) return Tensor::zeros(DType::f32, {0});
  const bool wide = field_of(*first).kind == 'd';
  if (count(field) == 1 && first->wire == 2) {
    const std::size_t size = wide ? 8 : 4;
    if (first->payload.size() % size != 0)
      throw bad_input("{}.{} holds {} bytes, no whole number of elements", type_->name, field,
                      first->payload.size());
    return tensor_from_bytes(
        {wide ? DType::f64 : DType::f32, {static_cast<std::int64_t>(first->payload.size() / size)}},
        {first->payload, keeper_});
  }
  if (wide) {
    std::vector<double> values;
    each(field, [&](const Item& item) { append(values, item); });
    return Tensor::of<double>({static_cast<std::int64_t>(values.size())}, values);
  }
  const std::vector<float> values = numbers(field);
  return Tensor::of<float>({static_cast<std::int64_t>(values.size())}, values);
}

std::vector<PeekedField> peek_fields(std::span<const std::byte> prefix, std::size_t most) {
  std::vector<PeekedField> fields;
  const auto varint = [&](std::size_t& at, std::uint64_t& value) {
    value = 0;
    for (int shift = 0; shift < 64 && at < prefix.size(); shift += 7) {
      const auto b = std::to_integer<std::uint64_t>(prefix[at++]);
      value |= (b & 0x7f) << shift;
      if (b < 0x80) return true;
    }
    return false;
  };
  for (std::size_t at = 0; at < prefix.size() && fields.size() < most;) {
    PeekedField f;
    std::uint64_t tag = 0;
    if (!varint(at, tag) || tag >> 3 == 0 || tag >> 3 > 0x1fffffff) break;
    f.number = static_cast<std::uint32_t>(tag >> 3);
    f.wire = static_cast<int>(tag & 7);
    std::uint64_t length = 0;
    if (f.wire == 0) {
      if (!varint(at, f.value)) break;
    } else if (f.wire == 2) {
      if (!varint(at, length)) break;
      f.value = length;
    } else if (f.wire == 1 || f.wire == 5) {
      length = f.wire == 1 ? 8 : 4;
    } else {
      fields.clear();
      break;
    }
    f.payload = prefix.subspan(at, std::min<std::uint64_t>(length, prefix.size() - at));
    at += f.payload.size();
    fields.push_back(f);
    if (f.payload.size() < length) break;
  }
  return fields;
}

}  // namespace etalon
