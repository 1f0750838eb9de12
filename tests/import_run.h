// How a test of an importer runs what was read and looks at what came out of it: one contract, one
// thread, so that two formats of one network give the same bits.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
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

inline bool notes(const Model& model, std::string_view words) {
  return std::any_of(model.notes.begin(), model.notes.end(),
                     [&](const std::string& n) { return n.find(words) != std::string::npos; });
}

}  // namespace etalon::test
