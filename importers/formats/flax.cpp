// Flax's msgpack_serialize: nested maps of arrays, as MessagePack. An array is an extension of type
// 1 (of type 3 a scalar) whose bytes are again MessagePack: [shape, the dtype's name, the bytes,
// row-major]; a big one is a map with "__msgpack_chunked_array__", its "shape" and flat "chunks".
//
// A tensor's name is the path of its keys, joined by dots. Kernels are (spatial, in, out) and
// matrices (in, out), as stored: weight_layout.h turns them. Numbers and texts are passed over.
// Source: flax/serialization.py.
#include "importers/formats/flax.h"

#include <array>
#include <cstring>

#include "engine/core/error.h"
#include "importers/containers/msgpack.h"

namespace etalon {
namespace {

using Kind = MsgValue::Kind;
constexpr std::size_t kMaxName = 4096;
constexpr std::pair<std::string_view, DType> kTypes[] = {
    {"float32", DType::f32}, {"float16", DType::f16}, {"bfloat16", DType::bf16},
    {"float64", DType::f64}, {"int8", DType::i8},     {"int16", DType::i16},
    {"int32", DType::i32},   {"int64", DType::i64},   {"uint8", DType::u8},
    {"uint16", DType::u16},  {"uint32", DType::u32},  {"uint64", DType::u64},
    {"bool", DType::boolean}};

Tensor read_array(const MsgValue& v, const std::shared_ptr<const void>& keeper) {
  const MsgValue parts = read_msgpack(v.data);
  if (!parts.is(Kind::array) || parts.items.size() != 3 || !parts.items[0].is(Kind::array) ||
      !parts.items[1].is(Kind::text) || !parts.items[2].is(Kind::bytes))
    throw bad_input("an array is not [shape, dtype, bytes]");
  Ints dims;
  for (const MsgValue& d : parts.items[0].items) {
    if (!d.is(Kind::integer)) throw bad_input("an extent that is no integer");
    dims.push_back(d.integer);
  }
  for (const auto& [name, dtype] : kTypes)
    if (parts.items[1].text() == name)
      return tensor_from_bytes({dtype, Shape(dims)}, {parts.items[2].data, keeper});
  throw bad_input("element type {} is not one this engine holds", printable(parts.items[1].text()));
}

bool is_array(const MsgValue& v) { return v.is(Kind::extension) && (v.type == 1 || v.type == 3); }

// The entries "0", "1", ... of a map.
std::vector<const MsgValue*> listed(const MsgValue* map) {
  std::vector<const MsgValue*> out;
  if (map == nullptr) throw bad_input("a chunked array without shape or chunks");
  if (map->is(Kind::array))
    for (const MsgValue& v : map->items) out.push_back(&v);
  for (std::size_t i = 0; map->is(Kind::map) && i < map->items.size() / 2; ++i) {
    out.push_back(map->find(std::to_string(i)));
    if (out.back() == nullptr) throw bad_input("a chunked array without part {}", i);
  }
  return out;
}

Tensor read_chunks(const MsgValue& map, std::size_t file_bytes,
                   const std::shared_ptr<const void>& keeper) {
  Ints dims;
  for (const MsgValue* d : listed(map.find("shape"))) dims.push_back(d->integer);
  std::vector<Tensor> parts;
  for (const MsgValue* c : listed(map.find("chunks"))) {
    if (!is_array(*c)) throw bad_input("a chunk that is no array");
    parts.push_back(read_array(*c, keeper));
  }
  if (parts.empty()) throw bad_input("a chunked array without chunks");
  const TensorType type{parts[0].dtype(), Shape(dims)};
  if (claimed_bytes(type) > file_bytes) throw bad_input("{} is beyond the file", to_string(type));
  Tensor out = Tensor::uninitialized(type.dtype, type.shape);
  auto to = out.mutable_bytes();
  std::size_t at = 0;
  for (const Tensor& p : parts) {
    if (p.dtype() != type.dtype || p.size_bytes() > to.size() - at)
      throw bad_input("chunks do not make up {}", to_string(type));
    std::memcpy(to.data() + at, p.bytes().data(), p.size_bytes());
    at += p.size_bytes();
  }
  if (at != to.size()) throw bad_input("chunks do not make up {}", to_string(type));
  return out;
}

void collect(const MsgValue& v, const std::string& path, const Blob& file, Model& model) {
  const ErrorScope scope(path.empty() ? std::string("the file") : "tensor " + printable(path));
  if (path.size() > kMaxName) throw bad_input("a path of more than {} bytes", kMaxName);
  if (is_array(v)) {
    model.graph->initializers.emplace(model.graph->add_value(path.empty() ? "arr_0" : path),
                                      read_array(v, file.keeper));
  } else if (v.find("__msgpack_chunked_array__") != nullptr) {
    model.graph->initializers.emplace(model.graph->add_value(path.empty() ? "arr_0" : path),
                                      read_chunks(v, file.bytes.size(), file.keeper));
  } else if (v.is(Kind::map)) {
    for (std::size_t i = 0; i + 1 < v.items.size(); i += 2)
      if (v.items[i].is(Kind::text))
        collect(v.items[i + 1],
                path.empty() ? std::string(v.items[i].text())
                             : path + "." + std::string(v.items[i].text()),
                file, model);
  }
}

Model open(const std::string& path, std::span<const std::string>) {
  const Blob file = map_file(path);
  const ErrorScope scope(path);
  Model model;
  model.path = path;
  model.format = "flax";
  collect(read_msgpack(file.bytes), "", file, model);
  if (model.graph->initializers.empty()) throw bad_input("no array in it; nothing is a weight");
  model.notes.emplace_back(
      "Kernels are (spatial, in, out), matrices (in, out), as stored; --arch turns them.");
  return model;
}

// A map whose first key is a printable text, and among the first bytes the name of a dtype.
bool match(const FileView& file) {
  if (file.prefix.size() < 4) return false;
  const auto first = static_cast<std::uint8_t>(file.prefix[0]);
  const std::size_t key = first >= 0x81 && first <= 0x8f ? 1 : first == 0xde ? 3 : 0;
  if (key == 0) return false;
  const auto head = static_cast<std::uint8_t>(file.prefix[key]);
  if (head < 0xa1 || head > 0xbf) return false;
  const std::string_view text = file.text().substr(key + 1, head & 31);
  if (text.size() != (head & 31U) || printable(text) != text) return false;
  if (has_ending(file.path, ".msgpack") || has_ending(file.path, ".flax")) return true;
  for (const auto& [name, dtype] : kTypes)
    if (file.text().find(name) != std::string_view::npos) return true;
  return false;
}

}  // namespace

const FormatRow& flax_format() {
  static const FormatRow row{.name = "flax",
                             .endings = ".msgpack .flax",
                             .summary = "Flax: nested maps of arrays, as MessagePack.",
                             .match = match,
                             .open = open};
  return row;
}

}  // namespace etalon
