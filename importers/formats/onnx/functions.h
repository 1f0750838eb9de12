// Functions that a model brings along: nodes that call one become the nodes of its body.
#pragma once

#include "importers/formats/onnx/message.h"

namespace etalon::onnx_format {

// In the graph and in the bodies of its nodes. A bad-input Error where functions call each other in
// a circle, are of another opset than the model, or unfold to more than 2^18 nodes.
void inline_functions(pb::ModelProto& model);

}  // namespace etalon::onnx_format
