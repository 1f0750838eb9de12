// How far apart f(x) and f(y) of an elementwise function can lie.
//
//   |f(x) - f(y)| <= slope |x - y| + jump   for all x, y
//
// `slope` is the supremum of |f'|, rounded up; `jump` is that of the function's own steps
// (softplus with a threshold is not continuous there). Parameters count: elu's slope left of zero
// is alpha.
#pragma once

#include <optional>
#include <string_view>

#include "engine/ops/params.h"

namespace etalon {

struct Lipschitz {
  double slope = 1, jump = 0;
};

// Nothing for an op that is no such function, or whose slope has no bound (log, sqrt, exp).
std::optional<Lipschitz> lipschitz_of(std::string_view op, const Params& params);

}  // namespace etalon
