#include "kernels/backends/cuda/rows.h"

namespace etalon::cuda {

// Rows are entered here with the evidence file that shows them (bench/gpu_evidence.sh); there is
// none yet.
std::string_view seen_on(std::string_view) { return "never"; }

}  // namespace etalon::cuda
