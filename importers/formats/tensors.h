// Formats that hold tensors only: safetensors, npy, npz, idx.
#pragma once

#include "importers/importers.h"

namespace etalon {

const FormatRow& safetensors_format();
const FormatRow& npy_format();
const FormatRow& npz_format();
const FormatRow& idx_format();

}  // namespace etalon
