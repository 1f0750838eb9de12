#include "importers/containers/flexbuffers.h"

#include <optional>

#include "engine/core/error.h"
#include "importers/containers/bytes.h"

namespace etalon {
namespace {

enum Kind : unsigned {
  kInt = 1,
  kUint = 2,
  kFloat = 3,
  kIndirectInt = 6,
  kIndirectUint = 7,
  kIndirectFloat = 8,
  kMap = 9,
  kBool = 26
};

class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  std::size_t size() const { return bytes_.size(); }

  std::uint64_t number(std::size_t at, std::size_t width) const {
    check(at, width);
    switch (width) {
      case 1:
        return load_le<std::uint8_t>(bytes_, at);
      case 2:
        return load_le<std::uint16_t>(bytes_, at);
      case 4:
        return load_le<std::uint32_t>(bytes_, at);
      case 8:
        return load_le<std::uint64_t>(bytes_, at);
      default:
        throw bad_input("a FlexBuffer's width of {} bytes", width);
    }
  }
  // What stands `bytes` before `at`.
  std::size_t before(std::size_t at, std::uint64_t bytes) const {
    if (bytes > at) throw bad_input("a FlexBuffer's offset of {} at byte {}", bytes, at);
    return at - static_cast<std::size_t>(bytes);
  }
  std::size_t target(std::size_t at, std::size_t width) const {
    return before(at, number(at, width));
  }
  std::string text(std::size_t at) const {
    std::string out;
    for (; number(at, 1) != 0; ++at) out.push_back(static_cast<char>(number(at, 1)));
    return out;
  }
  std::optional<double> value(std::size_t at, std::size_t width, std::uint8_t type) const {
    unsigned kind = type >> 2U;
    if (kind >= kIndirectInt && kind <= kIndirectFloat) {
      at = target(at, width);
      width = std::size_t{1} << (type & 3U);
      kind -= kIndirectInt - kInt;
    }
    if (kind == kUint || kind == kBool) return static_cast<double>(number(at, width));
    if (kind == kInt) return static_cast<double>(with_sign(number(at, width), width));
    if (kind == kFloat && width == 4)
      return std::bit_cast<float>(static_cast<std::uint32_t>(number(at, width)));
    if (kind == kFloat && width == 8) return std::bit_cast<double>(number(at, width));
    return std::nullopt;
  }

 private:
  static std::int64_t with_sign(std::uint64_t v, std::size_t width) {
    const std::size_t unused = 64 - 8 * width;
    return static_cast<std::int64_t>(v << unused) >> unused;
  }
  void check(std::size_t at, std::size_t width) const {
    if (at > bytes_.size() || width > bytes_.size() - at)
      throw bad_input("a FlexBuffer of {} bytes reaches to byte {}", bytes_.size(), at + width);
  }

  std::span<const std::byte> bytes_;
};

}  // namespace

std::map<std::string, double, std::less<>> flexbuffer_numbers(std::span<const std::byte> bytes) {
  const Reader in(bytes);
  if (bytes.size() < 3) throw bad_input("a FlexBuffer of {} bytes", bytes.size());
  const auto root_width = static_cast<std::size_t>(in.number(bytes.size() - 1, 1));
  const auto type = static_cast<std::uint8_t>(in.number(bytes.size() - 2, 1));
  if (type >> 2U != kMap) throw bad_input("a FlexBuffer whose root is no map");
  const std::size_t map = in.target(in.before(bytes.size() - 2, root_width), root_width);
  const std::size_t width = std::size_t{1} << (type & 3U);
  const std::uint64_t count = in.number(in.before(map, width), width);
  if (count > bytes.size()) throw bad_input("a FlexBuffer of {} values", count);
  const auto key_width = static_cast<std::size_t>(in.number(in.before(map, 2 * width), width));
  const std::size_t keys = in.target(in.before(map, 3 * width), width);
  std::map<std::string, double, std::less<>> out;
  std::size_t texts = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t at = map + i * width;
    const auto kind = static_cast<std::uint8_t>(in.number(map + count * width + i, 1));
    std::string key = in.text(in.target(keys + i * key_width, key_width));
    // Keys may share their bytes; what is copied stays within what was read.
    texts += key.size();
    if (texts > 16 * bytes.size()) throw bad_input("a FlexBuffer whose keys are one text");
    if (const auto v = in.value(at, width, kind)) out[std::move(key)] = *v;
  }
  return out;
}

}  // namespace etalon
