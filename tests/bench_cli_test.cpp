// The command line of `bench` and of what reads its records: what is refused, when, and in which
// words.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "engine/core/file.h"
#include "tests/cli_run.h"
#include "tests/importer_files.h"

using namespace etalon;
using etalon::test::Ran;
using etalon::test::ran;
using nlohmann::json;

namespace {

bool says(const Ran& r, const std::string& words) { return r.err.find(words) != std::string::npos; }

}  // namespace

TEST_CASE("cli: a report takes no record's place, and no record is deeper than it may be") {
  const test::TemporaryFolder own;
  const std::string record = own / "r.json", page = own / "p.html";
  std::ofstream(record) << R"({"etalon": {}})";
  std::filesystem::copy_file(record, page);
  for (const Ran& r : {ran({"report", record, "-o", record}), ran({"report", page})}) {
    CHECK(r.code == 2);
    CHECK(says(r, "would take the place of its record"));
  }
  CHECK(read_text_file(record) == R"({"etalon": {}})");
  CHECK(ran({"report", record}).code == 0);
  std::ofstream(record) << R"({"etalon": {}, "x": )" << std::string(100000, '[')
                        << std::string(100000, ']') << "}";
  const Ran deep = ran({"report", record});
  CHECK(deep.code == 3);
  CHECK(says(deep, record + ": the JSON nests deeper"));
}
