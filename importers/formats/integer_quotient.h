// The quotient of integers that floors, as Python's and TensorFlow's: that of `div`, which is cut
// toward zero, less one where the remainder of the divisor's sign is not that of the dividend's.
// Nothing overflows on the way but what overflows itself (min / -1, which wraps).
#pragma once

#include <string>

#include "engine/graph/builder.h"

namespace etalon {

ValueId floor_quotient(GraphBuilder& graph, const std::string& name, ValueId x, ValueId y);

}  // namespace etalon
