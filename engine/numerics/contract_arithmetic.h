// The arithmetic of a contract, as a number system over which definitions are written.
//
// A definition is a template over a number system A (see engine/backend/definition.h). Over
// ContractArithmetic each operation is rounded to `acc` as the contract says, and A::Sum follows
// the contract's order; over RealF64 and RealBig (real.h) the same text is evaluated in the reals;
// over AnyOrder (any_order.h) it yields the bound that holds for every order.
//
// Orders, over positions k = 0..K-1 of which some may be skipped (padding; a skipped position takes
// no part in any addition, but keeps its place in lanes and blocks). Chains start at +0.
//   seq         s = fma(x_k, y_k, s), k ascending
//   lanes:N     lane k mod N is a chain of its own; then, n = N: h = ceil(n/2), lane i += lane i+h,
//   n = h blocks:...  each run of consecutive positions is a chain; total = +0, total += chain, in
//   order splitk:S    S chains over ceil(K/S) positions each; joined as lanes are pairwise:B  a
//   span of at most B is a chain; a longer one splits at the largest power of two below it tree a
//   binary tree; `sum, term k, +` extends a chain (fused), a join of two sums adds
//   tensorcore  blocks of products through a tensor core's adder (tensor_core.h); a skipped
//   position is a product of zeros
// With fma=off each product is rounded before it is added.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/numerics/contract.h"
#include "engine/numerics/fp.h"
#include "engine/numerics/function.h"
#include "engine/numerics/tensor_core.h"

namespace etalon {
inline namespace ETALON_ISA_NAMESPACE {

// acc=f32, round=rn, subnormals=keep, fma=on in the machine's own f32.
struct NativeF32Ops {
  using V = float;
  explicit NativeF32Ops(const Contract&) {}
  V input(double x) const { return static_cast<float>(x); }
  V add(V a, V b) const { return a + b; }
  V sub(V a, V b) const { return a - b; }
  V mul(V a, V b) const { return a * b; }
  V div(V a, V b) const { return a / b; }
  V sqrt(V a) const { return __builtin_sqrtf(a); }
  V fma(V a, V b, V c) const { return fma_f32(a, b, c); }
  V round(double x) const { return static_cast<float>(x); }
};

// Any acc, rounding and flush; values of acc held in doubles. Each operation is computed with its
// exact error in f64 and rounded once (round to odd in round_sum_to): never a double rounding, in
// no mode.
struct SoftOps {
  using V = double;
  explicit SoftOps(const Contract& c)
      : acc(c.acc), mode(c.round), subnormals(c.subnormals), fused(c.fma) {}
  V input(double x) const { return round(x); }
  V round(double x) const { return round_to(x, acc, mode, subnormals); }
  V add(V a, V b) const;
  V sub(V a, V b) const { return add(a, -b); }
  V mul(V a, V b) const;
  V div(V a, V b) const;
  V sqrt(V a) const;
  V fma(V a, V b, V c) const;

  DType acc;
  Round mode;
  Subnormals subnormals;
  bool fused;

 private:
  V flush(double x) const { return round_to(x, DType::f64, Round::nearest_even, subnormals); }
  V finish(double value, double error) const;
  // Something of the residual's sign far below an ulp of q: all that rounding needs to know.
  static double with_residual(double q, double residual);
};

template <class Ops>
class ContractArithmetic {
 public:
  using V = typename Ops::V;

  explicit ContractArithmetic(const Contract& contract) : ops_(contract), contract_(&contract) {}

  bool undecided = false;  // never: contracts decide everything

  V input(double x) const { return ops_.input(x); }
  V constant(double x) const { return ops_.round(x); }
  V ratio(std::int64_t p, std::int64_t q) const {
    return ops_.div(ops_.round(static_cast<double>(p)), ops_.round(static_cast<double>(q)));
  }
  V add(V a, V b) const { return ops_.add(a, b); }
  V sub(V a, V b) const { return ops_.sub(a, b); }
  V mul(V a, V b) const { return ops_.mul(a, b); }
  V div(V a, V b) const { return ops_.div(a, b); }
  V fma(V a, V b, V c) const { return ops_.fma(a, b, c); }
  V sqrt(V a) const { return ops_.sqrt(a); }
  V neg(V a) const { return -a; }
  V abs(V a) const { return a < 0 || (a == 0 && sign_bit(static_cast<double>(a))) ? -a : a; }
  V max(V a, V b) const { return a != a ? a : b != b ? b : a < b ? b : a; }
  V min(V a, V b) const { return a != a ? a : b != b ? b : b < a ? b : a; }
  bool less(V a, V b) const { return a < b; }
  bool equal(V a, V b) const { return a == b; }
  // math=cr: the real value of the function, rounded once to acc.
  V call(Function f, V x) const;
  V pow(V x, V y) const;

  class Sum {
   public:
    Sum(const ContractArithmetic& a, std::int64_t count);
    void add(V x) { put({x, V(0), Term::plain}); }
    void add_product(V x, V y) {
      if (kind_ == OrderKind::seq) {
        chain_ = a_.fma(x, y, chain_);
        ++k_;
      } else {
        put({x, y, Term::product});
      }
    }
    // The next n positions hold no term.
    void skip(std::int64_t n) {
      if (kind_ == OrderKind::blocks) {
        for (; n > 0; --n) step_block();
      } else if (kind_ == OrderKind::tensorcore) {
        for (; n > 0; --n) put({zero(), zero(), Term::product});
      } else {
        k_ += n;
      }
    }
    V result();

   private:
    struct Term {
      V x, y;
      enum Kind : std::uint8_t { none, plain, product } kind = none;
    };
    static V zero() { return V(0); }
    std::size_t checked_parts(std::int64_t n) const;
    void check_blocks(const std::vector<std::int64_t>& sizes);
    static std::int64_t checked_add_(std::int64_t a, std::int64_t b);
    V extend(V s, const Term& t) const;
    void step_block();
    void step_core();
    void put(const Term& t);
    V halve();
    V pairwise(std::int64_t begin, std::int64_t end, std::int64_t run) const;
    V tree(const SumTree& tree) const;

    const ContractArithmetic& a_;
    std::int64_t count_, k_ = 0, part_ = 1, in_block_ = 0;
    std::size_t block_ = 0;
    OrderKind kind_ = OrderKind::seq;
    V chain_ = zero(), total_ = zero();
    std::vector<V> partial_;
    std::vector<Term> terms_;
    TensorCoreModel core_;
    std::vector<TensorCoreFactor> core_a_, core_b_;
  };

 private:
  Ops ops_;
  const Contract* contract_;
};

// Compiled once, in contract_arithmetic.cpp.
extern template class ContractArithmetic<NativeF32Ops>;
extern template class ContractArithmetic<SoftOps>;

}  // namespace ETALON_ISA_NAMESPACE
}  // namespace etalon
