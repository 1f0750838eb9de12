#include "engine/ops/activation.h"

#include <vector>

namespace etalon {
namespace {

std::vector<TensorType> floating(const Params&, const InferInputs& in) {
  if (!is_floating(in.dtype(0)))
    throw bad_input("x must be a floating tensor, got {}", name(in.dtype(0)));
  return {in.type(0)};
}

std::vector<TensorType> numeric(const Params&, const InferInputs& in) {
  if (in.dtype(0) == DType::boolean) throw bad_input("x must be a tensor of numbers, got bool");
  return {in.type(0)};
}

std::vector<TensorType> infer_prelu(const Params& params, const InferInputs& in) {
  if (in.dtype(1) != in.dtype(0))
    throw bad_input("slope must be {} as x is, got {}", name(in.dtype(0)), name(in.dtype(1)));
  if (broadcast(in.shape(1), in.shape(0)) != in.shape(0))
    throw bad_input("slope {} does not broadcast to x {}", to_string(in.shape(1)),
                    to_string(in.shape(0)));
  return floating(params, in);
}

std::vector<TensorType> infer_celu(const Params& params, const InferInputs& in) {
  if (params.as<CeluParams>().alpha == 0) throw bad_input("celu's alpha must not be 0");
  return floating(params, in);
}

std::vector<TensorType> infer_softplus(const Params& params, const InferInputs& in) {
  if (!(params.as<SoftplusParams>().beta > 0))
    throw bad_input("softplus' beta must be positive, got {}", params.as<SoftplusParams>().beta);
  return floating(params, in);
}

template <class P>
Params make() {
  return Params(P{});
}

OpRow function(std::string_view op, std::string_view summary) {
  return {.name = op, .summary = summary, .infer = floating};
}

}  // namespace

std::span<const OpRow> activation_ops() {
  static const std::vector<OpRow> rows{
      {.name = "relu", .summary = "Rectifier: x where x > 0, else +0.", .infer = numeric},
      {.name = "leaky_relu",
       .summary = "x where x >= 0, else alpha*x.",
       .defaults = make<LeakyReluParams>,
       .infer = floating},
      {.name = "prelu",
       .summary = "x where x >= 0, else slope*x with a slope that broadcasts.",
       .min_inputs = 2,
       .max_inputs = 2,
       .infer = infer_prelu,
       .input_names = [] { return std::vector<std::string_view>{"x", "slope"}; }},
      {.name = "thresholded_relu",
       .summary = "x where x > alpha, else +0.",
       .defaults = make<ThresholdedReluParams>,
       .infer = floating},
      {.name = "elu",
       .summary = "Exponential linear unit.",
       .defaults = make<EluParams>,
       .infer = floating},
      {.name = "selu",
       .summary = "Scaled exponential linear unit.",
       .defaults = make<SeluParams>,
       .infer = floating},
      {.name = "celu",
       .summary = "Continuously differentiable exponential linear unit.",
       .defaults = make<CeluParams>,
       .infer = infer_celu},
      function("sigmoid", "Logistic function 1/(1 + e^-x)."),
      function("log_sigmoid", "Logarithm of the logistic function."),
      {.name = "hard_sigmoid",
       .summary = "alpha*x + beta held in [0,1].",
       .defaults = make<HardSigmoidParams>,
       .infer = floating},
      function("hard_swish", "x times x/6 + 1/2 held in [0,1]."),
      {.name = "hard_tanh",
       .summary = "x held in [min,max].",
       .defaults = make<HardTanhParams>,
       .infer = floating},
      {.name = "softplus",
       .summary = "log(1 + e^(beta*x))/beta.",
       .defaults = make<SoftplusParams>,
       .infer = infer_softplus},
      function("softsign", "x/(1 + |x|)."),
      {.name = "softshrink",
       .summary = "x moved toward zero by lambd, zero within.",
       .defaults = make<SoftshrinkParams>,
       .infer = floating},
      {.name = "shrink",
       .summary = "x moved toward zero by bias, zero within lambd.",
       .defaults = make<ShrinkParams>,
       .infer = floating},
      {.name = "gelu",
       .summary = "Gaussian error linear unit, by erf or by its tanh form.",
       .defaults = make<GeluParams>,
       .infer = floating},
      {.name = "silu",
       .summary = "x times the logistic function of alpha*x (swish).",
       .defaults = make<SiluParams>,
       .infer = floating},
      function("mish", "x*tanh(log(1 + e^x))."),
      function("exp", "Exponential function."),
      function("exp2", "Power of two."),
      function("expm1", "e^x - 1."),
      function("log", "Natural logarithm."),
      function("log2", "Logarithm to base 2."),
      function("log10", "Logarithm to base 10."),
      function("log1p", "log(1 + x)."),
      function("sqrt", "Square root."),
      function("reciprocal", "1/x."),
      function("rsqrt", "1/sqrt(x)."),
      function("cbrt", "Cube root."),
      function("sin", "Sine."),
      function("cos", "Cosine."),
      function("tan", "Tangent."),
      function("asin", "Inverse sine."),
      function("acos", "Inverse cosine."),
      function("atan", "Inverse tangent."),
      function("sinh", "Hyperbolic sine."),
      function("cosh", "Hyperbolic cosine."),
      function("tanh", "Hyperbolic tangent."),
      function("asinh", "Inverse hyperbolic sine."),
      function("acosh", "Inverse hyperbolic cosine."),
      function("atanh", "Inverse hyperbolic tangent."),
      function("erf", "Error function."),
      function("erfc", "1 - erf(x)."),
      {.name = "abs", .summary = "Absolute value.", .infer = numeric},
      {.name = "neg", .summary = "-x.", .infer = numeric},
      {.name = "sign", .summary = "-1, 0 or 1; zeros keep their sign.", .infer = numeric},
      {.name = "floor", .summary = "Largest integer not above x.", .infer = numeric},
      {.name = "ceil", .summary = "Smallest integer not below x.", .infer = numeric},
      {.name = "round", .summary = "Nearest integer, ties to even.", .infer = numeric},
  };
  return rows;
}

}  // namespace etalon
