// TensorFlow Lite's builtin operators: small networks of many, by what its reference kernels gave
// for them (tests/fixtures/make_tflite_ops.py). Integers agree in every bit; floating results lie
// within what another order of the same sums can move.
#include <doctest/doctest.h>

#include <algorithm>

#include "engine/graph/executor.h"
#include "engine/ops/params.h"
#include "kernels/kernels.h"
#include "tests/import_run.h"
#include "tests/importer_files.h"

using namespace etalon;

namespace {

void holds(const std::string& net, std::size_t least) {
  CAPTURE(net);
  const Model model = open_model(test::fixture("tflite_ops/" + net + ".tflite"));
  NamedTensors in;
  std::vector<std::pair<std::string, Tensor>> want;
  for (NamedTensor& t : load_tensors(test::fixture("tflite_ops/expected.npz"))) {
    if (t.name.starts_with(net + ".in."))
      in.emplace(t.name.substr(net.size() + 4), std::move(t.tensor));
    else if (t.name.starts_with(net + ".out."))
      want.emplace_back(t.name.substr(net.size() + 5), std::move(t.tensor));
  }
  const Trace trace = test::run(model, in);
  REQUIRE(want.size() >= least);
  REQUIRE(trace.outputs.size() == want.size());
  for (std::size_t i = 0; i < want.size(); ++i) {
    const auto& [name, tensor] = want[i];
    CAPTURE(name);
    const Tensor& got = trace.outputs[i].second;
    if (tensor.dtype() == DType::f32) {
      test::check_near(got, tensor, 3e-6F);
      continue;
    }
    REQUIRE(got.type() == tensor.type());
    CHECK(std::ranges::equal(got.bytes(), tensor.bytes()));
  }
}

}  // namespace

TEST_CASE("tflite: operators of floats give the reference kernels' values") { holds("floats", 19); }

TEST_CASE("tflite: recurrent layers give the reference kernels' values") { holds("recurrent", 6); }

TEST_CASE("tflite: operators of 8-bit integers give the reference kernels' bits") {
  holds("signed", 20);
  holds("unsigned", 18);
}

TEST_CASE("tflite: a recurrent layer's conventions are said") {
  const Model model = open_model(test::fixture("tflite_ops/recurrent.tflite"));
  CHECK(test::notes(model, "state is zero when a run starts"));
  CHECK(test::notes(model, "takes 1 - f"));
}

// Of 2 elements made 4096 the integer step is 1, not 1/2: places lead past the last element.
TEST_CASE("tflite: a resize stays inside its input where the step is rounded up") {
  const OpRow& op = get_op("tflite_resize_bilinear");
  for (const DType dtype : {DType::i8, DType::u8, DType::i16}) {
    Tensor x = Tensor::zeros(dtype, {1, 1, 2, 1});
    x.mutable_bytes()[x.bytes().size() / 2] = std::byte{100};
    const std::vector<const Tensor*> in{&x};
    const OpRun run =
        run_op(op, parse_params(op.defaults(), "sizes=[4096,1]"), in, all_kernels(), {});
    const Tensor& y = run.outputs[0];
    const std::size_t size = y.bytes().size() / 4096;
    CHECK(y.bytes()[0] == std::byte{0});
    for (std::size_t i = 0; i < 4096; ++i) REQUIRE(y.bytes()[i * size] <= std::byte{100});
    for (std::size_t i = 2048; i < 4096; ++i) REQUIRE(y.bytes()[i * size] == std::byte{100});
  }
}
