// Steps of f32 reductions, one text for each instruction set (f32_steps.inc).
//
// Both advance many chains at once, never one chain by several terms: the chains are those of the
// contract, so the bits are too.
#pragma once

#include <cstdint>

namespace etalon {

// What a term does to its chain s: s + x, s + |x|, fma(x, x, s), max(s, x), min(s, x); max and min
// let NaN win and keep s on a tie. The square needs an FMA instruction: not in the base set.
enum class Step { sum, magnitude, square, max, min };

inline constexpr int kChains = 8;

struct StepFunctions {
  // s[j] takes x[j], j < n: chains side by side.
  void (*across)(Step step, float* s, const float* x, std::int64_t n);
  // s[c] takes x[c][0], x[c][stride], ...: n terms one after the other, kChains chains.
  void (*along)(Step step, float* s, const float* const* x, std::int64_t n, std::int64_t stride);
};

const StepFunctions& step_functions_base();
const StepFunctions& step_functions_avx2();
const StepFunctions& step_functions_avx512();

}  // namespace etalon
