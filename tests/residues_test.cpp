// Claims of kernels/gemm/residues.h: its constants are those of the Chinese remainder theorem,
// every quotient is right where it has to be, a sum of 86 bits comes back from its residues, and no
// bound is passed. Data: ends of every range, rows that are plain, wide, tiny, huge, sparse and
// cancelling; sums beside them are exact, in 128-bit integers and in the superaccumulator.
#include "kernels/gemm/residues.h"

#include <doctest/doctest.h>

#include <cmath>
#include <numeric>
#include <vector>

#include "engine/core/philox.h"
#include "engine/numerics/superaccumulator.h"

using namespace etalon;

namespace {

__extension__ using int128 = __int128;
constexpr const ResidueForm& kForm = kResidueForm;

std::uint32_t modulo(int128 v, std::uint32_t m) {
  const int128 r = v % static_cast<int128>(m);
  return static_cast<std::uint32_t>(r < 0 ? r + static_cast<int128>(m) : r);
}
// The inverse of M / m_i, found anew.
std::uint32_t inverse_of(int i) {
  std::uint64_t rest = 1;
  for (int j = 0; j < kResidues; ++j)
    if (j != i) rest = rest * kResidueModuli[j] % kResidueModuli[i];
  for (std::uint32_t t = 1; t < kResidueModuli[i]; ++t)
    if (rest * t % kResidueModuli[i] == 1) return t;
  return 0;
}
// What plane i's sum leaves where the integer sum is v.
std::uint32_t byte_of(int128 v, int i) {
  const std::uint32_t m = kResidueModuli[i];
  return (modulo(v, m) * inverse_of(i) + (1U << 31) % m) % m;
}
int residue(std::uint64_t bits, const ResidueBytes& s, int i) {
  return static_cast<std::int8_t>(residue_bits(bits, s, kForm.size[i], kForm.over[i]));
}
double magnitude(int128 v) { return std::abs(static_cast<double>(v)); }

struct Row {
  std::vector<float> x;
  ResidueNorm norm{};
  std::vector<int128> whole;
  std::vector<std::size_t> kept;
};
// As cuda_residues.h cuts, with the first sixteen rests kept.
Row cut(std::vector<float> x) {
  Row r;
  double squares = 0, rests = 0, left = 0;
  for (const float e : x) squares += static_cast<double>(e) * static_cast<double>(e);
  const double over = residue_inverse(residue_unit(squares));
  for (std::size_t i = 0; i < x.size(); ++i) {
    const ResidueCut c = residue_cut(over == 0 ? 0 : static_cast<double>(x[i]) * over);
    r.whole.push_back(static_cast<int128>(c.whole));
    rests += c.rest * c.rest;
    if (c.rest != 0 && r.kept.size() < kResidueKept)
      r.kept.push_back(i);
    else
      left += c.rest * c.rest;
  }
  r.norm = residue_norm(squares, rests, left);
  r.x = std::move(x);
  return r;
}
constexpr int kKinds = 7;
std::vector<float> elements(int kind, std::size_t k, const Philox& random) {
  std::vector<float> x(k);
  for (std::size_t i = 0; i < k; ++i) {
    const float u = random.uniform(2 * i);
    const int e = static_cast<int>(random.word(2 * i + 1) % 64);
    const float choices[kKinds] = {
        u,
        std::ldexp(u, e - 32),                                         // wide
        std::ldexp(u, -120 - e / 2),                                   // tiny, subnormal
        std::ldexp(u, 127 - e / 16),                                   // huge
        i % 7 == 0 ? u : 0,                                            // sparse
        std::ldexp(e % 2 == 0 ? 1 : 1 + 0x1p-23F, i == 0 ? 30 : -12),  // one large
        static_cast<float>(e - 32)};
    x[i] = choices[kind];
  }
  return x;
}

}  // namespace

TEST_CASE("residues: the moduli have no common factor, and their constants are the theorem's") {
  uint128 product = 1;
  for (int i = 0; i < kResidues; ++i) {
    const std::uint32_t m = kResidueModuli[i];
    product *= m;
    for (int j = 0; j < i; ++j) CHECK(std::gcd(m, kResidueModuli[j]) == 1);
    CHECK(inverse_of(i) != 0);
    // Whole and 2^47 less than nothing: an element 0 is byte 0 of its plane.
    const std::uint64_t zero = std::uint64_t{1} << 47;
    CHECK(residue(zero, kForm.a[i], i) == 0);
    CHECK(residue(zero, kForm.b[i], i) == 0);
    CHECK(residue_of_sum(0, 0 - m, kForm.over_sum[i]) == kForm.start[i]);
  }
  CHECK((wide_of(kForm.product) == product));
  CHECK(kForm.join_error >= 1403 * 0x1p-64 * static_cast<double>(product));
  // A row of zeros: the sum is +0.
  CHECK(bits_of(residue_join(kForm, [](int i) { return kForm.start[i]; })) == 0);
}

