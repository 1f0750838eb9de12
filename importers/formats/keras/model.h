// A Keras model's configuration as a graph, for every format that holds one.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>

#include "importers/formats/keras/layers.h"
#include "importers/importers.h"

namespace etalon::keras_format {

// The weights of a layer, in order. `path`: the names of the models around it, then the layer's.
using WeightsOf = std::function<TensorList(const std::vector<std::string>& path)>;

// Outputs are declared; UnknownLayer names a layer without a translation.
void build_model(GraphBuilder& graph, const nlohmann::json& config, const Origin& origin,
                 const WeightsOf& weights);

}  // namespace etalon::keras_format
