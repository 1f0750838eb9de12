// What a GPU thread runs (kernels/backends/cuda/device_definition.h), run on the CPU: every case of
// tests/op_cases, every contract that the rows offer, has the bits of the op's definition. Slices
// that the device leaves undecided go to the definition here as they do behind a launch.
#include "kernels/backends/cuda/device_definition.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "engine/graph/executor.h"
#include "kernels/kernels.h"
#include "tests/op_cases.h"

using namespace etalon;

namespace {

const KernelRow& definition_of(const OpRow& op, const Problem& problem) {
  for (const KernelRow* row : all_kernels().rows_of(op.name))
    if (row->run_slices != nullptr && row->device == Device::cpu &&
        (row->refuse == nullptr || !row->refuse(problem)))
      return *row;
  throw internal_error("no definition of {}", op.name);
}

struct Count {
  std::int64_t cases = 0, slices = 0, undecided = 0;
};

// The case under the contract through D as a GPU's threads run it, undecided slices through the
// definition, against the definition alone. What D has no thread for is left out.
template <class D>
void compare(const OpCase& c, const Contract& contract, Count& count) {
  const std::vector<Tensor> tensors = case_inputs(c);
  const std::vector<const Tensor*> inputs = pointers(tensors);
  std::vector<InferInput> in;
  for (const Tensor& t : tensors) in.push_back(t ? InferInput{t.type(), &t, true} : InferInput{});
  const std::vector<TensorType> types = c.op->infer(c.params, InferInputs(in));
  Problem problem;
  problem.op = c.op;
  problem.params = &c.params;
  problem.inputs = in;
  problem.outputs = types;
  problem.contract = &contract;
  problem.isa = Isa::sse2;
  if (refuse_device_definition<D>(problem)) return;
  const KernelRow& definition = definition_of(*c.op, problem);
  const auto call = [&](Tensor& y) {
    KernelCall k;
    k.problem = &problem;
    k.inputs = inputs;
    k.outputs = {&y, 1};
    return k;
  };
  Tensor expected = Tensor::zeros(types[0].dtype, types[0].shape);
  definition.run(call(expected));

  Tensor got = Tensor::zeros(types[0].dtype, types[0].shape);
  const KernelCall device = call(got);
  const auto plan = DevicePlan<D>::of(device);
  const DeviceContract device_side = device_contract<D>(device);
  std::vector<std::int64_t> undecided;
  const std::int64_t slices = DevicePlan<D>::slices(plan);
  for (std::int64_t i = 0; i < slices; ++i)
    if (!device_slice<D>(device_side, plan, i, got.mutable_data<float>().data()))
      undecided.push_back(i);
  definition.run_slices(device, undecided);
  CHECK_MESSAGE(std::ranges::equal(got.bytes(), expected.bytes()), c.line, " [",
                to_string(contract), "]");
  ++count.cases;
  count.slices += slices;
  count.undecided += static_cast<std::int64_t>(undecided.size());
}

}  // namespace

TEST_CASE("a GPU's thread on the CPU: every definition of the table has the bits of its op") {
  std::map<std::string, Count> by_op;
  for_each_device_definition([&]<class D>() {
    for (const std::string_view op : device_ops<D>())
      for (const OpCase& c : op_cases()) {
        if (c.op->name != op) continue;
        for (const char* contract : {"seq", "exact", "round=rz", "round=ru", "subnormals=flush"})
          compare<D>(c, Contract::parse(contract), by_op[std::string(op)]);
      }
  });
  std::int64_t ops = 0, cases = 0, slices = 0, undecided = 0;
  for (const auto& [op, count] : by_op) {
    ops += count.cases > 0 ? 1 : 0;
    cases += count.cases;
    slices += count.slices;
    undecided += count.undecided;
  }
  MESSAGE(ops, " ops, ", cases, " cases, ", slices, " slices, ", undecided, " undecided");
  CHECK(ops >= 75);
  CHECK(undecided * 4 < slices);  // the device does the work
}

TEST_CASE("a GPU's thread on the CPU: a sum at a midpoint is left to the host") {
  // 1 + 2^-24, both lost beside 2^100: a ball around the midpoint of two floats.
  Count count;
  compare<ReduceDefinition<false>>(
      parse_op_case("undecided | reduce_sum | axes=[0] | f32[4]=0x1p+100,1,0x1p-24,-0x1p+100"),
      Contract::exact_preset(), count);
  CHECK(count.cases == 1);
  CHECK(count.undecided == 1);
}

TEST_CASE("floating types stand first in the table of types") {
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto d = static_cast<DType>(i);
    CHECK(is_floating(d) == (info(d).kind == DTypeClass::floating));
  }
}
