// The messages of Core ML's models, as far as they are read: a layer of the type Refused is known
// by its name alone.
#pragma once

#include "importers/containers/pbtree.h"

namespace etalon::coreml {

const PbSchema& schema();

}  // namespace etalon::coreml
