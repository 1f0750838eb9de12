// Control flow: nodes that own graphs and run them. Their bodies are not in the parameters but in
// Node::subgraphs (engine/graph/graph.h), so the executor runs them itself, without a kernel.
//
//   if     condition (one bool); subgraphs then, else, without inputs: the outputs of the one that
//          runs
//   loop   count (i64, optional), condition (bool, optional), then the carried values. The body
//   gets
//          (iteration i64, condition, carried...) and gives (condition, carried..., scanned...).
//          Iteration i runs while i < count and the condition of before holds; outputs are the
//          carried values at the end and each scanned value of all iterations, stacked along a new
//          axis 0
//   scan   carried values, then `scan_inputs` tensors. The body gets (carried..., one slice of
//   each)
//          and gives (carried..., scanned...). Iteration i takes slice i along input_axes (from the
//          end where input_directions is 1); scanned values are stacked along output_axes
//          (from the end where output_directions is 1). Empty lists are zeros
//
// A body reads values of the graphs around it by name; those it makes itself come first. What has
// run no iteration scans to a tensor with an axis of 0 and the extents the body declares, 0 where
// it does not. Errors: a condition that is not one bool, scanned values whose types change, more
// iterations than kIterationLimit
// (engine/graph/control_flow.h).
// Source: ONNX If-25, Loop-25, Scan-25.
#pragma once

#include "engine/ops/op.h"

namespace etalon {

struct ScanParams {
  std::int64_t scan_inputs = 0;
  Ints input_axes, input_directions, output_axes, output_directions;
  template <class V>
  void visit(V& v) {
    v("scan_inputs", scan_inputs);
    v("input_axes", input_axes);
    v("input_directions", input_directions);
    v("output_axes", output_axes);
    v("output_directions", output_directions);
  }
};

// These are found by find_op and get_op, but are not of all_ops: no kernel row computes them.
std::span<const OpRow> control_ops();
bool is_control(const OpRow& op);

}  // namespace etalon
