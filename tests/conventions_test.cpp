// What a framework makes of NaN, ties and overflow is named where it accounts for everything that
// differs, and hides nothing else. The bounds that leave room for other formulas (coordinates in
// f32, ramps without a branch, repeated addition) hold what those formulas give, and no more.
#include <doctest/doctest.h>

#include <algorithm>

#include "bench/compare/param_fields.h"
#include "engine/ops/resize.h"
#include "tests/op_cases.h"
#include "tests/verdict_data.h"

using namespace etalon;
using namespace etalon::verdict_data;

namespace {

Judgement judged(const Layer& layer, Tensor got, std::size_t output = 0) {
  std::vector<Tensor> y(output);
  y.push_back(std::move(got));
  return judge_layer(layer, y, judge_options())[output];
}

}  // namespace

TEST_CASE("conventions: named where they account for every difference, silent otherwise") {
  std::vector<Tensor> x;
  x.push_back(Tensor::of<float>({6}, {NAN, 2, -3, 0, NAN, 5}));
  const Layer sign = layer_of("sign", std::move(x));
  const Judgement named = judged(sign, Tensor::of<float>({6}, {0, 1, -1, 0, 0, 1}));
  CHECK(named.verdict == Verdict::wrong);
  CHECK(named.cause.find("the sign of NaN is 0") != std::string::npos);
  CHECK(named.sentence.find("2 of 6") != std::string::npos);
  // One element more is wrong: the convention no longer accounts for it.
  const Judgement other = judged(sign, Tensor::of<float>({6}, {0, 1, -1, 0, 0, -1}));
  CHECK(other.verdict == Verdict::wrong);
  CHECK(other.cause.find("the sign of NaN") == std::string::npos);
}

TEST_CASE("conventions: other indices of equal elements, never a second time the same") {
  std::vector<Tensor> x;
  x.push_back(Tensor::of<float>({1, 5}, {3, 1, 3, 3, 0}));
  x.push_back(Tensor::of<std::int64_t>({1}, {2}));
  const Layer top = layer_of("top_k", std::move(x));
  const auto with = [&](std::int64_t a, std::int64_t b) {
    std::vector<Tensor> y;
    y.push_back(Tensor::of<float>({1, 2}, {3, 3}));
    y.push_back(Tensor::of<std::int64_t>({1, 2}, {a, b}));
    return judge_layer(top, y, judge_options())[1];
  };
  CHECK(with(0, 2).verdict == Verdict::identical);
  CHECK(with(3, 0).cause.find("of equal elements another") != std::string::npos);
  CHECK(with(2, 2).cause.find("of equal elements another") == std::string::npos);
  CHECK(with(2, 1).cause.find("of equal elements another") == std::string::npos);
}

TEST_CASE("conventions: no format is named by outputs that are such numbers anyway") {
  std::vector<Tensor> x;
  x.push_back(noise({64}, 3));
  const Layer sign = layer_of("sign", std::move(x));
  std::vector<Tensor> y = suspect(sign, Contract::seq());
  Tensor wrong = y[0].clone();
  wrong.mutable_data<float>()[7] *= -1;
  CHECK(judged(sign, std::move(wrong)).verdict == Verdict::wrong);
}

TEST_CASE("bounds: resize by coordinates in f32 is explained, half an element aside is not") {
  for (const char* mode : {"linear", "cubic"})
    for (const char* coordinates : {"half_pixel", "align_corners", "half_pixel_symmetric"}) {
      std::vector<Tensor> x;
      x.push_back(noise({2, 3, 7, 11}, 5));
      Layer layer = layer_of("resize", std::move(x));
      layer.params = with_field(layer.params, "mode", std::string(mode));
      layer.params =
          with_field(layer.params, "coordinate_transformation_mode", std::string(coordinates));
      layer.params = with_field(layer.params, "axes", Ints{2, 3});
      layer.params = with_field(layer.params, "sizes", Ints{12, 29});
      Layer f32 = layer.share();
      f32.params = with_field(layer.params, "coordinates", std::string("f32"));
      const Judgement j = judged(layer, std::move(suspect(f32, Contract::seq())[0]));
      CHECK_MESSAGE(j.verdict == Verdict::explained,
                    mode << " " << coordinates << ": " << name(j.verdict) << " " << j.cause);
      CHECK(j.bound_used < 1);
      Layer shifted = layer.share();
      shifted.params =
          with_field(layer.params, "coordinate_transformation_mode", std::string("asymmetric"));
      const Judgement s = judged(layer, std::move(suspect(shifted, Contract::seq())[0]));
      CHECK(s.verdict == Verdict::wrong);
      CHECK(s.cause.find("asymmetric") != std::string::npos);
    }
}

TEST_CASE("bounds: formulas without a branch are explained for hard_swish, softplus, range") {
  const auto step = [](float x) { return x; };
  std::vector<float> at;
  for (int i = -500; i <= 900; ++i) at.push_back(static_cast<float>(i) * 0.00917F);
  const auto n = static_cast<std::int64_t>(at.size());
  Tensor x = Tensor::uninitialized(DType::f32, {n});
  std::copy(at.begin(), at.end(), x.mutable_data<float>().begin());
  std::vector<Tensor> in;
  in.push_back(x.share());
  const Layer swish = layer_of("hard_swish", std::move(in));
  for (const bool onnx : {false, true}) {
    Tensor y = Tensor::uninitialized(DType::f32, {n});
    auto out = y.mutable_data<float>();
    for (std::size_t i = 0; i < at.size(); ++i) {
      const float v = step(at[i]);
      out[i] = onnx ? v * std::max(0.0F, std::min(1.0F, v * (1.0F / 6) + 0.5F))
                    : v * std::min(std::max(v + 3.0F, 0.0F), 6.0F) / 6.0F;
    }
    const Judgement j = judged(swish, std::move(y));
    CHECK_MESSAGE(j.verdict == Verdict::explained, onnx << ": " << j.cause);
  }
  std::vector<Tensor> range_in;
  range_in.push_back(Tensor::of<float>({}, {-0.3F}));
  range_in.push_back(Tensor::of<float>({}, {9.0F}));
  range_in.push_back(Tensor::of<float>({}, {0.1F}));
  const Layer range = layer_of("range", std::move(range_in));
  Tensor y = suspect(range, Contract::seq())[0].clone();
  float value = -0.3F;
  for (float& v : y.mutable_data<float>()) {
    v = value;
    value += 0.1F;
  }
  CHECK(judged(range, std::move(y)).verdict == Verdict::explained);
}

TEST_CASE("bounds: every op that rounds has one") {
  const LayerEvaluator eval(all_kernels(), 1, detect_isa());
  int rounding = 0;
  for (const OpCase& c : op_cases()) {
    if (c.op->nature == OpNature::movement || c.op->nature == OpNature::discrete) continue;
    // One rounding that every program must make alike.
    if (c.op->name == "cast" || c.op->name == "cast_like") continue;
    const Layer layer{c.op, c.params, case_inputs(c)};
    const std::vector<TensorType> types = eval.output_types(layer);
    if (std::ranges::none_of(types, [](const TensorType& t) { return is_floating(t.dtype); }))
      continue;
    ++rounding;
    CHECK_MESSAGE(eval.has_definition(layer), c.op->name);
  }
  CHECK(rounding > 100);
}
