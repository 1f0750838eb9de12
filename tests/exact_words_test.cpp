// Claim: products of bf16 under contract exact by words of two terms (kernels/gemm/exact_pairs.h)
// have the definition's bits; each of the three sums lies within its bound of the exact one, and
// does round; operands whose order the instruction does not keep, and sums that are small beside
// their terms, go by f64. Without the rounding test wrong bits come out.
#include <doctest/doctest.h>

#include <cmath>
#include <tuple>
#include <vector>

#include "engine/core/philox.h"
#include "engine/ops/gemm.h"
#include "engine/ops/matmul.h"
#include "kernels/conv/exact.h"
#include "kernels/gemm/exact_pairs.h"
#include "tests/exact_data.h"

using namespace etalon;
using namespace etalon::test;

#if defined(__x86_64__)
namespace {

bool has_words() { return detect_isa() >= Isa::avx512 && !refuse_pairs(); }

Tensor halves(const Shape& shape, std::uint64_t seed, Data data = Data::noise) {
  return narrowed(make(shape, seed, data), DType::bf16);
}
int wrong_gemm(const GemmParams& p, const std::vector<const Tensor*>& in, int threads = 1,
               const ExactSteps& steps = {}) {
  return wrong_outputs(gemm_op(), Params(p), in, run_gemm_exact, Isa::avx512, steps, threads);
}

}  // namespace

TEST_CASE("exact words: products in odd shapes, every kind of data") {
  if (!has_words()) return;
  for (const auto& [m, n, k] : {std::tuple{14, 32, 128},
                                {5, 7, 0},
                                {3, 5, 1},
                                {17, 33, 17},
                                {29, 47, 301},
                                {15, 130, 64},
                                {140, 16, 129},
                                {5, 18, 2500}}) {
    CAPTURE(k);
    for (const Data data :
         {Data::noise, Data::midpoint, Data::relu, Data::integers, Data::special}) {
      const auto seed = static_cast<std::uint64_t>(m * 1000 + n);
      const Tensor a = halves({m, k}, seed, data), b = halves({k, n}, seed + 1, data),
                   at = halves({k, m}, seed + 2, data), bt = halves({n, k}, seed + 3, data),
                   c = halves({m, n}, seed + 4, data), row = halves({n}, seed + 5, data);
      for (const int threads : {1, 3}) {
        CHECK(wrong_gemm({}, {&a, &b}, threads) == 0);
        CHECK(wrong_gemm({.trans_b = true}, {&a, &bt, &row}, threads) == 0);
        CHECK(wrong_gemm({.alpha = 0.7F, .beta = -2, .trans_a = true}, {&at, &b, &c}, threads) ==
              0);
      }
      const Tensor a3 = halves({2, m, k}, seed + 6, data);
      const Contract exact = Contract::exact_preset();
      RunOptions options{.contract = exact};
      options.kernels = "matmul.definition";
      const std::vector<const Tensor*> in{&a3, &b};
      const OpRun want = run_op(matmul_op(), Params(), in, all_kernels(), options);
      options.kernels = "matmul.exact.avx512";
      const OpRun got = run_op(matmul_op(), Params(), in, all_kernels(), options);
      CHECK(std::memcmp(got.outputs[0].bytes().data(), want.outputs[0].bytes().data(),
                        want.outputs[0].size_bytes()) == 0);
    }
  }
}

TEST_CASE("exact words: layers of one tap") {
  if (!has_words()) return;
  for (const std::int64_t groups : {1, 2})
    for (const Data data : {Data::noise, Data::midpoint, Data::special}) {
      ConvParams p;
      p.groups = groups;
      const Tensor x = halves({2, 70, 7, 9}, 1, data), w = halves({38, 70 / groups, 1, 1}, 2, data),
                   bias = halves({38}, 3, data);
      for (const int threads : {1, 3}) {
        CHECK(wrong_outputs(conv_op(), Params(p), {&x, &w}, run_conv_exact, Isa::avx512, {},
                            threads) == 0);
        CHECK(wrong_outputs(conv_op(), Params(p), {&x, &w, &bias}, run_conv_exact, Isa::avx512, {},
                            threads) == 0);
      }
    }
}

