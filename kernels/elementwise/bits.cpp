// Integers (modulo 2^bits), comparisons, logic, selection, conversion.
#include "kernels/elementwise/bits.h"

#include <cstring>

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
T integer_power(T base, bool negative, std::uint64_t exponent) {
  if (negative) {
    if (base == 1) return 1;
    if constexpr (std::is_signed_v<T>)
      if (base == -1) return exponent % 2 == 0 ? T{1} : T{-1};
    return 0;
  }
  std::uint64_t result = 1, square = wide(base);
  for (; exponent != 0; exponent >>= 1) {
    if ((exponent & 1) != 0) result *= square;
    square *= square;
  }
  return static_cast<T>(result);
}

// What does not ask for a sign is computed on the unsigned type of the width: half the code.
enum class Modular { add, sub, mul, bit_and, bit_or, bit_xor };

template <Modular Op>
void run_modular(const KernelCall& call) {
  visit_width(size_bytes(call.input(0).dtype()), [&](auto zero) {
    using T = decltype(zero);
    apply_binary<T, T, T>(call, [](T a, T b) -> T {
      switch (Op) {
        case Modular::add:
          return static_cast<T>(wide(a) + wide(b));
        case Modular::sub:
          return static_cast<T>(wide(a) - wide(b));
        case Modular::mul:
          return static_cast<T>(wide(a) * wide(b));
        case Modular::bit_and:
          return static_cast<T>(a & b);
        case Modular::bit_or:
          return static_cast<T>(a | b);
        case Modular::bit_xor:
          break;
      }
      return static_cast<T>(a ^ b);
    });
  });
}

void run_integer_div(const KernelCall& call) {
  visit_integer(call.input(0).dtype(), [&](auto zero) {
    using T = decltype(zero);
    apply_binary<T, T, T>(call, [](T a, T b) { return quotient(a, b); });
  });
}

void run_integer_mod(const KernelCall& call) {
  const bool fmod = call.params<ModParams>().fmod;
  visit_integer(call.input(0).dtype(), [&](auto zero) {
    using T = decltype(zero);
    apply_binary<T, T, T>(call, [fmod](T a, T b) { return remainder_of(a, b, fmod); });
  });
}

// Exponents of any integer type, widened first.
Tensor widened(const Tensor& x) {
  Tensor y = Tensor::uninitialized(DType::i64, x.shape());
  auto out = y.mutable_data<std::int64_t>();
  visit_integer(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const auto in = x.data<T>();
    for (std::size_t i = 0; i < in.size(); ++i) out[i] = static_cast<std::int64_t>(in[i]);
  });
  return y;
}

void run_integer_pow(const KernelCall& call) {
  const Tensor exponent = widened(call.input(1));
  const bool is_signed = info(call.input(1).dtype()).kind == DTypeClass::signed_integer;
  const Tensor* inputs[] = {&call.input(0), &exponent};
  KernelCall wide_call = call;
  wide_call.inputs = inputs;
  visit_integer(call.input(0).dtype(), [&](auto zero) {
    using T = decltype(zero);
    apply_binary<T, T, std::int64_t>(wide_call, [is_signed](T a, std::int64_t b) {
      const bool negative = is_signed && b < 0;
      return integer_power(a, negative, negative ? ~wide(b) + 1 : wide(b));
    });
  });
}

void run_bit_shift(const KernelCall& call) {
  const bool left = call.params<BitShiftParams>().direction == ShiftDirection::left;
  visit_integer(call.input(0).dtype(), [&](auto zero) {
    using T = decltype(zero);
    apply_binary<T, T, T>(call, [left](T a, T b) -> T {
      // A count of the width or more (a negative one is a huge one) shifts everything out; what a
      // right shift moves in is the sign.
      const bool out = wide(b) >= 8 * sizeof(T);
      if (left) return out ? T{0} : static_cast<T>(wide(a) << b);
      return static_cast<T>(a >> (out ? 8 * sizeof(T) - 1 : wide(b)) >> (out ? 1 : 0));
    });
  });
}

