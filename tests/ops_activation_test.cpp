// Every activation against its textbook formula at 3000 bits, in each rounding mode; and the
// special values that its page promises.
#include <doctest/doctest.h>

#include <cmath>
#include <functional>

#include "engine/core/philox.h"
#include "engine/graph/executor.h"
#include "engine/numerics/element.h"
#include "kernels/kernels.h"
#include "tests/function_oracle.h"
#include "tests/mpfr_number.h"
#include "tests/op_cases.h"

using namespace etalon;

namespace {

std::vector<float> hostile() {
  std::vector<float> x = {0x1p-149F, -0x1p-149F, 0x1p-126F,  -0x1.8p-130F, 0x1p-24F, -0x1p-25F,
                          0x1p-12F,  -0x1p-13F,  0.5F,       -0.5F,        1.0F,     -1.0F,
                          3.0F,      -3.0F,      2.999999F,  -2.999999F,   20.0F,    -20.0F,
                          9.010913F, -9.010914F, 16.635532F, 44.0F,        -44.0F,   59.0F,
                          -14.1F,    -13.2F,     -26.0F,     24.9F,        -24.9F,   0.3333333F};
  const Philox random{77, 3};
  for (std::uint64_t i = 0; i < 60; ++i) {
    const float u = random.uniform(i);
    x.push_back(i % 3 == 0 ? u : i % 3 == 1 ? 10 * u : u * 0x1p-10F);
  }
  return x;
}

Tensor run(std::string_view op, std::string_view params, const Tensor& x, const char* contract) {
  const OpRow& row = get_op(op);
  const Tensor* in[] = {&x};
  return std::move(run_op(row, parse_params(row.defaults(), params), in, all_kernels(),
                          {.contract = Contract::parse(contract)})
                       .outputs[0]);
}

struct Formula {
  const char* op;
  const char* params;
  std::function<Number(const Number&)> f;
};

const Number kAlpha = static_cast<double>(0.3F);

Number shrunk(const Number& x, double lambd, double bias) {
  if (x < Number(-lambd)) return x + Number(bias);
  return Number(lambd) < x ? x - Number(bias) : Number(0);
}
Number held(const Number& x, double low, double high) {
  return x < Number(low) ? Number(low) : Number(high) < x ? Number(high) : x;
}
Number elu(const Number& x, const Number& alpha) {
  return x < Number(0) ? alpha * (exp(x) - 1) : x;
}

const Formula kFormulas[] = {
    {"relu", "", [](const Number& x) { return x < Number(0) ? Number(0) : x; }},
    {"leaky_relu", "alpha=0.3", [](const Number& x) { return x < Number(0) ? kAlpha * x : x; }},
    {"thresholded_relu", "alpha=0.3", [](const Number& x) { return kAlpha < x ? x : Number(0); }},
    {"elu", "alpha=0.3", [](const Number& x) { return elu(x, kAlpha); }},
    {"selu", "",
     [](const Number& x) {
       return Number(1.05070102214813232421875) * elu(x, 1.67326319217681884765625);
     }},
    {"celu", "alpha=0.3",
     [](const Number& x) { return x < Number(0) ? kAlpha * (exp(x / kAlpha) - 1) : x; }},
    {"sigmoid", "", [](const Number& x) { return Number(1) / (Number(1) + exp(-x)); }},
    {"log_sigmoid", "", [](const Number& x) { return -log(Number(1) + exp(-x)); }},
    {"hard_sigmoid", "alpha=0.3 beta=0.5",
     [](const Number& x) { return held(kAlpha * x + 0.5, 0, 1); }},
    {"hard_swish", "", [](const Number& x) { return x * held(x / 6 + 0.5, 0, 1); }},
    {"hard_tanh", "min=-0.5 max=6", [](const Number& x) { return held(x, -0.5, 6); }},
    {"softplus", "", [](const Number& x) { return log(Number(1) + exp(x)); }},
    {"softplus", "beta=0.3",
     [](const Number& x) { return log(Number(1) + exp(kAlpha * x)) / kAlpha; }},
    {"softsign", "", [](const Number& x) { return x / (Number(1) + abs(x)); }},
    {"softshrink", "", [](const Number& x) { return shrunk(x, 0.5, 0.5); }},
    {"shrink", "lambd=0.25 bias=0.125", [](const Number& x) { return shrunk(x, 0.25, 0.125); }},
    {"gelu", "", [](const Number& x) { return x * (Number(1) + erf(x / sqrt(Number(2)))) / 2; }},
    // Beyond 25 the factor is nearer to 1 (or 0) than 3000 bits can say, and any number this near
    // rounds alike: e^-1500 stands for it.
    {"gelu", "approximate=tanh",
     [](const Number& x) {
       if (Number(25) < x) return x * (Number(1) - exp(Number(-1500)));
       if (x < Number(-25)) return x * exp(Number(-1500));
       const Number inner = x + Number(44715) / 1000000 * x * x * x;
       return x * (Number(1) + tanh(sqrt(Number(2) / Number::pi()) * inner)) / 2;
     }},
    {"silu", "", [](const Number& x) { return x / (Number(1) + exp(-x)); }},
    {"silu", "alpha=0.3", [](const Number& x) { return x / (Number(1) + exp(-(kAlpha * x))); }},
    {"mish", "", [](const Number& x) { return x * tanh(log(Number(1) + exp(x))); }},
};

}  // namespace

