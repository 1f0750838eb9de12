// Faults planted in the live frameworks through their adapters: `validate` is not told, and names
// the fault and the layer. Skipped, with the reason, where a framework is not here.
#include "bench/compare/validate.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "bench/compare/case.h"
#include "bench/compare/param_fields.h"
#include "bench/op_text.h"
#include "engine/core/file.h"
#include "engine/core/hash.h"
#include "engine/ops/pool.h"
#include "importers/importers.h"
#include "tests/control_network.h"
#include "tests/verdict_data.h"

using namespace etalon;
using namespace etalon::verdict_data;
using nlohmann::json;

namespace {

struct Scratch {
  std::string path;
  Scratch() {
    std::string name = (std::filesystem::temp_directory_path() / "etalon-test-XXXXXX").string();
    REQUIRE(mkdtemp(name.data()) != nullptr);
    path = name;
  }
  ~Scratch() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
};

// x -> conv (padded more after than before) -> relu -> avg_pool (padded) -> flatten -> gemm, saved
// as ONNX: the file is what ONNX Runtime reads; PyTorch builds it from the neutral graph.
Model small_network(const std::string& folder) {
  Model m;
  Graph& g = *m.graph;
  g.name = "small";
  const ValueId x = g.add_value("x"), w = g.add_value("conv.weight"), b = g.add_value("conv.bias"),
                t = g.add_value("t"), r = g.add_value("r"), p = g.add_value("p"),
                f = g.add_value("f"), w2 = g.add_value("fc.weight"), b2 = g.add_value("fc.bias"),
                y = g.add_value("y");
  g.inputs.push_back({x, DType::f32, true, {4, 3, 13, 13}, {"", "", "", ""}});
  g.initializers.emplace(w, noise({8, 3, 4, 4}, 1));
  g.initializers.emplace(b, noise({8}, 2));
  g.initializers.emplace(w2, noise({10, 392}, 3));
  g.initializers.emplace(b2, noise({10}, 4));
  ConvParams conv;
  conv.pads_begin = {1, 1};
  conv.pads_end = {2, 2};
  AvgPoolParams pool;
  pool.kernel = {3, 3};
  pool.strides = {2, 2};
  pool.pads_begin = {1, 1};
  pool.pads_end = {1, 1};
  GemmParams gemm;
  gemm.trans_b = true;
  g.nodes.push_back({"conv1", &get_op("conv"), Params(conv), {x, w, b}, {t}, {}});
  g.nodes.push_back({"relu1", &get_op("relu"), Params(), {t}, {r}, {}});
  g.nodes.push_back({"pool1", &get_op("avg_pool"), Params(pool), {r}, {p}, {}});
  g.nodes.push_back({"flatten1", &get_op("flatten"), get_op("flatten").defaults(), {p}, {f}, {}});
  g.nodes.push_back({"fc1", &get_op("gemm"), Params(gemm), {f, w2, b2}, {y}, {}});
  g.outputs.push_back({y, DType::f32, true, {4, 10}, {"", ""}});
  g.finish();
  const std::string path = folder + "/small.onnx";
  save_model(m, path);
  return open_model(path);
}

struct LiveFault {
  Fault fault;
  const char* layer;  // the value where it must be found
  const char* verdict;
  const char* cause;
};

// x -> batch_norm -> y: the epsilon, 1e-5, matters where a variance is small.
Model norm_network(const std::string& folder) {
  Model m;
  Graph& g = *m.graph;
  g.name = "norm";
  const ValueId x = g.add_value("x"), s = g.add_value("bn.scale"), b = g.add_value("bn.bias"),
                mean = g.add_value("bn.mean"), var = g.add_value("bn.var"), y = g.add_value("t");
  g.inputs.push_back({x, DType::f32, true, {4, 3, 13, 13}, {"", "", "", ""}});
  g.initializers.emplace(s, noise({3}, 1));
  g.initializers.emplace(b, noise({3}, 2));
  g.initializers.emplace(mean, noise({3}, 3));
  g.initializers.emplace(var, noise({3}, 4, 1, true));
  g.nodes.push_back({"bn1",
                     &get_op("batch_norm"),
                     get_op("batch_norm").defaults(),
                     {x, s, b, mean, var},
                     {y},
                     {}});
  g.outputs.push_back({y, DType::f32, true, {4, 3, 13, 13}, {"", "", "", ""}});
  g.finish();
  save_model(m, folder + "/norm.onnx");
  return open_model(folder + "/norm.onnx");
}

// x [T,B,I] -> lstm -> y.
Model lstm_network(const std::string& folder) {
  Model m;
  Graph& g = *m.graph;
  g.name = "cell";
  const ValueId x = g.add_value("x"), w = g.add_value("lstm.w"), r = g.add_value("lstm.r"),
                b = g.add_value("lstm.b"), y = g.add_value("t");
  g.inputs.push_back({x, DType::f32, true, {5, 2, 6}, {"", "", ""}});
  g.initializers.emplace(w, noise({1, 28, 6}, 1));
  g.initializers.emplace(r, noise({1, 28, 7}, 2));
  g.initializers.emplace(b, noise({1, 56}, 3));
  const Params p = with_field(get_op("lstm").defaults(), "hidden_size", std::int64_t{7});
  g.nodes.push_back({"lstm1", &get_op("lstm"), p, {x, w, r, b}, {y}, {}});
  g.outputs.push_back({y, DType::f32, true, {5, 1, 2, 7}, {"", "", "", ""}});
  g.finish();
  save_model(m, folder + "/cell.onnx");
  return open_model(folder + "/cell.onnx");
}

// One op alone: the fault is named; where the framework is clean nothing is called wrong.
void check_alone(const std::string& target, Model (*network)(const std::string&), Tensor x,
                 const LiveFault& f) {
  const FrameworkState state = framework_state(find_runner(parse_target(target).runner));
  if (!state.ready) {
    MESSAGE("skipped: ", state.reason);
    return;
  }
  const Scratch scratch;
  const Model model = network(scratch.path);
  TensorMap inputs;
  inputs.emplace("x", std::move(x));
  ValidateOptions options;
  options.targets = {target};
  options.timing_runs = 0;
  options.case_folder = scratch.path + "/cases";
  const json clean = validate(model, inputs, options);
  REQUIRE_MESSAGE(clean["targets"][0]["status"] == "ok", clean["targets"][0].value("reason", ""));
  CHECK_MESSAGE(clean["targets"][0]["verdict"] != "wrong", clean["targets"][0]["layers"].dump());
  MESSAGE(target << " " << f.fault.kind
                 << ", clean: " << clean["targets"][0]["layers"][0]["verdict"].get<std::string>()
                 << ", " << clean["targets"][0]["layers"][0]["cause"].get<std::string>());
  options.loaded = [&](Runner& r) { r.plant(f.fault); };
  const json faulty = validate(model, inputs, options);
  const json& t = faulty["targets"][0];
  REQUIRE_MESSAGE(t["status"] == "ok", t.value("reason", ""));
  CHECK(faulty["holds"] == false);
  CHECK(t.value("first_divergence", "") == f.layer);
  const json& l = t["layers"][0];
  CHECK_MESSAGE(l["verdict"] == f.verdict, l.dump());
  CHECK_MESSAGE(l["cause"].get<std::string>().find(f.cause) != std::string::npos,
                l["cause"].get<std::string>());
}

void check_target(const std::string& target, const std::vector<LiveFault>& faults) {
  const FrameworkState state = framework_state(find_runner(parse_target(target).runner));
  if (!state.ready) {
    MESSAGE("skipped: ", state.reason);
    return;
  }
  const Scratch scratch;
  const Model model = small_network(scratch.path);
  TensorMap inputs;
  inputs.emplace("x", noise({4, 3, 13, 13}, 9));
  ValidateOptions options;
  options.targets = {target};
  options.timing_runs = 0;
  options.case_folder = scratch.path + "/cases";
  options.fail_on = Verdict::lower_precision;

  const json clean = validate(model, inputs, options);
  const json& c = clean["targets"][0];
  REQUIRE_MESSAGE(c["status"] == "ok", c.value("reason", ""));
  CHECK(clean["holds"] == true);
  CHECK(c["layers"].size() >= 4);
  CHECK_FALSE(c.contains("first_divergence"));
  for (const json& l : c["layers"])
    CHECK_MESSAGE((l["verdict"] == "identical" || l["verdict"] == "explained"), l.dump());

  for (const LiveFault& f : faults) {
    options.loaded = [&](Runner& r) { r.plant(f.fault); };
    const json faulty = validate(model, inputs, options);
    const json& t = faulty["targets"][0];
    REQUIRE_MESSAGE(t["status"] == "ok", f.fault.kind << ": " << t.value("reason", ""));
    CHECK_MESSAGE(faulty["holds"] == false, f.fault.kind);
    CHECK_MESSAGE(t.value("first_divergence", "") == f.layer, f.fault.kind);
    for (const json& l : t["layers"])
      if (l["name"] == f.layer) {
        CHECK_MESSAGE(l["verdict"] == f.verdict, f.fault.kind << ": " << l.dump());
        CHECK_MESSAGE(l["cause"].get<std::string>().find(f.cause) != std::string::npos,
                      f.fault.kind << ": " << l["cause"].get<std::string>());
      } else {
        CHECK_MESSAGE((l["verdict"] == "identical" || l["verdict"] == "explained"),
                      f.fault.kind << " at " << f.layer << ": " << l.dump());
      }
    // The case shows it again, alone.
    if (f.fault.kind == "weight_bit") continue;  // it is in the weights, not in the layer
    REQUIRE(t.contains("replay"));
    const std::string file = t["replay"]["files"][0];
    const Case again = load_case(file.substr(0, file.rfind('/')));
    const Judgement j = judge_layer(again.layer, again.outputs, judge_options())[0];
    CHECK_MESSAGE(name(j.verdict) == f.verdict, f.fault.kind << " replayed: " << j.cause);
  }
}

const LiveFault kPadding{{.kind = "padding", .node = "conv1"}, "t", "wrong", "padding"};
const LiveFault kCount{
    {.kind = "count_include_pad", .node = "pool1"}, "p", "wrong", "count_include_pad"};
const LiveFault kBit{{.kind = "weight_bit", .parameter = "fc.weight", .index = 17, .bit = 0},
                     "y",
                     "wrong",
                     "bit 0 of element 17 of parameter fc.weight"};

}  // namespace

