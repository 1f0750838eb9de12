#include "kernels/loss/order_rows.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <vector>

#include "engine/core/threads.h"
#include "kernels/activation/order_functions.h"
#include "kernels/gemm/order_panel.h"
#include "kernels/gemm/rounding_scope.h"
#include "kernels/loss/definition.h"

namespace etalon {
namespace {

using Plan = ElementLossDefinition::Plan;
constexpr std::int64_t kBlock = 1024;  // elements whose terms are made together
// Programs of chains hold a step for each chain, of the others up to two for each term: 30 MB.
constexpr std::int64_t kMostTerms = std::int64_t{1} << 20, kMostSteps = std::int64_t{1} << 18;

template <class T>
class Losses {
 public:
  Losses(const KernelCall& call, Isa isa)
      : call_(call),
        isa_(isa),
        plan_(ElementLossDefinition::plan(call)),
        tiles_(order_tiles<T>(isa, call.contract())),
        x_(call.input(0), tiles_, call.contract(), call.threads),
        target_(call.input(1), tiles_, call.contract(), call.threads) {
    const SoftOps ops(call.contract());
    least_ = static_cast<T>(ops.round(-100));
    one_ = static_cast<T>(ops.round(1));
    half_ = static_cast<T>(ops.round(0.5));
    limit_ = static_cast<T>(ops.round(plan_.parameter));
    half_limit_ = static_cast<T>(ops.mul(static_cast<double>(limit_), static_cast<double>(half_)));
  }

  void run() const {
    if (plan_.reduction == LossReduction::none) return elements();
    const std::int64_t n = plan_.count;
    OrderProgram own;
    const OrderProgram& program = prepared_order(call_, n, own);
    T* terms = thread_scratch<T>(ScratchSlot::turned, n + kBlock + tiles_.width);
    parallel_for((n + kBlock - 1) / kBlock, call_.threads, 16,
                 [&](std::int64_t begin, std::int64_t end) {
                   for (std::int64_t i = begin; i < end; ++i)
                     block(i * kBlock, std::min(kBlock, n - i * kBlock), terms + i * kBlock);
                 });
    std::fill_n(terms + n, tiles_.width, T{0});
    std::vector<std::int64_t> at(static_cast<std::size_t>(n));
    std::iota(at.begin(), at.end(), std::int64_t{0});
    T* stack = thread_scratch<T>(ScratchSlot::tile,
                                 program.depth * kOrderRows * std::int64_t{tiles_.width});
    if (plan_.weight) {
      sum_order<T>(tiles_, program,
                   {.of = OrderTerm::product,
                    .from = weights(n),
                    .terms = at.data(),
                    .weights = terms,
                    .at = at.data()},
                   0, stack);
    } else {
      const bool squares = plan_.kind == Loss::mse;
      sum_order_line(tiles_, program, squares ? OrderTerm::result_square : OrderTerm::result, terms,
                     at.data(), stack);
    }
    double y = static_cast<double>(stack[0]);
    if (plan_.reduction != LossReduction::sum) {
      const SoftOps ops(call_.contract());
      y = ops.div(
          y,
          ops.round(static_cast<double>(plan_.reduction == LossReduction::mean ? n : plan_.batch)));
    }
    store_element(call_, 0, 0, y);
  }

 private:
  using Operand = typename OrderOperands<T>::Operand;

  const float* weights(std::int64_t n) const {
    const OrderSource source(call_.input(2), call_.contract(), call_.threads);
    float* to = thread_scratch<float>(ScratchSlot::vector, n + tiles_.width);
    std::copy_n(source.data(), n, to);
    std::fill_n(to + n, tiles_.width, 0.0F);
    settle_order(tiles_, to, n);
    return to;
  }

