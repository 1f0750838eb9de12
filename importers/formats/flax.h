// Flax: parameters of JAX networks.
#pragma once

#include "importers/importers.h"

namespace etalon {

const FormatRow& flax_format();

}  // namespace etalon
