// Claim: every twiddle factor is the real number rounded once. The oracle is MPFR.
#include "kernels/conv/twiddles.h"

#include <doctest/doctest.h>

#include "tests/mpfr_oracle.h"

using namespace etalon;

TEST_CASE("fft: twiddles are correctly rounded") {
  int naive_differs = 0;
  for (const DType format : {DType::f32, DType::f64, DType::bf16, DType::f16})
    for (const std::int64_t n : {4, 8, 16, 64, 256}) {
      const auto t = twiddles(n, format);
      REQUIRE(std::ssize(t->cosine) == n / 2);
      for (std::int64_t k = 0; k < n / 2; ++k) {
        Mpfr angle(200), value(200);
        mpfr_const_pi(angle.v, MPFR_RNDN);
        mpfr_mul_si(angle.v, angle.v, 2 * k, MPFR_RNDN);
        mpfr_div_si(angle.v, angle.v, n, MPFR_RNDN);
        const auto i = static_cast<std::size_t>(k);
        mpfr_cos(value.v, angle.v, MPFR_RNDN);
        if (4 * k == n) mpfr_set_zero(value.v, 1);
        const auto round = [&] {
          return mpfr_rounded(format, Round::nearest_even, [&](mpfr_ptr r, mpfr_rnd_t mode) {
            return mpfr_set(r, value.v, mode);
          });
        };
        CHECK(t->cosine[i] == round());
        mpfr_sin(value.v, angle.v, MPFR_RNDN);
        CHECK(t->sine[i] == round());
        const float recurrence = static_cast<float>(k) * (6.2831853F / static_cast<float>(n));
        naive_differs += static_cast<double>(__builtin_sinf(recurrence)) != t->sine[i] ? 1 : 0;
      }
    }
  CHECK(naive_differs > 0);  // what an f32 angle gives is another table
}
