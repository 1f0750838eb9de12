// Whether the rows compiled into this binary give their definitions' bits on this processor: a
// compiler once broke one instruction set's form of one kernel (docs/adr/0004).
#pragma once

#include <string>
#include <vector>

#include "engine/core/cpu.h"

namespace etalon::cli {

struct SelfCheck {
  int compared = 0;                // rows, each under one contract
  std::vector<std::string> wrong;  // "conv.winograd.f32.avx512 under algo=winograd:6/3"
};

// gemm and conv, direct and by each algorithm, on a small problem whose data shows order; all rows
// up to the instruction set.
SelfCheck check_kernels(Isa isa);

}  // namespace etalon::cli
