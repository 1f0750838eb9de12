// Windows: Conv, ConvTranspose, pooling. And Gemm, MatMul.
//
// auto_pad: NOTSET reads pads (all begins, then all ends); SAME_UPPER and SAME_LOWER stay rules of
// the op, for they need the input's extent; VALID is no padding.
#include "engine/core/error.h"
#include "importers/formats/onnx/families.h"

namespace etalon::onnx_format {

Fields window_fields(OnnxNode& n) {
  Fields f;
  const std::string auto_pad = n.text("auto_pad", "NOTSET");
  const Ints pads = n.integers("pads");
  for (const std::int64_t p : pads)
    if (p < 0) throw bad_input("pads holds {}; a window cannot pad by less than 0", p);
  if (auto_pad == "NOTSET" || auto_pad.empty()) {
    if (pads.size() % 2 != 0)
      throw bad_input("pads has {} entries, expected a begin and an end for each axis",
                      pads.size());
    const auto half = pads.begin() + static_cast<std::ptrdiff_t>(pads.size() / 2);
    f.emplace_back("pads_begin", Ints(pads.begin(), half));
    f.emplace_back("pads_end", Ints(half, pads.end()));
  } else if (auto_pad == "SAME_UPPER" || auto_pad == "SAME_LOWER") {
    f.emplace_back("auto_pad", auto_pad == "SAME_UPPER" ? "same_upper" : "same_lower");
    n.note(
        fmt::format("auto_pad {} pads so that the output has ceil(input / stride) points, the "
                    "odd element at the {}",
                    auto_pad, auto_pad == "SAME_UPPER" ? "end" : "begin"));
  } else if (auto_pad == "VALID") {
    f.emplace_back("auto_pad", "valid");
  } else {
    throw bad_input("auto_pad is '{}', expected NOTSET, SAME_UPPER, SAME_LOWER or VALID",
                    printable(auto_pad));
  }
  f.emplace_back("strides", n.integers("strides"));
  return f;
}

namespace {

void conv(OnnxNode& n) {
  Fields f = window_fields(n);
  f.emplace_back("dilations", n.integers("dilations"));
  f.emplace_back("groups", n.integer("group", 1));
  n.ignore("kernel_shape");  // the weight's own extents decide
  n.emit("conv", f);
}

void conv_transpose(OnnxNode& n) {
  Fields f = window_fields(n);
  f.emplace_back("dilations", n.integers("dilations"));
  f.emplace_back("groups", n.integer("group", 1));
  f.emplace_back("output_padding", n.integers("output_padding"));
  Ints shape = n.integers("output_shape");
  f.emplace_back("output_shape", std::move(shape));
  n.ignore("kernel_shape");
  n.emit("conv_transpose", f);
}

void col2im(OnnxNode& n) {
  Fields f = window_fields(n);
  f.emplace_back("dilations", n.integers("dilations"));
  n.emit("col2im", f);
}

void gemm(OnnxNode& n) {
  Fields f{{"alpha", n.number("alpha", 1.0F)},
           {"beta", n.number("beta", 1.0F)},
           {"trans_a", n.flag("transA", false)},
           {"trans_b", n.flag("transB", false)}};
  if (n.opset() < 7 && n.has(2) && !n.flag("broadcast", false))
    n.note("Gemm before opset 7 without broadcast takes a C of full shape");
  n.emit("gemm", f);
}

Fields pool_fields(OnnxNode& n, std::int64_t dilations_since, std::int64_t ceil_since) {
  Fields f = window_fields(n);
  const Ints kernel = n.integers("kernel_shape");
  if (kernel.empty()) throw bad_input("attribute kernel_shape is missing");
  f.emplace_back("kernel", kernel);
  if (n.opset() >= dilations_since) f.emplace_back("dilations", n.integers("dilations"));
  if (n.opset() >= ceil_since) {
    f.emplace_back("ceil_mode", n.flag("ceil_mode", false));
    if (n.flag("ceil_mode", false))
      n.note("ceil_mode=1: a last window that would begin in the padding behind is left out");
  }
  return f;
}

void max_pool(OnnxNode& n) {
  Fields f = pool_fields(n, 10, 10);
  const bool column_major = n.opset() >= 8 && n.flag("storage_order", false);
  if (n.wants(1)) {
    f.emplace_back("indices", "tensor");
    f.emplace_back("column_major", column_major);
  }
  n.emit("max_pool", f);
}

void average_pool(OnnxNode& n) {
  Fields f = pool_fields(n, 19, 10);
  const bool counted = n.opset() >= 7 && n.flag("count_include_pad", false);
  f.emplace_back("count_include_pad", counted);
  n.note(fmt::format("AveragePool divides by the taps {} (count_include_pad={})",
                     counted ? "of the window, padding among them" : "inside the input",
                     counted ? 1 : 0));
  n.emit("avg_pool", f);
}

// p is a float in opset 1 and an integer since.
float norm(OnnxNode& n) {
  return n.opset() < 2 ? n.number("p", 2.0F) : static_cast<float>(n.integer("p", 2));
}

void lp_pool(OnnxNode& n) {
  Fields f = pool_fields(n, 18, 18);
  f.emplace_back("p", norm(n));
  n.emit("lp_pool", f);
}

constexpr TranslatorRow kRows[] = {
    {"Conv", conv},
    {"ConvTranspose", conv_transpose},
    {"Col2Im", col2im},
    {"Gemm", gemm},
    {"MatMul", [](OnnxNode& n) { n.emit("matmul"); }},
    {"MaxPool", max_pool},
    {"AveragePool", average_pool},
    {"LpPool", lp_pool},
    {"GlobalMaxPool", [](OnnxNode& n) { n.emit("global_max_pool"); }},
    {"GlobalAveragePool", [](OnnxNode& n) { n.emit("global_avg_pool"); }},
    {"GlobalLpPool", [](OnnxNode& n) { n.emit("global_lp_pool", {{"p", norm(n)}}); }},
};

}  // namespace

std::span<const TranslatorRow> window_family() { return kRows; }

}  // namespace etalon::onnx_format
