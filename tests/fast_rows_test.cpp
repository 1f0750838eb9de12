// Claim: the fast rows of pools, depthwise convolution, elementwise arithmetic, relu and matmul
// have the bits of their definitions at any thread count. The data holds NaN, infinities, -0, ties
// and subnormals.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "engine/core/philox.h"
#include "engine/graph/executor.h"
#include "engine/ops/activation.h"
#include "engine/ops/conv_channels_last.h"
#include "engine/ops/elementwise.h"
#include "engine/ops/matmul.h"
#include "engine/ops/pool.h"
#include "kernels/kernels.h"
#include "tests/on_this_cpu.h"
#include "tests/special_data.h"

using namespace etalon;

namespace {

Tensor make(const Shape& shape, std::uint64_t seed, bool special) {
  Tensor t = Tensor::uninitialized(DType::f32, shape);
  const Philox random{seed, 0};
  std::uint64_t i = 0;
  for (float& x : t.mutable_data<float>()) {
    x = random.uniform(i++);
    if (special) x = test::special(x, test::share(random, i + 1000000));
  }
  return t;
}

// Runs every fast row of the op, or those whose name has `part`; returns how many.
int compare(const char* op, const Params& params, std::vector<const Tensor*> in,
            std::string_view part = "") {
  RunOptions options;
  options.kernels = std::string(op) + ".definition";
  const Tensor want = std::move(run_op(get_op(op), params, in, all_kernels(), options).outputs[0]);
  int compared = 0;
  for (const KernelRow* row : all_kernels().rows_of(op)) {
    if (row->promise != Promise::defined || row->contracts == "all" || row->contracts == "exact" ||
        test::takes_halves_only(*row) || !test::on_this_cpu(*row) ||
        row->name.find(part) == std::string_view::npos)
      continue;
    for (const int threads : {1, 2, 3, 7}) {
      options.kernels = row->name;
      options.threads = threads;
      const Tensor got =
          std::move(run_op(get_op(op), params, in, all_kernels(), options).outputs[0]);
      CAPTURE(row->name);
      CAPTURE(threads);
      CAPTURE(to_string(in[0]->shape()));
      CHECK(got.type() == want.type());
      CHECK(std::memcmp(got.bytes().data(), want.bytes().data(), want.size_bytes()) == 0);
      ++compared;
    }
  }
  return compared;
}

template <class P>
P window(Ints kernel, Ints strides, Ints begin, Ints end, Ints dilations = {}) {
  P p;
  p.kernel = std::move(kernel);
  p.strides = std::move(strides);
  p.pads_begin = std::move(begin);
  p.pads_end = std::move(end);
  p.dilations = std::move(dilations);
  return p;
}

}  // namespace

TEST_CASE("pools: fast rows have the definition's bits") {
  const struct {
    Shape x;
    Ints kernel, strides, begin, end, dilations;
    bool ceil;
  } cases[] = {
      {{2, 3, 24, 24}, {2, 2}, {2, 2}, {}, {}, {}, false},
      {{1, 5, 55, 55}, {3, 3}, {2, 2}, {}, {}, {}, false},
      {{1, 4, 112, 37}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {}, false},
      {{1, 4, 13, 14}, {3, 2}, {2, 3}, {1, 0}, {1, 1}, {}, true},
      {{2, 2, 9, 20}, {3, 3}, {1, 1}, {2, 2}, {2, 2}, {2, 1}, false},
      {{2, 3, 7, 8, 9}, {2, 3, 2}, {2, 1, 1}, {0, 1, 1}, {1, 1, 0}, {}, false},
      {{3, 2, 19}, {4}, {3}, {1}, {2}, {}, true},
      {{2, 3, 8, 8}, {3, 3}, {2, 2}, {}, {1, 1}, {}, true},
      {{1, 3, 6, 17}, {5, 5}, {1, 1}, {2, 2}, {2, 2}, {}, false},
      // Taps two apart at a stride of 2 meet odd columns alone.
      {{2, 4, 9, 38}, {2, 2}, {3, 2}, {1, 1}, {1, 1}, {2, 2}, true},
  };
  int compared = 0;
  for (const auto& c : cases)
    for (const bool special : {false, true}) {
      const Tensor x = make(c.x, 1, special);
      auto max = window<MaxPoolParams>(c.kernel, c.strides, c.begin, c.end, c.dilations);
      max.ceil_mode = c.ceil;
      compared += compare("max_pool", Params(max), {&x});
      for (const int count : {0, 1, 2}) {
        auto average = window<AvgPoolParams>(c.kernel, c.strides, c.begin, c.end, c.dilations);
        average.ceil_mode = c.ceil;
        average.count_include_pad = count == 1;
        average.divisor_override = count == 2 ? 7 : 0;
        compared += compare("avg_pool", Params(average), {&x});
      }
    }
  if (detect_isa() >= Isa::avx2) CHECK(compared >= 10 * 2 * 4 * 4);
}

