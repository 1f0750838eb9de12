// ncnn's layers whose result hangs on the extents of two values: operands of different rank, scales
// that come as an input, crops. Networks of one layer, written here; values by hand.
#include <doctest/doctest.h>

#include <cstring>
#include <functional>
#include <numeric>

#include "tests/import_run.h"
#include "tests/importer_files.h"

using namespace etalon;

namespace {

constexpr const char* kImage = "Input x 0 1 x 0=4 1=3 2=2\n";

Model network(const test::TemporaryFolder& folder, const std::string& layers,
              const std::vector<float>& weights = {}) {
  test::write_bytes(folder / "n.param", "7767517\n9 9\n" + layers);
  test::write_bytes(folder / "n.bin",
                    std::string(reinterpret_cast<const char*>(weights.data()), weights.size() * 4));
  return open_model(folder / "n.param");
}
Tensor counting(const Shape& shape) {
  Tensor t = Tensor::uninitialized(DType::f32, shape);
  std::iota(t.mutable_data<float>().begin(), t.mutable_data<float>().end(), 1.0F);
  return t;
}
// x of [c,h,w], as f(c, h, w) for the extents given.
std::vector<float> all(int c, int h, int w, const std::function<float(int, int, int)>& f) {
  std::vector<float> out;
  for (int i = 0; i < c; ++i)
    for (int j = 0; j < h; ++j)
      for (int k = 0; k < w; ++k) out.push_back(f(i, j, k));
  return out;
}
float x_at(int c, int h, int w) { return static_cast<float>((c * 3 + h) * 4 + w + 1); }

}  // namespace

TEST_CASE("ncnn: an operand of lower rank stands for the outermost axes, a row for the innermost") {
  const test::TemporaryFolder folder;
  const auto product = [&](const std::string& data, const std::vector<float>& weights,
                           bool second = true) {
    return test::values(test::run(
        network(folder, kImage + data + "BinaryOp y 2 1 " + (second ? "x d" : "d x") + " y 0=2\n",
                weights),
        counting({1, 2, 3, 4})));
  };
  // One value for each channel, from either side.
  const auto by_channel =
      all(2, 3, 4, [](int c, int h, int w) { return x_at(c, h, w) * (c == 0 ? 10.0F : 100.0F); });
  CHECK(product("MemoryData d 0 1 d 0=2\n", {10, 100}) == by_channel);
  CHECK(product("MemoryData d 0 1 d 0=2\n", {10, 100}, false) == by_channel);
  CHECK(product("MemoryData d 0 1 d 0=1\n", {3}) ==
        all(2, 3, 4, [](int c, int h, int w) { return x_at(c, h, w) * 3; }));
  CHECK(product("MemoryData d 0 1 d 0=4\n", {1, 2, 3, 4}) == all(2, 3, 4, [](int c, int h, int w) {
          return x_at(c, h, w) * static_cast<float>(w + 1);
        }));
  CHECK(product("MemoryData d 0 1 d 0=3 1=2\n", {1, 2, 3, 4, 5, 6}) ==
        all(2, 3, 4,
            [](int c, int h, int w) { return x_at(c, h, w) * static_cast<float>(3 * c + h + 1); }));
}

TEST_CASE("ncnn: a scale that comes as an input") {
  const test::TemporaryFolder folder;
  const Model m =
      network(folder, std::string(kImage) + "MemoryData d 0 1 d 0=2\nScale y 2 1 x d y 0=-233\n",
              {10, 100});
  CHECK(test::values(test::run(m, counting({1, 2, 3, 4}))) == all(2, 3, 4, [](int c, int h, int w) {
          return x_at(c, h, w) * (c == 0 ? 10.0F : 100.0F);
        }));
}

TEST_CASE("ncnn: crops by lists, by offsets and extents, by what is left, by another value") {
  const test::TemporaryFolder folder;
  const auto crop = [&](const std::string& settings) {
    return test::values(test::run(network(folder, kImage + ("Crop y 1 1 x y " + settings + "\n")),
                                  counting({1, 2, 3, 4})));
  };
  const auto inner = all(2, 2, 2, [](int c, int h, int w) { return x_at(c, h + 1, w + 1); });
  CHECK(crop("-23309=2,1,1 -23310=2,3,-1 -23311=2,-2,-1") == inner);
  CHECK(crop("-23309=2,1,1 -23310=2,-233,3 -23311=2,1,2") == inner);
  CHECK(crop("0=1 1=1 3=2 4=2 5=2") == inner);
  CHECK(crop("0=1 1=1 6=1") == inner);
  CHECK(crop("2=1 3=4 4=3 5=1") == all(1, 3, 4, [](int, int h, int w) { return x_at(1, h, w); }));
  // To the extents of a smaller value: of a file's constant, and of an input of any extent.
  for (const bool free : {false, true}) {
    const std::string small = free ? "Input r 0 1 r\n" : "MemoryData r 0 1 r 0=2 1=2 2=3\n";
    const std::vector<float> weights(free ? 0 : 12, 0.0F);
    const Model m = network(
        folder,
        "Input x 0 1 x 0=4 1=3 2=3\n" + small + "Crop y 2 1 x r y 0=1 1=1\nAbsVal z 1 1 y z\n",
        weights);
    NamedTensors in;
    in.emplace("x", counting({1, 3, 3, 4}));
    if (free) in.emplace("r", counting({1, 3, 2, 2}));
    CHECK(test::values(test::run(m, in)) ==
          all(3, 2, 2, [](int c, int h, int w) { return x_at(c, h + 1, w + 1); }));
  }
}

TEST_CASE("ncnn: crops and operands that cannot be are refused by what is wrong") {
  const test::TemporaryFolder folder;
  const auto refused = [&](const std::string& layers, const char* words) {
    try {
      network(folder, layers);
      FAIL_CHECK(std::string(words));
    } catch (const Error& e) {
      CHECK(e.kind() == ErrorKind::bad_input);
      CHECK_MESSAGE(std::string(e.what()).find(words) != std::string::npos, e.what());
    }
  };
  const std::string image = kImage;
  refused(image + "Crop y 1 1 x y -23309=1,1 -23310=2,2,2\n", "1 starts, 2 ends");
  refused(image + "Crop y 1 1 x y -23309=1,0 -23310=1,2 -23311=1,5\n", "axis 5");
  refused(image + "Crop y 1 1 x y 0=-2\n", "a crop from -2");
  refused(image + "Split s 1 2 x a b\nCrop y 2 1 a b y 0=-233\n", "offsets that come as an input");
  refused(image + "Split s 1 2 x a b\nCrop y 2 1 a b y 0=9\n",
          "a crop of 4 elements from 9 on, of 4");
}
