// Real numbers as balls with a midpoint of 64 L bits: the steps of the ladder of real.h after f64.
#pragma once

#include <cstdint>

#include "engine/numerics/big.h"
#include "engine/numerics/function.h"
#include "engine/numerics/real_f64.h"
#include "engine/numerics/superaccumulator.h"

namespace etalon {
inline namespace ETALON_ISA_NAMESPACE {

// A non-negative upper bound m * 2^e with m < 2^32: radii. Every operation rounds up.
struct Bound {
  std::uint64_t m = 0;
  std::int64_t e = 0;

  static Bound make(std::uint64_t m, std::int64_t e) {
    if (m >> 32 != 0) {
      const int shift = 32 - __builtin_clzll(m);
      const std::uint64_t kept = m >> shift;
      return make(kept + ((kept << shift) != m ? 1 : 0), e + shift);
    }
    if (m == 0) return {};
    const int shift = __builtin_clzll(m) - 32;  // normalised: bit 31 set
    return {m << shift, e - shift};
  }
  static Bound power_of_two(std::int64_t e) { return {std::uint64_t{1} << 31, e - 31}; }
  static Bound of(double x) {  // x >= 0, finite
    if (x == 0) return {};
    const std::uint64_t b = bits_of(x);
    const auto e = static_cast<std::int64_t>(b >> 52);
    const std::uint64_t m = b & 0x000fffffffffffffU;
    return e == 0 ? make(m, -1074) : make(m | std::uint64_t{1} << 52, e - 1075);
  }
  template <int L>
  static Bound above(const Big<L>& x) {  // >= |x|
    if (x.is_zero()) return {};
    return make((x.limb[L - 1] >> 32) + 1, x.exponent + 64 * (L - 1) + 32);
  }
  // <= |x|, so that dividing by it rounds up.
  template <int L>
  static Bound below(const Big<L>& x) {
    if (x.is_zero()) return {};
    return {x.limb[L - 1] >> 32, x.exponent + 64 * (L - 1) + 32};
  }
  bool is_zero() const { return m == 0; }
  friend Bound operator+(const Bound& a, const Bound& b) {
    if (a.m == 0) return b;
    if (b.m == 0) return a;
    const Bound& large = a.e >= b.e ? a : b;
    const Bound& small = a.e >= b.e ? b : a;
    const std::int64_t d = large.e - small.e;
    return make(large.m + (d < 32 ? (small.m >> d) + 1 : 1), large.e);
  }
  friend Bound operator*(const Bound& a, const Bound& b) { return make(a.m * b.m, a.e + b.e); }
  friend Bound operator/(const Bound& a, const Bound& b) {  // b a lower bound, not zero
    if (a.m == 0) return {};
    // The analyzer does not see that a lower bound of what is divided by is never zero.
    return make((a.m << 32) / b.m + 1, a.e - b.e - 32);  // NOLINT(clang-analyzer-core.DivideZero)
  }
  Bound times_power_of_two(std::int64_t k) const { return {m, m == 0 ? 0 : e + k}; }
  template <int L>
  Big<L> big() const {
    return Big<L>::scaled(false, m, e);
  }
  friend bool operator<(const Bound& a, const Bound& b) {
    if (a.m == 0 || b.m == 0) return a.m == 0 && b.m != 0;
    return a.e != b.e ? a.e < b.e : a.m < b.m;
  }
};

// The members stand in real_big_inl.h, so that the files that only use them need not compile them.
template <int L>
class RealBig {
 public:
  using B = Big<L>;
  struct V {
    B mid;
    Bound rad;
    bool exact() const { return rad.is_zero(); }
  };

  bool undecided = false;
  Round rounding = Round::nearest_even;

  V input(double x);
  V constant(double x);
  V integer(std::int64_t n);
  V ratio(std::int64_t p, std::int64_t q);

  V add(const V& a, const V& b);
  V sub(const V& a, const V& b);
  V mul(const V& a, const V& b);
  V div(const V& a, const V& b);
  V neg(const V& a);
  V abs(const V& a);
  V sqrt(const V& a);
  V fma(const V& a, const V& b, const V& c);
  V max(const V& a, const V& b);
  V min(const V& a, const V& b);
  bool less(const V& a, const V& b);
  bool equal(const V& a, const V& b);

  V call(Function f, const V& x);  // elementary/real_big.cpp, for L = 4, 10, 36
  V pow(const V& x, const V& y);

  class Sum {
   public:
    Sum(RealBig& a, std::int64_t /*count*/) : a_(a) {}
    void add(const V& term);
    void add_product(const V& x, const V& y);
    void skip(std::int64_t /*positions*/) {}
    V result();

   private:
    RealBig& a_;
    Superaccumulator exact_;
    V rest_{};
  };

  Rounded round(const V& v, DType to, Round mode = Round::nearest_even,
                Subnormals subnormals = Subnormals::keep);
  double midpoint(const V& v) const;
  double radius(const V& v) const;
  bool truth(const V& v, double& value) const;

  V undecide();
  static Bound last_place(const B& r, bool inexact);
  // <= |x| for every x in the ball; zero if it may be zero.
  static Bound lower(const V& v);
  static Bound upper(const V& v);
  static bool may_be_zero(const V& v);

 private:
  static bool overlap(const V& a, const V& b);
  static V pick(const V& a, const V& b, int sign);
  // mid - rad or mid + rad, moved outward by a unit of the last place if truncated.
  static B end(const V& v, bool low);
  static double inside(const B& x, int direction, DType to, Round mode, Subnormals subnormals);
};

// Compiled once, in real_big.cpp.
extern template class RealBig<4>;
extern template class RealBig<10>;
extern template class RealBig<36>;

}  // namespace ETALON_ISA_NAMESPACE
}  // namespace etalon
