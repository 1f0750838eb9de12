#include "bench/resources.h"

#include <fmt/format.h>

#include <filesystem>

#include "bench/report/version.h"
#include "engine/core/error.h"

namespace etalon {

std::vector<std::string> resource_roots() {
  std::vector<std::string> roots;
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (!error) roots.push_back(program.parent_path().parent_path() / "share" / "etalon");
  roots.emplace_back(source_dir());
  return roots;
}

std::string resource_path(std::string_view path) {
  const std::vector<std::string> roots = resource_roots();
  for (const std::string& root : roots) {
    const std::filesystem::path candidate = std::filesystem::path(root) / path;
    std::error_code error;
    if (std::filesystem::exists(candidate, error)) return candidate;
  }
  throw missing("{} is in none of {}; install Etalon again, or build it from its source tree", path,
                fmt::join(roots, ", "));
}

}  // namespace etalon