TEST_SUITE_BEGIN("long");

TEST_CASE("validate: faults planted in ONNX Runtime are named at their layer") {
  check_target("onnxruntime:opt=off",
               {kPadding,
                kCount,
                kBit,
                {{.kind = "tf32", .node = "conv1"}, "t", "lower precision", "TF32"},
                {{.kind = "bf16", .node = "fc1"}, "y", "lower precision", "bf16"}});
}

TEST_CASE("validate: faults planted in PyTorch are named at their layer") {
  check_target("pytorch",
               {kPadding,
                kCount,
                kBit,
                {{.kind = "tf32", .node = "fc1"}, "y", "lower precision", "TF32"},
                {{.kind = "bf16", .node = "conv1"}, "t", "lower precision", "bf16"},
                {{.kind = "bf16_accumulate", .node = "conv1"}, "t", "lower precision", "bf16"}});
}

TEST_CASE("validate: epsilon 1e-3 for 1e-5, swapped gates, in both frameworks") {
  const LiveFault epsilon{{.kind = "epsilon", .node = "bn1", .value = 1e-3},
                          "t",
                          "wrong",
                          "epsilon is 0.001, not 1e-05"};
  // The adapters swap two gates' rows of the weights, ONNX's o and f, in the running network.
  const LiveFault gates{{.kind = "gate_order", .node = "lstm1"}, "t", "wrong", "in the order ifoc"};
  for (const char* target : {"onnxruntime:opt=off", "pytorch"}) {
    check_alone(target, norm_network, noise({4, 3, 13, 13}, 9), epsilon);
    check_alone(target, lstm_network, noise({5, 2, 6}, 10), gates);
  }
}

