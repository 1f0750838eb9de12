// Functions of a contract's accumulator over arrays: correctly rounded values of `acc`, flushed as
// the contract says, the bits of ContractArithmetic::call and ::pow.
//
// f32 comes from lanes.h. An f16 or bf16 value is its f32 rounded again, but beside midpoints,
// where the scalar computes it: once in some thousand. f64: lanes_f64.h. Other modes than nearest
// round what those leave in f64, or in pairs, their own way.
#pragma once

#include "engine/core/cpu.h"
#include "engine/core/function_ref.h"
#include "engine/numerics/contract.h"
#include "engine/numerics/function.h"
#include "kernels/gemm/order_chain.h"

namespace etalon {

template <class T>
void call_order_function(const Contract& c, Isa isa, const OrderTiles<T>& tiles, Function f,
                         T* values, std::int64_t count);
// values[i]^exponent, the exponent a value of acc.
template <class T>
void call_order_power(const Contract& c, Isa isa, const OrderTiles<T>& tiles, double exponent,
                      T* values, std::int64_t count);

// Correctly rounded f32 in y, of values x, at most kFunctionBlock of them: what the contract, which
// rounds to nearest, makes of them, in place of x. scalar(i) computes element i of x. Where the
// accumulator is f16 or bf16, `margin` may be more: values that many places of f32 off, less half
// of one.
inline constexpr int kFunctionBlock = 256;
void round_from_f32(const Contract& c, const OrderTiles<float>& tiles, const float* y, float* x,
                    std::int64_t count, FunctionRef<float(std::int64_t)> scalar,
                    std::uint32_t margin = 1);

// The same of a contract that rounds another way, of values v in f64 with a relative error, which
// are written to, and below or at `limit` in size unless x is infinite.
struct DirectedValues {
  double* v;
  double error;
  double limit = __builtin_inf();
};
void round_directed(const Contract& c, Isa isa, const OrderTiles<float>& tiles,
                    const DirectedValues& values, float* x, std::int64_t count,
                    FunctionRef<float(std::int64_t)> scalar);

}  // namespace etalon