TEST_CASE("activation: every formula against 3000 bits, in each rounding mode") {
  const std::vector<float> values = hostile();
  const Tensor x =
      Tensor::of<float>({static_cast<std::int64_t>(values.size())}, std::span<const float>(values));
  const std::pair<const char*, Round> modes[] = {{"exact", Round::nearest_even},
                                                 {"exact,round=rz", Round::toward_zero},
                                                 {"exact,round=ru", Round::upward},
                                                 {"exact,round=rd", Round::downward}};
  for (const Formula& formula : kFormulas)
    for (const auto& [contract, mode] : modes) {
      const Tensor y = run(formula.op, formula.params, x, contract);
      for (std::size_t i = 0; i < values.size(); ++i) {
        const Number real = formula.f(static_cast<double>(values[i]));
        const double expected = real.rounded(DType::f32, mode);
        const double got = static_cast<double>(y.data<float>()[i]);
        // A zero's sign is the page's affair, not the oracle's.
        const bool same = real.is_zero() ? got == 0 : bits_of(got) == bits_of(expected);
        CHECK_MESSAGE(same, fmt::format("{} {} [{}] x={}: {:a} for {:a}", formula.op,
                                        formula.params, contract, values[i], got, expected));
      }
    }
}

TEST_CASE("activation: the functions of one name are the correctly rounded ones") {
  const std::vector<float> values = hostile();
  const Tensor x =
      Tensor::of<float>({static_cast<std::int64_t>(values.size())}, std::span<const float>(values));
  for (const char* op :
       {"exp", "log", "sqrt", "reciprocal", "rsqrt", "sin", "cos", "tan", "asin", "acos", "atan",
        "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf"}) {
    const Tensor y = run(op, "", x, "seq");
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double expected = mpfr_function(parse_function(op), static_cast<double>(values[i]),
                                            DType::f32, Round::nearest_even);
      const double got = static_cast<double>(y.data<float>()[i]);
      CHECK_MESSAGE(bits_of(got) == bits_of(expected),
                    fmt::format("{} x={}: {:a} for {:a}", op, values[i], got, expected));
    }
  }
}

