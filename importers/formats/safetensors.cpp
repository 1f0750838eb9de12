// safetensors: u64 length of a JSON header, the header, the data. The header maps each name to
// {"dtype", "shape", "data_offsets": [begin, end]}, offsets from the end of the header;
// "__metadata__" holds texts. Tensors must tile the data: no overlap, no hole, nothing behind.
//
// Tensors are read in place from the mapped file, in the order of their data. Written files put
// wide element types first, so that every tensor is aligned. Refused by name: F8_*, F4, C64 and
// other element types the engine does not hold. Source: the format's README (safetensors 0.4).
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_set>

#include "engine/core/error.h"
#include "engine/core/file.h"
#include "importers/containers/bytes.h"
#include "importers/containers/json.h"
#include "importers/formats/tensors.h"

namespace etalon {
namespace {

using nlohmann::json;

constexpr std::pair<std::string_view, DType> kTypes[] = {
    {"F64", DType::f64},     {"F32", DType::f32}, {"BF16", DType::bf16}, {"F16", DType::f16},
    {"I64", DType::i64},     {"I32", DType::i32}, {"I16", DType::i16},   {"I8", DType::i8},
    {"U64", DType::u64},     {"U32", DType::u32}, {"U16", DType::u16},   {"U8", DType::u8},
    {"BOOL", DType::boolean}};

struct Entry {
  std::string name;
  TensorType type;
  std::size_t begin, end;
};

Entry read_entry(const std::string& name, const json& value, std::size_t data_bytes) {
  const ErrorScope scope(fmt::format("tensor {}", printable(name)));
  const std::string dtype = json_string(value, "dtype");
  const auto known = std::ranges::find(kTypes, dtype, &std::pair<std::string_view, DType>::first);
  if (known == std::end(kTypes))
    throw bad_input("element type {} is not one this engine holds; convert the tensor",
                    printable(dtype));
  Ints dims;
  for (const json& d : json_array(value, "shape")) dims.push_back(json_integer(d, "an extent"));
  const json& offsets = json_array(value, "data_offsets");
  if (offsets.size() != 2) throw bad_input("data_offsets must be [begin, end]");
  const std::int64_t begin = json_integer(offsets[0], "data_offsets"),
                     end = json_integer(offsets[1], "data_offsets");
  if (begin < 0 || begin > end || static_cast<std::size_t>(end) > data_bytes)
    throw bad_input("claims data bytes {} to {}, the file has {}; it is cut short, fetch it again",
                    begin, end, data_bytes);
  Entry e{name,
          {known->second, Shape(dims)},
          static_cast<std::size_t>(begin),
          static_cast<std::size_t>(end)};
  if (claimed_bytes(e.type) != e.end - e.begin)
    throw bad_input("{} needs {} bytes and its data_offsets span {}", to_string(e.type),
                    claimed_bytes(e.type), e.end - e.begin);
  return e;
}

// With `keys`: those of the file's __metadata__.
TensorList read(const std::string& path, std::vector<std::string>* keys) {
  const Blob file = map_file(path);
  const ErrorScope scope(path);
  if (file.bytes.size() < 8)
    throw bad_input(
        "{} bytes, where safetensors begins with 8 that say how long its header is; the file is "
        "cut "
        "short, fetch it again",
        file.bytes.size());
  const auto length = load_le<std::uint64_t>(file.bytes, 0);
  if (length > file.bytes.size() - 8)
    throw bad_input(
        "byte 0: the header claims {} bytes, {} remain; the file is cut short, fetch it again",
        length, file.bytes.size() - 8);
  const auto data = file.bytes.subspan(8 + length);
  std::vector<Entry> entries;
  const json header =
      parse_json_members(Blob{file.bytes.subspan(8, length), nullptr}.text(),
                         [&](const std::string& name, const json& value) {
                           if (name != "__metadata__")
                             entries.push_back(read_entry(name, value, data.size()));
                           else if (keys != nullptr && value.is_object())
                             for (const auto& [key, text] : value.items()) keys->push_back(key);
                         });
  if (!header.is_object())
    throw bad_input("byte 8: the header must be a JSON object, got {}; the file is damaged",
                    header.type_name());
  std::ranges::sort(entries, [](const Entry& a, const Entry& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  std::size_t at = 0;
  for (const Entry& e : entries) {
    if (e.begin != at)
      throw bad_input("tensor {}: begins at data byte {}, expected {}: {}", printable(e.name),
                      e.begin, at,
                      e.begin < at ? "tensors overlap" : "bytes between belong to none");
    at = e.end;
  }
  if (at != data.size())
    throw bad_input("{} bytes behind the last tensor belong to none", data.size() - at);
  TensorList tensors;
  tensors.reserve(entries.size());
  for (Entry& e : entries) {
    const ErrorScope tensor(fmt::format("tensor {}", printable(e.name)));
    tensors.push_back(
        {std::move(e.name),
         tensor_from_bytes(e.type, {data.subspan(e.begin, e.end - e.begin), file.keeper})});
  }
  return tensors;
}

TensorList load(const std::string& path) { return read(path, nullptr); }

Model open(const std::string& path, std::span<const std::string>) {
  Model model;
  model.path = path;
  model.format = "safetensors";
  std::vector<std::string> keys;
  TensorList tensors = read(path, &keys);
  const ErrorScope scope(path);
  for (NamedTensor& t : tensors)
    model.graph->initializers.emplace_hint(model.graph->initializers.end(),
                                           model.graph->add_value(std::move(t.name)),
                                           std::move(t.tensor));
  if (!keys.empty())
    model.notes.push_back(fmt::format("Its metadata ({}) is not read, and not kept by convert.",
                                      printable(fmt::format("{}", fmt::join(keys, ", ")))));
  return model;
}

void store(const TensorList& tensors, const std::string& path) {
  std::vector<const NamedTensor*> order;
  for (const NamedTensor& t : tensors) order.push_back(&t);
  // Wide types first; by address, which is the list's own sequence, among equals.
  std::ranges::sort(order, [](const NamedTensor* a, const NamedTensor* b) {
    const int x = size_bytes(a->tensor.dtype()), y = size_bytes(b->tensor.dtype());
    return x != y ? x > y : a < b;
  });
  // Entry by entry: a JSON object that keeps its sequence looks a name up by walking all others.
  std::unordered_set<std::string_view> names{"__metadata__"};
  std::string text = "{";
  std::size_t at = 0;
  for (const NamedTensor* t : order) {
    const std::size_t end = at + t->tensor.size_bytes();
    if (!names.insert(t->name).second)
      throw usage_error("tensor '{}': the name is taken; rename it", printable(t->name));
    const auto type =
        std::ranges::find(kTypes, t->tensor.dtype(), &std::pair<std::string_view, DType>::second);
    const nlohmann::ordered_json entry{
        {"dtype", std::string(type->first)},
        {"shape", Ints(t->tensor.shape().dims().begin(), t->tensor.shape().dims().end())},
        {"data_offsets", {at, end}}};
    try {
      text +=
          fmt::format("{}{}:{}", text.size() > 1 ? "," : "", json(t->name).dump(), entry.dump());
    } catch (const json::exception&) {
      throw usage_error("{}: a tensor's name is not UTF-8; rename it", path);
    }
    at = end;
  }
  text += '}';
  text.append((64 - (8 + text.size()) % 64) % 64, ' ');
  FileWriter out(path);
  const std::uint64_t length = text.size();
  out.write(std::as_bytes(std::span(&length, 1)));
  out.write(text);
  for (const NamedTensor* t : order) out.write(t->tensor.bytes());
  out.commit();
}

bool match(const FileView& file) {
  const auto prefix = file.prefix;
  if (prefix.size() < 9) return !file.is_folder && has_ending(file.path, ".safetensors");
  return prefix[8] == std::byte{'{'} &&
         (has_ending(file.path, ".safetensors") ||
          load_le<std::uint64_t>(prefix, 0) <= std::uint64_t{100} << 20);
}

}  // namespace

const FormatRow& safetensors_format() {
  static const FormatRow row{.name = "safetensors",
                             .endings = ".safetensors",
                             .summary = "Named tensors behind a JSON header, read in place.",
                             .match = match,
                             .open = open,
                             .load = load,
                             .store = store};
  return row;
}

}  // namespace etalon
