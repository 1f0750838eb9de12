// The shape files: every line parses, infers and is named once; nothing else may be in them.
#include "bench/shapes.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "kernels/kernels.h"

using namespace etalon;

TEST_CASE("shapes: every line of bench/shapes is a problem of its op, named once") {
  const auto shapes = load_shapes();
  std::set<std::string> names;
  for (const NamedShape& s : shapes) {
    CAPTURE(s.full_name());
    CHECK(names.insert(std::string(s.op->name) + " " + s.full_name()).second);
    REQUIRE(s.outputs.size() >= 1);
    CHECK(s.outputs[0].shape.numel() > 0);
  }
  CHECK(shapes.size() > 100);
  for (const char* suite :
       {"lenet", "alexnet", "vgg_a", "resnet50", "mobilenet", "deepbench", "overfeat", "googlenet",
        "convnet_benchmarks", "autoencoder", "tsc_tf_mnist", "tsc_caffe_cifar10", "dlbench_svhn",
        "dlbench_imdb", "lenet5", "vgg16", "resnet20", "deepbench_training", "deepbench_server"})
    CHECK(std::count_if(shapes.begin(), shapes.end(),
                        [&](const auto& s) { return s.suite == suite; }) > 0);
}

// What has nothing but its definition takes tens of nanoseconds an element, and a network that
// holds it its time: nobody saw that floor, prelu and resize did, while networks without them were
// timed.
TEST_CASE("shapes: no everyday op is left to its definition") {
  if (detect_isa() < Isa::avx2) return;
  const Contract seq = Contract::seq();
  int seen = 0;
  for (const NamedShape& s : load_shapes()) {
    if (s.suite != "everyday" && s.suite != "halves") continue;
    std::vector<InferInput> inputs;
    for (const TensorType& type : s.inputs) inputs.push_back({type, nullptr, true});
    const KernelRow& row = all_kernels().require({.op = s.op,
                                                  .params = &s.params,
                                                  .inputs = inputs,
                                                  .outputs = s.outputs,
                                                  .contract = &seq,
                                                  .isa = detect_isa()});
    CHECK_MESSAGE(!row.name.ends_with(".definition"), s.full_name(), ": ", std::string(row.name));
    ++seen;
  }
  CHECK(seen > 70);
}

TEST_CASE("shapes: the published geometry comes out") {
  const auto of = [](std::string_view op, std::string_view name) {
    for (const NamedShape& s : load_shapes(op))
      if (s.full_name() == name) return s;
    FAIL("no shape " << name);
    return NamedShape();
  };
  CHECK(to_string(of("conv", "lenet.conv2").outputs[0]) == "f32[64,50,8,8]");
  CHECK(to_string(of("conv", "alexnet.conv1").outputs[0]) == "f32[16,96,54,54]");
  CHECK(to_string(of("conv", "resnet50.conv1").outputs[0]) == "f32[1,64,112,112]");
  CHECK(to_string(of("conv", "resnet50.5a_3x3_down").outputs[0]) == "f32[1,512,7,7]");
  CHECK(to_string(of("conv", "mobilenet.dw2").outputs[0]) == "f32[1,64,56,56]");
  CHECK(multiply_adds(of("conv", "alexnet.conv2")) ==
        16.0 * 256 * 48 * (26 * 5 - 6) * (26 * 5 - 6));  // 6 taps of an axis lie in the padding
  // Four inputs of an axis meet four taps each, but for the one at either end that the pads cut
  // off.
  CHECK(multiply_adds(of("conv_transpose", "dcgan.up1")) == 16.0 * 1024 * 512 * 14 * 14);
  CHECK(multiply_adds(of("conv_transpose", "unet.up1")) == 1.0 * 1024 * 512 * 56 * 56);
  CHECK(multiply_adds(of("gemm", "cube.1024")) == 1024.0 * 1024 * 1024);
  CHECK(multiply_adds(of("gemm", "lenet.fc1")) == 64.0 * 500 * 800);
  CHECK(multiply_adds(of("lstm", "study_b.lstm")) == 71.0 * 16 * 4 * 128 * (128 + 128));
  // Each network's last layer takes what its convolutions and pools leave.
  CHECK(to_string(of("max_pool", "tsc_tf_cifar10.pool2").outputs[0]) == "f32[128,64,6,6]");
  CHECK(to_string(of("avg_pool", "tsc_caffe_cifar10.pool3").outputs[0]) == "f32[100,64,4,4]");
  CHECK(to_string(of("conv", "dlbench_svhn.conv8").outputs[0]) == "f32[128,192,2,2]");
  CHECK(to_string(of("conv", "vgg16.conv5_1").outputs[0]) == "f32[1,512,14,14]");
  CHECK(to_string(of("conv", "googlenet.5b_3x3").outputs[0]) == "f32[8,384,7,7]");
}

TEST_CASE("shapes: a bad line is refused with what is wrong") {
  const OpRow& gemm = get_op("gemm");
  for (const char* bad : {"cube f32[2,2] f32[2,2]", ".x f32[2,2] f32[2,2]", "a.b f32[2,3] f32[2,3]",
                          "a.b f32[2,2]", "a.b f32[2,2] f32[2,2] trans=1"})
    CHECK_THROWS_AS_MESSAGE(parse_shape(gemm, bad), Error, bad);
}

TEST_CASE("shapes: a bad file is refused with its line and the rule") {
  const OpRow& gemm = get_op("gemm");
  CHECK(parse_shapes(gemm, "# head\n\na.b f32[2,3] f32[3,4] # tail\n", "f.txt").size() == 1);
  const auto refused = [&](const char* line, const char* because) {
    const std::string text = std::string("a.first f32[2,3] f32[3,4]\n\n") + line + "\n";
    CHECK_THROWS_WITH_AS(parse_shapes(gemm, text, "f.txt"), doctest::Contains(because), Error);
    CHECK_THROWS_WITH_AS(parse_shapes(gemm, text, "f.txt"), doctest::Contains("f.txt:3"), Error);
  };
  refused("a.b f32[0,3] f32[3,4]", "at least 1");
  refused("a.b f32[2,3]", "");
  refused("a.b f32[2,-3] f32[3,4]", "");
  refused("a.b f32[4611686018427387904,8] f32[8,4]", "");
  refused("ab f32[2,3] f32[3,4]", "SUITE.NAME");
  refused("a.first f32[5,3] f32[3,4]", "named on line 1 already");
}
