#include "kernels/kernels.h"

#include "kernels/activation/rows.h"
#ifdef ETALON_CUDA
#include "kernels/backends/cuda/rows.h"
#endif
#include "kernels/conv/rows.h"
#include "kernels/gemm/rows.h"
#include "kernels/pool/rows.h"

namespace etalon {

const Registry& all_kernels() {
  static const Registry registry = [] {
    Registry r;
    r.add(conv_rows());
    r.add(gemm_rows());
    r.add(activation_rows());
#ifdef ETALON_CUDA
    r.add(cuda::definition_rows());
#endif
    r.add(pool_rows());
    return r;
  }();
  return registry;
}

}  // namespace etalon
