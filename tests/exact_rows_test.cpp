// Claim: the exact rows of normalisations, reductions, pools and resize return the definition's
// correctly rounded values, on one thread and on several, and some outputs really need the
// definition: sums so near to a midpoint of f32 that the f64 first pass decides nothing. Without
// the rounding test, and without the definition for what it leaves, wrong bits come out.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>

#include "engine/core/philox.h"
#include "engine/graph/executor.h"
#include "kernels/kernels.h"
#include "kernels/normalization/exact.h"
#include "kernels/reduce/exact.h"
#include "kernels/resize/exact.h"
#include "tests/on_this_cpu.h"
#include "tests/op_cases.h"
#include "tests/special_data.h"

using namespace etalon;

namespace {

enum class Data { noise, wild, integers, relu, equal, special };

void fill(Tensor& t, Data data, std::uint64_t seed) {
  const Philox random{seed, 5};
  std::uint64_t i = 0;
  for (float& x : t.mutable_data<float>()) {
    const float u = random.uniform(2 * i), v = test::share(random, 2 * i + 1);
    ++i;
    x = u;
    if (data == Data::wild) x = std::ldexp(x, static_cast<int>(v * 120));
    if (data == Data::integers) x = std::round(x * 8);
    if (data == Data::relu) x = x < 0 ? 0.0F : std::round(x * 64);
    if (data == Data::equal) x = 3;
    if (data == Data::special) x = test::special(x, v);
  }
}

// Every exact row of the case's op against the definition; returns how many rows there were.
int compare(const OpCase& c, std::vector<Tensor>& in) {
  const auto p = pointers(in);
  RunOptions options{.contract = Contract::exact_preset()};
  options.kernels = std::string(c.op->name) + ".definition";
  const OpRun want = run_op(*c.op, c.params, p, all_kernels(), options, true);
  int rows = 0;
  for (const KernelRow* row : all_kernels().rows_of(c.op->name)) {
    if (row->contracts.find("exact") == std::string_view::npos || !test::on_this_cpu(*row) ||
        test::takes_halves_only(*row))
      continue;
    for (const int threads : {1, 3}) {
      options.kernels = row->name;
      options.threads = threads;
      const OpRun got = run_op(*c.op, c.params, p, all_kernels(), options);
      const OpRun again = run_op(*c.op, c.params, p, all_kernels(), options, true);
      CAPTURE(std::string(row->name));
      CAPTURE(c.line);
      for (const OpRun* run : {&got, &again})
        CHECK(std::memcmp(run->outputs[0].bytes().data(), want.outputs[0].bytes().data(),
                          want.outputs[0].size_bytes()) == 0);
      // The truth comes out with any row, within 2^-10 ULP.
      const auto y = want.outputs[0].data<float>();
      for (std::size_t i = 0; i < y.size(); ++i)
        if (std::isfinite(y[i])) {
          const double a = again.truth[0].data<double>()[i], b = want.truth[0].data<double>()[i];
          REQUIRE(std::abs(a - b) <= ulp_of(static_cast<double>(y[i]), DType::f32) * 0x1p-9);
        }
    }
    ++rows;
  }
  return rows;
}

}  // namespace

TEST_CASE("exact rows: norms, reductions, pools and resize equal the definition on hostile data") {
  int rows = 0;
  for (const char* line :
       {"c | batch_norm | | f32[2,5,7,9] f32[5] f32[5] f32[5] f32[5]:positive",
        "c | batch_norm | | f32[9,13] f32[13] f32[13] f32[13] f32[13]:positive",
        "c | layer_norm | | f32[9,67] f32[67] f32[67]",
        "c | layer_norm | axis=1 | f32[3,5,11] f32[11]",
        "c | layer_norm | | f32[2,5000]",
        "c | instance_norm | | f32[2,3,5,7] f32[3] f32[3]",
        "c | group_norm | groups=3 | f32[2,6,4,5] f32[6] f32[6]",
        "c | group_norm | groups=3 scale_per_group=true | f32[2,6,4,5] f32[3] f32[3]",
        "c | mean_variance_normalization | | f32[3,4,5,2]",
        "c | mean_variance_normalization | axes=[2] normalize_variance=false | f32[3,4,7]",
        "c | rms_norm | | f32[5,67] f32[67]",
        "c | lrn | size=5 | f32[2,7,3,43]",
        "c | lrn | size=4 alpha=0.1 beta=0.5 | f32[2,7,3]",
        "c | lrn | size=3 beta=1 longer_below=true | f32[2,7,3]",
        "c | reduce_sum | axes=[1,3] | f32[3,17,4,23]",
        "c | reduce_mean | axes=[2,3] | f32[2,9,7,7]",
        "c | reduce_mean | axes=[0] | f32[700,9]",
        "c | reduce_l1 | axes=[1] | f32[3,400]",
        "c | reduce_max | axes=[1,3] | f32[3,17,4,23]",
        "c | reduce_min | axes=[0] | f32[70,9]",
        "c | reduce_l2 | axes=[1] | f32[30,40]",
        "c | reduce_sum_square | axes=[1] | f32[30,40]",
        "c | avg_pool | kernel=[3,2] pads_begin=[1,0] pads_end=[1,1] strides=[2,1] "
        "count_include_pad=true | f32[2,3,9,8]",
        "c | avg_pool | kernel=[2,2] dilations=[2,3] divisor_override=3 | f32[2,3,9,8]",
        "c | global_avg_pool | | f32[2,9,5,7]",
        "c | max_pool | kernel=[3,2] strides=[2,1] | f32[2,3,9,8]",
        "c | global_max_pool | | f32[2,9,5,7]",
        "c | resize | mode=linear scales=[1,1,2,2] | f32[2,3,9,8]",
        "c | resize | mode=cubic scales=[1.7,1,0.6] | f32[9,8,13]",
        "c | resize | mode=linear antialias=true scales=[0.4,0.3,1] | f32[9,17,3]"})
    for (const Data data :
         {Data::noise, Data::wild, Data::integers, Data::relu, Data::equal, Data::special}) {
      const OpCase c = parse_op_case(line);
      std::vector<Tensor> in = case_inputs(c);
      fill(in[0], data, static_cast<std::uint64_t>(data));
      rows += compare(c, in);
    }
  if (detect_isa() >= Isa::avx2) CHECK(rows >= 28 * 6);
}

