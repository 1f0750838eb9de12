#include "importers/formats/pytorch/script_archive.h"

#include <algorithm>

#include "engine/core/error.h"

namespace etalon::pytorch_format {

const ScriptFile& ScriptArchive::file(std::string_view module) {
  auto at = files.find(module);
  if (at == files.end()) {
    std::string path = folder + "code/" + std::string(module);
    std::replace(path.begin() + static_cast<std::ptrdiff_t>(folder.size()), path.end(), '.', '/');
    const ZipMember* member = zip.find(path + ".py");
    ScriptFile parsed;
    if (member != nullptr) {
      const ErrorScope scope("member " + printable(member->name));
      parsed = parse_script(zip.read(*member).text());
    }
    at = files.emplace(module, std::move(parsed)).first;
  }
  return at->second;
}

const ScriptFunction* ScriptArchive::function(std::string_view module, std::string_view name) {
  const auto& functions = file(module).functions;
  const auto found = functions.find(name);
  return found == functions.end() ? nullptr : &found->second;
}

const std::vector<std::string>* ScriptArchive::tuple(std::string_view module,
                                                     std::string_view name) {
  const auto& tuples = file(module).tuples;
  const auto found = tuples.find(name);
  return found == tuples.end() ? nullptr : &found->second;
}

const ScriptFunction* ScriptArchive::method(std::string_view type, std::string_view name) {
  const std::size_t dot = type.rfind('.');
  if (dot == std::string_view::npos) return nullptr;
  return function(type.substr(0, dot), std::string(type.substr(dot + 1)) + "." + std::string(name));
}

}  // namespace etalon::pytorch_format
