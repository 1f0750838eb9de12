// First passes in pairs of floats: what lanes_pair_inl.h and its neighbours are written over.
//
// A vector has twice as many floats as doubles. A sum high + low of two floats, |low| a few
// thousandth of |high|, is known to 2^-34 or so (2^-31 with AVX2) where every operation on `high`
// is exact or its rounding error is taken up in `low`: that is enough for the rounding test to
// leave but one element in a thousand open (a hundred). Those are listed, and when there are enough
// of them the doubles of lanes_inl.h take all at once, so that a vector never waits for one of its
// lanes.
//
// Several vectors go through a formula side by side: their chains of dependent operations hide each
// other's latency, and the processor's window holds more of them than of one chain after another.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/simd/unroll.h"

namespace etalon {

// K vectors as one. F: a vector of floats with its operations (lanes_avx2.cpp, lanes_avx512.cpp).
template <class F, int K>
struct Several {
  // Copied vector by vector: as a whole, GCC 12 copies two vectors of AVX2 through memory in
  // pieces.
  struct Reg {
    typename F::Reg v[K];
    Reg() = default;
    ETALON_INLINE explicit Reg(typename F::Reg one)
      requires(K == 1)
        : v{one} {}
    ETALON_INLINE Reg(const Reg& other) { copy(other); }
    ETALON_INLINE Reg& operator=(const Reg& other) {
      if (this != &other) copy(other);
      return *this;
    }

   private:
    ETALON_INLINE void copy(const Reg& other) {
      simd::unroll<K>([&](auto i) ETALON_INLINE_LAMBDA { v[i] = other.v[i]; });
    }
  };
  struct Mask {
    typename F::Mask v[K];
  };
  // A bit for each lane.
  static constexpr int lanes = K * F::lanes;
  static_assert(lanes <= 64);

