// The commands that measure functions and tensors in ULP.
#pragma once

#include "bench/cli/cli.h"

namespace etalon::cli {

Action edges_command(Options&);
Action survey_command(Options&);
Action ulp_command(Options&);

}  // namespace etalon::cli
