// conv_channels_last: the bits of conv on turned tensors, under every kind of contract; which rows
// take which shapes; and its form in ONNX. That its rows equal its definition is tested over
// tests/op_cases.
#include <doctest/doctest.h>

#include <cstring>

#include "engine/graph/builder.h"
#include "engine/graph/executor.h"
#include "engine/ops/conv_channels_last.h"
#include "importers/importers.h"
#include "kernels/kernels.h"
#include "tests/import_run.h"
#include "tests/importer_files.h"
#include "tests/op_cases.h"

using namespace etalon;

namespace {

// [N,spatial,C] to [N,C,spatial], element by element.
Tensor with_channels_first(const Tensor& t) {
  Tensor to = Tensor::uninitialized(t.dtype(), channels_first(t.shape()));
  const std::int64_t images = t.shape()[0], channels = t.shape().dim(-1);
  const std::int64_t points =
      channels == 0 ? 0 : t.numel() / std::max<std::int64_t>(1, images * channels);
  const auto size = static_cast<std::size_t>(size_bytes(t.dtype()));
  for (std::int64_t n = 0; n < images; ++n)
    for (std::int64_t p = 0; p < points; ++p)
      for (std::int64_t c = 0; c < channels; ++c)
        std::memcpy(
            to.mutable_bytes().data() +
                static_cast<std::size_t>((n * channels + c) * points + p) * size,
            t.bytes().data() + static_cast<std::size_t>((n * points + p) * channels + c) * size,
            size);
  return to;
}

}  // namespace

TEST_CASE("channels last: the bits of conv") {
  int compared = 0;
  bool told_apart = false;
  for (const OpCase& c : op_cases()) {
    if (c.op->name != "conv_channels_last") continue;
    CAPTURE(c.line);
    const std::vector<Tensor> last = case_inputs(c);
    std::vector<Tensor> first = case_inputs(c);
    first[0] = with_channels_first(last[0]);
    Tensor seq;
    for (const char* text : {"seq", "exact", "order=lanes:8", "order=pairwise:4,fma=off",
                             "walk=rsc", "walk=c2rs,acc=f64", "round=rz"}) {
      CAPTURE(std::string(text));
      const Contract contract = Contract::parse(text);
      const OpRun a =
          run_op(*c.op, c.params, pointers(last), all_kernels(), {.contract = contract});
      const OpRun b =
          run_op(conv_op(), c.params, pointers(first), all_kernels(), {.contract = contract});
      const Tensor turned = with_channels_first(a.outputs[0]);
      CHECK(to_string(turned.type()) == to_string(b.outputs[0].type()));
      CHECK(std::ranges::equal(turned.bytes(), b.outputs[0].bytes()));
      if (!seq)
        seq = turned.share();
      else
        told_apart = told_apart || !std::ranges::equal(seq.bytes(), turned.bytes());
      ++compared;
    }
  }
  CHECK(compared >= 140);
  CHECK(told_apart);
}

TEST_CASE("channels last: written to ONNX between two transpositions") {
  GraphBuilder b("last");
  int count = 0;
  const auto weight = [&](const char* name, const Shape& shape) {
    Tensor t = Tensor::uninitialized(DType::f32, shape);
    for (float& v : t.mutable_data<float>()) v = 0.37F * static_cast<float>(++count % 11) - 1.7F;
    return b.constant(name, std::move(t));
  };
  ValueId x = b.input("x", DType::f32, {-1, 6, 5, 3});
  x = b.op("conv_channels_last", "c1",
           {x, weight("c1.weight", {8, 3, 3, 2}), weight("c1.bias", {8})},
           {{"pads_begin", Ints{1, 0}}, {"strides", Ints{2, 1}}});
  b.output(b.op("conv_channels_last", "c2", {x, weight("c2.weight", {8, 1, 1, 2})},
                {{"groups", std::int64_t{8}}}));
  Model model;
  *model.graph = b.finish();
  const test::TemporaryFolder folder;
  save_model(model, folder / "last.onnx");
  const Model back = open_model(folder / "last.onnx");
  Tensor in = Tensor::uninitialized(DType::f32, Shape{2, 6, 5, 3});
  for (float& v : in.mutable_data<float>()) v = 0.11F * static_cast<float>(++count % 23) - 1.0F;
  const Trace want = test::run(model, in.share()), got = test::run(back, in.share());
  CHECK(to_string(got.outputs[0].second.type()) == to_string(want.outputs[0].second.type()));
  CHECK(std::ranges::equal(got.outputs[0].second.bytes(), want.outputs[0].second.bytes()));
}

TEST_CASE("channels last: what does not fit is refused") {
  const Tensor x = Tensor::zeros(DType::f32, Shape{1, 5, 5, 4});
  const Tensor w = Tensor::zeros(DType::f32, Shape{2, 3, 3, 3});
  const Tensor* inputs[] = {&x, &w};
  CHECK_THROWS_WITH_AS(
      run_op(conv_channels_last_op(), Params(ConvParams{}), inputs, all_kernels(), {}),
      doctest::Contains("3 channels a group"), Error);
  const Tensor flat = Tensor::zeros(DType::f32, Shape{1, 5});
  const Tensor* few[] = {&flat, &w};
  CHECK_THROWS_WITH_AS(
      run_op(conv_channels_last_op(), Params(ConvParams{}), few, all_kernels(), {}),
      doctest::Contains("[N,spatial...,C]"), Error);
}
