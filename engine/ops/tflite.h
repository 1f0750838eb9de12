// TensorFlow Lite's integer kernels, bit for bit as its reference kernels define them.
//
// Real numbers are scale * (q - zero). Sums are exact integers (i32; i64 where x is i16 and the
// bias i64). A factor M, a double made of the scales, becomes a multiplier m in [2^30, 2^31) and a
// shift s with M ~ m * 2^(s - 31): m = round_half_away(frexp(M) * 2^31), and m = 2^31 turns into
// 2^30 with s + 1; s < -31 gives 0, and s > 30 the largest multiplier. `scaled(v)` then is
//   i32: v * 2^max(s, 0), doubled high product with m: (v*m + (v*m >= 0 ? 2^30 : 1 - 2^30)) / 2^31
//   cut
//        toward zero, then divided by 2^max(-s, 0) rounding to nearest, halves away from zero
//   i64: (v * m' + 2^(14 - s)) >> (15 - s), m' = min((m + 2^15) >> 16, 32767), of which 32 bits are
//        kept; from s = 8 on, which the reference does not take, held to them
// All results are held to [act_min, act_max], which carries the fused activation: not given, the
// ends of the type. Layouts are this engine's: x [N,C,spatial], w [O,C/G,kernel].
//   tflite_conv             sum of (x - x_zero) * (w - w_zero) over the taps inside, + bias; scaled
//                           by M[o] = x_scale * w_scales[o] / y_scale (doubles; of u8 the product
//                           is made in f32); + y_zero. Depthwise: groups = C
//   tflite_fully_connected  the same over x [.., K], w [O, K], but M in doubles of every type, and
//                           scaled in one rounding, halves upward: (v * m + 2^(30 - s)) >> (31 - s)
//   tflite_add tflite_sub   each operand: (q - zero) * 2^20 (i16: 2^15) scaled by its scale /
//                           (2 max(a_scale, b_scale)); their sum scaled by
//                           2 max(..) / (2^20 y_scale); + y_zero. Operands broadcast
//   tflite_mul              (a - a_zero) * (b - b_zero), scaled by a_scale * b_scale / y_scale
//                           evaluated in f32; + y_zero
//   tflite_avg_pool         the sum over the taps inside, divided by their count, to nearest,
//   halves
//                           away from zero
//   tflite_mean             over n elements along axes: the sum of (x - x_zero), scaled by m'' and
//                           s - h, where m and s are those of x_scale / y_scale, h = min(floor(log2
//                           n), 32, 31 + s) and m'' = m * 2^h / n, cut; + y_zero
//   tflite_resize_bilinear  x [N,C,H,W] to the extents `sizes`. Along an axis of `in` elements made
//                           `out`: step = (1024 in + out/2) / out, or align_corners (out > 1)
//                           (1024 (in - 1) + (out - 1)/2) / (out - 1); element o lies at p = step
//                           o, or half_pixel step o + step/2 - 512, between l = p/1024, held to
//                           [0, in - 1] (where a step rounded up leads further, the reference
//                           reads beyond the end), and u = min((p + 1023)/1024, in - 1), u
//                           weighing p - 1024 l and l 1024 less that. The sum of the four products
//                           v is (v + (v > 0 ? 2^19 : -2^19)) / 2^20; all divisions cut. u8 is
//                           otherwise: in f32, step = in / out (or (in - 1) / (out - 1)), p = step
//                           o (or (o + 0.5) step - 0.5), l = floor p, held likewise, u = min(ceil
//                           p, in - 1), d = p - l, and y = trunc(x[l,l] (1 - dy) (1 - dx) + x[u,l]
//                           dy (1 - dx) + x[l,u] (1 - dy) dx + x[u,u] dy dx + 0.5), from the left
//   tflite_requantize       (x - x_zero) scaled by x_scale / y_scale, + y_zero, to output_dtype; x
//                           and y may be i32, too
//   tflite_quantize         round_half_away(x / y_scale) + y_zero; x f32, the quotient in f32
//   tflite_softmax          over the last axis: e = exp(beta * x_scale * (q - max)) in f32, summed
//   in
//                           f32 in sequence; y = trunc(e * (1 / (sum * y_scale)) + 0.5) + y_zero,
//                           to output_dtype. i16, to 2^-15: q - max scaled by beta * x_scale (in
//                           f32) * 6553.5, + 32767, held, through the table (tflite_table.h) of e^x
//                           from -10 to 0 on 2 / 65535 gives e; their sum, n bits below its highest
//                           one, rounded to 16 bits below it, held, through that of 1 / (1 + x)
//                           from 0 to 1 gives r; y = (e r + 2^(n - 1)) >> n, held to 0 .. 32767
//   tflite_logistic tflite_tanh   round_half_away(f(x_scale * (q - x_zero)) * (1 / y_scale)) +
//                           y_zero, in f32, by the correctly rounded function (8 bits: one of 256
//                           values). i16, to 2^-15: x on 1 / 12288 (a factor of 15 bits, which is
//                           cut; a scale within 0.1 % of 2^-12, for tanh of 2^-11, is that power)
//                           is the place in a table of sigmoid(i / 24), 512 integers apart (tanh:
//                           256, for it is 2 sigmoid(2x) - 1), and lines between; each value is
//                           raised by half of what the chord to the next lies below the curve in
//                           its middle, and is a multiple of 2^-16; from the 255th on it is 1
//   tflite_interpolate      x i16 through a table of 513 i16 (tflite_table.h), at 128 i - 32768,
//   and
//                           lines between: t + ((slope * rest + 64) >> 7)
//   tflite_batch_matmul     as matmul: the sum of (a - a_zero) * (b - b_zero), scaled by a_scale *
//                           b_scale (in f32) / y_scale; + y_zero
//   tflite_sum              over elements along axes: the sum of (x - x_zero), scaled by x_scale /
//                           y_scale; + y_zero. 8 bits
//   tflite_prod             over n elements along axes, in sequence: p = x - x_zero of the first,
//   then
//                           p (x - x_zero) scaled (i64) by x_scale / y_scale^(1/n), which is made
//                           of the correctly rounded f64 exponential and logarithm; p scaled once
//                           more,
//                           + y_zero. i8, i16
//   tflite_squared_difference  each operand: (q - zero) * 2^7 scaled as by tflite_add; the square
//   of
//                           their difference scaled by (2 max(..))^2 / (2^14 y_scale); + y_zero. i8
//   tflite_div              (a - a_zero) / (b - b_zero): the dividend moved to the top of 32 bits
//                           times the divisor's `reciprocal` (tflite_fixed_point.h), scaled by
//                           a_scale / (b_scale * y_scale in f32); + y_zero. 8 bits. A divisor of
//                           zero, where the reference is undefined, gives the end of its sign
//   tflite_l2_normalize     along the last axis: x - x_zero scaled by the `inverse_root` of the sum
//                           of squares, on a scale of 1/128; zero point 0, u8 128
//   tflite_log_softmax      along the last axis, on a scale of 1/16 with the type's highest value
//   as
//                           zero point: d = q - max scaled by x_scale * 2^26; the sum of
//                           `exp_of_negative` of those d that are above -31 in 2^-19 (held to
//                           2^12, where the reference overflows); y = (d - `logarithm`) / 2^22 to
//                           nearest, the lowest value where d leaves what 32 bits hold
// Types: x i8, u8 or i16; w i8 or u8; bias i32 or i64. A zero point is a number of its tensor's
// type. Discrete: the contract has no say. Sources: tensorflow/lite/kernels/internal/{common.h,
// quantization_util.cc, reference/...}.
#pragma once