TEST_SUITE_END();

TEST_CASE("validate: a target that is not here costs its own row") {
  const Scratch scratch;
  const Model model = small_network(scratch.path);
  TensorMap inputs;
  inputs.emplace("x", noise({4, 3, 13, 13}, 9));
  ValidateOptions options;
  options.targets = {"pytorch@/nonexistent/python"};
  options.timing_runs = 0;
  const json v = validate(model, inputs, options);
  CHECK(v["targets"][0]["status"] != "ok");
  CHECK(v["targets"][0]["reason"].get<std::string>().size() > 10);
  CHECK(junit_xml(v, Verdict::wrong).find("<skipped") != std::string::npos);
}

TEST_CASE("validate: loops and scans are judged through their bodies") {
  if (!framework_state(find_runner("onnxruntime")).ready) {
    MESSAGE("skipped: no ONNX Runtime");
    return;
  }
  for (const bool loop : {true, false}) {
    CAPTURE(loop);
    const Scratch scratch;
    save_model(test::control_network(loop), scratch.path + "/steps.onnx");
    const Model model = open_model(scratch.path + "/steps.onnx");
    TensorMap inputs;
    for (auto& [name, t] : test::control_inputs(loop)) inputs.emplace(name, t.share());
    ValidateOptions options;
    options.targets = {"onnxruntime"};
    options.timing_runs = 0;
    const json v = validate(model, inputs, options);
    const json& t = v["targets"][0];
    REQUIRE_MESSAGE(t["status"] == "ok", t.value("reason", ""));
    CHECK(v["holds"] == true);
    int judged = 0;
    for (const json& l : t["layers"])
      if (l["op"] == "loop" || l["op"] == "scan") {
        ++judged;
        CHECK_MESSAGE((l["verdict"] == "identical" || l["verdict"] == "explained"), l.dump());
      }
    CHECK(judged == 2);
  }
}

