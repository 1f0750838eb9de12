// Layers that PyTorch quantised: fixtures/make_torch_quantised.py records what its kernels give,
// and what is computed here is the same, bit for bit.
#include <doctest/doctest.h>

#include "importers/input_hints.h"
#include "tests/import_run.h"
#include "tests/importer_files.h"

using namespace etalon;
using test::fixture, test::notes;

TEST_CASE("torch quantised: eager and FX networks give PyTorch's bits") {
  const NamedTensors known = test::arrays(fixture("torch_graphs/quantised.npz"));
  for (const std::string name : {"quantised_layers", "quantised_fx"}) {
    CAPTURE(name);
    const Tensor& x = known.at(name + ":x");
    const InputHints scope({{"", x.type()}});
    const Model model = open_model(fixture("torch_graphs/" + name + ".pt"));
    for (const std::string& n : model.notes) CAPTURE(n);
    REQUIRE(!model.graph->nodes.empty());
    CHECK(notes(model, "as fbgemm computes them"));
    const Trace trace = test::run(model, x.share());
    REQUIRE(trace.outputs.size() == 1);
    test::check_like(trace.outputs[0].second, known.at(name));
  }
}

TEST_CASE("torch quantised: without a shape the weights stand there by their layers' names") {
  const TensorList tensors = load_tensors(fixture("torch_graphs/quantised_layers.pt"));
  const auto has = [&](std::string_view name, DType dtype) {
    return std::ranges::any_of(
        tensors, [&](const NamedTensor& t) { return t.name == name && t.tensor.dtype() == dtype; });
  };
  CHECK(has("c1.weight", DType::i8));
  CHECK(has("c1.weight.scale", DType::f64));
  CHECK(has("c1.bias", DType::f32));
  CHECK(has("l1._packed_params._packed_params.weight", DType::i8));
}
