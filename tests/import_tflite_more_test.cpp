// Operators that TensorFlow Lite's converter writes seldom, and weights of 4 bits
// (tests/fixtures/make_tflite_more.py): outputs are those of LiteRT's reference kernels.
#include <doctest/doctest.h>

#include "tests/import_run.h"
#include "tests/importer_files.h"

using namespace etalon;
using test::arrays, test::fixture;

TEST_CASE("tflite: spectra, segments, bins, diagonals and bits") {
  const NamedTensors known = arrays(fixture("tflite_ops/more.npz"));
  const Trace trace = test::run(open_model(fixture("tflite_ops/more.tflite")),
                                test::recorded_inputs(known, "more:"));
  // A transform's terms, in another sequence.
  CHECK(test::check_recorded(trace, known, 1e-6F, "more.") == 9);
}

TEST_CASE("tflite: weights of 4 bits bit for bit, and packed ones that do not fit") {
  const NamedTensors known = arrays(fixture("tflite_ops/more.npz"));
  const std::string path = fixture("tflite_ops/four_bits.tflite");
  const Trace trace = test::run(open_model(path), known.at("four:x").share());
  test::check_like(trace.outputs.at(0).second, known.at("four.y"));

  // The vector of 512 packed bytes says that it has one fewer.
  const test::TemporaryFolder folder;
  std::string bytes = test::read_bytes(path);
  const std::string length("\0\2\0\0", 4);
  std::size_t at = bytes.find(length);
  while (at != std::string::npos && at % 4 != 0) at = bytes.find(length, at + 1);
  REQUIRE(at != std::string::npos);
  bytes.replace(at, 4, std::string("\xff\1\0\0", 4));
  test::write_bytes(folder / "m.tflite", bytes);
  CHECK_THROWS_WITH_AS(open_model(folder / "m.tflite"),
                       doctest::Contains("1024 numbers of 4 bits in 511 bytes"), Error);
}