// Each way of summing words, beside the sum of their products in long double, 2^11 times as fine as
// the closest bound.
TEST_CASE("exact words: sums within their bounds, which they do round to") {
  if (!has_words()) return;
  const ExactPairSet& set = avx512bf16::exact_pairs();
  constexpr std::int64_t kGroup = kPairBlock * kPairGroup;
  double closest[3] = {};
  for (const std::int64_t steps : {std::int64_t{1}, std::int64_t{7}, kPairBlock, kGroup, kGroup + 3,
                                   3 * kGroup - 1, 4 * kGroup + kPairBlock}) {
    constexpr int kRows = 5, kVectors = 2, kColumns = kVectors * kPairLanes;
    const std::int64_t k = 2 * steps;
    const auto number = [](std::uint64_t seed, std::int64_t i) {
      const Philox random{seed, 0};
      const auto at = static_cast<std::uint64_t>(i);
      const float u = random.uniform(2 * at) * 2 - 1;
      // Of different sizes, so that sums round.
      return static_cast<float>(
          round_to(std::ldexp(static_cast<double>(u), static_cast<int>(at % 5) - 3), DType::bf16));
    };
    // Rows and columns along k, columns also as the tile wants them.
    const auto word = [](float upper, float lower) {
      return std::bit_cast<float>(bits_of(upper) | bits_of(lower) >> 16);
    };
    std::vector<float> a(static_cast<std::size_t>(kRows * steps)),
        b(static_cast<std::size_t>(kColumns * steps)), packed_b = b;
    std::vector<std::vector<float>> rows(kRows), columns(kColumns);
    for (std::int64_t i = 0; i < k; ++i) {
      for (int r = 0; r < kRows; ++r)
        rows[static_cast<std::size_t>(r)].push_back(number(1, r * k + i));
      for (int c = 0; c < kColumns; ++c)
        columns[static_cast<std::size_t>(c)].push_back(number(2, c * k + i));
    }
    for (std::int64_t s = 0; s < steps; ++s) {
      const auto at = static_cast<std::size_t>(2 * s);
      for (std::int64_t r = 0; r < kRows; ++r) {
        const auto& v = rows[static_cast<std::size_t>(r)];
        a[static_cast<std::size_t>(r * steps + s)] = word(v[at], v[at + 1]);
      }
      for (std::int64_t c = 0; c < kColumns; ++c) {
        const auto& v = columns[static_cast<std::size_t>(c)];
        b[static_cast<std::size_t>(c * steps + s)] =
            packed_b[static_cast<std::size_t>((c / 16 * steps + s) * 16 + c % 16)] =
                word(v[at], v[at + 1]);
      }
    }
    std::vector<double> sums(kRows * kColumns);
    for (std::int64_t from = 0; from < steps; from += 2 * kGroup)  // blocks of k, joined
      set.of[kVectors][kRows]({.steps = std::min(2 * kGroup, steps - from),
                               .a = a.data() + from,
                               .a_row = steps,
                               .b = packed_b.data() + from * kPairLanes,
                               .b_vector = steps * kPairLanes,
                               .sums = sums.data(),
                               .sums_row = kColumns,
                               .join = from > 0});
    // Squared norms, which the bound has room for.
    const auto near = [](double got, const std::vector<float>& of) {
      long double want = 0;
      for (const float v : of) want += static_cast<long double>(v) * static_cast<long double>(v);
      return std::abs(static_cast<long double>(got) - want) <= want * 0x1p-45L;
    };
    for (std::size_t r = 0; r < kRows; ++r)
      CHECK(near(set.square(a.data() + static_cast<std::int64_t>(r) * steps, steps), rows[r]));
    double squares[kColumns];
    for (int v = 0; v < kVectors; ++v)
      set.squares(packed_b.data() + v * kPairLanes * steps, steps, squares + v * kPairLanes);
    for (std::size_t c = 0; c < kColumns; ++c) CHECK(near(squares[c], columns[c]));
    for (std::size_t r = 0; r < kRows; ++r)
      for (std::size_t c = 0; c < kColumns; ++c) {
        long double exact = 0;
        double size = 0;
        for (std::size_t i = 0; i < rows[r].size(); ++i) {
          const double term = static_cast<double>(rows[r][i]) * static_cast<double>(columns[c][i]);
          exact += static_cast<long double>(term);
          size += std::abs(term);
        }
        const double groups = static_cast<double>((steps + kGroup - 1) / kGroup),
                     fine = (static_cast<double>(steps / 16 + 16)) * 0x1p-53;
        const double bounds[3] = {
            (2 * kPairBlock + kPairGroup - 2) * 0x1p-24 + (groups + 1) * 0x1p-53,
            kPairDotRoundings * 0x1p-24 + fine, fine};
        const double got[3] = {
            sums[r * kColumns + c],
            set.dot(a.data() + static_cast<std::int64_t>(r) * steps,
                    b.data() + static_cast<std::int64_t>(c) * steps, steps),
            set.fine_dot(a.data() + static_cast<std::int64_t>(r) * steps,
                         b.data() + static_cast<std::int64_t>(c) * steps, steps)};
        for (int way = 0; way < 3; ++way) {
          const double share =
              static_cast<double>(std::abs(static_cast<long double>(got[way]) - exact)) /
              (bounds[way] * size);
          REQUIRE(share <= 1);
          closest[way] = std::max(closest[way], share);
        }
      }
  }
  CHECK(closest[0] > 0.02);
  CHECK(closest[1] > 0.02);
}

