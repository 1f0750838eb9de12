// The arithmetic of each instruction set; call one only where the processor has it.
#pragma once

#include "kernels/gemm/order_chain.h"

namespace etalon::avx512 {
const OrderTiles<float>& order_f32(bool fma);
const OrderTiles<float>& order_f16(bool fma);
const OrderTiles<float>& order_bf16(bool fma);
const OrderTiles<double>& order_f64(bool fma);
}  // namespace etalon::avx512
namespace etalon::avx2 {
const OrderTiles<float>& order_f32(bool fma);
const OrderTiles<double>& order_f64(bool fma);
}  // namespace etalon::avx2
