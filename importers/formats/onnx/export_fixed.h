#pragma once

#include "importers/formats/onnx/whole.h"

namespace etalon::onnx_format {

// 1 / sqrt of a sum below 2^31, as a multiplier and a shift to the right.
class InverseRoot {
 public:
  InverseRoot(Whole& m, const Whole::Name& of);
  // v times it, times 2^left.
  Whole::Name scaled(Whole& m, const Whole::Name& v, int left) const;

 private:
  Whole::Name factor_, right_;
};

}  // namespace etalon::onnx_format
