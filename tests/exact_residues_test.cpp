// Claim: the first pass through residues (kernels/gemm/residue_tile.h) and what follows it give the
// definition's correctly rounded values, all but the tile instructions themselves, which loops
// stand for: so it is tested on processors that have AVX-512 VBMI, VNNI and IFMA but no tiles.
// Where there are tiles, exact_fast_test.cpp compares the rows that use them.
#if defined(__x86_64__)
#include <doctest/doctest.h>

#include <tuple>

#include "engine/numerics/superaccumulator.h"
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

TEST_CASE("exact: residues, sums within their bounds, of both ways to pack columns") {
  if (!has_software_residues()) return;
  const ResidueSet& set = software_residues();
  double worst = 0;
  for (const Hostile kind : kHostile)
    for (const std::int64_t k : {1, 4, 62, 64, 130, 1500}) {
      CAPTURE(static_cast<int>(kind));
      CAPTURE(k);
      constexpr int n = kResidueTileRows;
      Tensor a = hostile({n, k}, 3, kind), b = hostile({n, k}, 5, kind);
      const auto zeros = a.mutable_data<float>();
      std::fill_n(zeros.begin() + 2 * k, k, 0.0F);  // row 2
      Tensor turned = Tensor::uninitialized(DType::f32, {k, n});
      const float* rows[2][n];
      for (int r = 0; r < n; ++r) {
        rows[0][r] = a.data<float>().data() + r * k;
        rows[1][r] = b.data<float>().data() + r * k;
        for (std::int64_t i = 0; i < k; ++i)
          turned.mutable_data<float>()[i * n + r] = rows[1][r][i];
      }
      const std::int64_t plane = residue_strip_bytes(k);
      AlignedBuffer planes[3];
      std::uint8_t* bytes[3];
      for (int i = 0; i < 3; ++i)
        bytes[i] = planes[i].at_least<std::uint8_t>(kResiduePlanes * plane);
      ResidueNorms norms[3];
      set.pack(rows[0], k, false, bytes[0], plane, norms[0]);
      set.pack(rows[1], k, true, bytes[1], plane, norms[1]);
      set.pack_across(turned.data<float>().data(), n, n, k, bytes[2], plane, norms[2]);
      std::vector<std::int64_t> steps;
      for (std::int64_t t = 0; t < residue_steps(k); ++t) steps.push_back(t * kResidueTileBytes);
      ResidueBlock block{.row_strips = 1, .column_strips = 2};
      block.rows[0] = {.a = bytes[0], .norms = norms};
      block.columns[0] = {.b = bytes[1], .norms = norms + 1};
      block.columns[1] = {.b = bytes[2], .norms = norms + 2};
      block.a_steps = steps.data();
      block.a_plane = block.b_plane = plane;
      block.steps = static_cast<std::int64_t>(steps.size());
      ResidueSums sums[2];
      block.caller = sums;
      block.wide = [](void* caller, const ResidueBlock&, int, int c, const ResidueSums& of) {
        static_cast<ResidueSums*>(caller)[c] = of;
      };
      AlignedBuffer work;
      set.begin();
      set.run(block, work.at_least<std::int32_t>(2 * kResiduePlanes * kResidueTileSums));
      set.end();
      int outside = 0, vague = 0, unequal = 0;
      for (int i = 0; i < n * n; ++i) {
        Superaccumulator sum;
        for (std::int64_t t = 0; t < k; ++t) sum.add_product(rows[0][i / n][t], rows[1][i % n][t]);
        for (const ResidueSums& of : sums) {
          Superaccumulator difference = sum;
          difference.add(-of.sums[i]);
          const double off = std::abs(difference.round(DType::f64)), bound = of.bounds[i];
          if (std::isnan(bound)) {  // beside an infinity nothing is decided
            CHECK(std::isnan(norms[1].norm[i % n] * norms[0].norm[i / n]));
            continue;
          }
          outside += off <= bound ? 0 : 1;
          if (bound > 0) worst = std::max(worst, off / bound);
          // Useful, too: a part of the two norms that f64 could not tell.
          vague += bound <= 0x1p-40 * std::sqrt(static_cast<double>(k)) * norms[0].norm[i / n] *
                                norms[1].norm[i % n]
                       ? 0
                       : 1;
          if (i / n == 2) CHECK(bits_of(of.sums[i]) == 0);
        }
      }
      for (int p = 0; p < kResiduePlanes; ++p)
        for (std::int64_t t = 0; t < k; ++t)
          for (int c = 0; c < n; ++c) {
            const std::int64_t at = p * plane + t / 4 * 64 + c * 4 + t % 4;
            // Of a column of zeros, 0 or any multiple of the modulus.
            unequal += bytes[1][at] == bytes[2][at] || norms[1].unit[c] == 0 ? 0 : 1;
          }
      CHECK(vague == 0);
      CHECK(unequal == 0);
      CHECK(outside == 0);
    }
  // Of what a bound allows for more than a twentieth happens.
  CHECK(worst > 0.05);
}

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
        return wrong_through_residues(gemm_op(), Params(p), in, run_gemm_exact, turn / 4 % 4 + 1);
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
        return wrong_through_residues(conv_op(), Params(p), in, run_conv_exact, turn / 4 % 4 + 1);
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
    // The bound decides nearly all, and what it does not is settled; a truth asks more of it.
    if (data == Data::noise) CHECK(exact_counts().undecided <= before + 37 * 50 / 200);
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
    ConvParams points;  // every other pixel of a volume, by products
    points.strides = {1, 2, 3};
    points.groups = 2;
    const Tensor w4 = make({36, 3, 1, 1, 1}, 7, data), bias = make({36}, 8, data);
    const auto wrong_points = [&](int threads) {
      return wrong_through_residues(conv_op(), points, {&x3, &w4, &bias}, run_conv_exact, threads);
    };
    CHECK(wrong_points(1) == 0);
    CHECK(wrong_points(3) == 0);
    const ConvCase k = conv_case(data);
    CHECK(wrong_through_residues(conv_op(), k.params, {&k.x, &k.w, &k.bias}, run_conv_exact) == 0);
  }
}

TEST_CASE("exact: residues, sums of 66048 terms and of more") {
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