  template <class Op>
  ETALON_INLINE static Reg each(Op op) {
    Reg r;
    simd::unroll<K>([&](auto i) ETALON_INLINE_LAMBDA { r.v[i] = op(i); });
    return r;
  }
  ETALON_INLINE static Reg c(float x) {
    const auto one = F::set1(x);
    return each([&](auto) ETALON_INLINE_LAMBDA { return one; });
  }
  ETALON_INLINE static Reg load(const float* p) {
    return each([&](auto i) ETALON_INLINE_LAMBDA { return F::load(p + i * F::lanes); });
  }
  ETALON_INLINE static void store(float* p, const Reg& a) {
    simd::unroll<K>([&](auto i) ETALON_INLINE_LAMBDA { F::store(p + i * F::lanes, a.v[i]); });
  }
  ETALON_INLINE static Reg add(const Reg& a, const Reg& b) {
    return each([&](auto i) ETALON_INLINE_LAMBDA { return F::add(a.v[i], b.v[i]); });
  }
  ETALON_INLINE static Reg sub(const Reg& a, const Reg& b) {
    return each([&](auto i) ETALON_INLINE_LAMBDA { return F::sub(a.v[i], b.v[i]); });
  }
  ETALON_INLINE static Reg mul(const Reg& a, const Reg& b) {
    return each([&](auto i) ETALON_INLINE_LAMBDA { return F::mul(a.v[i], b.v[i]); });
  }
  ETALON_INLINE static Reg min(const Reg& a, const Reg& b) {  // b if one is NaN
    return each([&](auto i) ETALON_INLINE_LAMBDA { return F::min(a.v[i], b.v[i]); });
  }
  ETALON_INLINE static Reg max(const Reg& a, const Reg& b) {  // b if one is NaN
    return each([&](auto i) ETALON_INLINE_LAMBDA { return F::max(a.v[i], b.v[i]); });
  }
  ETALON_INLINE static Reg abs(const Reg& a) {
    return each([&](auto i) ETALON_INLINE_LAMBDA { return F::abs(a.v[i]); });
  }
  ETALON_INLINE static Reg neg(const Reg& a) {
    return each([&](auto i) ETALON_INLINE_LAMBDA { return F::neg(a.v[i]); });
  }
  // a rounded to 128ths, ties to even, where |a| < 2^15; elsewhere some number as near.
  ETALON_INLINE static Reg nearest_128th(const Reg& a) {
    return each([&](auto i) ETALON_INLINE_LAMBDA { return F::nearest_128th(a.v[i]); });
  }
  // a b + c, a b - c, c - a b, -a b - c.
  ETALON_INLINE static Reg fma(const Reg& a, const Reg& b, const Reg& c) {
    return each([&](auto i) ETALON_INLINE_LAMBDA { return F::fma(a.v[i], b.v[i], c.v[i]); });
  }
  ETALON_INLINE static Reg fms(const Reg& a, const Reg& b, const Reg& c) {
    return each([&](auto i) ETALON_INLINE_LAMBDA { return F::fms(a.v[i], b.v[i], c.v[i]); });
  }
  ETALON_INLINE static Reg fnma(const Reg& a, const Reg& b, const Reg& c) {
    return each([&](auto i) ETALON_INLINE_LAMBDA { return F::fnma(a.v[i], b.v[i], c.v[i]); });
  }
  ETALON_INLINE static Reg fnms(const Reg& a, const Reg& b, const Reg& c) {
    return each([&](auto i) ETALON_INLINE_LAMBDA { return F::fnms(a.v[i], b.v[i], c.v[i]); });
  }
  ETALON_INLINE static Reg div(const Reg& a, const Reg& b) {
    return each([&](auto i) ETALON_INLINE_LAMBDA { return F::div(a.v[i], b.v[i]); });
  }
  ETALON_INLINE static Reg near_reciprocal(const Reg& a) {
    return each([&](auto i) ETALON_INLINE_LAMBDA { return F::near_reciprocal(a.v[i]); });
  }
  ETALON_INLINE static Reg entry(const float* table, const Reg& t) {
    return each([&](auto i) ETALON_INLINE_LAMBDA { return F::entry(table, t.v[i]); });
  }
  ETALON_INLINE static Reg power(const std::uint32_t* table, const Reg& t) {
    return each([&](auto i) ETALON_INLINE_LAMBDA { return F::power(table, t.v[i]); });
  }
  ETALON_INLINE static Reg times_power(const Reg& a, const Reg& w) {
    return each([&](auto i) ETALON_INLINE_LAMBDA { return F::times_power(a.v[i], w.v[i]); });
  }
  // The number that is left when a's first N bits go.
  template <int N>
  ETALON_INLINE static Reg without_first(const Reg& a) {
    return each([&](auto i) ETALON_INLINE_LAMBDA { return F::template without_first<N>(a.v[i]); });
  }
  // Notes of a step for the next one: of each vector kNotes, one after another.
  template <int kNotes>
  ETALON_INLINE static void note(std::uint32_t* notes, int which, const Reg& a) {
    simd::unroll<K>([&](auto i) ETALON_INLINE_LAMBDA {
      F::store(reinterpret_cast<float*>(notes + (i * kNotes + which) * F::lanes), a.v[i]);
    });
  }
  template <int kNotes>
  ETALON_INLINE static Reg noted(const std::uint32_t* notes, int which) {
    return each([&](auto i) ETALON_INLINE_LAMBDA {
      return F::load(reinterpret_cast<const float*>(notes + (i * kNotes + which) * F::lanes));
    });
  }
  ETALON_INLINE static void store_places(std::uint32_t* places, const Reg& t) {
    simd::unroll<K>([&](auto i)
                        ETALON_INLINE_LAMBDA { F::store_places(places + i * F::lanes, t.v[i]); });
  }
  // Rows of a table of four columns; a place's last 16 bits say how many floats lie before a row.
  ETALON_INLINE static void rows(const float* table, const std::uint32_t* places,
                                 Reg (&column)[4]) {
    simd::unroll<K>([&](auto i) ETALON_INLINE_LAMBDA {
      typename F::Reg one[4];
      F::rows(table, places + i * F::lanes, one);
      simd::unroll<4>([&](auto j) ETALON_INLINE_LAMBDA { column[j].v[i] = one[j]; });
    });
  }
  ETALON_INLINE static Mask not_less(const Reg& a, const Reg& b) {
    Mask m;
    simd::unroll<K>([&](auto i) ETALON_INLINE_LAMBDA { m.v[i] = F::not_less(a.v[i], b.v[i]); });
    return m;
  }
  // Where m: the magnitude with sign's sign; elsewhere `sign` itself.
  ETALON_INLINE static Reg signed_where(const Mask& m, const Reg& magnitude, const Reg& sign) {
    return each([&](auto i) ETALON_INLINE_LAMBDA {
      return F::signed_where(m.v[i], magnitude.v[i], sign.v[i]);
    });
  }
  ETALON_INLINE static Reg select(const Mask& m, const Reg& yes, const Reg& no) {
    return each([&](auto i) ETALON_INLINE_LAMBDA { return F::select(m.v[i], yes.v[i], no.v[i]); });
  }
  ETALON_INLINE static Reg select_bits(std::uint64_t m, const Reg& yes, const Reg& no) {
    return each([&](auto i) ETALON_INLINE_LAMBDA {
      return F::select(F::from_bits(static_cast<std::uint32_t>(m >> (i * F::lanes))), yes.v[i],
                       no.v[i]);
    });
  }
  ETALON_INLINE static Reg with_sign(const Reg& a, const Reg& sign) {
    return each([&](auto i) ETALON_INLINE_LAMBDA { return F::with_sign(a.v[i], sign.v[i]); });
  }
  template <class Op>
  ETALON_INLINE static std::uint64_t bits(Op op) {
    std::uint64_t all = 0;
    simd::unroll<K>([&](auto i) ETALON_INLINE_LAMBDA {
      all |= static_cast<std::uint64_t>(op(i)) << (i * F::lanes);
    });
    return all;
  }
  // NaN differs from everything.
  ETALON_INLINE static std::uint64_t differ(const Reg& a, const Reg& b) {
    return bits([&](auto i) ETALON_INLINE_LAMBDA { return F::differ(a.v[i], b.v[i]); });
  }
  ETALON_INLINE static std::uint64_t differ(const Mask& m, const Reg& a, const Reg& b) {
    return bits([&](auto i) ETALON_INLINE_LAMBDA { return F::differ(m.v[i], a.v[i], b.v[i]); });
  }
  // The bits of the differences of all vectors: none where each lane of a is b's.
  ETALON_INLINE static auto differences(const Reg& a, const Reg& b) {
    auto all = F::to_int(F::sub(a.v[0], b.v[0]));
    simd::unroll<K - 1>([&](auto i) ETALON_INLINE_LAMBDA {
      all = F::bits_or(all, F::to_int(F::sub(a.v[i + 1], b.v[i + 1])));
    });
    return all;
  }
  ETALON_INLINE static bool any_differs(const Reg& a, const Reg& b) {
    return F::any_bit(differences(a, b), 0xffffffffU);
  }
  // Whether a lane is below `limit` in size.
  ETALON_INLINE static bool any_tiny(const Reg& a, float limit) {
    auto least = F::twice(a.v[0]);
    simd::unroll<K - 1>(
        [&](auto i) ETALON_INLINE_LAMBDA { least = F::smaller(least, F::twice(a.v[i + 1])); });
    return F::bits_below(least, 2 * __builtin_bit_cast(std::uint32_t, limit)) != 0;
  }
  // Numbers but zero below `limit` in size; the comparison is of all vectors' smallest.
  ETALON_INLINE static std::uint64_t tiny(const Reg& a, float limit) {
    auto least = F::twice_less_one(a.v[0]);
    simd::unroll<K - 1>([&](auto i) ETALON_INLINE_LAMBDA {
      least = F::smaller(least, F::twice_less_one(a.v[i + 1]));
    });
    const std::uint32_t most = 2 * __builtin_bit_cast(std::uint32_t, limit) - 1;
    if (F::bits_below(least, most) == 0) [[likely]]
      return 0;
    return bits([&](auto i) ETALON_INLINE_LAMBDA {
      return F::bits_below(F::twice_less_one(a.v[i]), most);
    });
  }
  ETALON_INLINE static std::uint64_t to_bits(const Mask& m) {
    return bits([&](auto i) ETALON_INLINE_LAMBDA { return F::to_bits(m.v[i]); });
  }
  // Lanes of t whose bits differ from those of `start` before the last kFree: an operation for each
  // vector while none do.
  template <int kFree>
  ETALON_INLINE static std::uint64_t outside(const Reg& t, float start) {
    const auto first = __builtin_bit_cast(std::uint32_t, start);
    constexpr std::uint32_t kFixed = ~((1U << kFree) - 1U);
    auto all = F::no_bits();
    simd::unroll<K>([&](auto i) ETALON_INLINE_LAMBDA { all = F::or_changed(all, t.v[i], first); });
    if (!F::any_bit(all, kFixed)) [[likely]]
      return 0;
    return bits([&](auto i) ETALON_INLINE_LAMBDA {
      return F::bits_in(F::or_changed(F::no_bits(), t.v[i], first), kFixed);
    });
  }
};

// What a formula makes of K vectors: results, and a bit for each lane whose result is not decided.
template <class F, int K>
struct PairResult {
  typename Several<F, K>::Reg value;
  std::uint64_t open;
};

// Elements that a first pass left open, with their places.
//
// A step's open lanes are looked at kBehind steps later. A branch on them at once would be decided
// where the step's chain of operations ends, and whenever it went the other way, all that was begun
// meanwhile would be begun again: for one step in ten to fifty, a sixth of the time.
template <class Formula, class Argument>
class OpenElements {
 public:
  // Of elements from[i], whose results are y[i]; y may be `from`.
  OpenElements(const float* from, float* y) : from_(from), y_(y) {}

