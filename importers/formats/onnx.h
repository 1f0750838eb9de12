// ONNX: models of IR 3 to 14, opset 1 to 28 of the default domain; and TensorProto files.
//
// What a node of any opset means is said by one translator a type (importers/formats/onnx/ops_*).
// Conventions that differ from ours are translated into explicit parameters and written into
// Model::notes. An initializer that is also listed as an input (IR 3 and before) is a constant.
// Ops that ONNX defines as functions of simpler ones become those (body.h); If, Loop and Scan own
// graphs (engine/ops/control.h); numbers of at most 8 bits are held a byte each
// (engine/ops/codes.h). Refused in one word: sequences, strings, maps, optional values, sparse
// tensors, model-local functions, other domains. docs/onnx-node-suite.md has ONNX's own cases.
// Source: onnx.ai/onnx/repo-docs/IR.html, Operators.html and Changelog.html.
#pragma once

#include "importers/importers.h"

namespace etalon {

inline constexpr std::int64_t kNewestOpset = 28;
// What is written, where no node needs a newer one.
inline constexpr std::int64_t kWrittenOpset = 21;

const FormatRow& onnx_format_row();
const FormatRow& onnx_tensor_format();

}  // namespace etalon
