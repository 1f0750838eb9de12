// Normalisations and softmax: `exact` against textbook formulas at 3000 bits, ties of algebraic
// formulas, `seq` against plain f32 loops in the order that the headers write down.
#include <doctest/doctest.h>

#include <cmath>

#include "engine/graph/executor.h"
#include "engine/numerics/element.h"
#include "engine/numerics/function.h"
#include "kernels/kernels.h"
#include "tests/mpfr_number.h"
#include "tests/op_cases.h"

using namespace etalon;

namespace {

struct Run {
  std::vector<Tensor> in, out;
  double x(std::size_t input, std::int64_t i) const { return load_as_double(in[input], i); }
  float f(std::size_t input, std::size_t i) const { return in[input].data<float>()[i]; }
  float y(std::size_t i) const { return out[0].data<float>()[i]; }
};

Run run(std::string_view line, const char* contract) {
  const OpCase c = parse_op_case(line);
  Run r{case_inputs(c), {}};
  const auto p = pointers(r.in);
  r.out =
      run_op(*c.op, c.params, p, all_kernels(), {.contract = Contract::parse(contract)}).outputs;
  return r;
}

void same(const Run& r, std::size_t i, const Number& real, std::string_view what) {
  const double expected = real.rounded(DType::f32), got = static_cast<double>(r.y(i));
  CHECK_MESSAGE(bits_of(got) == bits_of(expected), what, " element ", i, ": ", got, " for ",
                expected);
}
void same(const Run& r, std::size_t i, float expected, std::string_view what) {
  CHECK_MESSAGE(bits_of(r.y(i)) == bits_of(expected), what, " element ", i, ": ", r.y(i), " for ",
                expected);
}

const Number kEps = static_cast<double>(1e-5F);

struct Moments {
  Number mean, variance;
};
Moments moments(const Run& r, std::int64_t first, std::int64_t n) {
  Number sum, squares;
  for (std::int64_t k = 0; k < n; ++k) sum = sum + r.x(0, first + k);
  const Number mean = sum / static_cast<double>(n);
  for (std::int64_t k = 0; k < n; ++k) {
    const Number d = Number(r.x(0, first + k)) - mean;
    squares = squares + d * d;
  }
  return {mean, squares / static_cast<double>(n)};
}

}  // namespace

TEST_CASE("normalisation: exact equals the formula at 3000 bits") {
  Run r = run("a | batch_norm | | f32[2,3,9]:wild f32[3] f32[3] f32[3] f32[3]:positive", "exact");
  for (std::size_t i = 0; i < 54; ++i) {
    const auto c = static_cast<std::int64_t>(i / 9 % 3);
    same(r, i,
         (Number(r.x(0, static_cast<std::int64_t>(i))) - r.x(3, c)) /
                 sqrt(Number(r.x(4, c)) + kEps) * r.x(1, c) +
             r.x(2, c),
         "batch_norm");
  }
  r = run("b | layer_norm | | f32[4,33]:wild f32[33] f32[33]", "exact");
  for (std::size_t i = 0; i < 132; ++i) {
    const auto at = static_cast<std::int64_t>(i);
    const Moments m = moments(r, at / 33 * 33, 33);
    same(
        r, i,
        (Number(r.x(0, at)) - m.mean) / sqrt(m.variance + kEps) * r.x(1, at % 33) + r.x(2, at % 33),
        "layer_norm");
  }
  r = run("c | group_norm | groups=2 | f32[2,4,5] f32[4] f32[4]", "exact");
  for (std::size_t i = 0; i < 40; ++i) {
    const auto at = static_cast<std::int64_t>(i);
    const Moments m = moments(r, at / 10 * 10, 10);
    same(r, i,
         (Number(r.x(0, at)) - m.mean) / sqrt(m.variance + kEps) * r.x(1, at / 5 % 4) +
             r.x(2, at / 5 % 4),
         "group_norm");
  }
  r = run("d | mean_variance_normalization | axes=[1] | f32[3,17]", "exact");
  for (std::size_t i = 0; i < 51; ++i) {
    const auto at = static_cast<std::int64_t>(i);
    const Moments m = moments(r, at / 17 * 17, 17);
    same(r, i, (Number(r.x(0, at)) - m.mean) / (sqrt(m.variance) + static_cast<double>(1e-9F)),
         "mvn");
  }
  r = run("e | rms_norm | | f32[3,17]:wild f32[17]", "exact");
  for (std::size_t i = 0; i < 51; ++i) {
    const auto at = static_cast<std::int64_t>(i);
    Number q;
    for (std::int64_t k = at / 17 * 17; k < at / 17 * 17 + 17; ++k)
      q = q + Number(r.x(0, k)) * r.x(0, k);
    same(r, i, Number(r.x(0, at)) / sqrt(q / 17 + kEps) * r.x(1, at % 17), "rms_norm");
  }
  for (const char* beta : {"0.75", "0.5", "1", "0.6"}) {
    r = run(fmt::format("f | lrn | size=3 alpha=0.1 beta={} bias=2 | f32[1,5,4]:wide", beta),
            "exact");
    const float b = std::strtof(beta, nullptr);
    for (std::int64_t i = 0; i < 20; ++i) {
      Number s;
      for (std::int64_t c = i / 4 - 1; c <= i / 4 + 1; ++c)
        if (c >= 0 && c < 5) s = s + Number(r.x(0, c * 4 + i % 4)) * r.x(0, c * 4 + i % 4);
      same(r, static_cast<std::size_t>(i),
           Number(r.x(0, i)) /
               pow(Number(static_cast<double>(0.1F)) / 3 * s + 2, static_cast<double>(b)),
           "lrn");
    }
  }
  for (const char* p : {"1", "2", "3"}) {
    r = run(fmt::format("g | lp_norm | p={} | f32[3,7]", p), "exact");
    for (std::int64_t i = 0; i < 21; ++i) {
      Number s;
      for (std::int64_t k = i / 7 * 7; k < i / 7 * 7 + 7; ++k)
        s = s + pow(abs(Number(r.x(0, k))), std::strtod(p, nullptr));
      same(r, static_cast<std::size_t>(i),
           Number(r.x(0, i)) / pow(s, Number(1) / std::strtod(p, nullptr)), "lp_norm");
    }
  }
}

