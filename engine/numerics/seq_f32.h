// The contract `seq` as a number system that needs no memory beyond registers, so that a GPU thread
// can evaluate a definition: f32, one fused chain, k ascending. ContractArithmetic<NativeF32Ops>
// gives the same bits on the host, and a test holds the two equal.
// An op's own formula decides what is NaN; which NaN, canonical() on storing.
#pragma once

#include "engine/numerics/real_f64.h"

namespace etalon {
inline namespace ETALON_ISA_NAMESPACE {

struct SeqF32 {
  using V = float;
  bool undecided = false;

  ETALON_HD V input(double x) const { return static_cast<float>(x); }
  ETALON_HD V constant(double x) const { return static_cast<float>(x); }
  ETALON_HD V add(V a, V b) const { return a + b; }
  ETALON_HD V sub(V a, V b) const { return a - b; }
  ETALON_HD V mul(V a, V b) const { return a * b; }
  ETALON_HD V div(V a, V b) const { return a / b; }
  ETALON_HD V fma(V a, V b, V c) const { return fma_f32(a, b, c); }
  ETALON_HD V sqrt(V a) const { return sqrt_f32(a); }
  ETALON_HD V ratio(std::int64_t p, std::int64_t q) const {
    return static_cast<float>(p) / static_cast<float>(q);
  }
  // math=cr: the real value, rounded once, where a ball in f64 decides it; where none does,
  // `undecided` is set and the slice belongs to the ladder of real.h.
  ETALON_HD V call(Function f, V x) {
    RealF64 real;
    return decide(real, real.call(f, real.input(static_cast<double>(x))));
  }
  ETALON_HD V pow(V x, V y) {
    RealF64 real;
    return decide(real,
                  real.pow(real.input(static_cast<double>(x)), real.input(static_cast<double>(y))));
  }
  ETALON_HD V abs(V a) const { return float_of(bits_of(a) & 0x7fffffffU); }
  ETALON_HD V neg(V a) const { return -a; }
  ETALON_HD V max(V a, V b) const { return a != a ? a : b != b ? b : a < b ? b : a; }
  ETALON_HD V min(V a, V b) const { return a != a ? a : b != b ? b : b < a ? b : a; }
  ETALON_HD bool less(V a, V b) const { return a < b; }
  ETALON_HD bool equal(V a, V b) const { return a == b; }

  class Sum {
   public:
    ETALON_HD Sum(const SeqF32&, std::int64_t) {}
    ETALON_HD void add(V x) { chain_ = chain_ + x; }
    ETALON_HD void add_product(V x, V y) { chain_ = fma_f32(x, y, chain_); }
    ETALON_HD void skip(std::int64_t) {}
    ETALON_HD V result() const { return chain_; }

   private:
    V chain_ = 0;
  };

 private:
  ETALON_HD V decide(RealF64& real, const RealF64::V& v) {
    const Rounded r = real.round(v, DType::f32);
    undecided = undecided || !r.decided;
    return static_cast<float>(r.value);
  }
};

}  // namespace ETALON_ISA_NAMESPACE
}  // namespace etalon
