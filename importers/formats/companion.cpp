#include "importers/formats/companion.h"

#include <filesystem>

#include "importers/containers/bytes.h"

namespace etalon {

std::string companion(const std::string& path, std::span<const std::string> with,
                      std::initializer_list<std::string_view> endings) {
  for (const std::string_view ending : endings)
    if (has_ending(path, ending)) return path;
  for (const std::string& given : with)
    for (const std::string_view ending : endings)
      if (has_ending(given, ending)) return given;
  for (const std::string_view ending : endings) {
    const auto beside =
        std::filesystem::path(path).parent_path() / (stem_of(path) + std::string(ending));
    std::error_code failed;
    if (std::filesystem::is_regular_file(beside, failed)) return beside.string();
  }
  return "";
}

}  // namespace etalon
