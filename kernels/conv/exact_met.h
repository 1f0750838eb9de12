// A convolution without what only padding meets: outputs whose windows see nothing else, and the
// outermost taps that no output has inside the input. An image of 2x2 under windows of 5x5 has no
// use for 16 of their 25 taps, and padding of 3 makes 40 of 49 outputs of a 1x1 window biases. A
// correctly rounded sum knows no order, so its terms may be named anew; products with padding are
// no terms.
#pragma once

#include <optional>
#include <vector>

#include "kernels/conv/met_outputs.h"

namespace etalon {

struct MetLayer {
  MetOutputs outputs;
  ConvGeometry g;        // of the box of outputs, with the taps that are left
  std::vector<float> w;  // these taps
};
// Where it saves much of the work.
std::optional<MetLayer> met_layer(const ConvGeometry& g, const float* w);

}  // namespace etalon
