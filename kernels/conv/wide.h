// transform=f64: which number system the transforms of a definition are evaluated in beside the one
// of its sums, and how a value goes from one to the other.
//
//   WideOf<A>::type   the system of the transforms; A itself where precision has no meaning (reals)
//   widen(a, v)       exact
//   narrow(a, v)      rounded once to A's format
#pragma once

#include "engine/numerics/any_order.h"
#include "engine/numerics/contract_arithmetic.h"
#include "engine/numerics/seq_f32.h"

namespace etalon {
inline namespace ETALON_ISA_NAMESPACE {

// f64, nearest even, fused, in registers.
struct NativeF64 {
  using V = double;
  ETALON_HD V input(double x) const { return x; }
  ETALON_HD V ratio(std::int64_t p, std::int64_t q) const {
    return static_cast<double>(p) / static_cast<double>(q);
  }
  ETALON_HD V add(V a, V b) const { return a + b; }
  ETALON_HD V mul(V a, V b) const { return a * b; }
  ETALON_HD V fma(V a, V b, V c) const { return fma_f64(a, b, c); }
};

template <class A>
struct WideOf {
  using type = A;
  ETALON_HD static type make(A& a) { return a; }
  ETALON_HD static typename A::V narrow(A&, const typename A::V& v) { return v; }
  ETALON_HD static typename A::V widen(const typename A::V& v) { return v; }
};

template <class Ops>
struct WideOf<ContractArithmetic<Ops>> {
  using A = ContractArithmetic<Ops>;
  using type = NativeF64;
  static type make(A&) { return {}; }
  static typename A::V narrow(A& a, double v) { return a.input(v); }
  static double widen(typename A::V v) { return static_cast<double>(v); }
};

template <>
struct WideOf<SeqF32> {
  using type = NativeF64;
  ETALON_HD static type make(SeqF32&) { return {}; }
  ETALON_HD static float narrow(SeqF32&, double v) { return static_cast<float>(v); }
  ETALON_HD static double widen(float v) { return static_cast<double>(v); }
};

// A product by 1 in the narrow system is one rounding.
template <>
struct WideOf<AnyOrder> {
  using type = AnyOrder;
  static type make(AnyOrder&) { return AnyOrder(AnyOrderModel{.acc = DType::f64}); }
  static AnyOrder::V narrow(AnyOrder& a, const AnyOrder::V& v) {
    return a.mul(v, {1, 0x1p-200, 0, 1, 0});
  }
  static AnyOrder::V widen(const AnyOrder::V& v) { return v; }
};

}  // namespace ETALON_ISA_NAMESPACE
}  // namespace etalon
