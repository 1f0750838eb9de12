// How a test of an importer runs what was read and looks at what came out of it: one contract, one
// thread, so that two formats of one network give the same bits.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "engine/core/error.h"
#include "engine/graph/executor.h"
#include "importers/importers.h"
#include "kernels/kernels.h"

namespace etalon::test {

// The arrays of a file by name.
inline NamedTensors arrays(const std::string& path) {
  NamedTensors out;
  for (NamedTensor& t : load_tensors(path)) out.emplace(t.name, std::move(t.tensor));
  return out;
}

inline Trace run(const Model& model, const NamedTensors& in) {
  return Executor(model.graph, all_kernels(), {.contract = Contract::seq(), .threads = 1}).run(in);
}
// Of a model with one input.
inline Trace run(const Model& model, Tensor x) {
  NamedTensors in;
  in.emplace(model.graph->value_name(model.graph->inputs.at(0).value), std::move(x));
  return run(model, in);
}

inline const Tensor& output(const Trace& trace, std::string_view name) {
  for (const auto& [n, tensor] : trace.outputs)
    if (n == name) return tensor;
  throw bad_input("no output {}", name);
}
// Of the first output.
inline std::vector<float> values(const Trace& trace) {
  const auto data = trace.outputs.at(0).second.data<float>();
  return {data.begin(), data.end()};
}

// Each element within `tolerance` of the one that is wanted, or within that share of it.
inline void check_near(const Tensor& got, const Tensor& want, float tolerance) {
  REQUIRE(got.shape() == want.shape());
  const auto a = got.data<float>(), b = want.data<float>();
  for (std::size_t i = 0; i < b.size(); ++i) {
    CAPTURE(i);
    CHECK(std::fabs(a[i] - b[i]) <= tolerance * std::max(1.0F, std::fabs(b[i])));
  }
}

// What is recorded under names that begin with `prefix`, by the rest of their names.
inline NamedTensors recorded_inputs(const NamedTensors& known, std::string_view prefix = "in.") {
  NamedTensors in;
  for (const auto& [key, value] : known)
    if (key.starts_with(prefix)) in.emplace(key.substr(prefix.size()), value.share());
  REQUIRE(!in.empty());
  return in;
}
// What is recorded of the inputs that the model has.
inline NamedTensors recorded_inputs(const Model& model, const NamedTensors& known,
                                    const std::string& prefix = "") {
  NamedTensors in;
  for (const auto& input : model.graph->inputs) {
    const std::string& name = model.graph->value_name(input.value);
    in.emplace(name, known.at(prefix + name).share());
  }
  return in;
}

// Of the type that is wanted and the same in every bit; of f32, with a tolerance, near it.
inline void check_like(const Tensor& got, const Tensor& want, float tolerance = 0) {
  REQUIRE(to_string(got.type()) == to_string(want.type()));
  const bool same = std::ranges::equal(got.bytes(), want.bytes());
  if (!same && tolerance > 0 && want.dtype() == DType::f32)
    check_near(got, want, tolerance);
  else
    CHECK(same);
}

// A tolerance is a number, or the number for an output of this name.
template <class Tolerance>
float tolerance_of(const Tolerance& tolerance, std::string_view output) {
  if constexpr (std::is_convertible_v<Tolerance, float>)
    return tolerance;
  else
    return tolerance(output);
}
// Every output that is recorded as `prefix` and its name; how many there are.
template <class Tolerance>
[[nodiscard]] std::size_t check_recorded(const Trace& trace, const NamedTensors& known,
                                         const Tolerance& tolerance,
                                         std::string_view prefix = "out.") {
  std::size_t compared = 0;
  for (const auto& [key, want] : known) {
    if (!key.starts_with(prefix)) continue;
    CAPTURE(key);
    const std::string_view name = std::string_view(key).substr(prefix.size());
    check_like(output(trace, name), want, tolerance_of(tolerance, name));
    ++compared;
  }
  return compared;
}
// Every output of the run, each of which is recorded; how many there are.
template <class Tolerance>
[[nodiscard]] std::size_t check_outputs(const Trace& trace, const NamedTensors& known,
                                        const Tolerance& tolerance,
                                        const std::string& prefix = "") {
  for (const auto& [name, got] : trace.outputs) {
    CAPTURE(name);
    check_like(got, known.at(prefix + name), tolerance_of(tolerance, name));
  }
  return trace.outputs.size();
}

inline bool notes(const Model& model, std::string_view words) {
  return std::any_of(model.notes.begin(), model.notes.end(),
                     [&](const std::string& n) { return n.find(words) != std::string::npos; });
}

}  // namespace etalon::test
