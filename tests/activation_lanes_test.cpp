// Vector activations against the scalar ladder: every element, at every position of a vector and in
// the tail, on all binades, specials, the clamps' edges, and inputs that the rounding test must
// catch.
#include <doctest/doctest.h>

#include <bit>
#include <limits>
#include <vector>

#include "engine/core/philox.h"
#include "engine/numerics/real.h"
#include "kernels/activation/lanes.h"

using namespace etalon;

namespace {

// Functions of the table by their names, compositions by their formulas.
struct Tested {
  LaneFunction lane;
  Function function;  // where `composed` is false
  bool composed = false;
  double alpha = 1.6732631921768188;

  LaneParams params() const { return {.alpha = alpha, .gamma = 1.0507010221481323}; }
};
#define ETALON_F(f) {LaneFunction::f, Function::f}
#define ETALON_C(f) {LaneFunction::f, Function::exp, true}
constexpr Tested kAll[] = {ETALON_F(exp),
                           ETALON_F(exp2),
                           ETALON_F(expm1),
                           ETALON_F(log),
                           ETALON_F(log2),
                           ETALON_F(log10),
                           ETALON_F(log1p),
                           ETALON_F(rsqrt),
                           ETALON_F(cbrt),
                           ETALON_F(sin),
                           ETALON_F(cos),
                           ETALON_F(tan),
                           ETALON_F(asin),
                           ETALON_F(acos),
                           ETALON_F(atan),
                           ETALON_F(sinh),
                           ETALON_F(cosh),
                           ETALON_F(tanh),
                           ETALON_F(asinh),
                           ETALON_F(acosh),
                           ETALON_F(atanh),
                           ETALON_F(erf),
                           ETALON_F(erfc),
                           ETALON_F(sigmoid),
                           ETALON_F(sqrt),
                           ETALON_F(softplus),
                           ETALON_F(log_sigmoid),
                           ETALON_F(reciprocal),
                           ETALON_C(silu),
                           ETALON_C(gelu),
                           ETALON_C(gelu_tanh),
                           ETALON_C(mish),
                           ETALON_C(softsign),
                           ETALON_C(elu),
                           ETALON_C(selu),
                           ETALON_C(celu),
                           ETALON_C(hard_swish),
                           {LaneFunction::elu, Function::exp, true, 1.0},
                           {LaneFunction::celu, Function::exp, true, 1.0}};
#undef ETALON_F
#undef ETALON_C

// The formulas again, in the reals.
template <class A>
typename A::V formula(A& a, const Tested& tested, double x) {
  const LaneFunction f = tested.lane;
  const auto v = a.input(x);
  const auto number = [&](double c) { return a.constant(c); };
  if (!tested.composed) return a.call(tested.function, v);
  switch (f) {
    case LaneFunction::silu:
      return a.mul(v, a.call(Function::sigmoid, v));
    case LaneFunction::gelu:
      if (x > 60) return v;  // to nearest
      if (x < -60) return number(-0.0);
      return a.mul(a.mul(v, number(0.5)),
                   a.call(Function::erfc, a.neg(a.div(v, a.sqrt(number(2))))));
    case LaneFunction::gelu_tanh: {
      if (x > 60) return v;
      if (x < -60) return number(-0.0);
      const auto pi = a.mul(number(4), a.call(Function::atan, number(1)));
      const auto cube = a.mul(v, a.mul(v, v));
      const auto z = a.mul(a.mul(number(2), a.sqrt(a.div(number(2), pi))),
                           a.add(v, a.mul(a.ratio(44715, 1000000), cube)));
      return a.mul(v, a.call(Function::sigmoid, z));
    }
    case LaneFunction::mish: {
      if (x > 60) return v;
      if (x < -600) return number(-0.0);
      const auto e = a.call(Function::exp, v), t = a.mul(e, a.add(e, number(2)));
      return a.div(a.mul(v, t), a.add(t, number(2)));
    }
    case LaneFunction::softsign:
      return a.div(v, a.add(number(1), a.abs(v)));
    case LaneFunction::hard_swish:
      if (x <= -3) return a.mul(v, number(0));
      if (x >= 3) return v;
      return a.div(a.mul(v, a.add(v, number(3))), number(6));
    case LaneFunction::celu: {
      if (x > 0) return v;
      const auto alpha = number(tested.alpha);
      return a.mul(alpha, a.call(Function::expm1, a.div(v, alpha)));
    }
    default: {
      auto y = x > 0 ? v : a.mul(number(tested.alpha), a.call(Function::expm1, v));
      if (f == LaneFunction::selu) y = a.mul(number(tested.params().gamma), y);
      return y;
    }
  }
}
float scalar(const void* context, float x) {
  const Tested& f = *static_cast<const Tested*>(context);
  const double d = static_cast<double>(x);
  return canonical(
      static_cast<float>(correctly_rounded([&](auto& a) { return formula(a, f, d); }, DType::f32)));
}

std::vector<float> inputs(int count, std::uint64_t stream) {
  const Philox random{.seed = 41, .stream = stream};
  std::vector<float> xs = {0.0F,
                           -0.0F,
                           float_of(1),
                           -float_of(1),
                           float_of(0x7f800000U),
                           float_of(0xff800000U),
                           float_of(kNanF32),
                           float_of(0x7fffffffU),
                           float_of(0xffffffffU),
                           0x1.827a74p-7F,
                           1.0F,
                           -1.0F,
                           0x1.fffffep127F,
                           -0x1.fffffep127F};
  for (const float p :
       {200.0F,  14.6F,     14.2F,   10.4F,      10.0543F,   103.97F, 88.7228F,  20.0F,
        6.0F,    0.5F,      9.01F,   16.6F,      0.34657F,   3.0F,    14.73F,    22.0F,
        8.0625F, 0x1p-100F, 0x1p64F, 0x1.024p3F, 0x1.022p3F, 0x1p-8F, 0x1.01p2F, 0x1p-101F,
        66.0F,   72.0F,     88.8F,   8.0F,       8.866F,     9.0F,    0x1p-91F,  0x1.f7p1F})
    for (int d = -2; d <= 2; ++d) {
      xs.push_back(float_of(bits_of(p) + static_cast<std::uint32_t>(d)));
      xs.push_back(-xs.back());
    }
  for (int i = 0; i < count; ++i) {
    const std::uint32_t w = random.word(static_cast<std::uint64_t>(i));
    xs.push_back(i % 4 == 0 ? float_of(w)
                            : float_of((w & 0x807fffffU) | (127 - 12 + (w >> 23 & 15)) << 23));
  }
  return xs;
}

void check(LaneKernel run, int count) {
  for (const Tested& t : kAll) {
    const LaneFunction f = t.lane;
    std::vector<float> xs = inputs(count, static_cast<std::uint64_t>(f));
    // Not finite inputs of compositions are the fallback's business; the formula here has no text
    // for them.
    if (t.composed) std::erase_if(xs, [](float x) { return !is_finite(static_cast<double>(x)); });
    std::vector<float> expected;
    for (const float x : xs) expected.push_back(scalar(&t, x));
    const auto n = static_cast<std::int64_t>(xs.size());
    const LaneFallback fallback{scalar, &t};
    std::vector<float> ys(xs.size());
    const std::int64_t refused = run(f, t.params(), xs.data(), ys.data(), n, fallback);
    CHECK_MESSAGE(refused < n / 50 + 20, static_cast<int>(f));
    int wrong = 0;
    for (std::size_t i = 0; i < xs.size() && wrong < 5; ++i)
      if (bits_of(ys[i]) != bits_of(expected[i])) {
        ++wrong;
        CAPTURE(static_cast<int>(f));
        CAPTURE(xs[i]);
        CHECK(bits_of(ys[i]) == bits_of(expected[i]));
      }
    // Any start and length: the same bits, nothing written past the end, in place too.
    for (std::size_t start = 0; start < 9; ++start)
      for (std::size_t length = 0; length < 19; ++length) {
        std::vector<float> part(xs.begin() + static_cast<std::ptrdiff_t>(start),
                                xs.begin() + static_cast<std::ptrdiff_t>(start + 20));
        const float guard = part[length];
        run(f, t.params(), part.data(), part.data(), static_cast<std::int64_t>(length), fallback);
        bool same = bits_of(part[length]) == bits_of(guard);
        for (std::size_t i = 0; i < length; ++i)
          same = same && bits_of(part[i]) == bits_of(expected[start + i]);
        if (!same) CHECK_MESSAGE(false, static_cast<int>(f), " ", start, " ", length);
      }
  }
}

LaneKernel untested(Isa isa) {
  return isa == Isa::avx512 ? avx512::run_lanes_untested : avx2::run_lanes_untested;
}

}  // namespace

