// The messages of an ONNX model as a Model, whatever container they came in.
#pragma once

#include <string>

#include "engine/graph/graph.h"
#include "importers/formats/onnx/message.h"

namespace etalon::onnx_format {

// `file` keeps the bytes that message.raw views; `format` is the name of the container.
Model assemble(Message& message, const Blob& file, const std::string& path, std::string format);

}  // namespace etalon::onnx_format
