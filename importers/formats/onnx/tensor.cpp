#include "importers/formats/onnx/tensor.h"

#include <charconv>
#include <limits>

#include "engine/core/error.h"
#include "engine/core/file.h"

namespace etalon::onnx_format {
namespace {

struct TypeRow {
  std::int32_t number;
  std::string_view name;
  std::optional<DType> dtype;
  std::optional<Code> code = std::nullopt;
};
constexpr TypeRow kTypes[] = {
    {1, "FLOAT", DType::f32},
    {2, "UINT8", DType::u8},
    {3, "INT8", DType::i8},
    {4, "UINT16", DType::u16},
    {5, "INT16", DType::i16},
    {6, "INT32", DType::i32},
    {7, "INT64", DType::i64},
    {8, "STRING", std::nullopt},
    {9, "BOOL", DType::boolean},
    {10, "FLOAT16", DType::f16},
    {11, "DOUBLE", DType::f64},
    {12, "UINT32", DType::u32},
    {13, "UINT64", DType::u64},
    {14, "COMPLEX64", std::nullopt},
    {15, "COMPLEX128", std::nullopt},
    {16, "BFLOAT16", DType::bf16},
    {17, "FLOAT8E4M3FN", code_storage(Code::f8e4m3fn), Code::f8e4m3fn},
    {18, "FLOAT8E4M3FNUZ", code_storage(Code::f8e4m3fnuz), Code::f8e4m3fnuz},
    {19, "FLOAT8E5M2", code_storage(Code::f8e5m2), Code::f8e5m2},
    {20, "FLOAT8E5M2FNUZ", code_storage(Code::f8e5m2fnuz), Code::f8e5m2fnuz},
    {21, "UINT4", code_storage(Code::u4), Code::u4},
    {22, "INT4", code_storage(Code::i4), Code::i4},
    {23, "FLOAT4E2M1", code_storage(Code::f4e2m1), Code::f4e2m1},
    {24, "FLOAT8E8M0", code_storage(Code::f8e8m0), Code::f8e8m0},
    {25, "UINT2", code_storage(Code::u2), Code::u2},
    {26, "INT2", code_storage(Code::i2), Code::i2},
    {27, "FLOAT6E2M3", std::nullopt},
    {28, "FLOAT6E3M2", std::nullopt},
};

// Elements of a typed field, held to the range of the element type. f16 and bf16 are their bits.
template <class Stored, class Field>
Tensor typed(const TensorType& type, const Field& field) {
  if (static_cast<std::int64_t>(field.size()) != type.shape.numel())
    throw bad_input("{} needs {} elements and its field has {}", to_string(type),
                    type.shape.numel(), field.size());
  Tensor out = Tensor::uninitialized(type.dtype, type.shape);
  auto* to = reinterpret_cast<Stored*>(out.mutable_bytes().data());
  using Source = typename Field::value_type;
  for (int i = 0; i < field.size(); ++i) {
    if constexpr (std::is_integral_v<Stored>) {
      const Source v = field.Get(i);
      // 16-bit patterns are seen both zero- and sign-extended.
      const bool fits = type.dtype == DType::f16 || type.dtype == DType::bf16
                            ? std::in_range<std::uint16_t>(v) || std::in_range<std::int16_t>(v)
                            : std::in_range<Stored>(v);
      if (!fits) throw bad_input("element {} is {}, beyond {}", i, v, name(type.dtype));
    }
    to[i] = static_cast<Stored>(field.Get(i));
  }
  if (type.dtype != DType::boolean) return out;
  return tensor_from_bytes(type, {out.bytes(), std::make_shared<Tensor>(out.share())});
}

Tensor from_fields(const TensorType& type, const pb::TensorProto& t) {
  switch (type.dtype) {
    case DType::f32:
      return typed<float>(type, t.float_data());
    case DType::f64:
      return typed<double>(type, t.double_data());
    case DType::i64:
      return typed<std::int64_t>(type, t.int64_data());
    case DType::u64:
      return typed<std::uint64_t>(type, t.uint64_data());
    case DType::u32:
      return typed<std::uint32_t>(type, t.uint64_data());
    case DType::i32:
      return typed<std::int32_t>(type, t.int32_data());
    case DType::i16:
      return typed<std::int16_t>(type, t.int32_data());
    case DType::i8:
      return typed<std::int8_t>(type, t.int32_data());
    case DType::u8:
    case DType::boolean:
      return typed<std::uint8_t>(type, t.int32_data());
    case DType::u16:
    case DType::f16:
    case DType::bf16:
      break;
  }
  return typed<std::uint16_t>(type, t.int32_data());
}

// Elements of fewer than 8 bits lie packed, the first in the lowest bits of a byte.
std::size_t packed_bytes(const Shape& shape, Code format) {
  const auto bits = static_cast<std::size_t>(code_bits(format));
  return (static_cast<std::size_t>(shape.numel()) * bits + 7) / 8;
}

Tensor unpack(const TensorType& type, Code format, std::span<const std::byte> packed) {
  if (packed.size() != packed_bytes(type.shape, format))
    throw bad_input("{} of {} needs {} bytes and the file has {} for it; fetch the file again",
                    name(format), to_string(type.shape), packed_bytes(type.shape, format),
                    packed.size());
  Tensor out = Tensor::uninitialized(type.dtype, type.shape);
  const auto to = out.mutable_bytes();
  const auto bits = static_cast<std::size_t>(code_bits(format));
  for (std::size_t i = 0; i < to.size(); ++i) {
    const auto code = static_cast<std::uint8_t>(
        (std::to_integer<unsigned>(packed[i * bits / 8]) >> (i * bits % 8)) & ((1U << bits) - 1));
    // An integer format's byte is its number, so that -1 in i4 is -1 in i8.
    to[i] = static_cast<std::byte>(
        is_integer_code(format) ? code_of(format, code_value(format, code)) : code);
  }
  return out;
}

std::size_t number(const std::string& text, std::string_view what) {
  std::size_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size())
    throw bad_input("external data: {} is '{}', expected a number of bytes", what, printable(text));
  return value;
}

}  // namespace

