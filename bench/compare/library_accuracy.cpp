#include "bench/compare/library_accuracy.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "engine/core/error.h"

namespace etalon {
namespace {

// "Measured": every 397th f32 of either sign up to |x| = 90 (5.6 million inputs) against f64, one
// thread, CPU with AVX-512; the largest error found, rounded up to the next half ULP or power of
// two.
constexpr std::string_view kMeasuredOrt =
    "measured on ONNX Runtime 1.31.1, 5.6 million inputs; nothing is published";
constexpr std::string_view kMeasuredTorch =
    "measured on PyTorch 1.13, 5.6 million inputs; SLEEF's published bound is 1.0 ULP";
constexpr std::string_view kSleef = "SLEEF documentation, functions *_u10: 1.0 ULP";
constexpr std::string_view kIeee = "IEEE 754: root and quotient are correctly rounded";
constexpr std::string_view kUnknown =
    "no figure is published or measured for this library: 4 ULP is assumed";

constexpr std::string_view kTorchElu =
    "exp(x) - 1 up to PyTorch 2.5 (aten/src/ATen/native/cpu/Activation.cpp, elu_kernel), exp by "
    "SLEEF within 1.0 ULP";
constexpr std::string_view kTorchGelu =
    "measured on PyTorch 1.13, 5.6 million inputs: oneDNN, by formula 7.1.26 of Abramowitz and "
    "Stegun, which alone is good to 1.5e-7";
constexpr std::string_view kTorchTanhGelu =
    "1 + tanh(z) (aten/src/ATen/native/cpu/Activation.cpp, GeluKernelImpl) with the accuracy of "
    "tanh";
constexpr std::string_view kOrtElu =
    "exp(x) - 1 (onnxruntime/core/providers/cpu/activation/activations.h), exp as measured";
constexpr std::string_view kOnnxSelu =
    "gamma * (alpha * exp(x) - alpha), as ONNX's Selu-6 writes it; exp as measured";
constexpr std::string_view kOrtGelu =
    "1 + erf(z), 1 + tanh(z), as ONNX's Gelu-20 writes it; erf and tanh as measured";

struct Row {
  Function function;
  FunctionAccuracy accuracy;
  std::string_view source;
};

// A formula of an op that cancels, with the accuracy that follows (library_accuracy.h).
struct Formula {
  std::string_view op;
  Function function;
  Function called;
  double more, unit;  // (E + more) * unit
  std::string_view source;
};

void set(LibraryAccuracy::Table& t, Function f, FunctionAccuracy a, std::string_view source) {
  t.functions[static_cast<std::size_t>(f)] = a;
  t.sources[static_cast<std::size_t>(f)] = source;
}

LibraryAccuracy library(std::string name, FunctionAccuracy other, std::string_view other_source,
                        std::initializer_list<Row> rows,
                        std::initializer_list<Formula> formulas = {}) {
  LibraryAccuracy l{.library = std::move(name), .functions = {}, .by_op = {}};
  l.functions.functions.fill(other);
  l.functions.sources.fill(other_source);
  // IEEE 754 asks for a correctly rounded root and quotient, and every library has them.
  set(l.functions, Function::sqrt, {}, kIeee);
  set(l.functions, Function::reciprocal, {}, kIeee);
  set(l.functions, Function::rsqrt, {1.5, 0}, kIeee);
  for (const Row& r : rows) set(l.functions, r.function, r.accuracy, r.source);
  for (const Formula& f : formulas) {
    auto& t = l.by_op.try_emplace(f.op, l.functions).first->second;
    const FunctionAccuracy& called = l.functions.functions[static_cast<std::size_t>(f.called)];
    set(t, f.function,
        {std::max(called.ulps, 1.0), std::max((called.ulps + f.more) * f.unit, called.absolute)},
        f.source);
  }
  return l;
}

const std::vector<LibraryAccuracy>& table() {
  static const std::vector<LibraryAccuracy> rows = {
      // Its sigmoid is a quotient of polynomials, cut off at -18: exact to 1.54e-7 absolutely, not
      // relatively. Its tanh loses to underflow below 1e-30.
      library("ONNX Runtime", {4, 0}, kUnknown,
              {{Function::exp, {1, 0}, kMeasuredOrt},
               {Function::log, {3.5, 0}, kMeasuredOrt},
               {Function::tanh, {4.5, 0x1p-141}, kMeasuredOrt},
               {Function::erf, {1, 0}, kMeasuredOrt},
               {Function::softplus, {4, 0}, kMeasuredOrt},
               {Function::sigmoid, {4, 0x1p-22}, kMeasuredOrt}},
              {{"elu", Function::expm1, Function::exp, 0.5, 0x1p-24, kOrtElu},
               {"celu", Function::expm1, Function::exp, 0.5, 0x1p-24, kOrtElu},
               {"selu", Function::expm1, Function::exp, 2, 0x1p-24, kOnnxSelu},
               {"lstm", Function::expm1, Function::exp, 0.5, 0x1p-24, kOrtElu},
               {"gru", Function::expm1, Function::exp, 0.5, 0x1p-24, kOrtElu},
               {"rnn", Function::expm1, Function::exp, 0.5, 0x1p-24, kOrtElu},
               {"gelu", Function::erfc, Function::erf, 1, 0x1p-24, kOrtGelu},
               {"gelu", Function::sigmoid, Function::tanh, 1, 0x1p-25, kOrtGelu}}),
      library("PyTorch", {1.5, 0}, kSleef,
              {{Function::exp, {1, 0}, kSleef},
               {Function::log, {1, 0}, kSleef},
               {Function::tanh, {1.5, 0}, kMeasuredTorch},
               {Function::erf, {1.5, 0}, kMeasuredTorch},
               {Function::softplus, {2.5, 0}, kMeasuredTorch},
               {Function::sigmoid, {3, 0x1p-127}, kMeasuredTorch}},
              {{"elu", Function::expm1, Function::exp, 0.5, 0x1p-24, kTorchElu},
               {"celu", Function::expm1, Function::exp, 0.5, 0x1p-24, kTorchElu},
               {"selu", Function::expm1, Function::exp, 0.5, 0x1p-24, kTorchElu},
               {"gelu", Function::erfc, Function::erf, 7.5, 0x1p-24, kTorchGelu},
               {"gelu", Function::sigmoid, Function::tanh, 1, 0x1p-25, kTorchTanhGelu}}),
      library("unknown", {4, 0}, kUnknown, {}),
  };
  return rows;
}

}  // namespace

const LibraryAccuracy& library_accuracy(std::string_view framework) {
  for (const LibraryAccuracy& l : table())
    if (l.library == framework) return l;
  return table().back();
}

const LibraryAccuracy& named_library(std::string_view framework) {
  if (framework.empty()) return table().back();
  const auto plain = [](std::string_view name) {
    std::string word;
    for (const char c : name)
      if (c != ' ') word.push_back(static_cast<char>(std::tolower(static_cast<unsigned char>(c))));
    return word;
  };
  std::vector<std::string> names;
  for (const LibraryAccuracy& l : table()) {
    if (plain(l.library) == plain(framework)) return l;
    names.push_back(l.library);
  }
  throw usage_error("no accuracy of functions is known of '{}'; known are {}", framework,
                    fmt::join(names, ", "));
}

std::string accuracy_sentence(const LibraryAccuracy& library, std::string_view op, Function f) {
  const auto i = static_cast<std::size_t>(f);
  const LibraryAccuracy::Table& t = library.table(op);
  const FunctionAccuracy& a = t.functions[i];
  return a.absolute == 0
             ? fmt::format("within {:g} ULP ({})", a.ulps, t.sources[i])
             : fmt::format("within {:g} ULP or {:.2g} ({})", a.ulps, a.absolute, t.sources[i]);
}

std::vector<Function> functions_of(std::string_view op) {
  struct Use {
    std::string_view op;
    std::vector<Function> functions;
  };
  static const std::vector<Use> uses = {
      {"softmax", {Function::exp}},
      {"log_softmax", {Function::exp, Function::log}},
      {"lstm", {Function::sigmoid, Function::tanh}},
      {"gru", {Function::sigmoid, Function::tanh}},
      {"rnn", {Function::tanh}},
      {"gelu", {Function::erfc, Function::sigmoid}},
      {"silu", {Function::sigmoid}},
      {"elu", {Function::expm1}},
      {"selu", {Function::expm1}},
      {"celu", {Function::expm1}},
  };
  for (const Use& u : uses)
    if (u.op == op) return u.functions;
  for (int i = 0; i < kFunctionCount; ++i)
    if (kFunctionNames[static_cast<std::size_t>(i)] == op) return {static_cast<Function>(i)};
  return {};
}

}  // namespace etalon
