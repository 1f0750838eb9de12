// Conventions of frameworks where an op's definition decides otherwise: what NaN, ties, overflow
// and empty sums become. They are no faults of arithmetic and no rounding: each is named, with
// where it is written down, and the verdict stays `wrong`, because the output is not what the
// definition (engine/ops) says. A convention is named only if every element that it does not
// explain is identical or explained.
#pragma once

#include <string>
#include <vector>

#include "bench/compare/verdict.h"

namespace etalon {

// Looks at outputs that were judged worse than explained and names the convention where one
// accounts for them.
void name_conventions(const Layer& layer, const std::vector<Tensor>& got,
                      const JudgeOptions& options, std::vector<Judgement>& judged);

}  // namespace etalon
