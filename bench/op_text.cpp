#include "bench/op_text.h"

#include <charconv>
#include <map>

#include "engine/core/error.h"

namespace etalon {
namespace {

template <class T>
T parse_number(std::string_view text, std::string_view what) {
  if (text.starts_with('+')) text.remove_prefix(1);
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || text.empty())
    throw usage_error("{}: '{}' is not a number that fits here", what, text);
  return value;
}

std::string_view without_brackets(std::string_view text) {
  if (text.starts_with('[') && text.ends_with(']')) return text.substr(1, text.size() - 2);
  return text;
}

std::vector<std::string_view> pieces(std::string_view text, std::string_view separators) {
  std::vector<std::string_view> out;
  text = without_brackets(text);
  if (text.empty()) return out;
  while (true) {
    const std::size_t at = text.find_first_of(separators);
    out.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return out;
    text.remove_prefix(at + 1);
  }
}

// Sets the fields that the user named; remembers all names for the message.
class Setter final : public ParamVisitor {
 public:
  explicit Setter(std::map<std::string, std::string, std::less<>> wanted)
      : wanted_(std::move(wanted)) {}
  void field(std::string_view name, std::int64_t& value) override {
    if (const auto* t = take(name)) value = parse_number<std::int64_t>(*t, name);
  }
  void field(std::string_view name, float& value) override {
    if (const auto* t = take(name)) value = parse_number<float>(*t, name);
  }
  void field(std::string_view name, bool& value) override {
    const auto* t = take(name);
    if (t == nullptr) return;
    if (*t != "true" && *t != "false" && *t != "1" && *t != "0")
      throw usage_error("{}: '{}' is neither true nor false", name, *t);
    value = *t == "true" || *t == "1";
  }
  void field(std::string_view name, std::string& value) override {
    if (const auto* t = take(name)) value = *t;
  }
  void field(std::string_view name, Ints& value) override {
    if (const auto* t = take(name)) numbers(*t, ",x", name, value);
  }
  void field(std::string_view name, std::vector<float>& value) override {
    if (const auto* t = take(name)) numbers(*t, ",", name, value);
  }
  void field(std::string_view name, std::vector<std::string>& value) override {
    const auto* t = take(name);
    if (t == nullptr) return;
    value.clear();
    for (const std::string_view piece : pieces(*t, ",")) value.emplace_back(piece);
  }
  void check_all_taken(const OpRow& op) const {
    for (const auto& [name, text] : wanted_)
      if (!taken_.contains(name))
        throw usage_error("{} has no parameter '{}'; it has {}", op.name, name,
                          known_.empty() ? "none" : known_);
  }

 private:
  const std::string* take(std::string_view name) {
    if (!known_.empty()) known_ += ", ";
    known_ += name;
    const auto found = wanted_.find(name);
    if (found == wanted_.end()) return nullptr;
    taken_.emplace(name, true);
    return &found->second;
  }
  template <class T>
  static void numbers(std::string_view text, std::string_view separators, std::string_view name,
                      std::vector<T>& value) {
    value.clear();
    for (const std::string_view piece : pieces(text, separators))
      value.push_back(parse_number<T>(piece, name));
  }

  std::map<std::string, std::string, std::less<>> wanted_;
  std::map<std::string, bool, std::less<>> taken_;
  std::string known_;
};

}  // namespace

TensorType parse_tensor_type(std::string_view text) {
  TensorType type;
  std::string_view dims = text;
  if (const std::size_t open = text.find('['); open != std::string_view::npos) {
    if (!text.ends_with(']'))
      throw usage_error("'{}' is no tensor type; write it like f32[1,20,24,24]", text);
    if (open > 0) type.dtype = parse_dtype(text.substr(0, open));
    dims = text.substr(open);
  } else if (text.find_first_of("-0123456789") != 0) {
    throw usage_error("'{}' is no tensor type; write it like f32[1,20,24,24]", text);
  }
  std::vector<std::int64_t> extents;
  for (const std::string_view piece : pieces(dims, ",x")) {
    extents.push_back(parse_number<std::int64_t>(piece, text));
    if (extents.back() < 0) throw usage_error("'{}' has a negative extent", text);
  }
  if (extents.size() > static_cast<std::size_t>(kMaxRank))
    throw usage_error("'{}' has {} axes; {} are the most", text, extents.size(), kMaxRank);
  type.shape = Shape(std::span<const std::int64_t>(extents));
  return type;
}

Params parse_params(const OpRow& op, const std::vector<std::string>& assignments) {
  std::map<std::string, std::string, std::less<>> wanted;
  for (const std::string& text : assignments) {
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0)
      throw usage_error("'{}' sets no parameter; write it like strides=[2,2]", text);
    if (!wanted.emplace(text.substr(0, equals), text.substr(equals + 1)).second)
      throw usage_error("parameter '{}' is set twice", text.substr(0, equals));
  }
  Setter setter(std::move(wanted));
  Params params = op.defaults().edited(setter);
  setter.check_all_taken(op);
  return params;
}

}  // namespace etalon
