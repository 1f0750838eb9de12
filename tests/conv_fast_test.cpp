// Claim: every row of conv that promises seq gives the bits of the definition, for any geometry,
// thread count and instruction set, and the rows of a batch are those of its images alone. The
// data shows the order of the sum (asserted) and whether padding was added as a zero: infinite
// weights, -0, and products that underflow to -0 lie over the border.
#include <doctest/doctest.h>

#include <cstring>

#include "engine/core/philox.h"
#include "engine/graph/executor.h"
#include "engine/ops/conv.h"
#include "kernels/conv/fast_chunk.h"
#include "kernels/kernels.h"
#include "tests/on_this_cpu.h"
#include "tests/peak_memory.h"
#include "tests/same_bits.h"
#include "tests/special_data.h"

using namespace etalon;
using test::equal_bits;

namespace {

enum class Data { noise, special, tiny, sparse };

Tensor make(const Shape& shape, std::uint64_t seed, Data data) {
  Tensor t = Tensor::uninitialized(DType::f32, shape);
  const Philox random{seed, 0};
  std::uint64_t i = 0;
  for (float& x : t.mutable_data<float>()) {
    x = random.uniform(i++);
    const float pick = test::share(random, i + 1000000);
    if (data == Data::tiny) x = pick < 0.5F ? x * 0x1p-75F : (pick < 0.8F ? 0.0F : -0.0F);
    if (data == Data::sparse && pick < 0.97F) x = pick < 0.5F ? 0.0F : -0.0F;
    if (data == Data::special) x = test::special(x, pick);
  }
  return t;
}

Tensor run(const ConvParams& p, std::span<const Tensor* const> in, std::string_view kernel,
           int threads, const char* contract = "seq") {
  RunOptions options{.contract = Contract::parse(contract), .threads = threads};
  options.kernels = kernel;
  return std::move(run_op(conv_op(), Params(p), in, all_kernels(), options).outputs[0]);
}

struct Case {
  Shape x, w;
  Ints strides, dilations, begin, end;
  std::int64_t groups = 1;
  bool bias = true;
};

ConvParams params(const Case& c) {
  ConvParams p;
  p.strides = c.strides;
  p.dilations = c.dilations;
  p.pads_begin = c.begin;
  p.pads_end = c.end;
  p.groups = c.groups;
  return p;
}

const Case kCases[] = {
    {{2, 1, 12, 12}, {20, 1, 5, 5}, {}, {}, {}, {}},
    {{3, 5, 7, 7}, {70, 5, 3, 3}, {}, {}, {1, 1}, {1, 1}},          // channels in lanes
    {{6, 24, 9, 9}, {48, 24, 5, 5}, {}, {}, {}, {}},                // images to threads
    {{6, 24, 9, 9}, {48, 24, 3, 3}, {}, {2, 2}, {2, 1}, {2, 1}},    // the same, padded
    {{1, 6, 9, 11}, {17, 6, 3, 2}, {2, 1}, {}, {2, 1}, {0, 1}},     // asymmetric
    {{2, 4, 13, 13}, {33, 4, 3, 3}, {}, {2, 2}, {2, 2}, {2, 2}},    // dilated
    {{1, 3, 35, 35}, {13, 3, 11, 11}, {4, 4}, {}, {2, 2}, {2, 2}},  // AlexNet's first
    {{2, 12, 8, 8}, {18, 4, 3, 3}, {}, {}, {1, 1}, {1, 1}, 3},      // groups
    {{2, 8, 10, 10}, {8, 1, 3, 3}, {}, {}, {1, 1}, {1, 1}, 8},      // depthwise
    {{1, 8, 17, 19}, {8, 1, 3, 3}, {2, 2}, {}, {0, 0}, {1, 1}, 8},
    {{1, 4, 9, 40}, {8, 1, 5, 3}, {1, 3}, {2, 1}, {4, 1}, {4, 1}, 4},  // multiplier 2
    {{1, 3, 6, 37}, {3, 1, 3, 3}, {}, {}, {2, 2}, {2, 2}, 3},  // depthwise, wider out than in
    {{2, 3, 9, 33}, {3, 1, 3, 3}, {}, {}, {}, {}, 3},          // narrower out than in
    {{1, 3, 11, 70}, {3, 1, 3, 3}, {2, 2}, {}, {1, 1}, {0, 1}, 3},
    {{1, 3, 8, 9}, {3, 1, 2, 2}, {2, 2}, {}, {}, {}, 3, false},
    {{1, 2, 9, 21}, {4, 1, 3, 2}, {1, 2}, {1, 2}, {1, 1}, {1, 3}, 2},  // columns of one phase
    {{1, 2, 9, 40}, {2, 1, 3, 2}, {2, 2}, {1, 2}, {1, 1}, {1, 1}, 2},  // rows of both, columns of
                                                                       // one
    {{1, 2, 5, 6, 7}, {2, 1, 3, 2, 3}, {2, 1, 2}, {}, {1, 1, 1}, {1, 0, 1}, 2},  // 3-D
    {{1, 2, 5, 6, 17}, {2, 1, 3, 3, 3}, {}, {}, {1, 1, 1}, {1, 1, 1}, 2},
    {{2, 3, 40}, {3, 1, 5}, {}, {2}, {4}, {4}, 3},                    // 1-D
    {{2, 40, 6, 6}, {50, 40, 1, 1}, {}, {}, {}, {}},                  // 1x1
    {{1, 16, 15, 15}, {40, 16, 1, 1}, {2, 2}, {}, {}, {}, 1, false},  // strided 1x1
    {{2, 6, 8, 70}, {10, 3, 1, 1}, {3, 2}, {}, {}, {}, 2, false},     // the same: wide rows, groups
    {{1, 5, 4, 7, 9}, {33, 5, 1, 1, 1}, {2, 1, 3}, {}, {}, {}, 1, false},
    {{2, 3, 50}, {9, 3, 4}, {3}, {}, {3}, {0}},                                       // 1-D
    {{2, 3, 5, 6, 7}, {11, 3, 3, 2, 3}, {1, 2, 2}, {2, 1, 1}, {2, 1, 0}, {1, 0, 2}},  // 3-D
    {{5, 30, 3, 3}, {47, 30, 3, 3}, {}, {}, {}, {}},           // one pixel an image
    {{1, 2, 4, 4}, {3, 2, 3, 3}, {3, 3}, {}, {5, 5}, {5, 5}},  // windows of padding only
    {{1, 40, 14, 14}, {64, 40, 3, 3}, {}, {}, {1, 1}, {1, 1}, 1, false},
    // Inputs read in place (kernels/conv/in_place.h): strided and in groups, with a last panel of
    // one vector; rows of outputs that see padding only; images in chunks; 1-D.
    {{2, 64, 27, 30}, {94, 32, 3, 3}, {2, 2}, {}, {1, 1}, {0, 2}, 2},
    {{1, 30, 9, 40}, {61, 30, 3, 3}, {}, {2, 3}, {9, 4}, {3, 7}},
    {{1, 32, 40, 64}, {32, 32, 3, 3}, {}, {}, {1, 1}, {1, 1}},
    {{2, 90, 60}, {32, 90, 3}, {}, {}, {2}, {1}},
    // Taps in groups of three, two and one; rows of one tile, of 13 and 14; steps of 2 and 3.
    {{1, 11, 9, 25}, {32, 11, 5, 5}, {}, {}, {2, 2}, {2, 2}},
    {{1, 8, 7, 27}, {48, 8, 5, 7}, {2, 2}, {}, {3, 3}, {3, 3}},
    {{1, 29, 5, 13}, {80, 29, 3, 3}, {}, {}, {1, 1}, {1, 1}},
    {{1, 86, 6, 14}, {35, 86, 3, 1}, {}, {}, {1, 0}, {1, 0}},
    {{1, 3, 20, 50}, {32, 3, 11, 8}, {4, 3}, {}, {5, 2}, {5, 4}},
    // Windows of three columns whose tiles leave padding out: on both sides of one tile, of
    // several; on one side; two columns of it, which count as zeros; steps of 2 with and without it
    // right.
    {{1, 29, 7, 7}, {48, 29, 3, 3}, {}, {}, {1, 1}, {1, 1}},
    {{2, 29, 3, 12}, {32, 29, 3, 3}, {}, {}, {1, 1}, {1, 1}, 1, false},
    {{1, 29, 4, 30}, {32, 29, 3, 3}, {}, {}, {1, 1}, {1, 1}},
    {{1, 29, 5, 17}, {32, 29, 3, 3}, {}, {}, {0, 1}, {1, 0}},
    {{1, 29, 5, 9}, {32, 29, 3, 3}, {}, {}, {1, 0}, {1, 1}},
    {{1, 29, 5, 8}, {32, 29, 3, 3}, {}, {}, {1, 2}, {1, 2}},
    {{1, 29, 6, 14}, {48, 29, 3, 3}, {2, 2}, {}, {1, 1}, {1, 1}},
    {{1, 29, 6, 27}, {32, 29, 3, 3}, {2, 2}, {}, {1, 1}, {1, 1}},
    // The same of five columns: both sides, more panels for one thread than for the other, one
    // side, less padding and more of it.
    {{1, 11, 7, 7}, {48, 11, 5, 5}, {}, {}, {2, 2}, {2, 2}},
    {{1, 11, 16, 14}, {48, 11, 5, 5}, {}, {}, {2, 2}, {2, 2}, 1, false},
    {{1, 11, 5, 27}, {32, 11, 5, 5}, {}, {}, {0, 2}, {2, 0}},
    {{1, 11, 5, 17}, {32, 11, 5, 5}, {}, {}, {1, 0}, {3, 2}},
    {{1, 11, 4, 9}, {32, 11, 5, 5}, {}, {}, {1, 1}, {1, 1}},
    {{1, 11, 4, 9}, {32, 11, 5, 5}, {}, {}, {3, 3}, {3, 3}},
    // Panels of weights beyond the second cache, in blocks of channels.
    {{1, 448, 2, 7}, {44, 448, 5, 5}, {}, {}, {2, 2}, {2, 2}},
    // rows so short that AVX2 takes three vectors a tile, and what is left of them
    {{1, 29, 7, 7}, {60, 29, 3, 3}, {}, {}, {1, 1}, {1, 1}},
    {{2, 12, 12, 12}, {55, 12, 5, 5}, {}, {}, {}, {}, 1, false},
    {{1, 29, 9, 13}, {72, 29, 3, 3}, {2, 2}, {}, {1, 1}, {1, 1}},
    {{1, 32, 9, 12}, {79, 32, 3, 3}, {}, {1, 2}, {1, 0}, {1, 0}},
    // Few channels, whose tiles read the image as it lies: vectors of one run and of two, of more
    // (rows of 6), several blocks of k, one image after the other.
    {{2, 5, 20, 33}, {3, 5, 3, 3}, {}, {}, {1, 1}, {1, 1}},
    {{1, 9, 12, 64}, {4, 9, 2, 2}, {}, {}, {}, {}},
    {{1, 730, 9, 20}, {2, 730, 1, 1}, {}, {}, {}, {}, 1, false},
    {{1, 80, 11, 27}, {1, 80, 3, 3}, {}, {}, {2, 2}, {0, 1}},
    {{2, 8, 30, 6}, {6, 4, 3, 3}, {2, 1}, {}, {1, 1}, {1, 1}, 2},
    // More padding than a window needs: outputs that meet nothing, around others, on one side, with
    // a stride whose first tap steps over the edge, between taps that are far apart, all of them.
    {{2, 33, 7, 7}, {40, 33, 1, 1}, {2, 2}, {}, {3, 3}, {3, 3}},
    {{1, 20, 9, 12}, {33, 20, 1, 1}, {}, {}, {0, 2}, {3, 0}, 1, false},
    {{1, 29, 8, 14}, {32, 29, 3, 3}, {}, {}, {4, 5}, {3, 4}},
    {{1, 10, 6, 9}, {16, 5, 2, 1}, {5, 4}, {}, {7, 6}, {9, 5}, 2},
    {{1, 3, 2, 3}, {4, 3, 2, 2}, {}, {7, 5}, {7, 6}, {8, 6}},
    {{1, 2, 3, 4, 5}, {5, 2, 1, 1, 1}, {1, 2, 1}, {}, {2, 1, 0}, {1, 3, 4}},
    {{1, 3, 3, 3}, {5, 3, 1, 1}, {9, 9}, {}, {4, 4}, {4, 4}},
    // Depthwise windows walked row by row (kernels/conv/tap_rows.h): steps of one with each padding
    // above and below, half a vector, several of them, bands of rows; one row; steps of two.
    {{1, 3, 14, 14}, {3, 1, 3, 3}, {}, {}, {1, 1}, {1, 1}, 3},
    {{1, 3, 37, 131}, {3, 1, 3, 3}, {}, {}, {1, 1}, {1, 1}, 3, false},
    {{1, 2, 34, 140}, {4, 1, 3, 3}, {}, {}, {0, 2}, {2, 0}, 2},
    {{1, 3, 5, 8}, {3, 1, 3, 3}, {}, {}, {2, 0}, {1, 2}, 3},
    {{1, 3, 1, 33}, {3, 1, 3, 3}, {}, {}, {2, 2}, {2, 1}, 3},
    {{1, 2, 1, 5}, {2, 1, 3, 3}, {}, {}, {1, 1}, {1, 1}, 2},
    {{1, 2, 3, 3}, {2, 1, 3, 3}, {}, {}, {}, {}, 2},
    {{2, 3, 7, 7}, {3, 1, 3, 3}, {}, {}, {1, 1}, {1, 1}, 3},
    {{1, 4, 14, 14}, {4, 1, 3, 3}, {2, 2}, {}, {1, 1}, {1, 1}, 4, false},
    {{1, 3, 15, 29}, {6, 1, 5, 5}, {2, 2}, {}, {2, 1}, {1, 2}, 3},
    {{1, 2, 9, 31}, {2, 1, 5, 5}, {}, {}, {2, 2}, {2, 2}, 2},
    {{1, 3, 3, 2}, {3, 1, 5, 5}, {}, {}, {3, 3}, {3, 3}, 3},
    {{1, 2, 1, 75}, {2, 1, 3, 3}, {2, 2}, {}, {2, 0}, {3, 0}, 2},
    // Last vectors of a row that start earlier, by most of a vector, with padding under them.
    {{2, 3, 6, 9}, {3, 1, 3, 3}, {}, {}, {1, 1}, {1, 1}, 3},
    {{1, 3, 5, 17}, {3, 1, 3, 3}, {}, {}, {1, 2}, {1, 2}, 3, false},
    {{1, 3, 9, 30}, {3, 1, 3, 3}, {2, 2}, {}, {1, 1}, {1, 0}, 3},
    {{1, 3, 9, 34}, {3, 1, 5, 5}, {2, 2}, {}, {2, 2}, {2, 2}, 3},
    // One tap, fewer terms than are asked for ahead, images that end within a vector.
    {{2, 7, 9, 11}, {20, 7, 1, 1}, {}, {}, {}, {}},
    {{1, 32, 16, 24}, {64, 32, 1, 1}, {}, {}, {}, {}, 1, false},
};

// Images side by side (kernels/conv/images.h): several strips of them, one, as few as go; last
// panels of one vector and of few channels; groups, steps, taps far apart, other padding on each
// side; outputs that meet nothing; more inputs than are copied at
// a time.
const Case kSideBySide[] = {
    {{29, 5, 4, 4}, {37, 5, 5, 5}, {}, {}, {2, 2}, {2, 2}},
    {{7, 6, 2, 2}, {40, 3, 5, 5}, {}, {}, {2, 2}, {2, 2}, 2},
    {{13, 4, 5, 3}, {48, 4, 3, 5}, {2, 1}, {}, {2, 2}, {0, 3}},
    {{25, 3, 6, 6}, {32, 3, 3, 3}, {}, {3, 3}, {3, 3}, {3, 3}, 1, false},
    {{6, 4, 3, 3}, {33, 4, 7, 7}, {}, {}, {3, 3}, {3, 3}, 1, false},
    {{12, 2, 2, 2}, {32, 2, 3, 3}, {1, 2}, {}, {4, 3}, {3, 3}},
    {{26, 20, 20, 20}, {32, 20, 3, 3}, {}, {12, 12}, {12, 12}, {12, 12}},
};

// Each case with each kind of data, at every count of threads or at two in turn, so that a case
// meets all four. Returns how many runs were compared.
int compare_rows(bool every_count) {
  int compared = 0, turn = 0;
  std::vector<Case> cases(std::begin(kCases), std::end(kCases));
  cases.insert(cases.end(), std::begin(kSideBySide), std::end(kSideBySide));
  for (const Case& c : cases) {
    ++turn;
    for (const Data data : {Data::noise, Data::special, Data::tiny, Data::sparse}) {
      // A sanitizer takes twenty times as long.
      if (test::kKeepsFreed && (data == Data::tiny || data == Data::sparse)) continue;
      std::vector<int> counts{1, 2, 3, 7};
      if (!every_count) counts = ++turn % 2 == 0 ? std::vector{1, 3} : std::vector{2, 7};
      const Tensor x = make(c.x, 1, data), w = make(c.w, 2, data);
      const Tensor b = make({c.w[0]}, 3, data);
      std::vector<const Tensor*> in{&x, &w};
      if (c.bias) in.push_back(&b);
      const Tensor want = run(params(c), in, "conv.definition", 2);
      for (const KernelRow* row : all_kernels().rows_of("conv")) {
        if (row->promise != Promise::defined || row->contracts != "seq" || !test::on_this_cpu(*row))
          continue;
        for (const int threads : counts) {
          if (row->name.find("depthwise") != std::string_view::npos &&
              (c.w[1] != 1 || c.groups == 1))
            continue;
          CAPTURE(row->name);
          CAPTURE(threads);
          CAPTURE(static_cast<int>(data));
          CAPTURE(to_string(c.x));
          CAPTURE(to_string(c.w));
          CHECK(equal_bits(run(params(c), in, row->name, threads), want));
          ++compared;
        }
      }
    }
  }
  return compared;
}

}  // namespace

