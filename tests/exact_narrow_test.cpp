// Claim: products and convolutions on f16 and bf16 under contract exact have the definition's bits
// though their first pass only asks that no midpoint of the format lies between its f32 and the
// real value (kernels/gemm/exact_narrow.h): midpoints are told from all other f32; what is decided
// rounds as every number of its interval does; and it is decided where an f32 would be a tie.
// Without the rounding test, and without the definition for midpoints, wrong bits come out.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <vector>

#include "engine/core/philox.h"
#include "engine/numerics/fp.h"
#include "engine/ops/gemm.h"
#include "engine/ops/matmul.h"
#include "kernels/conv/exact.h"
#include "kernels/conv/exact_winograd.h"
#include "kernels/gemm/exact_lanes.h"
#include "kernels/gemm/halves.h"
#include "tests/exact_compare.h"
#include "tests/exact_data.h"

using namespace etalon;
using namespace etalon::test;

#if defined(__x86_64__)
namespace {

constexpr std::array kNarrow{DType::f16, DType::bf16};

const ExactCells& cells_of(DType format) { return format == DType::f16 ? kExactF16 : kExactBF16; }

// The midpoints of a format, as f32, upwards from the least positive one.
std::vector<float> midpoints_of(DType format) {
  std::vector<float> all;
  double x = 0;
  for (;;) {
    const double half = ulp_of(x, format) / 2;
    all.push_back(static_cast<float>(x + half));
    if (std::isinf(round_to(x + 2 * half, format))) return all;
    x += 2 * half;
  }
}

float next(float x, int steps) {
  return std::bit_cast<float>(bits_of(x) + static_cast<std::uint32_t>(steps));
}

}  // namespace

TEST_CASE("exact narrow: midpoints are told from all other numbers of f32") {
  if (detect_isa() < Isa::avx2) return;
  for (const DType format : kNarrow) {
    const std::vector<float> all = midpoints_of(format);
    REQUIRE(all.size() == (format == DType::f16 ? 0x7c00 : 0x7f80));
    int told = 0, others = 0;
    for (const float m : all)
      for (const float sign : {1.0F, -1.0F}) {
        const float x[] = {sign * m, sign * next(m, 1), sign * next(m, -1),
                           static_cast<float>(round_to(static_cast<double>(sign * m), format))};
        const std::uint64_t found = avx2::midpoints(format, x, 4);
        told += found & 1 ? 1 : 0;
        others += (found & 14) != 0 ? 1 : 0;
      }
    CHECK(told == static_cast<int>(2 * all.size()));
    CHECK(others == 0);
    const float odd[] = {0.0F,     -0.0F,         INFINITY,       -INFINITY,
                         NAN,      next(0.0F, 1), 0x1p-149F * 4,  3 * 0x1p-26F,
                         0x1p-26F, 0x1.fp16F,     0x1.fffffep127F};
    CHECK(avx2::midpoints(format, odd, std::size(odd)) == 0);
    // Every place of 64, and counts that fill no vector.
    std::vector<float> row(64, 1.0F);
    for (std::size_t i = 0; i < row.size(); ++i) {
      row[i] = all[300];
      CHECK(avx2::midpoints(format, row.data(), 64) == std::uint64_t{1} << i);
      CHECK(avx2::midpoints(format, row.data(), static_cast<std::int64_t>(i + 1)) ==
            std::uint64_t{1} << i);
      CHECK(avx2::midpoints(format, row.data(), static_cast<std::int64_t>(i)) == 0);
      row[i] = 1;
    }
  }
}

