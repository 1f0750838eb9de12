// Reductions, ordering, matmul: orders that the data can see, special values, exact sums against
// MPFR, refusals.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "engine/core/philox.h"
#include "engine/graph/executor.h"
#include "engine/numerics/element.h"
#include "engine/ops/reduce.h"
#include "kernels/kernels.h"
#include "tests/mpfr_oracle.h"
#include "tests/on_this_cpu.h"
#include "tests/op_cases.h"
#include "tests/same_bits.h"

using namespace etalon;

namespace {

std::vector<Tensor> run_all(std::string_view line, const char* contract = "seq", int threads = 1) {
  const OpCase c = parse_op_case(line);
  const std::vector<Tensor> in = case_inputs(c);
  const auto p = pointers(in);
  return run_op(*c.op, c.params, p, all_kernels(),
                {.contract = Contract::parse(contract), .threads = threads})
      .outputs;
}
Tensor run(std::string_view line, const char* contract = "seq", int threads = 1) {
  return std::move(run_all(line, contract, threads)[0]);
}
using test::equal_bits;
using test::same_bits;
std::vector<std::int64_t> indices(const Tensor& t) { return to_int64_values(t); }
using C = std::vector<std::int64_t>;
constexpr double kInf = kInfinity;

// f over MPFR numbers of 2600 bits, in which sums of f32 products are exact; rounded once to f32.
template <class F>
double exactly(F&& f) {
  Mpfr value(2600);
  f(value.v);
  return mpfr_rounded(DType::f32, Round::nearest_even,
                      [&](mpfr_t r, mpfr_rnd_t mode) { return mpfr_set(r, value.v, mode); });
}

}  // namespace

TEST_CASE("reduce: shapes of axes, keepdims, none, by input") {
  CHECK(run("a | reduce_sum | axes=[1,-1] | f32[2,3,4,5]").shape() == Shape{2, 1, 4, 1});
  CHECK(run("a | reduce_sum | axes=[1,-1] keepdims=false | f32[2,3,4,5]").shape() == Shape{2, 4});
  CHECK(run("a | reduce_sum | keepdims=false | f32[2,3]").shape() == Shape{});
  CHECK(run("a | reduce_sum | | f32[2,3] i64[0]").shape() == Shape{1, 1});
  CHECK(run("a | reduce_sum | noop_with_empty_axes=true | f32[2,3] i64[0]").shape() == Shape{2, 3});
  CHECK(run("a | reduce_l1 | noop_with_empty_axes=true | f32[1]=-3").data<float>()[0] == 3.0F);
  for (const auto& [line, says] :
       {std::pair{"a | reduce_sum | axes=[2] | f32[2,3]", "axis 2 is outside"},
        {"a | reduce_sum | axes=[0,-2] | f32[2,3]", "named twice"},
        {"a | reduce_sum | | bool[2]:0..1", "cast to an integer"},
        {"a | reduce_l2 | | i32[2]:0..1", "floating"},
        {"a | arg_max | axis=1 | f32[2,0]", "is empty"},
        {"a | top_k | k=4 | f32[2,3]", "k is 4"},
        {"a | cum_sum | axis=3 | f32[2,3]", "axis 3 is outside"},
        {"a | matmul | | f32[2,3] f32[2,3]", "sums over 3 elements"},
        {"a | matmul | | f32[] f32[2,3]", "rank 1 or more"},
        {"a | matmul | | f32[2,2,3] f32[3,3,2]", "do not broadcast"},
        {"a | matmul | | f32[2,3] f16[3,2]", "cast one"}})
    CHECK_THROWS_WITH_AS(run(line), doctest::Contains(says), Error);
}

