// The neutral graph: parameters and graphs come back equal; what is not one is refused.
#include "importers/formats/neutral.h"

#include <doctest/doctest.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "engine/core/hash.h"
#include "engine/ops/conv.h"
#include "engine/ops/gemm.h"
#include "tests/importer_files.h"

using namespace etalon;
using nlohmann::json;

namespace {

Model small_model() {
  Model m;
  m.format = "onnx";
  m.notes = {"a note"};
  Graph& g = *m.graph;
  g.name = "small";
  g.inputs.push_back({g.add_value("x"), DType::f32, true, {-1, 3, -1, 8}, {"batch", "", "", ""}});
  const ValueId w = g.add_value("w"), t = g.add_value("t"), y = g.add_value("y");
  g.initializers.emplace(w, Tensor::of<float>({1, 3, 1, 1}, {0.1F, -0.0F, 1e-45F}));
  ConvParams conv;
  conv.pads_begin = {1, 2};
  conv.pads_end = {3, 4};
  conv.auto_pad = AutoPad::same_lower;
  g.nodes.push_back({"relu", &get_op("relu"), Params(), {t}, {y}, {}});
  g.nodes.push_back({"conv", &get_op("conv"), conv, {g.find_value("x"), w, kAbsent}, {t}, {}});
  g.outputs.push_back({y, DType::f32, false, {}, {}});
  return m;
}

}  // namespace

TEST_CASE("neutral: every op's parameters come back equal") {
  int ops = 0;
  for (const OpRow* op : all_ops()) {
    CAPTURE(op->name);
    const Params defaults = op->defaults();
    const json j = json::parse(params_to_json(defaults).dump());
    CHECK(to_string(params_from_json(*op, j)) == to_string(defaults));
    ++ops;
  }
  CHECK(ops >= 3);
  GemmParams gemm;
  gemm.alpha = 0x1.99999ap-4F;
  gemm.beta = -std::numeric_limits<float>::infinity();
  gemm.trans_b = true;
  const Params back = params_from_json(get_op("gemm"), json::parse(params_to_json(gemm).dump()));
  CHECK(back.as<GemmParams>().alpha == gemm.alpha);
  CHECK(back.as<GemmParams>().beta == gemm.beta);
  CHECK(back.as<GemmParams>().trans_b);
}

TEST_CASE("neutral: parameters that are none") {
  const OpRow& gemm = get_op("gemm");
  CHECK_THROWS_WITH_AS(params_from_json(gemm, json::parse(R"({"alfa":1})")),
                       doctest::Contains("alpha, beta"), Error);
  CHECK_THROWS_AS(params_from_json(gemm, json::parse(R"({"alpha":"1"})")), Error);
  CHECK_THROWS_AS(params_from_json(gemm, json::parse(R"({"alpha":1e40})")), Error);
  CHECK_THROWS_AS(params_from_json(gemm, json::parse(R"({"trans_a":1})")), Error);
  CHECK_THROWS_AS(params_from_json(gemm, json::parse(R"([])")), Error);
  CHECK_THROWS_WITH_AS(params_from_json(get_op("conv"), json::parse(R"({"auto_pad":"some"})")),
                       doctest::Contains("same_upper"), Error);
}

TEST_CASE("neutral: a graph comes back") {
  const test::TemporaryFolder folder;
  const Model m = small_model();
  save_model(m, folder / "m.json");
  const Model back = open_model(folder / "m.json");
  const Graph &a = *m.graph, &b = *back.graph;
  CHECK(b.name == "small");
  CHECK(back.notes == m.notes);
  REQUIRE(b.nodes.size() == 2);
  CHECK(b.nodes[0].name == "conv");  // sorted on opening
  CHECK(to_string(b.nodes[0].params) == to_string(a.nodes[1].params));
  CHECK(b.nodes[0].inputs.size() == 3);
  CHECK(b.nodes[0].inputs[2] == kAbsent);
  CHECK(b.inputs.at(0).dims == a.inputs[0].dims);
  CHECK(b.inputs.at(0).dim_names == a.inputs[0].dim_names);
  CHECK_FALSE(b.outputs.at(0).ranked);
  REQUIRE(b.initializers.size() == 1);
  CHECK(hash_tensor(b.initializers.begin()->second) == hash_tensor(a.initializers.begin()->second));
}

TEST_CASE("neutral: a graph that lies") {
  const test::TemporaryFolder folder;
  save_model(small_model(), folder / "m.json");
  const json good = json::parse(test::read_bytes(folder / "m.json"));
  const auto refuse = [&](const json& j, const char* what) {
    test::write_bytes(folder / "bad.json", j.dump());
    CHECK_THROWS_WITH_AS(open_model(folder / "bad.json"), doctest::Contains(what), Error);
  };
  json j = good;
  j["weights"] = "../m.safetensors";
  refuse(j, "own folder");
  j["weights"] = "/etc/passwd";
  refuse(j, "own folder");
  std::filesystem::create_symlink("/etc/passwd", folder / "link");
  j["weights"] = "link";
  refuse(j, "through a link");
  j = good;
  j["nodes"][0]["op"] = "convolve";
  refuse(j, "no op 'convolve'");
  j = good;
  j["nodes"][0]["inputs"][0] = "nobody";
  refuse(j, "which nothing makes");
  j = good;
  j["nodes"][0]["inputs"][0] = "y";
  refuse(j, "cycle");
  j = good;
  j["nodes"][1]["outputs"] = {"t", "t"};
  refuse(j, "made twice");
  j = good;
  j["etalon_graph"] = 2;
  refuse(j, "must be 1");
  j = good;
  j["inputs"][0]["dtype"] = "f33";
  refuse(j, "no element type");
  j = good;
  j["outputs"][0]["name"] = "nobody";
  refuse(j, "nothing makes the output");
}
