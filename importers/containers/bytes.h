// Bytes of a file and who keeps them alive; little-endian reads; paths that stay inside a folder.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "engine/core/tensor.h"

namespace etalon {

static_assert(std::endian::native == std::endian::little,
              "model files are little-endian and are read in place");

struct Blob {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> keeper;

  std::string_view text() const {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
};

// The whole file, mapped. A missing file is a bad-input Error that begins with the path.
Blob map_file(const std::string& path);

// The caller has checked that the bytes are there.
template <class T>
T load_le(std::span<const std::byte> bytes, std::size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

// Bytes that the type claims; a bad-input Error where the product does not fit.
std::size_t claimed_bytes(const TensorType& type);

// A tensor on these bytes: in place where they are aligned for its elements, else one copy, of
// large ones when they are read. A wrong length or a bool that is neither 0 nor 1 is a bad-input
// Error.
Tensor tensor_from_bytes(const TensorType& type, const Blob& blob);

// By the engine's name ("f32"); nullopt when there is no such type.
std::optional<DType> find_dtype(std::string_view name);

// `relative` as named by a file in `folder`: a bad-input Error when it is absolute, climbs out or
// leaves the folder through a symbolic link.
std::string resolve_inside(const std::string& folder, const std::string& relative);
std::string folder_of(const std::string& path);
std::string stem_of(const std::string& path);                     // "a/lenet.onnx" -> "lenet"
bool has_ending(std::string_view path, std::string_view ending);  // ASCII case does not count

// Text of a file made safe to print: control bytes escaped, cut at 120 bytes.
std::string printable(std::string_view text);

}  // namespace etalon
