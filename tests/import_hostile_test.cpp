// Files that would do harm, opened from the command line: each is refused with exit code 3 and one
// sentence that begins with the file's name, and takes next to no memory. The files and their
// sentences are made by tests/fixtures/make_hostile.py: pickles that call os.system, bombs in zip
// and HDF5, shapes that overflow, depth, circles, names that stand twice, ways out of the folder.
#include <doctest/doctest.h>
#include <sys/resource.h>

#include <filesystem>
#include <sstream>

#include "engine/core/error.h"
#include "importers/importers.h"
#include "tests/importer_files.h"

using namespace etalon;
using test::fixture;

namespace {

long peak_kib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

}  // namespace

TEST_CASE("hostile files are refused by name, with exit code 3, in one sentence") {
  const test::TemporaryFolder folder;
  std::filesystem::copy(fixture("hostile"), folder / "files");
  std::filesystem::create_symlink("/etc/passwd", folder / "files/link.bin");
  std::istringstream expected(test::read_bytes(fixture("hostile/expected.txt")));
  const long before = peak_kib();
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
  CHECK(files >= 25);
  // They claim 64 GiB and more; the largest has 100 KB.
  CHECK(peak_kib() - before < 64 * 1024);
}
