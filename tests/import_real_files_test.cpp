// Real model files with recorded inputs and outputs: import, run, judge. They are not part of the
// checkout: the environment variable ETALON_FIXTURES names the folder that holds them (folders
// onnx, pytorch, generated, safetensors). Every ONNX file below it is a row of the table: judged
// against what was recorded beside it, or named with the reason why not.
//   ETALON_FIXTURES=FOLDER build/release/bin/etalon_tests -tc='real files*'
#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <set>

#include "bench/compare/network.h"
#include "engine/numerics/element.h"
#include "importers/importers.h"
#include "kernels/kernels.h"
#include "tests/importer_files.h"

using namespace etalon;
namespace fs = std::filesystem;

namespace {

// Where inputs and outputs were recorded: beside MODEL as MODEL.io.npz (in_*, out_*), in a folder
// MODEL-without-.onnx.io (input_*.npy, output_*.npy), as MODEL_output_0.pb of ONNX's backend tests
// (whose input is 0/n, 1/n, ...), or as input.npy and output.npy of the folder.
struct Recorded {
  std::string input;
  std::vector<std::string> outputs;
};

std::optional<Recorded> recorded(const fs::path& model) {
  const fs::path stem = model.parent_path() / model.stem();
  const std::string npz = model.string() + ".io.npz";
  if (fs::exists(npz)) return Recorded{npz, {npz}};
  if (const fs::path folder = stem.string() + ".io"; fs::exists(folder)) {
    Recorded r;
    for (const auto& entry : fs::directory_iterator(folder))
      (entry.path().filename().string().starts_with("input") ? r.input : r.outputs.emplace_back()) =
          entry.path().string();
    return r;
  }
  if (const std::string pb = stem.string() + "_output_0.pb"; fs::exists(pb))
    return Recorded{"", {pb}};
  const fs::path in = model.parent_path() / "input.npy", out = model.parent_path() / "output.npy";
  if (fs::exists(in) && fs::exists(out)) return Recorded{in.string(), {out.string()}};
  return std::nullopt;
}

Tensor fractions(const Shape& shape) {
  Tensor t = Tensor::uninitialized(DType::f32, shape);
  auto out = t.mutable_data<float>();
  const auto n = static_cast<double>(shape.numel());
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = static_cast<float>(static_cast<double>(i) / n);
  return t;
}

Tensor find(TensorList list, std::string_view prefix) {
  for (NamedTensor& t : list)
    if (list.size() == 1 || t.name.starts_with(prefix)) return std::move(t.tensor);
  throw bad_input("no array '{}' among the recorded ones", prefix);
}

// Different values among the recorded ones: how much an equality says. Light models have weights
// that are all alike, and so are their outputs.
std::size_t different(const Tensor& t) {
  std::set<double> values;
  for (std::int64_t i = 0; i < t.numel(); ++i) values.insert(load_as_double(t, i));
  return values.size();
}

// Which of a network's outputs a recorded array is: by its name, else the only one of its shape.
std::string output_of(const Graph& graph, const fs::path& file, const NamedTensor& recorded) {
  for (const Declaration& d : graph.outputs) {
    const std::string& name = graph.value_name(d.value);
    if (recorded.name == name || recorded.name == "out_" + name ||
        file.stem().string() == "output_" + name)
      return name;
  }
  if (graph.outputs.size() != 1) throw bad_input("{}: belongs to no output", file.string());
  return graph.value_name(graph.outputs[0].value);
}

}  // namespace

