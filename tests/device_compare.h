// A case on one of the GPU's rows beside the CPU's definition, on a device made of host code.
#pragma once

#include <doctest/doctest.h>

#include <cstring>
#include <string>
#include <vector>

#include "engine/graph/executor.h"
#include "kernels/backends/cuda/rows.h"
#include "kernels/kernels.h"
#include "tests/op_cases.h"

namespace etalon::test {

struct Count {
  std::int64_t cases = 0, outputs = 0, undecided = 0;
};

// The problem of a case with these inputs.
struct DeviceProblem {
  Contract contract;
  std::vector<InferInput> types;
  std::vector<TensorType> outputs;
  Problem problem;

  DeviceProblem(const OpCase& c, const std::vector<const Tensor*>& p, const char* text)
      : contract(Contract::parse(text)), types(p.size()) {
    for (std::size_t i = 0; i < p.size(); ++i)
      if (p[i] != nullptr) types[i] = {p[i]->type(), p[i], true};
    outputs = infer(*c.op, c.params, InferInputs(types));
    problem = {.op = c.op,
               .params = &c.params,
               .inputs = types,
               .outputs = outputs,
               .contract = &contract,
               .device = Device::cuda};
  }
  DeviceProblem(const DeviceProblem&) = delete;
  DeviceProblem& operator=(const DeviceProblem&) = delete;
};
inline bool takes(const OpCase& c, const cuda::DeviceRow& device, const char* text) {
  const std::vector<Tensor> in = case_inputs(c);
  return !device.row.refuse(DeviceProblem(c, pointers(in), text).problem);
}

// Runs the case on the row; false where the row refuses it.
inline bool compare(const OpCase& c, const cuda::DeviceRow& device, const char* text,
                    Count& count) {
  const std::vector<Tensor> in = case_inputs(c);
  const auto p = pointers(in);
  const DeviceProblem of(c, p, text);
  if (device.row.refuse(of.problem)) return false;
  const OpRun want = run_op(*c.op, c.params, p, all_kernels(), {.contract = of.contract});
  std::vector<Tensor> got;
  for (const TensorType& y : of.outputs) got.push_back(Tensor::zeros(y.dtype, y.shape));
  const KernelCall call{.problem = &of.problem, .inputs = p, .outputs = got};
  // What `run` of the row does, with a look at what the device left.
  cuda::Work work;
  cuda::CallOnDevice on_device(call);
  device.enqueue(on_device.call(), work);
  on_device.fetch_outputs();
  if (work.listed()) {
    const std::vector<std::int64_t> undecided = work.fetch_undecided();
    count.undecided += static_cast<std::int64_t>(undecided.size());
    cuda::settle_on_host(call, undecided);
  }
  CAPTURE(c.line);
  CAPTURE(device.row.name);
  CAPTURE(std::string(text));
  for (std::size_t o = 0; o < got.size(); ++o) {
    CHECK(std::memcmp(want.outputs[o].bytes().data(), got[o].bytes().data(), got[o].size_bytes()) ==
          0);
    count.outputs += got[o].numel();
  }
  count.cases += 1;
  return true;
}

}  // namespace etalon::test
