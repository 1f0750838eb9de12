// Claim: ops are defined up to the ends of what their parameters may be, TensorFlow Lite's integer
// ones foremost: results are held where they leave their type, and what has no meaning is refused.
#include <doctest/doctest.h>

#include "engine/graph/executor.h"
#include "engine/numerics/element.h"
#include "engine/ops/tflite_sixteen.h"
#include "kernels/kernels.h"
#include "tests/op_cases.h"

using namespace etalon;

namespace {

std::vector<double> run(const std::string& line) {
  const OpCase c = parse_op_case("a | " + line);
  const std::vector<Tensor> in = case_inputs(c);
  const OpRun r = run_op(*c.op, c.params, pointers(in), all_kernels(),
                         {.contract = Contract::parse("seq"), .threads = 1});
  std::vector<double> out;
  for (std::int64_t i = 0; i < r.outputs[0].numel(); ++i)
    out.push_back(load_as_double(r.outputs[0], i));
  return out;
}

using Values = std::vector<double>;

}  // namespace

TEST_CASE("tflite: factors beyond 2^15 are held to the type") {
  const std::string scales = "a_scale=30 b_scale=30 y_scale=0.01 | ";
  const auto product = [&](int a, int b) {
    return run(fmt::format("tflite_batch_matmul | {} i16[1,1]={} i16[1,1]={}", scales, a, b));
  };
  CHECK(product(5, 7) == Values{32767});
  CHECK(product(5, -7) == Values{-32768});
  CHECK(product(-32767, 32767) == Values{-32768});
  CHECK(product(0, 7) == Values{0});
  CHECK(run("tflite_conv | x_scale=300 w_scales=[300] y_scale=0.01 | i16[1,1,2]=5,-5 i8[1,1,1]=7 "
            "i64[1]=0") == Values{32767, -32768});
  CHECK(run("tflite_fully_connected | x_scale=1e30 w_scales=[1e30] y_scale=1e-30 | "
            "i16[2,1]=32767,-32767 i8[1,1]=127 -") == Values{32767, -32768});
  // Each shift by itself, and what 64 bits of the product would not hold.
  for (int s = 0; s <= 30; ++s) {
    const tflite::Multiplier m(std::ldexp(0.75, s));
    REQUIRE(m.shift == s);
    const double exact = std::ldexp(0.75, s) * 8;
    CHECK(static_cast<double>(m.scaled(std::int64_t{8})) == std::min(exact, 0x1p31 - 1));
    CHECK(static_cast<double>(m.scaled(std::int64_t{-8})) == std::max(-exact, -0x1p31));
    if (s >= 8) CHECK(m.scaled(std::int64_t{1} << 55) == tflite::Multiplier::kMax);
  }
}

TEST_CASE("tflite: a softmax of tiny steps or of no finite ones is held") {
  CHECK(run("tflite_softmax | y_scale=1e-36 | i8[1,2]=3,3") == Values{127, 127});
  CHECK(run("tflite_softmax | x_scale=10 beta=-40 y_zero=-128 | i8[1,3]=-100,3,4").size() == 3);
  CHECK_THROWS_WITH_AS(run("tflite_softmax | beta=nan | i8[1,2]=3,3"), doctest::Contains("beta"),
                       Error);
  CHECK_THROWS_WITH_AS(run("tflite_softmax | beta=inf | u8[1,2]=3,3"), doctest::Contains("beta"),
                       Error);
}