#include <limits>

#include "engine/ops/conv.h"
#include "engine/ops/pool.h"
#include "engine/ops/reduce.h"

namespace etalon {

inline constexpr std::int64_t kActLowest = std::numeric_limits<std::int32_t>::min();
inline constexpr std::int64_t kActHighest = std::numeric_limits<std::int32_t>::max();

// Where y lies: scale, zero point, activation.
struct TfliteOutput {
  float y_scale = 1;
  std::int64_t y_zero = 0;
  std::int64_t act_min = kActLowest, act_max = kActHighest;
  template <class V>
  void visit(V& v) {
    v("y_scale", y_scale);
    v("y_zero", y_zero);
    v("act_min", act_min);
    v("act_max", act_max);
  }
};

struct TfliteConvParams : ConvParams, TfliteOutput {
  float x_scale = 1;
  std::vector<float> w_scales{1};  // one, or one for each output channel
  std::int64_t x_zero = 0, w_zero = 0;
  template <class V>
  void visit(V& v) {
    ConvParams::visit(v);
    visit_scales(v);
  }
  template <class V>
  void visit_scales(V& v) {
    v("x_scale", x_scale);
    v("x_zero", x_zero);
    v("w_scales", w_scales);
    v("w_zero", w_zero);
    TfliteOutput::visit(v);
  }
};

struct TfliteFullyConnectedParams : TfliteConvParams {
  template <class V>
  void visit(V& v) {
    visit_scales(v);
  }
};

struct TfliteBinaryParams : TfliteOutput {
  float a_scale = 1, b_scale = 1;
  std::int64_t a_zero = 0, b_zero = 0;
  template <class V>
  void visit(V& v) {
    v("a_scale", a_scale);
    v("a_zero", a_zero);
    v("b_scale", b_scale);
    v("b_zero", b_zero);
    TfliteOutput::visit(v);
  }
};

struct TfliteAvgPoolParams : PoolParams {
  std::int64_t act_min = kActLowest, act_max = kActHighest;
  template <class V>
  void visit(V& v) {
    PoolParams::visit(v);
    v("act_min", act_min);
    v("act_max", act_max);
  }
};

struct TfliteMeanParams : ReduceParams, TfliteOutput {
  float x_scale = 1;
  std::int64_t x_zero = 0;
  template <class V>
  void visit(V& v) {
    ReduceParams::visit(v);
    v("x_scale", x_scale);
    v("x_zero", x_zero);
    TfliteOutput::visit(v);
  }
};

struct TfliteResizeParams {
  Ints sizes;
  bool align_corners = false, half_pixel = false;
  template <class V>
  void visit(V& v) {
    v("sizes", sizes);
    v("align_corners", align_corners);
    v("half_pixel", half_pixel);
  }
};

struct TfliteUnaryParams : TfliteOutput {
  float x_scale = 1;
  std::int64_t x_zero = 0;
  float beta = 1;  // of tflite_softmax
  // Of tflite_quantize (i8 where empty), tflite_requantize and tflite_softmax (x's).
  std::string output_dtype;
  template <class V>
  void visit(V& v) {
    v("x_scale", x_scale);
    v("x_zero", x_zero);
    v("beta", beta);
    v("output_dtype", output_dtype);
    TfliteOutput::visit(v);
  }
};

std::span<const OpRow> tflite_ops();

}  // namespace etalon
