// The contract `seq` as a number system that needs no memory beyond registers, so that a GPU thread
// can evaluate a definition: f32, one fused chain, k ascending. ContractArithmetic<NativeF32Ops>
// gives the same bits on the host, and a test holds the two equal.
#pragma once

#include "engine/numerics/fp.h"

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
};

}  // namespace ETALON_ISA_NAMESPACE
}  // namespace etalon
