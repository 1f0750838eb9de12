#include "bench/compare/layer.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "engine/core/philox.h"
#include "engine/core/threads.h"
#include "engine/graph/executor.h"

namespace etalon {

Layer Layer::share() const {
  Layer copy{op, params, {}};
  for (const Tensor& t : inputs) copy.inputs.push_back(t ? t.share() : Tensor());
  return copy;
}

std::vector<const Tensor*> Layer::input_pointers() const {
  std::vector<const Tensor*> p;
  for (const Tensor& t : inputs) p.push_back(t ? &t : nullptr);
  return p;
}

// A kernel call over a layer with everything it points to.
struct LayerEvaluator::Call {
  Call(const Layer& layer, const Contract& c, int threads, Isa isa)
      : contract(c), pointers(layer.input_pointers()) {
    for (const Tensor* t : pointers)
      in.push_back(t == nullptr ? InferInput{} : InferInput{t->type(), t, true});
    types = infer_alone(*layer.op, layer.params, InferInputs(in));
    problem = {.op = layer.op,
               .params = &layer.params,
               .inputs = in,
               .outputs = types,
               .contract = &contract,
               .isa = isa};
    for (const TensorType& type : types) outputs.push_back(Tensor::zeros(type.dtype, type.shape));
    call = {.problem = &problem, .inputs = pointers, .outputs = outputs, .threads = threads};
  }
  void want_truth() {
    for (const TensorType& type : types)
      exact.push_back(is_floating(type.dtype) ? Tensor::zeros(DType::f64, type.shape) : Tensor());
    call.truth = exact;
  }

  Contract contract;
  std::vector<const Tensor*> pointers;
  std::vector<InferInput> in;
  std::vector<TensorType> types;
  Problem problem;
  std::vector<Tensor> outputs, exact;
  KernelCall call;
};

std::vector<TensorType> LayerEvaluator::output_types(const Layer& layer) const {
  return Call(layer, Contract::seq(), threads_, isa_).types;
}

const KernelRow* LayerEvaluator::definition(const Layer& layer) const {
  for (const KernelRow* row : registry_->rows_of(layer.op->name))
    if (row->bound != nullptr && row->device == Device::cpu) return row;
  return nullptr;
}

bool LayerEvaluator::has_definition(const Layer& layer) const {
  return definition(layer) != nullptr;
}

std::int64_t LayerEvaluator::slices(const Layer& layer, const Contract& contract) const {
  const Call c(layer, contract, threads_, isa_);
  return definition(layer)->slices(c.call);
}

std::vector<Tensor> LayerEvaluator::bits(const Layer& layer, const Contract& contract) const {
  return run_op(*layer.op, layer.params, layer.input_pointers(), *registry_,
                {.contract = contract, .isa = isa_, .threads = threads_})
      .outputs;
}

std::vector<Tensor> LayerEvaluator::bits(const Layer& layer, const Contract& contract,
                                         const std::vector<std::int64_t>& slices) const {
  Call c(layer, contract, threads_, isa_);
  // Slices are those of the op's own sum. Another algorithm (Winograd) has slices of its own: then
  // everything is computed.
  const KernelRow* row = definition(layer);
  if (registry_->select(c.problem, row->name).row != row) return bits(layer, contract);
  const DefaultFpEnvironment fp;
  row->run_slices(c.call, slices);
  return std::move(c.outputs);
}

std::vector<OutputBound> LayerEvaluator::bounds(const Layer& layer, const Contract& contract,
                                                const AnyOrderModel& model,
                                                const std::vector<std::int64_t>& slices) const {
  const Call c(layer, contract, threads_, isa_);
  std::vector<OutputBound> found;
  const DefaultFpEnvironment fp;
  definition(layer)->bound(c.call, model, slices, found);
  std::ranges::sort(found, {}, [](const OutputBound& b) { return std::pair(b.output, b.index); });
  return found;
}

LayerEvaluator::Truth LayerEvaluator::truth(const Layer& layer) const {
  OpRun run =
      run_op(*layer.op, layer.params, layer.input_pointers(), *registry_,
             {.contract = Contract::exact_preset(), .isa = isa_, .threads = threads_}, true);
  return {std::move(run.outputs), std::move(run.truth)};
}

LayerEvaluator::Truth LayerEvaluator::truth(const Layer& layer,
                                            const std::vector<std::int64_t>& slices) const {
  Call c(layer, Contract::exact_preset(), threads_, isa_);
  c.want_truth();
  const DefaultFpEnvironment fp;
  definition(layer)->run_slices(c.call, slices);
  return {std::move(c.outputs), std::move(c.exact)};
}

bool LayerEvaluator::is_fast(const Layer& layer, const Contract& contract) const {
  const Call c(layer, contract, threads_, isa_);
  const KernelRow* row = registry_->select(c.problem).row;
  return row != nullptr && row->bound == nullptr;
}

bool LayerEvaluator::truth_is_fast(const Layer& layer) const {
  return is_fast(layer, Contract::exact_preset());
}

std::vector<std::int64_t> sample_slices(std::int64_t slices, std::int64_t limit) {
  std::vector<std::int64_t> s;
  if (slices <= limit) {
    s.resize(static_cast<std::size_t>(slices));
    std::iota(s.begin(), s.end(), 0);
    return s;
  }
  // One from each of `limit` equal ranges, so that every part of the tensor is looked at.
  const Philox random{0x5a3b1e, static_cast<std::uint64_t>(slices)};
  for (std::int64_t i = 0; i < limit; ++i) {
    const auto begin = static_cast<std::int64_t>(
        static_cast<uint128>(slices) * static_cast<uint128>(i) / static_cast<uint128>(limit));
    const auto end = static_cast<std::int64_t>(
        static_cast<uint128>(slices) * static_cast<uint128>(i + 1) / static_cast<uint128>(limit));
    s.push_back(begin + static_cast<std::int64_t>(random.word(static_cast<std::uint64_t>(i))) %
                            (end - begin));
  }
  return s;
}

}  // namespace etalon