void run_bitwise_not(const KernelCall& call) {
  visit_width(size_bytes(call.input(0).dtype()), [&](auto zero) {
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
    const Bool* pc = c + at[1];
    const U *pa = a + at[2], *pb = b + at[3];
    U* py = y + at[0];
    if (step[1] == 1 && step[2] == 1 && step[3] == 1)
      for (std::int64_t i = 0; i < n; ++i) {  // both are read, so that nothing hangs on a branch
        const U then = pa[i], otherwise = pb[i];
        py[i] = pc[i].value != 0 ? then : otherwise;
      }
    else
      for (std::int64_t i = 0; i < n; ++i)
        py[i] = pc[i * step[1]].value != 0 ? pa[i * step[2]] : pb[i * step[3]];
  });
}

void run_where(const KernelCall& call) {
  visit_width(size_bytes(call.output(0).dtype()), [&](auto zero) { select<decltype(zero)>(call); });
}

// ---- conversion ---------------------------------------------------------------------------------

// An integer of up to 64 bits, rounded once: its magnitude is exact in 64 bits.
double round_integer(bool negative, std::uint64_t magnitude, DType to, const Contract& c) {
  if (magnitude == 0) return 0.0;
  const int shift = __builtin_clzll(magnitude);
  return round_scaled(negative, magnitude << shift, -shift, false, to, c.round, c.subnormals);
}

// What is asked for as f64 is not narrowed: a graph converts to f64 because it needs it.
DType cast_format(DType to, const Contract& c) {
  return to == DType::f64 ? to : stored_format(to, c);
}

// Between loading and storing, elements are doubles (from floating types, exact) or 64-bit
// integers: so each type is met once on either side and not in pairs.
struct Chunk {
  static constexpr std::int64_t kSize = 256;
  std::int64_t count = 0;
  bool floating = false, is_signed = false;
  std::array<double, kSize> real;
  std::array<std::uint64_t, kSize> integer;
};

void load_chunk(DType dtype, const std::byte* bytes, std::int64_t first, Chunk& chunk) {
  chunk.floating = is_floating(dtype);
  chunk.is_signed = info(dtype).kind == DTypeClass::signed_integer;
  visit_dtype(dtype, [&](auto zero) {
    using T = decltype(zero);
    const T* in = reinterpret_cast<const T*>(bytes) + first;
    for (std::int64_t i = 0; i < chunk.count; ++i) {
      const auto k = static_cast<std::size_t>(i);
      if constexpr (std::is_integral_v<T>)
        chunk.integer[k] = static_cast<std::uint64_t>(in[i]);
      else if constexpr (std::is_same_v<T, Bool>)
        chunk.integer[k] = in[i].value != 0 ? 1 : 0;
      else
        chunk.real[k] = to_double(in[i]);
    }
  });
}

void store_chunk(DType to, std::byte* bytes, std::int64_t first, Chunk& chunk, const Contract& c) {
  const DType format = cast_format(to, c);
  const auto count = static_cast<std::size_t>(chunk.count);
  // The processor's own rounding of a double, which a float, and an integer below 2^53, is.
  const bool plain = to == DType::f32 && format == to && c.round == Round::nearest_even &&
                     c.subnormals == Subnormals::keep;
  if (plain) {
    if (!chunk.floating)
      for (std::size_t k = 0; k < count; ++k) {
        const std::uint64_t v = chunk.integer[k];
        const bool negative = chunk.is_signed && static_cast<std::int64_t>(v) < 0;
        const std::uint64_t size = negative ? ~v + 1 : v;
        chunk.real[k] = size >> 53 != 0 ? round_integer(negative, size, format, c)
                        : negative      ? -static_cast<double>(size)
                                        : static_cast<double>(size);
      }
    chunk.floating = true;
  } else if (is_floating(to)) {
    for (std::size_t k = 0; k < count; ++k) {
      const std::uint64_t v = chunk.integer[k];
      const bool negative = chunk.is_signed && static_cast<std::int64_t>(v) < 0;
      chunk.real[k] = chunk.floating ? round_to(chunk.real[k], format, c.round, c.subnormals)
                                     : round_integer(negative, negative ? ~v + 1 : v, format, c);
    }
    chunk.floating = true;
  }
  visit_dtype(to, [&](auto zero) {
    using U = decltype(zero);
    for (std::size_t k = 0; k < count; ++k) {
      const std::int64_t at = first + static_cast<std::int64_t>(k);
      if (chunk.floating) {
        if constexpr (std::is_integral_v<U>)
          reinterpret_cast<U*>(bytes)[at] = integer_element<U>(chunk.real[k]);
        else if constexpr (std::is_same_v<U, float>)
          reinterpret_cast<U*>(bytes)[at] = canonical(static_cast<float>(chunk.real[k]));
        else
          store_from_double(dtype_of<U>, bytes, at, chunk.real[k]);
      } else if constexpr (std::is_integral_v<U>)
        reinterpret_cast<U*>(bytes)[at] = static_cast<U>(chunk.integer[k]);
      else if constexpr (std::is_same_v<U, Bool>)
        reinterpret_cast<U*>(bytes)[at] = Bool{chunk.integer[k] != 0};
    }
  });
}

