// TensorFlow's messages, as far as inference needs them: field numbers from the public descriptions
// (tensorflow/core/framework and protobuf, *.proto).
#pragma once

#include <utility>

#include "importers/containers/pbtree.h"

namespace etalon::tf {

const PbSchema& schema();
// A bad-input Error for strings, resources and other types without numbers.
DType dtype_of_number(std::int64_t number);
Shape shape_of(const PbMessage& shape);  // of a TensorShapeProto; unknown extents are refused
Ints dims_of(const PbMessage& shape);    // -1 where unknown
// A TensorProto. `fill_budget` is what may be taken, in bytes, for elements that the message does
// not spell out (one value may stand for all).
Tensor tensor_of(const PbMessage& tensor, std::size_t& fill_budget);

// Of 64-bit complex numbers: the real and the imaginary parts.
std::pair<Tensor, Tensor> complex_of(const PbMessage& tensor);

}  // namespace etalon::tf
