// The text of ContractArithmetic, for those who give it a number type of their own (bench/lab draws
// sums over numbers that remember how they were made). Everyone else links what
// contract_arithmetic.cpp compiled.
#pragma once

#include "engine/core/error.h"
#include "engine/numerics/contract_arithmetic.h"
#include "engine/numerics/power.h"
#include "engine/numerics/real.h"
#include "engine/numerics/sum_tree.h"

namespace etalon {
inline namespace ETALON_ISA_NAMESPACE {

// Operations that keep how a result was made: they are told of a tensor core's step as a whole.
template <class Ops>
concept RecordsBlocks = requires(const Ops& ops, typename Ops::V v, double x) {
  { ops.block(v, x, x) };
  { ops.origin(v) };
};

template <class Ops>
typename ContractArithmetic<Ops>::V ContractArithmetic<Ops>::pow(V x, V y) const {
  const Contract& c = *contract_;
  return static_cast<V>(correctly_rounded_power(static_cast<double>(x), static_cast<double>(y),
                                                c.acc, c.round, c.subnormals));
}

template <class Ops>
typename ContractArithmetic<Ops>::V ContractArithmetic<Ops>::call(Function f, V x) const {
  const Contract& c = *contract_;
  return static_cast<V>(
      correctly_rounded_function(f, static_cast<double>(x), c.acc, c.round, c.subnormals));
}

template <class Ops>
ContractArithmetic<Ops>::Sum::Sum(const ContractArithmetic& a, std::int64_t count)
    : a_(a), count_(count) {
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
    case OrderKind::tensorcore:
      core_ = TensorCoreModel::of(order.arch, order.format, a.contract_->acc);
      if (core_.block == 0) throw internal_error("order=tensorcore: no format to multiply in");
      core_a_.resize(static_cast<std::size_t>(core_.block));
      core_b_.resize(static_cast<std::size_t>(core_.block));
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

template <class Ops>
typename ContractArithmetic<Ops>::V ContractArithmetic<Ops>::Sum::result() {
  switch (kind_) {
    case OrderKind::seq:
      return chain_;
    case OrderKind::lanes:
    case OrderKind::splitk:
      return halve();
    case OrderKind::blocks:
      if (in_block_ > 0) total_ = a_.add(total_, chain_);
      return total_;
    case OrderKind::tensorcore:
      if (in_block_ > 0) step_core();
      return chain_;
    case OrderKind::tree:
      return tree(*a_.contract_->order.tree);
    default:
      return pairwise(0, count_, a_.contract_->order.sizes[0]);
  }
}

template <class Ops>
std::size_t ContractArithmetic<Ops>::Sum::checked_parts(std::int64_t n) const {
  if (n > (std::int64_t{1} << 20))
    throw usage_error("contract field order: {} partial sums are beyond 2^20", n);
  return static_cast<std::size_t>(n);
}

template <class Ops>
void ContractArithmetic<Ops>::Sum::check_blocks(const std::vector<std::int64_t>& sizes) {
  if (sizes.size() < 2) return;
  std::int64_t sum = 0;
  for (const std::int64_t b : sizes) sum = checked_add_(sum, b);
  if (sum != count_)
    throw usage_error("order=blocks: the blocks hold {} terms and the sum has {}", sum, count_);
}

template <class Ops>
void ContractArithmetic<Ops>::Sum::put(const Term& t) {
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
    case OrderKind::tensorcore:
      // A sum without products never comes here: the registry refuses it.
      core_a_[static_cast<std::size_t>(in_block_)] = core_.factor(static_cast<double>(t.x));
      core_b_[static_cast<std::size_t>(in_block_)] = core_.factor(static_cast<double>(t.y));
      if constexpr (RecordsBlocks<Ops>) terms_.push_back(t);
      if (++in_block_ == core_.block) step_core();
      break;
    default:
      terms_[static_cast<std::size_t>(k_++)] = t;
  }
}

template <class Ops>
typename ContractArithmetic<Ops>::V ContractArithmetic<Ops>::Sum::halve() {
  for (std::size_t n = partial_.size(); n > 1;) {
    const std::size_t h = (n + 1) / 2;
    for (std::size_t i = 0; i + h < n; ++i) partial_[i] = a_.add(partial_[i], partial_[i + h]);
    n = h;
  }
  return partial_[0];
}

template <class Ops>
typename ContractArithmetic<Ops>::V ContractArithmetic<Ops>::Sum::pairwise(std::int64_t begin,
                                                                           std::int64_t end,
                                                                           std::int64_t run) const {
  const std::int64_t n = end - begin;
  if (n <= run) {
    V s = zero();
    for (std::int64_t k = begin; k < end; ++k) s = extend(s, terms_[static_cast<std::size_t>(k)]);
    return s;
  }
  std::int64_t left = 1;
  while (left * 2 < n) left *= 2;
  return a_.add(pairwise(begin, begin + left, run), pairwise(begin + left, end, run));
}

template <class Ops>
typename ContractArithmetic<Ops>::V ContractArithmetic<Ops>::Sum::tree(const SumTree& tree) const {
  std::vector<V> stack;
  for (std::size_t i = 0; i < tree.steps.size(); ++i) {
    const std::int64_t s = tree.steps[i];
    if (s == SumTree::kJoin) {
      const V b = stack.back();
      stack.pop_back();
      stack.back() = a_.add(stack.back(), b);
    } else if (!stack.empty() && i + 1 < tree.steps.size() && tree.steps[i + 1] == SumTree::kJoin) {
      stack.back() = extend(stack.back(), terms_[static_cast<std::size_t>(s)]);
      ++i;
    } else {
      stack.push_back(extend(zero(), terms_[static_cast<std::size_t>(s)]));
    }
  }
  return stack.back();
}

template <class Ops>
void ContractArithmetic<Ops>::Sum::step_block() {
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

template <class Ops>
void ContractArithmetic<Ops>::Sum::step_core() {
  const double before = static_cast<double>(chain_);
  const double after =
      core_.step(before, core_a_.data(), core_b_.data(), static_cast<int>(in_block_));
  if constexpr (RecordsBlocks<Ops>) {
    // In f64 the sum of a block's products errs by some 2^-50 of them, which no drawing shows.
    double exact = before;
    for (const Term& t : terms_) exact += a_.ops_.origin(t.x) * a_.ops_.origin(t.y);
    chain_ = a_.ops_.block(chain_, after, after - exact);
    terms_.clear();
  } else {
    chain_ = static_cast<V>(after);
  }
  in_block_ = 0;
}

template <class Ops>
typename ContractArithmetic<Ops>::V ContractArithmetic<Ops>::Sum::extend(V s, const Term& t) const {
  if (t.kind == Term::none) return s;
  return t.kind == Term::plain ? a_.add(s, t.x) : a_.fma(t.x, t.y, s);
}

template <class Ops>
std::int64_t ContractArithmetic<Ops>::Sum::checked_add_(std::int64_t a, std::int64_t b) {
  std::int64_t r = 0;
  if (__builtin_add_overflow(a, b, &r)) throw usage_error("order=blocks: sizes overflow");
  return r;
}

}  // namespace ETALON_ISA_NAMESPACE
}  // namespace etalon
