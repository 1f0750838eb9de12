#include "importers/containers/npy.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <vector>

#include "engine/core/error.h"

namespace etalon {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";

struct Header {
  std::string descr;
  bool fortran = false;
  std::vector<std::int64_t> shape;
  bool has_descr = false, has_order = false, has_shape = false;
};

// The subset of Python's literals that NumPy writes: a dict of texts, a bool and a tuple of ints.
class HeaderParser {
 public:
  explicit HeaderParser(std::string_view text) : text_(text) {}

  Header parse() {
    Header h;
    expect('{');
    while (!take('}')) {
      const std::string key = quoted();
      expect(':');
      if (key == "descr" && !h.has_descr) {
        h.has_descr = true;
        if (peek() == '[')
          throw bad_input("a structured array; save each of its fields as an array of its own");
        h.descr = quoted();
      } else if (key == "fortran_order" && !h.has_order) {
        h.has_order = true;
        h.fortran = boolean();
      } else if (key == "shape" && !h.has_shape) {
        h.has_shape = true;
        shape(h.shape);
      } else {
        fail("a key 'descr', 'fortran_order' or 'shape', each once");
      }
      if (!take(',')) {
        expect('}');
        break;
      }
    }
    if (!h.has_descr || !h.has_order || !h.has_shape)
      fail("the keys 'descr', 'fortran_order' and 'shape'");
    skip();
    if (at_ != text_.size()) fail("the end of the header");
    return h;
  }

 private:
  [[noreturn]] void fail(std::string_view expected) const {
    throw bad_input("npy header, byte {}: expected {}", at_, expected);
  }
  void skip() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
  }
  char peek() {
    skip();
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool take(char c) {
    if (peek() != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!take(c)) fail(fmt::format("'{}'", c));
  }
  std::string quoted() {
    const char quote = peek();
    if (quote != '\'' && quote != '"') fail("a quoted text");
    const std::size_t end = text_.find(quote, ++at_);
    if (end == std::string_view::npos) fail("a closing quote");
    std::string s(text_.substr(at_, end - at_));
    at_ = end + 1;
    return s;
  }
  bool boolean() {
    skip();
    for (const std::string_view word : {"True", "False"})
      if (text_.substr(at_).starts_with(word)) {
        at_ += word.size();
        return word == "True";
      }
    fail("True or False");
  }
  void shape(std::vector<std::int64_t>& out) {
    expect('(');
    while (!take(')')) {
      skip();
      std::int64_t n = 0;
      const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), n);
      if (error != std::errc() || n < 0) fail("an extent from 0 up");
      at_ = static_cast<std::size_t>(end - text_.data());
      take('L');  // Python 2 wrote long integers so
      out.push_back(n);
      if (!take(',')) {
        expect(')');
        break;
      }
    }
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

DType dtype_of_descr(const std::string& descr, bool& big_endian) {
  const auto refuse = [&](std::string_view why) {
    return bad_input("element type '{}': {}", printable(descr), why);
  };
  if (descr.size() < 2) throw refuse("not a NumPy type");
  const char order = descr[0];
  if (std::string_view("<>|=").find(order) == std::string_view::npos)
    throw refuse("not a NumPy type");
  big_endian = order == '>';
  const std::string_view kind = std::string_view(descr).substr(1);
  constexpr std::pair<std::string_view, DType> kTypes[] = {
      {"f8", DType::f64}, {"f4", DType::f32}, {"f2", DType::f16}, {"i8", DType::i64},
      {"i4", DType::i32}, {"i2", DType::i16}, {"i1", DType::i8},  {"u8", DType::u64},
      {"u4", DType::u32}, {"u2", DType::u16}, {"u1", DType::u8},  {"b1", DType::boolean}};
  for (const auto& [text, dtype] : kTypes)
    if (text == kind) return dtype;
  switch (kind[0]) {
    case 'O':
      throw refuse("Python objects are not numbers; save plain numbers");
    case 'V':
      throw refuse("raw or structured elements have no numeric type; save plain numbers");
    case 'U':
    case 'S':
      throw refuse("texts are not numbers");
    case 'M':
    case 'm':
      throw refuse("times are not numbers");
    case 'c':
      throw refuse("complex numbers have no type here; save real and imaginary part apart");
    default:
      throw refuse("no such type here; save as one of f8 f4 f2 i8 i4 i2 i1 u8 u4 u2 u1 b1");
  }
}

// Element bytes reversed (big-endian) and, where Fortran-ordered, axes walked first to last.
Tensor converted(const TensorType& type, std::span<const std::byte> from, bool swap, bool fortran) {
  Tensor out = Tensor::uninitialized(type.dtype, type.shape);
  std::byte* to = out.mutable_bytes().data();
  const auto size = static_cast<std::size_t>(size_bytes(type.dtype));
  const auto count = static_cast<std::size_t>(type.shape.numel());
  const int rank = type.shape.rank();
  std::array<std::int64_t, kMaxRank> index{}, stride{};
  for (int i = 0; i < rank; ++i)
    stride[static_cast<std::size_t>(i)] = type.shape.product(0, fortran ? i : 0);
  if (!fortran) {
    const auto row_major = strides_of(type.shape);
    std::copy(row_major.begin(), row_major.end(), stride.begin());
  }
  for (std::size_t n = 0; n < count; ++n) {
    std::size_t source = 0;
    for (int i = 0; i < rank; ++i) {
      const auto a = static_cast<std::size_t>(i);
      source += static_cast<std::size_t>(index[a] * stride[a]);
    }
    for (std::size_t b = 0; b < size; ++b)
      to[n * size + b] = from[source * size + (swap ? size - 1 - b : b)];
    for (int i = rank - 1; i >= 0; --i) {
      const auto a = static_cast<std::size_t>(i);
      if (++index[a] < type.shape[i]) break;
      index[a] = 0;
    }
  }
  return out;
}

// The header, and where what it describes begins.
std::pair<Header, std::size_t> header_of(const Blob& blob) {
  const auto bytes = blob.bytes;
  if (!is_npy(bytes) || bytes.size() < 10)
    throw bad_input("byte 0: not an npy array; its magic is missing");
  const int major = std::to_integer<int>(bytes[6]);
  if (major < 1 || major > 3) throw bad_input("npy version {}; versions 1 to 3 are known", major);
  const std::size_t fixed = major == 1 ? 10 : 12;
  if (bytes.size() < fixed) throw bad_input("the npy header is cut short; fetch the file again");
  const std::size_t length =
      major == 1 ? load_le<std::uint16_t>(bytes, 8) : load_le<std::uint32_t>(bytes, 8);
  if (length > bytes.size() - fixed)
    throw bad_input("the npy header claims {} bytes, {} remain; the file is cut short", length,
                    bytes.size() - fixed);
  const Blob head{bytes.subspan(fixed, length), nullptr};
  return {HeaderParser(head.text()).parse(), fixed + length};
}

}  // namespace