  void elements() const {
    const std::int64_t n = plan_.count;
    std::optional<OrderOperand<T>> weights;
    if (plan_.weight) weights.emplace(call_.input(2), tiles_, call_.contract(), call_.threads);
    parallel_for((n + kBlock - 1) / kBlock, call_.threads, 16,
                 [&](std::int64_t begin, std::int64_t end) {
                   T terms[kBlock], w[kBlock] = {};
                   for (std::int64_t i = begin; i < end; ++i) {
                     const std::int64_t count = std::min(kBlock, n - i * kBlock);
                     block(i * kBlock, count, terms);
                     if (plan_.kind == Loss::mse && !weights)
                       each(OrderEach::mul, terms, {terms}, {terms});
                     if (weights) {
                       std::copy_n(weights->data() + i * kBlock, count, w);
                       each(OrderEach::mul, terms, {w}, {terms});
                     }
                     store_order(call_, tiles_, i * kBlock, terms, count);
                   }
                 });
  }

  void each(OrderEach op, T* to, Operand a, Operand b, Operand c = {}) const {
    const RoundingScope scope(op == OrderEach::fma ? tiles_.chains : tiles_.others);
    tiles_.each[static_cast<int>(op)](
        {.to = to, .a = a, .b = b, .c = c, .rows = 1, .lanes = kBlock});
  }
  static Operand number(const T& v) { return {&v, 0, true}; }
  void call(Function f, T* v) const {
    call_order_function(call_.contract(), isa_, tiles_, f, v, kBlock);
  }

  // Of what has logarithms; x and t are overwritten.
  void cross_entropy(T* x, T* t, T* y) const {
    using enum OrderEach;
    T more[kBlock];
    const T zero = 0;
    if (plan_.kind == Loss::bce) {
      std::copy_n(x, kBlock, y);
      call(Function::log, y);
      each(max, y, {y}, number(least_));
      for (std::int64_t i = 0; i < kBlock; ++i) x[i] = -x[i];
      call(Function::log1p, x);
      each(max, x, {x}, number(least_));
      each(sub, more, {t}, number(one_));
      each(mul, x, {more}, {x});
      for (std::int64_t i = 0; i < kBlock; ++i) t[i] = -t[i];
      each(fma, y, {t}, {y}, {x});
      return;
    }
    each(max, more, {x}, number(zero));
    for (std::int64_t i = 0; i < kBlock; ++i) {
      y[i] = -std::fabs(x[i]);
      x[i] = -x[i];
    }
    each(fma, more, {x}, {t}, {more});
    call(Function::exp, y);
    call(Function::log1p, y);
    each(add, y, {more}, {y});
  }
  // `at` is the place of the block: a target that is 0 before it is rounded has no loss.
  void divergence(std::int64_t at, std::int64_t n, T* x, T* t, T* y) const {
    using enum OrderEach;
    std::copy_n(t, kBlock, y);
    call(plan_.flag ? Function::exp : Function::log, y);
    if (plan_.flag) {
      each(sub, x, {t}, {x});
      each(mul, y, {y}, {x});
      return;
    }
    each(sub, y, {y}, {x});
    each(mul, y, {t}, {y});
    for (std::int64_t i = 0; i < n; ++i)
      if (plan_.target[at + i] == 0) y[i] = 0;
  }

  // The losses of n elements from `at` on, of mse_loss without weights their distances, in
  // y[kBlock].
  void block(std::int64_t at, std::int64_t n, T* y) const {
    using enum OrderEach;
    T x[kBlock] = {}, t[kBlock] = {}, square[kBlock];
    const T zero = 0;
    std::copy_n(x_.data() + at, n, x);
    std::copy_n(target_.data() + at, n, t);
    if (plan_.kind == Loss::bce || plan_.kind == Loss::bce_logits) return cross_entropy(x, t, y);
    if (plan_.kind == Loss::kl_div) return divergence(at, n, x, t, y);
    if (plan_.kind == Loss::hinge) {
      for (T& v : t) v = -v;
      each(fma, y, {t}, {x}, number(limit_));
      each(max, y, number(zero), {y});
      if (plan_.flag) each(mul, y, {y}, {y});
      return;
    }
    each(sub, y, {x}, {t});
    if (plan_.kind == Loss::mse) {
      if (plan_.weight) each(mul, y, {y}, {y});
      return;
    }
    for (std::int64_t i = 0; i < kBlock; ++i) y[i] = std::fabs(y[i]);
    if (plan_.kind == Loss::l1) return;
    const bool huber = plan_.kind == Loss::huber;
    each(mul, square, {y}, {y});
    each(mul, square, {square}, number(half_));
    if (!huber) each(div, square, {square}, number(limit_));
    each(sub, x, {y}, number(half_limit_));
    if (huber) each(mul, x, number(limit_), {x});
    for (std::int64_t i = 0; i < kBlock; ++i) {
      const bool near = huber ? !(limit_ < y[i]) : y[i] < limit_;
      y[i] = near ? square[i] : x[i];
    }
  }

