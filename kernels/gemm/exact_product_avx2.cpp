#include "kernels/gemm/exact_product_inl.h"
#include "kernels/gemm/exact_vector_avx2.h"

namespace etalon::avx2 {
const ExactProducts& exact_products() {
  static const ExactProducts products = simd::make_exact_products<ExactF64>();
  return products;
}

}  // namespace etalon::avx2
