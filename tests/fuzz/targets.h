// What one harness does with an input: the same code serves libFuzzer (fuzz_main.cpp) and the short
// run among the tests (tests/import_fuzz_test.cpp).
#pragma once

#include <string>
#include <vector>

#include "importers/importers.h"
#include "tests/fuzz/mutate.h"

namespace etalon::fuzz {

struct Target {
  std::string name;
  const FormatRow* row = nullptr;  // nullptr: a container
  std::vector<std::string> files;
  std::string open;
};
// Every row of formats() in each of its guises, then the containers.
std::vector<Target> targets();

// The bytes of each file, from an input and back.
std::vector<Bytes> parts_of(const std::uint8_t* data, std::size_t size, std::size_t count);
Bytes joined(const std::vector<Bytes>& parts);
Bytes mutated(const Target& target, const Bytes& input, Draw& draw);

struct Outcome {
  bool opened = false;   // it became a model
  bool reached = false;  // or was refused for what a node, layer, tensor or value says
  std::string finding;   // what must not happen, "" where all is well
};
// Writes the model's files below `folder` ("a/b/"), opens it and reads every tensor.
Outcome run_input(const Target& target, const std::string& folder, const Bytes& input);

}  // namespace etalon::fuzz
