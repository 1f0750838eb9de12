// How accurate the elementary functions of a framework are, and who says so.
//
// A verdict on exp, tanh or sigmoid rests on what the library in use promises: a function may be
// off by that much and still be as documented. Where nobody publishes a figure, ours is a measured
// one, rounded up; it is a measurement over many inputs, not a proof, and the record says so.
//
// An op may reach its function by a formula that cancels: exp(x) - 1 for expm1(x), 1 + erf(z) for
// erfc(-z), (1 + tanh(z))/2 for the logistic function of 2z. Then the function is exact to an
// absolute error only, which follows from the accuracy of the function that is called:
//   exp(x) - 1, x <= 0     e^x lies in (0, 1], where a unit in the last place is at most 2^-24, so
//                          exp is off by E 2^-24; the difference lies in [-1, 0] and is rounded by
//                          at most 2^-25:                                    (E + 1/2) 2^-24
//   (a e^x - a) / a        the product and the difference are rounded to a number of size a:
//                                                                            (E + 2) 2^-24
//   1 + erf(z)             erf lies in [-1, 1]: E 2^-24; the sum in [0, 2]:  (E + 1) 2^-24
//   (1 + tanh(z)) / 2      half of that:                                     (E + 1) 2^-25
// A result above 1 keeps its ULP too: the larger of the two is allowed.
#pragma once

#include <array>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "engine/numerics/any_order.h"
#include "engine/numerics/function.h"

namespace etalon {

struct LibraryAccuracy {
  struct Table {
    std::array<FunctionAccuracy, kFunctionCount> functions;
    std::array<std::string_view, kFunctionCount> sources;
  };
  std::string library;
  Table functions;
  std::map<std::string_view, Table> by_op;  // where an op reaches a function by another formula

  const Table& table(std::string_view op) const {
    const auto at = by_op.find(op);
    return at == by_op.end() ? functions : at->second;
  }
  // What AnyOrderModel takes.
  const FunctionAccuracy* of(std::string_view op) const { return table(op).functions.data(); }
};

// By the framework's name as its runner says it ("ONNX Runtime", "PyTorch"); an unknown one gets
// the row "unknown".
const LibraryAccuracy& library_accuracy(std::string_view framework);

// The same by what a user writes: "PyTorch" or "pytorch", "onnxruntime", "unknown"; empty is
// unknown. Throws a usage Error that lists the names.
const LibraryAccuracy& named_library(std::string_view framework);

// "within 3 ULP or 2.4e-07 (measured over ...)"
std::string accuracy_sentence(const LibraryAccuracy& library, std::string_view op, Function f);

// The functions that an op's definition calls, for the record; empty for most ops.
std::vector<Function> functions_of(std::string_view op);

}  // namespace etalon
