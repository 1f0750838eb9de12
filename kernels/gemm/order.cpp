#include "kernels/gemm/order.h"

#include <algorithm>
#include <cmath>

#include "engine/backend/definition.h"
#include "engine/core/error.h"
#include "engine/core/threads.h"
#include "engine/numerics/sum_tree.h"
#include "kernels/gemm/halves.h"
#include "kernels/gemm/order_tiles.h"

namespace etalon {
namespace {

using Kind = OrderStep::Kind;

// Partial sums beyond which the definition refuses too.
constexpr std::int64_t kMostParts = std::int64_t{1} << 20;

class Compiler {
 public:
  OrderProgram program;

  void chain(std::int64_t first, std::int64_t stride, std::int64_t count) {
    program.steps.push_back({Kind::chain, first, stride, count});
    program.depth = std::max(program.depth, ++depth_);
  }
  void join() {
    program.steps.push_back({Kind::join});
    --depth_;
  }
  // Term k onto the sum on top: part of the chain before it where the stride fits.
  void extend(std::int64_t k) {
    OrderStep& last = program.steps.back();
    if (last.kind != Kind::join && last.count > 0) {
      const std::int64_t end = last.first + (last.count - 1) * last.stride;
      if (last.count == 1) last.stride = k - end;
      if (k == end + last.stride) {
        ++last.count;
        return;
      }
    }
    program.steps.push_back({Kind::extend, k, 1, 1});
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
  std::int64_t depth_ = 0;
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
  return std::move(c.program);
}

OrderProgram of_present_terms(const OrderProgram& program, const std::vector<std::int64_t>& index) {
  Compiler c;
  for (const OrderStep& s : program.steps) {
    if (s.kind == Kind::join) {
      c.join();
      continue;
    }
    bool begun = s.kind == Kind::extend;
    for (std::int64_t i = 0; i < s.count; ++i) {
      const std::int64_t at = index[static_cast<std::size_t>(s.first + i * s.stride)];
      if (at < 0) continue;
      if (begun)
        c.extend(at);
      else
        c.chain(at, 1, 1);
      begun = true;
    }
    if (!begun) c.chain(0, 1, 0);
  }
  return std::move(c.program);
}

namespace {
[[maybe_unused]] OrderArithmetic arithmetic_of(const Contract& c) {
  return {.acc = c.acc, .fma = c.fma, .flush = c.subnormals == Subnormals::flush};
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
  if (c.round != Round::nearest_even) return "rounds to nearest only";
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

// Rows that come here need AVX2 at least, which knows these two.
bool is_half(DType type) { return type == DType::f16 || type == DType::bf16; }

template <class T>
void flush_below(T* x, std::int64_t count, DType type) {
  const T least = static_cast<T>(smallest_normal(type));
  for (std::int64_t i = 0; i < count; ++i)
    x[i] = std::fabs(x[i]) < least ? std::copysign(T{0}, x[i]) : x[i];
}

// To the nearest value of f16 or bf16, NaN canonical.
void round_to_half(DType type, float* x, std::int64_t count) {
#if defined(__x86_64__)
  avx2::round_halves(type, x, count);
#else
  for (std::int64_t i = 0; i < count; ++i)
    x[i] = static_cast<float>(round_to(static_cast<double>(x[i]), type));
#endif
}

}  // namespace

template <class T>
OrderOperand<T>::OrderOperand(const Tensor& t, DType acc, Subnormals subnormals, int threads) {
  const DType type = t.dtype();
  const bool flush = subnormals == Subnormals::flush, rounds = is_half(acc) && acc != type;
  if constexpr (std::is_same_v<T, float>) {
    if (type == DType::f32 && !rounds && !flush) {
      data_ = t.data<float>().data();
      return;
    }
  }
  const std::int64_t n = t.numel();
  T* to = own_.at_least<T>(std::max<std::int64_t>(1, n));
  data_ = to;
  const std::byte* from = t.bytes().data();
  parallel_for(n, threads, 16384, [&](std::int64_t begin, std::int64_t end) {
    const std::int64_t count = end - begin;
    T* part = to + begin;
    if (type == DType::f32) {
      const float* x = reinterpret_cast<const float*>(from) + begin;
      for (std::int64_t i = 0; i < count; ++i) part[i] = static_cast<T>(x[i]);
#if defined(__x86_64__)
    } else if (std::is_same_v<T, float> && is_half(type)) {
      avx2::widen_halves(type, from + 2 * begin, reinterpret_cast<float*>(part), count);
#endif
    } else {
      for (std::int64_t i = 0; i < count; ++i)
        part[i] = static_cast<T>(load_as_double(type, from, begin + i));
    }
    if (flush) flush_below(part, count, type);
    if (!rounds) return;
    if constexpr (std::is_same_v<T, float>)
      round_to_half(acc, part, count);
    else
      for (std::int64_t i = 0; i < count; ++i) part[i] = round_to(part[i], acc);
    if (flush) flush_below(part, count, acc);
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
void run_order(const OrderTask<T>& task) {
  const OrderTiles<T>& tiles = task.tiles;
  const std::int64_t size = std::int64_t{kOrderRows} * tiles.width;
  // Strips of kOrderRows rows; where panels are few, several threads share one and pack it apart.
  const std::int64_t strips = (task.rows + kOrderRows - 1) / kOrderRows;
  const std::int64_t items = task.groups * task.panels;
  const std::int64_t wanted = task.threads <= 1 ? 1 : task.threads * 4L;
  const std::int64_t parts = std::clamp<std::int64_t>(items == 0 ? 1 : wanted / items, 1,
                                                      std::max<std::int64_t>(1, strips));
  parallel_for(items * parts, task.threads, 1, [&](std::int64_t begin, std::int64_t end) {
    T* packed =
        thread_scratch<T>(ScratchSlot::vector, std::max<std::int64_t>(1, task.k) * tiles.width);
    T* stack = thread_scratch<T>(ScratchSlot::tile, task.program.depth * size);
    auto* mask =
        thread_scratch<std::uint32_t>(ScratchSlot::masks, std::max<std::int64_t>(1, task.k));
    for (std::int64_t item = begin; item < end; ++item) {
      const std::int64_t part = item % parts, panel = item / parts % task.panels;
      const std::int64_t group = item / parts / task.panels;
      const bool masked = task.pack(group, panel, packed, mask);
      const std::int64_t stop = std::min(task.rows, (part + 1) * strips / parts * kOrderRows);
      for (std::int64_t row = part * strips / parts * kOrderRows; row < stop;) {
        const int h = order_height(task.rows - row), height = 1 << h;
        const auto chain = masked ? tiles.masked[h] : tiles.plain[h];
        const T* a = task.a + (group * task.rows + row) * task.k;
        T* top = stack - size;
        for (const OrderStep& s : task.program.steps) {
          if (s.kind == Kind::join) {
            top -= size;
            tiles.add(top, top + size, std::int64_t{height} * tiles.width);
            continue;
          }
          if (s.kind == Kind::chain) top += size;
          chain({.count = s.count,
                 .a = a + s.first * height,
                 .a_step = s.stride * height,
                 .b = packed + s.first * tiles.width,
                 .b_step = s.stride * tiles.width,
                 .mask = mask + s.first,
                 .mask_step = s.stride,
                 .tile = top,
                 .resume = s.kind == Kind::extend});
        }
        task.finish(group, panel, row, height, stack);
        row += height;
      }
    }
  });
}
template void run_order<float>(const OrderTask<float>&);
template void run_order<double>(const OrderTask<double>&);

// The quotient of two values of f16 or bf16 as f32 is on the same side of every midpoint of that
// format as the exact one, or both are on it: a midpoint m of q + 1 bits differs from x / y by
// |x - m y| / y, which is 0 or more than 2^-(2q + 1) of it, q 11 at most, and f32 rounds by 2^-24
// of it at most. Below the smallest normal m has fewer bits still.
template <class T>
void divide_order(const Contract& contract, T* values, const T* divisors, std::int64_t step,
                  std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) values[i] /= divisors[i * step];
  if constexpr (std::is_same_v<T, float>)
    if (is_half(contract.acc)) round_to_half(contract.acc, values, count);
  if (contract.subnormals == Subnormals::flush) flush_below(values, count, contract.acc);
}
template void divide_order<float>(const Contract&, float*, const float*, std::int64_t,
                                  std::int64_t);
template void divide_order<double>(const Contract&, double*, const double*, std::int64_t,
                                   std::int64_t);

template <class T>
void store_order(const KernelCall& call, std::int64_t to, const T* values, std::int64_t count) {
  const DType type = call.outputs[0].dtype();
  const bool flush = call.contract().subnormals == Subnormals::flush;
  if (type == DType::f32 && stored_format(type, call.contract()) == DType::f32) {
    float* y =
        reinterpret_cast<float*>(const_cast<std::byte*>(call.outputs[0].bytes().data())) + to;
    for (std::int64_t i = 0; i < count; ++i) y[i] = canonical(static_cast<float>(values[i]));
    if (flush) flush_below(y, count, type);
    return;
  }
#if defined(__x86_64__)
  if constexpr (std::is_same_v<T, float>)
    if (is_half(type) && stored_format(type, call.contract()) == type && !flush)
      return avx2::narrow_halves(
          type, values, const_cast<std::byte*>(call.outputs[0].bytes().data()) + 2 * to, count);
#endif
  for (std::int64_t i = 0; i < count; ++i)
    store_element(call, 0, to + i, static_cast<double>(values[i]));
}
template void store_order<float>(const KernelCall&, std::int64_t, const float*, std::int64_t);
template void store_order<double>(const KernelCall&, std::int64_t, const double*, std::int64_t);

}  // namespace etalon
