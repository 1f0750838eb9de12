#include "importers/formats/pytorch/script_quantised.h"

#include <algorithm>
#include <array>

#include "engine/core/error.h"
#include "engine/numerics/element.h"
#include "importers/formats/scalar.h"
#include "importers/formats/translate.h"

namespace etalon::pytorch_format {
namespace {

using Kind = AtenValue::Kind;
constexpr std::int64_t kSigned = 12, kUnsigned = 13;  // torch.qint8, torch.quint8

constexpr std::array<std::string_view, 15> kConvolution{
    "in_channels", "out_channels", "kernel_size",    "stride",     "padding",
    "dilation",    "transposed",   "output_padding", "groups",     "padding_mode",
    "weight",      "bias",         "scale",          "zero_point", "training"};
constexpr std::array<std::string_view, 4> kLinear{"weight", "bias", "training", "dtype"};
constexpr std::array<std::string_view, 2> kPacked{"weight", "bias"};

std::span<const std::string_view> parts_of(const PickleValue& object) {
  if (object.state == nullptr || !object.state->is(PickleKind::tuple) ||
      object.text.find(".quantized.") == std::string_view::npos)
    return {};
  const std::size_t n = object.state->items.size();
  if (n == kConvolution.size()) return kConvolution;
  if (object.text.find("PackedParams") == std::string_view::npos) return {};
  if (n == kLinear.size()) return kLinear;
  if (n == kPacked.size()) return kPacked;
  return {};
}

// What a call does to codes: nothing but to move them; what it does to numbers, rounded again,
// with the sums of codes or the real numbers; and what scale its result has, where it is its own.
enum class Means { moves, averages, reals };
struct Row {
  std::string_view op;
  Means means = Means::moves;
  float scale = 0;
  std::int64_t zero = 0;
};
constexpr Row kRows[] = {{"reshape"},
                         {"view"},
                         {"flatten"},
                         {"slice"},
                         {"select"},
                         {"permute"},
                         {"transpose"},
                         {"squeeze"},
                         {"unsqueeze"},
                         {"contiguous"},
                         {"clone"},
                         {"detach"},
                         {"dropout"},
                         {"chunk"},
                         {"split"},
                         {"max_pool1d"},
                         {"max_pool2d"},
                         {"max_pool3d"},
                         {"adaptive_max_pool2d"},
                         {"upsample_nearest2d"},
                         {"avg_pool1d", Means::averages},
                         {"avg_pool2d", Means::averages},
                         {"avg_pool3d", Means::averages},
                         {"adaptive_avg_pool1d", Means::averages},
                         {"adaptive_avg_pool2d", Means::averages},
                         {"adaptive_avg_pool3d", Means::averages},
                         {"mean", Means::averages},
                         {"upsample_bilinear2d", Means::reals},
                         {"pad", Means::reals},
                         {"hardtanh", Means::reals},
                         {"hardtanh_", Means::reals},
                         {"clamp", Means::reals},
                         {"leaky_relu", Means::reals},
                         {"sigmoid", Means::reals, 1.0F / 256, 0},
                         {"hardsigmoid", Means::reals, 1.0F / 256, 0},
                         {"tanh", Means::reals, 2.0F / 256, 128}};

}  // namespace

const PickleValue* QuantisedCalls::kept(const PickleValue& object, std::string_view name) {
  const auto parts = parts_of(object);
  if (parts.empty()) return nullptr;
  if (name == "_packed_params") return &object;
  const auto at = std::ranges::find(parts, name);
  return at == parts.end() ? nullptr
                           : object.state->items[static_cast<std::size_t>(at - parts.begin())];
}

std::span<const std::string_view> QuantisedCalls::arguments(std::string_view op) {
  static constexpr std::array<std::string_view, 4> kQuantise{"self", "scale", "zero_point",
                                                             "dtype"};
  static constexpr std::array<std::string_view, 1> kReal{"self"};
  if (op == "quantize_per_tensor") return kQuantise;
  if (op == "dequantize") return kReal;
  return {};
}

const QuantisedCalls::How& QuantisedCalls::how(ValueId v) const {
  const auto at = hows_.find(v);
  if (at == hows_.end()) throw AtenUnknown{"a quantised layer of a tensor that is not quantised"};
  return at->second;
}

QuantisedCalls::How QuantisedCalls::how_of(const AtenValue& scale, const AtenValue& zero,
                                           std::int64_t dtype) const {
  const auto one = [&](const AtenValue& v) {
    if (v.kind == Kind::integer && !v.free) return static_cast<double>(v.integer);
    if (v.kind == Kind::number) return v.number;
    const Tensor* t = v.kind == Kind::tensor ? b_.constant_of(v.tensor) : nullptr;
    if (t == nullptr || t->numel() != 1)
      throw AtenUnknown{"a scale or zero point that is not in the file"};
    return load_as_double(*t, 0);
  };
  if (dtype != kSigned && dtype != kUnsigned)
    throw AtenUnknown{fmt::format("quantisation to the type {}", dtype)};
  How h{.scale = static_cast<float>(one(scale)), .zero = static_cast<std::int64_t>(one(zero))};
  if (dtype == kSigned) h.low = -128, h.high = 127;
  if (!(h.scale > 0) || h.zero < h.low || h.zero > h.high)
    throw bad_input("a scale of {} and a zero point of {}", h.scale, h.zero);
  return h;
}

ValueId QuantisedCalls::number(double v) const {
  return b_.constant("number", scalar_of(DType::f32, v));
}
ValueId QuantisedCalls::shifted(ValueId codes) const {
  const std::int64_t zero = how(codes).zero;
  return zero == 0 ? codes : b_.op("sub", "codes", {codes, number(static_cast<double>(zero))});
}
ValueId QuantisedCalls::real(ValueId codes) const {
  return b_.op("mul", "real", {shifted(codes), number(static_cast<double>(how(codes).scale))});
}
ValueId QuantisedCalls::keep(ValueId codes, const How& how) {
  hows_.insert_or_assign(codes, how);
  return codes;
}
ValueId QuantisedCalls::held(ValueId rounded, const How& how, std::int64_t low) {
  if (how.zero != 0)
    rounded = b_.op("add", "codes", {rounded, number(static_cast<double>(how.zero))});
  return keep(b_.op("clip", "codes", {rounded},
                    {{"min", static_cast<float>(low)}, {"max", static_cast<float>(how.high)}}),
              how);
}
ValueId QuantisedCalls::quantised(ValueId x, const How& how, bool relu) {
  const ValueId scaled = b_.op("mul", "scaled", {x, number(static_cast<double>(1.0F / how.scale))});
  return held(b_.op("round", "rounded", {scaled}), how, relu ? how.zero : how.low);
}

const QuantisedCalls::Layer& QuantisedCalls::layer(const ScriptValue& packed) {
  if (packed.object == nullptr) throw AtenUnknown{"packed weights that are no quantised layer's"};
  if (const auto at = layers_.find(packed.object); at != layers_.end()) return at->second;
  return layers_.emplace(packed.object, read(*packed.object)).first->second;
}

QuantisedCalls::Layer QuantisedCalls::read(const PickleValue& object) const {
  const PickleValue* weight = kept(object, "weight");
  if (weight == nullptr || !weight->is_object("torch._utils._rebuild_qtensor"))
    throw AtenUnknown{"packed weights that are no quantised layer's"};
  const auto codes = storages_.tensor(*weight);
  const PickleValue& scheme = pickle_item(*weight->args, 4, "a quantised tensor");
  const PickleValue &scale = pickle_item(scheme, 1, "a quantised tensor"),
                    &zero = pickle_item(scheme, 2, "a quantised tensor");
  if (!codes || codes->shape().rank() < 2) throw bad_input("a quantised layer without a weight");
  Layer l;
  const std::int64_t out = codes->shape()[0];
  std::vector<double> zeros;
  if (const auto scales = storages_.tensor(scale)) {
    const auto points = storages_.tensor(zero);
    const std::int64_t axis =
        pickle_integer(pickle_item(scheme, 3, "a quantised tensor"), "the axis of its scales");
    if (axis != 0 || scales->numel() != out || !points || points->numel() != out)
      throw AtenUnknown{"weights whose scales are not one for each output"};
    for (std::int64_t i = 0; i < out; ++i) {
      l.scales.push_back(static_cast<float>(load_as_double(*scales, i)));
      zeros.push_back(load_as_double(*points, i));
    }
  } else {
    l.scales = {static_cast<float>(scale.real)};
    zeros = {static_cast<double>(pickle_integer(zero, "a zero point"))};
  }
  l.codes = Tensor::uninitialized(DType::f32, codes->shape());
  const std::int64_t inner = out == 0 ? 1 : codes->numel() / out;
  for (std::int64_t i = 0; i < codes->numel(); ++i)
    l.codes.mutable_data<float>()[static_cast<std::size_t>(i)] =
        static_cast<float>(load_as_double(*codes, i) -
                           zeros[zeros.size() == 1 ? 0 : static_cast<std::size_t>(i / inner)]);
  if (const PickleValue* bias = kept(object, "bias"); bias != nullptr)
    if (auto t = storages_.tensor(*bias)) l.bias = as_f32(*t);
  if (const PickleValue* stride = kept(object, "stride")) {
    l.stride = pickle_ints(*stride, "a stride");
    l.padding = pickle_ints(*kept(object, "padding"), "a padding");
    l.dilation = pickle_ints(*kept(object, "dilation"), "a dilation");
    l.groups = pickle_integer(*kept(object, "groups"), "groups");
    if (kept(object, "transposed")->integer != 0)
      throw AtenUnknown{"a quantised transposed convolution"};
    // Other borders than zeros are put around the image before.
    if (kept(object, "padding_mode")->text != "zeros") std::ranges::fill(l.padding, 0);
  }
  return l;
}

ValueId QuantisedCalls::layered(ValueId x, const Layer& l, const How& out, bool relu, bool linear) {
  const How in = how(x);
  const std::int64_t channels = l.codes.shape()[0];
  ValueId sum = kAbsent;
  Shape by{channels};
  if (linear) {
    if (l.codes.shape().rank() != 2)
      throw bad_input("a linear layer of rank {}", l.codes.shape().rank());
    sum =
        b_.op("matmul", "sums",
              {shifted(x), b_.transpose("weight", b_.constant("weight", l.codes.share()), {1, 0})});
  } else {
    Ints dims(static_cast<std::size_t>(l.codes.shape().rank() - 1), 1);
    dims[0] = channels;
    by = Shape(dims);
    sum = b_.op("conv", "sums", {shifted(x), b_.constant("weight", l.codes.share())},
                {{"strides", l.stride},
                 {"pads_begin", l.padding},
                 {"pads_end", l.padding},
                 {"dilations", l.dilation},
                 {"groups", l.groups}});
  }
  Tensor factor = Tensor::uninitialized(DType::f32, by), bias = Tensor::zeros(DType::f32, by);
  for (std::size_t c = 0; c < static_cast<std::size_t>(channels); ++c) {
    const float product = in.scale * l.scales[l.scales.size() == 1 ? 0 : c];
    factor.mutable_data<float>()[c] = product / out.scale;
    if (l.bias) bias.mutable_data<float>()[c] = l.bias.data<float>()[c] / product;
  }
  if (l.bias) sum = b_.op("add", "biased", {sum, b_.constant("bias", std::move(bias))});
  const ValueId scaled = b_.op("mul", "scaled", {sum, b_.constant("scale", std::move(factor))});
  return held(b_.op("round", "rounded", {scaled}), out, relu ? out.zero : out.low);
}

ValueId QuantisedCalls::joined(const std::vector<ValueId>& tensors, std::int64_t axis,
                               const How& out, bool relu) {
  std::vector<ValueId> parts;
  for (const ValueId v : tensors)
    parts.push_back(how(v) == out && !relu ? v : quantised(real(v), out, relu));
  return keep(b_.op("concat", "cat", parts, {{"axis", axis}}), out);
}

ScriptValue QuantisedCalls::call(const std::string& op, const std::vector<ScriptValue>& args) {
  const auto unknown = [&] { return AtenUnknown{"a call of ops.quantized." + op}; };
  const bool relu = op.ends_with("_relu");
  const std::string kind = relu ? op.substr(0, op.size() - 5) : op;
  const auto tensor = [&](std::size_t i) {
    if (i >= args.size() || !args[i].is(Kind::tensor)) throw unknown();
    return args[i].plain.tensor;
  };
  const auto out = [&](std::size_t i) {
    if (args.size() != i + 2) throw unknown();
    return how_of(args[i].plain, args[i + 1].plain, kUnsigned);
  };
  const auto given = [](ValueId v) { return plain(AtenValue::of(v)); };
  const bool linear = kind == "linear";
  if (linear || kind == "conv1d" || kind == "conv2d" || kind == "conv3d") {
    const How h = out(2);
    b_.note(
        "quantised layers: sums of codes, scaled once, rounded to even, as fbgemm computes them");
    return given(layered(tensor(0), layer(args[1]), h, relu, linear));
  }
  if (kind == "add" || kind == "mul") {
    const How h = out(2);
    return given(quantised(b_.op(kind, kind, {real(tensor(0)), real(tensor(1))}), h, relu));
  }
  if (kind == "cat") {
    const How h = out(2);
    std::vector<ValueId> tensors;
    for (const ScriptValue& v : args[0].items()) {
      if (!v.is(Kind::tensor)) throw unknown();
      tensors.push_back(v.plain.tensor);
    }
    if (!args[1].is(Kind::integer)) throw unknown();
    return given(joined(tensors, args[1].plain.integer, h, relu));
  }
  if (op == "hardswish" || op == "sigmoid") {
    const How h = out(1);
    const ValueId x = real(tensor(0));
    const ValueId y =
        op == "sigmoid"
            ? b_.op("sigmoid", op, {x})
            : b_.op("mul", op,
                    {x, b_.op("hard_sigmoid", op, {x}, {{"alpha", 1.0F / 6}, {"beta", 0.5F}})});
    return given(quantised(y, h, false));
  }
  if (op == "leaky_relu") {
    const How h = out(3);
    if (!args[1].is(Kind::number)) throw unknown();
    return given(quantised(b_.op("leaky_relu", op, {real(tensor(0))},
                                 {{"alpha", static_cast<float>(args[1].plain.number)}}),
                           h, false));
  }
  throw unknown();
}

std::vector<ValueId> QuantisedCalls::aten(const std::string& op, const std::string& name,
                                          AtenCall& c) {
  if (op == "quantize_per_tensor") {
    const auto arg = [&](const char* key) {
      const AtenValue* v = c.find(key);
      if (v == nullptr) throw AtenUnknown{"a call of torch.quantize_per_tensor"};
      return *v;
    };
    return {quantised(c.tensor("self"),
                      how_of(arg("scale"), arg("zero_point"), c.integer("dtype", 0)), false)};
  }
  if (op == "dequantize") return {real(c.tensor("self"))};
  AtenValue* first = nullptr;
  for (const char* key : {"self", "input", "tensors"})
    if (const auto at = c.args.find(key); at != c.args.end()) {
      first = &at->second;
      break;
    }
  const auto is_quantised = [&](const AtenValue& v) {
    return v.kind == Kind::tensor && hows_.contains(v.tensor);
  };
  const bool list = first != nullptr && first->kind == Kind::list && !first->items.empty();
  if (first == nullptr || !is_quantised(list ? first->items[0] : *first))
    return translate_aten(b_, op, name, c);
  if (op == "cat" && list)
    return {joined(c.tensors("tensors"), c.integer("dim", 0), how(first->items[0].tensor), false)};
  const auto row = std::ranges::find(kRows, op, &Row::op);
  const ValueId codes = list ? kAbsent : first->tensor;
  const How in = how(list ? first->items[0].tensor : codes);
  if (op == "relu" || op == "relu_")
    return {keep(b_.op("max", name, {codes, number(static_cast<double>(in.zero))}), in)};
  if (list || row == std::end(kRows))
    throw AtenUnknown{"a call of torch." + op + " on a quantised tensor"};
  if (row->means == Means::averages) *first = AtenValue::of(shifted(codes));
  if (row->means == Means::reals) *first = AtenValue::of(real(codes));
  std::vector<ValueId> made = translate_aten(b_, op, name, c);
  How out = in;
  if (row->scale > 0) out.scale = row->scale, out.zero = row->zero;
  for (ValueId& v : made) {
    if (row->means == Means::averages)
      v = held(b_.op("round", "rounded", {v}), out, out.low);
    else if (row->means == Means::reals)
      v = quantised(v, out, false);
    else
      keep(v, out);
  }
  return made;
}

}  // namespace etalon::pytorch_format
