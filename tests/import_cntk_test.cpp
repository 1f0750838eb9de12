// CNTK's recurrent networks and functions of sequences (tests/fixtures/make_cntk.py), judged
// against what CNTK 2.7 made of the same files, version 1's too; then files that cannot be loops.
#include <doctest/doctest.h>

#include <cstdint>
#include <cstring>

#include "tests/import_run.h"
#include "tests/importer_files.h"

using namespace etalon;
using test::fixture;

namespace {

// Runs a file on the recorded inputs that it has, and compares every recorded output.
void check_outputs(const std::string& file, const std::string& prefix, std::size_t outputs,
                   float tolerance, const std::string& arrays = "cntk/known.npz") {
  CAPTURE(file);
  const Model model = open_model(fixture("cntk/" + file));
  const NamedTensors known = test::arrays(fixture(arrays));
  const Trace trace = test::run(model, test::recorded_inputs(model, known));
  CHECK(test::check_outputs(trace, known, tolerance, prefix + ".") == outputs);
}

// What opening these bytes says: the error, or the first note.
std::string opened(const std::string& bytes, const char* name) {
  const test::TemporaryFolder folder;
  test::write_bytes(folder / name, bytes);
  try {
    const Model model = open_model(folder / name);
    return model.notes.empty() ? "" : model.notes[0];
  } catch (const Error& e) {
    CHECK(e.kind() == ErrorKind::bad_input);
    CHECK(std::string(e.what()).find('\n') == std::string::npos);
    return e.what();
  }
}

std::string wide(const std::string& text) {
  std::string out;
  for (const char c : text + '\0') out += {c, '\0'};
  return out;
}

}  // namespace

TEST_CASE("CNTK: loops over a sequence are scans that give CNTK's own outputs") {
  check_outputs("loops.model", "loops", 6, 4e-7F);
  check_outputs("loops.dnn", "dnn", 1, 2e-7F);
  const Model model = open_model(fixture("cntk/loops.model"));
  CHECK(test::notes(model, "from its last step"));
  const auto scans = std::count_if(model.graph->nodes.begin(), model.graph->nodes.end(),
                                   [](const Node& n) { return n.op->name == "scan"; });
  CHECK(scans == 7);
}

TEST_CASE("CNTK: delays, chosen steps and reductions of sequences, and plain functions") {
  check_outputs("sequences.model", "sequences", 6, 2e-7F);
  check_outputs("functions.model", "functions", 7, 2e-7F);
}

// fixtures/make_cntk_criteria.py
TEST_CASE("CNTK: what judged a network in its training, steps of slices, axes that are put in") {
  check_outputs("criteria.model", "criteria", 15, 2e-6F, "cntk/criteria.npz");
}

TEST_CASE("CNTK: steps that data choose leave the weights, and a note says why") {
  const Model model = open_model(fixture("cntk/chosen.model"));
  CHECK(model.graph->nodes.empty());
  CHECK(test::notes(model, "the function Where"));
}

TEST_CASE("CNTK: a delay that cannot be is refused") {
  const std::string file = test::read_bytes(fixture("cntk/loops.dnn"));
  const std::string node = wide("PastValue") + wide("before");
  const std::size_t at = file.find(node);
  REQUIRE(at != std::string::npos);
  const auto with = [&](std::int32_t steps) {
    std::string changed = file;
    std::memcpy(changed.data() + at + node.size(), &steps, sizeof steps);
    return opened(changed, "m.dnn");
  };
  CHECK(with(0).find("a delay of 0 steps") != std::string::npos);
  CHECK(with(-1).find("a delay of -1 steps") != std::string::npos);
  CHECK(with(1 << 30).find("a delay of 1073741824 steps") != std::string::npos);
  CHECK(with(257).find("a delay of 257 steps inside a loop") != std::string::npos);
  // The delay of a loop becomes one of the other direction: the circle would read both ways.
  std::string both = file;
  const std::string earlier = wide("PastValue") + wide("earlier");
  REQUIRE(both.find(earlier) != std::string::npos);
  both.replace(both.find(earlier), earlier.size(), wide("FutureValue") + wide("earlier"));
  CHECK(opened(both, "m.dnn").find("both past and future") != std::string::npos);
  // The sum that closes the circle is read where the delay was: nothing waits for a step.
  std::string direct = file;
  const std::string reader = wide("hh") + std::string("\2\0\0\0\0\0\0\0", 8) + wide("H");
  const std::size_t reads = direct.rfind(reader);
  REQUIRE(reads != std::string::npos);
  direct.replace(reads + reader.size(), wide("before").size(), wide("s"));
  CHECK(opened(direct, "m.dnn").find("a circle without a delay") != std::string::npos);
}

TEST_CASE("CNTK: damaged loops are read or refused, in one sentence") {
  for (const char* name : {"loops.dnn", "sequences.model"}) {
    const std::string file = test::read_bytes(fixture(std::string("cntk/") + name));
    for (std::size_t i = 0; i < 120; ++i) {
      std::string flipped = file;
      const std::size_t byte = i * 7919 % file.size();
      flipped[byte] = static_cast<char>(flipped[byte] ^ (1 << i % 8));
      opened(flipped, name);
    }
  }
}
