#include "kernels/activation/fast.h"

#include "engine/core/threads.h"
#include "kernels/gemm/refuse.h"

namespace etalon {

KernelRow relu_f32_row() {
  return {.op = "relu",
          .name = "relu.f32",
          .contracts = "seq",
          .refuse = refuse_unless_seq_f32,
          .run = [](const KernelCall& call) {
            const float* x = call.input(0).data<float>().data();
            float* y = call.output(0).mutable_data<float>().data();
            parallel_for(call.input(0).numel(), call.threads, 16384,
                         [&](std::int64_t begin, std::int64_t end) {
                           // -0 and negative values become +0, every NaN the canonical one.
                           for (std::int64_t i = begin; i < end; ++i) {
                             const float v = x[i] > 0.0F ? x[i] : 0.0F;
                             y[i] = x[i] == x[i] ? v : __builtin_nanf("");
                           }
                         });
          }};
}

}  // namespace etalon