TEST_CASE("conv: every fast row has the bits of the definition") {
  const int compared = compare_rows(false);
  if (detect_isa() >= Isa::avx2) CHECK(compared >= (test::kKeepsFreed ? 150 : 300));
}

TEST_SUITE("long") {
  TEST_CASE("conv: every fast row has the bits of the definition at every count of threads") {
    const int compared = compare_rows(true);
    if (detect_isa() >= Isa::avx2) CHECK(compared >= (test::kKeepsFreed ? 300 : 600));
  }
}

#if defined(__x86_64__)
TEST_CASE("conv: small images with much padding go side by side, others do not") {
  for (const Isa isa : {Isa::avx2, Isa::avx512}) {
    if (detect_isa() < isa) continue;
    const auto side_by_side = [&](const Case& c) {
      return prepare_conv(conv_geometry(params(c), c.x, c.w), *tile_set_f32(isa), false, nullptr, 1)
          ->images.has_value();
    };
    for (const Case& c : kSideBySide) CHECK_MESSAGE(side_by_side(c), to_string(c.x));
    CHECK(!side_by_side({{2, 5, 4, 4}, {37, 5, 5, 5}, {}, {}, {2, 2}, {2, 2}}));       // few images
    CHECK(!side_by_side({{29, 5, 4, 4}, {37, 5, 3, 3}, {}, {}, {1, 0}, {1, 0}}));      // all inside
    CHECK(!side_by_side({{29, 64, 14, 14}, {64, 64, 3, 3}, {}, {}, {1, 1}, {1, 1}}));  // in place
  }
}
#endif

