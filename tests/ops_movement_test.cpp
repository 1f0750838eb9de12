// Movement: every element arrives where the definition says, bit for bit, NaN payloads included.
#include <doctest/doctest.h>

#include <cstring>
#include <vector>

#include "engine/graph/executor.h"
#include "engine/ops/indexing.h"
#include "engine/ops/layout.h"
#include "kernels/kernels.h"

using namespace etalon;

namespace {

// Every element is another bit pattern; the first are NaNs with payloads, -0, a subnormal.
Tensor marked(DType dtype, const Shape& shape) {
  Tensor t = Tensor::uninitialized(dtype, shape);
  const auto bytes = t.mutable_bytes();
  const auto size = static_cast<std::size_t>(size_bytes(dtype));
  for (std::size_t i = 0; i < bytes.size() / size; ++i) {
    std::uint64_t v = i * 0x9e3779b97f4a7c15U + 1;
    if (dtype == DType::f32 && i < 4) v = std::array{0x7fa00123U, 0xffc00456U, 0x80000000U, 7U}[i];
    if (dtype == DType::boolean) v = i % 3 == 0;
    std::memcpy(bytes.data() + i * size, &v, size);
  }
  return t;
}

Tensor ints(std::initializer_list<std::int64_t> v) {
  return Tensor::of<std::int64_t>({static_cast<std::int64_t>(v.size())}, v);
}

std::vector<Tensor> run(const char* op, const Params& params, std::vector<const Tensor*> in,
                        const char* contract = "seq", int threads = 1) {
  RunOptions options{.contract = Contract::parse(contract), .threads = threads};
  return run_op(get_op(op), params, in, all_kernels(), options).outputs;
}

bool same_element(const Tensor& y, std::int64_t i, const Tensor& x, std::int64_t j) {
  const auto n = static_cast<std::size_t>(size_bytes(x.dtype()));
  return std::memcmp(y.bytes().data() + static_cast<std::size_t>(i) * n,
                     x.bytes().data() + static_cast<std::size_t>(j) * n, n) == 0;
}

// Coordinates of element i.
std::vector<std::int64_t> at(const Shape& s, std::int64_t i) {
  std::vector<std::int64_t> c(static_cast<std::size_t>(s.rank()));
  for (int a = s.rank() - 1; a >= 0; --a) {
    c[static_cast<std::size_t>(a)] = i % s[a];
    i /= s[a];
  }
  return c;
}
std::int64_t index(const Shape& s, const std::vector<std::int64_t>& c) {
  std::int64_t i = 0;
  for (int a = 0; a < s.rank(); ++a) i = i * s[a] + c[static_cast<std::size_t>(a)];
  return i;
}

// y must be x with element (coordinates of y) taken from (coordinates of x that `from` gives).
template <class F>
void check_moved(const Tensor& y, const Tensor& x, F&& from) {
  std::int64_t wrong = 0;
  for (std::int64_t i = 0; i < y.numel(); ++i)
    wrong += same_element(y, i, x, index(x.shape(), from(at(y.shape(), i)))) ? 0 : 1;
  CHECK(wrong == 0);
}

using C = std::vector<std::int64_t>;

}  // namespace