TEST_CASE("validate: one framework against itself with other options") {
  if (!framework_state(find_runner("pytorch")).ready) {
    MESSAGE("skipped: no PyTorch");
    return;
  }
  const Scratch scratch;
  const Model model = small_network(scratch.path);
  TensorMap inputs;
  inputs.emplace("x", noise({4, 3, 13, 13}, 9));
  ValidateOptions options;
  options.targets = {"pytorch:threads=1", "pytorch:threads=2,onednn=off"};
  options.timing_runs = 0;
  const json v = validate(model, inputs, options);
  REQUIRE(v.contains("pairs"));
  REQUIRE(v["pairs"].size() == 1);
  CHECK(v["pairs"][0]["a"] == options.targets[0]);
  CHECK(v["pairs"][0]["b"] == options.targets[1]);
  CHECK(v["pairs"][0]["bits_equal"].get<double>() <= 1);
  CHECK(v["targets"][0]["threads"] == 1);
  CHECK(v["targets"][1]["threads"] == 2);
  CHECK(v["holds"] == true);
  // The same record is its own baseline.
  CHECK(worse_than_baseline(v, v).empty());
}

TEST_CASE("validate: a baseline accepts what it knew and nothing worse") {
  const auto record = [](const char* verdict) {
    return json{
        {"targets", {{{"target", "a"}, {"layers", {{{"name", "t"}, {"verdict", verdict}}}}}}}};
  };
  CHECK(worse_than_baseline(record("explained"), record("explained")).empty());
  CHECK(worse_than_baseline(record("identical"), record("wrong")).empty());
  const auto worse = worse_than_baseline(record("wrong"), record("explained"));
  REQUIRE(worse.size() == 1);
  CHECK(worse[0] == "a: layer t was explained, now it is wrong");
  // What is new is held against fail_on; what is gone is worse than anything.
  const json none = {{"targets", json::array()}};
  CHECK(worse_than_baseline(record("undecided"), none).empty());
  REQUIRE(worse_than_baseline(record("wrong"), none).size() == 1);
  CHECK(worse_than_baseline(record("undecided"), none, Verdict::undecided).size() == 1);
  const json broke = {
      {"targets", {{{"target", "a"}, {"status", "failed"}, {"reason", "signal 11"}}}}};
  REQUIRE(worse_than_baseline(broke, record("wrong")).size() == 1);
  CHECK(worse_than_baseline(broke, record("wrong"))[0] ==
        "a: 1 layers were judged, now none is: signal 11");
  CHECK(junit_xml(broke, Verdict::wrong).find("errors=\"1\"") != std::string::npos);
  const std::string xml = junit_xml(record("wrong"), Verdict::wrong);
  CHECK(xml.find("failures=\"1\"") != std::string::npos);
  CHECK(junit_xml(record("undecided"), Verdict::wrong).find("failures=\"0\"") != std::string::npos);
}

