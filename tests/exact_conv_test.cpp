// Claim: exact convolutions have the definition's bits by each of their passes: Winograd's
// transforms in every form, within the bounds that they promise; plain sums, where few large inputs
// leave much open; layers much of which only padding meets; with prepared weights and without, with
// a truth and without. Without the rounding test, or what settles, wrong bits come out.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "engine/core/philox.h"
#include "engine/ops/conv.h"
#include "kernels/conv/exact.h"
#include "kernels/conv/exact_met.h"
#include "kernels/conv/exact_winograd.h"
#include "tests/exact_compare.h"
#include "tests/exact_data.h"

using namespace etalon;
using namespace etalon::test;

TEST_CASE("exact: dilated taps, one and three dimensions") {
  if (detect_isa() < Isa::avx2) return;
  for (const Data data : {Data::noise, Data::special}) {
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
    // The AMX row leaves what is so small to the others.
    const int rows =
        2 * (static_cast<int>(std::min(detect_isa(), Isa::avx512)) - static_cast<int>(Isa::sse2));
    CHECK(compare(conv_op(), Params(line), {&x1, &w1}) >= rows);
    CHECK(compare(conv_op(), Params(dilated), {&x2, &w2}) >= rows);
    CHECK(compare(conv_op(), Params(volume), {&x3, &w3}) >= rows);
    // Windows read in place, rows of several calls; no residues here.
    line.groups = 3;
    const Tensor x4 = make({2, 3, 103}, 7, data), w4 = make({6, 1, 5}, 8, data);
    CHECK(compare(conv_op(), Params(line), {&x4, &w4}) >= 2);
  }
}

// Each kind of data with each layer, or with one in three.
int compare_winograd(bool every_pair) {
  int compared = 0, kind = 0;
  bool seen[kWinogradFormCount] = {};
  for (const Data data : {Data::midpoint, Data::noise, Data::special}) {
    int layer = kind++;
    for (const WinogradCase& c : kWinogradCases) {
      if (layer++ % 3 != 0 && !every_pair) continue;
      const ConvParams p = params_of(c);
      const Tensor x = make(c.x, 4, data), w = make(c.w, 5, data), bias = make({c.w[0]}, 6, data);
      CAPTURE(to_string(c.x));
      CAPTURE(to_string(c.w));
      for (const Isa isa : {Isa::avx2, Isa::avx512}) {
        if (isa > detect_isa()) continue;
        REQUIRE(exact_winograd_layer(isa, conv_geometry(p, x.shape(), w.shape()), c.form));
        for (const int threads : {1, 3})
          CHECK(wrong_outputs(conv_op(), Params(p), {&x, &w, &bias}, run_conv_exact, isa,
                              {.winograd = c.form}, threads) == 0);
        ++compared;
      }
      seen[c.form] = true;
    }
  }
  for (const bool form : seen) CHECK(form);
  return compared;
}

// What is prepared without a truth in mind: windows in place, of one input channel and of several,
// Winograd's transforms, the rest of a layer in padding, packed strips.
TEST_CASE("exact: a thread takes whole images, and a share of those that are left over") {
  const int least = detect_isa() >= Isa::avx2 ? 2 : 0;
  for (const Data data : {Data::noise, Data::midpoint, Data::special}) {
    CAPTURE(static_cast<int>(data));
    ConvParams sampled, plain;
    sampled.strides = {2, 2};
    sampled.pads_begin = {1, 1};
    plain.groups = 2;
    // Of seven images three threads take two each.
    const Tensor x = make({7, 6, 9, 10}, 1, data), w = make({10, 6, 3, 3}, 2, data),
                 point = make({10, 3, 1, 1}, 3, data), few = make({2, 3, 3, 3}, 4, data),
                 bias = make({10}, 5, data);
    CHECK(compare(conv_op(), Params(sampled), {&x, &w, &bias}) >= least);
    CHECK(compare(conv_op(), Params(plain), {&x, &point, &bias}) >= least);
    CHECK(compare(conv_op(), Params(plain), {&x, &few}) >= least);  // in place
  }
}

