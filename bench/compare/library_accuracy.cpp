#include "bench/compare/library_accuracy.h"

#include <fmt/format.h>

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
constexpr std::string_view kUnknown =
    "no figure is published or measured for this library: 4 ULP is assumed";

struct Row {
  Function function;
  FunctionAccuracy accuracy;
  std::string_view source;
};

LibraryAccuracy library(std::string name, FunctionAccuracy other, std::string_view other_source,
                        std::initializer_list<Row> rows) {
  LibraryAccuracy l{.library = std::move(name), .functions = {}, .sources = {}};
  l.functions.fill(other);
  l.sources.fill(other_source);
  for (const Row& r : rows) {
    l.functions[static_cast<std::size_t>(r.function)] = r.accuracy;
    l.sources[static_cast<std::size_t>(r.function)] = r.source;
  }
  // IEEE 754 asks for a correctly rounded root and quotient, and every library has them.
  l.functions[static_cast<std::size_t>(Function::sqrt)] = {};
  l.functions[static_cast<std::size_t>(Function::reciprocal)] = {};
  l.functions[static_cast<std::size_t>(Function::rsqrt)] = {1.5, 0};
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
               {Function::sigmoid, {4, 0x1p-22}, kMeasuredOrt}}),
      library("PyTorch", {1.5, 0}, kSleef,
              {{Function::exp, {1, 0}, kSleef},
               {Function::log, {1, 0}, kSleef},
               {Function::tanh, {1.5, 0}, kMeasuredTorch},
               {Function::erf, {1.5, 0}, kMeasuredTorch},
               {Function::softplus, {2.5, 0}, kMeasuredTorch},
               {Function::sigmoid, {3, 0x1p-127}, kMeasuredTorch}}),
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

std::string accuracy_sentence(const LibraryAccuracy& library, Function f) {
  const auto i = static_cast<std::size_t>(f);
  const FunctionAccuracy& a = library.functions[i];
  return a.absolute == 0 ? fmt::format("within {:g} ULP ({})", a.ulps, library.sources[i])
                         : fmt::format("within {:g} ULP or {:.2g} ({})", a.ulps, a.absolute,
                                       library.sources[i]);
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
      {"gelu", {Function::erf}},
      {"silu", {Function::sigmoid}},
      {"elu", {Function::expm1}},
  };
  for (const Use& u : uses)
    if (u.op == op) return u.functions;
  for (int i = 0; i < kFunctionCount; ++i)
    if (kFunctionNames[static_cast<std::size_t>(i)] == op) return {static_cast<Function>(i)};
  return {};
}

}  // namespace etalon
