// The command line of `bench` and of what reads its records: what is refused, when, and in which
// words.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

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

TEST_CASE("cli: what a row's again says is a command that bench takes") {
  const test::TemporaryFolder own;
  const std::string lenet = std::string(ETALON_SOURCE_DIR) + "/bench/demo/lenet.onnx";
  for (const bool import : {true, false}) {
    std::vector<std::string> words{"bench", lenet,         "--threads", "1",      "--repetitions",
                                   "1",     "--most-time", "0.01",      "--json", own / "r.json"};
    if (import) words.emplace_back("--import");
    CHECK(ran(words).code == 0);
    const std::string again =
        json::parse(read_text_file(own / "r.json"))["bench"]["rows"][0]["again"];
    CAPTURE(again);
    std::vector<std::string> parts;  // none of its words needs quotes
    for (std::size_t at = 0; at < again.size();) {
      const std::size_t end = std::min(again.find(' ', at), again.size());
      parts.push_back(again.substr(at, end - at));
      at = end + 1;
    }
    parts.erase(parts.begin());
    parts.insert(parts.end(), {"--repetitions", "1", "--most-time", "0.01"});
    const Ran r = ran(parts);
    CHECK_MESSAGE(r.code == 0, r.err);
  }
}

TEST_CASE("cli: a word behind an option of one value is the command's") {
  const test::TemporaryFolder own;
  const Ran r =
      ran({"bench", "--shape", "relu f32[64]", "lenet.pool2", "--threads", "1", "--min-time",
           "0.01", "--repetitions", "1", "--no-errors", "--json", own / "r.json"});
  CHECK_MESSAGE(r.code == 0, r.err);
  CHECK(nlohmann::json::parse(read_text_file(own / "r.json"))["bench"]["rows"].size() == 2);
}

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

TEST_CASE("cli: bench refuses what it would not heed, before it times anything") {
  const test::TemporaryFolder own;
  const std::vector<std::string> shape{"bench", "--shape", "gemm f32[8,8] f32[8,8]"};
  const auto refused = [&](std::vector<std::string> words, std::vector<std::string> options,
                           const char* sentence) {
    words.insert(words.end(), options.begin(), options.end());
    CAPTURE(fmt::format("{}", fmt::join(words, " ")));
    const Ran r = ran(words);
    CHECK(r.code == 2);
    CHECK(r.out.empty());
    CHECK_MESSAGE(says(r, sentence), r.err);
  };
  const std::vector<std::string> model{"bench", "model:lenet"}, functions{"bench", "functions"},
      order{"bench", "order"}, compare{"bench", "--compare", "a", "b"};
  for (const auto& options : std::vector<std::vector<std::string>>{
           {"--batch", "16"}, {"--data", "bogus"}, {"--samples", "3"}, {"--all"}, {"-o", "x"}})
    refused(shape, options, "nothing of that kind was asked for");
  for (const auto& options : std::vector<std::vector<std::string>>{{"--scale", "2"},
                                                                   {"--kernels", "gemm"},
                                                                   {"--state", own / "s"},
                                                                   {"--sort", "name"},
                                                                   {"--cache", "cold"},
                                                                   {"--all"}}) {
    refused(model, options, "nothing of that kind was asked for");
    refused(compare, options, "--compare times nothing");
    if (options[0] != "--cache") refused(functions, options, "nothing of that kind");
    if (options[0] != "--all") refused(order, options, "nothing of that kind");
  }
  CHECK_FALSE(std::filesystem::exists(own / "s"));
  // Values, whoever takes them.
  refused(model, {"--cache", "lukewarm"}, "--cache lukewarm");
  refused(model, {"--sort", "nonsense"}, "--sort nonsense");
  refused(model, {"--scale", "abc"}, "--scale abc");
  refused(model, {"--samples", "-5"}, "--samples -5");
  refused(model, {"--vs", "onednn"}, "model files are timed against frameworks");
  refused(functions, {"--vs", "openblas"}, "glibc and onednn");
  refused(order, {"--vs", "bogus"}, "no such library or framework; there are");
  for (const char* x : {"nan", "inf", "1e300", "0", "-1"})
    refused(shape, {"--min-time", x}, "from 0.001 to 600000 milliseconds");
  for (const char* x : {"nan", "inf", "-1"}) refused(shape, {"--most-time", x}, "0 to 1000000");
  refused(shape, {"--warm-up", "4294967296"}, "from 1 to 1000000");
  refused(shape, {"--repetitions", "1001"}, "from 1 to 1000");
  refused(shape, {"--runs", "1001"}, "from 1 to 1000");
  // Said by this process, not by its first run.
  refused(shape, {"--runs", "2", "--vs", "bogus"}, "--vs bogus");
  refused(shape, {"--runs", "2", "-c", "sqe"}, "did you mean 'seq'?");
  refused(shape, {"--kernels", "gemn"}, "did you mean 'gemm'?");
  refused({"bench", "lennet"}, {}, "did you mean 'lenet'?");
  refused({"bench", "lenet.conv3"}, {}, "did you mean 'lenet.conv1'?");
  refused(shape, {"--vs", "onednnn"}, "did you mean 'onednn'?");
  refused({"bench", "--shape", "conw f32[1]"}, {}, "did you mean 'conv'?");
  refused({"bench", "--shape", "relu f32"}, {}, "write it like f32[1,20,24,24]");
}

TEST_CASE("cli: a place where nothing can be written is said before the work") {
  const test::TemporaryFolder own;
  for (const std::string& place : {own / "none/r.json", own / "."}) {
    const Ran r = ran({"bench", "--shape", "relu f32[64]", "--json", place});
    CHECK(r.code == 3);
    CHECK(r.out.empty());
    CHECK(says(r, place));
  }
  std::ofstream(own / "file") << "x";
  const Ran order = ran({"bench", "order", "--vs", "onednn", "-o", own / "file"});
  CHECK(order.code == 3);
  CHECK(says(order, "the folder cannot be made: Not a directory"));
  const Ran survey = ran({"survey", "exp", "--of", "glibc", "--state", "/proc/x"});
  CHECK(survey.code == 3);
  CHECK(says(survey, "/proc/x: cannot make the folder"));
  CHECK(ran({"version", "--json", own / "v.json"}).code == 0);
  CHECK(!std::filesystem::exists(own / "none"));
}
