// Vector activations against the scalar ladder: every element, at every position of a vector and in
// the tail, on all binades, specials, the clamps' edges, and inputs that the rounding test must
// catch.
#include <doctest/doctest.h>

#include <vector>

#include "engine/core/philox.h"
#include "engine/numerics/real.h"
#include "kernels/activation/lanes.h"

using namespace etalon;

namespace {

constexpr LaneFunction kAll[] = {
    LaneFunction::exp,         LaneFunction::expm1,    LaneFunction::log,
    LaneFunction::tanh,        LaneFunction::sigmoid,  LaneFunction::softplus,
    LaneFunction::log_sigmoid, LaneFunction::erf,      LaneFunction::erfc,
    LaneFunction::silu,        LaneFunction::gelu,     LaneFunction::gelu_tanh,
    LaneFunction::mish,        LaneFunction::softsign, LaneFunction::elu,
    LaneFunction::selu};
constexpr LaneParams kParams{.alpha = 1.6732631921768188, .gamma = 1.0507010221481323};

// The formulas again, in the reals.
template <class A>
typename A::V formula(A& a, LaneFunction f, double x) {
  const auto v = a.input(x);
  const auto number = [&](double c) { return a.constant(c); };
  switch (f) {
    case LaneFunction::exp:
      return a.call(Function::exp, v);
    case LaneFunction::expm1:
      return a.call(Function::expm1, v);
    case LaneFunction::log:
      return a.call(Function::log, v);
    case LaneFunction::tanh:
      return a.call(Function::tanh, v);
    case LaneFunction::sigmoid:
      return a.call(Function::sigmoid, v);
    case LaneFunction::softplus:
      return a.call(Function::softplus, v);
    case LaneFunction::log_sigmoid:
      return a.call(Function::log_sigmoid, v);
    case LaneFunction::erf:
      return a.call(Function::erf, v);
    case LaneFunction::erfc:
      return a.call(Function::erfc, v);
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
    default: {
      auto y = x > 0 ? v : a.mul(number(kParams.alpha), a.call(Function::expm1, v));
      if (f == LaneFunction::selu) y = a.mul(number(kParams.gamma), y);
      return y;
    }
  }
}
float scalar(const void* context, float x) {
  const LaneFunction f = *static_cast<const LaneFunction*>(context);
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
                           0x1.827a74p-7F,
                           1.0F,
                           -1.0F,
                           0x1.fffffep127F,
                           -0x1.fffffep127F};
  for (const float p : {200.0F, 14.6F, 14.2F, 10.4F, 10.0543F, 103.97F, 88.7228F, 20.0F, 6.0F, 0.5F,
                        9.01F, 16.6F, 0.34657F})
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

// Not finite inputs of compositions are the fallback's business; the formula here has no text for
// them.
bool composed(LaneFunction f) { return f >= LaneFunction::silu; }

void check(LaneKernel run, int count) {
  for (const LaneFunction f : kAll) {
    std::vector<float> xs = inputs(count, static_cast<std::uint64_t>(f));
    if (composed(f)) std::erase_if(xs, [](float x) { return !is_finite(static_cast<double>(x)); });
    std::vector<float> expected;
    for (const float x : xs) expected.push_back(scalar(&f, x));
    const auto n = static_cast<std::int64_t>(xs.size());
    const LaneFallback fallback{scalar, &f};
    std::vector<float> ys(xs.size());
    const std::int64_t refused = run(f, kParams, xs.data(), ys.data(), n, fallback);
    // Half of the inputs are negative, outside the logarithm's domain.
    CHECK_MESSAGE(refused < (f == LaneFunction::log ? n * 3 / 5 : n / 5), static_cast<int>(f));
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
        run(f, kParams, part.data(), part.data(), static_cast<std::int64_t>(length), fallback);
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

TEST_CASE("activation lanes: the rounding test is needed, and falls back") {
  // log lies within 2^-53 of a midpoint of f32 here.
  const float x = 0x1.827a74p-7F;
  const LaneFunction f = LaneFunction::log;
  for (const Isa isa : {Isa::avx2, Isa::avx512})
    if (detect_isa() >= isa) {
      std::vector<float> xs(16, x), ys(16);
      const LaneFallback fallback{scalar, &f};
      CHECK(lane_kernel(isa)(f, {}, xs.data(), ys.data(), 16, fallback) == 16);
      CHECK(ys[5] == -0x1.1c2b1ep+2F);
      CHECK(untested(isa)(f, {}, xs.data(), ys.data(), 16, fallback) == 0);
      CHECK(ys[5] == -0x1.1c2b2p+2F);
    }
}

TEST_SUITE("long") {
  TEST_CASE("activation lanes: 300 000 inputs each") {
    for (const Isa isa : {Isa::avx2, Isa::avx512})
      if (detect_isa() >= isa) check(lane_kernel(isa), 300000);
  }
}