DType dtype_of_onnx(std::int32_t data_type) {
  for (const TypeRow& row : kTypes)
    if (row.number == data_type) {
      if (row.dtype) return *row.dtype;
      throw bad_input("element type {} is not one this engine holds", row.name);
    }
  throw bad_input("element type number {} is not one of ONNX's", data_type);
}

std::optional<Code> code_of_onnx(std::int32_t data_type) {
  for (const TypeRow& row : kTypes)
    if (row.number == data_type) return row.code;
  return std::nullopt;
}

std::int32_t onnx_of_code(Code format) {
  for (const TypeRow& row : kTypes)
    if (row.code == format) return row.number;
  throw internal_error("no ONNX type for {}", name(format));
}

std::int32_t onnx_of_dtype(DType dtype) {
  for (const TypeRow& row : kTypes)
    if (row.dtype == dtype) return row.number;
  throw internal_error("no ONNX type for {}", name(dtype));
}

Blob ExternalFiles::read(const pb::TensorProto& tensor, std::size_t want) {
  std::string location;
  std::size_t offset = 0;
  std::optional<std::size_t> length;
  for (const auto& entry : tensor.external_data()) {
    if (entry.key() == "location") location = entry.value();
    if (entry.key() == "offset") offset = number(entry.value(), "offset");
    if (entry.key() == "length") length = number(entry.value(), "length");
  }
  const std::string path = resolve_inside(folder_, location);
  auto at = open_.find(path);
  if (at == open_.end()) at = open_.emplace(path, map_file(path)).first;
  const Blob& file = at->second;
  const std::size_t take = length.value_or(want);
  if (offset > file.bytes.size() || take > file.bytes.size() - offset)
    throw bad_input("external data claims bytes {} to {} of {}, which has {}; it is cut short",
                    offset, offset + take, printable(location), file.bytes.size());
  return {file.bytes.subspan(offset, take), file.keeper};
}

Tensor take_tensor(pb::TensorProto& t, std::optional<std::span<const std::byte>> raw,
                   const std::shared_ptr<const void>& keeper, ExternalFiles* external) {
  const DType dtype = dtype_of_onnx(t.data_type());
  if (t.has_segment())
    throw bad_input("holds a segment of a tensor, which no version of ONNX defines how to join");
  const TensorType type{dtype,
                        Shape(std::span(t.dims().data(), static_cast<std::size_t>(t.dims_size())))};
  const std::size_t want = claimed_bytes(type);
  const auto code = code_of_onnx(t.data_type());
  if (t.data_location() == 1) {
    if (external != nullptr && code)
      return unpack(type, *code, external->read(t, packed_bytes(type.shape, *code)).bytes);
    if (external == nullptr) throw bad_input("external data has no place here");
    return tensor_from_bytes(type, external->read(t, want));
  }
  if (t.data_location() != 0)
    throw bad_input("data_location {} is not one of ONNX's", t.data_location());
  if (code) {
    if (raw) return unpack(type, *code, *raw);
    if (t.has_raw_data()) return unpack(type, *code, std::as_bytes(std::span(t.raw_data())));
    std::string bytes;  // each entry of the field is one byte
    for (const std::int32_t v : t.int32_data()) {
      if (!std::in_range<std::uint8_t>(v) && !std::in_range<std::int8_t>(v))
        throw bad_input("{} holds the entry {}, which is no byte", name(*code), v);
      bytes.push_back(static_cast<char>(v));
    }
    return unpack(type, *code, std::as_bytes(std::span(bytes)));
  }
  if (raw) return tensor_from_bytes(type, {*raw, keeper});
  if (t.has_raw_data()) {
    const auto own = std::make_shared<std::string>(std::move(*t.mutable_raw_data()));
    return tensor_from_bytes(type, {std::as_bytes(std::span(*own)), own});
  }
  return from_fields(type, t);
}

void put_tensor(const Tensor& tensor, const std::string& name, pb::TensorProto& out) {
  for (const std::int64_t d : tensor.shape().dims()) out.add_dims(d);
  out.set_data_type(onnx_of_dtype(tensor.dtype()));
  if (!name.empty()) out.set_name(name);
  const auto bytes = tensor.bytes();
  out.set_raw_data(bytes.data(), bytes.size());
}

}  // namespace etalon::onnx_format
