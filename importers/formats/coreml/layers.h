// Layers of Core ML's neural networks beyond those of its first version.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "importers/containers/pbtree.h"
#include "importers/formats/translate.h"

namespace etalon::coreml {

struct NetworkLayer {
  GraphBuilder& g;
  const PbMessage& message;
  const std::string& name;
  const std::vector<ValueId>& inputs;
  std::size_t outputs = 1;
  // A WeightParams message as a constant of this shape.
  std::function<ValueId(const PbMessage&, const char*, const Shape&)> weights;
};

// Its values; none where its kind is not one of these.
std::vector<ValueId> translate_layer(const NetworkLayer& layer);

}  // namespace etalon::coreml
