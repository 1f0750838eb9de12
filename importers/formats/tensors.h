// Formats that hold tensors only: safetensors, npy, npz.
#pragma once

#include "importers/importers.h"

namespace etalon {

const FormatRow& safetensors_format();
const FormatRow& npy_format();
const FormatRow& npz_format();

}  // namespace etalon