TEST_CASE("transpose: every permutation of four axes, every element size, tiles and rows") {
  for (const DType dtype : {DType::u8, DType::bf16, DType::f32, DType::f64}) {
    const Tensor x = marked(dtype, {3, 33, 2, 70});
    Ints perm{0, 1, 2, 3};
    do {
      for (const int threads : {1, 3}) {
        const Tensor y =
            std::move(run("transpose", Params(TransposeParams{perm}), {&x}, "seq", threads)[0]);
        check_moved(y, x, [&](const C& c) {
          C from(4);
          for (std::size_t i = 0; i < 4; ++i) from[static_cast<std::size_t>(perm[i])] = c[i];
          return from;
        });
      }
    } while (std::next_permutation(perm.begin(), perm.end()));
  }
  const Tensor x = marked(DType::f32, {2, 3});
  CHECK(run("transpose", Params(TransposeParams{}), {&x})[0].shape() == Shape{3, 2});
  CHECK_THROWS_WITH_AS(run("transpose", Params(TransposeParams{{0, 0}}), {&x}),
                       doctest::Contains("axis 0 is named twice"), Error);
  const Tensor eight = marked(DType::f32, {2, 1, 3, 1, 2, 2, 1, 3});
  check_moved(run("transpose", Params(TransposeParams{}), {&eight})[0], eight,
              [](const C& c) { return C(c.rbegin(), c.rend()); });
  const Tensor none = marked(DType::f32, {4, 0, 3});
  CHECK(run("transpose", Params(TransposeParams{}), {&none})[0].shape() == Shape{3, 0, 4});
}

TEST_CASE("reshape and kin: shapes by rule, the bytes untouched") {
  const Tensor x = marked(DType::f32, {2, 3, 4});
  const auto shape = [&](const char* op, const Params& p) {
    const Tensor y = std::move(run(op, p, {&x}, "store=bf16,subnormals=flush")[0]);
    CHECK(std::memcmp(y.bytes().data(), x.bytes().data(), x.size_bytes()) == 0);
    return y.shape();
  };
  CHECK(shape("reshape", Params(ReshapeParams{{4, -1}})) == Shape{4, 6});
  CHECK(shape("reshape", Params(ReshapeParams{{0, -1}})) == Shape{2, 12});
  CHECK(shape("flatten", Params(FlattenParams{0})) == Shape{1, 24});
  CHECK(shape("flatten", Params(FlattenParams{-1})) == Shape{6, 4});
  CHECK(shape("flatten", Params(FlattenParams{3})) == Shape{24, 1});
  CHECK(shape("unsqueeze", Params(AxesParams{{-1, 0}})) == Shape{1, 2, 3, 4, 1});
  CHECK(shape("identity", Params()) == Shape{2, 3, 4});
  const Tensor none = marked(DType::f32, {0, 3});
  CHECK(run("reshape", Params(ReshapeParams{{3, 0}, true}), {&none})[0].shape() == Shape{3, 0});
  const Tensor thin = marked(DType::f32, {1, 3, 1});
  CHECK(run("squeeze", Params(AxesParams{}), {&thin})[0].shape() == Shape{3});
  CHECK(run("squeeze", Params(AxesParams{{-1}}), {&thin})[0].shape() == Shape{1, 3});
  for (const auto& [dims, text] : std::vector<std::pair<Ints, const char*>>{
           {{-1, -1}, "more than one -1"},
           {{5, -1}, "leaves no extent for -1"},
           {{2, 3, 5}, "cannot take the shape"},
           {{1, 2, 3, 0}, "x [2,3,4] has no axis 3"},
           {{-2}, "has the extent -2"},
           {{1 << 30, 1 << 30, 1 << 30}, "does not fit in 64 bits"}})
    CHECK_THROWS_WITH_AS(run("reshape", Params(ReshapeParams{dims}), {&x}), doctest::Contains(text),
                         Error);
  CHECK_THROWS_WITH_AS(run("squeeze", Params(AxesParams{{0}}), {&x}),
                       doctest::Contains("cannot be dropped"), Error);
}

