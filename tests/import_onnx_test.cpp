// ONNX files: each form of each op runs to what onnx's own evaluator computed; what is refused says
// why.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <sstream>

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
      if (what.find("which this build lacks") == std::string::npos &&
          what.find("kernel promises seq here") == std::string::npos)
        FAIL_CHECK(what);
      lacking += "\n  " + what;
    }
  }
  MESSAGE(run << " of " << paths.size()
              << " models ran; without an op or kernel of their own: " << lacking);
  CHECK(run == static_cast<int>(paths.size()));
  CHECK(paths.size() > 150);
}

TEST_CASE("onnx: a file that lies is refused in one sentence") {
  std::istringstream expected(test::read_bytes(fixture("onnx_bad/expected.txt")));
  int files = 0;
  for (std::string line; std::getline(expected, line); ++files) {
    const std::size_t tab = line.find('\t');
    const std::string path = fixture("onnx_bad/" + line.substr(0, tab));
    CAPTURE(path);
    try {
      open_model(path);
      FAIL_CHECK("accepted");
    } catch (const Error& e) {
      const std::string what = e.what();
      CHECK(e.kind() == ErrorKind::bad_input);
      CHECK(what.starts_with(path + ": "));
      CHECK_MESSAGE(what.find(line.substr(tab + 1)) != std::string::npos, what);
    }
  }
  CHECK(files >= 38);
}

TEST_CASE("onnx: every cut of a file is refused") {
  const std::string good = test::read_bytes(fixture("onnx_nodes/conv_1.onnx"));
  const test::TemporaryFolder folder;
  int accepted = 0;
  for (std::size_t n = 0; n < good.size(); n += 3) {
    test::write_bytes(folder / "cut.onnx", good.substr(0, n));
    try {
      open_model(folder / "cut.onnx");
      ++accepted;  // protobuf has no end mark: a cut between two fields is a message
    } catch (const Error& e) {
      CHECK(e.kind() == ErrorKind::bad_input);
    }
  }
  CHECK(accepted <= 2);
}

TEST_CASE("onnx: what is written reads back to the same bits") {
  const test::TemporaryFolder folder;
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(fixture("onnx_nodes"))) {
    if (entry.path().extension() != ".onnx") continue;
    CAPTURE(entry.path().stem().string());
    try {
      const Model model = open_model(entry.path().string());
      save_model(model, folder / "out.onnx");
      const Model back = open_model(folder / "out.onnx");
      // A newer one where the file was of it, and has an op that came with it.
      const std::string stem = entry.path().stem().string();
      CHECK(back.version == (stem == "swish_24"      ? "opset 24, ir 12"
                             : stem == "rms_norm_23" ? "opset 23, ir 11"
                                                     : "opset 21, ir 10"));
      CHECK(((stem != "swish_24" && stem != "rms_norm_23") ||
             back.graph->nodes.size() == model.graph->nodes.size()));
      std::map<std::string, Tensor, std::less<>> inputs;
      for (NamedTensor& t :
           load_tensors(entry.path().string().substr(0, entry.path().string().size() - 5) + ".npz"))
        if (t.name.starts_with("in")) inputs.emplace(t.name, std::move(t.tensor));
      const auto run = [&](const Model& m) {
        Executor executor(m.graph, all_kernels(), {.contract = Contract::seq()});
        return executor.run(inputs);
      };
      const Trace a = run(model), b = run(back);
      REQUIRE(a.outputs.size() == b.outputs.size());
      // What has no form of its own is written as several ops, each with its own rounding.
      const bool composed = back.graph->nodes.size() > model.graph->nodes.size();
      for (std::size_t i = 0; i < a.outputs.size(); ++i) {
        if (composed)
          CHECK(difference(b.outputs[i].second, a.outputs[i].second) < 3e-6);
        else
          CHECK(hash_tensor(a.outputs[i].second) == hash_tensor(b.outputs[i].second));
      }
      ++files;
    } catch (const Error& e) {
      const std::string what = e.what();
      if (what.find("which this build lacks") == std::string::npos &&
          what.find("kernel promises seq here") == std::string::npos)
        FAIL_CHECK(what);
    }
  }
  CHECK(files > 200);
}

TEST_CASE("onnx: every op of the table has a form to be written in") {
  // The writer looks all ops up first, so an op without a row says so. The order of equals in
  // TensorFlow Lite's detector is that of a heap, and no sequence of ONNX's ops.
  const test::TemporaryFolder folder;
  std::string lacking;
  for (const OpRow* op : all_ops()) {
    Model m;
    Graph& g = *m.graph;
    const ValueId y = g.add_value("y");
    g.nodes.push_back({"n", op, op->defaults(), {}, {y}, {}});
    g.outputs.push_back({y});
    try {
      save_model(m, folder / "x.onnx");
    } catch (const Error& e) {
      if (std::string(e.what()).find("has no form in ONNX") != std::string::npos &&
          std::string(e.what()).find("the op ") != std::string::npos)
        lacking += fmt::format(" {}", op->name);
    }
  }
  CHECK(lacking == " tflite_detection");
}
