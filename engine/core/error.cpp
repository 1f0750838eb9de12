#include "engine/core/error.h"

#include <vector>

namespace etalon {
namespace {

std::vector<std::string>& scopes() {
  thread_local std::vector<std::string> stack;
  return stack;
}

std::string with_scopes(std::string_view what) {
  std::string text;
  for (const std::string& where : scopes()) text += where + ": ";
  return text.append(what);
}

}  // namespace

Error::Error(ErrorKind kind, std::string_view what)
    : std::runtime_error(with_scopes(what)), kind_(kind) {}

ErrorScope::ErrorScope(std::string where) { scopes().push_back(std::move(where)); }
ErrorScope::~ErrorScope() { scopes().pop_back(); }

}  // namespace etalon
