// Functions correctly rounded to f64, over arrays, by vectors of pairs of doubles
// (engine/numerics/elementary/f64_pairs.h).
#pragma once

#include <cstdint>

#include "engine/core/cpu.h"
#include "engine/numerics/contract.h"

namespace etalon {

enum class F64Function : std::uint8_t {
  exp,
  log,
  log1p,
  sigmoid,
  tanh,
  softplus,
  elu,          // x > 0 ? x : alpha (e^x - 1)
  scaled_tanh,  // alpha tanh(beta x)
  pow           // x^alpha, |alpha| < 2^10
};

// Numbers of f32, but for pow's.
struct F64Params {
  double alpha = 1, beta = 1;
};

// What the vectors leave open.
struct F64Fallback {
  double (*scalar)(const void* context, double x);
  const void* context = nullptr;
};

// x[i] = f(x[i]), rounded so.
using F64Kernel = void (*)(F64Function f, Round round, const F64Params& params, double* x,
                           std::int64_t count, const F64Fallback& fallback);
// For avx2 and up.
F64Kernel f64_kernel(Isa isa);

namespace avx2 {
void run_f64(F64Function f, Round round, const F64Params& params, double* x, std::int64_t count,
             const F64Fallback& fallback);
}
namespace avx512 {
void run_f64(F64Function f, Round round, const F64Params& params, double* x, std::int64_t count,
             const F64Fallback& fallback);
}

}  // namespace etalon