namespace {

// How many outputs differ from the definition's when `run` computes the case.
template <class Run>
int wrong_outputs(const std::string& line, const Run& run) {
  const OpCase c = parse_op_case(line);
  const std::vector<Tensor> in = case_inputs(c);
  const auto p = pointers(in);
  const Contract exact = Contract::exact_preset();
  RunOptions options{.contract = exact};
  options.kernels = std::string(c.op->name) + ".definition";
  const OpRun want = run_op(*c.op, c.params, p, all_kernels(), options);
  std::vector<InferInput> inputs;
  for (const Tensor& t : in) inputs.push_back({t.type(), &t, true});
  const TensorType types[] = {want.outputs[0].type()};
  const Problem problem{
      .op = c.op, .params = &c.params, .inputs = inputs, .outputs = types, .contract = &exact};
  std::vector<Tensor> out;
  out.push_back(Tensor::uninitialized(types[0].dtype, types[0].shape));
  run(KernelCall{.problem = &problem, .inputs = p, .outputs = out, .threads = 1});
  int wrong = 0;
  const auto a = out[0].data<float>(), b = want.outputs[0].data<float>();
  for (std::size_t i = 0; i < a.size(); ++i) wrong += bits_of(a[i]) != bits_of(b[i]) ? 1 : 0;
  return wrong;
}

constexpr ExactSteps kUntested{.rounding_test = false}, kUndefined{.definition = false};

}  // namespace

TEST_CASE("exact rows: without the rounding test, or the definition, wrong bits come out") {
  // 2^24 + 1 + 2^-40: beside a midpoint, by less than f64 holds.
  const std::string sum = "s | reduce_sum | axes=[1] | f32[2,3]=16777216,1,0x1p-40,1,2,3";
  CHECK(wrong_outputs(sum, [](const KernelCall& c) { run_reduce_exact(c, {}); }) == 0);
  CHECK(wrong_outputs(sum, [](const KernelCall& c) { run_reduce_exact(c, kUntested); }) > 0);
  CHECK(wrong_outputs(sum, [](const KernelCall& c) { run_reduce_exact(c, kUndefined); }) > 0);

  // x - mean = 1 + 2^-60, bias 2^-24.
  const std::string batch =
      "b | batch_norm | eps=0 | f32[1,1,2]=1,5 f32[1]=1 f32[1]=0x1p-24 f32[1]=-0x1p-60 f32[1]=1";
  // 1 / sqrt(1 + 2^-60), bias -2^-25.
  const std::string layer =
      "l | layer_norm | eps=8.67e-19 | f32[1,2]=1,-1 f32[2]=1,1 f32[2]=-0x1p-25,0";
  // 3 * 2^-149 / (2 + 9 * 2^-298): just below the middle of two subnormals.
  const std::string lrn = "l | lrn | size=1 alpha=1 bias=2 beta=1 | f32[1,1,2]=0x1.8p-148,1";
  // 9/16 2^24 + 8/16 + 3/16 2^-60, beside a midpoint.
  const std::string resize =
      "r | resize | mode=linear scales=[2,2] | f32[2,2]=16777216,0,0x1p-60,8";
  int isas = 0;
  for (const Isa isa : {Isa::avx2, Isa::avx512}) {
    if (isa > detect_isa()) continue;
    ++isas;
    const auto wrong = [&](const std::string& line, auto run, const ExactSteps& steps) {
      return wrong_outputs(line, [&](const KernelCall& c) { run(c, isa, steps); });
    };
    for (const auto& [line, run] : {std::pair{batch, &run_batch_norm_exact},
                                    {layer, &run_row_norm_exact},
                                    {lrn, &run_lrn_exact},
                                    {resize, &run_resize_exact}}) {
      CAPTURE(line);
      const std::int64_t before = exact_counts().undecided;
      CHECK(wrong(line, run, {}) == 0);
      CHECK(exact_counts().undecided > before);
      CHECK(wrong(line, run, kUntested) > 0);
      CHECK(wrong(line, run, kUndefined) > 0);
    }
  }
  CHECK(isas == (detect_isa() >= Isa::avx512 ? 2 : detect_isa() >= Isa::avx2 ? 1 : 0));
}

TEST_CASE("exact rows: a sum too long for its bound is refused with the reason") {
  const OpCase c = parse_op_case("s | reduce_sum | axes=[0] | f32[2]");
  const Contract exact = Contract::exact_preset();
  const InferInput huge[] = {{{DType::f32, Shape{(std::int64_t{1} << 28) + 1}}, nullptr, true}};
  const TensorType types[] = {{DType::f32, Shape{1}}};
  const Problem problem{
      .op = c.op, .params = &c.params, .inputs = huge, .outputs = types, .contract = &exact};
  int refusing = 0;
  for (const KernelRow& row : reduce_exact_rows()) {
    const Refusal why = row.refuse(problem);
    REQUIRE(why.has_value());
    CHECK(why->find("2^28 terms") != std::string::npos);
    ++refusing;
  }
  CHECK(refusing == 5);
}
