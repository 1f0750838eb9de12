// Products, norms, attention, pools and resizing.
//
// scaled_dot_product_attention is written as its definition: softmax(q k^T * scale + mask) v, each
// step rounds; a mask of truth leaves out where it is false. einsum becomes one product of matrices
// for two operands. An adaptive pool whose windows differ is a mean (or maximum) of each window.
#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/core/error.h"
#include "importers/formats/pytorch/aten_parts.h"
#include "importers/formats/scalar.h"
#include "importers/formats/translate.h"

namespace etalon::pytorch_format {
namespace {

using Kind = AtenValue::Kind;

constexpr AtenSignature kSignatures[] = {
    {"convolution",
     {"input", "weight", "bias", "stride", "padding", "dilation", "transposed", "output_padding",
      "groups"}},
    {"conv_transpose3d",
     {"input", "weight", "bias", "stride", "padding", "output_padding", "groups", "dilation"}},
    {"max_pool3d", {"self", "kernel_size", "stride", "padding", "dilation", "ceil_mode"}},
    {"avg_pool3d",
     {"self", "kernel_size", "stride", "padding", "ceil_mode", "count_include_pad",
      "divisor_override"}},
    {"max_pool2d_with_indices",
     {"self", "kernel_size", "stride", "padding", "dilation", "ceil_mode"}},
    {"adaptive_avg_pool1d", {"self", "output_size"}},
    {"adaptive_avg_pool2d", {"self", "output_size"}},
    {"adaptive_avg_pool3d", {"self", "output_size"}},
    {"_adaptive_avg_pool2d", {"self", "output_size"}},
    {"adaptive_max_pool1d", {"self", "output_size"}},
    {"adaptive_max_pool2d", {"self", "output_size"}},
    {"col2im", {"self", "output_size", "kernel_size", "dilation", "padding", "stride"}},
    {"baddbmm", {"self", "batch1", "batch2", "beta", "alpha"}},
    {"mv", {"self", "vec"}},
    {"dot", {"self", "tensor"}},
    {"outer", {"self", "vec2"}},
    {"einsum", {"equation", "tensors"}},
    {"instance_norm",
     {"input", "weight", "bias", "running_mean", "running_var", "use_input_stats", "momentum",
      "eps"}},
    {"rms_norm", {"input", "normalized_shape", "weight", "eps"}},
    {"native_layer_norm", {"input", "normalized_shape", "weight", "bias", "eps"}},
    {"native_group_norm", {"input", "weight", "bias", "N", "C", "HxW", "group", "eps"}},
    {"_native_batch_norm_legit_no_training",
     {"input", "weight", "bias", "running_mean", "running_var", "momentum", "eps"}},
    {"_softmax", {"self", "dim"}},
    {"_log_softmax", {"self", "dim"}},
    {"scaled_dot_product_attention",
     {"query", "key", "value", "attn_mask", "dropout_p", "is_causal", "scale", "enable_gqa"}},
    {"upsample_nearest1d", {"self", "output_size", "scale_factors"}},
    {"upsample_nearest2d", {"self", "output_size", "scale_factors"}},
    {"upsample_nearest3d", {"self", "output_size", "scale_factors"}},
    {"upsample_linear1d", {"self", "output_size", "align_corners", "scale_factors"}},
    {"upsample_bilinear2d", {"self", "output_size", "align_corners", "scale_factors"}},
    {"upsample_trilinear3d", {"self", "output_size", "align_corners", "scale_factors"}},
    {"upsample_bicubic2d", {"self", "output_size", "align_corners", "scale_factors"}},
    {"_upsample_bilinear2d_aa", {"self", "output_size", "align_corners", "scale_factors"}},
    {"_upsample_bicubic2d_aa", {"self", "output_size", "align_corners", "scale_factors"}},
    {"alpha_dropout", {"input", "p", "train"}},
    {"feature_alpha_dropout", {"input", "p", "train"}},
    {"native_dropout", {"input", "p", "train"}},
};

ValueId turned(GraphBuilder& b, const std::string& name, ValueId x) {
  Ints perm;
  for (int a = 0; a < b.rank(x); ++a) perm.push_back(a);
  if (perm.size() < 2) throw bad_input("a matrix of rank {}", perm.size());
  std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
  return b.transpose(name, x, perm);
}

ValueId attention(GraphBuilder& b, const std::string& name, const AtenCall& c) {
  const ValueId q = c.tensor("query"), v = c.tensor("value");
  ValueId k = c.tensor("key");
  if (q == kAbsent || k == kAbsent || v == kAbsent) throw AtenUnknown{"attention without tensors"};
  if (c.find("dropout_p") != nullptr && c.number("dropout_p", 0) != 0)
    throw AtenUnknown{"attention with dropout"};
  if (c.flag("enable_gqa", false)) throw AtenUnknown{"attention with grouped queries"};
  const Ints dims = b.dims(q), keys = b.dims(k);
  if (dims.size() < 2 || dims.back() < 1) throw AtenUnknown{"attention of a free width"};
  const float scale = c.find("scale") != nullptr
                          ? c.number("scale", 1)
                          : static_cast<float>(1 / std::sqrt(static_cast<double>(dims.back())));
  b.note("attention is written as its definition: softmax(q k' scale + mask) v, each step rounds.");
  ValueId s = b.op("matmul", name + ".scores", {q, turned(b, name + ".keys", k)});
  s = b.op("mul", name + ".scaled",
           {s, b.constant(name + ".scale", scalar_of(b.dtype(q), static_cast<double>(scale)))});
  const ValueId out = b.constant(name + ".minus_inf",
                                 scalar_of(b.dtype(q), -std::numeric_limits<double>::infinity()));
  if (c.flag("is_causal", false)) {
    const std::int64_t rows = dims[dims.size() - 2], columns = keys[keys.size() - 2];
    if (rows < 0 || columns < 0) throw AtenUnknown{"causal attention over a free length"};
    const ValueId all =
        b.op("expand", name + ".all", {b.constant(name + ".one", scalar_of(DType::f32, 1))},
             {{"shape", Ints{rows, columns}}});
    const ValueId seen =
        aten_cast(b, name + ".seen", b.op("trilu", name + ".lower", {all}, {{"upper", false}}),
                  DType::boolean);
    s = b.op("where", name + ".causal", {seen, s, out});
  }
  if (const ValueId mask = c.tensor("attn_mask"); mask != kAbsent)
    s = b.dtype(mask) == DType::boolean ? b.op("where", name + ".mask", {mask, s, out})
                                        : b.op("add", name + ".mask", {s, mask});
  return b.op("matmul", name,
              {b.op("softmax", name + ".weights", {s}, {{"axis", std::int64_t{-1}}}), v});
}

// Letters of two operands: those of both and the result, of both alone (summed), of one alone.
ValueId einsum(GraphBuilder& b, const std::string& name, const AtenCall& c) {
  const AtenValue* equation = c.find("equation");
  const std::vector<ValueId> in = c.tensors("tensors");
  if (equation == nullptr || equation->kind != Kind::text || in.size() != 2)
    throw AtenUnknown{"einsum of other than two operands"};
  std::string text;
  for (const char ch : equation->text)
    if (ch != ' ') text += ch;
  const std::size_t arrow = text.find("->"), comma = text.find(',');
  if (arrow == text.npos || comma == text.npos || comma > arrow || text.find('.') != text.npos)
    throw AtenUnknown{"einsum '" + text + "'"};
  const std::string letters[2] = {text.substr(0, comma), text.substr(comma + 1, arrow - comma - 1)};
  const std::string result = text.substr(arrow + 2);
  std::map<char, std::int64_t> extents;
  for (const std::size_t i : {std::size_t{0}, std::size_t{1}}) {
    const Ints dims = b.dims(in[i]);
    if (dims.size() != letters[i].size()) throw bad_input("einsum '{}' of other ranks", text);
    for (std::size_t a = 0; a < dims.size(); ++a) {
      if (letters[i].find(letters[i][a]) != a) throw AtenUnknown{"einsum '" + text + "'"};
      extents[letters[i][a]] = dims[a];
    }
  }
  std::string both, summed, own[2];
  for (const std::size_t i : {std::size_t{0}, std::size_t{1}})
    for (const char ch : letters[i]) {
      const bool shared = letters[1 - i].find(ch) != std::string::npos,
                 kept = result.find(ch) != std::string::npos;
      if (!shared && !kept) throw AtenUnknown{"einsum '" + text + "'"};
      if (!shared)
        own[i] += ch;
      else if (i == 0)
        (kept ? both : summed) += ch;
    }
  if (result.size() != both.size() + own[0].size() + own[1].size())
    throw AtenUnknown{"einsum '" + text + "'"};
  const auto product = [&](const std::string& group) {
    std::int64_t n = 1;
    for (const char ch : group) {
      if (extents[ch] < 0) return std::int64_t{-1};
      n *= extents[ch];
    }
    return n;
  };
  const auto arranged = [&](std::size_t i, const std::string& middle, const std::string& last) {
    Ints perm;
    for (const char ch : both + middle + last)
      perm.push_back(static_cast<std::int64_t>(letters[i].find(ch)));
    const std::string role = fmt::format("{}.operand{}", name, i);
    return b.reshape(role + ".rows", b.transpose(role, in[i], perm),
                     {product(both), product(middle), product(last)});
  };
  ValueId y =
      b.op("matmul", name + ".product", {arranged(0, own[0], summed), arranged(1, summed, own[1])});
  const std::string order = both + own[0] + own[1];
  Ints to, perm;
  for (const char ch : order) to.push_back(extents[ch]);
  for (const char ch : result) perm.push_back(static_cast<std::int64_t>(order.find(ch)));
  return b.transpose(name, b.reshape(name + ".axes", y, to), perm);
}

// scales of the last axes, or their sizes.
ValueId resize(GraphBuilder& b, const std::string& op, const std::string& name, ValueId x,
               const AtenCall& c) {
  const std::int64_t axes = b.rank(x) - 2;
  if (axes < 1 || axes > 3) throw bad_input("an image of rank {}", b.rank(x));
  const bool nearest = op.find("nearest") != op.npos, cubic = op.find("cubic") != op.npos,
             smooth = op.ends_with("_aa");
  Fields f{{"mode", std::string(nearest ? "nearest"
                                : cubic ? "cubic"
                                        : "linear")},
           {"coordinate_transformation_mode",
            std::string(nearest                          ? "asymmetric"
                        : c.flag("align_corners", false) ? "align_corners"
                                                         : "half_pixel")}};
  if (nearest) f.emplace_back("nearest_mode", std::string("floor"));
  if (cubic) f.emplace_back("cubic_coeff_a", smooth ? -0.5F : -0.75F);
  if (smooth) {
    f.emplace_back("antialias", true);
    f.emplace_back("exclude_outside", true);
  }
  Ints last;
  for (std::int64_t a = 0; a < axes; ++a) last.push_back(2 + a);
  f.emplace_back("axes", last);
  const AtenValue* scales = c.find("scale_factors");
  if (scales != nullptr && scales->kind == Kind::list && !scales->items.empty()) {
    std::vector<float> by;
    for (const AtenValue& v : scales->items) {
      if (v.kind != Kind::number && v.kind != Kind::integer)
        throw AtenUnknown{"a scale that is no known number"};
      by.push_back(
          static_cast<float>(v.kind == Kind::number ? v.number : static_cast<double>(v.integer)));
    }
    f.emplace_back("scales", by);
  } else {
    const Ints sizes = free_extents(c, "output_size");
    if (static_cast<std::int64_t>(sizes.size()) != axes ||
        std::ranges::any_of(sizes, [](std::int64_t n) { return n < 0; }))
      throw AtenUnknown{"a resize to a free extent"};
    f.emplace_back("sizes", sizes);
  }
  b.note(fmt::format("{}: {}", op,
                     nearest ? "pixels by floor(i / scale)"
                     : c.flag("align_corners", false)
                         ? "corners are aligned"
                         : "centres of pixels are aligned (align_corners false)"));
  return b.op("resize", name, {x}, f);
}

ValueId adaptive(GraphBuilder& b, const std::string& name, ValueId x, const AtenCall& c,
                 bool average) {
  const auto axes = static_cast<std::size_t>(b.rank(x) - 2);
  Ints out = c.ints("output_size", {1});
  const Ints dims = b.dims(x);
  out.resize(axes, out[0]);
  if (std::ranges::all_of(out, [](std::int64_t o) { return o == 1; }))
    return b.op(average ? "global_avg_pool" : "global_max_pool", name, {x});
  bool even = true;
  std::int64_t windows = 1;
  Ints kernel, reduced;
  for (std::size_t a = 0; a < axes; ++a) {
    const std::int64_t in = dims[a + 2];
    if (in < 1) throw AtenUnknown{"an adaptive pool of a free extent"};
    if (out[a] < 1 || out[a] > 4096) throw bad_input("{} windows", out[a]);
    even = even && in % out[a] == 0;
    kernel.push_back(in / out[a]);
    windows *= out[a];
    reduced.push_back(static_cast<std::int64_t>(a) + 2);
  }
  if (even)
    return average ? b.op("avg_pool", name, {x},
                          {{"kernel", kernel}, {"strides", kernel}, {"count_include_pad", true}})
                   : b.op("max_pool", name, {x}, {{"kernel", kernel}, {"strides", kernel}});
  if (windows > 1024) throw AtenUnknown{"an adaptive pool of more than 1024 uneven windows"};
  b.note("an adaptive pool: window i reaches from floor(i n / out) to ceil((i + 1) n / out).");
  std::vector<ValueId> parts;
  for (std::int64_t w = 0; w < windows; ++w) {
    Ints begin(axes), end(axes);
    std::int64_t left = w;
    for (std::size_t a = axes; a-- > 0;) {
      const std::int64_t i = left % out[a], in = dims[a + 2];
      left /= out[a];
      begin[a] = i * in / out[a];
      end[a] = ((i + 1) * in + out[a] - 1) / out[a];
    }
    const ValueId piece =
        b.op("slice", name + ".window", {x}, {{"starts", begin}, {"ends", end}, {"axes", reduced}});
    parts.push_back(b.op(average ? "reduce_mean" : "reduce_max", name + ".value", {piece},
                         {{"axes", reduced}, {"keepdims", false}}));
  }
  for (ValueId& p : parts) p = b.op("unsqueeze", name + ".place", {p}, {{"axes", Ints{2}}});
  Ints to{0, 0};
  to.insert(to.end(), out.begin(), out.end());
  return b.reshape(name, b.op("concat", name + ".all", parts, {{"axis", std::int64_t{2}}}), to);
}

ValueId norm_weight(GraphBuilder& b, const std::string& name, ValueId given, std::int64_t n,
                    float value) {
  return given != kAbsent ? given : b.constant(name, filled_f32(n, value));
}

AtenOutputs norms(GraphBuilder& b, const std::string& op, const std::string& name, ValueId x,
                  const AtenCall& c) {
  if (op == "instance_norm") {
    if (!c.flag("use_input_stats", true)) {
      AtenCall d = c;
      return translate_aten(b, "batch_norm", name, d);
    }
    const std::int64_t n = b.dims(x).at(1);
    if (n < 0) throw AtenUnknown{"instance_norm of free channels"};
    return {{b.op("instance_norm", name,
                  {x, norm_weight(b, name + ".weight", c.tensor("weight"), n, 1),
                   norm_weight(b, name + ".bias", c.tensor("bias"), n, 0)},
                  {{"eps", c.number("eps", 1e-5F)}})}};
  }
  if (op == "rms_norm") {
    const Ints shape = c.ints("normalized_shape", {});
    ValueId w = c.tensor("weight");
    if (w == kAbsent) {
      std::int64_t n = 1;
      for (const std::int64_t d : shape) n *= d;
      w = b.reshape(name + ".ones", b.constant(name + ".weight", filled_f32(n, 1)), shape);
    }
    const float eps = c.number("eps", std::numeric_limits<float>::epsilon());
    return {{b.op("rms_norm", name, {x, w},
                  {{"axis", -static_cast<std::int64_t>(shape.size())}, {"eps", eps}})}};
  }
  if (op == "native_layer_norm") {
    auto y = translate_aten(b, "layer_norm", name, c);
    return {{y[0], kAbsent, kAbsent}};
  }
  if (op == "native_group_norm") {
    AtenCall d = c;
    d.args["num_groups"] = AtenValue::of_integer(c.integer("group", 1));
    return {{translate_aten(b, "group_norm", name, d)[0], kAbsent, kAbsent}};
  }
  if (op == "_native_batch_norm_legit_no_training")
    return {{translate_aten(b, "batch_norm", name, c)[0], kAbsent, kAbsent}};
  return std::nullopt;
}

}  // namespace

std::span<const AtenSignature> layer_signatures() { return kSignatures; }

AtenOutputs translate_layers(GraphBuilder& b, const std::string& op, const std::string& name,
                             const AtenCall& c) {
  const bool ours = std::ranges::any_of(kSignatures, [&](const auto& s) { return s.op == op; });
  if (!ours) return std::nullopt;
  if (op == "scaled_dot_product_attention") return {{attention(b, name, c)}};
  if (op == "einsum") return {{einsum(b, name, c)}};
  if (op == "convolution" || op == "conv_transpose3d" || op == "max_pool3d" || op == "avg_pool3d")
    return std::nullopt;  // as their kin of two axes, in aten.cpp
  const ValueId x = first_tensor(c, op);
  if (op == "max_pool2d_with_indices")
    return {{translate_aten(b, "max_pool2d", name, c)[0], kAbsent}};
  if (op.find("adaptive_avg") != op.npos) return {{adaptive(b, name, x, c, true)}};
  if (op.find("adaptive_max") != op.npos) return {{adaptive(b, name, x, c, false), kAbsent}};
  if (op.find("upsample") != op.npos) return {{resize(b, op, name, x, c)}};
  if (op == "col2im") {
    const Ints pads = c.ints("padding", {0, 0});
    return {{b.op("col2im", name, {x},
                  {{"image_shape", c.ints("output_size", {})},
                   {"block_shape", c.ints("kernel_size", {})},
                   {"strides", c.ints("stride", {1, 1})},
                   {"dilations", c.ints("dilation", {1, 1})},
                   {"pads_begin", pads},
                   {"pads_end", pads}})}};
  }
  if (op == "baddbmm") {
    if (c.number("alpha", 1) != 1) throw AtenUnknown{"baddbmm with a factor"};
    const ValueId y = b.op("matmul", name + ".product", {c.tensor("batch1"), c.tensor("batch2")});
    return {{c.number("beta", 1) == 0 ? y : b.op("add", name, {y, x})}};
  }
  if (op == "mv") return {{b.op("matmul", name, {x, c.tensor("vec")})}};
  if (op == "dot") return {{b.op("matmul", name, {x, c.tensor("tensor")})}};
  if (op == "outer")
    return {
        {b.op("mul", name,
              {b.op("unsqueeze", name + ".column", {x}, {{"axes", Ints{1}}}), c.tensor("vec2")})}};
  if (op == "_softmax" || op == "_log_softmax")
    return {{b.op(op.substr(1), name, {x}, {{"axis", c.integer("dim", -1)}})}};
  if (op.find("dropout") != op.npos) {
    if (c.flag("train", false)) throw AtenUnknown{op + " in training"};
    return {{x}};
  }
  return norms(b, op, name, x, c);
}

}  // namespace etalon::pytorch_format
