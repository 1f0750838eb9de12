// JSON of model files: bounded depth, no key twice, and access that says what was expected.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace etalon {

// Depth that a model file can need; a deeper one is refused before it is built.
inline constexpr int kMaxJsonDepth = 64;

// A bad-input Error with the byte offset when the text is not JSON, nests too deep or repeats a
// key.
nlohmann::json parse_json(std::string_view text);

// The same of a line that may be anything: null where parse_json refuses it.
nlohmann::json parse_json_or_null(std::string_view text);

// parse_json, with each member of the outermost object given away as soon as it is read: what is
// left in memory is one of them at a time, not all. Gives back the rest: an empty object, or what
// stands in its place.
using EachMember = std::function<void(const std::string& name, const nlohmann::json& value)>;
nlohmann::json parse_json_members(std::string_view text, const EachMember& each);

// The member of an object; a bad-input Error names the key when it is missing or of another kind.
const nlohmann::json& json_member(const nlohmann::json& object, std::string_view key);
const nlohmann::json& json_array(const nlohmann::json& object, std::string_view key);
std::string json_string(const nlohmann::json& object, std::string_view key);
std::int64_t json_integer(const nlohmann::json& value, std::string_view what);

}  // namespace etalon
