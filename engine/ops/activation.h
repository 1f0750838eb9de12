// Activations: y = f(x) elementwise, each the correctly rounded value of its real function under
// every contract (math=cr), so that there is no order or intermediate to argue about. Shapes: any.
//
//   relu        max(x, 0); NaN gives NaN; relu(-0) = +0 (the zero of the definition comes first)
#pragma once

#include "engine/ops/op.h"

namespace etalon {

const OpRow& relu_op();

}  // namespace etalon
