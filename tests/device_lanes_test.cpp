// The two passes of a GPU's functions (kernels/activation/device_quick.h, device_lanes.h) over
// floats of all magnitudes: what either decides is what the CPU's kernel gives, NaN and -0 too, and
// little is left open. On a GPU the steps that are not this text are the unit's approximations;
// here they err by more. Where results vanish the first pass takes 0 for decided: all floats about
// that place.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "engine/graph/executor.h"
#include "kernels/activation/device_fine.h"
#include "kernels/kernels.h"
#include "tests/op_cases.h"
#include "tests/peak_memory.h"

using namespace etalon;

namespace {

// Both passes beside the CPU's kernel.
struct Passes {
  std::string_view op;
  OpCase c;
  int code;
  LaneParams params;
  std::int64_t usual = 0, usual_open = 0, seen = 0, open = 0, wrong = 0;

  Passes(std::string_view name, const std::string& text)
      : op(name),
        c(parse_op_case(fmt::format("floats | {} | {} | f32[1]", name, text))),
        code(device_function_code(name)) {
    if (!text.empty()) code = static_cast<int>(LaneFunction::gelu_tanh);
    AllActivations::visit(AllActivations::find(name), [&]<class F>() {
      params = lane_params(c.params.as<typename F::Parameters>());
    });
  }
  void compare(Tensor& x) {
    const Tensor* in[] = {&x};
    const OpRun want = run_op(*c.op, c.params, in, all_kernels(), {});
    const auto* const y = reinterpret_cast<const float*>(want.outputs[0].bytes().data());
    const auto* const values = reinterpret_cast<const float*>(x.bytes().data());
    with_device_function(code, [&]<int Code>() {
      if constexpr (!device_function_decides(Code)) {
        constexpr auto f = static_cast<LaneFunction>(Code);
        for (std::int64_t i = 0; i < x.numel(); ++i) {
          const float v = values[i];
          float quick = 0, fine = 0;
          const bool first = DeviceQuick<f>::function(params, v, quick),
                     second = DeviceFine<f>::function(params, v, fine);
          const bool is_usual =
              abs_of(static_cast<double>(v)) > 0x1p-11 && abs_of(static_cast<double>(v)) < 32;
          usual += is_usual;
          usual_open += is_usual && !first;
          seen += is_finite(static_cast<double>(v));
          open += is_finite(static_cast<double>(v)) && !first && !second;
          if (first) check(v, quick, y[i]);
          if (second) check(v, fine, y[i]);
        }
      }
    });
  }
  void check(float x, float got, float want) {
    if (bits_of(got) == bits_of(want) || wrong++ > 0) return;
    CAPTURE(std::string(op));
    CAPTURE(bits_of(x));
    CHECK(bits_of(got) == bits_of(want));
  }
};

template <class F>
void for_each_function(const F& f) {
  for (const std::string_view op : AllActivations::ops()) {
    if (const int code = device_function_code(op); code < 0 || device_function_decides(code))
      continue;
    f(op, "");
    if (op == "gelu") f(op, "approximate=tanh");
  }
}

// Every `step`-th float, from bits `step / 2` on.
void compare_floats(std::uint64_t step) {
  constexpr std::int64_t kCount = 1 << 18;
  Tensor x = Tensor::zeros(DType::f32, Shape{kCount});
  auto* const values = reinterpret_cast<float*>(x.mutable_bytes().data());
  for_each_function([&](std::string_view op, const std::string& text) {
    Passes p(op, text);
    for (std::uint64_t first = step / 2; first < std::uint64_t{1} << 32; first += step * kCount) {
      for (std::int64_t i = 0; i < kCount; ++i)
        values[i] =
            float_of(static_cast<std::uint32_t>(first + step * static_cast<std::uint64_t>(i)));
      p.compare(x);
    }
    // Zeros, infinities, NaN, ends of domains and of formats, and their neighbours.
    std::int64_t special = 0;
    for (const std::uint32_t bits :
         {0U, 0x00800000U, 0x3e800000U, 0x39800000U, 0x3f000000U, 0x3f350000U, 0x3f800000U,
          0x40400000U, 0x41700000U, 0x42ae0000U, 0x4b000000U, 0x4d000000U, 0x7f800000U,
          0x7fc12345U})
      for (std::uint32_t near = 0; near < 7; ++near)
        for (const std::uint32_t sign : {0U, 0x80000000U})
          values[special++] = float_of((bits + near - 3) ^ sign);
    p.compare(x);
    CAPTURE(std::string(op));
    CHECK(p.wrong == 0);
    CHECK(p.usual_open * 100 < p.usual);
    CHECK(p.open * 100 < p.seen);
  });
}

}  // namespace

