// The exact rows of an op beside its definition.
#pragma once

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "engine/graph/executor.h"
#include "engine/numerics/fp.h"
#include "kernels/kernels.h"
#include "tests/on_this_cpu.h"

namespace etalon::test {

// Whether a row refuses a call under exact.
inline bool refuses(const KernelRow& row, const OpRow& op, const Params& p,
                    const std::vector<const Tensor*>& in, const TensorType& out) {
  const Contract exact = Contract::exact_preset();
  std::vector<InferInput> inputs;
  for (const Tensor* t : in) inputs.push_back({t->type(), t, true});
  return row
      .refuse({.op = &op,
               .params = &p,
               .inputs = inputs,
               .outputs = {&out, 1},
               .contract = &exact,
               .isa = detect_isa()})
      .has_value();
}

struct PreparedRun {
  Tensor y, truth;  // truth where it is wanted
};
// The row with all but the first operand prepared.
inline PreparedRun run_prepared(const KernelRow& row, const OpRow& op, const Params& p,
                                const std::vector<const Tensor*>& in, const TensorType& type,
                                int threads, bool wants_truth) {
  const Contract exact = Contract::exact_preset();
  std::vector<InferInput> inputs;
  for (const Tensor* t : in) inputs.push_back({t->type(), inputs.empty() ? nullptr : t, true});
  const Problem problem{.op = &op,
                        .params = &p,
                        .inputs = inputs,
                        .outputs = {&type, 1},
                        .contract = &exact,
                        .isa = row.isa};
  const Prepared prepared = row.prepare(problem, threads);
  std::vector<Tensor> out, truth;
  out.push_back(Tensor::uninitialized(type.dtype, type.shape));
  if (wants_truth) truth.push_back(Tensor::uninitialized(DType::f64, type.shape));
  row.run({.problem = &problem,
           .inputs = in,
           .outputs = out,
           .truth = truth,
           .threads = threads,
           .prepared = prepared.get()});
  return {std::move(out[0]), wants_truth ? std::move(truth[0]) : Tensor()};
}

// How many runs of the exact rows were held against the definition: as they are, and with all but
// the first operand prepared; with a truth and without.
inline int compare(const OpRow& op, const Params& p, const std::vector<const Tensor*>& in) {
  RunOptions options{.contract = Contract::exact_preset()};
  options.kernels = std::string(op.name) + ".definition";
  const OpRun want = run_op(op, p, in, all_kernels(), options, true);
  int compared = 0;
  for (const KernelRow* row : all_kernels().rows_of(op.name)) {
    if (row->contracts != "exact" || !test::on_this_cpu(*row) ||
        refuses(*row, op, p, in, want.outputs[0].type()))
      continue;
    CAPTURE(row->name);
    for (const int threads : {1, 3}) {
      options.kernels = row->name;
      options.threads = threads;
      const auto check = [&](const Tensor& y, const Tensor* truth) {
        const Tensor& b = want.outputs[0];
        CHECK(std::memcmp(y.bytes().data(), b.bytes().data(), b.size_bytes()) == 0);
        if (truth == nullptr) return;
        for (std::size_t i = 0; i < b.data<float>().size(); ++i) {
          const double exact = want.truth[0].data<double>()[i];
          if (!std::isfinite(exact) || !std::isfinite(b.data<float>()[i])) continue;
          REQUIRE(std::abs(truth->data<double>()[i] - exact) <=
                  ulp_of(static_cast<double>(b.data<float>()[i]), DType::f32) * 0x1p-9);
        }
      };
      // Where no truth is wanted outputs take other, shorter ways.
      for (const bool wants_truth : {true, false}) {
        const OpRun got = run_op(op, p, in, all_kernels(), options, wants_truth);
        check(got.outputs[0], wants_truth ? &got.truth[0] : nullptr);
        const PreparedRun prepared =
            run_prepared(*row, op, p, in, want.outputs[0].type(), threads, wants_truth);
        check(prepared.y, wants_truth ? &prepared.truth : nullptr);
      }
      ++compared;
    }
  }
  return compared;
}

}  // namespace etalon::test
