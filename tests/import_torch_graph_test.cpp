// Graphs from PyTorch's own programs: whole modules of torch.nn's classes, and the code of
// TorchScript. Outputs are PyTorch's (fixtures/make_torch_graphs.py); a network whose meaning is
// not in the file gives its weights and says why; damaged code is refused or gives weights.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "bench/compare/network.h"
#include "engine/core/error.h"
#include "importers/formats/pytorch/script_syntax.h"
#include "importers/input_hints.h"
#include "tests/import_run.h"
#include "tests/importer_files.h"

using namespace etalon;
using namespace etalon::pytorch_format;
using test::fixture, test::notes;

namespace {

Tensor recorded(const std::string& name) {
  for (NamedTensor& t : load_tensors(fixture(
           name.starts_with("ops_") ? "torch_graphs/ops.npz" : "torch_graphs/expected.npz")))
    if (t.name == name) return std::move(t.tensor);
  throw bad_input("no {}", name);
}

}  // namespace

TEST_CASE("torch graphs: modules and TorchScript give PyTorch's outputs") {
  const std::pair<const char*, const char*> files[] = {
      {"plain.pt", "plain"},        {"plain_scripted.pt", "plain"}, {"block_scripted.pt", "block"},
      {"block_traced.pt", "block"}, {"lstm_scripted.pt", "lstm"},   {"gru_scripted.pt", "gru"},
      {"rnn_scripted.pt", "rnn"}};
  for (const auto& [file, name] : files) {
    CAPTURE(file);
    const Model model = open_model(fixture("torch_graphs/" + std::string(file)));
    const Graph& graph = *model.graph;
    for (const std::string& n : model.notes) CAPTURE(n);
    REQUIRE(graph.inputs.size() == 1);
    REQUIRE(graph.outputs.size() == 1);
    CHECK(notes(model, "does not say the shape of its input"));
    NamedTensors in, got;
    in.emplace("input", recorded(std::string(name) + ".x"));
    got.emplace("output", recorded(std::string(name) + ".y"));
    const auto judged = judge_network(
        graph, in, got,
        {.registry = &all_kernels(), .threads = 1, .library = &library_accuracy("unknown")});
    REQUIRE(judged.size() == 1);
    const Judgement& j = judged[0].judgement;
    CHECK_MESSAGE(j.verdict <= Verdict::explained, etalon::name(j.verdict), ", ", j.cause);
  }
}

// make_torch_places.py: what puts in place, orders, chooses and counts.
TEST_CASE("torch graphs: calls that put in place and order give PyTorch's outputs") {
  const NamedTensors known = test::arrays(fixture("torch_graphs/places.npz"));
  for (const std::string name : {"places_put", "places_ordered"})
    for (const char* ending : {".pt", ".pt2"}) {
      CAPTURE(name);
      CAPTURE(ending);
      const Model model = open_model(fixture("torch_graphs/" + name + ending));
      for (const std::string& n : model.notes) CAPTURE(n);
      const Trace trace = test::run(model, known.at(name + ".x").share());
      REQUIRE(trace.outputs.size() == 1);
      test::check_near(trace.outputs[0].second, known.at(name + ".y"), 2e-5F);
    }
  // How many elements are chosen hangs on the data.
  const Trace chosen = test::run(open_model(fixture("torch_graphs/places_chosen.pt")),
                                 known.at("places_chosen.x").share());
  REQUIRE(chosen.outputs.size() == 4);
  for (std::size_t i = 1; i < 4; ++i) {
    CAPTURE(i);
    test::check_like(chosen.outputs[i].second, known.at(fmt::format("places_chosen.{}", i)));
  }
}

// make_torch_recipes.py: classes of torchvision and torch.nn, whose code is not in the file.
TEST_CASE("torch graphs: whole modules of known classes give PyTorch's outputs") {
  const NamedTensors known = test::arrays(fixture("torch_graphs/recipes.npz"));
  for (const std::string name : {"blocks", "dense", "layers"}) {
    CAPTURE(name);
    const Tensor& x = known.at(name + ".x");
    const InputHints scope({{"", x.type()}});
    const Model model = open_model(fixture("torch_graphs/recipes_" + name + ".pt"));
    for (const std::string& n : model.notes) CAPTURE(n);
    CHECK(notes(model, "do what their classes do") == (name != "layers"));
    const Trace trace = test::run(model, x.share());
    REQUIRE(trace.outputs.size() == 1);
    test::check_near(trace.outputs[0].second, known.at(name + ".y"), 2e-5F);
  }
}