  const KernelCall& call_;
  const Isa isa_;
  const Plan plan_;
  const OrderTiles<T>& tiles_;
  OrderOperand<T> x_, target_;
  T half_, limit_, half_limit_, least_, one_;
};

LossReduction reduction(const Problem& problem) {
  switch (loss_kind(problem.op->name)) {
    case Loss::huber:
      return problem.params->as<HuberLossParams>().reduction;
    case Loss::smooth_l1:
      return problem.params->as<SmoothL1LossParams>().reduction;
    case Loss::hinge:
      return problem.params->as<HingeLossParams>().reduction;
    case Loss::kl_div:
      return problem.params->as<KlDivLossParams>().reduction;
    default:
      return problem.params->as<LossParams>().reduction;
  }
}

Refusal refuse(const Problem& problem) {
  if (Refusal r = refuse_order_contract(problem)) return r;
  const std::int64_t n = problem.input(0).shape.numel();
  if (reduction(problem) == LossReduction::none) return std::nullopt;
  const Order& order = problem.contract->order;
  const bool chains = order.kind == OrderKind::seq || order.kind == OrderKind::lanes ||
                      order.kind == OrderKind::splitk;
  if (n > (chains ? kMostTerms : kMostSteps))
    return "sums at most 2^20 terms, 2^18 by blocks, pairs or a tree";
  return refuse_order(order, n);
}

template <Isa isa>
KernelRow row(std::string_view op, std::string_view name) {
  return {.op = op,
          .name = name,
          .isa = isa,
          .contracts = kOrderContracts,
          .refuse = refuse,
          .run =
              [](const KernelCall& call) {
                with_accumulator(call.contract(), [&]<class T>(T) { Losses<T>(call, isa).run(); });
              },
          .prepare = [](const Problem& problem, int) -> Prepared {
            if (reduction(problem) == LossReduction::none) return nullptr;
            return prepare_order(*problem.contract, problem.input(0).shape.numel());
          }};
}

}  // namespace

std::span<const KernelRow> loss_order_rows() {
  static const std::vector<KernelRow> rows = {
#if defined(__x86_64__)
      row<Isa::avx512>("mse_loss", "mse_loss.order.avx512"),
      row<Isa::avx2>("mse_loss", "mse_loss.order.avx2"),
      row<Isa::avx512>("l1_loss", "l1_loss.order.avx512"),
      row<Isa::avx2>("l1_loss", "l1_loss.order.avx2"),
      row<Isa::avx512>("huber_loss", "huber_loss.order.avx512"),
      row<Isa::avx2>("huber_loss", "huber_loss.order.avx2"),
      row<Isa::avx512>("smooth_l1_loss", "smooth_l1_loss.order.avx512"),
      row<Isa::avx2>("smooth_l1_loss", "smooth_l1_loss.order.avx2"),
      row<Isa::avx512>("hinge_loss", "hinge_loss.order.avx512"),
      row<Isa::avx2>("hinge_loss", "hinge_loss.order.avx2"),
      row<Isa::avx512>("binary_cross_entropy", "binary_cross_entropy.order.avx512"),
      row<Isa::avx2>("binary_cross_entropy", "binary_cross_entropy.order.avx2"),
      row<Isa::avx512>("binary_cross_entropy_with_logits",
                       "binary_cross_entropy_with_logits.order.avx512"),
      row<Isa::avx2>("binary_cross_entropy_with_logits",
                     "binary_cross_entropy_with_logits.order.avx2"),
      row<Isa::avx512>("kl_div_loss", "kl_div_loss.order.avx512"),
      row<Isa::avx2>("kl_div_loss", "kl_div_loss.order.avx2"),
#endif
  };
  return rows;
}

}  // namespace etalon
