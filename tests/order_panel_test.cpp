// Claim: norms, softmax, log-sum-exp, losses and LRN have the definition's bits on the rows of
// order_panel.h under every contract: few rows and many, rows that are neighbours in memory and
// rows that are not, hostile data, several threads. The data shows the order: the contracts'
// results are asserted to differ.
#include <doctest/doctest.h>

#include "engine/ops/loss.h"
#include "engine/ops/normalization.h"
#include "engine/ops/recurrent.h"
#include "engine/ops/reduce.h"
#include "engine/ops/softmax.h"
#include "tests/order_compare.h"

using namespace etalon;
using namespace etalon::test;

namespace {

constexpr Data kData[] = {Data::noise, Data::special, Data::tiny,   Data::huge,
                          Data::ties,  Data::brink,   Data::brink16};

// f(contract, data) for what the definition takes.
template <class F>
void each_contract(F&& f) {
  for (const Data data : kData) {
    if (!seen_here(data)) continue;
    for (const char* text : kContracts) {
      const Contract c = Contract::parse(text);
      if (c.walk == Walk{}) f(c, data);
    }
  }
}

}  // namespace

TEST_CASE("order panels: norms have the definition's bits under every contract") {
  Compared seen;
  each_contract([&](const Contract& c, Data data) {
    std::vector<Tensor> x;
    const DType type = data == Data::ties ? DType::f16 : DType::f32;
    const auto with = [&](const Shape& shape, std::initializer_list<Shape> more) {
      x.clear();
      x.push_back(make(shape, 31, data, type));
      for (const Shape& s : more) x.push_back(make(s, 32 + x.size(), Data::noise, type));
      return &x;
    };
    LayerNormParams layer;
    layer.statistics = true;
    for (const std::int64_t rows : {1, 2, 7, 70}) {
      compare(get_op("layer_norm"), Params(layer), *with(Shape{rows, 37}, {Shape{37}, Shape{37}}),
              c, seen);
      compare(get_op("rms_norm"), Params(RmsNormParams{}), *with(Shape{rows, 19}, {Shape{19}}), c,
              seen);
    }
    layer.statistics = false;
    layer.axis = 1;
    compare(get_op("layer_norm"), Params(layer), *with(Shape{3, 5, 6}, {Shape{5, 6}, Shape{6}}), c,
            seen);
    compare(get_op("instance_norm"), Params(InstanceNormParams{}),
            *with(Shape{2, 9, 4, 5}, {Shape{9}, Shape{9}}), c, seen);
    GroupNormParams group;
    group.groups = 3;
    compare(get_op("group_norm"), Params(group), *with(Shape{2, 6, 5, 3}, {Shape{6}, Shape{6}}), c,
            seen);
    MeanVarianceParams mean;
    mean.axes = {0, 2};
    compare(get_op("mean_variance_normalization"), Params(mean), *with(Shape{3, 20, 4}, {}), c,
            seen);
    mean.axes = {1, 2};
    mean.normalize_variance = false;
    compare(get_op("mean_variance_normalization"), Params(mean), *with(Shape{3, 4, 5}, {}), c,
            seen);
    compare(get_op("batch_norm"), Params(BatchNormParams{}),
            *with(Shape{2, 5, 7, 9}, {Shape{5}, Shape{5}, Shape{5}, Shape{5}}), c, seen);
    compare(get_op("batch_norm"), Params(BatchNormParams{}),
            *with(Shape{3, 35}, {Shape{35}, Shape{35}, Shape{35}, Shape{35}}), c, seen);
    LrnParams lrn;
    lrn.size = 5;
    lrn.alpha = 0.7F;
    lrn.bias = 1;
    compare(get_op("lrn"), Params(lrn), *with(Shape{2, 7, 3, 5}, {}), c, seen);
    lrn.size = 4;
    lrn.beta = 0.5F;
    lrn.alpha_divided = false;
    compare(get_op("lrn"), Params(lrn), *with(Shape{1, 3, 41}, {}), c, seen);
  });
  CHECK(seen.results.size() > at_least(1000));
  if (detect_isa() >= Isa::avx2) CHECK(seen.rows > at_least(5000) * kRows);
}

