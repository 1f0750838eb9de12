// Claim: what the calling thread has told its processor shows in no model that is read: weights and
// attributes, decimal ones too, are the same, and so is what is said of a file that is none.
#include <doctest/doctest.h>

#include "engine/core/hash.h"
#include "importers/importers.h"
#include "tests/hostile_environment.h"
#include "tests/importer_files.h"

using namespace etalon;

namespace {

std::string what_is_read(const std::string& path) {
  try {
    const Model model = open_model(path);
    HashStream all;
    for (const auto& [id, tensor] : model.graph->initializers) all.update(tensor);
    std::string text = to_string(all.digest());
    for (const Node& node : model.graph->nodes) text += " " + to_string(node.params);
    return text;
  } catch (const Error& e) {
    return std::string("error: ") + e.what();
  }
}

}  // namespace

TEST_CASE("environment: a model's weights and attributes do not depend on the caller's") {
  int models = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(test::fixture(""))) {
    const std::string path = entry.path().string();
    const std::string want = what_is_read(path);
    const std::string got = [&] {
      const test::HostileEnvironment hostile;
      return what_is_read(path);
    }();
    CHECK_MESSAGE(got == want, path);
    models += want.starts_with("error: ") ? 0 : 1;
  }
  CHECK(models > 200);
}
