// Functions correctly rounded to f64, over arrays, by vectors of pairs of doubles
// (engine/numerics/elementary/f64_pairs.h).
#pragma once

#include <cstdint>

#include "engine/core/cpu.h"

namespace etalon {

enum class F64Function : std::uint8_t { exp, log, log1p, sigmoid, tanh, pow };

// What the vectors leave open.
struct F64Fallback {
  double (*scalar)(const void* context, double x);
  const void* context = nullptr;
};

// x[i] = f(x[i]); of pow, x[i]^exponent, |exponent| < 2^10.
using F64Kernel = void (*)(F64Function f, double exponent, double* x, std::int64_t count,
                           const F64Fallback& fallback);
// For avx2 and up.
F64Kernel f64_kernel(Isa isa);

namespace avx2 {
void run_f64(F64Function f, double exponent, double* x, std::int64_t count,
             const F64Fallback& fallback);
}
namespace avx512 {
void run_f64(F64Function f, double exponent, double* x, std::int64_t count,
             const F64Fallback& fallback);
}

}  // namespace etalon
