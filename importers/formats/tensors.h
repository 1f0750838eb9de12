// Formats that hold tensors only: safetensors, npy, npz, idx, pickles, HDF5.
#pragma once

#include "importers/importers.h"

namespace etalon {

const FormatRow& safetensors_format();
const FormatRow& npy_format();
const FormatRow& npz_format();
const FormatRow& idx_format();
const FormatRow& pickle_format();
const FormatRow& theano_zip_format();
const FormatRow& hdf5_format();

}  // namespace etalon
