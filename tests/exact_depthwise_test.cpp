// Claim: layers of one input channel a group have the definition's bits under contract exact by the
// sums of kernels/conv/exact_depthwise.h, whatever the window, the stride, the padding and the
// data; its bound holds for every sum and is close enough to decide nearly all; where a channel's
// numbers differ by far, the layer is summed with a bound to each output instead. Without the
// rounding test, and without what settles, wrong bits come out.
#include "kernels/conv/exact_depthwise.h"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "kernels/conv/exact.h"
#include "tests/exact_data.h"

using namespace etalon;
using namespace etalon::test;

#if defined(__x86_64__)
namespace {

struct Case {
  Shape x, w;
  std::vector<std::int64_t> strides, dilations, begin, end;
};

// Rows that fill no vector and several; windows of each unrolled kind and others; a copy for each
// remainder; padding on one side, wider than the window's middle; one and three axes; up to four
// output channels to an input's.
const Case kCases[] = {
    {{2, 5, 9, 7}, {5, 1, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    {{1, 6, 20, 41}, {6, 1, 3, 3}, {1, 1}, {1, 1}, {0, 2}, {2, 0}},
    {{1, 7, 14, 14}, {14, 1, 3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}},
    {{1, 3, 33, 18}, {9, 1, 2, 2}, {1, 1}, {1, 1}, {0, 0}, {0, 1}},
    {{1, 3, 17, 50}, {12, 1, 5, 5}, {2, 1}, {1, 2}, {2, 3}, {2, 4}},
    {{1, 4, 12, 30}, {4, 1, 4, 2}, {3, 2}, {2, 1}, {1, 0}, {0, 1}},
    {{2, 4, 103}, {8, 1, 5}, {1}, {3}, {4}, {7}},
    {{1, 3, 5, 6, 9}, {6, 1, 2, 3, 3}, {1, 2, 1}, {1, 1, 1}, {1, 0, 1}, {0, 1, 1}},
    {{1, 8, 3, 3}, {8, 1, 3, 3}, {1, 1}, {1, 1}, {2, 2}, {2, 2}},
    {{1, 4, 6, 1}, {4, 1, 1, 1}, {1, 1}, {1, 1}, {0, 0}, {0, 0}},
};
ConvParams params_of(const Case& c) {
  ConvParams p;
  p.groups = c.x[1];
  p.strides = c.strides;
  p.dilations = c.dilations;
  p.pads_begin = c.begin;
  p.pads_end = c.end;
  return p;
}

}  // namespace

TEST_CASE("exact depthwise: windows, strides, padding, every kind of data") {
  if (detect_isa() < Isa::avx2) return;
  int compared = 0;
  for (const Case& c : kCases) {
    const ConvParams p = params_of(c);
    CAPTURE(to_string(c.x));
    for (const Data data :
         {Data::noise, Data::midpoint, Data::relu, Data::integers, Data::special}) {
      const Tensor x = make(c.x, 1, data), w = make(c.w, 2, data), bias = make({c.w[0]}, 3, data);
      for (const Isa isa : {Isa::avx2, Isa::avx512}) {
        if (isa > detect_isa()) continue;
        REQUIRE(exact_depthwise_rows(isa, conv_geometry(p, x.shape(), w.shape())));
        for (const int threads : {1, 3}) {
          CHECK(wrong_outputs(conv_op(), Params(p), {&x, &w, &bias}, run_conv_exact, isa, {},
                              threads) == 0);
          ++compared;
        }
        CHECK(wrong_outputs(conv_op(), Params(p), {&x, &w}, run_conv_exact, isa, {}) == 0);
        for (const DType format : {DType::f16, DType::bf16}) {
          const Tensor narrow_x = narrowed(x, format), narrow_w = narrowed(w, format),
                       narrow_bias = narrowed(bias, format);
          CHECK(wrong_outputs(conv_op(), Params(p), {&narrow_x, &narrow_w, &narrow_bias},
                              run_conv_exact, isa, {}) == 0);
        }
      }
    }
  }
  CHECK(compared >= 100);
}

TEST_CASE("exact depthwise: few of usual sums are left, and none that is decided is wrong") {
  if (detect_isa() < Isa::avx2) return;
  const Case c{{1, 16, 30, 45}, {32, 1, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}};
  const ConvParams p = params_of(c);
  const Tensor x = make(c.x, 4, Data::noise), w = make(c.w, 5, Data::noise);
  const ConvGeometry g = conv_geometry(p, x.shape(), w.shape());
  Tensor y = Tensor::uninitialized(DType::f32, g.output_shape());
  for (const Isa isa : {Isa::avx2, Isa::avx512}) {
    if (isa > detect_isa()) continue;
    std::vector<std::int64_t> left;
    exact_depthwise(isa, *exact_depthwise_rows(isa, g),
                    {.g = g,
                     .x = x.data<float>().data(),
                     .w = w.data<float>().data(),
                     .y = y.mutable_data<float>().data(),
                     .steps = {},
                     .threads = 2},
                    left);
    CHECK(static_cast<std::int64_t>(left.size()) * 1000 < y.numel());
    CHECK(wrong_outputs(conv_op(), Params(p), {&x, &w}, run_conv_exact, isa, {}) == 0);
  }
}

// As behind a ReLU that leaves parts of an image dead.
TEST_CASE("exact depthwise: windows of zeros are decided") {
  if (detect_isa() < Isa::avx2) return;
  for (const Case& c : {kCases[0], kCases[1], kCases[2], kCases[4], kCases[6]}) {
    const ConvParams p = params_of(c);
    Tensor x = make(c.x, 4, Data::noise);
    const Tensor w = make(c.w, 5, Data::noise), bias = make({c.w[0]}, 6, Data::noise);
    std::size_t i = 0;
    for (float& v : x.mutable_data<float>()) {
      v = i % 97 < 80 ? (i % 2 == 0 ? 0.0F : -0.0F) : v;
      ++i;
    }
    const ConvGeometry g = conv_geometry(p, x.shape(), w.shape());
    Tensor y = Tensor::uninitialized(DType::f32, g.output_shape());
    for (const Isa isa : {Isa::avx2, Isa::avx512}) {
      if (isa > detect_isa()) continue;
      for (const bool adds : {false, true}) {
        std::vector<std::int64_t> left;
        exact_depthwise(isa, *exact_depthwise_rows(isa, g),
                        {.g = g,
                         .x = x.data<float>().data(),
                         .w = w.data<float>().data(),
                         .bias = adds ? bias.data<float>().data() : nullptr,
                         .y = y.mutable_data<float>().data(),
                         .steps = {}},
                        left);
        CHECK(left.empty());
        std::vector<const Tensor*> in{&x, &w};
        if (adds) in.push_back(&bias);
        CHECK(wrong_outputs(conv_op(), Params(p), in, run_conv_exact, isa, {}) == 0);
      }
    }
  }
  // A sum of terms that only its roundings make zero is not.
  const ConvParams p = params_of(kCases[0]);
  Tensor x = make(kCases[0].x, 4, Data::noise), w = make(kCases[0].w, 5, Data::noise);
  std::size_t i = 0;
  const float terms[] = {0x1p60F, 0x1p-60F, -0x1p60F};
  for (float& v : x.mutable_data<float>()) v = terms[i++ % 7 % 3];
  for (float& v : w.mutable_data<float>()) v = 1;
  for (const Isa isa : {Isa::avx2, Isa::avx512})
    if (isa <= detect_isa())
      CHECK(wrong_outputs(conv_op(), Params(p), {&x, &w}, run_conv_exact, isa, {}) == 0);
}

TEST_CASE("exact depthwise: one large number in a channel, and no step can be left out") {
  if (detect_isa() < Isa::avx2) return;
  const Case c{{1, 4, 24, 24}, {4, 1, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}};
  const ConvParams p = params_of(c);
  Tensor x = make(c.x, 4, Data::noise);
  const Tensor w = make(c.w, 5, Data::noise);
  for (std::size_t channel = 0; channel < 4; ++channel)
    x.mutable_data<float>()[channel * 24 * 24 + 77] = 0x1p40F;
  const Tensor ties = make(c.x, 4, Data::midpoint), tie_weights = make(c.w, 5, Data::midpoint);
  for (const Isa isa : {Isa::avx2, Isa::avx512}) {
    if (isa > detect_isa()) continue;
    const ConvGeometry g = conv_geometry(p, x.shape(), w.shape());
    Tensor y = Tensor::uninitialized(DType::f32, g.output_shape());
    std::vector<std::int64_t> left;
    exact_depthwise(isa, *exact_depthwise_rows(isa, g),
                    {.g = g,
                     .x = x.data<float>().data(),
                     .w = w.data<float>().data(),
                     .y = y.mutable_data<float>().data(),
                     .steps = {}},
                    left);
    CHECK(static_cast<std::int64_t>(left.size()) > y.numel() / 2);
    const std::int64_t before = exact_counts().undecided;
    CHECK(wrong_outputs(conv_op(), Params(p), {&x, &w}, run_conv_exact, isa, {}) == 0);
    CHECK(exact_counts().undecided - before < y.numel() / 16);
    const auto wrong = [&](const ExactSteps& steps) {
      return wrong_outputs(conv_op(), Params(p), {&ties, &tie_weights}, run_conv_exact, isa, steps);
    };
    CHECK(wrong({}) == 0);
    CHECK(wrong({.rounding_test = false}) > 0);
    CHECK(wrong({.settle = false, .definition = false}) > 0);
  }
}

TEST_CASE("exact depthwise: the largest number of a row") {
  if (detect_isa() < Isa::avx2) return;
  for (std::int64_t n = 0; n < 150; ++n)
    for (std::int64_t at = 0; at < n; at += n < 40 ? 1 : 7) {
      std::vector<float> x(static_cast<std::size_t>(n) + 1, 1);
      x[static_cast<std::size_t>(n)] = 100;  // behind the row
      x[static_cast<std::size_t>(at)] = at % 2 == 0 ? -3.0F : 3.0F;
      for (const float other : {1.0F, NAN, 2.0F}) {
        if (n > 1) x[static_cast<std::size_t>((at + 1) % n)] = other;
        CHECK(avx2::largest(x.data(), n) == 3);
        if (detect_isa() >= Isa::avx512) CHECK(avx512::largest(x.data(), n) == 3);
      }
      x[static_cast<std::size_t>(at)] = -INFINITY;
      CHECK(avx2::largest(x.data(), n) == INFINITY);
      if (detect_isa() >= Isa::avx512) CHECK(avx512::largest(x.data(), n) == INFINITY);
    }
  CHECK(avx2::largest(nullptr, 0) == 0);
}
#endif
