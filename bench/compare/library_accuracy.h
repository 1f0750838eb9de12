// How accurate the elementary functions of a framework are, and who says so.
//
// A verdict on exp, tanh or sigmoid rests on what the library in use promises: a function may be
// off by that much and still be as documented. Where nobody publishes a figure, ours is a measured
// one, rounded up; it is a measurement over many inputs, not a proof, and the record says so.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "engine/numerics/any_order.h"
#include "engine/numerics/function.h"

namespace etalon {

struct LibraryAccuracy {
  std::string library;
  std::array<FunctionAccuracy, kFunctionCount> functions;
  std::array<std::string_view, kFunctionCount> sources;
};

// By the framework's name as its runner says it ("ONNX Runtime", "PyTorch"); an unknown one gets
// the row "unknown".
const LibraryAccuracy& library_accuracy(std::string_view framework);

// "within 3 ULP or 2.4e-07 (measured over ...)"
std::string accuracy_sentence(const LibraryAccuracy& library, Function f);

// The functions that an op's definition calls, for the record; empty for most ops.
std::vector<Function> functions_of(std::string_view op);

}  // namespace etalon
