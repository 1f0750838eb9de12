#include "engine/ops/params.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/core/error.h"

namespace etalon {

std::size_t ParamVisitor::choice(std::string_view name, std::size_t value,
                                 std::initializer_list<std::string_view> names) {
  std::string text(names.begin()[value]);
  field(name, text);
  const auto found = std::find(names.begin(), names.end(), text);
  if (found == names.end())
    throw bad_input("parameter {}: '{}' is not one of {}", name, text, fmt::join(names, ", "));
  return static_cast<std::size_t>(found - names.begin());
}

void ParamVisitor::operator()(std::string_view name, DType& value) {
  std::string text(etalon::name(value));
  field(name, text);
  for (int i = 0; i < kDTypeCount; ++i)
    if (etalon::name(static_cast<DType>(i)) == text) {
      value = static_cast<DType>(i);
      return;
    }
  throw bad_input("parameter {}: '{}' is no element type", name, text);
}

void Params::throw_other_type(const std::type_info& held, const std::type_info& asked) {
  throw internal_error("parameters of type {} were read as {}", held.name(), asked.name());
}

}  // namespace etalon
