#include "kernels/kernels.h"

#include "kernels/activation/rows.h"
#include "kernels/conv/rows.h"
#include "kernels/gemm/rows.h"

namespace etalon {

const Registry& all_kernels() {
  static const Registry registry = [] {
    Registry r;
    r.add(conv_rows());
    r.add(gemm_rows());
    r.add(activation_rows());
    return r;
  }();
  return registry;
}

}  // namespace etalon
