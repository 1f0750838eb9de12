// f16 and bf16 in memory, f32 in between: what sums over such tensors load and store, by vectors.
//
// Widening is exact. Narrowing rounds once, to nearest even, and stores the format's canonical NaN:
// the bits of store_from_double (engine/numerics/element.h) for a value that is an f32.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/core/dtype.h"

namespace etalon::avx2 {

// `type` is f16 or bf16. Widened, NaN is what it was, or canonical.
void widen_halves(DType type, const std::byte* from, float* to, std::int64_t count);
void widen_halves_canonical(DType type, const std::byte* from, float* to, std::int64_t count);
void narrow_halves(DType type, const float* from, std::byte* to, std::int64_t count);
// Bit i is set where x[i] lies midway between two numbers of the format, or between its largest and
// what would follow; count <= 64.
std::uint64_t midpoints(DType type, const float* x, std::int64_t count);
// Narrowed and widened again, in place.
void round_halves(DType type, float* x, std::int64_t count);

}  // namespace etalon::avx2
