#pragma once

#include "importers/formats/onnx/whole.h"

namespace etalon::onnx_format {

// Runs of numbers as integers, as TensorFlow Lite's hybrid kernels make them
// (engine/ops/tflite_hybrid.h): x = scale * (q - zero).
class HybridRuns {
 public:
  // A run: what lies along `axes`.
  HybridRuns(Whole& m, const Whole::Name& x, const Ints& axes, bool asymmetric);
  // q as unsigned bytes about 128.
  std::vector<Bytes> bytes(Whole& m) const;
  const Whole::Name& scale() const { return scale_; }
  // i64, of each run; "" where it is 0.
  const Whole::Name& zero() const { return zero_; }

 private:
  Whole::Name q_, scale_, zero_;
};

// The rows of x times the transposed weights i8 [O, K], in real numbers. Where x is zeros alone the
// kernels leave this part out, and here a bias of -0 becomes +0.
Whole::Name hybrid_part(NodeWriter& w, Whole& m, const Whole::Name& x, const Whole::Name& weights,
                        const std::vector<float>& w_scales, bool asymmetric);

}  // namespace etalon::onnx_format
