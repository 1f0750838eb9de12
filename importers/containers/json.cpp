#include "importers/containers/json.h"

#include <limits>
#include <nlohmann/json.hpp>
#include <unordered_set>
#include <vector>

#include "engine/core/error.h"
#include "importers/containers/bytes.h"

namespace etalon {

using nlohmann::json;

namespace {

// Depth and keys that stand twice, looked at before a value is built. (A callback of json::parse
// would see them too, and walks an object's members anew at the end of each: 100 000 tensors took
// minutes.)
class Watch : public json::json_sax_t {
 public:
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(json::number_integer_t) override { return true; }
  bool number_unsigned(json::number_unsigned_t) override { return true; }
  bool number_float(json::number_float_t, const json::string_t&) override { return true; }
  bool string(json::string_t&) override { return true; }
  bool binary(json::binary_t&) override { return true; }
  bool start_object(std::size_t) override { return enter(); }
  bool start_array(std::size_t) override { return enter(); }
  bool end_object() override { return leave(); }
  bool end_array() override { return leave(); }
  bool key(json::string_t& key) override {
    if (!keys_.empty() && !keys_.back().insert(key).second)
      throw bad_input("the JSON has the key '{}' twice in one object", printable(key));
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const json::exception&) override {
    return false;  // json::parse says it
  }

 private:
  bool enter() {
    if (keys_.size() > static_cast<std::size_t>(kMaxJsonDepth))
      throw bad_input("the JSON nests deeper than {} levels; no model does", kMaxJsonDepth);
    keys_.emplace_back();
    return true;
  }
  bool leave() {
    if (!keys_.empty()) keys_.pop_back();
    return true;
  }
  std::vector<std::unordered_set<std::string>> keys_;
};

}  // namespace

json parse_json(std::string_view text) {
  try {
    Watch watch;
    static_cast<void>(json::sax_parse(text.begin(), text.end(), &watch));
    return json::parse(text.begin(), text.end());
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
