// e^d, d <= 0, as a term of a sum beside e^0 (softmax, log-sum-exp, cross-entropy).
//
// Over the reals e^-800 stands for everything below it: e^-2^100 has an exponent that no number
// system holds. It lies below 2^-1154, under half of the smallest subnormal of every format, and
// its sum with a number of any format or a midpoint between two fits the 2304 bits of the ladder's
// last step. A result y(t) is monotone in the term t > 0, so the exchange could only matter where a
// rounding boundary lies strictly between y(0) and y(e^-800). If y(0) is itself a boundary (all
// other terms equal the largest: 1/n) none does, and the side is right. Else the remaining terms
// would have to meet a boundary within 2^-1100 of it without lying on it, which is the same
// accident that the ladder calls undecided. In a contract's arithmetic the term is exp, rounded to
// acc.
#pragma once

#include "engine/backend/is_real.h"
#include "engine/numerics/real.h"

namespace etalon {
inline namespace ETALON_ISA_NAMESPACE {

template <class A>
ETALON_HD typename A::V exp_in_sum(A& a, const typename A::V& d) {
  if constexpr (is_real<A>)
    return a.call(Function::exp, a.max(d, a.constant(-800)));
  else
    return a.call(Function::exp, d);
}

}  // namespace ETALON_ISA_NAMESPACE
}  // namespace etalon
