// row_steps.h over a vector type V, which has a Divisor beside what kernels/simd's have;
// included only by the files of one instruction set each.
#pragma once

#include <type_traits>

#include "kernels/reduce/row_steps.h"
#include "kernels/simd/unroll.h"

namespace etalon::simd {

template <class V, bool kSquare>
ETALON_INLINE typename V::Reg take(typename V::Reg s, typename V::Reg x, typename V::Reg mean) {
  if constexpr (kSquare) {
    const typename V::Reg d = V::sub(x, mean);
    return V::fma(d, d, s);
  } else {
    return V::add(s, x);
  }
}

// kGroups times V::lanes rows. Of two groups the one's additions are waited for while the other is
// turned.
template <class V, bool kSquare, int kGroups>
void row_chains(const float* means, const float* const* row, std::int64_t n, float* sums) {
  typename V::Reg mean[kGroups], s[kGroups], square[V::lanes];
  unroll<kGroups>([&](auto g) ETALON_INLINE_LAMBDA {
    mean[g] = kSquare ? V::load(means + g * V::lanes) : V::zero();
    s[g] = V::zero();
  });
  std::int64_t k = 0;
  for (; k + V::lanes <= n; k += V::lanes)
    unroll<kGroups>([&](auto g) ETALON_INLINE_LAMBDA {
      V::load_turned([&](int r) ETALON_INLINE_LAMBDA { return row[g * V::lanes + r] + k; }, square);
      unroll<V::lanes>(
          [&](auto i) ETALON_INLINE_LAMBDA { s[g] = take<V, kSquare>(s[g], square[i], mean[g]); });
    });
  if (k < n) {
    const auto rest = static_cast<int>(n - k);
    const typename V::Mask m = V::first(rest);
    unroll<kGroups>([&](auto g) ETALON_INLINE_LAMBDA {
      unroll<V::lanes>(
          [&](auto r) ETALON_INLINE_LAMBDA { square[r] = V::load(row[g * V::lanes + r] + k, m); });
      V::transpose(square);
      unroll<V::lanes>([&](auto i) ETALON_INLINE_LAMBDA {
        if (i < rest) s[g] = take<V, kSquare>(s[g], square[i], mean[g]);
      });
    });
  }
  unroll<kGroups>([&](auto g) ETALON_INLINE_LAMBDA { V::store(sums + g * V::lanes, s[g]); });
}

template <class V>
void row_chains(const float* means, const float* x, std::int64_t stride, std::int64_t rows,
                std::int64_t n, float* sums) {
  const auto groups = [&]<int kGroups>(std::int64_t first, std::integral_constant<int, kGroups>) {
    constexpr int kRows = kGroups * V::lanes;
    const float* row[kRows];
    float all[kRows], mean[kRows];
    for (int r = 0; r < kRows; ++r) {  // spare lanes repeat the last row
      const std::int64_t at = first + r < rows ? first + r : rows - 1;
      row[r] = x + at * stride;
      mean[r] = means == nullptr ? 0 : means[at];
    }
    means == nullptr ? row_chains<V, false, kGroups>(mean, row, n, all)
                     : row_chains<V, true, kGroups>(mean, row, n, all);
    for (int r = 0; r < kRows && first + r < rows; ++r) sums[first + r] = all[r];
  };
  std::int64_t first = 0;
  for (; rows - first > V::lanes; first += 2 * V::lanes)
    groups(first, std::integral_constant<int, 2>{});
  if (first < rows) groups(first, std::integral_constant<int, 1>{});
}

// What is computed and stored so far comes before what follows, for the compiler.
template <class V>
ETALON_INLINE void in_order(typename V::Reg& a, typename V::Reg& b) {
  asm volatile("" : "+v"(a), "+v"(b) : : "memory");
}

// V::lanes rows to be summed, and as many whose turned terms lie in `turned`.
template <class V, bool kSum, bool kSquare>
void row_pair(const float* const* row, std::int64_t n, const float* means, float* turned,
              float* sums, float* squares) {
  using Reg = typename V::Reg;
  const Reg mean = kSquare ? V::load(means) : V::zero();
  Reg s = V::zero(), q = V::zero(), column[V::lanes];
  const auto step = [&](float* at, Reg x) ETALON_INLINE_LAMBDA {
    if constexpr (kSquare) q = take<V, true>(q, V::load(at), mean);
    if constexpr (kSum) {
      s = take<V, false>(s, x, mean);
      V::store(at, x);
    }
  };
  std::int64_t k = 0;
  for (; k + V::lanes <= n; k += V::lanes) {
    if constexpr (kSum)
      V::load_turned_by_fours([&](int r) ETALON_INLINE_LAMBDA { return row[r] + k; },
                              [&](auto first, const Reg(&four)[4]) ETALON_INLINE_LAMBDA {
                                unroll<4>([&](auto i) ETALON_INLINE_LAMBDA {
                                  step(turned + (k + first + i) * V::lanes, four[i]);
                                });
                                in_order<V>(s, q);
                              });
    else
      unroll<V::lanes>([&](auto i)
                           ETALON_INLINE_LAMBDA { step(turned + (k + i) * V::lanes, column[i]); });
  }
  if (k < n) {
    const auto rest = static_cast<int>(n - k);
    if constexpr (kSum) {
      const typename V::Mask m = V::first(rest);
      unroll<V::lanes>([&](auto r) ETALON_INLINE_LAMBDA { column[r] = V::load(row[r] + k, m); });
      V::transpose(column);
    }
    unroll<V::lanes>([&](auto i) ETALON_INLINE_LAMBDA {
      if (i < rest) step(turned + (k + i) * V::lanes, column[i]);
    });
  }
  if constexpr (kSum) V::store(sums, s);
  if constexpr (kSquare) V::store(squares, q);
}

template <class V>
void row_pairs(const RowGroups& g) {
  for (std::int64_t first = 0; first < kRowsAtOnce; first += V::lanes) {
    const float* row[V::lanes] = {};
    if (g.x != nullptr)
      for (int r = 0; r < V::lanes; ++r)
        row[r] = g.x + (first + r < g.rows ? first + r : g.rows - 1) * g.stride;
    float* turned = g.turned + first * g.n;
    if (g.means == nullptr)
      row_pair<V, true, false>(row, g.n, nullptr, turned, g.sums + first, nullptr);
    else if (g.x == nullptr)
      row_pair<V, false, true>(row, g.n, g.means + first, turned, nullptr, g.squares + first);
    else
      row_pair<V, true, true>(row, g.n, g.means + first, turned, g.sums + first, g.squares + first);
  }
}

// Joins the first m of s by halving distance. V::tree joins a vector's lanes so; V::most is the
// largest of them.
ETALON_INLINE float join_lanes(float* s, std::int64_t m) {
  while (m > 1) {
    const std::int64_t h = (m + 1) / 2;
    for (std::int64_t j = 0; j < m - h; ++j) s[j] += s[j + h];
    m = h;
  }
  return s[0];
}

// A power of two of vectors, by halving distance.
template <class V, int kCount>
ETALON_INLINE typename V::Reg join_vectors(typename V::Reg (&s)[kCount]) {
  if constexpr (kCount == 1) {
    return s[0];
  } else {
    typename V::Reg half[kCount / 2];
    unroll<kCount / 2>([&](auto i)
                           ETALON_INLINE_LAMBDA { half[i] = V::add(s[i], s[i + kCount / 2]); });
    return join_vectors<V>(half);
  }
}

// kVectors vectors of lanes, in registers.
template <class V, bool kSquare, int kVectors>
float row_lanes_in(typename V::Reg mean, const float* x, std::int64_t n) {
  constexpr std::int64_t kLanes = kVectors * V::lanes;
  typename V::Reg s[kVectors];
  unroll<kVectors>([&](auto i) ETALON_INLINE_LAMBDA { s[i] = V::zero(); });
  std::int64_t k = 0;
  for (; k + kLanes <= n; k += kLanes)
    unroll<kVectors>([&](auto i) ETALON_INLINE_LAMBDA {
      s[i] = take<V, kSquare>(s[i], V::load(x + k + i * V::lanes), mean);
    });
  unroll<kVectors>([&](auto i) ETALON_INLINE_LAMBDA {
    const std::int64_t left = n - k - i * V::lanes;
    if (left > 0) {  // lanes without a term keep their sum, -0 too
      const typename V::Mask m = V::first(left < V::lanes ? static_cast<int>(left) : V::lanes);
      s[i] = V::select(m, take<V, kSquare>(s[i], V::load(x + k + i * V::lanes, m), mean), s[i]);
    }
  });
  static_assert((kVectors & (kVectors - 1)) == 0);
  return V::tree(join_vectors<V>(s));
}

template <class V, bool kSquare>
float row_lanes_of(float of_row, const float* x, std::int64_t n, std::int64_t lanes) {
  const typename V::Reg mean = V::set1(of_row);
  if (lanes == 64) return row_lanes_in<V, kSquare, 64 / V::lanes>(mean, x, n);
  float s[kMostLanes];
  for (std::int64_t j = 0; j < lanes; ++j) s[j] = 0;
  for (std::int64_t k = 0; k < n; k += lanes) {
    const std::int64_t count = n - k < lanes ? n - k : lanes;
    for (std::int64_t j = 0; j < count; j += V::lanes) {
      const typename V::Mask m =
          V::first(count - j < V::lanes ? static_cast<int>(count - j) : V::lanes);
      V::store(s + j, take<V, kSquare>(V::load(s + j, m), V::load(x + k + j, m), mean), m);
    }
  }
  return join_lanes(s, lanes);
}

template <class V>
float row_lanes(const float* mean, const float* x, std::int64_t n, std::int64_t lanes) {
  return mean == nullptr ? row_lanes_of<V, false>(0, x, n, lanes)
                         : row_lanes_of<V, true>(*mean, x, n, lanes);
}

template <class V>
float row_largest(const float* x, std::int64_t n) {
  using Reg = typename V::Reg;
  const Reg least = V::set1(-__builtin_inff());
  // 0 of numbers, else NaN.
  Reg best[4] = {least, least, least, least}, zero[4] = {};
  std::int64_t k = 0;
  for (; k + 4 * V::lanes <= n; k += 4 * V::lanes)
    unroll<4>([&](auto i) ETALON_INLINE_LAMBDA {
      const Reg v = V::load(x + k + i * V::lanes);
      zero[i] = V::fma(v, V::zero(), zero[i]);
      best[i] = V::larger(v, best[i]);
    });
  for (; k < n; k += V::lanes) {
    const typename V::Mask m = V::first(n - k < V::lanes ? static_cast<int>(n - k) : V::lanes);
    zero[0] = V::fma(V::load(x + k, m), V::zero(), zero[0]);
    best[0] = V::larger(V::load_into(least, x + k, m), best[0]);
  }
  const Reg all_zero = V::add(V::add(zero[0], zero[1]), V::add(zero[2], zero[3]));
  if (V::to_bits(V::is_nan(all_zero)) != 0) [[unlikely]]
    for (std::int64_t i = 0; i < n; ++i)
      if (x[i] != x[i]) return __builtin_nanf("");
  return V::most(V::larger(V::larger(best[0], best[1]), V::larger(best[2], best[3])));
}

template <class V>
void row_subtract(const float* x, float m, float l, float* y, std::int64_t n) {
  const typename V::Reg ms = V::set1(m), ls = V::set1(l);
  std::int64_t k = 0;
  for (; k + V::lanes <= n; k += V::lanes) V::store(y + k, V::sub(V::sub(V::load(x + k), ms), ls));
  if (k == n) return;
  const typename V::Mask rest = V::first(static_cast<int>(n - k));
  V::store(y + k, V::sub(V::sub(V::load(x + k, rest), ms), ls), rest);
}

// x - x is NaN of what is not finite.
template <class V>
bool row_finite(const float* x, std::int64_t n) {
  std::uint32_t bad = 0;
  for (std::int64_t k = 0; k < n; k += V::lanes) {
    const auto v = V::load(x + k, V::first(n - k < V::lanes ? static_cast<int>(n - k) : V::lanes));
    bad |= V::to_bits(V::is_nan(V::sub(v, v)));
  }
  return bad == 0;
}

enum class AffineForm { of_x, quotient, scaled, biased };

// A quotient that the divisor's quick way gives is a number; with a scale and a bias that are
// finite the result is one, too, or infinite.
template <class V, AffineForm kForm, bool kFinite, bool kQuick>
void row_affine_of(const RowAffine& row) {
  using Reg = typename V::Reg;
  const RowAffine r = row;
  const typename V::Divisor root(r.root);
  const Reg mean = V::set1(r.mean), one = V::set1(1.0F);
  const auto scaled = [&](Reg q, [[maybe_unused]] auto load) ETALON_INLINE_LAMBDA {
    if constexpr (kForm == AffineForm::biased)
      return V::fma(q, r.scale == nullptr ? one : load(r.scale), load(r.bias));
    else if constexpr (kForm == AffineForm::scaled)
      return V::mul(q, load(r.scale));
    else
      return q;
  };
  const auto distance = [&](Reg x) ETALON_INLINE_LAMBDA {
    return kForm == AffineForm::of_x ? x : V::sub(x, mean);
  };
  const auto finish = [&](Reg a, bool quick, auto divides, auto load) ETALON_INLINE_LAMBDA {
    if (!quick) [[unlikely]]
      return V::canonical(scaled(root.divide(a), load));
    const Reg y = scaled(divides ? root.divide(a) : root.quick(a), load);
    return kFinite ? y : V::canonical(y);
  };
  constexpr std::bool_constant<V::Divisor::kDividesSecond> second;
  std::int64_t i = 0;
  for (; i + 2 * V::lanes <= r.n; i += 2 * V::lanes) {
    const Reg a = distance(V::load(r.x + i)), b = distance(V::load(r.x + i + V::lanes));
    const bool quick = kQuick || root.quick_for(a, b);
    const Reg y = finish(a, quick, std::false_type{},
                         [&](const float* p) ETALON_INLINE_LAMBDA { return V::load(p + i); });
    const Reg z = finish(b, quick, second, [&](const float* p) ETALON_INLINE_LAMBDA {
      return V::load(p + i + V::lanes);
    });
    V::store(r.y + i, y);
    V::store(r.y + i + V::lanes, z);
  }
  for (; i < r.n; i += V::lanes) {
    const std::int64_t left = r.n - i;
    const typename V::Mask m = V::first(left < V::lanes ? static_cast<int>(left) : V::lanes);
    const Reg a = distance(V::load(r.x + i, m));
    V::store(r.y + i,
             finish(a, kQuick || root.quick_for(V::select(m, a, one), one), std::false_type{},
                    [&](const float* p) ETALON_INLINE_LAMBDA { return V::load(p + i, m); }),
             m);
  }
}

template <class V, AffineForm kForm>
void row_affine_in(const RowAffine& row) {
  if (row.finite)
    row.quick ? row_affine_of<V, kForm, true, true>(row)
              : row_affine_of<V, kForm, true, false>(row);
  else
    row_affine_of<V, kForm, false, false>(row);
}

template <class V>
void row_affine(const RowAffine& row) {
  using enum AffineForm;
  if (row.bias != nullptr) return row_affine_in<V, biased>(row);
  if (row.scale != nullptr) return row_affine_in<V, scaled>(row);
  const bool unmoved = row.mean == 0 && !__builtin_signbit(row.mean);
  unmoved ? row_affine_of<V, of_x, true, false>(row) : row_affine_of<V, quotient, true, false>(row);
}

template <class V>
constexpr RowSteps make_row_steps() {
  return {row_chains<V>,   row_pairs<V>,  row_lanes<V>, row_largest<V>,
          row_subtract<V>, row_affine<V>, row_finite<V>};
}

}  // namespace etalon::simd
