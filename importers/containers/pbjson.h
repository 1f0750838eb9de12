// Protobuf messages written as JSON (protobuf.dev, "ProtoJSON"): names in snake or camel case,
// bytes in base64, numbers and enumerations as texts, maps as objects.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "importers/containers/pbtree.h"

namespace etalon {

// The message's text form, which PbMessage::from_text reads. `is_bytes` says which fields of type
// string hold bytes.
std::string text_of_json(const PbType& type, const nlohmann::json& value,
                         bool (*is_bytes)(std::string_view type, std::string_view field));
// A bad-input Error where it is none.
std::string base64_decode(std::string_view text);

}  // namespace etalon
