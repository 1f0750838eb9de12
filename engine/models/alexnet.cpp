// AlexNet (Krizhevsky et al., NIPS 2012) as Bahrampour et al. time it (arXiv 1511.06435): 224x224
// images and no padding in the first layer, so 54x54 outputs, not the 55x55 of 227x227 images.
// ReLU, then local response normalisation, then the pool. The plain form has neither normalisation
// nor groups, which some frameworks of that study lacked.
#include "engine/models/builder.h"
#include "engine/models/networks.h"
#include "engine/ops/normalization.h"

namespace etalon {
namespace {

Graph build(const std::string& name, bool plain) {
  NetworkBuilder net(name);
  const std::int64_t groups = plain ? 1 : 2;
  ValueId x = net.input("x", DType::f32, {3, 224, 224});
  const auto layer = [&](const std::string& n, const ConvLayer& conv, bool pool) {
    x = net.relu("relu" + n, net.conv("conv" + n, x, conv));
    if (!pool) return;
    if (!plain && n != "5")
      x = net.op("lrn", "norm" + n, {x},
                 Params(LrnParams{.size = 5, .alpha = 1e-4F, .beta = 0.75F, .bias = 1}));
    x = net.max_pool("pool" + n, x, 3, 2);
  };
  layer("1", {.out = 96, .kernel = 11, .stride = 4}, true);
  layer("2", {.out = 256, .kernel = 5, .pad = 2, .groups = groups}, true);
  layer("3", {.out = 384, .kernel = 3, .pad = 1}, false);
  layer("4", {.out = 384, .kernel = 3, .pad = 1, .groups = groups}, false);
  layer("5", {.out = 256, .kernel = 3, .pad = 1, .groups = groups}, true);
  x = net.flatten("flatten", x);
  x = net.relu("relu6", net.fully_connected("fc6", x, 4096));
  x = net.relu("relu7", net.fully_connected("fc7", x, 4096));
  return net.finish(net.fully_connected("logits", x, 1000));
}

}  // namespace

ModelRow alexnet_model() {
  return {.name = "alexnet",
          .summary = "five convolutions with groups and local response normalisation, 224x224",
          .source = "NIPS 2012; arXiv 1511.06435",
          .build = [] { return build("alexnet", false); }};
}

ModelRow alexnet_plain_model() {
  return {.name = "alexnet_plain",
          .summary = "AlexNet without groups and without local response normalisation",
          .source = "arXiv 1511.06435",
          .build = [] { return build("alexnet_plain", true); }};
}

}  // namespace etalon
