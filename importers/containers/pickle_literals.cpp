#include <cmath>

#include "importers/containers/decimal.h"
#include "importers/containers/pickle_machine.h"

namespace etalon {

// LONG1, LONG4: two's complement, little-endian. One beyond 64 bits becomes a real value (hash
// seeds and magic numbers; PyTorch's magic is compared as such).
void PickleMachine::push_long(std::span<const std::byte> b) {
  if (b.size() > 8) {
    Value* v = make(PickleKind::real);
    double value = 0;
    const std::size_t n = std::min<std::size_t>(b.size(), 128);
    for (std::size_t i = n; i-- > 0;) value = value * 256 + std::to_integer<int>(b[i]);
    if ((b.back() & std::byte{0x80}) != std::byte{0})
      value -= std::ldexp(1.0, static_cast<int>(8 * n));
    v->real = value;
    v->text = {reinterpret_cast<const char*>(b.data()), b.size()};
    return push(v);
  }
  std::uint64_t bits = 0;
  for (std::size_t i = 0; i < b.size(); ++i)
    bits |= std::to_integer<std::uint64_t>(b[i]) << (8 * i);
  if (!b.empty() && b.size() < 8 && (b.back() & std::byte{0x80}) != std::byte{0})
    bits |= ~std::uint64_t{0} << (8 * b.size());
  push_integer(static_cast<std::int64_t>(bits));
}

void PickleMachine::push_decimal(std::string_view text) {
  if (text.ends_with('L')) text.remove_suffix(1);
  std::int64_t n = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (error == std::errc::result_out_of_range) {
    Value* v = make(PickleKind::real);
    v->real = read_decimal(text).value;
    return push(v);
  }
  if (error != std::errc() || end != text.data() + text.size()) throw fault("no whole number");
  push_integer(n);
}

// Protocol 0: a Python string literal, quotes included.
std::string PickleMachine::unquoted(std::string_view text) {
  while (!text.empty() && (text.back() == ' ' || text.back() == '\r')) text.remove_suffix(1);
  if (text.size() < 2 || text.front() != text.back() || (text[0] != '\'' && text[0] != '"'))
    throw fault("a string without its quotes");
  text = text.substr(1, text.size() - 2);
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\') {
      out += text[i];
      continue;
    }
    if (++i == text.size()) throw fault("a string that ends in a backslash");
    const std::size_t plain = std::string_view("abfnrtv").find(text[i]);
    if (plain != std::string_view::npos) {
      out += "\a\b\f\n\r\t\v"[plain];
    } else if (text[i] == 'x') {
      unsigned value = 0;
      if (i + 2 >= text.size() ||
          std::from_chars(text.data() + i + 1, text.data() + i + 3, value, 16).ptr !=
              text.data() + i + 3)
        throw fault("a damaged \\x in a string");
      out += static_cast<char>(value);
      i += 2;
    } else if (text[i] >= '0' && text[i] <= '7') {
      unsigned value = 0;
      std::size_t n = 0;
      for (; n < 3 && i + n < text.size() && text[i + n] >= '0' && text[i + n] <= '7'; ++n)
        value = value * 8 + static_cast<unsigned>(text[i + n] - '0');
      out += static_cast<char>(value & 0xff);
      i += n - 1;
    } else {
      out += text[i];  // \\, \', \"
    }
  }
  return out;
}

// Protocol 0 unicode: raw-unicode-escape, that is Latin-1 with \uXXXX.
std::string PickleMachine::from_raw_unicode(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    unsigned code = static_cast<unsigned char>(text[i]);
    if (text[i] == '\\' && i + 5 < text.size() && text[i + 1] == 'u' &&
        std::from_chars(text.data() + i + 2, text.data() + i + 6, code, 16).ptr ==
            text.data() + i + 6)
      i += 5;
    if (code < 0x80) {
      out += static_cast<char>(code);
    } else if (code < 0x800) {
      out += static_cast<char>(0xc0 | code >> 6);
      out += static_cast<char>(0x80 | (code & 0x3f));
    } else {
      out += static_cast<char>(0xe0 | code >> 12);
      out += static_cast<char>(0x80 | (code >> 6 & 0x3f));
      out += static_cast<char>(0x80 | (code & 0x3f));
    }
  }
  return out;
}

// Protocol 2 of Python 3 writes bytes as the text that Latin-1 turns into them.
PickleValue* PickleMachine::encoded(std::string_view text, std::string_view encoding) {
  if (encoding != "latin1" && encoding != "latin-1" && encoding != "iso-8859-1")
    throw fault("bytes in an encoding other than latin1");
  Value* v = make(PickleKind::bytes);
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (c < 0x80) {
      out += text[i];
    } else if ((c == 0xc2 || c == 0xc3) && i + 1 < text.size()) {
      out += static_cast<char>((c & 3U) << 6 | (static_cast<unsigned char>(text[++i]) & 0x3fU));
    } else {
      throw fault("a character beyond latin1 in bytes");
    }
  }
  v->text = keep(std::move(out));
  return v;
}

}  // namespace etalon
