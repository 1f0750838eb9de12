// Who may include whom: engine includes nothing of the project outside engine/; kernels, importers
// and adversarial include engine/ and themselves, never each other, never bench.
#include <doctest/doctest.h>

#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "engine/core/file.h"

using namespace etalon;

namespace {

const std::map<std::string, std::set<std::string>> kMayInclude{
    {"engine", {"engine"}},
    {"kernels", {"kernels", "engine"}},
    {"importers", {"importers", "engine"}},
    {"adversarial", {"adversarial", "engine"}},
    {"bench", {"bench", "kernels", "importers", "adversarial", "engine"}},
};

// "line 3: kernels/gemm/rows.h", for each include that the layer of `path` may not have.
std::vector<std::string> faults(const std::string& path, const std::string& text) {
  std::vector<std::string> found;
  const std::string layer = path.substr(0, path.find('/'));
  int number = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    std::string line = text.substr(at, end - at);
    at = end + 1;
    ++number;
    std::erase_if(line, [](char c) { return c == ' ' || c == '\t'; });
    if (!line.starts_with("#include\"")) continue;
    const std::string included = line.substr(9, line.find('"', 9) - 9);
    const std::string owner = included.substr(0, included.find('/'));
    // A path of no layer is a generated file; one that climbs could go anywhere.
    const bool project = kMayInclude.contains(owner);
    if (included.find("..") != std::string::npos ||
        (project && !kMayInclude.at(layer).contains(owner)))
      found.push_back(path + ":" + std::to_string(number) + ": " + included);
  }
  return found;
}

bool is_source(const std::filesystem::path& path) {
  const auto e = path.extension();
  return e == ".cpp" || e == ".h" || e == ".cu" || e == ".cuh";
}

}  // namespace

TEST_CASE("layers: no file includes what its layer may not") {
  namespace fs = std::filesystem;
  const fs::path root(ETALON_SOURCE_DIR);
  int files = 0;
  for (const auto& [layer, allowed] : kMayInclude) {
    if (!fs::exists(root / layer)) continue;
    for (const auto& entry : fs::recursive_directory_iterator(root / layer)) {
      if (!entry.is_regular_file() || !is_source(entry.path())) continue;
      ++files;
      const std::string path = fs::relative(entry.path(), root).generic_string();
      for (const std::string& fault : faults(path, read_text_file(entry.path()))) FAIL_CHECK(fault);
    }
  }
  CHECK(files > 80);
}

TEST_CASE("layers: the test sees what it is for") {
  CHECK(faults("engine/a.h", "#include \"kernels/gemm/rows.h\"\n").size() == 1);
  CHECK(faults("engine/a.h", "#include <vector>\n  # include  \"bench/data.h\"\n").size() == 1);
  CHECK(faults("kernels/a.cpp", "#include \"importers/importers.h\"\n").size() == 1);
  CHECK(faults("importers/a.cpp", "#include \"kernels/kernels.h\"").size() == 1);
  CHECK(faults("adversarial/a.cpp", "#include \"bench/data.h\"").size() == 1);
  CHECK(faults("kernels/a.cpp", "#include \"../importers/importers.h\"\n").size() == 1);
  CHECK(faults("kernels/a.cpp", "#include \"engine/core/tensor.h\"\n").empty());
  CHECK(faults("bench/a.cpp", "#include \"importers/importers.h\"\n").empty());
}