TEST_CASE("order panels: exponentials of rows have the definition's bits under every contract") {
  Compared seen;
  each_contract([&](const Contract& c, Data data) {
    std::vector<Tensor> x(1);
    const DType type = data == Data::ties ? DType::bf16 : DType::f32;
    const auto of = [&](const Shape& shape, float scale) {
      x[0] = make(shape, 41, data, DType::f32);
      auto values = x[0].mutable_data<float>();
      for (float& v : values) v *= scale;
      if (type == DType::f32) return &x;
      Tensor narrow = Tensor::uninitialized(type, shape);
      for (std::size_t i = 0; i < values.size(); ++i)
        store_from_double(type, narrow.mutable_bytes().data(), static_cast<std::int64_t>(i),
                          static_cast<double>(values[i]));
      x[0] = std::move(narrow);
      return &x;
    };
    for (const char* op : {"softmax", "log_softmax"}) {
      SoftmaxParams p;
      compare(get_op(op), Params(p), *of(Shape{1, 21}, 8), c, seen);
      compare(get_op(op), Params(p), *of(Shape{40, 3}, 1), c, seen);
      compare(get_op(op), Params(p), *of(Shape{3, 1}, 1), c, seen);
      p.axis = 1;
      compare(get_op(op), Params(p), *of(Shape{2, 5, 19}, 90), c, seen);
    }
    ReduceParams axes;
    axes.axes = {1};
    compare(get_op("reduce_log_sum_exp"), Params(axes), *of(Shape{9, 17}, 4), c, seen);
    compare(get_op("reduce_prod"), Params(axes), *of(Shape{9, 7}, 2), c, seen);
    axes.axes = {0, 2};
    compare(get_op("reduce_log_sum_exp"), Params(axes), *of(Shape{3, 20, 2}, 30), c, seen);
    compare(get_op("reduce_prod"), Params(axes), *of(Shape{3, 40, 2}, 2), c, seen);
  });
  CHECK(seen.results.size() > at_least(700));
  if (detect_isa() >= Isa::avx2) CHECK(seen.rows > at_least(2000) * kRows);
}

TEST_CASE("order panels: Lp norms have the definition's bits under every contract") {
  Compared seen;
  int number = 0;
  each_contract([&](const Contract& c, Data data) {
    const DType type = data == Data::ties ? DType::bf16 : DType::f32;
    for (const float power : {1.0F, 2.0F, 3.0F, 0.7F, 2000.0F}) {
      if (power > 1000 && c.acc != DType::f64 && c.acc != DType::f32) continue;
      LpNormParams p;
      p.p = power;
      p.axes = {1};
      ++number;
      constexpr NormEps kEps[] = {NormEps::norm_max, NormEps::sum_max, NormEps::sum_add};
      p.eps = number % 2 == 0 ? 0.0F : 0.01F;
      p.eps_in = kEps[number % 3];
      std::vector<Tensor> x;
      x.push_back(make(Shape{number % 4 == 0 ? 1 : 9, 17}, 71, data, type));
      // A row of zeros of both signs.
      for (std::int64_t k = 0; k < 17; ++k)
        store_from_double(type, x[0].mutable_bytes().data(), k,
                          data != Data::special ? load_as_double(x[0], k)
                          : k % 2 == 0          ? -0.0
                                                : 0.0);
      compare(get_op("lp_norm"), Params(p), x, c, seen);
      p.axes = {0, 2};
      x[0] = make(Shape{3, 4, 5}, 72, data, type);
      compare(get_op("lp_norm"), Params(p), x, c, seen);
    }
  });
  CHECK(seen.results.size() > at_least(500));
  if (detect_isa() >= Isa::avx2) CHECK(seen.rows > at_least(3000) * kRows);
}

