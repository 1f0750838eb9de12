// Elements that hang on extents alone, while a graph is built with a free batch.
#include <doctest/doctest.h>

#include <algorithm>

#include "engine/core/error.h"
#include "engine/graph/builder.h"
#include "tests/import_run.h"

using namespace etalon;

namespace {

ValueId ints(GraphBuilder& g, const char* name, const Ints& values) {
  Tensor t = Tensor::uninitialized(DType::i64, {static_cast<std::int64_t>(values.size())});
  std::ranges::copy(values, t.mutable_data<std::int64_t>().begin());
  return g.constant(name, std::move(t));
}

// What Keras writes for a dense layer of an image: the extents but the last, their product, and a
// matrix product between two reshapes.
TEST_CASE("known values: a free batch passes through arithmetic of shapes") {
  GraphBuilder g("n");
  const ValueId x = g.input("x", DType::f32, {-1, 4, 5, 6});
  const ValueId shape =
      g.op("cast", "i32", {g.op("shape", "shape", {x})}, {{"to", std::string("i32")}});
  const ValueId outer = g.op("gather", "outer", {shape, ints(g, "axes", {0, 1, 2})});
  const ValueId rows = g.op("reduce_prod", "rows", {outer}, {{"keepdims", false}});
  const ValueId row = g.op("unsqueeze", "row", {rows}, {{"axes", Ints{0}}});
  const ValueId wide = g.op("cast", "wide", {row}, {{"to", std::string("i64")}});
  const ValueId flat =
      g.op("reshape", "flat", {x, g.op("concat", "pack", {wide, ints(g, "six", {6})})});
  CHECK(g.dims(flat) == Ints{-1, 6});
  const ValueId w = g.constant("w", Tensor::zeros(DType::f32, {6, 7}));
  const ValueId y = g.op("matmul", "y", {flat, w});
  const ValueId back =
      g.op("concat", "back",
           {g.op("cast", "outer64", {outer}, {{"to", std::string("i64")}}), ints(g, "seven", {7})});
  const ValueId out = g.op("reshape", "out", {y, back});
  CHECK(g.dims(out) == Ints{-1, 4, 5, 7});
  // Without the batch everything is one number.
  const ValueId pixels =
      g.op("slice", "pixels", {shape}, {{"starts", Ints{-3}}, {"ends", Ints{3}}});
  const ValueId half =
      g.op("div", "half",
           {pixels, g.op("cast", "two32", {ints(g, "two", {2})}, {{"to", std::string("i32")}})});
  const ValueId ones = g.op("constant_of_shape", "ones",
                            {g.op("cast", "half64", {half}, {{"to", std::string("i64")}}),
                             g.constant("one", Tensor::of<float>({}, {1.0F}))});
  CHECK(g.dims(ones) == Ints{2, 2});
  g.output(out);
  Model model;
  model.graph = std::make_shared<Graph>(g.finish());
  const Trace trace = test::run(model, Tensor::zeros(DType::f32, {2, 4, 5, 6}));
  CHECK(trace.outputs.at(0).second.shape() == Shape{2, 4, 5, 7});
}

TEST_CASE("known values: what leaves its type or hangs on data is not known") {
  GraphBuilder g("n");
  const ValueId x = g.input("x", DType::f32, {-1, 4});
  const ValueId data = g.input("data", DType::i64, {2});
  const ValueId shape = g.op("shape", "shape", {x});
  const auto reshaped = [&](const char* name, ValueId to) {
    return g.known(g.op("reshape", name, {x, to}));
  };
  CHECK(reshaped("same", shape));
  CHECK(!reshaped("of_data", data));
  CHECK(!reshaped("of_both", g.op("add", "sum", {shape, data})));
  const ValueId large = ints(g, "large", {2, INT64_MAX});
  CHECK(!reshaped("over", g.op("mul", "product", {shape, large})));
  CHECK(!reshaped("by_zero", g.op("div", "quotient", {shape, ints(g, "zero", {0, 1})})));
  CHECK(!reshaped("outside", g.op("gather", "third", {shape, ints(g, "index", {0, 7})})));
}

}  // namespace
