// Linear quantisation, as ONNX means it.
//
//   quantize_linear     y = saturate(round(x / scale) + zero_point), round to the nearest integer,
//                       halves to even
//   dequantize_linear   y = (x - zero_point) * scale, rounded once
//
// scale (positive) and zero_point have one element; or one for each index of `axis`; or, with
// block_size > 0, x's shape with that axis cut into blocks of block_size. zero_point not given is
// 0. The quotient is divided in the contract's acc before it is rounded to an integer; under
// `exact` the real quotient is rounded. Division by a scale of zero gives an infinity and so an end
// of the type; NaN gives the zero point. Types: x f32, f16, bf16 (or i32 to quantise); y i8, u8,
// i16, u16: zero_point's, else output_dtype, else u8. dequantize_linear takes those and i32 and
// gives scale's type. Source: ONNX QuantizeLinear-21, DequantizeLinear-21.
#pragma once

#include "engine/ops/op.h"

namespace etalon {

struct QuantizeParams {
  std::int64_t axis = 1;
  std::int64_t block_size = 0;
  std::string output_dtype;  // of quantize_linear, where zero_point does not say it
  template <class V>
  void visit(V& v) {
    v("axis", axis);
    v("block_size", block_size);
    v("output_dtype", output_dtype);
  }
};

// Which element of scale and zero_point belongs to element i of x.
struct QuantizeGeometry {
  std::int64_t extent = 1, inner = 1, block = 1, blocks = 1;  // of the axis; blocks along it
  bool whole = true;                                          // one scale for all
  bool outer_varies = false;                                  // blocked: scale has x's other axes
  std::int64_t scale_index(std::int64_t i) const {
    if (whole) return 0;
    const std::int64_t at = i / inner % extent / block;
    if (!outer_varies) return at;
    return (i / (inner * extent) * blocks + at) * inner + i % inner;
  }
};
QuantizeGeometry quantize_geometry(const QuantizeParams& params, const InferInputs& in);

std::span<const OpRow> quantize_ops();

}  // namespace etalon
