#include "bench/compare/param_fields.h"

namespace etalon {
namespace {

class Collect final : public ParamVisitor {
 public:
  std::vector<ParamField> fields;
  void field(std::string_view name, std::int64_t& v) override { keep(name, v); }
  void field(std::string_view name, float& v) override { keep(name, v); }
  void field(std::string_view name, bool& v) override { keep(name, v); }
  void field(std::string_view name, std::string& v) override { keep(name, v); }
  void field(std::string_view name, Ints& v) override { keep(name, v); }
  void field(std::string_view name, std::vector<float>& v) override { keep(name, v); }
  void field(std::string_view name, std::vector<std::string>& v) override { keep(name, v); }

 private:
  template <class T>
  void keep(std::string_view name, const T& v) {
    fields.push_back({std::string(name), v});
  }
};

class Change final : public ParamVisitor {
 public:
  Change(std::string_view name, FieldValue value) : name_(name), value_(std::move(value)) {}
  bool found = false;
  void field(std::string_view name, std::int64_t& v) override { change(name, v); }
  void field(std::string_view name, float& v) override { change(name, v); }
  void field(std::string_view name, bool& v) override { change(name, v); }
  void field(std::string_view name, std::string& v) override { change(name, v); }
  void field(std::string_view name, Ints& v) override { change(name, v); }
  void field(std::string_view name, std::vector<float>& v) override { change(name, v); }
  void field(std::string_view name, std::vector<std::string>& v) override { change(name, v); }

 private:
  template <class T>
  void change(std::string_view name, T& v) {
    if (name != name_) return;
    if (!std::holds_alternative<T>(value_))
      throw usage_error("parameter {} is of another kind than the value given", name);
    v = std::get<T>(value_);
    found = true;
  }
  std::string_view name_;
  FieldValue value_;
};

}  // namespace

std::vector<ParamField> fields_of(const Params& params) {
  Collect collect;
  params.visit(collect);
  return std::move(collect.fields);
}

const ParamField* find_field(const std::vector<ParamField>& fields, std::string_view name) {
  for (const ParamField& f : fields)
    if (f.name == name) return &f;
  return nullptr;
}

Params with_field(const Params& params, std::string_view name, FieldValue value) {
  Change change(name, std::move(value));
  Params result = params.edited(change);
  if (!change.found) throw usage_error("the op has no parameter {}", name);
  return result;
}

}  // namespace etalon
