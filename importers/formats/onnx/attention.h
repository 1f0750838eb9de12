// Steps that the forms of attention share, whichever domain they are of.
#pragma once

#include "importers/formats/onnx/body.h"

namespace etalon::onnx_format {

// k or v [batch, heads, length, size] with each head repeated for the heads of q that share it.
ValueId repeat_heads(Body& b, ValueId x, ValueId q);

// x [batch, heads, length, size] with its first `turned` numbers (0: all) of each head turned by
// the angles whose cosines and sines are [batch or 1, 1, length, half of them].
ValueId rotated(Body& b, ValueId x, ValueId cosine, ValueId sine, std::int64_t turned,
                bool interleaved);

}  // namespace etalon::onnx_format
