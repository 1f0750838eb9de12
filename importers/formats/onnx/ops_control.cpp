// If, Loop, Scan: nodes that own graphs. Their attributes become ScanParams and Node::subgraphs.
#include "engine/core/error.h"
#include "importers/formats/onnx/families.h"

namespace etalon::onnx_format {
namespace {

void choose(OnnxNode& n) {
  n.emit_control("if", {}, {n.required(0)}, {n.subgraph("then_branch"), n.subgraph("else_branch")});
}

void loop(OnnxNode& n) { n.emit_control("loop", {}, n.inputs(), {n.subgraph("body")}); }

// Opset 8 scanned each row of a batch for itself, with lengths of their own.
void scan(OnnxNode& n) {
  if (n.opset() >= 9) {
    n.emit_control("scan",
                   {{"scan_inputs", n.integer("num_scan_inputs", 0)},
                    {"input_axes", n.integers("scan_input_axes")},
                    {"input_directions", n.integers("scan_input_directions")},
                    {"output_axes", n.integers("scan_output_axes")},
                    {"output_directions", n.integers("scan_output_directions")}},
                   n.inputs(), {n.subgraph("body")});
    return;
  }
  throw bad_input(
      "Scan of opset 8 scans the rows of a batch one by one; convert the file to opset 9 "
      "(onnx.version_converter)");
}

constexpr TranslatorRow kRows[] = {{"If", choose}, {"Loop", loop}, {"Scan", scan}};

}  // namespace

std::span<const TranslatorRow> control_family() { return kRows; }

}  // namespace etalon::onnx_format