TEST_CASE("exact: a truth beside prepared weights of every pass") {
  if (detect_isa() < Isa::avx2) return;
  struct Case {
    Shape x, w;
    std::int64_t groups, pad;
  };
  for (const Case& c : {Case{{1, 4, 6, 9}, {2, 4, 3, 3}, 1, 1},
                        {{1, 4, 6, 9}, {4, 2, 3, 3}, 2, 0},
                        {{2, 5, 6, 9}, {5, 1, 3, 3}, 5, 1},
                        {{1, 32, 9, 9}, {40, 32, 3, 3}, 1, 1},
                        {{1, 8, 2, 2}, {12, 8, 5, 5}, 1, 2},
                        {{1, 8, 6, 7}, {12, 8, 2, 2}, 1, 0}}) {
    CAPTURE(to_string(c.x));
    ConvParams p;
    p.groups = c.groups;
    p.pads_begin = p.pads_end = {c.pad, c.pad};
    const Tensor x = make(c.x, 1, Data::noise), w = make(c.w, 2, Data::noise);
    CHECK(compare(conv_op(), Params(p), {&x, &w}) >= 2);
  }
}

// Outputs that see padding alone, at either end and in the middle of nothing, and taps that none
// has inside: of each kind of pass.
TEST_CASE("exact: what only padding meets is left out") {
  if (detect_isa() < Isa::avx2) return;
  struct Case {
    Shape x, w;
    std::int64_t groups;
    std::vector<std::int64_t> strides, dilations, begin, end;
  };
  for (const Case& c :
       {Case{{2, 12, 2, 2}, {20, 12, 5, 5}, 1, {1, 1}, {1, 1}, {2, 2}, {2, 2}},
        {{1, 40, 7, 7}, {24, 40, 1, 1}, 1, {2, 2}, {1, 1}, {3, 3}, {3, 3}},
        {{1, 16, 3, 5}, {16, 16, 3, 3}, 1, {1, 1}, {1, 1}, {4, 0}, {1, 6}},
        {{2, 6, 4, 3}, {6, 1, 3, 3}, 6, {1, 1}, {3, 2}, {9, 6}, {8, 7}},
        {{1, 9, 6}, {7, 9, 4}, 1, {3}, {2}, {7}, {9}},
        {{1, 4, 2, 3, 2}, {6, 2, 3, 3, 3}, 2, {1, 1, 2}, {1, 2, 1}, {2, 3, 2}, {3, 2, 1}}}) {
    ConvParams p;
    p.groups = c.groups;
    p.strides = c.strides;
    p.dilations = c.dilations;
    p.pads_begin = c.begin;
    p.pads_end = c.end;
    CAPTURE(to_string(c.x));
    for (const Data data : {Data::noise, Data::midpoint, Data::special}) {
      const Tensor x = make(c.x, 4, data), w = make(c.w, 5, data), bias = make({c.w[0]}, 6, data);
      REQUIRE(met_layer(conv_geometry(p, x.shape(), w.shape()), w.data<float>().data()));
      CHECK(compare(conv_op(), Params(p), {&x, &w, &bias}) >= 2);
      CHECK(compare(conv_op(), Params(p), {&x, &w}) >= 2);
      for (const DType format : {DType::f16, DType::bf16}) {
        const Tensor nx = narrowed(x, format), nw = narrowed(w, format),
                     nb = narrowed(bias, format);
        for (const Isa isa : {Isa::avx2, Isa::avx512})
          if (isa <= detect_isa())
            CHECK(wrong_outputs(conv_op(), Params(p), {&nx, &nw, &nb}, run_conv_exact, isa, {}) ==
                  0);
      }
    }
  }
  // Nothing is met at all.
  ConvParams far;
  far.pads_begin = {2, 2};
  far.pads_end = {0, 0};
  far.strides = {9, 9};
  const Tensor x = make({1, 2, 1, 1}, 1, Data::noise), w = make({3, 2, 1, 1}, 2, Data::noise),
               bias = make({3}, 3, Data::noise);
  CHECK(compare(conv_op(), Params(far), {&x, &w, &bias}) >= 2);
}

