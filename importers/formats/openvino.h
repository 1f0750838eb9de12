// OpenVINO's intermediate representation: .xml with .bin.
#pragma once

#include "importers/importers.h"

namespace etalon {

const FormatRow& openvino_format();

}  // namespace etalon
