// Our reading of JSON against nlohmann's own, and what it refuses.
#include "importers/containers/json.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "engine/core/error.h"

using namespace etalon;
using nlohmann::json;

namespace {

std::string refusal(const std::string& text) {
  std::string whole, members;
  try {
    static_cast<void>(parse_json(text));
  } catch (const Error& e) {
    whole = e.what();
  }
  try {
    static_cast<void>(parse_json_members(text, [](const std::string&, const json&) {}));
  } catch (const Error& e) {
    members = e.what();
  }
  CHECK(whole == members);
  return whole;
}

std::string nested(int levels) {
  std::string text;
  for (int i = 0; i < levels; ++i) text += i % 2 == 0 ? "{\"a\":" : "[";
  text += "1";
  for (int i = levels; i-- > 0;) text += i % 2 == 0 ? "}" : "]";
  return text;
}

}  // namespace

TEST_CASE("json: values are those of the library's own reader, whole and member by member") {
  const char* const texts[] = {
      "{}",
      "[]",
      "null",
      "-12",
      "18446744073709551615",
      "1e-3",
      "\"a \\u00e9 \\n\"",
      "true",
      R"({"b": [1, [2, {}], "x"], "a": {"c": {"d": null}, "e": []}, "": 0, "t": false})",
      R"([{"a": 1}, {"a": 2}, [[]], 1.5, "s"])",
      R"({"w": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, "__metadata__": {}})",
  };
  for (const char* text : texts) {
    CAPTURE(text);
    const json expected = json::parse(text);
    CHECK(parse_json(text) == expected);
    json joined = json::object();
    const json rest = parse_json_members(
        text, [&](const std::string& name, const json& value) { joined[name] = value; });
    CHECK((expected.is_object() ? joined : rest) == expected);
    if (expected.is_object()) CHECK(rest == json::object());
  }
  CHECK(parse_json(nested(64)) == json::parse(nested(64)));
}

TEST_CASE("json: what no model file may hold is refused with the same words either way") {
  CHECK(refusal(R"({"a": 1, "b": 2, "a": 3})") == "the JSON has the key 'a' twice in one object");
  CHECK(refusal(R"([{"b": {"a": 1, "a": 3}}])") == "the JSON has the key 'a' twice in one object");
  CHECK(refusal(R"({"a": {"a": 1}, "b": {"a": 1}})").empty());
  CHECK(refusal("{\"a\": 1,}") ==
        "no valid JSON at byte 9; the file is damaged or of another format");
  CHECK(refusal("") == "no valid JSON at byte 1; the file is damaged or of another format");
  CHECK(refusal("{} x").starts_with("no valid JSON at byte 4"));
  CHECK(refusal("[1e999]") == "the JSON has a number beyond every format's range");
  CHECK(refusal("{\"a\": \"\xff\"}").starts_with("no valid JSON at byte"));
  CHECK(refusal(nested(66)) == "the JSON nests deeper than 64 levels; no model does");
}
