// Claim: the first pass through residues (kernels/gemm/residue_tile.h) and what follows it give the
// definition's correctly rounded values, all but the tile instructions themselves, which loops
// stand for: so it is tested on processors that have AVX-512 VBMI, VNNI and IFMA but no tiles.
// Where there are tiles, exact_fast_test.cpp compares the rows that use them.
#if defined(__x86_64__)
#include <doctest/doctest.h>

#include <tuple>

#include "engine/ops/gemm.h"
#include "kernels/conv/exact.h"
#include "tests/exact_data.h"
#include "tests/residue_tiles.h"

using namespace etalon;
using namespace etalon::test;

namespace {

bool has_software_residues() {
  return detect_isa() >= Isa::avx512 && __builtin_cpu_supports("avx512vbmi") != 0 &&
         __builtin_cpu_supports("avx512vnni") != 0 && __builtin_cpu_supports("avx512ifma") != 0;
}

}  // namespace

namespace {

// Outputs that differ from the definition's, or truths that are no truth, where residues are
// multiplied in software, and by the processor if it can; with and without a truth asked for,
// outputs take different ways.
int wrong_through_residues(const OpRow& op, const Params& p, const std::vector<const Tensor*>& in,
                           ExactRun run, int threads = 1) {
  const Contract exact = Contract::exact_preset();
  RunOptions options{.contract = exact};
  options.kernels = std::string(op.name) + ".definition";
  const OpRun want = run_op(op, p, in, all_kernels(), options, true);
  std::vector<InferInput> inputs;
  for (const Tensor* t : in) inputs.push_back({t->type(), t, true});
  const TensorType types[] = {want.outputs[0].type()};
  const Problem problem{.op = &op,
                        .params = &p,
                        .inputs = inputs,
                        .outputs = types,
                        .contract = &exact,
                        .isa = Isa::avx512};
  int wrong = 0;
  const auto once = [&](const ResidueSet& set, bool wants_truth) {
    std::vector<Tensor> out, truth;
    out.push_back(Tensor::uninitialized(types[0].dtype, types[0].shape));
    if (wants_truth) truth.push_back(Tensor::uninitialized(DType::f64, types[0].shape));
    run({.problem = &problem, .inputs = in, .outputs = out, .truth = truth, .threads = threads},
        Isa::avx512, {.residues = &set});
    const auto a = out[0].data<float>(), b = want.outputs[0].data<float>();
    for (std::size_t i = 0; i < a.size(); ++i) {
      wrong += bits_of(a[i]) != bits_of(b[i]) ? 1 : 0;
      const double y = want.truth[0].data<double>()[i];
      if (wants_truth && std::isfinite(y) && std::isfinite(b[i]))
        wrong += std::abs(truth[0].data<double>()[i] - y) <=
                         ulp_of(static_cast<double>(b[i]), DType::f32) * 0x1p-9
                     ? 0
                     : 1;
    }
  };
  for (const bool wants_truth : {false, true}) {
    once(software_residues(), wants_truth);
    if (const ResidueSet* own = residue_set(detect_isa())) once(*own, wants_truth);
  }
  return wrong;
}

}  // namespace

TEST_CASE("exact: residues, hostile data in odd shapes") {
  if (!has_software_residues()) return;
  const std::int64_t before = exact_counts().undecided;
  int turn = 0;
  for (const Hostile kind : kHostile) {
    CAPTURE(static_cast<int>(kind));
    // The last is more than one block.
    for (const auto& [m, n, k] : {std::tuple{9, 9, 1},
                                  {33, 17, 65},
                                  {16, 16, 191},
                                  {18, 31, 3},
                                  {20, 35, 2100},
                                  {21, 66, 66},
                                  {130, 140, 67}}) {
      if (turn++ % 4 != 0) continue;
      CAPTURE(k);
      const auto seed = static_cast<std::uint64_t>(m * 1000 + n);
      const Tensor a = hostile({m, k}, seed, kind), b = hostile({k, n}, seed + 1, kind),
                   bt = hostile({n, k}, seed + 2, kind), at = hostile({k, m}, seed + 3, kind),
                   c = hostile({m, n}, seed + 4, kind), row = hostile({n}, seed + 5, kind);
      const auto wrong = [&](const GemmParams& p, const std::vector<const Tensor*>& in) {
        return wrong_through_residues(gemm_op(), Params(p), in, run_gemm_exact, turn % 2 + 1);
      };
      CHECK(wrong({}, {&a, &b}) == 0);
      CHECK(wrong({.trans_b = true}, {&a, &bt, &row}) == 0);
      CHECK(wrong({.alpha = 0.7F, .trans_b = true}, {&a, &bt, &c}) == 0);
      CHECK(wrong({.beta = -2.0F, .trans_a = true}, {&at, &b, &c}) == 0);
    }
    for (const auto& [channels, size, kernel, stride, pad, groups] : {std::tuple{4, 9, 3, 1, 1, 1},
                                                                      {24, 7, 3, 2, 1, 1},
                                                                      {80, 5, 1, 1, 0, 2},
                                                                      {17, 6, 2, 1, 0, 1},
                                                                      {64, 4, 3, 1, 1, 1},
                                                                      {72, 9, 3, 2, 1, 1},
                                                                      {96, 22, 1, 2, 0, 1}}) {
      if (turn++ % 4 != 0) continue;
      ConvParams p;
      p.groups = groups;
      p.strides = {stride, stride};
      p.pads_begin = {pad, pad};
      p.pads_end = {pad, pad};
      const std::int64_t out = size > 10 ? 144 : 72;
      const Tensor x = hostile({2, channels, size, size}, 7, kind),
                   w = hostile({out, channels / groups, kernel, kernel}, 8, kind),
                   bias = hostile({out}, 9, kind);
      CAPTURE(channels);
      const auto wrong = [&](const std::vector<const Tensor*>& in) {
        return wrong_through_residues(conv_op(), Params(p), in, run_conv_exact, turn % 2 + 1);
      };
      CHECK(wrong({&x, &w}) == 0);
      CHECK(wrong({&x, &w, &bias}) == 0);
    }
  }
  CHECK(exact_counts().undecided > before);
}

