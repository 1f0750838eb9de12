#include "importers/containers/json.h"

#include <limits>
#include <nlohmann/json.hpp>
#include <unordered_set>
#include <vector>

#include "engine/core/error.h"
#include "importers/containers/bytes.h"

namespace etalon {

using nlohmann::json;

json parse_json(std::string_view text) {
  std::vector<std::unordered_set<std::string>> keys;
  const auto watch = [&](int depth, json::parse_event_t event, json& parsed) {
    if (depth > kMaxJsonDepth)
      throw bad_input("the JSON nests deeper than {} levels; no model does", kMaxJsonDepth);
    if (event == json::parse_event_t::object_start) keys.emplace_back();
    if (event == json::parse_event_t::object_end && !keys.empty()) keys.pop_back();
    if (event == json::parse_event_t::key && !keys.empty()) {
      const auto& key = parsed.get_ref<const std::string&>();
      if (!keys.back().insert(key).second)
        throw bad_input("the JSON has the key '{}' twice in one object", printable(key));
    }
    return true;
  };
  try {
    return json::parse(text.begin(), text.end(), watch);
  } catch (const json::parse_error& e) {
    throw bad_input("no valid JSON at byte {}; the file is damaged or of another format", e.byte);
  } catch (const json::exception&) {
    throw bad_input("the JSON has a number beyond every format's range");
  }
}

const json& json_member(const json& object, std::string_view key) {
  if (!object.is_object()) throw bad_input("expected a JSON object with '{}'", key);
  const auto at = object.find(std::string(key));
  if (at == object.end()) throw bad_input("the JSON object lacks '{}'", key);
  return *at;
}

const json& json_array(const json& object, std::string_view key) {
  const json& value = json_member(object, key);
  if (!value.is_array()) throw bad_input("'{}' must be a list, got {}", key, value.type_name());
  return value;
}

std::string json_string(const json& object, std::string_view key) {
  const json& value = json_member(object, key);
  if (!value.is_string()) throw bad_input("'{}' must be a text, got {}", key, value.type_name());
  return value.get<std::string>();
}

std::int64_t json_integer(const json& value, std::string_view what) {
  if (!value.is_number_integer() ||
      (value.is_number_unsigned() &&
       value.get<std::uint64_t>() >
           static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())))
    throw bad_input("{} must be a whole number of 64 bits", what);
  return value.get<std::int64_t>();
}

}  // namespace etalon