TEST_CASE("activation: infinities, zeros, NaN, huge arguments, ties") {
  const float inf = static_cast<float>(kInfinity), nan = float_of(kNanF32);
  const float huge = 0x1.fffffep127F, small = 0x1p-149F;
  struct Row {
    const char* op;
    const char* params;
    float x, y;
  };
  const Row rows[] = {
      {"relu", "", -0.0F, 0.0F},
      {"relu", "", -inf, 0.0F},
      {"leaky_relu", "", -0.0F, -0.0F},
      {"leaky_relu", "", -inf, -inf},
      {"elu", "alpha=2", -inf, -2.0F},
      {"elu", "", -0.0F, -0.0F},
      {"celu", "alpha=0.5", -huge, -0.5F},
      {"selu", "", -huge, -1.7580993F},
      {"sigmoid", "", inf, 1.0F},
      {"sigmoid", "", -inf, 0.0F},
      {"sigmoid", "", huge, 1.0F},
      {"sigmoid", "", -huge, 0.0F},
      {"hard_swish", "", inf, inf},
      {"hard_swish", "", -inf, nan},
      {"hard_sigmoid", "", -inf, 0.0F},
      {"hard_tanh", "", -0.0F, -0.0F},
      {"softplus", "", -inf, 0.0F},
      {"softplus", "", huge, huge},
      {"softplus", "beta=2 threshold=20", 10.5F, 10.5F},
      {"softsign", "", inf, nan},
      {"softsign", "", huge, 1.0F},
      {"softshrink", "", 0.5F, 0.0F},
      {"shrink", "", -0.25F, 0.0F},
      {"gelu", "", -inf, nan},
      {"gelu", "", inf, inf},
      {"gelu", "", -huge, -0.0F},
      {"gelu", "", huge, huge},
      {"gelu", "", -0.0F, -0.0F},
      {"gelu", "approximate=tanh", -huge, -0.0F},
      {"gelu", "approximate=tanh", huge, huge},
      {"silu", "", -inf, nan},
      {"silu", "", inf, inf},
      {"silu", "", -huge, -0.0F},
      {"silu", "", huge, huge},
      {"silu", "alpha=0", 3.0F, 1.5F},
      {"mish", "", -inf, nan},
      {"mish", "", huge, huge},
      {"mish", "", -huge, -0.0F},
      {"sqrt", "", -0.0F, -0.0F},
      {"sqrt", "", -small, nan},
      {"log", "", -0.0F, -inf},
      {"reciprocal", "", -0.0F, -inf},
      {"exp", "", -inf, 0.0F},
      {"abs", "", -0.0F, 0.0F},
      {"neg", "", 0.0F, -0.0F},
      {"sign", "", -0.0F, -0.0F},
      {"sign", "", -small, -1.0F},
      {"floor", "", -0.5F, -1.0F},
      {"floor", "", -0.0F, -0.0F},
      {"ceil", "", -0.5F, -0.0F},
      {"round", "", 2.5F, 2.0F},
      {"round", "", -0.5F, -0.0F},
      {"round", "", 8388607.5F, 8388608.0F},
      {"round", "", -inf, -inf},
      {"round", "", 0x1.fffffep-2F, 0.0F},
  };
  const auto check = [&](const Row& row, const char* contract) {
    const float got =
        run(row.op, row.params, Tensor::of<float>({1}, {row.x}), contract).data<float>()[0];
    CHECK_MESSAGE(bits_of(got) == bits_of(row.y),
                  fmt::format("{} {} [{}] of {}: {:a} for {:a}", row.op, row.params, contract,
                              row.x, got, row.y));
  };
  for (const Row& row : rows)
    for (const char* contract : {"seq", "exact"}) check(row, contract);
  // What approaches its limit without reaching it, in the directed modes.
  check({"sigmoid", "", huge, 0x1.fffffep-1F}, "round=rd");
  check({"gelu", "", 1e4F, 0x1.387ffep13F}, "round=rz");
  check({"silu", "", 1e30F, std::nextafter(1e30F, 0.0F)}, "round=rd");
  check({"mish", "", 1e4F, 0x1.387ffep13F}, "round=rz");
  check({"gelu", "", -1e4F, -small}, "round=rd");
  check({"softplus", "beta=3", 1e4F, 0x1.388002p13F}, "round=ru");
  for (const OpRow& op : {get_op("softplus"), get_op("shrink"), get_op("thresholded_relu"),
                          get_op("hard_tanh"), get_op("sign"), get_op("floor"), get_op("relu")})
    check({op.name.data(), "", nan, nan}, "seq");
}

TEST_CASE("activation: integers, formats, what is refused") {
  const Tensor bytes =
      Tensor::of<std::int8_t>({3}, {std::int8_t{-128}, std::int8_t{-5}, std::int8_t{9}});
  CHECK(run("abs", "", bytes, "seq").data<std::int8_t>()[0] == -128);
  CHECK(run("abs", "", bytes, "exact").data<std::int8_t>()[1] == 5);
  CHECK(run("neg", "", bytes, "seq").data<std::int8_t>()[2] == -9);
  CHECK(run("sign", "", bytes, "seq").data<std::int8_t>()[0] == -1);
  CHECK(run("relu", "", bytes, "seq").data<std::int8_t>()[1] == 0);
  const Tensor wide = Tensor::of<std::int64_t>({1}, {std::int64_t{-9007199254740993}});
  CHECK(run("abs", "", wide, "seq").data<std::int64_t>()[0] == 9007199254740993);
  // One rounding to the stored format, not two: f32 on the way would round twice.
  const Tensor half = Tensor::of<Float16>({1}, {to_float16(0.30004882F)});
  const double e = Number::unary(mpfr_exp, to_double(half.data<Float16>()[0])).rounded(DType::f16);
  CHECK(to_double(run("exp", "", half, "seq").data<Float16>()[0]) == e);
  CHECK_THROWS_WITH_AS(run("exp", "", bytes, "seq"), doctest::Contains("floating"), Error);
  CHECK_THROWS_WITH_AS(run("celu", "alpha=0", half, "seq"), doctest::Contains("alpha"), Error);
  CHECK_THROWS_WITH_AS(run("softplus", "beta=0", half, "seq"), doctest::Contains("beta"), Error);
  const Tensor x = Tensor::of<float>({2}, {1.0F, 2.0F}), slope = Tensor::of<float>({3}, {1, 2, 3});
  const Tensor* in[] = {&x, &slope};
  CHECK_THROWS_WITH_AS(
      run_op(get_op("prelu"), Params(), in, all_kernels(), {.contract = Contract::seq()}),
      doctest::Contains("do not broadcast"), Error);
}
