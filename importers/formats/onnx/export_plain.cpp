// Ops that ONNX has under another name, with the same meaning.
#include <cmath>
#include <limits>

#include "engine/core/error.h"
#include "engine/ops/selection.h"
#include "importers/formats/onnx/export.h"

namespace etalon::onnx_format {
namespace {

constexpr std::int64_t kToTheEnd = kMaxRank;

template <class T>
void copy(NodeWriter& w, pb::NodeProto& n, std::string_view from, std::string_view to = "") {
  if constexpr (std::is_same_v<T, bool>)
    set(n, to.empty() ? from : to, std::int64_t{w.flag(from)});
  else
    set(n, to.empty() ? from : to, w.param<T>(from));
}

void with_axis(NodeWriter& w, std::string_view type) {
  copy<std::int64_t>(w, w.write(type), "axis");
}
void with_alpha(NodeWriter& w, std::string_view type) { copy<float>(w, w.write(type), "alpha"); }

// x, or the end of an integer type that it lies beyond: what ONNX's Cast would make of it is
// undefined. Of i32 and i64 the greatest f32 below the upper end is taken.
float within(DType dtype, float x) {
  visit_dtype(dtype, [&](auto t) {
    using T = decltype(t);
    if constexpr (std::is_integral_v<T>) {
      const auto low = static_cast<float>(std::numeric_limits<T>::lowest());
      auto high = static_cast<float>(std::numeric_limits<T>::max());
      if (std::numeric_limits<T>::digits > 24) high = std::nextafter(high, 0.0F);
      x = x < low ? low : x > high ? high : x;
    }
  });
  return x;
}

void clip(NodeWriter& w) {
  std::vector<std::string> in{w.input(0), w.input(1), w.input(2)};
  const bool floating = is_floating(w.dtype());
  // ONNX's own bounds, where none is given, are the largest finite numbers: say infinity.
  constexpr std::string_view kBounds[] = {"min", "max"};
  for (std::size_t i = 0; i < 2; ++i)
    if (in[i + 1].empty() && (floating || std::isfinite(w.number(kBounds[i])))) {
      float bound = w.number(kBounds[i]);
      if (!floating) bound = within(w.dtype(), std::trunc(bound));
      in[i + 1] = w.number_constant(kBounds[i], bound);
    }
  w.write("Clip", in, w.outputs());
}

void hard_tanh(NodeWriter& w) {
  w.write("Clip",
          {w.input(0), w.number_constant("min", w.number("min")),
           w.number_constant("max", w.number("max"))},
          w.outputs());
}

void softplus(NodeWriter& w) {
  const float beta = w.number("beta");
  const bool ends = !std::isinf(w.number("threshold"));
  if (beta == 1.0F && !ends) {
    w.write("Softplus");
    return;
  }
  const std::string b = w.number_constant("beta", beta), x = w.step("Mul", {w.input(0), b});
  const std::vector<std::string> quotient{w.step("Softplus", {x}), b};
  if (!ends) {
    w.write("Div", quotient, w.outputs());
    return;
  }
  const std::string beyond =
      w.step("Greater", {x, w.number_constant("threshold", w.number("threshold"))});
  w.write("Where", {beyond, w.input(0), w.step("Div", quotient)}, w.outputs());
}

void silu(NodeWriter& w) {
  if (w.came_with(24)) {
    w.need_opset(24);
    set(w.write("Swish"), "alpha", w.number("alpha"));
    return;
  }
  std::string x = w.input(0);
  if (w.number("alpha") != 1.0F)
    x = w.step("Mul", {x, w.number_constant("alpha", w.number("alpha"))});
  w.write("Mul", {w.input(0), w.step("Sigmoid", {x})}, w.outputs());
}

void log_sigmoid(NodeWriter& w) {
  w.write("Neg", {w.step("Softplus", {w.step("Neg", {w.input(0)})})}, w.outputs());
}

void shrink(NodeWriter& w, float bias) {
  pb::NodeProto& n = w.write("Shrink");
  set(n, "lambd", w.number("lambd"));
  set(n, "bias", bias);
}

// [flatten] joins the axes from `axis` on, which ONNX does since opset 13 by a flattened view.
void softmax(NodeWriter& w, std::string_view type) {
  if (!w.flag("flatten")) return with_axis(w, type);
  const std::string shape = w.step("Shape", {w.input(0)});
  const std::string flat = w.step("Flatten", {w.input(0)}, "axis", w.integer("axis"));
  w.write("Reshape", {w.step(type, {flat}, "axis", 1), shape}, w.outputs());
}

// Input 1 as given, or the parameter; an empty one is a list too: that of a scalar.
std::string list(NodeWriter& w, std::string_view field) {
  return w.has(1) ? w.input_or(1, field) : w.constant(field, w.integers(field));
}

void reshape(NodeWriter& w) {
  copy<bool>(w, w.write("Reshape", {w.input(0), list(w, "shape")}, w.outputs()), "allowzero");
}

void axes_op(NodeWriter& w, std::string_view type) {
  w.write(type, {w.input(0), w.input_or(1, "axes")}, w.outputs());
}

void split(NodeWriter& w) {
  const std::string sizes = w.input_or(1, "split");
  pb::NodeProto& n = w.write("Split", {w.input(0), sizes}, w.outputs());
  copy<std::int64_t>(w, n, "axis");
  if (sizes.empty()) copy<std::int64_t>(w, n, "num_outputs");
}

void slice(NodeWriter& w) {
  w.write("Slice",
          {w.input(0), w.input_or(1, "starts"), w.input_or(2, "ends"), w.input_or(3, "axes"),
           w.input_or(4, "steps")},
          w.outputs());
}

void pad(NodeWriter& w) {
  std::string value = w.input(2);
  if (value.empty() && w.text("mode") == "constant" && w.number("value") != 0)
    value = w.number_constant("value", w.number("value"));
  pb::NodeProto& n = w.write(
      "Pad", {w.input(0), w.input_or(1, "pads"), value, w.input_or(3, "axes")}, w.outputs());
  copy<std::string>(w, n, "mode");
}

void trilu(NodeWriter& w) {
  std::string k = w.input(1);
  if (k.empty() && w.integer("k") != 0)
    k = w.constant("k", Tensor::of<std::int64_t>({}, {w.integer("k")}));
  copy<bool>(w, w.write("Trilu", {w.input(0), k}, w.outputs()), "upper");
}

void reduce(NodeWriter& w, std::string_view type) {
  pb::NodeProto& n = w.write(type, {w.input(0), w.input_or(1, "axes")}, w.outputs());
  copy<bool>(w, n, "keepdims");
  copy<bool>(w, n, "noop_with_empty_axes");
}

void shape(NodeWriter& w) {
  pb::NodeProto& n = w.write("Shape");
  copy<std::int64_t>(w, n, "start");
  if (w.integer("end") < kToTheEnd) copy<std::int64_t>(w, n, "end");
}

// Lengths and places that ONNX knows as i64 alone.
std::string wide(NodeWriter& w, std::size_t i) {
  if (w.dtype(i) == DType::i64) return w.input(i);
  return w.step("Cast", {w.input(i)}, "to", onnx_of_dtype(DType::i64));
}

void constant_of_shape(NodeWriter& w) {
  // The value is an attribute there, so one that is an input here is stretched instead.
  if (!w.has(1)) {
    w.write("ConstantOfShape", {wide(w, 0)}, w.outputs());
    return;
  }
  w.write("Expand", {w.input(1), wide(w, 0)}, w.outputs());
}

void eye_like(NodeWriter& w) {
  pb::NodeProto& n = w.write("EyeLike");
  copy<std::int64_t>(w, n, "k");
  if (!w.text("dtype").empty()) set(n, "dtype", w.dtype_of("dtype"));
}

// Only the first two axes can be batch and time there; others are moved there and back.
void reverse_sequence(NodeWriter& w) {
  const std::int64_t batch = w.integer("batch_axis"), time = w.integer("time_axis");
  const bool moved = batch > 1 || time > 1;
  Ints there, back;
  std::string x = w.input(0), y = w.output(0);
  if (moved) {
    there = {time, batch};
    for (std::int64_t a = 0; a < static_cast<std::int64_t>(w.extents(0).size()); ++a)
      if (a != time && a != batch) there.push_back(a);
    back.resize(there.size());
    for (std::size_t i = 0; i < there.size(); ++i)
      back[static_cast<std::size_t>(there[i])] = static_cast<std::int64_t>(i);
    x = w.new_name("moved");
    y = w.new_name("reversed");
    set(w.write("Transpose", {w.input(0)}, {x}), "perm", there);
  }
  pb::NodeProto& n = w.write("ReverseSequence", {x, wide(w, 1)}, {y});
  set(n, "batch_axis", moved ? std::int64_t{1} : batch);
  set(n, "time_axis", moved ? std::int64_t{0} : time);
  if (moved) set(w.write("Transpose", {y}, w.outputs()), "perm", back);
}

// Near 0, where exp(x) - 1 and log(1 + x) would lose all digits, by tanh and atanh: with t =
// tanh(x/2) it is 2 t / (1 - t), and log1p(x) = 2 atanh(x / (2 + x)).
void near_zero(NodeWriter& w, bool is_exp) {
  const std::string x = w.input(0), one = w.number_constant("one", 1),
                    two = w.number_constant("two", 2);
  const std::string near = w.step("Less", {w.step("Abs", {x}), w.number_constant("near", 0.5F)});
  std::string inner, outer;
  if (is_exp) {
    const std::string t = w.step("Tanh", {w.step("Div", {x, two})});
    inner = w.step("Div", {w.step("Mul", {two, t}), w.step("Sub", {one, t})});
    outer = w.step("Sub", {w.step("Exp", {x}), one});
  } else {
    const std::string t = w.step("Div", {x, w.step("Add", {two, x})});
    inner = w.step("Mul", {two, w.step("Atanh", {t})});
    outer = w.step("Log", {w.step("Add", {one, x})});
  }
  // Below 2^-25 it is x itself, whose last bits a quotient would lose.
  const std::string tiny =
      w.step("Less", {w.step("Abs", {x}), w.number_constant("tiny", 0x1p-25F)});
  w.write("Where", {tiny, x, w.step("Where", {near, inner, outer})}, w.outputs());
}

void is_inf(NodeWriter& w) {
  pb::NodeProto& n = w.write("IsInf");
  copy<bool>(w, n, "detect_negative");
  copy<bool>(w, n, "detect_positive");
}

void transpose(NodeWriter& w) {
  pb::NodeProto& n = w.write("Transpose");
  if (!w.integers("perm").empty()) copy<Ints>(w, n, "perm");
}

void cast(NodeWriter& w) { set(w.write("Cast"), "to", w.dtype_of("to")); }

void cumulative(NodeWriter& w, std::string_view type) {
  const std::string axis =
      w.has(1) ? w.input(1) : w.constant("axis", Tensor::of<std::int64_t>({}, {w.integer("axis")}));
  pb::NodeProto& n = w.write(type, {w.input(0), axis}, w.outputs());
  copy<bool>(w, n, "exclusive");
  copy<bool>(w, n, "reverse");
}

void bit_cast(NodeWriter& w) {
  set(w.write("BitCast"), "to", w.dtype_of("to"));
  w.need_opset(26);
}

void arg(NodeWriter& w, std::string_view type) {
  pb::NodeProto& n = w.write(type);
  copy<std::int64_t>(w, n, "axis");
  copy<bool>(w, n, "keepdims");
  copy<bool>(w, n, "select_last_index");
}

void top_k(NodeWriter& w) {
  const std::string k = w.has(1) ? w.input(1) : w.constant("k", Ints{w.integer("k")});
  pb::NodeProto& n = w.write("TopK", {w.input(0), k}, w.outputs());
  copy<std::int64_t>(w, n, "axis");
  copy<bool>(w, n, "largest");
  copy<bool>(w, n, "sorted");
}

void non_max_suppression(NodeWriter& w) {
  copy<bool>(w, w.write("NonMaxSuppression"), "center_point_box");
}

void unique(NodeWriter& w) {
  // ONNX Runtime has no Unique of i32.
  const bool narrow = w.dtype() == DType::i32;
  std::vector<std::string> out = w.outputs();
  const std::string values = out[0];
  if (narrow) out[0] = w.new_name("values");
  pb::NodeProto& n = w.write("Unique", {narrow ? wide(w, 0) : w.input(0)}, out);
  copy<bool>(w, n, "sorted");
  if (w.integer("axis") != UniqueParams::kFlat) copy<std::int64_t>(w, n, "axis");
  if (narrow)
    set(w.write("Cast", {out[0]}, {values}), "to", std::int64_t{onnx_of_dtype(DType::i32)});
}

// ONNX shifts unsigned numbers alone. To the right the sign moves in: below zero the complement is
// shifted, and its complement taken.
void bit_shift(NodeWriter& w) {
  const DType dtype = w.dtype();
  const DType of = dtype == DType::i8    ? DType::u8
                   : dtype == DType::i16 ? DType::u16
                   : dtype == DType::i32 ? DType::u32
                   : dtype == DType::i64 ? DType::u64
                                         : dtype;
  if (of == dtype) {
    copy<std::string>(w, w.write("BitShift"), "direction");
    return;
  }
  const auto cast_to = [&](const std::string& v, DType to) {
    return w.step("Cast", {v}, "to", onnx_of_dtype(to));
  };
  const bool right = w.text("direction") == "RIGHT";
  std::string x = w.input(0), below;
  if (right) {
    below = w.step("Less", {x, w.number_constant("zero", 0)});
    x = w.step("Where", {below, w.step("BitwiseNot", {x}), x});
  }
  const std::string shifted = w.new_name("shifted");
  copy<std::string>(w, w.write("BitShift", {cast_to(x, of), cast_to(w.input(1), of)}, {shifted}),
                    "direction");
  if (!right) {
    set(w.write("Cast", {shifted}, w.outputs()), "to", std::int64_t{onnx_of_dtype(dtype)});
    return;
  }
  const std::string back = cast_to(shifted, dtype);
  w.write("Where", {below, w.step("BitwiseNot", {back}), back}, w.outputs());
}

constexpr WriterRow kRows[] = {
    {"relu", [](NodeWriter& w) { w.write("Relu"); }},
    {"abs", [](NodeWriter& w) { w.write("Abs"); }},
    {"neg", [](NodeWriter& w) { w.write("Neg"); }},
    {"sign", [](NodeWriter& w) { w.write("Sign"); }},
    {"floor", [](NodeWriter& w) { w.write("Floor"); }},
    {"ceil", [](NodeWriter& w) { w.write("Ceil"); }},
    {"round", [](NodeWriter& w) { w.write("Round"); }},
    {"exp", [](NodeWriter& w) { w.write("Exp"); }},
    {"log", [](NodeWriter& w) { w.write("Log"); }},
    {"log1p", [](NodeWriter& w) { near_zero(w, false); }},
    {"expm1", [](NodeWriter& w) { near_zero(w, true); }},
    {"sqrt", [](NodeWriter& w) { w.write("Sqrt"); }},
    {"reciprocal", [](NodeWriter& w) { w.write("Reciprocal"); }},
    {"rsqrt",
     [](NodeWriter& w) { w.write("Reciprocal", {w.step("Sqrt", {w.input(0)})}, w.outputs()); }},
    {"sin", [](NodeWriter& w) { w.write("Sin"); }},
    {"cos", [](NodeWriter& w) { w.write("Cos"); }},
    {"tan", [](NodeWriter& w) { w.write("Tan"); }},
    {"asin", [](NodeWriter& w) { w.write("Asin"); }},
    {"acos", [](NodeWriter& w) { w.write("Acos"); }},
    {"atan", [](NodeWriter& w) { w.write("Atan"); }},
    {"sinh", [](NodeWriter& w) { w.write("Sinh"); }},
    {"cosh", [](NodeWriter& w) { w.write("Cosh"); }},
    {"tanh", [](NodeWriter& w) { w.write("Tanh"); }},
    {"asinh", [](NodeWriter& w) { w.write("Asinh"); }},
    {"acosh", [](NodeWriter& w) { w.write("Acosh"); }},
    {"atanh", [](NodeWriter& w) { w.write("Atanh"); }},
    {"erf", [](NodeWriter& w) { w.write("Erf"); }},
    {"sigmoid", [](NodeWriter& w) { w.write("Sigmoid"); }},
    {"log_sigmoid", log_sigmoid},
    {"softsign", [](NodeWriter& w) { w.write("Softsign"); }},
    {"softplus", softplus},
    {"mish", [](NodeWriter& w) { w.write("Mish"); }},
    {"hard_swish", [](NodeWriter& w) { w.write("HardSwish"); }},
    {"silu", silu},
    {"leaky_relu", [](NodeWriter& w) { with_alpha(w, "LeakyRelu"); }},
    {"prelu", [](NodeWriter& w) { w.write("PRelu"); }},
    {"thresholded_relu", [](NodeWriter& w) { with_alpha(w, "ThresholdedRelu"); }},
    {"elu", [](NodeWriter& w) { with_alpha(w, "Elu"); }},
    {"celu", [](NodeWriter& w) { with_alpha(w, "Celu"); }},
    {"selu",
     [](NodeWriter& w) {
       pb::NodeProto& n = w.write("Selu");
       copy<float>(w, n, "alpha");
       copy<float>(w, n, "gamma");
     }},
    {"hard_sigmoid",
     [](NodeWriter& w) {
       pb::NodeProto& n = w.write("HardSigmoid");
       copy<float>(w, n, "alpha");
       copy<float>(w, n, "beta");
     }},
    {"hard_tanh", hard_tanh},
    {"softshrink", [](NodeWriter& w) { shrink(w, w.number("lambd")); }},
    {"shrink", [](NodeWriter& w) { shrink(w, w.number("bias")); }},
    {"gelu", [](NodeWriter& w) { copy<std::string>(w, w.write("Gelu"), "approximate"); }},
    {"softmax", [](NodeWriter& w) { softmax(w, "Softmax"); }},
    {"log_softmax", [](NodeWriter& w) { softmax(w, "LogSoftmax"); }},
    {"hardmax", [](NodeWriter& w) { softmax(w, "Hardmax"); }},
    {"add", [](NodeWriter& w) { w.write("Add"); }},
    {"sub", [](NodeWriter& w) { w.write("Sub"); }},
    {"mul", [](NodeWriter& w) { w.write("Mul"); }},
    {"div", [](NodeWriter& w) { w.write("Div"); }},
    {"pow", [](NodeWriter& w) { w.write("Pow"); }},
    {"mod", [](NodeWriter& w) { copy<bool>(w, w.write("Mod"), "fmod"); }},
    {"max", [](NodeWriter& w) { w.write("Max"); }},
    {"min", [](NodeWriter& w) { w.write("Min"); }},
    {"sum", [](NodeWriter& w) { w.write("Sum"); }},
    {"mean", [](NodeWriter& w) { w.write("Mean"); }},
    {"clip", clip},
    {"equal", [](NodeWriter& w) { w.write("Equal"); }},
    {"less", [](NodeWriter& w) { w.write("Less"); }},
    {"greater", [](NodeWriter& w) { w.write("Greater"); }},
    {"less_or_equal", [](NodeWriter& w) { w.write("LessOrEqual"); }},
    {"greater_or_equal", [](NodeWriter& w) { w.write("GreaterOrEqual"); }},
    {"is_nan", [](NodeWriter& w) { w.write("IsNaN"); }},
    {"is_inf", is_inf},
    {"and", [](NodeWriter& w) { w.write("And"); }},
    {"or", [](NodeWriter& w) { w.write("Or"); }},
    {"xor", [](NodeWriter& w) { w.write("Xor"); }},
    {"not", [](NodeWriter& w) { w.write("Not"); }},
    {"bitwise_and", [](NodeWriter& w) { w.write("BitwiseAnd"); }},
    {"bitwise_or", [](NodeWriter& w) { w.write("BitwiseOr"); }},
    {"bitwise_xor", [](NodeWriter& w) { w.write("BitwiseXor"); }},
    {"bitwise_not", [](NodeWriter& w) { w.write("BitwiseNot"); }},
    {"bit_shift", bit_shift},
    {"where", [](NodeWriter& w) { w.write("Where"); }},
    {"cast", cast},
    {"cast_like", [](NodeWriter& w) { w.write("CastLike"); }},
    {"bit_cast", bit_cast},
    {"identity", [](NodeWriter& w) { w.write("Identity"); }},
    {"reshape", reshape},
    {"flatten", [](NodeWriter& w) { with_axis(w, "Flatten"); }},
    {"squeeze", [](NodeWriter& w) { axes_op(w, "Squeeze"); }},
    {"unsqueeze", [](NodeWriter& w) { axes_op(w, "Unsqueeze"); }},
    {"transpose", transpose},
    {"expand",
     [](NodeWriter& w) { w.write("Expand", {w.input(0), list(w, "shape")}, w.outputs()); }},
    {"tile", [](NodeWriter& w) { w.write("Tile", {w.input(0), list(w, "repeats")}, w.outputs()); }},
    {"concat", [](NodeWriter& w) { with_axis(w, "Concat"); }},
    {"split", split},
    {"slice", slice},
    {"pad", pad},
    {"depth_to_space",
     [](NodeWriter& w) {
       pb::NodeProto& n = w.write("DepthToSpace");
       copy<std::int64_t>(w, n, "blocksize");
       copy<std::string>(w, n, "mode");
     }},
    {"space_to_depth",
     [](NodeWriter& w) {
       pb::NodeProto& n = w.write("SpaceToDepth");
       copy<std::int64_t>(w, n, "blocksize");
       if (w.text("mode") == "DCR") return;
       copy<std::string>(w, n, "mode");
       w.need_opset(28);
     }},
    {"reverse_sequence", reverse_sequence},
    {"trilu", trilu},
    {"gather", [](NodeWriter& w) { with_axis(w, "Gather"); }},
    {"gather_elements", [](NodeWriter& w) { with_axis(w, "GatherElements"); }},
    {"gather_nd",
     [](NodeWriter& w) {
       copy<std::int64_t>(w, w.write("GatherND", {w.input(0), wide(w, 1)}, w.outputs()),
                          "batch_dims");
     }},
    {"scatter_elements",
     [](NodeWriter& w) {
       pb::NodeProto& n = w.write("ScatterElements");
       copy<std::int64_t>(w, n, "axis");
       copy<std::string>(w, n, "reduction");
     }},
    {"scatter_nd",
     [](NodeWriter& w) {
       copy<std::string>(w, w.write("ScatterND", {w.input(0), wide(w, 1), w.input(2)}, w.outputs()),
                         "reduction");
     }},
    {"one_hot", [](NodeWriter& w) { with_axis(w, "OneHot"); }},
    {"shape", shape},
    {"size", [](NodeWriter& w) { w.write("Size"); }},
    {"range", [](NodeWriter& w) { w.write("Range"); }},
    {"constant_of_shape", constant_of_shape},
    {"eye_like", eye_like},
    {"non_max_suppression", non_max_suppression},
    {"unique", unique},
    {"non_zero", [](NodeWriter& w) { w.write("NonZero"); }},
    {"reduce_sum", [](NodeWriter& w) { reduce(w, "ReduceSum"); }},
    {"reduce_mean", [](NodeWriter& w) { reduce(w, "ReduceMean"); }},
    {"reduce_l1", [](NodeWriter& w) { reduce(w, "ReduceL1"); }},
    {"reduce_l2", [](NodeWriter& w) { reduce(w, "ReduceL2"); }},
    {"reduce_sum_square", [](NodeWriter& w) { reduce(w, "ReduceSumSquare"); }},
    {"reduce_prod", [](NodeWriter& w) { reduce(w, "ReduceProd"); }},
    {"reduce_log_sum", [](NodeWriter& w) { reduce(w, "ReduceLogSum"); }},
    {"reduce_log_sum_exp", [](NodeWriter& w) { reduce(w, "ReduceLogSumExp"); }},
    {"reduce_max", [](NodeWriter& w) { reduce(w, "ReduceMax"); }},
    {"reduce_min", [](NodeWriter& w) { reduce(w, "ReduceMin"); }},
    {"arg_max", [](NodeWriter& w) { arg(w, "ArgMax"); }},
    {"arg_min", [](NodeWriter& w) { arg(w, "ArgMin"); }},
    {"top_k", top_k},
    {"cum_sum", [](NodeWriter& w) { cumulative(w, "CumSum"); }},
    {"cum_prod",
     [](NodeWriter& w) {
       cumulative(w, "CumProd");
       w.need_opset(26);
     }},
};

}  // namespace

std::span<const WriterRow> plain_writers() { return kRows; }

}  // namespace etalon::onnx_format
