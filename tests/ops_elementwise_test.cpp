// Elementwise ops: values, special values and refusals, by hand.
#include <doctest/doctest.h>

#include <cmath>

#include "engine/core/philox.h"
#include "engine/graph/executor.h"
#include "engine/numerics/element.h"
#include "kernels/kernels.h"
#include "tests/op_cases.h"
#include "tests/same_bits.h"

using namespace etalon;

namespace {

OpRun run_case(std::string_view line, const char* contract = "seq", bool truth = false) {
  const OpCase c = parse_op_case(line);
  const std::vector<Tensor> in = case_inputs(c);
  const auto p = pointers(in);
  return run_op(*c.op, c.params, p, all_kernels(), {.contract = Contract::parse(contract)}, truth);
}
Tensor run(std::string_view line, const char* contract = "seq") {
  return std::move(run_case(line, contract).outputs[0]);
}

using test::same_bits;
constexpr double kInf = kInfinity;

}  // namespace

TEST_CASE("integers wrap, divide toward zero, and never trap") {
  same_bits(run("a | add | | i8[3]=127,-128,100 i8[3]=1,-1,100"), {-128, 127, -56});
  same_bits(run("a | sub | | u8[2]=0,5 u8[2]=1,5"), {255, 0});
  same_bits(run("a | mul | | i32[2]=65536,-2147483648 i32[2]=65536,-1"), {0, -2147483648.0});
  same_bits(run("a | div | | i32[6]=7,-7,7,-7,5,-2147483648 i32[6]=2,2,-2,-2,0,-1"),
            {3, -3, -3, 3, 0, -2147483648.0});
  same_bits(run("a | mod | | i32[6]=7,-7,7,-7,5,-2147483648 i32[6]=3,3,-3,-3,0,-1"),
            {1, 2, -2, -1, 0, 0});
  same_bits(run("a | mod | fmod=true | i8[4]=7,-7,7,-7 i8[4]=3,3,-3,-3"), {1, -1, 1, -1});
  same_bits(run("a | pow | | i32[7]=2,3,0,-1,-1,2,0 i32[7]=31,0,0,-3,-4,-1,-2"),
            {-2147483648.0, 1, 1, -1, 1, 0, 0});
  same_bits(run("a | max | | i8[2]=-5,3 i8[]=0 i8[2]=-1,4"), {0, 4});
  same_bits(run("a | bit_shift | | u8[4]=255,1,1,129 u8[4]=1,7,8,255"), {254, 128, 0, 0});
  same_bits(
      run("a | bit_shift | direction=RIGHT | i8[6]=-128,-128,-128,127,127,-1 i8[6]=1,7,8,6,9,-1"),
      {-64, -1, -1, 1, 0, -1});
  same_bits(run("a | bit_shift | direction=RIGHT | u8[3]=255,255,255 u8[3]=1,7,8"), {127, 1, 0});
  same_bits(run("a | bit_shift | | i8[2]=65,1 i8[2]=1,7"), {-126, -128});
}

TEST_CASE("floating arithmetic: one rounding into what is stored, whatever acc and order say") {
  const char* line = "add.same | add | | f32[4,100]:special f32[4,100]:special";
  const OpCase c = parse_op_case(line);
  const Tensor a = case_input(c, 0), b = case_input(c, 1);
  for (const char* contract : {"seq", "exact", "acc=bf16", "order=lanes:8"}) {
    const Tensor y = run(line, contract);
    std::int64_t wrong = 0;
    for (std::size_t i = 0; i < 400; ++i)
      wrong +=
          bits_of(y.data<float>()[i]) == bits_of(canonical(a.data<float>()[i] + b.data<float>()[i]))
              ? 0
              : 1;
    CHECK_MESSAGE(wrong == 0, std::string(contract));
  }
  // 1 + 2^-24 is a tie; directed modes and narrower stores see it.
  const char* tie = "a | add | | f32[3]=1,-1,0x1p-126 f32[3]=0x1p-24,-0x1p-24,-0x1.8p-127";
  same_bits(run(tie), {1, -1, 0x1p-128});
  same_bits(run(tie, "round=ru"), {1 + 0x1p-23, -1, 0x1p-128});
  same_bits(run(tie, "round=rd"), {1, -1 - 0x1p-23, 0x1p-128});
  same_bits(run(tie, "subnormals=flush"), {1, -1, 0x1p-126});  // the subnormal operand is a zero
  same_bits(run("a | mul | | f32[1]=1.00390625 f32[1]=1.00390625", "store=bf16"), {1.0078125});
  same_bits(run("a | div | | f32[4]=1,-1,0,1 f32[4]=0,0,0,3"), {kInf, -kInf, kNan, 1.0F / 3.0F});
  CHECK_THROWS_WITH_AS(run("a | add | | f64[1] f64[1]"), doctest::Contains("acc=f64"), Error);
  same_bits(run("a | add | | f64[1]=1 f64[1]=0x1p-52", "acc=f64,store=f64"), {1 + 0x1p-52});
}