// Rows of negative numbers and zeros of both signs, so that most maxima are a zero whose sign is
// the first one's; some with a NaN, in the first vectors, the last ones and behind them.
TEST_CASE("reduce: largest and least by vectors: NaN wins, of equal zeros the first") {
  int compared = 0, signs[2] = {}, nans = 0;
  for (const std::int64_t n : {1, 15, 63, 64, 65, 200, 256, 257, 1000})
    for (const int form : {0, 1, 2}) {
      Tensor x = Tensor::uninitialized(DType::f32, {3, 7, n});
      const Philox random{static_cast<std::uint64_t>(n), static_cast<std::uint64_t>(form)};
      std::uint64_t i = 0;
      for (float& v : x.mutable_data<float>()) {
        const std::uint32_t kind = random.word(i++) % 64;
        v = kind == 0 ? 0.0F : kind == 1 ? -0.0F : -1 - random.uniform(i);
        if (form == 1 && kind == 2) v = -INFINITY;
      }
      if (form == 2)
        for (std::int64_t r = 0; r < 21; r += 2)
          x.mutable_data<float>()[static_cast<std::size_t>(r * n + r * (n - 1) / 20)] = NAN;
      for (const char* op : {"reduce_max", "reduce_min", "global_max_pool"})
        for (const Ints& axes : {Ints{2}, Ints{0, 2}, Ints{1, 2}}) {
          const bool pool = std::string_view(op) == "global_max_pool";
          if (pool && axes.size() > 1) continue;
          Tensor in = Tensor::uninitialized(DType::f32, x.shape());
          for (std::size_t k = 0; k < in.data<float>().size(); ++k)
            in.mutable_data<float>()[k] =
                std::string_view(op) == "reduce_min" ? -x.data<float>()[k] : x.data<float>()[k];
          const Tensor* const given[] = {&in};
          const Params params = pool ? Params() : Params(ReduceParams{.axes = axes});
          const auto with = [&](std::string_view kernel, int threads) {
            return std::move(run_op(get_op(op), params, given, all_kernels(),
                                    {.threads = threads, .kernels = std::string(kernel)})
                                 .outputs[0]);
          };
          const Tensor want = with(std::string(op) + ".definition", 1);
          for (const float v : want.data<float>()) {
            nans += v != v;
            if (v == 0) ++signs[std::signbit(v)];
          }
          for (const KernelRow* row : all_kernels().rows_of(op)) {
            if (row->name.find(".f32") == std::string_view::npos || !test::on_this_cpu(*row))
              continue;
            for (const int threads : {1, 3}) {
              const Tensor got = with(row->name, threads);
              CHECK_MESSAGE(
                  std::memcmp(got.bytes().data(), want.bytes().data(), want.size_bytes()) == 0,
                  std::string(row->name), " ", n, " ", form);
              ++compared;
            }
          }
        }
    }
  CHECK(compared >= 9 * 3 * 7 * 2);
  CHECK((signs[0] > 100 && signs[1] > 100 && nans > 100));
}

TEST_CASE("reduce: each order gives its own bits, threads none") {
  const char* line = "r | reduce_sum | axes=[1,3] | f32[3,17,4,23]:wild";
  const Hash128 seq = hash_tensor(run(line));
  for (const char* other : {"order=lanes:8", "order=lanes:64", "order=pairwise:16",
                            "order=blocks:100", "acc=f64", "round=rz", "exact"})
    CHECK_MESSAGE(hash_tensor(run(line, other)) != seq, std::string(other));
  for (const int threads : {2, 3, 7}) {
    CHECK(hash_tensor(run(line, "seq", threads)) == seq);
    CHECK(hash_tensor(run(line, "order=lanes:64", threads)) ==
          hash_tensor(run(line, "order=lanes:64")));
  }
  // k runs row-major over the reduced axes: 2^24 first, then ones, of which each is lost.
  same_bits(run("a | reduce_sum | axes=[0,2] | f32[2,1,2]=16777216,1,1,1"), {16777216});
  same_bits(run("a | reduce_sum | axes=[0,2] | f32[2,1,2]=16777216,1,1,1", "order=lanes:2"),
            {16777218});
  same_bits(run("a | reduce_sum | axes=[0,2] | f32[2,1,2]=16777216,1,1,1", "exact"), {16777220});
  // A square enters its sum fused: the rounded square added is another number.
  const char* squares = "r | reduce_sum_square | axes=[1] | f32[9,20]:wild";
  CHECK(hash_tensor(run(squares)) != hash_tensor(run(squares, "fma=off")));
}

