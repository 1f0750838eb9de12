// Integers (modulo 2^bits), comparisons, logic, selection, conversion.
#include "kernels/elementwise/bits.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "engine/backend/definition.h"
#include "engine/ops/elementwise.h"
#include "kernels/elementwise/bits_rows.h"
#include "kernels/movement/copy.h"

namespace etalon {
namespace {

// ---- integer arithmetic -------------------------------------------------------------------------

// Unsigned arithmetic is modulo 2^64, and cutting it is modulo 2^bits: no overflow is undefined.
template <class T>
std::uint64_t wide(T x) {
  return static_cast<std::uint64_t>(x);
}

template <class T>
T quotient(T a, T b) {
  if (b == 0) return 0;
  if constexpr (std::is_signed_v<T>)
    if (b == -1) return static_cast<T>(~wide(a) + 1);
  return static_cast<T>(a / b);
}

template <class T>
T remainder_of(T a, T b, bool fmod) {
  if (b == 0) return 0;
  if constexpr (std::is_signed_v<T>) {
    if (b == -1) return 0;
    const T r = static_cast<T>(a % b);
    return !fmod && r != 0 && (r < 0) != (b < 0) ? static_cast<T>(r + b) : r;
  } else {
    return static_cast<T>(a % b);
  }
}

template <class T>
T integer_power(T base, std::int64_t exponent, bool huge) {
  if (exponent < 0 && !huge) {
    if (base == 1) return 1;
    if constexpr (std::is_signed_v<T>)
      if (base == -1) return exponent % 2 == 0 ? T{1} : T{-1};
    return 0;
  }
  std::uint64_t result = 1, square = wide(base);
  for (auto e = wide(exponent); e != 0; e >>= 1) {
    if ((e & 1) != 0) result *= square;
    square *= square;
  }
  return static_cast<T>(result);
}

enum class Integer { add, sub, mul, div, max, min, bit_and, bit_or, bit_xor };

template <Integer Op>
void run_integer(const KernelCall& call) {
  visit_integer(call.input(0).dtype(), [&](auto zero) {
    using T = decltype(zero);
    const auto f = [](T a, T b) -> T {
      switch (Op) {
        case Integer::add:
          return static_cast<T>(wide(a) + wide(b));
        case Integer::sub:
          return static_cast<T>(wide(a) - wide(b));
        case Integer::mul:
          return static_cast<T>(wide(a) * wide(b));
        case Integer::div:
          return quotient(a, b);
        case Integer::max:
          return a < b ? b : a;
        case Integer::min:
          return b < a ? b : a;
        case Integer::bit_and:
          return static_cast<T>(a & b);
        case Integer::bit_or:
          return static_cast<T>(a | b);
        case Integer::bit_xor:
          break;
      }
      return static_cast<T>(a ^ b);
    };
    apply_binary<T, T, T>(call, f);
  });
}

void run_integer_mod(const KernelCall& call) {
  const bool fmod = call.params<ModParams>().fmod;
  visit_integer(call.input(0).dtype(), [&](auto zero) {
    using T = decltype(zero);
    apply_binary<T, T, T>(call, [fmod](T a, T b) { return remainder_of(a, b, fmod); });
  });
}

// The exponents as i64; those of u64 keep their bits and count as positive.
void run_integer_pow(const KernelCall& call) {
  const Tensor& given = call.input(1);
  const bool huge = given.dtype() == DType::u64;
  std::vector<std::int64_t> exponents(static_cast<std::size_t>(given.numel()));
  visit_integer(given.dtype(), [&](auto zero) {
    using E = decltype(zero);
    std::ranges::transform(given.data<E>(), exponents.begin(),
                           [](E e) { return static_cast<std::int64_t>(e); });
  });
  visit_integer(call.input(0).dtype(), [&](auto zero) {
    using T = decltype(zero);
    apply_binary<T, T, std::int64_t>(
        call, exponents.data(), [huge](T a, std::int64_t b) { return integer_power(a, b, huge); });
  });
}

void run_bit_shift(const KernelCall& call) {
  const bool left = call.params<BitShiftParams>().direction == ShiftDirection::left;
  visit_integer(call.input(0).dtype(), [&](auto zero) {
    using T = decltype(zero);
    apply_binary<T, T, T>(call, [left](T a, T b) -> T {
      if (wide(b) >= 8 * sizeof(T)) return 0;
      return static_cast<T>(left ? wide(a) << b : wide(a) >> b);
    });
  });
}

void run_bitwise_not(const KernelCall& call) {
  visit_integer(call.input(0).dtype(), [&](auto zero) {
    using T = decltype(zero);
    apply_unary<T, T>(call, [](T a) { return static_cast<T>(~a); });
  });
}

// One or more operands, from the left, each broadcast onto the output.
template <bool Largest>
void run_integer_extremum(const KernelCall& call) {
  const Shape& shape = call.output(0).shape();
  visit_integer(call.input(0).dtype(), [&](auto zero) {
    using T = decltype(zero);
    T* y = reinterpret_cast<T*>(output_bytes(call, 0));
    for (std::size_t k = 0; k < call.inputs.size(); ++k) {
      const T* x = call.input(k).data<T>().data();
      const auto loop = broadcast_loop<1>(shape, {call.input(k).shape()});
      const std::int64_t step = loop.step()[1];
      loop.run(call.threads, [&](const std::array<std::int64_t, 2>& at, std::int64_t n) {
        for (std::int64_t i = 0; i < n; ++i) {
          const T v = x[at[1] + i * step];
          T& m = y[at[0] + i];
          if (k == 0 || (Largest ? m < v : v < m)) m = v;
        }
      });
    }
  });
}

void run_integer_clip(const KernelCall& call) {
  const auto& p = call.params<ClipParams>();
  visit_integer(call.input(0).dtype(), [&](auto zero) {
    using T = decltype(zero);
    using Limits = std::numeric_limits<T>;
    T low = Limits::min(), high = Limits::max();
    const auto bound = [&](std::size_t i, float param, T& b) {
      if (call.has(i))
        b = call.input(i).data<T>()[0];
      else
        store_from_double(dtype_of<T>, reinterpret_cast<std::byte*>(&b), 0,
                          static_cast<double>(param));
    };
    bound(1, p.low, low);
    bound(2, p.high, high);
    apply_unary<T, T>(call, [low, high](T x) {
      const T y = x < low ? low : x;
      return high < y ? high : y;
    });
  });
}

// ---- comparisons and logic ----------------------------------------------------------------------

template <class T>
auto comparable(T x) {
  if constexpr (std::is_same_v<T, Bool>)
    return x.value != 0;
  else if constexpr (std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>)
    return to_float(x);
  else
    return x;
}

enum class Relation { equal, less, greater, less_or_equal, greater_or_equal };

template <Relation R>
void run_comparison(const KernelCall& call) {
  visit_dtype(call.input(0).dtype(), [&](auto zero) {
    using T = decltype(zero);
    apply_binary<Bool, T, T>(call, [](T x, T y) {
      const auto a = comparable(x), b = comparable(y);
      bool holds = false;
      switch (R) {
        case Relation::equal:
          holds = a == b;
          break;
        case Relation::less:
          holds = a < b;
          break;
        case Relation::greater:
          holds = a > b;
          break;
        case Relation::less_or_equal:
          holds = a <= b;
          break;
        case Relation::greater_or_equal:
          holds = a >= b;
          break;
      }
      return Bool{holds};
    });
  });
}

enum class Logic { conjunction, disjunction, exclusive };

template <Logic L>
void run_logic(const KernelCall& call) {
  apply_binary<Bool, Bool, Bool>(call, [](Bool x, Bool y) {
    const bool a = x.value != 0, b = y.value != 0;
    return Bool{L == Logic::conjunction ? (a && b) : L == Logic::disjunction ? (a || b) : a != b};
  });
}

void run_not(const KernelCall& call) {
  apply_unary<Bool, Bool>(call, [](Bool x) { return Bool{x.value == 0}; });
}

template <class F>
void float_test(const KernelCall& call, const F& f) {
  visit_dtype(call.input(0).dtype(), [&](auto zero) {
    using T = decltype(zero);
    if constexpr (std::is_floating_point_v<T> || std::is_same_v<T, Float16> ||
                  std::is_same_v<T, BFloat16>)
      apply_unary<Bool, T>(call, [&](T x) { return Bool{f(to_double(x))}; });
  });
}

void run_is_nan(const KernelCall& call) {
  float_test(call, [](double x) { return is_nan(x); });
}

void run_is_inf(const KernelCall& call) {
  const auto p = call.params<IsInfParams>();
  float_test(call, [p](double x) {
    return (p.detect_positive && x == kInfinity) || (p.detect_negative && x == -kInfinity);
  });
}

// ---- selection ----------------------------------------------------------------------------------

template <class U>
void select(const KernelCall& call) {
  const auto* c = call.input(0).data<Bool>().data();
  const auto* a = reinterpret_cast<const U*>(call.input(1).bytes().data());
  const auto* b = reinterpret_cast<const U*>(call.input(2).bytes().data());
  auto* y = reinterpret_cast<U*>(output_bytes(call, 0));
  const auto loop =
      broadcast_loop<3>(call.output(0).shape(),
                        {call.input(0).shape(), call.input(1).shape(), call.input(2).shape()});
  const auto step = loop.step();
  loop.run(call.threads, [&](const std::array<std::int64_t, 4>& at, std::int64_t n) {
    for (std::int64_t i = 0; i < n; ++i)
      y[at[0] + i] =
          c[at[1] + i * step[1]].value != 0 ? a[at[2] + i * step[2]] : b[at[3] + i * step[3]];
  });
}

void run_where(const KernelCall& call) {
  switch (size_bytes(call.output(0).dtype())) {
    case 1:
      return select<std::uint8_t>(call);
    case 2:
      return select<std::uint16_t>(call);
    case 4:
      return select<std::uint32_t>(call);
    default:
      return select<std::uint64_t>(call);
  }
}

// ---- conversion ---------------------------------------------------------------------------------

// An integer of up to 64 bits, rounded once: its magnitude is exact in 64 bits.
double round_integer(bool negative, std::uint64_t magnitude, DType to, const Contract& c) {
  if (magnitude == 0) return 0.0;
  const int shift = __builtin_clzll(magnitude);
  return round_scaled(negative, magnitude << shift, -shift, false, to, c.round, c.subnormals);
}

void run_cast(const KernelCall& call) {
  const Tensor& x = call.input(0);
  const DType to = call.output(0).dtype(), from = x.dtype();
  std::byte* y = output_bytes(call, 0);
  const Contract& c = call.contract();
  if (to == from && (!is_floating(to) || stored_format(to, c) == to)) {
    copy_bytes(y, x.bytes().data(), x.size_bytes(), call.threads);
    return;
  }
  const DType format = stored_format(to, c);
  const bool plain = c.round == Round::nearest_even && c.subnormals == Subnormals::keep;
  visit_dtype(from, [&](auto source_zero) {
    using T = decltype(source_zero);
    const T* in = reinterpret_cast<const T*>(x.bytes().data());
    visit_dtype(to, [&](auto target_zero) {
      using U = decltype(target_zero);
      parallel_for(x.numel(), call.threads, 16384, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
          if constexpr (std::is_integral_v<T> || std::is_same_v<T, Bool>) {
            const auto v = comparable(in[i]);
            if constexpr (std::is_same_v<U, Bool>) {
              reinterpret_cast<U*>(y)[i] = Bool{v != 0};
            } else if constexpr (std::is_integral_v<U>) {
              reinterpret_cast<U*>(y)[i] = static_cast<U>(v);
            } else {
              bool negative = false;
              if constexpr (std::is_signed_v<T>) negative = v < 0;
              const auto m = static_cast<std::uint64_t>(v);
              store_from_double(to, y, i,
                                round_integer(negative, negative ? ~m + 1 : m, format, c));
            }
          } else if constexpr (std::is_same_v<T, float> && std::is_same_v<U, Float16>) {
            // bf16 and f16 of f32, the common pairs, without the general rounding.
            if (plain && format == to) {
              reinterpret_cast<U*>(y)[i] = to_float16(in[i]);
              continue;
            }
            store_from_double(to, y, i, round_to(to_double(in[i]), format, c.round, c.subnormals));
          } else {
            const double v = to_double(in[i]);
            store_from_double(to, y, i,
                              is_floating(to) ? round_to(v, format, c.round, c.subnormals) : v);
          }
        }
      });
    });
  });
}

