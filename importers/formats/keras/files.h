// What a Keras file holds: a network's configuration, weights, or both; each may stand in a file of
// its own.
//   .h5           both (save), or weights alone (save_weights), listed by layer
//   .keras        a zip of both
//   .weights.h5   of Keras 3: weights alone, by the places of layers (weights.h)
//   .json         the configuration alone (to_json)
//   .index        of TensorFlow's checkpoints: weights alone, by the paths of objects
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "importers/containers/hdf5.h"
#include "importers/formats/keras/layers.h"
#include "importers/importers.h"

namespace etalon::keras_format {

struct Network {
  nlohmann::json config;
  Origin origin;
};

struct Piece {
  std::string path, version, producer;
  Blob bytes;
  std::optional<Network> network;
  std::shared_ptr<const Hdf5File> weights;  // nullptr: none
  Hdf5Object group;                         // where they stand
  TensorList variables;                     // of a checkpoint, instead of these
  bool listed = false;                      // attributes list the weights of each layer
};

bool is_piece(const FileView& view);  // but for a checkpoint, which is a format of its own
Piece piece_of(const std::string& path);
// All weights of a piece, in the order of the network where the file lists them.
TensorList all_weights(const Piece& piece);

}  // namespace etalon::keras_format
