#include "importers/containers/msgpack.h"

#include <algorithm>
#include <bit>

#include "engine/core/error.h"

namespace etalon {
namespace {

using Kind = MsgValue::Kind;
constexpr int kMaxDepth = 64;

class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  MsgValue value(int depth) {
    if (depth > kMaxDepth) throw bad_input("byte {}: nested deeper than 64", at_);
    const auto b = static_cast<std::uint8_t>(take(1)[0]);
    if (b <= 0x7f) return integer(b);
    if (b <= 0x8f) return items(Kind::map, b & 15, depth);
    if (b <= 0x9f) return items(Kind::array, b & 15, depth);
    if (b <= 0xbf) return blob(Kind::text, b & 31);
    if (b >= 0xe0) return integer(static_cast<std::int8_t>(b));
    switch (b) {
      case 0xc0:
        return {};
      case 0xc2:
      case 0xc3: {
        MsgValue v = integer(b - 0xc2);
        v.kind = Kind::boolean;
        return v;
      }
      case 0xc4:
      case 0xc5:
      case 0xc6:
        return blob(Kind::bytes, big(1U << (b - 0xc4)));
      case 0xc7:
      case 0xc8:
      case 0xc9:
        return extension(big(1U << (b - 0xc7)));
      case 0xca:
        return real(std::bit_cast<float>(static_cast<std::uint32_t>(big(4))));
      case 0xcb:
        return real(std::bit_cast<double>(big(8)));
      case 0xcc:
      case 0xcd:
      case 0xce:
      case 0xcf:
        return integer(static_cast<std::int64_t>(big(1U << (b - 0xcc))));
      case 0xd0:
        return integer(static_cast<std::int8_t>(big(1)));
      case 0xd1:
        return integer(static_cast<std::int16_t>(big(2)));
      case 0xd2:
        return integer(static_cast<std::int32_t>(big(4)));
      case 0xd3:
        return integer(static_cast<std::int64_t>(big(8)));
      case 0xd4:
      case 0xd5:
      case 0xd6:
      case 0xd7:
      case 0xd8:
        return extension(std::uint64_t{1} << (b - 0xd4));
      case 0xd9:
      case 0xda:
      case 0xdb:
        return blob(Kind::text, big(1U << (b - 0xd9)));
      case 0xdc:
      case 0xdd:
        return items(Kind::array, big(b == 0xdc ? 2 : 4), depth);
      case 0xde:
      case 0xdf:
        return items(Kind::map, big(b == 0xde ? 2 : 4), depth);
      default:
        throw bad_input("byte {}: {:#x} begins no value", at_ - 1, b);
    }
  }
  bool done() const { return at_ == bytes_.size(); }
  std::size_t at() const { return at_; }

 private:
  std::span<const std::byte> take(std::uint64_t n) {
    if (n > bytes_.size() - at_)
      throw bad_input("byte {}: {} bytes are claimed, {} are left; the file is cut short", at_, n,
                      bytes_.size() - at_);
    const auto part = bytes_.subspan(at_, static_cast<std::size_t>(n));
    at_ += static_cast<std::size_t>(n);
    return part;
  }
  std::uint64_t big(std::size_t bytes) {
    std::uint64_t v = 0;
    for (const std::byte b : take(bytes)) v = v << 8 | static_cast<std::uint8_t>(b);
    return v;
  }
  static MsgValue integer(std::int64_t n) {
    MsgValue v;
    v.kind = Kind::integer;
    v.integer = n;
    return v;
  }
  static MsgValue real(double r) {
    MsgValue v;
    v.kind = Kind::real;
    v.real = r;
    return v;
  }
  MsgValue blob(Kind kind, std::uint64_t n) {
    MsgValue v;
    v.kind = kind;
    v.data = take(n);
    return v;
  }
  MsgValue extension(std::uint64_t n) {
    const auto type = static_cast<std::int8_t>(take(1)[0]);
    MsgValue v = blob(Kind::extension, n);
    v.type = type;
    return v;
  }
  MsgValue items(Kind kind, std::uint64_t count, int depth) {
    if (kind == Kind::map) count *= 2;
    if (count > bytes_.size() - at_)
      throw bad_input("byte {}: {} values are claimed, {} bytes are left", at_, count,
                      bytes_.size() - at_);
    MsgValue v;
    v.kind = kind;
    for (std::uint64_t i = 0; i < count; ++i) v.items.push_back(value(depth + 1));
    return v;
  }

  std::span<const std::byte> bytes_;
  std::size_t at_ = 0;
};

}  // namespace

const MsgValue* MsgValue::find(std::string_view key) const {
  if (kind != Kind::map) return nullptr;
  for (std::size_t i = 0; i + 1 < items.size(); i += 2)
    if (items[i].is(Kind::text) && items[i].text() == key) return &items[i + 1];
  return nullptr;
}

MsgValue read_msgpack(std::span<const std::byte> bytes) {
  Reader r(bytes);
  MsgValue v = r.value(0);
  if (!r.done()) throw bad_input("byte {}: more behind the value", r.at());
  return v;
}

}  // namespace etalon
