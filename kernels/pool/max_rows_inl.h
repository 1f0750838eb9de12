// The loops of max_rows.h over a vector type V, which has third<I>(a, b) beside kernels/simd's:
// elements I, I + 3, I + 6 and so on of a and b, and in what lanes are left any; included only by
// the files of one instruction set.
#pragma once

#include "kernels/pool/max_rows.h"
#include "kernels/simd/unroll.h"

namespace etalon::simd {

// One vector of outputs of a row: the larger of its two or three columns. `bad` becomes NaN under
// columns that are not finite.
template <class V, int kColumns, class Load>
ETALON_INLINE typename V::Reg max_of_columns(Load load, typename V::Reg& bad) {
  using Reg = typename V::Reg;
  const Reg a = load(0), b = load(1);
  const Reg first = V::even(a, b), second = V::odd(a, b);
  bad = V::fma(first, V::zero(), bad);
  bad = V::fma(second, V::zero(), bad);
  Reg best = V::larger(second, first);
  if constexpr (kColumns == 3) {
    const Reg third = V::even(load(2), load(3));
    bad = V::fma(third, V::zero(), bad);
    best = V::larger(third, best);
  }
  return best;
}

// The same of columns that step by three.
template <class V, class Load>
ETALON_INLINE typename V::Reg max_of_thirds(Load load, typename V::Reg& bad) {
  using Reg = typename V::Reg;
  const Reg a = load(0), b = load(1);
  const Reg first = V::template third<0>(a, b), second = V::template third<1>(a, b);
  const Reg third = V::template third<2>(a, b);
  bad = V::fma(first, V::zero(), bad);
  bad = V::fma(second, V::zero(), bad);
  bad = V::fma(third, V::zero(), bad);
  return V::larger(third, V::larger(second, first));
}

// Vectors of a row of outputs: several, one, or one for two channels, whose halves of a vector are
// what even and odd elements of a row of each give; one of columns that step by three.
enum class MaxRowsForm { many, one, pair, thirds };

template <class V, int kColumns, MaxRowsForm kForm>
bool max_rows_of(const MaxRowsCall& call) {
  using Reg = typename V::Reg;
  constexpr bool kOne = kForm != MaxRowsForm::many, kPair = kForm == MaxRowsForm::pair;
  const MaxRowsCall c = call;
  const std::int64_t vectors = kOne ? 1 : (c.out_columns + V::lanes - 1) / V::lanes;
  const typename V::Mask last =
      V::first(static_cast<int>(c.out_columns - (vectors - 1) * V::lanes));
  const typename V::Mask other =
      V::from_bits(V::to_bits(last) << (kPair ? V::lanes / 2 : 0));  // the second channel's
  const Reg least = V::set1(-__FLT_MAX__);
  typename V::Mask inside[4];
  unroll<4>([&](auto i) ETALON_INLINE_LAMBDA {
    inside[i] = V::from_bits(c.loads[0].inside[kPair ? i / 2 * 2 : i]);
  });
  Reg bad = V::zero();
  // Vector v of a row of the input, reduced along its columns.
  const auto row_max = [&](std::int64_t row, std::int64_t v) ETALON_INLINE_LAMBDA {
    const float* from = c.x + row * c.in_columns - c.pad + v * 2 * V::lanes;
    const std::int64_t second = kPair ? c.other_x : V::lanes;
    const auto at = [&](int i)
                        ETALON_INLINE_LAMBDA { return from + (i % 2) * second + (i / 2) * 2; };
    const RowLoads& loads = c.loads[v];
    if constexpr (kForm == MaxRowsForm::thirds)
      return max_of_thirds<V>(
          [&](int i) ETALON_INLINE_LAMBDA { return V::load_into(least, at(i), inside[i]); }, bad);
    if (!kOne && loads.whole)
      return max_of_columns<V, kColumns>([&](int i) ETALON_INLINE_LAMBDA { return V::load(at(i)); },
                                         bad);
    return max_of_columns<V, kColumns>(
        [&](int i) ETALON_INLINE_LAMBDA {
          return V::load_into(least, at(i), kOne ? inside[i] : V::from_bits(loads.inside[i]));
        },
        bad);
  };
  std::int64_t kept_row = -1;  // the row whose vectors are kept: the windows' last
  [[maybe_unused]] Reg kept = least;
  for (std::int64_t o = 0; o < c.out_rows; ++o) {
    const std::int64_t begin = c.row_begin[o], end = c.row_end[o];
    float* y = c.y + o * c.out_columns;
    for (std::int64_t v = 0; v < vectors; ++v) {
      Reg row;
      if (kept_row != begin)
        row = row_max(begin, v);
      else if constexpr (kOne)
        row = kept;
      else
        row = V::load(c.kept + v * V::lanes);
      Reg best = row;
      for (std::int64_t r = begin + 1; r < end; ++r) {
        row = row_max(r, v);
        best = V::larger(row, best);
      }
      if constexpr (kOne)
        kept = row;
      else
        V::store(c.kept + v * V::lanes, row);
      if constexpr (kPair) {
        V::store(y, best, last);
        V::store(y + c.other_y - V::lanes / 2, best, other);
      } else if (v + 1 < vectors)
        V::store(y + v * V::lanes, best);
      else
        V::store(y + v * V::lanes, best, last);
    }
    kept_row = end - 1;
  }
  return V::to_bits(V::is_nan(bad)) == 0;
}

// Windows of kTaps x kTaps that step by one.
template <class V, int kTaps>
bool max_rows_by_one(const MaxRowsCall& call) {
  using Reg = typename V::Reg;
  const MaxRowsCall c = call;
  const Reg least = V::set1(-__FLT_MAX__);
  Reg bad = V::zero();
  for (std::int64_t v = 0; v * V::lanes < c.out_columns; ++v) {
    const RowLoads& loads = c.loads[v];
    typename V::Mask inside[kTaps];
    unroll<kTaps>([&](auto s) ETALON_INLINE_LAMBDA { inside[s] = V::from_bits(loads.inside[s]); });
    const auto left = static_cast<int>(c.out_columns - v * V::lanes);
    const typename V::Mask outputs = V::first(left);
    const float* from = c.x + v * V::lanes - c.pad;
    const auto row_max = [&](std::int64_t row) ETALON_INLINE_LAMBDA {
      if (row < 0 || row >= c.in_rows) return least;
      Reg best = least;
      unroll<kTaps>([&](auto s) ETALON_INLINE_LAMBDA {
        const float* at = from + row * c.in_columns + s;
        const Reg x = loads.whole ? V::load(at) : V::load_into(least, at, inside[s]);
        // The first and the last tap of all vectors see every element of the row.
        if constexpr (s == 0 || s == kTaps - 1) bad = V::fma(x, V::zero(), bad);
        if constexpr (s == 0)
          best = x;
        else
          best = V::larger(x, best);
      });
      return best;
    };
    // The last kTaps rows, the first of them first: a tie keeps it.
    Reg rows[kTaps];
    unroll<kTaps - 1>([&](auto r) ETALON_INLINE_LAMBDA { rows[r] = row_max(r - c.pad_rows); });
    for (std::int64_t o = 0; o < c.out_rows; ++o) {
      rows[kTaps - 1] = row_max(o - c.pad_rows + kTaps - 1);
      Reg best = rows[0];
      unroll<kTaps - 1>([&](auto r) ETALON_INLINE_LAMBDA { best = V::larger(rows[r + 1], best); });
      V::store(c.y + o * c.out_columns + v * V::lanes, best, outputs);
      unroll<kTaps - 1>([&](auto r) ETALON_INLINE_LAMBDA { rows[r] = rows[r + 1]; });
    }
  }
  return V::to_bits(V::is_nan(bad)) == 0;
}

template <class V>
bool max_rows(const MaxRowsCall& c) {
  using enum MaxRowsForm;
  if (c.step == 3) return max_rows_of<V, 3, thirds>(c);
  if (c.step == 1) return c.tap_columns == 3 ? max_rows_by_one<V, 3>(c) : max_rows_by_one<V, 2>(c);
  if (c.out_columns <= V::lanes)
    return c.tap_columns == 3 ? max_rows_of<V, 3, one>(c) : max_rows_of<V, 2, one>(c);
  return c.tap_columns == 3 ? max_rows_of<V, 3, many>(c) : max_rows_of<V, 2, many>(c);
}

template <class V>
bool max_rows_pair(const MaxRowsCall& c) {
  using enum MaxRowsForm;
  return c.tap_columns == 3 ? max_rows_of<V, 3, pair>(c) : max_rows_of<V, 2, pair>(c);
}

}  // namespace etalon::simd
