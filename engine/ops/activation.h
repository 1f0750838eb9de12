// Activations and unary functions: y = f(x) elementwise, any shape.
//
// Every output is the real value of f, rounded once into the stored format under every contract: no
// order, no intermediate, no accumulator takes part (math=cr). Parameters are f32 and count as the
// real numbers they are; constants in a formula (1/6, 0.044715, pi, sqrt 2) are the real ones.
//
//   relu              x where x > 0, else +0
//   leaky_relu        x where x >= 0, else alpha*x
//   prelu             the same with alpha = slope, input 1, that broadcasts to x
//   thresholded_relu  x where x > alpha, else +0
//   elu               x where x > 0, else alpha*(e^x - 1)
//   selu              gamma*elu(x)
//   celu              x where x > 0, else alpha*(e^(x/alpha) - 1)
//   sigmoid           1/(1 + e^-x)            log_sigmoid   -log(1 + e^-x)
//   hard_sigmoid      min(max(alpha*x + beta, 0), 1)
//   hard_swish        x*min(max(x/6 + 1/2, 0), 1)
//   hard_tanh         min where x < min, max where x > max, else x
//   softplus          log(1 + e^(beta*x))/beta, or x where beta*x > threshold
//   softsign          x/(1 + |x|)
//   softshrink        shrink with bias = lambd
//   shrink            x + bias where x < -lambd, x - bias where x > lambd, else +0
//   gelu              x*(1 + erf(x/sqrt 2))/2, or with approximate=tanh
//                     x*(1 + tanh(sqrt(2/pi)*(x + 0.044715*x^3)))/2
//   silu              x/(1 + e^(-alpha*x))    mish          x*tanh(log(1 + e^x))
//   exp exp2 expm1 log log2 log10 log1p sqrt reciprocal rsqrt cbrt sin cos tan asin acos atan
//   sinh cosh tanh asinh acosh atanh erf erfc
//   abs neg sign floor ceil round (ties to even): exact; of integers too (not sqrt and its kin)
//
// Special values. NaN gives NaN, in each of them (thresholded_relu and shrink too). Infinities and
// zeros follow the formula as IEEE 754 evaluates it at the limit of its inner functions: silu(-inf)
// = gelu(-inf) = mish(-inf) = hard_swish(-inf) = -inf*0 = NaN, softsign(+-inf) = NaN, elu(-inf) =
// -alpha, sqrt(-0) = -0, log(0) = -inf, log(x < 0) = NaN. Odd functions keep -0; relu(-0) = +0;
// sign(-0) = -0. Integers wrap: abs and neg of the least one give itself. An empty tensor gives an
// empty one.
// Sources: ONNX operators at opset 24 (defaults are theirs); Clevert et al. (arXiv 1511.07289,
// elu), Klambauer et al. (1706.02515, selu), Barron (1704.07483, celu), Hendrycks, Gimpel
// (1606.08415, gelu), Ramachandran et al. (1710.05941, silu), Misra (1908.08681, mish), Howard et
// al. (1905.02244, hard_swish).
#pragma once

#include <limits>
#include <span>

#include "engine/ops/op.h"

namespace etalon {

struct LeakyReluParams {
  float alpha = 0.01F;
  template <class V>
  void visit(V& v) {
    v("alpha", alpha);
  }
};
struct ThresholdedReluParams {
  float alpha = 1;
  template <class V>
  void visit(V& v) {
    v("alpha", alpha);
  }
};
struct EluParams {
  float alpha = 1;
  template <class V>
  void visit(V& v) {
    v("alpha", alpha);
  }
};
struct SeluParams {
  float alpha = 1.67326319217681884765625F;
  float gamma = 1.05070102214813232421875F;
  template <class V>
  void visit(V& v) {
    v("alpha", alpha);
    v("gamma", gamma);
  }
};
struct CeluParams {
  float alpha = 1;
  template <class V>
  void visit(V& v) {
    v("alpha", alpha);
  }
};
struct HardSigmoidParams {
  float alpha = 0.2F;
  float beta = 0.5F;
  template <class V>
  void visit(V& v) {
    v("alpha", alpha);
    v("beta", beta);
  }
};
struct HardTanhParams {
  float min = -1;
  float max = 1;
  template <class V>
  void visit(V& v) {
    v("min", min);
    v("max", max);
  }
};
struct SoftplusParams {
  float beta = 1;
  float threshold = std::numeric_limits<float>::infinity();
  template <class V>
  void visit(V& v) {
    v("beta", beta);
    v("threshold", threshold);
  }
};
struct SoftshrinkParams {
  float lambd = 0.5F;
  template <class V>
  void visit(V& v) {
    v("lambd", lambd);
  }
};
struct ShrinkParams {
  float lambd = 0.5F;
  float bias = 0;
  template <class V>
  void visit(V& v) {
    v("lambd", lambd);
    v("bias", bias);
  }
};
enum class GeluForm { none, tanh };
struct GeluParams {
  GeluForm approximate = GeluForm::none;
  template <class V>
  void visit(V& v) {
    v("approximate", approximate, {"none", "tanh"});
  }
};
struct SiluParams {
  float alpha = 1;
  template <class V>
  void visit(V& v) {
    v("alpha", alpha);
  }
};

std::span<const OpRow> activation_ops();

}  // namespace etalon
