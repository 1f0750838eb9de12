// The wire format knows no schema: a field of bytes is taken for a message when all of it parses.
#include <algorithm>
#include <cstring>
#include <optional>

#include "tests/fuzz/mutate.h"

namespace etalon::fuzz {
namespace {

struct Field {
  std::uint64_t number = 0;
  int wire = 0;
  std::uint64_t value = 0;  // of wire types 0, 1 and 5
  Bytes payload;            // of wire type 2
};

bool varint(const Bytes& in, std::size_t& at, std::uint64_t& value) {
  value = 0;
  for (int shift = 0; shift < 64 && at < in.size(); shift += 7) {
    const std::uint8_t b = in[at++];
    value |= static_cast<std::uint64_t>(b & 0x7f) << shift;
    if ((b & 0x80) == 0) return true;
  }
  return false;
}
void put_varint(Bytes& out, std::uint64_t value) {
  for (; value > 0x7f; value >>= 7) out.push_back(static_cast<std::uint8_t>(value | 0x80));
  out.push_back(static_cast<std::uint8_t>(value));
}

std::optional<std::vector<Field>> parse(const Bytes& in) {
  std::vector<Field> out;
  for (std::size_t at = 0; at < in.size();) {
    Field f;
    std::uint64_t tag = 0;
    if (!varint(in, at, tag)) return std::nullopt;
    f.number = tag >> 3;
    f.wire = static_cast<int>(tag & 7);
    if (f.number == 0 || f.number > 1U << 29) return std::nullopt;
    if (f.wire == 0) {
      if (!varint(in, at, f.value)) return std::nullopt;
    } else if (f.wire == 1 || f.wire == 5) {
      const std::size_t n = f.wire == 1 ? 8 : 4;
      if (in.size() - at < n) return std::nullopt;
      std::memcpy(&f.value, in.data() + at, n);
      at += n;
    } else if (f.wire == 2) {
      std::uint64_t n = 0;
      if (!varint(in, at, n) || n > in.size() - at) return std::nullopt;
      f.payload.assign(in.begin() + static_cast<std::ptrdiff_t>(at),
                       in.begin() + static_cast<std::ptrdiff_t>(at + n));
      at += n;
    } else {
      return std::nullopt;
    }
    out.push_back(std::move(f));
  }
  return out;
}

Bytes serialised(const std::vector<Field>& fields) {
  Bytes out;
  for (const Field& f : fields) {
    put_varint(out, f.number << 3 | static_cast<std::uint64_t>(f.wire));
    if (f.wire == 0) {
      put_varint(out, f.value);
    } else if (f.wire == 2) {
      put_varint(out, f.payload.size());
      out.insert(out.end(), f.payload.begin(), f.payload.end());
    } else {
      const auto* b = reinterpret_cast<const std::uint8_t*>(&f.value);
      out.insert(out.end(), b, b + (f.wire == 1 ? 8 : 4));
    }
  }
  return out;
}

}  // namespace

bool mutate_protobuf(Bytes& file, Draw& draw, int depth) {
  if (file.size() < 2) return false;
  auto fields = parse(file);
  if (!fields || fields->empty()) return false;
  const std::size_t i = draw.below(fields->size());
  Field& f = (*fields)[i];
  if (f.wire == 2 && depth < 12 && !draw.one_in(5) && mutate_protobuf(f.payload, draw, depth + 1)) {
    file = serialised(*fields);
    return true;
  }
  switch (draw.below(10)) {
    case 0:
      fields->erase(fields->begin() + static_cast<std::ptrdiff_t>(i));
      break;
    case 1: {
      Field copy = f;
      fields->insert(fields->begin() + static_cast<std::ptrdiff_t>(draw.below(fields->size() + 1)),
                     std::move(copy));
      break;
    }
    case 2:
      std::swap(f, (*fields)[draw.below(fields->size())]);
      break;
    case 3:
      f.number = draw.one_in(2) ? (*fields)[draw.below(fields->size())].number : 1 + draw.below(24);
      break;
    case 4: {  // one field's content in another of its kind
      const Field& other = (*fields)[draw.below(fields->size())];
      if (other.wire == f.wire) {
        f.value = other.value;
        f.payload = Bytes(other.payload);
      }
      break;
    }
    case 5: {
      Field added;
      added.number = 1 + draw.below(24);
      added.wire = draw.one_in(2) ? 0 : 2;
      added.value = draw.number();
      added.payload.assign(draw.below(9), static_cast<std::uint8_t>(draw.below(256)));
      fields->push_back(std::move(added));
      break;
    }
    default:
      if (f.wire != 2)
        f.value = draw.number();
      else if (f.payload.size() > 0 && draw.one_in(6))
        f.payload.resize(draw.below(f.payload.size()));
      else
        mutate_bytes(f.payload, draw);
  }
  file = serialised(*fields);
  return true;
}

}  // namespace etalon::fuzz
