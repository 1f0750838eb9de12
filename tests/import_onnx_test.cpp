// ONNX files: each form of each op runs to what onnx's own evaluator computed; what is refused says
// why.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>

#include "engine/core/hash.h"
#include "engine/graph/executor.h"
#include "importers/importers.h"
#include "kernels/kernels.h"
#include "tests/importer_files.h"

using namespace etalon;
using test::fixture;

namespace {

double element(const Tensor& t, std::int64_t i) {
  return visit_dtype(t.dtype(), [&](auto v) -> double {
    using T = decltype(v);
    const auto at = static_cast<std::size_t>(i);
    if constexpr (std::is_arithmetic_v<T>) return static_cast<double>(t.data<T>()[at]);
    if constexpr (std::is_same_v<T, Bool>) return t.data<T>()[at].value;
    if constexpr (std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>)
      return t.data<T>()[at].bits;
    return 0;
  });
}

// Largest difference against the evaluator, which rounds in another order: relative to the largest
// magnitude of the tensor. Bits are another test's subject; here a misread attribute must show.
double difference(const Tensor& got, const Tensor& want) {
  double scale = 1e-30, most = 0;
  for (std::int64_t i = 0; i < want.numel(); ++i)
    if (std::isfinite(element(want, i))) scale = std::max(scale, std::abs(element(want, i)));
  for (std::int64_t i = 0; i < want.numel(); ++i) {
    const double g = element(got, i), w = element(want, i);
    if (std::isnan(g) && std::isnan(w)) continue;
    if (g == w) continue;
    most = std::max(most, std::isfinite(g - w) ? std::abs(g - w) / scale : 1e300);
  }
  return most;
}

}  // namespace

TEST_CASE("onnx: every form of every op, against onnx's evaluator") {
  int run = 0;
  std::string lacking;
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator(fixture("onnx_nodes")))
    if (entry.path().extension() == ".onnx") paths.push_back(entry.path().string());
  std::ranges::sort(paths);
  for (const std::string& path : paths) {
    CAPTURE(path);
    try {
      const Model model = open_model(path);
      std::map<std::string, Tensor, std::less<>> inputs;
      TensorList want;
      for (NamedTensor& t : load_tensors(path.substr(0, path.size() - 5) + ".npz")) {
        if (t.name.starts_with("out"))
          want.push_back(std::move(t));
        else
          inputs.emplace(t.name, std::move(t.tensor));
      }
      Executor executor(model.graph, all_kernels(), {.contract = Contract::seq()});
      const Trace trace = executor.run(inputs);
      REQUIRE(trace.outputs.size() == want.size());
      for (std::size_t i = 0; i < want.size(); ++i) {
        const Tensor& got = trace.outputs[i].second;
        CHECK(to_string(got.type()) == to_string(want[i].tensor.type()));
        if (got.type() == want[i].tensor.type())
          CHECK(difference(got, want[i].tensor) < (is_floating(got.dtype()) ? 3e-6 : 1e-30));
      }
      ++run;
    } catch (const Error& e) {
      const std::string what = e.what();
      if (what.find("which this build lacks") == std::string::npos) FAIL_CHECK(what);
      lacking += "\n  " + what;
    }
  }
  MESSAGE(run << " of " << paths.size() << " models ran");
  CHECK_MESSAGE(lacking.empty(), lacking);
  CHECK(paths.size() > 150);
}