TEST_CASE("softmax: exact equals the formula at 3000 bits") {
  for (const char* op : {"softmax", "log_softmax"}) {
    const Run r = run(fmt::format("a | {} | | f32[4,19]:wide", op), "exact");
    for (std::int64_t i = 0; i < 76; ++i) {
      Number s;
      for (std::int64_t k = i / 19 * 19; k < i / 19 * 19 + 19; ++k) s = s + exp(r.x(0, k));
      const Number real = op[0] == 's' ? exp(r.x(0, i)) / s : Number(r.x(0, i)) - log(s);
      same(r, static_cast<std::size_t>(i), real, op);
    }
  }
}

TEST_CASE("softmax: directed modes decide what only approaches its limit") {
  const char* far = "a | softmax | | f32[2]=0,-1e30";
  CHECK(run(far, "exact,round=rd").y(0) == 0x1.fffffep-1F);
  CHECK(run(far, "exact,round=ru").y(0) == 1);
  CHECK(run(far, "exact,round=ru").y(1) == 0x1p-149F);
  // x - max is midway between two floats: the other element, 2^-20000000, says which way.
  const char* tie = "a | log_softmax | | f32[2]=0.5,-16777215";
  CHECK(run(tie, "exact").y(1) == -16777216.0F);
  CHECK(run(tie, "exact,round=rz").y(1) == -16777215.0F);
  CHECK(run(tie, "exact,round=rd").y(0) == -0x1p-149F);
}

// Results that lie exactly midway between two floats. A ball around them never shrinks away: only
// an exact root and quotient can tell. One per formula.
TEST_CASE("normalisation: algebraic ties are decided") {
  // (5m): 3m, 4m with m of 24 bits and 5m of 26, midway.
  Run r = run("a | lp_pool | kernel=[2] strides=[2] | f32[1,1,4]=0x1.800003p23,0x1.000002p24,3,4",
              "exact");
  CHECK(r.y(1) == 5);
  // Five elements a,a,a,a,a+5t: (x-mean)/std = -1/2, 2; 2 + 2^-23 is midway between two floats.
  r =
      run("b | layer_norm | eps=0 | f32[1,5]=1,1,1,1,6 f32[5]=1,1,1,1,1 "
          "f32[5]=0x1p-26,0x1p-25,0,0,0x1p-23",
          "exact");
  CHECK(r.y(0) == -0.5F);
  CHECK(bits_of(r.y(4)) == bits_of(2.0F));
  r = run("b | layer_norm | eps=0 | f32[1,5]=1,1,1,1,6 f32[5]=1,1,1,1,1 f32[5]=0,0,0,0,0x1.8p-22",
          "exact");
  CHECK(bits_of(r.y(4)) == bits_of(0x1.000004p1F));
  // x/3 * 3 is x itself; the bias makes it midway.
  r = run("c | batch_norm | eps=0 | f32[1,1,2]=1,2 f32[1]=3 f32[1]=0x1p-24 f32[1]=0 f32[1]=9",
          "exact");
  CHECK(bits_of(r.y(0)) == bits_of(1.0F));
  // 0.75: base 16, so x/8, midway among subnormals. alpha/size*s = 15 with x = 0 elsewhere.
  r = run("d | lrn | size=1 bias=16 alpha=0 | f32[1,1,2]=0x1.4p-146,0x1.cp-146", "exact");
  CHECK(bits_of(r.y(0)) == bits_of(0x1p-149F));
  CHECK(bits_of(r.y(1)) == bits_of(0x1p-148F));
}

