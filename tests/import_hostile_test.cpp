// Files that would do harm, opened from the command line: each is refused with exit code 3 and one
// sentence that begins with the file's name, and takes next to no memory. The files and their
// sentences are made by tests/fixtures/make_hostile.py and make_hostile_formats.py: pickles that
// call os.system, bombs in zip and HDF5, shapes that overflow, depth, circles, names that stand
// twice, ways out of the folder.
#include <doctest/doctest.h>
#include <sys/stat.h>

#include <filesystem>
#include <sstream>

#include "engine/core/error.h"
#include "importers/importers.h"
#include "tests/importer_files.h"
#include "tests/peak_memory.h"

using namespace etalon;
using test::fixture, test::kMostKib, test::peak_kib;

namespace {

// Opens every file that `list` names; each must be refused by the sentence that stands there.
int check_refused(const test::TemporaryFolder& folder, const char* list) {
  std::istringstream expected(test::read_bytes(fixture(list)));
  int files = 0;
  for (std::string line; std::getline(expected, line); ++files) {
    const std::size_t tab = line.find('\t');
    const std::string path = folder / ("files/" + line.substr(0, tab));
    CAPTURE(path);
    try {
      open_model(path);
      FAIL_CHECK("accepted");
    } catch (const Error& e) {
      const std::string what = e.what();
      CHECK(e.exit_code() == 3);
      CHECK(what.starts_with(path + ": "));
      CHECK(what.find('\n') == std::string::npos);
      CHECK_MESSAGE(what.find(line.substr(tab + 1)) != std::string::npos, what);
    }
  }
  return files;
}

}  // namespace

TEST_CASE("hostile files are refused by name, with exit code 3, in one sentence") {
  const test::TemporaryFolder folder;
  std::filesystem::copy(fixture("hostile"), folder / "files",
                        std::filesystem::copy_options::recursive);
  std::filesystem::create_symlink("/etc/passwd", folder / "files/link.bin");
  const long before = peak_kib();
  CHECK(check_refused(folder, "hostile/expected.txt") >= 25);
  CHECK(check_refused(folder, "hostile/expected_formats.txt") >= 60);
  // They claim 64 GiB and more; the largest has 100 KB.
  CHECK(peak_kib() - before < kMostKib);
}

TEST_CASE("a pipe in the place of a file is refused, not waited for") {
  const test::TemporaryFolder folder;
  const std::string path = folder / "pipe.onnx";
  REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
  CHECK_THROWS_WITH(open_model(path), doctest::Contains("not a regular file"));
}

// Code that is not followed to its end leaves the weights: a list of itself twice, sixty times; one
// in a list in a list, four thousand deep.
TEST_CASE("TorchScript that unfolds without end gives its weights alone") {
  for (const char* name : {"hostile/unfolds_script.pt", "hostile/deep_script.pt"}) {
    CAPTURE(name);
    const long before = peak_kib();
    const Model model = open_model(fixture(name));
    CHECK(model.graph->nodes.empty());
    CHECK(model.graph->initializers.size() == 1);
    CHECK(peak_kib() - before < kMostKib);
  }
}
