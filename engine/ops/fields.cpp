#include "engine/ops/fields.h"

#include "engine/core/error.h"

namespace etalon {
namespace {

class FieldSetter final : public ParamVisitor {
 public:
  explicit FieldSetter(const Fields& fields) : fields_(fields) {}
  void field(std::string_view name, std::int64_t& v) override { set(name, v); }
  void field(std::string_view name, float& v) override { set(name, v); }
  void field(std::string_view name, bool& v) override { set(name, v); }
  void field(std::string_view name, std::string& v) override { set(name, v); }
  void field(std::string_view name, Ints& v) override { set(name, v); }
  void field(std::string_view name, std::vector<float>& v) override { set(name, v); }
  void field(std::string_view name, std::vector<std::string>& v) override { set(name, v); }
  std::size_t used = 0;

 private:
  template <class T>
  void set(std::string_view name, T& value) {
    for (const auto& [field, given] : fields_)
      if (field == name) {
        if (!std::holds_alternative<T>(given))
          throw internal_error("parameter {} was given another type than it has", name);
        value = std::get<T>(given);
        ++used;
      }
  }
  const Fields& fields_;
};

}  // namespace

Params make_params(const OpRow& op, const Fields& fields) {
  FieldSetter setter(fields);
  Params params = op.defaults().edited(setter);
  if (setter.used != fields.size())
    throw internal_error("op {} lacks one of the {} parameters set for it", op.name, fields.size());
  return params;
}

}  // namespace etalon
