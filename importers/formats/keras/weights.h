// Where a Keras file keeps the weights of a layer.
//   .h5     a group a layer, whose attribute weight_names lists the datasets in order
//   .keras  layers/NAME/vars/0, 1, ..., where NAME is the class in snake case, numbered; a cell's
//           and each direction's below that
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "importers/containers/hdf5.h"
#include "importers/formats/keras/model.h"

namespace etalon::keras_format {

constexpr int kMaxNesting = 16;  // of models in models

// `file` and `model` have to live as long as what is given.
WeightsOf h5_weights(const Hdf5File& file, Hdf5Object group, const nlohmann::json& model);
WeightsOf v3_weights(const Hdf5File& file, const nlohmann::json& model);
WeightsOf checkpoint_weights(TensorList tensors, const nlohmann::json& model);  // checkpoint.cpp
bool has_weights(const nlohmann::json& layer);  // by its class and configuration

}  // namespace etalon::keras_format
