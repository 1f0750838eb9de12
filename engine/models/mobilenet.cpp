// MobileNet v1 (Howard et al., arXiv 1704.04861, table 1), width 1: thirteen depthwise 3x3
// convolutions, each followed by a 1x1 convolution; batch normalisation and ReLU after every one.
#include "engine/models/builder.h"
#include "engine/models/networks.h"

namespace etalon {
namespace {

Graph build() {
  NetworkBuilder net("mobilenet");
  ValueId x = net.input("x", DType::f32, {3, 224, 224});
  const auto layer = [&](const std::string& name, ConvLayer conv) {
    conv.bias = false;
    x = net.conv(name, x, conv);
    x = net.relu(name + "_relu", net.batch_norm(name + "_bn", x));
  };
  layer("conv1", {.out = 32, .kernel = 3, .stride = 2, .pad = 1});
  struct Block {
    std::int64_t out, stride;
  };
  const Block blocks[] = {{64, 1},  {128, 2}, {128, 1}, {256, 2}, {256, 1},  {512, 2}, {512, 1},
                          {512, 1}, {512, 1}, {512, 1}, {512, 1}, {1024, 2}, {1024, 1}};
  int n = 1;
  for (const Block& b : blocks) {
    const std::string name = "conv" + std::to_string(++n);
    const std::int64_t channels = net.shape(x)[1];
    layer(name + "_dw",
          {.out = channels, .kernel = 3, .stride = b.stride, .pad = 1, .groups = channels});
    layer(name + "_pw", {.out = b.out});
  }
  x = net.flatten("flatten", net.op("global_avg_pool", "pool", {x}));
  return net.finish(net.fully_connected("logits", x, 1000));
}

}  // namespace

ModelRow mobilenet_model() {
  return {.name = "mobilenet",
          .summary = "MobileNet v1, width 1: thirteen depthwise separable convolutions, 224x224",
          .source = "arXiv 1704.04861",
          .build = build};
}

}  // namespace etalon
