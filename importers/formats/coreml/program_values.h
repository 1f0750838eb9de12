// What stands in an ML program's messages: types, constants, and blobs in the file beside it.
#pragma once

#include <map>
#include <string>

#include "importers/formats/coreml/program.h"

namespace etalon::coreml {

const PbSchema& program_schema();

// A type of elements as the engine has it. Integers of fewer than 8 bits are read as i8 or u8.
struct StoredType {
  DType dtype = DType::f32;
  int bits = 0;  // of a packed type
  bool negatives = false;
};
StoredType stored_type(std::int64_t type);
Ints dims_of(const PbMessage& tensor_type);  // -1 where it is not known

// Integers of `bits` bits, one behind the other, the lowest bits first.
Tensor unpacked(std::span<const std::byte> bytes, int bits, bool negatives, const Shape& shape);

class Constants {
 public:
  explicit Constants(std::string folder) : folder_(std::move(folder)) {}
  Value read(const PbMessage& value, int depth = 0);

 private:
  Tensor blob(const PbMessage& at, const StoredType& stored, const Shape& shape);
  std::string folder_;
  std::map<std::string, Blob> files_;
};

}  // namespace etalon::coreml
