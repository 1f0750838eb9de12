// TensorFlow Lite's builtin operators: small networks of many, by what its reference kernels gave
// for them (tests/fixtures/make_tflite_ops.py). Integers agree in every bit; floating results lie
// within what another order of the same sums can move.
#include <doctest/doctest.h>

#include <array>
#include <bit>

#include "engine/graph/executor.h"
#include "engine/ops/params.h"
#include "kernels/kernels.h"
#include "tests/import_run.h"
#include "tests/importer_files.h"

using namespace etalon;

namespace {

enum class Floats { near, bits };

void holds(const std::string& net, std::size_t least, const char* values = "expected.npz",
           Floats floats = Floats::near) {
  CAPTURE(net);
  const Model model = open_model(test::fixture("tflite_ops/" + net + ".tflite"));
  NamedTensors in;
  std::vector<std::pair<std::string, Tensor>> want;
  for (NamedTensor& t : load_tensors(test::fixture(std::string("tflite_ops/") + values))) {
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
    test::check_like(trace.outputs[i].second, tensor, floats == Floats::near ? 3e-6F : 0.0F);
  }
}

}  // namespace

TEST_CASE("tflite: operators of floats give the reference kernels' values") { holds("floats", 19); }

TEST_CASE("tflite: recurrent layers give the reference kernels' values") { holds("recurrent", 6); }

TEST_CASE("tflite: operators of 8-bit integers give the reference kernels' bits") {
  holds("signed", 20);
  holds("unsigned", 18);
}

TEST_CASE("tflite: arithmetic of 8- and 16-bit integers of its own gives the reference's bits") {
  holds("quantised_signed", 21, "quantised.npz");
  holds("quantised_unsigned", 16, "quantised.npz");
  holds("quantised_sums_signed", 4, "quantised.npz");
  holds("quantised_sums_unsigned", 5, "quantised.npz");
  holds("quantised_sixteen", 1, "quantised.npz");
  holds("quantised_lstm", 6, "quantised.npz");
  // Scaled in steps, 4 of 9600 bytes and 75 of 2400 words would be others.
  holds("quantised_connected", 5, "quantised.npz");
  holds("quantised_declared", 1, "quantised.npz");
  holds("quantised_products", 2, "quantised.npz");
}

TEST_CASE("tflite: choosing, gathering, writing parts and single steps give the kernels' values") {
  holds("selection", 19, "selection.npz");
  const Model model = open_model(test::fixture("tflite_ops/selection.tflite"));
  CHECK(test::notes(model, "state is zero when a run starts"));
}

TEST_CASE("tflite: 8-bit weights under floating activations give the reference's bits") {
  holds("hybrid_products", 9, "hybrid.npz", Floats::bits);
  holds("hybrid_conv", 12, "hybrid.npz", Floats::bits);
  holds("hybrid_batches", 6, "hybrid.npz", Floats::bits);
  holds("hybrid_recurrent", 8, "hybrid.npz", Floats::bits);
  // Its sigmoid and tanh are not the correctly rounded ones.
  holds("hybrid_lstm", 5, "hybrid.npz");
  CHECK(test::notes(open_model(test::fixture("tflite_ops/hybrid_lstm.tflite")), "are Eigen's"));
}

TEST_CASE("tflite: LSTMs that clip and normalise, filters over time, functions of 16 bits") {
  holds("limited", 9, "hybrid.npz");
  holds("sixteen", 37, "hybrid.npz");
  holds("multiplied", 6, "hybrid.npz");
}

// Of scores that are bytes many are equal: the heap's order decides.
TEST_CASE("tflite: a detector's boxes are the reference's, ties and padding included") {
  holds("detection", 16, "hybrid.npz", Floats::bits);
  holds("detection_bytes", 16, "hybrid.npz", Floats::bits);
}

TEST_CASE("tflite: a recurrent layer's conventions are said") {
  const Model model = open_model(test::fixture("tflite_ops/recurrent.tflite"));
  CHECK(test::notes(model, "state is zero when a run starts"));
  CHECK(test::notes(model, "takes 1 - f"));
}

TEST_CASE("tflite: what a quantised operator has no kernel for is refused by name") {
  const test::TemporaryFolder folder;
  // Every place of one number becomes another.
  const auto refusal = [&](float from, float to, const char* net = "quantised_signed") {
    std::string bytes =
        test::read_bytes(test::fixture("tflite_ops/" + std::string(net) + ".tflite"));
    const auto pattern = std::bit_cast<std::array<char, 4>>(from),
               other = std::bit_cast<std::array<char, 4>>(to);
    std::size_t places = 0;
    const std::string_view sought(pattern.data(), 4);
    for (std::size_t at = 0; at + 4 <= bytes.size(); at += 4)
      if (std::string_view(bytes).substr(at, 4) == sought) {
        bytes.replace(at, 4, other.data(), 4);
        ++places;
      }
    REQUIRE(places > 0);
    const std::string path = folder / "changed.tflite";
    test::write_bytes(path, bytes);
    try {
      (void)open_model(path);
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string("none");
  };
  const auto says = [](const std::string& text, const char* what) {
    CAPTURE(text);
    CHECK(text.find(what) != std::string::npos);
  };
  says(refusal(1.0F / 16, 0.07F), "LOG_SOFTMAX onto scale 0.07");
  says(refusal(1.0F / 128, 0.01F), "L2_NORMALIZATION onto scale 0.01");
  says(refusal(0.0291F, 1.5F), "a comparison of numbers on the scale 1.5");
  says(refusal(1.7F, 1e-9F), "fixed point needs more than 2^-26");
  says(refusal(0.00048828125F, 0.0005F, "quantised_lstm"), "which is no power of two");
  says(refusal(0.00048828125F, 0.25F, "quantised_lstm"), "a cell on 2^-2; from 2^-15");
  says(refusal(0.5F, 0, "selection"), "whose overlap is no constant above 0");
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