TEST_CASE("mod: exact remainders against the definition") {
  same_bits(run("a | mod | fmod=true | f32[8]=5.5,-5.5,5.5,-0,inf,1,nan,3 "
                "f32[8]=2,2,-2,1,1,0,1,inf"),
            {1.5, -1.5, 1.5, -0.0, kNan, kNan, kNan, 3});
  same_bits(run("a | mod | | f32[7]=5.5,-5.5,5.5,-5.5,-4,4,-1 f32[7]=2,2,-2,-2,2,-2,inf"),
            {1.5, 0.5, -0.5, -1.5, 0, -0.0, kInf});
  // Far apart exponents: 2^127 mod 3 = 2 (127 is odd).
  same_bits(run("a | mod | fmod=true | f32[2]=0x1p127,0x1p127 f32[2]=3,0x1.8p-149"), {2, 0});
  const char* line = "m | mod | fmod=true | f32[500]:wild f32[500]:wild";
  const OpCase c = parse_op_case(line);
  const Tensor a = case_input(c, 0), b = case_input(c, 1), y = run(line);
  for (std::size_t i = 0; i < 500; ++i)
    REQUIRE(bits_of(y.data<float>()[i]) ==
            bits_of(canonical(std::fmod(a.data<float>()[i], b.data<float>()[i]))));
}

TEST_CASE("pow: the special cases of IEEE 754, and one rounding") {
  same_bits(run("a | pow | | f32[11]=nan,1,-8,-2,-2,0,-0,inf,-inf,2,10 "
                "f32[11]=0,nan,0.3333333,3,-2,-1,-3,-1,3,0.5,-2"),
            {1, 1, kNan, -8, 0.25, kInf, -kInf, 0, -kInf, std::sqrt(2.0F), 0.01F});
}

TEST_CASE("max, min, clip: NaN wins and becomes canonical, a tie keeps the first") {
  same_bits(run("a | max | | f32[5]=1,nan,-0,0,-inf f32[5]=nan,2,0,-0,-inf"),
            {kNan, kNan, -0.0, 0, -kInf});
  same_bits(run("a | min | | f32[4]=1,nan,-0,0 f32[4]=nan,2,0,-0"), {kNan, kNan, -0.0, 0});
  same_bits(run("a | clip | min=0 max=6 | f32[6]=-1,-0,3,7,nan,inf"), {0, -0.0, 3, 6, kNan, 6});
  same_bits(run("a | clip | | f32[3]=1,2,3 f32[]=5 f32[]=2"), {2, 2, 2});
  same_bits(run("a | clip | | f32[2]=1,-1 - f32[]=nan"), {kNan, kNan});
  same_bits(run("a | clip | min=-2.5 | i8[3]=-9,0,127"), {-2, 0, 127});
}

TEST_CASE("sum and mean of operands follow the contract's order") {
  const char* line = "a | sum | | f32[]=16777216 f32[2]=1,1 f32[2]=1,1 f32[]=1";
  same_bits(run(line), {16777216, 16777216});
  same_bits(run(line, "order=lanes:2"), {16777218, 16777218});
  same_bits(run(line, "exact"), {16777220, 16777220});
  same_bits(run("a | mean | | f32[]=16777216 f32[1]=1 f32[1]=1", "exact"), {5592406});
  same_bits(run("a | mean | | f32[]=16777216 f32[1]=1 f32[1]=1"), {5592405.5});
}

TEST_CASE("comparisons: NaN is unordered, zeros are equal, subnormals are not flushed") {
  const char* data = " f32[5]=nan,0,1,0x1p-149,inf f32[5]=nan,-0,2,0,inf";
  const auto with = [&](const char* op) {
    return run(std::string("a | ") + op + " | |" + data, "subnormals=flush");
  };
  same_bits(with("equal"), {0, 1, 0, 0, 1});
  same_bits(with("less"), {0, 0, 1, 0, 0});
  same_bits(with("greater"), {0, 0, 0, 1, 0});
  same_bits(with("less_or_equal"), {0, 1, 1, 0, 1});
  same_bits(with("greater_or_equal"), {0, 1, 0, 1, 1});
  same_bits(run("a | equal | | i64[1]=9007199254740993 i64[1]=9007199254740992"), {1});
  same_bits(run("a | is_inf | detect_negative=false | f32[4]=inf,-inf,nan,0"), {1, 0, 0, 0});
  same_bits(run("a | is_nan | | f16[4]=inf,-inf,nan,0"), {0, 0, 1, 0});
  same_bits(run("a | xor | | bool[2,1]=0,1 bool[2]=0,1"), {0, 1, 1, 0});
}