TEST_CASE("order panels: losses have the definition's bits under every contract") {
  Compared seen;
  each_contract([&](const Contract& c, Data data) {
    const DType type = data == Data::ties ? DType::f16 : DType::f32;
    // Past a block of terms, a few, none.
    for (const Shape& shape : {Shape{3, 701}, Shape{2, 9}, Shape{0, 4}}) {
      std::vector<Tensor> in;
      in.push_back(make(shape, 51, data, type));
      in.push_back(make(shape, 52, shape[0] == 2 ? Data::noise : data, type));
      for (const LossReduction reduction : {LossReduction::mean, LossReduction::sum,
                                            LossReduction::batchmean, LossReduction::none}) {
        if (shape[0] == 3 && reduction == LossReduction::sum) continue;
        in.resize(2);
        // Weights of one shape with reduction, of the other without.
        if ((shape[0] == 2) == (reduction == LossReduction::batchmean))
          in.push_back(make(shape, 53, data, type));
        const auto run = [&](const char* op, auto params) {
          params.reduction = reduction;
          compare(get_op(op), Params(params), in, c, seen);
        };
        run("mse_loss", LossParams{});
        run("l1_loss", LossParams{});
        HuberLossParams huber;
        huber.delta = 0.3F;
        run("huber_loss", huber);
        SmoothL1LossParams smooth;
        run("smooth_l1_loss", smooth);
        smooth.beta = shape[0] == 3 ? 0.3F : 0.0F;
        run("smooth_l1_loss", smooth);
        HingeLossParams hinge;
        hinge.squared = shape[0] == 2;
        hinge.margin = 0.7F;
        run("hinge_loss", hinge);
        if (data != Data::noise && data != Data::special) continue;
        run("binary_cross_entropy_with_logits", LossParams{});
        KlDivLossParams kl;
        kl.log_target = reduction == LossReduction::none;
        run("kl_div_loss", kl);
        // Mostly of (0, 1), some beyond.
        Tensor probabilities = make(shape, 54, data, type);
        for (std::int64_t k = 0; k < shape.numel(); ++k)
          if (const double v = load_as_double(probabilities, k); k % 9 != 0)
            store_from_double(type, probabilities.mutable_bytes().data(), k, std::fabs(v));
        std::swap(in[0], probabilities);
        run("binary_cross_entropy", LossParams{});
        std::swap(in[0], in[1]);
        kl.log_target = false;
        run("kl_div_loss", kl);
        std::swap(in[0], in[1]);
        std::swap(in[0], probabilities);
      }
    }
  });
  CHECK(seen.results.size() > at_least(1000));
  if (detect_isa() >= Isa::avx2) CHECK(seen.rows > at_least(10000) * kRows);
}

TEST_CASE("order panels: cells have the definition's bits under every contract") {
  Compared seen;
  each_contract([&](const Contract& c, Data data) {
    const DType type = data == Data::brink16 ? DType::f16 : DType::f32;
    if (type == DType::f16 && c.acc == DType::bf16) return;
    constexpr std::int64_t kSteps = 3, kBatch = 5, kInputs = 6, kHidden = 35;
    for (const std::string_view op : {"rnn", "gru", "lstm"}) {
      const std::int64_t gates = op == "rnn" ? 1 : op == "gru" ? 3 : 4;
      std::vector<Tensor> in;
      in.push_back(make(Shape{kSteps, kBatch, kInputs}, 61, data, type));
      in.push_back(make(Shape{1, gates * kHidden, kInputs}, 62, Data::noise, type));
      in.push_back(make(Shape{1, gates * kHidden, kHidden}, 63, data, type));
      in.push_back(make(Shape{1, 2 * gates * kHidden}, 64, data, type));
      if (data != Data::noise) {
        Tensor lengths = Tensor::uninitialized(DType::i32, Shape{kBatch});
        const std::int32_t values[] = {2, 0, 3, 1, 3};
        std::copy_n(values, kBatch, lengths.mutable_data<std::int32_t>().data());
        in.push_back(std::move(lengths));
        in.push_back(make(Shape{1, kBatch, kHidden}, 65, data, type));
        if (op == "lstm") in.push_back(make(Shape{1, kBatch, kHidden}, 66, data, type));
      }
      const auto run = [&](auto params) {
        params.direction = data == Data::ties ? Direction::reverse : Direction::forward;
        compare(get_op(op), Params(params), in, c, seen);
      };
      if (op == "rnn") run(RnnParams{});
      if (op == "lstm") run(LstmParams{});
      if (op == "gru") {
        GruParams gru;
        run(gru);
        gru.linear_before_reset = true;
        run(gru);
      }
    }
  });
  CHECK(seen.results.size() > at_least(300));
  if (detect_isa() >= Isa::avx2) CHECK(seen.rows > at_least(1000) * kRows);
}
