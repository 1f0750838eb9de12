#include "kernels/gemm/order.h"

#include <algorithm>
#include <cmath>

#include "engine/backend/definition.h"
#include "engine/core/error.h"
#include "engine/core/threads.h"
#include "engine/numerics/sum_tree.h"
#include "kernels/gemm/halves.h"
#include "kernels/gemm/order_tiles.h"
#include "kernels/gemm/rounding_scope.h"

namespace etalon {
namespace {

using Kind = OrderStep::Kind;

// Partial sums beyond which the definition refuses too.
constexpr std::int64_t kMostParts = std::int64_t{1} << 20;

class Compiler {
 public:
  void chain(std::int64_t first, std::int64_t stride, std::int64_t count) {
    empty_.push_back(count == 0);
    if (count == 0) return;
    steps().push_back({Kind::chain, first, stride, count});
    program_.depth = std::max(program_.depth, ++depth_);
  }
  void join() {
    const bool right_empty = empty_.back();
    empty_.pop_back();
    if (right_empty || empty_.back()) {
      // The last step made the other one.
      if (right_empty != empty_.back()) steps().back().zeros |= 1U << steps().back().pairs;
      empty_.back() = right_empty && empty_.back();
      return;
    }
    --depth_;
    if (!pair()) steps().push_back({Kind::join});
  }
  // Term k onto the sum on top: part of the chain before it where the stride fits.
  void extend(std::int64_t k) {
    if (empty_.back()) {
      empty_.pop_back();
      return chain(k, 1, 1);
    }
    OrderStep& last = steps().back();
    if (last.kind != Kind::join && last.pairs == 0 && last.zeros == 0) {
      const std::int64_t end = last.first + (last.count - 1) * last.stride;
      if (last.count == 1) last.stride = k - end;
      if (k == end + last.stride) {
        ++last.count;
        return;
      }
    }
    steps().push_back({Kind::extend, k, 1, 1});
  }
  OrderProgram done() {
    if (empty_.back()) {
      steps().push_back({Kind::chain, 0, 1, 0});
      program_.depth = 1;
    }
    for (const OrderStep& s : steps()) {
      program_.paired = program_.paired || s.pairs > 0;
      program_.zeros = program_.zeros || s.zeros != 0;
      program_.chained = program_.chained || s.kind == Kind::extend ||
                         (s.kind == Kind::chain && s.pairs == 0 && s.count > 1);
    }
    return std::move(program_);
  }

  // n partial sums joined by halving distance: h = ceil(n/2), partial i += partial i + h, n = h.
  // Written from the last round backwards, so that the stack stays short. sizes[r] partials enter
  // round r; partials from `real` on are empty, and any sum of empty ones is +0.
  template <class Partial>
  void halve(const std::vector<std::int64_t>& sizes, std::size_t round, std::int64_t i,
             std::int64_t real, const Partial& partial) {
    if (i >= real) return chain(0, 1, 0);
    if (round == 0) return partial(i);
    halve(sizes, round - 1, i, real, partial);
    if (const std::int64_t other = i + sizes[round]; other < sizes[round - 1]) {
      halve(sizes, round - 1, other, real, partial);
      join();
    }
  }
  template <class Partial>
  void halve(std::int64_t n, std::int64_t real, const Partial& partial) {
    std::vector<std::int64_t> sizes{n};
    while (sizes.back() > 1) sizes.push_back((sizes.back() + 1) / 2);
    halve(sizes, sizes.size() - 1, 0, real, partial);
  }

  void pairwise(std::int64_t begin, std::int64_t end, std::int64_t run) {
    const std::int64_t n = end - begin;
    if (n <= run) return chain(begin, 1, n);
    std::int64_t left = 1;
    while (left * 2 < n) left *= 2;
    pairwise(begin, begin + left, run);
    pairwise(begin + left, end, run);
    join();
  }