bool is_npy(std::span<const std::byte> prefix) {
  return prefix.size() >= kMagic.size() &&
         std::memcmp(prefix.data(), kMagic.data(), kMagic.size()) == 0;
}

Tensor read_npy(const Blob& blob) {
  const auto [header, begin] = header_of(blob);
  return array_from_bytes(header.descr, header.fortran, header.shape,
                          {blob.bytes.subspan(begin), blob.keeper});
}

Blob npy_pickle(const Blob& blob) {
  const auto [header, begin] = header_of(blob);
  if (header.descr != "|O" && header.descr != "O") return {};
  return {blob.bytes.subspan(begin), blob.keeper};
}

Tensor array_from_bytes(const std::string& descr, bool fortran_order, const Ints& shape,
                        const Blob& blob) {
  bool big_endian = false;
  const DType dtype = dtype_of_descr(descr, big_endian);
  const TensorType type{dtype, Shape(shape)};
  const auto data = blob.bytes;
  const std::size_t want = claimed_bytes(type);
  if (data.size() < want)
    throw bad_input("the array {} needs {} bytes, {} remain; the file is cut short",
                    to_string(type), want, data.size());
  if (data.size() > want)
    throw bad_input("{} bytes follow the array {}; one array a file is expected",
                    data.size() - want, to_string(type));
  const bool swap = big_endian && size_bytes(dtype) > 1;
  const bool fortran = fortran_order && type.shape.rank() > 1;
  if (!swap && !fortran) return tensor_from_bytes(type, {data, blob.keeper});
  const Tensor plain = converted(type, data, swap, fortran);
  return tensor_from_bytes(type, {plain.bytes(), std::make_shared<Tensor>(plain.share())});
}

std::string npy_header(const TensorType& type) {
  std::string_view descr;
  switch (type.dtype) {
    case DType::f64:
      descr = "<f8";
      break;
    case DType::f32:
      descr = "<f4";
      break;
    case DType::f16:
      descr = "<f2";
      break;
    case DType::i64:
      descr = "<i8";
      break;
    case DType::i32:
      descr = "<i4";
      break;
    case DType::i16:
      descr = "<i2";
      break;
    case DType::i8:
      descr = "|i1";
      break;
    case DType::u64:
      descr = "<u8";
      break;
    case DType::u32:
      descr = "<u4";
      break;
    case DType::u16:
      descr = "<u2";
      break;
    case DType::u8:
      descr = "|u1";
      break;
    case DType::boolean:
      descr = "|b1";
      break;
    default:
      throw usage_error("NumPy has no element type {}; save as safetensors or ONNX",
                        name(type.dtype));
  }
  std::string shape = fmt::format("{}", fmt::join(type.shape.dims(), ", "));
  if (type.shape.rank() == 1) shape += ',';
  std::string dict =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", descr, shape);
  const std::size_t fixed = 10;
  const std::size_t total = (fixed + dict.size() + 1 + 63) / 64 * 64;
  dict.append(total - fixed - dict.size() - 1, ' ').push_back('\n');
  std::string out(kMagic);
  out.push_back('\1');
  out.push_back('\0');
  out.push_back(static_cast<char>(dict.size() & 0xff));
  out.push_back(static_cast<char>(dict.size() >> 8));
  return out + dict;
}

}  // namespace etalon
