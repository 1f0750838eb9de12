// Parameters as text, "strides=[2,2] groups=1": printed and read back.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>

#include "engine/core/error.h"
#include "engine/ops/params.h"

namespace etalon {
namespace {

class Printer final : public ParamVisitor {
 public:
  void field(std::string_view name, std::int64_t& v) override { put(name, fmt::to_string(v)); }
  void field(std::string_view name, float& v) override { put(name, fmt::format("{}", v)); }
  void field(std::string_view name, bool& v) override { put(name, v ? "true" : "false"); }
  void field(std::string_view name, std::string& v) override { put(name, v); }
  void field(std::string_view name, Ints& v) override { list(name, v); }
  void field(std::string_view name, std::vector<float>& v) override { list(name, v); }
  void field(std::string_view name, std::vector<std::string>& v) override { list(name, v); }
  std::string text;

 private:
  template <class T>
  void list(std::string_view name, const std::vector<T>& v) {
    put(name, fmt::format("[{}]", fmt::join(v, ",")));
  }
  void put(std::string_view name, const std::string& value) {
    text += fmt::format("{}{}={}", text.empty() ? "" : " ", name, value);
  }
};

class Parser final : public ParamVisitor {
 public:
  explicit Parser(std::string_view text) {
    while (!text.empty()) {
      const std::size_t end = std::min(text.find(' '), text.size());
      const std::string_view part = text.substr(0, end);
      text.remove_prefix(std::min(end + 1, text.size()));
      if (part.empty()) continue;
      const std::size_t equals = part.find('=');
      if (equals == std::string_view::npos)
        throw usage_error("'{}' is not a parameter; write name=value", part);
      if (!given_.emplace(part.substr(0, equals), part.substr(equals + 1)).second)
        throw usage_error("parameter {} is given twice", part.substr(0, equals));
    }
  }
  void field(std::string_view name, std::int64_t& v) override { take(name, v); }
  void field(std::string_view name, float& v) override { take(name, v); }
  void field(std::string_view name, bool& v) override { take(name, v); }
  void field(std::string_view name, std::string& v) override { take(name, v); }
  void field(std::string_view name, Ints& v) override { take_list(name, v); }
  void field(std::string_view name, std::vector<float>& v) override { take_list(name, v); }
  void field(std::string_view name, std::vector<std::string>& v) override { take_list(name, v); }
  void refuse_unknown() const {
    for (const auto& [name, value] : given_)
      if (std::ranges::find(known_, name) == known_.end())
        throw usage_error("there is no parameter '{}'; the parameters are {}", name,
                          known_.empty() ? "none" : fmt::format("{}", fmt::join(known_, ", ")));
  }

 private:
  template <class T>
  void take(std::string_view name, T& v) {
    known_.emplace_back(name);
    if (const auto at = given_.find(name); at != given_.end()) read(name, at->second, v);
  }
  template <class T>
  void take_list(std::string_view name, std::vector<T>& v) {
    known_.emplace_back(name);
    const auto at = given_.find(name);
    if (at == given_.end()) return;
    std::string_view text = at->second;
    if (text.size() < 2 || text.front() != '[' || text.back() != ']')
      throw usage_error("parameter {}: '{}' is not a list; write [a,b]", name, text);
    text = text.substr(1, text.size() - 2);
    v.clear();
    while (!text.empty()) {
      const std::size_t end = std::min(text.find(','), text.size());
      T entry{};
      read(name, text.substr(0, end), entry);
      v.push_back(std::move(entry));
      text.remove_prefix(std::min(end + 1, text.size()));
    }
  }
  template <class T>
    requires std::is_arithmetic_v<T>
  static void read(std::string_view name, std::string_view text, T& v) {
    T value{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size())
      throw usage_error("parameter {}: '{}' is not {}", name, text,
                        std::is_floating_point_v<T> ? "a number of f32" : "an integer");
    v = value;
  }
  static void read(std::string_view name, std::string_view text, bool& v) {
    if (text != "true" && text != "false")
      throw usage_error("parameter {}: '{}' is neither true nor false", name, text);
    v = text == "true";
  }
  static void read(std::string_view, std::string_view text, std::string& v) { v = text; }

  std::map<std::string_view, std::string_view> given_;
  std::vector<std::string> known_;
};

}  // namespace

std::string to_string(const Params& params) {
  Printer printer;
  params.visit(printer);
  return printer.text;
}

Params parse_params(const Params& defaults, std::string_view text) {
  Parser parser(text);
  Params params = defaults.edited(parser);
  parser.refuse_unknown();
  return params;
}

}  // namespace etalon