  void tree(const SumTree& t) {
    for (std::size_t i = 0; i < t.steps.size(); ++i) {
      const std::int64_t s = t.steps[i];
      if (s == SumTree::kJoin) {
        join();
      } else if (depth_ > 0 && i + 1 < t.steps.size() && t.steps[i + 1] == SumTree::kJoin) {
        extend(s);
        ++i;
      } else {
        chain(s, 1, 1);
      }
    }
  }

 private:
  std::vector<OrderStep>& steps() { return program_.steps; }
  // The last two chains as one step, where they are alike and side by side.
  bool pair() {
    if (steps().size() < 2) return false;
    OrderStep& x = steps()[steps().size() - 2];
    const OrderStep& y = steps().back();
    const auto whole = [](const OrderStep& s) {
      return s.kind == Kind::chain && s.count == std::int64_t{1} << s.pairs;
    };
    if (!whole(x) || !whole(y) || x.pairs != y.pairs || x.zeros != y.zeros ||
        x.pairs == kOrderPairs)
      return false;
    if (x.pairs == 0) {
      x.stride = y.first - x.first;
    } else if (x.stride != y.stride || y.first - x.first != x.stride * x.count) {
      return false;
    }
    ++x.pairs;
    x.count *= 2;
    steps().pop_back();
    return true;
  }

