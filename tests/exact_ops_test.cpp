// Claim: under `exact` every summing op returns its real-valued formula rounded once, whatever the
// data: exact ties and numbers next to ties, total cancellation, magnitudes 2^+-126 mixed, equal
// elements, one-hot, small integers, what a ReLU leaves; in four rounding modes and every stored
// format. The oracle is the textbook's formula in MPFR at 3000 bits (mpfr_number.h), rounded by
// MPFR.
#include <doctest/doctest.h>

#include <cmath>
#include <functional>

#include "engine/graph/executor.h"
#include "engine/numerics/element.h"
#include "kernels/kernels.h"
#include "tests/hostile_rows.h"
#include "tests/mpfr_number.h"
#include "tests/op_cases.h"

using namespace etalon;

namespace {

using Row = std::vector<Number>;
Number sum_of(const Row& x) {
  Number s;
  for (const Number& v : x) s = s + v;
  return s;
}
Number number_of(std::int64_t n) { return {static_cast<double>(n)}; }
Number log1p(const Number& a) { return Number::unary(mpfr_log1p, a); }

// What an op makes of one row.
using Formula = std::function<Row(const Row&)>;
struct Claim {
  const char* op;
  const char* params;
  Formula formula;
};

Row centred(const Row& x) {
  const Number mean = sum_of(x) / number_of(static_cast<std::int64_t>(x.size()));
  Row d;
  for (const Number& v : x) d.push_back(v - mean);
  return d;
}
Number squares(const Row& x) {
  Number s;
  for (const Number& v : x) s = s + v * v;
  return s;
}
Row over(const Row& x, const Number& divisor) {
  Row y;
  for (const Number& v : x) y.push_back(v / divisor);
  return y;
}
Number count_of(const Row& x) { return number_of(static_cast<std::int64_t>(x.size())); }

// Far below what any format can tell from zero, e^-1200 stands for e^d: beside 2^128 it needs 1860
// of the 3000 bits.
Number far_exp(const Number& d) { return exp(d < Number(-1200.0) ? Number(-1200.0) : d); }
Number largest_of(const Row& x) {
  Number m = x[0];
  for (const Number& v : x)
    if (m < v) m = v;
  return m;
}
// log(sum of exp(x - m)) without losing terms far below 1.
Number log_rest(const Row& x, const Number& m) {
  Number rest;
  bool seen = false;
  for (const Number& v : x) {
    if (!seen && !(v < m))
      seen = true;
    else
      rest = rest + far_exp(v - m);
  }
  return log1p(rest);
}

const std::vector<Claim>& claims() {
  static const std::vector<Claim> all = {
      {"reduce_sum", "axes=[1]", [](const Row& x) { return Row{sum_of(x)}; }},
      {"reduce_mean", "axes=[1]", [](const Row& x) { return Row{sum_of(x) / count_of(x)}; }},
      {"reduce_l1", "axes=[1]",
       [](const Row& x) {
         Number s;
         for (const Number& v : x) s = s + abs(v);
         return Row{s};
       }},
      {"reduce_l2", "axes=[1]", [](const Row& x) { return Row{sqrt(squares(x))}; }},
      {"reduce_sum_square", "axes=[1]", [](const Row& x) { return Row{squares(x)}; }},
      {"reduce_prod", "axes=[1]",
       [](const Row& x) {
         Number p(1);
         for (const Number& v : x) p = p * v;
         return Row{p};
       }},
      {"reduce_log_sum", "axes=[1]", [](const Row& x) { return Row{log(sum_of(x))}; }},
      {"reduce_log_sum_exp", "axes=[1]",
       [](const Row& x) {
         const Number m = largest_of(x);
         return Row{m + log_rest(x, m)};
       }},
      {"softmax", "",
       [](const Row& x) {
         const Number m = largest_of(x);
         Number s;
         for (const Number& v : x) s = s + far_exp(v - m);
         Row y;
         for (const Number& v : x) y.push_back(far_exp(v - m) / s);
         return y;
       }},
      {"log_softmax", "",
       [](const Row& x) {
         const Number m = largest_of(x), rest = log_rest(x, m);
         Row y;
         for (const Number& v : x) y.push_back((v - m) - rest);
         return y;
       }},
      {"layer_norm", "",
       [](const Row& x) {
         const Row d = centred(x);
         return over(d, sqrt(squares(d) / count_of(x) + Number(static_cast<double>(1e-5F))));
       }},
      {"rms_norm", "eps=0", [](const Row& x) { return over(x, sqrt(squares(x) / count_of(x))); }},
      {"mean_variance_normalization", "axes=[1]",
       [](const Row& x) {
         const Row d = centred(x);
         return over(d, sqrt(squares(d) / count_of(x)) + Number(static_cast<double>(1e-9F)));
       }},
      {"lp_norm", "p=2 axes=[1]", [](const Row& x) { return over(x, sqrt(squares(x))); }},
      {"lp_norm", "p=1 axes=[1]",
       [](const Row& x) {
         Number s;
         for (const Number& v : x) s = s + abs(v);
         return over(x, s);
       }},
  };
  return all;
}

bool all_zero(const std::vector<float>& x) {
  for (const float v : x)
    if (v != 0) return false;
  return true;
}

// Compares one row of one claim in one format and mode; false where the oracle says nothing.
bool compare(const Claim& claim, const std::vector<float>& x, DType store, Round mode) {
  const auto n = static_cast<std::int64_t>(x.size());
  Row numbers;
  for (const float v : x) numbers.emplace_back(static_cast<double>(v));
  const Row want = claim.formula(numbers);
  const Tensor t = Tensor::of<float>({1, n}, std::span<const float>(x));
  const OpCase c = parse_op_case(fmt::format("c | {} | {} | f32[1,{}]", claim.op, claim.params, n));
  const std::string contract = fmt::format("exact,store={},round={}", name(store), to_string(mode));
  const Tensor* in[] = {&t};
  const OpRun run =
      run_op(*c.op, c.params, in, all_kernels(), {.contract = Contract::parse(contract)});
  const Tensor& y = run.outputs[0];
  REQUIRE(y.numel() == static_cast<std::int64_t>(want.size()));
  bool spoken = false;
  for (std::size_t i = 0; i < want.size(); ++i) {
    const double expected = want[i].rounded(store, mode);
    const double got = load_as_double(y, static_cast<std::int64_t>(i));
    if (want[i].is_zero()) {  // its sign is the op's business, tested elsewhere
      CHECK(got == 0);
      continue;
    }
    spoken = true;
    CHECK_MESSAGE(bits_of(got) == bits_of(expected), std::string(claim.op), " ",
                  std::string(claim.params), " ", contract, " n=", n, " element ", i, " first ",
                  x[0]);
  }
  return spoken;
}

}  // namespace

