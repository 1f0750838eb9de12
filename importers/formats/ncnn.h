// ncnn: .param (text) with .bin.
#pragma once

#include "importers/importers.h"

namespace etalon {

const FormatRow& ncnn_format();

}  // namespace etalon
