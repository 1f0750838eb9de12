// The shape files bench/shapes/OP.txt: named problems that tests and benchmarks share; and
// bench/shapes/suites/SUITE.txt, suites of many ops.
//
// A line: SUITE.NAME, in a suite's own file NAME OP, then the type of each input in the op's order,
// then NAME=VALUE for parameters that differ from the op's defaults. '#' starts a comment. Values
// of inputs are not in the file: shape_inputs() draws them from Philox, so that a hash of an output
// can be compared everywhere.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/core/tensor.h"
#include "engine/ops/op.h"

namespace etalon {

// The suite of shapes that were typed, not read from a file.
inline constexpr std::string_view kTypedSuite = "typed";

struct NamedShape {
  std::string suite, name;  // "lenet", "conv1"
  const OpRow* op = nullptr;
  Params params;
  std::vector<TensorType> inputs, outputs;
  std::string line;  // as written, without the name: what reproduces it

  std::string full_name() const { return suite + "." + name; }
};

// All lines of all files, or those of one op. A bad-input Error names file and line.
std::vector<NamedShape> load_shapes(std::string_view op = {});
// Suites that are timed only when they are named: "edge" (for tests), "vendor_order" (for 'etalon
// bench order'), "halves" and "everyday" (whose ops oneDNN does not all have), and DeepBench's full
// lists, which take hours.
bool only_by_name(std::string_view suite);
// Parses one line, as in a file of that op.
NamedShape parse_shape(const OpRow& op, std::string_view line);
// All lines of a file's text; errors name `file`, the line and the rule.
std::vector<NamedShape> parse_shapes(const OpRow& op, std::string_view text, std::string_view file);
std::vector<NamedShape> parse_suite(const std::string& suite, std::string_view text,
                                    std::string_view file);

// Uniform in [-1, 1), integers of 8 and 16 bits over all their values. `seed` 0 is what the records
// use.
std::vector<Tensor> shape_inputs(const NamedShape& shape, std::uint64_t seed = 0);

// Multiplications that the definition does (products in sums; taps in the padding are none),
// counted once for multiply-add; 0 where an op has none. GFLOP/s is twice this over the time.
double multiply_adds(const NamedShape& shape);

}  // namespace etalon
