// MessagePack, as values that point into the file: texts and byte strings are not copied.
//
// A map's keys may be anything here and stand twice; who reads a map says what it wants. Each
// element takes at least one byte of the file, so memory is bounded by a factor of its size; depth
// is bounded. Source: the MessagePack specification.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "importers/containers/bytes.h"

namespace etalon {

struct MsgValue {
  enum class Kind : std::uint8_t {
    nil,
    boolean,
    integer,
    real,
    text,
    bytes,
    array,
    map,
    extension
  };
  Kind kind = Kind::nil;
  std::int8_t type = 0;      // of an extension
  std::int64_t integer = 0;  // of a boolean 0 or 1; of an unsigned one its 64 bits
  double real = 0;
  std::span<const std::byte> data;  // of text, bytes, extension
  std::vector<MsgValue> items;      // elements; of a map key, value, key, value, ...

  bool is(Kind k) const { return kind == k; }
  std::string_view text() const {
    return {reinterpret_cast<const char*>(data.data()), data.size()};
  }
  const MsgValue* find(std::string_view key) const;  // of a map; nullptr when there is none
};

// The one value that the bytes are; a bad-input Error names the offset otherwise.
MsgValue read_msgpack(std::span<const std::byte> bytes);

}  // namespace etalon
