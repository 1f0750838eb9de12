// Functions of one quantised number: what TensorFlow Lite's reference kernels give for each of the
// 256 values, as a table that a gather reads. A negative index counts from the end, which is where
// the table holds what belongs to negative integers.
#include <algorithm>
#include <cmath>
#include <optional>

#include "engine/core/error.h"
#include "engine/numerics/function.h"
#include "engine/ops/tflite_fixed_point.h"
#include "engine/ops/tflite_table.h"
#include "importers/formats/tflite/quantised.h"

namespace etalon::tflite {
namespace {

std::int32_t held16(std::int64_t v) {
  return static_cast<std::int32_t>(std::clamp<std::int64_t>(v, -32768, 32767));
}

// The rounded high half of twice a product of two 16-bit numbers, halves away from zero.
std::int32_t high_rounded(std::int32_t a, std::int32_t b) {
  if (a == -32768 && b == -32768) return 32767;
  const std::int32_t product = a * b;
  return (product + (product >= 0 ? 1 << 14 : 1 - (1 << 14))) / (1 << 15);
}

std::int32_t narrowed(const Multiplier& m) {
  return m.m >= Multiplier::kMax - (1 << 15) ? 32767 : (m.m + (1 << 15)) >> 16;
}

// x * relu6(x + 3) / 6 in 16 bits: x on a scale 128 times as fine, and relu6 / 6 on one of 2^-15.
class HardSwish {
 public:
  HardSwish(const Quantisation& x, const Quantisation& y)
      : zero_(static_cast<std::int32_t>(x.zero())) {
    const float fine = 1.0F / 128 * x.scale();
    out_ = Multiplier(static_cast<double>(fine / y.scale()));
    inner_ = Multiplier(static_cast<double>(fine / (3.0F / 32768)));
    if (out_.shift > 0) throw bad_input("HARD_SWISH onto a scale finer than its input's");
  }
  std::int32_t operator()(std::int32_t q) const {
    const std::int32_t x = (q - zero_) * 128;
    std::int32_t inner = x;
    if (inner_.shift > 0)
      inner = held16(std::int64_t{inner} * (std::int64_t{1} << (inner_.shift - 1)));
    inner = high_rounded(inner, narrowed(inner_));
    if (inner_.shift > 0) inner = held16(inner * 2);
    if (inner_.shift < 0) inner = Multiplier::divided_by_power(inner, -inner_.shift);
    inner = (inner + (1 << 15)) >> 1;
    const std::int32_t product = inner * high_rounded(x, narrowed(out_)) / (1 << 15);
    return Multiplier::divided_by_power(product, -out_.shift);
  }