TEST_CASE("reduce: special values and empty sums") {
  same_bits(run("a | reduce_sum | axes=[1] | f32[5,2]=-0,-0,inf,-inf,nan,1,inf,1,-1,1"),
            {0, kNan, kNan, kInf, 0});
  same_bits(run("a | reduce_max | axes=[1] | f32[4,2]=-0,0,0,-0,nan,1,-inf,-inf"),
            {-0.0, 0, kNan, -kInf});
  same_bits(run("a | reduce_min | axes=[1] | f32[3,2]=0,-0,1,nan,inf,inf"), {0, kNan, kInf});
  const auto empty = [](const char* op) {
    return run(std::string("a | ") + op + " | axes=[1] | f32[1,0]");
  };
  same_bits(empty("reduce_sum"), {0});
  same_bits(empty("reduce_prod"), {1});
  same_bits(empty("reduce_mean"), {kNan});
  same_bits(empty("reduce_max"), {-kInf});
  same_bits(empty("reduce_min"), {kInf});
  same_bits(empty("reduce_log_sum"), {-kInf});
  same_bits(empty("reduce_log_sum_exp"), {-kInf});
  same_bits(run("a | reduce_log_sum | | f32[2]=-1,0"), {kNan});
  // No overflow: exp(1000) is beyond f32.
  for (const char* contract : {"seq", "exact"}) {
    same_bits(run("a | reduce_log_sum_exp | | f32[2]=1000,-1000", contract), {1000});
    same_bits(run("a | reduce_log_sum_exp | axes=[1] | f32[3,2]=inf,1,-inf,-inf,nan,1", contract),
              {kInf, -kInf, kNan});
  }
  same_bits(run("a | reduce_sum | | i8[3]=127,1,1"), {-127});
  same_bits(run("a | reduce_mean | | i8[3]=127,127,-128"), {42});
  same_bits(run("a | reduce_mean | | i32[2]=-3,0"), {-1});
  same_bits(run("a | reduce_l1 | | i8[2]=-128,-1"), {-127});
  same_bits(run("a | reduce_max | axes=[1] | bool[2,2]=0,1,0,0"), {1, 0});
  same_bits(run("a | reduce_max | axes=[1] | i16[1,0]"), {-32768});
}

TEST_CASE("reduce: exact is the real value rounded once (MPFR, hostile data)") {
  for (const char* data : {"wild", "finite", "noise"}) {
    const std::string tail = fmt::format(" | axes=[1] | f32[40,29]:{}", data);
    for (const std::string op :
         {"reduce_sum", "reduce_mean", "reduce_l1", "reduce_l2", "reduce_sum_square"}) {
      const std::string line = "x | " + op + tail;
      const OpCase c = parse_op_case(line);
      const Tensor x = case_input(c, 0), y = run(line, "exact");
      int wrong = 0;
      for (std::size_t r = 0; r < 40; ++r) {
        const double want = exactly([&](mpfr_t s) {
          Mpfr t(2600);
          for (std::size_t k = 0; k < 29; ++k) {
            mpfr_set_flt(t.v, x.data<float>()[r * 29 + k], MPFR_RNDN);
            if (op == "reduce_l1") mpfr_abs(t.v, t.v, MPFR_RNDN);
            if (op == "reduce_l2" || op == "reduce_sum_square") mpfr_sqr(t.v, t.v, MPFR_RNDN);
            mpfr_add(s, s, t.v, MPFR_RNDN);
          }
          if (op == "reduce_mean") mpfr_div_ui(s, s, 29, MPFR_RNDN);
          if (op == "reduce_l2") mpfr_sqrt(s, s, MPFR_RNDN);
        });
        wrong += bits_of(static_cast<float>(want)) == bits_of(y.data<float>()[r]) ? 0 : 1;
      }
      CHECK_MESSAGE(wrong == 0, line);
    }
  }
  // Algebraic ties: sqrt((3m)^2 + (4m)^2) = 5m with 5m a midpoint of f32.
  same_bits(run("a | reduce_l2 | | f32[2]=10066335,13421780", "exact"), {16777224});
}

