// kernels/gemm/exact_lanes.h over a vector type V of f64; included only by the files of one
// instruction set each. V adds to kernels/simd: abs, narrow (to f32), same (lanes of two narrowed
// vectors that are equal in bits and no NaN) and store_narrow; both (two narrowed vectors as one),
// differ (lanes of these that are not the same), apart (lanes that are in two cells) and
// store_both.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/gemm/exact_lanes.h"
#include "kernels/gemm/exact_open_inl.h"
#include "kernels/gemm/tile.h"
#include "kernels/simd/unroll.h"

namespace etalon::simd {

template <class V>
void exact_squares(const float* b, std::int64_t step, std::int64_t k, double* squares) {
  using Reg = typename V::Reg;
  constexpr int chains = 4;  // of each vector
  Reg s[chains][2];
  unroll<chains>([&](auto j) ETALON_INLINE_LAMBDA { s[j][0] = s[j][1] = V::zero(); });
  std::int64_t i = 0;
  const auto add = [&](auto j) ETALON_INLINE_LAMBDA {
    unroll<2>([&](auto w) ETALON_INLINE_LAMBDA {
      const Reg x = V::widen(b + j * step + w * V::lanes);
      s[j][w] = V::fma(x, x, s[j][w]);
    });
  };
  for (; i + chains <= k; i += chains, b += chains * step) unroll<chains>(add);
  for (; i < k; ++i, b += step) add(std::integral_constant<int, 0>{});
  unroll<2>([&](auto w) ETALON_INLINE_LAMBDA {
    double* to = squares + w * V::lanes;
    V::store(to, V::add(V::load(to), V::add(V::add(s[0][w], s[1][w]), V::add(s[2][w], s[3][w]))));
  });
}

template <class V>
double exact_square(const float* x, std::int64_t k) {
  constexpr int chains = 4;
  typename V::Reg s[chains];
  for (int j = 0; j < chains; ++j) s[j] = V::zero();
  std::int64_t i = 0;
  for (; i + chains * V::lanes <= k; i += chains * V::lanes)
    unroll<chains>([&](auto j) ETALON_INLINE_LAMBDA {
      const typename V::Reg v = V::widen(x + i + j * V::lanes);
      s[j] = V::fma(v, v, s[j]);
    });
  for (; i < k; i += V::lanes) {
    const typename V::Reg v =
        V::widen(x + i, V::first(k - i < V::lanes ? static_cast<int>(k - i) : V::lanes));
    s[0] = V::fma(v, v, s[0]);
  }
  double lanes[V::lanes], sum = 0;
  V::store(lanes, V::add(V::add(s[0], s[1]), V::add(s[2], s[3])));
  for (int lane = 0; lane < V::lanes; ++lane) sum += lanes[lane];
  return sum;
}

template <class V, bool scaled, bool adds>
std::uint32_t exact_round_of(const ExactTile& tile, std::uint32_t* undecided) {
  using Reg = typename V::Reg;
  // The same terms as exact_decide (exact_decide.h), in the same units.
  const Reg scale = V::set1(tile.scale), slack = V::set1(tile.slack), addition = V::set1(0x1p-51);
  struct Ends {
    typename V::Narrow low, high;
  };
  const auto ends = [&](int r, int first, Reg bound, Reg norms) ETALON_INLINE_LAMBDA {
    Reg t = V::load(tile.sums + r * tile.sums_row + first), e = V::mul(bound, norms);
    if constexpr (scaled) {
      t = V::mul(scale, t);
      e = V::fma(slack, V::abs(t), e);
    }
    if constexpr (adds) t = V::add(t, V::load(tile.added + r * tile.added_row + first));
    e = V::fma(addition, V::abs(t), e);
    return Ends{V::narrow(V::sub(t, e)), V::narrow(V::add(t, e))};
  };
  std::uint32_t any = 0;
  if (tile.count == 2 * V::lanes) {
    const Reg norms[2] = {V::load(tile.norms), V::load(tile.norms + V::lanes)};
    for (int r = 0; r < tile.rows; ++r) {
      const Reg bound = V::set1(tile.bounds[r]);
      const Ends a = ends(r, 0, bound, norms[0]), b = ends(r, V::lanes, bound, norms[1]);
      const auto low = V::both(a.low, b.low), high = V::both(a.high, b.high);
      undecided[r] = exact_open_both<V>(low, high, tile.cells);
      any |= undecided[r];
      V::store_both(tile.y + r * tile.y_row, low);
    }
    return any;
  }
  for (int r = 0; r < tile.rows; ++r) undecided[r] = 0;
  for (int first = 0; first < tile.count; first += V::lanes) {
    const Reg norms = V::load(tile.norms + first);
    const int n = tile.count - first < V::lanes ? tile.count - first : V::lanes;
    const std::uint32_t lanes = (1U << n) - 1;
    for (int r = 0; r < tile.rows; ++r) {
      const Ends a = ends(r, first, V::set1(tile.bounds[r]), norms);
      const std::uint32_t open = exact_open<V>(a.low, a.high, tile.cells) & lanes;
      undecided[r] |= open << first;
      any |= open << first;
      V::store_narrow(tile.y + r * tile.y_row + first, a.low, n);
    }
  }
  return any;
}
template <class V>
std::uint32_t exact_round(const ExactTile& tile, std::uint32_t* undecided) {
  const bool scaled = tile.scale != 1 || tile.slack != 0;
  if (tile.added != nullptr)
    return scaled ? exact_round_of<V, true, true>(tile, undecided)
                  : exact_round_of<V, false, true>(tile, undecided);
  return scaled ? exact_round_of<V, true, false>(tile, undecided)
                : exact_round_of<V, false, false>(tile, undecided);
}

template <class V, int vectors>
void exact_column_of(const ExactColumn& t) {
  using Reg = typename V::Reg;
  constexpr int chains = 4;  // a sum's parts, added up two by two
  Reg s[chains][vectors];
  unroll<chains>([&](auto j) ETALON_INLINE_LAMBDA {
    unroll<vectors>([&](auto v) ETALON_INLINE_LAMBDA { s[j][v] = V::zero(); });
  });
  const auto mask = V::first(t.height - (vectors - 1) * V::lanes);
  const double* a = t.a;
  const float* b = t.b;
  const auto step = [&](auto j) ETALON_INLINE_LAMBDA {
    const Reg x = V::set1(static_cast<double>(*b));
    unroll<vectors>([&](auto v) ETALON_INLINE_LAMBDA {
      const Reg w = v + 1 < vectors ? V::load(a + v * V::lanes) : V::load(a + v * V::lanes, mask);
      s[j][v] = V::fma(w, x, s[j][v]);
    });
    a += t.height;
    b += t.b_step;
  };
  std::int64_t k = 0;
  for (; k + chains <= t.k; k += chains) unroll<chains>(step);
  for (; k < t.k; ++k) step(std::integral_constant<int, 0>{});
  alignas(64) double sums[vectors * V::lanes];
  unroll<vectors>([&](auto v) ETALON_INLINE_LAMBDA {
    V::store(sums + v * V::lanes, V::add(V::add(s[0][v], s[1][v]), V::add(s[2][v], s[3][v])));
  });
  for (int r = 0; r < t.height; ++r) {
    double& c = t.c[r * t.c_row];
    c = t.join ? c + sums[r] : sums[r];
  }
}
template <class V>
void exact_column(const ExactColumn& t) {
  constexpr int most = (kMaxTileRows + V::lanes - 1) / V::lanes;
  unroll<most>([&](auto v) ETALON_INLINE_LAMBDA {
    if ((t.height + V::lanes - 1) / V::lanes == v + 1) exact_column_of<V, v + 1>(t);
  });
}

inline void exact_ask(const float* y, std::int64_t y_row, int rows, int count) {
  for (int r = 0; r < rows; ++r, y += y_row)
    asm volatile("prefetchw %0\n\tprefetchw %1" : : "m"(y[0]), "m"(y[count - 1]));
}

template <class V, int vectors>
std::uint32_t exact_tap_vectors(const ExactTaps& taps, int count, float* y) {
  using Reg = typename V::Reg;
  Reg s[vectors], m[vectors];
  typename V::Mask mask[vectors];
  unroll<vectors>([&](auto v) ETALON_INLINE_LAMBDA {
    s[v] = m[v] = V::zero();
    mask[v] = V::first(count - v * V::lanes < V::lanes ? count - v * V::lanes : V::lanes);
  });
  for (std::int64_t k = 0; k < taps.k; ++k) {
    const Reg w = V::set1(static_cast<double>(taps.w[k])), size = V::abs(w);
    const float* x = taps.x + taps.offset[k];
    unroll<vectors>([&](auto v) ETALON_INLINE_LAMBDA {
      const Reg value = V::widen(x + v * V::lanes, mask[v]);
      s[v] = V::fma(value, w, s[v]);
      m[v] = V::fma(V::abs(value), size, m[v]);
    });
  }
  const Reg factor = V::set1(static_cast<double>(taps.k) * 0x1p-53 * (1 + 0x1p-10)),
            addition = V::set1(0x1p-51), added = V::set1(taps.added);
  std::uint32_t undecided = 0;
  unroll<vectors>([&](auto v) ETALON_INLINE_LAMBDA {
    const Reg t = V::add(s[v], added), e = V::fma(addition, V::abs(t), V::mul(factor, m[v]));
    const auto low = V::narrow(V::sub(t, e));
    const std::uint32_t open = exact_open<V>(low, V::narrow(V::add(t, e)), taps.cells);
    const int n = count - v * V::lanes < V::lanes ? count - v * V::lanes : V::lanes;
    undecided |= (open & ((1U << n) - 1)) << (v * V::lanes);
    V::store_narrow(y + v * V::lanes, low, n);
  });
  return undecided;
}

template <class V>
std::uint32_t exact_taps(const ExactTaps& taps, int count, float* y) {
  ExactTaps rest = taps;
  std::uint32_t undecided = 0;
  for (int first = 0; first < count;) {
    const int vectors = (count - first + V::lanes - 1) / V::lanes;
    rest.x = taps.x + first;
    if (vectors >= 4) {
      const int n = count - first < 4 * V::lanes ? count - first : 4 * V::lanes;
      undecided |= exact_tap_vectors<V, 4>(rest, n, y + first) << first;
      first += n;
    } else if (vectors >= 2) {
      const int n = count - first < 2 * V::lanes ? count - first : 2 * V::lanes;
      undecided |= exact_tap_vectors<V, 2>(rest, n, y + first) << first;
      first += n;
    } else {
      undecided |= exact_tap_vectors<V, 1>(rest, count - first, y + first) << first;
      first = count;
    }
  }
  return undecided;
}

template <class V, bool kSquares>
void exact_dots_of(const double* v, const ExactRows& rows, std::int64_t k, double* sums,
                   double* squares) {
  using Reg = typename V::Reg;
  constexpr int height = 4;
  Reg s[height], m[height];
  for (int r = 0; r < height; ++r) s[r] = m[r] = V::zero();
  std::int64_t i = 0;
  for (; i + V::lanes <= k; i += V::lanes) {
    const Reg a = V::load(v + i);
    unroll<height>([&](auto r) ETALON_INLINE_LAMBDA {
      const Reg x = V::widen(rows.x + r * rows.stride + i);
      s[r] = V::fma(a, x, s[r]);
      if constexpr (kSquares) m[r] = V::fma(x, x, m[r]);
    });
  }
  if (i < k) {
    const Reg a = V::load(v + i);
    const auto mask = V::first(static_cast<int>(k - i));
    unroll<height>([&](auto r) ETALON_INLINE_LAMBDA {
      const Reg x = V::widen(rows.x + r * rows.stride + i, mask);
      s[r] = V::fma(a, x, s[r]);
      if constexpr (kSquares) m[r] = V::fma(x, x, m[r]);
    });
  }
  double lanes[V::lanes];
  for (int r = 0; r < height; ++r) {
    V::store(lanes, s[r]);
    sums[r] = 0;
    for (int i2 = 0; i2 < V::lanes; ++i2) sums[r] += lanes[i2];
    if constexpr (!kSquares) continue;
    V::store(lanes, m[r]);
    squares[r] = 0;
    for (int i2 = 0; i2 < V::lanes; ++i2) squares[r] += lanes[i2];
  }
}
template <class V>
void exact_dots(const double* v, const ExactRows& rows, std::int64_t k, double* sums,
                double* squares) {
  squares == nullptr ? exact_dots_of<V, false>(v, rows, k, sums, squares)
                     : exact_dots_of<V, true>(v, rows, k, sums, squares);
}
template <class V>
std::int64_t exact_chain(std::int64_t k) {
  return (k + V::lanes - 1) / V::lanes + V::lanes;
}

template <class V, int height, bool kSquares>
void exact_columns_of(const double* v, const ExactRows& rows, std::int64_t count, double* sums,
                      double* squares) {
  using Reg = typename V::Reg;
  Reg w[height];
  unroll<height>([&](auto r) ETALON_INLINE_LAMBDA { w[r] = V::set1(v[r]); });
  const auto step = [&](std::int64_t i, auto load, auto widen, auto store) ETALON_INLINE_LAMBDA {
    Reg s = load(sums + i), m = kSquares ? load(squares + i) : V::zero();
    unroll<height>([&](auto r) ETALON_INLINE_LAMBDA {
      const Reg x = widen(rows.x + r * rows.stride + i);
      s = V::fma(w[r], x, s);
      if constexpr (kSquares) m = V::fma(x, x, m);
    });
    store(sums + i, s);
    if constexpr (kSquares) store(squares + i, m);
  };
  std::int64_t i = 0;
  for (; i + V::lanes <= count; i += V::lanes)
    step(
        i, [](const double* p) ETALON_INLINE_LAMBDA { return V::load(p); },
        [](const float* p) ETALON_INLINE_LAMBDA { return V::widen(p); },
        [](double* p, Reg x) ETALON_INLINE_LAMBDA { V::store(p, x); });
  if (i < count) {
    const auto mask = V::first(static_cast<int>(count - i));
    step(
        i, [&](const double* p) ETALON_INLINE_LAMBDA { return V::load(p, mask); },
        [&](const float* p) ETALON_INLINE_LAMBDA { return V::widen(p, mask); },
        [&](double* p, Reg x) ETALON_INLINE_LAMBDA { V::store(p, x, mask); });
  }
}
template <class V, bool kSquares>
void exact_columns_in_fours(const double* v, const ExactRows& rows, int height, std::int64_t count,
                            double* sums, double* squares) {
  int r = 0;
  for (; r + 4 <= height; r += 4)
    exact_columns_of<V, 4, kSquares>(v + r, {rows.x + r * rows.stride, rows.stride}, count, sums,
                                     squares);
  for (; r < height; ++r)
    exact_columns_of<V, 1, kSquares>(v + r, {rows.x + r * rows.stride, rows.stride}, count, sums,
                                     squares);
}
template <class V>
void exact_columns(const double* v, const ExactRows& rows, int height, std::int64_t count,
                   double* sums, double* squares) {
  squares == nullptr ? exact_columns_in_fours<V, false>(v, rows, height, count, sums, squares)
                     : exact_columns_in_fours<V, true>(v, rows, height, count, sums, squares);
}

// step(j, x, y) for the vectors of a and b in turns over j < chains, the last ones for j = 0.
template <class V, int chains, class Step>
ETALON_INLINE void exact_pairs(const float* a, const float* b, std::int64_t k, const Step& step) {
  std::int64_t i = 0;
  for (; i + chains * V::lanes <= k; i += chains * V::lanes)
    unroll<chains>([&](auto j) ETALON_INLINE_LAMBDA {
      step(j, V::widen(a + i + j * V::lanes), V::widen(b + i + j * V::lanes));
    });
  for (; i < k; i += V::lanes) {
    const int n = k - i < V::lanes ? static_cast<int>(k - i) : V::lanes;
    step(0, V::widen(a + i, V::first(n)), V::widen(b + i, V::first(n)));
  }
}

// Products are exact, so each term meets the roundings of its chain, of the lanes' sum and of the
// chains'; the magnitudes' sum errs by less than 2^-20 of itself up to 2^28 terms a chain.
template <class V>
ExactSum exact_sum(const float* a, const float* b, std::int64_t k) {
  using Reg = typename V::Reg;
  constexpr int chains = 4;
  Reg s[chains], m[chains];
  for (int j = 0; j < chains; ++j) s[j] = m[j] = V::zero();
  const auto step = [&](int j, Reg x, Reg y) ETALON_INLINE_LAMBDA {
    s[j] = V::fma(x, y, s[j]);
    m[j] = V::fma(V::abs(x), V::abs(y), m[j]);
  };
  exact_pairs<V, chains>(a, b, k, step);
  double sums[V::lanes], magnitudes[V::lanes];
  V::store(sums, V::add(V::add(s[0], s[1]), V::add(s[2], s[3])));
  V::store(magnitudes, V::add(V::add(m[0], m[1]), V::add(m[2], m[3])));
  double sum = 0, magnitude = 0;
  for (int l = 0; l < V::lanes; ++l) {
    sum += sums[l];
    magnitude += magnitudes[l];
  }
  const std::int64_t roundings = k / (chains * V::lanes) + 2 * chains + V::lanes;
  return {sum, 0, static_cast<double>(roundings) * 0x1p-53 * (1 + 0x1p-10) * magnitude};
}

// Dot2 of Ogita, Rump, Oishi (2005), products exact. Each lane is a chain of sums s whose errors
// (TwoSum: exact) are added up in c. Nothing but the additions to c rounds, each by at most 2^-53
// of a partial sum of errors; with m the sum of their magnitudes the result is off by at most
// (additions) 2^-53 m (1 + additions 2^-52). Where no sum was rounded m is 0 and the result exact.
template <class V>
ExactSum exact_dot(const float* a, const float* b, std::int64_t k) {
  using Reg = typename V::Reg;
  constexpr int chains = 4;
  Reg s[chains], c[chains], m[chains];
  for (int j = 0; j < chains; ++j) s[j] = c[j] = m[j] = V::zero();
  const auto step = [&](int j, Reg x, Reg y) ETALON_INLINE_LAMBDA {
    const Reg p = V::mul(x, y), sum = V::add(s[j], p), t = V::sub(sum, s[j]);
    const Reg e = V::add(V::sub(s[j], V::sub(sum, t)), V::sub(p, t));
    s[j] = sum;
    c[j] = V::add(c[j], e);
    m[j] = V::add(m[j], V::abs(e));
  };
  exact_pairs<V, chains>(a, b, k, step);
  double sums[V::lanes], errors[V::lanes], magnitudes[V::lanes];
  ExactSum r;
  double total = 0;
  for (int j = 0; j < chains; ++j) {
    V::store(sums, s[j]);
    V::store(errors, c[j]);
    V::store(magnitudes, m[j]);
    for (int lane = 0; lane < V::lanes; ++lane) {
      const double sum = r.high + sums[lane], t = sum - r.high;
      const double e = (r.high - (sum - t)) + (sums[lane] - t);
      r.high = sum;
      r.low += errors[lane] + e;
      total += magnitudes[lane] + (e < 0 ? -e : e);
    }
  }
  r.error = static_cast<double>(k + 100) * 0x1p-53 * total * (1 + 0x1p-8);
  return r;
}

template <class V>
ExactLanes make_exact_lanes() {
  return {.squares = exact_squares<V>,
          .square = exact_square<V>,
          .round = exact_round<V>,
          .ask = exact_ask,
          .column = exact_column<V>,
          .taps = exact_taps<V>,
          .dots = exact_dots<V>,
          .chain = exact_chain<V>,
          .columns = exact_columns<V>,
          .sum = exact_sum<V>,
          .dot = exact_dot<V>};
}

}  // namespace etalon::simd