// make_torch_walked.py: several inputs, whose shapes the file does not say; loops, lists and
// dictionaries; changes in place through views; states, projections and single steps; fused calls.
TEST_CASE("torch graphs: code that is walked gives PyTorch's outputs") {
  const NamedTensors known = test::arrays(fixture("torch_graphs/walked.npz"));
  int outputs = 0;
  for (const std::string file : {"several.pt", "views.pt", "views.pt2", "steps.pt", "steps.pt2",
                                 "functions.pt", "functions.pt2", "fused.pt"}) {
    CAPTURE(file);
    const std::string name = "walked_" + file.substr(0, file.find('.'));
    NamedTensors in;
    std::vector<HintedInput> hints;
    for (const auto& [key, tensor] : known)
      if (key.starts_with(name + ".")) {
        in.emplace(key.substr(name.size() + 1), tensor.share());
        hints.push_back({key.substr(name.size() + 1), tensor.type()});
      }
    const bool one = in.size() == 1 && file.ends_with(".pt");
    const InputHints scope(hints);
    const Model model = open_model(fixture("torch_graphs/walked_" + file));
    for (const std::string& n : model.notes) CAPTURE(n);
    const Trace trace = one ? test::run(model, in.begin()->second.share()) : test::run(model, in);
    for (const auto& [key, want] : known) {
      if (!key.starts_with(name + ":")) continue;
      CAPTURE(key);
      const std::string output = key.substr(name.size() + 1);
      const Tensor& got =
          output == "output" ? trace.outputs.at(0).second : test::output(trace, output);
      REQUIRE(got.shape() == want.shape());
      const auto a = got.data<float>(), b = want.data<float>();
      for (std::size_t i = 0; i < b.size(); ++i) {
        CAPTURE(i);
        const bool same = a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]));
        CHECK((same || std::fabs(a[i] - b[i]) <= 2e-5F * std::max(1.0F, std::fabs(b[i]))));
      }
      ++outputs;
    }
  }
  CHECK(outputs == 11);
}

TEST_CASE("torch graphs: inputs whose shapes nobody says give weights and ask for them") {
  const Model model = open_model(fixture("torch_graphs/walked_several.pt"));
  CHECK(model.graph->nodes.empty());
  CHECK(notes(model, "--input-shape"));
  const InputHints few({{"x", {DType::f32, Shape{2, 3, 3}}}});
  const Model asked = open_model(fixture("torch_graphs/walked_several.pt"));
  CHECK(asked.graph->nodes.empty());
  CHECK(notes(asked, "1 inputs where forward takes 3 to 4"));
}

// make_torch_ops.py: some 150 calls of ATen, all their outputs joined.
TEST_CASE("torch graphs: calls of ATen, traced and exported, give PyTorch's outputs") {
  for (const char* name : {"ops_shapes", "ops_math", "ops_layers"})
    for (const char* ending : {".pt", ".pt2"}) {
      CAPTURE(name);
      CAPTURE(ending);
      const Model model = open_model(fixture("torch_graphs/" + std::string(name) + ending));
      const Graph& graph = *model.graph;
      for (const std::string& n : model.notes) CAPTURE(n);
      REQUIRE(graph.inputs.size() == 1);
      REQUIRE(graph.outputs.size() == 1);
      const Tensor want = recorded(std::string(name) + ".y");
      const Trace trace = test::run(model, recorded(std::string(name) + ".x"));
      REQUIRE(trace.outputs.size() == 1);
      // Values are of size 1; a step function of a value that differs in its last bit is not
      // among the calls.
      test::check_near(trace.outputs[0].second, want, 2e-5F);
    }
}