TEST_CASE("slice: python's slices, values beyond the ends, negative steps") {
  const Tensor x = marked(DType::i16, {5, 7});
  constexpr std::int64_t kMin = INT64_MIN, kMax = INT64_MAX;
  struct Case {
    std::int64_t start, end, step;
    C taken;
  };
  for (const Case& c : std::vector<Case>{{1, 5, 2, {1, 3}},
                                         {-3, kMax, 1, {4, 5, 6}},
                                         {kMax, kMin, -1, {6, 5, 4, 3, 2, 1, 0}},
                                         {-1, -100, -3, {6, 3, 0}},
                                         {5, 2, 1, {}},
                                         {2, 5, -1, {}},
                                         {0, 7, kMax, {0}},
                                         {6, kMin, kMin, {6}},
                                         {-100, 100, 3, {0, 3, 6}}}) {
    const Tensor s = ints({c.start}), e = ints({c.end}), a = ints({-1}), st = ints({c.step});
    const Tensor y = std::move(run("slice", Params(SliceParams{}), {&x, &s, &e, &a, &st})[0]);
    REQUIRE(y.shape() == Shape{5, static_cast<std::int64_t>(c.taken.size())});
    check_moved(y, x, [&](C at) {
      at[1] = c.taken[static_cast<std::size_t>(at[1])];
      return at;
    });
  }
  CHECK_THROWS_WITH_AS(run("slice", Params(SliceParams{{0}, {1}, {0}, {0}}), {&x}),
                       doctest::Contains("step of axis 0 is 0"), Error);
}

TEST_CASE("concat and split are inverse, along every axis") {
  const Tensor x = marked(DType::f32, {4, 5, 6});
  for (std::int64_t axis = -3; axis < 3; ++axis) {
    const std::int64_t extent = x.shape().dim(static_cast<int>(axis));
    const Ints sizes{1, 0, extent - 1};
    const auto parts = run("split", Params(SplitParams{axis, sizes}), {&x}, "seq", 2);
    REQUIRE(parts.size() == 3);
    const Tensor y =
        std::move(run("concat", Params(AxisParams{axis}), {&parts[0], &parts[1], &parts[2]})[0]);
    CHECK(y.type() == x.type());
    CHECK(std::memcmp(y.bytes().data(), x.bytes().data(), x.size_bytes()) == 0);
    check_moved(parts[2], x, [&](C c) {
      ++c[static_cast<std::size_t>(axis < 0 ? axis + 3 : axis)];
      return c;
    });
  }
  const auto uneven = run("split", Params(SplitParams{2, {}, 4}), {&x});
  CHECK(uneven[0].shape() == Shape{4, 5, 2});
  CHECK(uneven[3].shape() == Shape{4, 5, 0});
  CHECK_THROWS_WITH_AS(run("split", Params(SplitParams{0, {1, 2}}), {&x}),
                       doctest::Contains("add up to 3"), Error);
  const Tensor other = marked(DType::f32, {4, 5});
  CHECK_THROWS_WITH_AS(run("concat", Params(AxisParams{0}), {&x, &other}),
                       doctest::Contains("differ beside axis 0"), Error);
}