// Intervals about midpoints, about numbers of the format and anywhere, as wide as the distance to
// the next midpoint and far less, around the ends of the range too.
TEST_CASE("exact narrow: what is decided rounds as its whole interval does") {
  if (detect_isa() < Isa::avx2) return;
  for (const DType format : kNarrow)
    for (const Isa isa : {Isa::avx2, Isa::avx512}) {
      if (isa > detect_isa()) continue;
      const ExactLanes& lanes = *exact_lanes(isa);
      const std::vector<float> all = midpoints_of(format);
      const Philox random{11, 0};
      std::uint64_t at = 0;
      const auto pick = [&] { return static_cast<double>(random.uniform(at++)) / 2 + 0.5; };
      std::int64_t decided = 0, ties = 0, wrong = 0;
      for (int round = 0; round < 20000; ++round) {
        constexpr int kCount = 16;
        double sums[kCount], norms[kCount], bound = 1;
        float y[kCount];
        for (int i = 0; i < kCount; ++i) {
          const auto index =
              static_cast<std::size_t>(pick() * pick() * static_cast<double>(all.size() - 1));
          const double m = static_cast<double>(all[index]), unit = ulp_of(m, format);
          const int kind = static_cast<int>(pick() * 4);
          const double away = std::ldexp(unit, -static_cast<int>(pick() * 30));
          sums[i] = kind == 0   ? m + away
                    : kind == 1 ? m - away
                    : kind == 2 ? m + unit / 2 + away * (pick() - 0.5)
                                : m + unit * (pick() - 0.5);
          // A tie of two f32.
          if (i % 4 == 0)
            sums[i] = (static_cast<double>(static_cast<float>(sums[i])) +
                       static_cast<double>(next(static_cast<float>(sums[i]), 1))) /
                      2;
          if (pick() < 0.5) sums[i] = -sums[i];
          norms[i] = std::ldexp(away, static_cast<int>(pick() * 6) - 4);
          if (pick() < 0.1) norms[i] = 0;
        }
        std::uint32_t open = 0;
        ExactTile tile{.sums = sums,
                       .count = round % 3 == 0     ? kCount - 3
                                : isa == Isa::avx2 ? 8
                                                   : kCount,
                       .bounds = &bound,
                       .norms = norms,
                       .y = y,
                       .cells = &cells_of(format)};
        lanes.round(tile, &open);
        std::uint32_t open_f32 = 0;
        float as_f32[kCount];
        tile.y = as_f32;
        tile.cells = nullptr;
        lanes.round(tile, &open_f32);
        for (int i = 0; i < tile.count; ++i) {
          if (open >> i & 1) continue;
          if (avx2::midpoints(format, y + i, 1) != 0) continue;
          ++decided;
          ties += open_f32 >> i & 1;
          const double rounded = round_to(static_cast<double>(y[i]), format);
          for (const double end : {sums[i] - norms[i], sums[i], sums[i] + norms[i]}) {
            const double want = round_to(end, format);
            wrong += want != rounded || std::signbit(want) != std::signbit(rounded) ? 1 : 0;
          }
        }
      }
      CHECK(wrong == 0);
      CHECK(decided > 50000);
      CHECK(ties > 20000);  // of which an f32 would not have been decided
    }
}

TEST_CASE("exact narrow: f16 and bf16 operands, midpoints of the narrow format too") {
  if (detect_isa() < Isa::avx2) return;
  for (const DType format : kNarrow) {
    const std::int64_t before = exact_counts().defined;
    int compared = 0;
    const auto check = [&](const OpRow& op, const Params& p, const std::vector<const Tensor*>& in) {
      RunOptions options{.contract = Contract::exact_preset()};
      options.kernels = std::string(op.name) + ".definition";
      const OpRun want = run_op(op, p, in, all_kernels(), options);
      for (const KernelRow* row : all_kernels().rows_of(op.name)) {
        if (row->contracts != "exact" || !test::on_this_cpu(*row) ||
            refuses(*row, op, p, in, want.outputs[0].type()))
          continue;
        options.kernels = row->name;
        const OpRun got = run_op(op, p, in, all_kernels(), options);
        CAPTURE(row->name);
        CHECK(got.outputs[0].dtype() == format);
        const auto same = [&](const Tensor& y) {
          return std::memcmp(y.bytes().data(), want.outputs[0].bytes().data(),
                             want.outputs[0].size_bytes()) == 0;
        };
        CHECK(same(got.outputs[0]));
        CHECK(same(run_prepared(*row, op, p, in, want.outputs[0].type(), 2, false).y));
        ++compared;
      }
    };
    for (const Data data :
         {Data::noise, Data::midpoint, Data::relu, Data::integers, Data::special}) {
      const Tensor a = narrowed(make({19, 70}, 1, data), format),
                   b = narrowed(make({70, 23}, 2, data), format),
                   c = narrowed(make({23}, 3, data), format),
                   column = narrowed(make({70, 1}, 4, data), format);
      check(gemm_op(), Params(GemmParams{}), {&a, &b});
      check(gemm_op(), Params(GemmParams{}), {&a, &b, &c});
      check(gemm_op(), Params(GemmParams{.alpha = 3e-7F}), {&a, &b});  // subnormals of f16
      check(gemm_op(), Params(GemmParams{.alpha = 4e3F}), {&a, &b});   // its overflow
      check(matmul_op(), Params(), {&a, &b});
      check(matmul_op(), Params(), {&a, &column});
      const ConvCase k = conv_case(data);
      const Tensor x = narrowed(k.x, format), w = narrowed(k.w, format),
                   bias = narrowed(k.bias, format);
      check(conv_op(), k.params, {&x, &w, &bias});
      // A channel a group, windows in place.
      ConvParams depthwise;
      depthwise.groups = 6;
      const Tensor taps = narrowed(make({6, 1, 3, 2}, 5, data), format),
                   image = narrowed(make({1, 6, 9, 40}, 6, data), format);
      check(conv_op(), Params(depthwise), {&image, &taps});
    }
    CHECK(compared >= 5 * 8 * (detect_isa() >= Isa::avx512 ? 2 : 1));
    CHECK(exact_counts().defined > before);
  }
}

