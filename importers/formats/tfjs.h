// TensorFlow.js: graph models (model.json with shards), weights manifests; quantised weights.
#pragma once

#include "importers/importers.h"

namespace etalon {

const FormatRow& tfjs_format();

}  // namespace etalon
