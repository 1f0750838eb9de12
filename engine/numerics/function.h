// The elementary functions of neural networks, and their correctly rounded values.
//
// A Function is named in contracts, ops and surveys by its row here. correctly_rounded_function(f,
// x, ...) is f(x) rounded once to a format, in any mode, for every double x; for f32 inputs and
// outputs that is the meaning of math=cr. Definitions, special values and exact cases:
// elementary/functions.cpp.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "engine/core/dtype.h"
#include "engine/numerics/contract.h"

namespace etalon {

enum class Function : std::uint8_t {
  exp,
  exp2,
  expm1,
  log,
  log2,
  log10,
  log1p,
  sqrt,
  rsqrt,
  cbrt,
  reciprocal,
  sin,
  cos,
  tan,
  asin,
  acos,
  atan,
  sinh,
  cosh,
  tanh,
  asinh,
  acosh,
  atanh,
  erf,
  erfc,
  sigmoid,
  log_sigmoid,
  softplus
};

inline constexpr std::array<std::string_view, 28> kFunctionNames = {
    "exp",   "exp2",  "expm1", "log",        "log2",    "log10",       "log1p",
    "sqrt",  "rsqrt", "cbrt",  "reciprocal", "sin",     "cos",         "tan",
    "asin",  "acos",  "atan",  "sinh",       "cosh",    "tanh",        "asinh",
    "acosh", "atanh", "erf",   "erfc",       "sigmoid", "log_sigmoid", "softplus"};
inline constexpr int kFunctionCount = static_cast<int>(kFunctionNames.size());

constexpr std::string_view name(Function f) { return kFunctionNames[static_cast<std::size_t>(f)]; }
Function parse_function(std::string_view name);  // usage Error that lists the names

// What the search for correctly rounded values met. Add up over threads with +=.
struct ExactStats {
  std::int64_t evaluated = 0;
  std::int64_t escalated = 0;  // not decided in f64: taken to higher precision
  std::int64_t deepest = 0;    // the largest number of ladder steps one value took
  ExactStats& operator+=(const ExactStats& other) {
    evaluated += other.evaluated;
    escalated += other.escalated;
    deepest = deepest > other.deepest ? deepest : other.deepest;
    return *this;
  }
};

double correctly_rounded_function(Function f, double x, DType to, Round mode = Round::nearest_even,
                                  Subnormals subnormals = Subnormals::keep,
                                  ExactStats* stats = nullptr);
// To nearest f32, for kernels.
float correctly_rounded_f32(Function f, float x);

}  // namespace etalon
