// What the kernels of a device made of host memory (tests/host_device.h) have in common: how their
// work is queued, and their names. One source holds products, another rows and functions, so that
// they are compiled side by side.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "kernels/kernels.h"
#include "tests/host_device.h"

namespace etalon::host {

using Task = std::function<void()>;
using Tasks = std::vector<Task>;

extern HostDevice* device;  // the one in use

struct HostStream {
  Tasks queue;
  bool capturing = false;
};
inline HostStream& stream_of(void* s) { return *static_cast<HostStream*>(s); }

int step();  // a call that can fail: its code
int enqueue(void* s, Task task);
void put_on_list(const cuda::UndecidedList& list, std::int64_t i);

// The contents of a call, for a kernel that runs when the caller's own have gone.
struct KeptCall {
  Params params;
  Contract contract;
  std::vector<InferInput> types;
  std::vector<TensorType> output_types;
  std::vector<Tensor> tensors, outputs;
  std::vector<const Tensor*> inputs;
  Problem problem;

  explicit KeptCall(const KernelCall& call);
  // A kernel is planned: on a device it reads nothing of the host's any more. Zeros, not garbage:
  // an absurd exponent would be left undecided, and the host would settle it rightly.
  void forget_the_host();
  KernelCall call() { return {.problem = &problem, .inputs = inputs, .outputs = outputs}; }
};

// Threads backwards: a phase may lean on no thread before it.
template <int count>
struct HostThreads {
  template <class F>
  void operator()(F&& phase) const {
    for (int tid = count; tid-- > 0;) phase(tid);
  }
};

// The rows of kernels/backends/cuda/api.h.
int tiles(const KernelCall& call, void* s);
int digits(const KernelCall& call, const cuda::DigitMemory& memory, const cuda::UndecidedList& open,
           const cuda::UndecidedList& undecided, void* s);
int residues(const KernelCall& call, const cuda::ResidueMemory& memory,
             const cuda::UndecidedList& open, const cuda::UndecidedList& undecided, void* s);
int conv_digits(const KernelCall& call, const cuda::ConvDigitMemory& memory,
                const cuda::UndecidedList& open, const cuda::UndecidedList& undecided, void* s);
int wide(const KernelCall& call, const cuda::WideMemory& memory,
         const cuda::UndecidedList& undecided, void* s);
int conv_wide(const KernelCall& call, const cuda::WideMemory& memory,
              const cuda::UndecidedList& undecided, void* s);
int exact_winograd(const KernelCall& call, double* memory, const cuda::UndecidedList& open,
                   const cuda::UndecidedList& undecided, void* s);
int winograd(const KernelCall& call, float* memory, void* s);
int pairs(const KernelCall& call, void* s);
int depthwise(const KernelCall& call, void* s);
int function(const KernelCall& call, const cuda::UndecidedList& undecided, void* s);
int rows(const KernelCall& call, const cuda::UndecidedList& list, void* s);
int cells(const KernelCall& call, const cuda::CellMemory& memory, const cuda::UndecidedList& list,
          void* s);
int fft(const KernelCall& call, const cuda::FftMemory& memory, void* s);

}  // namespace etalon::host
