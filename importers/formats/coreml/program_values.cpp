// The messages of MIL.proto (numbers of fields) and the blob file of weights (MILBlob, storage
// format 2): a header of 64 bytes, then for each blob 64 bytes that begin with 0xdeadbeef: type,
// bytes, where its data lies. Source: the public specification of Core ML's model format.
#include "importers/formats/coreml/program_values.h"

#include "engine/core/error.h"
#include "engine/numerics/element.h"
#include "importers/containers/bytes.h"

namespace etalon::coreml {
namespace {

// Numbers that stand in the message; one of them fills the whole shape.
Tensor immediate(const PbMessage& m, const StoredType& stored, const Shape& shape) {
  const TensorType type{stored.dtype, shape};
  const std::size_t want = claimed_bytes(type);
  if (m.has("bytes")) {
    const PbMessage part = m.message("bytes");
    const Blob bytes = part.has("values") ? part.blob("values") : Blob{};
    return stored.bits == 0 ? tensor_from_bytes(type, bytes)
                            : unpacked(bytes.bytes, stored.bits, stored.negatives, shape);
  }
  std::vector<double> values;
  if (m.has("floats")) {
    const Tensor t = m.message("floats").tensor("values");
    if (t.dtype() == type.dtype && t.numel() == type.shape.numel()) return t.reshaped(type.shape);
    for (std::int64_t i = 0; i < t.numel(); ++i) values.push_back(load_as_double(t, i));
  } else if (m.has("doubles")) {
    const Tensor t = m.message("doubles").tensor("values");
    for (std::int64_t i = 0; i < t.numel(); ++i) values.push_back(load_as_double(t, i));
  } else {
    for (const char* kind : {"ints", "longInts", "bools"})
      if (m.has(kind)) {
        const bool narrow = kind[0] == 'i';
        for (const std::int64_t v : m.message(kind).integers("values"))
          values.push_back(narrow ? static_cast<double>(static_cast<std::int32_t>(v))
                                  : static_cast<double>(v));
      }
  }
  const auto n = static_cast<std::size_t>(type.shape.numel());
  if (values.size() != n && !(n == 1 && values.empty()))
    throw bad_input("{} elements, its type {} asks for {} bytes", values.size(), to_string(type),
                    want);
  if (values.empty()) values.assign(n, 0);  // what is 0 is not written
  Tensor out = Tensor::uninitialized(type.dtype, type.shape);
  const auto bytes = out.mutable_bytes();
  for (std::size_t i = 0; i < n; ++i)
    store_from_double(type.dtype, bytes.data(), static_cast<std::int64_t>(i), values[i]);
  return out;
}

}  // namespace

const PbSchema& program_schema() {
  static const PbSchema kSchema(R"(
Model specificationVersion 1 i description 2 Description pipelineClassifier 200 PipelineHolder pipelineRegressor 201 PipelineHolder pipeline 202 Pipeline mlProgram 502 Program
PipelineHolder pipeline 1 Pipeline
Pipeline models 1 Model
Description input 1 Feature output 10 Feature functions 20 FunctionDescription defaultFunctionName 21 s metadata 100 Metadata
FunctionDescription name 1 s input 2 Feature
Feature name 1 s type 3 FeatureType
FeatureType image 4 Image array 5 Array
Image width 1 i height 2 i colorSpace 3 i
Array shape 1 i
Metadata userDefined 100 StringEntry
StringEntry key 1 s value 2 s
Program version 1 i functions 2 FunctionEntry
FunctionEntry key 1 s value 2 Function
Function inputs 1 Named opset 2 s blocks 3 BlockEntry
BlockEntry key 1 s value 2 Block
Block inputs 1 Named outputs 2 s operations 3 Operation
Operation type 1 s inputs 2 ArgumentEntry outputs 3 Named blocks 4 Block attributes 5 ValueEntry
ArgumentEntry key 1 s value 2 Argument
Argument arguments 1 Binding
Binding name 1 s value 2 Value
ValueEntry key 1 s value 2 Value
Named name 1 s type 2 Type
Type tensor 1 TensorType list 2 Nothing tuple 3 Nothing dictionary 4 Nothing state 5 State
State wrapped 1 Type
Nothing none 1000 i
TensorType dataType 1 i rank 2 i dimensions 3 Dimension
Dimension constant 1 Constant unknown 2 Unknown
Constant size 1 i
Unknown variadic 1 i
Value type 2 Type immediate 3 Immediate blob 5 BlobFile
BlobFile fileName 1 s offset 2 i
Immediate tensor 1 TensorValue tuple 2 Values list 3 Values
Values values 1 Value
TensorValue floats 1 Floats ints 2 Ints bools 3 Ints strings 4 Strings longInts 5 Ints doubles 6 Doubles bytes 7 Bytes
Floats values 1 f
Ints values 1 i
Strings values 1 s
Doubles values 1 d
Bytes values 1 s
)");
  return kSchema;
}

StoredType stored_type(std::int64_t type) {
  switch (type) {
    case 1:
      return {.dtype = DType::boolean};
    case 10:
      return {.dtype = DType::f16};
    case 11:
      return {.dtype = DType::f32};
    case 12:
      return {.dtype = DType::f64};
    case 13:
      return {.dtype = DType::bf16};
    case 21:
      return {.dtype = DType::i8};
    case 22:
      return {.dtype = DType::i16};
    case 23:
      return {.dtype = DType::i32};
    case 24:
      return {.dtype = DType::i64};
    case 25:
      return {.dtype = DType::i8, .bits = 4, .negatives = true};
    case 31:
      return {.dtype = DType::u8};
    case 32:
      return {.dtype = DType::u16};
    case 33:
      return {.dtype = DType::u32};
    case 35:
      return {.dtype = DType::u8, .bits = 4};
    case 36:
      return {.dtype = DType::u8, .bits = 2};
    case 37:
      return {.dtype = DType::u8, .bits = 1};
    case 38:
      return {.dtype = DType::u8, .bits = 6};
    case 39:
      return {.dtype = DType::u8, .bits = 3};
    default:
      throw bad_input("values of type {} are not supported", type);
  }
}

Ints dims_of(const PbMessage& tensor_type) {
  Ints dims;
  for (const PbMessage& d : tensor_type.messages("dimensions")) {
    const std::int64_t n = d.has("constant") ? d.message("constant").integer("size") : -1;
    if (n < -1 || n > (1LL << 40)) throw bad_input("an extent of {}", n);
    dims.push_back(n);
  }
  if (dims.size() > 8) throw bad_input("rank {}", dims.size());
  return dims;
}

Tensor unpacked(std::span<const std::byte> bytes, int bits, bool negatives, const Shape& shape) {
  const DType dtype = negatives ? DType::i8 : DType::u8;
  claimed_bytes({dtype, shape});
  const auto width = static_cast<std::size_t>(bits);
  if (shape.numel() > static_cast<std::int64_t>(bytes.size() * 8 / width))
    throw bad_input("{} bytes for {} elements of {} bits", bytes.size(), shape.numel(), bits);
  Tensor out = Tensor::uninitialized(dtype, shape);
  const auto to = out.mutable_bytes();
  for (std::size_t i = 0, at = 0; i < to.size(); ++i) {
    unsigned v = 0;
    for (std::size_t b = 0; b < width; ++b, ++at)
      v |= (std::to_integer<unsigned>(bytes[at / 8]) >> (at % 8) & 1U) << b;
    if (negatives && (v >> (width - 1) & 1U) != 0) v |= ~0U << width;
    to[i] = static_cast<std::byte>(v);
  }
  return out;
}

Tensor Constants::blob(const PbMessage& at, const StoredType& stored, const Shape& shape) {
  std::string name = at.text("fileName");
  constexpr std::string_view kBase = "@model_path/";
  if (!name.starts_with(kBase))
    throw bad_input("its weights lie in {}, expected a file under @model_path", printable(name));
  name.erase(0, kBase.size());
  auto found = files_.find(name);
  if (found == files_.end())
    found = files_.emplace(name, map_file(resolve_inside(folder_, name))).first;
  const Blob& file = found->second;
  const auto offset = static_cast<std::uint64_t>(at.integer("offset"));
  if (file.bytes.size() < 64 || offset > file.bytes.size() - 64)
    throw bad_input("a blob at {} of {} bytes of {}", offset, file.bytes.size(), printable(name));
  if (load_le<std::uint32_t>(file.bytes, offset) != 0xdeadbeef)
    throw bad_input("byte {} of {}: no blob begins there", offset, printable(name));
  const auto bytes = load_le<std::uint64_t>(file.bytes, offset + 8),
             begin = load_le<std::uint64_t>(file.bytes, offset + 16);
  if (begin > file.bytes.size() || bytes > file.bytes.size() - begin)
    throw bad_input("a blob of {} bytes at {} of {} bytes of {}", bytes, begin, file.bytes.size(),
                    name);
  const auto data = file.bytes.subspan(begin, bytes);
  if (stored.bits != 0) return unpacked(data, stored.bits, stored.negatives, shape);
  return tensor_from_bytes({stored.dtype, shape}, {data, file.keeper});
}

Value Constants::read(const PbMessage& value, int depth) {
  Value v;
  if (depth > 4) throw bad_input("lists nest too deep");
  const PbMessage now = value.message("immediate");
  for (const char* kind : {"tuple", "list"})
    if (now.has(kind)) {
      for (const PbMessage& part : now.message(kind).messages("values"))
        v.parts.push_back(read(part, depth + 1));
      return v;
    }
  const PbMessage type = value.message("type").message("tensor");
  if (now.message("tensor").has("strings")) {
    v.texts = now.message("tensor").message("strings").texts("values");
    return v;
  }
  if (type.integer("dataType") == 2) {
    v.texts = {""};
    return v;
  }
  const Ints dims = dims_of(type);
  for (const std::int64_t d : dims)
    if (d < 0) throw bad_input("a constant of unknown extent");
  const StoredType stored = stored_type(type.integer("dataType"));
  const Shape shape{std::span(dims)};
  v.constant = value.has("blob") ? blob(value.message("blob"), stored, shape)
                                 : immediate(now.message("tensor"), stored, shape);
  return v;
}

}  // namespace etalon::coreml
