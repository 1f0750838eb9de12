// x^y, correctly rounded.
#pragma once

#include "engine/core/dtype.h"
#include "engine/numerics/contract.h"

namespace etalon {

double correctly_rounded_power(double x, double y, DType to, Round mode = Round::nearest_even,
                               Subnormals subnormals = Subnormals::keep);

}  // namespace etalon
