// Every format's smallest model (tests/fuzz/seeds), each of its files cut short at several places
// and with single bits turned, opened as from the command line. Whatever is refused says, in one
// line, which file, where in it (an offset, a size, a line, a name) or that there is nothing in it,
// and what to do; the exit code is 3; memory stays below a bound.
#include <doctest/doctest.h>

#include <cstring>
#include <filesystem>

#include "engine/core/error.h"
#include "engine/core/philox.h"
#include "tests/fuzz/targets.h"
#include "tests/importer_files.h"
#include "tests/peak_memory.h"

using namespace etalon;
using test::kMostKib, test::peak_kib;
namespace fs = std::filesystem;

namespace {

// What stands behind the file's name must hold a number, a name in quotes or a word for the place.
bool says_where(std::string_view text) {
  for (const char* word : {"'", "node ", "layer ", "tensor ", "member ", "line ", "is empty",
                           "no checkpoint lies beside it", "no neural network", "no graph in it",
                           "the formats are", "the inputs of ", "the network gives no output",
                           "nothing in it leads from", "value ", ": /"})
    if (text.find(word) != std::string_view::npos) return true;
  return text.find_first_of("0123456789") != std::string_view::npos;
}

struct Counts {
  std::size_t opened = 0, refused = 0;
};

// `folder`: the damaged file may be one that belongs to what is opened.
void open_one(const std::string& path, const std::string& folder, Counts& counts) {
  CAPTURE(path);
  try {
    open_model(path);
    ++counts.opened;
  } catch (const Error& e) {
    ++counts.refused;
    const std::string what = e.what();
    CHECK_MESSAGE(e.exit_code() == 3, what);
    CHECK_MESSAGE(what.starts_with(folder), what);
    CHECK_MESSAGE(what.find('\n') == std::string::npos, what);
    const std::size_t name_ends = std::min(what.find(": "), what.size());
    CHECK_MESSAGE(says_where(std::string_view(what).substr(name_ends)), what);
    // What to do stands behind a semicolon; a page that is named for it exists.
    CHECK_MESSAGE(what.find("; ") != std::string::npos, what);
    if (const std::size_t page = what.rfind(" docs/"); page != std::string::npos) {
      const std::string named = what.substr(page + 1, what.find(".md", page) + 2 - page);
      CHECK_MESSAGE(fs::is_regular_file(fs::path(ETALON_SOURCE_DIR) / named), what);
    }
  }
}

void damage(std::size_t cuts, std::size_t flips) {
  const fs::path seeds = fs::path(ETALON_SOURCE_DIR) / "tests" / "fuzz" / "seeds";
  const long before = peak_kib();
  std::size_t formats_with_refusals = 0, targets = 0;
  std::uint64_t draw = 0;
  const Philox random{6, 0};
  for (const fuzz::Target& target : fuzz::targets()) {
    if (target.row == nullptr) continue;
    CAPTURE(target.name);
    const test::TemporaryFolder folder;
    fs::copy(seeds / target.name, folder / "m",
             fs::copy_options::recursive | fs::copy_options::copy_symlinks);
    const std::string path = folder / ("m/" + target.open);
    Counts counts;
    for (const std::string& part : target.files) {
      const std::string at = folder / ("m/" + part), whole = test::read_bytes(at);
      for (std::size_t i = 0; i < cuts; ++i) {
        test::write_bytes(at, whole.substr(0, whole.size() * i / cuts));
        open_one(path, folder / "m", counts);
      }
      for (std::size_t i = 0; i < flips; ++i) {
        const auto b = random.block(draw++);
        std::string flipped = whole;
        const std::size_t byte = b[0] % flipped.size();
        flipped[byte] = static_cast<char>(flipped[byte] ^ 1 << b[1] % 8);
        test::write_bytes(at, flipped);
        open_one(path, folder / "m", counts);
      }
      test::write_bytes(at, whole);
    }
    open_one(path, folder / "m", counts);
    CHECK(counts.opened >= 1);
    ++targets;
    formats_with_refusals += counts.refused > 0 ? 1 : 0;
  }
  CHECK(formats_with_refusals == targets);
  CHECK(peak_kib() - before < kMostKib);
}

}  // namespace

TEST_CASE("damaged files of every format: each refusal says which file, and where in it") {
  damage(5, 4);
}

TEST_SUITE("long") {
  TEST_CASE("damaged files of every format, at many places") { damage(60, 400); }
}
