#pragma once

#include "importers/importers.h"

namespace etalon::mxnet {

inline constexpr std::uint64_t kListMagic = 0x112;

// Sparse arrays come back dense. Names as in the file ("arg:conv1_weight"), or their number.
TensorList read_params(const std::string& path);

}  // namespace etalon::mxnet