 private:
  Multiplier out_, inner_;
  std::int32_t zero_;
};

float function_of(std::string_view op, bool approximate, float x) {
  if (op == "EXP") return correctly_rounded_f32(Function::exp, x);
  if (op == "LOG") return correctly_rounded_f32(Function::log, x);
  if (op == "ELU") return x < 0 ? correctly_rounded_f32(Function::exp, x) - 1.0F : x;
  const auto wide = static_cast<double>(x);
  const double inner =
      approximate
          ? correctly_rounded_function(Function::tanh,
                                       0.7978845608028654 * (wide + 0.044715 * wide * wide * wide),
                                       DType::f64)
          : correctly_rounded_function(Function::erf, wide * 0.7071067811865476, DType::f64);
  return static_cast<float>(0.5 * wide * (1 + inner));
}

// |x - zero|, scaled where the scales differ.
std::int64_t absolute(const Quantisation& x, const Quantisation& y, std::int64_t v) {
  const auto distance = static_cast<std::int32_t>(std::abs(v - x.zero()));
  if (x.scale() == y.scale()) return distance;
  return Multiplier(static_cast<double>(x.scale() / y.scale())).scaled(distance);
}

// The fixed-point root on 20 further bits, then scaled; of 0, and of what the reference refuses
// below it, the most.
std::int64_t inverse_square_root(const Quantisation& x, const Quantisation& y, std::int64_t v) {
  const auto distance = static_cast<std::int32_t>(v - x.zero());
  if (distance <= 0) return 1 << 20;
  Multiplier by(1.0 / static_cast<double>(std::sqrt(x.scale()) * y.scale()));
  Multiplier root = inverse_root(distance);
  by.shift -= 20;
  root.shift += 20;
  if (by.shift < -31 || by.shift > 30)
    throw bad_input("RSQRT from the scale {} onto {}", x.scale(), y.scale());
  return by.scaled(root.scaled(std::int32_t{1}));
}

std::int64_t square_root(const Quantisation& x, const Quantisation& y, std::int64_t v) {
  const float real = x.scale() * static_cast<float>(v - x.zero());
  return real > 0 ? static_cast<std::int64_t>(std::min(std::sqrt(real) / y.scale(), 1e6F)) : 0;
}

// |x| onto another scale, and what is tabulated, of 16 bits.
ValueId of_sixteen_bits(const Quantised& q, std::string_view op) {
  const Quantisation &x = q.input(0).quantisation, &y = q.output().quantisation;
  if (op == "ABS") {
    ValueId v = q.g.elementwise("cast", q.name + "/wide", {q.in[0]}, {{"to", std::string("i32")}});
    v = q.g.elementwise("abs", q.name + "/magnitude", {v});
    return q.g.elementwise("tflite_requantize", q.name, {v},
                           {{"x_scale", x.scale() / y.scale()},
                            {"y_scale", 1.0F},
                            {"output_dtype", std::string("i16")}});
  }
  if (op != "EXP" && op != "LOG" && op != "RSQRT")
    throw bad_input("{} of i16 is not supported", op);
  const float least = static_cast<float>(-32768 - y.zero()) * y.scale();
  const auto f = [&](float v) {
    if (op == "EXP") return correctly_rounded_f32(Function::exp, v);
    if (op == "LOG") return v <= 0 ? least : correctly_rounded_f32(Function::log, v);
    return v <= 0 ? 32767 * y.scale() : 1.0F / std::sqrt(v);
  };
  const InterpolatedTable<float> table({x.scale(), static_cast<std::int32_t>(x.zero()), y.scale(),
                                        static_cast<std::int32_t>(y.zero())},
                                       f);
  Tensor values = Tensor::uninitialized(DType::i16, {513});
  std::ranges::copy(table.values(), values.mutable_data<std::int16_t>().begin());
  return q.g.op("tflite_interpolate", q.name,
                {q.in[0], q.g.constant(q.name + "/table", std::move(values))});
}

}  // namespace

bool has_table(std::string_view op) {
  return op == "HARD_SWISH" || op == "EXP" || op == "LOG" || op == "ELU" || op == "GELU" ||
         op == "ABS" || op == "RSQRT" || op == "SQRT";
}

ValueId looked_up_in(const Quantised& q, std::size_t i, Tensor table, const std::string& role) {
  const DType dtype = q.input(i).dtype;
  if ((dtype != DType::i8 && dtype != DType::u8) || !q.input(i).quantisation.given())
    throw bad_input("{} of {} without a scale of 8 bits", operator_name(q.op.code), name(dtype));
  const ValueId index =
      q.g.elementwise("cast", q.name + role + "/index", {q.in[i]}, {{"to", std::string("i32")}});
  return q.g.op("gather", q.name + role,
                {q.g.constant(q.name + role + "/table", std::move(table)), index},
                {{"axis", std::int64_t{0}}});
}

ValueId looked_up(const Quantised& q) {
  const std::string_view op = operator_name(q.op.code);
  const TensorInfo &x = q.input(0), &y = q.output();
  const bool is_signed = x.dtype == DType::i8;
  if (x.dtype == DType::i16 && y.dtype == DType::i16) return of_sixteen_bits(q, op);
  if ((!is_signed && x.dtype != DType::u8) || y.dtype != x.dtype)
    throw bad_input("{} from {} to {} is not supported", op, name(x.dtype), name(y.dtype));
  const std::int64_t low = is_signed ? -128 : 0, high = low + 255;
  Tensor table = Tensor::uninitialized(y.dtype, {256});
  const auto bytes = table.mutable_bytes();
  const bool hard = op == "HARD_SWISH";
  const std::optional<HardSwish> swish =
      hard ? std::optional<HardSwish>(std::in_place, x.quantisation, y.quantisation) : std::nullopt;
  if (op == "RSQRT" || op == "SQRT")
    q.g.note(fmt::format(
        "{} of a negative number, at which the reference stops, is taken as that of zero", op));
  const bool approximate = op == "GELU" && q.op.options.get<std::uint8_t>(0, 0) != 0;
  const float inverse = 1.0F / y.quantisation.scale();
  for (std::int64_t v = low; v <= high; ++v) {
    std::int64_t result = 0;
    if (hard) {
      result = (*swish)(static_cast<std::int32_t>(v));
    } else if (op == "ABS") {
      result = absolute(x.quantisation, y.quantisation, v);
    } else if (op == "RSQRT") {
      result = inverse_square_root(x.quantisation, y.quantisation, v);
    } else if (op == "SQRT") {
      result = square_root(x.quantisation, y.quantisation, v);
    } else {
      const float real = x.quantisation.scale() * static_cast<float>(v - x.quantisation.zero());
      const float step = function_of(op, approximate, real) * inverse;
      // The logarithm of what is not above zero is the lowest value.
      result = step == step
                   ? static_cast<std::int64_t>(std::round(std::clamp(step, -0x1p30F, 0x1p30F)))
                   : -(std::int64_t{1} << 30);
    }
    const std::int64_t held = std::clamp(result + y.quantisation.zero(), low, high);
    bytes[static_cast<std::size_t>(v & 255)] = static_cast<std::byte>(held & 255);
  }
  return looked_up_in(q, 0, std::move(table), "");
}

}  // namespace etalon::tflite
