// Normalisation, for inference.
//
//   batch_norm     y = (x - mean[c]) / sqrt(var[c] + eps) * scale[c] + bias[c], statistics given
//   layer_norm     over the axes from `axis` on:      y = d / sqrt(v + eps) * scale + bias
//   instance_norm  over the spatial axes of (n,c):    the same, scale and bias by channel
//   group_norm     over C/G channels and all spatial axes of a group: the same
//   mean_variance_normalization  over `axes`:         y = d / (sqrt(v) + eps), or y = d
//   rms_norm       over the axes from `axis` on:      y = x / sqrt(mean(x^2) + eps) * scale
//   lp_norm        over `axes`:                       y = x / norm,  norm = (sum |x|^p)^(1/p)
//   lrn            y = x / (bias + f*s)^beta, s the sum of x^2 over `size` channels around c
// with n elements x_k, row-major over the reduced axes, mean = (sum x)/n, d = x - mean, v = (sum
// d^2)/n. Shapes: y as x; batch, instance and group norm and lrn take [N,C,spatial]. scale and bias
// (optional but in batch_norm) have shape [C] (group_norm with scale_per_group: [G]); those of
// layer_norm and rms_norm broadcast to x. batch_norm reads channels along `axis`, and with
// spatial=false its four statistics have the shape of x without the batch.
//
// Rounding, in this sequence, sums in the contract's order, squares fused into them:
//   mean = round(sum / n), d = round(x - mean), v = round(sum of d*d / n), r = round(sqrt(round(v +
//   eps))), y = fma(round(d / r), scale, bias); without bias y = round(round(d / r) * scale),
//   without scale y = d / r (+ bias)
//   batch_norm  f = round(scale / round(sqrt(round(var + eps)))), y = fma(round(x - mean), f, bias)
//   mean_variance_normalization  r = round(round(sqrt(v)) + eps)
//   rms_norm    r = round(sqrt(round(round(sum of x*x / n) + eps))), then as above without bias
//   lp_norm     p = 1: norm = sum of |x|; p = 2: q = sum of x*x, norm = round(sqrt(q)); else norm =
//               round(q^round(1/p)), q = sum of round(|x|^p); y = round(x / norm). eps: `norm_max`
//               norm = max(norm, eps); `sum_max` q = max(q, eps); `sum_add` q = round(q + eps)
//   lrn         f = round(alpha / size), or alpha with alpha_divided=false; b = fma(f, s, bias); y
//   =
//               round(x / round(b^beta)). Channels c - floor((size-1)/2) to c + ceil((size-1)/2),
//               with longer_below the other way about; those outside are no terms.
// Under `exact` every y is the correctly rounded value of the whole formula. All rows are per
// sample but mean_variance_normalization over axis 0 (the default axes hold it: ONNX's do).
// layer_norm with statistics=true also gives mean and 1/r, one for each row, in f32 for narrower x.
//
// Special values: a row with a NaN or infinity is NaN by the formula (d = inf - inf); a constant
// row with eps = 0 is 0/0 = NaN; var + eps < 0 gives NaN. lp_norm: a row whose norm is 0 gives
// zeros with the signs of x, never NaN. An empty row gives nothing. Errors name the shape that does
// not fit; eps is f32 as stored: a framework's double epsilon differs by design. Sources: Ioffe,
// Szegedy (arXiv 1502.03167); Ba, Kiros, Hinton (1607.06450), section 3; Ulyanov et al.
// (1607.08022); Wu, He (1803.08494); Zhang, Sennrich (1910.07467); Krizhevsky et al. (NIPS 2012),
// section 3.3. ONNX BatchNormalization-7 to -15, LayerNormalization-17, InstanceNormalization-22,
// GroupNormalization-18 and -21, RMSNormalization-23, LpNormalization-22,
// MeanVarianceNormalization-13, LRN-13.
#pragma once

#include <span>

#include "engine/ops/op.h"

namespace etalon {

struct BatchNormParams {
  float eps = 1e-5F;
  std::int64_t axis = 1;
  bool spatial = true;
  template <class V>
  void visit(V& v) {
    v("eps", eps);
    v("axis", axis);
    v("spatial", spatial);
  }
};

struct LayerNormParams {
  std::int64_t axis = -1;
  float eps = 1e-5F;
  bool statistics = false;
  template <class V>
  void visit(V& v) {
    v("axis", axis);
    v("eps", eps);
    v("statistics", statistics);
  }
};

struct InstanceNormParams {
  float eps = 1e-5F;
  template <class V>
  void visit(V& v) {
    v("eps", eps);
  }
};

struct GroupNormParams {
  std::int64_t groups = 1;
  float eps = 1e-5F;
  bool scale_per_group = false;
  template <class V>
  void visit(V& v) {
    v("groups", groups);
    v("eps", eps);
    v("scale_per_group", scale_per_group);
  }
};

struct MeanVarianceParams {
  Ints axes{0, 2, 3};
  bool normalize_variance = true;
  float eps = 1e-9F;
  template <class V>
  void visit(V& v) {
    v("axes", axes);
    v("normalize_variance", normalize_variance);
    v("eps", eps);
  }
};

struct RmsNormParams {
  std::int64_t axis = -1;
  float eps = 1e-5F;
  template <class V>
  void visit(V& v) {
    v("axis", axis);
    v("eps", eps);
  }
};

enum class NormEps { norm_max, sum_max, sum_add };

struct LpNormParams {
  float p = 2;
  Ints axes{-1};
  float eps = 0;
  NormEps eps_in = NormEps::norm_max;
  template <class V>
  void visit(V& v) {
    v("p", p);
    v("axes", axes);
    v("eps", eps);
    v("eps_in", eps_in, {"norm_max", "sum_max", "sum_add"});
  }
};

struct LrnParams {
  std::int64_t size = 5;
  float alpha = 1e-4F;
  float beta = 0.75F;
  float bias = 1;
  bool alpha_divided = true;
  bool longer_below = false;
  template <class V>
  void visit(V& v) {
    v("size", size);
    v("alpha", alpha);
    v("beta", beta);
    v("bias", bias);
    v("alpha_divided", alpha_divided);
    v("longer_below", longer_below);
  }
};

// Rows of elements that are reduced together: element k of row r lies at first(r) + offsets[k].
struct NormRows {
  std::int64_t rows = 0;
  std::vector<std::int64_t> firsts;   // by row
  std::vector<std::int64_t> offsets;  // by k
  std::int64_t length() const { return static_cast<std::int64_t>(offsets.size()); }
};
// `reduced[axis]` says which axes are reduced; both lists run row-major.
NormRows norm_rows(const Shape& x, std::span<const bool> reduced);
NormRows norm_rows_from(const Shape& x, std::int64_t axis);         // axes from `axis` on
NormRows norm_rows_over(const Shape& x, const Ints& axes);          // those of the list
NormRows norm_rows_of_groups(const Shape& x, std::int64_t groups);  // [N,C,...]: C/G channels each

std::span<const OpRow> normalization_ops();

}  // namespace etalon
