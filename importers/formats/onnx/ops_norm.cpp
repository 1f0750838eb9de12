// Normalisation, and linear quantisation.
//
// Statistics are those the file holds: training mode is refused. ONNX divides LRN's alpha by the
// size of the window and adds epsilon to the variance under the root.
#include "engine/core/error.h"
#include "importers/formats/onnx/families.h"

namespace etalon::onnx_format {
namespace {

void one_output(OnnxNode& n) {
  for (std::size_t i = 1; i < n.output_count(); ++i)
    if (n.is_read(i))
      throw bad_input("output {} of {} belongs to training; export the model for inference", i,
                      n.type());
}

void batch_norm(OnnxNode& n) {
  one_output(n);
  n.ignore("momentum");
  n.ignore("consumed_inputs");
  if (n.opset() < 7) n.ignore("is_test");
  Fields f{{"eps", n.number("epsilon", 1e-5F)}};
  if (n.opset() < 9) f.emplace_back("spatial", n.flag("spatial", true));
  if (n.opset() >= 14 && n.flag("training_mode", false))
    throw bad_input("training mode; export the model for inference");
  n.emit("batch_norm", f, n.inputs(), {n.output(0)});
}

void layer_norm(OnnxNode& n) {
  n.ignore("stash_type");  // the contract says what is accumulated in
  n.emit("layer_norm", {{"axis", n.integer("axis", -1)},
                        {"eps", n.number("epsilon", 1e-5F)},
                        {"statistics", n.wants(1) || n.wants(2)}});
}

void rms_norm(OnnxNode& n) {
  n.ignore("stash_type");
  n.emit("rms_norm", {{"axis", n.integer("axis", -1)}, {"eps", n.number("epsilon", 1e-5F)}});
}

void group_norm(OnnxNode& n) {
  n.ignore("stash_type");
  if (n.opset() < 21) n.note("GroupNormalization before opset 21 has one scale and bias a group");
  n.emit("group_norm", {{"groups", n.integer("num_groups", 0)},
                        {"eps", n.number("epsilon", 1e-5F)},
                        {"scale_per_group", n.opset() < 21}});
}

void lrn(OnnxNode& n) {
  if (!n.has_attribute("size")) throw bad_input("attribute size is missing");
  n.note("LRN divides alpha by the size of its window");
  n.emit("lrn", {{"size", n.integer("size", 0)},
                 {"alpha", n.number("alpha", 1e-4F)},
                 {"beta", n.number("beta", 0.75F)},
                 {"bias", n.number("bias", 1.0F)}});
}

void lp_norm(OnnxNode& n) {
  n.emit("lp_norm",
         {{"p", static_cast<float>(n.integer("p", 2))}, {"axes", Ints{n.integer("axis", -1)}}});
}

void mean_variance(OnnxNode& n) {
  if (n.opset() < 9)
    throw bad_input(
        "MeanVarianceNormalization was experimental before opset 9, and its meaning "
        "is the exporter's");
  Ints axes = n.integers("axes");
  if (axes.empty()) axes = {0, 2, 3};
  n.emit("mean_variance_normalization", {{"axes", axes}});
}

// The number of the type in output_dtype, 0 where it is not said.
std::int32_t output_type(OnnxNode& n) {
  return n.opset() >= 21 ? static_cast<std::int32_t>(n.integer("output_dtype", 0) & 0xffff) : 0;
}

// Scale i in a shape that meets x elementwise; blocks are left to the quantisation ops.
ValueId scale_beside(OnnxNode& n, std::int64_t axis) {
  const auto type = n.type_of(1);
  if (n.opset() >= 21 && n.integer("block_size", 0) != 0)
    throw bad_input(
        "blocks of 8-bit floats; only one scale, or one for each index of an axis, is "
        "supported");
  if (!type || type->shape.rank() != 1 || type->shape[0] == 1) return n.required(1);
  const int rank = n.rank_of(0, "along which axis its scales lie");
  Ints trailing;
  for (int k = normalize_axis(axis, rank) + 1; k < rank; ++k)
    trailing.push_back(k - normalize_axis(axis, rank));
  return trailing.empty() ? n.required(1)
                          : n.step("unsqueeze", {{"axes", trailing}}, {n.required(1)});
}

// Floating codes: the quotient, rounded to the code; its zero point is 0.
void quantize_to_code(OnnxNode& n, Code format) {
  const std::string held(name(format));
  if (!is_integer_code(format)) {
    const ValueId q = n.step("div", {}, {n.required(0), scale_beside(n, n.integer("axis", 1))});
    n.emit("encode", {{"format", held}, {"saturate", n.flag("saturate", true)}}, {q},
           {n.output(0)});
  } else {
    Fields f{{"axis", n.integer("axis", 1)},
             {"block_size", n.integer("block_size", 0)},
             {"output_dtype", std::string(name(code_storage(format)))}};
    const CodeRange ends = code_range(format);
    const ValueId q = n.step("quantize_linear", f, n.inputs());
    n.emit("clip", {{"min", static_cast<float>(ends.low)}, {"max", static_cast<float>(ends.high)}},
           {q}, {n.output(0)});
  }
  n.set_code(0, format);
  n.note(fmt::format("its result, numbers of {}, is held a byte each", held));
}

void quantize(OnnxNode& n, std::string_view op) {
  n.ignore("saturate");  // speaks of 8-bit floats only
  const bool to_codes = op == "quantize_linear";
  if (n.opset() >= 23 && n.integer("precision", 0) != 0)
    throw bad_input("a precision of its own; the contract says what is computed in");
  const std::int32_t number = output_type(n);
  if (to_codes)
    if (const auto code = n.has(2) ? n.code_of_input(2) : code_of_onnx(number))
      return quantize_to_code(n, *code);
  if (const auto code = n.code_of_input(0); !to_codes && code && !is_integer_code(*code)) {
    n.ignore("axis");
    const ValueId x = n.step("decode", {{"format", std::string(name(*code))}}, {n.required(0)});
    const ValueId scale = scale_beside(n, n.integer("axis", 1));
    n.emit("mul", {}, {n.step("cast_like", {}, {x, scale}), scale}, {n.output(0)});
    return;
  }
  Fields f{{"axis", n.integer("axis", 1)}};
  if (n.opset() >= 21) f.emplace_back("block_size", n.integer("block_size", 0));
  f.emplace_back("output_dtype",
                 number == 0 ? std::string() : std::string(name(dtype_of_onnx(number))));
  std::vector<ValueId> in = n.inputs();
  const auto scale = n.type_of(1), zero = n.type_of(2);
  if (scale && zero && scale->shape != zero->shape && scale->shape.numel() == 1 &&
      zero->shape.numel() == 1) {
    const auto dims = scale->shape.dims();
    in[2] = n.step("reshape", {{"shape", Ints(dims.begin(), dims.end())}}, {in[2]});
  }
  n.emit(op, f, in, n.outputs());
}

constexpr TranslatorRow kRows[] = {
    {"BatchNormalization", batch_norm},
    {"InstanceNormalization",
     [](OnnxNode& n) {
       n.ignore("consumed_inputs");
       n.emit("instance_norm", {{"eps", n.number("epsilon", 1e-5F)}});
     }},
    {"LayerNormalization", layer_norm},
    {"RMSNormalization", rms_norm},
    {"GroupNormalization", group_norm},
    {"LRN", lrn},
    {"LpNormalization", lp_norm},
    {"MeanVarianceNormalization", mean_variance},
    {"QuantizeLinear", [](OnnxNode& n) { quantize(n, "quantize_linear"); }},
    {"DequantizeLinear", [](OnnxNode& n) { quantize(n, "dequantize_linear"); }},
    // ONNX Runtime's own, from before ONNX had 16 and 4 bits.
    {"com.microsoft.QuantizeLinear", [](OnnxNode& n) { quantize(n, "quantize_linear"); }},
    {"com.microsoft.DequantizeLinear", [](OnnxNode& n) { quantize(n, "dequantize_linear"); }},
};

}  // namespace

std::span<const TranslatorRow> norm_family() { return kRows; }

}  // namespace etalon::onnx_format