// Finite, so that the fast form serves (kernels/pool/max_rows.h), but for one channel with a NaN
// and one with infinities; most maxima are zeros of both signs, whose first in the window must win.
TEST_CASE("max pools of stride 2: ties keep the first, NaN and infinities win where they should") {
  int compared = 0, plus = 0, minus = 0, nans = 0;
  for (const Shape& shape :
       {Shape{2, 5, 12, 12}, Shape{2, 5, 5, 7}, Shape{1, 4, 9, 33}, Shape{1, 4, 6, 70}})
    for (const Ints& kernel : {Ints{2, 2}, Ints{3, 3}, Ints{2, 3}})
      for (const std::int64_t pad : {0, 1}) {
        Tensor x = make(shape, 9, false);
        const auto v = x.mutable_data<float>();
        for (float& f : v)
          f = f < -0.5F   ? -std::numeric_limits<float>::max()
              : f < -0.1F ? -0.0F
              : f < 0.3F  ? 0.0F
                          : -f;
        const std::size_t points = v.size() / static_cast<std::size_t>(shape[0] * shape[1]);
        v[points + points / 2] = -std::numeric_limits<float>::quiet_NaN();
        std::fill_n(v.begin() + static_cast<std::ptrdiff_t>(2 * points), points / 2,
                    -std::numeric_limits<float>::infinity());
        const Params params(window<MaxPoolParams>(kernel, {2, 2}, {pad, pad}, {pad, pad}));
        compared += compare("max_pool", params, {&x});
        const Tensor* in[] = {&x};
        const OpRun got =
            run_op(get_op("max_pool"), params, in, all_kernels(), {.contract = Contract::seq()});
        for (const float f : got.outputs[0].data<float>())
          ++(std::isnan(f) ? nans : std::signbit(f) ? minus : plus);
      }
  CHECK(plus > 200);
  CHECK(minus > 200);
  CHECK(nans > 10);
  if (detect_isa() >= Isa::avx2) CHECK(compared >= 3 * 3 * 2 * 4);
}

TEST_CASE("conv_channels_last, depthwise: fast rows have the definition's bits") {
  const struct {
    Shape x;
    Ints kernel, strides, begin, end, dilations;
  } cases[] = {
      // Windows that walk down the image: bands of rows, threads that share channels, tails of
      // them.
      {{1, 7, 7, 616}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {}},
      {{2, 31, 8, 52}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {}},
      {{1, 17, 22, 64}, {3, 3}, {1, 1}, {2, 0}, {2, 1}, {}},
      {{1, 9, 10, 28}, {3, 3}, {1, 1}, {0, 0}, {0, 0}, {}},
      {{1, 3, 11, 16}, {3, 3}, {1, 1}, {1, 1}, {0, 0}, {}},
      {{3, 29, 14, 92}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {}},
      {{1, 30, 27, 96}, {3, 3}, {2, 2}, {0, 0}, {1, 1}, {}},
      {{1, 60, 19, 33}, {3, 3}, {2, 2}, {1, 1}, {0, 0}, {}},
      // Pixels that share sets of the first cache.
      {{1, 16, 9, 512}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {}},
      {{1, 5, 16, 1024}, {3, 3}, {1, 1}, {0, 1}, {1, 0}, {}},
      {{1, 15, 14, 512}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {}},
      // And others.
      {{1, 9, 12, 40}, {3, 3}, {1, 1}, {1, 2}, {1, 2}, {}},
      {{1, 9, 6, 40}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {}},
      {{1, 12, 21, 24}, {3, 3}, {2, 1}, {1, 1}, {1, 1}, {}},
      {{1, 12, 15, 24}, {3, 3}, {1, 1}, {2, 1}, {2, 1}, {2, 1}},
      {{1, 15, 11, 40}, {5, 5}, {1, 1}, {2, 2}, {2, 2}, {}},
  };
  int compared = 0;
  for (const auto& c : cases)
    for (const bool special : {false, true}) {
      const std::int64_t channels = c.x[3];
      const Tensor x = make(c.x, 11, special), bias = make({channels}, 13, false);
      const Tensor w = make({channels, 1, c.kernel[0], c.kernel[1]}, 12, special);
      ConvParams params;
      params.strides = c.strides;
      params.pads_begin = c.begin;
      params.pads_end = c.end;
      params.dilations = c.dilations;
      params.groups = channels;
      compared +=
          compare("conv_channels_last", Params(params), {&x, &w, special ? nullptr : &bias});
    }
  if (detect_isa() >= Isa::avx2) CHECK(compared >= 16 * 2 * 4);
}

