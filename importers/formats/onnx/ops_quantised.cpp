// The integer operators of ONNX Runtime's domain, by the formulas of its kernels for x86 with AVX2;
// other processors' kernels may round elsewhere.
//
//   QLinearAdd      round(fma(a, sa/sy, fma(b, sb/sy, zy - fma(sa/sy, za, sb/sy * zb)))), one f32
//                   matmul of [1, b, a] with three constants
//   QLinearMul      round((a - za) (b - zb) * (sa sb / sy) + zy)
//   tables          Sigmoid, LeakyRelu, Concat, Where: dequantised, the function in f32, quantised
//   QLinearSoftmax  a table of 256 exponentials, which the largest code of a row shifts to its end
//   pools           average: f32 over dequantised values, then round(y / sy + zy); global: the i32
//                   sum times sx / (sy * count)
//   QGemm, MatMulIntegerToFloat, DynamicQuantizeMatMul   the i32 sum, scaled in f32
//   MatMulNBits     weights dequantised block by block, then a matmul
#include <cmath>
#include <limits>

#include "engine/core/error.h"
#include "engine/numerics/element.h"
#include "engine/numerics/function.h"
#include "importers/formats/onnx/integers.h"
#include "importers/formats/scalar.h"

namespace etalon::onnx_format {
namespace {

DType code_type(OnnxNode& n, std::size_t x, std::size_t zero) {
  const auto type = n.has(zero) && n.dtype_of(zero) ? n.dtype_of(zero) : n.dtype_of(x);
  if (!type)
    throw bad_input("the element type of its input {} is not in the file; run onnx.shape_inference",
                    x);
  if (*type != DType::u8 && *type != DType::i8)
    throw bad_input("{} of {}; u8 and i8 are defined", n.type(), name(*type));
  return *type;
}

ValueId typed_zero(Body& b, DType type) { return b.n.constant_value("zero", scalar_of(type, 0)); }

// Scales and zero points are one number each; a file may hold it with any count of axes of 1.
ValueId one(Body& b, std::size_t i) { return b.reshape(b.n.required(i), {}); }

ValueId dequantised(Body& b, std::size_t x, std::size_t scale, std::size_t zero) {
  std::vector<ValueId> in{b.n.required(x), one(b, scale)};
  if (b.n.has(zero)) in.push_back(one(b, zero));
  return b.op("dequantize_linear", in);
}

// The node itself or a step before it.
ValueId quantised(Body& b, ValueId real, std::size_t scale, std::size_t zero, DType type) {
  return b.op("quantize_linear",
              {real, one(b, scale), b.n.has(zero) ? one(b, zero) : typed_zero(b, type)});
}

// round(real), held at the ends of the type.
ValueId rounded(Body& b, ValueId real, DType type) {
  return b.op("quantize_linear", {real, b.number(1.0F), typed_zero(b, type)});
}

float constant_code(OnnxNode& n, std::size_t i) {
  if (!n.has(i)) return 0;
  const Tensor* t = n.constant(i);
  if (t == nullptr || t->numel() != 1)
    throw bad_input("its zero point {} must be one constant; fold the constants of the file", i);
  return static_cast<float>(load_as_double(*t, 0));
}

// A pair of operands in f32 as one row each, and the shape that they broadcast to.
struct Rows {
  ValueId a, b, shape;
};
Rows as_rows(Body& s, std::size_t first, std::size_t second) {
  ValueId a = s.cast(s.n.required(first), DType::f32), b = s.cast(s.n.required(second), DType::f32);
  const auto ta = s.n.type_of(first), tb = s.n.type_of(second);
  if (!ta || !tb || ta->shape != tb->shape) {
    const ValueId none = s.number(0.0F);
    const ValueId wide = s.add(a, s.mul(b, none));
    b = s.add(b, s.mul(a, none));
    a = wide;
  }
  ValueId shape;
  if (ta && tb) {
    const Shape common = broadcast(ta->shape, tb->shape);
    const auto dims = common.dims();
    shape = s.ints(Ints(dims.begin(), dims.end()));
  } else {
    shape = s.shape(a);
  }
  return {s.reshape(a, {1, -1}), s.reshape(b, {1, -1}), shape};
}

void qlinear_add(OnnxNode& n) {
  Body b(n);
  const DType type = code_type(n, 0, 2);
  const float sy = n.constant_number(6, "scale"), ra = n.constant_number(1, "scale") / sy,
              rb = n.constant_number(4, "scale") / sy;
  const float fixed =
      constant_code(n, 7) - std::fma(ra, constant_code(n, 2), rb * constant_code(n, 5));
  const Rows rows = as_rows(b, 0, 3);
  const ValueId ones =
      b.op("constant_of_shape",
           {b.shape(rows.a), n.constant_value("one", Tensor::of<float>({1}, {1.0F}))});
  const ValueId factors = n.constant_value("factors", Tensor::of<float>({1, 3}, {fixed, rb, ra}));
  const ValueId real = b.op("matmul", {factors, b.concat({ones, rows.b, rows.a}, 0)});
  n.emit("reshape", {}, {rounded(b, real, type), rows.shape}, {n.output(0)});
  n.note("QLinearAdd is imported as a matmul with its two ratios of scales, in f32");
}

void qlinear_mul(OnnxNode& n) {
  Body b(n);
  const DType type = code_type(n, 0, 2);
  const float ratio =
      n.constant_number(1, "scale") * n.constant_number(4, "scale") / n.constant_number(6, "scale");
  const ValueId product = b.mul(difference(b, 0, 2, false), difference(b, 3, 5, false));
  const ValueId real =
      b.add(b.mul(b.cast(product, DType::f32), b.number(ratio)), b.number(constant_code(n, 7)));
  n.give(0, rounded(b, real, type));
  n.note("QLinearMul is imported as a product of i32 differences, scaled in f32");
}

void through_f32(OnnxNode& n) {
  n.note(
      fmt::format("{} is imported as its function in f32 between dequantize_linear and "
                  "quantize_linear",
                  n.type()));
}

void qlinear_function(OnnxNode& n, std::string_view op, const Fields& fields) {
  Body b(n);
  const DType type = code_type(n, 0, 2);
  n.give(0, quantised(b, b.op(op, {dequantised(b, 0, 1, 2)}, fields), 3, 4, type));
  through_f32(n);
}

void qlinear_concat(OnnxNode& n) {
  Body b(n);
  if (n.input_count() < 5 || n.input_count() % 3 != 2)
    throw bad_input("{} inputs; a scale, a zero point, and three for each operand are expected",
                    n.input_count());
  const DType type = code_type(n, 2, 1);
  if (!n.has_attribute("axis")) throw bad_input("attribute axis is missing");
  std::vector<ValueId> parts;
  for (std::size_t i = 2; i < n.input_count(); i += 3)
    parts.push_back(quantised(b, dequantised(b, i, i + 1, i + 2), 0, 1, type));
  n.emit("concat", {{"axis", n.integer("axis", 0)}}, parts, {n.output(0)});
  through_f32(n);
}

void qlinear_where(OnnxNode& n) {
  Body b(n);
  const DType type = code_type(n, 1, 3);
  const ValueId x = quantised(b, dequantised(b, 1, 2, 3), 7, 8, type),
                y = quantised(b, dequantised(b, 4, 5, 6), 7, 8, type);
  n.emit("where", {}, {n.required(0), x, y}, {n.output(0)});
  through_f32(n);
}

// A number of f64 as the f32 next to it, and what is left.
std::pair<float, float> halved(double v) {
  const auto high = static_cast<float>(v);
  return {high, static_cast<float>(v - static_cast<double>(high))};
}

// 256 numbers, entry i exp((i - 255) * scale) * room, with room = (the largest f32 / count) *
// exp(-5) so that a sum of `count` of them stays finite. ONNX Runtime computes them in f64 and
// rounds to f32: here both factors are two f32, and the product is one fma chain from its smallest
// term on.
ValueId exponentials(Body& b, double scale, ValueId count) {
  OnnxNode& n = b.n;
  std::vector<float> parts;
  for (int i = 0; i < 256; ++i) {
    const auto [high, low] =
        halved(correctly_rounded_function(Function::exp, (i - 255) * scale, DType::f64));
    parts.insert(parts.end(), {low, high, high});
  }
  const auto [high, low] = halved(correctly_rounded_function(Function::exp, -5, DType::f64));
  const ValueId most = b.div(
      b.op("constant_of_shape",
           {b.ints({1}),
            n.constant_value("most", Tensor::of<float>({1}, {std::numeric_limits<float>::max()}))}),
      b.cast(count, DType::f32));
  const ValueId room = b.mul(most, b.number(high));
  const ValueId rest =
      b.op("matmul", {b.concat({room, most, most}, 0),
                      n.constant_value("margin", Tensor::of<float>({3, 1}, {-1.0F, high, low}))});
  const ValueId table =
      n.constant_value("exponentials", Tensor::of<float>({256, 3}, std::span<const float>(parts)));
  return b.op("matmul", {table, b.concat({room, rest, room}, 0)});
}

// A row is shifted so that its largest code is the table's last entry; then round(entry * floor(1 /
// y_scale) / sum), the sum in f32.
void qlinear_softmax(OnnxNode& n) {
  Body b(n);
  const DType type = code_type(n, 0, 2);
  const std::int64_t opset = n.integer("opset", 0);
  if (opset < 1) throw bad_input("attribute opset is {}, expected that of its Softmax", opset);
  const bool flat = opset < 13;
  const int rank = n.rank_of(0, "over which axes it runs");
  const int axis = normalize_axis(n.integer("axis", flat ? 1 : -1), rank);
  Ints over;
  for (int i = axis; i < (flat ? rank : axis + 1); ++i) over.push_back(i);
  const ValueId x = b.cast(n.required(0), DType::i32);
  const ValueId count =
      b.reduce("reduce_prod", b.extents(x, over.front(), over.back() + 1), {}, false);
  const ValueId table = exponentials(b, n.constant_number(1, "scale"), count);
  const ValueId entry = b.add(b.sub(x, b.reduce("reduce_max", x, over, true)),
                              n.constant_value("last", scalar_of(DType::i32, 255)));
  const ValueId parts = b.op("gather", {table, entry});
  const ValueId sum = b.reduce("reduce_sum", parts, over, true);
  const ValueId steps = b.op("floor", {b.div(b.number(1.0F), one(b, 3))});
  const ValueId real = b.div(b.mul(parts, steps), sum);
  n.give(0, b.op("quantize_linear",
                 {real, b.number(1.0F), n.has(4) ? one(b, 4) : typed_zero(b, type)}));
  n.note("QLinearSoftmax is imported as ONNX Runtime's table of 256 exponentials in f32");
}

void qlinear_average_pool(OnnxNode& n) {
  Body b(n);
  const DType type = code_type(n, 0, 2);
  Fields f = window_fields(n);
  const Ints kernel = n.integers("kernel_shape");
  if (kernel.empty()) throw bad_input("attribute kernel_shape is missing");
  const bool last = n.flag("channels_last", false), ceil = n.flag("ceil_mode", false),
             counted = n.flag("count_include_pad", false);
  if (ceil && counted)
    throw bad_input(
        "ceil_mode with count_include_pad, whose last windows ONNX Runtime divides by taps beyond "
        "the padding too; pool without one of them");
  f.emplace_back("kernel", kernel);
  f.emplace_back("ceil_mode", ceil);
  f.emplace_back("count_include_pad", counted);
  const int rank = static_cast<int>(kernel.size()) + 2;
  const ValueId x = dequantised(b, 0, 1, 2);
  const ValueId mean = b.op("avg_pool", {last ? b.channels_first(x, rank) : x}, f);
  ValueId real = b.div(mean, one(b, 3));
  if (n.has(4)) real = b.add(real, b.cast(one(b, 4), DType::f32));
  const ValueId y = rounded(b, real, type);
  n.give(0, last ? b.transpose(y, Body::to_channels_last(rank)) : y);
  n.note(fmt::format("QLinearAveragePool averages in f32 over the taps {} (count_include_pad={})",
                     counted ? "of the window" : "inside the input", counted ? 1 : 0));
}

void qlinear_global_average_pool(OnnxNode& n) {
  Body b(n);
  const DType type = code_type(n, 0, 2);
  const bool last = n.flag("channels_last", false);
  const int rank = n.rank_of(0, "which axes are spatial");
  if (rank < 3)
    throw bad_input("x has rank {}; batch, channels and spatial axes are expected", rank);
  Ints spatial;
  for (int i = 2; i < rank; ++i) spatial.push_back(last ? i - 1 : i);
  const ValueId x = difference(b, 0, 2, false);
  const ValueId count =
      b.reduce("reduce_prod", b.extents(x, spatial.front(), spatial.back() + 1), {}, false);
  const ValueId sum = b.cast(b.reduce("reduce_sum", x, spatial, true), DType::f32);
  const ValueId factor = b.div(one(b, 1), b.mul(one(b, 3), b.cast(count, DType::f32)));
  n.give(0, b.op("quantize_linear",
                 {b.mul(sum, factor), b.number(1.0F), n.has(4) ? one(b, 4) : typed_zero(b, type)}));
  n.note("QLinearGlobalAveragePool is imported as an i32 sum, scaled in f32");
}

// Scales and zero points of the columns lie along the last axis.
void qgemm(OnnxNode& n) {
  Body b(n);
  const auto swapped = [&](ValueId x, bool swap) { return swap ? b.transpose(x, {1, 0}) : x; };
  // A column of B's zero points belongs to the axis that is its columns.
  const bool trans_b = n.flag("transB", false);
  const ValueId left = swapped(difference(b, 0, 2, false), n.flag("transA", false));
  const ValueId right = difference(b, 3, 5, trans_b);
  ValueId sum = b.op("matmul", {left, swapped(right, trans_b)});
  if (n.has(6)) sum = b.add(sum, n.input(6));
  const ValueId scale = b.mul(b.mul(b.number(n.number("alpha", 1.0F)), one(b, 1)), n.required(4));
  const ValueId real = b.cast(sum, DType::f32);
  if (n.has(7) != n.has(8)) throw bad_input("y_scale and y_zero_point must be given together");
  if (!n.has(7))
    n.give(0, b.mul(real, scale));
  else
    n.give(0, b.op("quantize_linear",
                   {b.mul(real, b.div(scale, one(b, 7))), b.number(1.0F), one(b, 8)}));
  n.note("QGemm is imported as a matmul of i32 differences, scaled in f32");
}

// sum * (a_scale * b_scale) + bias
void scaled_sum(Body& b, ValueId sum, ValueId a_scale, std::size_t b_scale, std::size_t bias) {
  OnnxNode& n = b.n;
  const ValueId y = b.mul(b.cast(sum, DType::f32), b.mul(a_scale, n.required(b_scale)));
  n.give(0, n.has(bias) ? b.add(y, n.input(bias)) : y);
  n.note(fmt::format("{} is imported as a matmul of i32 differences, scaled in f32", n.type()));
}

void matmul_integer_to_float(OnnxNode& n) {
  Body b(n);
  const ValueId sum = b.op("matmul", {difference(b, 0, 4, true), difference(b, 1, 5, false)});
  scaled_sum(b, sum, n.required(2), 3, 6);
}

void dynamic_quantize_matmul(OnnxNode& n) {
  Body b(n);
  const DynamicCodes codes = dynamic_codes(b, n.required(0));
  const ValueId left = b.op("quantize_linear", {n.required(0), codes.scale, codes.zero});
  const ValueId differences = b.sub(b.cast(left, DType::i32), b.cast(codes.zero, DType::i32));
  scaled_sum(b, b.op("matmul", {differences, difference(b, 1, 3, false)}), codes.scale, 2, 4);
}

// Packed numbers, the first in the lowest bits of a byte, a row of `bytes` at a time: `count` of
// each row.
Tensor unpacked(std::span<const std::byte> packed, std::int64_t rows, std::int64_t bytes,
                std::int64_t count, int bits) {
  Tensor out = Tensor::uninitialized(DType::u8, Shape{rows, count});
  auto to = out.mutable_data<std::uint8_t>();
  const int in_byte = 8 / bits;
  const unsigned mask = (1U << static_cast<unsigned>(bits)) - 1;
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t k = 0; k < count; ++k) {
      const auto byte =
          static_cast<unsigned>(packed[static_cast<std::size_t>(r * bytes + k / in_byte)]);
      to[static_cast<std::size_t>(r * count + k)] =
          static_cast<std::uint8_t>(byte >> static_cast<unsigned>(k % in_byte * bits) & mask);
    }
  return out;
}

const Tensor& constant_bytes(OnnxNode& n, std::size_t i, std::int64_t want) {
  n.required(i);
  const Tensor* t = n.constant(i);
  if (t == nullptr)
    throw bad_input("its input {} comes from a computation; only a constant is read", i);
  if (t->dtype() != DType::u8 || t->numel() != want)
    throw bad_input("its input {} is {}, and its attributes want {} bytes", i, to_string(t->type()),
                    want);
  return *t;
}

// y = A W^T (+ bias), W [N, K] in blocks along K.
void matmul_n_bits(OnnxNode& n) {
  Body b(n);
  const std::int64_t k = n.integer("K", 0), rows = n.integer("N", 0), bits = n.integer("bits", 4),
                     block = n.integer("block_size", 0);
  constexpr std::int64_t kMost = std::int64_t{1} << 31;
  if (k < 1 || rows < 1 || k > kMost || rows > kMost)
    throw bad_input("K is {} and N {}; both must be extents of a matrix", k, rows);
  if (bits != 2 && bits != 4 && bits != 8) throw bad_input("bits is {}, expected 2, 4 or 8", bits);
  if (block < 16 || block > kMost || (block & (block - 1)) != 0)
    throw bad_input("block_size is {}, expected a power of two from 16 on", block);
  if (n.integer("weight_prepacked", 0) != 0)
    throw bad_input("its weights are packed for one device; save the model without prepacking");
  if (n.has(4)) throw bad_input("it has g_idx, which has no meaning since 1.20; quantise anew");
  const std::int64_t blocks = (k + block - 1) / block, bytes = blocks * block * bits / 8;
  const Tensor codes = unpacked(constant_bytes(n, 1, rows * bytes).bytes(), rows, bytes,
                                blocks * block, static_cast<int>(bits));
  const ValueId scales = b.reshape(n.required(2), {rows, blocks});
  const auto middle = static_cast<double>(std::int64_t{1} << (bits - 1));
  ValueId weight = n.constant_value("weight", codes.share());
  const bool real_zero = n.has(3) && n.dtype_of(3).value_or(DType::u8) != DType::u8;
  if (real_zero) {
    const ValueId wide = b.reshape(b.like(weight, scales), {rows, blocks, block});
    const auto along = [&](ValueId v) { return b.reshape(v, {rows, blocks, 1}); };
    weight = b.reshape(b.mul(b.sub(wide, along(n.input(3))), along(scales)), {rows, -1});
  } else {
    ValueId zero;
    if (n.has(3)) {
      const std::int64_t row = (blocks * bits + 7) / 8;
      zero = n.constant_value("zero", unpacked(constant_bytes(n, 3, rows * row).bytes(), rows, row,
                                               blocks, static_cast<int>(bits)));
    } else {
      zero = b.op("expand",
                  {n.constant_value("zero", scalar_of(DType::u8, middle)), b.ints({rows, blocks})});
    }
    weight = b.op("dequantize_linear", {weight, scales, zero},
                  {{"axis", std::int64_t{1}}, {"block_size", block}});
  }
  if (blocks * block != k) weight = b.part(weight, 1, 0, k);
  const ValueId y = b.op("matmul", {n.required(0), b.transpose(weight, {1, 0})});
  n.give(0, n.has(5) ? b.add(y, n.input(5)) : y);
  const std::int64_t level = n.integer("accuracy_level", 0);
  n.note(fmt::format(
      "MatMulNBits is imported as dequantize_linear of its {} bits and a matmul{}", bits,
      level == 4 ? "; accuracy_level 4 lets ONNX Runtime round A to 8 bits, which is "
                   "not done here"
                 : ""));
}

constexpr TranslatorRow kRows[] = {
    {"com.microsoft.QLinearAdd", qlinear_add},
    {"com.microsoft.QLinearMul", qlinear_mul},
    {"com.microsoft.QLinearSigmoid", [](OnnxNode& n) { qlinear_function(n, "sigmoid", {}); }},
    {"com.microsoft.QLinearLeakyRelu",
     [](OnnxNode& n) { qlinear_function(n, "leaky_relu", {{"alpha", n.number("alpha", 0.01F)}}); }},
    {"com.microsoft.QLinearConcat", qlinear_concat},
    {"com.microsoft.QLinearWhere", qlinear_where},
    {"com.microsoft.QLinearSoftmax", qlinear_softmax},
    {"com.microsoft.QLinearAveragePool", qlinear_average_pool},
    {"com.microsoft.QLinearGlobalAveragePool", qlinear_global_average_pool},
    {"com.microsoft.QLinearConv",
     [](OnnxNode& n) { qlinear_conv(n, n.flag("channels_last", false)); }},
    {"com.microsoft.QGemm", qgemm},
    {"com.microsoft.MatMulIntegerToFloat", matmul_integer_to_float},
    {"com.microsoft.DynamicQuantizeMatMul", dynamic_quantize_matmul},
    {"com.microsoft.MatMulNBits", matmul_n_bits},
};

}  // namespace

std::span<const TranslatorRow> quantised_family() { return kRows; }

}  // namespace etalon::onnx_format
