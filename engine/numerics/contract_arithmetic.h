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
// With fma=off each product is rounded before it is added.
#pragma once

#include <vector>

#include "engine/core/error.h"
#include "engine/numerics/contract.h"
#include "engine/numerics/fp.h"
#include "engine/numerics/real.h"
#include "engine/numerics/sum_tree.h"

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
  ETALON_NOINLINE V add(V a, V b) const {
    const TwoDoubles s = two_sum(a, b);
    return finish(s.value, s.error);
  }
  V sub(V a, V b) const { return add(a, -b); }
  ETALON_NOINLINE V mul(V a, V b) const {
    if (acc == DType::f64 && mode == Round::nearest_even) return flush(a * b);
    const TwoDoubles p = two_prod(a, b);
    return finish(p.value, p.error);
  }
  ETALON_NOINLINE V div(V a, V b) const {
    const double q = a / b;
    if (!is_finite(q) || q == 0 || b == 0) return round(q);
    // The residual a - q*b is exact; its sign over b's says on which side of q the quotient lies.
    const double r = fma_f64(-q, b, a);
    return finish(q, with_residual(q, r == 0 ? 0.0 : (sign_bit(r) == sign_bit(b) ? 1.0 : -1.0)));
  }
  ETALON_NOINLINE V sqrt(V a) const {
    const double q = __builtin_sqrt(a);
    if (!is_finite(q) || q == 0) return round(q);
    const double r = fma_f64(-q, q, a);
    return finish(q, with_residual(q, r));
  }
  ETALON_NOINLINE V fma(V a, V b, V c) const {
    if (!fused) return add(mul(a, b), c);
    if (acc == DType::f64) {
      if (mode != Round::nearest_even)
        throw usage_error(
            "acc=f64 with round={} and fma=on is not offered: a fused product of f64 has no exact "
            "f64 "
            "error; use fma=off or round=rn",
            to_string(mode));
      return flush(fma_f64(a, b, c));
    }
    // acc has at most 24 bits: the product is exact in f64, and one rounding is left.
    const TwoDoubles s = two_sum(a * b, c);
    return finish(s.value, s.error);
  }

  DType acc;
  Round mode;
  Subnormals subnormals;
  bool fused;

 private:
  V flush(double x) const { return round_to(x, DType::f64, Round::nearest_even, subnormals); }
  V finish(double value, double error) const {
    if (!is_finite(value) || is_nan(error)) return round(value);
    return round_sum_to(value, error, acc, mode, subnormals);
  }
  // Something of the residual's sign far below an ulp of q: all that rounding needs to know.
  static double with_residual(double q, double residual) {
    if (residual == 0) return 0.0;
    return with_sign(abs_of(q) * 0x1p-60, sign_bit(residual));
  }
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
  V call(Function f, V x) const {
    const Contract& c = *contract_;
    return static_cast<V>(
        correctly_rounded_function(f, static_cast<double>(x), c.acc, c.round, c.subnormals));
  }
  V pow(V x, V y) const {
    const Contract& c = *contract_;
    return static_cast<V>(correctly_rounded(
        [&](auto& real) {
          return real.pow(real.input(static_cast<double>(x)), real.input(static_cast<double>(y)));
        },
        c.acc, c.round, c.subnormals));
  }

  class Sum {
   public:
    ETALON_NOINLINE Sum(const ContractArithmetic& a, std::int64_t count) : a_(a), count_(count) {
      const Order& order = a.contract_->order;
      kind_ = order.kind;
      switch (kind_) {
        case OrderKind::seq:
          break;
        case OrderKind::lanes:
          partial_.assign(checked_parts(order.sizes[0]), zero());
          break;
        case OrderKind::splitk:
          part_ = (count + order.sizes[0] - 1) / order.sizes[0];
          partial_.assign(checked_parts(order.sizes[0]), zero());
          break;
        case OrderKind::blocks:
          check_blocks(order.sizes);
          break;
        case OrderKind::tree:
          if (order.tree->terms != count)
            throw usage_error("the summation tree has {} terms and the sum {}; give a tree of {}",
                              order.tree->terms, count, count);
          [[fallthrough]];
        default:
          terms_.resize(static_cast<std::size_t>(count));
      }
    }
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
      if (kind_ != OrderKind::blocks) {
        k_ += n;
      } else {
        for (; n > 0; --n) step_block();
      }
    }
    ETALON_NOINLINE V result() {
      switch (kind_) {
        case OrderKind::seq:
          return chain_;
        case OrderKind::lanes:
        case OrderKind::splitk:
          return halve();
        case OrderKind::blocks:
          if (in_block_ > 0) total_ = a_.add(total_, chain_);
          return total_;
        case OrderKind::tree:
          return tree(*a_.contract_->order.tree);
        default:
          return pairwise(0, count_, a_.contract_->order.sizes[0]);
      }
    }

   private:
    struct Term {
      V x, y;
      enum Kind : std::uint8_t { none, plain, product } kind = none;
    };
    static V zero() { return V(0); }
    std::size_t checked_parts(std::int64_t n) const {
      if (n > (std::int64_t{1} << 20))
        throw usage_error("contract field order: {} partial sums are beyond 2^20", n);
      return static_cast<std::size_t>(n);
    }
    void check_blocks(const std::vector<std::int64_t>& sizes) {
      if (sizes.size() < 2) return;
      std::int64_t sum = 0;
      for (const std::int64_t b : sizes) sum = checked_add_(sum, b);
      if (sum != count_)
        throw usage_error("order=blocks: the blocks hold {} terms and the sum has {}", sum, count_);
    }
    static std::int64_t checked_add_(std::int64_t a, std::int64_t b) {
      std::int64_t r = 0;
      if (__builtin_add_overflow(a, b, &r)) throw usage_error("order=blocks: sizes overflow");
      return r;
    }
    V extend(V s, const Term& t) const {
      if (t.kind == Term::none) return s;
      return t.kind == Term::plain ? a_.add(s, t.x) : a_.fma(t.x, t.y, s);
    }
    void step_block() {
      const auto& sizes = a_.contract_->order.sizes;
      const std::int64_t size = sizes.size() == 1 ? sizes[0] : sizes[block_];
      ++k_;
      if (++in_block_ == size) {
        total_ = a_.add(total_, chain_);
        chain_ = zero();
        in_block_ = 0;
        ++block_;
      }
    }
    ETALON_NOINLINE void put(const Term& t) {
      switch (kind_) {
        case OrderKind::seq:
          chain_ = extend(chain_, t);
          ++k_;
          break;
        case OrderKind::lanes: {
          V& lane = partial_[static_cast<std::size_t>(k_++) % partial_.size()];
          lane = extend(lane, t);
          break;
        }
        case OrderKind::splitk: {
          V& part = partial_[static_cast<std::size_t>(k_++ / part_)];
          part = extend(part, t);
          break;
        }
        case OrderKind::blocks:
          chain_ = extend(chain_, t);
          step_block();
          break;
        default:
          terms_[static_cast<std::size_t>(k_++)] = t;
      }
    }
    ETALON_NOINLINE V halve() {
      for (std::size_t n = partial_.size(); n > 1;) {
        const std::size_t h = (n + 1) / 2;
        for (std::size_t i = 0; i + h < n; ++i) partial_[i] = a_.add(partial_[i], partial_[i + h]);
        n = h;
      }
      return partial_[0];
    }
    ETALON_NOINLINE V pairwise(std::int64_t begin, std::int64_t end, std::int64_t run) const {
      const std::int64_t n = end - begin;
      if (n <= run) {
        V s = zero();
        for (std::int64_t k = begin; k < end; ++k)
          s = extend(s, terms_[static_cast<std::size_t>(k)]);
        return s;
      }
      std::int64_t left = 1;
      while (left * 2 < n) left *= 2;
      return a_.add(pairwise(begin, begin + left, run), pairwise(begin + left, end, run));
    }
    ETALON_NOINLINE V tree(const SumTree& tree) const {
      std::vector<V> stack;
      for (std::size_t i = 0; i < tree.steps.size(); ++i) {
        const std::int64_t s = tree.steps[i];
        if (s == SumTree::kJoin) {
          const V b = stack.back();
          stack.pop_back();
          stack.back() = a_.add(stack.back(), b);
        } else if (!stack.empty() && i + 1 < tree.steps.size() &&
                   tree.steps[i + 1] == SumTree::kJoin) {
          stack.back() = extend(stack.back(), terms_[static_cast<std::size_t>(s)]);
          ++i;
        } else {
          stack.push_back(extend(zero(), terms_[static_cast<std::size_t>(s)]));
        }
      }
      return stack.back();
    }

    const ContractArithmetic& a_;
    std::int64_t count_, k_ = 0, part_ = 1, in_block_ = 0;
    std::size_t block_ = 0;
    OrderKind kind_ = OrderKind::seq;
    V chain_ = zero(), total_ = zero();
    std::vector<V> partial_;
    std::vector<Term> terms_;
  };

 private:
  Ops ops_;
  const Contract* contract_;
};

// Compiled once, in contract_arithmetic.cpp.
#if !defined(__AVX2__)
extern template class ContractArithmetic<NativeF32Ops>;
extern template class ContractArithmetic<SoftOps>;
#endif

}  // namespace ETALON_ISA_NAMESPACE
}  // namespace etalon
