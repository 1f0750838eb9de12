// What holds for every op under every contract, over the cases of tests/op_cases: threads do not
// show in the bits, every defined row has the bits of the definition, a row of a batch equals the
// row alone, and the truth rounds to what `exact` gives.
#include <doctest/doctest.h>

#include <cstring>
#include <set>

#include "engine/core/hash.h"
#include "engine/graph/executor.h"
#include "engine/numerics/element.h"
#include "kernels/kernels.h"
#include "tests/op_cases.h"
#include "tests/peak_memory.h"
#include "tests/proven.h"

using namespace etalon;

namespace {

constexpr const char* kContracts[] = {"seq", "exact", "order=lanes:8", "fma=off,round=rz"};
constexpr const char* kMoreContracts[] = {"order=pairwise:4",
                                          "order=blocks:16",
                                          "round=ru",
                                          "round=rd",
                                          "subnormals=flush",
                                          "acc=f64",
                                          "acc=bf16",
                                          "store=f16",
                                          "walk=rsc",
                                          "exact,round=ru",
                                          "exact,subnormals=flush"};

OpRun run(const OpCase& c, const std::vector<Tensor>& in, std::string_view contract,
          int threads = 1, std::string kernel = {}, bool truth = false) {
  const auto p = pointers(in);
  return run_op(*c.op, c.params, p, all_kernels(),
                {.contract = Contract::parse(contract), .threads = threads, .kernels = kernel},
                truth);
}

bool same(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (hash_tensor(a[i]) != hash_tensor(b[i])) return false;
  return true;
}

// The rows that define an op's bits come last among those of the CPU; of several (integers,
// floating types) it is the one that takes the case.
std::string definition_of(const OpCase& c, const std::vector<Tensor>& in) {
  const auto rows = all_kernels().rows_of(c.op->name);
  for (auto row = rows.rbegin(); row != rows.rend(); ++row) {
    if ((*row)->promise != Promise::defined || (*row)->device != Device::cpu) continue;
    try {
      run(c, in, "exact", 1, std::string((*row)->name));
      return std::string((*row)->name);
    } catch (const Error& e) {
      if (e.kind() != ErrorKind::usage) throw;
    }
  }
  throw internal_error("no row defines {}", c.line);
}

}  // namespace

TEST_CASE("conformance: every op has cases and a row that defines it") {
  std::set<std::string_view> seen;
  for (const OpCase& c : op_cases()) seen.insert(c.op->name);
  for (const OpRow* op : all_ops()) {
    CHECK_MESSAGE(!all_kernels().rows_of(op->name).empty(), op->name);
    CHECK_MESSAGE(seen.contains(op->name), op->name, " has no case");
  }
}

namespace {

void compare_rows(std::span<const char* const> contracts) {
  if (test::kKeepsFreed) contracts = contracts.first(2);  // order_*_test.cpp have the others
  int faster = 0;
  for (const OpCase& c : op_cases()) {
    const std::vector<Tensor> in = case_inputs(c);
    const std::string definition = definition_of(c, in);
    for (const char* contract : contracts) {
      const ErrorScope where(c.line + " [" + contract + "]");
      const OpRun reference = run(c, in, contract, 1, definition);
      for (const KernelRow* row : all_kernels().rows_of(c.op->name)) {
        if (row->promise != Promise::defined || row->device != Device::cpu) continue;
        const bool is_definition = row->name == definition;
        OpRun got;
        try {
          got = run(c, in, contract, 3, std::string(row->name));
        } catch (const Error& e) {
          if (is_definition || e.kind() != ErrorKind::usage) throw;
          continue;  // the row refuses this contract, or this machine
        }
        faster += is_definition ? 0 : 1;
        CHECK_MESSAGE(same(reference.outputs, got.outputs), row->name, ": ", c.line, " [",
                      std::string(contract), "]");
      }
    }
  }
  CHECK(faster > 0);
}

}  // namespace

TEST_CASE("conformance: threads and kernels do not show in the bits") { compare_rows(kContracts); }

TEST_SUITE("long") {
  TEST_CASE("conformance: nor under the other contracts") { compare_rows(kMoreContracts); }
}

TEST_CASE("conformance: a row of a batch equals the row alone") {
  std::set<std::string_view> compared;
  Proven proven;
  for (const OpCase& c : op_cases()) {
    std::int64_t batch = 0;
    for (const CaseInput& i : c.inputs)
      if (i.batch_axis >= 0) batch = i.type.shape[i.batch_axis];
    if (batch < 2) continue;
    const std::vector<Tensor> in = case_inputs(c);
    for (const char* contract : {"seq", "exact"}) {
      const ErrorScope where(c.line + " [" + contract + "]");
      const OpRun whole = run(c, in, contract);
      for (std::int64_t b = 0; b < batch; ++b) {
        std::vector<Tensor> one;
        for (std::size_t i = 0; i < in.size(); ++i) {
          const int axis = c.inputs[i].batch_axis;
          one.push_back(!in[i] ? Tensor() : axis < 0 ? in[i].share() : slice_row(in[i], axis, b));
        }
        const OpRun alone = run(c, one, contract);
        for (std::size_t o = 0; o < whole.outputs.size(); ++o) {
          const Tensor& all = whole.outputs[o];
          int axis = 0;
          while (axis < all.shape().rank() && all.shape()[axis] == alone.outputs[o].shape()[axis])
            ++axis;
          REQUIRE_MESSAGE(axis < all.shape().rank(), c.line, ": output ", o, " has no batch axis");
          CHECK_MESSAGE(
              proven.count(hash_tensor(slice_row(all, axis, b)) == hash_tensor(alone.outputs[o])),
              c.line, " [", std::string(contract), "] output ", o, " row ", b);
          compared.insert(c.op->name);
        }
      }
    }
  }
  CHECK(compared.size() > 40);
  proven.print("batches");
}

TEST_CASE("conformance: the truth rounds to what exact gives") {
  std::int64_t elements = 0;
  for (const OpCase& c : op_cases()) {
    const std::vector<Tensor> in = case_inputs(c);
    const ErrorScope where(c.line);
    const OpRun r = run(c, in, "exact", 1, definition_of(c, in), true);
    for (std::size_t o = 0; o < r.outputs.size(); ++o) {
      const Tensor& y = r.outputs[o];
      if (!is_floating(y.dtype()) || y.dtype() == DType::f64) continue;
      REQUIRE(r.truth[o]);
      for (std::int64_t i = 0; i < y.numel(); ++i, ++elements) {
        const double stored = load_as_double(y, i), truth = r.truth[o].data<double>()[i];
        if (is_nan(stored) || is_nan(truth)) {
          CHECK_MESSAGE(is_nan(stored) == is_nan(truth), c.line, " element ", i);
          continue;
        }
        // Half an ULP, and the 2^-10 that the truth itself may be off.
        const bool near = stored == truth ||
                          abs_of(stored - truth) <= ulp_of(stored, y.dtype()) * (0.5 + 0x1p-10) ||
                          round_to(truth, y.dtype()) == stored;
        CHECK_MESSAGE(near, c.line, " element ", i, ": ", stored, " for ", truth);
      }
    }
  }
  CHECK(elements > 10000);
}
