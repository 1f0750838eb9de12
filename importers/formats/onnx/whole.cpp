#include "importers/formats/onnx/whole.h"

#include <cmath>
#include <limits>

#include "engine/core/error.h"

namespace etalon::onnx_format {
namespace {

// A quotient of integers is cut toward zero: what lies below zero is raised by a multiple of every
// divisor before.
constexpr int kRaised = 62;

std::int64_t power(std::int64_t exponent) { return std::int64_t{1} << exponent; }

Shape of_channels(std::size_t count, int trailing) {
  if (count == 1) return {};
  Ints dims(static_cast<std::size_t>(trailing) + 1, 1);
  dims[0] = static_cast<std::int64_t>(count);
  return Shape(dims);
}

}  // namespace

Whole::Name Whole::number(std::int64_t v) {
  return w_.constant("number", Tensor::of<std::int64_t>({}, {v}));
}

Whole::Name Whole::numbers(const Ints& v, int trailing) {
  return w_.constant("numbers", Tensor::of<std::int64_t>(of_channels(v.size(), trailing),
                                                         std::span<const std::int64_t>(v)));
}

Whole::Name Whole::reals(const std::vector<float>& v, int trailing) {
  return w_.constant("reals",
                     Tensor::of<float>(of_channels(v.size(), trailing), std::span<const float>(v)));
}

Whole::Name Whole::held(const Name& v, std::int64_t low, std::int64_t high) {
  return w_.step("Clip", {v, number(low), number(high)});
}

Whole::Name Whole::reduced(std::string_view type, const Name& v, const Ints& axes, bool keep) {
  return w_.step(type, {v, w_.constant("axes", axes)}, "keepdims", std::int64_t{keep});
}

Whole::Name Whole::distance(std::size_t i, std::int64_t zero) {
  return add(cast(w_.input(i), DType::i64), -zero);
}

Whole::Name Whole::halved(const Name& v, const Ints& bits, int trailing) {
  Ints raise, divisors, lower;
  for (const std::int64_t b : bits) {
    if (b < 1 || b > kRaised) throw usage_error("a factor of 2^{} has no form in ONNX", 31 - b);
    raise.push_back(power(kRaised) + power(b - 1));
    divisors.push_back(power(b));
    lower.push_back(power(kRaised - b));
  }
  return sub(div(add(v, numbers(raise, trailing)), numbers(divisors, trailing)),
             numbers(lower, trailing));
}

Whole::Name Whole::nearest(const Name& v, const Ints& bits, int trailing) {
  Ints half, divisors;
  for (const std::int64_t b : bits) {
    half.push_back(power(b) / 2);
    divisors.push_back(power(b));
  }
  if (std::ranges::all_of(bits, [](std::int64_t b) { return b == 0; })) return v;
  return div(add(v, mul(w_.step("Sign", {v}), numbers(half, trailing))),
             numbers(divisors, trailing));
}

Whole::Name Whole::moved(const Name& v, int exponent) {
  if (exponent <= 0) return nearest(v, Ints{-exponent}, 0);
  return held_wide(mul(v, power(exponent)), tflite::Multiplier::kMin, tflite::Multiplier::kMax);
}

Whole::Name Whole::bit_width(const Name& v) {
  Ints powers;
  for (int i = 0; i < 32; ++i) powers.push_back(power(i));
  const Name last = w_.constant("last", Ints{-1});
  const Name reached = w_.step("GreaterOrEqual", {w_.step("Unsqueeze", {v, last}), table(powers)});
  return reduced("ReduceSum", cast(reached, DType::i64), Ints{-1}, false);
}

Whole::Name Whole::scaled(const Name& v, const std::vector<tflite::Multiplier>& by, int trailing,
                          int left) {
  Ints factors, right;
  for (const tflite::Multiplier& m : by) {
    factors.push_back(m.m * power(std::max(m.shift, 0) + left));
    right.push_back(std::max(-m.shift, 0));
  }
  return nearest(halved(mul(v, numbers(factors, trailing)), 31), right, trailing);
}

Whole::Name Whole::scaled_wide(const Name& v, const std::vector<tflite::Multiplier>& by,
                               int trailing) {
  Ints factors, bits;
  for (const tflite::Multiplier& m : by) {
    factors.push_back(m.reduced());
    bits.push_back(15 - m.shift);
  }
  return wrapped(halved(mul(v, numbers(factors, trailing)), bits, trailing));
}

// A sum of 16-bit numbers is cut in two: v = 2^16 high + low, and floor((high m + floor((low m + r)
// / 2^16)) / 2^(t - 16)) is floor((v m + r) / 2^t).
Whole::Name Whole::scaled_once(const Name& v, const std::vector<tflite::Multiplier>& by,
                               bool wide) {
  Ints factors, bits;
  for (const tflite::Multiplier& m : by) {
    factors.push_back(m.m);
    bits.push_back(31 - m.shift);
  }
  const Name m = numbers(factors, 0);
  if (!wide) return halved(mul(v, m), bits, 0);
  Ints rounding, raise, divisors, lower;
  for (const std::int64_t b : bits) {
    if (b < 17 || b > kRaised) throw usage_error("a factor of 2^{} has no form in ONNX", 31 - b);
    rounding.push_back(power(b - 1));
    raise.push_back(power(kRaised));
    divisors.push_back(power(b - 16));
    lower.push_back(power(kRaised - b + 16));
  }
  const Name low = w_.step("Mod", {v, number(power(16))}), high = div(sub(v, low), power(16)),
             carried = div(add(mul(low, m), numbers(rounding, 0)), power(16));
  return sub(div(add(add(mul(high, m), carried), numbers(raise, 0)), numbers(divisors, 0)),
             numbers(lower, 0));
}

// What lies above the integer below is exact; a half that is added to the number would round.
Whole::Name Whole::rounded(const Name& v) {
  const Name size = w_.step("Abs", {v}), below = w_.step("Floor", {size});
  const Name up = w_.step("GreaterOrEqual", {sub(size, below), real(0.5F)});
  const Name whole = mul(w_.step("Sign", {v}), add(below, cast(up, DType::f32)));
  const Name ends = w_.step("Clip", {whole, real(-0x1p31F), real(0x1p31F)});
  return cast(chosen(w_.step("IsNaN", {v}), real(0), ends), DType::i64);
}

Whole::Name Whole::byte(std::int64_t v) {
  return w_.constant("zero", Tensor::of<std::uint8_t>({}, {static_cast<std::uint8_t>(v)}));
}

// Unsigned on both sides: some processors' products of signed with unsigned bytes saturate.
std::vector<Bytes> Whole::bytes_of(const Name& x, DType dtype, std::int64_t zero) {
  if (dtype == DType::u8) return {{x, zero, 1}};
  const Name wide = cast(x, DType::i64);
  if (dtype == DType::i8) return {{cast(add(wide, 128), DType::u8), zero + 128, 1}};
  if (dtype != DType::i16 || zero != 0)
    throw usage_error("{} about {} has no form in ONNX", name(dtype), zero);
  const Name low = w_.step("Mod", {wide, number(256)}), high = div(sub(wide, low), 256);
  return {{cast(add(high, 128), DType::u8), 128, 256}, {cast(low, DType::u8), 0, 1}};
}

void Whole::give(const Name& v, const TfliteOutput& out, DType dtype) {
  const TfliteEnds ends(dtype, out.act_min, out.act_max);
  give(held(add(v, out.y_zero), ends.low, ends.high), dtype);
}

namespace {

// SAME as what it pads: some runtimes take it without dilations alone.
std::optional<Ints> pads_of_same(NodeWriter& w, const Ints& kernel) {
  const Ints extents = w.extents(0);
  Ints before, after;
  for (std::size_t i = 0; i < kernel.size(); ++i) {
    const std::int64_t in = extents.at(i + 2);
    if (in < 0) return {};
    const auto of = [&](std::string_view field) {
      return w.integers(field).empty() ? 1 : w.integers(field).at(i);
    };
    const std::int64_t stride = of("strides"), out = (in + stride - 1) / stride;
    const std::int64_t reach = (kernel[i] - 1) * of("dilations") + 1,
                       total = std::max<std::int64_t>((out - 1) * stride + reach - in, 0);
    const bool upper = w.text("auto_pad") == "same_upper";
    before.push_back((total + (upper ? 0 : 1)) / 2);
    after.push_back(total - before.back());
  }
  before.insert(before.end(), after.begin(), after.end());
  return before;
}

}  // namespace

void write_window(NodeWriter& w, pb::NodeProto& n, const Ints& kernel) {
  const std::string& automatic = w.text("auto_pad");
  const auto same = automatic.starts_with("same") ? pads_of_same(w, kernel) : std::nullopt;
  if (same) {
    set(n, "pads", *same);
  } else if (automatic == "explicit") {
    Ints pads = w.integers("pads_begin");
    const Ints& end = w.integers("pads_end");
    pads.insert(pads.end(), end.begin(), end.end());
    if (!pads.empty()) set(n, "pads", pads);
  } else {
    set(n, "auto_pad",
        automatic == "valid"        ? "VALID"
        : automatic == "same_upper" ? "SAME_UPPER"
                                    : "SAME_LOWER");
  }
  if (!w.integers("strides").empty()) set(n, "strides", w.integers("strides"));
  if (!w.integers("dilations").empty()) set(n, "dilations", w.integers("dilations"));
}

}  // namespace etalon::onnx_format
