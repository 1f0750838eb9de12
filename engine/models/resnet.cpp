// ResNet-50, v1 (He et al., arXiv 1512.03385, table 1: ReLU after the addition), in the form known
// as v1.5: in a block that halves the image the 3x3 convolution has the stride, not the 1x1 before
// it. Convolutions have no bias; batch normalisation follows each. The last normalisation of a
// block has small scales, as trained networks and their usual initialisation have, or the sums of
// sixteen blocks would grow as 2^16 in variance.
#include "engine/models/builder.h"
#include "engine/models/networks.h"
#include "engine/ops/layout.h"

namespace etalon {
namespace {

constexpr double kBranchScale = 0.2;

ValueId bottleneck(NetworkBuilder& net, const std::string& name, ValueId x, std::int64_t width,
                   std::int64_t stride) {
  const auto conv = [&](const std::string& part, ValueId from, ConvLayer layer, double scale = 1) {
    layer.bias = false;
    return net.batch_norm(name + "." + part + "_bn", net.conv(name + "." + part, from, layer),
                          scale);
  };
  ValueId branch = net.relu(name + ".relu1", conv("conv1", x, {.out = width}));
  branch = net.relu(name + ".relu2",
                    conv("conv2", branch, {.out = width, .kernel = 3, .stride = stride, .pad = 1}));
  branch = conv("conv3", branch, {.out = 4 * width}, kBranchScale);
  if (net.shape(x)[1] != 4 * width || stride != 1)
    x = conv("shortcut", x, {.out = 4 * width, .stride = stride});
  return net.relu(name + ".relu3", net.op("add", name + ".add", {branch, x}));
}

Graph build() {
  NetworkBuilder net("resnet50");
  ValueId x = net.input("x", DType::f32, {3, 224, 224});
  x = net.conv("conv1", x, {.out = 64, .kernel = 7, .stride = 2, .pad = 3, .bias = false});
  x = net.relu("relu1", net.batch_norm("conv1_bn", x));
  x = net.max_pool("pool1", x, 3, 2, 1);
  const std::int64_t blocks[] = {3, 4, 6, 3};
  for (int stage = 0; stage < 4; ++stage)
    for (std::int64_t b = 0; b < blocks[stage]; ++b)
      x = bottleneck(net, "stage" + std::to_string(stage + 2) + "." + std::to_string(b + 1), x,
                     std::int64_t{64} << stage, b == 0 && stage > 0 ? 2 : 1);
  x = net.flatten("flatten", net.op("global_avg_pool", "pool5", {x}));
  return net.finish(net.fully_connected("logits", x, 1000));
}

}  // namespace

ModelRow resnet50_model() {
  return {.name = "resnet50",
          .summary = "ResNet-50 v1.5: sixteen bottleneck blocks with batch normalisation, 224x224",
          .source = "arXiv 1512.03385",
          .build = build};
}

}  // namespace etalon