TEST_CASE("exact words: what they do not take, and no step can be left out") {
  if (!has_words()) return;
  const std::int64_t m = 40, n = 50, k = 300;
  const Tensor a = halves({m, k}, 1), b = halves({k, n}, 2);
  ExactOperand packed;
  const auto taken = [&](const Tensor& left, const Tensor& right) {
    const Tensor wide_a = [&] {
      Tensor t = Tensor::uninitialized(DType::f32, left.shape());
      for (std::size_t i = 0; i < static_cast<std::size_t>(t.numel()); ++i)
        t.mutable_data<float>()[i] =
            static_cast<float>(load_as_double(left, static_cast<std::int64_t>(i)));
      return t;
    }();
    Tensor wide_b = Tensor::uninitialized(DType::f32, right.shape()),
           y = Tensor::uninitialized(DType::f32, {m, n});
    for (std::int64_t i = 0; i < wide_b.numel(); ++i)
      wide_b.mutable_data<float>()[static_cast<std::size_t>(i)] =
          static_cast<float>(load_as_double(right, i));
    const MatrixView of_b{wide_b.data<float>().data(), 1, n};
    pack_exact(Isa::avx512, {.m = m, .n = n, .k = k, .b_halves = bf16_bits(right)}, of_b, 1,
               packed);
    REQUIRE(packed.first == ExactFirst::words);
    std::vector<std::int64_t> open;
    ExactTask task{.m = m,
                   .n = n,
                   .k = k,
                   .a = {wide_a.data<float>().data(), k, 1},
                   .b = of_b,
                   .y = y.mutable_data<float>().data()};
    task.steps.cells = &kExactBF16;
    task.a_halves = bf16_bits(left);
    task.b_halves = bf16_bits(right);
    const bool done = words_pass(task, packed, 1, open);
    CHECK((done || open.empty()));
    CHECK(static_cast<std::int64_t>(open.size()) * kPairOpen <= m * n);
    return done;
  };
  CHECK(taken(a, b));
  for (const float odd : {INFINITY, NAN, 0x1p-130F}) {
    Tensor other = halves({m, k}, 1);
    store_from_double(DType::bf16, other.mutable_bytes().data(), 77, static_cast<double>(odd));
    CHECK_FALSE(taken(other, b));
    CHECK(wrong_gemm({}, {&other, &b}) == 0);
  }
  // x, -x and little beside them: sums of f64 decide.
  Tensor cancelling = Tensor::uninitialized(DType::bf16, {m, k}), equal = halves({k, n}, 2);
  for (std::int64_t i = 0; i < m * k; ++i)
    store_from_double(DType::bf16, cancelling.mutable_bytes().data(), i,
                      i % k % 3 == 0   ? load_as_double(a, i) * 0x1p-40
                      : i % k % 3 == 1 ? load_as_double(a, i)
                                       : -load_as_double(a, i - 1));
  for (std::int64_t i = 0; i < k * n; ++i)
    store_from_double(DType::bf16, equal.mutable_bytes().data(), i, load_as_double(b, i % n));
  CHECK_FALSE(taken(cancelling, equal));
  CHECK(wrong_gemm({}, {&cancelling, &equal}) == 0);
  CHECK(wrong_gemm({}, {&a, &b}, 1, {.rounding_test = false}) > 0);
}
#endif
