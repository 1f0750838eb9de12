// Caffe's messages, as far as inference needs them: field numbers from the public format
// description (caffe.proto of BVLC Caffe 1.0; Permute and Normalize of the SSD branch).
#pragma once

#include "importers/containers/pbtree.h"

namespace etalon::caffe {

const PbSchema& schema();

}  // namespace etalon::caffe