TEST_CASE("cum_sum: the chain row equals the definition; the other orders have their own") {
  for (const char* params : {"axis=1", "axis=1 exclusive=true", "axis=0 reverse=true",
                             "axis=-1 reverse=true exclusive=true"}) {
    const OpCase c = parse_op_case(fmt::format("c | cum_sum | {} | f32[5,37,3]:wild", params));
    const Tensor x = case_input(c, 0);
    const Tensor* in[] = {&x};
    const auto by = [&](const char* row) {
      OpRun r = run_op(*c.op, c.params, in, all_kernels(),
                       {.contract = Contract::seq(), .threads = 2, .kernels = row});
      CHECK(r.kernel->name == row);
      return hash_tensor(r.outputs[0]);
    };
    CHECK(by("cum_sum.f32.chain") == by("cum_sum.definition"));
  }
  same_bits(run("a | cum_sum | axis=0 | f32[4]=16777216,1,1,-0"),
            {16777216, 16777216, 16777216, 16777216});
  same_bits(run("a | cum_sum | axis=0 | f32[3]=16777216,1,1", "exact"),
            {16777216, 16777216, 16777218});
  same_bits(run("a | cum_sum | exclusive=true | f32[3]=-0,nan,1"), {0, 0, kNan});
  same_bits(run("a | cum_sum | reverse=true | i8[3]=100,100,100"), {44, -56, 100});
}

TEST_CASE("arg_max, arg_min, top_k: NaN, ties, both zeros") {
  CHECK(indices(run(
            "a | arg_max | axis=1 | f32[4,4]=1,nan,nan,3,0,-0,0,-1,2,2,1,2,-inf,-inf,-inf,-inf")) ==
        C{1, 0, 0, 0});
  CHECK(indices(run("a | arg_max | axis=1 select_last_index=true | "
                    "f32[3,4]=1,nan,nan,3,0,-0,0,-1,2,2,1,2")) == C{2, 2, 3});
  CHECK(indices(run("a | arg_min | axis=1 | f32[2,3]=1,nan,0,0,-0,1")) == C{1, 0});
  CHECK(indices(run("a | arg_max | axis=0 keepdims=false | u8[3,2]=1,255,7,255,7,0")) == C{1, 0});
  auto top = run_all("a | top_k | k=4 | f32[6]=1,nan,0,-0,inf,1");
  same_bits(top[0], {kNan, kInf, 1, 1});
  CHECK(indices(top[1]) == C{1, 4, 0, 5});
  top = run_all("a | top_k | k=5 largest=false | f32[6]=1,nan,0,-0,-inf,1");
  same_bits(top[0], {-kInf, 0, -0.0, 1, 1});
  CHECK(indices(top[1]) == C{4, 2, 3, 0, 5});
  top = run_all("a | top_k | axis=0 | i32[3,2]=5,1,5,2,4,2 i64[1]=2");
  CHECK(indices(top[1]) == C{0, 1, 1, 2});
  CHECK(run_all("a | top_k | k=0 | f32[3]")[0].shape() == Shape{0});
}

