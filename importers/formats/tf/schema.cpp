#include "importers/formats/tf/schema.h"

#include "engine/core/error.h"
#include "importers/containers/bytes.h"

namespace etalon::tf {

const PbSchema& schema() {
  static const PbSchema kSchema(R"(
enum DataType DT_FLOAT 1 DT_DOUBLE 2 DT_INT32 3 DT_UINT8 4 DT_INT16 5 DT_INT8 6 DT_STRING 7 DT_INT64 9 DT_BOOL 10 DT_BFLOAT16 14 DT_UINT16 17 DT_HALF 19 DT_RESOURCE 20 DT_VARIANT 21 DT_UINT32 22 DT_UINT64 23
GraphDef node 1 NodeDef library 2 FunctionDefLibrary versions 4 VersionDef
VersionDef producer 1 i min_consumer 2 i
NodeDef name 1 s op 2 s input 3 s attr 5 AttrEntry
AttrEntry key 1 s value 2 AttrValue
AttrValue list 1 ListValue s 2 s i 3 i f 4 f b 5 i type 6 DataType shape 7 TensorShapeProto tensor 8 TensorProto func 10 NameAttrList
ListValue s 2 s i 3 i f 4 f b 5 i type 6 DataType shape 7 TensorShapeProto
NameAttrList name 1 s
TensorShapeProto dim 2 Dim unknown_rank 3 i
Dim size 1 i name 2 s
TensorProto dtype 1 DataType tensor_shape 2 TensorShapeProto tensor_content 4 s float_val 5 f double_val 6 d int_val 7 i string_val 8 s scomplex_val 9 f int64_val 10 i bool_val 11 i half_val 13 i uint32_val 16 i uint64_val 17 i
FunctionDefLibrary function 1 FunctionDef
FunctionDef signature 1 OpDef node_def 3 NodeDef ret 4 StringEntry
StringEntry key 1 s value 2 s
OpDef name 1 s input_arg 2 ArgDef output_arg 3 ArgDef
ArgDef name 1 s type 3 DataType
SavedModel saved_model_schema_version 1 i meta_graphs 2 MetaGraphDef
MetaGraphDef meta_info_def 1 MetaInfoDef graph_def 2 GraphDef signature_def 5 SignatureEntry object_graph_def 7 SavedObjectGraph
MetaInfoDef tags 4 s tensorflow_version 5 s
SignatureEntry key 1 s value 2 SignatureDef
SignatureDef inputs 1 TensorInfoEntry outputs 2 TensorInfoEntry method_name 3 s
TensorInfoEntry key 1 s value 2 TensorInfo
TensorInfo name 1 s dtype 2 i tensor_shape 3 TensorShapeProto
SavedObjectGraph nodes 1 SavedObject
SavedObject children 1 ObjectReference variable 7 SavedVariable
ObjectReference node_id 1 i local_name 2 s
SavedVariable dtype 1 i name 6 s
BundleHeaderProto num_shards 1 i endianness 2 i
BundleEntryProto dtype 1 i shape 2 TensorShapeProto shard_id 3 i offset 4 i size 5 i slices 7 TensorSliceProto
SavedTensorSlices meta 1 SavedTensorSliceMeta data 2 SavedSlice
SavedTensorSliceMeta tensor 1 SavedSliceMeta
SavedSliceMeta name 1 s shape 2 TensorShapeProto type 3 i slice 4 TensorSliceProto
SavedSlice name 1 s slice 2 TensorSliceProto data 3 TensorProto
TensorSliceProto extent 1 Extent
Extent start 1 i length 2 i
)");
  return kSchema;
}

DType dtype_of_number(std::int64_t number) {
  switch (number > 100 ? number - 100 : number) {
    case 1:
      return DType::f32;
    case 2:
      return DType::f64;
    case 3:
      return DType::i32;
    case 4:
      return DType::u8;
    case 5:
      return DType::i16;
    case 6:
      return DType::i8;
    case 9:
      return DType::i64;
    case 10:
      return DType::boolean;
    case 14:
      return DType::bf16;
    case 17:
      return DType::u16;
    case 19:
      return DType::f16;
    case 22:
      return DType::u32;
    case 23:
      return DType::u64;
    default:
      throw bad_input(
          "element type number {} (a string, resource, complex or quantised type) is "
          "not supported",
          number);
  }
}

Ints dims_of(const PbMessage& shape) {
  Ints dims;
  for (const PbMessage& d : shape.messages("dim")) {
    dims.push_back(d.integer("size", 0));
    if (dims.back() < -1) throw bad_input("an extent of {}", dims.back());
  }
  if (dims.size() > static_cast<std::size_t>(kMaxRank))
    throw bad_input("rank {} is beyond {}", dims.size(), kMaxRank);
  return dims;
}

Shape shape_of(const PbMessage& shape) {
  const Ints dims = dims_of(shape);
  for (const std::int64_t d : dims)
    if (d < 0) throw bad_input("a shape with an unknown extent");
  return Shape(dims);
}

std::pair<Tensor, Tensor> complex_of(const PbMessage& t) {
  const Shape shape = shape_of(t.message("tensor_shape"));
  const auto n = static_cast<std::size_t>(shape.numel());
  std::vector<float> pairs = t.numbers("scomplex_val");
  if (t.has("tensor_content")) {
    const auto raw = t.blob("tensor_content").bytes;
    if (raw.size() % 8 != 0) throw bad_input("{} bytes of complex numbers", raw.size());
    for (std::size_t at = 0; at < raw.size(); at += 4) pairs.push_back(load_le<float>(raw, at));
  }
  if (pairs.size() != 2 * n && pairs.size() != 2)
    throw bad_input("{} parts of {} complex numbers", pairs.size(), n);
  if (pairs.size() == 2 && n > 1 << 20) throw bad_input("{} complex numbers from one", n);
  std::pair out{Tensor::uninitialized(DType::f32, shape), Tensor::uninitialized(DType::f32, shape)};
  for (std::size_t i = 0; i < n; ++i) {
    const std::size_t at = pairs.size() == 2 ? 0 : 2 * i;
    out.first.mutable_data<float>()[i] = pairs[at];
    out.second.mutable_data<float>()[i] = pairs[at + 1];
  }
  return out;
}

Tensor tensor_of(const PbMessage& t, std::size_t& fill_budget) {
  const TensorType type{dtype_of_number(t.integer("dtype")), shape_of(t.message("tensor_shape"))};
  if (t.has("tensor_content")) {
    const Blob raw = t.blob("tensor_content");
    if (!raw.bytes.empty() || type.shape.numel() == 0) return tensor_from_bytes(type, raw);
  }
  std::vector<double> reals;
  Ints wholes;
  const bool real = type.dtype == DType::f32 || type.dtype == DType::f64;
  if (type.dtype == DType::f32)
    for (const float v : t.numbers("float_val")) reals.push_back(static_cast<double>(v));
  else if (type.dtype == DType::f64) {
    const Tensor all = t.tensor("double_val");
    if (all.dtype() == DType::f64)
      for (const double v : all.data<double>()) reals.push_back(v);
  } else {
    const char* field = type.dtype == DType::i64                                ? "int64_val"
                        : type.dtype == DType::boolean                          ? "bool_val"
                        : type.dtype == DType::u32                              ? "uint32_val"
                        : type.dtype == DType::u64                              ? "uint64_val"
                        : type.dtype == DType::f16 || type.dtype == DType::bf16 ? "half_val"
                                                                                : "int_val";
    wholes = t.integers(field);
  }
  const auto given = static_cast<std::int64_t>(real ? reals.size() : wholes.size());
  const std::int64_t n = type.shape.numel();
  if (given > n) throw bad_input("{} values for {}", given, to_string(type));
  if (given < n) {
    const std::size_t more = claimed_bytes(type);
    if (more > fill_budget)
      throw bad_input(
          "{} is spelled by {} values; that is more memory than a file of this size "
          "may ask for",
          to_string(type), given);
    fill_budget -= more;
  }
  Tensor out = Tensor::zeros(type.dtype, type.shape);
  visit_dtype(type.dtype, [&](auto tag) {
    using T = decltype(tag);
    auto data = out.mutable_data<T>();
    for (std::size_t i = 0; i < data.size() && given > 0; ++i) {
      const std::size_t at = std::min(i, static_cast<std::size_t>(given - 1));
      if constexpr (std::is_floating_point_v<T>)
        data[i] = static_cast<T>(reals[at]);
      else if constexpr (std::is_same_v<T, Bool>)
        data[i].value = wholes[at] != 0 ? 1 : 0;
      else if constexpr (std::is_integral_v<T>)
        data[i] = static_cast<T>(wholes[at]);
      else
        data[i].bits = static_cast<std::uint16_t>(wholes[at]);
    }
  });
  return out;
}

}  // namespace etalon::tf