TEST_CASE("normalisation: seq is the order that the header writes down") {
  Run r = run("a | layer_norm | statistics=true | f32[3,37]:wild f32[37] f32[37]", "seq");
  for (std::size_t row = 0; row < 3; ++row) {
    float sum = 0, squares = 0;
    for (std::size_t k = 0; k < 37; ++k) sum += r.f(0, row * 37 + k);
    const float mean = sum / 37;
    for (std::size_t k = 0; k < 37; ++k) {
      const float d = r.f(0, row * 37 + k) - mean;
      squares = std::fma(d, d, squares);
    }
    const float root = std::sqrt(squares / 37 + 1e-5F);
    for (std::size_t k = 0; k < 37; ++k)
      same(r, row * 37 + k, std::fma((r.f(0, row * 37 + k) - mean) / root, r.f(1, k), r.f(2, k)),
           "layer_norm");
    CHECK(r.out[1].data<float>()[row] == mean);
    CHECK(r.out[2].data<float>()[row] == 1 / root);
  }
  r = run("b | batch_norm | | f32[2,3,5]:wild f32[3] f32[3] f32[3] f32[3]:positive", "seq");
  for (std::size_t i = 0; i < 30; ++i) {
    const std::size_t c = i / 5 % 3;
    same(r, i, std::fma(r.f(0, i) - r.f(3, c), r.f(1, c) / std::sqrt(r.f(4, c) + 1e-5F), r.f(2, c)),
         "batch_norm");
  }
  r = run("c | softmax | | f32[3,21]:wide", "seq");
  for (std::size_t row = 0; row < 3; ++row) {
    float m = r.f(0, row * 21), sum = 0;
    for (std::size_t k = 0; k < 21; ++k) m = std::max(m, r.f(0, row * 21 + k));
    const auto e = [&](std::size_t k) {
      return correctly_rounded_f32(Function::exp, r.f(0, row * 21 + k) - m);
    };
    for (std::size_t k = 0; k < 21; ++k) sum += e(k);
    for (std::size_t k = 0; k < 21; ++k) same(r, row * 21 + k, e(k) / sum, "softmax");
  }
  r = run("d | lrn | size=3 alpha=0.5 | f32[1,7,2]:wide", "seq");
  for (std::size_t i = 0; i < 14; ++i) {
    float s = 0;
    for (std::size_t c = i / 2 == 0 ? 0 : i / 2 - 1; c <= i / 2 + 1 && c < 7; ++c)
      s = std::fma(r.f(0, c * 2 + i % 2), r.f(0, c * 2 + i % 2), s);
    const float base = std::fma(0.5F / 3, s, 1.0F);
    const double power = pow(Number(static_cast<double>(base)), 0.75).rounded(DType::f32);
    same(r, i, r.f(0, i) / static_cast<float>(power), "lrn");
  }
}

TEST_CASE("normalisation: special values and refusals") {
  for (const char* contract : {"seq", "exact"}) {
    Run r = run("a | layer_norm | eps=0 | f32[2,3]=3,3,3,1,inf,3", contract);
    for (std::size_t i = 0; i < 6; ++i) CHECK(std::isnan(r.y(i)));
    r = run("a | lp_norm | | f32[2,2]=0,-0,-3,4", contract);
    same(r, 0, 0.0F, "lp_norm");
    same(r, 1, -0.0F, "lp_norm");
    same(r, 2, -0.6F, "lp_norm");
    r = run("a | softmax | | f32[4,2]=-inf,0,-inf,-inf,inf,0,nan,1", contract);
    same(r, 0, 0.0F, "softmax");
    same(r, 1, 1.0F, "softmax");
    for (std::size_t i = 2; i < 8; ++i) CHECK(std::isnan(r.y(i)));
    r = run("a | log_softmax | | f32[1,2]=-inf,0", contract);
    same(r, 0, -static_cast<float>(kInfinity), "log_softmax");
    same(r, 1, 0.0F, "log_softmax");
    r = run("a | hardmax | | f32[2,3]=1,5,5,-0,0,nan", contract);
    for (std::size_t i = 0; i < 6; ++i) CHECK(r.y(i) == (i == 1 || i == 5 ? 1.0F : 0.0F));
    CHECK(run("a | softmax | | f32[2,0]", contract).out[0].numel() == 0);
  }
  for (const auto& [line, says] :
       {std::pair{"a | batch_norm | | f32[1,3,2] f32[3] f32[2] f32[3] f32[3]", "bias must be [3]"},
        {"a | layer_norm | axis=4 | f32[1,3]", "4"},
        {"a | layer_norm | | f32[2,3] f32[4]", "[4] and [2,3] do not broadcast"},
        {"a | group_norm | groups=2 | f32[1,3,2]", "2 groups do not divide"},
        {"a | lp_norm | p=0 | f32[2]", "p must be positive"},
        {"a | lp_norm | axes=[0,-1] | f32[2]", "named twice"},
        {"a | lrn | size=0 | f32[1,2,3]", "size"},
        {"a | softmax | | i32[2]:0..1", "floating"},
        {"a | softmax | | f32[]", "at least one axis"}})
    CHECK_THROWS_WITH_AS(run(line, "seq"), doctest::Contains(says), Error);
}