TEST_CASE("residues: every quotient that a byte needs") {
  for (int i = 0; i < kResidues; ++i) {
    const std::uint32_t m = kResidueModuli[i];
    std::int64_t wrong = 0;
    for (std::uint32_t x = 0; x < 1U << 19; ++x) {
      const int r = residue(0, {.add = bits_of(kResidueFloat) + x}, i);
      wrong += modulo(r, m) != x % m || r > static_cast<int>(m / 2);
    }
    // A sum's byte holds it, beside multiples of m at both ends and between.
    const auto check = [&](std::uint32_t u) {
      const auto sum = static_cast<std::int32_t>(u ^ 0x80000000U);
      const std::uint32_t byte = residue_of_sum(sum, 0 - m, kForm.over_sum[i]);
      wrong += byte > 255 || byte % m != u % m;
    };
    for (std::uint32_t j = 0; j < 1U << 16; ++j) {
      const std::uint32_t last = 0xffffffffU / m * m;
      for (std::uint32_t d = 0; d < 3; ++d) {
        check(j * m + d);
        check(last - j * m + d);
        check((j << 16 | j) / m * m + d);
      }
      check(0xffffffffU - j);
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("residues: bytes of a plane are congruent to the integer, times the factor in a") {
  const Philox random{7, 1};
  for (std::uint64_t n = 0; n < 4096; ++n) {
    const std::int64_t ends[] = {0,
                                 1,
                                 -1,
                                 (std::int64_t{1} << 43) - 1,
                                 -(std::int64_t{1} << 43),
                                 (std::int64_t{1} << 47) - 1,
                                 -(std::int64_t{1} << 47)};
    const auto drawn =
        static_cast<std::int64_t>(std::uint64_t{random.word(2 * n)} << 32 | random.word(2 * n + 1));
    const std::int64_t v = n < std::size(ends) ? ends[n] : drawn >> (17 + n % 40);
    const ResidueCut c = residue_cut(static_cast<double>(v));
    REQUIRE(c.whole == static_cast<double>(v));
    REQUIRE(c.rest == 0);
    for (int i = 0; i < kResidues; ++i) {
      const std::uint32_t m = kResidueModuli[i];
      const int a = residue(c.bits, kForm.a[i], i), b = residue(c.bits, kForm.b[i], i);
      REQUIRE(a >= -128);
      REQUIRE(a <= 127);
      REQUIRE(b >= -128);
      REQUIRE(b <= 127);
      REQUIRE(modulo(b, m) == modulo(v, m));
      REQUIRE(modulo(a, m) == modulo(v, m) * inverse_of(i) % m);
    }
  }
}

TEST_CASE("residues: a sum comes back, exactly, and joined within its error") {
  const Philox random{7, 2};
  const int128 most = (int128{1} << 86) - 1;
  double worst = 0;
  for (std::uint64_t n = 0; n < 1 << 16; ++n) {
    int128 v =
        static_cast<int128>(uint128{random.word(4 * n)} << 54 |
                            uint128{random.word(4 * n + 1)} << 22 | random.word(4 * n + 2) >> 10);
    v >>= n % 87;
    if (n < 16) v = most - static_cast<int128>(n) * 3;
    if (random.word(4 * n + 3) % 2 == 0) v = -v;
    std::uint32_t bytes[kResidues];
    for (int i = 0; i < kResidues; ++i) {
      bytes[i] = byte_of(v, i);
      // As residue_of_sum leaves it where its quotient is one too small.
      if (n % 3 == 0 && bytes[i] + kResidueModuli[i] <= 255) bytes[i] += kResidueModuli[i];
    }
    const auto byte = [&](int i) { return bytes[i]; };
    const TwoDoubles sum = residue_sum(kForm, byte);
    REQUIRE((static_cast<int128>(sum.value) + static_cast<int128>(sum.error) == v));
    const double joined = residue_join(kForm, byte);
    const double off = magnitude(static_cast<int128>(joined) - v);
    const double bound = kForm.join_error + 0x1p-51 * std::abs(joined);
    REQUIRE(off + 1 <= bound);
    worst = std::max(worst, off / bound);
  }
  CHECK(worst > 0.01);  // the data sees the error
}

TEST_CASE("residues: no sum is further from its joined or settled value than the bounds say") {
  std::int64_t compared = 0, exact = 0;
  double joined_worst = 0, settled_worst = 0;
  for (const std::size_t k : {1, 2, 63, 1000})
    for (int kind_a = 0; kind_a < kKinds; ++kind_a)
      for (int kind_b = 0; kind_b < kKinds; ++kind_b)
        for (std::uint64_t seed = 0; seed < 6; ++seed) {
          Row a = cut(elements(kind_a, k, {seed, 3})), b = cut(elements(kind_b, k, {seed, 4}));
          if (seed % 2 == 1) {  // cancelling: the second half against the first
            for (std::size_t i = 0; i < k / 2; ++i) {
              a.x[k - 1 - i] = a.x[i];
              b.x[k - 1 - i] = -b.x[i];
            }
            a = cut(a.x);
            b = cut(b.x);
          }
          Superaccumulator real;
          int128 whole = 0;
          for (std::size_t i = 0; i < k; ++i) {
            real.add_product(a.x[i], b.x[i]);
            whole += a.whole[i] * b.whole[i];
          }
          for (const Row* r : {&a, &b}) {
            uint128 squares = 0;
            for (const int128 w : r->whole) squares += static_cast<uint128>(w * w);
            REQUIRE((squares < uint128{1} << 86));
          }
          const auto byte = [&](int i) { return byte_of(whole, i); };
          const double units = a.norm.unit * b.norm.unit;
          const double sum = residue_join(kForm, byte) * units,
                       bound = residue_bound(kForm, a.norm, b.norm, sum);
          const auto off = [&](double high, double low) {
            Superaccumulator rest = real;
            rest.add(-high);
            rest.add(-low);
            return std::abs(rest.round(DType::f64));
          };
          const double joined = off(sum, 0);
          CAPTURE(k);
          CAPTURE(kind_a);
          CAPTURE(kind_b);
          REQUIRE(joined <= bound);
          if (bound > 0) joined_worst = std::max(joined_worst, joined / bound);
          ResidueFix fix;
          const auto z = [](const Row& r, std::size_t i) {
            return static_cast<double>(r.x[i]) * residue_inverse(r.norm.unit);
          };
          for (const std::size_t i : a.kept) fix.add(residue_cut(z(a, i)).rest * z(b, i));
          for (const std::size_t i : b.kept)
            fix.add(residue_cut(z(a, i)).whole * residue_cut(z(b, i)).rest);
          const WideSum wide = residue_wide(residue_sum(kForm, byte), fix, a.norm, b.norm);
          const double settled = off(wide.high, wide.low);
          REQUIRE(settled <= wide.error);
          if (wide.error > 0)
            settled_worst = std::max(settled_worst, settled / wide.error);
          else
            ++exact;
          ++compared;
        }
  MESSAGE(compared, " sums, ", exact, " exact; of a bound at most ", joined_worst, " and ",
          settled_worst);
  CHECK(exact > 0);
  CHECK(joined_worst > 0.02);
  CHECK(settled_worst > 0.001);
}

TEST_CASE("residues: rows of zeros decide, rows with NaN and infinities do not") {
  const Row plain = cut({1, 2, 3}), zeros = cut({0, -0.0F, 0});
  const Row infinite = cut({1, float_of(0x7f800000U), 0}), nan = cut({1, 2, float_of(kNanF32)});
  CHECK(residue_bound(kForm, zeros.norm, plain.norm, 0) == 0);
  for (const Row* r : {&infinite, &nan}) {
    CHECK(r->norm.unit == 0);
    for (const Row* o : {&plain, &zeros, &infinite, &nan}) {
      float y = 0;
      CHECK(!digit_decide(0, residue_bound(kForm, r->norm, o->norm, 0), 1, 0, false, y));
      CHECK(!digit_decide(0, residue_bound(kForm, o->norm, r->norm, 0), 1, 0, false, y));
      CHECK(!settle_sum(residue_wide({0, 0}, {}, r->norm, o->norm), 1, 0, false, y));
    }
  }
  // The ends of what a row can be.
  for (const float x : {0x1p-149F, 0x1.fffffep127F}) {
    const Row r = cut(std::vector<float>(kResidueMostK, x));
    CHECK(r.norm.unit > 0);
    CHECK(r.norm.rest == 0);
    CHECK(is_finite(r.norm.norm * r.norm.norm));
    CHECK(static_cast<double>(r.whole[0]) * r.norm.unit == static_cast<double>(x));
  }
}