TEST_CASE("activation lanes: the bits of the scalar ladder") {
  int sets = 0;
  for (const Isa isa : {Isa::avx2, Isa::avx512})
    if (detect_isa() >= isa) {
      check(lane_kernel(isa), 4000);
      ++sets;
    }
  CHECK((sets > 0 || detect_isa() < Isa::avx2));
  CHECK((lane_kernel(Isa::sse2) == nullptr));
}

// Blocks of usual numbers, in which one tiny number must show: its half is a tie that only the
// square decides, and neither end of an interval sees it.
TEST_CASE("activation lanes: a tiny number anywhere in a block of hard_swish") {
  const Tested swish{LaneFunction::hard_swish, Function::exp, true};
  const LaneFallback fallback{scalar, &swish};
  int seen = 0;
  for (const Isa isa : {Isa::avx2, Isa::avx512}) {
    if (detect_isa() < isa) continue;
    const Philox random{.seed = 43};
    for (const float tiny : {float_of(3), -float_of(3), float_of(0x00ffffffU), -0x1.000002p-126F}) {
      std::vector<float> xs(40000), ys(xs.size());
      for (std::size_t i = 0; i < xs.size(); ++i) xs[i] = 4 * random.uniform(i);
      for (const std::size_t at : {std::size_t{0}, std::size_t{16383}, std::size_t{32766}}) {
        std::vector<float> x = xs;
        x[at] = tiny;
        lane_kernel(isa)(LaneFunction::hard_swish, swish.params(), x.data(), ys.data(),
                         static_cast<std::int64_t>(x.size()), fallback);
        CHECK(bits_of(ys[at]) == bits_of(scalar(&swish, tiny)));
        // A half to even would be another.
        seen += bits_of(ys[at]) != bits_of(tiny / 2);
        CHECK(bits_of(ys[at == 0 ? 1 : 0]) == bits_of(scalar(&swish, x[at == 0 ? 1 : 0])));
      }
    }
  }
  CHECK((seen > 0 || detect_isa() < Isa::avx2));
}

