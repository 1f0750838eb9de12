// The wire format of protobuf, as far as it takes to find things in a message without building it:
// where large fields lie (so that they are read in place), and where a damaged message breaks.
// Messages are built by protobuf's own parser.
//
// A message is a sequence of fields: a varint tag (number * 8 + type), then a varint (type 0), 8
// bytes (1), a varint length and bytes (2) or 4 bytes (5). Source: protobuf.dev, "Encoding".
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace etalon {

struct WireField {
  std::uint32_t number = 0;
  int type = 0;
  std::size_t offset = 0;              // of the payload, from the begin of the file
  std::span<const std::byte> payload;  // of types 1, 2 and 5
  std::span<const std::byte> whole;    // tag, length and payload
};

class WireReader {
 public:
  // `offset`: where `bytes` begin in the file, for messages.
  WireReader(std::span<const std::byte> bytes, std::size_t offset)
      : bytes_(bytes), offset_(offset) {}
  // False at the end; a bad-input Error with the byte offset where a field does not fit.
  bool next(WireField& field);

 private:
  std::uint64_t varint();
  std::span<const std::byte> bytes_;
  std::size_t offset_ = 0, at_ = 0;
};

void put_varint(std::string& out, std::uint64_t value);
// Tag and length of a field of type 2.
void put_length(std::string& out, std::uint32_t number, std::uint64_t length);

}  // namespace etalon