// Layers whose transformed weights are too large to be kept.
TEST_CASE("exact: layers by Winograd, weights transformed when due") {
  if (detect_isa() < Isa::avx2) return;
  ConvParams p;
  p.pads_begin = p.pads_end = {1, 1};
  for (const int form : {0, 1})
    for (const Data data : {Data::midpoint, Data::noise}) {
      const Tensor x = make({2, 370, 3, 4}, 4, data), w = make({363, 370, 3, 3}, 5, data),
                   bias = make({363}, 6, data);
      const ConvGeometry g = conv_geometry(p, x.shape(), w.shape());
      for (const Isa isa : {Isa::avx2, Isa::avx512}) {
        if (isa > detect_isa()) continue;
        WinogradWeights weights;
        pack_exact_winograd(isa, g, *exact_winograd_layer(isa, g, form), w.data<float>().data(), 1,
                            weights);
        REQUIRE_FALSE(weights.transformed);
        CHECK(wrong_outputs(conv_op(), Params(p), {&x, &w, &bias}, run_conv_exact, isa,
                            {.winograd = form}) == 0);
      }
    }
}

// Columns of pixels 2^40 times as large as the others: every tile of 4x4 outputs meets one, but
// only three windows in eight do.
TEST_CASE("exact: what large inputs leave open under Winograd's bound is summed plainly") {
  if (detect_isa() < Isa::avx2) return;
  ConvParams p;
  p.pads_begin = p.pads_end = {1, 1};
  Tensor x = make({1, 24, 24, 24}, 4, Data::noise);
  const Tensor w = make({24, 24, 3, 3}, 5, Data::noise);
  std::int64_t i = 0;
  for (float& v : x.mutable_data<float>())
    if (i++ % 8 == 3) v *= 0x1p40F;
  for (const Isa isa : {Isa::avx2, Isa::avx512}) {
    if (isa > detect_isa()) continue;
    const ConvGeometry g = conv_geometry(p, x.shape(), w.shape());
    WinogradWeights weights;
    const WinogradLayer layer = *exact_winograd_layer(isa, g, 1);
    pack_exact_winograd(isa, g, layer, w.data<float>().data(), 1, weights);
    Tensor y = Tensor::uninitialized(DType::f32, g.output_shape());
    std::vector<std::int64_t> open;
    exact_winograd(
        isa, g, layer,
        {.x = x.data<float>().data(), .w = &weights, .y = y.mutable_data<float>().data()}, 1, open);
    CHECK(static_cast<std::int64_t>(open.size()) > y.numel() / 4);
    const std::int64_t before = exact_counts().undecided;
    CHECK(wrong_outputs(conv_op(), Params(p), {&x, &w}, run_conv_exact, isa, {.winograd = 1}) == 0);
    CHECK(exact_counts().undecided - before < y.numel() / 64);
  }
}

// What is taken without being told, with prepared weights and without.
TEST_CASE("exact: layers by Winograd are taken where they are faster") {
  if (detect_isa() < Isa::avx2) return;
  ConvParams p;
  p.pads_begin = p.pads_end = {1, 1};
  const Tensor x = make({1, 24, 28, 28}, 4, Data::noise), w = make({40, 24, 3, 3}, 5, Data::noise);
  for (const Isa isa : {Isa::avx2, Isa::avx512}) {
    if (isa > detect_isa()) continue;
    const auto layer = exact_winograd_layer(isa, conv_geometry(p, x.shape(), w.shape()));
    REQUIRE(layer);
    CHECK(layer->f().outputs == 4);
    CHECK_FALSE(exact_winograd_layer(isa, conv_geometry(p, x.shape(), Shape({40, 24, 1, 1}))));
  }
  CHECK(compare(conv_op(), Params(p), {&x, &w}) >= 2);
}

