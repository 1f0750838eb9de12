// Claim: the steps of rows (kernels/reduce/row_steps.h) give the bits of scalar loops: sums in
// their order for any number of rows, terms and lanes, the largest element, quotients rounded to
// nearest. The data shows the order: seq and lanes are asserted to differ.
#include "kernels/reduce/row_steps.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <vector>

#include "engine/core/cpu.h"
#include "engine/core/philox.h"
#include "kernels/gemm/scratch.h"

using namespace etalon;

namespace {

std::vector<float> noise(std::int64_t count, std::uint64_t seed) {
  std::vector<float> x(static_cast<std::size_t>(count));
  const Philox random{seed, 0};
  std::uint64_t i = 0;
  for (float& v : x) {
    v = random.uniform(i) - 0.5F;
    if (random.word(i++ + 1000000) % 16 == 0) v = -0.0F;
  }
  return x;
}

std::uint32_t bits(float x) { return std::bit_cast<std::uint32_t>(x); }

std::vector<const RowSteps*> all_steps() {
  std::vector<const RowSteps*> all;
#if defined(__x86_64__)
  if (detect_isa() >= Isa::avx2) all.push_back(&row_steps_avx2());
  if (detect_isa() >= Isa::avx512)
    for (const bool amd : {false, true}) all.push_back(&row_steps_avx512(amd));
#endif
  return all;
}

float take(const float* mean, float s, float x) {
  return mean == nullptr ? s + x : std::fma(x - *mean, x - *mean, s);
}

float chain(const float* mean, const float* x, std::int64_t n) {
  float s = 0;
  for (std::int64_t k = 0; k < n; ++k) s = take(mean, s, x[k]);
  return s;
}

float in_lanes(const float* mean, const float* x, std::int64_t n, std::int64_t lanes) {
  std::vector<float> s(static_cast<std::size_t>(lanes), 0.0F);
  for (std::int64_t k = 0; k < n; ++k) {
    float& to = s[static_cast<std::size_t>(k % lanes)];
    to = take(mean, to, x[k]);
  }
  for (std::size_t m = s.size(); m > 1; m = (m + 1) / 2)
    for (std::size_t j = 0; j < m - (m + 1) / 2; ++j) s[j] += s[j + (m + 1) / 2];
  return s[0];
}

}  // namespace

TEST_CASE("row steps: sums in their order") {
  int differ = 0, compared = 0;
  for (const RowSteps* steps : all_steps())
    for (const std::int64_t rows : {1, 7, 16, 17, 35})
      for (const std::int64_t n : {0, 1, 15, 16, 64, 100, 131}) {
        const std::int64_t stride = n + 3;
        const std::vector<float> x = noise(rows * stride + 1, static_cast<std::uint64_t>(n));
        for (const bool square : {false, true}) {
          std::vector<float> sums(static_cast<std::size_t>(rows), -1.0F);
          const std::vector<float> means = noise(rows, 99);
          steps->chains(square ? means.data() : nullptr, x.data(), stride, rows, n, sums.data());
          for (std::int64_t r = 0; r < rows; ++r) {
            const float* row = x.data() + r * stride;
            const float* mean = square ? means.data() + r : nullptr;
            const float seq = chain(mean, row, n);
            CHECK(bits(sums[static_cast<std::size_t>(r)]) == bits(seq));
            ++compared;
            for (const std::int64_t lanes : {1, 5, 16, 32, 64, 100}) {
              const float want = in_lanes(mean, row, n, lanes);
              CHECK(bits(steps->lanes(mean, row, n, lanes)) == bits(want));
              differ += bits(want) != bits(seq) ? 1 : 0;
            }
          }
        }
      }
  if (!all_steps().empty()) {
    CHECK(compared > 900);
    CHECK(differ > 500);
  }
}

