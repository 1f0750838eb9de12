// The functions of one f32 number that are surveyed, proven and hashed over all 2^32 inputs.
//
// Each is named by its op; compositions (gelu, elu, ...) stand at the default parameters of their
// op, gelu_tanh is gelu with approximate=tanh. Inputs are numbered by their bits: 0 is +0, 2^31 is
// -0, and a block is a run of such numbers.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "engine/core/cpu.h"
#include "engine/core/hash.h"
#include "engine/numerics/real_f64.h"
#include "kernels/activation/lanes.h"

namespace etalon {

enum class Symmetry { none, odd, even };
// Where f32 is mapped in order: not at all, upward or downward over the whole domain.
enum class Monotone { no, rising, falling };

struct SurveyedFunction {
  std::string_view name;
  LaneFunction lane;
  LaneParams params;
  Symmetry symmetry = Symmetry::none;
  Monotone monotone = Monotone::no;
  // Correctly rounded, in any mode, by the definition.
  double (*value)(double x, DType to, Round mode);
  // f(x) - m, to a relative error of 2^-53: how far the exact value lies from a boundary.
  double (*difference)(double x, double m);
  // The first step of the definition's ladder: the real value lies in the ball (radius 0: is it).
  RealF64::V (*ball)(double x, bool& undecided);
};

std::span<const SurveyedFunction> surveyed_functions();
// Throws a usage Error that lists the names.
const SurveyedFunction& surveyed_function(std::string_view name);

// The correctly rounded values of inputs first, first + 1, ...: by vectors where the machine has
// them (`isa` is the cap), else by the definition. Returns how many the definition computed.
std::int64_t correctly_rounded_block(const SurveyedFunction& f, Isa isa, const float* x, float* y,
                                     std::int64_t count);
// x[i] = the float whose bits are first + i.
void fill_inputs(std::uint32_t first, std::span<float> x);

// The hash of a function's whole range: XXH3-128 over the hashes (high, low, as two 64-bit little-
// endian words each) of 256 blocks of 2^24 consecutive outputs, themselves over the outputs' bits.
Hash128 hash_of_range(const SurveyedFunction& f, Isa isa, int threads,
                      void (*progress)(int done, int of) = nullptr);
Hash128 hash_of_blocks(std::span<const Hash128> blocks);
inline constexpr int kRangeBlocks = 256;
inline constexpr std::int64_t kRangeBlock = std::int64_t{1} << 24;

}  // namespace etalon
