// A kernel: one way to compute an op under some contracts. A row of a table, never an object that
// registers itself.
//
// `defined` kernels promise the bits of the contract: a test holds each to the op's definition and
// to every other defined row of the same op. `vendor` kernels (oneDNN, cuDNN) promise nothing:
// library, version and algorithm are recorded, and they run only when asked for by name.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/core/cpu.h"
#include "engine/core/function_ref.h"
#include "engine/core/tensor.h"
#include "engine/numerics/contract.h"
#include "engine/ops/op.h"

namespace etalon {

enum class Device { cpu, cuda };

// What is to be computed, before any memory is touched: enough to select a kernel.
struct Problem {
  const OpRow* op = nullptr;
  const Params* params = nullptr;
  std::span<const InferInput> inputs;  // value is set where the tensor is constant over runs
  std::span<const TensorType> outputs;
  const Contract* contract = nullptr;
  Device device = Device::cpu;
  Isa isa = Isa::sse2;  // cap: what the machine has, or less by --isa

  const TensorType& input(std::size_t i) const { return inputs[i].type; }
  bool has(std::size_t i) const { return i < inputs.size() && inputs[i].given; }
};

// State that a kernel prepares once from constant inputs (packed weights, a vendor's primitive).
using Prepared = std::shared_ptr<const void>;

// Elements of output 0: `rows` runs of `count` neighbours each, `stride` elements apart.
struct OutputPart {
  std::int64_t begin = 0, count = 0, rows = 1, stride = 0;
};
using Finished = FunctionRef<void(const OutputPart&)>;

struct PointwiseStep;  // engine/backend/pointwise.h

// How output 0 meets the steps of the ops that follow (docs/adr/0008, 0010).
enum class Ending {
  announced,  // stored without them; a row that `announces` says when
  applied,    // stored after them, but for elements that are announced as above
  in_place,   // all stored once, after them: what is added to element i may lie where it is stored
};

struct KernelCall {
  const Problem* problem = nullptr;
  std::span<const Tensor* const> inputs;  // nullptr where not given
  std::span<Tensor> outputs;              // allocated with the inferred types, not initialised
  // Set when the truth is wanted: for each floating output an f64 tensor that receives the exact
  // value with an error of at most 2^-10 ULP of the f32 result. Only rows that honour `exact` fill
  // it.
  std::span<Tensor> truth;
  int threads = 1;
  const void* prepared = nullptr;
  // Set when ops that follow go on with parts of output 0 while those are in cache (docs/adr/0006).
  // A row that `announces` calls it with parts that cover each element of output 0 exactly once,
  // from any thread, each after the part was stored for good; it may change those elements.
  const Finished* finished = nullptr;
  // Set where the row's `ending` says that it applies them itself; `finished` is for what it does
  // not.
  std::span<const PointwiseStep> steps;

  template <class P>
  const P& params() const {
    return problem->params->as<P>();
  }
  bool has(std::size_t i) const { return i < inputs.size() && inputs[i] != nullptr; }
  const Tensor& input(std::size_t i) const { return *inputs[i]; }
  Tensor& output(std::size_t i) const { return outputs[i]; }
  const Contract& contract() const { return *problem->contract; }
};

// One output element and what AnyOrder (engine/numerics/any_order.h) says of it.
struct OutputBound {
  int output = 0;
  std::int64_t index = 0;
  double real = 0;   // the real value, evaluated in f64
  double bound = 0;  // of |any evaluation - real value|; infinite: no statement
  std::int64_t terms = 1;
};
struct AnyOrderModel;

enum class Promise { defined, vendor };

// Why a kernel cannot take a problem, in one sentence; nullopt when it can.
using Refusal = std::optional<std::string>;

struct KernelRow {
  std::string_view op;
  std::string_view
      name;  // "gemm.f32.avx512.14x32"; a vendor's begins with its library: "onednn.conv.direct"
  Promise promise = Promise::defined;
  Device device = Device::cpu;
  Isa isa = Isa::sse2;         // least instruction set it needs
  std::string_view contracts;  // what it promises, for people: "seq", "exact", "all"
  Refusal (*refuse)(const Problem&) = nullptr;
  void (*run)(const KernelCall&) = nullptr;
  // Optional. Called once per problem; what it returns comes back in KernelCall::prepared. It may
  // read the values of constant inputs (Problem::inputs[i].value) and must work when they are not
  // constant.
  Prepared (*prepare)(const Problem&, int threads) = nullptr;
  bool announces = false;  // `run` calls KernelCall::finished
  // Rows that can end their outputs with steps themselves; `prepared` is what `prepare` gave.
  Ending (*ending)(const Problem&, const void* prepared, std::span<const PointwiseStep>) = nullptr;
  // Rows of pointwise ops: as run, for elements [begin, begin + count) of output 0 alone; called
  // from several threads at once. Element i of output 0 reads element i of input `carried`, which
  // may be the same memory. refuse_piece says when a row cannot, of a problem it takes as a whole.
  void (*run_piece)(const KernelCall&, std::int64_t begin, std::int64_t count) = nullptr;
  Refusal (*refuse_piece)(const Problem&, std::size_t carried) = nullptr;
  // Rows that run by pieces and whose op is a step on a value in a register (docs/adr/0008): `step`
  // describes a call that run_piece would take, false where it has no such description. Rows of
  // one `run_steps` are handed to it together, in their sequence; y is output 0, in place.
  bool (*step)(const KernelCall&, PointwiseStep&) = nullptr;
  void (*run_steps)(std::span<const PointwiseStep>, float* y, const OutputPart&) = nullptr;
  // Vendor rows: library and version, and after a run the algorithm that was dispatched.
  std::string (*version)() = nullptr;
  // Rows of definitions: a call falls into slices that are computed apart (an output, a row).
  std::int64_t (*slices)(const KernelCall&) = nullptr;
  // As run, for the slices listed only; the other outputs are left as they are.
  void (*run_slices)(const KernelCall&, std::span<const std::int64_t> slices) = nullptr;
  // Appends the outputs of the listed slices with their bounds; `outputs` of the call is not read.
  void (*bound)(const KernelCall&, const AnyOrderModel&, std::span<const std::int64_t> slices,
                std::vector<OutputBound>&) = nullptr;
};

}  // namespace etalon
