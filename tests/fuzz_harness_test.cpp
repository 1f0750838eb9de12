// The harnesses of tests/fuzz without libFuzzer: every format has one with a seed that it opens,
// what fuzzers once found stays mended, and a short run of structure-aware mutants (under the
// sanitizers too) finds nothing while enough of them come past the container.
#include <doctest/doctest.h>

#include <cstring>
#include <filesystem>
#include <set>

#include "engine/graph/builder.h"
#include "tests/fuzz/targets.h"
#include "tests/importer_files.h"
#include "tests/peak_memory.h"

using namespace etalon;
namespace fs = std::filesystem;

namespace etalon::fuzz {

void mutate_bytes(Bytes& file, Draw& draw) {
  if (file.empty()) return file.push_back(static_cast<std::uint8_t>(draw.below(256)));
  const std::size_t at = draw.below(file.size()),
                    n = std::min<std::size_t>(1 + draw.below(12), file.size() - at);
  const auto here = file.begin() + static_cast<std::ptrdiff_t>(at);
  const auto end = here + static_cast<std::ptrdiff_t>(n);
  switch (draw.below(5)) {
    case 0:
      *here = static_cast<std::uint8_t>(*here ^ 1U << draw.below(8));
      break;
    case 1:
      file.erase(here, end);
      break;
    case 2: {
      const Bytes piece(here, end);
      file.insert(file.begin() + static_cast<std::ptrdiff_t>(draw.below(file.size())),
                  piece.begin(), piece.end());
      break;
    }
    case 3: {
      const std::uint64_t value = draw.number();
      std::memcpy(&*here, &value, std::min<std::size_t>(n, 8));
      break;
    }
    default:
      *here = static_cast<std::uint8_t>(draw.below(256));
  }
}

}  // namespace etalon::fuzz

namespace {

const fs::path kFolder = fs::path(ETALON_SOURCE_DIR) / "tests" / "fuzz";

fuzz::Bytes bytes_of(const fs::path& path) {
  const std::string text = test::read_bytes(path.string());
  return {text.begin(), text.end()};
}

fuzz::Bytes seed_of(const fuzz::Target& target) {
  std::vector<fuzz::Bytes> parts;
  for (const std::string& file : target.files)
    parts.push_back(bytes_of(kFolder / "seeds" / target.name / file));
  return fuzz::joined(parts);
}

void run_mutants(std::size_t runs, unsigned first) {
  std::size_t all = 0, reached_all = 0;
  for (const fuzz::Target& target : fuzz::targets()) {
    const test::TemporaryFolder folder;
    const std::string place = (folder / "") + "/";
    const fuzz::Bytes seed = seed_of(target);
    std::size_t reached = 0, opened = 0;
    for (std::size_t i = 0; i < runs; ++i) {
      fuzz::Draw draw(first + static_cast<unsigned>(i));
      const fuzz::Outcome outcome =
          fuzz::run_input(target, place, fuzz::mutated(target, seed, draw));
      reached += outcome.reached ? 1 : 0;
      opened += outcome.opened ? 1 : 0;
      if (!outcome.finding.empty()) {
        CAPTURE(target.name);
        CAPTURE(first + i);  // the seed of Draw: the same mutant again
        FAIL_CHECK(outcome.finding);
      }
    }
    MESSAGE(target.name << ": of " << runs << " mutants " << opened << " open, " << reached
                        << " reach a node or tensor");
    all += runs;
    reached_all += reached;
  }
  CHECK(reached_all * 10 >= all);
}

}  // namespace

TEST_CASE("fuzz harnesses: every format has one, with a seed that it recognises and opens") {
  std::set<std::string> with_harness;
  for (const fuzz::Target& target : fuzz::targets()) {
    CAPTURE(target.name);
    for (const std::string& file : target.files)
      CHECK(fs::is_regular_file(kFolder / "seeds" / target.name / file));
    const test::TemporaryFolder folder;
    const fuzz::Outcome outcome = fuzz::run_input(target, (folder / "") + "/", seed_of(target));
    CHECK(outcome.finding.empty());
    CHECK(outcome.opened);
    if (target.row == nullptr) continue;
    with_harness.insert(std::string(target.row->name));
    CHECK(format_of((kFolder / "seeds" / target.name / target.open).string()).name ==
          target.row->name);
  }
  for (const FormatRow& row : formats()) {
    CAPTURE(row.name);
    CHECK(with_harness.contains(std::string(row.name)));
  }
}

TEST_CASE("fuzz harnesses: what was found once stays mended") {
  std::size_t files = 0;
  for (const fuzz::Target& target : fuzz::targets()) {
    const fs::path found = kFolder / "regressions" / target.name;
    if (!fs::is_directory(found)) continue;
    for (const auto& entry : fs::directory_iterator(found)) {
      CAPTURE(entry.path().string());
      // What a count of steps ends takes all of them, minutes under a sanitizer.
      if (test::kKeepsFreed && entry.path().string().ends_with("-without-end")) continue;
      const test::TemporaryFolder folder;
      CHECK(fuzz::run_input(target, (folder / "") + "/", bytes_of(entry.path())).finding == "");
      ++files;
    }
  }
  CHECK(files >= 1);
}

// Caffe's inner products read a shape again after they had added a node (found by the harness
// caffe).
TEST_CASE("graph builder: a shape that was asked for stays where it is while values are added") {
  GraphBuilder builder("many");
  const ValueId x = builder.input("x", DType::f32, {-1, 3, 5});
  const Shape* before = &builder.shape(x);
  for (int i = 0; i < 1000; ++i) builder.op("relu", "r", {x});
  CHECK(&builder.shape(x) == before);
  CHECK(before->dims()[1] == 3);
}

TEST_CASE("fuzz harnesses: a short run of mutants finds nothing") { run_mutants(20, 1); }

TEST_SUITE("long") {
  TEST_CASE("fuzz harnesses: a long run of mutants finds nothing") { run_mutants(20000, 1000); }
}
