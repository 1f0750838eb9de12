// How one output of a convolution came to be: its definition run over numbers that remember.
#pragma once

#include <vector>

#include "bench/lab/traced.h"
#include "engine/backend/kernel.h"

namespace etalon::lab {

struct TracedOutput {
  std::vector<TraceNode> nodes;  // operands before what reads them; only what the output needs
  int root = -1;
};

// A usage Error where the computation has more nodes than can be drawn.
TracedOutput trace_output(const KernelCall& call, std::int64_t index);

}  // namespace etalon::lab
