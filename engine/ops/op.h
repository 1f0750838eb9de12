// An op: what it computes and what shape comes out. How it is computed is a kernel's affair.
//
// An op is one header below engine/ops (parameters, shape inference, definition in mathematics,
// special values, source) and one row of the table in table.cpp. Conformance tests, the command
// line, the neutral graph format and the docs read the table.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "engine/core/tensor.h"
#include "engine/ops/params.h"

namespace etalon {

// What kind of statement a verdict can make about the op's outputs.
enum class OpNature {
  sum,        // outputs are rounded sums: order, fusing and accumulator matter
  pointwise,  // each output is a real function of few inputs, rounded once
  composite,  // several roundings by definition (softmax, normalisation, recurrent cells)
  movement,   // copies bits, NaN payloads included
  discrete    // integers, indices, comparisons: equal or not, never ULP
};

// What is known of a node's inputs. `value` is set when the elements are known; ops whose output
// shape depends on them (reshape, slice) ask for it through constant().
struct InferInput {
  TensorType type;
  const Tensor* value = nullptr;
  bool given = false;
};

class InferInputs {
 public:
  explicit InferInputs(std::span<const InferInput> inputs) : inputs_(inputs) {}
  std::size_t size() const { return inputs_.size(); }
  bool has(std::size_t i) const { return i < inputs_.size() && inputs_[i].given; }
  const TensorType& type(std::size_t i) const;  // bad-input Error when the input is not given
  const Shape& shape(std::size_t i) const { return type(i).shape; }
  DType dtype(std::size_t i) const { return type(i).dtype; }
  // Thrown (as NotConstant) while shapes are inferred before a run; at run time all values are
  // known.
  const Tensor& constant(std::size_t i) const;

 private:
  std::span<const InferInput> inputs_;
};

// The shape cannot be known before the input's elements are.
struct NotConstant {
  std::size_t input;
};

inline constexpr int kVariadic = 1 << 20;

struct OpRow {
  std::string_view name;     // "conv"; the page is docs/ops/<name>.md
  std::string_view summary;  // one sentence
  OpNature nature = OpNature::pointwise;
  int min_inputs = 1;
  int max_inputs = 1;
  int min_outputs = 1;
  int max_outputs = 1;
  // Row i of a batch (axis 0 of input 0) equals the row computed alone.
  bool per_sample = true;
  Params (*defaults)() = [] { return Params(); };
  // Types of all outputs, from types (and, where needed, values) of the inputs.
  std::vector<TensorType> (*infer)(const Params&, const InferInputs&) = nullptr;
  // Names of inputs and outputs, for messages and files: {"x", "w", "b"}.
  std::vector<std::string_view> (*input_names)() = [] {
    return std::vector<std::string_view>{"x"};
  };
  std::vector<std::string_view> (*output_names)() = [] {
    return std::vector<std::string_view>{"y"};
  };
};

std::span<const OpRow* const> all_ops();
const OpRow* find_op(std::string_view name);  // nullptr when there is none
const OpRow& get_op(std::string_view name);   // usage Error that says where the list is

// Checks counts, then calls row.infer; errors name input and expectation.
std::vector<TensorType> infer(const OpRow& op, const Params& params, const InferInputs& inputs);
// For an op by itself, of which nothing more will be known: outputs that hang on elements that are
// not given, or on graphs of the node's own, are a bad-input Error.
std::vector<TensorType> infer_alone(const OpRow& op, const Params& params,
                                    const InferInputs& inputs);

}  // namespace etalon
