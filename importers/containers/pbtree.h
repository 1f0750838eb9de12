// Protobuf messages read by name, from the wire format and from the text format
// alike, under a schema that is a table of ours. Nothing is built but an index
// of the fields: large ones are read in place, and an unknown field is passed
// over (`etalon inspect` of a newer file still works).
//
// A schema is text, one type a line: "Name field number kind field number kind
// ...". Kinds: i (integers and bool, varint), f (float), d (double), s (string,
// bytes), I (fixed64), or the name of a message or of an enumeration.
// Enumerations: "enum Name VALUE number VALUE number ...". A type "!Name" is one whose every field
// means something: what the schema lacks is refused by its name or number. Whether a field is
// repeated is decided by who asks; of several, a single one is the last, as
// protobuf has it. Sources: protobuf.dev, "Encoding" and "Text Format Language
// Specification".
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/core/error.h"
#include "engine/core/tensor.h"
#include "engine/ops/params.h"
#include "importers/containers/bytes.h"

namespace etalon {

struct PbType;

struct PbField {
  std::string name;
  std::uint32_t number = 0;
  char kind = 'i';               // one of "ifdsI", 'm' message, 'e' enumeration
  const PbType* type = nullptr;  // of a message or enumeration
};

struct PbType {
  std::string name;
  bool strict = false;
  std::vector<PbField> fields;
  std::vector<std::pair<std::string, std::int64_t>> values;  // of an enumeration
  std::map<std::uint32_t, std::size_t> by_number;
  std::map<std::string, std::size_t, std::less<>> by_name;
};

class PbSchema {
 public:
  explicit PbSchema(std::string_view text);
  const PbType& type(std::string_view name) const;

 private:
  std::map<std::string, PbType, std::less<>> types_;
};

class PbMessage {
 public:
  PbMessage() = default;
  // A bad-input Error names the byte where the message breaks.
  static PbMessage from_wire(const PbType& type, const Blob& blob, std::size_t offset = 0);
  // A bad-input Error names the line.
  static PbMessage from_text(const PbType& type, std::string_view text);

  bool has(std::string_view field) const { return count(field) != 0; }
  std::size_t count(std::string_view field) const;  // of a packed field: 1
  std::int64_t integer(std::string_view field, std::int64_t otherwise = 0) const;
  float number(std::string_view field, float otherwise = 0) const;
  bool flag(std::string_view field, bool otherwise = false) const;
  // A string, bytes, or the name of an enumeration's value ("#7" where it has
  // none).
  std::string text(std::string_view field, std::string_view otherwise = "") const;
  std::string_view bytes(std::string_view field) const;
  Ints integers(std::string_view field) const;
  std::vector<float> numbers(std::string_view field) const;
  std::vector<std::string> texts(std::string_view field) const;
  PbMessage message(std::string_view field) const;  // an empty one when it is not there
  std::vector<PbMessage> messages(std::string_view field) const;
  // All numbers of a field of floats (f) or doubles (d): in place where they
  // lie so.
  Tensor tensor(std::string_view field) const;
  Blob blob(std::string_view field) const;  // of bytes

 private:
  struct Item {
    std::uint32_t field = 0;  // index in the type's list
    std::int32_t wire = 0;    // 0, 1, 2, 5 as in the file; 3: text; 4: a message of the text
    std::uint64_t bits = 0;   // of wire 0; of wire 2 the offset in the file
    std::span<const std::byte> payload;
    std::shared_ptr<const PbMessage> child;
    std::shared_ptr<const std::string> words;
  };
  class TextReader;
  const PbField& field_of(const Item& item) const { return type_->fields[item.field]; }
  std::uint32_t index_of(std::string_view field) const;
  const Item* last(std::string_view field) const;
  template <class F>
  void each(std::string_view field, F&& f) const;
  PbMessage child_of(const Item& item) const;
  Error ill_written(const Item& item) const;
  std::string text_of(const Item& item) const;
  template <class T>
  void append(std::vector<T>& out, const Item& item) const;

  const PbType* type_ = nullptr;
  std::vector<Item> items_;
  std::shared_ptr<const void> keeper_;
  int depth_ = 0;
  std::size_t offset_ = 0;  // in the file, of a message that is not text
};

// The fields at the begin of a message that may be cut: what a format is recognised by. Stops
// without an Error where the bytes are no message; the last payload may be short.
struct PeekedField {
  std::uint32_t number = 0;
  int wire = 0;
  std::span<const std::byte> payload;
  std::uint64_t value = 0;  // of wire 0; of wire 2 the length
};
std::vector<PeekedField> peek_fields(std::span<const std::byte> prefix, std::size_t most = 64);

}  // namespace etalon