TEST_CASE("baseline: damage is named before anything runs") {
  using nlohmann::json;
  CHECK_NOTHROW(check_baseline(json{{"targets", json::array()}}));
  for (const char* text :
       {R"({})", R"({"targets": 5})", R"({"targets": [7]})", R"({"targets": [{"target": 1}]})",
        R"({"targets": [{"target": "a", "layers": 3}]})",
        R"({"targets": [{"target": "a", "layers": [{"name": "x", "verdict": 7}]}]})",
        R"({"targets": [{"target": "a", "layers": [{"name": "x", "verdict": "banana"}]}]})"}) {
    CAPTURE(text);
    CHECK_THROWS_AS(check_baseline(json::parse(text)), Error);
  }
}

TEST_CASE("case: the rows that show an element, where an op keeps rows apart") {
  const auto smallest = [](const char* op, std::vector<std::string> params,
                           std::vector<Shape> shapes, std::int64_t worst) {
    Case c;
    c.layer.op = &get_op(op);
    c.layer.params = parse_params(*c.layer.op, params);
    for (std::size_t i = 0; i < shapes.size(); ++i)
      c.layer.inputs.push_back(noise(shapes[i], i + 1));
    c.outputs = suspect(c.layer, Contract::parse("seq"));
    Case small = smallest_case(c, 0, worst);
    // What is left computes the same element.
    const Tensor y = suspect(small.layer, Contract::parse("seq"))[0].share();
    CHECK(hash_tensor(y) == hash_tensor(small.outputs[0]));
    return small;
  };
  CHECK(smallest("softmax", {"axis=1"}, {{4, 8}}, 9).outputs[0].shape() == Shape{1, 8});
  CHECK(smallest("softmax", {"axis=0"}, {{4, 8}}, 9).outputs[0].shape() == Shape{4, 8});
  const Case gemm = smallest("gemm", {}, {{4, 8}, {8, 6}, {4, 6}}, 13);
  CHECK(gemm.layer.inputs[2].shape() == Shape{1, 6});
  CHECK(gemm.outputs[0].data<float>().size() == 6);
  CHECK(smallest("mul", {}, {{4, 8}, {4, 8}}, 31).layer.inputs[1].shape() == Shape{1, 8});
  // A scale for each row stays whole, and so does what it scales.
  Case scaled;
  scaled.layer.op = &get_op("dequantize_linear");
  scaled.layer.params = parse_params(*scaled.layer.op, {"axis=0"});
  scaled.layer.inputs.push_back(Tensor::zeros(DType::i8, {4, 4}));
  scaled.layer.inputs.push_back(noise({4}, 1, 1, true));
  scaled.outputs = suspect(scaled.layer, Contract::parse("seq"));
  CHECK(smallest_case(scaled, 0, 9).layer.inputs[0].shape() == Shape{4, 4});
}

TEST_CASE("case: saved and judged again") {
  const Scratch scratch;
  Case c;
  c.layer = conv_layer(2, 5, 1);
  c.outputs = suspect(c.layer, Contract::parse("order=lanes:4"));
  c.origin = "by hand";
  c.framework = "PyTorch";
  save_case(scratch.path + "/case", c);
  const Case again = load_case(scratch.path + "/case");
  CHECK(again.layer.op->name == "conv");
  CHECK(to_string(again.layer.params) == to_string(c.layer.params));
  CHECK(again.framework == "PyTorch");
  REQUIRE(again.layer.inputs.size() == 3);
  CHECK(hash_tensor(again.layer.inputs[1]) == hash_tensor(c.layer.inputs[1]));
  CHECK(hash_tensor(again.outputs[0]) == hash_tensor(c.outputs[0]));
  const Judgement j = judge_layer(again.layer, again.outputs, judge_options())[0];
  CHECK(j.verdict == Verdict::identical);
  CHECK(j.contract == "order=lanes:4");
  CHECK_THROWS_WITH_AS(load_case(scratch.path), doctest::Contains("case.json"), Error);
  std::string text = read_text_file(scratch.path + "/case/case.json");
  text.replace(text.find("PyTorch"), 7, "nobody's");
  write_file(scratch.path + "/case/case.json", text);
  CHECK_THROWS_WITH_AS(load_case(scratch.path + "/case"), doctest::Contains("framework"), Error);
}
