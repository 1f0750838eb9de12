// Windows, normalisation and recurrent ops: those whose conventions take several attributes.
#include <algorithm>
#include <cmath>

#include "engine/core/error.h"
#include "importers/formats/onnx/export.h"

namespace etalon::onnx_format {
namespace {

void window(NodeWriter& w, pb::NodeProto& n, bool ceil_mode) {
  const std::string& auto_pad = w.text("auto_pad");
  if (auto_pad == "explicit") {
    Ints begin = w.integers("pads_begin"), end = w.integers("pads_end");
    begin.resize(std::max(begin.size(), end.size()), 0);
    end.resize(begin.size(), 0);
    begin.insert(begin.end(), end.begin(), end.end());
    if (!begin.empty()) set(n, "pads", begin);
  } else {
    set(n, "auto_pad",
        auto_pad == "valid"        ? "VALID"
        : auto_pad == "same_upper" ? "SAME_UPPER"
                                   : "SAME_LOWER");
  }
  if (!w.integers("strides").empty()) set(n, "strides", w.integers("strides"));
  if (!w.integers("dilations").empty()) set(n, "dilations", w.integers("dilations"));
  if (ceil_mode) set(n, "ceil_mode", std::int64_t{w.flag("ceil_mode")});
}

void conv(NodeWriter& w) {
  pb::NodeProto& n = w.write("Conv");
  window(w, n, false);
  set(n, "group", w.integer("groups"));
}

pb::NodeProto& pool(NodeWriter& w, std::string_view type) {
  pb::NodeProto& n = w.write(type);
  set(n, "kernel_shape", w.integers("kernel"));
  window(w, n, true);
  return n;
}

void max_pool(NodeWriter& w) {
  const bool indices = w.node().outputs.size() > 1 && w.node().outputs[1] != kAbsent;
  if (indices && w.text("indices") != "tensor")
    throw usage_error("max_pool indices within a plane have no form in ONNX");
  set(pool(w, "MaxPool"), "storage_order", std::int64_t{w.flag("column_major")});
}

void avg_pool(NodeWriter& w) {
  if (w.integer("divisor_override") != 0)
    throw usage_error("avg_pool with a divisor of its own has no form in ONNX");
  set(pool(w, "AveragePool"), "count_include_pad", std::int64_t{w.flag("count_include_pad")});
}

std::int64_t whole_norm(NodeWriter& w) {
  const float p = w.number("p");
  if (p != std::trunc(p) || std::abs(p) > 1e6F)
    throw usage_error("a norm of order {} has no form in ONNX, which takes whole orders", p);
  return static_cast<std::int64_t>(p);
}

void gemm(NodeWriter& w) {
  pb::NodeProto& n = w.write("Gemm");
  set(n, "alpha", w.number("alpha"));
  set(n, "beta", w.number("beta"));
  set(n, "transA", std::int64_t{w.flag("trans_a")});
  set(n, "transB", std::int64_t{w.flag("trans_b")});
}

constexpr WriterRow kRows[] = {
    {"conv", conv},
    {"gemm", gemm},
    {"matmul", [](NodeWriter& w) { w.write("MatMul"); }},
    {"max_pool", max_pool},
    {"avg_pool", avg_pool},
    {"lp_pool", [](NodeWriter& w) { set(pool(w, "LpPool"), "p", whole_norm(w)); }},
    {"global_max_pool", [](NodeWriter& w) { w.write("GlobalMaxPool"); }},
    {"global_avg_pool", [](NodeWriter& w) { w.write("GlobalAveragePool"); }},
    {"global_lp_pool", [](NodeWriter& w) { set(w.write("GlobalLpPool"), "p", whole_norm(w)); }},
};

}  // namespace

std::span<const WriterRow> window_writers() { return kRows; }

}  // namespace etalon::onnx_format
