// Where the interpreters of a runner may lie (target.h says which order).
#pragma once

#include "bench/runners/target.h"

namespace etalon {

// In the order they are tried; paths that may not exist.
std::vector<std::string> interpreter_candidates(const RunnerFolder& runner);

}  // namespace etalon
