// The sums of exact_pairs.h on words of two bf16.
#pragma once

#include <array>
#include <cstdint>

namespace etalon {

inline constexpr std::int64_t kPairBlock = 8, kPairGroup = 8;  // words, blocks
inline constexpr int kPairRows = 14, kPairLanes = 16;

// Sums of a tile over words; vector w of row r at sums + r * sums_row + w * 16.
struct ExactPairProduct {
  std::int64_t steps = 0;
  const float* a = nullptr;  // row r along k at a + r * a_row
  std::int64_t a_row = 0;
  const float* b = nullptr;  // vector w: b[w * b_vector + step * 16 + lane]
  std::int64_t b_vector = 0;
  double* sums = nullptr;
  std::int64_t sums_row = 0;
  bool join = false;  // added to the sums
};
using ExactPairFn = void (*)(const ExactPairProduct&);
struct ExactPairSet {
  std::array<std::array<ExactPairFn, kPairRows + 1>, 3> of{};  // [vectors][rows]
  // The sum over words, each along k: no term meets more than kPairDotRoundings in f32, and
  // steps / 16 + 16 in f64. fine_dot: none in f32.
  double (*dot)(const float* a, const float* b, std::int64_t steps) = nullptr;
  double (*fine_dot)(const float* a, const float* b, std::int64_t steps) = nullptr;
  // Squared norms, by chains of fused multiply-adds in f64: of a row along k, and of the sixteen
  // columns of a strip, b[step * 16 + lane].
  double (*square)(const float* a, std::int64_t steps) = nullptr;
  void (*squares)(const float* b, std::int64_t steps, double* to) = nullptr;
};
inline constexpr int kPairDotRoundings = 3;

}  // namespace etalon
namespace etalon::avx512bf16 {
const ExactPairSet& exact_pairs();
}  // namespace etalon::avx512bf16