  OrderProgram program_;
  std::int64_t depth_ = 0;
  std::vector<bool> empty_;
};

}  // namespace

Refusal refuse_order(const Order& order, std::int64_t k) {
  switch (order.kind) {
    case OrderKind::exact:
      return "sums in an order, and exact has none";
    case OrderKind::tensorcore:
      return "chains and joins; a tensor core's blocks are neither";
    case OrderKind::lanes:
    case OrderKind::splitk:
      if (order.sizes[0] > kMostParts) return "partial sums are beyond 2^20";
      return std::nullopt;
    case OrderKind::blocks: {
      if (order.sizes.size() < 2) return std::nullopt;
      std::int64_t rest = k;
      for (const std::int64_t b : order.sizes) {
        if (b > rest) return "the blocks hold more terms than the sum";
        rest -= b;
      }
      if (rest != 0) return "the blocks hold fewer terms than the sum";
      return std::nullopt;
    }
    case OrderKind::tree:
      if (order.tree->terms != k) return "the tree has another number of terms than the sum";
      return std::nullopt;
    default:
      return std::nullopt;
  }
}

OrderProgram compile_order(const Order& order, std::int64_t k) {
  Compiler c;
  switch (order.kind) {
    case OrderKind::lanes: {
      const std::int64_t n = order.sizes[0];
      c.halve(n, k, [&](std::int64_t i) { c.chain(i, n, (k - i + n - 1) / n); });
      break;
    }
    case OrderKind::splitk: {
      const std::int64_t part =
          std::max<std::int64_t>(1, (k + order.sizes[0] - 1) / order.sizes[0]);
      c.halve(order.sizes[0], (k + part - 1) / part,
              [&](std::int64_t i) { c.chain(i * part, 1, std::min(part, k - i * part)); });
      break;
    }
    case OrderKind::blocks: {
      c.chain(0, 1, 0);
      std::size_t block = 0;
      for (std::int64_t at = 0; at < k; ++block) {
        const std::int64_t size = order.sizes[order.sizes.size() == 1 ? 0 : block];
        c.chain(at, 1, std::min(size, k - at));
        c.join();
        at += size;
      }
      break;
    }
    case OrderKind::pairwise:
      c.pairwise(0, k, order.sizes[0]);
      break;
    case OrderKind::tree:
      c.tree(*order.tree);
      break;
    default:
      c.chain(0, 1, k);
  }
  return c.done();
}

OrderProgram of_present_terms(const OrderProgram& program, const std::vector<std::int64_t>& index) {
  Compiler c;
  for (const OrderStep& s : program.steps) {
    const auto add_zero = [&](int level) {
      if ((s.zeros >> level & 1U) == 0) return;
      c.chain(0, 1, 0);
      c.join();
    };
    if (s.kind == Kind::join) c.join();
    if (s.kind == Kind::chain) c.chain(0, 1, 0);
    for (std::int64_t i = 0; i < s.count; ++i) {
      const std::int64_t at = index[static_cast<std::size_t>(s.first + i * s.stride)];
      if (s.pairs > 0 && i > 0) c.chain(0, 1, 0);
      if (at >= 0) c.extend(at);
      if (s.pairs == 0) continue;
      add_zero(0);
      // After term 2^j - 1 of each run of 2^j terms its halves are joined.
      int level = 1;
      for (std::int64_t n = i + 1; n % 2 == 0; n /= 2) {
        c.join();
        add_zero(level++);
      }
    }
    if (s.pairs == 0) add_zero(0);
  }
  return c.done();
}

namespace {
[[maybe_unused]] OrderArithmetic arithmetic_of(const Contract& c) {
  constexpr OrderRounding kRounding[] = {OrderRounding::nearest, OrderRounding::zero,
                                         OrderRounding::up, OrderRounding::down};
  static_assert(static_cast<int>(Round::toward_zero) == 1 && static_cast<int>(Round::upward) == 2);
  return {.acc = c.acc,
          .fma = c.fma,
          .flush = c.subnormals == Subnormals::flush,
          .rounding = kRounding[static_cast<int>(c.round)]};
}
}  // namespace

const OrderTiles<float>& order_tiles_f32([[maybe_unused]] Isa isa,
                                         [[maybe_unused]] const Contract& contract) {
#if defined(__x86_64__)
  return isa >= Isa::avx512 ? avx512::order_f32(arithmetic_of(contract))
                            : avx2::order_f32(arithmetic_of(contract));
#else
  throw internal_error("no row of orders has vectors here");
#endif
}

const OrderTiles<double>& order_tiles_f64([[maybe_unused]] Isa isa,
                                          [[maybe_unused]] const Contract& contract) {
#if defined(__x86_64__)
  return isa >= Isa::avx512 ? avx512::order_f64(arithmetic_of(contract))
                            : avx2::order_f64(arithmetic_of(contract));
#else
  throw internal_error("no row of orders has vectors here");
#endif
}

Refusal refuse_order_contract(const Problem& problem, std::size_t operands) {
  const Contract& c = *problem.contract;
  if (c.exact()) return "sums in an order, and exact has none";
  if (c.tensor_core()) return "chains and joins; a tensor core's blocks are neither";
  if (c.algo != "direct") return "computes algo=direct";
  for (std::size_t i = 0; i < std::min(operands, problem.inputs.size()); ++i) {
    if (!problem.has(i)) continue;
    const DType type = problem.input(i).dtype;
    if (type != DType::f32 && type != DType::f16 && type != DType::bf16)
      return "input " + std::to_string(i) + " is " + std::string(name(type)) +
             ", this kernel takes f32, f16 and bf16";
  }
  return std::nullopt;
}

namespace {

template <class T>
void flush_below(T* x, std::int64_t count, DType type) {
  const T least = static_cast<T>(smallest_normal(type));
  for (std::int64_t i = 0; i < count; ++i)
    x[i] = std::fabs(x[i]) < least ? std::copysign(T{0}, x[i]) : x[i];
}

}  // namespace

OrderSource::OrderSource(const Tensor& t, const Contract& c, int threads) {
  const DType type = t.dtype();
  if (type == DType::f32) {
    data_ = t.data<float>().data();
    return;
  }
  const std::int64_t n = t.numel();
  float* to = own_.at_least<float>(std::max<std::int64_t>(1, n));
  data_ = to;
  [[maybe_unused]] const std::byte* from = t.bytes().data();
  parallel_for(n, threads, 16384, [&](std::int64_t begin, std::int64_t end) {
#if defined(__x86_64__)
    avx2::widen_halves(type, from + 2 * begin, to + begin, end - begin);
#endif
    if (c.subnormals == Subnormals::flush) flush_below(to + begin, end - begin, type);
  });
}

template <class T>
OrderOperand<T>::OrderOperand(const Tensor& t, const OrderTiles<T>& tiles, const Contract& c,
                              int threads) {
  const bool flush = c.subnormals == Subnormals::flush;
  if constexpr (std::is_same_v<T, float>) {
    if (t.dtype() == DType::f32 && c.acc == DType::f32 && !flush) {
      data_ = t.data<float>().data();
      return;
    }
  }
  const OrderSource source(t, c, threads);
  const std::int64_t n = t.numel();
  T* to = own_.at_least<T>(std::max<std::int64_t>(1, n));
  data_ = to;
  parallel_for(n, threads, 16384, [&](std::int64_t begin, std::int64_t end) {
    const RoundingScope scope(tiles.others);
    tiles.enter(source.data() + begin, to + begin, end - begin);
  });
}
template class OrderOperand<float>;
template class OrderOperand<double>;

template <class T>
void pack_order_rows(const T* a, std::int64_t rows, std::int64_t k, std::int64_t row_stride,
                     std::int64_t k_stride, const std::int64_t* term, T* to) {
  for (std::int64_t row = 0; row < rows;) {
    const int height = 1 << order_height(rows - row);
    for (std::int64_t i = 0; i < k; ++i)
      for (int r = 0; r < height; ++r)
        *to++ = a[(row + r) * row_stride + (term == nullptr ? i : term[i]) * k_stride];
    row += height;
  }
}
template void pack_order_rows<float>(const float*, std::int64_t, std::int64_t, std::int64_t,
                                     std::int64_t, const std::int64_t*, float*);
template void pack_order_rows<double>(const double*, std::int64_t, std::int64_t, std::int64_t,
                                      std::int64_t, const std::int64_t*, double*);

template <class T>
bool leave_order(const KernelCall& call, const OrderTiles<T>& tiles, const T* values, float* to,
                 std::int64_t count) {
  const Contract& c = call.contract();
  const DType type = call.outputs[0].dtype(), stored = stored_format(type, c);
  if (type != DType::f32) return false;
  if (stored == DType::f32) {
    const RoundingScope scope(tiles.others);
    tiles.leave(values, to, count);
    return true;
  }
#if defined(__x86_64__)
  if constexpr (std::is_same_v<T, float>) {
    if (is_half(stored) && (c.round == Round::nearest_even || c.acc == stored)) {
      if (values != to) std::copy_n(values, count, to);
      avx2::round_halves(stored, to, count);
      if (c.subnormals == Subnormals::flush) flush_below(to, count, stored);
      return true;
    }
  }
#endif
  return false;
}
template bool leave_order<float>(const KernelCall&, const OrderTiles<float>&, const float*, float*,
                                 std::int64_t);
template bool leave_order<double>(const KernelCall&, const OrderTiles<double>&, const double*,
                                  float*, std::int64_t);

template <class T>
void store_order(const KernelCall& call, const OrderTiles<T>& tiles, std::int64_t to,
                 const T* values, std::int64_t count) {
  [[maybe_unused]] const Contract& c = call.contract();  // where there are vectors
  std::byte* bytes = const_cast<std::byte*>(call.outputs[0].bytes().data());
  if (leave_order(call, tiles, values, reinterpret_cast<float*>(bytes) + to, count)) return;
#if defined(__x86_64__)
  if constexpr (std::is_same_v<T, float>) {
    const DType type = call.outputs[0].dtype();
    if (is_half(type) && stored_format(type, c) == type &&
        (c.round == Round::nearest_even || c.acc == type) && c.subnormals == Subnormals::keep)
      return avx2::narrow_halves(type, values, bytes + 2 * to, count);
  }
#endif
  for (std::int64_t i = 0; i < count; ++i)
    store_element(call, 0, to + i, static_cast<double>(values[i]));
}
template void store_order<float>(const KernelCall&, const OrderTiles<float>&, std::int64_t,
                                 const float*, std::int64_t);
template void store_order<double>(const KernelCall&, const OrderTiles<double>&, std::int64_t,
                                  const double*, std::int64_t);

}  // namespace etalon
