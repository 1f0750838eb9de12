// LeNet as Bahrampour et al. time it (arXiv 1511.06435, table 2): 28x28 images, tanh after each
// pool, ReLU after the first of two fully connected layers. No padding, biases everywhere.
#include "engine/models/builder.h"
#include "engine/models/networks.h"

namespace etalon {
namespace {

Graph build() {
  NetworkBuilder net("lenet");
  ValueId x = net.input("x", DType::f32, {1, 28, 28});
  x = net.conv("conv1", x, {.out = 20, .kernel = 5});
  x = net.max_pool("pool1", x, 2, 2);
  x = net.op("tanh", "tanh1", {x});
  x = net.conv("conv2", x, {.out = 50, .kernel = 5});
  x = net.max_pool("pool2", x, 2, 2);
  x = net.op("tanh", "tanh2", {x});
  x = net.flatten("flatten", x);
  x = net.relu("relu", net.fully_connected("fc1", x, 500));
  return net.finish(net.fully_connected("logits", x, 10));
}

}  // namespace

ModelRow lenet_model() {
  return {.name = "lenet",
          .summary = "two 5x5 convolutions, two fully connected layers, 28x28 images",
          .source = "arXiv 1511.06435",
          .build = build};
}

}  // namespace etalon