// What exact_winograd.h says of the transforms, on data whose exponents spread: within so many
// roundings of the transforms of magnitudes, and norms that are no smaller than they have to be.
TEST_CASE("exact: Winograd's transforms are as near as their bound says, their norms as large") {
  constexpr double u = 0x1p-53;
  const Philox random{7, 1};
  std::uint64_t next = 0;
  const auto draw = [&] {
    const int exponent = static_cast<int>(random.word(next++) % 60) - 30;
    return std::ldexp(random.uniform(next++), exponent);
  };
  for (const Isa isa : {Isa::avx2, Isa::avx512}) {
    if (isa > detect_isa()) continue;
    const WinogradLanes& set = *winograd_lanes(isa);
    double largest_v = 0, largest_u = 0;
    for (int form = 0; form < kWinogradFormCount; ++form) {
      const WinogradForm& f = kWinogradForms[form];
      CAPTURE(form);
      const int P = f.patch, R = f.taps, lanes = set.lanes, pairs = (P - 2) / 2;
      for (int round = 0; round < 200; ++round) {
        std::vector<float> d(static_cast<std::size_t>(P * P * lanes)),
            g(static_cast<std::size_t>((R * R + 1) * lanes));
        for (float& x : d) x = draw();
        for (float& x : g) x = draw();
        std::vector<std::int64_t> patch;
        for (int i = 0; i < P * P; ++i) patch.push_back(std::int64_t{i} * lanes);
        std::vector<double> v(static_cast<std::size_t>(P * P * lanes)), w = v;
        std::vector<double> squares(static_cast<std::size_t>(2 * lanes));
        w.resize(w.size() + static_cast<std::size_t>(lanes));
        set.transforms[form].input(d.data(), patch.data(), v.data(), lanes, squares.data());
        set.transforms[form].weights(g.data(), lanes, w.data(), lanes);
        for (int lane = 0; lane < lanes; ++lane) {
          // In long double: 11 bits more than f64.
          long double sum_v = 0, sum_size = 0;
          for (int p = 0; p < P; ++p)
            for (int q = 0; q < P; ++q) {
              long double x = 0, size = 0, y = 0, y_size = 0;
              for (int i = 0; i < P; ++i)
                for (int j = 0; j < P; ++j) {
                  const long double term = static_cast<long double>(f.bt[p][i]) * f.bt[q][j] *
                                           d[static_cast<std::size_t>((i * P + j) * lanes + lane)];
                  x += term;
                  size += std::abs(term);
                }
              for (int i = 0; i < R; ++i)
                for (int j = 0; j < R; ++j) {
                  const long double term = static_cast<long double>(f.g[p][i]) * f.g[q][j] *
                                           g[static_cast<std::size_t>((i * R + j) * lanes + lane)];
                  y += term;
                  y_size += std::abs(term);
                }
              const auto at = static_cast<std::size_t>((p * P + q) * lanes + lane);
              const auto error_v = static_cast<double>(std::abs(v[at] - x)),
                         error_u = static_cast<double>(std::abs(w[at] - y));
              REQUIRE(error_v <= 2 * pairs * u * (1 + 0x1p-8) * static_cast<double>(size));
              REQUIRE(error_u <=
                      (f.roundings - 2 * pairs) * u * (1 + 0x1p-8) * static_cast<double>(y_size));
              largest_v = std::max(largest_v, error_v / (u * static_cast<double>(size)));
              largest_u = std::max(largest_u, error_u / (u * static_cast<double>(y_size)));
              sum_v += static_cast<long double>(v[at]) * v[at];
              sum_size += size * size;
            }
          REQUIRE(squares[static_cast<std::size_t>(lane)] >=
                  static_cast<double>(sum_v) * (1 - 0x1p-40));
          REQUIRE(squares[static_cast<std::size_t>(lanes + lane)] >=
                  static_cast<double>(sum_size) * (1 - 0x1p-40));
        }
      }
    }
    CHECK(largest_v > 0.5);  // roundings do occur
    CHECK(largest_u > 0.5);
  }
}

TEST_CASE("exact: layers by Winograd in each form, odd extents, groups, padding, strides") {
  if (detect_isa() < Isa::avx2) return;
  CHECK(compare_winograd(false) >= 12);
  // Without the rounding test, and without what settles, wrong bits come out.
  ConvParams p;
  p.pads_begin = p.pads_end = {1, 1};
  const Tensor x = make({1, 32, 12, 12}, 4, Data::midpoint),
               w = make({40, 32, 3, 3}, 5, Data::midpoint);
  for (const Isa isa : {Isa::avx2, Isa::avx512})
    for (const int form : {0, 1}) {
      if (isa > detect_isa()) continue;
      const auto wrong = [&](ExactSteps steps) {
        steps.winograd = form;
        return wrong_outputs(conv_op(), Params(p), {&x, &w}, run_conv_exact, isa, steps);
      };
      CHECK(wrong({}) == 0);
      CHECK(wrong({.rounding_test = false}) > 0);
      CHECK(wrong({.settle = false, .definition = false}) > 0);
    }
}

TEST_SUITE("long") {
  TEST_CASE("exact: layers by Winograd, every kind of data in every layer") {
    if (detect_isa() < Isa::avx2) return;
    CHECK(compare_winograd(true) >= 42);
  }
}
