// The bytes of an ONNX file as protobuf messages, with the large weights left where they lie.
#pragma once

#include <onnx.pb.h>

#include <optional>
#include <vector>

#include "importers/containers/bytes.h"

namespace etalon::onnx_format {

namespace pb = ::etalon::onnx;

struct Message {
  pb::ModelProto model;
  // raw_data of initializer i where it was left in the file; otherwise it is in the message.
  std::vector<std::optional<std::span<const std::byte>>> raw;
};

// The parser is protobuf's. For a file that is mostly raw_data of initializers it is given the
// message without them: they are cut out by walking model -> graph -> initializer -> raw_data, and
// come back as spans of the file, so that a weight is not copied on its way in.
// A damaged file is a bad-input Error with the byte offset where it breaks.
Message parse_model(std::span<const std::byte> file);

}  // namespace etalon::onnx_format