namespace {

// Every claim on every kind of row, four modes and three formats, two rows of each length 1, 2, 7
// and 30; or, with a share of 4, of one length, another for the next kind and for the next claim.
void compare_hostile(int share, int least) {
  int claim_number = 0;
  for (const Claim& claim : claims()) {
    int cases = 0, turn = claim_number++;
    for (const Hostile kind : kHostile) {
      ++turn;
      for (const std::int64_t n : {1, 2, 7, 30}) {
        if (turn++ % share != 0) continue;
        for (std::uint64_t seed = 0; seed < 2; ++seed) {
          const std::vector<float> x = hostile_row(kind, n, seed);
          // A norm of zeros is a written exception; the logarithm of a negative sum is NaN.
          if (all_zero(x)) continue;
          const bool log_sum = std::string_view(claim.op) == "reduce_log_sum";
          if (log_sum && (kind != Hostile::equal && kind != Hostile::relu &&
                          kind != Hostile::one_hot && kind != Hostile::midpoints))
            continue;
          for (const Round mode : kRounds) cases += compare(claim, x, DType::f32, mode) ? 1 : 0;
          for (const DType store : {DType::bf16, DType::f16})
            cases += compare(claim, x, store, Round::nearest_even) ? 1 : 0;
        }
      }
    }
    CHECK_MESSAGE(cases >= least, std::string(claim.op), ": ", cases, " cases");
  }
}

}  // namespace

