#include "importers/containers/json.h"

#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <unordered_set>
#include <utility>
#include <vector>

#include "engine/core/error.h"
#include "importers/containers/bytes.h"

namespace etalon {

using nlohmann::json;

namespace {

// Builds the value in one walk, with an eye on depth and on keys that stand twice. (json::parse
// takes a callback that sees both, and walks an object's members anew at the end of each: 100 000
// tensors took minutes.)
class Builder : public json::json_sax_t {
 public:
  Builder() = default;
  explicit Builder(const EachMember& each) : each_(each) {}
  json take() { return std::move(root_); }

  bool null() override { return put(nullptr); }
  bool boolean(bool v) override { return put(v); }
  bool number_integer(json::number_integer_t v) override { return put(v); }
  bool number_unsigned(json::number_unsigned_t v) override { return put(v); }
  bool number_float(json::number_float_t v, const json::string_t&) override { return put(v); }
  bool string(json::string_t& v) override { return put(std::move(v)); }
  bool binary(json::binary_t& v) override { return put(std::move(v)); }
  bool start_object(std::size_t) override { return enter(json::object()); }
  bool start_array(std::size_t) override { return enter(json::array()); }
  bool end_object() override { return leave(); }
  bool end_array() override { return leave(); }
  bool key(json::string_t& key) override {
    if (given_away()) {
      const auto [at, fresh] = names_.insert(std::move(key));
      if (!fresh) twice(*at);
      name_ = &*at;
      member_ = &value_;
      return true;
    }
    const auto [at, fresh] =
        open_.back()->get_ref<json::object_t&>().try_emplace(std::move(key), nullptr);
    if (!fresh) twice(at->first);
    member_ = &at->second;
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const json::exception& e) override {
    if (const auto* syntax = dynamic_cast<const json::parse_error*>(&e))
      throw bad_input("no valid JSON at byte {}; the file is damaged or of another format",
                      syntax->byte);
    throw bad_input("the JSON has a number beyond every format's range");
  }

 private:
  [[noreturn]] static void twice(std::string_view key) {
    throw bad_input("the JSON has the key '{}' twice in one object", printable(key));
  }
  // Whether members of the container that is open are the caller's.
  bool given_away() const {
    return each_ != nullptr && open_.size() == 1 && open_.back()->is_object();
  }
  // A value goes to the end of the list that is open, or to the key that was read last.
  template <class Value>
  json* place(Value&& value) {
    json* at = &root_;
    if (!open_.empty() && open_.back()->is_array())
      return &open_.back()->get_ref<json::array_t&>().emplace_back(std::forward<Value>(value));
    if (!open_.empty()) at = member_;
    *at = std::forward<Value>(value);
    return at;
  }
  template <class Value>
  bool put(Value&& value) {
    place(std::forward<Value>(value));
    if (given_away()) each_(*name_, value_);
    return true;
  }
  bool enter(json container) {
    if (open_.size() > static_cast<std::size_t>(kMaxJsonDepth))
      throw bad_input("the JSON nests deeper than {} levels; no model does", kMaxJsonDepth);
    open_.push_back(place(std::move(container)));
    return true;
  }
  bool leave() {
    open_.pop_back();
    if (given_away()) each_(*name_, value_);
    return true;
  }

  EachMember each_;
  json root_, value_;
  std::vector<json*> open_;  // outermost first; only the last of them grows
  json* member_ = nullptr;
  std::unordered_set<std::string> names_;  // of members that were given away
  const std::string* name_ = nullptr;
};

// Of the lexer's code for one kind of iterator the linker keeps one copy, whichever file's it is,
// and most files are compiled without optimisation. Over this iterator it is this file's own.
struct Letter {
  using iterator_category = std::forward_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;
  const char* at = nullptr;
  const char& operator*() const { return *at; }
  Letter& operator++() {
    ++at;
    return *this;
  }
  Letter operator++(int) { return {at++}; }
  bool operator==(const Letter&) const = default;
};

json parsed(std::string_view text, Builder&& builder) {
  const char* const first = text.data();
  json::sax_parse(Letter{first}, Letter{first + text.size()}, &builder);
  return builder.take();
}

}  // namespace

json parse_json(std::string_view text) { return parsed(text, Builder()); }

json parse_json_or_null(std::string_view text) {
  try {
    return parse_json(text);
  } catch (const Error&) {
    return nullptr;
  }
}

json parse_json_members(std::string_view text, const EachMember& each) {
  return parsed(text, Builder(each));
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