// Up to 2.7 the members lie side by side, in 2.8 the weights are a file of torch.save inside; one
// of them is laid out as channels_last (make_torch_old_programs.py).
TEST_CASE("torch graphs: archives of PyTorch 2.7 and 2.8 hold the same program") {
  const Model now = open_model(fixture("torch_graphs/ops_layers.pt2"));
  for (const char* file : {"ops_layers_27.pt2", "ops_layers_28.pt2"}) {
    CAPTURE(file);
    const Model model = open_model(fixture("torch_graphs/" + std::string(file)));
    REQUIRE(model.graph->nodes.size() == now.graph->nodes.size());
    CHECK(model.graph->initializers.size() == now.graph->initializers.size());
    test::check_near(test::run(model, recorded("ops_layers.x")).outputs.at(0).second,
                     recorded("ops_layers.y"), 2e-5F);
  }
}

TEST_CASE("torch graphs: what is not in the file gives weights and says so") {
  const Model branch = open_model(fixture("torch_graphs/data_scripted.pt"));
  CHECK(branch.graph->nodes.empty());
  CHECK(branch.graph->initializers.size() == 2);
  CHECK(notes(branch, "weights alone"));
  const Model whole = open_model(fixture("torch_graphs/block_whole.pt"));
  CHECK(whole.graph->nodes.empty());
  CHECK(whole.graph->initializers.size() == 12);
  CHECK(notes(whole, "whose code is not in the file"));
}

TEST_CASE("torch graphs: the parser reads what is written, and bounds it") {
  const ScriptFile file = parse_script(
      "op_version_set = 1\n"
      "class M(Module):\n"
      "  weight : Tensor\n"
      "  def forward(self: __torch__.M,\n"
      "    x: Tensor,\n"
      "    n: int=3) -> Tensor:\n"
      "    a, b, = torch.split(x, -2., \"two\\\"\", dim=1)\n"
      "    if torch.gt(n, 2):\n"
      "      pass\n"
      "    else:\n"
      "      for i in range(2):\n"
      "        y = {\"a\": i}\n"
      "      while n:\n"
      "        pass\n"
      "      with n:\n"
      "        pass\n"
      "    return (a)[0]\n");
  REQUIRE(file.functions.contains("M.forward"));
  const ScriptFunction& f = file.functions.at("M.forward");
  CHECK(f.parameters == std::vector<std::string>{"self", "x", "n"});
  CHECK(f.has_default == std::vector<bool>{false, false, true});
  REQUIRE(f.body.size() == 3);
  CHECK(f.body[0].targets == std::vector<std::string>{"a", "b", ""});
  CHECK(f.body[0].value.keywords == std::vector<std::string>{"", "", "", "dim"});
  CHECK(f.body[1].kind == Statement::Kind::branch);
  const auto& otherwise = f.body[1].otherwise;
  REQUIRE(otherwise.size() == 3);
  CHECK(otherwise[0].kind == Statement::Kind::counted);
  CHECK(otherwise[0].body.at(0).value.kind == Expr::Kind::dict);
  CHECK(otherwise[1].kind == Statement::Kind::repeated);
  CHECK(otherwise[2].kind == Statement::Kind::other);
  CHECK(f.body[2].value.kind == Expr::Kind::subscript);

  const std::string head = "def f(x):\n  y = ";
  for (const std::string& hostile :
       {head + std::string(100'000, '('), head + std::string(100'000, '['),
        head + std::string(100'000, '-') + "1", head + "x" + std::string(100'000, '.'),
        head + "a" +
            [] {
              std::string s;
              for (int i = 0; i < 50'000; ++i) s += ".a";
              return s;
            }(),
        head + "\"open", std::string("def"), std::string("def f("), std::string("class"),
        head + "1 2", head + "x)",
        [] {
          std::string s = "def f(x):\n";
          for (int i = 1; i < 300; ++i)
            s += std::string(static_cast<std::size_t>(i), ' ') + "if x:\n";
          return s;
        }()}) {
    CAPTURE(hostile.substr(0, 40));
    try {
      parse_script(hostile);
      FAIL_CHECK("not refused");
    } catch (const Error& e) {
      CHECK(e.kind() == ErrorKind::bad_input);
    }
  }
}
