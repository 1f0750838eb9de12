// IDX, the form in which MNIST is published: two zero bytes, a type byte (08 u8, 09 i8, 0B i16,
// 0C i32, 0D f32, 0E f64), the rank as a byte, the extents as big-endian u32, then the elements
// big-endian and row-major. Source: the description beside the MNIST files (LeCun, Cortes, Burges).
#include <algorithm>

#include "engine/core/error.h"
#include "engine/core/file.h"
#include "importers/containers/bytes.h"
#include "importers/formats/tensors.h"

namespace etalon {
namespace {

struct IdxType {
  int code;
  DType dtype;
};
constexpr IdxType kTypes[] = {{0x08, DType::u8},  {0x09, DType::i8},  {0x0B, DType::i16},
                              {0x0C, DType::i32}, {0x0D, DType::f32}, {0x0E, DType::f64}};

std::uint32_t load_be(std::span<const std::byte> bytes, std::size_t offset) {
  return __builtin_bswap32(load_le<std::uint32_t>(bytes, offset));
}

// Each element's bytes reversed.
void swap_bytes(std::span<std::byte> bytes, std::size_t element) {
  for (std::size_t at = 0; at < bytes.size(); at += element)
    std::ranges::reverse(bytes.subspan(at, element));
}

bool is_idx(std::span<const std::byte> prefix) {
  if (prefix.size() < 4 || prefix[0] != std::byte{0} || prefix[1] != std::byte{0}) return false;
  const int code = std::to_integer<int>(prefix[2]), rank = std::to_integer<int>(prefix[3]);
  return rank >= 1 && rank <= kMaxRank && prefix.size() >= 4 + 4 * static_cast<std::size_t>(rank) &&
         std::ranges::any_of(kTypes, [&](const IdxType& t) { return t.code == code; });
}

TensorList load(const std::string& path) {
  const Blob file = map_file(path);
  const ErrorScope scope(path);
  if (!is_idx(file.bytes))
    throw bad_input("not an IDX file; one begins with 00 00, a type and a rank");
  const int code = std::to_integer<int>(file.bytes[2]);
  std::vector<std::int64_t> dims;
  const auto rank = std::to_integer<std::size_t>(file.bytes[3]);
  for (std::size_t i = 0; i < rank; ++i) dims.push_back(load_be(file.bytes, 4 + 4 * i));
  const TensorType type{
      std::ranges::find_if(kTypes, [&](const IdxType& t) { return t.code == code; })->dtype,
      Shape(dims)};
  const Blob data{file.bytes.subspan(4 + 4 * rank), file.keeper};
  if (claimed_bytes(type) != data.bytes.size())
    throw bad_input("the array {} needs {} bytes, {} follow its head; fetch the file again",
                    to_string(type), claimed_bytes(type), data.bytes.size());
  const auto element = static_cast<std::size_t>(size_bytes(type.dtype));
  TensorList tensors;
  if (element == 1) {
    tensors.push_back({"", tensor_from_bytes(type, data)});
    return tensors;
  }
  Tensor out = Tensor::uninitialized(type.dtype, type.shape);
  std::ranges::copy(data.bytes, out.mutable_bytes().begin());
  swap_bytes(out.mutable_bytes(), element);
  tensors.push_back({"", std::move(out)});
  return tensors;
}

void store(const TensorList& tensors, const std::string& path) {
  if (tensors.size() != 1)
    throw usage_error("{}: an IDX file holds one array, got {}; use .npz or .safetensors", path,
                      tensors.size());
  const Tensor& t = tensors[0].tensor;
  const auto known = std::ranges::find(kTypes, t.dtype(), &IdxType::dtype);
  if (known == std::end(kTypes))
    throw usage_error("{}: IDX has no element type {}; use .npy or .safetensors", path,
                      name(t.dtype()));
  const auto& dims = t.shape().dims();
  if (dims.empty() || std::ranges::any_of(dims, [](std::int64_t d) { return d >> 32 != 0; }))
    throw usage_error("{}: IDX holds ranks from 1 on with 32-bit extents, got {}; use .npy", path,
                      to_string(t.type()));
  std::string head{'\0', '\0', static_cast<char>(known->code), static_cast<char>(dims.size())};
  for (const std::int64_t d : dims)
    for (int shift = 24; shift >= 0; shift -= 8) head.push_back(static_cast<char>(d >> shift));
  Tensor elements = t.clone();
  swap_bytes(elements.mutable_bytes(), static_cast<std::size_t>(size_bytes(t.dtype())));
  FileWriter out(path);
  out.write(head);
  out.write(elements.bytes());
  out.commit();
}

}  // namespace

const FormatRow& idx_format() {
  static const FormatRow row{.name = "idx",
                             .endings = ".idx .idx1-ubyte .idx2-ubyte .idx3-ubyte",
                             .summary = "One array as MNIST is published.",
                             .match = [](const FileView& file) { return is_idx(file.prefix); },
                             .load = load,
                             .store = store};
  return row;
}

}  // namespace etalon
