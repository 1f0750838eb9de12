// Core ML: .mlmodel of neural networks.
#pragma once

#include "importers/importers.h"

namespace etalon {

const FormatRow& coreml_format();

}  // namespace etalon
