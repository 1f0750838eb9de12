// Core ML's recurrent layers and its layers of later versions: fixtures/make_coreml.py writes them
// with coremltools and evaluates what NeuralNetwork.proto says of them in f64.
#include <doctest/doctest.h>

#include "importers/containers/protobuf.h"
#include "tests/import_run.h"
#include "tests/importer_files.h"

using namespace etalon;
using test::arrays, test::fixture;

namespace {

const NamedTensors& known() {
  static const NamedTensors kKnown = arrays(fixture("coreml/expected.npz"));
  return kKnown;
}

Model network(const std::string& name) {
  return open_model(fixture("coreml/" + name + ".mlmodel"));
}

// Every output of `name` that is known; how many.
std::size_t check_outputs(const std::string& name, const Trace& trace) {
  return test::check_recorded(trace, known(), 2e-6F, name + ".");
}

std::string field(std::uint32_t number, const std::string& payload) {
  std::string out;
  put_length(out, number, payload.size());
  return out + payload;
}

std::string count(std::uint32_t number, std::uint64_t value) {
  std::string out;
  for (std::uint64_t v : {std::uint64_t{number} << 3, value}) {
    for (; v > 127; v >>= 7) out += static_cast<char>(v | 128);
    out += static_cast<char>(v);
  }
  return out;
}

// A network of exact shapes with the input x of these extents, and one layer of this kind.
std::string one_layer(std::uint32_t kind, const std::string& params,
                      std::initializer_list<std::uint64_t> extents) {
  std::string shape;
  for (const std::uint64_t e : extents) shape += count(1, e);
  const auto array = [&](const std::string& name) {
    return field(1, name) + field(3, field(5, shape));
  };
  const std::string layer = field(1, "l") + field(2, "x") + field(3, "y") + field(kind, params);
  return count(1, 4) + field(2, field(1, array("x")) + field(10, array("y"))) +
         field(500, field(1, layer) + count(5, 1));
}

}  // namespace

TEST_CASE("Core ML: recurrent layers, one direction and both, with their states") {
  for (const auto& [name, inputs] : {std::pair{"rnn", std::vector{"x", "h"}},
                                     {"gru", {"x", "h"}},
                                     {"lstm", {"x", "h", "c"}},
                                     {"bilstm", {"x", "h", "c", "h_back", "c_back"}},
                                     {"bilstm_last", {"x", "h", "c", "h_back", "c_back"}}}) {
    CAPTURE(name);
    const Model model = network(name);
    NamedTensors in;
    for (const char* i : inputs) in.emplace(i, known().at(i).share());
    CHECK(check_outputs(name, test::run(model, in)) == inputs.size());
    CHECK(test::notes(model, "[-50, 50]"));
  }
  // The old mapping of shapes: what stands before a vector is the sequence, of one batch.
  NamedTensors in;
  for (const char* i : {"x", "h", "c"}) in.emplace(i, known().at(std::string("old.") + i).share());
  CHECK(check_outputs("lstm_old", test::run(network("lstm_old"), in)) == 3);
}

TEST_CASE("Core ML: layers of later versions, each output as its specification says") {
  for (const auto& [name, outputs] :
       {std::pair{"selections", 25}, {"extents", 25}, {"features", 31}, {"spatial", 5}}) {
    CAPTURE(name);
    const NamedTensors in = test::recorded_inputs(known(), std::string(name) + ":");
    CHECK(check_outputs(name, test::run(network(name), in)) == outputs);
  }
}

TEST_CASE("Core ML: branches and loops run what their data say") {
  const Model model = network("control");
  for (const std::string run : {"control.0", "control.1", "control.2"}) {
    CAPTURE(run);
    NamedTensors in;
    for (const char* name : {"v", "limit"}) in.emplace(name, known().at(run + ":" + name).share());
    CHECK(check_outputs(run, test::run(model, in)) == 3);
  }
}

TEST_CASE("Core ML: an output keeps its name where another value stands for it inside") {
  const Model model = network("features");
  for (const Declaration& d : model.graph->outputs) {
    const std::string& name = model.graph->value_name(d.value);
    CHECK_MESSAGE(known().contains("features." + name), name);
  }
}

TEST_CASE("Core ML: layers that lie about their extents are refused in a sentence") {
  const test::TemporaryFolder folder;
  const std::string path = folder / "m.mlmodel";
  const std::uint64_t huge = std::uint64_t{1} << 62;
  const std::string function = field(10, field(40, ""));
  const struct {
    std::uint32_t kind;
    std::string params;
    std::initializer_list<std::uint64_t> extents;
    const char* told;
  } rows[] = {
      {410, count(1, 3) + count(2, huge), {5, 1, 3}, "does not fit in 64 bits"},
      {410, count(1, 3), {5, 1, 3}, "3 inputs and 0 outputs"},
      {420, count(1, 3) + count(2, 4), {5, 1, 3}, "0 sets of weights, expected 1"},
      {400, count(1, 3) + count(2, 4), {3}, "a sequence of rank 1"},
      {1005, count(1, 0) + count(2, 1 << 20) + count(3, 1), {1 << 21}, "windows of 1048576"},
      {1005, count(2, 9) + count(3, 1), {8}, "windows of 9 by 1"},
      {960, count(1, 1), {2, 3}, "1 axes of rank 2"},
      {1155, count(2, 1), {2, 3}, "1 amounts of padding for rank 2"},
      {150, count(1, huge) + count(2, huge), {1, 1, 1, 1}, "the shape cannot be real"},
      {280, count(1, 77), {1, 2, 3, 3}, "a reduction 77"},
      {935, count(2, 4), {2, 3}, "expected more"},
      {165, "", {2, 3}, "an mvn of rank 2"},
      {120, count(1, 3), {1, 2, 3, 3}, "the pooling 3"},
      {1170, "", {2, 3}, "randomNormalLike is not supported"},
      {615, field(4, ""), {2, 3}, "6 elements cannot take the shape"},
      {615, field(4, "") + field(2, "c"), {1}, "nothing makes the value 'c'"},
      {605, field(1, ""), {1}, "a branch whose results nobody sees"},
      {620, "", {1}, "loopBreak is not supported"},
  };
  for (const auto& row : rows) {
    CAPTURE(row.told);
    test::write_bytes(path, one_layer(row.kind, row.params, row.extents));
    CHECK_THROWS_WITH_AS(open_model(path), doctest::Contains(row.told), Error);
  }
  // A cell that may come to the limit where the file clips it, and a limit that cannot be.
  std::string lstm = test::read_bytes(fixture("coreml/lstm.mlmodel"));
  const std::string limit("\xe5\x03\x00\x50\x43\x47", 6);  // cellClipThreshold 50000
  REQUIRE(lstm.find(limit) != std::string::npos);
  const std::string lower("\xe5\x03\x00\x00\x80\x40", 6);  // 4, of 5 steps
  test::write_bytes(path, lstm.replace(lstm.find(limit), limit.size(), lower));
  CHECK(test::notes(open_model(path), "held in [-4, 4]"));
  const std::string below("\xe5\x03\x00\x00\x80\xc0", 6);
  test::write_bytes(path, lstm.replace(lstm.find(lower), lower.size(), below));
  CHECK_THROWS_WITH_AS(open_model(path), doctest::Contains("a cell that is held at -4"), Error);
}
