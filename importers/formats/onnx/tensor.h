// TensorProto as a Tensor, and back.
//
// Elements come from one of: raw_data (little-endian), a typed field (float_data, int32_data for
// all types of 32 bits or less, f16 and bf16 as their bits, int64_data, double_data, uint64_data),
// or a file beside the model (external_data: location, offset, length). Refused by name: strings,
// complex, 8-bit floats, sub-byte integers, segments.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "engine/numerics/codes.h"
#include "importers/formats/onnx/message.h"

namespace etalon::onnx_format {

// The files that external data lies in, each mapped once; paths stay inside the model's folder.
class ExternalFiles {
 public:
  explicit ExternalFiles(std::string folder) : folder_(std::move(folder)) {}
  Blob read(const pb::TensorProto& tensor, std::size_t want);

 private:
  std::string folder_;
  std::map<std::string, Blob> open_;
};

// A bad-input Error names the type when the engine holds none such. Types of at most 8 bits without
// arithmetic are held as bytes (engine/ops/codes.h): u8, or i8 for signed integers.
DType dtype_of_onnx(std::int32_t data_type);
std::optional<Code> code_of_onnx(std::int32_t data_type);
std::int32_t onnx_of_code(Code format);
std::int32_t onnx_of_dtype(DType dtype);

// `raw`: raw_data that was left in the file, kept alive by `keeper`. Otherwise the message's own
// bytes are taken over, not copied. `external` may be null: then external data is refused.
Tensor take_tensor(pb::TensorProto& tensor, std::optional<std::span<const std::byte>> raw,
                   const std::shared_ptr<const void>& keeper, ExternalFiles* external);

void put_tensor(const Tensor& tensor, const std::string& name, pb::TensorProto& out);

}  // namespace etalon::onnx_format