  // A step of n elements begins at from[place], whose open lanes are to be left in lanes[slot], a
  // bit each. What has waited there is listed. Returns how many elements went to the scalar.
  template <class Doubles>
  ETALON_INLINE std::int64_t begin(std::int64_t place, int n, const Argument& argument,
                                   const Doubles& doubles, unsigned& slot) {
    slot = turns_++ % kBehind;
    std::int64_t refused = 0;
    if (lanes[slot] != 0) [[unlikely]]
      refused = list(slot, doubles);
    places_[slot] = place;
    if constexpr (!std::is_empty_v<Argument>) arguments_[slot] = argument;
    if (from_ == y_)
      __builtin_memcpy(kept_[slot], from_ + place, sizeof(float) * static_cast<std::size_t>(n));
    return refused;
  }
  template <class Doubles>
  std::int64_t finish(const Doubles& doubles) {
    std::int64_t refused = 0;
    for (unsigned slot = 0; slot < kBehind && slot < turns_; ++slot)
      if (lanes[slot] != 0) refused += list(slot, doubles);
    return refused + settle(doubles);
  }

  static constexpr unsigned kBehind = 8;
  std::uint64_t lanes[kBehind] = {};

 private:
  static constexpr int kEnough = 64;

  template <class Doubles>
  std::int64_t list(unsigned slot, const Doubles& doubles) {
    const std::int64_t place = places_[slot];
    const float* const x = from_ == y_ ? kept_[slot] : from_ + place;
    for (std::uint64_t open = lanes[slot]; open != 0; open &= open - 1) {
      const int i = __builtin_ctzll(open);
      const float element = x[i] - arguments_[slot].number;
      if constexpr (requires { Formula::itself(element); }) {
        if (Formula::itself(element)) {
          y_[place + i] = element;
          continue;
        }
      }
      x_[count_] = element;
      at_[count_] = place + i;
      ++count_;
    }
    lanes[slot] = 0;
    return count_ < kEnough ? 0 : settle(doubles);
  }
  // doubles(x, y, n) computes n elements and returns how many of them went to the scalar.
  template <class Doubles>
  std::int64_t settle(const Doubles& doubles) {
    float result[2 * kEnough];
    const std::int64_t refused = count_ == 0 ? 0 : doubles(x_, result, count_);
    for (int i = 0; i < count_; ++i) y_[at_[i]] = result[i];
    count_ = 0;
    return refused;
  }

