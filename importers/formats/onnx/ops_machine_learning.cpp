// What of ONNX's domain ai.onnx.ml maps a tensor of numbers to another.
#include "engine/core/error.h"
#include "importers/formats/onnx/body.h"

namespace etalon::onnx_format {
namespace {

ValueId vector(Body& b, std::string_view role, const std::vector<float>& values) {
  return b.n.constant_value(role, Tensor::of<float>({static_cast<std::int64_t>(values.size())},
                                                    std::span<const float>(values)));
}

// (x - offset) * scale, one of each or one for each feature.
void scaler(OnnxNode& n) {
  Body b(n);
  const std::vector<float> offset = n.numbers("offset"), scale = n.numbers("scale");
  if (offset.empty() || scale.empty()) throw bad_input("attribute offset or scale is missing");
  const ValueId x = b.cast(n.required(0), DType::f32);
  n.emit("mul", {}, {b.sub(x, vector(b, "offset", offset)), vector(b, "scale", scale)},
         {n.output(0)});
}

// Rows over their largest number, their sum of magnitudes, or (by ONNX Runtime's formula) the root
// of x^2 over the sum of squares; a row whose divisor is 0 stays.
void normalizer(OnnxNode& n) {
  Body b(n);
  const std::string norm = n.text("norm", "MAX");
  const ValueId x = b.cast(n.required(0), DType::f32), zero = b.number(0.0F);
  const auto over = [&](std::string_view op) { return b.reduce(op, x, {-1}, true); };
  ValueId divisor, y;
  if (norm == "L2") {
    divisor = over("reduce_sum_square");
    const ValueId root = b.op("sqrt", {b.div(b.mul(x, x), divisor)});
    y = b.where(b.op("less", {x, zero}), b.op("neg", {root}), root);
  } else if (norm == "L1" || norm == "MAX") {
    divisor = over(norm == "L1" ? "reduce_l1" : "reduce_max");
    y = b.div(x, divisor);
  } else {
    throw bad_input("norm is '{}', expected MAX, L1 or L2", printable(norm));
  }
  n.emit("where", {}, {b.op("equal", {divisor, zero}), x, y}, {n.output(0)});
}

void array_feature_extractor(OnnxNode& n) {
  Body b(n);
  const int rank = n.rank_of(0, "along which axis its features lie");
  const ValueId x = rank == 1 ? b.unsqueeze(n.required(0), {0}) : n.required(0);
  n.emit("gather", {{"axis", std::int64_t{-1}}}, {x, b.reshape(n.required(1), {-1})},
         {n.output(0)});
}

void binarizer(OnnxNode& n) {
  Body b(n);
  const ValueId x = n.required(0);
  n.give(0, b.like(b.op("greater", {x, b.number_like(n.number("threshold", 0.0F), x)}), x));
}

void imputer(OnnxNode& n) {
  Body b(n);
  const std::vector<float> with = n.numbers("imputed_value_floats");
  if (with.empty())
    throw bad_input("attribute imputed_value_floats is missing; only floats are imputed here");
  const float replaced = n.number("replaced_value_float", 0.0F);
  const ValueId x = n.required(0);
  const ValueId gone =
      replaced != replaced ? b.op("is_nan", {x}) : b.op("equal", {x, b.number(replaced)});
  n.emit("where", {}, {gone, vector(b, "imputed", with), x}, {n.output(0)});
}

ValueId post_transform(Body& b, ValueId scores) {
  const std::string transform = b.n.text("post_transform", "NONE");
  if (transform == "NONE") return scores;
  if (transform == "LOGISTIC") return b.op("sigmoid", {scores});
  if (transform == "SOFTMAX") return b.op("softmax", {scores}, {{"axis", std::int64_t{-1}}});
  throw bad_input("post_transform is '{}'; NONE, LOGISTIC and SOFTMAX are read",
                  printable(transform));
}

// x C^T + intercepts, C [rows, features].
ValueId linear(Body& b, std::int64_t rows) {
  OnnxNode& n = b.n;
  const std::vector<float> coefficients = n.numbers("coefficients"),
                           intercepts = n.numbers("intercepts");
  if (rows < 1 || coefficients.empty() ||
      coefficients.size() % static_cast<std::size_t>(rows) != 0 ||
      (!intercepts.empty() && intercepts.size() != static_cast<std::size_t>(rows)))
    throw bad_input("{} coefficients and {} intercepts do not divide into {} rows",
                    coefficients.size(), intercepts.size(), rows);
  const ValueId matrix = b.reshape(vector(b, "coefficients", coefficients), {rows, -1});
  std::vector<ValueId> in{b.cast(n.required(0), DType::f32), matrix};
  if (!intercepts.empty()) in.push_back(vector(b, "intercepts", intercepts));
  return b.op("gemm", in, {{"trans_b", true}});
}

void linear_regressor(OnnxNode& n) {
  Body b(n);
  n.give(0, post_transform(b, linear(b, n.integer("targets", 1))));
}

// Labels are those of the largest score; texts are no tensors here.
void linear_classifier(OnnxNode& n) {
  Body b(n);
  const Ints labels = n.integers("classlabels_ints");
  if (labels.size() < 2)
    throw bad_input(
        "attribute classlabels_ints has {} entries; labels that are texts are no tensors: convert "
        "the model with integer labels",
        labels.size());
  n.ignore("multi_class");
  const auto rows = static_cast<std::int64_t>(labels.size());
  if (n.numbers("intercepts").size() == 1)
    throw bad_input("two classes by one row of coefficients; convert the model with a row a class");
  const ValueId scores = linear(b, rows);
  const ValueId best = b.op("arg_max", {scores}, {{"axis", std::int64_t{1}}, {"keepdims", false}});
  n.give(0, b.op("gather", {b.ints(labels), best}));
  n.give(1, post_transform(b, scores));
}

constexpr TranslatorRow kRows[] = {
    {"ai.onnx.ml.Scaler", scaler},
    {"ai.onnx.ml.Normalizer", normalizer},
    {"ai.onnx.ml.ArrayFeatureExtractor", array_feature_extractor},
    {"ai.onnx.ml.Binarizer", binarizer},
    {"ai.onnx.ml.Imputer", imputer},
    {"ai.onnx.ml.LinearRegressor", linear_regressor},
    {"ai.onnx.ml.LinearClassifier", linear_classifier},
};

}  // namespace

std::span<const TranslatorRow> machine_learning_family() { return kRows; }

}  // namespace etalon::onnx_format