TEST_CASE("exact ops: hostile rows against MPFR, four modes, every stored format") {
  compare_hostile(4, 20);
}

TEST_SUITE("long") {
  TEST_CASE("exact ops: hostile rows of every length against MPFR") { compare_hostile(1, 50); }
}

namespace {

Tensor run_line(const std::string& line, const char* contract = "exact") {
  const OpCase c = parse_op_case(line);
  const std::vector<Tensor> in = case_inputs(c);
  const auto p = pointers(in);
  OpRun run = run_op(*c.op, c.params, p, all_kernels(), {.contract = Contract::parse(contract)});
  return std::move(run.outputs[0]);
}
double first(const std::string& line, const char* contract = "exact") {
  return load_as_double(run_line(line, contract), 0);
}

}  // namespace

TEST_CASE("exact ops: algebraic ties end, in the neighbourhood too") {
  // 27 elements of 2 and p = 3/2: 2 * 27^(2/3) = 18; of m = 2^20 + 1: 9 m has 24 bits, of 3 m' 25.
  std::string twos, odd;
  for (int i = 0; i < 27; ++i) {
    twos += i == 0 ? "2" : ",2";
    odd += i == 0 ? "1864137" : ",1864137";  // 9 * 1864137 = 16777233, midway between two floats
  }
  CHECK(first("p | global_lp_pool | p=1.5 | f32[1,1,27]=" + twos) == 18);
  CHECK(first("p | global_lp_pool | p=1.5 | f32[1,1,27]=" + twos, "exact,round=ru") == 18);
  CHECK(first("p | global_lp_pool | p=1.5 | f32[1,1,27]=" + odd) == 16777232);
  CHECK(first("p | global_lp_pool | p=1.5 | f32[1,1,27]=" + odd, "exact,round=ru") == 16777234);
  // 1/4 of the norm's inverse: the quotient 2 / 18 is none, but of 27 nines (norm 81) it is 1/9.
  CHECK(first("p | lp_norm | p=1.5 axes=[0] | f32[27]=" + twos) == static_cast<double>(1.0F / 9));
  // LRN: x / (1 + x^2)^beta with x^2 = 15: 16^beta is a power of two, and x itself keeps its bits
  // in f32; stored as bf16 the quotient is a tie. beta = 1/4, 1/2, 3/4, 1, 3/2, 2.
  for (const double beta : {0.25, 0.5, 0.75, 1.0, 1.5, 2.0}) {
    const std::string params =
        fmt::format("size=1 alpha=15 bias=1 beta={} alpha_divided=false", beta);
    // s = x^2 with x = 1: base 16.
    CHECK(first("l | lrn | " + params + " | f32[1,1,1]=1") == std::pow(16.0, -beta));
    CHECK(first("l | lrn | " + params + " | f32[1,1,1]=1", "exact,round=ru") ==
          std::pow(16.0, -beta));
    // alpha = 0: the base is 1, and x = 1 + 2^-8 is midway between two bf16.
    const std::string flat = fmt::format("size=1 alpha=0 bias=1 beta={}", beta);
    CHECK(first("l | lrn | " + flat + " | f32[1,1,1]=0x1.01p+0", "exact,store=bf16") == 1);
    CHECK(first("l | lrn | " + flat + " | f32[1,1,1]=0x1.03p+0", "exact,store=bf16") == 0x1.04p+0);
  }
  // log-sum-exp of elements so far below the largest that no exponent holds them.
  CHECK(first("s | reduce_log_sum_exp | | f32[3]=0x1.01p+0,-1e30,-3e38", "exact,store=bf16") ==
        0x1.02p+0);
  CHECK(first("s | reduce_log_sum_exp | | f32[2]=1,-1e30", "exact,round=ru") == 1 + 0x1p-23);
  CHECK(first("s | reduce_log_sum_exp | | f32[2]=1,-1e30", "exact,round=rd") == 1);
  CHECK(first("s | reduce_log_sum_exp | | f32[1]=0x1.01p+0", "exact,store=bf16") == 1);
  // A product in which every partial product over- or underflows, exactly on a midpoint:
  // 2^100 * 2^100 * 2^-126 * 2^-74 * 1.00000012 * ... = 4097 * 4097 needs 25 bits.
  CHECK(first("r | reduce_prod | | f32[6]=0x1p+100,0x1p+100,0x1p-126,0x1p-74,4097,4097") ==
        16785408);
  CHECK(first("r | reduce_prod | | f32[6]=0x1p+100,0x1p+100,0x1p-126,0x1p-74,4097,4097",
              "exact,round=ru") == 16785410);
}

