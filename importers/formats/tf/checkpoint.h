// Checkpoints: V2 (tensor bundle: PREFIX.index, PREFIX.data-xxxxx-of-xxxxx) and V1 (one table).
#pragma once

#include "importers/importers.h"

namespace etalon::tf {

// `path`: a bundle's index or a V1 file.
TensorList read_checkpoint(const std::string& path);
// The index or V1 file of a prefix ("a/model.ckpt"), of one of its files or of a folder; "" if
// none.
std::string find_checkpoint(const std::string& path);

}  // namespace etalon::tf
