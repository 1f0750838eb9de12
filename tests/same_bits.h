// A tensor against another, or against values, in bits; NaN must be the canonical one.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "engine/core/tensor.h"
#include "engine/numerics/element.h"

namespace etalon::test {

inline bool equal_bits(const Tensor& a, const Tensor& b) {
  return a.type() == b.type() && std::ranges::equal(a.bytes(), b.bytes());
}

inline void same_bits(const Tensor& t, const std::vector<double>& expected) {
  REQUIRE(t.numel() == static_cast<std::int64_t>(expected.size()));
  for (std::size_t i = 0; i < expected.size(); ++i) {
    std::array<std::byte, 8> want{};
    store_from_double(t.dtype(), want.data(), 0, expected[i]);
    const auto n = static_cast<std::size_t>(size_bytes(t.dtype()));
    CHECK_MESSAGE(std::memcmp(t.bytes().data() + i * n, want.data(), n) == 0, "element ", i, ": ",
                  load_as_double(t, static_cast<std::int64_t>(i)), " for ", expected[i]);
  }
}

}  // namespace etalon::test