// A first pass lists what it leaves open and computes it later, out of its place: arrays in which
// nothing is decided at once, longer than the list, in place, and such elements among others.
TEST_CASE("activation lanes: whole rows that the first pass leaves open") {
  constexpr Tested kPairs[] = {{LaneFunction::exp, Function::exp},
                               {LaneFunction::erf, Function::erf},
                               {LaneFunction::sigmoid, Function::sigmoid},
                               {LaneFunction::tanh, Function::tanh},
                               {LaneFunction::softplus, Function::softplus},
                               {LaneFunction::log_sigmoid, Function::log_sigmoid},
                               {LaneFunction::silu, Function::exp, true},
                               {LaneFunction::mish, Function::exp, true},
                               {LaneFunction::gelu, Function::exp, true},
                               {LaneFunction::gelu_tanh, Function::exp, true},
                               {LaneFunction::hard_swish, Function::exp, true},
                               {LaneFunction::elu, Function::exp, true, 1.0},
                               {LaneFunction::celu, Function::exp, true, 1.0}};
  const float hard[] = {-50.0F, 95.0F, -95.0F, 75.25F, -16.5F, 0x1p-120F, -0x1p-140F, float_of(1)};
  const float never[] = {float_of(kNanF32), float_of(0xffffffffU), float_of(0x7f800000U),
                         float_of(0xff800000U)};
  for (const Isa isa : {Isa::avx2, Isa::avx512}) {
    if (detect_isa() < isa) continue;
    for (const Tested& t : kPairs) {
      const LaneFallback fallback{scalar, &t};
      for (const int every : {1, 3, 64}) {
        std::vector<float> xs(1000), wanted(1000);
        for (std::size_t i = 0; i < xs.size(); ++i) {
          const std::size_t k = i / static_cast<std::size_t>(every);
          xs[i] = i % static_cast<std::size_t>(every) != 0 ? 0.001F * static_cast<float>(i) - 0.4F
                  : t.composed || k % 2 == 0               ? hard[k % std::size(hard)]
                                                           : never[k / 2 % std::size(never)];
          wanted[i] = is_nan(static_cast<double>(xs[i])) ? float_of(kNanF32) : scalar(&t, xs[i]);
        }
        lane_kernel(isa)(t.lane, t.params(), xs.data(), xs.data(), 1000, fallback);
        int wrong = 0;
        for (std::size_t i = 0; i < xs.size(); ++i) wrong += bits_of(xs[i]) != bits_of(wanted[i]);
        CHECK_MESSAGE(wrong == 0, static_cast<int>(t.lane), " ", every);
      }
    }
  }
}

