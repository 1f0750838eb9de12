// The arithmetic of each instruction set; call one only where the processor has it.
#pragma once

#include "engine/core/dtype.h"
#include "kernels/gemm/order_chain.h"

namespace etalon {

// Of the fields of a contract, those that say what one operation does.
struct OrderArithmetic {
  DType acc = DType::f32;
  bool fma = true, flush = false;
  OrderRounding rounding = OrderRounding::nearest;
};

namespace avx512 {
const OrderTiles<float>& order_f32(const OrderArithmetic& a);  // acc f32, f16 or bf16
const OrderTiles<double>& order_f64(const OrderArithmetic& a);
}  // namespace avx512
namespace avx2 {
const OrderTiles<float>& order_f32(const OrderArithmetic& a);
const OrderTiles<double>& order_f64(const OrderArithmetic& a);
}  // namespace avx2

}  // namespace etalon