// The contract's rounding, store and subnormals have a say, so it is no .bits row. The truth of a
// converted element is the element itself.
void run_cast_with_truth(const KernelCall& call) {
  run_cast(call);
  if (call.truth.empty() || !call.truth[0]) return;
  auto* truth = reinterpret_cast<double*>(const_cast<std::byte*>(call.truth[0].bytes().data()));
  for (std::int64_t i = 0; i < call.input(0).numel(); ++i)
    truth[i] = canonical(load_as_double(call.input(0), i));
}

// ---- rows ---------------------------------------------------------------------------------------

Refusal integers_only(const Problem& problem) {
  if (is_floating(problem.outputs[0].dtype)) return "computes on integers";
  return std::nullopt;
}

}  // namespace

std::span<const KernelRow> elementwise_bits_rows() {
  static const KernelRow rows[] = {
      bits_row<run_integer<Integer::add>>("add", "add.bits", integers_only),
      bits_row<run_integer<Integer::sub>>("sub", "sub.bits", integers_only),
      bits_row<run_integer<Integer::mul>>("mul", "mul.bits", integers_only),
      bits_row<run_integer<Integer::div>>("div", "div.bits", integers_only),
      bits_row<run_integer_pow>("pow", "pow.bits", integers_only),
      bits_row<run_integer_mod>("mod", "mod.bits", integers_only),
      bits_row<run_integer_extremum<true>>("max", "max.bits", integers_only),
      bits_row<run_integer_extremum<false>>("min", "min.bits", integers_only),
      bits_row<run_integer_clip>("clip", "clip.bits", integers_only),
      bits_row<run_comparison<Relation::equal>>("equal", "equal.bits"),
      bits_row<run_comparison<Relation::less>>("less", "less.bits"),
      bits_row<run_comparison<Relation::greater>>("greater", "greater.bits"),
      bits_row<run_comparison<Relation::less_or_equal>>("less_or_equal", "less_or_equal.bits"),
      bits_row<run_comparison<Relation::greater_or_equal>>("greater_or_equal",
                                                           "greater_or_equal.bits"),
      bits_row<run_logic<Logic::conjunction>>("and", "and.bits"),
      bits_row<run_logic<Logic::disjunction>>("or", "or.bits"),
      bits_row<run_logic<Logic::exclusive>>("xor", "xor.bits"),
      bits_row<run_not>("not", "not.bits"),
      bits_row<run_integer<Integer::bit_and>>("bitwise_and", "bitwise_and.bits"),
      bits_row<run_integer<Integer::bit_or>>("bitwise_or", "bitwise_or.bits"),
      bits_row<run_integer<Integer::bit_xor>>("bitwise_xor", "bitwise_xor.bits"),
      bits_row<run_bitwise_not>("bitwise_not", "bitwise_not.bits"),
      bits_row<run_bit_shift>("bit_shift", "bit_shift.bits"),
      bits_row<run_is_nan>("is_nan", "is_nan.bits"),
      bits_row<run_is_inf>("is_inf", "is_inf.bits"),
      bits_row<run_where>("where", "where.bits"),
      {.op = "cast", .name = "cast.definition", .contracts = "all", .run = run_cast_with_truth},
  };
  return rows;
}

}  // namespace etalon