  const float* from_;
  float* y_;
  unsigned turns_ = 0;
  std::int64_t places_[kBehind];
  Argument arguments_[kBehind];
  alignas(64) float kept_[kBehind][64];  // elements of steps whose results took their place
  int count_ = 0;
  float x_[2 * kEnough];
  std::int64_t at_[2 * kEnough];
};

// What a formula is given of an element: itself, or its distance from a number.
struct Itself {
  static constexpr float number = 0;
  template <class V>
  ETALON_INLINE typename V::Reg of(const typename V::Reg& x) const {
    return x;
  }
};
struct DistanceFrom {
  float number = 0;
  template <class V>
  ETALON_INLINE typename V::Reg of(const typename V::Reg& x) const {
    return V::sub(x, V::c(number));
  }
};

// y[i] = Formula::apply<K>(argument of x[i]) for i from `first` to `end`, Formula::kVectors at a
// time, between() behind each such step; y may be x. Some elements may be left in `open`.
template <class F, class Formula, class Argument, class Between, class Doubles>
ETALON_INLINE std::int64_t pairs_of(const float* x, float* y, std::int64_t first, std::int64_t end,
                                    const Argument& argument, OpenElements<Formula, Argument>& open,
                                    const Doubles& doubles, Between between) {
  constexpr int K = Formula::kVectors;
  using V = Several<F, K>;
  using One = Several<F, 1>;
  std::int64_t refused = 0, i = first;
  unsigned slot = 0;
  for (; i + V::lanes <= end; i += V::lanes) {
    refused += open.begin(i, V::lanes, argument, doubles, slot);
    const auto r = Formula::template apply<K>(argument.template of<V>(V::load(x + i)));
    V::store(y + i, r.value);
    open.lanes[slot] = r.open;
    between();
  }
  for (; i < end; i += F::lanes) {
    const int n = end - i < F::lanes ? static_cast<int>(end - i) : F::lanes;
    const auto m = F::first(n);
    refused += open.begin(i, n, argument, doubles, slot);
    const typename One::Reg v(F::load(x + i, m));
    const auto r = Formula::template apply<1>(argument.template of<One>(v));
    F::store(y + i, r.value.v[0], m);
    open.lanes[slot] = r.open & ((std::uint64_t{1} << n) - 1);
  }
  return refused;
}

// Formula::apply<K> over an array; y may be x.
template <class F, class Formula, class Doubles>
std::int64_t run_pairs(const float* x, float* y, std::int64_t count, const Doubles& doubles) {
  OpenElements<Formula, Itself> open(x, y);
  const std::int64_t refused = pairs_of<F, Formula>(x, y, 0, count, Itself{}, open, doubles, [] {});
  return refused + open.finish(doubles);
}

// The same of a formula in two steps: `first` notes kNotes words for each element of a block before
// `apply` takes up any of them. A processor looks ahead by so many operations, fewer than a few
// vectors' chains have if they are long, or wait for a store that loads of single lanes follow.
template <class F, class Formula, class Doubles>
std::int64_t run_two_steps(const float* x, float* y, std::int64_t count, const Doubles& doubles) {
  constexpr int K = Formula::kVectors, kNotes = Formula::kNotes;
  using V = Several<F, K>;
  using One = Several<F, 1>;
  constexpr std::int64_t kBlock = 256 / V::lanes * V::lanes;
  alignas(64) std::uint32_t notes[kBlock * kNotes];
  OpenElements<Formula, Itself> open(x, y);
  std::int64_t refused = 0, i = 0;
  unsigned slot = 0;
  while (i + V::lanes <= count) {
    const std::int64_t n = count - i < kBlock ? (count - i) / V::lanes * V::lanes : kBlock;
    for (std::int64_t k = 0; k < n; k += V::lanes)
      Formula::template first<K>(V::load(x + i + k), notes + k * kNotes);
    for (std::int64_t k = 0; k < n; k += V::lanes, i += V::lanes) {
      refused += open.begin(i, V::lanes, {}, doubles, slot);
      const auto r = Formula::template apply<K>(V::load(x + i), notes + k * kNotes);
      V::store(y + i, r.value);
      open.lanes[slot] = r.open;
    }
  }
  for (; i < count; i += F::lanes) {
    const int n = count - i < F::lanes ? static_cast<int>(count - i) : F::lanes;
    const auto m = F::first(n);
    refused += open.begin(i, n, {}, doubles, slot);
    const typename One::Reg v(F::load(x + i, m));
    Formula::template first<1>(v, notes);
    const auto r = Formula::template apply<1>(v, notes);
    F::store(y + i, r.value.v[0], m);
    open.lanes[slot] = r.open & ((std::uint64_t{1} << n) - 1);
  }
  return refused + open.finish(doubles);
}

}  // namespace etalon
