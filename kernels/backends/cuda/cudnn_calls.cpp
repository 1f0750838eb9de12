#include "kernels/backends/cuda/cudnn_calls.h"

#include <limits>

#include "engine/core/error.h"

namespace etalon::cuda::dnn {

void require(int status, const char* call) {
  if (status == 0) return;
  auto* const text = cudnn().function<const char*(int)>("cudnnGetErrorString");
  throw missing("cuDNN {}: {} failed with {}; take another row, or --device cpu", cudnn().version,
                call, text(status));
}

Handle handle() {
  thread_local const Handle h = [] {
    Handle made = nullptr;
    call("cudnnCreate", &made);
    call("cudnnSetStream", made, stream());
    return made;
  }();
  return h;
}

Refusal refuse(const Problem& problem, std::size_t integers) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  for (std::size_t i = 0; i < problem.inputs.size(); ++i) {
    if (!problem.has(i) || i == integers) continue;
    if (problem.input(i).dtype != DType::f32)
      return fmt::format("input {} is {}, not f32", i, name(problem.input(i).dtype));
    if (problem.input(i).shape.numel() > kMost) return "takes tensors of fewer than 2^31 elements";
  }
  if (problem.outputs[0].dtype != DType::f32) return "gives f32";
  if (problem.outputs[0].shape.numel() == 0 || problem.input(0).shape.numel() == 0)
    return "takes no empty tensor";
  if (problem.outputs[0].shape.numel() > kMost) return "takes tensors of fewer than 2^31 elements";
  if (cudnn().handle == nullptr) return cudnn().reason;
  return refuse_without_device();
}

}  // namespace etalon::cuda::dnn
