// Whether a number system is the reals: there a definition may take another form of its formula,
// equal as mathematics, that is exact where a result can hit a rounding boundary, or that does not
// cancel.
#pragma once

#include "engine/numerics/real.h"

namespace etalon {
inline namespace ETALON_ISA_NAMESPACE {

template <class A>
inline constexpr bool is_real = false;
template <>
inline constexpr bool is_real<RealF64> = true;
template <int L>
inline constexpr bool is_real<RealBig<L>> = true;

}  // namespace ETALON_ISA_NAMESPACE
}  // namespace etalon
