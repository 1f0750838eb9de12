// Caffe: prototxt (V0, V1, V2), .caffemodel, both or either; mean .binaryproto; .solverstate.
#pragma once

#include "importers/importers.h"

namespace etalon {

const FormatRow& caffe_format();
const FormatRow& caffe_blob_format();
const FormatRow& caffe_solver_format();

}  // namespace etalon
