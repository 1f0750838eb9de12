// Darknet: .cfg with .weights.
#pragma once

#include "importers/importers.h"

namespace etalon {

const FormatRow& darknet_format();

}  // namespace etalon