TEST_CASE("exact ops: losses of equal rows with weights of both signs cancel exactly") {
  const std::string op = "c | softmax_cross_entropy | reduction=sum | ";
  for (const char* mode : {"exact", "exact,round=ru", "exact,round=rz"}) {
    CHECK(first(op + "f32[2,2]=1,0.25,0.25,1 i64[2]=0,1 f32[2]=1,-1", mode) == 0);
    // The same distances, moved and in another order; a third row is left.
    CHECK(first(op + "f32[3,3]=1,0.25,-2,3,3.75,0.75,0,0,5 i64[3]=0,1,2 f32[3]=1,-1,0x1p-20",
                mode) == first(op + "f32[1,3]=0,0,5 i64[1]=2 f32[3]=1,-1,0x1p-20", mode));
  }
  // One row of the two: a number like any other.
  CHECK(first(op + "f32[1,2]=1,0.25 i64[1]=0 f32[2]=1,-1") ==
        static_cast<double>(static_cast<float>(std::log1p(std::exp(-0.75)))));
}

TEST_CASE("exact ops: what 2304 bits do not decide is refused by name, never guessed") {
  // 2 log(1 + e) - log(1 + 2 e + e^2) is zero, but no precision shows it.
  const std::string cancels =
      "c | softmax_cross_entropy | reduction=sum | "
      "f32[3,4]=0,1,-inf,-inf,0,1,-inf,-inf,1,0,1,2 i64[3]=0,0,1 f32[4]=1,-1,1,1";
  CHECK_THROWS_WITH_AS(run_line(cancels),
                       doctest::Contains("softmax_cross_entropy: the rounding of"), Error);
}

TEST_CASE("exact ops: p-norms of one element, or of one that outweighs the others") {
  // f32(2.7) is no n / 2^s of few bits: the norm of one element is that element nevertheless.
  for (const char* mode : {"exact", "exact,round=ru", "exact,round=rd"})
    for (const char* eps : {"", " eps=1e-12", " eps=1e-12 eps_in=sum_max"})
      CHECK(first(std::string("n | lp_norm | p=2.7 axes=[0]") + eps + " | f32[2]=-3,0", mode) ==
            -1);
  CHECK(first("n | lp_norm | p=2.7 axes=[0] eps=4 | f32[2]=3,0", "exact,round=ru") == 0.75);

  // (3^p + 1)^(1/p) exceeds 3 by less than 2^-3000 of it: only the side is seen.
  const auto pool = [](const char* p, const char* x, const char* mode) {
    return first(std::string("p | global_lp_pool | p=") + p + " | f32[1,1,3]=" + x, mode);
  };
  for (const char* p : {"2000", "2000.7", "3e38"}) {
    CHECK(pool(p, "1,3,-1", "exact") == 3);
    CHECK(pool(p, "1,3,-1", "exact,round=rd") == 3);
    CHECK(pool(p, "1,3,-1", "exact,round=ru") == 3 + 0x1p-22);
    const std::string norm = std::string("n | lp_norm | p=") + p + " axes=[0] | f32[3]=3,1,-1.5";
    CHECK(first(norm, "exact") == 1);
    CHECK(first(norm, "exact,round=ru") == 1);
    CHECK(first(norm, "exact,round=rd") == 1 - 0x1p-24);
    const Tensor y = run_line(norm, "exact,round=ru");  // -1.5 / 3 lies above -0.5
    CHECK(load_as_double(y, 2) == -0.5 + 0x1p-25);
    CHECK(load_as_double(run_line(norm, "exact,round=rd"), 2) == -0.5);
  }
  // The largest below it by 2^-23, and p so large that its power is gone; one such p is not enough.
  CHECK(pool("1e12", "0x1.000002p0,1,0", "exact,round=ru") == 1 + 0x1p-22);
  CHECK(pool("1e9", "0x1.000002p0,1,0", "exact") == 1 + 0x1p-23);
  // Twice the largest: 2^(1/p) times it, which no boundary is.
  CHECK(pool("2000", "3,3,1", "exact") ==
        static_cast<double>(static_cast<float>(3 * std::exp2(1.0 / 2000))));
}

