// VGG configuration A (Simonyan, Zisserman, arXiv 1409.1556, table 1): eight 3x3 convolutions.
#include <vector>

#include "engine/models/builder.h"
#include "engine/models/networks.h"

namespace etalon {
namespace {

Graph build() {
  NetworkBuilder net("vgg_a");
  ValueId x = net.input("x", DType::f32, {3, 224, 224});
  const std::vector<Ints> stages{{64}, {128}, {256, 256}, {512, 512}, {512, 512}};
  int conv = 0, pool = 0;
  for (const Ints& stage : stages) {
    for (const std::int64_t channels : stage) {
      const std::string n = std::to_string(++conv);
      x = net.conv("conv" + n, x, {.out = channels, .kernel = 3, .pad = 1});
      x = net.relu("relu" + n, x);
    }
    x = net.max_pool("pool" + std::to_string(++pool), x, 2, 2);
  }
  x = net.flatten("flatten", x);
  x = net.relu("relu9", net.fully_connected("fc9", x, 4096));
  x = net.relu("relu10", net.fully_connected("fc10", x, 4096));
  return net.finish(net.fully_connected("logits", x, 1000));
}

}  // namespace

ModelRow vgg_a_model() {
  return {.name = "vgg_a",
          .summary = "eight 3x3 convolutions and three fully connected layers, 224x224",
          .source = "arXiv 1409.1556",
          .build = build};
}

}  // namespace etalon
