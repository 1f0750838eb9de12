// Ops that read or write where indices say, and ops that make tensors from shapes.
#include "engine/core/error.h"
#include "importers/formats/onnx/families.h"

namespace etalon::onnx_format {
namespace {

void scatter_elements(OnnxNode& n) {
  n.emit("scatter_elements",
         {{"axis", n.integer("axis", 0)}, {"reduction", n.text("reduction", "none")}});
}

void shape(OnnxNode& n) {
  Fields f;
  if (n.has_attribute("start")) f.emplace_back("start", n.integer("start", 0));
  if (n.has_attribute("end")) f.emplace_back("end", n.integer("end", 0));
  n.emit("shape", f);
}

void eye_like(OnnxNode& n) {
  Fields f{{"k", n.integer("k", 0)}};
  if (n.has_attribute("dtype"))
    f.emplace_back("dtype", std::string(name(dtype_of_onnx(
                                static_cast<std::int32_t>(n.integer("dtype", 0) & 0xffff)))));
  n.emit("eye_like", f);
}

void arg(OnnxNode& n, std::string_view op) {
  n.emit(op, {{"axis", n.integer("axis", 0)},
              {"keepdims", n.flag("keepdims", true)},
              {"select_last_index", n.flag("select_last_index", false)}});
}

// k is an attribute in opset 1, an input since 10.
void top_k(OnnxNode& n) {
  Fields f{{"axis", n.integer("axis", -1)}};
  std::vector<ValueId> in{n.required(0)};
  if (n.opset() < 10) {
    f.emplace_back("k", n.integer("k", 0));
  } else {
    in.push_back(n.required(1));
    f.emplace_back("largest", n.flag("largest", true));
    f.emplace_back("sorted", n.flag("sorted", true));
  }
  n.emit("top_k", f, in, n.outputs());
}

void cumulative(OnnxNode& n, std::string_view op) {
  n.emit(op, {{"exclusive", n.flag("exclusive", false)}, {"reverse", n.flag("reverse", false)}});
}

void unique(OnnxNode& n) {
  Fields f{{"sorted", n.flag("sorted", true)}};
  if (n.has_attribute("axis")) f.emplace_back("axis", n.integer("axis", 0));
  n.emit("unique", f, {n.required(0)}, n.outputs());
}

constexpr TranslatorRow kRows[] = {
    {"Gather", [](OnnxNode& n) { n.emit("gather", {{"axis", n.integer("axis", 0)}}); }},
    {"GatherElements",
     [](OnnxNode& n) { n.emit("gather_elements", {{"axis", n.integer("axis", 0)}}); }},
    {"GatherND",
     [](OnnxNode& n) { n.emit("gather_nd", {{"batch_dims", n.integer("batch_dims", 0)}}); }},
    {"Scatter", scatter_elements},
    {"ScatterElements", scatter_elements},
    {"ScatterND",
     [](OnnxNode& n) { n.emit("scatter_nd", {{"reduction", n.text("reduction", "none")}}); }},
    {"OneHot", [](OnnxNode& n) { n.emit("one_hot", {{"axis", n.integer("axis", -1)}}); }},
    {"Shape", shape},
    {"Size", [](OnnxNode& n) { n.emit("size"); }},
    {"Range", [](OnnxNode& n) { n.emit("range"); }},
    {"EyeLike", eye_like},
    {"NonMaxSuppression",
     [](OnnxNode& n) {
       n.emit("non_max_suppression", {{"center_point_box", n.flag("center_point_box", false)}});
     }},
    {"Unique", unique},
    {"NonZero", [](OnnxNode& n) { n.emit("non_zero"); }},
    {"ArgMax", [](OnnxNode& n) { arg(n, "arg_max"); }},
    {"ArgMin", [](OnnxNode& n) { arg(n, "arg_min"); }},
    {"TopK", top_k},
    {"CumSum", [](OnnxNode& n) { cumulative(n, "cum_sum"); }},
    {"CumProd", [](OnnxNode& n) { cumulative(n, "cum_prod"); }},
};

}  // namespace

std::span<const TranslatorRow> indexing_family() { return kRows; }

}  // namespace etalon::onnx_format
