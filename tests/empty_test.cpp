// Claim: a tensor may lack elements along any axis, whatever its other extents. Every row of every
// op takes such a problem or refuses it, gives what the definition gives, and no run takes memory
// or time for the extents that are left.
#include <doctest/doctest.h>

#include <chrono>
#include <set>

#include "engine/core/threads.h"
#include "engine/graph/executor.h"
#include "kernels/kernels.h"
#include "tests/on_this_cpu.h"
#include "tests/op_cases.h"
#include "tests/same_bits.h"

using namespace etalon;

namespace {

// Runs one row itself: an executor leaves out what computes nothing.
class Direct {
 public:
  Direct(const OpCase& c, const std::vector<Tensor>& in, std::string_view contract)
      : op_(c.op), params_(c.params), contract_(Contract::parse(contract)), in_(pointers(in)) {
    for (const Tensor* t : in_) {
      inputs_.emplace_back();
      if (t != nullptr) inputs_.back() = {t->type(), t, true};
    }
    outputs_ = infer(*op_, params_, InferInputs(inputs_));
  }
  bool takes(const KernelRow& row) const {
    Registry only;
    only.add({&row, 1});
    return only.select(problem(), row.name).row != nullptr;
  }
  std::vector<Tensor> run(const KernelRow& row) const {
    const Problem p = problem();
    const DefaultFpEnvironment fp;
    const Prepared prepared = row.prepare == nullptr ? nullptr : row.prepare(p, 2);
    std::vector<Tensor> out;
    for (const TensorType& t : outputs_) {
      out.push_back(Tensor::uninitialized(t.dtype, t.shape));
      std::ranges::fill(out.back().mutable_bytes(), std::byte{0x5A});
    }
    row.run({.problem = &p,
             .inputs = in_,
             .outputs = out,
             .truth = {},
             .threads = 2,
             .prepared = prepared.get()});
    return out;
  }

 private:
  Problem problem() const {
    return {.op = op_,
            .params = &params_,
            .inputs = inputs_,
            .outputs = outputs_,
            .contract = &contract_,
            .device = Device::cpu,
            .isa = detect_isa()};
  }
  const OpRow* op_;
  const Params& params_;
  Contract contract_;
  std::vector<const Tensor*> in_;
  std::vector<InferInput> inputs_;
  std::vector<TensorType> outputs_;
};

// Compares the rows that take this problem; how many did.
int compare(const OpCase& c, std::string_view what) {
  int compared = 0;
  for (const char* contract : {"seq", "exact", "order=lanes:8", "acc=f64"}) {
    std::vector<Tensor> in;
    std::optional<Direct> direct;
    try {
      in = case_inputs(c);
      direct.emplace(c, in, contract);
    } catch (const Error& e) {
      if (e.kind() == ErrorKind::internal) throw;
      return 0;  // not a problem of this op
    }
    const auto rows = all_kernels().rows_of(c.op->name);
    const KernelRow* definition = nullptr;
    for (const KernelRow* row : rows)
      if (row->promise == Promise::defined && test::on_this_cpu(*row) && direct->takes(*row) &&
          (row->name.ends_with(".definition") || row->name.ends_with(".bits")))
        definition = row;
    if (definition == nullptr) continue;
    std::vector<Tensor> want;
    try {
      want = direct->run(*definition);
    } catch (const Error& e) {
      if (e.kind() == ErrorKind::internal) throw;
      return compared;  // indices of what is not there
    }
    for (const KernelRow* row : rows) {
      if (row->promise != Promise::defined || !test::on_this_cpu(*row) || !direct->takes(*row))
        continue;
      CAPTURE(row->name);
      const std::vector<Tensor> got = direct->run(*row);
      REQUIRE(got.size() == want.size());
      for (std::size_t i = 0; i < got.size(); ++i)
        CHECK_MESSAGE(test::equal_bits(got[i], want[i]), row->name, ": ", what, " [",
                      std::string(contract), "] output ", i);
      ++compared;
    }
  }
  return compared;
}

}  // namespace

TEST_CASE("empty: every row of every op takes extents of zero as its definition does") {
  std::set<std::string_view> seen;
  int compared = 0;
  for (const OpCase& c : op_cases()) {
    for (std::size_t i = 0; i < c.inputs.size(); ++i) {
      if (!c.inputs[i].given) continue;
      const Shape& shape = c.inputs[i].type.shape;
      for (int axis = 0; axis < shape.rank(); ++axis)
        // This axis alone, or with it those of the same extent in other inputs.
        for (const bool alike : {false, true}) {
          OpCase empty = c;
          for (std::size_t j = 0; j < c.inputs.size(); ++j) {
            if (!c.inputs[j].given || (j != i && !alike)) continue;
            Shape& s = empty.inputs[j].type.shape;
            for (int a = 0; a < s.rank(); ++a)
              if (j == i ? a == axis : s[a] == shape[axis]) s = s.with_dim(a, 0);
          }
          const std::string what =
              fmt::format("{} (axis {} of input {}{})", c.line, axis, i, alike ? ", alike" : "");
          const ErrorScope where(what);
          const int rows = compare(empty, what);
          if (rows > 0) seen.insert(c.op->name);
          compared += rows;
        }
    }
  }
  CHECK(compared > 2000);
  CHECK(seen.size() > 100);
}

TEST_CASE("empty: what is left of a shape takes neither time nor memory") {
  for (const char* line : {
           "a | resize | sizes=[0,1099511627776] mode=nearest | f32[0,1]",
           "a | resize | sizes=[0,1099511627776] mode=linear | f32[0,1]",
           "a | layer_norm | axis=1 | f32[0,1099511627776]",
           "a | rms_norm | axis=1 | f32[0,1099511627776]",
           "a | mean_variance_normalization | axes=[1] | f32[0,1099511627776]",
           "a | lp_norm | axes=[1] | f32[0,1099511627776]",
           "a | conv | | f32[0,1,1,1099511627776] f32[1,1,1,1] -",
           "a | conv | | f32[0,1,1,1099511627776] f32[1,1,1,3] -",
           "a | conv | groups=2 pads_begin=[0,1] | f32[0,2,1,1099511627776] f32[2,1,1,3] -",
           "a | conv | pads_begin=[0,1099511627776] | f32[0,1,1,8] f32[1,1,1,1] -",
           "a | conv_channels_last | | f32[0,1,1099511627776,1] f32[1,1,1,3] -",
           "a | max_pool | kernel=[1,3] | f32[0,1,1,1099511627776]",
           "a | avg_pool | kernel=[1,3] | f32[0,1,1,1099511627776]",
           "a | lp_pool | kernel=[1,3] | f32[0,1,1,1099511627776]",
           "a | softmax | axis=1 | f32[0,1099511627776]",
           "a | reduce_sum | axes=[0] | f32[1099511627776,0]",
       })
    for (const char* contract : {"seq", "exact", "order=lanes:8"}) {
      CAPTURE(line);
      CAPTURE(contract);
      const OpCase c = parse_op_case(line);
      const std::vector<Tensor> in = case_inputs(c);
      const auto begin = std::chrono::steady_clock::now();
      const OpRun r = run_op(*c.op, c.params, pointers(in), all_kernels(),
                             {.contract = Contract::parse(contract)});
      CHECK(r.outputs[0].numel() == 0);
      CHECK(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() < 1);
    }
}
