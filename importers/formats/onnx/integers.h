// Steps that products of integers share, whichever domain their operator is of.
#pragma once

#include "importers/formats/onnx/body.h"

namespace etalon::onnx_format {

// Input x minus its zero point in i32; a zero point for each row lies along the axis before the
// last.
ValueId difference(Body& b, std::size_t x, std::size_t zero, bool rows);

// The scale and zero point that bring the range of x, widened to hold 0, to 0 .. 255.
struct DynamicCodes {
  ValueId scale, zero;
};
DynamicCodes dynamic_codes(Body& b, ValueId x);

// With channels_last x and y are [batch, spatial, channels]; the weight is not.
void qlinear_conv(OnnxNode& n, bool channels_last);

}  // namespace etalon::onnx_format
