#include "bench/runners/tensor_file.h"

#include <array>
#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>

#include "engine/core/file.h"

namespace etalon {
namespace {

using nlohmann::json;

constexpr std::array<std::pair<DType, std::string_view>, kDTypeCount> kNames{{
    {DType::f64, "F64"},
    {DType::f32, "F32"},
    {DType::bf16, "BF16"},
    {DType::f16, "F16"},
    {DType::i64, "I64"},
    {DType::i32, "I32"},
    {DType::i16, "I16"},
    {DType::i8, "I8"},
    {DType::u64, "U64"},
    {DType::u32, "U32"},
    {DType::u16, "U16"},
    {DType::u8, "U8"},
    {DType::boolean, "BOOL"},
}};
static_assert(std::endian::native == std::endian::little);

}  // namespace

void write_tensor_file(const std::string& path, const TensorMap& tensors) {
  json header = json::object();
  std::size_t offset = 0;
  for (const auto& [name, tensor] : tensors) {
    json entry;
    for (const auto& [dtype, text] : kNames)
      if (dtype == tensor.dtype()) entry["dtype"] = text;
    const auto dims = tensor.shape().dims();
    entry["shape"] = std::vector<std::int64_t>(dims.begin(), dims.end());
    entry["data_offsets"] = {offset, offset + tensor.size_bytes()};
    header[name] = entry;
    offset += tensor.size_bytes();
  }
  std::string text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');
  const std::uint64_t size = text.size();
  FileWriter file(path);
  file.write(std::as_bytes(std::span(&size, 1)));
  file.write(text);
  for (const auto& [name, tensor] : tensors) file.write(tensor.bytes());
  file.commit();
}

TensorMap read_tensor_file(const std::string& path) {
  const ErrorScope scope(path);
  const auto file = MappedFile::open(path);
  std::span<const std::byte> bytes = file->bytes();
  std::uint64_t size = 0;
  if (bytes.size() < sizeof size) throw bad_input("{} bytes are no safetensors file", bytes.size());
  std::memcpy(&size, bytes.data(), sizeof size);
  bytes = bytes.subspan(sizeof size);
  if (size > bytes.size())
    throw bad_input("the header claims {} bytes, {} remain", size, bytes.size());
  TensorMap tensors;
  try {
    const auto* text = reinterpret_cast<const char*>(bytes.data());
    const json header = json::parse(text, text + size);
    bytes = bytes.subspan(size);
    for (const auto& [name, entry] : header.items()) {
      if (name == "__metadata__") continue;
      const auto dtype_name = entry.at("dtype").get<std::string>();
      const auto* row =
          std::ranges::find(kNames, dtype_name, &std::pair<DType, std::string_view>::second);
      if (row == kNames.end()) throw bad_input("tensor {} has type {}", name, dtype_name);
      const auto dims = entry.at("shape").get<std::vector<std::int64_t>>();
      const Shape shape{std::span<const std::int64_t>(dims)};
      const auto begin = entry.at("data_offsets").at(0).get<std::uint64_t>();
      const auto end = entry.at("data_offsets").at(1).get<std::uint64_t>();
      const auto wanted =
          static_cast<std::uint64_t>(checked_mul(shape.numel(), size_bytes(row->first)));
      if (begin > end || end > bytes.size() || end - begin != wanted)
        throw bad_input("tensor {} claims bytes {} to {} of {}", name, begin, end, bytes.size());
      Tensor tensor = Tensor::uninitialized(row->first, shape);
      if (wanted > 0) std::memcpy(tensor.mutable_bytes().data(), bytes.data() + begin, wanted);
      tensors.emplace(name, std::move(tensor));
    }
  } catch (const json::exception& e) {
    throw bad_input("the header is malformed: {}", e.what());
  }
  return tensors;
}

}  // namespace etalon
