// Members are unpacked, one is mutated by its own kind, and all are stored again with right sizes
// and checksums; now and then it is the directory that lies.
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

#include "tests/fuzz/mutate.h"

namespace etalon::fuzz {
namespace {

struct Member {
  std::string name;
  Bytes data;
  std::uint32_t attributes = 0;
  std::uint32_t claimed = 0;  // another size than it has, where not 0
};

std::uint32_t get(const Bytes& in, std::size_t at, std::size_t width) {
  std::uint32_t v = 0;
  std::memcpy(&v, in.data() + at, width);
  return v;
}
void put(Bytes& out, std::uint32_t value, std::size_t width) {
  for (std::size_t i = 0; i < width; ++i)
    out.push_back(static_cast<std::uint8_t>(value >> (8 * i)));
}

std::optional<Bytes> inflated(const std::uint8_t* from, std::size_t size, std::size_t wanted) {
  if (wanted > 1U << 22) return std::nullopt;
  Bytes out(wanted);
  z_stream z{};
  if (inflateInit2(&z, -15) != Z_OK) return std::nullopt;
  z.next_in = const_cast<Bytef*>(from);
  z.avail_in = static_cast<uInt>(size);
  z.next_out = out.data();
  z.avail_out = static_cast<uInt>(out.size());
  const int result = inflate(&z, Z_FINISH);
  inflateEnd(&z);
  if (result != Z_STREAM_END) return std::nullopt;
  return out;
}

std::optional<std::vector<Member>> parse(const Bytes& in) {
  if (in.size() < 22 || std::memcmp(in.data(), "PK\3\4", 4) != 0) return std::nullopt;
  std::size_t end = in.size() - 22;
  while (end > 0 && std::memcmp(in.data() + end, "PK\5\6", 4) != 0) --end;
  std::size_t at = get(in, end + 16, 4);
  std::vector<Member> out;
  while (at + 46 <= in.size() && std::memcmp(in.data() + at, "PK\1\2", 4) == 0) {
    const std::uint32_t method = get(in, at + 10, 2), packed = get(in, at + 20, 4),
                        size = get(in, at + 24, 4), name = get(in, at + 28, 2),
                        extra = get(in, at + 30, 2), comment = get(in, at + 32, 2),
                        header = get(in, at + 42, 4);
    if (at + 46 + name > in.size() || std::size_t{header} + 30 > in.size()) return std::nullopt;
    Member m;
    m.name.assign(reinterpret_cast<const char*>(in.data()) + at + 46, name);
    m.attributes = get(in, at + 38, 4);
    const std::size_t data =
        std::size_t{header} + 30 + get(in, header + 26, 2) + get(in, header + 28, 2);
    if (data > in.size() || packed > in.size() - data) return std::nullopt;
    if (method == 0) {
      m.data.assign(in.begin() + static_cast<std::ptrdiff_t>(data),
                    in.begin() + static_cast<std::ptrdiff_t>(data + packed));
    } else {
      auto plain = inflated(in.data() + data, packed, size);
      if (!plain) return std::nullopt;
      m.data = std::move(*plain);
    }
    out.push_back(std::move(m));
    at += std::size_t{46} + name + extra + comment;
  }
  if (out.empty()) return std::nullopt;
  return out;
}

Bytes serialised(const std::vector<Member>& members) {
  Bytes out, directory;
  for (const Member& m : members) {
    const auto at = static_cast<std::uint32_t>(out.size());
    const auto size = static_cast<std::uint32_t>(m.data.size());
    const std::uint32_t claimed = m.claimed == 0 ? size : m.claimed;
    const auto crc = static_cast<std::uint32_t>(crc32(0, m.data.data(), size));
    const auto common = [&](Bytes& to) {
      put(to, 20, 2);
      put(to, 0, 2);
      put(to, 0, 2);
      put(to, 0, 4);
      put(to, crc, 4);
      put(to, claimed, 4);
      put(to, claimed, 4);
      put(to, static_cast<std::uint32_t>(m.name.size()), 2);
      put(to, 0, 2);
    };
    put(out, 0x04034b50, 4);
    common(out);
    out.insert(out.end(), m.name.begin(), m.name.end());
    out.insert(out.end(), m.data.begin(), m.data.end());
    put(directory, 0x02014b50, 4);
    put(directory, 0x0314, 2);
    common(directory);
    put(directory, 0, 2);
    put(directory, 0, 2);
    put(directory, 0, 2);
    put(directory, m.attributes, 4);
    put(directory, at, 4);
    directory.insert(directory.end(), m.name.begin(), m.name.end());
  }
  const auto begin = static_cast<std::uint32_t>(out.size());
  out.insert(out.end(), directory.begin(), directory.end());
  put(out, 0x06054b50, 4);
  put(out, 0, 4);
  put(out, static_cast<std::uint32_t>(members.size()), 2);
  put(out, static_cast<std::uint32_t>(members.size()), 2);
  put(out, static_cast<std::uint32_t>(directory.size()), 4);
  put(out, begin, 4);
  put(out, 0, 2);
  return out;
}

}  // namespace

bool mutate_zip(Bytes& file, Draw& draw) {
  auto members = parse(file);
  if (!members) return false;
  Member& m = (*members)[draw.below(members->size())];
  switch (draw.below(14)) {
    case 0: {
      static constexpr std::array<const char*, 5> kNames{"../escaped", "/etc/passwd", "a\\b",
                                                         "data.pkl", ""};
      m.name = draw.one_in(2) ? kNames[draw.below(kNames.size())]
                              : (*members)[draw.below(members->size())].name;
      break;
    }
    case 1: {
      const Member copy = m;
      members->push_back(copy);
      break;
    }
    case 2:
      members->erase(members->begin() + (&m - members->data()));
      break;
    case 3:
      m.claimed = static_cast<std::uint32_t>(draw.number());
      break;
    case 4:
      m.attributes = 0xa1ff0000;  // a symbolic link
      break;
    case 5:
      m.data.resize(draw.below(m.data.size() + 1));
      break;
    default: {
      // What describes the others is short, or has a kind; tables of weights have none.
      Member* best = &m;
      for (int tries = 0; tries < 3; ++tries) {
        Member& other = (*members)[draw.below(members->size())];
        if (other.name.ends_with(".pkl") || other.name.ends_with(".json") ||
            other.name.ends_with(".npy") || other.name.ends_with(".mlmodel"))
          best = &other;
      }
      mutate(best->data, draw);
    }
  }
  file = serialised(*members);
  return true;
}

}  // namespace etalon::fuzz
