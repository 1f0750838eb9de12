// ExpLanes of lanes.h.
#pragma once

#include "kernels/activation/lanes_inl.h"

namespace etalon {

template <class D>
struct LaneSoftmax : LaneBase<D> {
  using Math = LaneMath<D>;
  using R = typename D::Reg;
  using LaneBase<D>::c;

  // x - m errs by u |x - m| and the exponential by as much, |x - m| <= 200: 200 u; and 5 u.
  static void exp_shifted(const float* x, float m, double* e, std::int64_t count) {
    const R shift = c(static_cast<double>(m));
    Math::each(count, [&](std::int64_t i, int n) ETALON_INLINE_LAMBDA {
      const R y = Math::Exp::exp_fine(D::max(c(-200), D::sub(Math::widened(x + i, n), shift)));
      if (n == D::lanes)
        D::store(e + i, y);
      else
        D::store(e + i, y, D::first(n));
    });
  }
  ETALON_INLINE static bool store_if_decided(R v, double error, float* y, int n) {
    const auto low = D::narrow(D::fnma(v, c(error), v)), high = D::narrow(D::fma(v, c(error), v));
    if (n == D::lanes)
      D::narrow_store(y, high);
    else
      D::narrow_store(y, high, n);
    return (D::narrow_differ(low, high) & ((1U << n) - 1U)) == 0;
  }
  static bool divide(const double* e, double s, double error, float* y, std::int64_t count) {
    bool decided = true;
    Math::each(count, [&](std::int64_t i, int n) ETALON_INLINE_LAMBDA {
      const R v = n == D::lanes ? D::load(e + i) : D::load(e + i, D::first(n));
      decided &= store_if_decided(D::div(v, c(s)), error, y + i, n);
    });
    return decided;
  }
  static bool subtract(const float* x, float m, double log_sum, double error, float* y,
                       std::int64_t count) {
    bool decided = true;
    Math::each(count, [&](std::int64_t i, int n) ETALON_INLINE_LAMBDA {
      const R d = D::sub(Math::widened(x + i, n), c(static_cast<double>(m)));
      decided &= store_if_decided(D::sub(d, c(log_sum)), error, y + i, n);
    });
    return decided;
  }

  // y = e^(x - m) of columns [first, end) of all rows; between() as of pairs_of.
  template <class Between>
  ETALON_INLINE static std::int64_t exponentials(const ExpRows& rows, std::int64_t first,
                                                 std::int64_t end, const LaneFallback& fallback,
                                                 Between between) {
    using Pairs = typename D::FloatPairs;
    const auto doubles = [&](const float* open, float* result, std::int64_t n) {
      return Math::by_doubles(LaneFunction::exp, {}, open, result, n, fallback, 1);
    };
    OpenElements<typename LanePair<Pairs>::Exp, DistanceFrom> open(rows.x, rows.y);
    std::int64_t refused = 0;
    for (int r = 0; r < rows.rows; ++r) {
      const std::int64_t start = r * rows.stride;
      refused += pairs_of<Pairs>(rows.x, rows.y, start + first, start + end,
                                 DistanceFrom{rows.largest[r]}, open, doubles, between);
    }
    return refused + open.finish(doubles);
  }
  static std::int64_t rounded(const ExpRows& rows, const LaneFallback& fallback) {
    return exponentials(rows, 0, rows.n, fallback, [] {});
  }
  // Additions of a chain wait for one another while exponentials of later columns are computed, a
  // vector of these and a few columns of those in turn: a processor looks ahead by some hundred
  // operations. Columns are summed when all that was left open of them is settled.
  static std::int64_t summed(const ExpRows& rows, float* sums, const LaneFallback& fallback) {
    return rows.rows <= 2 ? summed_of<2>(rows, sums, fallback)
                          : summed_of<kExpChains>(rows, sums, fallback);
  }
  template <int kRows>
  static std::int64_t summed_of(const ExpRows& rows, float* sums, const LaneFallback& fallback) {
    using F = typename D::FloatPairs;
    constexpr std::int64_t kColumns = 256, kBetween = F::lanes * LanePair<F>::Exp::kVectors / kRows;
    const float* term[kRows];
    float sum[kRows] = {};
    for (int r = 0; r < kRows; ++r)  // spare chains repeat the last row's
      term[r] = rows.y + (r < rows.rows ? r : rows.rows - 1) * rows.stride;
    std::int64_t refused = 0, done = 0;
    const auto chain = [&](std::int64_t end) ETALON_INLINE_LAMBDA {
      for (; done < end; ++done)
        simd::unroll<kRows>([&](auto r) ETALON_INLINE_LAMBDA { sum[r] += term[r][done]; });
    };
    for (std::int64_t first = 0; first < rows.n; first += kColumns) {
      const std::int64_t end = rows.n - first < kColumns ? rows.n : first + kColumns;
      refused += exponentials(rows, first, end, fallback, [&]() ETALON_INLINE_LAMBDA {
        chain(done + kBetween < first ? done + kBetween : first);
      });
      chain(first);
    }
    chain(rows.n);
    for (int r = 0; r < rows.rows; ++r) sums[r] = sum[r];
    return refused;
  }
};

}  // namespace etalon