TEST_CASE("a GPU's functions on the CPU: floats of all magnitudes") {
  compare_floats(test::kKeepsFreed ? 1260011 : 60013);  // a sanitizer takes twenty times as long
}

TEST_CASE("a GPU's functions on the CPU: about where results vanish") {
  constexpr std::int64_t kAround = 1 << 12;
  Tensor x = Tensor::zeros(DType::f32, Shape{2 * kAround}),
         one = Tensor::zeros(DType::f32, Shape{1});
  auto* const values = reinterpret_cast<float*>(x.mutable_bytes().data());
  auto* const at = reinterpret_cast<float*>(one.mutable_bytes().data());
  int places = 0;
  for_each_function([&](std::string_view op, const std::string& text) {
    Passes p(op, text);
    for (const float sign : {1.0F, -1.0F}) {
      const auto vanishes = [&](std::uint32_t bits) {
        *at = sign * float_of(bits);
        const Tensor* in[] = {&one};
        const OpRun y = run_op(*p.c.op, p.c.params, in, all_kernels(), {});
        return *reinterpret_cast<const float*>(y.outputs[0].bytes().data()) == 0;
      };
      std::uint32_t some = bits_of(1.0F), none = bits_of(200.0F);
      if (!vanishes(none) || vanishes(some)) continue;
      while (none - some > 1) (vanishes((some + none) / 2) ? none : some) = (some + none) / 2;
      for (std::int64_t i = 0; i < 2 * kAround; ++i)
        values[i] = sign * float_of(static_cast<std::uint32_t>(some - kAround + i));
      p.compare(x);
      ++places;
    }
    CAPTURE(std::string(op));
    CHECK(p.wrong == 0);
  });
  CHECK(places >= 8);
}

TEST_SUITE("long") {
  TEST_CASE("a GPU's functions on the CPU: floats of all magnitudes, many") {
    compare_floats(4001);
  }
}

TEST_CASE("a GPU's functions on the CPU: exp, log and pow among other steps") {
  std::int64_t wrong = 0;
  const auto compare = [&](float got, float want) {
    if (bits_of(canonical(got)) == bits_of(canonical(want))) return;
    CAPTURE(bits_of(got));
    if (wrong++ == 0) CHECK(bits_of(got) == bits_of(want));
  };
  for (std::uint64_t bits = 0; bits < std::uint64_t{1} << 32; bits += 40009) {
    const float x = float_of(static_cast<std::uint32_t>(bits));
    FineFunctions f;
    SeqF32 a;
    const float exp = a.call(Function::exp, x), log = a.call(Function::log, x);
    if (!a.undecided) {
      compare(f.exp(x), exp);
      compare(f.log(x), log);
      CHECK(f.undecided == 0);
    }
    for (const float y : {0.75F, 0.5F, -30.5F, 1.0F, 0x1.8p-9F, 2.0F}) {
      SeqF32 b;
      const float power = b.pow(x, y);
      if (!b.undecided) compare(f.pow(x, y), power);
    }
  }
  CHECK(wrong == 0);
}