TEST_CASE("exact: residues, NaN, infinities, dilated taps") {
  if (!has_software_residues()) return;
  for (const Data data : {Data::noise, Data::midpoint, Data::relu, Data::integers, Data::special}) {
    CAPTURE(static_cast<int>(data));
    const std::int64_t before = exact_counts().undecided, defined = exact_counts().defined;
    const Tensor a = make({37, 360}, 1, data), b = make({360, 50}, 2, data);
    CHECK(wrong_through_residues(gemm_op(), Params(GemmParams{}), {&a, &b}, run_gemm_exact) == 0);
    // The bound decides nearly all, and what it does not is settled.
    if (data == Data::noise) CHECK(exact_counts().undecided <= before + 2);
    if (data == Data::noise || data == Data::integers) CHECK(exact_counts().defined == defined);
    if (data == Data::special) CHECK(exact_counts().defined > defined);
    ConvParams line, dilated, volume;
    line.pads_begin = {2};
    line.pads_end = {1};
    dilated.dilations = {2, 3};
    dilated.pads_begin = {0, 3};
    dilated.pads_end = {2, 0};
    volume.strides = {1, 2, 1};
    volume.pads_begin = {1, 0, 1};
    volume.pads_end = {0, 1, 1};
    const Tensor x1 = make({2, 19, 23}, 1, data), w1 = make({40, 19, 4}, 2, data),
                 x2 = make({1, 5, 11, 13}, 3, data), w2 = make({40, 5, 3, 3}, 4, data),
                 x3 = make({1, 6, 4, 7, 5}, 5, data), w3 = make({24, 6, 2, 3, 3}, 6, data);
    const auto wrong = [&](const ConvParams& p, const Tensor& x, const Tensor& w) {
      return wrong_through_residues(conv_op(), Params(p), {&x, &w}, run_conv_exact);
    };
    CHECK(wrong(line, x1, w1) == 0);
    CHECK(wrong(dilated, x2, w2) == 0);
    CHECK(wrong(volume, x3, w3) == 0);
    const ConvCase k = conv_case(data);
    CHECK(wrong_through_residues(conv_op(), k.params, {&k.x, &k.w, &k.bias}, run_conv_exact) == 0);
  }
}

TEST_CASE("exact: residues, sums of 66051 terms and of more") {
  if (!has_software_residues()) return;
  for (const Hostile kind : {Hostile::equal, Hostile::wild, Hostile::cancelling})
    for (const std::int64_t k : {kResidueTileMostK, kResidueTileMostK + 1}) {
      CAPTURE(static_cast<int>(kind));
      const Tensor a = hostile({9, k}, 1, kind), b = hostile({10, k}, 2, kind);
      CHECK(wrong_through_residues(gemm_op(), Params(GemmParams{.trans_b = true}), {&a, &b},
                                   run_gemm_exact) == 0);
    }
  // Without the rounding test, and without what settles, wrong bits come out.
  const Tensor a = make({17, 60}, 1, Data::midpoint), b = make({60, 21}, 2, Data::midpoint);
  const ConvCase k = conv_case(Data::midpoint);
  for (const ExactSteps& left_out :
       {ExactSteps{.rounding_test = false}, ExactSteps{.settle = false, .definition = false}}) {
    ExactSteps steps = left_out;
    steps.residues = &software_residues();
    CHECK(wrong_outputs(gemm_op(), Params(GemmParams{}), {&a, &b}, run_gemm_exact, Isa::avx512,
                        steps) > 0);
    CHECK(wrong_outputs(conv_op(), k.params, {&k.x, &k.w, &k.bias}, run_conv_exact, Isa::avx512,
                        steps) > 0);
  }
}
#endif
