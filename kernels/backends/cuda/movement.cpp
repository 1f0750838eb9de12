#include "kernels/backends/cuda/movement.h"

#include <cstring>
#include <limits>

#include "engine/numerics/element.h"
#include "engine/ops/indexing.h"
#include "engine/ops/layout.h"
#include "kernels/backends/cuda/status.h"
#include "kernels/indexing/scatter.h"
#include "kernels/kernels.h"

namespace etalon::cuda {
namespace {

// Names of elements are 32 bits and 0 is the fill.
constexpr std::int64_t kMostElements = std::numeric_limits<std::uint32_t>::max() - 1;

bool is_alias(std::string_view op) {
  for (const MovementOp& m : movement_ops())
    if (m.name == op) return m.alias;
  return false;
}

// The problem over positions: every floating tensor as i64.
struct Positions {
  std::vector<InferInput> inputs;
  std::vector<TensorType> outputs;
  Params params;
  Problem problem;

  explicit Positions(const Problem& of)
      : inputs(of.inputs.begin(), of.inputs.end()),
        outputs(of.outputs.begin(), of.outputs.end()),
        params(*of.params),
        problem(of) {
    for (InferInput& in : inputs)
      if (in.given && is_floating(in.type.dtype)) {
        in.type.dtype = DType::i64;
        in.value = nullptr;
      }
    for (TensorType& y : outputs) y.dtype = DType::i64;
    if (of.op->name == "pad") {
      // The padding's value is no position: it is the task's fill.
      PadParams zero = of.params->as<PadParams>();
      zero.value = 0;
      params = Params(zero);
    }
    problem.inputs = inputs;
    problem.outputs = outputs;
    problem.params = &params;
    problem.device = Device::cpu;
  }

  const KernelRow* row() const {
    for (const KernelRow* r : all_kernels().rows_of(problem.op->name))
      if (r->device == Device::cpu && r->promise == Promise::defined && r->isa <= problem.isa &&
          (r->refuse == nullptr || !r->refuse(problem)))
        return r;
    return nullptr;
  }
};

// The maps of all outputs, one behind the other.
std::vector<std::byte> make_maps(const KernelCall& call) {
  const Positions positions(*call.problem);
  std::vector<Tensor> own, outputs;
  own.reserve(call.inputs.size());
  std::vector<const Tensor*> inputs;
  std::int64_t name = 1;
  for (const Tensor* in : call.inputs) {
    if (in == nullptr || !is_floating(in->dtype())) {
      inputs.push_back(in);
      continue;
    }
    Tensor& names = own.emplace_back(Tensor::uninitialized(DType::i64, in->shape()));
    for (std::int64_t& element : names.mutable_data<std::int64_t>()) element = name++;
    inputs.push_back(&names);
  }
  for (const TensorType& y : positions.outputs)
    outputs.push_back(Tensor::uninitialized(y.dtype, y.shape));
  positions.row()->run({.problem = &positions.problem, .inputs = inputs, .outputs = outputs});
  std::vector<std::uint32_t> maps;
  for (const Tensor& y : outputs)
    for (const std::int64_t at : y.data<std::int64_t>())
      maps.push_back(static_cast<std::uint32_t>(at));
  std::vector<std::byte> bytes(maps.size() * sizeof(std::uint32_t));
  if (!maps.empty()) std::memcpy(bytes.data(), maps.data(), bytes.size());
  return bytes;
}

}  // namespace

std::span<const MovementOp> movement_ops() {
  static constexpr MovementOp ops[] = {
      {"identity", true},
      {"reshape", true},
      {"flatten", true},
      {"squeeze", true},
      {"unsqueeze", true},
      {"transpose"},
      {"expand"},
      {"tile"},
      {"concat"},
      {"split"},
      {"slice"},
      {"pad"},
      {"depth_to_space"},
      {"space_to_depth"},
      {"reverse_sequence"},
      {"trilu"},
      {"gather"},
      {"gather_elements"},
      {"gather_nd"},
      {"scatter_elements"},
      {"scatter_nd"},
  };
  return ops;
}

Refusal refuse_movement(const Problem& problem) {
  int sources = 0;
  std::int64_t elements = 0;
  DType moved = problem.outputs[0].dtype;
  for (std::size_t i = 0; i < problem.inputs.size(); ++i)
    if (problem.has(i) && is_floating(problem.input(i).dtype)) {
      if (problem.input(i).dtype != moved) return "moves one floating type to the same type";
      ++sources;
      elements += problem.input(i).shape.numel();
    }
  if (!is_floating(moved) || sources == 0)
    return "moves floating elements; integers are computed on the host";
  if (sources > MoveTask::kMostSources)
    return fmt::format("takes at most {} tensors", MoveTask::kMostSources);
  if (elements > kMostElements || problem.outputs[0].shape.numel() > kMostElements)
    return "takes tensors of fewer than 2^32 elements";
  if (is_alias(problem.op->name)) return std::nullopt;
  if (problem.op->name.starts_with("scatter_") &&
      scatter_reduction(*problem.op, *problem.params) != ScatterReduction::none)
    return "moves elements: a reduction computes";
  if (const Positions p(problem); p.row() == nullptr)
    return "computes with the elements that it moves";
  return std::nullopt;
}

void enqueue_movement(const KernelCall& call, Work& work) {
  if (is_alias(call.problem->op->name)) {
    check(api().on_device(device_floats(call.output(0)), call.input(0).bytes().data(),
                          call.output(0).size_bytes(), stream()),
          "cudaMemcpyAsync on the device");
    return;
  }
  MoveTask task;
  const DType moved = call.output(0).dtype();
  task.element_bytes = size_bytes(moved);
  std::int64_t name = 1;
  for (const Tensor* in : call.inputs)
    if (in != nullptr && is_floating(in->dtype())) {
      const auto s = static_cast<std::size_t>(task.sources++);
      task.from[s] = in->bytes().data();
      task.first[s] = static_cast<std::uint32_t>(name);
      name += in->numel();
    }
  if (call.problem->op->name == "pad") {
    std::array<std::byte, 8> value{};
    store_from_double(moved, value.data(), 0, static_cast<double>(call.params<PadParams>().value));
    std::memcpy(&task.fill, value.data(), sizeof task.fill);
  }
  const auto* maps =
      static_cast<const std::uint32_t*>(work.kept([&call] { return make_maps(call); }));
  for (const Tensor& y : call.outputs) {
    task.y = const_cast<std::byte*>(y.bytes().data());
    task.count = y.numel();
    task.map = maps;
    maps += y.numel();
    if (task.count > 0) check(api().move(task, stream()), "the kernel's launch");
  }
}

}  // namespace etalon::cuda