TEST_CASE("cast: cut toward zero, held at the ends, rounded once, wrapped between integers") {
  same_bits(run("a | cast | to=i8 | f32[7]=-1.9,1.9,127.5,300,-300,nan,-inf"),
            {-1, 1, 127, 127, -128, 0, -128});
  same_bits(run("a | cast | to=u8 | f32[4]=-1,255.9,256,nan"), {0, 255, 255, 0});
  same_bits(run("a | cast | to=i64 | f32[2]=0x1p63,-0x1p63"), {0x1p63, -0x1p63});
  same_bits(run("a | cast | to=bool | f32[4]=0,-0,nan,0.5"), {0, 0, 1, 1});
  same_bits(run("a | cast | to=i8 | i64[3]=300,-129,127"), {44, 127, 127});
  same_bits(run("a | cast | to=u64 | i8[1]=-1"), {0x1p64});
  // 2^53 + 1 to f32 by way of f64 would round twice; 2^24 + 1 is a tie.
  const Tensor big = Tensor::of<std::int64_t>({2}, {(1LL << 60) + (1LL << 36) + 1, 16777217});
  const Tensor* in[] = {&big};
  const auto cast = [&](const char* contract) {
    return std::move(run_op(get_op("cast"), get_op("cast").defaults(), in, all_kernels(),
                            {.contract = Contract::parse(contract)})
                         .outputs[0]);
  };
  same_bits(cast("seq"), {0x1p60 + 0x1p37, 16777216});
  same_bits(cast("round=ru"), {0x1p60 + 0x1p37, 16777218});
  same_bits(run("a | cast | to=f16 | f32[4]=65519,65520,0x1p-25,nan"), {65504, kInf, 0, kNan});
  same_bits(run("a | cast | to=f16 | f32[1]=0x1p-20", "subnormals=flush"), {0});
  const OpRun with_truth = run_case("a | cast | to=f16 | f32[1]=1.00001", "exact", true);
  CHECK(with_truth.truth[0].data<double>()[0] == static_cast<double>(1.00001F));
}

TEST_CASE("where copies bits; types and shapes that do not fit are refused") {
  const Tensor c = Tensor::of<Bool>({2}, {Bool{1}, Bool{0}});
  const Tensor a = Tensor::of<float>({}, {float_of(0x7fa00001U)}),
               b = Tensor::of<float>({}, {1.0F});
  const Tensor* in[] = {&c, &a, &b};
  const auto y =
      run_op(get_op("where"), Params(), in, all_kernels(), {.contract = Contract::exact_preset()});
  CHECK(bits_of(y.outputs[0].data<float>()[0]) == 0x7fa00001U);
  for (const auto& [line, says] :
       {std::pair{"a | add | | f32[2] i32[2]:0..1", "cast one"},
        {"a | add | | f32[2] f32[3]", "do not broadcast"},
        {"a | add | | bool[2]:0..1 bool[2]:0..1", "bool has no arithmetic"},
        {"a | sum | | i32[2]:0..1 i32[2]:0..1", "floating"},
        {"a | pow | | i32[2]:0..1 f32[2]", "cast the base"},
        {"a | less | | bool[2]:0..1 bool[2]:0..1", "no order"},
        {"a | and | | i8[2]:0..1 i8[2]:0..1", "must be bool"},
        {"a | bitwise_not | | f32[2]", "give integers"},
        {"a | where | | f32[2] f32[2] f32[2]", "condition must be bool"},
        {"a | clip | | f32[2] f32[2]", "one element"}})
    CHECK_THROWS_WITH_AS(run(line), doctest::Contains(says), Error);
  const InferInput huge[] = {{{DType::f32, {1LL << 40, 1}}, nullptr, true},
                             {{DType::f32, {1, 1LL << 40}}, nullptr, true}};
  CHECK_THROWS_WITH_AS(infer(get_op("mul"), Params(), InferInputs(huge)),
                       doctest::Contains("does not fit in 64 bits"), Error);
}

TEST_CASE("sum: a list of blocks or a tree that does not fit is refused, of two terms too") {
  for (const char* op : {"sum", "mean"})
    for (const char* type : {"f32", "f16", "bf16"})
      for (const int terms : {1, 2}) {
        std::string line = fmt::format("a | {} | |", op);
        for (int i = 0; i < terms; ++i) line += fmt::format(" {}[5]", type);
        const OpCase c = parse_op_case(line);
        const std::vector<Tensor> in = case_inputs(c);
        const auto runs = [&](const char* contract) {
          for (const KernelRow* row : all_kernels().rows_of(op)) {
            RunOptions options{.contract = Contract::parse(contract), .threads = 1};
            options.kernels = row->name;
            if (row->promise != Promise::defined || row->device != Device::cpu) continue;
            try {
              run_op(*c.op, c.params, pointers(in), all_kernels(), options);
              return true;
            } catch (const Error&) {
              continue;
            }
          }
          return false;
        };
        CAPTURE(line);
        CHECK_FALSE(runs("order=blocks:3+4"));
        CHECK(runs(terms == 2 ? "order=blocks:1+1" : "order=blocks:1"));
        CHECK(runs("order=blocks:16"));
        CHECK(runs("order=lanes:8"));
      }
}