TEST_CASE("exact ops: batch_norm and the affine norms on ties, against rationals") {
  // (x - mean) / sqrt(var + eps) * scale + bias with var + eps = 4: y = (x - 1) * 3 / 2 + b.
  const std::string statistics = " f32[1]=3 f32[1]=0x1p-24 f32[1]=1 f32[1]=4";
  // x - 1 = 2/3-ish is no float; x = 3: 3 + 2^-24 -> tie in f32? ulp(3) = 2^-22: below the tie.
  CHECK(first("b | batch_norm | eps=0 | f32[1,1]=3" + statistics) == 3);
  CHECK(first("b | batch_norm | eps=0 | f32[1,1]=3" + statistics, "exact,round=ru") == 3 + 0x1p-22);
  // y = 1/2 * 3/2 = 3/4 + 2^-25 (bias 2^-25): a tie between 3/4 and 3/4 + 2^-24 goes to even.
  const std::string half = " f32[1]=3 f32[1]=0x1p-25 f32[1]=1 f32[1]=4";
  CHECK(first("b | batch_norm | eps=0 | f32[1,1]=1.5" + half) == 0.75);
  CHECK(first("b | batch_norm | eps=0 | f32[1,1]=1.5" + half, "exact,round=ru") == 0.75 + 0x1p-24);
  // layer_norm of (-1, 1) with eps = 0 is (-1, 1): times scale, plus half an ulp.
  CHECK(first("l | layer_norm | eps=0 | f32[1,2]=1,-1 f32[2]=1,1 f32[2]=0x1p-24,0") == 1);
  CHECK(first("l | layer_norm | eps=0 | f32[1,2]=1,-1 f32[2]=1,1 f32[2]=0x1.8p-23,0") ==
        1 + 0x1p-22);
  CHECK(first("l | layer_norm | eps=0 | f32[1,2]=0x1p+127,-0x1p+127 f32[2]=1,1 f32[2]=0x1p-24,0") ==
        1);  // squares of 2^254 on the way
}

TEST_CASE("exact ops: resize asks the reals where r or a knot rounds in f64") {
  // c = -2^-60 would have r = 1 - 2^-60, which f64 rounds to 1: then x[0] = 0 alone would count.
  // Checked through the definition's own place: align_corners gives c = i (n-1)/(w-1), exact here;
  // a third lies between doubles, and 1 - r and r still add up to 1 exactly.
  CHECK(first("r | resize | mode=linear coordinate_transformation_mode=asymmetric sizes=[1,3] | "
              "f32[1,1]=0x1.fffffep+0") == 0x1.fffffep+0);
  const Tensor y = run_line(
      "r | resize | mode=linear coordinate_transformation_mode=align_corners sizes=[1,4] | "
      "f32[1,2]=0x1.fffffep+0,0x1.fffffep+0");
  for (int i = 0; i < 4; ++i) CHECK(load_as_double(y, i) == 0x1.fffffep+0);
  // Stretched by 3 with weights that sum to what they should: equal elements stay what they are.
  const Tensor z = run_line(
      "r | resize | mode=linear antialias=true sizes=[1,3] | "
      "f32[1,9]=0.1,0.1,0.1,0.1,0.1,0.1,0.1,0.1,0.1");
  for (int i = 0; i < 3; ++i) CHECK(load_as_double(z, i) == static_cast<double>(0.1F));
}
