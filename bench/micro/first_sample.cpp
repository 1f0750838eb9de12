#include "bench/micro/first_sample.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string_view>

#include "engine/core/error.h"
#include "engine/graph/executor.h"
#include "engine/numerics/fp.h"
#include "engine/ops/gemm.h"
#include "engine/ops/normalization.h"
#include "engine/ops/recurrent.h"
#include "engine/ops/softmax.h"

namespace etalon {
namespace {

// A row by row definition would take minutes on a large layer; a time limit would make records
// depend on the machine. An exact element costs up to 100 ns.
constexpr double kMostTermsForDefinition = 4e7, kMostTerms = 1e10, kMostElements = 1e8;

bool one_of(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::ranges::find(names, name) != names.end();
}

bool holds_rows(const Shape& in, const Shape& out) {
  return in.rank() == out.rank() && in[0] == out[0];
}

bool broadcast_to(const NamedShape& shape, const Shape& out) {
  try {
    Shape all = shape.inputs[0].shape;
    for (const TensorType& type : shape.inputs) all = broadcast(all, type.shape);
    return all == out;
  } catch (const Error&) {
    return false;
  }
}

bool rows_of_recurrent(const RecurrentParams& p, std::vector<bool>& cut) {
  cut[0] = true;
  if (p.batch_first) {
    for (const std::size_t i : {4, 5, 6})  // sequence_lens and states
      if (i < cut.size()) cut[i] = true;
    return true;
  }
  return p.direction == Direction::forward;
}

// Marks the inputs that hold rows; false where rows are not kept apart.
bool mark_rows(const NamedShape& shape, const Shape& out, std::vector<bool>& cut) {
  const std::string_view op = shape.op->name;
  const Params& params = shape.params;
  const Shape& x = shape.inputs[0].shape;
  const auto whole_weights = [&] { return cut[0] = holds_rows(x, out); };
  const auto every_operand = [&] {
    bool any = false;
    for (std::size_t i = 0; i < cut.size(); ++i) {
      cut[i] = holds_rows(shape.inputs[i].shape, out);
      any = any || cut[i];
    }
    return any;
  };
  if (one_of(op, {"conv", "conv_channels_last", "conv_transpose", "max_pool", "avg_pool", "lp_pool",
                  "global_max_pool", "global_avg_pool", "global_lp_pool", "instance_norm",
                  "group_norm", "lrn", "depth_to_space", "space_to_depth"}))
    return whole_weights();
  if (op == "batch_norm")
    return normalize_axis(params.as<BatchNormParams>().axis, x.rank()) > 0 && whole_weights();
  if (op == "softmax" || op == "log_softmax") {
    const auto& p = params.as<SoftmaxParams>();
    const bool beyond = p.flatten && p.axis == x.rank();
    return (beyond || normalize_axis(p.axis, x.rank()) > 0) && whole_weights();
  }
  if (op == "layer_norm")  // scale and bias broadcast to x
    return normalize_axis(params.as<LayerNormParams>().axis, x.rank()) > 0 && every_operand();
  if (op == "rms_norm")
    return normalize_axis(params.as<RmsNormParams>().axis, x.rank()) > 0 && every_operand();
  if (op == "gemm") {
    if (params.as<GemmParams>().trans_a) return false;
    if (cut.size() > 2) cut[2] = holds_rows(shape.inputs[2].shape, out);
    return whole_weights();
  }
  if (op == "matmul") {
    const Shape& b = shape.inputs[1].shape;
    if (std::max(x.rank(), b.rank()) > 2) {
      // The first axis of the operand that has most of them is of the batch.
      const int rank = std::max(x.rank(), b.rank());
      for (const std::size_t i : {0, 1}) {
        const Shape& in = shape.inputs[i].shape;
        cut[i] = in.rank() == rank && in[0] == out[0];
      }
      return true;
    }
    return cut[0] = x.rank() == 2;
  }
  if (op == "lstm") return rows_of_recurrent(params.as<LstmParams>(), cut);
  if (op == "gru") return rows_of_recurrent(params.as<GruParams>(), cut);
  if (op == "rnn") return rows_of_recurrent(params.as<RnnParams>(), cut);
  if (op == "quantize_linear" || op == "dequantize_linear")  // a scale may belong to rows
    return std::all_of(shape.inputs.begin() + 1, shape.inputs.end(),
                       [](const TensorType& t) { return t.shape.numel() == 1; }) &&
           whole_weights();
  // By element: what broadcasts has as many axes at most.
  const bool by_element = shape.op->nature == OpNature::pointwise || op == "sum" || op == "mean";
  return by_element && broadcast_to(shape, out) && every_operand();
}

double elements_of(std::span<const TensorType> types) {
  double elements = 0;
  for (const TensorType& t : types) elements += static_cast<double>(t.shape.numel());
  return elements;
}

}  // namespace

Tensor row_of(const Tensor& t, std::int64_t row) {
  Tensor r = Tensor::uninitialized(t.dtype(), t.shape().with_dim(0, 1));
  const std::size_t bytes = r.size_bytes();
  std::memcpy(r.mutable_bytes().data(), t.bytes().data() + static_cast<std::size_t>(row) * bytes,
              bytes);
  return r;
}

std::vector<bool> inputs_by_sample(const NamedShape& shape) {
  const Shape& out = shape.outputs.at(0).shape;
  std::vector<bool> cut(shape.inputs.size(), false);
  // One axis alone is no batch.
  if (!shape.op->per_sample || out.rank() < 2 || out[0] < 2 || !mark_rows(shape, out, cut))
    return {};
  return cut;
}

SampleTruth truth_of_first_sample(const NamedShape& shape, const std::vector<Tensor>& inputs,
                                  const Registry& registry, Isa isa, int threads) {
  std::vector<TensorType> counted = shape.inputs;
  counted.push_back(shape.outputs.at(0));
  for (const TensorType& type : counted)
    if (type.dtype != DType::f32)
      return {{}, fmt::format("errors are counted in units of f32, not of {}", name(type.dtype))};
  const std::vector<bool> cut = inputs_by_sample(shape);
  std::vector<Tensor> first;
  std::vector<const Tensor*> pointers;
  std::vector<InferInput> known;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    first.push_back(!cut.empty() && cut[i] ? row_of(inputs[i], 0) : inputs[i].share());
  for (const Tensor& t : first) {
    pointers.push_back(&t);
    known.push_back({t.type(), nullptr, true});
  }
  RunOptions run;
  run.contract = Contract::exact_preset();
  run.isa = isa;
  run.threads = threads;
  try {
    const auto types = infer_alone(*shape.op, shape.params, InferInputs(known));
    Problem problem;
    problem.op = shape.op;
    problem.params = &shape.params;
    problem.inputs = known;
    problem.outputs = types;
    problem.contract = &run.contract;
    problem.isa = run.isa;
    const Selection exact = registry.select(problem);
    if (exact.row == nullptr) return {{}, "no kernel computes the exact values"};
    const double samples = cut.empty() ? 1 : static_cast<double>(shape.outputs[0].shape[0]);
    const double terms = multiply_adds(shape) / samples;
    const bool definition = exact.row->name.find("definition") != std::string_view::npos;
    if (terms > (definition ? kMostTermsForDefinition : kMostTerms))
      return {{}, fmt::format("{:.2g} terms are too many for {}", terms, exact.row->name)};
    double elements = elements_of(types);
    for (const Tensor& t : first) elements += static_cast<double>(t.numel());
    if (elements > kMostElements)
      return {{}, fmt::format("{:.2g} elements are too many for {}", elements, exact.row->name)};
    OpRun got = run_op(*shape.op, shape.params, pointers, registry, run, true);
    if (got.truth.empty() || !got.truth[0]) return {{}, "its exact values are not known"};
    return {std::move(got.truth[0]), {}};
  } catch (const Error& e) {
    // Of the errors alone: what was timed stays.
    if (e.kind() == ErrorKind::interrupted) throw;
    return {{}, fmt::format("the exact values cannot be computed: {}", e.what())};
  }
}

UlpError error_of(const Tensor& got, const Tensor& exact) {
  const auto truth = exact.data<double>();
  const auto values = got.data<float>();
  constexpr double kWrong = std::numeric_limits<double>::infinity();
  UlpError error;
  for (std::size_t i = 0; i < truth.size(); ++i) {
    const auto rounded = static_cast<float>(truth[i]);
    double ulps = 0;
    if (std::isnan(values[i]) || std::isnan(rounded))
      ulps = std::isnan(values[i]) && std::isnan(rounded) ? 0 : kWrong;
    else if (std::isinf(values[i]) || std::isinf(rounded))
      ulps = values[i] == rounded ? 0 : kWrong;
    else
      ulps = std::fabs(static_cast<double>(values[i]) - truth[i]) /
             ulp_of(static_cast<double>(rounded), DType::f32);
    error.max = std::max(error.max, ulps);
    error.mean += ulps;
  }
  if (!truth.empty()) error.mean /= static_cast<double>(truth.size());
  return error;
}

}  // namespace etalon