void run_cast(const KernelCall& call) {
  const Tensor& x = call.input(0);
  const DType to = call.output(0).dtype(), from = x.dtype();
  std::byte* y = output_bytes(call, 0);
  const Contract& c = call.contract();
  if (to == from && cast_format(to, c) == to) {
    copy_bytes(y, x.bytes().data(), x.size_bytes(), call.threads);
    return;
  }
  parallel_for(x.numel(), call.threads, 16384, [&](std::int64_t begin, std::int64_t end) {
    Chunk chunk;
    for (std::int64_t i = begin; i < end; i += Chunk::kSize) {
      chunk.count = std::min<std::int64_t>(Chunk::kSize, end - i);
      load_chunk(from, x.bytes().data(), i, chunk);
      store_chunk(to, y, i, chunk, c);
    }
  });
}

void run_bit_cast(const KernelCall& call) {
  const Tensor& x = call.input(0);
  copy_bytes(output_bytes(call, 0), x.bytes().data(), x.size_bytes(), call.threads);
}

// The contract's rounding, store and subnormals have a say, so it is no .bits row.
void run_cast_with_truth(const KernelCall& call) {
  run_cast(call);
  fill_truth_from_input(call);
}

// ---- rows ---------------------------------------------------------------------------------------

Refusal integers_only(const Problem& problem) {
  if (is_floating(problem.outputs[0].dtype)) return "computes on integers";
  return std::nullopt;
}

}  // namespace

std::span<const KernelRow> elementwise_bits_rows() {
  static const KernelRow rows[] = {
      bits_row<run_modular<Modular::add>>("add", "add.bits", integers_only),
      bits_row<run_modular<Modular::sub>>("sub", "sub.bits", integers_only),
      bits_row<run_modular<Modular::mul>>("mul", "mul.bits", integers_only),
      bits_row<run_integer_div>("div", "div.bits", integers_only),
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
      bits_row<run_modular<Modular::bit_and>>("bitwise_and", "bitwise_and.bits"),
      bits_row<run_modular<Modular::bit_or>>("bitwise_or", "bitwise_or.bits"),
      bits_row<run_modular<Modular::bit_xor>>("bitwise_xor", "bitwise_xor.bits"),
      bits_row<run_bitwise_not>("bitwise_not", "bitwise_not.bits"),
      bits_row<run_bit_shift>("bit_shift", "bit_shift.bits"),
      bits_row<run_is_nan>("is_nan", "is_nan.bits"),
      bits_row<run_is_inf>("is_inf", "is_inf.bits"),
      bits_row<run_where>("where", "where.bits"),
      {.op = "cast", .name = "cast.definition", .contracts = "all", .run = run_cast_with_truth},
      {.op = "cast_like",
       .name = "cast_like.definition",
       .contracts = "all",
       .run = run_cast_with_truth},
      bits_row<run_bit_cast>("bit_cast", "bit_cast.bits"),
  };
  return rows;
}

}  // namespace etalon
