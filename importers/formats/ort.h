// ONNX Runtime's own format, .ort.
#pragma once

#include "importers/importers.h"

namespace etalon {

const FormatRow& ort_format();

}  // namespace etalon