TEST_CASE("conv_channels_last: fast rows have the definition's bits however work is shared") {
  const struct {
    Shape x, w;
    std::int64_t pad;
  } cases[] = {
      // Products: threads that share rows, weights asked for a block ahead, both.
      {{1, 13, 11, 40}, {70, 40, 1, 1}, 0},
      {{1, 5, 10, 210}, {940, 210, 1, 1}, 0},
      {{1, 8, 17, 200}, {1000, 200, 1, 1}, 0},
      // Windows: threads that share rows; panels of weights in blocks of channels, all rows of the
      // image at once and not.
      {{1, 14, 14, 32}, {48, 32, 3, 3}, 1},
      {{1, 3, 7, 336}, {35, 336, 5, 5}, 2},
      {{1, 18, 6, 336}, {17, 336, 5, 5}, 2},
  };
  int compared = 0;
  for (const auto& c : cases)
    for (const bool special : {false, true}) {
      const Tensor x = make(c.x, 14, special), w = make(c.w, 15, special),
                   bias = make({c.w[0]}, 16, false);
      ConvParams params;
      params.pads_begin = params.pads_end = {c.pad, c.pad};
      compared += compare("conv_channels_last", Params(params), {&x, &w, special ? nullptr : &bias},
                          ".f32.");
    }
  if (detect_isa() >= Isa::avx2) CHECK(compared >= 6 * 2 * 4);
}

TEST_CASE("elementwise arithmetic and relu: fast rows have the definition's bits") {
  int compared = 0;
  for (const bool special : {false, true}) {
    const Tensor a = make({3, 5, 37}, 1, special), b = make({3, 5, 37}, 2, special),
                 row = make({37}, 3, special), column = make({5, 1}, 4, special),
                 one = make({}, 5, special);
    for (const char* op : {"add", "sub", "mul", "div"})
      for (const Tensor* other : {&b, &row, &column, &one}) {
        compared += compare(op, Params(), {&a, other});
        compared += compare(op, Params(), {other, &a});
      }
    compared += compare("relu", Params(), {&a});
    for (const char* op : {"max", "min"})
      for (const Tensor* other : {&b, &row, &one}) compared += compare(op, Params(), {&a, other});
    // Bounds that cross, are zeros of either sign, infinite or NaN.
    constexpr float kInfinity = std::numeric_limits<float>::infinity(),
                    kNan = std::numeric_limits<float>::quiet_NaN();
    for (const auto& [low, high] :
         {std::pair(-0.25F, 0.5F), std::pair(0.5F, -0.25F), std::pair(-0.0F, 0.0F),
          std::pair(0.0F, -0.0F), std::pair(-kInfinity, kInfinity), std::pair(kNan, 1.0F),
          std::pair(0.0F, kNan)}) {
      Tensor least = Tensor::uninitialized(DType::f32, {}),
             most = Tensor::uninitialized(DType::f32, {});
      least.mutable_data<float>()[0] = low;
      most.mutable_data<float>()[0] = high;
      compared += compare("clip", Params(ClipParams{}), {&a, &least, &most});
    }
  }
  CHECK(compared >= 2 * (4 * 8 + 1 + 6 + 7) * 4);
}

TEST_CASE("matmul: fast rows have the definition's bits") {
  int compared = 0;
  for (const bool special : {false, true}) {
    const Tensor a = make({3, 1, 17, 40}, 1, special), b = make({2, 40, 33}, 2, special),
                 m = make({40, 50}, 3, special), v = make({40}, 4, special);
    compared += compare("matmul", Params(), {&a, &b});
    compared += compare("matmul", Params(), {&a, &m});
    compared += compare("matmul", Params(), {&a, &v});
    compared += compare("matmul", Params(), {&v, &m});
    compared += compare("matmul", Params(), {&v, &v});
  }
  if (detect_isa() >= Isa::avx2) CHECK(compared >= 2 * 5 * 4);
}
