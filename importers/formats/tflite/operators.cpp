#include "importers/formats/tflite/operators.h"

#include <cmath>

#include "engine/core/error.h"
#include "importers/formats/scalar.h"
#include "importers/formats/translate.h"

namespace etalon::tflite {
namespace {

// Its TensorFlow name, with the attributes already set.
ValueId as(const Operator& o, std::string op) {
  o.n.op = std::move(op);
  return o.ops.translate(o.n)[0];
}

ValueId conv_3d(const Operator& o, bool transposed) {
  const FlatTable& f = o.op.options;
  o.n.attributes["padding"] = std::string(f.get<std::int8_t>(0, 0) == 0 ? "SAME" : "VALID");
  o.n.attributes["strides"] =
      Ints{1, f.get<std::int32_t>(1, 1), f.get<std::int32_t>(3, 1), f.get<std::int32_t>(2, 1), 1};
  o.n.attributes["dilations"] =
      Ints{1, f.get<std::int32_t>(5, 1), f.get<std::int32_t>(7, 1), f.get<std::int32_t>(6, 1), 1};
  const std::size_t bias = transposed ? 3 : 2;
  const ValueId b = bias < o.n.inputs.size() ? o.n.inputs[bias] : kAbsent;
  o.n.inputs.resize(bias);
  const ValueId y = as(o, transposed ? "Conv3DBackpropInputV2" : "Conv3D");
  return b == kAbsent ? y : o.g.elementwise("add", o.n.name + "/bias", {y, b});
}

// The root of the mean of the squares that lie inside.
ValueId l2_pool(const Operator& o) {
  const FlatTable& f = o.op.options;
  o.n.attributes["padding"] = std::string(f.get<std::int8_t>(0, 0) == 0 ? "SAME" : "VALID");
  o.n.attributes["strides"] = Ints{1, f.get<std::int32_t>(2, 1), f.get<std::int32_t>(1, 1), 1};
  o.n.attributes["ksize"] = Ints{1, f.get<std::int32_t>(4, 1), f.get<std::int32_t>(3, 1), 1};
  const ValueId x = o.n.in(0);
  o.n.inputs = {o.g.elementwise("mul", o.n.name + "/square", {x, x})};
  return o.g.elementwise("sqrt", o.n.name + "/root", {as(o, "AvgPool")});
}

// To the nearest of 2^bits steps between min and max, which are first moved so that 0 is a step.
ValueId fake_quant(const Operator& o) {
  const FlatTable& f = o.op.options;
  const auto low = f.get<float>(0, 0), high = f.get<float>(1, 0);
  const int bits = f.get<std::int32_t>(2, 0);
  if (bits < 2 || bits > 16 || !(low < high) || !std::isfinite(high - low))
    throw bad_input("FAKE_QUANT of {} bits from {} to {} is not supported", bits, low, high);
  const float first = f.get<std::uint8_t>(3, 0) != 0 ? 1.0F : 0.0F,
              last = static_cast<float>((1 << bits) - 1);
  const float step = (high - low) / (last - first), zero = first - low / step;
  const float nudged = zero < first ? first : zero > last ? last : std::round(zero);
  const float from = (first - nudged) * step, to = (last - nudged) * step;
  GraphBuilder& g = o.g;
  const auto number = [&](float v) { return g.constant(o.n.name + "/number", scalar_f32(v)); };
  const auto apply = [&](std::string_view op, const std::vector<ValueId>& in,
                         const Fields& fields = {}) {
    return g.elementwise(op, o.n.name + "/" + std::string(op), in, fields);
  };
  // What is rounded is not below zero: floor(v + 0.5) sends halves up.
  ValueId v = apply("clip", {o.n.in(0)}, {{"min", from}, {"max", to}});
  v = apply("mul", {apply("sub", {v, number(from)}), number(1.0F / step)});
  v = apply("floor", {apply("add", {v, number(0.5F)})});
  return apply("add", {apply("mul", {v, number(step)}), number(from)});
}

ValueId scatter_nd(const Operator& o) {
  const Tensor* shape = o.g.constant_of(o.n.in(2));
  if (shape == nullptr)
    throw bad_input("SCATTER_ND into extents that are not constant is not supported");
  const TensorType type{o.g.dtype(o.n.in(1)), Shape(to_int64_values(*shape))};
  const ValueId zero = o.g.constant(o.n.name + "/zero", scalar_of(type.dtype, 0));
  const ValueId zeros =
      o.g.op("expand", o.n.name + "/zeros", {zero}, {{"shape", to_int64_values(*shape)}});
  return o.g.op("scatter_nd", o.n.name, {zeros, o.n.in(0), o.n.in(1)},
                {{"reduction", std::string("add")}});
}

// A vector onto the diagonal of a square: the eye chooses between it and zeros.
ValueId matrix_diag(const Operator& o) {
  const ValueId x = o.n.in(0);
  const std::int64_t n = o.g.dims(x).empty() ? -1 : o.g.dims(x).back();
  if (n < 1 || n > 4096) throw bad_input("MATRIX_DIAG of {} elements is not supported", n);
  Tensor eye = Tensor::zeros(DType::boolean, {n, n});
  for (std::int64_t i = 0; i < n; ++i)
    eye.mutable_bytes()[static_cast<std::size_t>(i * (n + 1))] = std::byte{1};
  const ValueId rows = o.g.op("unsqueeze", o.n.name + "/rows", {x}, {{"axes", Ints{-1}}});
  const ValueId zero = o.g.constant(o.n.name + "/zero", scalar_of(o.g.dtype(x), 0));
  return o.g.op("where", o.n.name, {o.g.constant(o.n.name + "/eye", std::move(eye)), rows, zero});
}

ValueId broadcast_args(const Operator& o) {
  const Tensor *a = o.g.constant_of(o.n.in(0)), *b = o.g.constant_of(o.n.in(1));
  if (a == nullptr || b == nullptr)
    throw bad_input("BROADCAST_ARGS of extents that are not constant is not supported");
  const Shape both = broadcast(Shape(to_int64_values(*a)), Shape(to_int64_values(*b)));
  Tensor out = Tensor::uninitialized(a->dtype(), {both.rank()});
  for (int i = 0; i < both.rank(); ++i)
    store_from_double(out.dtype(), out.mutable_bytes().data(), i, static_cast<double>(both[i]));
  return o.g.constant(o.n.name, std::move(out));
}

}  // namespace

std::optional<ValueId> translate_own(const Operator& o) {
  const std::string_view type = operator_name(o.op.code);
  const FlatTable& f = o.op.options;
  tf::OpNode& n = o.n;
  if (type == "CONV_3D" || type == "CONV_3D_TRANSPOSE") return conv_3d(o, type != "CONV_3D");
  if (type == "L2_POOL_2D") return l2_pool(o);
  if (type == "RELU_0_TO_1")
    return o.g.elementwise("clip", n.name, {n.in(0)}, {{"min", 0.0F}, {"max", 1.0F}});
  if (type == "FAKE_QUANT") return fake_quant(o);
  if (type == "CUMSUM") {
    n.attributes["exclusive"] = std::int64_t{f.get<std::uint8_t>(0, 0)};
    n.attributes["reverse"] = std::int64_t{f.get<std::uint8_t>(1, 0)};
    return as(o, "Cumsum");
  }
  if (type == "REDUCE_ANY" || type == "REDUCE_ALL") {
    n.attributes["keep_dims"] = std::int64_t{f.get<std::uint8_t>(0, 0)};
    return as(o, type == "REDUCE_ANY" ? "Any" : "All");
  }
  if (type == "REVERSE_SEQUENCE")
    return o.g.op("reverse_sequence", n.name, {n.in(0), n.in(1)},
                  {{"time_axis", std::int64_t{f.get<std::int32_t>(0, 0)}},
                   {"batch_axis", std::int64_t{f.get<std::int32_t>(1, 0)}}});
  if (type == "EMBEDDING_LOOKUP")
    return o.g.op("gather", n.name, {n.in(1), n.in(0)}, {{"axis", std::int64_t{0}}});
  if (type == "WHERE") {
    const ValueId found = o.g.op("non_zero", n.name + "/coordinates", {n.in(0)});
    return o.g.op("transpose", n.name, {found}, {{"perm", Ints{1, 0}}});
  }
  if (type == "BUCKETIZE") {
    n.attributes["boundaries"] = f.list<float>(0);
    return as(o, "Bucketize");
  }
  if (type == "SCATTER_ND") return scatter_nd(o);
  if (type == "MATRIX_DIAG") return matrix_diag(o);
  if (type == "BROADCAST_ARGS") return broadcast_args(o);
  return std::nullopt;
}

}  // namespace etalon::tflite