TEST_CASE("tflite: a zero point is a number of its tensor's type") {
  // At the ends of 16 bits the product wraps, as 32 bits do.
  CHECK(run("tflite_mul | a_zero=-32768 b_zero=-32768 y_scale=65536 | i16[1]=32767 i16[1]=32767") ==
        Values{-2});
  for (const char* line : {
           "tflite_add | a_zero=128 | i8[1]=1 i8[1]=1",
           "tflite_sub | b_zero=-9223372036854775808 | i16[1]=1 i16[1]=1",
           "tflite_mul | a_zero=-1 | u8[1]=1 u8[1]=1",
           "tflite_mul | y_zero=9223372036854775807 | i8[1]=1 i8[1]=1",
           "tflite_conv | x_zero=-9223372036854775808 | i8[1,1,1]=1 i8[1,1,1]=1 -",
           "tflite_conv | w_zero=300 | i8[1,1,1]=1 i8[1,1,1]=1 -",
           "tflite_fully_connected | y_zero=9223372036854775807 | i8[1,1]=1 i8[1,1]=1 -",
           "tflite_mean | axes=[0] x_zero=60000 | i8[1]=1",
           "tflite_sum | axes=[0] y_zero=9223372036854775807 | i8[1]=1",
           "tflite_prod | axes=[0] y_zero=9223372036854775807 | i8[1]=1",
           "tflite_requantize | x_zero=-9223372036854775808 | i8[1]=1",
           "tflite_requantize | output_dtype=i32 y_zero=4294967296 | i8[1]=1",
           "tflite_quantize | y_zero=9223372036854775807 | f32[1]=1",
           "tflite_softmax | output_dtype=u8 y_zero=-1 | i8[1]=1",
           "tflite_logistic | x_zero=-9223372036854775808 | i8[1]=1",
           "tflite_tanh | y_zero=9223372036854775807 | u8[1]=1",
       })
    CHECK_THROWS_WITH_AS(run(line), doctest::Contains("zero point"), Error);
}

TEST_CASE("tflite: hybrid kernels take infinities") {
  CHECK(run("tflite_hybrid_fully_connected | asymmetric=true | f32[1,2]=-inf,1 i8[1,2]=1,1 -")
            .size() == 1);
}

TEST_CASE("tflite: a scale within a thousandth of a power of two is that power") {
  // 2^-12 to float's logarithm: the borders lie where a correctly rounded one has them.
  const tflite::SigmoidOf16Bits at(0x1p-12F), near(0x1.0004p-12F), far(0x1.004p-12F);
  bool same = true, differs = false;
  for (std::int32_t x = -32768; x < 32768; x += 7) {
    same = same && at(x) == near(x);
    differs = differs || at(x) != far(x);
  }
  CHECK(same);
  CHECK(differs);
}

TEST_CASE("ops: parameters at the ends of 64 bits are taken or refused") {
  CHECK(run("dequantize_linear | axis=0 block_size=9223372036854775807 | i8[2]=1,2 f32[1]=2 -") ==
        Values{2, 4});
  CHECK(
      run("max_pool | kernel=[1] strides=[1099511627776] auto_pad=same_upper | f32[1,1,3]=1,2,3") ==
      Values{1});
  for (const char* line :
       {"max_pool | kernel=[1] strides=[9223372036854775807] auto_pad=same_upper | "
        "f32[1,1,3]=1,2,3",
        "conv | strides=[9223372036854775807] | f32[1,1,3]=1,2,3 f32[1,1,2]=1,1 -"})
    CHECK_THROWS_WITH_AS(run(line), doctest::Contains("2^40"), Error);
  CHECK(run("slice | starts=[0,0] ends=[0,2] steps=[4611686018427387905,1] | f32[3,2]").empty());
  CHECK(run("slice | starts=[0] ends=[3] steps=[9223372036854775807] | f32[3,2]").size() == 2);
  for (const char* op : {"conv", "conv_transpose"})
    for (const char* pads : {"pads_begin=[-9223372036854775808] pads_end=[9223372036854775807]",
                             "pads_begin=[9223372036854775807] pads_end=[-9223372036854775808]"})
      CHECK_THROWS_WITH_AS(run(fmt::format("{} | {} | f32[1,1,3]=1,2,3 f32[1,1,1]=1 -", op, pads)),
                           doctest::Contains("2^60"), Error);
  CHECK_THROWS_WITH_AS(run("pad | pads=[-9223372036854775808,9223372036854775807] | f32[3]=1,2,3"),
                       doctest::Contains("2^62"), Error);
  CHECK_THROWS_WITH_AS(run("tflite_detection | num_classes=-9223372036854775808 | f32[1,2,4] "
                           "f32[1,2,3] f32[2,4]"),
                       doctest::Contains("classes of"), Error);
}