TEST_CASE("pad: modes, periods, negative pads") {
  const Tensor x = marked(DType::f32, {2, 4});
  const auto row = [&](PadMode mode, std::int64_t before, std::int64_t after) {
    PadParams p{mode, {0, before, 0, after}, 2.5F};
    const Tensor y = std::move(run("pad", Params(p), {&x})[0]);
    C taken;  // of the second row: which element of x, -1 for the value
    for (std::int64_t i = 0; i < y.shape()[1]; ++i) {
      taken.push_back(-2);
      if (y.data<float>()[static_cast<std::size_t>(y.shape()[1] + i)] == 2.5F) taken.back() = -1;
      for (std::int64_t j = 0; j < 4; ++j)
        if (same_element(y, y.shape()[1] + i, x, 4 + j)) taken.back() = j;
    }
    return taken;
  };
  CHECK(row(PadMode::constant, 2, 1) == C{-1, -1, 0, 1, 2, 3, -1});
  CHECK(row(PadMode::constant, -1, 1) == C{1, 2, 3, -1});
  CHECK(row(PadMode::constant, -3, -1) == C{});
  CHECK(row(PadMode::edge, 2, 3) == C{0, 0, 0, 1, 2, 3, 3, 3, 3});
  CHECK(row(PadMode::reflect, 3, 2) == C{3, 2, 1, 0, 1, 2, 3, 2, 1});
  CHECK(row(PadMode::reflect, 7, 0) == C{1, 0, 1, 2, 3, 2, 1, 0, 1, 2, 3});
  CHECK(row(PadMode::wrap, 5, 2) == C{3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1});
  CHECK(row(PadMode::edge, -2, 1) == C{2, 3, 3});
  const Tensor pads = ints({1, 0}), value = Tensor::of<float>({}, {7.0F}), axes = ints({0});
  const Tensor y = std::move(run("pad", Params(PadParams{}), {&x, &pads, &value, &axes})[0]);
  CHECK(y.shape() == Shape{3, 4});
  CHECK(y.data<float>()[3] == 7.0F);
  CHECK(same_element(y, 4, x, 0));
  CHECK_THROWS_WITH_AS(row(PadMode::constant, -3, -2), doctest::Contains("cut more than"), Error);
  const Tensor one = marked(DType::f32, {1});
  CHECK_THROWS_WITH_AS(run("pad", Params(PadParams{PadMode::reflect, {1, 0}}), {&one}),
                       doctest::Contains("left to reflect from"), Error);
}

TEST_CASE("expand, tile, depth_to_space, reverse_sequence, trilu") {
  const Tensor x = marked(DType::f32, {3, 1, 2});
  const Tensor big = std::move(run("expand", Params(ExpandParams{{4, 1, 5, 1}}), {&x})[0]);
  REQUIRE(big.shape() == Shape{4, 3, 5, 2});
  check_moved(big, x, [](const C& c) { return C{c[1], 0, c[3]}; });
  const Tensor tiled = std::move(run("tile", Params(TileParams{{2, 3, 2}}), {&x})[0]);
  REQUIRE(tiled.shape() == Shape{6, 3, 4});
  check_moved(tiled, x, [](const C& c) { return C{c[0] % 3, 0, c[2] % 2}; });
  CHECK_THROWS_WITH_AS(run("tile", Params(TileParams{{1, -1, 1}}), {&x}),
                       doctest::Contains("must be 0 or more"), Error);
  CHECK_THROWS_WITH_AS(run("expand", Params(ExpandParams{{1LL << 40, 1LL << 40, 1, 1}}), {&x}),
                       doctest::Contains("does not fit"), Error);

  const Tensor d = marked(DType::f32, {2, 12, 2, 3});
  for (const DepthMode mode : {DepthMode::dcr, DepthMode::crd}) {
    const Tensor y = std::move(run("depth_to_space", Params(DepthToSpaceParams{2, mode}), {&d})[0]);
    REQUIRE(y.shape() == Shape{2, 3, 4, 6});
    check_moved(y, d, [&](const C& c) {
      const std::int64_t block = c[2] % 2 * 2 + c[3] % 2;
      return C{c[0], mode == DepthMode::dcr ? block * 3 + c[1] : c[1] * 4 + block, c[2] / 2,
               c[3] / 2};
    });
    if (mode == DepthMode::dcr) {
      const Tensor back = std::move(run("space_to_depth", Params(SpaceToDepthParams{2}), {&y})[0]);
      CHECK(std::memcmp(back.bytes().data(), d.bytes().data(), d.size_bytes()) == 0);
    }
  }
  const Tensor s = marked(DType::f32, {4, 3, 2}), lens = ints({1, 4, 2});
  const Tensor r =
      std::move(run("reverse_sequence", Params(ReverseSequenceParams{}), {&s, &lens})[0]);
  check_moved(r, s, [&](C c) {
    const std::int64_t n = lens.data<std::int64_t>()[static_cast<std::size_t>(c[1])];
    if (c[0] < n) c[0] = n - 1 - c[0];
    return c;
  });
  const Tensor m = marked(DType::i32, {2, 3, 5});
  for (const bool upper : {true, false})
    for (const std::int64_t k : {std::int64_t{-9}, std::int64_t{-1}, std::int64_t{0},
                                 std::int64_t{2}, std::int64_t{9}, INT64_MIN, INT64_MAX}) {
      const Tensor t = std::move(run("trilu", Params(TriluParams{upper, k}), {&m})[0]);
      bool right = true;
      for (std::int64_t i = 0; i < t.numel(); ++i) {
        const C c = at(t.shape(), i);
        const bool kept = upper ? c[2] - c[1] >= k : c[2] - c[1] <= k;
        right &= kept ? same_element(t, i, m, i)
                      : t.data<std::int32_t>()[static_cast<std::size_t>(i)] == 0;
      }
      CHECK_MESSAGE(right, upper, " ", k);
    }
}