TEST_SUITE("long") {
  TEST_CASE("real files: every ONNX model against its recorded outputs") {
    const char* folder = std::getenv("ETALON_FIXTURES");
    if (folder == nullptr || !fs::exists(folder)) {
      MESSAGE("skipped: ETALON_FIXTURES names no folder of real files");
      return;
    }
    std::vector<fs::path> models;
    for (const auto& entry : fs::recursive_directory_iterator(folder))
      if (entry.path().extension() == ".onnx") models.push_back(entry.path());
    std::ranges::sort(models);
    const char* only = std::getenv("ETALON_MODEL");
    std::string table =
        "\n| file | nodes | output | values | verdict | by | largest error, ULP | share of the "
        "bound | seconds |\n|---|---|---|---|---|---|---|---|---|\n";
    int held = 0;
    for (const fs::path& path : models) {
      const std::string name = fs::relative(path, folder).string();
      if (only != nullptr && name.find(only) == std::string::npos) continue;
      CAPTURE(name);
      const auto begin = std::chrono::steady_clock::now();
      try {
        const std::optional<Recorded> files = recorded(path);
        const Model model = open_model(path.string());
        if (!files) {
          table += fmt::format("| {} | {} | | | not judged: no outputs are recorded | | | | |\n",
                               name, model.graph->nodes.size());
          continue;
        }
        REQUIRE(model.graph->inputs.size() == 1);
        const Declaration& declared = model.graph->inputs[0];
        std::map<std::string, Tensor, std::less<>> inputs, got;
        inputs.emplace(model.graph->value_name(declared.value),
                       files->input.empty() ? fractions(Shape(declared.dims))
                                            : find(load_tensors(files->input), "in"));
        for (const std::string& file : files->outputs)
          for (NamedTensor& t : load_tensors(file))
            if (!t.name.starts_with("in_"))
              got.emplace(output_of(*model.graph, file, t), std::move(t.tensor));
        const auto judged = judge_network(
            *model.graph, inputs, got,
            {.registry = &all_kernels(), .threads = 2, .library = &library_accuracy("unknown")});
        CHECK(!judged.empty());
        const double seconds =
            std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
        for (const NetworkJudgement& n : judged) {
          const Judgement& j = n.judgement;
          CHECK_MESSAGE(j.verdict <= Verdict::explained, n.name, ": ", etalon::name(j.verdict),
                        ", ", j.cause);
          held += j.verdict <= Verdict::explained ? 1 : 0;
          table +=
              fmt::format("| {} | {} | {} | {} of {} | {} | {} | {:.3g} | {:.2g} | {:.1f} |\n",
                          name, model.graph->nodes.size(), n.name, different(got.at(n.name)),
                          got.at(n.name).numel(), etalon::name(j.verdict), n.way, j.stats.max_ulp,
                          n.way == "draws" ? j.likely_used : j.bound_used, seconds);
        }
      } catch (const Error& e) {
        FAIL_CHECK(std::string(e.what()));
        table += fmt::format("| {} | | | | outside: {} | | | | |\n", name, e.what());
      }
    }
    MESSAGE(table);
    CHECK((held > 0 || only != nullptr));
  }

  TEST_CASE("real files: safetensors of two writers come back through every format of ours") {
    const char* folder = std::getenv("ETALON_FIXTURES");
    if (folder == nullptr) {
      MESSAGE("skipped: ETALON_FIXTURES names no folder of real files");
      return;
    }
    const test::TemporaryFolder own;
    int files = 0;
    std::string table = "\n| file | tensors | outside, because |\n|---|---|---|\n";
    for (const auto& entry : fs::recursive_directory_iterator(folder)) {
      if (entry.path().extension() != ".safetensors") continue;
      const TensorList tensors = load_tensors(entry.path().string());
      CHECK_FALSE(tensors.empty());
      // The format has no graph: its tensors are weights, which run in no network of their own.
      const Model model = open_model(entry.path().string());
      CHECK(model.graph->nodes.empty());
      table += fmt::format("| {} | {} | the format holds tensors and no network |\n",
                           fs::relative(entry.path(), folder).string(), tensors.size());
      for (const char* ending : {"x.npz", "x.safetensors"}) {
        save_tensors(tensors, own / ending);
        CHECK(load_tensors(own / ending).size() == tensors.size());
      }
      ++files;
    }
    MESSAGE(table);
    CHECK(files >= 1);
  }
}
