#include "kernels/activation/lanes_f64.h"

#include "engine/core/error.h"

namespace etalon {

F64Kernel f64_kernel([[maybe_unused]] Isa isa) {
#if defined(__x86_64__)
  return isa >= Isa::avx512 ? avx512::run_f64 : avx2::run_f64;
#else
  throw internal_error("no functions of f64 have vectors here");
#endif
}

}  // namespace etalon