TEST_CASE("gather: axes, negative indices, refusals at run time") {
  const Tensor x = marked(DType::f32, {3, 4, 2});
  const Tensor i = Tensor::of<std::int32_t>({2, 2}, {1, -1, 0, -4});
  const Tensor y = std::move(run("gather", Params(GatherParams{1}), {&x, &i}, "exact", 2)[0]);
  REQUIRE(y.shape() == Shape{3, 2, 2, 2});
  const std::int64_t wanted[] = {1, 3, 0, 0};
  check_moved(y, x, [&](const C& c) { return C{c[0], wanted[c[1] * 2 + c[2]], c[3]}; });
  const Tensor far = ints({4});
  CHECK_THROWS_WITH_AS(run("gather", Params(GatherParams{1}), {&x, &far}),
                       doctest::Contains("index 4 at place 0 is outside an axis of 4"), Error);
  const Tensor e = Tensor::of<std::int64_t>({3, 1, 2}, {0, 1, -1, 2, 3, -2});
  const std::int64_t rows[] = {0, 1, 3, 2, 3, 2};
  check_moved(run("gather_elements", Params(GatherParams{1}), {&x, &e})[0], x,
              [&](const C& c) { return C{c[0], rows[c[0] * 2 + c[2]], c[2]}; });
  const Tensor n = Tensor::of<std::int64_t>({3, 2, 1}, {0, 1, -1, 2, 3, -2});
  check_moved(run("gather_nd", Params(GatherNdParams{1}), {&x, &n})[0], x,
              [&](const C& c) { return C{c[0], rows[c[0] * 2 + c[1]], c[2]}; });
  const Tensor pair = Tensor::of<std::int64_t>({2, 2}, {2, -1, 0, 1});
  const Tensor g = std::move(run("gather_nd", Params(GatherNdParams{}), {&x, &pair})[0]);
  REQUIRE(g.shape() == Shape{2, 2});
  CHECK(same_element(g, 0, x, index(x.shape(), {2, 3, 0})));
  CHECK(same_element(g, 3, x, index(x.shape(), {0, 1, 1})));
}