// Three groups one after the other, the last with fewer rows than lanes: the sums of each beside
// the squares of the one before, then the last squares alone.
TEST_CASE("row steps: sums beside the squares of the rows before") {
  int compared = 0;
  for (const RowSteps* steps : all_steps())
    for (const std::int64_t n : {1, 8, 15, 16, 64, 131})
      for (const std::int64_t last : {1, 7, 8, 16}) {
        const std::int64_t stride = n + 3, rows = 2 * kRowsAtOnce + last;
        const std::vector<float> x = noise(rows * stride, static_cast<std::uint64_t>(n + last));
        const std::vector<float> means = noise(rows + kRowsAtOnce, 99);
        AlignedBuffer buffer;
        auto* turned = buffer.at_least<float>(kRowsAtOnce * n);
        for (std::int64_t first = 0; first < rows + kRowsAtOnce; first += kRowsAtOnce) {
          std::array<float, kRowsAtOnce> sums{}, squares{};
          const std::int64_t before = first - kRowsAtOnce;
          steps->chains_and_squares({.x = first < rows ? x.data() + first * stride : nullptr,
                                     .stride = stride,
                                     .n = n,
                                     .rows = std::min(kRowsAtOnce, rows - first),
                                     .sums = sums.data(),
                                     .means = first > 0 ? means.data() + before : nullptr,
                                     .squares = squares.data(),
                                     .turned = turned});
          for (std::int64_t r = 0; r < kRowsAtOnce; ++r) {
            const auto i = static_cast<std::size_t>(r);
            if (first + r < rows) {
              CHECK(bits(sums[i]) == bits(chain(nullptr, x.data() + (first + r) * stride, n)));
              ++compared;
            }
            if (before >= 0 && before + r < rows) {
              const float* mean = means.data() + before + r;
              CHECK(bits(squares[i]) == bits(chain(mean, x.data() + (before + r) * stride, n)));
              ++compared;
            }
          }
        }
      }
  if (!all_steps().empty()) CHECK(compared > 1900);
}

TEST_CASE("row steps: the largest element, NaN if there is one") {
  for (const RowSteps* steps : all_steps())
    for (const std::int64_t n : {1, 15, 64, 65, 200}) {
      std::vector<float> x = noise(n, 5);
      float want = -HUGE_VALF;
      for (const float v : x) want = std::max(want, v);
      CHECK(steps->largest(x.data(), n) == want);
      for (const std::int64_t at : {std::int64_t{0}, n / 2, n - 1}) {
        x = noise(n, 5);
        x[static_cast<std::size_t>(at)] = HUGE_VALF;
        CHECK(steps->largest(x.data(), n) == HUGE_VALF);
        x[static_cast<std::size_t>(at)] = std::nanf("");
        CHECK(std::isnan(steps->largest(x.data(), n)));
      }
      x.assign(static_cast<std::size_t>(n), -HUGE_VALF);
      CHECK(steps->largest(x.data(), n) == -HUGE_VALF);
    }
}

// Significands of every kind by divisors of every kind, then all magnitudes, zeros of both signs,
// infinities and subnormals.
TEST_CASE("row steps: quotients are rounded to nearest") {
  const Philox random{17, 0};
  const auto any = [&](std::uint64_t i) { return random.word(i); };
  int compared = 0, wrong = 0;
  for (const RowSteps* steps : all_steps())
    for (std::uint64_t d = 0; d < 600; ++d) {
      const bool moderate = d % 3 != 0;
      const std::uint32_t word = any(d);
      float root =
          std::bit_cast<float>(moderate ? (word & 0x007fffffU) | 0x3f800000U : word & 0x7fffffffU);
      if (d % 7 == 0) root = std::bit_cast<float>(0x40000000U - static_cast<std::uint32_t>(d));
      if (root != root) root = 3;
      std::vector<float> x(1000), y(1000);
      for (std::size_t i = 0; i < x.size(); ++i) {
        const std::uint32_t w = any(1000 * d + i + 100000);
        x[i] = std::bit_cast<float>(moderate && i % 50 != 0 ? (w & 0x80ffffffU) | 0x3f000000U : w);
        if (i % 97 == 0) x[i] = i % 2 == 0 ? -0.0F : 0.0F;
        if (i < 16 && moderate) x[i] = std::bit_cast<float>(bits(root) + w % 8 - 4);
        // A quotient close to the middle of two numbers: the product of a middle, rounded.
        if (i >= 500 && moderate)
          x[i] = static_cast<float>(
              (static_cast<double>(std::bit_cast<float>((w & 0x007fffffU) | 0x3f800000U)) +
               0x1p-24) *
              static_cast<double>(root));
        if (x[i] != x[i]) x[i] = 1;
      }
      steps->affine({.x = x.data(), .root = root, .y = y.data(), .n = 1000});
      for (std::size_t i = 0; i < x.size(); ++i) {
        const float want = x[i] / root;
        wrong += want != want ? y[i] == y[i] : bits(want) != bits(y[i]);
        ++compared;
      }
    }
  CHECK(wrong == 0);
  if (!all_steps().empty()) CHECK(compared >= 600000);
}

