#include "bench/compare/hypotheses.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "bench/compare/param_fields.h"
#include "engine/numerics/element.h"

namespace etalon {
namespace {

using List = std::vector<Hypothesis>;

// ---- inputs in a narrower format ----------------------------------------------------------------

template <class F>
Tensor mapped(const Tensor& t, F&& f) {
  Tensor copy = t.clone();
  for (float& x : copy.mutable_data<float>()) x = f(x);
  return copy;
}

float truncate_tf32(float x) { return float_of(bits_of(x) & 0xffffe000U); }
float nearest_tf32(float x) {
  const std::uint32_t b = bits_of(x);
  if ((b & 0x7f800000U) == 0x7f800000U) return x;
  return float_of((b + 0xfffU + ((b >> 13) & 1)) & 0xffffe000U);
}
float nearest(float x, DType dtype) {
  return static_cast<float>(round_to(static_cast<double>(x), dtype));
}

struct InputFormat {
  const char* name;
  float (*convert)(float);
};
constexpr InputFormat kInputFormats[] = {
    {"TF32 (truncated)", truncate_tf32},
    {"TF32 (rounded)", nearest_tf32},
    {"bf16", [](float x) { return nearest(x, DType::bf16); }},
    {"bf16 (truncated)", [](float x) { return float_of(bits_of(x) & 0xffff0000U); }},
    {"f16", [](float x) { return nearest(x, DType::f16); }},
};

bool is_f32(const Tensor& t) { return t && t.dtype() == DType::f32; }

// The operands of products, not biases: the first two inputs of sums, the first three of recurrent
// cells.
void add_input_formats(const Layer& layer, List& list) {
  const bool recurrent =
      layer.op->name == "lstm" || layer.op->name == "gru" || layer.op->name == "rnn";
  const std::size_t operands = std::min<std::size_t>(layer.inputs.size(), recurrent ? 3 : 2);
  if (operands < 2 || (layer.op->nature != OpNature::sum && !recurrent)) return;
  for (std::size_t i = 0; i < operands; ++i)
    if (!is_f32(layer.inputs[i])) return;
  const auto names = layer.op->input_names();
  for (const InputFormat& f : kInputFormats) {
    Layer both = layer.share();
    for (std::size_t i = 0; i < operands; ++i) both.inputs[i] = mapped(layer.inputs[i], f.convert);
    list.push_back({fmt::format("inputs of the products are {}", f.name), Verdict::lower_precision,
                    std::move(both)});
    for (std::size_t i = 0; i < operands; ++i) {
      Layer one = layer.share();
      one.inputs[i] = mapped(layer.inputs[i], f.convert);
      list.push_back({fmt::format("input {} is {}", i < names.size() ? names[i] : "", f.name),
                      Verdict::lower_precision, std::move(one)});
    }
  }
}

float flushed(float x) { return std::fabs(x) < 0x1p-126F ? std::copysign(0.0F, x) : x; }

void add_flush(const Layer& layer, List& list) {
  Layer flush = layer.share();
  bool changed = false;
  for (Tensor& t : flush.inputs)
    if (is_f32(t)) {
      Tensor copy = mapped(t, flushed);
      changed |= std::memcmp(copy.bytes().data(), t.bytes().data(), t.size_bytes()) != 0;
      t = std::move(copy);
    }
  if (changed)
    list.push_back({"subnormal inputs and results are flushed to zero", Verdict::lower_precision,
                    std::move(flush), true});
  list.push_back(
      {"subnormal results are flushed to zero", Verdict::lower_precision, layer.share(), true});
}

// ---- parameters
// -----------------------------------------------------------------------------------

void add_param(const Layer& layer, std::string_view field, FieldValue value, std::string cause,
               List& list) {
  Layer changed = layer.share();
  changed.params = with_field(layer.params, field, std::move(value));
  list.push_back({std::move(cause), Verdict::wrong, std::move(changed)});
}

// Values that frameworks are known to use where another was meant.
struct KnownFloats {
  std::string_view field;
  std::vector<float> values;
};
const std::vector<KnownFloats>& known_floats() {
  static const std::vector<KnownFloats> table = {
      {"eps", {1e-3F, 1e-5F, 2e-5F, 1e-4F, 1e-6F, 1e-7F, 1e-8F, 1e-10F, 1e-12F, 0.0F}},
      {"alpha", {1.0F, 0.01F, 0.1F, 0.2F, 0.3F, 0.25F, 1e-4F, 1e-5F, 0.5F, 2e-5F}},
      {"beta", {0.5F, 0.75F, 1.0F, 0.2F, 0.0F}},
      {"bias", {1.0F, 2.0F, 0.0F}},
      {"k", {1.0F, 2.0F}},
  };
  return table;
}

struct KnownTexts {
  std::string_view field;
  std::vector<std::string> values;
};
const std::vector<KnownTexts>& known_texts() {
  static const std::vector<KnownTexts> table = {
      {"auto_pad", {"same_upper", "same_lower", "valid", "explicit"}},
      {"approximate", {"none", "tanh"}},
      {"direction", {"forward", "reverse", "bidirectional"}},
      {"coordinate_transformation_mode",
       {"half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "tf_half_pixel_for_nn",
        "half_pixel_symmetric"}},
      {"nearest_mode", {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"}},
      // Of pads, and of depth and space: a row offers what its own op has.
      {"mode", {"constant", "reflect", "edge", "wrap"}},
      {"mode", {"DCR", "CRD"}},
  };
  return table;
}

void add_fields(const Layer& layer, List& list) {
  const std::vector<ParamField> fields = fields_of(layer.params);
  for (const ParamField& f : fields) {
    if (const bool* b = std::get_if<bool>(&f.value))
      add_param(layer, f.name, !*b, fmt::format("{} is taken as {}, not {}", f.name, !*b, *b),
                list);
    if (const float* x = std::get_if<float>(&f.value)) {
      for (const KnownFloats& known : known_floats())
        if (known.field == f.name)
          for (const float v : known.values)
            if (v != *x)
              add_param(
                  layer, f.name, v,
                  fmt::format("{} is {:g}, not {:g}", f.name == "eps" ? "epsilon" : f.name, v, *x),
                  list);
      if (f.name == "alpha")  // LRN: alpha over the size, or each term's
        if (const ParamField* size = find_field(fields, "size"))
          if (const auto* n = std::get_if<std::int64_t>(&size->value)) {
            const auto s = static_cast<float>(*n);
            add_param(layer, f.name, *x * s, "alpha is not divided by size", list);
            add_param(layer, f.name, *x / s, "alpha is divided by size twice", list);
          }
    }
    if (const auto* t = std::get_if<std::string>(&f.value))
      for (const KnownTexts& known : known_texts())
        if (known.field == f.name && std::ranges::find(known.values, *t) != known.values.end())
          for (const std::string& v : known.values)
            if (v != *t)
              add_param(layer, f.name, v, fmt::format("{} is {}, not {}", f.name, v, *t), list);
    if (const auto* n = std::get_if<std::int64_t>(&f.value)) {
      if (f.name == "axis" && !layer.inputs.empty() && layer.inputs[0]) {
        const int rank = layer.inputs[0].shape().rank();
        for (std::int64_t a = 0; a < rank; ++a)
          if (a != *n && a - rank != *n)
            add_param(layer, f.name, a, fmt::format("axis is {}, not {}", a, *n), list);
      }
      if (f.name == "size")
        for (const std::int64_t step : {-2, -1, 1, 2})
          if (*n + step > 0)
            add_param(layer, f.name, *n + step, fmt::format("size is {}, not {}", *n + step, *n),
                      list);
    }
  }
}

void add_padding(const Layer& layer, List& list) {
  const std::vector<ParamField> fields = fields_of(layer.params);
  const ParamField* begin_field = find_field(fields, "pads_begin");
  const ParamField* end_field = find_field(fields, "pads_end");
  if (begin_field == nullptr || end_field == nullptr) return;
  Ints begin = std::get<Ints>(begin_field->value), end = std::get<Ints>(end_field->value);
  const std::size_t axes = std::max(begin.size(), end.size());
  if (axes == 0) return;
  begin.resize(axes, 0);
  end.resize(axes, 0);
  const auto add = [&](const Ints& b, const Ints& e, std::string_view cause) {
    if (b == begin && e == end) return;
    for (std::size_t i = 0; i < axes; ++i)
      if (b[i] < 0 || e[i] < 0) return;
    Layer changed = layer.share();
    changed.params = with_field(with_field(layer.params, "pads_begin", b), "pads_end", e);
    list.push_back({fmt::format("{} (before [{}], after [{}]; given before [{}], after [{}])",
                                cause, fmt::join(b, ","), fmt::join(e, ","), fmt::join(begin, ","),
                                fmt::join(end, ",")),
                    Verdict::wrong, std::move(changed)});
  };
  Ints even_b(axes), even_e(axes), lower_b(axes), lower_e(axes), first_b(axes), last_e(axes);
  const Ints zero(axes, 0);
  for (std::size_t i = 0; i < axes; ++i) {
    const std::int64_t total = begin[i] + end[i];
    even_b[i] = total / 2;
    even_e[i] = total - total / 2;
    lower_b[i] = total - total / 2;
    lower_e[i] = total / 2;
    first_b[i] = total;
    last_e[i] = total;
  }
  add(even_b, even_e, "asymmetric padding is split evenly, the odd element after");
  add(lower_b, lower_e, "asymmetric padding is split evenly, the odd element before");
  add(end, begin, "padding before and after are swapped");
  add(first_b, zero, "all padding lies before");
  add(zero, last_e, "all padding lies after");
  for (const std::int64_t step : {-1, 1}) {
    Ints b = begin, e = end;
    for (std::size_t i = 0; i < axes; ++i) {
      b[i] += step;
      e[i] -= step;
    }
    add(b, e, "the padding is shifted by one element");
  }
  // Padding on both sides by the larger: frameworks that pad symmetrically and cut the rest. The
  // shape then differs, unless the stride hides it.
  Ints larger(axes);
  for (std::size_t i = 0; i < axes; ++i) larger[i] = std::max(begin[i], end[i]);
  add(larger, larger, "asymmetric padding is taken as symmetric");
}

// ---- weights and layouts ------------------------------------------------------------------------

// Every other order of the gates' blocks in w, r and b.
void add_gate_orders(const Layer& layer, List& list) {
  const std::vector<ParamField> fields = fields_of(layer.params);
  const ParamField* gates = find_field(fields, "gates");
  if (gates == nullptr || !std::holds_alternative<std::string>(gates->value)) return;
  const std::string given = std::get<std::string>(gates->value);
  std::string order = given;
  std::ranges::sort(order);
  do {
    if (order != given)
      add_param(layer, "gates", order,
                fmt::format("the gates' weights are read in the order {}, not {}", order, given),
                list);
  } while (std::ranges::next_permutation(order).found);
}

// Convolution instead of cross-correlation.
void add_kernel_flip(const Layer& layer, List& list) {
  if ((layer.op->name != "conv" && layer.op->name != "conv_transpose") || layer.inputs.size() < 2 ||
      !is_f32(layer.inputs[1]))
    return;
  const Shape& s = layer.inputs[1].shape();
  const auto taps = static_cast<std::size_t>(s.product(2, s.rank()));
  if (taps < 2) return;
  Layer flipped = layer.share();
  Tensor w = layer.inputs[1].clone();
  auto data = w.mutable_data<float>();
  for (std::size_t i = 0; i < data.size(); i += taps)
    std::reverse(data.begin() + static_cast<std::ptrdiff_t>(i),
                 data.begin() + static_cast<std::ptrdiff_t>(i + taps));
  flipped.inputs[1] = std::move(w);
  list.push_back({"the kernel is flipped", Verdict::wrong, std::move(flipped)});
}

void add_bias(const Layer& layer, List& list) {
  if (layer.op->name != "conv" && layer.op->name != "gemm" && layer.op->name != "conv_transpose")
    return;
  if (layer.inputs.size() < 3 || !is_f32(layer.inputs[2])) return;
  Layer without = layer.share();
  without.inputs[2] = Tensor();
  list.push_back({"the bias is not added", Verdict::wrong, std::move(without)});
}

// scale / sqrt(var + eps) and bias - mean * that, each rounded to f32 beforehand.
void add_folded_batch_norm(const Layer& layer, List& list) {
  if (layer.op->name != "batch_norm" || layer.inputs.size() < 5) return;
  for (std::size_t i = 1; i < 5; ++i)
    if (!is_f32(layer.inputs[i])) return;
  const std::vector<ParamField> fields = fields_of(layer.params);
  const ParamField* eps = find_field(fields, "eps");
  if (eps == nullptr || !std::holds_alternative<float>(eps->value)) return;
  const float e = std::get<float>(eps->value);
  for (const bool reciprocal : {false, true}) {
    Layer folded = layer.share();
    for (std::size_t i = 1; i < 5; ++i) folded.inputs[i] = layer.inputs[i].clone();
    auto scale = folded.inputs[1].mutable_data<float>(),
         bias = folded.inputs[2].mutable_data<float>(),
         mean = folded.inputs[3].mutable_data<float>(),
         var = folded.inputs[4].mutable_data<float>();
    for (std::size_t c = 0; c < scale.size(); ++c) {
      const float root = std::sqrt(var[c] + e);
      const float a = reciprocal ? scale[c] * (1.0F / root) : scale[c] / root;
      bias[c] = bias[c] - mean[c] * a;
      scale[c] = a;
      mean[c] = 0;
      var[c] = 1;
    }
    folded.params = with_field(layer.params, "eps", 0.0F);
    list.push_back({"batch normalisation is folded into one scale and shift, rounded beforehand",
                    Verdict::lower_precision, std::move(folded)});
  }
}

// Where several elements of a window are NaN, the last is named instead of the first: indices as if
// a later NaN were greater. Each element becomes its rank in its plane, NaN above all.
void add_last_nan(const Layer& layer, List& list) {
  if (layer.op->name != "max_pool" || layer.inputs.empty() || !is_f32(layer.inputs[0])) return;
  const Tensor& x = layer.inputs[0];
  const auto in = x.data<float>();
  if (std::ranges::none_of(in, [](float v) { return v != v; }) || in.size() > (1U << 23)) return;
  std::vector<float> finite(in.begin(), in.end());
  std::erase_if(finite, [](float v) { return v != v; });
  std::ranges::sort(finite);
  Layer ranked = layer.share();
  ranked.inputs[0] = x.clone();
  const auto most = static_cast<float>(finite.size());
  float nans = 0;
  for (float& v : ranked.inputs[0].mutable_data<float>())
    v = v != v ? most + ++nans
               : static_cast<float>(std::ranges::lower_bound(finite, v) - finite.begin());
  list.push_back(
      {"of several NaN in a window the last is named, not the first (PyTorch, "
       "aten/src/ATen/native/cpu/MaxPoolKernel.cpp: val > max || isnan(val))",
       Verdict::wrong, std::move(ranked)});
}

// max(NaN, x) = x instead of NaN.
void add_nan_convention(const Layer& layer, List& list) {
  const std::string_view op = layer.op->name;
  const bool greatest = op == "relu" || op == "max_pool" || op == "max" ||
                        op == "global_max_pool" || op == "clip" || op == "reduce_max" ||
                        op == "arg_max" || op == "hardmax" || op == "top_k";
  const bool least = op == "min" || op == "reduce_min" || op == "arg_min";
  if (!greatest && !least) return;
  Layer quiet = layer.share();
  bool changed = false;
  for (Tensor& t : quiet.inputs)
    if (is_f32(t))
      t = mapped(t, [&](float x) {
        if (x == x) return x;
        changed = true;
        return greatest ? -HUGE_VALF : HUGE_VALF;
      });
  if (changed)
    list.push_back({"NaN is ignored instead of propagated", Verdict::wrong, std::move(quiet)});
}

}  // namespace

std::vector<Hypothesis> hypotheses_for(const Layer& layer) {
  List list;
  add_input_formats(layer, list);
  add_flush(layer, list);
  // Before the fields: of two replays that explain equally well the first is named, and a padding
  // says more than an auto_pad that amounts to it.
  add_padding(layer, list);
  add_fields(layer, list);
  add_gate_orders(layer, list);
  add_kernel_flip(layer, list);
  add_bias(layer, list);
  add_folded_batch_norm(layer, list);
  add_nan_convention(layer, list);
  add_last_nan(layer, list);
  return list;
}

std::vector<ContractReplay> narrow_contracts(std::int64_t terms) {
  std::vector<ContractReplay> list;
  std::vector<std::string> orders = {"seq", "pairwise:1"};
  for (const int n : {4, 8, 16, 32})
    if (n < terms) orders.push_back(fmt::format("lanes:{}", n));
  for (const int n : {16, 32, 64, 128, 256})
    if (n < terms) orders.push_back(fmt::format("blocks:{}", n));
  for (const std::string& order : orders) {
    for (const char* acc : {"bf16", "f16"})
      for (const char* fma : {"on", "off"})
        list.push_back(
            {Contract::parse(fmt::format("acc={},order={},fma={}", acc, order, fma)),
             fmt::format("sums are accumulated in {} (order={}, fma={})", acc, order, fma)});
    list.push_back({Contract::parse(fmt::format("round=rz,order={}", order)),
                    fmt::format("sums are rounded toward zero (order={})", order)});
  }
  return list;
}

}  // namespace etalon
