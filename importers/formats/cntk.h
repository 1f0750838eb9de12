// CNTK: models of version 2 (a dictionary in protobuf) and networks of version 1 (BCN).
#pragma once

#include "importers/importers.h"

namespace etalon {

const FormatRow& cntk_format();
const FormatRow& cntk_network_format();

}  // namespace etalon
