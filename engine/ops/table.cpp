// Every op, one row each. Explicit: an object that registers itself is dropped by the linker.
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "engine/core/nearest.h"
#include "engine/core/threads.h"
#include "engine/ops/activation.h"
#include "engine/ops/codes.h"
#include "engine/ops/col2im.h"
#include "engine/ops/control.h"
#include "engine/ops/conv.h"
#include "engine/ops/conv_channels_last.h"
#include "engine/ops/conv_transpose.h"
#include "engine/ops/detection.h"
#include "engine/ops/elementwise.h"
#include "engine/ops/gemm.h"
#include "engine/ops/indexing.h"
#include "engine/ops/integer.h"
#include "engine/ops/layout.h"
#include "engine/ops/loss.h"
#include "engine/ops/matmul.h"
#include "engine/ops/normalization.h"
#include "engine/ops/op.h"
#include "engine/ops/ordering.h"
#include "engine/ops/pool.h"
#include "engine/ops/quantize.h"
#include "engine/ops/recurrent.h"
#include "engine/ops/reduce.h"
#include "engine/ops/resize.h"
#include "engine/ops/selection.h"
#include "engine/ops/softmax.h"
#include "engine/ops/tflite.h"
#include "engine/ops/tflite_hybrid.h"
#include "engine/ops/tflite_recurrent.h"

namespace etalon {
namespace {

const std::vector<const OpRow*>& table() {
  static const std::vector<const OpRow*> kTable = [] {
    std::vector<const OpRow*> rows{
        // one op to a line
        &col2im_op(),              //
        &conv_op(),                //
        &conv_channels_last_op(),  //
        &conv_transpose_op(),      //
        &gemm_op(),                //
        &matmul_op(),              //
        &resize_op(),              //
    };
    const std::span<const OpRow> families[] = {
        activation_ops(),        //
        code_ops(),              //
        detection_ops(),         //
        elementwise_ops(),       //
        indexing_ops(),          //
        integer_ops(),           //
        layout_ops(),            //
        loss_ops(),              //
        normalization_ops(),     //
        ordering_ops(),          //
        pool_ops(),              //
        quantize_ops(),          //
        recurrent_ops(),         //
        reduce_ops(),            //
        selection_ops(),         //
        softmax_ops(),           //
        tflite_ops(),            //
        tflite_hybrid_ops(),     //
        tflite_recurrent_ops(),  //
    };
    for (const std::span<const OpRow> family : families)
      for (const OpRow& row : family) rows.push_back(&row);
    return rows;
  }();
  return kTable;
}

}  // namespace

std::span<const OpRow* const> all_ops() { return table(); }

const OpRow* find_op(std::string_view name) {
  for (const OpRow* op : table())
    if (op->name == name) return op;
  for (const OpRow& op : control_ops())
    if (op.name == name) return &op;
  return nullptr;
}

const OpRow& get_op(std::string_view name) {
  if (const OpRow* op = find_op(name)) return *op;
  std::vector<std::string_view> names;
  for (const OpRow* op : table()) names.push_back(op->name);
  throw usage_error("there is no op '{}'{}", name,
                    did_you_mean(name, names, "; 'etalon kernels' lists the ops"));
}

std::vector<TensorType> infer(const OpRow& op, const Params& params, const InferInputs& inputs) {
  const DefaultFpEnvironment fp;  // some shapes are counts of what was computed
  const int n = static_cast<int>(inputs.size());
  if (n < op.min_inputs || n > op.max_inputs)
    throw bad_input("{} takes {} inputs, got {}", op.name,
                    op.min_inputs == op.max_inputs ? fmt::to_string(op.min_inputs)
                    : op.max_inputs >= kVariadic
                        ? fmt::format("{} or more", op.min_inputs)
                        : fmt::format("{} to {}", op.min_inputs, op.max_inputs),
                    n);
  for (int i = 0; i < op.min_inputs; ++i) inputs.type(static_cast<std::size_t>(i));
  return op.infer(params, inputs);
}

}  // namespace etalon
