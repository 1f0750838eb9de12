// Every kernel of this build, in one registry.
#pragma once

#include "engine/backend/registry.h"

namespace etalon {

const Registry& all_kernels();

}  // namespace etalon
