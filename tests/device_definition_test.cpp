// What a GPU thread runs (kernels/backends/cuda/device_definition.h), run on the CPU: every case of
// tests/op_cases, every contract that the rows offer, has the bits of the op's definition. Slices
// that the device leaves undecided go to the definition here as they do behind a launch.
#include "kernels/backends/cuda/device_definition.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <map>

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

constexpr std::int64_t kAllSlices = std::int64_t{1} << 60;

// All slices of an output, or about `most` of them, spread over it.
template <class D>
void compare(const OpCase& c, const Contract& contract, Count& count,
             std::int64_t most = kAllSlices) {
  const std::vector<Tensor> in = case_inputs(c);
  const auto p = pointers(in);
  std::vector<InferInput> types(p.size());
  for (std::size_t i = 0; i < p.size(); ++i)
    if (p[i] != nullptr) types[i] = {p[i]->type(), p[i], true};
  const std::vector<TensorType> outputs = infer(*c.op, c.params, InferInputs(types));
  const Problem problem{
      .op = c.op, .params = &c.params, .inputs = types, .outputs = outputs, .contract = &contract};
  if (refuse_device_definition<D>(problem)) return;
  const KernelRow& definition = definition_of(*c.op, problem);
  std::vector<Tensor> want, got;
  want.push_back(Tensor::zeros(DType::f32, outputs[0].shape));
  got.push_back(Tensor::zeros(DType::f32, outputs[0].shape));
  const KernelCall call{.problem = &problem, .inputs = p, .outputs = want};
  const auto plan = DevicePlan<D>::of(call);
  const DeviceContract on_device = device_contract<D>(call);
  const std::int64_t slices = DevicePlan<D>::slices(plan);
  std::vector<std::int64_t> chosen, undecided;
  for (std::int64_t i = 0; i < slices; i += 1 + slices / most) chosen.push_back(i);
  definition.run_slices(call, chosen);

  float* y = got[0].mutable_data<float>().data();
  for (const std::int64_t i : chosen)
    if (!device_slice<D>(on_device, plan, i, y)) undecided.push_back(i);
  if (!undecided.empty())
    definition.run_slices({.problem = &problem, .inputs = p, .outputs = got}, undecided);
  CAPTURE(c.line);
  CAPTURE(short_name(contract));
  CHECK(std::memcmp(want[0].bytes().data(), got[0].bytes().data(), want[0].size_bytes()) == 0);
  count.cases += 1;
  count.slices += static_cast<std::int64_t>(chosen.size());
  count.undecided += static_cast<std::int64_t>(undecided.size());
}

}  // namespace

namespace {

// All cases of every op under seq, and under the other contracts one of `share` in turn; of each at
// most some slices.
void compare_all(unsigned share, std::int64_t slices_each) {
  std::map<std::string_view, Count> by_op;
  unsigned turn = 0;
  for (const char* text : {"seq", "exact", "round=rd", "store=bf16", "subnormals=flush"}) {
    const Contract contract = Contract::parse(text);
    const bool all = text == std::string_view("seq");
    for_each_device_definition([&]<class D>() {
      const auto ops = device_ops<D>();
      for (const OpCase& c : op_cases())
        if (std::ranges::find(ops, c.op->name) != ops.end() && (all || turn++ % share == 0))
          compare<D>(c, contract, by_op[c.op->name], slices_each);
    });
  }
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

}  // namespace

TEST_CASE("a GPU's thread on the CPU: the bits of every definition it has") { compare_all(2, 48); }

TEST_SUITE("long") {
  TEST_CASE("a GPU's thread on the CPU: every case under every contract") {
    compare_all(1, kAllSlices);
  }
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