// RowAffine::quick, with what a centred row may hold: the mean itself, its neighbours, what
// vanishes beside it, and the ends of the range, by roots from end to end.
TEST_CASE("row steps: a centred row is divided without a look at each element") {
  const Philox random{23, 0};
  std::int64_t compared = 0, wrong = 0, zeros = 0;
  for (const RowSteps* steps : all_steps())
    for (std::uint64_t d = 0; d < 400; ++d) {
      const std::uint32_t word = random.word(d);
      const auto of_exponent = [&](std::uint32_t w, int e) {
        return std::ldexp(std::bit_cast<float>((w & 0x007fffffU) | 0x3f800000U), e);
      };
      const float mean = (d % 2 == 0 ? 1.0F : -1.0F) * of_exponent(word, d % 5 == 0 ? -30 : -3);
      const float root = of_exponent(random.word(d + 1000), static_cast<int>(d % 120) - 60);
      std::vector<float> x(333), y(333), scale(333, 1.0F), bias(333, -0.0F);
      for (std::size_t i = 0; i < x.size(); ++i) {
        const std::uint32_t w = random.word(333 * d + i + 10000);
        x[i] = of_exponent(w, static_cast<int>(w % 100) - 50) * (w % 3 == 0 ? -1.0F : 1.0F);
        if (i % 7 == 0) x[i] = std::bit_cast<float>(bits(mean) + w % 5 - 2);
        if (i % 11 == 0) x[i] = std::ldexp(i % 2 == 0 ? -0.0F : 1.0F, -140);
        if (i % 13 == 0) x[i] = mean;
      }
      steps->affine({.x = x.data(),
                     .mean = mean,
                     .root = root,
                     .scale = scale.data(),
                     .bias = bias.data(),
                     .finite = true,
                     .quick = true,
                     .y = y.data(),
                     .n = 333});
      for (std::size_t i = 0; i < x.size(); ++i) {
        const float want = std::fma((x[i] - mean) / root, 1.0F, -0.0F);
        wrong += bits(want) != bits(y[i]) ? 1 : 0;
        zeros += want == 0 ? 1 : 0;
        ++compared;
      }
    }
  CHECK(wrong == 0);
  if (!all_steps().empty()) {
    CHECK(compared >= 133200);
    CHECK(zeros > 1000);
  }
}

// With a mean, a scale and a bias, of any length; infinities and NaN in each of them show that a
// result is looked at where it must be.
TEST_CASE("row steps: scale and bias, NaN canonical") {
  int compared = 0, nan = 0;
  const std::vector<float> odd = {HUGE_VALF, -HUGE_VALF, std::nanf(""), 0x1p127F, 0x1p-149F, -0.0F};
  for (const RowSteps* steps : all_steps())
    for (const std::int64_t n : {1, 16, 17, 33, 64, 75})
      for (int kind = 0; kind < 8; ++kind)
        for (const float mean : {0.0F, -0.0F, 0.25F}) {
          std::vector<float> x = noise(n, 7), scale = noise(n, 8), bias = noise(n, 9);
          const auto at = static_cast<std::size_t>(n / 2);
          if (kind > 1) {
            std::vector<float>& to = kind % 3 == 0 ? x : kind % 3 == 1 ? scale : bias;
            to[at] = odd[static_cast<std::size_t>(kind - 2)];
          }
          if (kind == 1) x.assign(x.size(), mean);
          const float root = kind == 5 ? HUGE_VALF : 1.7F;
          const bool finite = steps->finite(scale.data(), n) && steps->finite(bias.data(), n);
          for (int form = 0; form < 4; ++form) {
            const bool scaled = (form & 1) != 0, biased = (form & 2) != 0;
            std::vector<float> y(x.size());
            steps->affine({.x = x.data(),
                           .mean = mean,
                           .root = root,
                           .scale = scaled ? scale.data() : nullptr,
                           .bias = biased ? bias.data() : nullptr,
                           .finite = finite,
                           .y = y.data(),
                           .n = n});
            for (std::size_t i = 0; i < y.size(); ++i) {
              float want = (x[i] - mean) / root;
              if (biased)
                want = std::fma(want, scaled ? scale[i] : 1.0F, bias[i]);
              else if (scaled)
                want *= scale[i];
              const std::uint32_t wanted = want != want ? 0x7fc00000U : bits(want);
              CHECK(bits(y[i]) == wanted);
              ++compared;
              nan += want != want ? 1 : 0;
            }
          }
        }
  if (!all_steps().empty()) {
    CHECK(compared > 10000);
    CHECK(nan > (detect_isa() >= Isa::avx512 ? 50 : 25));
  }
}

TEST_CASE("row steps: x - m - l in this order, and what is finite") {
  for (const RowSteps* steps : all_steps())
    for (const std::int64_t n : {1, 15, 16, 47}) {
      std::vector<float> x = noise(n, 3), y(x.size());
      steps->subtract(x.data(), 0.3F, 1e-3F, y.data(), n);
      for (std::size_t i = 0; i < x.size(); ++i) CHECK(bits(y[i]) == bits((x[i] - 0.3F) - 1e-3F));
      CHECK(steps->finite(x.data(), n));
      for (const float bad : {HUGE_VALF, -HUGE_VALF, std::nanf("")}) {
        std::vector<float> z = x;
        z.back() = bad;
        CHECK_FALSE(steps->finite(z.data(), n));
      }
    }
}
