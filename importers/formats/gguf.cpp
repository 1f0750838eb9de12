// GGUF, versions 2 and 3, little-endian: "GGUF", u32 version, u64 counts of tensors and of
// metadata, the metadata (text key, u32 type, value), the tensors (text name, u32 rank, u64
// extents, innermost first, u32 type, u64 offset), and, aligned (general.alignment, 32 without),
// their data. A text is a u64 length and UTF-8.
//
// Quantised blocks are read as the f32 that ggml's reference makes of them, the same products in
// the same order (each rounds): for a block's scale d, minimum m and integers q, q d or q d + m; in
// blocks of 256 ("K") scale and minimum of each group are d sc and dmin mn. A note counts the
// types. Integers and floats are read in place. Refused by name: big-endian files, types without a
// public definition here (IQ, TQ). Source: ggml's docs/gguf.md; ggml-quants.c describes the blocks.
#include "importers/formats/gguf.h"

#include <array>
#include <cstring>
#include <map>

#include "engine/core/error.h"
#include "engine/numerics/element.h"
#include "importers/containers/bytes.h"

namespace etalon {
namespace {

constexpr std::size_t kMaxRank = 4;
constexpr int kMaxArrays = 4;

class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}
  std::span<const std::byte> take(std::uint64_t n) {
    if (n > bytes_.size() - at_)
      throw bad_input("byte {}: {} bytes are claimed, {} are left; the file is cut short", at_, n,
                      bytes_.size() - at_);
    const auto part = bytes_.subspan(at_, static_cast<std::size_t>(n));
    at_ += static_cast<std::size_t>(n);
    return part;
  }
  template <class T>
  T number() {
    return load_le<T>(take(sizeof(T)), 0);
  }
  std::string text() {
    const auto n = number<std::uint64_t>();
    const auto bytes = take(n);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  std::size_t at() const { return at_; }
  std::size_t left() const { return bytes_.size() - at_; }

 private:
  std::span<const std::byte> bytes_;
  std::size_t at_ = 0;
};

using Block = const std::byte*;
using Unpack = void (*)(Block in, float* out);

std::uint8_t u8(Block p, std::size_t i) { return static_cast<std::uint8_t>(p[i]); }
std::int8_t i8(Block p, std::size_t i) { return static_cast<std::int8_t>(p[i]); }
float f16(Block p) {
  std::uint16_t bits = 0;
  std::memcpy(&bits, p, 2);
  return static_cast<float>(to_double(Float16{bits}));
}

// 32 integers of 4 bits: the low halves of 16 bytes, then the high ones.
int nibble(Block q, std::size_t i) { return i < 16 ? u8(q, i) & 15 : u8(q, i - 16) >> 4; }
// A fifth bit of each, in 4 bytes.
int fifth(Block h, std::size_t i) { return u8(h, i / 8) >> (i % 8) & 1; }

void q4_0(Block b, float* y) {
  const float d = f16(b);
  for (std::size_t i = 0; i < 32; ++i) y[i] = static_cast<float>(nibble(b + 2, i) - 8) * d;
}
void q4_1(Block b, float* y) {
  const float d = f16(b), m = f16(b + 2);
  for (std::size_t i = 0; i < 32; ++i) y[i] = static_cast<float>(nibble(b + 4, i)) * d + m;
}
void q5_0(Block b, float* y) {
  const float d = f16(b);
  for (std::size_t i = 0; i < 32; ++i)
    y[i] = static_cast<float>((nibble(b + 6, i) | fifth(b + 2, i) << 4) - 16) * d;
}
void q5_1(Block b, float* y) {
  const float d = f16(b), m = f16(b + 2);
  for (std::size_t i = 0; i < 32; ++i)
    y[i] = static_cast<float>(nibble(b + 8, i) | fifth(b + 4, i) << 4) * d + m;
}
void q8_0(Block b, float* y) {
  const float d = f16(b);
  for (std::size_t i = 0; i < 32; ++i) y[i] = static_cast<float>(i8(b + 2, i)) * d;
}

// Groups of 16; two bits of each integer, scale and minimum of a group in one byte.
void q2_k(Block b, float* y) {
  const Block q = b + 16;
  const float d = f16(b + 80), least = f16(b + 82);
  for (std::size_t i = 0; i < 256; ++i) {
    const std::uint8_t group = u8(b, i / 16);
    const std::size_t half = i / 128, within = i % 128;
    const int v = u8(q, half * 32 + within % 32) >> (within / 32 * 2) & 3;
    const float scale = d * static_cast<float>(group & 15),
                low = least * static_cast<float>(group >> 4);
    y[i] = scale * static_cast<float>(v) - low;
  }
}
// Two low bits and one high bit, which says that 4 is not to be taken off; scales of 6 bits.
void q3_k(Block b, float* y) {
  const Block high = b, q = b + 32, packed = b + 96;
  const float d = f16(b + 108);
  for (std::size_t i = 0; i < 256; ++i) {
    const std::size_t group = i / 16, half = i / 128, within = i % 128;
    const int low4 = group < 8 ? u8(packed, group) & 15 : u8(packed, group - 8) >> 4;
    const int high2 = u8(packed, 8 + group % 4) >> (group / 4 * 2) & 3;
    const float scale = d * static_cast<float>((low4 | high2 << 4) - 32);
    const int v = (u8(q, half * 32 + within % 32) >> (within / 32 * 2) & 3) -
                  ((u8(high, within % 32) >> (i / 32) & 1) != 0 ? 0 : 4);
    y[i] = scale * static_cast<float>(v);
  }
}
// Scale and minimum of group j, 6 bits each, of eight groups of 32 in 12 bytes.
std::pair<int, int> six_bits(Block s, std::size_t j) {
  if (j < 4) return {u8(s, j) & 63, u8(s, j + 4) & 63};
  return {(u8(s, j + 4) & 15) | (u8(s, j - 4) >> 6) << 4, (u8(s, j + 4) >> 4) | (u8(s, j) >> 6)
                                                                                    << 4};
}
void q4_k(Block b, float* y) {
  const float d = f16(b), least = f16(b + 2);
  for (std::size_t i = 0; i < 256; ++i) {
    const auto [scale, low] = six_bits(b + 4, i / 32);
    const std::uint8_t both = u8(b + 16, i / 64 * 32 + i % 32);
    const int v = i / 32 % 2 == 0 ? both & 15 : both >> 4;
    y[i] = d * static_cast<float>(scale) * static_cast<float>(v) - least * static_cast<float>(low);
  }
}
void q5_k(Block b, float* y) {
  const float d = f16(b), least = f16(b + 2);
  for (std::size_t i = 0; i < 256; ++i) {
    const auto [scale, low] = six_bits(b + 4, i / 32);
    const std::uint8_t both = u8(b + 48, i / 64 * 32 + i % 32);
    const int v = (i / 32 % 2 == 0 ? both & 15 : both >> 4) | (u8(b + 16, i % 32) >> (i / 32) & 1)
                                                                  << 4;
    y[i] = d * static_cast<float>(scale) * static_cast<float>(v) - least * static_cast<float>(low);
  }
}
// Four low bits, two high bits, scales of 8 bits for groups of 16.
void q6_k(Block b, float* y) {
  const float d = f16(b + 208);
  for (std::size_t i = 0; i < 256; ++i) {
    const std::size_t half = i / 128, quarter = i % 128 / 32, l = i % 32;
    const std::uint8_t both = u8(b, half * 64 + quarter % 2 * 32 + l);
    const int low = quarter < 2 ? both & 15 : both >> 4;
    const int high = u8(b + 128, half * 32 + l) >> (quarter * 2) & 3;
    const float scale = d * static_cast<float>(i8(b + 192, half * 8 + quarter * 2 + l / 16));
    y[i] = scale * static_cast<float>((low | high << 4) - 32);
  }
}
void q8_k(Block b, float* y) {
  const auto d = load_le<float>(std::span(b, 4), 0);
  for (std::size_t i = 0; i < 256; ++i) y[i] = d * static_cast<float>(i8(b + 4, i));
}

struct TypeRow {
  std::uint32_t code;
  std::string_view name;
  DType dtype;                          // of the elements as given
  std::size_t elements = 1, bytes = 0;  // of a block
  Unpack unpack = nullptr;
};
constexpr TypeRow kTypes[] = {
    {0, "F32", DType::f32},
    {1, "F16", DType::f16},
    {2, "Q4_0", DType::f32, 32, 18, q4_0},
    {3, "Q4_1", DType::f32, 32, 20, q4_1},
    {6, "Q5_0", DType::f32, 32, 22, q5_0},
    {7, "Q5_1", DType::f32, 32, 24, q5_1},
    {8, "Q8_0", DType::f32, 32, 34, q8_0},
    {10, "Q2_K", DType::f32, 256, 84, q2_k},
    {11, "Q3_K", DType::f32, 256, 110, q3_k},
    {12, "Q4_K", DType::f32, 256, 144, q4_k},
    {13, "Q5_K", DType::f32, 256, 176, q5_k},
    {14, "Q6_K", DType::f32, 256, 210, q6_k},
    {15, "Q8_K", DType::f32, 256, 292, q8_k},
    {24, "I8", DType::i8},
    {25, "I16", DType::i16},
    {26, "I32", DType::i32},
    {27, "I64", DType::i64},
    {28, "F64", DType::f64},
    {30, "BF16", DType::bf16},
};

// Passes over a value; a text comes back, of other types "".
std::string skip_value(Reader& r, std::uint32_t type, int depth) {
  constexpr std::array<std::size_t, 13> kBytes{1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
  if (type == 8) return r.text();
  if (type == 9) {
    if (depth > kMaxArrays) throw bad_input("arrays of metadata nest too deeply");
    const auto inner = r.number<std::uint32_t>();
    const auto count = r.number<std::uint64_t>();
    if (inner < 13 && inner != 8 && inner != 9) {
      if (count > r.left()) throw bad_input("an array of {} values in the metadata", count);
      r.take(count * kBytes[inner]);
      return "";
    }
    for (std::uint64_t i = 0; i < count; ++i) skip_value(r, inner, depth + 1);
    return "";
  }
  if (type >= kBytes.size()) throw bad_input("byte {}: metadata of type {}", r.at(), type);
  r.take(kBytes[type]);
  return "";
}

Tensor unpacked(const TypeRow& row, const Shape& shape, std::span<const std::byte> bytes) {
  Tensor t = Tensor::uninitialized(DType::f32, shape);
  float* out = t.mutable_data<float>().data();
  const std::size_t blocks = bytes.size() / row.bytes;
  for (std::size_t b = 0; b < blocks; ++b)
    row.unpack(bytes.data() + b * row.bytes, out + b * row.elements);
  return t;
}

struct Entry {
  std::string name;
  const TypeRow* row;
  Shape shape;
  std::uint64_t offset, bytes;
};

Entry read_entry(Reader& r) {
  Entry e;
  e.name = r.text();
  const ErrorScope scope("tensor " + printable(e.name));
  const auto rank = r.number<std::uint32_t>();
  if (rank > kMaxRank) throw bad_input("of rank {}, expected at most {}", rank, kMaxRank);
  Ints dims(rank);
  for (std::size_t a = rank; a-- > 0;) {
    const auto extent = r.number<std::uint64_t>();
    if (extent > static_cast<std::uint64_t>(INT64_MAX)) throw bad_input("an extent of {}", extent);
    dims[a] = static_cast<std::int64_t>(extent);
  }
  e.shape = Shape(dims);
  const auto code = r.number<std::uint32_t>();
  e.row = nullptr;
  for (const TypeRow& row : kTypes)
    if (row.code == code) e.row = &row;
  if (e.row == nullptr)
    throw bad_input("element type {} is not one that is read here; convert the file to Q8_0 or F16",
                    code);
  const auto count = static_cast<std::uint64_t>(claimed_bytes({DType::i8, e.shape}));
  if (e.row->unpack == nullptr) {
    e.bytes = claimed_bytes({e.row->dtype, e.shape});
  } else {
    if (rank == 0 || static_cast<std::uint64_t>(dims.back()) % e.row->elements != 0)
      throw bad_input("rows of {} in blocks of {}", rank == 0 ? 1 : dims.back(), e.row->elements);
    e.bytes = count / e.row->elements * e.row->bytes;
  }
  e.offset = r.number<std::uint64_t>();
  return e;
}

Model open(const std::string& path, std::span<const std::string>) {
  const Blob file = map_file(path);
  const ErrorScope scope(path);
  Reader r(file.bytes);
  r.take(4);
  const auto version = r.number<std::uint32_t>();
  if (version == 0x02000000 || version == 0x03000000)
    throw bad_input("a big-endian GGUF file; convert it");
  if (version != 2 && version != 3) throw bad_input("GGUF version {}, expected 2 or 3", version);
  const auto tensors = r.number<std::uint64_t>(), values = r.number<std::uint64_t>();
  // The shortest tensor takes 24 bytes, the shortest value 13.
  if (tensors > file.bytes.size() / 24 || values > file.bytes.size() / 13)
    throw bad_input("{} tensors and {} values are claimed, of {} bytes", tensors, values,
                    file.bytes.size());
  Model model;
  model.path = path;
  model.format = "gguf";
  model.version = fmt::format("version {}", version);
  std::uint64_t alignment = 32;
  std::string architecture;
  for (std::uint64_t i = 0; i < values; ++i) {
    const std::string key = r.text();
    const ErrorScope where("metadata " + printable(key));
    const auto type = r.number<std::uint32_t>();
    if (key == "general.alignment" && type == 4) {
      alignment = r.number<std::uint32_t>();
      if (alignment == 0 || (alignment & (alignment - 1)) != 0 || alignment > 1 << 20)
        throw bad_input("an alignment of {}", alignment);
      continue;
    }
    const std::string text = skip_value(r, type, 0);
    if (key == "general.architecture") architecture = text;
  }
  std::vector<Entry> entries;
  for (std::uint64_t i = 0; i < tensors; ++i) entries.push_back(read_entry(r));
  const std::size_t begin = (r.at() + alignment - 1) / alignment * alignment;
  if (begin > file.bytes.size() && tensors > 0)
    throw bad_input("no data behind the tensors' names; the file is cut short");
  std::map<std::string_view, int> quantised;
  std::uint64_t claimed = 0;  // tensors may not lie on one another: together they fit the file
  for (const Entry& e : entries) {
    const ErrorScope where("tensor " + printable(e.name));
    const std::uint64_t all = file.bytes.size() - begin;
    claimed += e.bytes;
    if (e.offset % alignment != 0) throw bad_input("offset {} is not aligned", e.offset);
    if (e.offset > all || e.bytes > all - e.offset || claimed > all)
      throw bad_input("claims {} bytes at {}, of {}; the file is cut short", e.bytes, e.offset,
                      all);
    const auto bytes = file.bytes.subspan(begin + static_cast<std::size_t>(e.offset),
                                          static_cast<std::size_t>(e.bytes));
    Tensor t = e.row->unpack == nullptr
                   ? tensor_from_bytes({e.row->dtype, e.shape}, {bytes, file.keeper})
                   : unpacked(*e.row, e.shape, bytes);
    if (e.row->unpack != nullptr) ++quantised[e.row->name];
    model.graph->initializers.emplace(model.graph->add_value(e.name), std::move(t));
  }
  if (!architecture.empty())
    model.notes.push_back("The architecture is " + printable(architecture) +
                          "; its graph is not in the file.");
  for (const auto& [type, count] : quantised)
    model.notes.push_back(
        fmt::format("{} tensors of {} are read as the f32 their blocks stand for.", count, type));
  return model;
}

bool match(const FileView& file) { return file.text().starts_with("GGUF"); }

}  // namespace

const FormatRow& gguf_format() {
  static const FormatRow row{.name = "gguf",
                             .endings = ".gguf",
                             .summary = "ggml's weights; quantised blocks as f32.",
                             .match = match,
                             .open = open};
  return row;
}

}  // namespace etalon
