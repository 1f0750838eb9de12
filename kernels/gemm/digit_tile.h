// The first pass of contract exact on a GPU that multiplies int8 matrices and has no wgmma: each
// operand as five planes of digits, whose products are exact integers (cuda_digits.h).
//
// **Digits.** A row of K values x is scaled by a power of two, z = x / unit, so that its largest
// magnitude lies below 0.99 * 2^39, and rounded to integers, z = X + r, |r| <= 1/2 (values within
// 2^15 of the largest have no r: an f32 has 24 bits). X = sum over i = 0..4 of 256^i X_i with
// digits in [-128, 127]: they are the bytes of X + 0x8080808080, each minus 128.
//
// **Products.** Sums of products of plane i and plane j go to the int32 accumulator of level i + j.
// Levels below t = 3 are left out, which leaves 19 products for six accumulators. A level holds at
// most five products, so |level| <= 5 K 2^14 < 2^31 while K <= 2^14: there k is cut.
//
// **Bound.** With z_a = X + r, z_b = Y + q and Y' (m) = sum over j < m of 256^j Y_j, the real
// scaled sum differs from S, the sum of the levels kept, by
//
//     sum over i < t of 256^i X_i . Y'(t - i)  +  X . q  +  r . z_b.
//
// Cauchy-Schwarz on each dot product, and once more on the sum over i, gives |real - S| <=
//
//     high(a) low(b) + |X| |q| + |r| |z_b|,   high = sqrt(sum over i < t of |X_i|^2),
//                                             low = sqrt(sum over i < t of (256^i |Y'(t - i)|)^2),
//
// where |Y'(m)| <= sum of 256^j |Y_j|, |X| <= |z_a| + |r|. The norms are measured, the digits' in
// integers. The second use of Cauchy-Schwarz loses nothing on usual data, where the digits below
// the first two are as good as uniform and all terms equal.
//
// **Join.** Levels are joined in f64, smallest first: one rounding a level, one more for each
// further block of k, each of a partial sum of magnitude at most sum |X_i 256^i| |Y_j 256^j|. A
// number with top digit m satisfies |X| >= 0.498 * 256^m |X_m|, and what lies below it is at most
// 0.502 * 256^m, so sum over i of |X_i 256^i| <= 3.03 |X| and the partial sum <= 9.2 |X| |Y|. So
// the join costs at most (6 + blocks) * 10 * 2^-53 |X| |Y|.
//
// Nothing overflows: |S| < 2^78 K, units are 2^-188 to 2^90. A row with NaN or infinity has no
// digits and a bound of NaN, which decides nothing. A row with wild magnitudes has large |r|: its
// outputs are left undecided, not wrong.
#pragma once

#include <cstdint>

namespace etalon {

inline constexpr int kDigits = 5, kDigitStep = 64, kMaxLevels = 6;
inline constexpr std::int64_t kDigitBlock = 1 << 14;

}  // namespace etalon
