// A summation order as data: a binary tree over the indices of the terms, `order=tree:FILE`.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace etalon {

// Steps in postfix order: a value >= 0 pushes (from +0) term k; kJoin pops b, then a, and pushes a
// + b. The text form is the same with '+' for a join, blanks between: "0 1 + 2 3 + +". Each index
// 0..K-1 occurs once. A chain `acc + term` may be fused; a join of two sums cannot.
struct SumTree {
  static constexpr std::int64_t kJoin = -1;
  std::vector<std::int64_t> steps;
  std::int64_t terms = 0;

  // Throws a bad-input Error that names the offending position.
  static SumTree parse(std::string_view text);
  std::string text() const;
  std::string hash() const;  // of text(), 32 hexadecimal digits
};

}  // namespace etalon
