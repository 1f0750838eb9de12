#include "importers/containers/protobuf.h"

#include "engine/core/error.h"

namespace etalon {

std::uint64_t WireReader::varint() {
  std::uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    if (at_ == bytes_.size())
      throw bad_input("byte {}: the message ends inside a number; the file is cut short",
                      offset_ + at_);
    const auto b = std::to_integer<std::uint64_t>(bytes_[at_++]);
    value |= (b & 0x7f) << shift;
    if (b < 0x80) return value;
  }
  throw bad_input("byte {}: a number longer than 64 bits; the file is damaged", offset_ + at_);
}

bool WireReader::next(WireField& field) {
  if (at_ == bytes_.size()) return false;
  const std::size_t begin = at_;
  const std::uint64_t tag = varint();
  field.type = static_cast<int>(tag & 7);
  if (tag >> 3 == 0 || tag >> 3 > 0x1fffffff)
    throw bad_input("byte {}: no field has the number {}; the file is damaged or no protobuf",
                    offset_ + begin, tag >> 3);
  field.number = static_cast<std::uint32_t>(tag >> 3);
  std::uint64_t length = 0;
  switch (field.type) {
    case 0:
      field.offset = offset_ + at_;
      varint();
      break;
    case 1:
      length = 8;
      break;
    case 2:
      length = varint();
      break;
    case 5:
      length = 4;
      break;
    default:
      throw bad_input("byte {}: field {} has the unknown wire type {}; the file is damaged",
                      offset_ + begin, field.number, field.type);
  }
  if (field.type != 0) field.offset = offset_ + at_;
  if (length > bytes_.size() - at_)
    throw bad_input("byte {}: field {} claims {} bytes, {} remain; the file is cut short",
                    offset_ + begin, field.number, length, bytes_.size() - at_);
  field.payload = bytes_.subspan(at_, length);
  at_ += length;
  field.whole = bytes_.subspan(begin, at_ - begin);
  return true;
}

void put_varint(std::string& out, std::uint64_t value) {
  while (value >= 0x80) {
    out.push_back(static_cast<char>(value | 0x80));
    value >>= 7;
  }
  out.push_back(static_cast<char>(value));
}

void put_length(std::string& out, std::uint32_t number, std::uint64_t length) {
  put_varint(out, std::uint64_t{number} << 3 | 2);
  put_varint(out, length);
}

}  // namespace etalon
