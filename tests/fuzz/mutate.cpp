#include "tests/fuzz/mutate.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace etalon::fuzz {

std::uint64_t Draw::number() {
  static constexpr std::array<std::uint64_t, 18> kNumbers{
      0,       1,          2,          3,          7,           8,
      16,      127,        128,        255,        256,         65535,
      1 << 20, 0x7fffffff, 0x80000000, 0xffffffff, 0x1ffffffff, std::uint64_t{1} << 62};
  switch (below(4)) {
    case 0:
      return ~kNumbers[below(kNumbers.size())];
    case 1:
      return below(64);
    default:
      return kNumbers[below(kNumbers.size())];
  }
}

// Numbers, words, lines and bracketed parts of JSON, XML, prototxt and the like.
bool mutate_text(Bytes& file, Draw& draw) {
  const std::size_t look = std::min<std::size_t>(file.size(), 256);
  if (look == 0) return false;
  for (std::size_t i = 0; i < look; ++i)
    if (file[i] < 9 || (file[i] > 13 && file[i] < 32) || file[i] > 126) return false;
  std::string text(file.begin(), file.end());
  const auto word = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
           c == '.' || c == '-';
  };
  // The word at or behind a drawn place.
  const auto token = [&](bool digits) {
    std::size_t at = draw.below(text.size());
    for (std::size_t tries = 0; tries < text.size(); ++tries, at = (at + 1) % text.size())
      if (digits ? text[at] >= '0' && text[at] <= '9' : word(text[at])) break;
    std::size_t end = at;
    while (at > 0 && word(text[at - 1])) --at;
    while (end < text.size() && word(text[end])) ++end;
    return std::pair{at, end - at};
  };
  switch (draw.below(9)) {
    case 0:
    case 1:
    case 2: {
      const auto [at, n] = token(true);
      const auto value = static_cast<std::int64_t>(draw.number());
      text.replace(at, n, draw.one_in(8) ? "1e999" : std::to_string(value));
      break;
    }
    case 3:
    case 4: {
      const auto [from, n] = token(false);
      const std::string piece = text.substr(from, n);
      const auto [at, m] = token(false);
      text.replace(at, m, piece);
      break;
    }
    case 5: {
      const std::size_t from = text.rfind('\n', draw.below(text.size())),
                        begin = from == std::string::npos ? 0 : from + 1,
                        end = std::min(text.find('\n', begin), text.size() - 1) + 1;
      const std::string line = text.substr(begin, end - begin);
      if (draw.one_in(2))
        text.erase(begin, end - begin);
      else
        text.insert(begin, line);
      break;
    }
    case 6:
    case 7: {
      const std::size_t from = text.find_first_of("{[<(", draw.below(text.size()));
      if (from == std::string::npos) return mutate_bytes(file, draw), true;
      const char open = text[from], close = open == '{'   ? '}'
                                            : open == '[' ? ']'
                                            : open == '(' ? ')'
                                                          : '>';
      std::size_t end = from;
      for (int depth = 0; end < text.size(); ++end) {
        depth += text[end] == open ? 1 : text[end] == close ? -1 : 0;
        if (depth == 0) break;
      }
      end = std::min(end + 1, text.size());
      const std::string part = text.substr(from, std::min<std::size_t>(end - from, 1 << 14));
      if (draw.one_in(2))
        text.replace(from, end - from, std::string(1, open) + close);
      else if (draw.one_in(2))
        text.insert(from, part + ",");
      else
        text.insert(from, std::string(1 + draw.below(400), open));
      break;
    }
    default:
      return mutate_bytes(file, draw), true;
  }
  file.assign(text.begin(), text.end());
  return true;
}

void mutate(Bytes& file, Draw& draw) {
  if (draw.one_in(8)) return mutate_bytes(file, draw);
  if (mutate_zip(file, draw) || mutate_pickle(file, draw) || mutate_flatbuffers(file, draw) ||
      mutate_text(file, draw) || mutate_protobuf(file, draw))
    return;
  // Numbers at places that hold such: HDF5, .t7, .params and other tables of binary records.
  if (file.size() > 8 && draw.one_in(2)) {
    static constexpr std::array<std::size_t, 4> kWidths{1, 2, 4, 8};
    const std::size_t width = kWidths[draw.below(4)];
    const std::size_t span = draw.one_in(2) ? file.size() : std::min<std::size_t>(file.size(), 512);
    std::size_t at = draw.below(span) / width * width;
    at = std::min(at, file.size() - width);
    std::uint64_t value = 0;
    std::memcpy(&value, file.data() + at, width);
    value = draw.one_in(2) ? draw.number() : value + draw.below(33) - 16;
    std::memcpy(file.data() + at, &value, width);
    return;
  }
  mutate_bytes(file, draw);
}

}  // namespace etalon::fuzz
