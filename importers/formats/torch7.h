// Torch7: .t7 with nn and cudnn modules; any other object as its tensors.
#pragma once

#include "importers/importers.h"

namespace etalon {

const FormatRow& torch7_format();

}  // namespace etalon
