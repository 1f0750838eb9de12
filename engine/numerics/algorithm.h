// The contract's field algo: by which algorithm a convolution is computed, and all its parameters,
// so that the text decides the bits. Canonical texts:
//   direct
//   im2col
//   winograd:4/3,points=0:1:-1:2:-2,transform=f32,channels=seq
//   fft:16,radix=2          fft:full,radix=2
//
// winograd:M/R is F(M x M, R x R), or F(M, R) for one axis: M outputs of a kernel of R from
// M + R - 1 inputs. points are its finite interpolation points (the point at infinity is always the
// last); transform is the format of the three transforms, f32 or f64; channels says how the
// products are summed over the channels: seq, or pairwise:B, B a power of two. Left out, points are
// the usual ones (0, 1, -1, 2, -2, 1/2, -1/2, ...), transform is f32, channels is seq; `reciprocal`
// stands for 0, 1, -1, 2, -1/2, -2, 1/2, ..., and channels=pairwise for pairwise:8. fft:N computes
// tiles of N x N, a power of two; fft:full takes the smallest that hold the image. Errors are usage
// Errors that name the field, the value and what is allowed.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/core/dtype.h"

namespace etalon {

// p / q in lowest terms, q > 0. Arithmetic that leaves int64 throws a usage Error.
struct Fraction {
  std::int64_t p = 0, q = 1;
  Fraction() = default;
  Fraction(std::int64_t numerator, std::int64_t denominator = 1);
  friend bool operator==(const Fraction&, const Fraction&) = default;
  friend Fraction operator+(const Fraction& a, const Fraction& b);
  friend Fraction operator-(const Fraction& a, const Fraction& b);
  friend Fraction operator*(const Fraction& a, const Fraction& b);
  friend Fraction operator/(const Fraction& a, const Fraction& b);
  bool is_zero() const { return p == 0; }
};
std::string to_string(const Fraction& f);  // "-5/2", "4"

struct Algorithm {
  enum class Kind : std::uint8_t { direct, im2col, winograd, fft } kind = Kind::direct;
  // winograd
  std::int64_t m = 0, r = 0;
  std::vector<Fraction> points;
  DType transform = DType::f32;
  std::int64_t run = 0;  // channels=pairwise:run; 0: seq
  // fft
  std::int64_t n = 0;  // 0: full

  // Inputs of one tile of winograd along one axis.
  std::int64_t alpha() const { return m + r - 1; }
  static Algorithm parse(std::string_view text);
};
std::string_view name(Algorithm::Kind kind);  // "winograd"
std::string to_string(const Algorithm& algorithm);
// The same algorithm with the usual parameters left out: "winograd:4/3", for people.
std::string brief(const Algorithm& algorithm);

inline constexpr std::int64_t kMaxAlpha = 16;     // largest tile of winograd along one axis
inline constexpr std::int64_t kMaxFft = 1 << 12;  // largest transform along one axis

}  // namespace etalon