TEST_CASE("exact narrow: layers by Winograd, outputs of all sizes of f16") {
  if (detect_isa() < Isa::avx2) return;
  int compared = 0;
  for (const DType format : kNarrow) {
    int layer = 0;
    for (const WinogradCase& c : kWinogradCases) {
      const int number = layer++;
      const ConvParams p = params_of(c);
      for (const Data data : {Data::noise, Data::special}) {
        if ((number + static_cast<int>(data)) % 3 != 0) continue;
        Tensor wide = make(c.x, 4, data);
        // Channels whose outputs are subnormal in f16, and usual ones.
        for (float& v : wide.mutable_data<float>()) v *= number % 2 == 0 ? 0x1p-9F : 1;
        Tensor taps = make(c.w, 5, data);
        std::int64_t i = 0;
        for (float& v : taps.mutable_data<float>())
          v *= i++ / (taps.numel() / c.w[0]) % 2 == 0 ? 0x1p-10F : 1;
        const Tensor x = narrowed(wide, format), w = narrowed(taps, format),
                     bias = narrowed(make({c.w[0]}, 6, data), format);
        CAPTURE(number);
        for (const Isa isa : {Isa::avx2, Isa::avx512}) {
          if (isa > detect_isa()) continue;
          for (const bool adds : {false, true}) {
            std::vector<const Tensor*> in{&x, &w};
            if (adds) in.push_back(&bias);
            CHECK(wrong_outputs(conv_op(), Params(p), in, run_conv_exact, isa, {.winograd = c.form},
                                adds ? 3 : 1) == 0);
            ++compared;
          }
        }
      }
    }
  }
  CHECK(compared >= 2 * 8 * 2);
}

TEST_CASE("exact narrow: few outputs are settled, and no step can be left out") {
  if (detect_isa() < Isa::avx2) return;
  const DType format = DType::bf16;
  ConvParams p;
  p.pads_begin = p.pads_end = {1, 1};
  // Whole numbers, some of them 2^40 times as small: sums beside ties of two f32 and of two bf16.
  const auto few_bits = [&](const Shape& shape, std::uint64_t seed) {
    Tensor t = make(shape, seed, Data::noise);
    std::int64_t i = 0;
    for (float& v : t.mutable_data<float>())
      v = std::round(v * 16) * (i++ % 7 == 0 ? 0x1p-40F : 1.0F);
    return narrowed(t, format);
  };
  const Tensor x = few_bits({1, 32, 24, 24}, 1), w = few_bits({40, 32, 3, 3}, 2),
               a = few_bits({64, 100}, 3), b = few_bits({100, 80}, 4);
  for (const Isa isa : {Isa::avx2, Isa::avx512}) {
    if (isa > detect_isa()) continue;
    const auto wrong = [&](ExactSteps steps) {
      steps.winograd = 1;
      return wrong_outputs(conv_op(), Params(p), {&x, &w}, run_conv_exact, isa, steps) +
             wrong_outputs(gemm_op(), Params(GemmParams{}), {&a, &b}, run_gemm_exact, isa, steps);
    };
    const std::int64_t outputs = exact_counts().outputs, undecided = exact_counts().undecided;
    CHECK(wrong({}) == 0);
    CHECK((exact_counts().undecided - undecided) * 20 < exact_counts().outputs - outputs);
    CHECK(wrong({.rounding_test = false}) > 0);
    CHECK(wrong({.definition = false}) > 0);
  }
}
#endif
