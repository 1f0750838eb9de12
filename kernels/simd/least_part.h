// Tiles are as many equal parts of what there is as their size asks for: least_part(n, most) is the
// smallest part of n or more in parts of at most `most`. Smaller tiles are not compiled.
#pragma once

namespace etalon::simd {

// The least that is cut into c parts is n, into c + 1 parts c * most + 1: a part of that is smaller
// than any of more parts.
consteval int least_part(int n, int most) {
  const int c = (n + most - 1) / most, least = n / c, after = (c * most + 1) / (c + 1);
  return least < after ? least : after;
}
static_assert(least_part(8, 14) == 7 && least_part(8, 6) == 4 && least_part(7, 3) == 2);

}  // namespace etalon::simd
