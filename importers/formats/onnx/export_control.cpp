// if, loop and scan: their graphs become attributes.
#include <algorithm>

#include "importers/formats/onnx/export.h"

namespace etalon::onnx_format {
namespace {

void write_scan(NodeWriter& w) {
  pb::NodeProto& n = w.write("Scan");
  w.set_graph(n, "body", *w.node().subgraphs[0]);
  set(n, "num_scan_inputs", w.integer("scan_inputs"));
  constexpr std::pair<std::string_view, std::string_view> kLists[] = {
      {"input_axes", "scan_input_axes"},
      {"input_directions", "scan_input_directions"},
      {"output_axes", "scan_output_axes"},
      {"output_directions", "scan_output_directions"}};
  for (const auto& [ours, theirs] : kLists)
    if (!w.integers(ours).empty()) set(n, theirs, w.integers(ours));
}

void write_loop(NodeWriter& w) {
  pb::NodeProto& n = w.write("Loop");
  w.set_graph(n, "body", *w.node().subgraphs[0]);
  // The iteration and the condition are scalars whatever the body declares, and ONNX Runtime takes
  // no loop whose body does not say so.
  pb::GraphProto& body = *n.mutable_attribute(n.attribute_size() - 1)->mutable_g();
  for (int i = 0; i < std::min(2, body.input_size()); ++i)
    body.mutable_input(i)->mutable_type()->mutable_tensor_type()->mutable_shape();
}

constexpr WriterRow kRows[] = {
    {"if",
     [](NodeWriter& w) {
       pb::NodeProto& n = w.write("If");
       w.set_graph(n, "then_branch", *w.node().subgraphs[0]);
       w.set_graph(n, "else_branch", *w.node().subgraphs[1]);
     }},
    {"loop", write_loop},
    {"scan", write_scan},
};

}  // namespace

std::span<const WriterRow> control_writers() { return kRows; }

}  // namespace etalon::onnx_format