TEST_CASE("scatter: the last update stays; sums follow the contract; the rest is copied") {
  const Tensor x = marked(DType::f32, {5});
  const Tensor i = ints({1, 3, 1, -2});
  const Tensor u = Tensor::of<float>({4}, {1.0F, 2.0F, 3.0F, 4.0F});
  const Tensor y =
      std::move(run("scatter_elements", Params(ScatterElementsParams{}), {&x, &i, &u})[0]);
  CHECK(y.data<float>()[1] == 3.0F);
  CHECK(y.data<float>()[3] == 4.0F);
  CHECK(same_element(y, 0, x, 0));
  CHECK(same_element(y, 2, x, 2));

  // 2^24 + 1 is a tie: in sequence both ones are lost, exactly they are 2.
  const Tensor base = Tensor::of<float>({3}, {16777216.0F, -0.0F, 0x1p-140F});
  const Tensor where = Tensor::of<std::int64_t>({3, 1}, {0, 0, 0});
  const Tensor ones = Tensor::of<float>({3}, {1.0F, 1.0F, 1.0F});
  const ScatterNdParams add{ScatterReduction::add};
  const auto sum = [&](const char* contract) {
    return std::move(run("scatter_nd", Params(add), {&base, &where, &ones}, contract)[0]);
  };
  CHECK(sum("seq").data<float>()[0] == 16777216.0F);
  CHECK(sum("order=lanes:2").data<float>()[0] == 16777218.0F);
  CHECK(same_element(sum("subnormals=flush"), 2, base, 2));  // named by no update
  CHECK(same_element(sum("seq"), 1, base, 1));
  const Tensor b8 = Tensor::of<std::int8_t>({2}, {100, 1}), i8 = ints({0, 0});
  const Tensor u8 = Tensor::of<std::int8_t>({2}, {100, 100});
  ScatterElementsParams wrap;
  wrap.reduction = ScatterReduction::add;
  CHECK(run("scatter_elements", Params(wrap), {&b8, &i8, &u8})[0].data<std::int8_t>()[0] == 44);
}

TEST_CASE("tensors from shapes") {
  const Tensor x = marked(DType::f32, {2, 3, 4});
  const auto values = [](const Tensor& t) { return to_int64_values(t); };
  CHECK(values(run("shape", Params(ShapeParams{}), {&x})[0]) == C{2, 3, 4});
  CHECK(values(run("shape", Params(ShapeParams{1, -1}), {&x})[0]) == C{3});
  CHECK(values(run("shape", Params(ShapeParams{2, 1}), {&x})[0]) == C{});
  CHECK(values(run("size", Params(), {&x})[0]) == C{24});
  const Tensor s = ints({2, 2}), v = Tensor::of<std::int64_t>({1}, {-7});
  CHECK(values(run("constant_of_shape", Params(), {&s, &v})[0]) == C{-7, -7, -7, -7});
  CHECK(run("constant_of_shape", Params(), {&s})[0].dtype() == DType::f32);
  const Tensor a = Tensor::of<std::int32_t>({}, {10}), b = Tensor::of<std::int32_t>({}, {4}),
               d = Tensor::of<std::int32_t>({}, {-2});
  CHECK(values(run("range", Params(), {&a, &b, &d})[0]) == C{10, 8, 6});
  // In the reals 3 * 0.1f lies before 0.3f, in f32 it is equal: the fourth element counts.
  const Tensor fa = Tensor::of<float>({}, {0.0F}), fb = Tensor::of<float>({}, {0.3F}),
               fd = Tensor::of<float>({}, {0.1F});
  CHECK(run("range", Params(), {&fa, &fb, &fd})[0].numel() == 4);
  const Tensor depth = ints({4}), onoff = Tensor::of<float>({2}, {-1.0F, 5.0F});
  const Tensor idx = ints({1, -1, 4, 0});
  const Tensor hot = std::move(run("one_hot", Params(OneHotParams{}), {&idx, &depth, &onoff})[0]);
  REQUIRE(hot.shape() == Shape{4, 4});
  for (std::size_t i = 0; i < 16; ++i)
    CHECK(hot.data<float>()[i] == (i == 1 || i == 7 || i == 12 ? 5.0F : -1.0F));
  const Tensor nz = Tensor::of<float>({2, 2}, {0.0F, -0.0F, __builtin_nanf(""), 3.0F});
  const Tensor c = std::move(run("non_zero", Params(), {&nz})[0]);
  REQUIRE(c.shape() == Shape{2, 2});
  CHECK(values(c.reshaped({4})) == C{1, 1, 0, 1});
  const Tensor eye = std::move(run("eye_like", Params(EyeLikeParams{"i64", 1}), {&nz})[0]);
  CHECK(values(eye.reshaped({4})) == C{0, 1, 0, 0});
}