TEST_CASE("activation lanes: the rounding test is needed, and falls back") {
  // log lies within 2^-53 of a midpoint of f32 here.
  const float x = 0x1.827a74p-7F;
  const LaneFunction f = LaneFunction::log;
  const Tested t{f, Function::log};
  for (const Isa isa : {Isa::avx2, Isa::avx512})
    if (detect_isa() >= isa) {
      std::vector<float> xs(16, x), ys(16);
      const LaneFallback fallback{scalar, &t};
      CHECK(lane_kernel(isa)(f, {}, xs.data(), ys.data(), 16, fallback) == 16);
      CHECK(ys[5] == -0x1.1c2b1ep+2F);
      // Without the test this one is wrong where all bits of f64 are kept, and some of many where
      // the first pass stops at 2^-42.
      xs.resize(1 << 21);
      for (std::size_t i = 16; i < xs.size(); ++i)
        xs[i] = std::bit_cast<float>(0x3f900000U + static_cast<std::uint32_t>(i));
      ys.resize(xs.size());
      std::vector<float> right(xs.size());
      const auto count = static_cast<std::int64_t>(xs.size());
      CHECK(lane_kernel(isa)(f, {}, xs.data(), right.data(), count, fallback) < count / 1000);
      CHECK(untested(isa)(f, {}, xs.data(), ys.data(), count, fallback) == 0);
      int wrong = 0;
      for (std::size_t i = 0; i < xs.size(); ++i)
        wrong += bits_of(ys[i]) != bits_of(right[i]) ? 1 : 0;
      CHECK(wrong > 0);
    }
}

namespace {

// Every `step`th float from -0 past the distance whose exponential is 0, and -inf: softmax's loop
// over rows, which subtracts and computes in registers, against the function's own.
void check_rounded(std::uint32_t step) {
  constexpr std::uint32_t kLast = 0xc2e00000U;  // -112
  const Tested t{LaneFunction::exp, Function::exp};
  const LaneFallback fallback{scalar, &t};
  std::vector<float> xs, wanted(1 << 16), got(1 << 16);
  for (const Isa isa : {Isa::avx2, Isa::avx512}) {
    if (detect_isa() < isa) continue;
    const auto rounded = [&](float largest) {
      const auto n = static_cast<std::int64_t>(xs.size());
      return exp_lanes(isa)->rounded(
          {.x = xs.data(), .largest = &largest, .y = got.data(), .stride = n, .n = n, .rows = 1},
          fallback);
    };
    std::int64_t wrong = 0, refused = 0, compared = 0;
    const auto compare = [&] {
      const auto n = static_cast<std::int64_t>(xs.size());
      lane_kernel(isa)(LaneFunction::exp, {}, xs.data(), wanted.data(), n, fallback);
      refused += rounded(0);
      for (std::size_t i = 0; i < xs.size(); ++i) wrong += bits_of(got[i]) != bits_of(wanted[i]);
      compared += n;
      xs.clear();
    };
    for (std::uint64_t b = 0x80000000U; b <= kLast; b += step) {
      xs.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(b)));
      if (xs.size() == wanted.size() - 7) compare();
    }
    xs.push_back(-std::numeric_limits<float>::infinity());
    compare();
    CHECK(wrong == 0);
    CHECK(refused > 0);
    CHECK(compared > (kLast - 0x80000000U) / step);
    // Distances are rounded to f32 first.
    xs = {-3.1F, 0.1F, -0x1p-30F, 1.25F};
    rounded(1.25F);
    for (std::size_t i = 0; i < 4; ++i)
      CHECK(bits_of(got[i]) == bits_of(scalar(&t, xs[i] - 1.25F)));
  }
}

}  // namespace

TEST_CASE("activation lanes: the exponential of a distance is the table's") { check_rounded(211); }

TEST_SUITE("long") {
  TEST_CASE("activation lanes: the exponential of every distance is the table's") {
    check_rounded(1);
  }
  TEST_CASE("activation lanes: 300 000 inputs each") {
    for (const Isa isa : {Isa::avx2, Isa::avx512})
      if (detect_isa() >= isa) check(lane_kernel(isa), 300000);
  }
}
