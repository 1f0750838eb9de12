// What translators of network formats share: scalars, windows, the model around a finished graph.
#pragma once

#include <string>

#include "engine/graph/builder.h"

namespace etalon {

Tensor scalar_f32(float value);
Tensor filled_f32(std::int64_t length, float value);
Tensor ints_tensor(const Ints& values);
// Any floating or integer tensor as f32, each element rounded once; f32 itself is shared.
Tensor as_f32(const Tensor& tensor);

struct WindowFields {
  Ints kernel, strides, dilations, pads_begin, pads_end;
  std::string auto_pad = "explicit";
};
// strides, dilations, pads and auto_pad of a convolution; with `kernel` of a pooling.
Fields window_fields(const WindowFields& window, bool with_kernel);

// y = x W^T + b for x [N, in]; w is [out, in], or [in, out]
// where `transposed`. b may be kAbsent.
ValueId fully_connected(GraphBuilder& graph, const std::string& name, ValueId x, ValueId w,
                        ValueId b, bool transposed = false);

Model finish_model(GraphBuilder& graph, const std::string& path, std::string format,
                   std::string version, std::string producer);

}  // namespace etalon