TEST_CASE("matmul: shapes of numpy, the order of the contract, gemm's bits") {
  CHECK(run("a | matmul | | f32[3] f32[3]").shape() == Shape{});
  CHECK(run("a | matmul | | f32[3] f32[4,3,2]").shape() == Shape{4, 2});
  CHECK(run("a | matmul | | f32[5,1,2,3] f32[4,3,2]").shape() == Shape{5, 4, 2, 2});
  CHECK(run("a | matmul | | f32[2,3] f32[3]").shape() == Shape{2});
  CHECK(run("a | matmul | | f32[2,0] f32[0,3]").data<float>()[5] == 0.0F);
  CHECK(run("a | matmul | | f32[0,2] f32[2,3]").shape() == Shape{0, 3});
  same_bits(run("a | matmul | | i8[1,2]=100,100 i8[2,1]=3,4"), {-68});
  const std::string operands = " | | f32[7,129]:wild f32[129,5]:wild";
  for (const char* contract :
       {"seq", "order=lanes:8", "order=blocks:64", "fma=off", "exact", "acc=bf16", "round=ru"})
    CHECK_MESSAGE(hash_tensor(run("same | matmul" + operands, contract)) ==
                      hash_tensor(run("same | gemm" + operands, contract)),
                  std::string(contract));
  CHECK(hash_tensor(run("same | matmul" + operands)) !=
        hash_tensor(run("same | matmul" + operands, "order=lanes:8")));
  // Batches broadcast: each matrix alone gives the same bits.
  const OpCase c = parse_op_case("b | matmul | | f32[3,1,4,9]:wild f32[2,9,5]:wild");
  const Tensor a = case_input(c, 0), b = case_input(c, 1), all = run(c.line);
  for (std::int64_t i = 0; i < 6; ++i) {
    const auto part = [](const Tensor& t, std::int64_t at, Shape s) {
      return Tensor::of<float>(s, t.data<float>().subspan(static_cast<std::size_t>(at * s.numel()),
                                                          static_cast<std::size_t>(s.numel())));
    };
    const Tensor ai = part(a, i / 2, {4, 9}), bi = part(b, i % 2, {9, 5});
    const Tensor* in[] = {&ai, &bi};
    const OpRun one = run_op(get_op("matmul"), Params(), in, all_kernels(), {});
    CHECK(std::memcmp(one.outputs[0].bytes().data(),
                      all.bytes().data() + static_cast<std::size_t>(i) * 80, 80) == 0);
  }
}

// Rows in every number around one and two vectors of lanes, of lengths around a square of terms.
TEST_CASE("reductions: rows side by side have the definition's bits") {
  int compared = 0, parted = 0;
  for (const char* op :
       {"reduce_sum", "reduce_mean", "reduce_l1", "reduce_l2", "reduce_sum_square"})
    for (const int rows : {3, 8, 9, 16, 17, 31, 33, 70})
      for (const int length : {1, 5, 16, 37, 200})
        for (const char* data : {":wild", ":special"}) {
          const OpCase c = parse_op_case(
              fmt::format("r | {} | axes=[1] | f32[{},{}]{}", op, rows, length, data));
          const std::vector<Tensor> in = case_inputs(c);
          const auto p = pointers(in);
          const auto with = [&](std::string_view kernel, const char* contract, int threads) {
            OpRun run = run_op(*c.op, c.params, p, all_kernels(),
                               {.contract = Contract::parse(contract),
                                .threads = threads,
                                .kernels = std::string(kernel)});
            return std::move(run.outputs[0]);
          };
          const std::string definition = std::string(op) + ".definition";
          const Tensor want = with(definition, "seq", 1);
          parted += !equal_bits(with(definition, "order=lanes:2", 1), want);
          for (const KernelRow* row : all_kernels().rows_of(op)) {
            if (!row->name.starts_with(std::string(op) + ".f32.") || !test::on_this_cpu(*row) ||
                (row->isa == Isa::sse2 && c.op->name != "reduce_sum"))
              continue;
            CAPTURE(c.line);
            CAPTURE(row->name);
            for (const int threads : {1, 3})
              CHECK(equal_bits(with(row->name, "seq", threads), want));
            ++compared;
          }
        }
  CHECK(parted > 120);  // of 400, of which 80 have a single term, and special rows are often NaN
  if (detect_isa() >= Isa::avx2) CHECK(compared >= 400);
}
