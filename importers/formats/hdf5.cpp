// HDF5 files of weights: every dataset of numbers, by its path. Chainer's snapshots of links and
// optimizers, Keras' and Caffe's weights without a network; models of Keras have a row before this.
#include "importers/containers/hdf5.h"

#include "engine/core/error.h"
#include "importers/formats/tensors.h"

namespace etalon {
namespace {

TensorList load(const std::string& path) {
  const Blob file = map_file(path);
  const ErrorScope scope(path);
  const Hdf5File hdf5(file);
  TensorList tensors;
  for (const auto& [name, dataset] : hdf5.datasets(hdf5.root()))
    if (dataset.type.kind != Hdf5Type::Kind::other) tensors.push_back({name, hdf5.read(dataset)});
  return tensors;
}

bool match(const FileView& file) { return is_hdf5(file.prefix); }

}  // namespace

const FormatRow& hdf5_format() {
  static const FormatRow row{
      .name = "hdf5",
      .endings = ".h5 .hdf5",
      .summary = "Datasets of an HDF5 file: Chainer's, and weights of others.",
      .match = match,
      .load = load};
  return row;
}

}  // namespace etalon
