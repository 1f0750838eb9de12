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

}  // namespace

std::string to_string(const Params& params) {
  Printer printer;
  params.visit(printer);
  return printer.text;
}

}  // namespace etalon
