// Quantised operators with arithmetic of their own: products of batches, sums, quotients, squared
// differences, log-softmax, the L2 norm, comparisons between scales, joins between scales.
#include <algorithm>
#include <cmath>
#include <map>

#include "engine/core/error.h"
#include "engine/ops/tflite_multiplier.h"
#include "importers/formats/tflite/quantised.h"

namespace etalon::tflite {
namespace {

Fields pair_of(const Quantised& q) {
  const Quantisation &a = q.input(0).quantisation, &b = q.input(1).quantisation;
  return {
      {"a_scale", a.scale()}, {"a_zero", a.zero()}, {"b_scale", b.scale()}, {"b_zero", b.zero()}};
}

Fields of_x(const Quantised& q) {
  const Quantisation& x = q.input(0).quantisation;
  return {{"x_scale", x.scale()}, {"x_zero", x.zero()}};
}

void require_scale(const Quantised& q, float scale, std::int64_t zero) {
  const Quantisation& y = q.output().quantisation;
  if (y.scale() != scale || y.zero() != zero)
    throw bad_input("{} onto scale {} and zero point {}; its kernels know {} and {}",
                    operator_name(q.op.code), y.scale(), y.zero(), scale, zero);
}

ValueId batch_matmul(const Quantised& q) {
  Fields f = pair_of(q);
  limited_output(f, q.output(), 0);
  std::vector<ValueId> in;
  for (int i = 0; i < 2; ++i) {
    const ValueId v = q.in[static_cast<std::size_t>(i)];
    const bool turned = q.op.options.get<std::uint8_t>(i, 0) != 0;
    const int rank = q.g.rank(v);
    if (rank < 2) throw bad_input("BATCH_MATMUL of rank {}", rank);
    Ints order;
    for (int a = 0; a < rank; ++a) order.push_back(a);
    std::swap(order[static_cast<std::size_t>(rank) - 2], order[static_cast<std::size_t>(rank) - 1]);
    in.push_back(turned ? q.g.transpose(q.name + (i == 0 ? "/a" : "/b"), v, order) : v);
  }
  return q.g.op("tflite_batch_matmul", q.name, in, f);
}

ValueId reduction(const Quantised& q, std::string_view op) {
  const Tensor* axes = q.in.size() > 1 ? q.g.constant_of(q.in[1]) : nullptr;
  if (axes == nullptr)
    throw bad_input("{} over axes that are not constant is not supported",
                    operator_name(q.op.code));
  Fields f = of_x(q);
  f.emplace_back("axes", to_int64_values(*axes));
  f.emplace_back("keepdims", q.op.options.get<std::uint8_t>(0, 0) != 0);
  limited_output(f, q.output(), 0);
  if (op == "tflite_sum" && q.input(0).dtype == DType::i8)
    q.g.note(
        "SUM of i8 is scaled as that of u8; the reference kernel of ai_edge_litert 2.3 takes "
        "negative "
        "i8 for u8 there, its optimised kernel scales in f32");
  return q.g.op(op, q.name, {q.in[0]}, f);
}

// What a comparison compares: (q - zero) * 2^8 scaled by the scale itself.
Tensor compared(const TensorInfo& x) {
  const Multiplier m(static_cast<double>(x.quantisation.scale()));
  if (m.shift > 0)
    throw bad_input("a comparison of numbers on the scale {}; below 1 is supported",
                    x.quantisation.scale());
  Tensor table = Tensor::uninitialized(DType::i32, {256});
  const std::int64_t low = x.dtype == DType::i8 ? -128 : 0;
  for (std::int64_t v = low; v < low + 256; ++v)
    table.mutable_data<std::int32_t>()[static_cast<std::size_t>(v & 255)] =
        m.scaled(static_cast<std::int32_t>((v - x.quantisation.zero()) * 256));
  return table;
}

ValueId comparison(const Quantised& q, std::string_view op) {
  std::vector<ValueId> in;
  for (std::size_t i = 0; i < 2; ++i)
    in.push_back(looked_up_in(q, i, compared(q.input(i)), i == 0 ? "/a" : "/b"));
  if (op != "not_equal") return q.g.elementwise(op, q.name, in);
  return q.g.op("not", q.name, {q.g.elementwise("equal", q.name + "/equal", in)});
}

// Each input that differs from the output's scale is moved onto it, in f32.
ValueId joined(const Quantised& q) {
  const Quantisation& y = q.output().quantisation;
  if (q.op.options.get<std::int8_t>(1, 0) != 0)
    throw bad_input("CONCATENATION between different scales with an activation is not supported");
  const float inverse = 1.0F / y.scale();
  std::vector<ValueId> in;
  for (std::size_t i = 0; i < q.in.size(); ++i) {
    const Quantisation& x = q.input(i).quantisation;
    if (x.scale() == y.scale() && x.zero() == y.zero()) {
      in.push_back(q.in[i]);
      continue;
    }
    const float scale = x.scale() * inverse, bias = static_cast<float>(-x.zero()) * scale;
    if (!std::isfinite(255 * scale))
      throw bad_input("parts on {} and {} do not come together in f32", x.scale(), y.scale());
    Tensor table = Tensor::uninitialized(DType::u8, {256});
    for (int v = 0; v < 256; ++v) {
      const float product = static_cast<float>(v) * scale;
      const double real = std::clamp(std::round(static_cast<double>(product + bias)), -1e6, 1e6);
      table.mutable_data<std::uint8_t>()[static_cast<std::size_t>(v)] = static_cast<std::uint8_t>(
          std::clamp<std::int64_t>(static_cast<std::int64_t>(real) + y.zero(), 0, 255));
    }
    in.push_back(looked_up_in(q, i, std::move(table), fmt::format("/part{}", i)));
  }
  return q.g.op("concat", q.name, in,
                {{"axis", std::int64_t{q.op.options.get<std::int32_t>(0, 0)}}});
}

const std::map<std::string_view, std::string_view> kComparisons{
    {"EQUAL", "equal"},     {"NOT_EQUAL", "not_equal"},
    {"LESS", "less"},       {"LESS_EQUAL", "less_or_equal"},
    {"GREATER", "greater"}, {"GREATER_EQUAL", "greater_or_equal"}};

}  // namespace

bool is_comparison(std::string_view op) { return kComparisons.contains(op); }

std::optional<ValueId> translate_arithmetic(const Quantised& q) {
  const std::string_view op = operator_name(q.op.code);
  const DType dtype = q.input(0).dtype;
  const bool eight_bits = dtype == DType::i8 || dtype == DType::u8;
  if (const auto at = kComparisons.find(op); at != kComparisons.end() && eight_bits)
    return comparison(q, at->second);
  if (op == "BATCH_MATMUL") return batch_matmul(q);
  if (op == "SUM") return reduction(q, "tflite_sum");
  if (op == "REDUCE_PROD") return reduction(q, "tflite_prod");
  if (op == "SQUARED_DIFFERENCE" || op == "DIV") {
    Fields f = pair_of(q);
    const bool is_div = op == "DIV";
    limited_output(f, q.output(), is_div ? q.op.options.get<std::int8_t>(0, 0) : 0);
    return q.g.elementwise(is_div ? "tflite_div" : "tflite_squared_difference", q.name,
                           {q.in[0], q.in[1]}, f);
  }
  if (op == "L2_NORMALIZATION") {
    require_scale(q, 1.0F / 128, dtype == DType::u8 ? 128 : 0);
    return q.g.op("tflite_l2_normalize", q.name, {q.in[0]},
                  {{"x_zero", q.input(0).quantisation.zero()}});
  }
  if (op == "LOG_SOFTMAX") {
    require_scale(q, 16.0F / 256, dtype == DType::u8 ? 255 : 127);
    return q.g.op("tflite_log_softmax", q.name, {q.in[0]},
                  {{"x_scale", q.input(0).quantisation.scale()}});
  }
  if (op == "CONCATENATION" && dtype == DType::u8) return joined(q);
  return std::nullopt;
}

}  // namespace etalon::tflite