TEST_CASE("conv: the data of this test shows the order, and padding added as zeros") {
  const Tensor x = make({1, 40, 14, 14}, 1, Data::noise), w = make({64, 40, 3, 3}, 2, Data::noise);
  const Tensor* in[] = {&x, &w};
  ConvParams p;
  p.pads_begin = p.pads_end = {1, 1};
  const Tensor seq = run(p, in, "", 1);
  CHECK(!equal_bits(seq, run(p, in, "", 1, "order=lanes:8")));
  CHECK(!equal_bits(seq, run(p, in, "", 1, "walk=rsc")));

  // The same convolution over an input that holds its padding as zeros differs on the hostile data.
  for (const Data data : {Data::special, Data::tiny}) {
    const Tensor inner = make({1, 2, 6, 6}, 4, data), taps = make({25, 2, 3, 3}, 5, data);
    Tensor outer = Tensor::zeros(DType::f32, {1, 2, 8, 8});
    for (std::size_t c = 0; c < 2; ++c)
      for (std::size_t i = 0; i < 36; ++i)
        outer.mutable_data<float>()[c * 64 + (i / 6 + 1) * 8 + i % 6 + 1] =
            inner.data<float>()[c * 36 + i];
    const Tensor* skipped[] = {&inner, &taps};
    const Tensor* added[] = {&outer, &taps};
    CAPTURE(static_cast<int>(data));
    CHECK(!equal_bits(run(p, skipped, "", 1), run({}, added, "", 1)));
  }
}

TEST_CASE("conv: an image of a batch equals the image alone") {
  for (const Case& c : {kCases[1], kCases[5], kCases[13], kSideBySide[0]}) {
    const Tensor x = make(c.x, 1, Data::noise), w = make(c.w, 2, Data::noise);
    const Tensor b = make({c.w[0]}, 3, Data::noise);
    const Tensor* in[] = {&x, &w, &b};
    const Tensor all = run(params(c), in, "", 2);
    const auto size = static_cast<std::size_t>(x.numel() / c.x[0]);
    for (std::int64_t i = 0; i < c.x[0]; ++i) {
      const Tensor image = Tensor::of<float>(
          c.x.with_dim(0, 1), x.data<float>().subspan(static_cast<std::size_t>(i) * size, size));
      const Tensor* alone[] = {&image, &w, &b};
      const Tensor y = run(params(c), alone, "", 1);
      CHECK(std::memcmp(y.bytes().data(),
                        all.bytes().data() + i * static_cast<std::int64_t>(y.size_bytes()),
                        y.size_bytes()) == 0);
    }
  }
}
